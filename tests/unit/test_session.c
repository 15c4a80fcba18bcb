/*
 * Sessions on small models of every architecture: the same answer always, whatever
 * the threads, the chunks and the rows beside it; sequences that grow, shrink,
 * fork, are saved and come back; and what cannot be, said with its numbers.
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
#include "model/adapter.h"
#include "model/session/kv_pages.h"
#include "model/synthetic/synthetic_models.h"
#include "runtime/ctx.h"

enum { LENGTH = 100, VOCABULARY = 320 }; /* more than a page; what the models have */

#ifdef __SANITIZE_THREAD__
enum { EVERY = 5 }; /* every fifth model and type: threads meet in the same places in all of them */
#else
enum { EVERY = 1 };
#endif

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static void assert_fails(ig_status status, ig_status want, const char *words) {
    assert_int_equal(status, want);
    if (!strstr(ig_error_text(), words)) fail_msg("%s", ig_error_text());
}

static void make_path(char *out, size_t room, const char *what) {
    snprintf(out, room, "/tmp/ingot-session-%d-%s", (int)getpid(), what);
}

/* A model in a context of its own. */
typedef struct engine {
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session;
} engine;

static engine open_engine(ig_model *model, int threads, const ig_session_options *options) {
    engine e = {0};
    OK(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = threads, .strict = true},
                     &e.ctx));
    OK(ig_adapter_from_model(e.ctx, model, &e.adapter));
    OK(ig_session_create(e.adapter, options, &e.session));
    return e;
}

static void close_engine(engine *e) {
    ig_session_destroy(e->session);
    ig_adapter_destroy(e->adapter);
    ig_ctx_destroy(e->ctx);
}

static ig_model *load(const char *name, ig_dtype type) {
    char path[128];
    ig_model *model = NULL;
    make_path(path, sizeof path, name);
    OK(model_save(name, type, path));
    OK(ig_model_load(path, NULL, &model));
    unlink(path); /* the mapping stays */
    return model;
}

static void fill(int32_t *tokens, int seed) {
    for (int i = 0; i < LENGTH; i++) tokens[i] = (i * 37 + seed * 101 + i * i) % VOCABULARY;
}

static void feed(const engine *e, int32_t sequence, const int32_t *tokens, int64_t count,
                 float *out) {
    OK(ig_session_feed(e->session, sequence, tokens, count, out));
}

/* ---- the same answer always ---- */

/* Fed in one call, in micro-batches of `chunk` tokens, on `threads` threads. */
static void whole(ig_model *model, int threads, int64_t chunk, const char *cache, float *out) {
    const ig_session_options options = {
        .ubatch = chunk, .cache_type_k = cache, .cache_type_v = cache};
    int32_t tokens[LENGTH];
    fill(tokens, 0);
    engine e = open_engine(model, threads, &options);
    feed(&e, 0, tokens, LENGTH, out);
    close_engine(&e);
}

static void one_by_one(ig_model *model, const char *cache, float *out) {
    int32_t tokens[LENGTH];
    fill(tokens, 0);
    engine e =
        open_engine(model, 1, &(ig_session_options){.cache_type_k = cache, .cache_type_v = cache});
    for (int i = 0; i < LENGTH; i++) feed(&e, 0, tokens + i, 1, out);
    close_engine(&e);
}

/* Rows of three other sequences go beside each of ours, in an order that changes. */
static void among_others(ig_model *model, const char *cache, float *out) {
    const ig_session_options options = {
        .n_sequences = 4, .cache_type_k = cache, .cache_type_v = cache};
    int32_t tokens[4][LENGTH];
    for (int s = 0; s < 4; s++) fill(tokens[s], (s + 2) % 4); /* ours is sequence 2 */
    engine e = open_engine(model, 2, &options);
    ig_session_token rows[4 * LENGTH];
    for (int at = 0; at < LENGTH;) {
        const int n = at % 3 == 0 ? 1 : at % 3 == 1 ? 2 : 20; /* all the classes */
        int count = 0;
        for (int i = at; i < at + n && i < LENGTH; i++)
            for (int s = 0; s < 4; s++)
                rows[count++] = (ig_session_token){.sequence = s, .id = tokens[s][i]};
        at += n;
        if (at >= LENGTH) rows[count - 2].logits = out;
        OK(ig_session_run(e.session, rows, count));
    }
    close_engine(&e);
}

