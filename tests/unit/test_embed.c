/*
 * Embeddings: of a model that makes text they are the states that logits are made of,
 * whatever the pieces a text goes through in, and take no more memory for a longer
 * one; which states count is as the file says; and what cannot be is refused.
 */
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

#include "ingot/report.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"
#include "runtime/ctx.h"

enum { WIDTH = 256, VOCABULARY = 320 }; /* what the models have */

static const char text[] = "the cat sat on the mat and looked at the sea, where a boat went by";

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static char path[64];
static ig_ctx *ctx;
static ig_adapter *adapter;

static int set_up(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/ingot-embed-%d.gguf", (int)getpid());
    adapter = NULL;
    return ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1}, &ctx) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    return unlink(path);
}

static void load(const char *name, ig_dtype type) {
    OK(model_save(name, type, path));
    OK(ig_adapter_load(ctx, path, &adapter));
}

/* One more key, or no key; the model is as small as it can be. */
static void load_with(const char *name, const char *key, const char *value) {
    model_bytes made;
    OK(model_make(name, IG_F32, &made));
    if (key) OK(model_add(&made, key, value));
    OK(model_write(&made, path));
    free(made.bytes);
    OK(ig_adapter_load(ctx, path, &adapter));
}

static void unload(void) {
    ig_adapter_destroy(adapter);
    adapter = NULL;
}

static ig_session *hidden_session(int64_t chunk, int64_t ctx_len) {
    ig_session *session = NULL;
    OK(ig_session_create(adapter,
                         &(ig_session_options){.hidden = true, .ubatch = chunk, .ctx_len = ctx_len},
                         &session));
    return session;
}

static void assert_fails(ig_status status, const char *words) {
    assert_int_equal(status, IG_ERR_ARGUMENT);
    if (!strstr(ig_error_text(), words)) fail_msg("%s (wanted '%s')", ig_error_text(), words);
}

/* ---- what logits are made of ---- */

/* The mean of the states of tokens [begin, end), each as it is when its logits are asked for,
 * brought to length 1. */
static void states_of(const int32_t *tokens, int64_t begin, int64_t end, float *out) {
    static float logits[VOCABULARY];
    double sum[WIDTH] = {0}, squares = 0;
    ig_session *session = NULL;
    OK(ig_session_create(adapter, NULL, &session));
    for (int64_t i = 0; i < end; i++) {
        OK(ig_session_feed(session, 0, tokens + i, 1, logits));
        const float *hidden = ig_session_hidden(session);
        for (int c = 0; i >= begin && c < WIDTH; c++) sum[c] += (double)hidden[c];
    }
    ig_session_destroy(session);
    for (int c = 0; c < WIDTH; c++) {
        sum[c] /= (double)(end - begin);
        squares += sum[c] * sum[c];
        out[c] = (float)sum[c];
    }
    for (int c = 0; c < WIDTH; c++) out[c] = (float)((double)out[c] * (1 / sqrt(squares)));
}

static void check_states(int64_t chunk) {
    static float want[WIDTH], got[WIDTH];
    int64_t n = 0;
    ig_session *session = hidden_session(chunk, 0);
    OK(ig_session_embed(session, text, strlen(text), IG_POOL_MEAN, got, &n));
    assert_true(n > 20);
    assert_int_equal(ig_session_length(session, 0), n);
    int32_t *tokens = malloc((size_t)n * sizeof *tokens);
    assert_non_null(tokens);
    memcpy(tokens, ig_session_tokens(session, 0), (size_t)n * sizeof *tokens);
    states_of(tokens, 0, n, want);
    assert_memory_equal(got, want, sizeof got);
    OK(ig_session_embed(session, text, strlen(text), IG_POOL_LAST, got, NULL));
    states_of(tokens, n - 1, n, want);
    assert_memory_equal(got, want, sizeof got);
    OK(ig_session_embed(session, text, strlen(text), IG_POOL_CLS, got, &n));
    states_of(tokens, 0, 1, want);
    assert_memory_equal(got, want, sizeof got);
    free(tokens);
    ig_session_destroy(session);
}

static void an_embedding_is_of_the_states_that_logits_are_made_of(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "qwen3moe", "gemma3", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        load(names[i], IG_Q4_0);
        check_states(0);
        check_states(7);
        unload();
    }
}

static void an_embedding_computes_no_logits(void **state) {
    (void)state;
    float out[WIDTH];
    load("llama", IG_F32);
    OK(ig_adapter_embed(adapter, text, strlen(text), IG_POOL_MEAN, out, NULL));
    assert_non_null(ig_captured_plan(ctx, 0));
    for (uint32_t k = 0; ig_captured_plan(ctx, k); k++) {
        const ig_plan *plan = ig_captured_plan(ctx, k);
        for (uint32_t i = 0; i < plan->n_steps; i++) {
            const ig_shape s = plan->steps[i].out[0].desc.shape;
            assert_int_not_equal(s.dim[s.rank - 1], VOCABULARY);
        }
    }
}

