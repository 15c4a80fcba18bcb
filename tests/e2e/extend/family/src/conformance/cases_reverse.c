/* Rows backwards, times a number. */
#include "conformance/cases.h"

#define REVERSE(what, x) CASE(IG_OP_REVERSE, what, IN(x), ATTRS(ig_attrs_reverse, 0.75f))

static const ig_case cases[] = {
    REVERSE("an odd tail", REAL(3, 37)),
    REVERSE("many", REAL(300, 129)),
    REVERSE("one", REAL(1)),
    REVERSE("none", REAL(0, 5)),
    REVERSE("a slice", LAID(SLICED, 5, 7, 19)),
};

static const case_tolerance tolerances[] = {{IG_OP_REVERSE, 2, "a product"}};

static ig_tensor *reverse(const grad_inputs *in) { return ig_exp(ig_reverse(in->p[0], 0.75f)); }

static const grad_case grads[] = {GRAD(IG_OP_REVERSE, "rows", reverse, PARAM(3, 5))};

const case_table cases_reverse = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