static void check_model(const char *name, ig_dtype type, const char *cache) {
    static float want[VOCABULARY], got[VOCABULARY];
    ig_model *model = load(name, type);
    whole(model, 1, 0, cache, want);
    for (int i = 0; i < VOCABULARY; i++) assert_true(isfinite(want[i]));
    for (int threads = 2; threads <= 3; threads++) {
        whole(model, threads, 0, cache, got);
        assert_memory_equal(got, want, sizeof got);
    }
    const int64_t chunks[] = {3, 17, 100};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        whole(model, 1, chunks[i], cache, got);
        assert_memory_equal(got, want, sizeof got);
    }
    one_by_one(model, cache, got);
    assert_memory_equal(got, want, sizeof got);
    among_others(model, cache, got);
    assert_memory_equal(got, want, sizeof got);
    ig_model_release(model);
}

static void logits_do_not_depend_on_threads_chunks_or_neighbors(void **state) {
    (void)state;
    static const char *const caches[] = {"f16", "bf16", "f32", "q8_0"};
    size_t n = 0;
    while (model_name(n)) n++;
    for (size_t i = 0; i < n; i += EVERY) {
        if (strcmp(model_name(i), "bert") == 0) continue; /* it makes no text */
        for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++)
            check_model(model_name(i), IG_F16, caches[c]);
        check_model(model_name(i), IG_Q4_K, "f16");
    }
    /* What else rows may depend on each other by: scores within bounds, a state that both parts of
     * a layer see, an expert for all. */
    static const char *const others[] = {"gemma2", "phi2", "qwen2moe"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check_model(others[i], IG_Q4_K, "f16");
}

static void logits_do_not_depend_on_threads_chunks_or_neighbors_for_any_type(void **state) {
    (void)state;
    static const ig_dtype types[] = {IG_F32,  IG_BF16,   IG_Q4_0,   IG_Q4_1, IG_Q5_0,
                                     IG_Q5_1, IG_Q8_0,   IG_Q2_K,   IG_Q3_K, IG_Q5_K,
                                     IG_Q6_K, IG_IQ4_NL, IG_IQ4_XS, IG_MXFP4};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i += EVERY)
        check_model("llama", types[i], NULL);
}

/* N sequences decoded together, each as if it were alone. */
static void logits_do_not_depend_on_the_number_of_sequences_in_a_batch(void **state) {
    (void)state;
    enum { MOST = 50, TOKENS = 2 };
    static float want[MOST][VOCABULARY], got[MOST][VOCABULARY];
    ig_model *model = load("llama", IG_Q5_K);
    engine e = open_engine(model, 2, &(ig_session_options){.n_sequences = MOST});
    int32_t tokens[LENGTH];
    for (int s = 0; s < MOST; s++) {
        fill(tokens, s);
        for (int i = 0; i < TOKENS; i++) feed(&e, s, tokens + i, 1, want[s]);
        OK(ig_session_truncate(e.session, s, 0));
    }
    for (int count = 2; count <= MOST; count += EVERY) {
        ig_session_token rows[MOST];
        for (int i = 0; i < TOKENS; i++) {
            for (int s = 0; s < count; s++) {
                fill(tokens, s);
                rows[s] = (ig_session_token){.sequence = s, .id = tokens[i], .logits = got[s]};
            }
            OK(ig_session_run(e.session, rows, count));
        }
        assert_memory_equal(got, want, (size_t)count * sizeof got[0]);
        for (int s = 0; s < count; s++) OK(ig_session_truncate(e.session, s, 0));
    }
    close_engine(&e);
    ig_model_release(model);
}

