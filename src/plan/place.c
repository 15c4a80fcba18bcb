/*
 * Converts nodes to steps: settles the shapes and strides of operands, and assigns each step the
 * first device that can run it, as it is or with copies of inputs whose layout or dtype the kernel
 * does not accept.
 */
#include <stdio.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "graph/view.h"
#include "plan/lower.h"

/* The base value of a chain of views. */
static ig_value root_of(const ig_graph *g, ig_value v) {
    for (;;) {
        const uint32_t node = ig_value_at(g, v)->node;
        if (node == IG_NO_NODE || !(ig_op_find(g->nodes[node].op)->traits & IG_VIEWS)) return v;
        v = ig_node_in(g, &g->nodes[node])[0];
    }
}

/* 1 + the index of a value's bound memory; 0: in the arena. */
static uint32_t buffer_of(const ig_plan_args *args, ig_value base) {
    for (uint32_t i = 0; i < args->n_bound; i++)
        if (args->bound[i] == base) return i + 1;
    return IG_ARENA;
}

/* Strides of empty tensors are arbitrary; kernels should see contiguous ones. */
static void pack_if_empty(ig_operand *o) {
    if (ig_shape_count(o->desc.shape) > 0) return;
    const ig_layout layout = ig_layout_packed(o->desc);
    memcpy(o->stride, layout.stride, sizeof o->stride);
}

static ig_operand operand_of(const ig_lowering *l, ig_value v) {
    const ig_graph *g = l->args->graph;
    const ig_value_info *info = ig_value_at(g, v);
    const ig_value root = root_of(g, v);
    const bool leaf = ig_value_at(g, root)->node == IG_NO_NODE;
    ig_operand o = {.value = root,
                    .buffer = buffer_of(l->args, info->base),
                    .offset = (uint64_t)ig_bytes_of(info->layout.desc.dtype, info->layout.offset),
                    .desc = info->layout.desc,
                    .dynamic_dim = -1,
                    .alias = -1};
    memcpy(o.stride, info->layout.stride, sizeof o.stride);
    pack_if_empty(&o);
    o.kind = o.buffer == IG_ARENA ? IG_KIND_LOCAL : leaf ? IG_KIND_INPUT : IG_KIND_OUTPUT;
    const char *weight =
        leaf && o.buffer != IG_ARENA && l->args->weights ? l->args->weights[o.buffer - 1] : NULL;
    if (weight) {
        o.kind = IG_KIND_WEIGHT;
        o.host = weight + o.offset;
    }
    return o;
}

static void broadcast_operand(ig_operand *o, ig_shape shape) {
    ig_layout layout = {.desc = o->desc};
    memcpy(layout.stride, o->stride, sizeof layout.stride);
    layout = ig_view_broadcast(&layout, shape);
    o->desc = layout.desc;
    memcpy(o->stride, layout.stride, sizeof o->stride);
    pack_if_empty(o);
}

/* Broadcasts inputs to the result, or matmul inputs to its batch. */
static void broadcast_inputs(ig_op op, ig_operand *in, ig_shape result) {
    if (ig_op_find(op)->traits & IG_BROADCASTS) {
        broadcast_operand(&in[0], result);
        broadcast_operand(&in[1], result);
    }
    for (int i = 0; op == IG_OP_MATMUL && i < 2; i++) {
        const ig_shape own = in[i].desc.shape;
        if (own.rank == 2) continue; /* one matrix for the whole batch */
        ig_shape shape = result;
        for (int d = 1; d <= 2; d++) shape.dim[shape.rank - d] = own.dim[own.rank - d];
        broadcast_operand(&in[i], shape);
    }
}

/* Appends an empty step with room for its operands and attributes. */
static ig_step *append(ig_lowering *l, ig_op op, uint32_t n_in, uint32_t n_out) {
    ig_plan *p = l->plan;
    const uint32_t i = p->n_steps++;
    ig_operand *operands = &p->operands[p->n_operands];
    p->n_operands += n_in + n_out;
    p->steps[i] = (ig_step){.size = sizeof(ig_step),
                            .op = op,
                            .chain = i,
                            .attrs_bytes = ig_op_find(op)->attrs_bytes,
                            .n_in = n_in,
                            .n_out = n_out,
                            .attrs = &p->attrs[(size_t)i * IG_ATTRS_MAX],
                            .in = operands,
                            .out = operands + n_in};
    return &p->steps[i];
}

