/*
 * GGUF models against what llama.cpp gave for them and against ref, plain loops over dequantized
 * weights.  golden.gguf has the recordings of the tree, whose models are generated; golden.shared
 * has those of ../shared/data/golden and is skipped where they are missing; golden.gguf_vulkan is
 * skipped without a device.
 *
 * Errors are norm-wise: |got - want| / |want|.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../unit/check.h"
#include "backend/cpu/cpu.h"
#include "model/synthetic/synthetic_models.h"
#include "recording.h"
#include "shared.h"

enum {
    LEAST_COMPARED = 12, /* greedy tokens of each recording */
    SKIPPED = 77,        /* as an exit code */
};

/* llama.cpp rounds activations to eight bits where weights are quantized; we need not. */
static const double least_cosine = 0.998;
static const double float_error = 1e-5; /* sums of F32 in another order */
static const double gelu_error = 1e-3;  /* llama.cpp looks it up in a table of F16 */
static const double half_error = 2e-3;  /* keys and values rounded to eleven bits */
static const double quant_share = 1.1;  /* of the error that llama.cpp has against ref */

/* Below this margin, in logits, another rounding may choose another token.  Logits of models with
 * float weights differ by half_error of their size, which is not the same for all. */
static const double close_call = 0.15, float_close_call = 0.02;

/* Under sanitizers, of the recordings that are compared with ref too, one in five and one
 * instruction set show as much and take minutes less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { BEST_ALONE = 1, EVERY = 5 };
#else
enum { BEST_ALONE = 0, EVERY = 1 };
#endif

/* One context for all recordings, so that pipelines are made once; NULL: not asked for. */
static ig_ctx *vulkan;

/* Architectures beside the ones that are recorded in 16 bits or quantized are recorded in F32
 * alone; golden.devices compares them with ref. */
static bool is_relative(const recording *r) {
    return strcmp(r->type, "f32") == 0 && strcmp(r->model, "llama") != 0;
}

static bool has_gelu(const recording *r) {
    static const char *const with[] = {"bert", "gemma",  "gpt2",      "gptneox",
                                       "phi2", "falcon", "starcoder2"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        if (strncmp(r->name, with[i], strlen(with[i])) == 0) return true;
    return false;
}

static void logits_on(const recording *r, const char *device, const char *cache, float *out) {
    ig_ctx *ctx = recording_ctx(device);
    recording_run(r, ctx, cache, out);
    ig_ctx_destroy(ctx);
}

static void tokens_are_recorded(const recording *r) {
    ig_tokens tokens = {0};
    ig_ctx *ctx = recording_ctx("cpu");
    ig_adapter *adapter;
    must(ig_adapter_load(ctx, r->path, &adapter));
    must(ig_tokenize(ig_adapter_tokenizer(adapter), r->prompt, strlen(r->prompt), 0, &tokens));
    assert_int_equal(tokens.count, r->n_tokens);
    assert_memory_equal(tokens.at, r->tokens, tokens.count * sizeof *tokens.at);
    ig_tokens_deinit(&tokens);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
}

static void relative_has_recorded_logits(const recording *r) {
    static float got[RECORDING_LOGITS];
    logits_on(r, "cpu", "f32", got);
    const double error = recording_error(got, r->logits, r->n_logits);
    print_message("%-18s cpu, llama.cpp %.2e\n", r->name, error);
    assert_true(error <= (has_gelu(r) ? gelu_error : float_error));
}

/* One recording with the instruction set that is chosen. */
static void compare(const recording *r, const char *isa, const float *ref) {
    static float cpu[RECORDING_LOGITS], half[RECORDING_LOGITS];
    logits_on(r, "cpu", "f32", cpu);
    logits_on(r, "cpu", "f16", half);
    const double of_cpu = recording_error(cpu, ref, r->n_logits);
    const double of_half = recording_error(half, ref, r->n_logits);
    const double of_record = recording_error(r->logits, ref, r->n_logits);
    const double cosine = recording_cosine(half, r->logits, r->n_logits);
    print_message(
        "%-18s %-10s cpu %.2e  f16 cache %.2e  llama.cpp %.2e (%.2f of it)  cosine %.6f\n", r->name,
        isa, of_cpu, of_half, of_record, of_cpu / of_record, cosine);
    assert_true(cosine >= least_cosine);
    assert_true(of_cpu <= (r->is_float ? float_error : quant_share * of_record));
    if (r->is_float) assert_true(of_half <= half_error);
}

static void logits_are_near_ref_and_the_recording(const recording *r, const float *ref) {
    for (ig_isa isa = BEST_ALONE ? ig_isa_best() : IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1);
        compare(r, ig_cpu_isa_name(isa), ref);
    }
    unsetenv("INGOT_ISA");
}