/* Steps of attention in a plan that compute `rows` rows. */
static int attentions_of(const ig_plan *plan, int64_t rows) {
    int count = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        count += plan->steps[i].op == IG_OP_ATTENTION_PAGED &&
                 plan->steps[i].out[0].desc.shape.dim[0] == rows;
    return count;
}

/* A prompt goes in pieces of `chunk` rows, each kind of which has a plan. */
static void check_last_layer(ig_model *model, int64_t chunk, uint32_t plans) {
    int32_t tokens[LENGTH];
    float logits[VOCABULARY];
    int all = 0, one = 0;
    engine e = open_engine(model, 1, &(ig_session_options){.ubatch = chunk});
    const int64_t layers = e.adapter->config.n_layers;
    fill(tokens, 0);
    feed(&e, 0, tokens, LENGTH, logits);
    for (uint32_t i = 0; i < plans; i++) {
        all += attentions_of(ig_captured_plan(e.ctx, i), chunk);
        one += attentions_of(ig_captured_plan(e.ctx, i), 1);
    }
    assert_null(ig_captured_plan(e.ctx, plans));
    assert_true(layers > 1);
    assert_int_equal(all, plans * (layers - 1));
    assert_int_equal(one, 1); /* of the last piece */
    close_engine(&e);
}

static void the_last_layer_computes_rows_whose_logits_are_asked_for(void **state) {
    (void)state;
    ig_model *model = load("llama", IG_F32);
    check_last_layer(model, LENGTH, 1);
    check_last_layer(model, LENGTH / 4, 2);
    ig_model_release(model);
}

static void rows_are_handed_hidden_states_where_a_session_is_made_for_them(void **state) {
    (void)state;
    enum { WIDTH = 256 };
    static float logits[VOCABULARY], got[LENGTH][WIDTH];
    ig_model *model = load("llama", IG_Q4_0);
    engine plain = open_engine(model, 1, NULL),
           e = open_engine(model, 1, &(ig_session_options){.hidden = true, .ubatch = 30});
    ig_session_token rows[LENGTH];
    int32_t tokens[LENGTH];
    fill(tokens, 0);
    for (int i = 0; i < LENGTH; i++)
        rows[i] = (ig_session_token){.id = tokens[i], .hidden = i % 40 > 10 ? got[i] : NULL};
    OK(ig_session_run(e.session, rows, LENGTH));
    for (int i = 0; i < LENGTH; i++) {
        feed(&plain, 0, tokens + i, 1, logits);
        if (rows[i].hidden)
            assert_memory_equal(got[i], ig_session_hidden(plain.session), sizeof got[i]);
    }
    const ig_generate_options options = {.session = e.session, .sequence = 0};
    assert_fails(ig_adapter_generate(e.adapter, &options, NULL), IG_ERR_ARGUMENT,
                 "the session returns hidden states, not logits");
    close_engine(&plain);
    close_engine(&e);
    ig_model_release(model);
}

/* ---- sequences ---- */

static void contexts_share_one_set_of_weights(void **state) {
    (void)state;
    ig_model *model = load("llama", IG_F16);
    engine a = open_engine(model, 1, NULL), b = open_engine(model, 1, NULL);
    ig_model_release(model); /* the adapters hold it */
    static float of_a[VOCABULARY], of_b[VOCABULARY];
    int32_t tokens[LENGTH];
    fill(tokens, 1);
    feed(&a, 0, tokens, 30, of_a);
    close_engine(&a);
    feed(&b, 0, tokens, 30, of_b);
    assert_memory_equal(of_a, of_b, sizeof of_a);
    close_engine(&b);
}

