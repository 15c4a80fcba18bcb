#include "cli/bench/cmd_bench_dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

/* Contents of the file: tensors are laid out first, then filled in, then written. */
typedef struct dump {
    ig_workload *workload;
    int64_t steps;
    json_t *header;
    char *bytes; /* of all tensors */
    uint64_t n_bytes;
} dump;

/* ---- The header ---- */

static ig_status add_entry(dump *d, const char *name, const char *dtype, json_t *shape,
                           uint64_t bytes) {
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                  (json_int_t)d->n_bytes, (json_int_t)(d->n_bytes + bytes));
    d->n_bytes += bytes;
    if (json_object_set_new(d->header, name, entry) == 0) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "dump: no memory for its header");
}

static json_t *shape_json(ig_shape shape) {
    json_t *list = json_array();
    for (int i = 0; i < shape.rank; i++)
        json_array_append_new(list, json_integer((json_int_t)shape.dim[i]));
    return list;
}

static uint64_t bytes_of(const ig_tensor *tensor) {
    uint64_t bytes = 0;
    return ig_desc_bytes(ig_tensor_desc(tensor), &bytes) ? bytes : 0;
}

static ig_status lay_out(dump *d) {
    const ig_workload *w = d->workload;
    const ig_adamw_options *opt = &w->type->optimizer;
    char optimizer[128];
    snprintf(optimizer, sizeof optimizer, "{\"kind\": \"adamw\", \"rate\": %g, \"decay\": %g}",
             opt->lr, opt->weight_decay);
    d->header = json_pack("{s:{s:s, s:s, s:s}}", "__metadata__", "workload", w->type->name,
                          "config", w->config, "optimizer", optimizer);
    for (size_t i = 0; i < ig_module_param_count(w->model); i++) {
        const ig_param p = ig_module_param(w->model, i);
        char name[256];
        snprintf(name, sizeof name, "init.%s", p.path);
        IG_TRY(add_entry(d, name, "F32", shape_json(ig_tensor_desc(p.tensor).shape),
                         bytes_of(p.tensor)));
    }
    IG_TRY(add_entry(d, "text", "I32", json_pack("[I]", (json_int_t)w->n_text),
                     w->n_text * sizeof *w->text));
    return add_entry(d, "starts", "I32",
                     json_pack("[I, I]", (json_int_t)d->steps, (json_int_t)w->sizes.batch),
                     (uint64_t)d->steps * (uint64_t)w->sizes.batch * sizeof *w->starts);
}

/* ---- The bytes ---- */

static ig_status fill_in(const dump *d) {
    ig_workload *w = d->workload;
    char *to = d->bytes;
    for (size_t i = 0; i < ig_module_param_count(w->model); i++) {
        ig_tensor *tensor = ig_module_param(w->model, i).tensor;
        IG_TRY(ig_tensor_read(tensor, to, bytes_of(tensor)));
        to += bytes_of(tensor);
    }
    memcpy(to, w->text, w->n_text * sizeof *w->text);
    to += w->n_text * sizeof *w->text;
    const size_t row = (size_t)w->sizes.batch * sizeof *w->starts;
    for (int64_t step = 0; step < d->steps; step++, to += row) {
        ig_workload_draw(w, (uint64_t)step);
        memcpy(to, w->starts, row);
    }
    return IG_OK;
}

static void print(FILE *to, const void *what) {
    const dump *d = what;
    char *text = json_dumps(d->header, JSON_COMPACT);
    const uint64_t length = text ? strlen(text) : 0, padded = (length + 7) & ~UINT64_C(7);
    for (int i = 0; i < 8; i++) fputc((int)(padded >> (8 * i) & 255), to);
    fprintf(to, "%s%*s", text ? text : "", (int)(padded - length), "");
    fwrite(d->bytes, 1, d->n_bytes, to);
    free(text);
}

ig_status bench_dump(ig_cli *cli, const bench_options *o, const ig_workload_type *type,
                     int64_t steps) {
    const ig_allocator *a = &cli->allocator;
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.seed = (uint64_t)o->seed;
    options.device = "cpu";
    ig_ctx *ctx;
    IG_TRY(ig_ctx_create(&options, &ctx));
    dump d = {.steps = steps};
    ig_status status = ig_workload_create(type, ctx, o->sizes, &d.workload);
    if (status == IG_OK) status = lay_out(&d);
    if (status == IG_OK) {
        d.bytes = ig_alloc(a, d.n_bytes, 1);
        status = d.bytes ? fill_in(&d)
                         : IG_FAIL(IG_ERR_MEMORY, "dump: no memory for %llu bytes",
                                   (unsigned long long)d.n_bytes);
    }
    if (status == IG_OK) status = ig_run_write(cli, "dump", o->dump, print, &d);
    ig_free(a, d.bytes);
    json_decref(d.header);
    ig_workload_destroy(d.workload);
    ig_ctx_destroy(ctx);
    return status;
}
