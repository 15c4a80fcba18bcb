/* The ops of ops.h: each turns its arguments into attributes and applies one row of op.def. */
#include "ingot/ops.h"

#include "graph/build.h"
#include "runtime/apply.h"
#include "runtime/record/record.h"
#include "runtime/slots.h"
#include "runtime/tape.h"

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

static ig_tensor *unary(ig_op op, const void *attrs, ig_tensor *x) {
    return ig_apply_one(op, attrs, &x, 1);
}

static ig_tensor *binary(ig_op op, ig_tensor *a, ig_tensor *b) {
    return ig_apply_one(op, NULL, (ig_tensor *[]){a, b}, 2);
}

/* Builders generated from op.def. */
#define BUILD_UNARY(ID, name) \
    ig_tensor *ig_##name(ig_tensor *x) { return unary(IG_OP_##ID, NULL, x); }
#define BUILD_BINARY(ID, name) \
    ig_tensor *ig_##name(ig_tensor *a, ig_tensor *b) { return binary(IG_OP_##ID, a, b); }
#define BUILD_OWN(ID, name)
#define BUILD_NONE(ID, name)
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    BUILD_##build(ID, name)
#include "ingot/op.def"

ig_tensor *ig_scale(ig_tensor *x, double scale, double shift) {
    return unary(IG_OP_SCALE, &(ig_attrs_scale){scale, shift}, x);
}

ig_tensor *ig_gelu(ig_tensor *x, ig_gelu_form form) {
    if ((unsigned)form > IG_GELU_TANH)
        return ig_poisoned(ig_tensor_ctx(x), IG_FAIL(IG_ERR_ARGUMENT, "gelu: form %d", (int)form));
    return unary(IG_OP_GELU, &(ig_attrs_gelu){form}, x);
}

ig_tensor *ig_cast(ig_tensor *x, ig_dtype dtype) {
    return unary(IG_OP_CAST, &(ig_attrs_dtype){dtype}, x);
}

ig_tensor *ig_round_to(ig_tensor *x, ig_dtype dtype) {
    const ig_dtype from = ig_tensor_desc(x).dtype;
    return dtype == from ? x : ig_cast(ig_cast(x, dtype), from);
}

ig_tensor *ig_dropout(ig_tensor *x, double p) {
    ig_ctx *ctx = ig_tensor_ctx(x);
    if (!(p >= 0 && p <= 1))
        return ig_poisoned(ctx, IG_FAIL(IG_ERR_ARGUMENT, "dropout: p is %g; from 0 to 1", p));
    if (!ctx || p == 0) return unary(IG_OP_SCALE, &(ig_attrs_scale){1, 0}, x);
    const uint64_t seed = ig_ctx_seed(ctx);
    const ig_attrs_dropout attrs = {(float)p,
                                    {(uint32_t)seed, (uint32_t)(seed >> 32)},
                                    ig_ctx_tape(ctx)->n_random++,
                                    IG_SLOT_STEP};
    return unary(IG_OP_DROPOUT, &attrs, x);
}

ig_tensor *ig_full(ig_ctx *ctx, ig_desc desc, double value) {
    ig_tensor *one;
    const ig_attrs_fill attrs = {value, desc.dtype, 0};
    ig_apply(ctx, &(ig_apply_args){.op = IG_OP_FILL, .attrs = &attrs}, &one, 1);
    return desc.shape.rank == 0 ? one : ig_broadcast(one, desc.shape);
}

/* ---- shapes ---- */

static int rank_of(const ig_tensor *x) { return ig_tensor_desc(x).shape.rank; }

static int32_t axis_of(const ig_tensor *x, int axis) { return axis < 0 ? axis + rank_of(x) : axis; }

static bool is_usable(const ig_tensor *x) { return x && x->alive == IG_TENSOR_ALIVE && x->storage; }

/* Reports an axis out of range. An invalid tensor is the worse fault: applying the op to it
 * reports that. */
static ig_tensor *without_axis(ig_op op, ig_tensor *x, int axis) {
    static const char zeros[IG_ATTRS_MAX];
    char text[IG_SHAPE_TEXT_BYTES];
    if (!is_usable(x)) return unary(op, zeros, x);
    return ig_poisoned(x->ctx, IG_FAIL(IG_ERR_SHAPE, "%s: axis %d of %s", ig_op_name(op), axis,
                                       ig_shape_text(x->layout.desc.shape, text)));
}

/* Replaces an extent of -1 by the remaining factor of `count` elements. */
static void complete(ig_shape *shape, int64_t count) {
    int64_t known = 1;
    int open = -1;
    for (int d = 0; d < shape->rank && d < IG_MAX_RANK; d++) {
        if (shape->dim[d] == -1 && open < 0)
            open = d;
        else if (__builtin_mul_overflow(known, shape->dim[d], &known))
            return;
    }
    if (open >= 0 && known > 0 && count % known == 0) shape->dim[open] = count / known;
}

