/*
 * store_rows: row index[i] of a tensor becomes rows[i], converted to the tensor's dtype.  It writes
 * keys and values to the KV cache.
 */
#include <math.h>

#include "backend/cpu/strided.h"
#include "base/f16.h"
#include "base/quant_blocks.h"
#include "ingot/blocks.h"

typedef void store_fn(const float *x, char *dst, int64_t n);

static void store_f32(const float *x, char *dst, int64_t n) {
    memcpy(dst, x, (size_t)n * sizeof *x);
}

static void store_f16(const float *x, char *dst, int64_t n) {
    uint16_t *h = (uint16_t *)dst;
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) vf_store_f16(h + i, vf_load(x + i));
    for (; i < n; i++) h[i] = ig_f32_to_f16(x[i]);
}

static void store_bf16(const float *x, char *dst, int64_t n) {
    uint16_t *h = (uint16_t *)dst;
    for (int64_t i = 0; i < n; i++) h[i] = ig_f32_to_bf16(x[i]);
}

/* As ig_blocks_quantize_q8_0, in loops that become vectors.  Adding the float below a half rounds
 * to nearest, ties away from 0, when the rest is cut off. */
static void store_q8_0(const float *x, char *dst, int64_t n) {
    for (; n > 0; n -= IG_BLOCK, x += IG_BLOCK, dst += sizeof(ig_block_q8_0)) {
        ig_block_q8_0 *b = (ig_block_q8_0 *)dst;
        int32_t largest = 0;
        for (int i = 0; i < IG_BLOCK; i++) {
            const int32_t bits = (int32_t)(ig_bits_of_float(x[i]) & 0x7fffffff);
            largest = bits > largest ? bits : largest;
        }
        const bool finite = largest < 0x7f800000;
        const float d = finite ? ig_float_of_bits((uint32_t)largest) / 127 : NAN;
        const float inverse = d > 0 ? 1 / d : 0;
        int8_t q[IG_BLOCK] = {0};
        for (int i = 0; finite && i < IG_BLOCK; i++) {
            const float scaled = x[i] * inverse;
            q[i] = (int8_t)(int32_t)(scaled + copysignf(0x1.fffffep-2f, scaled));
        }
        b->d = ig_f32_to_f16(d);
        memcpy(b->q, q, sizeof q);
    }
}

static store_fn *store_of(ig_dtype dtype) {
    switch (dtype) {
    case IG_F32: return store_f32;
    case IG_F16: return store_f16;
    case IG_BF16: return store_bf16;
    case IG_Q8_0: return store_q8_0;
    default: return NULL;
    }
}

typedef struct store_params {
    int64_t n, r, width, row_bytes;
    store_fn *store;
} store_params;

static bool store_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *dst = &step->in[0], *rows = &step->in[1];
    store_params p = {.n = dst->desc.shape.dim[0], .r = rows->desc.shape.dim[0]};
    p.store = store_of(dst->desc.dtype);
    if (!p.store || rows->desc.dtype != IG_F32 || step->in[2].desc.dtype != IG_I32) return false;
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!ig_operand_is_packed(&step->in[i])) return false;
    if (p.r > 0) p.width = ig_shape_count(rows->desc.shape) / p.r;
    p.row_bytes = ig_bytes_of(dst->desc.dtype, p.width);
    out->units = 1; /* two rows may have the same index: the later one wins */
    out->cost = sat_mul(p.r, p.width);
    return keep_params(out, &p, sizeof p);
}

static void store_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const store_params *p = l->params;
    const int32_t *index = (const int32_t *)l->at[2];
    for (int64_t i = 0; begin < end && i < p->r; i++)
        if (index[i] >= 0 && index[i] < p->n)
            p->store((const float *)l->at[1] + i * p->width, l->at[3] + index[i] * p->row_bytes,
                     p->width);
}

const ig_cpu_entry IG_CPU_LIST(store)[] = {
    {IG_OP_STORE_ROWS, IG_F32, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_F16, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_BF16, BY_UNIT, store_setup, store_rows},
    {IG_OP_STORE_ROWS, IG_Q8_0, BY_UNIT, store_setup, store_rows},
    {0},
};
