/* GET /slots, and llama-server's save, restore and erase. */
#include <assert.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_parse.h"
#include "server/operations.h"
#include "server/operations_reply.h"
#include "server/route.h"
#include "server/tasks.h"

enum { MODEL_BYTES = 640 }; /* for the id of a model, which is the name of a file */

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
        ig_out_open(out, "next_token", '['); /* where llama-server's clients find it */
        ig_out_open(out, NULL, '{');
        ig_out_bool(out, "has_next_token", true);
        ig_out_int(out, "n_decoded", slot.n_generated);
        ig_out_close(out, '}');
        ig_out_close(out, ']');
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

typedef struct slot_task {
    ig_task task; /* first */
    slot_action action;
    long slot;
    char model[MODEL_BYTES], path[PATH_MAX], salt[256];
    size_t salt_bytes;
} slot_task;

static ig_status act(const slot_task *t, ig_engine *engine, int64_t *n) {
    switch (t->action) {
    case SLOT_SAVE: return ig_engine_save_slot(engine, t->slot, t->path, n);
    case SLOT_RESTORE:
        return ig_engine_restore_slot(engine, t->slot, t->path, t->salt, t->salt_bytes, n);
    default: return ig_engine_erase_slot(engine, t->slot, n);
    }
}

static void write_action(const slot_task *t, int64_t n, ig_out *out) {
    static const char *const counts[] = {"n_saved", "n_restored", "n_erased"};
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "id_slot", t->slot);
    if (t->action != SLOT_ERASE) ig_out_string(out, "filename", strrchr(t->path, '/') + 1);
    ig_out_int(out, counts[t->action], n);
    ig_out_close(out, '}');
}

static ig_status run_slot(ig_task *task) {
    slot_task *t = (slot_task *)task;
    ig_models *models = ig_server_models(task->server);
    int64_t n = 0;
    ig_served *served = ig_models_peek(models, t->model);
    const ig_status status = served ? act(t, served->engine, &n)
                                    : IG_FAIL(IG_ERR_BUSY, "slots: %s is not loaded", t->model);
    ig_models_end_peek(models, served);
    if (status == IG_OK) write_action(t, n, &task->out);
    return status;
}

static void begin_slot(ig_server *server, ig_exchange *x, const slot_task *from) {
    static const ig_task_type type = {sizeof(slot_task), run_slot};
    const ig_exchange_request *q = ig_exchange_get_request(x);
    slot_task *t = (slot_task *)ig_task_create(server, x, &type);
    if (!t) return;
    t->action = from->action;
    t->slot = from->slot;
    memcpy(t->model, from->model, sizeof t->model);
    memcpy(t->path, from->path, sizeof t->path);
    assert(q->salt_bytes <= sizeof t->salt); /* a digest of the transport's */
    if (q->salt_bytes > 0) memcpy(t->salt, q->salt, q->salt_bytes);
    t->salt_bytes = q->salt_bytes;
    ig_task_begin(&t->task, x);
}

void ig_operation_slot(ig_server *server, ig_exchange *x) {
    const char *id = ig_route_rest(x, "/slots/*");
    slot_task t = {.action = action_of(x)};
    ig_models_row row;
    char *end;
    t.slot = strtol(id, &end, 10);
    if (end == id || *end || t.slot < 0) {
        ig_operation_refuse(x, 404, "id", "the id of a slot is a number");
        return;
    }
    if (t.action == SLOT_NONE) {
        ig_operation_refuse(x, 400, "action", "action: must be save, restore or erase");
        return;
    }
    if (!ig_operation_find(server, x, ig_exchange_query(x, "model"), &row)) return;
    if (t.action != SLOT_ERASE && !slot_path(server, x, t.path)) return;
    snprintf(t.model, sizeof t.model, "%s", row.id);
    begin_slot(server, x, &t);
}
