/*
 * serve_target.h - the server that `ingot bench serve` measures: its model, and requests that are
 * sent one at a time.
 */
#ifndef IG_CLI_BENCH_SERVE_TARGET_H
#define IG_CLI_BENCH_SERVE_TARGET_H

#include <jansson.h>

#include "cli/bench/cmd_bench_serve.h"
#include "cli/bench/http_client.h"

enum { SERVE_MODEL_BYTES = 256, SERVE_KEY_BYTES = 512 };

typedef struct serve_target {
    ig_cli *cli;
    const bench_serve_options *options;
    uint64_t seed;
    ig_local_url url;
    char key[SERVE_KEY_BYTES];     /* "": none */
    char model[SERVE_MODEL_BYTES]; /* "": the server does not name one */
    bool has_tokenizer;            /* POST /tokenize */
    ig_http_client *asker;         /* for requests sent alone */
} serve_target;

/* Connects, and asks for the model unless `model` names it.  IG_ERR_STATE: no server replies. */
IG_MUST_CHECK ig_status serve_target_open(ig_cli *cli, const bench_serve_options *options,
                                          const char *model, uint64_t seed, serve_target *out);
void serve_target_close(serve_target *target);

/* A client with `n_connections` and the same key. */
IG_MUST_CHECK ig_status serve_target_client(const serve_target *target, int n_connections,
                                            ig_http_client **out);

/* Sends one request and waits; `body` may be NULL.  `out_json` is NULL if the reply is no JSON;
 * the caller drops the reference. */
IG_MUST_CHECK ig_status serve_target_ask(const serve_target *target, const char *method,
                                         const char *path, json_t *body, ig_http_result *out,
                                         json_t **out_json);

/* The bytes of a process in RAM, from /proc/PID/status; 0: unknown. */
uint64_t serve_rss(int64_t pid);

/* The text of a JSON value in the command's memory; NULL: out of memory.  Takes the reference. */
char *serve_json_text(const ig_allocator *a, json_t *root);

#endif
