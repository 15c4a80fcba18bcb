/*
 * opened.h - a model that a command works with: the options that say which and
 * how, and the context, adapter and session that come of them.
 */
#ifndef IG_CLI_OPENED_H
#define IG_CLI_OPENED_H

#include <limits.h>

#include "cli/app/cli.h"
#include "ingot/session.h"

typedef struct model_options {
    const char *path, *device, *gpu_layers, *cache, *cache_k, *cache_v, *pre;
    int64_t threads, threads_batch, ctx_len, chunk, batch;
    bool no_mmap, mlock, no_pack;
} model_options;

/* Rows for a command's table: {OPT_TABLE, .to = offsetof(its struct, model), .table = model_opts}.
 */
extern const ig_opt model_opts[];
extern const char *const model_caches[];

typedef struct opened_model {
    ig_cli *cli;
    const model_options *options;
    char path[PATH_MAX]; /* as the options have it, or of the model that comes with the program */
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session; /* made when it is asked for */
    double load_ms;
} opened_model;

/* How many threads compute, prompts and tokens alike: --threads, or --threads-batch where that has
 * no number. */
int model_threads(const model_options *options);

/* Loads the model; it must be closed in any case. */
IG_MUST_CHECK ig_status model_open(ig_cli *cli, const model_options *options, opened_model *out);
/* The session as the options say, of at least `ctx_len` tokens unless they say otherwise (0: any),
 * with so many sequences. */
IG_MUST_CHECK ig_status model_session(opened_model *model, int64_t ctx_len, int64_t sequences);
/* One that hands out hidden states, of one sequence. */
IG_MUST_CHECK ig_status model_hidden_session(opened_model *model);
void model_close(opened_model *model); /* a zeroed one is fine */

/* A prompt: of --prompt, or of a file or pipe (- is standard input), of which one must be given.
 * `bytes` are freed with the allocator of the program. */
typedef struct model_text {
    char *bytes;
    size_t n_bytes;
} model_text;
IG_MUST_CHECK ig_status model_read_text(ig_cli *cli, const char *prompt, const char *file,
                                        model_text *out);

/* Whether a path is standard input, a pipe or a device; and all that comes from it, which is freed
 * likewise, also after an error, as of more than `most` bytes. */
bool model_text_streams(const char *path);
IG_MUST_CHECK ig_status model_read_stream(ig_cli *cli, const char *path, size_t most,
                                          model_text *out);

/* A model of a file has learnt UTF-8; other bytes are an error that says where.  One that was
 * trained here may have learnt any. */
IG_MUST_CHECK ig_status model_check_text(const opened_model *model, model_text text);

/* Its tokens, with those that the model's file wants before it; freed likewise. */
typedef struct model_tokens {
    int32_t *at;
    size_t count;
} model_tokens;
IG_MUST_CHECK ig_status model_encode(const opened_model *model, model_text text, model_tokens *out);
/* Puts them through the session's first sequence; `logits` (or NULL) are those behind the last. */
IG_MUST_CHECK ig_status model_feed(opened_model *model, model_tokens tokens, float *logits);

#endif