/* Weights are dequantized to what they stand for, so quantized ones are no different. */
static void vulkan_is_near_ref(const recording *r, const float *ref) {
    static float got[RECORDING_LOGITS];
    recording_run(r, vulkan, "f32", got);
    const double error = recording_error(got, ref, r->n_logits);
    print_message("%-18s vulkan %.2e\n", r->name, error);
    assert_true(error <= float_error);
    if (!r->is_float) return;
    recording_run(r, vulkan, "f16", got);
    assert_true(recording_error(got, ref, r->n_logits) <= half_error);
}

static int32_t argmax(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Up to the first close call. */
static void greedy_tokens_are_recorded(const recording *r) {
    static float logits[RECORDING_LOGITS];
    ig_ctx *ctx = recording_ctx("cpu");
    ig_adapter *adapter;
    ig_session *session;
    const char *cache = is_relative(r) ? "f32" : NULL;
    must(ig_adapter_load(ctx, r->path, &adapter));
    must(ig_session_create(
        adapter, &(ig_session_options){.cache_type_k = cache, .cache_type_v = cache}, &session));
    must(ig_session_feed(session, 0, r->tokens, r->n_tokens, logits));
    int k = 0;
    for (; k < r->n_greedy; k++) {
        const double close =
            r->is_float ? float_close_call * recording_rms(logits, r->n_logits) : close_call;
        if (r->margin[k] < close) break;
        const int32_t token = argmax(logits, r->n_logits);
        if (token != r->greedy[k])
            fail_msg("%s: step %d gives %d, recorded is %d", r->name, k, token, r->greedy[k]);
        must(ig_session_feed(session, 0, &token, 1, logits));
    }
    print_message("%-18s %d greedy tokens compared\n", r->name, k);
    if (k < LEAST_COMPARED && *r->model)
        fail_msg("%s: the margins let only %d tokens be compared", r->name, k);
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
}

static int make_model(void **state) {
    recording_make_model(*state);
    return 0;
}

static int delete_model(void **state) {
    recording_delete_model(*state);
    return 0;
}

static void model_gives_what_is_recorded(void **state) {
    static float ref[RECORDING_LOGITS];
    const recording *r = *state;
    if (r->n_greedy > 0) {
        tokens_are_recorded(r);
        greedy_tokens_are_recorded(r);
    }
    if (is_relative(r)) {
        relative_has_recorded_logits(r);
        return;
    }
    logits_on(r, "ref", "f32", ref);
    logits_are_near_ref_and_the_recording(r, ref);
}

static void vulkan_gives_the_logits_of_ref(void **state) {
    static float ref[RECORDING_LOGITS];
    logits_on(*state, "ref", "f32", ref);
    vulkan_is_near_ref(*state, ref);
}

/* An architecture without a recording would be compared with nothing. */
static bool all_are_recorded(const recording *all, int n) {
    bool complete = true;
    size_t n_kinds = 0;
    while (model_name(n_kinds)) n_kinds++;
    for (size_t m = 0; m < n_kinds || model_relative(m - n_kinds); m++) {
        const char *name = m < n_kinds ? model_name(m) : model_relative(m - n_kinds);
        int i = 0;
        while (i < n && strcmp(all[i].model, name) != 0) i++;
        if (i == n) fprintf(stderr, "%s is not recorded\n", name);
        complete = complete && i < n;
    }
    return complete;
}

/* Runs a case for each recording; with Vulkan, for those that are compared with ref. */
static int run_all(recording *all, int n) {
    struct CMUnitTest *tests = calloc((size_t)n, sizeof *tests);
    size_t n_tests = 0;
    for (int i = 0; i < n; i++)
        if (is_relative(&all[i]) ? !vulkan : i % EVERY == 0)
            tests[n_tests++] = (struct CMUnitTest){
                all[i].name, vulkan ? vulkan_gives_the_logits_of_ref : model_gives_what_is_recorded,
                make_model, delete_model, &all[i]};
    const int failed = _cmocka_run_group_tests("gguf", tests, n_tests, NULL, NULL);
    free(tests);
    return failed;
}

/* Without arguments: the recordings of the tree. */
int main(int argc, char **argv) {
    int n = 0;
    const bool is_shared = argc > 1 && strcmp(argv[1], "shared") == 0;
    const bool on_vulkan = argc > 1 && strcmp(argv[1], "vulkan") == 0;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", is_shared ? shared_data() : TEST_DATA_DIR,
             is_shared ? "golden" : "recorded");
    recording *all = recordings_read(folder, &n);
    if (!all) {
        printf("%s is missing\n", folder);
        return is_shared ? SKIPPED : 1;
    }
    if (on_vulkan &&
        ig_ctx_create(&(ig_ctx_options){.device = "vulkan", .strict = true}, &vulkan) != IG_OK) {
        printf("no vulkan: %s\n", ig_error_text());
        free(all);
        return SKIPPED;
    }
    if (!is_shared && !getenv("INGOT_GOLDEN") && !all_are_recorded(all, n)) return 1;
    const int failed = run_all(all, n);
    ig_ctx_destroy(vulkan);
    free(all);
    return failed;
}
