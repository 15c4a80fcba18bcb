/*
 * loaded_model.h - loads the model of a command: its options, context, adapter and session.
 */
#ifndef IG_CLI_COMMANDS_LOADED_MODEL_H
#define IG_CLI_COMMANDS_LOADED_MODEL_H

#include <limits.h>

#include "cli/app/cli.h"
#include "ingot/session.h"

typedef struct model_options {
    const char *path, *plugin, *arch, *device, *gpu_layers, *cache, *cache_k, *cache_v, *pre;
    ig_opt_source device_source;
    int64_t threads, threads_batch, ctx_len, chunk, batch;
    bool no_mmap, mlock, no_pack;
} model_options;

/* Rows for a command's table: {OPT_TABLE, .to = offsetof(its struct, model), .table = model_opts},
 * after the same of model_file_opts, which has --model alone. */
extern const ig_opt model_file_opts[], model_opts[];
extern const char *const model_caches[];

typedef struct loaded_model {
    ig_cli *cli;
    const model_options *options;
    char path[PATH_MAX]; /* from the options, or of the bundled model */
    ig_file_kind kind;
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session; /* created on demand */
    double load_ms;
} loaded_model;

/* Number of threads, for prefill and decode alike: --threads, or --threads-batch if that is unset.
 */
int model_threads(const model_options *options);

/* The device from --device and --n-gpu-layers; NULL: neither is given. */
IG_MUST_CHECK ig_status model_device(const ig_cli *cli, const model_options *options,
                                     const char **out);
/* Copies the path that is given; NULL: that of the bundled model. */
IG_MUST_CHECK ig_status model_find(const char *given, char out[PATH_MAX]);

/* Loads the model; close it also after an error. */
IG_MUST_CHECK ig_status loaded_model_open(ig_cli *cli, const model_options *options,
                                          loaded_model *out);
/* The usage error for an unknown --arch, with the built-in names. */
IG_MUST_CHECK ig_status model_unknown_arch(const char *arch);
/* Creates the session from the options, with `sequences` sequences of at least `ctx_len` tokens
 * unless the options set a length (0: no minimum). */
IG_MUST_CHECK ig_status model_session(loaded_model *model, int64_t ctx_len, int64_t sequences);
/* Creates a session of one sequence that returns hidden states. */
IG_MUST_CHECK ig_status model_hidden_session(loaded_model *model);
void loaded_model_close(loaded_model *model); /* a zeroed one is fine */

/* Reads the prompt from --prompt, or from a file or pipe (- is standard input); exactly one must
 * be given. More than `most` bytes from a pipe are an error. Free `bytes` with the program's
 * allocator, also after an error. */
enum { MODEL_TEXT_MOST = 1 << 30 };
typedef struct model_text {
    char *bytes;
    size_t n_bytes;
} model_text;
IG_MUST_CHECK ig_status model_read_text(ig_cli *cli, const char *prompt, const char *file,
                                        size_t most, model_text *out);

/* Whether a path is standard input, a pipe or a device; and reads all of it, with the same limit
 * and ownership. */
bool model_text_streams(const char *path);
IG_MUST_CHECK ig_status model_read_stream(ig_cli *cli, const char *path, size_t most,
                                          model_text *out);

/* Models from files expect UTF-8; invalid bytes are an error with their position. Models trained
 * by Ingot accept any bytes. */
IG_MUST_CHECK ig_status model_check_text(const loaded_model *model, model_text text);

/* Tokenizes, with BOS if the model's file asks for it; the caller deinits `out`, also after an
 * error. */
IG_MUST_CHECK ig_status model_tokenize(const loaded_model *model, model_text text, ig_tokens *out);
/* Runs the tokens through the session's first sequence; `logits` (or NULL) are those after the
 * last one. */
IG_MUST_CHECK ig_status loaded_model_prefill(loaded_model *model, const ig_tokens *tokens,
                                             float *logits);

#endif
