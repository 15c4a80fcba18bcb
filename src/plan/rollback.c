/*
 * Rollback: inputs that a run overwrites, saved until it has succeeded.
 *
 *     reads    a  b  s          a run that failed midway may have overwritten s and
 *     writes         s  b  c    b, which it read before; c only has to be written again
 *
 * Before its first run, everything a segment updates is saved, so a failure leaves no trace. Before
 * later runs, only what it reads and then overwrites, without which it could not be repeated. A
 * session that stores new rows in its pages saves nothing, since storing them again gives the same
 * result.
 */
#include <string.h>

#include "plan/lower.h"

static ig_status add(const ig_plan *plan, ig_rollback *rollback, uint32_t buffer, uint64_t offset,
                     uint64_t bytes) {
    if (bytes == 0) return IG_OK;
    for (size_t i = 0; i < rollback->count; i++) {
        ig_rollback_region *p = &rollback->regions[i];
        const uint64_t end = offset + bytes, p_end = p->offset + p->bytes;
        if (p->buffer != buffer || offset > p_end || p->offset > end) continue;
        p->offset = offset < p->offset ? offset : p->offset;
        p->bytes = (end > p_end ? end : p_end) - p->offset;
        return IG_OK;
    }
    if (!IG_GROW(plan->allocator, rollback->regions, &rollback->room, rollback->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "plan: %zu memories to keep", rollback->count);
    rollback->regions[rollback->count++] = (ig_rollback_region){buffer, offset, bytes};
    return IG_OK;
}

/* Allocates it. Bound memory of a remote segment needs none: the host side is the copy. */
static ig_status reserve(const ig_plan *plan, const ig_segment *s, ig_rollback *rollback) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < rollback->count; i++)
        if (!ig_segment_is_remote(s) || rollback->regions[i].buffer == IG_ARENA)
            bytes += rollback->regions[i].bytes;
    rollback->saved = ig_alloc(plan->allocator, bytes, 1);
    if (rollback->saved) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "plan: a copy of %llu bytes of state", (unsigned long long)bytes);
}

/* ---- everything ---- */

/* Every output in bound memory, and the arena from the first to the last written byte, because
 * results may reuse the bytes of inputs. */
ig_status ig_rollback_all(const ig_plan *plan, const ig_segment *s, ig_rollback *rollback) {
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j <= step->n_out; j++) {
            const ig_operand *o = j < step->n_out ? &step->out[j] : NULL;
            const uint64_t at = o ? o->offset : step->scratch_offset;
            const uint64_t bytes = o ? ig_operand_span(o) : step->scratch_bytes;
            if (o && o->buffer != IG_ARENA) {
                IG_TRY(add(plan, rollback, o->buffer, at, bytes));
            } else if (bytes > 0) {
                begin = at < begin ? at : begin;
                end = at + bytes > end ? at + bytes : end;
            }
        }
    }
    if (end > begin) IG_TRY(add(plan, rollback, IG_ARENA, begin, end - begin));
    return reserve(plan, s, rollback);
}

/* ---- what it takes to run again ---- */

static bool lie_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes == 0 || b_bytes == 0 || a + a_bytes <= b || b + b_bytes <= a;
}

/* Whether the step, or a later one of the segment, writes to these bytes. */
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

/* Inputs that only provide the location of the result and are not read. */
static bool is_only_a_place(const ig_step *step, uint32_t input) {
    return input == 0 && (step->op == IG_OP_ASSIGN || step->op == IG_OP_STORE_ROWS);
}

static bool is_needed(const ig_plan *plan, const ig_segment *s, uint32_t at, uint32_t input) {
    const ig_step *step = &plan->steps[at];
    const ig_operand *o = &step->in[input];
    if (o->kind == IG_KIND_WEIGHT || is_only_a_place(step, input)) return false;
    if (o->buffer == IG_ARENA && s->first == 0) return false; /* the segment is the first writer */
    return is_overwritten(plan, s, at, o) && !is_made_here(plan, s, at, o->value);
}

ig_status ig_rollback_needed(const ig_plan *plan, const ig_segment *s, ig_rollback *rollback) {
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->n_in; j++) {
            const ig_operand *o = &step->in[j];
            if (is_needed(plan, s, i, j))
                IG_TRY(add(plan, rollback, o->buffer, o->offset, ig_operand_span(o)));
        }
    }
    return rollback->count > 0 ? reserve(plan, s, rollback) : IG_OK;
}

/* ---- there and back ---- */

ig_status ig_rollback_save(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                           ig_rollback *rollback) {
    const bool remote = ig_segment_is_remote(s);
    char *to = rollback->saved;
    if (!remote) IG_TRY(ig_device_sync(s->device)); /* earlier runs may still be writing */
    for (size_t i = 0; i < rollback->count; i++) {
        const ig_rollback_region *p = &rollback->regions[i];
        if (remote && p->buffer != IG_ARENA) {
            if (args.mirrors[p->buffer])
                IG_TRY(ig_mirror_to_host(args.mirrors[p->buffer], plan->remote));
            continue;
        }
        if (remote)
            IG_TRY(ig_device_read(plan->remote, args.mirrors[IG_ARENA]->buffer, p->offset, to,
                                  p->bytes));
        else
            memcpy(to, (const char *)args.buffers[p->buffer] + p->offset, p->bytes);
        to += p->bytes;
    }
    return IG_OK;
}

ig_status ig_rollback_restore(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                              const ig_rollback *rollback) {
    const bool remote = ig_segment_is_remote(s);
    const char *from = rollback->saved;
    for (size_t i = 0; i < rollback->count; i++) {
        const ig_rollback_region *p = &rollback->regions[i];
        if (remote && p->buffer != IG_ARENA) {
            if (args.mirrors[p->buffer]) ig_mirror_wrote_host(args.mirrors[p->buffer]);
            continue;
        }
        if (remote)
            IG_TRY(ig_device_write(plan->remote, args.mirrors[IG_ARENA]->buffer, p->offset, from,
                                   p->bytes));
        else
            memcpy((char *)args.buffers[p->buffer] + p->offset, from, p->bytes);
        from += p->bytes;
    }
    return IG_OK;
}

void ig_rollback_deinit(const ig_plan *plan, ig_rollback *rollback) {
    ig_free(plan->allocator, rollback->saved);
    ig_free(plan->allocator, rollback->regions);
    *rollback = (ig_rollback){0};
}
