#include "model/train/production_route.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/grad.h"
#include "ingot/nn.h"

/* ---- Init ---- */

static ig_status make(ig_ctx *ctx, ig_dtype dtype, ig_shape shape, ig_tensor **out) {
    return ig_tensor_create(ctx, (ig_desc){dtype, shape}, out);
}

static ig_status make_tokens(ig_production_run *run) {
    ig_production_args *a = &run->args;
    IG_TRY(make(run->ctx, IG_I32, IG_SHAPE(a->batch * a->rows), &a->ids));
    IG_TRY(make(run->ctx, IG_I32, IG_SHAPE(a->batch * a->rows), &a->targets));
    IG_TRY(make(run->ctx, IG_I32, IG_SHAPE(a->rows), &a->positions));
    int32_t *positions = ig_tensor_map(a->positions);
    if (!positions)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "production: the device's memory is not the host's");
    for (int64_t i = 0; i < a->rows; i++) positions[i] = (int32_t)i;
    return IG_OK;
}

static ig_status make_params(ig_production_run *run, ig_module *root) {
    const size_t count = ig_module_param_count(root);
    run->params = ig_alloc(ig_ctx_allocator(run->ctx), count, sizeof *run->params);
    if (!run->params) return IG_FAIL(IG_ERR_MEMORY, "production: %zu weights", count);
    run->args.params = run->params;
    run->args.n_params = count;
    for (size_t i = 0; i < count; i++) {
        const ig_param param = ig_module_param(root, i);
        run->params[i] = (ig_production_param){.path = param.path, .weight = param.tensor};
        if (!run->optimizer) continue;
        run->params[i].mean = ig_optimizer_state(run->optimizer, i, 0);
        run->params[i].variance = ig_optimizer_state(run->optimizer, i, 1);
        IG_TRY(ig_tensor_create(run->ctx, ig_tensor_desc(param.tensor), &run->params[i].grad));
    }
    return IG_OK;
}

/* Scales all gradients down if their global norm exceeds the limit. */
static ig_status dispatch_clip(const ig_production_run *run, double limit) {
    const ig_attrs_clip attrs = {.limit = (float)limit};
    const size_t count = run->args.n_params;
    IG_TRY(ig_batch_begin(run->clip));
    IG_TRY(ig_dispatch(run->clip, "global_norm", NULL, run->grads, (uint32_t)count,
                       (ig_tensor *[]){run->norm}, 1));
    for (size_t i = 0; i < count; i++)
        IG_TRY(ig_dispatch(run->clip, "clip", &attrs, (ig_tensor *[]){run->grads[i], run->norm}, 2,
                           NULL, 0));
    return IG_OK;
}

static ig_status make_clip(ig_production_run *run, double limit) {
    const size_t count = run->args.n_params;
    run->grads = ig_alloc(ig_ctx_allocator(run->ctx), count, sizeof *run->grads);
    if (!run->grads) return IG_FAIL(IG_ERR_MEMORY, "production: %zu gradients", count);
    for (size_t i = 0; i < count; i++) run->grads[i] = run->params[i].grad;
    IG_TRY(make(run->ctx, IG_F32, (ig_shape){0}, &run->norm));
    IG_TRY(ig_batch_create(run->ctx, &run->clip));
    if (limit <= 0) return IG_OK;
    IG_TRY(dispatch_clip(run, limit));
    return ig_batch_prepare(run->clip);
}

/* Checks that init() filled in all tensors, with the shapes that the host reads. */
static ig_status check_made(const ig_production_run *run) {
    const ig_production_model *m = &run->made;
    const int64_t logits = run->args.batch * run->args.rows * run->args.config->vocabulary;
    char text[IG_SHAPE_TEXT_BYTES];
    if (!m->logits || !m->loss)
        return IG_FAIL(IG_ERR_MODEL, "production: init() returned no logits or no loss");
    const ig_desc l = ig_tensor_desc(m->logits), s = ig_tensor_desc(m->loss);
    if (l.dtype != IG_F32 || ig_shape_count(l.shape) != logits)
        return IG_FAIL(IG_ERR_MODEL, "production: init() gave logits of %s %s for %lld values",
                       ig_dtype_name(l.dtype), ig_shape_text(l.shape, text), (long long)logits);
    if (s.dtype != IG_F32 || ig_shape_count(s.shape) != 1)
        return IG_FAIL(IG_ERR_MODEL, "production: init() gave a loss of %s %s, not an F32 scalar",
                       ig_dtype_name(s.dtype), ig_shape_text(s.shape, text));
    return IG_OK;
}

