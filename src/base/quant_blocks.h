/* blocks.h - elements of every type that weights are stored in, as numbers. */
#ifndef IG_BASE_BLOCKS_H
#define IG_BASE_BLOCKS_H

#include "ingot/tensor.h"

/* Elements that are stored together: 1 for plain types. */
int64_t ig_dtype_block(ig_dtype dtype);

/* The bytes of so many elements, and the elements of so many bytes; whole blocks of them. */
int64_t ig_bytes_of(ig_dtype dtype, int64_t elements);
int64_t ig_elements_of(ig_dtype dtype, int64_t bytes);

/* Whether ig_blocks_decode() knows it: all that is not F64 or I32. */
bool ig_blocks_can_decode(ig_dtype dtype);

/* Writes n elements, whole blocks of them, as the float that each one stands for.  The blocks may
 * lie at any address. */
void ig_blocks_decode(ig_dtype dtype, const void *blocks, float *out, int64_t n);

/* n numbers to Q8_0, whole blocks: d is the largest magnitude / 127, and q is x / d, rounded, with
 * ties away from 0.  A block with an infinity or a NaN in it becomes all NaN. */
void ig_blocks_encode_q8_0(const float *x, void *blocks, int64_t n);

#endif
