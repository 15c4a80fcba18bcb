/*
 * ingot.h - the whole public API.  Start with context.h, then tensor.h and ops.h.
 */
#ifndef INGOT_H
#define INGOT_H

#include "ingot/batch.h"      /* the production route */
#include "ingot/bench.h"      /* what the machine can do at most */
#include "ingot/checkpoint.h" /* .oam files */
#include "ingot/context.h"    /* ig_ctx: device, threads, memory, scopes */
#include "ingot/grad.h"       /* backward, modes, steps */
#include "ingot/graph.h"      /* capture and replay by hand */
#include "ingot/model.h"      /* models by name and by file */
#include "ingot/nn.h"         /* layers, optimisers */
#include "ingot/ops.h"        /* what can be computed */
#include "ingot/packing.h"    /* weights as devices like them */
#include "ingot/report.h"     /* what happened */
#include "ingot/session.h"    /* texts going through a model */
#include "ingot/status.h"     /* how calls fail */
#include "ingot/tensor.h"     /* dtype, shape, tensor */

/* Not here: backend.h, for those who write one. */
#endif
