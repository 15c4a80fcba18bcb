/*
 * Optimizers: state kept between steps, for all parameters of a module.
 *
 * The arithmetic is in the ops adamw and sgd, so it runs on the model's device. Learning rate and
 * step count are slots: they change without a new recording. Each type of optimizer is a row of a
 * table: its hyperparameters with their ranges, and the function that builds the op.
 */
#include "nn/optimizer.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "base/alloc.h"
#include "ingot/grad.h"
#include "ingot/ops.h"
#include "nn/module.h"

enum { MAX_STATES = 2 };

/* A hyperparameter; 0 in the options means the default. */
typedef struct hyper {
    const char *name;
    double standard, low, below; /* valid range: [low, below), also after rounding to float */
} hyper;

typedef ig_status update_fn(const ig_optimizer *opt, ig_param param, ig_tensor *grad,
                            ig_tensor *const *state);

typedef struct kind {
    const char *name;
    update_fn *update;
    const char *states[MAX_STATES];
    size_t n_hypers;
    hyper hypers[IG_HYPER_MAX];
} kind;

struct ig_optimizer {
    ig_ctx *ctx;
    ig_module *module; /* borrowed */
    const kind *kind;
    double hyper[IG_HYPER_MAX];  /* [0] is the learning rate of both optimizers */
    uint32_t lr_slot, step_slot; /* the step count is in its slot, where replays increment it */

    size_t n_params, n_states;
    ig_tensor **states; /* [n_params, n_states]; owned */
    ig_tensor **grads;  /* n_params elements: the arguments of global_norm in clipping */
};

enum { RATE = 0 };
enum { ADAMW_BETA1 = 1, ADAMW_BETA2, ADAMW_EPS, ADAMW_DECAY };
enum { SGD_MOMENTUM = 1, SGD_DECAY, SGD_NESTEROV };

/* ---- The two kinds ---- */

ig_attrs_adamw ig_optimizer_adamw(const ig_optimizer *opt) {
    return (ig_attrs_adamw){.beta1 = (float)opt->hyper[ADAMW_BETA1],
                            .beta2 = (float)opt->hyper[ADAMW_BETA2],
                            .eps = (float)opt->hyper[ADAMW_EPS],
                            .weight_decay = (float)opt->hyper[ADAMW_DECAY],
                            .lr_slot = opt->lr_slot,
                            .step_slot = opt->step_slot};
}

static ig_status adamw_update(const ig_optimizer *opt, ig_param param, ig_tensor *grad,
                              ig_tensor *const *state) {
    return ig_adamw(param.tensor, grad, state[0], state[1], ig_optimizer_adamw(opt));
}

static ig_status sgd_update(const ig_optimizer *opt, ig_param param, ig_tensor *grad,
                            ig_tensor *const *state) {
    return ig_sgd(param.tensor, grad, opt->n_states > 0 ? state[0] : NULL,
                  (ig_attrs_sgd){.momentum = (float)opt->hyper[SGD_MOMENTUM],
                                 .weight_decay = (float)opt->hyper[SGD_DECAY],
                                 .nesterov = opt->hyper[SGD_NESTEROV] != 0,
                                 .lr_slot = opt->lr_slot});
}

static const kind adamw_kind = {
    "adamw",
    adamw_update,
    {"mean", "variance"},
    5,
    {{"rate", 1e-3, 0, INFINITY},
     {"beta1", 0.9, 0, 1},
     {"beta2", 0.999, 0, 1},
     {"eps", 1e-8, 0, INFINITY},
     {"decay", 0.01, 0, INFINITY}},
};

static const kind sgd_kind = {
    "sgd",
    sgd_update,
    {"momentum"},
    4,
    {{"rate", 1e-2, 0, INFINITY},
     {"momentum", 0, 0, INFINITY},
     {"decay", 0, 0, INFINITY},
     {"nesterov", 0, 0, 2}},
};

/* sgd without momentum has no state. */
static size_t states_needed(const kind *k, const double *values) {
    if (k == &sgd_kind && values[SGD_MOMENTUM] == 0) return 0;
    size_t count = 0;
    while (count < MAX_STATES && k->states[count]) count++;
    return count;
}

static ig_status check_values(const kind *k, const double *values) {
    for (size_t i = 0; i < k->n_hypers; i++) {
        const hyper *h = &k->hypers[i];
        if (!(values[i] >= h->low && (float)values[i] < h->below))
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s is %g, expected %g to below %g", k->name,
                           h->name, values[i], h->low, h->below);
    }
    if (k == &sgd_kind && values[SGD_NESTEROV] != 0 && values[SGD_MOMENTUM] == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "sgd: nesterov needs a momentum above 0");
    return IG_OK;
}

