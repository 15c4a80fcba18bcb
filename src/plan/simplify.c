/*
 * Removes redundant work. Rewrites on steps in graph order, all bit-exact:
 *
 *   common subexpression   equal op, attributes and inputs: one result serves both
 *   constant folding       a scaled constant is a constant
 *   in place               assign(state, x): x is computed in the state's memory
 *   activation             fuses an activation into the matmul whose only consumer it is
 *   residual               fuses an add of an earlier value into a matmul
 *   dead steps             removed
 */
#include <string.h>
#include <xxhash.h>

#include "plan/lower.h"

#define NOBODY UINT32_MAX

/* Use of a memory. */
typedef struct fact {
    uint32_t writer;  /* the only step that writes it; NOBODY: none, or it is updated */
    uint32_t readers; /* operands that read it */
    bool fixed;       /* kept, bound or updated: must not move */
} fact;

typedef struct rewrite {
    ig_lowering *l;
    fact *facts;
    bool *removed; /* steps */
} rewrite;

static ig_operand *input(const ig_step *step, uint32_t i) { return (ig_operand *)&step->in[i]; }
static ig_operand *output(const ig_step *step, uint32_t i) { return (ig_operand *)&step->out[i]; }

static fact *fact_of(const rewrite *r, const ig_operand *o) {
    return &r->facts[ig_memory_of(r->l, o)];
}

static void gather(rewrite *r) {
    const ig_lowering *l = r->l;
    for (size_t i = 0; i < ig_memory_count(l); i++) r->facts[i] = (fact){.writer = NOBODY};
    for (uint32_t i = 0; i < l->args->n_bound; i++) r->facts[l->args->bound[i]].fixed = true;
    for (uint32_t i = 0; i < l->args->n_kept; i++)
        r->facts[ig_value_at(l->args->graph, l->args->kept[i])->base].fixed = true;
    for (uint32_t i = 0; i < l->plan->n_steps; i++) {
        const ig_step *step = &l->plan->steps[i];
        for (uint32_t j = 0; j < step->n_in; j++) fact_of(r, &step->in[j])->readers++;
        for (uint32_t j = 0; j < step->n_out; j++) {
            fact *f = fact_of(r, &step->out[j]);
            f->fixed |= step->out[j].alias >= 0;
            f->writer = i;
        }
    }
}

static void drop(rewrite *r, uint32_t i) {
    const ig_step *step = &r->l->plan->steps[i];
    for (uint32_t j = 0; j < step->n_in; j++) fact_of(r, &step->in[j])->readers--;
    r->removed[i] = true;
}

/* Whether all results of the step are local to the plan. */
static bool is_local(const rewrite *r, const ig_step *step) {
    if (ig_op_find(step->op)->traits & IG_UPDATES || step->op == IG_OP_CUSTOM) return false;
    for (uint32_t j = 0; j < step->n_out; j++)
        if (fact_of(r, &step->out[j])->fixed || step->out[j].buffer != IG_ARENA) return false;
    return true;
}

/* ---- the same again ---- */

static bool same_operand(const ig_operand *a, const ig_operand *b) {
    return a->value == b->value && a->offset == b->offset && a->desc.dtype == b->desc.dtype &&
           ig_shape_equal(a->desc.shape, b->desc.shape) &&
           memcmp(a->stride, b->stride, (size_t)a->desc.shape.rank * sizeof a->stride[0]) == 0;
}

static bool same_step(const rewrite *r, uint32_t i, uint32_t j) {
    const ig_step *a = &r->l->plan->steps[i], *b = &r->l->plan->steps[j];
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
        r->l->places[i].device != r->l->places[j].device ||
        (a->attrs_bytes && memcmp(a->attrs, b->attrs, a->attrs_bytes) != 0))
        return false;
    for (uint32_t k = 0; k < a->n_in; k++)
        if (!same_operand(&a->in[k], &b->in[k])) return false;
    return true;
}

static uint64_t hash_of(const ig_step *step) {
    uint64_t hash = XXH3_64bits_withSeed(step->attrs, step->attrs_bytes, step->op);
    for (uint32_t k = 0; k < step->n_in; k++)
        hash = XXH3_64bits_withSeed(&step->in[k].value, sizeof step->in[k].value, hash);
    return hash;
}

