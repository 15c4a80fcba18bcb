#include "nn/checkpoint_items.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_parse.h"

/* ---- Tensors ---- */

static ig_status check_belongs(const char *name, ig_module *module, const ig_optimizer *opt) {
    if (ig_optimizer_module(opt) != module)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: the optimizer is another module's", name);
    if (ig_optimizer_param_count(opt) != ig_module_param_count(module))
        return IG_FAIL(IG_ERR_STATE, "%s: the optimizer is for %zu parameters, the module has %zu",
                       name, ig_optimizer_param_count(opt), ig_module_param_count(module));
    return IG_OK;
}

/* Total bytes of the names of a parameter's state tensors. */
static size_t state_name_bytes(const ig_optimizer *opt, const char *path) {
    size_t bytes = 0;
    for (size_t s = 0; s < ig_optimizer_state_count(opt); s++)
        bytes += strlen(path) + 1 + strlen(ig_optimizer_state_name(opt, s)) + 1;
    return bytes;
}

static void add_item(checkpoint_items *items, const char *name, ig_checkpoint_role role,
                     ig_tensor *tensor) {
    items->entries[items->count] = (ig_oam_entry){name, role, ig_tensor_desc(tensor)};
    items->tensors[items->count++] = tensor;
}

ig_status checkpoint_items_init(checkpoint_items *items, const char *name, ig_module *module,
                                const ig_optimizer *opt) {
    if (opt) IG_TRY(check_belongs(name, module, opt));
    const size_t n_params = ig_module_param_count(module);
    const size_t n_states = opt ? ig_optimizer_state_count(opt) : 0;
    const size_t most = n_params * (1 + n_states);
    size_t name_bytes = 0;
    for (size_t p = 0; opt && p < n_params; p++)
        name_bytes += state_name_bytes(opt, ig_module_param(module, p).path);

    *items = (checkpoint_items){.allocator = ig_ctx_allocator(ig_module_ctx(module))};
    items->entries = ig_alloc(items->allocator, most, sizeof *items->entries);
    items->tensors = ig_alloc(items->allocator, most, sizeof *items->tensors);
    items->names = ig_alloc(items->allocator, name_bytes, 1);
    if (!items->entries || !items->tensors || !items->names) {
        checkpoint_items_deinit(items);
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a list of %zu tensors", name, most);
    }

    for (size_t p = 0; p < n_params; p++)
        add_item(items, ig_module_param(module, p).path, IG_ROLE_WEIGHT,
                 ig_module_param(module, p).tensor);
    char *next = items->names;
    for (size_t p = 0; p < n_params; p++) {
        for (size_t s = 0; s < n_states; s++) {
            const size_t room = name_bytes - (size_t)(next - items->names);
            const int used = snprintf(next, room, "%s#%s", ig_module_param(module, p).path,
                                      ig_optimizer_state_name(opt, s));
            add_item(items, next, IG_ROLE_OPTIMIZER, ig_optimizer_state(opt, p, s));
            next += used + 1;
        }
    }
    return IG_OK;
}

void checkpoint_items_deinit(checkpoint_items *items) {
    if (!items->allocator) return;
    ig_free(items->allocator, items->names);
    ig_free(items->allocator, items->tensors);
    ig_free(items->allocator, items->entries);
    *items = (checkpoint_items){0};
}

/* ---- The optimizer's numbers ---- */

/* 17 digits round-trip every double. NULL: out of memory. */
static json_t *optimizer_json(const ig_optimizer *opt) {
    json_t *json = json_object();
    bool ok = json_object_set_new(json, "kind", json_string(ig_optimizer_kind(opt))) == 0;
    ok &= json_object_set_new(json, "steps", json_integer(ig_optimizer_steps(opt))) == 0;
    for (size_t i = 0; i < ig_optimizer_hparam_count(opt); i++)
        ok &= json_object_set_new(json, ig_optimizer_hparam_name(opt, i),
                                  json_real(ig_optimizer_hparam(opt, i))) == 0;
    if (ok) return json;
    json_decref(json);
    return NULL;
}

ig_status checkpoint_optimizer_text(const ig_allocator *a, const char *name,
                                    const ig_optimizer *opt, char **out) {
    double values[IG_HYPER_MAX] = {0};
    for (size_t i = 0; i < ig_optimizer_hparam_count(opt); i++)
        values[i] = ig_optimizer_hparam(opt, i);
    /* The learning rate may have been set to any value; refuse to save what could not be loaded. */
    IG_TRY(ig_optimizer_check_hparams(opt, values));

    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    const unsigned long before = ig_json_failures();
    json_t *json = optimizer_json(opt);
    const size_t bytes = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = ig_alloc(a, bytes + 1, 1);
    if (bytes > 0 && text) json_dumpb(json, text, bytes, flags);
    json_decref(json);
    if (bytes == 0 || !text || ig_json_failures() != before) {
        ig_free(a, text);
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the optimizer's numbers", name);
    }
    *out = text;
    return IG_OK;
}

static ig_status read_json(const char *name, const json_t *json, const ig_optimizer *opt,
                           checkpoint_optimizer *out) {
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const json_t *steps = json_object_get(json, "steps");
    if (!kind || !json_is_integer(steps))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the optimizer's text has no kind or steps", name);
    if (strcmp(kind, ig_optimizer_kind(opt)) != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: the optimizer in the file is %s, not %s", name, kind,
                       ig_optimizer_kind(opt));

    out->steps = json_integer_value(steps);
    if (out->steps < 0 || out->steps == INT64_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the optimizer has taken %" PRId64 " steps", name,
                       out->steps);
    for (size_t i = 0; i < ig_optimizer_hparam_count(opt); i++) {
        const json_t *value = json_object_get(json, ig_optimizer_hparam_name(opt, i));
        if (!json_is_number(value))
            return IG_FAIL(IG_ERR_FORMAT, "%s: the optimizer's text has no number \"%s\"", name,
                           ig_optimizer_hparam_name(opt, i));
        out->hypers[i] = json_number_value(value);
    }
    return ig_optimizer_check_hparams(opt, out->hypers);
}

ig_status checkpoint_optimizer_read(const char *name, const char *text, const ig_optimizer *opt,
                                    checkpoint_optimizer *out) {
    /* Validated as JSON when the file was opened. */
    json_t *json = NULL;
    IG_TRY(
        ig_json_decode(IG_ERR_MEMORY, name, "the optimizer's text", text, strlen(text), 0, &json));
    const ig_status status = read_json(name, json, opt, out);
    json_decref(json);
    return status;
}
