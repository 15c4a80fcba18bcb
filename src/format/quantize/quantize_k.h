/* quantize_k.h - quantizes 256 numbers to a K-quant super-block; for quantize.c. */
#ifndef IG_FORMAT_QUANTIZE_QUANTIZE_K_H
#define IG_FORMAT_QUANTIZE_QUANTIZE_K_H

#include "ingot/blocks.h"

void encode_q2_k(const float *x, ig_block_q2_k *out);
void encode_q3_k(const float *x, ig_block_q3_k *out);
void encode_q4_k(const float *x, ig_block_q4_k *out);
void encode_q5_k(const float *x, ig_block_q5_k *out);
void encode_q6_k(const float *x, ig_block_q6_k *out);
void encode_iq4_xs(const float *x, ig_block_iq4_xs *out);

#endif
