/* Creates a plan, pass by pass, and destroys it. */
#include "plan/plan.h"

#include <stdio.h>

#include "plan/lower.h"

/* Reserves room for everything the passes may write: a copy of every input, and new operands for a
 * matmul that an add is fused into. */
static ig_status reserve(ig_lowering *l) {
    const ig_graph *g = l->args->graph;
    const ig_allocator *a = l->planner->allocator;
    size_t steps = 0, operands = 0;
    for (uint32_t i = l->args->first; i < l->args->first + l->args->count; i++) {
        steps += 1 + (size_t)g->nodes[i].n_in;
        operands += 3 * (size_t)g->nodes[i].n_in + g->nodes[i].n_out;
        if (g->nodes[i].op == IG_OP_ADD) operands += ig_op_find(IG_OP_MATMUL)->in_max + 1;
    }
    l->plan->steps = ig_alloc(a, steps, sizeof *l->plan->steps);
    l->plan->operands = ig_alloc(a, operands, sizeof *l->plan->operands);
    l->plan->attrs = ig_alloc(a, steps, IG_ATTRS_MAX);
    l->places = ig_alloc(a, steps, sizeof *l->places);
    l->plan->region_levels = ig_alloc(a, l->plan->n_regions, sizeof *l->plan->region_levels);
    if (l->plan->steps && l->plan->operands && l->plan->attrs && l->places &&
        l->plan->region_levels)
        return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "plan: %zu steps", steps);
}

static void count_copies(ig_lowering *l) {
    for (uint32_t i = 0; i < l->plan->n_steps; i++)
        l->plan->n_copies += l->plan->steps[i].op == IG_OP_COPY &&
                             l->plan->steps[i].out[0].value >= l->args->graph->n_values;
}

static ig_status lower(ig_lowering *l) {
    IG_TRY(reserve(l));
    IG_TRY(ig_lower_place(l));
    IG_TRY(ig_lower_simplify(l));
    count_copies(l);
    IG_TRY(ig_lower_levels(l));
    IG_TRY(ig_lower_memory(l));
    IG_TRY(ig_lower_wrap(l));
    return l->again ? IG_OK : ig_lower_transfers(l);
}

/* One attempt; useless if it ends with a barred node. */
static ig_status attempt(ig_lowering *l) {
    const ig_allocator *a = l->planner->allocator;
    l->plan = ig_alloc(a, 1, sizeof *l->plan);
    if (!l->plan) return IG_FAIL(IG_ERR_MEMORY, "plan");
    l->plan->allocator = a;
    l->plan->planner = l->planner;
    l->plan->n_regions = l->args->n_graph_breaks + 1;
    l->again = false;
    l->n_inserted = 0;
    const ig_status status = lower(l);
    ig_free(a, l->places);
    l->places = NULL;
    if (status != IG_OK || l->again) {
        ig_plan_destroy(l->plan);
        l->plan = NULL;
    }
    return status;
}

ig_status ig_plan_create(const ig_planner *planner, ig_plan_args args, ig_plan **out) {
    ig_lowering l = {.planner = planner, .args = &args, .again = true};
    ig_status status = IG_OK;
    while (status == IG_OK && l.again) status = attempt(&l);
    ig_free(planner->allocator, l.bars);
    if (status == IG_OK) {
        l.plan->refusals = l.refusals;
        l.plan->n_refusals = (uint32_t)l.n_refusals;
        *out = l.plan;
    } else {
        ig_free(planner->allocator, l.refusals);
    }
    return status;
}

void ig_plan_destroy(ig_plan *plan) {
    if (!plan) return;
    for (uint32_t i = 0; i < plan->n_segments; i++) {
        ig_segment *s = &plan->segments[i];
        for (uint32_t j = 0; j < s->n_programs; j++)
            if (s->programs[j]->destroy) s->programs[j]->destroy(s->programs[j]);
        ig_free(plan->allocator, s->programs);
        ig_failover_destroy(plan->allocator, s->failover);
        ig_free(plan->allocator, s->left);
        ig_rollback_deinit(plan, &s->rollback);
    }
    ig_free(plan->allocator, plan->segments);
    ig_free(plan->allocator, plan->refusals);
    ig_free(plan->allocator, plan->transfers);
    ig_free(plan->allocator, plan->touches);
    ig_free(plan->allocator, (void *)plan->remote_buffers);
    ig_free(plan->allocator, plan->region_levels);
    ig_free(plan->allocator, plan->placements);
    ig_free(plan->allocator, plan->attrs);
    ig_free(plan->allocator, plan->operands);
    ig_free(plan->allocator, plan->steps);
    ig_free(plan->allocator, plan);
}

const char *ig_plan_step_name(const ig_planner *planner, const ig_step *step) {
    if (step->op != IG_OP_CUSTOM) return ig_op_name(step->op);
    ig_attrs_custom attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return planner->custom(planner->user, attrs.id)->name;
}

const char *ig_tag_name(uint32_t tag) {
    static const char *const names[IG_TAG_COUNT] = {"",          "matmul", "norm",
                                                    "attention", "ffn",    "optimizer"};
    return tag < IG_TAG_COUNT ? names[tag] : "";
}

void ig_segment_name(const ig_plan *plan, const ig_segment *s, char out[IG_MODULE_BYTES]) {
    const ig_step *first = &plan->steps[s->first];
    const uint32_t last = s->first + s->count - 1;
    const char *tag = ig_tag_name(first->tag);
    for (uint32_t i = s->first; i <= last; i++)
        if (plan->steps[i].tag != first->tag) tag = "";
    if (s->count == 1)
        snprintf(out, IG_MODULE_BYTES, "%s", ig_plan_step_name(plan->planner, first));
    else if (*tag)
        snprintf(out, IG_MODULE_BYTES, "%s (steps %u to %u)", tag, s->first, last);
    else
        snprintf(out, IG_MODULE_BYTES, "steps %u to %u", s->first, last);
}