static ig_status init(ig_production_run *run, const ig_production_parts *parts) {
    IG_TRY(make_tokens(run));
    IG_TRY(make_params(run, parts->root));
    if (run->optimizer) {
        run->args.adamw = ig_optimizer_adamw(run->optimizer);
        IG_TRY(make_clip(run, parts->clip_norm));
    }
    IG_TRY(run->table->init(run->ctx, &run->args, &run->made));
    return check_made(run);
}

ig_status ig_production_run_create(const ig_production_parts *parts, ig_production_run **out) {
    ig_production_run *run = ig_alloc(ig_ctx_allocator(parts->ctx), 1, sizeof *run);
    if (!run) return IG_FAIL(IG_ERR_MEMORY, "production: a run");
    run->ctx = parts->ctx;
    run->table = parts->table;
    run->optimizer = parts->optimizer;
    run->args = (ig_production_args){.config = parts->config,
                                     .batch = parts->batch,
                                     .rows = parts->rows,
                                     .inference = !parts->optimizer};
    const ig_status status = init(run, parts);
    if (status == IG_OK)
        *out = run;
    else
        ig_production_run_destroy(run);
    return status;
}

void ig_production_run_destroy(ig_production_run *run) {
    if (!run) return;
    const ig_allocator *memory = ig_ctx_allocator(run->ctx);
    if (run->made.model) run->table->destroy(run->ctx, run->made.model);
    ig_batch_destroy(run->clip);
    for (size_t i = 0; run->params && i < run->args.n_params; i++)
        ig_tensor_release(run->params[i].grad);
    ig_tensor *const all[] = {run->args.ids, run->args.targets, run->args.positions, run->norm};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ig_tensor_release(all[i]);
    ig_free(memory, (void *)run->grads);
    ig_free(memory, run->params);
    ig_free(memory, run);
}

ig_status ig_production_find(const ig_production_args *args, const char *path,
                             ig_production_param *out) {
    for (size_t i = 0; i < args->n_params; i++)
        if (strcmp(args->params[i].path, path) == 0) {
            *out = args->params[i];
            return IG_OK;
        }
    const size_t n = args->n_params;
    return IG_FAIL(IG_ERR_ARGUMENT, "production: no parameter %s; there are %zu, from %s to %s",
                   path, n, n ? args->params[0].path : "none",
                   n ? args->params[n - 1].path : "none");
}

/* ---- a step ---- */

ig_status ig_production_run_forward(ig_production_run *run, double *out_loss) {
    IG_TRY(run->table->forward(run->made.model));
    return ig_tensor_item(run->made.loss, out_loss);
}

static ig_status clip(const ig_production_run *run, double limit, double *out_norm) {
    IG_TRY(dispatch_clip(run, limit));
    IG_TRY(ig_batch_flush(run->clip));
    return ig_tensor_item(run->norm, out_norm);
}

/* A failed step is not counted. */
static ig_status update(const ig_production_run *run) {
    const int64_t steps = ig_optimizer_steps(run->optimizer);
    IG_TRY(ig_optimizer_set_steps(run->optimizer, steps + 1));
    const ig_status status = run->table->step(run->made.model);
    if (status != IG_OK) (void)!ig_optimizer_set_steps(run->optimizer, steps);
    return status;
}

ig_status ig_production_run_step(ig_production_run *run, double clip_norm, double *out_loss,
                                 double *out_norm) {
    IG_TRY(ig_production_run_forward(run, out_loss));
    if (!isfinite(*out_loss)) return IG_OK;
    IG_TRY(run->table->backward(run->made.model));
    if (clip_norm > 0) IG_TRY(clip(run, clip_norm, out_norm));
    if (isfinite(*out_norm)) IG_TRY(update(run));
    return ig_ctx_step_end(run->ctx);
}
