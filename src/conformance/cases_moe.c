/*
 * MoE: equal logits, one expert and all of them; invalid expert ids; experts without tokens;
 * offsets that decrease or are out of range; every weight dtype.
 */
#include "conformance/cases.h"

static const double equal[] = {1, 2, 2, 2, -1};
static const double ids[] = {3, 0, 3, 1, -1, 3, 9, 0, 1, 2};
static const double offsets[] = {0, 3, 3, 10, 17};  /* expert 1 has no rows */
static const double uneven[] = {2, 5, 4, 9, 90, 3}; /* decreasing, and out of range */
static const double far_out[] = {-5, 4, 2147483647, 6};
static const double places[] = {4, 0, 2, -1, 6, 99, 1, 3};

#define ROUTE(what, logits, ...) \
    CASE(IG_OP_ROUTE, what, IN(logits), ATTRS(ig_attrs_route, __VA_ARGS__))
#define GROUP(what, experts, ...)                                                       \
    CASE(IG_OP_GROUP_ROWS, what, IN(OPERAND(DTYPE(IG_I32), NUMBERS(ids), __VA_ARGS__)), \
         ATTRS(ig_attrs_rows, experts))
#define OFFSETS(list, count) OPERAND(DTYPE(IG_I32), NUMBERS(list), SHAPE(count))
#define PLACES(...)          OPERAND(DTYPE(IG_I32), NUMBERS(places), SHAPE(__VA_ARGS__))

/* Rows times their expert's matrix, transposed and not, and the gradient. */
#define GROUPED(what, list, s, e, n, k)                                                          \
    CASE(IG_OP_MATMUL_GROUPED, what, IN(REAL(s, k), REAL(e, n, k), OFFSETS(list, (e) + 1)),      \
         ATTRS(ig_attrs_grouped, 1)),                                                            \
        CASE(IG_OP_MATMUL_GROUPED, what ", not transposed",                                      \
             IN(REAL(s, k), REAL(e, k, n), OFFSETS(list, (e) + 1)), ATTRS(ig_attrs_grouped, 0)), \
        CASE(IG_OP_MATMUL_GROUPED_GRAD, what, IN(REAL(s, k), REAL(s, n), OFFSETS(list, (e) + 1)))

#define STORED(type, k)                                                                       \
    CASE(IG_OP_MATMUL_GROUPED, "rows of " #type,                                              \
         IN(OPERAND(DTYPE(IG_F32), NUMBERS(case_bytes), SHAPE(17, k)), TYPED(type, 4, 21, k), \
            OFFSETS(offsets, 5)),                                                             \
         ATTRS(ig_attrs_grouped, 1))

static const ig_case cases[] = {
    ROUTE("some", REAL(7, 19), 4, 0),
    ROUTE("some, renormalized", REAL(7, 19), 4, 1),
    ROUTE("one", REAL(7, 5), 1, 0),
    ROUTE("all", REAL(3, 5), 5, 1),
    ROUTE("of one", REAL(3, 1), 1, 0),
    ROUTE("equal logits", LISTED(equal, 6, 5), 3, 1),
    ROUTE("many", REAL(67, 128), 8, 1),
    ROUTE("far apart", RANGE(-80, 80, 9, 33), 4, 0),
    ROUTE("a slice", LAID(SLICED, 6, 9), 2, 0),
    ROUTE("no rows", REAL(0, 5), 2, 1),

    GROUP("two each", 4, SHAPE(5, 2)),
    GROUP("one each", 4, SHAPE(9, 1)),
    GROUP("many", 4, SHAPE(70, 3)),
    GROUP("one expert", 1, SHAPE(5, 2)),
    GROUP("no expert", 0, SHAPE(5, 2)),
    GROUP("no rows", 3, SHAPE(0, 2)),

    GROUPED("four experts", offsets, 17, 4, 21, 33),
    GROUPED("many columns", offsets, 17, 4, 70, 40),
    GROUPED("offsets that go back and beyond", uneven, 10, 5, 3, 7),
    GROUPED("offsets from far out", far_out, 8, 3, 5, 9),
    GROUPED("many rows of one", far_out, 130, 2, 18, 9),
    GROUPED("one of each", offsets, 1, 1, 1, 1),
    GROUPED("no rows", offsets, 0, 4, 5, 6),
    GROUPED("no experts", offsets, 4, 0, 5, 6),
    GROUPED("sums of nothing", offsets, 17, 4, 5, 0),

    STORED(IG_F16, 40),
    STORED(IG_BF16, 40),
    STORED(IG_Q4_0, 64),
    STORED(IG_Q8_0, 64),
    STORED(IG_Q4_K, 256),
    STORED(IG_Q6_K, 256),
    STORED(IG_MXFP4, 96),

    CASE(IG_OP_COMBINE, "some nowhere", IN(REAL(7, 19), PLACES(4, 2), REAL(4, 2))),
    CASE(IG_OP_COMBINE, "one each", IN(REAL(7, 5), PLACES(8, 1), REAL(8, 1))),
    CASE(IG_OP_COMBINE, "many", IN(REAL(90, 129), PLACES(45, 3), REAL(45, 3))),
    CASE(IG_OP_COMBINE, "slices", IN(LAID(SLICED, 7, 19), PLACES(4, 2), LAID(SLICED, 4, 2))),
    CASE(IG_OP_COMBINE, "no rows", IN(REAL(0, 5), PLACES(4, 2), REAL(4, 2))),
    CASE(IG_OP_COMBINE, "of none", IN(REAL(3, 5), PLACES(4, 0), REAL(4, 0))),
};

