/*
 * GGUF models against what llama.cpp gave for them (../shared/data/golden, skipped
 * where it is not there) and against ref, plain loops over decoded weights.
 *
 * Errors are norm-wise: |got - want| / |want| over all logits behind a prompt.
 */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "backend/cpu/cpu.h"
#include "format/gguf/gguf.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"

enum { MOST_FILES = 64, MOST_TOKENS = 256, MOST_LOGITS = 4096, GREEDY = 24 };

/* llama.cpp rounds activations to eight bits where weights are quantised; we need not. */
static const double least_cosine = 0.998;
static const double float_error = 1e-5; /* sums of F32 in another order */
static const double half_error = 2e-3;  /* keys and values rounded to eleven bits */
static const double byte_error = 4e-2;  /* activations rounded to eight bits, as llama.cpp does */
static const double quant_share = 1.1;  /* of the error that llama.cpp has against ref */
static const double close_call = 0.15; /* below this margin another rounding may choose otherwise */

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

/* ---- recordings ---- */

typedef struct golden {
    char path[512], name[64];
    int32_t tokens[MOST_TOKENS], greedy[GREEDY];
    int n_tokens, n_greedy, n_logits;
    double margin[GREEDY];
    float logits[MOST_LOGITS];
    char prompt[1024];
    bool is_float; /* no weight is quantised */
} golden;

static const char *folder(void) { return TEST_DATA_DIR "/../../../shared/data/golden"; }

static int ints_of(const json_t *list, int32_t *out, int most) {
    const int n = (int)json_array_size(list);
    assert_in_range(n, 1, most);
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static void read_recording(golden *g) {
    char path[sizeof g->path];
    snprintf(path, sizeof path, "%.*s.json", (int)strlen(g->path) - 5, g->path);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *logits = json_object_get(root, "last_logits");
    const json_t *margin = json_object_get(root, "margin");
    snprintf(g->prompt, sizeof g->prompt, "%s", json_string_value(json_object_get(root, "prompt")));
    g->n_tokens = ints_of(json_object_get(root, "tokens"), g->tokens, MOST_TOKENS);
    g->n_greedy = ints_of(json_object_get(root, "greedy"), g->greedy, GREEDY);
    g->n_logits = (int)json_array_size(logits);
    assert_in_range(g->n_logits, 1, MOST_LOGITS);
    for (int i = 0; i < g->n_logits; i++)
        g->logits[i] = (float)json_number_value(json_array_get(logits, (size_t)i));
    for (int i = 0; i < g->n_greedy; i++)
        g->margin[i] = json_number_value(json_array_get(margin, (size_t)i));
    json_decref(root);
}

static bool weights_are_float(const char *path) {
    ig_gguf *file;
    bool all = true;
    OK(ig_gguf_open_file(&ig_heap, path, &file));
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++) {
        const ig_dtype dtype = ig_gguf_tensor_at(file, i)->desc.dtype;
        all = all && (dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16);
    }
    ig_gguf_close(file);
    return all;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const golden *)a)->name, ((const golden *)b)->name);
}

/* All recordings there are, or a skipped test. */
static golden *read_all(int *out_count) {
    DIR *dir = opendir(folder());
    if (!dir) skip();
    golden *all = calloc(MOST_FILES, sizeof *all);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".gguf") != 0) continue;
        const char *only = getenv("INGOT_GOLDEN");
        if (only && !strstr(entry->d_name, only)) continue;
        assert_true(n < MOST_FILES);
        golden *g = &all[n++];
        snprintf(g->path, sizeof g->path, "%s/%s", folder(), entry->d_name);
        snprintf(g->name, sizeof g->name, "%.*s", (int)(length - 5), entry->d_name);
        read_recording(g);
        g->is_float = weights_are_float(g->path);
    }
    closedir(dir);
    assert_true(n > 0);
    qsort(all, (size_t)n, sizeof *all, by_name);
    *out_count = n;
    return all;
}

/* ---- comparing ---- */

