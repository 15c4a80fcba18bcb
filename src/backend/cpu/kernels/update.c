/*
 * Updates in place: each result aliases the input that it replaces, with its strides.  All operands
 * of an element are read before any is written.
 */
#include "backend/cpu/strided.h"

typedef struct params {
    strided_loop loop;
    union {
        ig_attrs_adamw adamw;
        ig_attrs_sgd sgd;
        ig_attrs_clip clip;
    } attrs;
    int64_t bytes;     /* of an element */
    bool has_momentum; /* of sgd */
} params;

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_dtype dtype = step->in[0].desc.dtype;
    params p = {.bytes = dtype_bytes(dtype), .has_momentum = step->n_in > 2};
    ig_step_attrs(step, &p.attrs, sizeof p.attrs);
    if (!operands_are(step, 0, dtype) || !strided_loop_over_step(step, &p.loop)) return false;
    out->cost = 2 * (int64_t)step->n_in;
    return keep_params(out, &p, sizeof p);
}

/* The norm is a scalar outside the loop. */
static bool clip_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *in = &step->in[0], *to = &step->out[0];
    params p = {.bytes = dtype_bytes(IG_F32)};
    ig_step_attrs(step, &p.attrs, sizeof p.attrs);
    if (!operands_are(step, 0, IG_F32) || !ig_shape_equal(in->desc.shape, to->desc.shape))
        return false;
    p.loop = strided_loop_make(in->desc.shape, (const int64_t *[]){in->stride, to->stride}, 2);
    return keep_params(out, &p, sizeof p);
}

/* dst, src -> dst */
static void assign(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const int last = g->rank - 1;
    strided_run r;
    for (strided_run_first(g, 3, begin, end, &r); r.n > 0; strided_run_next(g, 3, &r))
        copy_strided(l->at[2] + r.at[2] * p->bytes, g->stride[2][last],
                     l->at[1] + r.at[1] * p->bytes, g->stride[1][last], r.n, p->bytes);
}

/* A strided run: every operand, with its stride. */
typedef struct span {
    float *at[STRIDED_OPERANDS];
    int64_t stride[STRIDED_OPERANDS];
} span;

IG_INLINE vf get(const span *s, int k, int64_t i, int64_t n) {
    return vf_take(s->at[k] + i * s->stride[k], s->stride[k], n);
}

IG_INLINE void put(const span *s, int k, int64_t i, int64_t n, vf x) {
    vf_give(s->at[k] + i * s->stride[k], s->stride[k], x, n);
}

/* Computes elements [i, i + n), n <= VF_LANES, with constants c. */
typedef void update_fn(const span *s, int64_t i, int64_t n, const vf *c);

IG_INLINE void update_span(span s, int64_t n, update_fn *f, const vf *c) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) f(&s, i, VF_LANES, c);
    if (i < n) f(&s, i, n - i, c);
}

/* Walks the operands together; the packed case is compiled separately. */
IG_INLINE void update(const ig_cpu_launch *l, int64_t begin, int64_t end, const int operands,
                      update_fn *f, const vf *c) {
    const strided_loop *g = &((const params *)l->params)->loop;
    bool packed = true;
    for (int k = 0; k < operands; k++) packed &= g->stride[k][g->rank - 1] == 1;
    strided_run r;
    for (strided_run_first(g, operands, begin, end, &r); r.n > 0;
         strided_run_next(g, operands, &r)) {
        span s;
        for (int k = 0; k < operands; k++) {
            s.at[k] = (float *)l->at[k] + r.at[k];
            s.stride[k] = g->stride[k][g->rank - 1];
        }
        if (packed) {
            for (int k = 0; k < operands; k++) s.stride[k] = 1;
            update_span(s, r.n, f, c);
        } else {
            update_span(s, r.n, f, c);
        }
    }
}

/* dst, src -> dst + src */
IG_INLINE void accumulate_lanes(const span *s, int64_t i, int64_t n, const vf *c) {
    (void)c;
    put(s, 2, i, n, vf_add(get(s, 0, i, n), get(s, 1, i, n)));
}

static void accumulate(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    update(l, begin, end, 3, accumulate_lanes, NULL);
}

/* x^n for n >= 0, the same on every machine. */
static double power(double x, int64_t n) {
    double y = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2 == 1) y *= x;
    return y;
}

/*
 * weight, gradient, mean, variance -> weight, mean, variance; Loshchilov and Hutter's AdamW:
 *     m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
 *     w = (1 - lr decay) w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 */
enum { KEEP_W, KEEP_M, NEW_M, KEEP_V, NEW_V, WIDEN_V, EPS, LR, ADAMW_CONSTANTS };

IG_INLINE void adamw_lanes(const span *s, int64_t i, int64_t n, const vf *c) {
    const vf g = get(s, 1, i, n);
    const vf m = vf_fma(c[KEEP_M], get(s, 2, i, n), vf_mul(c[NEW_M], g));
    const vf v = vf_fma(c[KEEP_V], get(s, 3, i, n), vf_mul(c[NEW_V], vf_mul(g, g)));
    const vf spread = vf_add(vf_sqrt(vf_mul(v, c[WIDEN_V])), c[EPS]);
    const vf w = vf_mul(get(s, 0, i, n), c[KEEP_W]);
    put(s, 4, i, n, vf_sub(w, vf_div(vf_mul(c[LR], m), spread)));
    put(s, 5, i, n, m);
    put(s, 6, i, n, v);
}

