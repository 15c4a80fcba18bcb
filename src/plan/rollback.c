/*
 * What a run overwrites, kept until it has worked.
 *
 *     reads    a  b  s          a run that failed in the midst may have lost s and
 *     writes         s  b  c    b, which it read before; c it only has to write again
 *
 * Before its first run all that a segment updates is kept, so that a failure leaves
 * no trace.  Before later ones only what it could not run again without: what it
 * reads as it was before and overwrites.  A session that stores new rows in its
 * pages keeps nothing, since storing them again gives the same.
 */
#include <string.h>

#include "plan/lower.h"

static ig_status add(const ig_plan *plan, ig_undo *u, uint32_t buffer, uint64_t offset,
                     uint64_t bytes) {
    if (bytes == 0) return IG_OK;
    for (size_t i = 0; i < u->count; i++) {
        ig_undo_part *p = &u->parts[i];
        const uint64_t end = offset + bytes, p_end = p->offset + p->bytes;
        if (p->buffer != buffer || offset > p_end || p->offset > end) continue;
        p->offset = offset < p->offset ? offset : p->offset;
        p->bytes = (end > p_end ? end : p_end) - p->offset;
        return IG_OK;
    }
    if (!IG_GROW(plan->allocator, u->parts, &u->room, u->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "plan: %zu memories to keep", u->count);
    u->parts[u->count++] = (ig_undo_part){buffer, offset, bytes};
    return IG_OK;
}

/* The memory for it.  Bound memories of a far segment need none: the host's side is the copy. */
static ig_status reserve(const ig_plan *plan, const ig_segment *s, ig_undo *u) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < u->count; i++)
        if (!ig_segment_is_far(s) || u->parts[i].buffer == IG_ARENA) bytes += u->parts[i].bytes;
    u->saved = ig_alloc(plan->allocator, bytes, 1);
    if (u->saved) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "plan: a copy of %llu bytes of state", (unsigned long long)bytes);
}

/* ---- everything ---- */

/* Every output in bound memory; and the arena from the first to the last byte that is written,
 * since results lie where inputs were. */
ig_status ig_undo_all(const ig_plan *plan, const ig_segment *s, ig_undo *u) {
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j <= step->n_out; j++) {
            const ig_operand *o = j < step->n_out ? &step->out[j] : NULL;
            const uint64_t at = o ? o->offset : step->scratch_offset;
            const uint64_t bytes = o ? ig_operand_span(o) : step->scratch_bytes;
            if (o && o->buffer != IG_ARENA) {
                IG_TRY(add(plan, u, o->buffer, at, bytes));
            } else if (bytes > 0) {
                begin = at < begin ? at : begin;
                end = at + bytes > end ? at + bytes : end;
            }
        }
    }
    if (end > begin) IG_TRY(add(plan, u, IG_ARENA, begin, end - begin));
    return reserve(plan, s, u);
}

/* ---- what it takes to run again ---- */

static bool lie_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes == 0 || b_bytes == 0 || a + a_bytes <= b || b + b_bytes <= a;
}

/* Whether the step, or one of the segment behind it, writes to these bytes. */
static bool is_overwritten(const ig_plan *plan, const ig_segment *s, uint32_t from,
                           const ig_operand *o) {
    const uint64_t bytes = ig_operand_span(o);
    for (uint32_t i = from; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        if (o->buffer == IG_ARENA &&
            !lie_apart(o->offset, bytes, step->scratch_offset, step->scratch_bytes))
            return true;
        for (uint32_t j = 0; j < step->n_out; j++)
            if (step->out[j].buffer == o->buffer &&
                !lie_apart(o->offset, bytes, step->out[j].offset, ig_operand_span(&step->out[j])))
                return true;
    }
    return false;
}

/* Whether a step of the segment before this one has computed all of the value. */
static bool is_made_here(const ig_plan *plan, const ig_segment *s, uint32_t end, uint32_t value) {
    for (uint32_t i = s->first; i < end; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++)
            if (plan->steps[i].out[j].value == value) return plan->steps[i].op != IG_OP_STORE_ROWS;
    return false;
}

/* Inputs that are where the result goes, and not looked at. */
static bool is_only_a_place(const ig_step *step, uint32_t input) {
    return input == 0 && (step->op == IG_OP_ASSIGN || step->op == IG_OP_STORE_ROWS);
}

static bool is_needed(const ig_plan *plan, const ig_segment *s, uint32_t at, uint32_t input) {
    const ig_step *step = &plan->steps[at];
    const ig_operand *o = &step->in[input];
    if (o->kind == IG_KIND_WEIGHT || is_only_a_place(step, input)) return false;
    if (o->buffer == IG_ARENA && s->first == 0) return false; /* nothing was there before */
    return is_overwritten(plan, s, at, o) && !is_made_here(plan, s, at, o->value);
}

ig_status ig_undo_needed(const ig_plan *plan, const ig_segment *s, ig_undo *u) {
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->n_in; j++) {
            const ig_operand *o = &step->in[j];
            if (is_needed(plan, s, i, j))
                IG_TRY(add(plan, u, o->buffer, o->offset, ig_operand_span(o)));
        }
    }
    return u->count > 0 ? reserve(plan, s, u) : IG_OK;
}

/* ---- there and back ---- */

ig_status ig_undo_save(const ig_plan *plan, const ig_segment *s, ig_run_args args, ig_undo *u) {
    const bool far = ig_segment_is_far(s);
    char *to = u->saved;
    if (!far) IG_TRY(ig_device_sync(s->device)); /* earlier runs may still be writing */
    for (size_t i = 0; i < u->count; i++) {
        const ig_undo_part *p = &u->parts[i];
        if (far && p->buffer != IG_ARENA) {
            if (args.mirrors[p->buffer])
                IG_TRY(ig_mirror_to_host(args.mirrors[p->buffer], plan->far));
            continue;
        }
        if (far)
            IG_TRY(
                ig_device_read(plan->far, args.mirrors[IG_ARENA]->buffer, p->offset, to, p->bytes));
        else
            memcpy(to, (const char *)args.buffers[p->buffer] + p->offset, p->bytes);
        to += p->bytes;
    }
    return IG_OK;
}

ig_status ig_undo_put_back(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                           const ig_undo *u) {
    const bool far = ig_segment_is_far(s);
    const char *from = u->saved;
    for (size_t i = 0; i < u->count; i++) {
        const ig_undo_part *p = &u->parts[i];
        if (far && p->buffer != IG_ARENA) {
            if (args.mirrors[p->buffer]) ig_mirror_wrote_host(args.mirrors[p->buffer]);
            continue;
        }
        if (far)
            IG_TRY(ig_device_write(plan->far, args.mirrors[IG_ARENA]->buffer, p->offset, from,
                                   p->bytes));
        else
            memcpy((char *)args.buffers[p->buffer] + p->offset, from, p->bytes);
        from += p->bytes;
    }
    return IG_OK;
}

void ig_undo_deinit(const ig_plan *plan, ig_undo *u) {
    ig_free(plan->allocator, u->saved);
    ig_free(plan->allocator, u->parts);
    *u = (ig_undo){0};
}
