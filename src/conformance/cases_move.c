/* Data movement: every axis, empty pieces, repeated and out-of-range indices. */
#include "conformance/cases.h"

#define COPY(dtype)                                                                                \
    CASE(IG_OP_COPY, "an odd tail", IN(TYPED(dtype, 3, 37))),                                      \
        CASE(IG_OP_COPY, "a scalar", IN(OPERAND(DTYPE(dtype)))),                                   \
        CASE(IG_OP_COPY, "none", IN(TYPED(dtype, 4, 0))),                                          \
        CASE(IG_OP_COPY, "many, transposed",                                                       \
             IN(OPERAND(DTYPE(dtype), .layout = TRANSPOSED, SHAPE(300, 129)))),                    \
        CASE(IG_OP_COPY, "a batch, transposed",                                                    \
             IN(OPERAND(DTYPE(dtype), .layout = TRANSPOSED, SHAPE(3, 2, 80, 130)))),               \
        CASE(IG_OP_COPY, "a slice", IN(OPERAND(DTYPE(dtype), .layout = SLICED, SHAPE(5, 7, 19)))), \
        CASE(IG_OP_COPY, "every other one",                                                        \
             IN(OPERAND(DTYPE(dtype), .layout = STRIDED, SHAPE(9, 21)))),                          \
        CASE(IG_OP_COPY, "heads first",                                                            \
             IN(OPERAND(DTYPE(dtype), .layout = HEADS_FIRST, SHAPE(2, 5, 3, 8)))),                 \
        CASE(IG_OP_COPY, "six dimensions, the other way round",                                    \
             IN(OPERAND(DTYPE(dtype), .layout = COLUMN_MAJOR, SHAPE(2, 1, 3, 2, 1, 5)))),          \
        CASE(IG_OP_COPY, "one row for all", IN(OPERAND(DTYPE(dtype), .repeat = 1, SHAPE(5, 19)))), \
        CASE(IG_OP_COPY, "one column for all",                                                     \
             IN(OPERAND(DTYPE(dtype), .repeat = 2, SHAPE(5, 19)))),                                \
        CASE(IG_OP_COPY, "one for all", IN(OPERAND(DTYPE(dtype), .repeat = 3, SHAPE(5, 19))))

#define PAD(what, operand, before, after, axis) \
    CASE(IG_OP_PAD, what, IN(operand), ATTRS(ig_attrs_pad, before, after, axis, 0))
#define CONCAT(what, axis, ...) \
    CASE(IG_OP_CONCAT, what, IN(__VA_ARGS__), ATTRS(ig_attrs_axis, axis))
#define GATHER(what, axis, x, index) \
    CASE(IG_OP_GATHER, what, IN(x, index), ATTRS(ig_attrs_axis, axis))
#define SCATTER(what, axis, x, index, src) \
    CASE(IG_OP_SCATTER_ADD, what, IN(x, index, src), ATTRS(ig_attrs_axis, axis))
#define EMBEDDING(what, table, ids) CASE(IG_OP_EMBEDDING, what, IN(table, ids))
#define EMBEDDING_GRAD(what, rows, ids, dy) \
    CASE(IG_OP_EMBEDDING_GRAD, what, IN(ids, dy), ATTRS(ig_attrs_rows, rows))

/* Macro arguments that contain commas. */
#define INDEX_SCALAR OPERAND(DTYPE(IG_I32), BETWEEN(2, 2))
#define INDEX_SLICED OPERAND(DTYPE(IG_I32), BETWEEN(0, 6), .layout = SLICED, SHAPE(5, 9))
#define INDEX_ROW    OPERAND(DTYPE(IG_I32), BETWEEN(0, 6), .repeat = 2, SHAPE(9, 19))

