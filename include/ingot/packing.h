/*
 * packing.h - weights packed in the layouts of devices.
 *
 * A device may pack frozen weights in a layout of its own.  A packing keeps the packed
 * weights, once for all contexts it is attached to; programs find them by the address
 * of the original weights.  A packing is thread-safe.
 */
#ifndef INGOT_PACKING_H
#define INGOT_PACKING_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_packing ig_packing;

/* Reference-counted; a context that it is attached to holds a reference.  Packed weights come from
 * the allocator (NULL: the heap), which any packing thread may call and which must outlive the
 * packing.  Weights that do not fit into memory or a context's limit stay unpacked. */
IG_API IG_MUST_CHECK ig_status ig_packing_create(const ig_allocator *allocator, ig_packing **out);
IG_API ig_packing *ig_packing_retain(ig_packing *packing);
IG_API void ig_packing_release(ig_packing *packing); /* NULL is fine */

/* Adds bytes that may be packed.  They must neither change nor move while the packing exists.
 * IG_PACK_MAPPED: they belong to a mapped file, so OS pages are released after packing and read
 * again on access. */
typedef enum ig_pack_source { IG_PACK_MEMORY, IG_PACK_MAPPED } ig_pack_source;
IG_API IG_MUST_CHECK ig_status ig_packing_add(ig_packing *packing, const void *bytes,
                                              uint64_t n_bytes, ig_pack_source source);

IG_API uint64_t ig_packing_bytes(ig_packing *packing); /* of all packed weights */

/* Programs that the context compiles from now on use the packing; NULL is a no-op.  Detach once per
 * attach, after the last run of such a program. */
IG_API IG_MUST_CHECK ig_status ig_ctx_attach_packing(ig_ctx *ctx, ig_packing *packing);
IG_API void ig_ctx_detach_packing(ig_ctx *ctx, ig_packing *packing);

#ifdef __cplusplus
}
#endif
#endif
