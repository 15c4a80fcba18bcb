/*
 * quantize.h - numbers to blocks: the scales that lose least.
 *
 * For each block the scale (and the offset, where the type has one) is searched
 * that gives the least squared error; docs/gguf.md tells how that compares with
 * other tools.  base/blocks.h goes the other way.
 */
#ifndef IG_FORMAT_QUANTIZE_H
#define IG_FORMAT_QUANTIZE_H

#include "ingot/tensor.h"

/* Whether ig_quantize() knows the type: all that ig_blocks_decode() knows. */
bool ig_quantize_can(ig_dtype dtype);

/* n finite numbers, whole blocks of them, to `out`, which has room for these. */
void ig_quantize(ig_dtype dtype, const float *x, void *out, int64_t n);

/* The sum of the squared differences between numbers and what their blocks stand for. */
double ig_quantize_error(ig_dtype dtype, const float *x, const void *blocks, int64_t n);

#endif