/* How the inputs of a step are prepared: made contiguous, or also converted from 16-bit floats to
 * f32 if the device has no kernel for them. */
typedef enum input_form { AS_PACKED, AS_F32 } input_form;

static bool is_f16_factor(const ig_step *step, uint32_t input) {
    const ig_dtype dtype = step->in[input].desc.dtype;
    const bool multiplies =
        step->op == IG_OP_MATMUL || step->op == IG_OP_ATTENTION || step->op == IG_OP_ATTENTION_GRAD;
    return multiplies && (dtype == IG_F16 || dtype == IG_BF16);
}

/* A packed copy of the operand, as a new value in the arena. */
static ig_operand packed_copy(const ig_step *step, uint32_t input, input_form form,
                              uint32_t value) {
    ig_operand copy = step->in[input];
    if (form == AS_F32 && is_f16_factor(step, input)) copy.desc.dtype = IG_F32;
    const ig_layout layout = ig_layout_packed(copy.desc);
    copy.value = value;
    copy.buffer = IG_ARENA;
    copy.offset = 0;
    copy.kind = IG_KIND_LOCAL;
    memcpy(copy.stride, layout.stride, sizeof copy.stride);
    return copy;
}

static bool is_overwritten(const ig_step *step, uint32_t input) {
    for (uint32_t i = 0; i < step->n_out; i++)
        if (step->out[i].alias == (int)input) return true;
    return false;
}

static bool needs_copy(const ig_step *step, uint32_t input, input_form form) {
    if (form == AS_F32 && is_f16_factor(step, input)) return true;
    return !ig_operand_is_packed(&step->in[input]) && !is_overwritten(step, input);
}

static ig_op copy_op(const ig_step *step, uint32_t input, const ig_operand *to) {
    return to->desc.dtype == step->in[input].desc.dtype ? IG_OP_COPY : IG_OP_CAST;
}

/* Inserts a copy before the step for every input that needs one. `at` is the step's index and
 * advances by the number of copies. */
static void insert_copies(ig_lowering *l, uint32_t at, input_form form) {
    ig_plan *p = l->plan;
    ig_step step = p->steps[at];
    ig_operand *in = (ig_operand *)step.in;
    const void *attrs = step.attrs;
    _Alignas(16) char kept[IG_ATTRS_MAX];
    memcpy(kept, attrs, sizeof kept);
    p->n_steps = at;
    for (uint32_t i = 0; i < step.n_in; i++) {
        if (!needs_copy(&step, i, form)) continue;
        const uint32_t value = (uint32_t)l->args->graph->n_values + l->n_inserted++;
        const ig_operand to = packed_copy(&step, i, form, value);
        ig_step *copy = append(l, copy_op(&step, i, &to), 1, 1);
        copy->tag = step.tag;
        if (copy->op == IG_OP_CAST)
            *(ig_attrs_dtype *)copy->attrs = (ig_attrs_dtype){to.desc.dtype};
        ig_operand *operands = (ig_operand *)copy->in;
        operands[0] = in[i];
        operands[1] = in[i] = to;
    }
    step.chain = p->n_steps;
    step.attrs = memcpy(&p->attrs[(size_t)p->n_steps * IG_ATTRS_MAX], kept, sizeof kept);
    p->steps[p->n_steps++] = step;
}

static bool all_packed(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in; i++)
        if (needs_copy(step, i, AS_PACKED)) return false;
    return true;
}

/* Whether the device can run the copies that the step needs. */
static bool can_copy(const ig_device *device, const ig_step *step, input_form form) {
    for (uint32_t i = 0; i < step->n_in; i++) {
        if (!needs_copy(step, i, form)) continue;
        const ig_operand to = packed_copy(step, i, form, 0);
        const ig_attrs_dtype attrs = {to.desc.dtype};
        const ig_op op = copy_op(step, i, &to);
        const ig_step copy = {.size = sizeof copy,
                              .op = op,
                              .tag = step->tag,
                              .n_in = 1,
                              .n_out = 1,
                              .attrs_bytes = ig_op_find(op)->attrs_bytes,
                              .attrs = &attrs,
                              .in = &step->in[i],
                              .out = &to};
        if (!ig_device_can_run(device, &copy)) return false;
    }
    return true;
}