static void a_sequence_that_forgot_continues_as_if_it_had_never_known(void **state) {
    (void)state;
    ig_model *model = load("llama", IG_F16);
    engine e = open_engine(model, 1, &(ig_session_options){.n_sequences = 2});
    static float want[VOCABULARY], got[VOCABULARY];
    int32_t tokens[LENGTH], other[LENGTH];
    fill(tokens, 1);
    fill(other, 2);
    feed(&e, 0, tokens, 70, NULL);
    feed(&e, 0, other, 9, want);
    feed(&e, 1, tokens, LENGTH, NULL);
    OK(ig_session_truncate(e.session, 1, 70));
    assert_int_equal(ig_session_length(e.session, 1), 70);
    feed(&e, 1, other, 9, got);
    assert_memory_equal(got, want, sizeof got);
    assert_memory_equal(ig_session_tokens(e.session, 1), tokens, 70 * sizeof *tokens);
    close_engine(&e);
    ig_model_release(model);
}

static void a_fork_shares_what_was_and_parts_from_there(void **state) {
    (void)state;
    ig_model *model = load("qwen3", IG_F16);
    engine e = open_engine(model, 1, &(ig_session_options){.n_sequences = 3});
    static float want[2][VOCABULARY], got[2][VOCABULARY];
    int32_t tokens[LENGTH], tails[2][LENGTH];
    fill(tokens, 1);
    fill(tails[0], 2);
    fill(tails[1], 3);
    for (int i = 0; i < 2; i++) { /* each alone */
        OK(ig_session_truncate(e.session, 2, 0));
        feed(&e, 2, tokens, 80, NULL);
        feed(&e, 2, tails[i], 10, want[i]);
    }
    feed(&e, 0, tokens, 80, NULL);
    OK(ig_session_fork(e.session, 0, 1));
    feed(&e, 0, tails[0], 10, got[0]);
    feed(&e, 1, tails[1], 10, got[1]); /* writes to a page that both had */
    assert_memory_equal(got, want, sizeof got);
    close_engine(&e);
    ig_model_release(model);
}

static void a_saved_sequence_comes_back_with_its_bits(void **state) {
    (void)state;
    static const char *const caches[] = {"f16", "bf16", "f32", "q8_0"};
    char path[128];
    make_path(path, sizeof path, "state");
    ig_model *model = load("llama", IG_F16);
    for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++) {
        const ig_session_options options = {.cache_type_k = caches[c], .cache_type_v = caches[c]};
        static float want[VOCABULARY], got[VOCABULARY];
        int32_t tokens[LENGTH];
        fill(tokens, 1);
        engine e = open_engine(model, 1, &options);
        feed(&e, 0, tokens, 90, NULL);
        OK(ig_session_save(e.session, 0, path));
        feed(&e, 0, tokens + 90, 10, want);
        close_engine(&e);
        e = open_engine(model, 2, &options);
        feed(&e, 0, tokens + 3, 50, NULL); /* what was there before does not matter */
        OK(ig_session_load(e.session, 0, path));
        assert_int_equal(ig_session_length(e.session, 0), 90);
        feed(&e, 0, tokens + 90, 10, got);
        assert_memory_equal(got, want, sizeof got);
        close_engine(&e);
    }
    unlink(path);
    ig_model_release(model);
}

/* Cuts the file to `size`, or turns a bit of byte `at` if that is not below 0. */
static void damage(const char *from, const char *to, long size, long at) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    for (long i = 0; i < size; i++) {
        const int byte = fgetc(in);
        fputc(i == at ? byte ^ 4 : byte, out);
    }
    fclose(in);
    fclose(out);
}