/* ---- tolerances ---- */

static const char moved[] = "elements are moved or chosen, not computed";
static const char twice[] = "a product and a sum or two, each rounded";
static const char row[] = "sums along a row, then functions of them";
static const case_tolerance tolerances[] = {
    {IG_OP_ROUTE, 16, row},
    {IG_OP_GROUP_ROWS, 0, moved},
    {IG_OP_MATMUL_GROUPED, 256, "as matmul"},
    {IG_OP_MATMUL_GROUPED_GRAD, 256, "as matmul"},
    {IG_OP_COMBINE, 4, twice},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_route_weights(const grad_inputs *in) {
    return ig_route(P(0), (ig_route_options){.top_k = 2}).weights;
}
static ig_tensor *grad_route_renormalized(const grad_inputs *in) {
    return ig_route(P(0), (ig_route_options){.top_k = 3, .norm_topk = true}).weights;
}
static ig_tensor *grad_grouped(const grad_inputs *in) { /* five rows; expert 1 has none */
    return ig_matmul_grouped(P(0), P(1), in->index);
}
static ig_tensor *grad_combine(const grad_inputs *in) { return ig_combine(P(0), in->index, P(1)); }
/* x [4, 3] and logits [4, 5]: top-2 experts per token, w [5, 2, 3]. */
static ig_tensor *grad_mixture(const grad_inputs *in) {
    const ig_routed routed = ig_route(P(1), (ig_route_options){.top_k = 2, .norm_topk = true});
    const ig_groups groups = ig_group_rows(routed.ids, 5);
    ig_tensor *y = ig_matmul_grouped(ig_embedding(P(0), groups.rows), P(2), groups.offsets);
    return ig_combine(ig_silu(y), groups.inverse, routed.weights);
}

static const grad_case grads[] = {
    GRAD(IG_OP_ROUTE, "of all", grad_route_weights, PARAM(3, 5)),
    GRAD(IG_OP_ROUTE, "renormalized", grad_route_renormalized, PARAM(3, 5)),
    GRAD_INDEXED(IG_OP_MATMUL_GROUPED, "three experts", grad_grouped, EXTENTS(4),
                 INDICES(0, 2, 2, 5), PARAM(5, 3), PARAM(3, 2, 3)),
    GRAD_INDEXED(IG_OP_COMBINE, "two each", grad_combine, EXTENTS(3, 2), INDICES(4, 0, 2, 2, 1, 3),
                 PARAM(6, 4), PARAM(3, 2)),
    GRAD(IG_OP_COMBINE, "a whole mixture", grad_mixture, PARAM(4, 3), PARAM(4, 5), PARAM(5, 2, 3)),
};

const case_table cases_moe = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