ig_tensor *ig_reshape(ig_tensor *x, ig_shape shape) {
    complete(&shape, ig_shape_count(ig_tensor_desc(x).shape));
    const ig_attrs_shape attrs = ig_shape_attrs(shape);
    return unary(IG_OP_RESHAPE, &attrs, x);
}

ig_tensor *ig_broadcast(ig_tensor *x, ig_shape shape) {
    const ig_attrs_shape attrs = ig_shape_attrs(shape);
    return unary(IG_OP_BROADCAST, &attrs, x);
}

ig_tensor *ig_permute(ig_tensor *x, const int *axes, int n_axes) {
    ig_attrs_axes attrs = {{0}};
    char text[IG_SHAPE_TEXT_BYTES];
    if (is_usable(x) && (n_axes != rank_of(x) || (n_axes > 0 && !axes)))
        return ig_poisoned(x->ctx,
                           IG_FAIL(IG_ERR_SHAPE, "permute: %d axes of %s", axes ? n_axes : 0,
                                   ig_shape_text(x->layout.desc.shape, text)));
    for (int d = 0; is_usable(x) && d < n_axes; d++) attrs.axis[d] = axis_of(x, axes[d]);
    return unary(IG_OP_TRANSPOSE, &attrs, x);
}

ig_tensor *ig_transpose(ig_tensor *x, int axis_a, int axis_b) {
    const int rank = rank_of(x), a = axis_of(x, axis_a), b = axis_of(x, axis_b);
    int axes[IG_MAX_RANK] = {0};
    if (a < 0 || a >= rank) return without_axis(IG_OP_TRANSPOSE, x, axis_a);
    if (b < 0 || b >= rank) return without_axis(IG_OP_TRANSPOSE, x, axis_b);
    for (int d = 0; d < rank; d++) axes[d] = d == a ? b : d == b ? a : d;
    return ig_permute(x, axes, rank);
}

ig_tensor *ig_slice(ig_tensor *x, int axis, int64_t begin, int64_t end) {
    return unary(IG_OP_SLICE, &(ig_attrs_slice){begin, end, axis_of(x, axis), 0}, x);
}

ig_tensor *ig_pad(ig_tensor *x, int axis, int64_t before, int64_t after) {
    return unary(IG_OP_PAD, &(ig_attrs_pad){before, after, axis_of(x, axis), 0}, x);
}

ig_tensor *ig_concat(ig_tensor *const *x, int count, int axis) {
    if (!x || count < 1 || count >= IG_VARIADIC) {
        (void)IG_FAIL(IG_ERR_ARGUMENT, "concat: %d tensors", count);
        return ig_null_tensor();
    }
    return ig_apply_one(IG_OP_CONCAT, &(ig_attrs_axis){axis_of(x[0], axis)}, x, (uint32_t)count);
}

ig_tensor *ig_gather(ig_tensor *x, ig_tensor *index, int axis) {
    ig_tensor *in[] = {x, index};
    return ig_apply_one(IG_OP_GATHER, &(ig_attrs_axis){axis_of(x, axis)}, in, COUNT(in));
}

ig_tensor *ig_scatter_add(ig_tensor *x, ig_tensor *index, ig_tensor *src, int axis) {
    ig_tensor *in[] = {x, index, src};
    return ig_apply_one(IG_OP_SCATTER_ADD, &(ig_attrs_axis){axis_of(x, axis)}, in, COUNT(in));
}

/* ---- many to one ---- */

static ig_tensor *reduce(ig_op op, ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep) {
    const int rank = rank_of(x);
    ig_attrs_reduce attrs = {.keep = keep == IG_KEEP_DIM};
    if (n_axes == 0) attrs.axes = (1u << rank) - 1;
    for (int i = 0; i < n_axes; i++) {
        const int32_t axis = axis_of(x, axes[i]);
        if (axis < 0 || axis >= rank) return without_axis(op, x, axes[i]);
        attrs.axes |= 1u << axis;
    }
    return unary(op, &attrs, x);
}

ig_tensor *ig_sum(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep) {
    return reduce(IG_OP_SUM, x, axes, n_axes, keep);
}
ig_tensor *ig_mean(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep) {
    return reduce(IG_OP_MEAN, x, axes, n_axes, keep);
}
ig_tensor *ig_max(ig_tensor *x, const int *axes, int n_axes, ig_keepdim keep) {
    return reduce(IG_OP_MAX, x, axes, n_axes, keep);
}

