/* Shape rule of reverse. */
#include "graph/shape/shape_call.h"

ig_status ig_infer_reverse(const ig_shape_call *c) {
    if (c->in[0].shape.rank < 1) return misshapen(c, 0, "needs a dimension");
    return ig_infer_real(c);
}
