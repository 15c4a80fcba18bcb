/* ingot/conformance.h: the harness for programs. */
#include <stdio.h>

#include "backend/plugin/loader.h"
#include "base/alloc.h"
#include "conformance/harness.h"
#include "ingot/conformance.h"

struct ig_conformance {
    conformance found;
    char name[32], version[64];
    bool all_ops;
};

static ig_status run(const ig_backend *backend, const ig_conformance_options *o,
                     ig_conformance *result) {
    const conformance_options options = {.out = o->out,
                                         .op = o->op,
                                         .least = o->min_error,
                                         .most_elements = o->max_elements,
                                         .once = o->once};
    snprintf(result->name, sizeof result->name, "%s", backend->name);
    snprintf(result->version, sizeof result->version, "%s", backend->version);
    result->all_ops = o->op == NULL;
    return conformance_run(backend, options, &result->found);
}

ig_status ig_conformance_run(const ig_backend *backend, const ig_conformance_options *options,
                             ig_conformance **out) {
    static const ig_conformance_options defaults;
    if (!backend || !out) return IG_FAIL(IG_ERR_ARGUMENT, "conformance_run: NULL");
    ig_conformance *result = ig_alloc(&ig_heap, 1, sizeof *result);
    if (!result) return IG_FAIL(IG_ERR_MEMORY, "conformance: no memory for the result");
    const ig_status status = run(backend, options ? options : &defaults, result);
    if (status == IG_OK)
        *out = result;
    else
        ig_conformance_destroy(result);
    return status;
}

ig_status ig_conformance_run_plugin(const char *path, const ig_conformance_options *options,
                                    ig_conformance **out) {
    ig_plugin plugin = {0};
    if (!path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "conformance_run_plugin: NULL");
    IG_TRY(ig_plugin_open(path, &plugin));
    const ig_status status = ig_conformance_run(&plugin.backend, options, out);
    ig_plugin_close(&plugin);
    return status;
}

void ig_conformance_destroy(ig_conformance *result) { ig_free(&ig_heap, result); }

const char *ig_conformance_name(const ig_conformance *result) { return result->name; }
const char *ig_conformance_version(const ig_conformance *result) { return result->version; }

static ig_conformance_count count_of(conformance_count c) {
    return (ig_conformance_count){c.passed, c.refused, c.failed};
}

ig_conformance_count ig_conformance_at(const ig_conformance *result, uint32_t op, ig_dtype dtype) {
    if (op >= IG_OP_COUNT || (unsigned)dtype >= IG_DTYPE_COUNT) return (ig_conformance_count){0};
    return count_of(result->found.at[op][dtype]);
}

ig_conformance_count ig_conformance_total(const ig_conformance *result) {
    return count_of(result->found.all);
}

const char *ig_conformance_complaint(const ig_conformance *result) {
    const conformance *c = &result->found;
    if (c->all.failed > 0) return "some ops differ from the reference";
    if (c->all.passed == 0) return "the backend accepted no case";
    if (c->leaked != 0) return "the plugin leaked host memory";
    if (result->all_ops && c->claimed & ~c->shown) return "info() lists dtypes that no case covers";
    return "";
}
