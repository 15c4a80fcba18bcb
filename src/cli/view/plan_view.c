#include "cli/view/plan_view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/quant_blocks.h"
#include "ingot/op.h"

const char *const plan_class_names[PLAN_CLASSES] = {
    [PLAN_CONTRACT] = "matmul, attention",  [PLAN_ELEMENT] = "elementwise",
    [PLAN_REDUCE] = "norms, softmax, sums", [PLAN_UPDATE] = "updates",
    [PLAN_MOVE] = "copies and others",
};

/* ---- Reading ---- */

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

/* The name of a fused step has several words: the first op decides. */
static plan_class class_of(const char *name) {
    for (uint32_t op = 0; op < IG_OP_COUNT; op++) {
        const ig_op_info *info = ig_op_find(op);
        const size_t length = strlen(info->name);
        if (strncmp(name, info->name, length) != 0 ||
            (name[length] && name[length] != ' ' && name[length] != '+'))
            continue;
        if (info->traits & IG_UPDATES) return PLAN_UPDATE;
        if (info->traits & IG_CONTRACTS) return PLAN_CONTRACT;
        if (info->traits & IG_REDUCES) return PLAN_REDUCE;
        if (info->traits & IG_ELEMENTWISE) return PLAN_ELEMENT;
    }
    return PLAN_MOVE;
}

/* Finds the matrix that a step multiplies by; only weights stored in the model count. */
static void find_weight(const json_t *ins, plan_step *step) {
    const json_t *in;
    size_t i;
    ig_dtype dtype;
    step->weight = "";
    if (step->class != PLAN_CONTRACT) return;
    json_array_foreach(ins, i, in) {
        if (strcmp(text(in, "kind"), "weight") != 0 || *step->weight) continue;
        if (json_array_size(json_object_get(in, "shape")) < 2) continue;
        step->weight = text(in, "dtype");
        step->in_bytes = ig_dtype_find(step->weight, &dtype) && ig_dtype_block(dtype) > 1;
    }
}

/* "f32 [32,64]", and the number of further results. */
static void describe_results(const json_t *outs, char out[PLAN_SHAPE_BYTES]) {
    const json_t *first = json_array_get(outs, 0), *dim;
    size_t i;
    int used = snprintf(out, PLAN_SHAPE_BYTES, "%s [", text(first, "dtype"));
    json_array_foreach(json_object_get(first, "shape"), i, dim) {
        if (used >= PLAN_SHAPE_BYTES - 24) break;
        used += snprintf(out + used, PLAN_SHAPE_BYTES - (size_t)used, "%s%lld", i ? "," : "",
                         (long long)json_integer_value(dim));
    }
    const size_t more = json_array_size(outs);
    snprintf(out + used, PLAN_SHAPE_BYTES - (size_t)used, more > 1 ? "] +%zu" : "]",
             more > 0 ? more - 1 : 0);
}

static void read_step(const json_t *from, plan_step *step) {
    *step = (plan_step){.op = text(from, "op"),
                        .device = text(from, "device"),
                        .level = (uint32_t)number(from, "level"),
                        .chain = (uint32_t)number(from, "chain"),
                        .region = (uint32_t)number(from, "region"),
                        .flop = number(from, "flop"),
                        .bytes = number(from, "bytes"),
                        .scratch_bytes = number(json_object_get(from, "scratch"), "bytes")};
    step->class = class_of(step->op);
    describe_results(json_object_get(from, "out"), step->result);
    find_weight(json_object_get(from, "in"), step);
}

/* Groups consecutive steps with the same chain number. */
static void find_chains(plan_view *v) {
    uint32_t last = 0; /* the plan's number of the previous chain */
    for (uint32_t i = 0; i < v->n_steps; i++) {
        plan_step *step = &v->steps[i];
        if (i == 0 || step->chain != last)
            v->chains[v->n_chains++] = (plan_chain){.first = i, .level = step->level};
        last = step->chain;
        step->chain = v->n_chains - 1;
        v->chains[v->n_chains - 1].count++;
        if (v->n_levels <= step->level) v->n_levels = step->level + 1;
    }
}

uint32_t plan_chain_ops(const plan_view *v, uint32_t chain) {
    const plan_chain *c = &v->chains[chain];
    uint32_t ops = c->count;
    for (uint32_t i = c->first; i < c->first + c->count; i++)
        for (const char *at = strchr(v->steps[i].op, '+'); at; at = strchr(at + 1, '+')) ops++;
    return ops;
}

/* ---- Edges ---- */