static void a_state_that_does_not_fit_is_refused_and_nothing_changes(void **state) {
    (void)state;
    char path[128], bad[128];
    make_path(path, sizeof path, "state");
    make_path(bad, sizeof bad, "bad");
    ig_model *model = load("llama", IG_F16), *other = load("mistral", IG_F16);
    engine e = open_engine(model, 1, NULL);
    int32_t tokens[LENGTH];
    fill(tokens, 1);
    feed(&e, 0, tokens, 20, NULL);
    OK(ig_session_save(e.session, 0, path));
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    fclose(f);
    for (long at = 0; at < size; at += at < 200 ? 1 : 997) {
        damage(path, bad, size, at);
        assert_int_not_equal(ig_session_load(e.session, 0, bad), IG_OK);
        damage(path, bad, at, -1);
        assert_int_not_equal(ig_session_load(e.session, 0, bad), IG_OK);
    }
    assert_int_equal(ig_session_length(e.session, 0), 20);
    engine o = open_engine(other, 1, NULL);
    assert_fails(ig_session_load(o.session, 0, path), IG_ERR_ARGUMENT, "another model");
    close_engine(&o);
    o = open_engine(model, 1, &(ig_session_options){.cache_type_k = "f32"});
    assert_fails(ig_session_load(o.session, 0, path), IG_ERR_ARGUMENT, "a cache of f16 and f16");
    close_engine(&o);
    o = open_engine(model, 1, &(ig_session_options){.ctx_len = 19});
    assert_fails(ig_session_load(o.session, 0, path), IG_ERR_ARGUMENT,
                 "20 tokens, but the context is 19");
    close_engine(&o);
    close_engine(&e);
    unlink(path);
    unlink(bad);
    ig_model_release(model);
    ig_model_release(other);
}

/* ---- what cannot be ---- */

