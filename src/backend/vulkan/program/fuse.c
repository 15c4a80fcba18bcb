#include "backend/vulkan/program/fuse.h"

#include "backend/vulkan/kernels/setup.h"

typedef struct joining {
    const ig_step *steps;
    uint32_t count;
    vk_join *out;
} joining;

static bool overlap(const vk_ref *a, const vk_ref *b) {
    return a->buffer == b->buffer && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Whether the step writes these bytes or, with `reads`, touches them. */
static bool touches(const ig_step *step, const vk_ref *bytes, bool reads) {
    const vk_ref scratch = {IG_ARENA, 1, step->scratch_offset, step->scratch_bytes};
    if (overlap(&scratch, bytes)) return true;
    for (uint32_t i = reads ? 0 : step->n_in; i < step->n_in + step->n_out; i++) {
        const vk_ref own = vk_reads(ig_step_operand(step, i));
        if (overlap(&own, bytes)) return true;
    }
    return false;
}

/* Whether one of steps [first, end) touches the operand's bytes. */
static bool anyone_touches(const joining *j, uint32_t first, uint32_t end, const ig_operand *o,
                           bool reads) {
    const vk_ref bytes = vk_reads(o);
    for (uint32_t i = first; i < end; i++)
        if (touches(ig_step_at(j->steps, i), &bytes, reads)) return true;
    return false;
}

static uint32_t level_begin(const joining *j, uint32_t i) {
    const uint32_t level = ig_step_at(j->steps, i)->level;
    while (i > 0 && ig_step_at(j->steps, i - 1)->level == level) i--;
    return i;
}

static uint32_t level_end(const joining *j, uint32_t i) {
    const uint32_t level = ig_step_at(j->steps, i)->level;
    while (i < j->count && ig_step_at(j->steps, i)->level == level) i++;
    return i;
}

/* ---- after ---- */

/* Whether the step can run earlier than planned: no step in between may need its output buffers or
 * produce its inputs. */
static bool can_come_early(const joining *j, uint32_t product, uint32_t after) {
    const ig_step *p = ig_step_at(j->steps, product), *e = ig_step_at(j->steps, after);
    const uint32_t first = level_begin(j, product);
    if (anyone_touches(j, first, after, &e->out[0], true)) return false;
    for (uint32_t i = 0; i < e->n_in; i++)
        if (e->in[i].value != p->out[0].value && anyone_touches(j, first, after, &e->in[i], false))
            return false;
    return true;
}

/* The first step of the next level that consumes the matmul's result and can be fused. */
static void find_after(const joining *j, uint32_t product) {
    const ig_step *p = ig_step_at(j->steps, product);
    const uint32_t begin = level_end(j, product);
    if (begin == j->count) return;
    for (uint32_t i = begin, end = level_end(j, begin); i < end; i++) {
        const ig_step *e = ig_step_at(j->steps, i);
        if (j->out[i].absorbed || !vk_matmul_takes_after(p, e) || !can_come_early(j, product, i))
            continue;
        j->out[product].after = e;
        j->out[i].absorbed = true;
        return;
    }
}

/* ---- before ---- */

/* Whether the step can run later than planned: until the matmuls have run, no other step, nor one
 * fused with them, may write its inputs. */
static bool can_come_late(const joining *j, uint32_t before, uint32_t product) {
    const ig_step *s = ig_step_at(j->steps, before);
    const uint32_t end = level_end(j, product);
    for (uint32_t i = 0; i < s->n_in; i++) {
        const vk_ref bytes = vk_reads(&s->in[i]);
        if (anyone_touches(j, before, end, &s->in[i], false)) return false;
        for (uint32_t k = before; k < end; k++)
            if (j->out[k].after && touches(j->out[k].after, &bytes, false)) return false;
    }
    return true;
}

/* Whether all readers of the step's result are matmuls of the next level that can fuse it. */
static bool all_take(const joining *j, uint32_t before) {
    const ig_step *s = ig_step_at(j->steps, before);
    const uint32_t begin = level_end(j, before);
    uint32_t readers = 0;
    const uint32_t end = begin < j->count ? level_end(j, begin) : begin;
    for (uint32_t i = before + 1; i < j->count; i++) {
        const ig_step *r = ig_step_at(j->steps, i);
        bool reads = false;
        for (uint32_t k = 0; k < r->n_in; k++) reads |= r->in[k].value == s->out[0].value;
        if (!reads) continue;
        if (i < begin || i >= end || !vk_matmul_takes_before(r, s)) return false;
        readers++;
    }
    return readers > 0 && can_come_late(j, before, begin);
}

static void find_before(const joining *j, uint32_t before) {
    const ig_step *s = ig_step_at(j->steps, before);
    if ((s->op != IG_OP_RMS_NORM && s->op != IG_OP_MUL) || j->out[before].absorbed) return;
    if (!all_take(j, before)) return;
    bool stored = false;
    for (uint32_t i = before + 1; i < j->count; i++) {
        const ig_step *r = ig_step_at(j->steps, i);
        if (r->n_in < 2 || r->in[0].value != s->out[0].value) continue;
        j->out[i].before = s;
        j->out[i].stores = !stored;
        stored = true;
    }
    j->out[before].absorbed = true;
}

void vk_joins_find(const ig_step *steps, uint32_t count, vk_join *out) {
    const joining j = {steps, count, out};
    for (uint32_t i = 0; i < count; i++)
        if (ig_step_at(steps, i)->op == IG_OP_MATMUL) find_after(&j, i);
    for (uint32_t i = 0; i < count; i++) find_before(&j, i);
}
