/* A cache of keys and values in pages of 64 positions: rows stored into it, attention that reads
 * it. */
#include <math.h>

#include "backend/ref/real.h"

/* Where position `at` of a sequence lies, as a row of [p 64]; -1: nowhere. */
static int64_t paged_row(const ig_ref_launch *l, int64_t sequence, int64_t at) {
    const ig_ref_view *table = &l->in[3];
    const int64_t sequences = table->shape.dim[0], pages = table->shape.dim[1];
    if (sequence < 0 || sequence >= sequences || at / IG_PAGE_ROWS >= pages) return -1;
    const int64_t page = get_index(table, sequence * pages + at / IG_PAGE_ROWS);
    if (page < 0 || page >= l->in[1].shape.dim[0]) return -1;
    return page * IG_PAGE_ROWS + at % IG_PAGE_ROWS;
}

/* Positions that a row sees: its own and those before, up to the first that lies nowhere. */
static int64_t paged_keys(const ig_ref_launch *l, int64_t row) {
    const int64_t sequence = get_index(&l->in[4], row), last = get_index(&l->in[5], row);
    int64_t keys = 0;
    while (keys <= last && paged_row(l, sequence, keys) >= 0) keys++;
    return keys;
}

static void attention_paged(const ig_ref_launch *l) {
    const int64_t *q = l->in[0].shape.dim, *v = l->in[2].shape.dim;
    const int64_t h = q[1], d = q[2], g = v[2], e = v[3];
    const ig_attrs_attention a = l->attrs.attention;
    const double scale = a.scale == 0 ? 1 / sqrt((double)d) : (double)a.scale;
    for (int64_t i = 0; i < q[0] * h; i++) {
        const int64_t row = i / h, group = i % h / (h / g), keys = paged_keys(l, row);
        const int64_t sequence = get_index(&l->in[4], row);
        double largest = -(double)INFINITY, sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t key = 0; key < keys; key++) {
                const int64_t at = (paged_row(l, sequence, key) * g + group) * d;
                double score = 0;
                for (int64_t c = 0; c < d; c++)
                    score += get(&l->in[0], i * d + c) * get(&l->in[1], at + c);
                if (pass == 0)
                    largest = fmax(largest, score * scale);
                else
                    sum += exp(score * scale - largest);
            }
        for (int64_t c = 0; c < e; c++) {
            double out = 0;
            for (int64_t key = 0; key < keys; key++) {
                const int64_t at = paged_row(l, sequence, key) * g + group;
                double score = 0;
                for (int64_t x = 0; x < d; x++)
                    score += get(&l->in[0], i * d + x) * get(&l->in[1], at * d + x);
                out += exp(score * scale - largest) / sum * get(&l->in[2], at * e + c);
            }
            put(&l->out[0], i * e + c, out);
        }
    }
}

/* dst, rows, index: row index[i] becomes rows[i] */
static void store_rows(const ig_ref_launch *l) {
    const int64_t n = l->out[0].shape.dim[0], r = l->in[1].shape.dim[0];
    const int64_t width = r > 0 ? ig_shape_count(l->in[1].shape) / r : 0;
    for (int64_t i = 0; i < r; i++) {
        const int64_t to = get_index(&l->in[2], i);
        for (int64_t c = 0; c < width && to >= 0 && to < n; c++)
            put(&l->out[0], to * width + c, get(&l->in[1], i * width + c));
    }
}

const ig_ref_entry IG_REF_LIST(paged)[] = {
    {IG_OP_ATTENTION_PAGED, IG_REF_DTYPE, "rrriii", "r", attention_paged},
    {IG_OP_STORE_ROWS, IG_REF_DTYPE, "rri", "r", store_rows},
    {0},
};
