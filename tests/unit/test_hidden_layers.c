/* Hidden states of all layers, and encoders on token ids with masks and token types. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "hub.h"
#include "ingot/session.h"

enum { N = 70, D = HUB_D_MODEL, V = HUB_VOCABULARY, L = HUB_LAYERS };
enum { STATES = (L + 1) * D };

typedef struct bench {
    hub_model *hub;
    ig_model *model;
    ig_ctx *ctx;
    ig_adapter *adapter;
} bench;

static void load(bench *b) {
    must(ig_model_create(&b->hub->source, NULL, &b->model));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &b->ctx));
    must(ig_adapter_from_model(b->ctx, b->model, &b->adapter));
}

static bench open_bench(const char *name, ig_dtype dtype) {
    bench b = {.hub = hub_model_create(name, dtype)};
    load(&b);
    return b;
}

static void unload(bench *b) {
    ig_adapter_destroy(b->adapter);
    ig_ctx_destroy(b->ctx);
    ig_model_release(b->model);
}

static void close_bench(bench *b) {
    unload(b);
    hub_model_destroy(b->hub);
}

static int32_t token_at(int64_t i) { return (int32_t)(i * 7 % V); }

/* Outputs [N, width] of N tokens, or with `some` those of every ninth alone. */
static float *outputs(const bench *b, bool hidden, bool layers, bool some, int64_t *out_width) {
    ig_session *session = NULL;
    ig_session_token tokens[N];
    const ig_session_options options = {.hidden = hidden, .hidden_layers = layers};
    must(ig_session_create(b->adapter, &options, &session));
    const int64_t width = ig_session_width(session);
    float *out = calloc((size_t)(N * width), sizeof *out);
    for (int64_t i = 0; i < N; i++)
        tokens[i] = (ig_session_token){.id = token_at(i),
                                       .output = some && i % 9 != 0 ? NULL : out + i * width};
    must(ig_session_run(session, tokens, N));
    ig_session_destroy(session);
    *out_width = width;
    return out;
}

static void check_model(const char *name, ig_dtype dtype, bool some) {
    bench b = open_bench(name, dtype);
    int64_t v, d, both, states;
    float *logits = outputs(&b, false, false, some, &v),
          *hidden = outputs(&b, true, false, some, &d);
    float *all = outputs(&b, false, true, some, &both);
    float *alone = outputs(&b, true, true, some, &states);
    assert_true(v == V && d == D && both == STATES + V && states == STATES);
    for (int64_t i = 0; i < N; i++) {
        if (memcmp(all + i * both + STATES, logits + i * V, V * sizeof(float)) != 0)
            fail_msg("%s: the logits of token %d differ", name, (int)i);
        assert_memory_equal(all + i * both, alone + i * states, STATES * sizeof(float));
        assert_memory_equal(alone + i * states + L * D, hidden + i * D, D * sizeof(float));
    }
    free(alone);
    free(all);
    free(hidden);
    free(logits);
    close_bench(&b);
}

static void the_outputs_are_those_of_sessions_without_hidden_states(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "qwen3", "gemma3", "gpt2", "phi3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int some = 0; some < 2; some++) check_model(names[i], i % 2 ? IG_BF16 : IG_F32, some);
}

/* A last layer of zeros adds nothing, so the final states are the norm of those before it. */
static void states_are_of_the_embedding_and_of_each_layer(void **state) {
    (void)state;
    static const double rounding = 1e-5; /* F32 against double */
    int64_t width;
    bench b = open_bench("qwen3", IG_F32);
    float *before = outputs(&b, true, true, false, &width);
    unload(&b);
    static const char *const names[] = {"model.layers.1.self_attn.o_proj.weight",
                                        "model.layers.1.mlp.down_proj.weight"};
    for (int i = 0; i < 2; i++) {
        const ig_named_tensor *t = hub_model_find(b.hub, names[i]);
        memset((void *)(uintptr_t)t->data, 0, (size_t)ig_shape_count(t->desc.shape) * 4);
    }
    load(&b);
    float *after = outputs(&b, true, true, false, &width);
    const float *table = hub_model_find(b.hub, "model.embed_tokens.weight")->data;
    const float *gain = hub_model_find(b.hub, "model.norm.weight")->data;
    for (int64_t i = 0; i < N; i++) {
        const float *row = after + i * width;
        double squares = 0;
        assert_memory_equal(row, table + token_at(i) * D, D * sizeof(float));
        assert_memory_equal(row, before + i * width, 2 * D * sizeof(float));
        assert_memory_not_equal(row + 2 * D, before + i * width + 2 * D, D * sizeof(float));
        for (int c = 0; c < D; c++) squares += (double)row[D + c] * (double)row[D + c];
        const double scale = 1 / sqrt(squares / D + 1e-5);
        for (int c = 0; c < D; c++) {
            const double want = (double)row[D + c] * scale * (double)gain[c];
            assert_true(fabs((double)row[2 * D + c] - want) < rounding);
        }
    }
    free(before);
    free(after);
    close_bench(&b);
}

