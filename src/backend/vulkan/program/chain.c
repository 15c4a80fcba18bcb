#include "backend/vulkan/program/chain.h"

#include <stdio.h>

#include "backend/vulkan/kernels/setup.h"
#include "backend/vulkan/spirv/spirv.h"

static_assert(VK_CHAIN_REFS <= VK_MAX_REFS, "what a dispatch touches");

/* ---- which steps ---- */

/* The distinct memory ranges of a chain. */
typedef struct chain {
    const ig_operand *ref[VK_CHAIN_REFS];
    bool written[VK_CHAIN_REFS];
    uint32_t n_refs, n_steps;
} chain;

static bool same_place(const ig_operand *a, const ig_operand *b) {
    if (a->buffer != b->buffer || a->offset != b->offset) return false;
    for (int d = 0; d < a->desc.shape.rank; d++)
        if (a->desc.shape.dim[d] > 1 && a->stride[d] != b->stride[d]) return false;
    return true;
}

static bool overlap(const ig_operand *a, const ig_operand *b) {
    const vk_ref x = vk_reads(a), y = vk_reads(b);
    return x.buffer == y.buffer && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

/* The index of the operand's range; UINT32_MAX: new. */
static uint32_t ref_of(const chain *c, const ig_operand *o) {
    for (uint32_t i = 0; i < c->n_refs; i++)
        if (same_place(c->ref[i], o)) return i;
    return UINT32_MAX;
}

/* Adds the operand. False: no room, or another thread would read what this one writes. */
static bool add_ref(chain *c, const ig_operand *o, bool writes) {
    const uint32_t found = ref_of(c, o);
    for (uint32_t i = 0; i < c->n_refs; i++)
        if (i != found && (writes || c->written[i]) && overlap(c->ref[i], o)) return false;
    if (found != UINT32_MAX) {
        c->written[found] |= writes;
        return true;
    }
    if (c->n_refs == VK_CHAIN_REFS) return false;
    c->written[c->n_refs] = writes;
    c->ref[c->n_refs++] = o;
    return true;
}

/* Adds the step; false: it does not fit, and the chain must be discarded. */
static bool add_step(chain *c, const ig_step *step) {
    if (c->n_steps == VK_CHAIN_STEPS || vk_elementwise_function(step) < 0) return false;
    if (c->n_steps > 0 && !ig_shape_equal(c->ref[0]->desc.shape, step->out[0].desc.shape))
        return false;
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!add_ref(c, &step->in[i], false)) return false;
    c->n_steps++;
    return add_ref(c, &step->out[0], true);
}

static chain chain_of(const ig_step *steps, uint32_t first, uint32_t count) {
    chain c = {0};
    for (uint32_t i = first; i < first + count; i++) (void)add_step(&c, ig_step_at(steps, i));
    return c;
}

uint32_t vk_chain_length(const ig_step *steps, uint32_t first, uint32_t end) {
    chain c = {0};
    uint32_t i = first;
    while (i < end && ig_step_at(steps, i)->chain == ig_step_at(steps, first)->chain &&
           add_step(&c, ig_step_at(steps, i)))
        i++;
    return i > first ? i - first : 1;
}

/* ---- its dispatch ---- */

static vk_chain_params params_of(const chain *c, const ig_step *steps, uint32_t first) {
    vk_chain_params p = {.n = (uint32_t)vk_count(c->ref[0])};
    const int64_t *stride[VK_CHAIN_REFS];
    for (uint32_t i = 0; i < c->n_refs; i++) stride[i] = c->ref[i]->stride;
    p.rank = vk_join_dims(c->ref[0]->desc.shape, stride, (int)c->n_refs, p.dim, p.stride);
    for (uint32_t i = 0; i < c->n_steps; i++) {
        ig_attrs_scale scale;
        ig_step_attrs(ig_step_at(steps, first + i), &scale, sizeof scale);
        p.scale[i] = (float)scale.scale;
        p.shift[i] = (float)scale.shift;
    }
    return p;
}

