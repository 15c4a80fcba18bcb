#include "grad_cases.h"

#define P(i) in->p[i]

/* ---- element by element ---- */

static ig_tensor *add(const grad_inputs *in) { return ig_add(P(0), P(1)); }
static ig_tensor *sub(const grad_inputs *in) { return ig_sub(P(0), P(1)); }
static ig_tensor *mul(const grad_inputs *in) { return ig_mul(P(0), P(1)); }
static ig_tensor *divide(const grad_inputs *in) { return ig_div(P(0), P(1)); }
static ig_tensor *scale(const grad_inputs *in) { return ig_scale(P(0), -1.5, 0.25); }
static ig_tensor *neg(const grad_inputs *in) { return ig_neg(P(0)); }
static ig_tensor *exponential(const grad_inputs *in) { return ig_exp(P(0)); }
static ig_tensor *logarithm(const grad_inputs *in) { return ig_log(P(0)); }
static ig_tensor *root(const grad_inputs *in) { return ig_sqrt(P(0)); }
static ig_tensor *tangent(const grad_inputs *in) { return ig_tanh(P(0)); }
static ig_tensor *sigmoid(const grad_inputs *in) { return ig_sigmoid(P(0)); }
static ig_tensor *relu(const grad_inputs *in) { return ig_relu(P(0)); }
static ig_tensor *gelu_erf(const grad_inputs *in) { return ig_gelu(P(0), IG_GELU_ERF); }
static ig_tensor *gelu_tanh(const grad_inputs *in) { return ig_gelu(P(0), IG_GELU_TANH); }
static ig_tensor *silu(const grad_inputs *in) { return ig_silu(P(0)); }
static ig_tensor *softplus(const grad_inputs *in) { return ig_softplus(P(0)); }
static ig_tensor *copy(const grad_inputs *in) { return ig_copy(ig_transpose(P(0), 0, 1)); }
static ig_tensor *dropout(const grad_inputs *in) { return ig_dropout(P(0), 0.4); }

/* The same element is kept or dropped in either, by numbers of its own. */
static ig_tensor *dropout_twice(const grad_inputs *in) {
    return ig_mul(ig_dropout(P(0), 0.4), ig_dropout(ig_exp(P(0)), 0.3));
}

static ig_tensor *cast(const grad_inputs *in) {
    return ig_cast(ig_cast(P(0), IG_F32), ig_tensor_desc(P(0)).dtype);
}

/* ---- views ---- */

static ig_tensor *reshape(const grad_inputs *in) { return ig_reshape(P(0), IG_SHAPE(3, -1)); }
static ig_tensor *reshape_copies(const grad_inputs *in) {
    return ig_exp(ig_reshape(ig_transpose(P(0), 0, 1), IG_SHAPE(12)));
}
static ig_tensor *transpose(const grad_inputs *in) { return ig_exp(ig_transpose(P(0), 0, -1)); }
static ig_tensor *permute(const grad_inputs *in) {
    return ig_exp(ig_permute(P(0), (const int[]){2, 0, 1}, 3));
}
static ig_tensor *slice(const grad_inputs *in) { return ig_exp(ig_slice(P(0), 1, 1, 3)); }
static ig_tensor *slices(const grad_inputs *in) { /* they overlap */
    return ig_mul(ig_slice(P(0), 1, 0, 3), ig_slice(P(0), 1, 1, 4));
}
static ig_tensor *slice_of_nothing(const grad_inputs *in) {
    return ig_add(ig_sum(ig_slice(P(0), 0, 1, 1), NULL, 0, IG_DROP), P(0));
}
static ig_tensor *broadcast(const grad_inputs *in) {
    return ig_exp(ig_broadcast(P(0), IG_SHAPE(2, 3, 4)));
}

/* ---- moves ---- */

static ig_tensor *pad_first(const grad_inputs *in) { return ig_exp(ig_pad(P(0), 0, 1, 2)); }
static ig_tensor *pad_last(const grad_inputs *in) { return ig_exp(ig_pad(P(0), -1, 2, 0)); }
static ig_tensor *concat(const grad_inputs *in) {
    return ig_exp(ig_concat((ig_tensor *const[]){P(0), P(1), P(0)}, 3, 1));
}
static ig_tensor *gather_rows(const grad_inputs *in) {
    return ig_exp(ig_gather(P(0), in->index, 0));
}
static ig_tensor *gather_columns(const grad_inputs *in) {
    return ig_exp(ig_gather(P(0), in->index, 1));
}
static ig_tensor *scatter_add(const grad_inputs *in) {
    return ig_exp(ig_scatter_add(P(0), in->index, P(1), 1));
}
static ig_tensor *embedding(const grad_inputs *in) { return ig_exp(ig_embedding(P(0), in->index)); }

