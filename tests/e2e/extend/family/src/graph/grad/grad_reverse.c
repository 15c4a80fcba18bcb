/* Gradient rule of reverse. */
#include "graph/grad/grad_build.h"

/* It is its own transpose. */
void ig_grad_reverse(const ig_grad *r) {
    r->din[0] = ig_build(r->g, IG_OP_REVERSE, r->attrs, r->dout, 1);
}
