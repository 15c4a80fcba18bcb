/* Properties of models, their slots, and the run report of their contexts. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_parse.h"
#include "ingot/report.h"
#include "server/operations.h"
#include "server/operations_reply.h"
#include "server/route.h"

/* ---- /props ---- */

/* A value of ig_sampling, where 0 is the default and below 0 is off, as in a request. */
static double shown(double value, double usual) {
    return value == 0 ? usual : value < 0 ? 0 : value;
}

static void write_params(ig_out *out, const ig_sampling *s) {
    ig_out_open(out, "params", '{');
    ig_out_number(out, "temperature", shown(s->temperature, 0.8));
    ig_out_int(out, "top_k", (int64_t)shown(s->top_k, 40));
    ig_out_number(out, "top_p", s->top_p < 0 ? 1 : shown(s->top_p, 0.95));
    ig_out_number(out, "min_p", shown(s->min_p, 0.05));
    ig_out_number(out, "typical_p", shown(s->typical_p, 1));
    ig_out_number(out, "repeat_penalty", shown(s->repeat_penalty, 1));
    ig_out_int(out, "repeat_last_n", (int64_t)shown(s->repeat_last_n, 64));
    ig_out_number(out, "frequency_penalty", s->frequency_penalty);
    ig_out_number(out, "presence_penalty", s->presence_penalty);
    ig_out_int(out, "mirostat", s->mirostat);
    ig_out_number(out, "mirostat_tau", shown(s->mirostat_tau, 5));
    ig_out_number(out, "mirostat_eta", shown(s->mirostat_eta, 0.1));
    ig_out_close(out, '}');
}

static void write_special(ig_out *out, const char *name, const ig_tokenizer *t, ig_special which) {
    const int32_t id = ig_tokenizer_special(t, which);
    const ig_string_view text = id >= 0 ? ig_tokenizer_piece(t, id) : (ig_string_view){"", 0};
    ig_out_bytes(out, name, text.bytes, text.n_bytes);
}

/* What only a loaded model has. */
static void write_loaded(ig_out *out, const ig_served *s) {
    ig_out_string(out, "chat_template", s->chat_text);
    if (!s->chat) ig_out_string(out, "chat_template_error", s->chat_error);
    write_special(out, "bos_token", s->tokenizer, IG_SPECIAL_BOS);
    write_special(out, "eos_token", s->tokenizer, IG_SPECIAL_EOS);
    ig_out_open(out, "modalities", '{');
    ig_out_bool(out, "vision", false);
    ig_out_bool(out, "audio", false);
    ig_out_close(out, '}');
    ig_out_bool(out, "can_generate", s->can_generate);
    ig_out_bool(out, "can_rerank", s->can_rerank);
}

static void write_build(ig_server *server, ig_out *out) {
    char build[96];
    const ig_server_options *o = ig_server_get_options(server);
    snprintf(build, sizeof build, "ingot %s%s%s", ig_version(), *o->build ? " " : "", o->build);
    ig_out_string(out, "build_info", build);
    ig_out_string(out, "system_fingerprint", o->system_fingerprint);
}

void ig_operation_props(ig_server *server, ig_exchange *x) {
    ig_models_row row;
    if (!ig_operation_find(server, x, ig_exchange_query(x, "model"), &row)) return;
    ig_models *models = ig_server_models(server);
    ig_served *served = ig_models_peek(models, row.id);
    ig_out out = ig_operation_out(server);
    ig_out_open(&out, NULL, '{');
    ig_out_open(&out, "default_generation_settings", '{');
    ig_out_int(&out, "n_ctx", row.ctx_len);
    write_params(&out, served ? &served->sampling : &(ig_sampling){0});
    ig_out_close(&out, '}');
    ig_out_int(&out, "total_slots", served ? ig_engine_sequences(served->engine) : 0);
    ig_out_string(&out, "model_alias", row.id);
    ig_out_string(&out, "model_path", row.path);
    ig_out_string(&out, "model_quantization", row.quantization);
    ig_out_string(&out, "device", row.device);
    ig_out_int(&out, "n_ctx_train", row.ctx_train);
    ig_out_int(&out, "kv_bytes", (int64_t)row.kv_bytes);
    ig_out_bool(&out, "is_sleeping", !served);
    if (served) write_loaded(&out, served);
    write_build(server, &out);
    ig_out_close(&out, '}');
    ig_models_end_peek(models, served);
    ig_operation_reply(x, 200, &out);
}

/* ---- /slots ---- */

