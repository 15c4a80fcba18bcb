/* quant_blocks.h - block sizes and dequantization of every weight type. */
#ifndef IG_BASE_QUANT_BLOCKS_H
#define IG_BASE_QUANT_BLOCKS_H

#include "ingot/tensor.h"

/* Elements per block: 1 for unquantized types. */
int64_t ig_dtype_block(ig_dtype dtype);

/* Bytes of `elements`, and elements of `bytes`; both multiples of a block. */
int64_t ig_bytes_of(ig_dtype dtype, int64_t elements);
int64_t ig_elements_of(ig_dtype dtype, int64_t bytes);

/* Whether ig_blocks_dequantize() supports it: all but F64 and I32. */
bool ig_blocks_can_dequantize(ig_dtype dtype);

/* Dequantizes n elements, a multiple of the block size. The blocks need no alignment. */
void ig_blocks_dequantize(ig_dtype dtype, const void *blocks, float *out, int64_t n);

/* Quantizes n floats, a multiple of the block size, to Q8_0: d is the largest magnitude / 127, q
 * is x / d rounded, ties away from 0. A block that contains an infinity or a NaN becomes all NaN.
 */
void ig_blocks_quantize_q8_0(const float *x, void *blocks, int64_t n);

#endif
