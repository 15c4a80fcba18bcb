/*
 * http_error.h - errors of requests: an HTTP status with an OpenAI error object.
 *
 * Functions that check a request return false and fill in an ig_http_error.  A client's mistake is
 * never a 5xx: clients repeat those.
 */
#ifndef IG_SERVER_HTTP_ERROR_H
#define IG_SERVER_HTTP_ERROR_H

#include "server/http.h"
#include "server/json_out.h"

typedef struct ig_http_error {
    int code;           /* 0: none */
    const char *type;   /* NULL: that of the code.  Static */
    const char *reason; /* "code" of the object; NULL: the number.  Static */
    char param[80];     /* the field; "": none */
    char message[480];
    int64_t n_prompt_tokens, n_ctx; /* of exceed_context_size_error alone */
    int retry_after_s;              /* 0: no Retry-After */
} ig_http_error;

/* Fills in an error; always false.  `param` may be NULL. */
bool ig_refuse(ig_http_error *e, int code, const char *param, const char *fmt, ...) IG_PRINTF(4, 5);
/* The same for the thread's last failure: 400 for arguments, else 500, or 503 if memory or the
 * engine's queue is full. */
bool ig_refuse_failure(ig_http_error *e, ig_status status);

/* An error message without the source lines that it names, which are of no use to clients; and the
 * same of the thread's last failure. */
void ig_error_words_of(const char *text, char *out, size_t room);
void ig_error_words(char *out, size_t room);

void ig_http_error_write(const ig_http_error *e, ig_out *out); /* the JSON object */
void ig_http_error_reply(const ig_http_error *e, ig_exchange *x);

#endif
