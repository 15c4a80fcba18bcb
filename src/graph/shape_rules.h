/* infer.h - what an op gives for what it is given. */
#ifndef IG_OP_INFER_H
#define IG_OP_INFER_H

#include "ingot/op.h"

/* Dtypes and shapes of the results, or why the inputs do not fit.  `attrs` is the op's struct,
 * with axes counted from the first dimension.  CUSTOM has its own rule: not to be asked here. */
IG_MUST_CHECK ig_status ig_infer(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in,
                                 ig_desc *out, uint32_t n_out);

#endif
