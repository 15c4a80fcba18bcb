/*
 * Attention over pages: a row's bits are the same alone and among others, with one
 * thread and with several, however long its text is.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>

#include "ingot/blocks.h"

/* HEADS and WIDTH: at most. */
enum { PAGE = 64, PAGES = 24, HEADS = 10, GROUPS = 2, WIDTH = 272, ROWS = 70 };

typedef struct cache {
    const char *name;
    ig_dtype type;
    uint32_t window;
    int width, heads;
} cache;

static const cache caches[] = {{"f32", IG_F32, 0, 32, 6},
                               {"f32, heads of 27", IG_F32, 0, 27, 6},
                               {"f16", IG_F16, 0, 64, 6},
                               {"f16, heads of 40", IG_F16, 0, 40, 6},
                               {"f16, heads of 130", IG_F16, 0, 130, 6},
                               {"f16, heads of 272", IG_F16, 0, 272, 6},
                               {"bf16, heads of 24", IG_BF16, 0, 24, 6},
                               {"bf16", IG_BF16, 0, 64, 6},
                               {"bf16, a window", IG_BF16, 333, 128, 6},
                               {"q8_0", IG_Q8_0, 0, 64, 6},
                               {"q8_0, a window", IG_Q8_0, 333, 64, 6},
                               {"q8_0, one head for each", IG_Q8_0, 0, 32, 2},
                               {"q8_0, two for each", IG_Q8_0, 0, 96, 4},
                               {"q8_0, four for each", IG_Q8_0, 100, 64, 8},
                               {"q8_0, five for each", IG_Q8_0, 0, 64, 10},
                               {"f16, a window", IG_F16, 600, 32, 6}};
enum { CACHES = sizeof caches / sizeof caches[0] };

/* Numbers that are always the same, between -1 and 1. */
static void fill(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

/* Pages of a cache, filled in disorder through the op that stores rows. */
static ig_tensor *make_pages(ig_ctx *ctx, const cache *c, uint32_t seed) {
    static float rows[PAGES * PAGE * GROUPS * WIDTH];
    static int32_t index[PAGES * PAGE];
    ig_tensor *pages = NULL;
    must(ig_tensor_create(ctx, (ig_desc){c->type, IG_SHAPE(PAGES * PAGE, GROUPS, c->width)},
                          &pages));
    fill(rows, sizeof rows / sizeof rows[0], seed);
    for (int32_t i = 0; i < PAGES * PAGE; i++) index[i] = i;
    ig_tensor *x = floats(ctx, IG_SHAPE(PAGES * PAGE, GROUPS, c->width), rows);
    ig_tensor *at = ints(ctx, IG_SHAPE(PAGES * PAGE), index);
    must(ig_store_rows(pages, x, at));
    ig_tensor_release(x);
    ig_tensor_release(at);
    return pages;
}

/* What may become of the blocks of a cache before it is read. */
typedef enum twist {
    AS_STORED,
    SIGNS_MOVED, /* from numbers to scales: the values are the same */
    UNSEEN_ODD,  /* positions after the last row have scales that are NaN */
} twist;

static int page_of(int position) { return (position / PAGE * 7 + 5) % PAGES; }

static void twist_blocks(ig_tensor *pages, int width, twist how, int end) {
    static ig_block_q8_0 blocks[PAGES * PAGE * GROUPS * WIDTH / IG_BLOCK];
    const int each = GROUPS * width / IG_BLOCK; /* blocks of a position */
    const size_t bytes = (size_t)(PAGES * PAGE * each) * sizeof *blocks;
    must(ig_tensor_read(pages, blocks, bytes));
    for (int i = 0; i < PAGES * PAGE; i++)
        for (int b = 0; b < each; b++) {
            ig_block_q8_0 *block = &blocks[(page_of(i) * PAGE + i % PAGE) * each + b];
            if (how == SIGNS_MOVED && i % 5 == 0) {
                block->d ^= 0x8000;
                for (int k = 0; k < IG_BLOCK; k++) block->q[k] = (int8_t)-block->q[k];
            }
            if (how == UNSEEN_ODD && i >= end) block->d = 0x7e00;
        }
    must(ig_tensor_write(pages, blocks, bytes));
}

/* Rows at some positions, the keys of which lie where the table says. */
typedef struct query_rows {
    const float *q;
    int count;
    const int32_t *table, *position;
    const int32_t *sequence;    /* of each row; NULL: all are of the first */
    int sequences, table_width; /* of the table; 0: 1 and PAGES */
} query_rows;

/* `out` [count, heads, width] */
static void attend_at(int threads, const cache *c, twist how, const query_rows *a, float *out) {
    static const int32_t first[ROWS];
    const int count = a->count;
    const ig_shape table =
        IG_SHAPE(a->sequences ? a->sequences : 1, a->table_width ? a->table_width : PAGES);
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = threads}, &ctx));
    ig_tensor *k = make_pages(ctx, c, 1), *v = make_pages(ctx, c, 2);
    if (how != AS_STORED) {
        twist_blocks(k, c->width, how, a->position[count - 1] + 1);
        twist_blocks(v, c->width, how, a->position[count - 1] + 1);
    }
    const int each = c->heads * c->width;
    const ig_shape shape = IG_SHAPE(PAGES, PAGE, GROUPS, c->width);
    ig_tensor *rows = floats(ctx, IG_SHAPE(count, c->heads, c->width), a->q);
    const ig_paged_kv paged = {.k_pages = ig_reshape(k, shape),
                               .v_pages = ig_reshape(v, shape),
                               .page_table = ints(ctx, table, a->table),
                               .token_seq =
                                   ints(ctx, IG_SHAPE(count), a->sequence ? a->sequence : first),
                               .token_pos = ints(ctx, IG_SHAPE(count), a->position),
                               .window = c->window};
    ig_tensor *y = ig_attention_paged(rows, paged, 0);
    must(ig_tensor_read(y, out, (size_t)(count * each) * sizeof *out));
    ig_tensor *made[] = {k, v, rows, paged.page_table, paged.token_seq, paged.token_pos};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) ig_tensor_release(made[i]);
    ig_ctx_destroy(ctx);
}

