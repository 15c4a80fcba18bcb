/*
 * The execution engine. Each function computes one op in float, on F32 in the device's memory; a
 * thread takes rows, or output tiles of a matmul, by its index.
 */
#include <math.h>

#include "backend/simnpu/npu.h"

static const char *address(const npu_program *p, const npu_operand *o) {
    if (o->packed_in) return p->artifact->data + sizeof(npu_header) + o->offset;
    const ig_backend_buffer *b = p->buffers[o->buffer];
    return b ? b->data + o->offset : NULL;
}

static const float *input(const npu_program *p, const npu_action *a, uint32_t i) {
    return (const float *)address(p, &a->in[i]);
}

static float *output(const npu_program *p, const npu_action *a) {
    return (float *)(uintptr_t)address(p, &a->out);
}

static int64_t columns_of(const npu_action *a) { return a->shape.dim[a->shape.rank - 1]; }

static int64_t rows_of(const npu_action *a) {
    int64_t rows = 1;
    for (int d = 0; d < a->shape.rank - 1; d++) rows *= a->shape.dim[d];
    return rows;
}

/* The offset of an operand's row, in elements. */
static int64_t row_at(const npu_action *a, const npu_operand *o, int64_t row) {
    int64_t at = 0;
    for (int d = a->shape.rank - 2; d >= 0; d--) {
        at += row % a->shape.dim[d] * o->stride[d];
        row /= a->shape.dim[d];
    }
    return at;
}

/* ---- element by element ---- */

static float gelu(float x, bool by_tanh) {
    if (!by_tanh) return 0.5f * x * erfcf(-x * 0.70710678f);
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

static float activate(uint32_t activation, float x) {
    switch (activation) {
    case IG_ACTIVATION_RELU: return x > 0 ? x : x != x ? x : 0;
    case IG_ACTIVATION_TANH: return tanhf(x);
    case IG_ACTIVATION_SIGMOID: return sigmoid(x);
    case IG_ACTIVATION_SILU: return x * sigmoid(x);
    case IG_ACTIVATION_GELU_ERF: return gelu(x, false);
    case IG_ACTIVATION_GELU_TANH: return gelu(x, true);
    default: return x;
    }
}

static float one(const npu_action *a, float x, float y) {
    ig_attrs_scale scale;
    ig_attrs_gelu form;
    switch (a->op) {
    case IG_OP_ADD: return x + y;
    case IG_OP_SUB: return x - y;
    case IG_OP_MUL: return x * y;
    case IG_OP_SCALE:
        memcpy(&scale, a->attrs, sizeof scale);
        return (float)scale.scale * x + (float)scale.shift;
    case IG_OP_GELU:
        memcpy(&form, a->attrs, sizeof form);
        return gelu(x, form.form == IG_GELU_TANH);
    case IG_OP_RELU: return activate(IG_ACTIVATION_RELU, x);
    case IG_OP_TANH: return tanhf(x);
    case IG_OP_SIGMOID: return sigmoid(x);
    case IG_OP_SILU: return x * sigmoid(x);
    default: return x; /* copy */
    }
}

static void run_elements(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts) {
    const int64_t n = columns_of(a), last = a->shape.rank - 1;
    const uint32_t second = a->n_in > 1 ? 1 : 0;
    const int64_t step_x = a->in[0].stride[last], step_y = a->in[second].stride[last];
    for (int64_t row = part; row < rows_of(a); row += parts) {
        const float *x = input(p, a, 0) + row_at(a, &a->in[0], row);
        const float *y = input(p, a, second) + row_at(a, &a->in[second], row);
        float *out = output(p, a) + row * n;
        for (int64_t i = 0; i < n; i++) out[i] = one(a, x[i * step_x], y[i * step_y]);
    }
}

/* ---- along rows ---- */

static void run_softmax(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts) {
    const int64_t n = columns_of(a);
    for (int64_t row = part; row < rows_of(a); row += parts) {
        const float *x = input(p, a, 0) + row * n;
        float *y = output(p, a) + row * n, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, x[i]);
        for (int64_t i = 0; i < n; i++) sum += y[i] = expf(x[i] - most);
        for (int64_t i = 0; i < n; i++) y[i] /= sum;
    }
}

