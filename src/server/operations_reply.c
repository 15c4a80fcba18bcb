#include "server/operations_reply.h"

ig_out ig_operation_out(ig_server *server) {
    return (ig_out){.allocator = ig_server_allocator(server)};
}

void ig_operation_refuse(ig_exchange *x, int code, const char *param, const char *words) {
    ig_http_error error = {0};
    ig_refuse(&error, code, param, "%s", words);
    ig_http_error_reply(&error, x);
}

void ig_operation_fail(ig_exchange *x, ig_status status) {
    ig_http_error error = {0};
    ig_refuse_failure(&error, status);
    ig_http_error_reply(&error, x);
}

void ig_operation_reply(ig_exchange *x, int code, ig_out *out) {
    if (out->failed)
        ig_operation_refuse(x, 503, NULL, "out of memory");
    else
        ig_exchange_reply(x, code, "application/json; charset=utf-8", out->bytes, out->n_bytes);
    ig_out_deinit(out);
}

bool ig_operation_find(ig_server *server, ig_exchange *x, const char *name, ig_models_row *out) {
    if (ig_models_find(ig_server_models(server), name, out)) return true;
    ig_http_error error = {0};
    ig_refuse(&error, 404, "model", "no model is named '%.200s'", name ? name : "");
    error.reason = "model_not_found";
    ig_http_error_reply(&error, x);
    return false;
}