/* Last writer of each value, indexed by value. */
typedef struct writers {
    uint32_t *chain; /* 1 + the chain; 0: none */
    size_t room;
    uint8_t *buffers; /* 1: seen */
    size_t buffers_room;
} writers;

static bool see_buffer(plan_view *v, writers *w, const json_t *operand) {
    const uint64_t buffer = number(operand, "buffer");
    if (!IG_GROW(v->allocator, w->buffers, &w->buffers_room, buffer + 1)) return false;
    v->buffers += !w->buffers[buffer];
    w->buffers[buffer] = 1;
    return true;
}

static bool has_edge(const plan_view *v, uint32_t from, uint32_t to, uint32_t since) {
    for (uint32_t i = since; i < v->n_edges; i++)
        if (v->edges[i].from == from && v->edges[i].to == to) return true;
    return false;
}

static bool add_reads(plan_view *v, writers *w, const json_t *step, uint32_t chain, size_t *room,
                      uint32_t since) {
    const json_t *in;
    size_t i;
    json_array_foreach(json_object_get(step, "in"), i, in) {
        const uint64_t value = number(in, "value");
        if (!see_buffer(v, w, in)) return false;
        if (value >= w->room || w->chain[value] == 0) continue;
        const uint32_t from = w->chain[value] - 1;
        if (from == chain || has_edge(v, from, chain, since)) continue;
        if (!IG_GROW(v->allocator, v->edges, room, (size_t)v->n_edges + 1)) return false;
        v->edges[v->n_edges++] = (plan_edge){from, chain};
    }
    return true;
}

static bool add_writes(plan_view *v, writers *w, const json_t *step, uint32_t chain) {
    const json_t *out;
    size_t i;
    json_array_foreach(json_object_get(step, "out"), i, out) {
        const uint64_t value = number(out, "value");
        if (!see_buffer(v, w, out)) return false;
        if (!IG_GROW(v->allocator, w->chain, &w->room, value + 1)) return false;
        w->chain[value] = chain + 1;
    }
    return true;
}

static bool find_edges(plan_view *v) {
    writers w = {0};
    size_t room = 0;
    bool ok = true;
    uint32_t since = 0; /* the first edge into the current chain */
    for (uint32_t i = 0; i < v->n_steps && ok; i++) {
        const json_t *step = json_array_get(json_object_get(v->plan, "steps"), i);
        const uint32_t chain = v->steps[i].chain;
        if (v->chains[chain].first == i) since = v->n_edges;
        ok = add_reads(v, &w, step, chain, &room, since) && add_writes(v, &w, step, chain);
    }
    ig_free(v->allocator, w.buffers);
    ig_free(v->allocator, w.chain);
    return ok;
}

/* ---- The view ---- */

ig_status plan_view_init(plan_view *v, const ig_allocator *allocator, json_t *plan) {
    const json_t *steps = json_object_get(plan, "steps");
    *v = (plan_view){.allocator = allocator,
                     .plan = plan,
                     .n_steps = (uint32_t)json_array_size(steps),
                     .barriers = number(plan, "barriers"),
                     .regions = number(plan, "regions"),
                     .copies = number(plan, "copies"),
                     .arena_bytes = number(plan, "arena_bytes"),
                     .live_bytes = number(plan, "live_bytes"),
                     .sum_bytes = number(plan, "sum_bytes")};
    v->steps = ig_alloc(allocator, v->n_steps, sizeof *v->steps);
    v->chains = ig_alloc(allocator, v->n_steps, sizeof *v->chains);
    if (v->steps && v->chains) {
        for (uint32_t i = 0; i < v->n_steps; i++) read_step(json_array_get(steps, i), &v->steps[i]);
        find_chains(v);
        if (find_edges(v)) return IG_OK;
    }
    const uint32_t n_steps = v->n_steps;
    plan_view_deinit(v);
    return IG_FAIL(IG_ERR_MEMORY, "plan: no memory for %u steps", n_steps);
}

void plan_view_deinit(plan_view *v) {
    if (!v->allocator) return;
    ig_free(v->allocator, v->edges);
    ig_free(v->allocator, v->chains);
    ig_free(v->allocator, v->steps);
    json_decref(v->plan);
    *v = (plan_view){0};
}

void plan_view_add_times(plan_view *v, const json_t *profile) {
    const double runs = (double)number(profile, "runs");
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(profile, "steps"), i, entry) {
        const uint64_t index = number(entry, "index");
        if (index >= v->n_steps || runs <= 0) continue;
        v->steps[index].ns = (double)number(entry, "ns") / runs;
        v->steps[index].calls = (double)number(entry, "calls") / runs;
        v->timed = true;
    }
}
