#include "cli/bench/workload.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "ingot/context.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

/* ---- Making one ---- */

ig_status ig_workload_adopt(ig_module *parent, const char *name, ig_module *child,
                            ig_module **out) {
    const ig_status status = ig_module_add(parent, name, child);
    if (status == IG_OK)
        *out = child;
    else
        ig_module_destroy(child);
    return status;
}

static ig_status choose_size(const ig_workload_type *type, const char *option, int64_t wanted,
                             int64_t *size) {
    if (wanted == 0 || wanted == *size) return IG_OK;
    if (type->fixed)
        return IG_FAIL(IG_ERR_ARGUMENT, "--%s %lld: %s has a fixed value of %lld", option,
                       (long long)wanted, type->name, (long long)*size);
    *size = wanted;
    return IG_OK;
}

static ig_status choose_sizes(ig_workload *w, ig_workload_sizes wanted) {
    const ig_workload_type *type = w->type;
    w->sizes = type->sizes;
    if (wanted.batch > 0) w->sizes.batch = wanted.batch;
    IG_TRY(choose_size(type, "d-model", wanted.width, &w->sizes.width));
    IG_TRY(choose_size(type, "layers", wanted.layers, &w->sizes.layers));
    IG_TRY(choose_size(type, "ctx", wanted.length, &w->sizes.length));
    if ((size_t)w->sizes.length >= w->n_text)
        return IG_FAIL(IG_ERR_ARGUMENT, "--ctx %lld: the text has only %zu symbols",
                       (long long)w->sizes.length, w->n_text);
    return IG_OK;
}

/* Maps the text to symbols of the workload. */
static ig_status create_text(ig_workload *w) {
    const ig_workload_type *type = w->type;
    w->n_text = ig_workload_text_bytes;
    int32_t *text = ig_alloc(ig_ctx_allocator(w->ctx), w->n_text, sizeof *text);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its text", type->name);
    for (size_t i = 0; i < w->n_text; i++)
        text[i] = type->symbol_of ? type->symbol_of(ig_workload_text[i])
                                  : (unsigned char)ig_workload_text[i];
    w->text = text;
    return IG_OK;
}

int64_t ig_workload_targets(const ig_workload *w) {
    return w->type->target == IG_TARGET_EACH ? w->sizes.batch * w->sizes.length : w->sizes.batch;
}

static ig_status create_inputs(ig_workload *w) {
    const ig_allocator *a = ig_ctx_allocator(w->ctx);
    const int64_t batch = w->sizes.batch, length = w->sizes.length;
    const ig_shape each = IG_SHAPE(batch, length), last = IG_SHAPE(batch);
    const ig_desc targets = {IG_I32, w->type->target == IG_TARGET_EACH ? each : last};
    IG_TRY(ig_tensor_create(w->ctx, (ig_desc){IG_I32, each}, &w->ids));
    IG_TRY(ig_tensor_create(w->ctx, targets, &w->targets));
    w->windows = ig_alloc(a, (size_t)batch, 2 * (size_t)length * sizeof *w->windows);
    w->starts = ig_alloc(a, (size_t)batch + 3, sizeof *w->starts); /* drawn in groups of four */
    if (w->windows && w->starts) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a batch", w->type->name);
}

static ig_status fill_in(ig_workload *w, ig_workload_sizes sizes) {
    IG_TRY(create_text(w));
    IG_TRY(choose_sizes(w, sizes));
    IG_TRY(w->type->build(w));
    IG_TRY(ig_adamw_create(w->model, &w->type->optimizer, &w->optimizer));
    return create_inputs(w);
}

ig_status ig_workload_create(const ig_workload_type *type, ig_ctx *ctx, ig_workload_sizes sizes,
                             ig_workload **out) {
    ig_workload *w = ig_alloc(ig_ctx_allocator(ctx), 1, type->struct_bytes);
    if (!w) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory", type->name);
    w->type = type, w->ctx = ctx;
    const ig_status status = fill_in(w, sizes);
    if (status == IG_OK)
        *out = w;
    else
        ig_workload_destroy(w);
    return status;
}

void ig_workload_destroy(ig_workload *w) {
    if (!w) return;
    const ig_allocator *a = ig_ctx_allocator(w->ctx);
    ig_free(a, w->starts);
    ig_free(a, w->windows);
    ig_tensor_release(w->targets);
    ig_tensor_release(w->ids);
    ig_optimizer_destroy(w->optimizer);
    ig_module_destroy(w->model);
    ig_free(a, (void *)w->text);
    ig_free(a, w);
}

/* ---- Running one ---- */

/* Sample i of step s starts at the position given by random number i of stream (seed, s). */
void ig_workload_draw(ig_workload *w, uint64_t step) {
    const uint64_t seed = ig_ctx_seed(w->ctx);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t places = (uint32_t)(w->n_text - (size_t)w->sizes.length);
    for (uint64_t i = 0; i < (uint64_t)w->sizes.batch; i += 4) {
        const ig_philox block = ig_random_block(key, step, 0, i / 4);
        for (uint64_t j = 0; j < 4; j++) w->starts[i + j] = block.word[j] % places;
    }
}

ig_status ig_workload_next_batch(ig_workload *w) {
    const size_t batch = (size_t)w->sizes.batch, length = (size_t)w->sizes.length;
    const size_t row = length * sizeof *w->windows;
    const bool each = w->type->target == IG_TARGET_EACH;
    int32_t *ids = w->windows, *targets = w->windows + batch * length;
    ig_workload_draw(w, (uint64_t)ig_optimizer_steps(w->optimizer));
    for (size_t i = 0; i < batch; i++) {
        const int32_t *from = w->text + w->starts[i];
        memcpy(ids + i * length, from, row);
        if (each)
            memcpy(targets + i * length, from + 1, row);
        else
            targets[i] = from[length];
    }
    IG_TRY(ig_tensor_write(w->ids, ids, batch * row));
    return ig_tensor_write(w->targets, targets, (size_t)ig_workload_targets(w) * sizeof *targets);
}

ig_status ig_workload_step(ig_workload *w, double *out_loss) {
    ig_optimizer_zero_grad(w->optimizer);
    ig_tensor *loss = ig_cross_entropy(ig_module_call(w->model, w->ids), w->targets);
    IG_TRY(ig_backward(loss));
    IG_TRY(ig_optimizer_step(w->optimizer));
    return out_loss ? ig_tensor_item(loss, out_loss) : IG_OK;
}

ig_status ig_workload_logits(ig_workload *w, float *out, size_t count) {
    ig_scope_begin(w->ctx);
    ig_no_grad_begin(w->ctx);
    ig_tensor *y = ig_module_call(w->model, w->ids);
    const ig_status status = ig_tensor_read(y, out, count * sizeof *out);
    ig_no_grad_end(w->ctx);
    ig_scope_end(w->ctx);
    return status;
}

/* ---- The table ---- */

ig_status ig_workload_find(const char *name, const ig_workload_type **out) {
    char names[256] = "";
    size_t used = 0;
    for (const ig_workload_type *const *type = ig_workload_types; *type; type++) {
        if (strcmp((*type)->name, name) == 0) {
            *out = *type;
            return IG_OK;
        }
        const int wrote =
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*type)->name);
        if (wrote > 0 && used + (size_t)wrote < sizeof names) used += (size_t)wrote;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "'%s': unknown workload; expected one of %s", name, names);
}

const ig_workload_type *const ig_workload_types[] = {&ig_workload_char_mlp, &ig_workload_tinyllm,
                                                     &ig_workload_gpt, NULL};
