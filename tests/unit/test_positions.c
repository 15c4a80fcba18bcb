/* Positions of tokens, and padded batches: the bits of a row do not depend on its padding. */
#include <stdlib.h>

#include "check.h"
#include "directory.h"
#include "hub.h"
#include "ingot/session.h"

enum { ROWS = 3, LENGTH = 90, V = HUB_VOCABULARY, CTX = HUB_CTX_LEN };

typedef struct bench {
    hub_model *hub;
    ig_model *model;
    ig_ctx *ctx;
    ig_adapter *adapter;
} bench;

static bench open_bench(const char *name, ig_dtype dtype) {
    bench b = {.hub = hub_model_create(name, dtype)};
    must(ig_model_create(&b.hub->source, NULL, &b.model));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &b.ctx));
    must(ig_adapter_from_model(b.ctx, b.model, &b.adapter));
    return b;
}

static void close_bench(bench *b) {
    ig_adapter_destroy(b->adapter);
    ig_ctx_destroy(b->ctx);
    ig_model_release(b->model);
    hub_model_destroy(b->hub);
}

static ig_session *open_session(const bench *b) {
    ig_session *session = NULL;
    const ig_session_options options = {
        .n_sequences = ROWS, .cache_type_k = "f32", .cache_type_v = "f32"};
    must(ig_session_create(b->adapter, &options, &session));
    return session;
}

static int32_t token_at(int64_t row, int64_t i) { return (int32_t)((i * 7 + row * 5) % V); }

/* Logits [count, V] of tokens of row `row` in a session of its own; positions NULL: they count. */
static float *alone(const bench *b, int64_t row, int64_t count, const int32_t *positions) {
    ig_session *session = open_session(b);
    ig_session_token *tokens = calloc((size_t)count, sizeof *tokens);
    float *out = malloc((size_t)(count * V) * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (ig_session_token){.id = token_at(row, i),
                                       .logits = out + i * V,
                                       .has_position = positions != NULL,
                                       .position = positions ? positions[i] : 0};
    must(ig_session_run(session, tokens, count));
    free(tokens);
    ig_session_destroy(session);
    return out;
}

/* ---- Padding ---- */

typedef enum side { LEFT, RIGHT, BETWEEN } side;

/* Rows of 90, 40 and 1 tokens; returns the length of a row. */
static int64_t pad(side where, int32_t *ids, uint8_t *mask, int64_t row) {
    static const int64_t lengths[ROWS] = {LENGTH, 40, 1};
    int64_t n = 0;
    for (int64_t i = 0; i < LENGTH; i++) {
        const bool is_token = where == LEFT    ? i >= LENGTH - lengths[row]
                              : where == RIGHT ? i < lengths[row]
                                               : n < lengths[row] && (row == 0 || i % 2 == 0);
        mask[i] = is_token;
        ids[i] = is_token ? token_at(row, n++) : 1000000; /* never looked at */
    }
    return lengths[row];
}

static void check_padded(const bench *b, const char *name, side where) {
    int32_t ids[ROWS * LENGTH];
    uint8_t mask[ROWS * LENGTH];
    ig_padded_batch batch = {.n_rows = ROWS, .length = LENGTH, .ids = ids, .mask = mask};
    float *all = malloc((size_t)ROWS * LENGTH * V * sizeof *all), last[ROWS * V];
    int64_t lengths[ROWS];
    for (int64_t row = 0; row < ROWS; row++)
        lengths[row] = pad(where, ids + row * LENGTH, mask + row * LENGTH, row);
    ig_session *session = open_session(b);
    assert_int_equal(ig_session_width(session), V);
    must(ig_session_run_padded(session, &batch, all));
    for (int32_t row = 0; row < ROWS; row++) {
        assert_int_equal(ig_session_length(session, row), lengths[row]);
        must(ig_session_truncate(session, row, 0));
    }
    batch.last_only = true;
    must(ig_session_run_padded(session, &batch, last));
    ig_session_destroy(session);
    for (int64_t row = 0; row < ROWS; row++) {
        float *want = alone(b, row, lengths[row], NULL);
        int64_t n = 0;
        for (int64_t i = row * LENGTH; i < (row + 1) * LENGTH; i++) {
            const float zeros[V] = {0};
            const float *expected = mask[i] ? want + n++ * V : zeros;
            if (memcmp(all + i * V, expected, V * sizeof(float)) != 0)
                fail_msg("%s: row %d, token %d differs", name, (int)row, (int)(i % LENGTH));
        }
        assert_memory_equal(last + row * V, want + (lengths[row] - 1) * V, V * sizeof(float));
        free(want);
    }
    free(all);
}

static void a_row_has_the_same_bits_alone_and_in_a_padded_batch(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ig_dtype dtype;
    } rows[] = {{"llama", IG_F32}, {"mistral", IG_BF16}, {"gpt2", IG_F32}, {"gemma3", IG_F16}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b = open_bench(rows[i].name, rows[i].dtype);
        check_padded(&b, rows[i].name, LEFT);
        check_padded(&b, rows[i].name, RIGHT);
        check_padded(&b, rows[i].name, BETWEEN);
        close_bench(&b);
    }
}

