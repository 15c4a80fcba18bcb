/*
 * ingot.h - the entire public API.  Start with context.h, then tensor.h and ops.h.
 */
#ifndef INGOT_H
#define INGOT_H

#include "ingot/arch.h"       /* architectures of your own */
#include "ingot/batch.h"      /* dispatches by hand */
#include "ingot/bench.h"      /* the roofline of the machine */
#include "ingot/chat.h"       /* chat templates */
#include "ingot/checkpoint.h" /* .oam files */
#include "ingot/context.h"    /* ig_ctx: device, threads, memory, scopes */
#include "ingot/convert.h"    /* GGUF from folders, quantization */
#include "ingot/data.h"       /* training text in windows */
#include "ingot/engine.h"     /* many requests with one model: continuous batching */
#include "ingot/gguf.h"       /* keys and tensors of GGUF files */
#include "ingot/grad.h"       /* backward, modes, steps */
#include "ingot/graph.h"      /* explicit capture and replay */
#include "ingot/model.h"      /* models by name and by file */
#include "ingot/nn.h"         /* layers, optimizers */
#include "ingot/ops.h"        /* ops */
#include "ingot/packing.h"    /* packed weights */
#include "ingot/report.h"     /* counters, timeline, profile */
#include "ingot/session.h"    /* inference over a paged KV cache */
#include "ingot/status.h"     /* errors */
#include "ingot/tensor.h"     /* dtype, shape, tensor */
#include "ingot/tokenizer.h"  /* text to tokens and back */

/* Not included: backend.h and conformance.h, for authors of backends; device.h; testing.h;
 * abi.h.
 */
#endif
