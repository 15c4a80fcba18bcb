/*
 * ctx_host.h - the services of a context for its backends.
 *
 * Backends pass the address of `table` with every call, and the context is found from it. The
 * functions are in ctx.c; all but trace() are called on the thread that uses the context.
 */
#ifndef IG_RUNTIME_CTX_HOST_H
#define IG_RUNTIME_CTX_HOST_H

#include "base/team.h"
#include "ingot/backend.h"
#include "ingot/context.h"
#include "runtime/attachments.h"

typedef struct ig_ctx_host {
    ig_host table; /* first member */
    ig_ctx *ctx;
    ig_team *team;              /* owned */
    ig_attachments attachments; /* owned by clients */
} ig_ctx_host;

/* Compile options as text, for backends and for the keys of the compile cache; "": unset. */
enum { IG_OPTION_LEVEL, IG_OPTION_PRECISION, IG_OPTION_BATCHES };
typedef struct ig_compile_texts {
    char optimization_level[12], precision[16], batch_sizes[96];
    bool gives_level, gives_precision; /* set by the caller, not by config.json */
    uint32_t read;                     /* bit 1 << IG_OPTION_*: a backend has read it */
} ig_compile_texts;

ig_ctx_host *ig_ctx_get_host(const ig_ctx *ctx);
const ig_ctx_options *ig_ctx_get_options(const ig_ctx *ctx); /* without its strings */
const ig_compile_texts *ig_ctx_compile_texts(const ig_ctx *ctx);
/* The answer of the caller's cancel() callback. */
bool ig_ctx_is_cancelled(const ig_ctx *ctx);
/* Whether ops and step ends are allowed now: not from the run() of a custom op. If not, sets the
 * thread's error, and the custom op fails. */
IG_MUST_CHECK ig_status ig_ctx_check_idle(ig_ctx *ctx, const char *what);

#endif