/* Redirects readers of step `from` to the results of step `to`. */
static void redirect(rewrite *r, uint32_t from, uint32_t to) {
    const ig_plan *p = r->l->plan;
    for (uint32_t o = 0; o < p->steps[from].n_out; o++) {
        const uint32_t memory = ig_memory_of(r->l, &p->steps[from].out[o]);
        const uint32_t value = p->steps[to].out[o].value;
        for (uint32_t i = from + 1; i < p->n_steps; i++)
            for (uint32_t j = 0; j < p->steps[i].n_in; j++) {
                if (ig_memory_of(r->l, &p->steps[i].in[j]) != memory) continue;
                input(&p->steps[i], j)->value = value;
                r->facts[memory].readers--;
                fact_of(r, &p->steps[i].in[j])->readers++;
            }
    }
    drop(r, from);
}

static ig_status merge_equal(rewrite *r) {
    const ig_plan *p = r->l->plan;
    size_t room = 16;
    while (room < (size_t)p->n_steps * 2) room *= 2;
    uint32_t *table = ig_alloc(p->allocator, room, sizeof *table); /* 1 + a step */
    if (!table) return IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", p->n_steps);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (!is_local(r, &p->steps[i])) continue;
        size_t at = hash_of(&p->steps[i]) & (room - 1);
        while (table[at] && !same_step(r, table[at] - 1, i)) at = (at + 1) & (room - 1);
        if (table[at])
            redirect(r, i, table[at] - 1);
        else
            table[at] = i + 1;
    }
    ig_free(p->allocator, table);
    return IG_OK;
}

/* ---- constants ---- */

/* A kernel may round after each operation or only once: folds only if both give the same. */
static bool scale_number(ig_attrs_scale by, ig_attrs_fill *fill) {
    const float rounded = (float)by.scale * (float)fill->value + (float)by.shift;
    const double x = fill->dtype == IG_F32 ? (double)(float)fill->value : fill->value;
    const double exact = by.scale * x + by.shift;
    if (fill->dtype == IG_F32 && (float)exact != rounded) return false;
    fill->value = exact;
    return fill->dtype == IG_F32 || fill->dtype == IG_F64;
}

static void fold_constant(rewrite *r, uint32_t i) {
    ig_step *step = &r->l->plan->steps[i];
    if (step->op != IG_OP_SCALE || r->removed[i] || step->out[0].desc.shape.rank != 0) return;
    const uint32_t writer = fact_of(r, &step->in[0])->writer;
    if (writer == NOBODY || r->l->plan->steps[writer].op != IG_OP_FILL) return;
    ig_attrs_scale by;
    ig_attrs_fill fill;
    memcpy(&by, step->attrs, sizeof by);
    memcpy(&fill, r->l->plan->steps[writer].attrs, sizeof fill);
    if (!scale_number(by, &fill)) return;
    ig_step as_fill = *step;
    as_fill.op = IG_OP_FILL;
    as_fill.attrs_bytes = sizeof fill;
    as_fill.n_in = 0;
    as_fill.out = step->out;
    memcpy((void *)step->attrs, &fill, sizeof fill);
    fact_of(r, &step->in[0])->readers--;
    *step = as_fill;
}

/* ---- to its place ---- */

/* Whether steps (from, to) leave the memory of `o` alone. */
static bool untouched(const rewrite *r, uint32_t from, uint32_t to, const ig_operand *o) {
    const uint32_t memory = ig_memory_of(r->l, o);
    for (uint32_t i = from; i < to; i++) {
        const ig_step *step = &r->l->plan->steps[i];
        for (uint32_t j = 0; !r->removed[i] && j < step->n_in + step->n_out; j++)
            if (ig_memory_of(r->l, ig_step_operand(step, j)) == memory) return false;
    }
    return true;
}

