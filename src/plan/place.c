/*
 * From nodes to steps.  Operands get their final shapes and strides here, and
 * every step the first device that can run it: as it is, or after copies of the
 * inputs that do not lie as the kernel needs them.
 */
#include <stdio.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "graph/view.h"
#include "plan/lower.h"

/* The value that a chain of views looks at. */
static ig_value root_of(const ig_graph *g, ig_value v) {
    for (;;) {
        const uint32_t node = ig_value_at(g, v)->node;
        if (node == IG_NO_NODE || !(ig_op_find(g->nodes[node].op)->traits & IG_VIEWS)) return v;
        v = ig_node_in(g, &g->nodes[node])[0];
    }
}

/* 1 + the place of a value's memory among the bound ones; 0: it is in the arena. */
static uint32_t buffer_of(const ig_plan_args *args, ig_value base) {
    for (uint32_t i = 0; i < args->n_bound; i++)
        if (args->bound[i] == base) return i + 1;
    return IG_ARENA;
}

/* Strides of no elements mean nothing; kernels that look at them shall find packed ones. */
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
                    .vary_dim = -1,
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

static void stretch(ig_operand *o, ig_shape shape) {
    ig_layout layout = {.desc = o->desc};
    memcpy(layout.stride, o->stride, sizeof layout.stride);
    layout = ig_view_broadcast(&layout, shape);
    o->desc = layout.desc;
    memcpy(o->stride, layout.stride, sizeof o->stride);
    pack_if_empty(o);
}

/* Inputs as the op sees them: broadcast to the result, or, of a matmul, to its batch. */
static void broadcast_inputs(ig_op op, ig_operand *in, ig_shape result) {
    if (ig_op_find(op)->traits & IG_BROADCASTS) {
        stretch(&in[0], result);
        stretch(&in[1], result);
    }
    for (int i = 0; op == IG_OP_MATMUL && i < 2; i++) {
        const ig_shape own = in[i].desc.shape;
        if (own.rank == 2) continue; /* one matrix for all */
        ig_shape shape = result;
        for (int d = 1; d <= 2; d++) shape.dim[shape.rank - d] = own.dim[own.rank - d];
        stretch(&in[i], shape);
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

/* What is done to the inputs of a step before it: all are packed; halves that are multiplied
 * become f32, too, where a device has no kernel for them. */
typedef enum input_form { AS_PACKED, AS_F32 } input_form;

static bool is_half_factor(const ig_step *step, uint32_t input) {
    const ig_dtype dtype = step->in[input].desc.dtype;
    const bool multiplies =
        step->op == IG_OP_MATMUL || step->op == IG_OP_ATTENTION || step->op == IG_OP_ATTENTION_GRAD;
    return multiplies && (dtype == IG_F16 || dtype == IG_BF16);
}

/* The operand, packed, as a value of its own in the arena. */
static ig_operand packed_copy(const ig_step *step, uint32_t input, input_form form,
                              uint32_t value) {
    ig_operand copy = step->in[input];
    if (form == AS_F32 && is_half_factor(step, input)) copy.desc.dtype = IG_F32;
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
    if (form == AS_F32 && is_half_factor(step, input)) return true;
    return !ig_operand_is_packed(&step->in[input]) && !is_overwritten(step, input);
}

static ig_op copy_op(const ig_step *step, uint32_t input, const ig_operand *to) {
    return to->desc.dtype == step->in[input].desc.dtype ? IG_OP_COPY : IG_OP_CAST;
}

/* Puts a copy before the step for every input that needs one.  `at` is the step's place; it moves
 * up by as many. */
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

/* Whether the device can make the copies that the step needs. */
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

/* Whether the device could run the step if its inputs had this form, and bring them into it.  The
 * inputs as they would be are written where the copies' operands will come: there is room for two
 * each. */
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

static ig_status nowhere(const ig_lowering *l, const ig_step *step) {
    const ig_planner *planner = l->planner;
    const ig_operand *first = ig_step_operand(step, 0);
    char shape[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_UNSUPPORTED, "%s: %s has no kernel for %s of %s %s%s",
                   planner->strict && planner->n_devices > 1 ? "strict" : "plan",
                   planner->devices[0]->name, ig_op_name(step->op),
                   ig_dtype_name(first->desc.dtype), ig_shape_text(first->desc.shape, shape),
                   planner->strict ? ", and no other device may be used" : "");
}

/* A custom op reads packed host memory; the first device that can makes the copies. */
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

/* Single ops pass by a device that runs whole programs only: that level is not offered, and going
 * elsewhere is no fallback. */
static bool passes_by(const ig_lowering *l, uint32_t device) {
    return l->args->alone && l->planner->devices[device]->info.flags & IG_NO_EAGER &&
           device + 1 < l->planner->n_devices;
}

static void say_why(const ig_lowering *l, ig_place *p, uint32_t first, const ig_bar *bar,
                    const ig_step *step) {
    const char *name = l->planner->devices[first]->name;
    if (bar && bar->first > first)
        snprintf(p->why, sizeof p->why, "%s", bar->why);
    else if (p->device > first)
        snprintf(p->why, sizeof p->why, "%s has no kernel for %s of %s", name, ig_op_name(step->op),
                 ig_dtype_name(ig_step_operand(step, 0)->desc.dtype));
}

/* Without a can_run(), compile() says why not, in its own words, and an override may do what it
 * does not: the step goes there, and comes back barred if nothing helps. */
static bool speaks_for_itself(const ig_device *device, const ig_step *step) {
    return !device->backend->can_run && ig_step_known(step);
}

/* Chooses a device for the last step. */
static ig_status place(ig_lowering *l, uint32_t node) {
    const ig_planner *planner = l->planner;
    const uint32_t at = l->plan->n_steps - 1;
    const ig_step *step = &l->plan->steps[at];
    const ig_bar *bar = l->bars ? &l->bars[node] : NULL;
    uint32_t first = 0; /* choice */
    if (step->op == IG_OP_CUSTOM) return place_custom(l, at);
    while (passes_by(l, first)) first++;
    const uint32_t n_devices = planner->strict ? first + 1 : planner->n_devices;
    uint32_t chosen = bar && bar->first > first ? bar->first : first;
    for (; chosen < n_devices; chosen++) {
        const ig_device *device = planner->devices[chosen];
        if (ig_device_can_run(device, step)) break;
        input_form form = AS_PACKED;
        while (form <= AS_F32 && !can_run_as(l, device, step, form)) form++;
        if (form <= AS_F32) insert_copies(l, at, form);
        if (form <= AS_F32 || speaks_for_itself(device, step)) break;
    }
    if (chosen >= n_devices) return nowhere(l, step);
    for (uint32_t i = at; i < l->plan->n_steps; i++) {
        l->places[i].device = chosen;
        say_why(l, &l->places[i], first, bar, &l->plan->steps[i]);
    }
    return IG_OK;
}

/* What nobody in the plan computes must be bound, or it would be read where others lie. */
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
    uint32_t part = 0;
    for (uint32_t i = args->first; i < args->first + args->count; i++) {
        const uint32_t first = l->plan->n_steps;
        while (part < args->n_cuts && args->cuts[part] <= i) part++;
        if (!(ig_op_find(g->nodes[i].op)->traits & IG_VIEWS)) IG_TRY(lower_node(l, &g->nodes[i]));
        for (uint32_t s = first; s < l->plan->n_steps; s++) {
            l->places[s].part = part;
            l->places[s].node = i - args->first;
        }
    }
    return IG_OK;
}