static const ig_case cases[] = {
    COPY(IG_F32),
    COPY(IG_F16),
    COPY(IG_BF16),
    COPY(IG_F64),
    COPY(IG_I32),

    PAD("both sides of the last", REAL(5, 7), 2, 3, 1),
    PAD("both sides of the first", REAL(5, 7), 1, 2, 0),
    PAD("the middle", REAL(3, 4, 5), 0, 2, 1),
    PAD("before only", REAL(33), 5, 0, 0),
    PAD("by nothing", REAL(5, 7), 0, 0, 1),
    PAD("nothing, so all is zero", REAL(3, 0), 2, 1, 1),
    PAD("no rows", REAL(0, 3), 2, 1, 1),
    PAD("many", REAL(200, 129), 3, 60, 1),
    PAD("transposed", LAID(TRANSPOSED, 17, 33), 1, 1, 1),
    PAD("a slice", LAID(SLICED, 3, 5, 7), 1, 1, 2),
    PAD("one for all", REPEATED(3, 5, 7), 1, 1, 0),

    CONCAT("one", 0, REAL(5, 7)),
    CONCAT("two rows", 0, REAL(5, 7), REAL(3, 7)),
    CONCAT("columns, one of nothing", 1, REAL(5, 3), REAL(5, 0), REAL(5, 4)),
    CONCAT("the middle", 1, REAL(2, 3, 5), REAL(2, 1, 5), REAL(2, 4, 5), REAL(2, 2, 5)),
    CONCAT("nothing at all", 0, REAL(0, 4), REAL(0, 4)),
    CONCAT("no columns", 0, REAL(2, 0), REAL(3, 0)),
    CONCAT("vectors", 0, REAL(17), REAL(1), REAL(33)),
    CONCAT("many", 1, REAL(300, 65), REAL(300, 64)),
    CONCAT("every layout", 1, LAID(TRANSPOSED, 9, 5), LAID(SLICED, 9, 7), LAID(STRIDED, 9, 3),
           REPEATED(1, 9, 4), REPEATED(3, 9, 2)),

    GATHER("rows", 0, REAL(7, 5), INDEX(0, 6, 9, 5)),
    GATHER("columns", 1, REAL(5, 7), INDEX(0, 6, 5, 9)),
    GATHER("the middle", 1, REAL(3, 7, 5), INDEX(0, 6, 3, 2, 5)),
    GATHER("some from outside", 1, REAL(5, 7), INDEX(-2, 8, 5, 30)),
    GATHER("from nothing", 0, REAL(0, 5), INDEX(0, 2, 4, 5)),
    GATHER("nothing", 0, REAL(7, 5), INDEX(0, 6, 0, 5)),
    GATHER("many", 1, REAL(300, 129), INDEX(0, 128, 300, 100)),
    GATHER("from a transposed one", 1, LAID(TRANSPOSED, 5, 7), INDEX(0, 6, 5, 9)),
    GATHER("a slice of an index", 1, LAID(SLICED, 5, 7), INDEX_SLICED),
    GATHER("one index for a row", 0, REAL(7, 19), INDEX_ROW),

    SCATTER("rows", 0, REAL(7, 5), INDEX(0, 6, 9, 5), REAL(9, 5)),
    SCATTER("columns, many to one", 1, REAL(5, 3), INDEX(0, 2, 5, 40), REAL(5, 40)),
    SCATTER("the middle", 1, REAL(3, 7, 5), INDEX(0, 6, 3, 2, 5), REAL(3, 2, 5)),
    SCATTER("some to outside", 1, REAL(5, 7), INDEX(-2, 8, 5, 30), REAL(5, 30)),
    SCATTER("nothing", 0, REAL(7, 5), INDEX(0, 6, 0, 5), REAL(0, 5)),
    SCATTER("to nothing", 0, REAL(0, 5), INDEX(0, 6, 3, 5), REAL(3, 5)),
    SCATTER("many", 1, REAL(300, 129), INDEX(0, 128, 300, 100), REAL(300, 100)),
    SCATTER("to one for all", 0, REPEATED(3, 7, 5), INDEX(0, 6, 9, 5), LAID(SLICED, 9, 5)),
    SCATTER("a slice of an index", 1, LAID(TRANSPOSED, 5, 7), INDEX_SLICED, LAID(STRIDED, 5, 9)),
    SCATTER("one slope for all", 1, REAL(5, 7), INDEX(0, 6, 5, 9), REPEATED(3, 5, 9)),

    EMBEDDING("a list", REAL(11, 17), INDEX(0, 10, 9)),
    EMBEDDING("a batch", REAL(11, 17), INDEX(0, 10, 3, 5)),
    EMBEDDING("one id", REAL(11, 17), INDEX_SCALAR),
    EMBEDDING("some outside", REAL(11, 17), INDEX(-3, 13, 40)),
    EMBEDDING("no ids", REAL(11, 17), INDEX(0, 10, 0)),
    EMBEDDING("rows of nothing", REAL(11, 0), INDEX(0, 10, 4)),
    EMBEDDING("no table", REAL(0, 5), INDEX(0, 10, 4)),
    EMBEDDING("many", REAL(50, 129), INDEX(0, 49, 300)),
    EMBEDDING("a transposed table", LAID(TRANSPOSED, 11, 17), INDEX(0, 10, 3, 5)),
    EMBEDDING("slices", LAID(SLICED, 7, 17), INDEX_SLICED),
    EMBEDDING("a weight", WEIGHT(11, 17), INDEX(0, 10, 9)),

    EMBEDDING_GRAD("a list", 11, INDEX(0, 10, 9), REAL(9, 17)),
    EMBEDDING_GRAD("a batch, many to one", 3, INDEX(0, 2, 8, 5), REAL(8, 5, 17)),
    EMBEDDING_GRAD("one id", 5, INDEX_SCALAR, REAL(17)),
    EMBEDDING_GRAD("some outside", 11, INDEX(-3, 13, 40), REAL(40, 17)),
    EMBEDDING_GRAD("no ids", 4, INDEX(0, 3, 0), REAL(0, 17)),
    EMBEDDING_GRAD("rows of nothing", 4, INDEX(0, 3, 5), REAL(5, 0)),
    EMBEDDING_GRAD("no table", 0, INDEX(0, 3, 5), REAL(5, 3)),
    EMBEDDING_GRAD("in parts", 9, INDEX(-1, 9, 1100), RANGE(-0.25, 0.25, 1100, 17)),
    EMBEDDING_GRAD("many", 50, INDEX(0, 49, 300), REAL(300, 129)),
    EMBEDDING_GRAD("slices", 7, INDEX_SLICED, LAID(SLICED, 5, 9, 17)),
    EMBEDDING_GRAD("one slope for all", 11, INDEX(0, 10, 9), REPEATED(3, 9, 17)),
};

