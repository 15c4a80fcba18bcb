/*
 * Every generated model gives on each device what it gives on ref, plain loops over dequantized
 * weights.  Errors are norm-wise: |got - want| / |want|.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/check.h"
#include "model/synthetic/synthetic_models.h"
#include "recording.h"

static const double float_error = 1e-5; /* sums of F32 in another order */
static const double byte_error = 4e-2;  /* activations rounded to eight bits, as llama.cpp does */

/* Once for all models, so that pipelines are made once; NULL: there is none here. */
static ig_ctx *open_vulkan(void) {
    ig_ctx *ctx = NULL;
    if (ig_ctx_create(&(ig_ctx_options){.device = "vulkan", .strict = true}, &ctx) != IG_OK)
        print_message("no vulkan: %s\n", ig_error_text());
    return ctx;
}

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
    must(model_make(name, type, &made));
    for (size_t i = 0; type != IG_F32 && i < sizeof experts / sizeof *experts; i++)
        if (strcmp(name, experts[i].name) == 0)
            must(model_set_u32(&made, experts[i].used, MODEL_EXPERTS));
    if (type != IG_F32 && strcmp(name, "deepseek2") == 0) /* a group has too few */
        must(model_set_u32(&made, "deepseek2.expert_group_count", 1));
    must(model_write(&made, m.path));
    free(made.bytes);
    return m;
}

/* Logits after `length` tokens, or a text's embedding; returns how many numbers. */
static int answer(const generated *m, ig_ctx *ctx, int length, float *out) {
    ig_adapter *adapter;
    must(ig_adapter_load(ctx, m->path, &adapter));
    int n = (int)ig_adapter_vocab_size(adapter);
    if (strcmp(m->name, "bert") == 0) {
        static const char text[] = "the cat sat on the mat and looked at the sea";
        must(ig_adapter_embed(adapter, text, strlen(text), IG_POOL_DEFAULT, out, NULL));
        n = (int)ig_adapter_config(adapter).d_model;
    } else {
        ig_session *session;
        int32_t tokens[RECORDING_TOKENS];
        const ig_session_options exact = {.cache_type_k = "f32", .cache_type_v = "f32"};
        must(ig_session_create(adapter, &exact, &session));
        for (int i = 0; i < length; i++) tokens[i] = (i * 37 + i * i) % n;
        must(ig_session_feed(session, 0, tokens, length, out));
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
    static float ref[RECORDING_LOGITS], cpu[RECORDING_LOGITS], vulkan[RECORDING_LOGITS];
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
        if (with_vulkan) assert_true(recording_error(vulkan, ref, n) <= float_error);
        const double error = recording_error(cpu, ref, n);
        print_message("%-14s %-5s cpu %.2e\n", m.name, ig_dtype_name(types[t].type), error);
        assert_true(error <= types[t].most);
    }
}

static void every_architecture_is_on_each_device_what_it_is_on_ref(void **state) {
    (void)state;
    const devices on = {recording_ctx("ref"), recording_ctx("cpu"), open_vulkan()};
    for (size_t i = 0; model_name(i); i++) check_devices(&on, model_name(i), false);
    for (size_t i = 0; model_relative(i); i++) check_devices(&on, model_relative(i), true);
    ig_ctx_destroy(on.ref);
    ig_ctx_destroy(on.cpu);
    ig_ctx_destroy(on.vulkan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_is_on_each_device_what_it_is_on_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
