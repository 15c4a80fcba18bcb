/* operations_reply.h - how handlers of operations answer. */
#ifndef IG_SERVER_OPERATIONS_REPLY_H
#define IG_SERVER_OPERATIONS_REPLY_H

#include "server/http_error.h"
#include "server/json_out.h"
#include "server/server.h"

/* An empty text with the server's memory. */
ig_out ig_operation_out(ig_server *server);
/* Replies with JSON and frees it; 503 if memory for it ran out. */
void ig_operation_reply(ig_exchange *x, int code, ig_out *out);
/* Replies with an error object; `param` may be NULL. */
void ig_operation_refuse(ig_exchange *x, int code, const char *param, const char *words);
/* The same for the thread's last failure. */
void ig_operation_fail(ig_exchange *x, ig_status status);
/* The row of a model; false: unknown, and the request was refused. */
bool ig_operation_find(ig_server *server, ig_exchange *x, const char *name, ig_models_row *out);

#endif
