/*
 * openai_shapes.h - objects that several routes of OpenAI's API reply with.
 */
#ifndef IG_SERVER_OPENAI_SHAPES_H
#define IG_SERVER_OPENAI_SHAPES_H

#include "server/serve_generation.h"

/* "id", "object", "created", "model", "system_fingerprint". */
void ig_openai_head(const ig_generation *g, const char *object, ig_out *out);
void ig_openai_usage(const ig_generation *g, const char *name, ig_out *out);
/* Of the job of a choice, as llama-server's. */
void ig_openai_timings(const ig_generation *g, size_t index, ig_out *out);
void ig_openai_progress(const ig_job_event *event, double since_ms, ig_out *out);
void ig_openai_prompt_ids(const ig_generation *g, size_t prompt, ig_out *out);
const char *ig_openai_finish_reason(ig_finish finish);

/* {"token", "logprob", "bytes", "top_logprobs"}: an element of a chat's logprobs.content. */
void ig_openai_logprob(const ig_generation *g, const ig_job_event *event, ig_out *out);
/* A token as text; U+FFFD for bytes that are not UTF-8. */
void ig_openai_piece(const ig_generation *g, const char *name, int32_t token, ig_out *out);
/* A log-probability: finite, as minus infinity is not JSON. */
void ig_openai_number(ig_out *out, const char *name, double logprob);

/* "data: " and the two line ends of an event. */
void ig_sse_open(ig_out *out);
void ig_sse_close(ig_out *out);
void ig_openai_error(ig_generation *g, const ig_http_error *error, ig_out *out);
/* The usage chunk, if it was asked for, and [DONE]. */
void ig_openai_end(ig_generation *g, const char *object, ig_out *out);

#endif
