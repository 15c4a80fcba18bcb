/*
 * In-place updates: each result aliases the input it replaces, so all inputs of an element are read
 * before its results are written.
 */
#include <math.h>

#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"

static void assign(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) ig_ref_copy(&l->out[0], i, &l->in[1], i);
}

static void accumulate(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) put(&l->out[0], i, get(&l->in[0], i) + get(&l->in[1], i));
}

/*
 * weight, gradient, mean, variance -> weight, mean, variance; Loshchilov and Hutter's AdamW:
 *     m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
 *     w = (1 - lr decay) w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 */
static void adamw(const ig_ref_launch *l) {
    const ig_attrs_adamw a = l->attrs.adamw;
    const double b1 = (double)a.beta1, b2 = (double)a.beta2;
    const double rate = l->slots[a.lr_slot].f, t = (double)l->slots[a.step_slot].i;
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const double g = get(&l->in[1], i);
        const double m = b1 * get(&l->in[2], i) + (1 - b1) * g;
        const double v = b2 * get(&l->in[3], i) + (1 - b2) * g * g;
        const double w = get(&l->in[0], i) * (1 - rate * (double)a.weight_decay);
        const double step = m / (1 - pow(b1, t)) / (sqrt(v / (1 - pow(b2, t))) + (double)a.eps);
        put(&l->out[0], i, w - rate * step);
        put(&l->out[1], i, m);
        put(&l->out[2], i, v);
    }
}

/*
 * weight, gradient, momentum or none -> weight, momentum or none; as in PyTorch:
 *     g = g + decay w,   m = momentum m + g
 *     w = w - lr (g + momentum m with nesterov, else m;  without momentum, g)
 */
static void sgd(const ig_ref_launch *l) {
    const ig_attrs_sgd a = l->attrs.sgd;
    const double rate = l->slots[a.lr_slot].f, momentum = (double)a.momentum;
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const double w = get(&l->in[0], i), g = get(&l->in[1], i) + (double)a.weight_decay * w;
        double step = g;
        if (l->n_in > 2) {
            const double m = momentum * get(&l->in[2], i) + g;
            put(&l->out[1], i, m);
            step = a.nesterov ? g + momentum * m : m;
        }
        put(&l->out[0], i, w - rate * step);
    }
}

/* gradient, global norm -> gradient min(1, limit / (norm + 1e-6)); a NaN norm propagates. */
static void clip(const ig_ref_launch *l) {
    double factor = (double)l->attrs.clip.limit / (get(&l->in[1], 0) + 1e-6);
    if (factor > 1) factor = 1;
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) put(&l->out[0], i, get(&l->in[0], i) * factor);
}

const ig_ref_entry IG_REF_LIST(update)[] = {
    {IG_OP_ASSIGN, IG_REF_DTYPE, "ss", "s", assign},
    {IG_OP_ACCUMULATE, IG_REF_DTYPE, "rr", "r", accumulate},
    {IG_OP_ADAMW, IG_REF_DTYPE, "rrrr", "rrr", adamw},
    {IG_OP_SGD, IG_REF_DTYPE, "rrr", "rr", sgd},
    {IG_OP_CLIP, IG_REF_DTYPE, "rr", "r", clip},
    {0},
};
