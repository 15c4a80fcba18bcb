/* ctx_packing.h - the packings of a context, and the host's part of packing a weight. */
#ifndef IG_RUNTIME_CTX_PACKING_H
#define IG_RUNTIME_CTX_PACKING_H

#include "plan/packed_weights.h"

typedef struct ig_packings {
    ig_packing **at; /* one entry and one reference per attach */
    size_t count, room;
    ig_packing *locked; /* the packing of the weight that is being packed; NULL: none */
    bool warned;        /* warned that the limit has no room for packed weights */
    uint64_t ns;        /* spent on packing so far */
    uint64_t began_ns;  /* start of the current weight */
} ig_packings;

ig_packings *ig_ctx_packings(const ig_ctx *ctx);

/* ig_host's pack_begin(), pack_consumed() and pack_end(). */
void *ig_ctx_pack_begin(ig_ctx *ctx, const ig_operand *weight, const char *layout, uint64_t bytes,
                        bool *out_ready);
void ig_ctx_pack_consumed(const ig_ctx *ctx, const ig_operand *weight, uint64_t source_bytes);
void ig_ctx_pack_end(ig_ctx *ctx, const ig_operand *weight, bool complete);

/* Called before and after plans for another device are made: drops what the old device packed and
 * no new plan requested, unless other contexts attached the packing. */
void ig_ctx_mark_packed(const ig_ctx *ctx);
void ig_ctx_drop_packed(const ig_ctx *ctx);
void ig_ctx_detach_all(ig_ctx *ctx);

#endif