/* ---- many to one ---- */

static ig_tensor *sum_all(const grad_inputs *in) { return ig_exp(ig_sum(P(0), NULL, 0, IG_DROP)); }
static ig_tensor *sum_some(const grad_inputs *in) {
    return ig_exp(ig_sum(P(0), (const int[]){0, -1}, 2, IG_DROP));
}
static ig_tensor *sum_kept(const grad_inputs *in) {
    return ig_exp(ig_sum(P(0), (const int[]){1}, 1, IG_KEEP));
}
static ig_tensor *mean_some(const grad_inputs *in) {
    return ig_exp(ig_mean(P(0), (const int[]){1}, 1, IG_DROP));
}
static ig_tensor *mean_all(const grad_inputs *in) {
    return ig_exp(ig_mean(P(0), NULL, 0, IG_KEEP));
}
static ig_tensor *max_last(const grad_inputs *in) {
    return ig_exp(ig_max(P(0), (const int[]){-1}, 1, IG_DROP));
}
static ig_tensor *max_some(const grad_inputs *in) {
    return ig_exp(ig_max(P(0), (const int[]){0, 2}, 2, IG_KEEP));
}
static ig_tensor *softmax_last(const grad_inputs *in) { return ig_softmax(P(0), -1); }
static ig_tensor *softmax_first(const grad_inputs *in) { return ig_softmax(P(0), 0); }
static ig_tensor *log_softmax_last(const grad_inputs *in) { return ig_log_softmax(P(0), -1); }
static ig_tensor *log_softmax_first(const grad_inputs *in) { return ig_log_softmax(P(0), 0); }
static ig_tensor *cross_entropy(const grad_inputs *in) { return ig_cross_entropy(P(0), in->index); }
static ig_tensor *mse(const grad_inputs *in) { return ig_mse(P(0), P(1)); }
static ig_tensor *rms_norm(const grad_inputs *in) { return ig_rms_norm(P(0), P(1), 1e-3f); }
static ig_tensor *rms_norm_plain(const grad_inputs *in) { return ig_rms_norm(P(0), NULL, 1e-3f); }
static ig_tensor *layer_norm(const grad_inputs *in) {
    return ig_layer_norm(P(0), P(1), P(2), 1e-3f);
}
static ig_tensor *layer_norm_weighted(const grad_inputs *in) {
    return ig_layer_norm(P(0), P(1), NULL, 1e-3f);
}
static ig_tensor *layer_norm_plain(const grad_inputs *in) {
    return ig_layer_norm(ig_transpose(P(0), 0, 1), NULL, NULL, 1e-3f);
}

/* ---- contractions ---- */

static ig_tensor *matmul(const grad_inputs *in) { return ig_matmul(P(0), P(1)); }
static ig_tensor *matmul_nt(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_b = true});
}
static ig_tensor *matmul_tn(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_a = true});
}
static ig_tensor *matmul_tt(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1),
                          (ig_matmul_options){.transpose_a = true, .transpose_b = true});
}
static ig_tensor *linear(const grad_inputs *in) {
    return ig_matmul_with(P(0), P(1), (ig_matmul_options){.transpose_b = true, .bias = P(2)});
}
static ig_tensor *linear_tt(const grad_inputs *in) {
    return ig_matmul_with(
        P(0), P(1), (ig_matmul_options){.transpose_a = true, .transpose_b = true, .bias = P(2)});
}
static ig_tensor *matmul_of_views(const grad_inputs *in) {
    return ig_matmul(ig_transpose(P(0), -1, -2), ig_slice(P(1), 0, 1, 4));
}
static ig_tensor *square(const grad_inputs *in) {
    return ig_matmul(P(0), ig_transpose(P(0), 0, 1));
}