static void sessions_with_hidden_states_neither_generate_nor_embed(void **state) {
    (void)state;
    bench b = open_bench("llama", IG_F32);
    ig_session *session = NULL;
    ig_adapter *trained = NULL;
    float vector[D];
    must(ig_session_create(b.adapter, &(ig_session_options){.hidden_layers = true}, &session));
    const ig_generate_options options = {.prompt = "ab", .prompt_bytes = 2, .session = session};
    refused(ig_adapter_generate(b.adapter, &options, NULL), IG_ERR_ARGUMENT, "hidden states");
    ig_session_destroy(session);
    must(ig_session_create(b.adapter, &(ig_session_options){.hidden = true, .hidden_layers = true},
                           &session));
    refused(ig_session_embed(session, "ab", 2, IG_POOL_MEAN, vector, NULL), IG_ERR_ARGUMENT,
            "all layers");
    ig_session_destroy(session);
    const ig_model_config config = {.d_model = 32, .n_layers = 1, .n_heads = 1, .ctx_len = 32};
    must(ig_adapter_create(b.ctx, "llm", &config, &trained));
    refused(ig_session_create(trained, &(ig_session_options){.hidden_layers = true}, &session),
            IG_ERR_ARGUMENT, "models of files");
    ig_adapter_destroy(trained);
    close_bench(&b);
}

/* ---- Encoders ---- */

enum { ROWS = 3, LENGTH = 20 };

/* Rows of 20, 7 and 1 tokens, padded on the left or the right. */
static bool is_token(int64_t row, int64_t column, bool left) {
    static const int64_t lengths[ROWS] = {LENGTH, 7, 1};
    return left ? column >= LENGTH - lengths[row] : column < lengths[row];
}

static float *encode(const bench *b, const ig_padded_batch *batch, bool layers) {
    ig_session *session = NULL;
    const ig_session_options options = {.hidden = true, .hidden_layers = layers};
    must(ig_session_create(b->adapter, &options, &session));
    const size_t n = (size_t)(batch->n_rows * (batch->last_only ? 1 : batch->length));
    float *out = malloc(n * (size_t)ig_session_width(session) * sizeof *out);
    must(ig_session_run_padded(session, batch, out));
    ig_session_destroy(session);
    return out;
}

static void a_text_has_the_same_bits_alone_and_in_a_padded_batch(void **state) {
    (void)state;
    bench b = open_bench("bert", IG_F32);
    for (int left = 0; left < 2; left++) {
        int32_t ids[ROWS * LENGTH], types[ROWS * LENGTH];
        uint8_t mask[ROWS * LENGTH];
        for (int64_t i = 0; i < ROWS * LENGTH; i++) {
            mask[i] = is_token(i / LENGTH, i % LENGTH, left != 0);
            ids[i] = mask[i] ? token_at(i) : -1;
            types[i] = i % LENGTH > 3;
        }
        const ig_padded_batch batch = {
            .n_rows = ROWS, .length = LENGTH, .ids = ids, .mask = mask, .token_types = types};
        float *all = encode(&b, &batch, true);
        for (int64_t row = 0; row < ROWS; row++) {
            ig_padded_batch one = {.n_rows = 1, .last_only = true};
            int32_t positions[LENGTH];
            int64_t first = 0, last = LENGTH - 1;
            while (!mask[row * LENGTH + first]) first++;
            while (!mask[row * LENGTH + last]) last--;
            for (int i = 0; i < LENGTH; i++) positions[i] = (int32_t)(first + i);
            one.length = last - first + 1;
            one.ids = ids + row * LENGTH + first;
            one.token_types = types + row * LENGTH + first;
            one.positions = positions;
            float *alone = encode(&b, &one, true);
            assert_memory_equal(all + (row * LENGTH + last) * STATES, alone,
                                STATES * sizeof(float));
            free(alone);
        }
        for (int64_t i = 0; i < ROWS * LENGTH; i++)
            for (int c = 0; !mask[i] && c < STATES; c++) assert_true(all[i * STATES + c] == 0);
        free(all);
    }
    close_bench(&b);
}