ig_tensor *ig_argmax(ig_tensor *x, int axis) {
    return unary(IG_OP_ARGMAX, &(ig_attrs_axis){axis_of(x, axis)}, x);
}

/* Kernels work along the last dimension; another axis is moved there and back. */
static ig_tensor *along(ig_op op, ig_tensor *x, int axis) {
    if (axis_of(x, axis) == rank_of(x) - 1) return unary(op, NULL, x);
    return ig_transpose(unary(op, NULL, ig_transpose(x, axis, -1)), axis, -1);
}

ig_tensor *ig_softmax(ig_tensor *x, int axis) { return along(IG_OP_SOFTMAX, x, axis); }
ig_tensor *ig_log_softmax(ig_tensor *x, int axis) { return along(IG_OP_LOG_SOFTMAX, x, axis); }

ig_tensor *ig_cross_entropy(ig_tensor *logits, ig_tensor *targets) {
    return ig_mean(binary(IG_OP_CROSS_ENTROPY, logits, targets), NULL, 0, IG_DROP_DIM);
}

ig_tensor *ig_rms_norm(ig_tensor *x, ig_tensor *w, float eps) {
    return ig_apply_one(IG_OP_RMS_NORM, &(ig_attrs_norm){eps}, (ig_tensor *[]){x, w}, w ? 2 : 1);
}

/* A bias without a weight gets a weight of ones. */
ig_tensor *ig_layer_norm(ig_tensor *x, ig_tensor *w, ig_tensor *b, float eps) {
    if (b && !w) w = ig_full(ig_tensor_ctx(b), ig_tensor_desc(b), 1);
    return ig_apply_one(IG_OP_LAYER_NORM, &(ig_attrs_norm){eps}, (ig_tensor *[]){x, w, b},
                        1 + (w != NULL) + (b != NULL));
}

/* ---- contractions ---- */

ig_tensor *ig_matmul(ig_tensor *a, ig_tensor *b) {
    return ig_matmul_with(a, b, (ig_matmul_options){0});
}

ig_tensor *ig_matmul_with(ig_tensor *a, ig_tensor *b, ig_matmul_options options) {
    const ig_attrs_matmul attrs = {.transpose_a = options.transpose_a,
                                   .transpose_b = options.transpose_b};
    return ig_apply_one(IG_OP_MATMUL, &attrs, (ig_tensor *[]){a, b, options.bias},
                        options.bias ? 3 : 2);
}

ig_tensor *ig_rope(ig_tensor *x, ig_tensor *positions, ig_rope_options options) {
    if (options.rotary_dims < 0 || (unsigned)options.type > IG_ROPE_NEOX)
        return ig_poisoned(ig_tensor_ctx(x), IG_FAIL(IG_ERR_ARGUMENT, "rope: %d dims, form %d",
                                                     options.rotary_dims, (int)options.type));
    const ig_attrs_rope attrs = {options.freq_base == 0 ? 10000 : options.freq_base,
                                 options.freq_scale == 0 ? 1 : options.freq_scale,
                                 (uint32_t)options.rotary_dims,
                                 options.type,
                                 0,
                                 options.mscale};
    return ig_apply_one(IG_OP_ROPE, &attrs, (ig_tensor *[]){x, positions, options.freq_factors},
                        options.freq_factors ? 3 : 2);
}

/* The log-sum-exp is always computed: the gradient needs it. */
ig_tensor *ig_attention(ig_tensor *q, ig_tensor *k, ig_tensor *v, ig_attention_options options) {
    const ig_attrs_attention attrs = {options.scale, options.causal};
    ig_tensor *out, *in[] = {q, k, v};
    ig_apply(
        ig_tensor_ctx(q),
        &(ig_apply_args){.op = IG_OP_ATTENTION, .attrs = &attrs, .in = in, .n_in = 3, .n_out = 2},
        &out, 1);
    return out;
}

ig_tensor *ig_attention_paged(ig_tensor *q, ig_paged_kv cache, float scale) {
    ig_tensor *in[] = {q,
                       cache.k_pages,
                       cache.v_pages,
                       cache.page_table,
                       cache.token_seq,
                       cache.token_pos,
                       cache.sinks};
    const ig_attrs_paged attrs = {scale, 1, cache.window, cache.softcap};
    return ig_apply_one(IG_OP_ATTENTION_PAGED, &attrs, in, cache.sinks ? 7 : 6);
}

/* ---- mixtures of experts ---- */