static const char *const states[] = {"waiting", "prefill", "decode"};

/* An idle slot shows nothing of its last sequence. */
static void write_slot(ig_out *out, const ig_served *served, int64_t i, bool *is_idle) {
    const ig_engine_slot slot = ig_engine_get_slot(served->engine, i);
    *is_idle = slot.job == 0;
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "id", i);
    ig_out_string(out, "model", served->id);
    ig_out_int(out, "n_ctx", served->ctx_len);
    ig_out_bool(out, "is_processing", !*is_idle);
    if (!*is_idle) {
        const double seconds = slot.running_ms * 1e-3;
        ig_out_int(out, "id_task", (int64_t)slot.job);
        ig_out_int(out, "choice", slot.choice);
        ig_out_string(out, "state", states[slot.state]);
        ig_out_int(out, "n_prompt_tokens", slot.n_prompt_tokens);
        ig_out_int(out, "n_prompt_tokens_processed", slot.n_processed);
        ig_out_int(out, "n_decoded", slot.n_generated);
        ig_out_number(out, "running_ms", slot.running_ms);
        ig_out_number(out, "tokens_per_second",
                      seconds > 0 ? (double)slot.n_generated / seconds : 0);
    }
    ig_out_close(out, '}');
}

static int64_t write_slots(ig_out *out, const ig_served *served) {
    int64_t n_idle = 0;
    for (int64_t i = 0; i < ig_engine_sequences(served->engine); i++) {
        bool is_idle;
        write_slot(out, served, i, &is_idle);
        n_idle += is_idle;
    }
    return n_idle;
}

void ig_operation_slots(ig_server *server, ig_exchange *x) {
    const char *name = ig_exchange_query(x, "model"),
               *fail = ig_exchange_query(x, "fail_on_no_slot");
    ig_models *models = ig_server_models(server);
    ig_out out = ig_operation_out(server);
    ig_models_row row;
    int64_t n_idle = 0;
    if (!ig_server_get_options(server)->has_slots) {
        ig_operation_refuse(x, 501, NULL, "GET /slots is disabled; start the server with --slots");
        return;
    }
    if (name && !ig_operation_find(server, x, name, &row)) return;
    ig_out_open(&out, NULL, '[');
    for (size_t i = 0; name ? i == 0 : ig_models_list(models, i, &row); i++) {
        ig_served *served = ig_models_peek(models, row.id);
        if (served) n_idle += write_slots(&out, served);
        ig_models_end_peek(models, served);
    }
    ig_out_close(&out, ']');
    if (n_idle == 0 && fail && strcmp(fail, "0") != 0) {
        ig_out_deinit(&out);
        ig_operation_refuse(x, 503, NULL, "no slot is idle");
        return;
    }
    ig_operation_reply(x, 200, &out);
}