/* Whether the device can run the step with inputs of this form and make the copies. The converted
 * inputs are written to the room reserved for the copies' operands. */
static bool can_run_as(const ig_lowering *l, const ig_device *device, const ig_step *step,
                       input_form form) {
    ig_operand *in = &l->plan->operands[l->plan->n_operands];
    if ((form == AS_PACKED && all_packed(step)) || !can_copy(device, step, form)) return false;
    for (uint32_t i = 0; i < step->n_in; i++)
        in[i] = needs_copy(step, i, form) ? packed_copy(step, i, form, 0) : step->in[i];
    ig_step as_if = *step;
    as_if.in = in;
    return ig_device_can_run(device, &as_if);
}

static ig_status no_device(const ig_lowering *l, const ig_step *step, const char *why) {
    const ig_planner *planner = l->planner;
    char shape[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_UNSUPPORTED, "%s: %s %s%s",
                   planner->strict && planner->n_devices > 1 ? "strict" : "plan", why,
                   ig_shape_text(ig_step_operand(step, 0)->desc.shape, shape),
                   planner->strict ? ", and no other device may be used" : "");
}

/* A custom op reads packed host memory; the first device that can run the copies makes them. */
static ig_status place_custom(ig_lowering *l, uint32_t at) {
    const ig_planner *planner = l->planner;
    const ig_step *step = &l->plan->steps[at];
    const uint32_t n_devices = planner->strict ? 1 : planner->n_devices;
    uint32_t copier = 0;
    if (!all_packed(step)) {
        while (copier < n_devices && !can_copy(planner->devices[copier], step, AS_PACKED)) copier++;
        if (copier == n_devices)
            return IG_FAIL(IG_ERR_UNSUPPORTED,
                           "%s: %s cannot copy its inputs, which are not packed",
                           ig_plan_step_name(planner, step), planner->devices[0]->name);
        insert_copies(l, at, AS_PACKED);
    }
    for (uint32_t i = at; i < l->plan->n_steps; i++) {
        const bool last = i + 1 == l->plan->n_steps;
        l->places[i].device = last ? IG_ON_HOST : copier;
        if (!last && copier > 0)
            snprintf(l->places[i].why, IG_REASON_BYTES, "%s cannot copy %s",
                     planner->devices[0]->name, ig_dtype_name(l->plan->steps[i].in[0].desc.dtype));
    }
    return IG_OK;
}

/* A device that only runs compiled programs is skipped for single ops; this counts as "not
 * offered", not as a fallback. */
static bool passes_by(const ig_lowering *l, uint32_t device) {
    return l->args->alone && l->planner->devices[device]->info.flags & IG_NO_EAGER &&
           device + 1 < l->planner->n_devices;
}

/* A device without can_run() gets the step: compile() reports its own reason, an override may
 * still run it, and otherwise the step comes back barred. */
static bool speaks_for_itself(const ig_device *device, const ig_step *step) {
    return !device->backend->can_run && ig_step_known(step);
}

/* Whether the device accepts the step as it is; otherwise `why` is the reason, which a backend may
 * give in can_run(). */
static bool asks(const ig_device *device, const ig_step *step, char why[IG_REASON_BYTES]) {
    (void)ig_fail(IG_ERR_UNSUPPORTED, NULL, 0, "%s", "");
    if (ig_device_can_run(device, step)) return true;
    ig_refusal_explain(device, step, device->backend->can_run ? ig_error_text() : "", why);
    return false;
}

/* The first device from `first` on that runs the last step, with copies of inputs if needed; the
 * device count: none. `why` is the reason of the first one that refuses. */
