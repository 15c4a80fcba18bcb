/*
 * GET /v1/models and /v1/models/{id}; and rerank, for models with that head.
 */
#include <string.h>

#include "server/openai.h"
#include "server/route.h"
#include "server/work.h"

static const char *state_name(ig_served_state state) {
    switch (state) {
    case IG_SERVED_READY: return "loaded";
    case IG_SERVED_LOADING: return "loading";
    case IG_SERVED_FAILED: return "failed";
    default: return "unloaded";
    }
}

/* Numbers that are known once the model was loaded. */
static void write_meta(const ig_models_row *row, ig_out *out) {
    ig_out_open(out, "meta", '{');
    if (row->n_vocab > 0) {
        ig_out_int(out, "n_ctx", row->ctx_len);
        ig_out_int(out, "n_ctx_train", row->ctx_train);
        ig_out_int(out, "n_params", row->n_params);
        ig_out_int(out, "n_vocab", row->n_vocab);
    }
    ig_out_int(out, "size", (int64_t)row->file_bytes);
    if (row->state == IG_SERVED_READY) ig_out_int(out, "memory", (int64_t)row->bytes);
    ig_out_close(out, '}');
}

static void write_model(const ig_models_row *row, const char *name, ig_out *out) {
    ig_out_open(out, name, '{');
    ig_out_string(out, "id", row->id);
    ig_out_string(out, "object", "model");
    ig_out_int(out, "created", row->created);
    ig_out_string(out, "owned_by", "ingot");
    ig_out_string(out, "root", row->id);
    ig_out_null(out, "parent");
    if (row->ctx_len > 0) ig_out_int(out, "max_model_len", row->ctx_len);
    write_meta(row, out);
    ig_out_open(out, "aliases", '[');
    for (size_t i = 0; row->aliases[i]; i++) ig_out_string(out, NULL, row->aliases[i]);
    ig_out_close(out, ']');
    ig_out_bool(out, "pinned", row->is_pinned);
    ig_out_int(out, "in_use", row->n_held);
    ig_out_open(out, "status", '{');
    ig_out_string(out, "value", row->is_condemned ? "unloading" : state_name(row->state));
    if (row->state == IG_SERVED_LOADING) ig_out_number(out, "progress", row->progress);
    if (row->state == IG_SERVED_FAILED) ig_out_string(out, "error", row->error);
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

/* Of the array `models`, which llama-server adds to OpenAI's. */
static void write_details(const ig_models_row *row, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "name", row->id);
    ig_out_string(out, "model", row->id);
    ig_out_string(out, "type", "model");
    ig_out_open(out, "capabilities", '[');
    ig_out_string(out, NULL, "completion");
    ig_out_close(out, ']');
    ig_out_open(out, "details", '{');
    ig_out_string(out, "quantization_level", row->quantization);
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

static void reply(ig_exchange *x, ig_out *out) {
    ig_http_error error;
    if (out->failed) {
        ig_refuse(&error, 503, NULL, "out of memory");
        ig_http_error_reply(&error, x);
    } else {
        ig_exchange_reply(x, 200, "application/json", out->bytes, out->n_bytes);
    }
    ig_out_deinit(out);
}

void ig_openai_models(ig_server *server, ig_exchange *x) {
    ig_out out = {.allocator = ig_server_allocator(server)};
    ig_models_row row;
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "object", "list");
    ig_out_open(&out, "data", '[');
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++)
        write_model(&row, NULL, &out);
    ig_out_close(&out, ']');
    ig_out_open(&out, "models", '[');
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++)
        write_details(&row, &out);
    ig_out_close(&out, ']');
    ig_out_close(&out, '}');
    reply(x, &out);
}

static bool is_named(const ig_models_row *row, const char *name) {
    for (size_t i = 0; row->aliases[i]; i++)
        if (strcmp(row->aliases[i], name) == 0) return true;
    return strcmp(row->id, name) == 0;
}

void ig_openai_model(ig_server *server, ig_exchange *x) {
    const char *id = ig_route_rest(x, "/v1/models/*");
    ig_models_row row;
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++) {
        if (!is_named(&row, id)) continue;
        ig_out out = {.allocator = ig_server_allocator(server)};
        write_model(&row, NULL, &out);
        reply(x, &out);
        return;
    }
    ig_http_error error;
    ig_refuse(&error, 404, "model", "the model '%.200s' does not exist", id);
    error.reason = "model_not_found";
    ig_http_error_reply(&error, x);
}

/* ---- rerank ---- */

static bool check_texts(ig_work *w) {
    const ig_fields *f = &w->fields;
    const json_t *texts =
        f->at[IG_FIELD_DOCUMENTS] ? f->at[IG_FIELD_DOCUMENTS] : f->at[IG_FIELD_TEXTS];
    if (!ig_fields_given(f, IG_FIELD_QUERY))
        return ig_refuse(&w->error, 400, "query", "query is missing");
    if (json_array_size(texts) == 0)
        return ig_refuse(&w->error, 400, "documents", "documents: at least one is needed");
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (!json_is_string(json_array_get(texts, i)))
            return ig_refuse(&w->error, 400, "documents", "documents[%zu]: must be a string", i);
    return true;
}

static void refuse_rerank(ig_work *w) {
    ig_refuse(&w->error, 501, "model", "the model %.200s has no head that ranks documents",
              w->served->id);
    ig_work_refuse(w);
}

void ig_openai_rerank(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {sizeof(ig_work), IG_BODY_RERANK, check_texts,
                                      refuse_rerank,   NULL,           NULL};
    ig_work_begin(server, x, &type);
}