static ig_tensor *rope_pairs(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.form = IG_ROPE_PAIRS});
}
static ig_tensor *rope_halves(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.form = IG_ROPE_HALVES, .base = 100});
}
static ig_tensor *rope_partly(const grad_inputs *in) {
    return ig_rope(P(0), in->index,
                   (ig_rope_options){.form = IG_ROPE_HALVES, .dims = 4, .scale = 0.5f});
}
static ig_tensor *rope_magnified(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.magnitude = 1.25f});
}
static ig_tensor *rope_factors(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.form = IG_ROPE_PAIRS, .factors = in->fixed});
}

static ig_tensor *attention(const grad_inputs *in) {
    return ig_attention(P(0), P(1), P(2), (ig_attention_options){0});
}
static ig_tensor *attention_causal(const grad_inputs *in) {
    return ig_attention(P(0), P(1), P(2), (ig_attention_options){.causal = true, .scale = 0.7f});
}
static ig_tensor *attention_of_views(const grad_inputs *in) { /* [b, h, t, d], as others lay it */
    return ig_attention(ig_transpose(P(0), 1, 2), ig_transpose(P(1), 1, 2),
                        ig_transpose(P(2), 1, 2), (ig_attention_options){.causal = true});
}
static ig_tensor *attention_to_itself(const grad_inputs *in) {
    return ig_attention(P(0), P(0), P(0), (ig_attention_options){.causal = true});
}

/* ---- mixtures of experts ---- */

static ig_tensor *route_weights(const grad_inputs *in) {
    return ig_route(P(0), (ig_route_options){.count = 2}).weights;
}
static ig_tensor *route_renormalised(const grad_inputs *in) {
    return ig_route(P(0), (ig_route_options){.count = 3, .renormalise = true}).weights;
}
static ig_tensor *grouped(const grad_inputs *in) { /* five rows; the second expert has none */
    return ig_matmul_grouped(P(0), P(1), in->index);
}
static ig_tensor *combine(const grad_inputs *in) { return ig_combine(P(0), in->index, P(1)); }

/* x [4, 3] and logits [4, 5]: two experts of each row, w [5, 2, 3]. */
static ig_tensor *mixture(const grad_inputs *in) {
    const ig_routed routed = ig_route(P(1), (ig_route_options){.count = 2, .renormalise = true});
    const ig_groups groups = ig_group_rows(routed.ids, 5);
    ig_tensor *y = ig_matmul_grouped(ig_embedding(P(0), groups.rows), P(2), groups.offsets);
    return ig_combine(ig_silu(y), groups.places, routed.weights);
}

/* ---- more than one op ---- */

static ig_tensor *used_twice(const grad_inputs *in) {
    return ig_add(ig_mul(P(0), P(0)), ig_exp(P(0)));
}
static ig_tensor *used_by_itself_and_a_view(const grad_inputs *in) {
    return ig_mul(P(0), ig_tanh(ig_transpose(P(0), 0, 1)));
}
static ig_tensor *sum_of_what_was_stretched(const grad_inputs *in) {
    ig_tensor *wide = ig_broadcast(P(0), IG_SHAPE(4, 3, 5));
    return ig_mean(ig_mul(ig_slice(wide, 0, 1, 3), P(1)), (const int[]){2}, 1, IG_DROP);
}

static ig_tensor *custom(const grad_inputs *in) {
    ig_tensor *out = NULL;
    ig_custom(in->ctx, in->custom, &in->p[0], 1, &out);
    return ig_tanh(out);
}

#define EXTENTS(...)                                                        \
    {                                                                       \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ } \
    }
#define REAL(...) \
    { .used = true, .shape = EXTENTS(__VA_ARGS__) }
#define RANGE(least, most, ...) \
    { .used = true, .low = least, .high = most, .shape = EXTENTS(__VA_ARGS__) }
#define GRAD(number, words, function, ...)                                        \
    {                                                                             \
        .op = number, .what = words, .build = function, .params = { __VA_ARGS__ } \
    }
#define INDEXED(number, words, function, extents, numbers, ...)                                   \
    {                                                                                             \
        .op = number, .what = words, .build = function, .params = {__VA_ARGS__}, .indexed = true, \
        .index_shape = extents, .index = numbers                                                  \
    }
#define LIST(...) \
    { __VA_ARGS__ }