void vk_chain_emit(vk_builder *b, const ig_step *steps, uint32_t first, uint32_t count,
                   uint32_t shader) {
    const chain c = chain_of(steps, first, count);
    const vk_chain_params p = params_of(&c, steps, first);
    vk_dispatch d = {.shader = shader,
                     .constant = {VK_GROUP},
                     .groups = {vk_groups(p.n, VK_GROUP)},
                     .n_refs = c.n_refs,
                     .params = &p,
                     .params_bytes = sizeof p};
    for (uint32_t i = 0; i < c.n_refs; i++) d.ref[i] = vk_memory(c.ref[i], c.written[i]);
    b->step = ig_step_at(steps, first);
    if (p.n > 0) vk_emit(b, &d);
}

/* ---- its shader ---- */

/* Functions of chain.comp, by number. */
static const char *const functions[] = {
    [VK_SCALE] = "scaled(",
#define IG_FN1(ID, name, cost, low, high, epsilons)          [VK_FN_##name] = #name "_of(",
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) [VK_FN_##name] = #name "_of(",
#define IG_FN2(ID, name, cost, epsilons)                     [VK_FN_##name] = #name "_of(",
#define IG_SLOPE(ID, name, cost, epsilons)                   [VK_FN_##name] = #name "_of(",
#define IG_SLOPE_OF(ID, form, name, cost, epsilons)          [VK_FN_##name] = #name "_of(",
#include "ingot/function.def"
};

/* The index and value of each range in the shader so far; 0: not yet loaded. */
typedef struct places {
    const chain *chain;
    const vk_chain_params *params;
    spv_id element;
    spv_id number[VK_CHAIN_REFS], at[VK_CHAIN_REFS], value[VK_CHAIN_REFS];
} places;

static void find_place(spv_writer *w, places *p, uint32_t ref) {
    if (p->number[ref]) return;
    p->number[ref] = spv_uint(w, ref);
    const bool packed = p->params->rank == 1 && p->params->stride[ref][0] == 1;
    p->at[ref] =
        packed ? p->element : spv_call(w, "place(", (spv_id[]){p->number[ref], p->element}, 2);
}

static spv_id load(spv_writer *w, places *p, uint32_t ref) {
    find_place(w, p, ref);
    if (!p->value[ref])
        p->value[ref] = spv_call(w, "load(", (spv_id[]){p->number[ref], p->at[ref]}, 2);
    return p->value[ref];
}

static void write_step(spv_writer *w, places *p, const ig_step *step, uint32_t index) {
    const int function = vk_elementwise_function(step);
    spv_id in[2] = {0}, value;
    for (uint32_t i = 0; i < step->n_in; i++) in[i] = load(w, p, ref_of(p->chain, &step->in[i]));
    if (function == VK_SCALE)
        value = spv_call(w, functions[function], (spv_id[]){spv_uint(w, index), in[0]}, 2);
    else
        value = spv_call(w, functions[function], in, step->n_in);
    const uint32_t out = ref_of(p->chain, &step->out[0]);
    find_place(w, p, out);
    p->value[out] = value;
    (void)spv_call(w, "store(", (spv_id[]){p->number[out], p->at[out], value}, 3);
}

/* The shader's name in messages. */
static void name_shader(const ig_step *steps, uint32_t first, uint32_t count, char *out,
                        size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "chain of");
    for (uint32_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s %s", i > 0 ? "," : "",
                                 ig_op_name(ig_step_at(steps, first + i)->op));
}

ig_status vk_chain_write(const ig_host *host, const vk_shader_code *base, const ig_step *steps,
                         uint32_t first, uint32_t count, vk_written *out) {
    const chain c = chain_of(steps, first, count);
    const vk_chain_params params = params_of(&c, steps, first);
    spv_writer *w = host->alloc(host, 1, sizeof *w);
    if (!w) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: a shader for %u steps", count);
    *out = (vk_written){0};
    name_shader(steps, first, count, out->name, sizeof out->name);
    spv_begin(w, base, "chain(");
    places p = {.chain = &c, .params = &params, .element = spv_parameter(w, 0)};
    for (uint32_t i = 0; i < count; i++) write_step(w, &p, ig_step_at(steps, first + i), i);
    const ig_status status = spv_finish(w, host, &out->words, &out->n_words);
    host->free(host, w);
    return status;
}