static ig_status choose(ig_lowering *l, uint32_t first, uint32_t n_devices, uint32_t *out,
                        char why[IG_REASON_BYTES]) {
    const uint32_t at = l->plan->n_steps - 1;
    const ig_step *step = &l->plan->steps[at];
    for (*out = first; *out < n_devices; ++*out) {
        const ig_device *device = l->planner->devices[*out];
        char reason[IG_REASON_BYTES];
        if (asks(device, step, reason)) break;
        input_form form = AS_PACKED;
        while (form <= AS_F32 && !can_run_as(l, device, step, form)) form++;
        if (form <= AS_F32) insert_copies(l, at, form);
        if (form <= AS_F32 || speaks_for_itself(device, step)) break;
        if (!*why) memcpy(why, reason, sizeof reason);
        IG_TRY(ig_refusal_add_step(l, device, step, reason));
    }
    return IG_OK;
}

/* Assigns a device to the last step. */
static ig_status place(ig_lowering *l, uint32_t node) {
    const ig_planner *planner = l->planner;
    const uint32_t at = l->plan->n_steps - 1;
    const ig_step *step = &l->plan->steps[at];
    const ig_bar *bar = l->bars ? &l->bars[node] : NULL;
    char why[IG_REASON_BYTES] = "";
    uint32_t first = 0, chosen; /* choice */
    if (step->op == IG_OP_CUSTOM) return place_custom(l, at);
    while (passes_by(l, first)) first++;
    const uint32_t n_devices = planner->strict ? first + 1 : planner->n_devices;
    const bool barred = bar && bar->first > first;
    if (barred) memcpy(why, bar->why, sizeof why);
    IG_TRY(choose(l, barred ? bar->first : first, n_devices, &chosen, why));
    if (chosen >= n_devices) return no_device(l, step, why);
    for (uint32_t i = at; i < l->plan->n_steps; i++) {
        l->places[i].device = chosen;
        if (chosen > first) memcpy(l->places[i].why, why, sizeof why);
    }
    return IG_OK;
}

/* A value that no step computes must be bound; otherwise reads would see other values. */
static ig_status check_bound(const ig_lowering *l, const ig_node *node) {
    const ig_graph *g = l->args->graph;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const ig_value base = ig_value_at(g, ig_node_in(g, node)[i])->base;
        const uint32_t maker = ig_value_at(g, base)->node;
        const bool computed = maker != IG_NO_NODE && maker >= l->args->first;
        if (!computed && buffer_of(l->args, base) == IG_ARENA)
            return IG_FAIL(IG_ERR_ARGUMENT, "plan: %s: input %u is a value without memory",
                           ig_op_name(node->op), i);
    }
    return IG_OK;
}

static ig_status lower_node(ig_lowering *l, const ig_node *node) {
    const ig_graph *g = l->args->graph;
    IG_TRY(check_bound(l, node));
    const uint32_t traits = ig_op_find(node->op)->traits;
    ig_step *step = append(l, (ig_op)node->op, node->n_in, node->n_out);
    ig_operand *in = (ig_operand *)step->in, *out = in + node->n_in;
    step->tag = node->tag;
    if (step->attrs_bytes) memcpy((void *)step->attrs, ig_node_attrs(g, node), step->attrs_bytes);
    for (uint32_t i = 0; i < node->n_in; i++) in[i] = operand_of(l, ig_node_in(g, node)[i]);
    for (uint32_t i = 0; i < node->n_out; i++) {
        out[i] = operand_of(l, node->out + i);
        if (!(traits & IG_UPDATES)) continue;
        out[i].alias = (int16_t)ig_update_alias(i);
        out[i].kind = in[out[i].alias].kind = IG_KIND_STATE;
    }
    broadcast_inputs((ig_op)node->op, in, out[0].desc.shape);
    return place(l, (uint32_t)(node - &g->nodes[l->args->first]));
}

ig_status ig_lower_place(ig_lowering *l) {
    const ig_plan_args *args = l->args;
    const ig_graph *g = args->graph;
    uint32_t region = 0;
    for (uint32_t i = args->first; i < args->first + args->count; i++) {
        const uint32_t first = l->plan->n_steps;
        while (region < args->n_graph_breaks && args->graph_breaks[region] <= i) region++;
        if (!(ig_op_find(g->nodes[i].op)->traits & IG_VIEWS)) IG_TRY(lower_node(l, &g->nodes[i]));
        for (uint32_t s = first; s < l->plan->n_steps; s++) {
            l->places[s].region = region;
            l->places[s].node = i - args->first;
        }
    }
    return IG_OK;
}