/* ---- Create and destroy ---- */

static ig_status create_states(ig_optimizer *opt) {
    const ig_allocator *memory = ig_ctx_allocator(opt->ctx);
    opt->states = ig_alloc(memory, opt->n_params * opt->n_states, sizeof *opt->states);
    opt->grads = ig_alloc(memory, opt->n_params, sizeof *opt->grads);
    if (!opt->states || !opt->grads)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the state of %zu parameters",
                       opt->kind->name, opt->n_params);
    for (size_t i = 0; i < opt->n_params * opt->n_states; i++) {
        const ig_param param = ig_module_param(opt->module, i / opt->n_states);
        IG_TRY(ig_tensor_create(opt->ctx, ig_tensor_desc(param.tensor), &opt->states[i]));
    }
    return IG_OK;
}

/* `values` are those of the options: 0 means the default. */
static ig_status create(const kind *k, ig_module *module, double *values, ig_optimizer **out) {
    if (!module || !out) return IG_FAIL(IG_ERR_ARGUMENT, "%s: no module, or no place", k->name);
    if (ig_module_param_count(module) == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: the module has no parameters", k->name);
    for (size_t i = 0; i < k->n_hypers; i++)
        if (values[i] == 0) values[i] = k->hypers[i].standard;
    if (k == &adamw_kind && values[ADAMW_DECAY] < 0) values[ADAMW_DECAY] = 0;
    IG_TRY(check_values(k, values));

    ig_ctx *ctx = ig_module_ctx(module);
    ig_optimizer *opt = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *opt);
    if (!opt) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory", k->name);
    opt->ctx = ctx;
    opt->module = module;
    opt->kind = k;
    for (size_t i = 0; i < k->n_hypers; i++) opt->hyper[i] = values[i];
    opt->n_params = ig_module_param_count(module);
    opt->n_states = states_needed(k, values);

    ig_status status = create_states(opt);
    if (status == IG_OK) status = ig_slot_create(ctx, &opt->lr_slot);
    if (status == IG_OK) status = ig_slot_create(ctx, &opt->step_slot);
    if (status == IG_OK)
        *out = opt;
    else
        ig_optimizer_destroy(opt);
    return status;
}

ig_status ig_adamw_create(ig_module *module, const ig_adamw_options *options, ig_optimizer **out) {
    const ig_adamw_options o = options ? *options : (ig_adamw_options){0};
    return create(&adamw_kind, module,
                  (double[IG_HYPER_MAX]){o.lr, o.beta1, o.beta2, o.eps, o.weight_decay}, out);
}

ig_status ig_sgd_create(ig_module *module, const ig_sgd_options *options, ig_optimizer **out) {
    const ig_sgd_options o = options ? *options : (ig_sgd_options){0};
    return create(&sgd_kind, module,
                  (double[IG_HYPER_MAX]){o.lr, o.momentum, o.weight_decay, o.nesterov}, out);
}

void ig_optimizer_destroy(ig_optimizer *opt) {
    if (!opt) return;
    const ig_allocator *memory = ig_ctx_allocator(opt->ctx);
    for (size_t i = 0; opt->states && i < opt->n_params * opt->n_states; i++)
        ig_tensor_release(opt->states[i]);
    ig_free(memory, opt->grads);
    ig_free(memory, opt->states);
    ig_free(memory, opt);
}

/* ---- A step ---- */

/* State is indexed by parameter, so no parameter may have been added. */
static ig_status check_module(const ig_optimizer *opt) {
    const size_t count = ig_module_param_count(opt->module);
    if (count == opt->n_params) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: made for %zu parameters, but the module has %zu now",
                   opt->kind->name, opt->n_params, count);
}

static ig_status update_all(const ig_optimizer *opt) {
    for (size_t i = 0; i < opt->n_params; i++) {
        const ig_param param = ig_module_param(opt->module, i);
        ig_tensor *grad = ig_tensor_grad(param.tensor);
        if (grad) IG_TRY(opt->kind->update(opt, param, grad, opt->states + i * opt->n_states));
    }
    return ig_ctx_step_end(opt->ctx);
}

