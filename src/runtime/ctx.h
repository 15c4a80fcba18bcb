/*
 * ctx.h - the context: one member per component, each with its own header.
 *
 * An op call goes through ctx->tape.graph: the builder infers the shape and appends the node, the
 * graph's run hook (run_node.c) computes it at once, and the result is returned as a tensor. Nodes
 * that a backward may need stay in the graph, which is the tape; others are cut off.
 *
 * Only files on the path of an op include this header. Others include the headers of the components
 * that they use and get them from ig_ctx_memory() and the like. A context and all its tensors
 * belong to one thread at a time.
 */
#ifndef IG_RUNTIME_CTX_H
#define IG_RUNTIME_CTX_H

#include "ingot/ingot.h"
#include "plan/plan_cache.h"
#include "runtime/apply.h"
#include "runtime/ctx_devices.h"
#include "runtime/ctx_host.h"
#include "runtime/ctx_packing.h"
#include "runtime/custom_op.h"
#include "runtime/record/capture.h"
#include "runtime/record/record.h"
#include "runtime/record/steps.h"
#include "runtime/report/nan_check.h"
#include "runtime/report/profile.h"
#include "runtime/run_node.h"
#include "runtime/slots.h"
#include "runtime/storage.h"
#include "runtime/tape.h"
#include "runtime/tensor.h"

struct ig_ctx {
    ig_allocator allocator;
    ig_ctx_options options; /* without its strings */
    ig_ctx_host host;
    ig_progress progress;
    ig_compile_texts compile_options;

    ig_devices devices;
    ig_tape tape;
    ig_handles handles;
    ig_memory memory;
    ig_recorder recorder;
    ig_captures captures;
    ig_plan_cache plan_cache;
    ig_compile_cache compile_cache;
    ig_packings packings;
    ig_slots slots;
    ig_custom_ops custom_ops;
    ig_steps steps;
    ig_profile profile;
    ig_nan_check nan_check;
    ig_counters counters;
};

/* Nodes built now are dropped when the backward ends: no tensor may keep their values. */
static inline bool ig_is_passing(const ig_ctx *ctx) {
    return ctx->tape.in_backward && ctx->recorder.state != IG_RECORDING;
}

#endif