static void rows_that_cannot_be_are_refused_with_their_numbers(void **state) {
    (void)state;
    ig_model *model = load("llama", IG_F16);
    engine e = open_engine(model, 1, &(ig_session_options){.n_sequences = 2, .ctx_len = 40});
    int32_t tokens[LENGTH];
    fill(tokens, 1);
    feed(&e, 0, tokens, 30, NULL);
    assert_fails(ig_session_feed(e.session, 0, tokens, 11, NULL), IG_ERR_ARGUMENT,
                 "11 tokens do not fit: the context has 40, of which 30 are taken");
    assert_fails(ig_session_feed(e.session, 2, tokens, 1, NULL), IG_ERR_ARGUMENT,
                 "sequence 2; there are 2");
    const ig_session_token rows[] = {{.id = 1}, {.sequence = 1, .id = VOCABULARY}};
    assert_fails(ig_session_run(e.session, rows, 2), IG_ERR_ARGUMENT, "token 320 is not below 320");
    assert_fails(ig_session_run(e.session, rows, 0), IG_ERR_ARGUMENT, "no tokens");
    assert_int_equal(ig_session_length(e.session, 0), 30);
    assert_int_equal(ig_session_length(e.session, 1), 0);
    assert_fails(ig_session_truncate(e.session, 0, 31), IG_ERR_ARGUMENT, "31 tokens to keep of 30");
    feed(&e, 0, tokens, 10, NULL); /* it still works */
    ig_session *none = NULL;
    const struct {
        ig_session_options options;
        const char *words;
    } bad[] = {
        {{.ctx_len = 129}, "a context of 129: the model was made for 1 to 128"},
        {{.n_sequences = -1}, "-1 sequences"},
        {{.ubatch = 5000}, "chunks of 5000 rows"},
        {{.cache_type_k = "q4_0"}, "cache type q4_0: there are f16, bf16, f32 and q8_0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(ig_session_create(e.adapter, &bad[i].options, &none), IG_ERR_ARGUMENT,
                     bad[i].words);
    assert_null(none);
    close_engine(&e);
    ig_model_release(model);
}

static bool cancel_at_once(void *user) { return *(bool *)user; }

static void a_cancelled_run_leaves_the_sequences_as_they_were(void **state) {
    (void)state;
    ig_model *model = load("llama", IG_F16);
    bool cancel = false;
    engine e = {0};
    OK(ig_ctx_create(&(ig_ctx_options){.cancel = cancel_at_once, .user = &cancel}, &e.ctx));
    OK(ig_adapter_from_model(e.ctx, model, &e.adapter));
    OK(ig_session_create(e.adapter, &(ig_session_options){.ubatch = 16}, &e.session));
    static float want[VOCABULARY], got[VOCABULARY];
    int32_t tokens[LENGTH];
    fill(tokens, 1);
    feed(&e, 0, tokens, 40, want);
    OK(ig_session_truncate(e.session, 0, 10));
    cancel = true;
    assert_fails(ig_session_feed(e.session, 0, tokens + 10, 30, got), IG_ERR_CANCELLED, "cancel");
    assert_int_equal(ig_session_length(e.session, 0), 10);
    cancel = false;
    feed(&e, 0, tokens + 10, 30, got);
    assert_memory_equal(got, want, sizeof got);
    close_engine(&e);
    ig_model_release(model);
}

/* ---- pages ---- */

static void pages_are_taken_shared_and_given_back(void **state) {
    (void)state;
    int32_t table[2 * 2], row, from;
    ig_pages p;
    OK(ig_pages_init(&p, &ig_heap, table, 2, 2, 4));
    for (int i = 0; i < 70; i++) {
        OK(ig_pages_append(&p, 0, &row, &from));
        assert_int_equal(from, -1);
    }
    assert_int_equal(row, 64 + 5); /* pages are taken in order */
    assert_int_equal(p.n_free, 2);
    ig_pages_share(&p, 0, 1);
    assert_int_equal(p.n_free, 2);
    OK(ig_pages_append(&p, 1, &row, &from));
    assert_int_equal(from, 1); /* the half-full page is copied, */
    assert_int_equal(row / 64, 2);
    OK(ig_pages_append(&p, 0, &row, &from));
    assert_int_equal(from, -1); /* once */
    ig_pages_truncate(&p, 0, 0);
    assert_int_equal(p.n_free, 2); /* the first page is the other's still */
    ig_pages_truncate(&p, 1, 0);
    assert_int_equal(p.n_free, 4);
    ig_pages_deinit(&p, &ig_heap);
}

static void the_last_page_is_the_last(void **state) {
    (void)state;
    int32_t table[2], row, from;
    ig_pages p;
    OK(ig_pages_init(&p, &ig_heap, table, 2, 1, 1));
    OK(ig_pages_append(&p, 0, &row, &from));
    assert_fails(ig_pages_append(&p, 1, &row, &from), IG_ERR_MEMORY, "all 1 pages");
    ig_pages_deinit(&p, &ig_heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_do_not_depend_on_threads_chunks_or_neighbors),
        cmocka_unit_test(logits_do_not_depend_on_threads_chunks_or_neighbors_for_any_type),
        cmocka_unit_test(logits_do_not_depend_on_the_number_of_sequences_in_a_batch),
        cmocka_unit_test(the_last_layer_computes_rows_whose_logits_are_asked_for),
        cmocka_unit_test(rows_are_handed_hidden_states_where_a_session_is_made_for_them),
        cmocka_unit_test(contexts_share_one_set_of_weights),
        cmocka_unit_test(a_sequence_that_forgot_continues_as_if_it_had_never_known),
        cmocka_unit_test(a_fork_shares_what_was_and_parts_from_there),
        cmocka_unit_test(a_saved_sequence_comes_back_with_its_bits),
        cmocka_unit_test(a_state_that_does_not_fit_is_refused_and_nothing_changes),
        cmocka_unit_test(rows_that_cannot_be_are_refused_with_their_numbers),
        cmocka_unit_test(a_cancelled_run_leaves_the_sequences_as_they_were),
        cmocka_unit_test(pages_are_taken_shared_and_given_back),
        cmocka_unit_test(the_last_page_is_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
