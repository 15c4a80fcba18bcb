/* custom_op.h - the custom ops of a context: names are owned, ids are indices and stay valid. */
#ifndef IG_RUNTIME_CUSTOM_OP_H
#define IG_RUNTIME_CUSTOM_OP_H

#include "base/alloc.h"
#include "plan/plan.h"

enum { IG_CUSTOM_MOST_IN = 32 };

typedef struct ig_custom_ops {
    ig_custom_op *at;
    size_t count, room;
    ig_custom_guard guard; /* set while a custom op's function runs */
} ig_custom_ops;

ig_custom_ops *ig_ctx_custom_ops(const ig_ctx *ctx);
void ig_custom_ops_deinit(ig_custom_ops *ops, const ig_allocator *allocator);

#endif
