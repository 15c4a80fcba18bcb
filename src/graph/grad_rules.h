/* rules.h - what a gradient rule is given and gives. */
#ifndef IG_AUTOGRAD_RULES_H
#define IG_AUTOGRAD_RULES_H

#include "graph/build.h"

/* One recorded op on the way back.  IG_NO_VALUE among gradients: nothing flows there. */
typedef struct ig_grad {
    ig_graph *g;
    uint32_t node;
    ig_op op;
    const void *attrs;
    uint32_t n_in, n_out;
    const ig_value *in, *out;
    const ig_value *dout; /* of every output; at least one is a value */
    const bool *wanted;   /* of every input: whether anybody asks for its gradient */
    ig_value *din;        /* of every input; the rule fills in what it has */
} ig_grad;

/* A rule adds the nodes that compute the gradients of the inputs; errors stick to the graph. */
typedef void ig_grad_rule(const ig_grad *r);
extern ig_grad_rule *const ig_grad_rules[IG_OP_COUNT];

/* Whether anything flows back through the op at all. */
bool ig_grad_flows(ig_op op);

#endif