/* Rows [first, first + count) of a text that they end, which ask q; `out` [count, heads, width]. */
static void attend_twisted(int threads, const cache *c, twist how, const float *q, int first,
                           int count, float *out) {
    int32_t table[PAGES], position[ROWS];
    for (int i = 0; i < PAGES; i++) table[i] = page_of(i * PAGE);
    for (int i = 0; i < count; i++) position[i] = PAGES * PAGE - ROWS - 9 + first + i;
    const query_rows a = {
        .q = q + first * c->heads * c->width, .count = count, .table = table, .position = position};
    attend_at(threads, c, how, &a, out);
}

static void attend(int threads, const cache *c, const float *q, int first, int count, float *out) {
    attend_twisted(threads, c, AS_STORED, q, first, count, out);
}

static void rows_do_not_depend_on_their_neighbors_or_on_threads(void **state) {
    (void)state;
    static float q[ROWS * HEADS * WIDTH], want[ROWS * HEADS * WIDTH], got[ROWS * HEADS * WIDTH];
    static const int sizes[] = {1, 5, 16, 23};
    fill(q, sizeof q / sizeof q[0], 3);
    for (size_t c = 0; c < CACHES; c++) {
        attend(1, &caches[c], q, 0, ROWS, want);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int threads = 1; threads <= 3; threads += 2) {
                const int first = 40, each = caches[c].heads * caches[c].width;
                attend(threads, &caches[c], q, first, sizes[s], got);
                if (memcmp(got, want + first * each, (size_t)(sizes[s] * each) * sizeof *got) != 0)
                    fail_msg("%s: %d rows on %d threads", caches[c].name, sizes[s], threads);
            }
    }
}

/* A batch as an engine runs it: texts of all lengths, some with several rows, and padding. */
typedef struct batch {
    int32_t sequence[ROWS], position[ROWS];
} batch;

enum { TEXTS = 29, SHORT_TABLE = 8 };

static batch make_batch(int count, int table_width) {
    batch b;
    uint32_t seed = 7;
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const bool follows = i % 5 == 4 && b.sequence[i - 1] >= 0;
        b.sequence[i] = follows ? b.sequence[i - 1] : i % 11 == 7 ? -1 : i % TEXTS;
        b.position[i] = follows ? b.position[i - 1] + 1
                                : (int32_t)((seed >> 8) % (uint32_t)(table_width * PAGE - 9));
        if (i % 3 == 0) b.position[i] %= 30;
    }
    return b;
}