const grad_case grad_cases[] = {
    GRAD(IG_OP_ADD, "alike", add, REAL(2, 3), REAL(2, 3)),
    GRAD(IG_OP_ADD, "a row", add, REAL(2, 3), REAL(3)),
    GRAD(IG_OP_ADD, "both stretched", add, REAL(2, 1, 3), REAL(4, 1)),
    GRAD(IG_OP_ADD, "a scalar", add, REAL(2, 3), {.used = true}),
    GRAD(IG_OP_SUB, "a row on the left", sub, REAL(3), REAL(2, 3)),
    GRAD(IG_OP_SUB, "a column", sub, REAL(2, 3), REAL(2, 1)),
    GRAD(IG_OP_MUL, "a column", mul, REAL(2, 3), REAL(2, 1)),
    GRAD(IG_OP_MUL, "both stretched", mul, REAL(2, 1, 3), REAL(4, 1)),
    GRAD(IG_OP_DIV, "a row below", divide, REAL(2, 3), RANGE(1, 2, 3)),
    GRAD(IG_OP_DIV, "a column above", divide, REAL(2, 1), RANGE(-2, -1, 2, 3)),
    GRAD(IG_OP_SCALE, "and shift", scale, REAL(2, 3)),
    GRAD(IG_OP_NEG, "plain", neg, REAL(2, 3)),
    GRAD(IG_OP_EXP, "plain", exponential, REAL(2, 3)),
    GRAD(IG_OP_LOG, "plain", logarithm, RANGE(0.5, 3, 2, 3)),
    GRAD(IG_OP_SQRT, "plain", root, RANGE(0.5, 3, 2, 3)),
    GRAD(IG_OP_TANH, "plain", tangent, REAL(2, 3)),
    GRAD(IG_OP_SIGMOID, "plain", sigmoid, REAL(2, 3)),
    GRAD(IG_OP_RELU, "plain", relu, REAL(3, 5)),
    GRAD(IG_OP_GELU, "exact", gelu_erf, REAL(3, 5)),
    GRAD(IG_OP_GELU, "approximate", gelu_tanh, REAL(3, 5)),
    GRAD(IG_OP_SILU, "plain", silu, REAL(3, 5)),
    GRAD(IG_OP_SOFTPLUS, "plain", softplus, REAL(3, 5)),
    GRAD(IG_OP_COPY, "of a view", copy, REAL(2, 3)),
    GRAD(IG_OP_DROPOUT, "the same elements", dropout, REAL(4, 5)),
    GRAD(IG_OP_DROPOUT, "two in a step", dropout_twice, REAL(4, 5)),
    /* Values and differences that F32 holds exactly. */
    {.op = IG_OP_CAST,
     .what = "there and back",
     .build = cast,
     .params = {RANGE(1, 1, 2, 3)},
     .step = 0x1p-10},

    GRAD(IG_OP_RESHAPE, "what is left", reshape, REAL(2, 6)),
    GRAD(IG_OP_RESHAPE, "of a view, which copies", reshape_copies, REAL(3, 4)),
    GRAD(IG_OP_TRANSPOSE, "first and last", transpose, REAL(2, 3, 4)),
    GRAD(IG_OP_TRANSPOSE, "a permutation", permute, REAL(2, 3, 4)),
    GRAD(IG_OP_SLICE, "the middle", slice, REAL(2, 4)),
    GRAD(IG_OP_SLICE, "two that overlap", slices, REAL(2, 4)),
    GRAD(IG_OP_SLICE, "of nothing", slice_of_nothing, REAL(3)),
    GRAD(IG_OP_BROADCAST, "new and stretched", broadcast, REAL(3, 1)),

    GRAD(IG_OP_PAD, "the first", pad_first, REAL(2, 3)),
    GRAD(IG_OP_PAD, "before the last", pad_last, REAL(2, 3)),
    GRAD(IG_OP_CONCAT, "three, one twice", concat, REAL(2, 3), REAL(2, 1)),
    INDEXED(IG_OP_GATHER, "rows, one twice", gather_rows, EXTENTS(3, 2), LIST(2, 0, 0, 1, 2, 0),
            REAL(3, 2)),
    INDEXED(IG_OP_GATHER, "columns", gather_columns, EXTENTS(2, 3), LIST(2, 0, 0, 1, 2, 1),
            REAL(2, 4)),
    INDEXED(IG_OP_SCATTER_ADD, "two to one", scatter_add, EXTENTS(2, 3), LIST(2, 0, 0, 1, 2, 1),
            REAL(2, 4), REAL(2, 3)),
    INDEXED(IG_OP_EMBEDDING, "some twice", embedding, EXTENTS(2, 3), LIST(2, 0, 2, 3, 2, 0),
            REAL(5, 3)),

    GRAD(IG_OP_SUM, "all", sum_all, RANGE(-0.5, 0.5, 2, 3)),
    GRAD(IG_OP_SUM, "first and last", sum_some, REAL(2, 3, 2)),
    GRAD(IG_OP_SUM, "kept", sum_kept, REAL(2, 3, 2)),
    GRAD(IG_OP_MEAN, "the middle", mean_some, REAL(2, 3, 2)),
    GRAD(IG_OP_MEAN, "all, kept", mean_all, REAL(2, 3)),
    GRAD(IG_OP_MAX, "the last", max_last, REAL(3, 5)),
    GRAD(IG_OP_MAX, "first and last, kept", max_some, REAL(2, 3, 2)),
    GRAD(IG_OP_SOFTMAX, "the last", softmax_last, REAL(3, 5)),
    GRAD(IG_OP_SOFTMAX, "the first", softmax_first, REAL(3, 5)),
    GRAD(IG_OP_LOG_SOFTMAX, "the last", log_softmax_last, REAL(3, 5)),
    GRAD(IG_OP_LOG_SOFTMAX, "the first", log_softmax_first, REAL(3, 5)),
    INDEXED(IG_OP_CROSS_ENTROPY, "rows", cross_entropy, EXTENTS(4), LIST(2, 0, 4, 1), REAL(4, 5)),
    INDEXED(IG_OP_CROSS_ENTROPY, "a batch", cross_entropy, EXTENTS(2, 2), LIST(2, 0, 4, 1),
            REAL(2, 2, 5)),
    GRAD(IG_OP_MSE, "both sides", mse, REAL(2, 3), REAL(2, 3)),
    GRAD(IG_OP_RMS_NORM, "weighted", rms_norm, REAL(2, 2, 5), REAL(5)),
    GRAD(IG_OP_RMS_NORM, "plain", rms_norm_plain, REAL(3, 5)),
    GRAD(IG_OP_LAYER_NORM, "weighted and shifted", layer_norm, REAL(2, 2, 5), REAL(5), REAL(5)),
    GRAD(IG_OP_LAYER_NORM, "weighted", layer_norm_weighted, REAL(3, 5), REAL(5)),
    GRAD(IG_OP_LAYER_NORM, "plain, of a view", layer_norm_plain, REAL(3, 5)),

    GRAD(IG_OP_MATMUL, "two matrices", matmul, REAL(2, 3), REAL(3, 4)),
    GRAD(IG_OP_MATMUL, "b transposed", matmul_nt, REAL(2, 3), REAL(4, 3)),
    GRAD(IG_OP_MATMUL, "a transposed", matmul_tn, REAL(3, 2), REAL(3, 4)),
    GRAD(IG_OP_MATMUL, "both transposed", matmul_tt, REAL(3, 2), REAL(4, 3)),
    GRAD(IG_OP_MATMUL, "a batch", matmul, REAL(2, 2, 3), REAL(2, 3, 2)),
    GRAD(IG_OP_MATMUL, "a batch, both transposed", matmul_tt, REAL(2, 3, 2), REAL(2, 4, 3)),
    GRAD(IG_OP_MATMUL, "one matrix for all", matmul, REAL(2, 2, 3), REAL(3, 2)),
    GRAD(IG_OP_MATMUL, "one matrix for all, transposed", matmul_nt, REAL(2, 2, 3), REAL(2, 3)),
    GRAD(IG_OP_MATMUL, "one for all, a transposed", matmul_tn, REAL(2, 3, 2), REAL(3, 2)),
    GRAD(IG_OP_MATMUL, "one for all, both transposed", matmul_tt, REAL(2, 3, 2), REAL(2, 3)),
    GRAD(IG_OP_MATMUL, "one on the left for all", matmul, REAL(2, 3), REAL(2, 3, 2)),
    GRAD(IG_OP_MATMUL, "both stretched", matmul, REAL(2, 1, 2, 3), REAL(3, 3, 2)),
    GRAD(IG_OP_MATMUL, "both stretched, a transposed", matmul_tn, REAL(2, 1, 3, 2), REAL(3, 3, 2)),
    GRAD(IG_OP_MATMUL, "bias", linear, REAL(2, 2, 3), REAL(4, 3), REAL(4)),
    GRAD(IG_OP_MATMUL, "bias, both transposed", linear_tt, REAL(3, 2), REAL(4, 3), REAL(4)),
    GRAD(IG_OP_MATMUL, "of views", matmul_of_views, REAL(2, 3, 2), REAL(5, 2)),
    GRAD(IG_OP_MATMUL, "by itself, transposed", square, REAL(3, 2)),

    INDEXED(IG_OP_ROPE, "pairs", rope_pairs, EXTENTS(3), LIST(0, 1, 5), REAL(2, 3, 2, 4)),
    INDEXED(IG_OP_ROPE, "halves, positions of each row", rope_halves, EXTENTS(2, 3),
            LIST(0, 1, 5, 2, 2, 7), REAL(2, 3, 2, 4)),
    INDEXED(IG_OP_ROPE, "partly", rope_partly, EXTENTS(3), LIST(0, 1, 5), REAL(1, 3, 2, 7)),
    INDEXED(IG_OP_ROPE, "magnified", rope_magnified, EXTENTS(3), LIST(0, 1, 5), REAL(1, 3, 2, 4)),
    INDEXED(IG_OP_ROPE, "factors", rope_factors, EXTENTS(3), LIST(0, 1, 5), REAL(1, 3, 1, 8)),

    GRAD(IG_OP_ATTENTION, "all see all", attention, REAL(2, 3, 2, 4), REAL(2, 5, 2, 4),
         REAL(2, 5, 2, 3)),
    GRAD(IG_OP_ATTENTION, "grouped, causal", attention_causal, REAL(1, 4, 4, 3), REAL(1, 4, 2, 3),
         REAL(1, 4, 2, 3)),
    GRAD(IG_OP_ATTENTION, "grouped, causal, more keys", attention_causal, REAL(2, 2, 4, 3),
         REAL(2, 5, 2, 3), REAL(2, 5, 2, 2)),
    GRAD(IG_OP_ATTENTION, "causal, rows that see no key", attention_causal, REAL(1, 4, 2, 3),
         REAL(1, 2, 1, 3), REAL(1, 2, 1, 3)),
    GRAD(IG_OP_ATTENTION, "of views", attention_of_views, REAL(1, 4, 3, 2), REAL(1, 2, 3, 2),
         REAL(1, 2, 3, 2)),
    GRAD(IG_OP_ATTENTION, "to itself", attention_to_itself, REAL(1, 4, 2, 3)),

    GRAD(IG_OP_ROUTE, "of all", route_weights, REAL(3, 5)),
    GRAD(IG_OP_ROUTE, "renormalised", route_renormalised, REAL(3, 5)),
    INDEXED(IG_OP_MATMUL_GROUPED, "three experts", grouped, EXTENTS(4), LIST(0, 2, 2, 5),
            REAL(5, 3), REAL(3, 2, 3)),
    INDEXED(IG_OP_COMBINE, "two each", combine, EXTENTS(3, 2), LIST(4, 0, 2, 2, 1, 3), REAL(6, 4),
            REAL(3, 2)),
    GRAD(IG_OP_COMBINE, "a whole mixture", mixture, REAL(4, 3), REAL(4, 5), REAL(5, 2, 3)),

    GRAD(IG_OP_MUL, "a tensor used twice", used_twice, REAL(2, 3)),
    GRAD(IG_OP_TRANSPOSE, "used as it is and as a view", used_by_itself_and_a_view, REAL(3, 3)),
    GRAD(IG_OP_BROADCAST, "a slice of what was stretched", sum_of_what_was_stretched, REAL(3, 1),
         REAL(5)),
    GRAD(IG_OP_CUSTOM, "a rule of the program's own", custom, RANGE(-1, 1, 2, 3)),
};

const size_t grad_case_count = sizeof grad_cases / sizeof grad_cases[0];
