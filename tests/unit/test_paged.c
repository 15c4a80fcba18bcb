/*
 * Attention over pages: a row's bits are the same alone and among others, with one
 * thread and with several, however long its text is.
 */
#include "check.h"

#include <stdio.h>

enum { PAGE = 64, PAGES = 24, HEADS = 6, GROUPS = 2, WIDTH = 32, ROWS = 70 };

typedef struct cache {
    const char *name;
    ig_dtype type;
    uint32_t window;
} cache;

/* Numbers that are always the same, between -1 and 1. */
static void fill(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

/* Pages of a cache, filled in disorder through the op that stores rows. */
static ig_tensor *make_pages(ig_ctx *ctx, ig_dtype type, uint32_t seed) {
    static float rows[PAGES * PAGE * GROUPS * WIDTH];
    static int32_t index[PAGES * PAGE];
    ig_tensor *pages = NULL;
    must(ig_tensor_create(ctx, (ig_desc){type, IG_SHAPE(PAGES * PAGE, GROUPS, WIDTH)}, &pages));
    fill(rows, sizeof rows / sizeof rows[0], seed);
    for (int32_t i = 0; i < PAGES * PAGE; i++) index[i] = i;
    ig_tensor *x = floats(ctx, IG_SHAPE(PAGES * PAGE, GROUPS, WIDTH), rows);
    ig_tensor *at = ints(ctx, IG_SHAPE(PAGES * PAGE), index);
    must(ig_store_rows(pages, x, at));
    ig_tensor_release(x);
    ig_tensor_release(at);
    return pages;
}

/* Rows [first, first + count) of a text that they end; `out` [count, heads, width]. */
static void attend(int threads, const cache *c, int first, int count, float *out) {
    static float q[ROWS * HEADS * WIDTH];
    int32_t table[PAGES], sequence[ROWS], position[ROWS];
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = threads}, &ctx));
    fill(q, sizeof q / sizeof q[0], 3);
    for (int i = 0; i < PAGES; i++) table[i] = (i * 7 + 5) % PAGES;
    for (int i = 0; i < count; i++) {
        sequence[i] = 0;
        position[i] = PAGES * PAGE - ROWS - 9 + first + i;
    }
    ig_tensor *k = make_pages(ctx, c->type, 1), *v = make_pages(ctx, c->type, 2);
    const ig_shape shape = IG_SHAPE(PAGES, PAGE, GROUPS, WIDTH);
    ig_tensor *rows = floats(ctx, IG_SHAPE(count, HEADS, WIDTH), q + first * HEADS * WIDTH);
    const ig_paged paged = {.k_pages = ig_reshape(k, shape),
                            .v_pages = ig_reshape(v, shape),
                            .page_table = ints(ctx, IG_SHAPE(1, PAGES), table),
                            .row_seq = ints(ctx, IG_SHAPE(count), sequence),
                            .row_pos = ints(ctx, IG_SHAPE(count), position),
                            .window = c->window};
    ig_tensor *y = ig_attention_paged(rows, paged, 0);
    must(ig_tensor_read(y, out, (size_t)(count * HEADS * WIDTH) * sizeof *out));
    ig_tensor *made[] = {k, v, rows, paged.page_table, paged.row_seq, paged.row_pos};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) ig_tensor_release(made[i]);
    ig_ctx_destroy(ctx);
}

static void rows_do_not_depend_on_their_neighbours_or_on_threads(void **state) {
    (void)state;
    static const cache caches[] = {{"f32", IG_F32, 0},
                                   {"f16", IG_F16, 0},
                                   {"q8_0", IG_Q8_0, 0},
                                   {"f16, a window", IG_F16, 600}};
    static float want[ROWS * HEADS * WIDTH], got[ROWS * HEADS * WIDTH];
    static const int sizes[] = {1, 5, 16, 23};
    for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++) {
        attend(1, &caches[c], 0, ROWS, want);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int threads = 1; threads <= 3; threads += 2) {
                const int first = 40, each = HEADS * WIDTH;
                attend(threads, &caches[c], first, sizes[s], got);
                if (memcmp(got, want + first * each, (size_t)(sizes[s] * each) * sizeof *got) != 0)
                    fail_msg("%s: %d rows on %d threads", caches[c].name, sizes[s], threads);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_their_neighbours_or_on_threads),
    };
    return cmocka_run_group_tests_name("paged", tests, NULL, NULL);
}