static void rows_of_many_texts_are_what_each_is_alone(void **state) {
    (void)state;
    static float q[ROWS * HEADS * WIDTH], all[ROWS * HEADS * WIDTH], one[HEADS * WIDTH];
    static const float zeros[HEADS * WIDTH];
    static const int counts[] = {6, 20, ROWS}, widths[] = {SHORT_TABLE, PAGES};
    int32_t table[TEXTS * PAGES];
    fill(q, sizeof q / sizeof q[0], 11);
    for (size_t i = 0; i < CACHES * 6; i++) {
        const cache *c = &caches[i / 6];
        const int count = counts[i % 3], width = widths[i / 3 % 2], each = c->heads * c->width;
        const batch b = make_batch(count, width);
        for (int p = 0; p < TEXTS * width; p++) table[p] = (p % width * 7 + p / width) % PAGES;
        query_rows rows = {q, count, table, b.position, b.sequence, TEXTS, width};
        attend_at(1 + (int)i % 2 * 2, c, AS_STORED, &rows, all);
        for (int r = 0; r < count; r += 1 + count / 8) {
            rows =
                (query_rows){q + r * each, 1, table, b.position + r, b.sequence + r, TEXTS, width};
            attend_at(1, c, AS_STORED, &rows, one);
            const float *want = b.sequence[r] < 0 ? zeros : one;
            if (memcmp(all + r * each, want, (size_t)each * sizeof *one) != 0)
                fail_msg("%s: row %d of %d, a table of %d pages", c->name, r, count, width);
        }
    }
}

static void a_page_that_lies_nowhere_may_be_between_what_two_rows_see(void **state) {
    (void)state;
    enum { TOGETHER = 8 };
    static float q[TOGETHER * HEADS * WIDTH], all[TOGETHER * HEADS * WIDTH], one[HEADS * WIDTH];
    int32_t table[PAGES], position[TOGETHER];
    fill(q, sizeof q / sizeof q[0], 5);
    for (int i = 0; i < PAGES; i++) table[i] = i == 1 ? -1 : page_of(i * PAGE);
    for (int i = 0; i < TOGETHER; i++) position[i] = i % 2 ? 3 * PAGE + i : 10 + i;
    for (size_t i = 0; i < CACHES; i++) {
        cache c = caches[i];
        c.window = 20;
        const int each = c.heads * c.width;
        const query_rows together = {
            .q = q, .count = TOGETHER, .table = table, .position = position};
        attend_at(1, &c, AS_STORED, &together, all);
        for (int r = 0; r < TOGETHER; r++) {
            const query_rows alone = {
                .q = q + r * each, .count = 1, .table = table, .position = position + r};
            attend_at(1, &c, AS_STORED, &alone, one);
            assert_memory_equal(all + r * each, one, (size_t)each * sizeof *one);
        }
    }
}

static void nan_shows_in_its_attention_head_alone(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    float q[HEADS * WIDTH], got[HEADS * WIDTH];
    for (size_t c = 0; c < CACHES; c++)
        for (size_t o = 0; o < sizeof odd / sizeof odd[0]; o++) {
            const int width = caches[c].width;
            fill(q, sizeof q / sizeof q[0], 3);
            q[width + 3] = odd[o];
            attend(1, &caches[c], q, 0, 1, got);
            for (int i = 0; i < caches[c].heads * width; i++)
                if (isnan(got[i]) != (i / width == 1))
                    fail_msg("%s: %g in head 1, %g in head %d", caches[c].name, odd[o], got[i],
                             i / width);
        }
}

static void small_queries_find_what_zeros_do(void **state) {
    (void)state;
    float q[HEADS * WIDTH], want[HEADS * WIDTH] = {0}, got[HEADS * WIDTH];
    for (size_t c = 0; c < CACHES; c++) {
        const int n = caches[c].heads * caches[c].width;
        memset(q, 0, sizeof q);
        attend(1, &caches[c], q, 0, 1, want);
        for (int i = 0; i < n; i++) q[i] = i % 2 ? 1e-38f : -1e-44f;
        attend(1, &caches[c], q, 0, 1, got);
        for (int i = 0; i < n; i++) assert_float_equal(got[i], want[i], 1e-6);
    }
}

static void scales_below_zero_count_as_they_are(void **state) {
    (void)state;
    const cache blocks = {"q8_0", IG_Q8_0, 0, 64, 8};
    static float q[ROWS * HEADS * WIDTH], want[ROWS * HEADS * WIDTH], got[ROWS * HEADS * WIDTH];
    fill(q, sizeof q / sizeof q[0], 3);
    for (int rows = 1; rows <= 3; rows += 2) {
        attend(1, &blocks, q, 0, rows, want);
        attend_twisted(1, &blocks, SIGNS_MOVED, q, 0, rows, got);
        for (int i = 0; i < rows * blocks.heads * blocks.width; i++)
            assert_float_equal(got[i], want[i], 1e-6);
    }
}