/* A failed step is not counted. */
ig_status ig_optimizer_step(ig_optimizer *opt) {
    IG_TRY(check_module(opt));
    const int64_t steps = ig_optimizer_steps(opt);
    ig_slot_set_real(opt->ctx, opt->lr_slot, opt->hyper[RATE]);
    ig_slot_set_count(opt->ctx, opt->step_slot, steps + 1);
    const ig_status status = update_all(opt);
    if (status != IG_OK) ig_slot_set_count(opt->ctx, opt->step_slot, steps);
    return status;
}

void ig_optimizer_zero_grad(ig_optimizer *opt) {
    const size_t count = ig_module_param_count(opt->module);
    for (size_t i = 0; i < count; i++) ig_tensor_zero_grad(ig_module_param(opt->module, i).tensor);
}

static ig_status clip(ig_optimizer *opt, double limit, ig_tensor **out_norm) {
    if (!(limit >= 0))
        return IG_FAIL(IG_ERR_ARGUMENT, "clip: the maximum norm %g must be positive", limit);
    IG_TRY(check_module(opt));
    int count = 0;
    for (size_t i = 0; i < opt->n_params && count < INT_MAX; i++) {
        ig_tensor *grad = ig_tensor_grad(ig_module_param(opt->module, i).tensor);
        if (grad) opt->grads[count++] = grad;
    }
    if (count == 0) {
        *out_norm = ig_full(opt->ctx, (ig_desc){IG_F32, {0}}, 0);
        return IG_OK;
    }
    ig_tensor *norm = ig_global_norm(opt->grads, count);
    for (int i = 0; i < count; i++) IG_TRY(ig_clip(opt->grads[i], norm, (float)limit));
    *out_norm = norm;
    return IG_OK;
}

ig_tensor *ig_optimizer_clip_grad_norm(ig_optimizer *opt, double limit) {
    ig_tensor *norm = NULL;
    const ig_status status = clip(opt, limit, &norm);
    return status == IG_OK ? norm : ig_poison(opt->ctx, status);
}

/* ---- Looking in, and restoring ---- */

void ig_optimizer_set_lr(ig_optimizer *opt, double rate) {
    opt->hyper[RATE] = rate;
    ig_slot_set_real(opt->ctx, opt->lr_slot, rate); /* for replays, which do not run this code */
}

double ig_optimizer_lr(const ig_optimizer *opt) { return opt->hyper[RATE]; }

int64_t ig_optimizer_steps(const ig_optimizer *opt) {
    return ig_slot_count(opt->ctx, opt->step_slot);
}

ig_status ig_optimizer_set_steps(ig_optimizer *opt, int64_t steps) {
    if (steps < 0 || steps == INT64_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %" PRId64 " steps taken", opt->kind->name, steps);
    ig_slot_set_count(opt->ctx, opt->step_slot, steps);
    return IG_OK;
}

const char *ig_optimizer_kind(const ig_optimizer *opt) { return opt->kind->name; }

ig_module *ig_optimizer_module(const ig_optimizer *opt) { return opt->module; }

size_t ig_optimizer_param_count(const ig_optimizer *opt) { return opt->n_params; }

size_t ig_optimizer_state_count(const ig_optimizer *opt) { return opt->n_states; }

const char *ig_optimizer_state_name(const ig_optimizer *opt, size_t state) {
    return state < opt->n_states ? opt->kind->states[state] : NULL;
}

ig_tensor *ig_optimizer_state(const ig_optimizer *opt, size_t param, size_t state) {
    if (param >= opt->n_params || state >= opt->n_states) return NULL;
    return opt->states[param * opt->n_states + state];
}

size_t ig_optimizer_hparam_count(const ig_optimizer *opt) { return opt->kind->n_hypers; }

const char *ig_optimizer_hparam_name(const ig_optimizer *opt, size_t i) {
    return i < opt->kind->n_hypers ? opt->kind->hypers[i].name : NULL;
}

double ig_optimizer_hparam(const ig_optimizer *opt, size_t i) {
    return i < opt->kind->n_hypers ? opt->hyper[i] : 0;
}

ig_status ig_optimizer_check_hparams(const ig_optimizer *opt, const double *values) {
    IG_TRY(check_values(opt->kind, values));
    if (states_needed(opt->kind, values) != opt->n_states)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: its momentum is %g and cannot change to %g",
                       opt->kind->name, opt->hyper[SGD_MOMENTUM], values[SGD_MOMENTUM]);
    return IG_OK;
}

ig_status ig_optimizer_set_hparams(ig_optimizer *opt, const double *values) {
    IG_TRY(ig_optimizer_check_hparams(opt, values));
    for (size_t i = 0; i < opt->kind->n_hypers; i++) opt->hyper[i] = values[i];
    return IG_OK;
}
