/*
 * weights.h - reads single elements of weights.
 *
 * A block is dequantized on first access and cached until another one is needed, so reading along a
 * row dequantizes each block once.
 */
#ifndef IG_BACKEND_REF_WEIGHTS_H
#define IG_BACKEND_REF_WEIGHTS_H

#include "backend/ref/ref_kernel.h"
#include "base/quant_blocks.h"
#include "ingot/blocks.h"

typedef struct ig_ref_weights {
    const ig_ref_view *view;
    int64_t block; /* elements per block */
    int64_t kept;  /* offset of the cached block; -1: none */
    float value[IG_BLOCK_K];
} ig_ref_weights;

static inline ig_ref_weights ig_ref_weights_of(const ig_ref_view *v) {
    return (ig_ref_weights){.view = v, .block = ig_dtype_block(v->dtype), .kept = -1};
}

/* Element i in row-major order. */
static inline double ig_ref_weight(ig_ref_weights *w, int64_t i) {
    const ig_dtype dtype = w->view->dtype;
    const int64_t place = ig_ref_place(w->view, i), first = place - place % w->block;
    if (first != w->kept)
        ig_blocks_dequantize(dtype, w->view->at + ig_bytes_of(dtype, first), w->value, w->block);
    w->kept = first;
    return (double)w->value[place - first];
}

#endif
