/*
 * quantize.h - quantization with the scales of least squared error.
 *
 * For each block, the scale (and the min, if the type has one) minimizes the squared error;
 * docs/gguf.md compares the result with other tools. base/quant_blocks.h dequantizes.
 */
#ifndef IG_FORMAT_QUANTIZE_QUANTIZE_H
#define IG_FORMAT_QUANTIZE_QUANTIZE_H

#include "ingot/tensor.h"

/* Whether ig_quantize() supports the type: the same set as ig_blocks_dequantize(). */
bool ig_quantize_can(ig_dtype dtype);

/* Quantizes n finite numbers, a multiple of the block size, to `out`. */
void ig_quantize(ig_dtype dtype, const float *x, void *out, int64_t n);

/* The sum of squared differences between numbers and their dequantized blocks. */
double ig_quantize_error(ig_dtype dtype, const float *x, const void *blocks, int64_t n);

#endif