/* "filename" of the body: a name without a path, below --slot-save-path. */
static bool slot_path(ig_server *server, ig_exchange *x, char out[PATH_MAX]) {
    const ig_exchange_request *q = ig_exchange_get_request(x);
    const char *folder = ig_server_get_options(server)->slot_save_path;
    json_t *body = NULL;
    bool is_good = false;
    if (!folder) {
        ig_operation_refuse(x, 501, NULL,
                            "saving slots is disabled; start the server with --slot-save-path");
        return false;
    }
    const ig_status status = ig_json_decode(IG_ERR_ARGUMENT, "body", "the request", q->body,
                                            q->body_bytes, JSON_REJECT_DUPLICATES, &body);
    const char *name = json_string_value(json_object_get(body, "filename"));
    if (status != IG_OK)
        ig_operation_fail(x, status);
    else if (!name || !*name || name[0] == '.' || strchr(name, '/'))
        ig_operation_refuse(x, 400, "filename", "filename: must be a name without a path");
    else if (snprintf(out, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        ig_operation_refuse(x, 400, "filename", "filename: too long");
    else
        is_good = true;
    json_decref(body);
    return is_good;
}

typedef enum slot_action { SLOT_SAVE, SLOT_RESTORE, SLOT_ERASE, SLOT_NONE } slot_action;
static const char *const actions[] = {"save", "restore", "erase"};

static slot_action action_of(const ig_exchange *x) {
    const char *name = ig_exchange_query(x, "action");
    int i = 0;
    while (i < SLOT_NONE && (!name || strcmp(name, actions[i]) != 0)) i++;
    return (slot_action)i;
}

static ig_status act(ig_exchange *x, ig_engine *engine, slot_action action, int64_t slot,
                     const char *path, int64_t *n) {
    const ig_exchange_request *q = ig_exchange_get_request(x);
    switch (action) {
    case SLOT_SAVE: return ig_engine_save_slot(engine, slot, path, n);
    case SLOT_RESTORE: return ig_engine_restore_slot(engine, slot, path, q->salt, q->salt_bytes, n);
    default: return ig_engine_erase_slot(engine, slot, n);
    }
}

static void reply_slot(ig_server *server, ig_exchange *x, slot_action action, int64_t slot,
                       const char *path, int64_t n) {
    static const char *const counts[] = {"n_saved", "n_restored", "n_erased"};
    ig_out out = ig_operation_out(server);
    ig_out_open(&out, NULL, '{');
    ig_out_int(&out, "id_slot", slot);
    if (action != SLOT_ERASE) ig_out_string(&out, "filename", strrchr(path, '/') + 1);
    ig_out_int(&out, counts[action], n);
    ig_out_close(&out, '}');
    ig_operation_reply(x, 200, &out);
}

void ig_operation_slot(ig_server *server, ig_exchange *x) {
    const char *name = ig_exchange_query(x, "model"), *id = ig_route_rest(x, "/slots/*");
    const slot_action action = action_of(x);
    ig_models *models = ig_server_models(server);
    ig_models_row row;
    char path[PATH_MAX] = "", *end;
    int64_t n = 0;
    const long slot = strtol(id, &end, 10);
    if (end == id || *end || slot < 0) {
        ig_operation_refuse(x, 404, "id", "the id of a slot is a number");
        return;
    }
    if (action == SLOT_NONE) {
        ig_operation_refuse(x, 400, "action", "action: must be save, restore or erase");
        return;
    }
    if (!ig_operation_find(server, x, name, &row)) return;
    if (action != SLOT_ERASE && !slot_path(server, x, path)) return;
    ig_served *served = ig_models_peek(models, row.id);
    const ig_status status = served ? act(x, served->engine, action, slot, path, &n)
                                    : IG_FAIL(IG_ERR_BUSY, "slots: %s is not loaded", row.id);
    ig_models_end_peek(models, served);
    if (status == IG_OK)
        reply_slot(server, x, action, slot, path, n);
    else
        ig_operation_fail(x, status);
}

/* ---- /v1/report ---- */

typedef struct report {
    const ig_allocator *allocator;
    const ig_ctx *ctx;
    char *text;
    size_t n_bytes;
} report;

/* On the scheduler thread, between two steps. */
static ig_status make_report(ig_adapter *adapter, void *user) {
    (void)adapter;
    report *r = user;
    r->n_bytes = ig_report_json(r->ctx, NULL, 0);
    r->text = ig_alloc(r->allocator, r->n_bytes + 1, 1);
    if (!r->text) return IG_FAIL(IG_ERR_MEMORY, "report: %zu bytes", r->n_bytes);
    ig_report_json(r->ctx, r->text, r->n_bytes + 1);
    return IG_OK;
}

static ig_status write_report(ig_out *out, const ig_served *served) {
    report r = {.allocator = out->allocator, .ctx = served->ctx};
    const ig_status status = ig_engine_call(served->engine, make_report, &r);
    if (status == IG_OK) {
        ig_out_open(out, NULL, '{');
        ig_out_string(out, "id", served->id);
        ig_out_json(out, "report", r.text, r.n_bytes);
        ig_out_close(out, '}');
    }
    ig_free(out->allocator, r.text);
    return status;
}

void ig_operation_report(ig_server *server, ig_exchange *x) {
    const char *name = ig_exchange_query(x, "model");
    ig_models *models = ig_server_models(server);
    ig_out out = ig_operation_out(server);
    ig_models_row row;
    ig_status status = IG_OK;
    if (name && !ig_operation_find(server, x, name, &row)) return;
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "object", "list");
    ig_out_open(&out, "data", '[');
    for (size_t i = 0; status == IG_OK && (name ? i == 0 : ig_models_list(models, i, &row)); i++) {
        ig_served *served = ig_models_peek(models, row.id);
        if (served) status = write_report(&out, served);
        ig_models_end_peek(models, served);
    }
    ig_out_close(&out, ']');
    ig_out_close(&out, '}');
    if (status == IG_OK) {
        ig_operation_reply(x, 200, &out);
        return;
    }
    ig_out_deinit(&out);
    ig_operation_fail(x, status);
}
