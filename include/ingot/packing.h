/*
 * packing.h - weights in the layouts that devices read best.
 *
 * A device may want frozen weights in another order than their file has them.
 * What it makes of them is kept here, once for all contexts that the packing is
 * attached to: programs look for it by the address of the weights.  A packing may
 * be used by several threads at once.
 */
#ifndef INGOT_PACKING_H
#define INGOT_PACKING_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_packing ig_packing;

/* References are counted; a context that it is attached to holds one.  What is packed comes from
 * the allocator (NULL: the heap), which is called by whichever thread packs and outlives the
 * packing.  Weights that there is no memory for, or no room for all of them in a context's limit,
 * are read as they lie. */
IG_API IG_MUST_CHECK ig_status ig_packing_create(const ig_allocator *allocator, ig_packing **out);
IG_API ig_packing *ig_packing_retain(ig_packing *packing);
IG_API void ig_packing_release(ig_packing *packing); /* NULL is fine */

/* Bytes that may be packed.  They must stay as they are and where they are as long as the packing.
 * IG_PACK_MAPPED: they are a file's, so pages that were packed are given back to the system, which
 * brings them again if somebody looks. */
typedef enum ig_pack_source { IG_PACK_MEMORY, IG_PACK_MAPPED } ig_pack_source;
IG_API IG_MUST_CHECK ig_status ig_packing_add(ig_packing *packing, const void *bytes,
                                              uint64_t n_bytes, ig_pack_source source);

IG_API uint64_t ig_packing_bytes(ig_packing *packing); /* that packed weights take now */

/* Programs that the context makes from now on find it; NULL is fine.  Detach as often as attached,
 * after the last run of such a program. */
IG_API IG_MUST_CHECK ig_status ig_ctx_attach_packing(ig_ctx *ctx, ig_packing *packing);
IG_API void ig_ctx_detach_packing(ig_ctx *ctx, ig_packing *packing);

#ifdef __cplusplus
}
#endif
#endif
