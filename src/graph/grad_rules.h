/* grad_rules.h - inputs and outputs of a gradient rule. */
#ifndef IG_GRAPH_GRAD_RULES_H
#define IG_GRAPH_GRAD_RULES_H

#include "graph/build.h"

/* One node in the backward pass. IG_NO_VALUE in place of a gradient: none. */
typedef struct ig_grad {
    ig_graph *g;
    uint32_t node;
    ig_op op;
    const void *attrs;
    uint32_t n_in, n_out;
    const ig_value *in, *out;
    const ig_value *dout; /* gradients of the outputs; at least one is a value */
    const bool *wanted;   /* for each input, whether its gradient is needed */
    ig_value *din;        /* gradients of the inputs, set by the rule */
} ig_grad;

/* Adds the nodes that compute the gradients of the inputs; errors stick to the graph. */
typedef void ig_grad_rule(const ig_grad *r);
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    ig_grad_rule ig_grad_##grad;
#include "ingot/op.def"

/* By op. */
extern ig_grad_rule *const ig_grad_rules[IG_OP_COUNT];

/* Whether the op is differentiable. */
bool ig_grad_flows(ig_op op);

#endif
