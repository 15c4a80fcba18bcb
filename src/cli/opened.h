/*
 * opened.h - a model that a command works with: the options that say which and
 * how, and the context, adapter and session that come of them.
 */
#ifndef IG_CLI_OPENED_H
#define IG_CLI_OPENED_H

#include <limits.h>

#include "cli/cli.h"
#include "ingot/session.h"

typedef struct model_options {
    const char *path, *device, *cache, *cache_k, *cache_v, *pre;
    int64_t threads, ctx_len, chunk, batch;
    bool no_mmap, mlock, no_pack;
} model_options;

extern const char *const model_devices[], *const model_caches[];

/* Rows for a command's table; `member` is the model_options in its struct. */
#define MODEL_ROWS(type, member)                                                              \
    {OPT_TEXT,                                                                                \
     'm',                                                                                     \
     "model",                                                                                 \
     offsetof(type, member.path),                                                             \
     .help = "the model, a .gguf or .oam file; without it, a small one that tells stories",   \
     .value = "FILE",                                                                         \
     .env = "INGOT_MODEL",                                                                    \
     .flags = OPT_FILE},                                                                      \
        {OPT_INT,                                                                             \
         't',                                                                                 \
         "threads",                                                                           \
         offsetof(type, member.threads),                                                      \
         .help = "how many threads compute; 0: as many as there are processors",              \
         .value = "N",                                                                        \
         .initial = "0",                                                                      \
         .env = "INGOT_THREADS",                                                              \
         .low = 0,                                                                            \
         .high = 1024},                                                                       \
        {OPT_TEXT,                                                                            \
         0,                                                                                   \
         "device",                                                                            \
         offsetof(type, member.device),                                                       \
         .help = "where to compute",                                                          \
         .value = "NAME",                                                                     \
         .alias = "backend dev",                                                              \
         .env = "INGOT_DEVICE",                                                               \
         .choices = model_devices},                                                           \
        {OPT_INT,                                                                             \
         'c',                                                                                 \
         "ctx-size",                                                                          \
         offsetof(type, member.ctx_len),                                                      \
         .help = "tokens that a text may have; 0: the model's own, but at most 4096",         \
         .value = "N",                                                                        \
         .initial = "0",                                                                      \
         .low = 0,                                                                            \
         .high = 1 << 24},                                                                    \
        {OPT_INT,                                                                             \
         0,                                                                                   \
         "ubatch-size",                                                                       \
         offsetof(type, member.chunk),                                                        \
         .help = "rows that go through the model at once; 0: 128",                            \
         .value = "N",                                                                        \
         .alias = "ub",                                                                       \
         .initial = "0",                                                                      \
         .low = 0,                                                                            \
         .high = 4096},                                                                       \
        {OPT_INT,                                                                             \
         'b',                                                                                 \
         "batch-size",                                                                        \
         offsetof(type, member.batch),                                                        \
         .help = "the same, unless -ub says otherwise",                                       \
         .value = "N",                                                                        \
         .initial = "0",                                                                      \
         .low = 0,                                                                            \
         .high = 1 << 24},                                                                    \
        {OPT_TEXT,                                                                            \
         0,                                                                                   \
         "kv",                                                                                \
         offsetof(type, member.cache),                                                        \
         .help = "what keys and values are kept as; f16 if not said",                         \
         .value = "TYPE",                                                                     \
         .choices = model_caches},                                                            \
        {OPT_TEXT,                                                                            \
         0,                                                                                   \
         "cache-type-k",                                                                      \
         offsetof(type, member.cache_k),                                                      \
         .help = "the same for keys",                                                         \
         .value = "TYPE",                                                                     \
         .alias = "ctk",                                                                      \
         .choices = model_caches},                                                            \
        {OPT_TEXT,                                                                            \
         0,                                                                                   \
         "cache-type-v",                                                                      \
         offsetof(type, member.cache_v),                                                      \
         .help = "the same for values",                                                       \
         .value = "TYPE",                                                                     \
         .alias = "ctv",                                                                      \
         .choices = model_caches},                                                            \
        {OPT_TEXT,                                                                            \
         0,                                                                                   \
         "pre",                                                                               \
         offsetof(type, member.pre),                                                          \
         .help = "how text is split before it becomes tokens, instead of what the file says", \
         .value = "NAME"},                                                                    \
        {OPT_FLAG, 0, "no-mmap", offsetof(type, member.no_mmap),                              \
         .help = "read the file into memory instead of mapping it"},                          \
        {OPT_FLAG, 0, "no-pack", offsetof(type, member.no_pack),                              \
         .help = "read weights as they lie in the file: starts at once, then runs slower"},   \
    {                                                                                         \
        OPT_FLAG, 0, "mlock", offsetof(type, member.mlock),                                   \
            .help = "keep the weights in memory: the system may not page them out"            \
    }

typedef struct opened_model {
    ig_cli *cli;
    const model_options *options;
    char path[PATH_MAX]; /* as the options have it, or of the model that comes with the program */
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session; /* made when it is asked for */
    double load_ms;
} opened_model;

/* Loads the model; it must be closed in any case. */
IG_MUST_CHECK ig_status model_open(ig_cli *cli, const model_options *options, opened_model *out);
/* The session as the options say, of at least `ctx_len` tokens unless they say otherwise (0: any),
 * with so many sequences. */
IG_MUST_CHECK ig_status model_session(opened_model *model, int64_t ctx_len, int64_t sequences);
void model_close(opened_model *model); /* a zeroed one is fine */

/* A prompt: of --prompt, or of a file (- is standard input), of which one must be given.  `bytes`
 * are freed with the allocator of the program. */
typedef struct model_text {
    char *bytes;
    size_t n_bytes;
} model_text;
IG_MUST_CHECK ig_status model_read_text(ig_cli *cli, const char *prompt, const char *file,
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
