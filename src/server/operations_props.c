/* Properties of models, and the run reports of their contexts. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/report.h"
#include "server/operations.h"
#include "server/operations_reply.h"
#include "server/tasks.h"

enum { MODEL_BYTES = 640 }; /* for the id of a model, which is the name of a file */

/* ---- /props ---- */

/* A value of ig_sampling, where 0 is the default and below 0 is off, as in a request. */
static double shown(double value, double usual) {
    return value == 0 ? usual : value < 0 ? 0 : value;
}

static void write_params(ig_out *out, const ig_sampling *s, int64_t max_tokens) {
    ig_out_open(out, "params", '{');
    ig_out_int(out, "n_predict", max_tokens > 0 ? max_tokens : -1);
    ig_out_int(out, "max_tokens", max_tokens > 0 ? max_tokens : -1);
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
    write_params(&out, served ? &served->sampling : &(ig_sampling){0},
                 ig_server_get_options(server)->default_max_tokens);
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

typedef struct report_task {
    ig_task task;            /* first */
    char model[MODEL_BYTES]; /* "": all of them */
} report_task;

static ig_status write_model(ig_models *models, const char *name, ig_out *out) {
    ig_served *served = ig_models_peek(models, name);
    const ig_status status = served ? write_report(out, served) : IG_OK;
    ig_models_end_peek(models, served);
    return status;
}

static ig_status run_report(ig_task *task) {
    const report_task *t = (report_task *)task;
    ig_models *models = ig_server_models(task->server);
    ig_models_row row;
    ig_status status = IG_OK;
    ig_out_open(&task->out, NULL, '{');
    ig_out_string(&task->out, "object", "list");
    ig_out_open(&task->out, "data", '[');
    if (*t->model) status = write_model(models, t->model, &task->out);
    for (size_t i = 0; !*t->model && status == IG_OK && ig_models_list(models, i, &row); i++)
        status = write_model(models, row.id, &task->out);
    ig_out_close(&task->out, ']');
    ig_out_close(&task->out, '}');
    return status;
}

void ig_operation_report(ig_server *server, ig_exchange *x) {
    static const ig_task_type type = {sizeof(report_task), run_report};
    const char *name = ig_exchange_query(x, "model");
    ig_models_row row = {.id = ""};
    if (name && !ig_operation_find(server, x, name, &row)) return;
    report_task *t = (report_task *)ig_task_create(server, x, &type);
    if (!t) return;
    snprintf(t->model, sizeof t->model, "%s", row.id);
    ig_task_begin(&t->task, x);
}
