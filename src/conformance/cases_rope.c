/* RoPE: both types, forward and inverse, partial, scaled, with frequency factors. */
#include "conformance/cases.h"

#define ROPE(what, x, positions, base, scale, dims, form, inverse) \
    CASE(IG_OP_ROPE, what, IN(x, positions),                       \
         ATTRS(ig_attrs_rope, base, scale, dims, form, inverse, 0))
#define FACTORS(what, x, positions, n, dims, form)             \
    CASE(IG_OP_ROPE, what, IN(x, positions, RANGE(0.5, 4, n)), \
         ATTRS(ig_attrs_rope, 10000, 0, dims, form, 0, 0))

#define MAGNIFIED(what, form, inverse)                             \
    CASE(IG_OP_ROPE, what, IN(REAL(2, 5, 3, 11), INDEX(0, 50, 5)), \
         ATTRS(ig_attrs_rope, 10000, 0, 6, form, inverse, 1.19f))

#define POSITIONS_SLICED   OPERAND(DTYPE(IG_I32), BETWEEN(0, 50), .layout = SLICED, SHAPE(2, 5))
#define POSITIONS_REPEATED OPERAND(DTYPE(IG_I32), BETWEEN(0, 50), .repeat = 1, SHAPE(2, 5))

#define FORM(words, form)                                                                          \
    ROPE(words, REAL(2, 5, 3, 8), INDEX(0, 50, 5), 10000, 0, 0, form, 0),                          \
        ROPE(words ", back", REAL(2, 5, 3, 8), INDEX(0, 50, 5), 10000, 0, 0, form, 1),             \
        ROPE(words ", positions of each row", REAL(2, 5, 3, 8), INDEX(0, 50, 2, 5), 10000, 0, 0,   \
             form, 0),                                                                             \
        ROPE(words ", three dimensions", REAL(5, 3, 8), INDEX(0, 50, 5), 10000, 0, 0, form, 0),    \
        ROPE(words ", five dimensions", REAL(2, 2, 5, 3, 8), INDEX(0, 50, 2, 2, 5), 10000, 0, 0,   \
             form, 0),                                                                             \
        ROPE(words ", partly", REAL(2, 5, 3, 11), INDEX(0, 50, 5), 10000, 0, 6, form, 0),          \
        ROPE(words ", scaled, another base", REAL(2, 5, 3, 8), INDEX(0, 50, 5), 500, 0.25f, 0,     \
             form, 0),                                                                             \
        ROPE(words ", positions far out", REAL(1, 9, 2, 64), INDEX(0, 5000, 9), 10000, 0, 0, form, \
             0),                                                                                   \
        ROPE(words ", positions before 0", REAL(1, 9, 2, 10), INDEX(-9, 9, 9), 10000, 0, 0, form,  \
             0),                                                                                   \
        ROPE(words ", many", REAL(3, 70, 4, 64), INDEX(0, 100, 70), 10000, 0, 0, form, 0),         \
        ROPE(words ", no rows", REAL(2, 0, 3, 8), INDEX(0, 50, 0), 10000, 0, 0, form, 0),          \
        ROPE(words ", heads of nothing", REAL(2, 5, 3, 0), INDEX(0, 50, 5), 10000, 0, 0, form, 0), \
        ROPE(words ", heads first", LAID(HEADS_FIRST, 2, 5, 3, 8), INDEX(0, 50, 5), 10000, 0, 0,   \
             form, 0),                                                                             \
        ROPE(words ", slices", LAID(SLICED, 2, 5, 3, 8), POSITIONS_SLICED, 10000, 0, 0, form, 0),  \
        ROPE(words ", every other one", LAID(STRIDED, 2, 5, 3, 8), POSITIONS_REPEATED, 10000, 0,   \
             0, form, 0),                                                                          \
        ROPE(words ", one for all", REPEATED(15, 2, 5, 3, 8), INDEX(0, 50, 5), 10000, 0, 0, form,  \
             1),                                                                                   \
        MAGNIFIED(words ", magnified", form, 0), MAGNIFIED(words ", magnified, back", form, 1),    \
        FACTORS(words ", factors", REAL(2, 5, 3, 8), INDEX(0, 50, 5), 4, 0, form),                 \
        FACTORS(words ", factors, partly", REAL(2, 5, 3, 11), INDEX(0, 50, 2, 5), 3, 6, form)

static const ig_case cases[] = {
    FORM("pairs", IG_ROPE_INTERLEAVED),
    FORM("neox", IG_ROPE_NEOX),
};

/* ---- tolerances ---- */

static const char turned[] = "two products; the angle is given to no better than its dtype";
static const case_tolerance tolerances[] = {
    {IG_OP_ROPE, 16, turned},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_rope_pairs(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.type = IG_ROPE_INTERLEAVED});
}
static ig_tensor *grad_rope_neox(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.type = IG_ROPE_NEOX, .freq_base = 100});
}
static ig_tensor *grad_rope_partly(const grad_inputs *in) {
    return ig_rope(P(0), in->index,
                   (ig_rope_options){.type = IG_ROPE_NEOX, .rotary_dims = 4, .freq_scale = 0.5f});
}
static ig_tensor *grad_rope_magnified(const grad_inputs *in) {
    return ig_rope(P(0), in->index, (ig_rope_options){.mscale = 1.25f});
}
static ig_tensor *grad_rope_factors(const grad_inputs *in) {
    return ig_rope(P(0), in->index,
                   (ig_rope_options){.type = IG_ROPE_INTERLEAVED, .freq_factors = in->fixed});
}

static const grad_case grads[] = {
    GRAD_INDEXED(IG_OP_ROPE, "pairs", grad_rope_pairs, EXTENTS(3), INDICES(0, 1, 5),
                 PARAM(2, 3, 2, 4)),
    GRAD_INDEXED(IG_OP_ROPE, "NeoX, positions of each row", grad_rope_neox, EXTENTS(2, 3),
                 INDICES(0, 1, 5, 2, 2, 7), PARAM(2, 3, 2, 4)),
    GRAD_INDEXED(IG_OP_ROPE, "partly", grad_rope_partly, EXTENTS(3), INDICES(0, 1, 5),
                 PARAM(1, 3, 2, 7)),
    GRAD_INDEXED(IG_OP_ROPE, "magnified", grad_rope_magnified, EXTENTS(3), INDICES(0, 1, 5),
                 PARAM(1, 3, 2, 4)),
    GRAD_INDEXED(IG_OP_ROPE, "factors", grad_rope_factors, EXTENTS(3), INDICES(0, 1, 5),
                 PARAM(1, 3, 1, 8)),
};

const case_table cases_rope = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
