#include "plan/plan_json.h"

#include <stdio.h>

#include "graph/op_cost.h"

void ig_attempts_describe(ig_text *t, const ig_attempt attempts[IG_ATTEMPTS]) {
    ig_text_comma(t);
    ig_text_add(t, "\"attempts\":[");
    for (int i = 0; i < IG_ATTEMPTS; i++) {
        const ig_attempt *a = &attempts[i];
        ig_text_comma(t);
        ig_text_add(t, "{\"level\":\"%s\",\"ok\":%s,\"reason\":", a->level,
                    a->ok ? "true" : "false");
        ig_text_add_string(t, a->reason);
        ig_text_add(t, ",\"selected\":%s}", a->selected ? "true" : "false");
    }
    ig_text_add(t, "]");
}

/* Transfers of each run between host and device: those of the arena, which are known when
 * planning. */
static void describe_transfers(ig_text *t, const ig_plan *plan, const ig_segment *s) {
    ig_text_add(t, ",\"transfers\":[");
    for (uint32_t i = s->transfers; i < s->transfers + s->n_transfers + s->n_after; i++) {
        ig_text_comma(t);
        ig_text_add(t, "{\"to\":\"%s\"",
                    plan->transfers[i].to_device ? plan->remote->name : "host");
        ig_text_add_number(t, "bytes", plan->transfers[i].bytes);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "]");
}

static void describe_operand(ig_text *t, const ig_operand *o) {
    static const char *const kinds[] = {"input", "output", "local", "weight", "state"};
    ig_text_comma(t);
    ig_text_add(t, "{\"value\":%u,\"kind\":\"%s\",\"buffer\":%u", o->value, kinds[o->kind],
                o->buffer);
    ig_text_add_number(t, "offset", o->offset);
    ig_text_add(t, ",\"dtype\":\"%s\",\"shape\":[", ig_dtype_name(o->desc.dtype));
    for (int d = 0; d < o->desc.shape.rank; d++)
        ig_text_add(t, "%s%lld", d ? "," : "", (long long)o->desc.shape.dim[d]);
    ig_text_add(t, "]");
    ig_text_add_number(t, "bytes", ig_operand_bytes(o));
    ig_text_add(t, "}");
}

const char *ig_step_title(const ig_planner *planner, const ig_step *step,
                          char room[IG_TITLE_BYTES]) {
    static const ig_op activations[] = {
        [IG_ACTIVATION_RELU] = IG_OP_RELU,       [IG_ACTIVATION_TANH] = IG_OP_TANH,
        [IG_ACTIVATION_SIGMOID] = IG_OP_SIGMOID, [IG_ACTIVATION_SILU] = IG_OP_SILU,
        [IG_ACTIVATION_GELU_ERF] = IG_OP_GELU,   [IG_ACTIVATION_GELU_TANH] = IG_OP_GELU,
    };
    const char *name = ig_plan_step_name(planner, step);
    if (step->op != IG_OP_MATMUL) return name;
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const bool is_active = attrs.activation != IG_ACTIVATION_NONE;
    snprintf(room, IG_TITLE_BYTES, "%s%s%s%s", name, is_active ? "+" : "",
             is_active ? ig_op_name(activations[attrs.activation]) : "",
             attrs.residual ? "+add" : "");
    return room;
}

static void describe_step(ig_text *t, const ig_planner *planner, const ig_step *step,
                          const ig_segment *segment) {
    char title[IG_TITLE_BYTES];
    ig_text_comma(t);
    ig_text_add(t, "{\"op\":");
    ig_text_add_string(t, ig_step_title(planner, step, title));
    ig_text_add(t, ",\"tag\":\"%s\"", ig_tag_name(step->tag));
    ig_text_add(t, ",\"level\":%u,\"chain\":%u,\"region\":%u,\"device\":\"%s\"", step->level,
                step->chain, segment->region, ig_segment_device(segment));
    ig_text_add_number(t, "flop", ig_step_flop(step));
    ig_text_add_number(t, "bytes", ig_step_bytes(step));
    ig_text_add(t, ",\"scratch\":{\"offset\":%llu,\"bytes\":%llu},\"in\":[",
                (unsigned long long)step->scratch_offset, (unsigned long long)step->scratch_bytes);
    for (uint32_t i = 0; i < step->n_in; i++) describe_operand(t, &step->in[i]);
    ig_text_add(t, "],\"out\":[");
    for (uint32_t i = 0; i < step->n_out; i++) describe_operand(t, &step->out[i]);
    ig_text_add(t, "]}");
}

static uint64_t sum_bytes(const ig_plan *plan) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        sum += plan->steps[i].scratch_bytes;
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++) {
            const ig_operand *o = &plan->steps[i].out[j];
            if (o->buffer == IG_ARENA && o->alias < 0) sum += ig_operand_bytes(o);
        }
    }
    return sum;
}

static uint32_t chain_count(const ig_plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        count += i == 0 || plan->steps[i].chain != plan->steps[i - 1].chain;
    return count;
}

void ig_plan_describe(ig_text *t, const ig_planner *planner, const ig_plan *plan) {
    ig_text_add(t, "{");
    ig_text_add_number(t, "levels", plan->n_levels);
    ig_text_add_number(t, "barriers", plan->n_levels > 0 ? plan->n_levels - 1 : 0);
    ig_text_add_number(t, "chains", chain_count(plan));
    ig_text_add_number(t, "regions", plan->n_regions);
    ig_text_add_number(t, "copies", plan->n_copies);
    ig_text_add_number(t, "arena_bytes", plan->arena_bytes);
    ig_text_add_number(t, "live_bytes", plan->live_bytes);
    ig_text_add_number(t, "sum_bytes", sum_bytes(plan));
    ig_text_add(t, ",\"segments\":[");
    for (uint32_t i = 0; i < plan->n_segments; i++) {
        const ig_segment *s = &plan->segments[i];
        ig_text_comma(t);
        ig_text_add(t, "{\"first\":%u,\"count\":%u,\"region\":%u,\"device\":\"%s\"", s->first,
                    s->count, s->region, ig_segment_device(s));
        ig_attempts_describe(t, ig_segment_attempts(s));
        if (plan->remote) describe_transfers(t, plan, s);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "],\"steps\":[");
    for (uint32_t i = 0; i < plan->n_segments; i++) {
        const ig_segment *s = &plan->segments[i];
        for (uint32_t j = s->first; j < s->first + s->count; j++)
            describe_step(t, planner, &plan->steps[j], s);
    }
    ig_text_add(t, "]}");
}
