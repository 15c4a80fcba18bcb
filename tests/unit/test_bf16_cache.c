/* A KV cache of BF16: as exact as its mantissa, and without F16's limit. */
#include <math.h>

#include "check.h"
#include "hub.h"
#include "ingot/session.h"

enum { N = 100, V = HUB_VOCABULARY };

/* Logits of the last of N tokens, fed at once or one by one. */
static ig_status run(hub_model *m, const char *cache, bool at_once, float out[V]) {
    ig_model *model = NULL;
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    int32_t tokens[N];
    for (int i = 0; i < N; i++) tokens[i] = i * 7 % V;
    must(ig_model_create(&m->source, NULL, &model));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &ctx));
    must(ig_adapter_from_model(ctx, model, &adapter));
    const ig_session_options options = {.cache_type_k = cache, .cache_type_v = cache};
    must(ig_session_create(adapter, &options, &session));
    ig_status status = IG_OK;
    for (int i = 0; status == IG_OK && i < N; i += at_once ? N : 1)
        status = ig_session_feed(session, 0, tokens + i, at_once ? N : 1, out);
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    ig_model_release(model);
    return status;
}

static double distance(const float a[V], const float b[V]) {
    double squares = 0, apart = 0;
    for (int i = 0; i < V; i++) {
        squares += (double)a[i] * (double)a[i];
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(apart / squares);
}

/* A mantissa has three bits fewer than F16's, so errors are about eight times as large. */
static void results_are_as_exact_as_a_bf16_is(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "gemma3", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hub_model *m = hub_model_create(names[i], IG_F32);
        float exact[V], f16[V], bf16[V], one_by_one[V];
        must(run(m, "f32", true, exact));
        must(run(m, "f16", true, f16));
        must(run(m, "bf16", true, bf16));
        must(run(m, "bf16", false, one_by_one));
        assert_memory_equal(bf16, one_by_one, sizeof bf16);
        const double ratio = distance(exact, bf16) / distance(exact, f16);
        if (!(ratio > 3 && ratio < 20)) fail_msg("%s: %g times the error of F16", names[i], ratio);
        hub_model_destroy(m);
    }
}

static void values_beyond_65504_fit(void **state) {
    (void)state;
    hub_model *m = hub_model_create("llama", IG_F32);
    const ig_named_tensor *t = hub_model_find(m, "model.layers.0.self_attn.v_proj.weight");
    float *v = (float *)(uintptr_t)t->data, exact[V], got[V];
    for (int64_t i = 0; i < ig_shape_count(t->desc.shape); i++) v[i] *= 1e6f;
    refused(run(m, "f16", true, got), IG_ERR_NOT_FINITE, "an F16 KV cache holds at most 65504");
    must(run(m, "bf16", true, got));
    must(run(m, "f32", true, exact));
    assert_true(distance(exact, got) < 0x1p-6);
    hub_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_as_exact_as_a_bf16_is),
        cmocka_unit_test(values_beyond_65504_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
