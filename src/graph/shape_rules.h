/* shape_rules.h - shape inference. */
#ifndef IG_GRAPH_SHAPE_RULES_H
#define IG_GRAPH_SHAPE_RULES_H

#include "ingot/op.h"

/* Infers dtypes and shapes of the results, or fails with the mismatch. `attrs` is the op's struct,
 * with non-negative axes. CUSTOM is not allowed: it has its own rule. */
IG_MUST_CHECK ig_status ig_infer(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in,
                                 ig_desc *out, uint32_t n_out);

#endif
