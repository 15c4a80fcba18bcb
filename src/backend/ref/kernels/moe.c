/* MoE: routing, grouping rows by expert, grouped matmul, and combining. */
#include <math.h>

#include "backend/ref/real.h"
#include "backend/ref/weights.h"

static void put_index(const ig_ref_view *v, int64_t i, int64_t x) {
    ((int32_t *)v->at)[ig_ref_place(v, i)] = (int32_t)x;
}

/* ---- route: logits [t, e] -> ids [t, k], weights [t, k] ---- */

static bool is_chosen(const ig_ref_launch *l, int64_t first, int64_t count, int64_t expert) {
    for (int64_t j = 0; j < count; j++)
        if (get_index(&l->out[0], first + j) == expert) return true;
    return false;
}

/* The largest logit not chosen yet; NaN last, ties to the lower id. */
static int64_t next_expert(const ig_ref_launch *l, int64_t row, int64_t count) {
    const int64_t e = columns_of(&l->in[0]), k = l->attrs.route.top_k;
    int64_t best = -1;
    for (int64_t i = 0; i < e; i++) {
        if (is_chosen(l, row * k, count, i)) continue;
        const double x = get(&l->in[0], row * e + i);
        const double most = best < 0 ? (double)NAN : get(&l->in[0], row * e + best);
        if (best < 0 || x > most || (isnan(most) && !isnan(x))) best = i;
    }
    return best;
}

static void route_row(const ig_ref_launch *l, int64_t row) {
    const int64_t e = columns_of(&l->in[0]), k = l->attrs.route.top_k;
    for (int64_t j = 0; j < k; j++) put_index(&l->out[0], row * k + j, next_expert(l, row, j));

    const double largest = get(&l->in[0], row * e + get_index(&l->out[0], row * k));
    double sum = 0;
    for (int64_t i = 0; i < e; i++)
        if (!l->attrs.route.norm_topk || is_chosen(l, row * k, k, i))
            sum += exp(get(&l->in[0], row * e + i) - largest);
    for (int64_t j = 0; j < k; j++) {
        const double x = get(&l->in[0], row * e + get_index(&l->out[0], row * k + j));
        put(&l->out[1], row * k + j, exp(x - largest) / sum);
    }
}

static void route(const ig_ref_launch *l) {
    for (int64_t row = 0; row < l->in[0].shape.dim[0]; row++) route_row(l, row);
}

/* ids [t, k] -> rows [s], places [t, k], offsets [e + 1] */
static void group_rows(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->in[0].shape), k = columns_of(&l->in[0]);
    const int64_t experts = l->out[2].shape.dim[0] - 1;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) put_index(&l->out[1], i, -1);
    for (int64_t expert = 0; expert < experts; expert++) {
        put_index(&l->out[2], expert, at);
        for (int64_t i = 0; i < n; i++) {
            if (get_index(&l->in[0], i) != expert) continue;
            put_index(&l->out[1], i, at);
            put_index(&l->out[0], at++, i / k);
        }
    }
    put_index(&l->out[2], experts, at);
    for (; at < n; at++) put_index(&l->out[0], at, -1);
}

/* ---- products ---- */

/* The expert whose range [offsets[i], offsets[i + 1]) has the row; decreasing ranges are empty;
 * -1: none. */
static int64_t expert_of(const ig_ref_view *offsets, int64_t row) {
    const int64_t experts = offsets->shape.dim[0] - 1;
    int64_t begin = get_index(offsets, 0);
    for (int64_t i = 0; i < experts; i++) {
        const int64_t end = get_index(offsets, i + 1);
        if (row >= begin && row < end) return i;
        if (end > begin) begin = end;
    }
    return -1;
}

static double weight(ig_ref_weights *w, int64_t i) {
    return w->view->dtype == IG_REF_DTYPE ? get(w->view, i) : ig_ref_weight(w, i);
}

/* x [s, k], w [e, k, n] or [e, n, k], offsets [e + 1] -> [s, n] */
static void matmul_grouped(const ig_ref_launch *l) {
    const int64_t rows = l->out[0].shape.dim[0], n = columns_of(&l->out[0]);
    const int64_t k = columns_of(&l->in[0]);
    const bool transposed = l->attrs.grouped.transpose_w;
    ig_ref_weights w = ig_ref_weights_of(&l->in[1]);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t expert = expert_of(&l->in[2], i);
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k && expert >= 0; p++)
                sum += get(&l->in[0], i * k + p) *
                       weight(&w, expert * n * k + (transposed ? j * k + p : p * n + j));
            put(&l->out[0], i * n + j, sum);
        }
    }
}

/* x [s, k], dy [s, n], offsets [e + 1] -> [e, n, k] */
static void matmul_grouped_grad(const ig_ref_launch *l) {
    const int64_t rows = l->in[0].shape.dim[0], k = columns_of(&l->in[0]);
    const int64_t n = columns_of(&l->in[1]), count = ig_shape_count(l->out[0].shape);
    for (int64_t e = 0; e < count; e++) {
        const int64_t expert = e / k / n, j = e / k % n;
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            if (expert_of(&l->in[2], i) == expert)
                sum += get(&l->in[1], i * n + j) * get(&l->in[0], i * k + e % k);
        put(&l->out[0], e, sum);
    }
}

/* y [s, n], places [t, k], weights [t, k] -> [t, n] */
static void combine(const ig_ref_launch *l) {
    const int64_t s = l->in[0].shape.dim[0], n = columns_of(&l->in[0]);
    const int64_t k = columns_of(&l->in[1]), count = ig_shape_count(l->out[0].shape);
    for (int64_t e = 0; e < count; e++) {
        double sum = 0;
        for (int64_t j = 0; j < k; j++) {
            const int64_t slot = e / n * k + j, place = get_index(&l->in[1], slot);
            if (place >= 0 && place < s)
                sum += get(&l->in[2], slot) * get(&l->in[0], place * n + e % n);
        }
        put(&l->out[0], e, sum);
    }
}

const ig_ref_entry IG_REF_LIST(moe)[] = {
    {IG_OP_ROUTE, IG_REF_DTYPE, "r", "ir", route},
    {IG_OP_GROUP_ROWS, IG_REF_DTYPE, "i", "iii", group_rows},
    {IG_OP_MATMUL_GROUPED, IG_REF_DTYPE, "rri", "r", matmul_grouped},
    {IG_OP_MATMUL_GROUPED, IG_REF_DTYPE, "rwi", "r", matmul_grouped},
    {IG_OP_MATMUL_GROUPED_GRAD, IG_REF_DTYPE, "rri", "r", matmul_grouped_grad},
    {IG_OP_COMBINE, IG_REF_DTYPE, "rir", "r", combine},
    {0},
};