ig_routed ig_route(ig_tensor *logits, ig_route_options options) {
    const ig_attrs_route attrs = {(uint32_t)options.top_k, options.norm_topk};
    ig_tensor *out[2];
    ig_ctx *ctx = ig_tensor_ctx(logits);
    if (options.top_k < 1) {
        out[0] = out[1] =
            ig_poisoned(ctx, IG_FAIL(IG_ERR_ARGUMENT, "route: to %d experts", options.top_k));
        return (ig_routed){out[0], out[1]};
    }
    ig_apply(
        ctx,
        &(ig_apply_args){.op = IG_OP_ROUTE, .attrs = &attrs, .in = &logits, .n_in = 1, .n_out = 2},
        out, 2);
    return (ig_routed){out[0], out[1]};
}

ig_groups ig_group_rows(ig_tensor *ids, int64_t experts) {
    const ig_attrs_rows attrs = {experts};
    ig_tensor *out[3];
    ig_apply(ig_tensor_ctx(ids),
             &(ig_apply_args){
                 .op = IG_OP_GROUP_ROWS, .attrs = &attrs, .in = &ids, .n_in = 1, .n_out = 3},
             out, 3);
    return (ig_groups){out[0], out[1], out[2]};
}

ig_tensor *ig_matmul_grouped(ig_tensor *x, ig_tensor *w, ig_tensor *offsets) {
    return ig_apply_one(IG_OP_MATMUL_GROUPED, &(ig_attrs_grouped){1},
                        (ig_tensor *[]){x, w, offsets}, 3);
}

ig_tensor *ig_combine(ig_tensor *y, ig_tensor *places, ig_tensor *weights) {
    return ig_apply_one(IG_OP_COMBINE, NULL, (ig_tensor *[]){y, places, weights}, 3);
}

ig_status ig_eval(ig_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        IG_TRY(ig_tensor_check(tensors[i], NULL, "eval"));
        ig_ctx *ctx = tensors[i]->ctx;
        if (!tensors[i]->storage) {
            IG_TRY(ig_graph_take_error(&ig_ctx_tape(ctx)->graph));
            return ig_tensor_missing(tensors[i], "eval");
        }
        if (ig_ctx_recorder(ctx)->deferring) continue; /* it has not run yet */
        IG_TRY(ig_replay_read(ctx, tensors[i]));
        IG_TRY(ig_device_sync(ig_ctx_devices(ctx)->planner.devices[0]));
    }
    return IG_OK;
}

/* ---- updates ---- */

ig_status ig_assign(ig_tensor *dst, ig_tensor *src) {
    return ig_apply_update(IG_OP_ASSIGN, NULL, (ig_tensor *[]){dst, src}, 2, 1);
}

ig_status ig_accumulate(ig_tensor *dst, ig_tensor *src) {
    return ig_apply_update(IG_OP_ACCUMULATE, NULL, (ig_tensor *[]){dst, src}, 2, 1);
}

ig_status ig_store_rows(ig_tensor *dst, ig_tensor *rows, ig_tensor *index) {
    return ig_apply_update(IG_OP_STORE_ROWS, NULL, (ig_tensor *[]){dst, rows, index}, 3, 1);
}

static ig_status check_slot(const ig_tensor *t, uint32_t slot, const char *what) {
    IG_TRY(ig_tensor_check(t, NULL, what));
    if (slot > IG_SLOT_STEP && slot < ig_ctx_slots(t->ctx)->count) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: slot %u was not made by ig_slot_create()", what, slot);
}

ig_status ig_adamw(ig_tensor *weight, ig_tensor *grad, ig_tensor *mean, ig_tensor *variance,
                   ig_attrs_adamw attrs) {
    ig_tensor *in[] = {weight, grad, mean, variance};
    IG_TRY(check_slot(weight, attrs.lr_slot, "adamw"));
    IG_TRY(check_slot(weight, attrs.step_slot, "adamw"));
    return ig_apply_update(IG_OP_ADAMW, &attrs, in, 4, 3);
}

ig_status ig_sgd(ig_tensor *weight, ig_tensor *grad, ig_tensor *momentum, ig_attrs_sgd attrs) {
    ig_tensor *in[] = {weight, grad, momentum};
    IG_TRY(check_slot(weight, attrs.lr_slot, "sgd"));
    return ig_apply_update(IG_OP_SGD, &attrs, in, momentum ? 3 : 2, momentum ? 2 : 1);
}

ig_tensor *ig_global_norm(ig_tensor *const *x, int count) {
    if (!x || count < 1 || count >= IG_VARIADIC) {
        (void)IG_FAIL(IG_ERR_ARGUMENT, "global_norm: %d tensors", count);
        return ig_null_tensor();
    }
    return ig_apply_one(IG_OP_GLOBAL_NORM, NULL, x, (uint32_t)count);
}

ig_status ig_clip(ig_tensor *grad, ig_tensor *norm, float limit) {
    ig_tensor *in[] = {grad, norm};
    return ig_apply_update(IG_OP_CLIP, &(ig_attrs_clip){limit}, in, 2, 1);
}
