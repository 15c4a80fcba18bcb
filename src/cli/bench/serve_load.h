/*
 * serve_load.h - sends the requests of one level, which is a number of concurrent clients.
 *
 *     closed loop   a client sends its next request when it has its reply
 *     --rate        requests become due at random times (Poisson), whether or not a client is free;
 *                   the time that one waits for a client counts into its TTFT
 *
 * Everything is taken from the stream as it arrives.  Tokens that arrive in one packet have gaps of
 * 0 between them.
 */
#ifndef IG_CLI_BENCH_SERVE_LOAD_H
#define IG_CLI_BENCH_SERVE_LOAD_H

#include "cli/bench/serve_target.h"

enum { SERVE_ERROR_BYTES = 16, SERVE_EXCERPT_BYTES = 64 };

typedef struct serve_reply {
    char error[SERVE_ERROR_BYTES]; /* "": none; an HTTP code, "stream", "closed", "timeout" ... */
    double due_ms, first_ms, last_ms;                     /* since the level began */
    int64_t prompt_tokens, cached_tokens, decoded_tokens; /* -1: the server did not say */
    int64_t n_pieces;                                     /* events with text */
} serve_reply;

/* Between two pieces of one stream. */
typedef struct serve_gap {
    double end_ms;
    float ms;
} serve_gap;

/* Where a reply differs from the one to the same prompt sent alone. */
typedef struct serve_difference {
    size_t prompt, at_byte;
    char alone[SERVE_EXCERPT_BYTES], here[SERVE_EXCERPT_BYTES];
} serve_difference;

/* The prompt of --stall-prompt. */
typedef struct serve_long_prompt {
    bool was_sent;
    serve_reply reply;
} serve_long_prompt;

typedef struct serve_level {
    int n_clients;
    serve_reply *replies;
    size_t n_replies;
    serve_gap *gaps;
    size_t n_gaps, gaps_room;
    double ms; /* from the first request to the end of the last reply */
    serve_long_prompt long_prompt;
    size_t n_compared, n_different;
    serve_difference difference;    /* the first, if n_different > 0 */
    uint64_t rss_before, rss_after; /* of --pid; 0: unknown */
} serve_level;

/* What is sent. */
typedef struct serve_job {
    const serve_target *target;
    char *const *prompts; /* one for each request */
    size_t n_prompts;
    const char *long_prompt; /* NULL: none */
    const char *salt;        /* NULL: replies may use what earlier levels left in a prefix cache */
    ig_http_bytes *alone;    /* replies by prompt, for --check; NULL: no check */
    bool is_alone;           /* this level fills `alone` */
    double rate, max_seconds;
    const char *what; /* of the progress line */
} serve_job;

/* The caller releases `out`, also after an error. */
IG_MUST_CHECK ig_status serve_level_run(const serve_job *job, int n_clients, serve_level *out);
void serve_level_release(const ig_cli *cli, serve_level *level);

#endif