static void padded_batches_that_cannot_be_are_refused(void **state) {
    (void)state;
    bench b = open_bench("llama", IG_F32);
    ig_session *session = open_session(&b);
    const int32_t ids[4 * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
    const uint8_t mask[2 * 2] = {1, 1, 0, 0};
    const ig_padded_batch cases[] = {
        {.n_rows = 2, .length = 2, .ids = ids, .mask = mask},
        {.n_rows = 4, .length = 2, .ids = ids},
        {.n_rows = 0, .length = 2, .ids = ids},
        {.n_rows = 1, .length = 2},
    };
    static const char *const words[] = {"row 1 is padding alone", "4 rows; the session has 3",
                                        "0 rows of 2", "1 rows of 2"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(ig_session_run_padded(session, &cases[i], NULL), IG_ERR_ARGUMENT, words[i]);
    assert_int_equal(ig_session_length(session, 0), 0);
    ig_session_destroy(session);
    close_bench(&b);
}

/* ---- Positions ---- */

static void positions_that_count_change_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"llama", "gpt2", "mistral"};
    int32_t positions[LENGTH];
    for (int i = 0; i < LENGTH; i++) positions[i] = i;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bench b = open_bench(names[i], IG_F32);
        float *plain = alone(&b, 1, LENGTH, NULL), *given = alone(&b, 1, LENGTH, positions);
        assert_memory_equal(plain, given, (size_t)LENGTH * V * sizeof *plain);
        free(plain);
        free(given);
        close_bench(&b);
    }
}

/* RoPE sees differences of positions alone; learned positions see each. */
static void shifted_positions_are_those_of_rope_and_of_tables(void **state) {
    (void)state;
    static const double rounding = 1e-4; /* sines of other angles, through two layers */
    int32_t shifted[20];
    for (int i = 0; i < 20; i++) shifted[i] = i + 50;
    for (int learned = 0; learned < 2; learned++) {
        bench b = open_bench(learned ? "gpt2" : "llama", IG_F32);
        float *plain = alone(&b, 0, 20, NULL), *moved = alone(&b, 0, 20, shifted);
        double most = 0;
        for (int i = 0; i < 20 * V; i++) {
            const double apart = (double)plain[i] - (double)moved[i];
            most = apart > most ? apart : -apart > most ? -apart : most;
        }
        assert_true(learned ? most > 100 * rounding : most < rounding);
        free(plain);
        free(moved);
        close_bench(&b);
    }
}

/* The tokens after one with a position of its own count on from it, in forks and after a cut. */
static void later_tokens_count_on(void **state) {
    (void)state;
    bench b = open_bench("gpt2", IG_F32);
    const int32_t positions[] = {3, 4, 10, 11, 12};
    float *want = alone(&b, 0, 5, positions), got[V];
    ig_session *session = open_session(&b);
    ig_session_token tokens[3];
    for (int i = 0; i < 3; i++)
        tokens[i] = (ig_session_token){
            .id = token_at(0, i), .has_position = i != 1, .position = positions[i]};
    must(ig_session_run(session, tokens, 3));
    const int32_t rest[] = {token_at(0, 3), token_at(0, 4)}, other[] = {9, 9, 9};
    must(ig_session_feed(session, 0, other, 3, NULL));
    must(ig_session_truncate(session, 0, 3));
    must(ig_session_fork(session, 0, 2));
    for (int32_t sequence = 0; sequence < 3; sequence += 2) {
        must(ig_session_feed(session, sequence, rest, 2, got));
        assert_memory_equal(got, want + 4 * V, sizeof got);
    }
    /* A sequence without them counts from 0. */
    float *plain = alone(&b, 1, 2, NULL);
    const int32_t of_one[] = {token_at(1, 0), token_at(1, 1)};
    must(ig_session_feed(session, 1, of_one, 2, got));
    assert_memory_equal(got, plain + V, sizeof got);
    free(plain);
    free(want);
    ig_session_destroy(session);
    close_bench(&b);
}

static void positions_that_cannot_be_are_refused_and_nothing_changes(void **state) {
    char path[PATH_BYTES];
    bench b = open_bench("gpt2", IG_F32);
    ig_session *session = open_session(&b);
    static const int32_t wrong[] = {-1, CTX};
    for (size_t i = 0; i < 2; i++) {
        const ig_session_token tokens[] = {{.id = 1},
                                           {.id = 2, .has_position = true, .position = wrong[i]}};
        refused(ig_session_run(session, tokens, 2), IG_ERR_ARGUMENT,
                "the model was made for 0 to 159");
        assert_int_equal(ig_session_length(session, 0), 0);
    }
    /* The position after the last. */
    const ig_session_token tokens[] = {{.id = 1, .has_position = true, .position = CTX - 1},
                                       {.id = 2}};
    refused(ig_session_run(session, tokens, 2), IG_ERR_ARGUMENT, "position 160");
    assert_int_equal(ig_session_length(session, 0), 0);
    must(ig_session_run(session, tokens, 1));
    refused(ig_session_save(session, 0, directory_path(state, "a", path)), IG_ERR_UNSUPPORTED,
            "positions of its own");
    ig_session_destroy(session);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_in_a_padded_batch),
        cmocka_unit_test(padded_batches_that_cannot_be_are_refused),
        cmocka_unit_test(positions_that_count_change_nothing),
        cmocka_unit_test(shifted_positions_are_those_of_rope_and_of_tables),
        cmocka_unit_test(later_tokens_count_on),
        IN_DIRECTORY(positions_that_cannot_be_are_refused_and_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