/* ---- tolerances ---- */

static const char moved[] = "elements are moved or chosen, not computed";
static const char sum[] = "some hundred terms of the order of 1, summed in any order";
static const case_tolerance tolerances[] = {
    {IG_OP_COPY, 0, moved},          {IG_OP_PAD, 0, moved},        {IG_OP_CONCAT, 0, moved},
    {IG_OP_GATHER, 0, moved},        {IG_OP_SCATTER_ADD, 16, sum}, {IG_OP_EMBEDDING, 0, moved},
    {IG_OP_EMBEDDING_GRAD, 16, sum},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_copy(const grad_inputs *in) { return ig_copy(ig_transpose(P(0), 0, 1)); }
static ig_tensor *grad_reshape(const grad_inputs *in) { return ig_reshape(P(0), IG_SHAPE(3, -1)); }
static ig_tensor *grad_reshape_copies(const grad_inputs *in) {
    return ig_exp(ig_reshape(ig_transpose(P(0), 0, 1), IG_SHAPE(12)));
}
static ig_tensor *grad_transpose(const grad_inputs *in) {
    return ig_exp(ig_transpose(P(0), 0, -1));
}
static ig_tensor *grad_permute(const grad_inputs *in) {
    return ig_exp(ig_permute(P(0), (const int[]){2, 0, 1}, 3));
}
static ig_tensor *grad_slice(const grad_inputs *in) { return ig_exp(ig_slice(P(0), 1, 1, 3)); }
static ig_tensor *grad_slices(const grad_inputs *in) { /* they overlap */
    return ig_mul(ig_slice(P(0), 1, 0, 3), ig_slice(P(0), 1, 1, 4));
}
static ig_tensor *grad_slice_of_nothing(const grad_inputs *in) {
    return ig_add(ig_sum(ig_slice(P(0), 0, 1, 1), NULL, 0, IG_DROP_DIM), P(0));
}
static ig_tensor *grad_broadcast(const grad_inputs *in) {
    return ig_exp(ig_broadcast(P(0), IG_SHAPE(2, 3, 4)));
}
static ig_tensor *grad_pad_first(const grad_inputs *in) { return ig_exp(ig_pad(P(0), 0, 1, 2)); }
static ig_tensor *grad_pad_last(const grad_inputs *in) { return ig_exp(ig_pad(P(0), -1, 2, 0)); }
static ig_tensor *grad_concat(const grad_inputs *in) {
    return ig_exp(ig_concat((ig_tensor *const[]){P(0), P(1), P(0)}, 3, 1));
}
static ig_tensor *grad_gather_rows(const grad_inputs *in) {
    return ig_exp(ig_gather(P(0), in->index, 0));
}
static ig_tensor *grad_gather_columns(const grad_inputs *in) {
    return ig_exp(ig_gather(P(0), in->index, 1));
}
static ig_tensor *grad_scatter_add(const grad_inputs *in) {
    return ig_exp(ig_scatter_add(P(0), in->index, P(1), 1));
}
static ig_tensor *grad_embedding(const grad_inputs *in) {
    return ig_exp(ig_embedding(P(0), in->index));
}
static ig_tensor *grad_used_by_itself_and_a_view(const grad_inputs *in) {
    return ig_mul(P(0), ig_tanh(ig_transpose(P(0), 0, 1)));
}
static ig_tensor *grad_sum_of_a_broadcast_slice(const grad_inputs *in) {
    ig_tensor *wide = ig_broadcast(P(0), IG_SHAPE(4, 3, 5));
    return ig_mean(ig_mul(ig_slice(wide, 0, 1, 3), P(1)), (const int[]){2}, 1, IG_DROP_DIM);
}
static ig_tensor *grad_custom(const grad_inputs *in) {
    ig_tensor *out = NULL;
    ig_custom(in->ctx, in->custom, &in->p[0], 1, &out);
    return ig_tanh(out);
}

static const grad_case grads[] = {
    GRAD(IG_OP_COPY, "of a view", grad_copy, PARAM(2, 3)),
    GRAD(IG_OP_RESHAPE, "what is left", grad_reshape, PARAM(2, 6)),
    GRAD(IG_OP_RESHAPE, "of a view, which copies", grad_reshape_copies, PARAM(3, 4)),
    GRAD(IG_OP_TRANSPOSE, "first and last", grad_transpose, PARAM(2, 3, 4)),
    GRAD(IG_OP_TRANSPOSE, "a permutation", grad_permute, PARAM(2, 3, 4)),
    GRAD(IG_OP_SLICE, "the middle", grad_slice, PARAM(2, 4)),
    GRAD(IG_OP_SLICE, "two that overlap", grad_slices, PARAM(2, 4)),
    GRAD(IG_OP_SLICE, "of nothing", grad_slice_of_nothing, PARAM(3)),
    GRAD(IG_OP_BROADCAST, "new and broadcast", grad_broadcast, PARAM(3, 1)),
    GRAD(IG_OP_PAD, "the first", grad_pad_first, PARAM(2, 3)),
    GRAD(IG_OP_PAD, "before the last", grad_pad_last, PARAM(2, 3)),
    GRAD(IG_OP_CONCAT, "three, one twice", grad_concat, PARAM(2, 3), PARAM(2, 1)),
    GRAD_INDEXED(IG_OP_GATHER, "rows, one twice", grad_gather_rows, EXTENTS(3, 2),
                 INDICES(2, 0, 0, 1, 2, 0), PARAM(3, 2)),
    GRAD_INDEXED(IG_OP_GATHER, "columns", grad_gather_columns, EXTENTS(2, 3),
                 INDICES(2, 0, 0, 1, 2, 1), PARAM(2, 4)),
    GRAD_INDEXED(IG_OP_SCATTER_ADD, "two to one", grad_scatter_add, EXTENTS(2, 3),
                 INDICES(2, 0, 0, 1, 2, 1), PARAM(2, 4), PARAM(2, 3)),
    GRAD_INDEXED(IG_OP_EMBEDDING, "some twice", grad_embedding, EXTENTS(2, 3),
                 INDICES(2, 0, 2, 3, 2, 0), PARAM(5, 3)),
    GRAD(IG_OP_TRANSPOSE, "used as it is and as a view", grad_used_by_itself_and_a_view,
         PARAM(3, 3)),
    GRAD(IG_OP_BROADCAST, "a slice of a broadcast", grad_sum_of_a_broadcast_slice, PARAM(3, 1),
         PARAM(5)),
    GRAD(IG_OP_CUSTOM, "a rule of the program's own", grad_custom, PARAM_IN(-1, 1, 2, 3)),
};

const case_table cases_move = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