static void run_norm(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts) {
    const int64_t n = columns_of(a);
    const float *w = a->n_in > 1 ? input(p, a, 1) : NULL, *b = a->n_in > 2 ? input(p, a, 2) : NULL;
    ig_attrs_norm attrs;
    memcpy(&attrs, a->attrs, sizeof attrs);
    for (int64_t row = part; row < rows_of(a); row += parts) {
        const float *x = input(p, a, 0) + row * n;
        float *y = output(p, a) + row * n;
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < n && a->op == IG_OP_LAYER_NORM; i++)
            mean += (double)x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double scale = 1 / sqrt(squares / (double)n + (double)attrs.eps);
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)(((double)x[i] - mean) * scale) * (w ? w[i] : 1) + (b ? b[i] : 0);
    }
}

/* ---- products ---- */

/* Accumulates one row over one tile: out[lane] += x[k] w[k][lane], k ascending. */
static void sum_tile(npu_precision precision, const float *x, int64_t k, const char *tile,
                     float out[NPU_LANES]) {
    const uint16_t *w = (const uint16_t *)tile;
    const int8_t *q = (const int8_t *)tile + NPU_LANES * sizeof(float);
    const int planes = precision == NPU_F32 ? 3 : precision == NPU_F16 ? 2 : 1;
    for (int l = 0; l < NPU_LANES; l++) out[l] = 0;
    for (int64_t i = 0; i < k; i++, w += planes * NPU_LANES, q += NPU_LANES) {
        const float a = precision == NPU_F32   ? x[i]
                        : precision == NPU_F16 ? npu_half(x[i])
                                               : npu_widen(npu_round(x[i]));
        for (int l = 0; l < NPU_LANES; l++) {
            float b;
            if (precision == NPU_INT8)
                b = (float)q[l];
            else if (precision == NPU_BF16)
                b = npu_widen(w[l]);
            else if (precision == NPU_F16)
                b = npu_widen(w[l]) + npu_widen(w[l + NPU_LANES]);
            else
                b = npu_widen(w[l]) +
                    (npu_widen(w[l + NPU_LANES]) + npu_widen(w[l + 2 * NPU_LANES]));
            out[l] += a * b;
        }
    }
    for (int l = 0; l < NPU_LANES && precision == NPU_INT8; l++) out[l] *= ((const float *)tile)[l];
}

static void run_product(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts) {
    const int64_t n = columns_of(a), k = a->inner, tiles = (n + NPU_LANES - 1) / NPU_LANES;
    const uint64_t tile_bytes = npu_packed_bytes(p->precision, k, NPU_LANES);
    const float *bias = a->n_in > 2 ? input(p, a, 2) : NULL;
    const char *w = address(p, &a->in[1]);
    ig_attrs_matmul attrs;
    memcpy(&attrs, a->attrs, sizeof attrs);
    for (int64_t t = part; t < tiles; t += parts)
        for (int64_t row = 0; row < rows_of(a); row++) {
            float sums[NPU_LANES];
            sum_tile(p->precision, input(p, a, 0) + row_at(a, &a->in[0], row), k,
                     w + (uint64_t)t * tile_bytes, sums);
            const int64_t first = t * NPU_LANES, left = n - first;
            float *y = output(p, a) + row * n + first;
            for (int64_t l = 0; l < (left < NPU_LANES ? left : NPU_LANES); l++)
                y[l] = activate(attrs.activation, sums[l] + (bias ? bias[first + l] : 0));
        }
}

/* ---- tables ---- */

static void run_table(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts) {
    const int64_t n = columns_of(a);
    const float *table = input(p, a, 0);
    const int32_t *ids = (const int32_t *)input(p, a, 1);
    for (int64_t row = part; row < rows_of(a); row += parts) {
        const int64_t id = ids[row];
        float *y = output(p, a) + row * n;
        for (int64_t i = 0; i < n; i++) y[i] = id >= 0 && id < a->inner ? table[id * n + i] : NAN;
    }
}

npu_run_fn *npu_find(uint32_t op) {
    static npu_run_fn *const table[IG_OP_COUNT] = {
        [IG_OP_ADD] = run_elements,    [IG_OP_SUB] = run_elements,
        [IG_OP_MUL] = run_elements,    [IG_OP_SCALE] = run_elements,
        [IG_OP_TANH] = run_elements,   [IG_OP_SIGMOID] = run_elements,
        [IG_OP_RELU] = run_elements,   [IG_OP_GELU] = run_elements,
        [IG_OP_SILU] = run_elements,   [IG_OP_COPY] = run_elements,
        [IG_OP_SOFTMAX] = run_softmax, [IG_OP_RMS_NORM] = run_norm,
        [IG_OP_LAYER_NORM] = run_norm, [IG_OP_MATMUL] = run_product,
        [IG_OP_EMBEDDING] = run_table,
    };
    return op < IG_OP_COUNT ? table[op] : NULL;
}