static void adamw(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const ig_attrs_adamw a = ((const params *)l->params)->attrs.adamw;
    const double b1 = (double)a.beta1, b2 = (double)a.beta2, lr = l->slots[a.lr_slot].f;
    const int64_t t = l->slots[a.step_slot].i;
    vf c[ADAMW_CONSTANTS];
    c[KEEP_W] = vf_set((float)(1 - lr * (double)a.weight_decay));
    c[KEEP_M] = vf_set(a.beta1);
    c[NEW_M] = vf_set((float)(1 - b1));
    c[KEEP_V] = vf_set(a.beta2);
    c[NEW_V] = vf_set((float)(1 - b2));
    c[WIDEN_V] = vf_set((float)(1 / (1 - power(b2, t))));
    c[EPS] = vf_set(a.eps);
    c[LR] = vf_set((float)(lr / (1 - power(b1, t))));
    update(l, begin, end, 7, adamw_lanes, c);
}

/*
 * weight, gradient, momentum or none -> weight, momentum or none; as PyTorch has it:
 *     g = g + decay w,   m = momentum m + g
 *     w = w - lr (g + momentum m with nesterov, else m;  without momentum, g)
 */
enum { DECAY, MOMENTUM, SGD_RATE, SGD_CONSTANTS };

IG_INLINE vf decayed_grad(const span *s, int64_t i, int64_t n, const vf *c) {
    return vf_add(get(s, 1, i, n), vf_mul(c[DECAY], get(s, 0, i, n)));
}

IG_INLINE void sgd_put_weight(const span *s, int k, int64_t i, int64_t n, vf step, const vf *c) {
    put(s, k, i, n, vf_sub(get(s, 0, i, n), vf_mul(c[SGD_RATE], step)));
}

IG_INLINE void sgd_lanes(const span *s, int64_t i, int64_t n, const vf *c) {
    sgd_put_weight(s, 2, i, n, decayed_grad(s, i, n, c), c);
}

IG_INLINE void momentum_lanes(const span *s, int64_t i, int64_t n, const vf *c) {
    const vf m = vf_fma(c[MOMENTUM], get(s, 2, i, n), decayed_grad(s, i, n, c));
    sgd_put_weight(s, 3, i, n, m, c);
    put(s, 4, i, n, m);
}

IG_INLINE void nesterov_lanes(const span *s, int64_t i, int64_t n, const vf *c) {
    const vf g = decayed_grad(s, i, n, c), m = vf_fma(c[MOMENTUM], get(s, 2, i, n), g);
    sgd_put_weight(s, 3, i, n, vf_fma(c[MOMENTUM], m, g), c);
    put(s, 4, i, n, m);
}

static void sgd(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const ig_attrs_sgd a = p->attrs.sgd;
    vf c[SGD_CONSTANTS];
    c[DECAY] = vf_set(a.weight_decay);
    c[MOMENTUM] = vf_set(a.momentum);
    c[SGD_RATE] = vf_set((float)l->slots[a.lr_slot].f);
    if (!p->has_momentum)
        update(l, begin, end, 3, sgd_lanes, c);
    else if (a.nesterov)
        update(l, begin, end, 5, nesterov_lanes, c);
    else
        update(l, begin, end, 5, momentum_lanes, c);
}

/* gradient, global norm -> gradient min(1, limit / (norm + 1e-6)); a NaN norm gives NaN. */
static void clip(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const double norm = (double)*(const float *)l->at[1];
    const double ratio = (double)p->attrs.clip.limit / (norm + 1e-6);
    const vf factor = vf_set(ratio > 1 ? 1 : (float)ratio);
    const int64_t from = g->stride[0][g->rank - 1], to = g->stride[1][g->rank - 1];
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r)) {
        const float *x = (const float *)l->at[0] + r.at[0];
        float *y = (float *)l->at[2] + r.at[1];
        for (int64_t i = 0; i < r.n; i += VF_LANES) {
            const int64_t n = min_i64(r.n - i, VF_LANES);
            vf_give(y + i * to, to, vf_mul(vf_take(x + i * from, from, n), factor), n);
        }
    }
}

const ig_cpu_entry IG_CPU_LIST(update)[] = {
#define IG_BLOCK_DTYPE(...)
#define IG_DTYPE(ID, name, block, bytes) {IG_OP_ASSIGN, IG_##ID, BY_ELEMENT, setup, assign},
#include "ingot/dtype.def"
    {IG_OP_ACCUMULATE, IG_F32, BY_ELEMENT, setup, accumulate},
    {IG_OP_ADAMW, IG_F32, BY_ELEMENT, setup, adamw},
    {IG_OP_SGD, IG_F32, BY_ELEMENT, setup, sgd},
    {IG_OP_CLIP, IG_F32, BY_ELEMENT, clip_setup, clip},
    {0},
};