/* The producer of x writes it in the state's memory; readers of x read the state. */
static void write_in_place(rewrite *r, uint32_t i) {
    ig_plan *p = r->l->plan;
    const ig_step *assign = &p->steps[i];
    if (assign->op != IG_OP_ASSIGN || r->removed[i]) return;
    const ig_operand *state = &assign->out[0], *x = &assign->in[1];
    const fact *f = fact_of(r, x);
    if (f->writer == NOBODY || f->fixed || f->readers != 1 || x->buffer != IG_ARENA) return;
    const ig_step *maker = &p->steps[f->writer];
    const uint32_t from = f->writer;
    if (maker->n_out != 1 || !is_local(r, maker) || ig_op_find(maker->op)->traits & IG_UPDATES ||
        r->l->places[from].region != r->l->places[i].region || !ig_operand_is_packed(state) ||
        !ig_operand_is_packed(x) || x->offset != 0 ||
        ig_shape_count(maker->out[0].desc.shape) != ig_shape_count(x->desc.shape) ||
        !untouched(r, from, i, state))
        return;
    ig_operand *out = output(maker, 0);
    out->value = state->value;
    out->buffer = state->buffer;
    out->offset = state->offset;
    out->kind = IG_KIND_STATE;
    drop(r, i);
    fact_of(r, state)->writer = from;
}

/* ---- activations ---- */

static uint32_t activation_of(const ig_step *step) {
    ig_attrs_gelu gelu;
    switch (step->op) {
    case IG_OP_RELU: return IG_ACTIVATION_RELU;
    case IG_OP_TANH: return IG_ACTIVATION_TANH;
    case IG_OP_SIGMOID: return IG_ACTIVATION_SIGMOID;
    case IG_OP_SILU: return IG_ACTIVATION_SILU;
    case IG_OP_GELU:
        memcpy(&gelu, step->attrs, sizeof gelu);
        return gelu.form == IG_GELU_TANH ? IG_ACTIVATION_GELU_TANH : IG_ACTIVATION_GELU_ERF;
    default: return IG_ACTIVATION_NONE;
    }
}

/* The matmul whose only reader is step i, as its input `side`; NULL: none. */
static ig_step *matmul_before(const rewrite *r, uint32_t i, uint32_t side) {
    const ig_step *step = &r->l->plan->steps[i];
    const fact *f = fact_of(r, &step->in[side]);
    if (f->writer == NOBODY || f->fixed || f->readers != 1) return NULL;
    const ig_place *here = &r->l->places[i], *there = &r->l->places[f->writer];
    ig_step *matmul = &r->l->plan->steps[f->writer];
    const bool can_fuse =
        matmul->op == IG_OP_MATMUL && ig_operand_is_packed(&step->in[side]) &&
        there->region == here->region && there->device == here->device &&
        ig_shape_count(matmul->out[0].desc.shape) == ig_shape_count(step->out[0].desc.shape);
    return can_fuse ? matmul : NULL;
}

/* The matmul writes the result of step i, which is removed. */
static void take_over(rewrite *r, ig_step *matmul, uint32_t i) {
    const ig_operand y = r->l->plan->steps[i].out[0];
    ig_operand *out = output(matmul, 0);
    out->value = y.value;
    out->buffer = y.buffer;
    out->offset = y.offset;
    out->kind = y.kind;
    drop(r, i);
    fact_of(r, &y)->writer = (uint32_t)(matmul - r->l->plan->steps);
}

static bool can_run(const rewrite *r, uint32_t i, const ig_step *as) {
    return ig_device_can_run(r->l->planner->devices[r->l->places[i].device], as);
}

static void fuse_activation(rewrite *r, uint32_t i) {
    const ig_step *step = &r->l->plan->steps[i];
    const uint32_t activation = r->removed[i] ? IG_ACTIVATION_NONE : activation_of(step);
    if (activation == IG_ACTIVATION_NONE) return;
    ig_step *matmul = matmul_before(r, i, 0);
    if (!matmul) return;
    ig_attrs_matmul attrs;
    memcpy(&attrs, matmul->attrs, sizeof attrs);
    if (attrs.activation != IG_ACTIVATION_NONE || attrs.residual) return;
    attrs.activation = activation;
    ig_step fused = *matmul;
    fused.attrs = &attrs;
    if (!can_run(r, i, &fused)) return;
    memcpy((void *)matmul->attrs, &attrs, sizeof attrs);
    take_over(r, matmul, i);
}