/* Token type 1 is the second row of its table. */
static void token_types_choose_the_rows_of_their_table(void **state) {
    (void)state;
    int32_t ids[LENGTH], zeros[LENGTH] = {0}, ones[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        ids[i] = token_at(i);
        ones[i] = 1;
    }
    ig_padded_batch batch = {.n_rows = 1, .length = LENGTH, .ids = ids};
    bench b = open_bench("bert", IG_F32);
    float *plain = encode(&b, &batch, false);
    batch.token_types = zeros;
    float *of_zeros = encode(&b, &batch, false);
    batch.token_types = ones;
    float *of_ones = encode(&b, &batch, false);
    const size_t bytes = (size_t)LENGTH * D * sizeof *plain;
    assert_memory_equal(plain, of_zeros, bytes);
    assert_memory_not_equal(plain, of_ones, bytes);
    unload(&b);
    float *table =
        (float *)(uintptr_t)hub_model_find(b.hub, "embeddings.token_type_embeddings.weight")->data;
    memcpy(table, table + D, D * sizeof *table);
    load(&b);
    batch.token_types = NULL;
    float *swapped = encode(&b, &batch, false);
    assert_memory_equal(swapped, of_ones, bytes);
    free(swapped);
    free(of_ones);
    free(of_zeros);
    free(plain);
    close_bench(&b);
}

static void the_last_states_are_those_that_are_pooled(void **state) {
    (void)state;
    bench b = open_bench("bert", IG_F32);
    const int32_t ids[] = {4, 5, 7}; /* the cat sat */
    const ig_padded_batch batch = {.n_rows = 1, .length = 3, .ids = ids};
    float vector[D], *states = encode(&b, &batch, false);
    int64_t n_tokens;
    double squares = 0;
    must(ig_adapter_embed(b.adapter, "the cat sat", 11, IG_POOL_CLS, vector, &n_tokens));
    assert_int_equal(n_tokens, 3);
    for (int c = 0; c < D; c++) squares += (double)states[c] * (double)states[c];
    for (int c = 0; c < D; c++)
        assert_true(fabs((double)states[c] / sqrt(squares) - (double)vector[c]) < 1e-6);
    free(states);
    close_bench(&b);
}

static void texts_that_cannot_be_are_refused(void **state) {
    (void)state;
    bench b = open_bench("bert", IG_F32), decoder = open_bench("llama", IG_F32);
    const int32_t good[] = {1, 2}, no_token[] = {1, V}, no_type[] = {0, 2},
                  far[] = {0, HUB_CTX_LEN};
    const struct {
        ig_padded_batch batch;
        const char *words;
    } rows[] = {
        {{.n_rows = 1, .length = 2, .ids = no_token}, "token 40 is not below 40"},
        {{.n_rows = 1, .length = 2, .ids = good, .token_types = no_type},
         "token type 2 is not below 2"},
        {{.n_rows = 1, .length = 2, .ids = good, .positions = far},
         "position 160 is not below 160"},
    };
    ig_session *session = NULL;
    must(ig_session_create(b.adapter, &(ig_session_options){.hidden = true}, &session));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused(ig_session_run_padded(session, &rows[i].batch, NULL), IG_ERR_ARGUMENT,
                rows[i].words);
    ig_session_destroy(session);
    must(ig_session_create(decoder.adapter, NULL, &session));
    refused(ig_session_run_padded(session, &rows[1].batch, NULL), IG_ERR_ARGUMENT,
            "llama has no token types");
    ig_session_destroy(session);
    close_bench(&b);
    close_bench(&decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_outputs_are_those_of_sessions_without_hidden_states),
        cmocka_unit_test(states_are_of_the_embedding_and_of_each_layer),
        cmocka_unit_test(sessions_with_hidden_states_neither_generate_nor_embed),
        cmocka_unit_test(a_text_has_the_same_bits_alone_and_in_a_padded_batch),
        cmocka_unit_test(token_types_choose_the_rows_of_their_table),
        cmocka_unit_test(the_last_states_are_those_that_are_pooled),
        cmocka_unit_test(texts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