static void what_is_not_seen_does_not_show(void **state) {
    (void)state;
    const cache blocks[] = {{"q8_0", IG_Q8_0, 0, 64, 8}, {"q8_0, a window", IG_Q8_0, 77, 64, 8}};
    static float q[ROWS * HEADS * WIDTH], want[HEADS * WIDTH], got[HEADS * WIDTH];
    fill(q, sizeof q / sizeof q[0], 3);
    for (size_t c = 0; c < 2; c++)
        for (int row = 0; row < ROWS; row += 3) {
            attend(1, &blocks[c], q, row, 1, want);
            attend_twisted(1, &blocks[c], UNSEEN_ODD, q, row, 1, got);
            assert_memory_equal(got, want, sizeof got);
        }
}

enum { BESIDE = 96 };

/* One page of blocks, whose row 5 is not attended to and holds values of `size`. */
static void attend_beside(float size, float out[BESIDE]) {
    static float keys[PAGE * BESIDE], values[PAGE * BESIDE], q[BESIDE];
    int32_t index[PAGE], sequence = 0, position = PAGE - 1;
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1}, &ctx));
    fill(values, PAGE * BESIDE, 4);
    for (int i = 0; i < PAGE * BESIDE; i++) {
        index[i / BESIDE] = i / BESIDE;
        q[i % BESIDE] = 1;
        keys[i] = i / BESIDE == 5 ? -8 : 0.01f * (float)(i / BESIDE % 7); /* weighs e^-78 */
        if (i / BESIDE == 5) values[i] = size;
    }
    ig_tensor *pages[2], *rows[2], *at = ints(ctx, IG_SHAPE(PAGE), index);
    for (int i = 0; i < 2; i++) {
        rows[i] = floats(ctx, IG_SHAPE(PAGE, 1, BESIDE), i == 0 ? keys : values);
        must(ig_tensor_create(ctx, (ig_desc){IG_Q8_0, IG_SHAPE(PAGE, 1, BESIDE)}, &pages[i]));
        must(ig_store_rows(pages[i], rows[i], at));
    }
    ig_tensor *asked = floats(ctx, IG_SHAPE(1, 1, BESIDE), q);
    const ig_paged_kv paged = {.k_pages = ig_reshape(pages[0], IG_SHAPE(1, PAGE, 1, BESIDE)),
                               .v_pages = ig_reshape(pages[1], IG_SHAPE(1, PAGE, 1, BESIDE)),
                               .page_table = ints(ctx, IG_SHAPE(1, 1), &sequence),
                               .token_seq = ints(ctx, IG_SHAPE(1), &sequence),
                               .token_pos = ints(ctx, IG_SHAPE(1), &position)};
    must(ig_tensor_read(ig_attention_paged(asked, paged, 0), out, BESIDE * sizeof *out));
    ig_tensor *made[] = {pages[0], pages[1],         rows[0],         rows[1],        at,
                         asked,    paged.page_table, paged.token_seq, paged.token_pos};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) ig_tensor_release(made[i]);
    ig_ctx_destroy(ctx);
}

static void a_large_value_that_hardly_counts_takes_nothing_from_others(void **state) {
    (void)state;
    float want[BESIDE], got[BESIDE];
    attend_beside(0, want);
    for (float size = 1; size < 1e6f; size *= 10) {
        attend_beside(size, got);
        assert_memory_equal(got, want, sizeof got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_their_neighbors_or_on_threads),
        cmocka_unit_test(rows_of_many_texts_are_what_each_is_alone),
        cmocka_unit_test(a_page_that_lies_nowhere_may_be_between_what_two_rows_see),
        cmocka_unit_test(nan_shows_in_its_attention_head_alone),
        cmocka_unit_test(small_queries_find_what_zeros_do),
        cmocka_unit_test(scales_below_zero_count_as_they_are),
        cmocka_unit_test(what_is_not_seen_does_not_show),
        cmocka_unit_test(a_large_value_that_hardly_counts_takes_nothing_from_others),
    };
    return cmocka_run_group_tests_name("paged", tests, NULL, NULL);
}