static double error_of(const float *got, const float *want, int n) {
    double apart = 0, all = 0;
    for (int i = 0; i < n; i++) {
        apart += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    return sqrt(apart / all);
}

static double cosine_of(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

typedef struct engine {
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session;
} engine;

static ig_ctx *open_device(const char *device) {
    ig_ctx *ctx = NULL;
    OK(ig_ctx_create(&(ig_ctx_options){.device = device, .strict = true}, &ctx));
    return ctx;
}

static engine open_engine(const char *path, ig_ctx *ctx, const char *cache) {
    engine e = {.ctx = ctx};
    OK(ig_adapter_load(e.ctx, path, &e.adapter));
    OK(ig_session_create(e.adapter, &(ig_session_options){.cache_k = cache, .cache_v = cache},
                         &e.session));
    return e;
}

static void close_engine(engine *e) {
    ig_session_destroy(e->session);
    ig_adapter_destroy(e->adapter);
}

static void logits_on(const golden *g, ig_ctx *ctx, const char *cache, float *out) {
    engine e = open_engine(g->path, ctx, cache);
    assert_int_equal(ig_adapter_vocabulary(e.adapter), g->n_logits);
    OK(ig_session_feed(e.session, 0, g->tokens, g->n_tokens, out));
    close_engine(&e);
}

static void logits_with(const golden *g, const char *device, const char *cache, float *out) {
    ig_ctx *ctx = open_device(device);
    logits_on(g, ctx, cache, out);
    ig_ctx_destroy(ctx);
}

/* One recording with the instruction set that is chosen. */
/* Sanitizers take minutes for what is told here in one. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { BEST_ALONE = 1, EVERY = 5 };
#else
enum { BEST_ALONE = 0, EVERY = 1 };
#endif

static void compare(const golden *g, const char *isa, const float *ref) {
    static float cpu[MOST_LOGITS], half[MOST_LOGITS];
    logits_with(g, "cpu", "f32", cpu);
    logits_with(g, "cpu", "f16", half);
    const double of_cpu = error_of(cpu, ref, g->n_logits);
    const double of_half = error_of(half, ref, g->n_logits);
    const double of_record = error_of(g->logits, ref, g->n_logits);
    const double cosine = cosine_of(half, g->logits, g->n_logits);
    print_message(
        "%-14s %-10s cpu %.2e  f16 cache %.2e  llama.cpp %.2e (%.2f of it)  cosine %.6f\n", g->name,
        isa, of_cpu, of_half, of_record, of_cpu / of_record, cosine);
    assert_true(cosine >= least_cosine);
    assert_true(of_cpu <= (g->is_float ? float_error : quant_share * of_record));
    if (g->is_float) assert_true(of_half <= half_error);
}

static void logits_are_those_of_ref_and_near_the_recording_on_every_instruction_set(void **state) {
    (void)state;
    int n;
    golden *all = read_all(&n);
    static float ref[MOST_LOGITS];
    for (int i = 0; i < n; i++) {
        logits_with(&all[i], "ref", "f32", ref);
        for (ig_isa isa = BEST_ALONE ? ig_isa_best() : IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
            if (!ig_isa_available(isa)) continue;
            setenv("INGOT_ISA", ig_isa_name(isa), 1);
            compare(&all[i], ig_isa_name(isa), ref);
        }
        unsetenv("INGOT_ISA");
    }
    free(all);
}

/* Once for all models of a test, so that pipelines are made once; NULL: there is none here. */
static ig_ctx *open_vulkan(void) {
    ig_ctx *ctx = NULL;
    if (ig_ctx_create(&(ig_ctx_options){.device = "vulkan", .strict = true}, &ctx) != IG_OK)
        print_message("no vulkan: %s\n", ig_error_text());
    return ctx;
}

/* Weights are decoded to what they stand for, so quantised ones are no different. */
static void vulkan_gives_the_logits_of_ref(void **state) {
    (void)state;
    static float ref[MOST_LOGITS], got[MOST_LOGITS];
    int n;
    ig_ctx *vulkan = open_vulkan();
    if (!vulkan) skip();
    golden *all = read_all(&n);
    for (int i = 0; i < n; i += EVERY) {
        logits_with(&all[i], "ref", "f32", ref);
        logits_on(&all[i], vulkan, "f32", got);
        const double error = error_of(got, ref, all[i].n_logits);
        print_message("%-14s vulkan %.2e\n", all[i].name, error);
        assert_true(error <= float_error);
        if (!all[i].is_float) continue;
        logits_on(&all[i], vulkan, "f16", got);
        assert_true(error_of(got, ref, all[i].n_logits) <= half_error);
    }
    ig_ctx_destroy(vulkan);
    free(all);
}

static void tokens_of_prompts_are_the_recorded_ones(void **state) {
    (void)state;
    int n;
    golden *all = read_all(&n);
    for (int i = 0; i < n; i++) {
        const golden *g = &all[i];
        int32_t tokens[MOST_TOKENS];
        size_t count = 0;
        ig_ctx *ctx;
        ig_adapter *adapter;
        OK(ig_ctx_create(NULL, &ctx));
        OK(ig_adapter_load(ctx, g->path, &adapter));
        OK(ig_adapter_encode(adapter, g->prompt, strlen(g->prompt), tokens, MOST_TOKENS, &count));
        assert_int_equal(count, g->n_tokens);
        assert_memory_equal(tokens, g->tokens, count * sizeof *tokens);
        ig_adapter_destroy(adapter);
        ig_ctx_destroy(ctx);
    }
    free(all);
}

static int32_t likeliest(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void greedy_tokens_are_the_recorded_ones_up_to_a_close_call(void **state) {
    (void)state;
    int n;
    golden *all = read_all(&n);
    static float logits[MOST_LOGITS];
    for (int i = 0; i < n; i++) {
        const golden *g = &all[i];
        ig_ctx *ctx = open_device("cpu");
        engine e = open_engine(g->path, ctx, NULL);
        OK(ig_session_feed(e.session, 0, g->tokens, g->n_tokens, logits));
        for (int k = 0; k < g->n_greedy && g->margin[k] >= close_call; k++) {
            const int32_t token = likeliest(logits, g->n_logits);
            if (token != g->greedy[k])
                fail_msg("%s: step %d gives %d, recorded is %d", g->name, k, token, g->greedy[k]);
            OK(ig_session_feed(e.session, 0, &token, 1, logits));
        }
        close_engine(&e);
        ig_ctx_destroy(ctx);
    }
    free(all);
}

/* ---- models of our own ---- */

typedef struct generated {
    char path[128];
    const char *name;
} generated;

/* Experts are all used where weights are rounded: a row whose router is nearly undecided may go to
 * another one by that, which is no error but looks like one.  F32 leaves the choice to the router.
 */
static generated generate(const char *name, ig_dtype type) {
    static const struct {
        const char *name, *used;
    } experts[] = {{"qwen3moe", "qwen3moe.expert_used_count"},
                   {"mixtral", "llama.expert_used_count"},
                   {"granitemoe", "granitemoe.expert_used_count"},
                   {"qwen2moe", "qwen2moe.expert_used_count"},
                   {"olmoe", "olmoe.expert_used_count"},
                   {"gpt-oss", "gpt-oss.expert_used_count"},
                   {"deepseek", "deepseek.expert_used_count"},
                   {"deepseek2", "deepseek2.expert_used_count"},
                   {"deepseek2-made", "deepseek2.expert_used_count"},
                   {"dots1", "dots1.expert_used_count"},
                   {"bailingmoe2", "bailingmoe2.expert_used_count"},
                   {"glm4moe", "glm4moe.expert_used_count"},
                   {"hunyuan-moe", "hunyuan-moe.expert_used_count"}};
    generated m = {.name = name};
    model_bytes made;
    snprintf(m.path, sizeof m.path, "/tmp/ingot-golden-%d-%s.gguf", (int)getpid(), name);
    OK(model_make(name, type, &made));
    for (size_t i = 0; type != IG_F32 && i < sizeof experts / sizeof *experts; i++)
        if (strcmp(name, experts[i].name) == 0)
            OK(model_set_u32(&made, experts[i].used, MODEL_EXPERTS));
    if (type != IG_F32 && strcmp(name, "deepseek2") == 0) /* no group has so many */
        OK(model_set_u32(&made, "deepseek2.expert_group_count", 1));
    OK(model_write(&made, m.path));
    free(made.bytes);
    return m;
}

/* Logits behind so many tokens, or a text's embedding; returns how many numbers. */
static int answer(const generated *m, ig_ctx *ctx, int length, float *out) {
    ig_adapter *adapter;
    OK(ig_adapter_load(ctx, m->path, &adapter));
    int n = (int)ig_adapter_vocabulary(adapter);
    if (strcmp(m->name, "bert") == 0) {
        static const char text[] = "the cat sat on the mat and looked at the sea";
        OK(ig_adapter_embed(adapter, text, strlen(text), IG_POOL_AS_FILE, out, NULL));
        n = (int)ig_adapter_config(adapter).d_model;
    } else {
        ig_session *session;
        int32_t tokens[MOST_TOKENS];
        const ig_session_options exact = {.cache_k = "f32", .cache_v = "f32"};
        OK(ig_session_create(adapter, &exact, &session));
        for (int i = 0; i < length; i++) tokens[i] = (i * 37 + i * i) % n;
        OK(ig_session_feed(session, 0, tokens, length, out));
        ig_session_destroy(session);
    }
    ig_adapter_destroy(adapter);
    return n;
}

/* The devices that a model runs on; vulkan NULL: there is none. */
typedef struct devices {
    ig_ctx *ref, *cpu, *vulkan;
} devices;

/* Vulkan takes its time: relatives have fewer tokens, and blocks are the same there. */
static void check_devices(const devices *on, const char *name, bool is_relative) {
    enum { PAGE_AND_MORE = 70, WINDOW_AND_MORE = 24 };
    const int length = is_relative ? WINDOW_AND_MORE : PAGE_AND_MORE;
    static float ref[MOST_LOGITS], cpu[MOST_LOGITS], vulkan[MOST_LOGITS];
    static const struct {
        ig_dtype type;
        double most;
    } types[] = {{IG_F32, float_error}, {IG_Q4_K, byte_error}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const bool with_vulkan = on->vulkan && (!is_relative || types[t].type == IG_F32);
        const generated m = generate(name, types[t].type);
        const int n = answer(&m, on->ref, length, ref);
        answer(&m, on->cpu, length, cpu);
        if (with_vulkan) answer(&m, on->vulkan, length, vulkan);
        unlink(m.path);
        if (with_vulkan) assert_true(error_of(vulkan, ref, n) <= float_error);
        const double error = error_of(cpu, ref, n);
        print_message("%-14s %-5s cpu %.2e\n", m.name, ig_dtype_name(types[t].type), error);
        assert_true(error <= types[t].most);
    }
}

static void every_architecture_is_on_each_device_what_it_is_on_ref(void **state) {
    (void)state;
    const devices on = {open_device("ref"), open_device("cpu"), open_vulkan()};
    for (size_t i = 0; model_name(i); i++) check_devices(&on, model_name(i), false);
    for (size_t i = 0; model_relative(i); i++) check_devices(&on, model_relative(i), true);
    ig_ctx_destroy(on.ref);
    ig_ctx_destroy(on.cpu);
    ig_ctx_destroy(on.vulkan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vulkan_gives_the_logits_of_ref),
        cmocka_unit_test(tokens_of_prompts_are_the_recorded_ones),
        cmocka_unit_test(logits_are_those_of_ref_and_near_the_recording_on_every_instruction_set),
        cmocka_unit_test(greedy_tokens_are_the_recorded_ones_up_to_a_close_call),
        cmocka_unit_test(every_architecture_is_on_each_device_what_it_is_on_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
