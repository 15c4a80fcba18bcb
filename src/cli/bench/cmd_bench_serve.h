/*
 * cmd_bench_serve.h - options of `ingot bench serve`.
 */
#ifndef IG_CLI_BENCH_CMD_BENCH_SERVE_H
#define IG_CLI_BENCH_CMD_BENCH_SERVE_H

#include "cli/app/cli.h"

typedef struct bench_serve_options {
    const char *url, *clients, *key_file, *svg; /* NULL: not given */
    int64_t n_requests, prompt_tokens, max_tokens, shared_prefix, stall_prompt, n_idle, pid;
    double rate, duration, timeout; /* requests/s, seconds */
    bool check, chat;
} bench_serve_options;

extern const ig_opt bench_serve_opts[];

#endif