/* ---- memory ---- */

static uint64_t peak_of(ig_session *session, size_t bytes) {
    float out[WIDTH];
    ig_report_reset_memory(ctx);
    OK(ig_session_embed(session, text, bytes, IG_POOL_MEAN, out, NULL));
    return ig_report_memory(ctx).peak_bytes;
}

static void a_longer_text_takes_no_more_memory(void **state) {
    (void)state;
    load("llama", IG_F32);
    ig_session *session = hidden_session(1, 0); /* all pieces are of one kind */
    const uint64_t few = peak_of(session, 8), many = peak_of(session, strlen(text));
    assert_true(few > 0);
    if (many > few)
        fail_msg("%llu and %llu bytes", (unsigned long long)few, (unsigned long long)many);
    ig_session_destroy(session);
}

/* ---- which states count ---- */

static void check_pooling(const char *value, ig_pooling want) {
    static const ig_pooling all[] = {IG_POOL_MEAN, IG_POOL_CLS, IG_POOL_LAST};
    float by_file[WIDTH], asked[WIDTH];
    load_with("llama", value ? "llama.pooling_type" : NULL, value);
    OK(ig_adapter_embed(adapter, text, strlen(text), IG_POOL_DEFAULT, by_file, NULL));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        OK(ig_adapter_embed(adapter, text, strlen(text), all[i], asked, NULL));
        assert_int_equal(memcmp(by_file, asked, sizeof asked) == 0, all[i] == want);
    }
    unload();
}

static void the_file_says_which_states_count(void **state) {
    (void)state;
    check_pooling(NULL, IG_POOL_LAST);
    check_pooling("0", IG_POOL_LAST);
    check_pooling("1", IG_POOL_MEAN);
    check_pooling("2", IG_POOL_CLS);
    check_pooling("3", IG_POOL_LAST);
}

/* Files of rerankers have 4: they make text all the same. */
static void a_pooling_that_is_not_known_is_only_an_error_where_it_counts(void **state) {
    (void)state;
    float out[WIDTH];
    load_with("llama", "llama.pooling_type", "4");
    OK(ig_adapter_embed(adapter, "a", 1, IG_POOL_MEAN, out, NULL));
    assert_int_equal(ig_adapter_embed(adapter, "a", 1, IG_POOL_DEFAULT, out, NULL), IG_ERR_FORMAT);
    assert_non_null(strstr(ig_error_text(), "llama.pooling_type is 4"));
}

/* ---- what cannot be ---- */

static void a_text_that_is_longer_than_the_context_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "bert"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        float out[WIDTH];
        load(names[i], IG_F16);
        ig_session *session = hidden_session(0, 6), *none = NULL;
        assert_fails(ig_session_embed(session, text, strlen(text), IG_POOL_MEAN, out, NULL),
                     "tokens, but the context is 6");
        OK(ig_session_embed(session, "a", 1, IG_POOL_MEAN, out, NULL));
        ig_session_destroy(session);
        const ig_session_options more = {.hidden = true, .ctx_len = MODEL_CONTEXT + 1};
        assert_fails(ig_session_create(adapter, &more, &none), "a context of 129");
        unload();
    }
}

static void what_a_session_is_not_made_for_is_refused(void **state) {
    (void)state;
    float out[WIDTH];
    const int32_t token = 3;
    ig_session *session = NULL;
    load("llama", IG_F16);
    OK(ig_session_create(adapter, NULL, &session));
    assert_fails(ig_session_embed(session, "a", 1, IG_POOL_MEAN, out, NULL),
                 "the session returns logits");
    ig_session_destroy(session);
    unload();
    load("bert", IG_F16);
    session = hidden_session(0, 0);
    assert_fails(ig_session_feed(session, 0, &token, 1, out),
                 "bert is an encoder: it cannot decode incrementally");
    ig_session_destroy(session);
}

#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(an_embedding_is_of_the_states_that_logits_are_made_of),
        IN_CONTEXT(an_embedding_computes_no_logits),
        IN_CONTEXT(a_longer_text_takes_no_more_memory),
        IN_CONTEXT(the_file_says_which_states_count),
        IN_CONTEXT(a_pooling_that_is_not_known_is_only_an_error_where_it_counts),
        IN_CONTEXT(a_text_that_is_longer_than_the_context_is_refused),
        IN_CONTEXT(what_a_session_is_not_made_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
