/*
 * The gradient rules that op.def names, one per op, written in ops.
 *
 * Because a rule only builds graph, it runs on every backend and is fused and planned like the
 * forward pass.
 */
#include "graph/grad_rules.h"

void ig_grad_none(const ig_grad *r) { (void)r; }

void ig_grad_refuse(const ig_grad *r) {
    ig_graph_stick(r->g, IG_FAIL(IG_ERR_UNSUPPORTED,
                                 "backward: no gradient rule for %s: second derivatives of fused "
                                 "gradients are not there",
                                 ig_op_name(r->op)));
}

/* The gradient function of a CUSTOM op. */
void ig_grad_custom(const ig_grad *r) {
    const ig_graph_hooks *hooks = &r->g->hooks;
    const ig_status status =
        hooks->custom_grad ? hooks->custom_grad(hooks->user, r->g, r->node, r->dout, r->din)
                           : IG_FAIL(IG_ERR_UNSUPPORTED, "backward: custom op without a gradient");
    if (status != IG_OK) ig_graph_stick(r->g, status);
}

ig_grad_rule *const ig_grad_rules[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    [IG_OP_##ID] = ig_grad_##grad,
#include "ingot/op.def"
};

bool ig_grad_flows(ig_op op) { return ig_grad_rules[op] != ig_grad_none; }
