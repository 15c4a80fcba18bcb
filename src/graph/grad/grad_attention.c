/* Gradient rules of RoPE and attention. */
#include "graph/grad/grad_build.h"

#include <string.h>

void ig_grad_rope(const ig_grad *r) {
    ig_attrs_rope back;
    memcpy(&back, r->attrs, sizeof back);
    back.inverse = !back.inverse;
    const ig_value in[] = {r->dout[0], r->in[1], r->n_in > 2 ? r->in[2] : IG_NO_VALUE};
    r->din[0] = ig_build(r->g, IG_OP_ROPE, &back, in, r->n_in);
}

void ig_grad_attention(const ig_grad *r) {
    if (r->dout[0] == IG_NO_VALUE || r->n_out < 2 || r->dout[1] != IG_NO_VALUE) {
        ig_graph_stick(r->g, IG_FAIL(IG_ERR_UNSUPPORTED,
                                     "backward: attention: nothing flows back through the "
                                     "log-sum-exp, and it must have been kept"));
        return;
    }
    const ig_value in[] = {r->in[0], r->in[1], r->in[2], r->out[0], r->out[1], r->dout[0]};
    const ig_value d = ig_build(r->g, IG_OP_ATTENTION_GRAD, r->attrs, in, 6);
    for (uint32_t i = 0; i < 3 && d != IG_NO_VALUE; i++) r->din[i] = d + i;
}
