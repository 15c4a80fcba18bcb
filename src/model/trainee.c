/*
 * The llm architecture, trained in three routes behind one call, to be compared.
 */
#include <string.h>

#include "base/alloc.h"
#include "ingot/bench.h"
#include "model/adapter.h"
#include "model/production.h"

struct ig_trainee {
    ig_ctx *ctx;
    int64_t batch, rows, n_params;
    ig_adapter *adapter;       /* easy and replay, */
    ig_production *production; /* or this */
    int64_t steps;             /* of production */
};

/* The weights that the adapter drew, under the same names. */
static ig_status copy_weights(const ig_module *from, const ig_module *to) {
    for (size_t i = 0; i < ig_module_param_count(from); i++) {
        const ig_param param = ig_module_param(from, i);
        uint64_t bytes = 0;
        (void)ig_desc_bytes(ig_tensor_desc(param.tensor), &bytes);
        const void *values = ig_tensor_map(param.tensor);
        ig_tensor *same = ig_module_find(to, param.path);
        if (!values || !same)
            return IG_FAIL(IG_ERR_UNSUPPORTED, "trainee: %s cannot be copied", param.path);
        IG_TRY(ig_tensor_write(same, values, bytes));
    }
    return IG_OK;
}

static ig_status init(ig_trainee *t, ig_train_route route, const ig_model_config *config) {
    IG_TRY(ig_mode_set(t->ctx, route == IG_ROUTE_REPLAY ? IG_MODE_COMPILED : IG_MODE_DYNAMIC));
    IG_TRY(ig_adapter_create(t->ctx, "llm", config, &t->adapter));
    t->rows = t->adapter->config.ctx_len;
    t->n_params = ig_adapter_param_count(t->adapter);
    if (route != IG_ROUTE_PRODUCTION) return IG_OK;
    IG_TRY(ig_production_create(t->ctx, &t->adapter->config, t->batch, t->rows, &t->production));
    IG_TRY(copy_weights(t->adapter->root, ig_production_module(t->production)));
    ig_adapter_destroy(t->adapter);
    t->adapter = NULL;
    return IG_OK;
}

ig_status ig_trainee_create(ig_ctx *ctx, ig_train_route route, const ig_model_config *config,
                            int64_t batch, ig_trainee **out) {
    if (!ctx || !out || batch < 1 || (unsigned)route >= IG_ROUTES)
        return IG_FAIL(IG_ERR_ARGUMENT, "trainee_create: no context, batch, route or place");
    ig_trainee *t = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *t);
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "trainee_create");
    t->ctx = ctx;
    t->batch = batch;
    const ig_status status = init(t, route, config);
    if (status == IG_OK)
        *out = t;
    else
        ig_trainee_destroy(t);
    return status;
}

void ig_trainee_destroy(ig_trainee *t) {
    if (!t) return;
    ig_adapter_destroy(t->adapter);
    ig_production_destroy(t->production);
    ig_free(ig_ctx_allocator(t->ctx), t);
}

int64_t ig_trainee_param_count(const ig_trainee *t) { return t->n_params; }

static ig_status step_by_hand(ig_trainee *t, const int32_t *tokens, double rate, double *out_loss) {
    int32_t *ids = ig_tensor_map(ig_production_ids(t->production));
    int32_t *targets = ig_tensor_map(ig_production_targets(t->production));
    for (int64_t b = 0; b < t->batch; b++) {
        const int32_t *row = tokens + b * (t->rows + 1);
        memcpy(ids + b * t->rows, row, (size_t)t->rows * sizeof *ids);
        memcpy(targets + b * t->rows, row + 1, (size_t)t->rows * sizeof *targets);
    }
    IG_TRY(ig_production_forward(t->production, out_loss));
    IG_TRY(ig_production_backward(t->production));
    return ig_production_step(t->production, ++t->steps, rate);
}

ig_status ig_trainee_step(ig_trainee *t, const int32_t *tokens, double rate, double *out_loss) {
    if (t->production) return step_by_hand(t, tokens, rate, out_loss);
    const ig_train_options options = {.rate = rate};
    return ig_adapter_train(t->adapter, tokens, t->batch, t->rows, &options, out_loss);
}