/* ---- residuals ---- */

/* Whether the operand of step i has the same value when the matmul runs: packed like the result
 * and not written in between. */
static bool is_there_before(const rewrite *r, const ig_operand *o, const ig_step *matmul,
                            uint32_t i) {
    const fact *f = fact_of(r, o);
    const ig_operand *y = &r->l->plan->steps[i].out[0];
    return ig_operand_is_packed(o) && o->desc.dtype == y->desc.dtype &&
           ig_shape_equal(o->desc.shape, y->desc.shape) &&
           (f->writer == NOBODY || &r->l->plan->steps[f->writer] < matmul);
}

/* x + matmul: adds x as an operand of the matmul. */
static bool fuse_residual_at(rewrite *r, uint32_t i, uint32_t side) {
    ig_plan *p = r->l->plan;
    const ig_operand *residual = &p->steps[i].in[1 - side];
    ig_step *matmul = matmul_before(r, i, side);
    if (!matmul || !is_there_before(r, residual, matmul, i)) return false;
    ig_attrs_matmul attrs;
    memcpy(&attrs, matmul->attrs, sizeof attrs);
    if (attrs.residual) return false;
    attrs.residual = 1;

    ig_operand *operands = &p->operands[p->n_operands];
    memcpy(operands, matmul->in, matmul->n_in * sizeof *operands);
    ig_operand *last = &operands[matmul->n_in];
    *last = *residual;
    last->desc = matmul->out[0].desc; /* another shape, same layout */
    memcpy(last->stride, matmul->out[0].stride, sizeof last->stride);
    last[1] = matmul->out[0];
    ig_step fused = *matmul;
    fused.attrs = &attrs;
    fused.in = operands;
    fused.out = operands + ++fused.n_in;
    if (!can_run(r, i, &fused)) return false;
    p->n_operands += fused.n_in + 1;
    fused.attrs = memcpy((void *)matmul->attrs, &attrs, sizeof attrs);
    *matmul = fused;
    fact_of(r, residual)->readers++;
    take_over(r, matmul, i);
    return true;
}

static void fuse_residual(rewrite *r, uint32_t i) {
    if (r->removed[i] || r->l->plan->steps[i].op != IG_OP_ADD) return;
    if (!fuse_residual_at(r, i, 1)) fuse_residual_at(r, i, 0);
}

/* ---- unused values ---- */

static void drop_unread(rewrite *r) {
    for (uint32_t i = r->l->plan->n_steps; i-- > 0;) {
        const ig_step *step = &r->l->plan->steps[i];
        bool read = r->removed[i] || !is_local(r, step);
        for (uint32_t j = 0; j < step->n_out; j++) read |= fact_of(r, &step->out[j])->readers > 0;
        if (!read) drop(r, i);
    }
}

static void close_ranks(rewrite *r) {
    ig_plan *p = r->l->plan;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (r->removed[i]) continue;
        p->steps[kept] = p->steps[i];
        r->l->places[kept++] = r->l->places[i];
    }
    p->n_steps = kept;
}

ig_status ig_lower_simplify(ig_lowering *l) {
    ig_plan *p = l->plan;
    if (p->n_steps < 2 || l->args->count < 2) return IG_OK; /* a single op, as Dynamic runs them */
    rewrite r = {l, ig_alloc(p->allocator, ig_memory_count(l), sizeof(fact)),
                 ig_alloc(p->allocator, p->n_steps, sizeof(bool))};
    ig_status status = IG_OK;
    if (!r.facts || !r.removed) status = IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", p->n_steps);
    if (status == IG_OK) {
        gather(&r);
        status = merge_equal(&r);
    }
    for (uint32_t i = 0; status == IG_OK && i < p->n_steps; i++) {
        fold_constant(&r, i);
        fuse_activation(&r, i);
        fuse_residual(&r, i);
        write_in_place(&r, i);
    }
    if (status == IG_OK) {
        drop_unread(&r);
        close_ranks(&r);
    }
    ig_free(p->allocator, r.removed);
    ig_free(p->allocator, r.facts);
    return status;
}
