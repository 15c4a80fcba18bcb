/*
 * Running a plan: segment after segment, each on its device.
 *
 * The first run of a program is when a device shows whether it can do what it
 * said.  What such a segment overwrites is saved before; if it fails, that is put
 * back and the next level of the ladder takes the segment over, or another device.
 */
#include <string.h>

#include "base/clock.h"
#include "plan/lower.h"

/* ---- between two memories ---- */

static ig_status make_moves(const ig_plan *plan, uint32_t first, uint32_t count,
                            const ig_mirror *arena) {
    for (uint32_t i = first; i < first + count; i++) {
        const ig_move *m = &plan->moves[i];
        IG_TRY(ig_mirror_move(arena, plan->far, m->to_device, m->offset, m->bytes));
    }
    return IG_OK;
}

/* What the segment touches is up to date where it runs. */
static ig_status bring(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    const bool far = ig_segment_is_far(s);
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        const uint32_t buffer = plan->touches[i].buffer;
        ig_mirror *m = args.mirrors[buffer];
        if (!m) continue;
        IG_TRY(far ? ig_mirror_to_device(m, plan->far) : ig_mirror_to_host(m, plan->far));
        plan->far_buffers[buffer] = m->buffer;
    }
    if (far || s->n_moves > 0) IG_TRY(ig_mirror_reserve(args.mirrors[IG_ARENA], plan->far));
    plan->far_buffers[IG_ARENA] = args.mirrors[IG_ARENA]->buffer;
    return make_moves(plan, s->moves, s->n_moves, args.mirrors[IG_ARENA]);
}

/* Results in the arena come to the host when somebody looks at them. */
static ig_status bring_home(const ig_plan *plan, const ig_segment *s, ig_mirror *arena) {
    const ig_move *after = plan->moves + s->moves + s->n_moves;
    for (uint32_t i = 0; i < s->n_after; i++)
        IG_TRY(ig_mirror_move_late(arena, plan->far, after[i].offset, after[i].bytes));
    return IG_OK;
}

/* What it has written is old on the other side. */
static ig_status leave(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    const bool far = ig_segment_is_far(s);
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m && far && !s->stand_in) ig_mirror_wrote_device(m); /* a stand-in writes here */
        if (m && !far) ig_mirror_wrote_host(m);
        if (m && far && m->shared) IG_TRY(ig_mirror_to_host(m, plan->far));
    }
    return bring_home(plan, s, args.mirrors[IG_ARENA]);
}

/* ---- what a failed run is to be forgotten of ---- */

/* Bytes as they were before: of every output that overwrites an input, and of the arena from the
 * first to the last that the segment writes, since results lie where inputs were. */
typedef struct undo {
    char *state, *arena;
    uint64_t state_bytes, begin, end;
} undo;

static void widen(undo *u, uint64_t begin, uint64_t bytes) {
    if (bytes == 0) return;
    if (u->begin == u->end) u->begin = begin;
    if (begin < u->begin) u->begin = begin;
    if (begin + bytes > u->end) u->end = begin + bytes;
}

static void measure(const ig_plan *plan, const ig_segment *s, undo *u) {
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        widen(u, step->scratch_offset, step->scratch_bytes);
        for (uint32_t j = 0; j < step->n_out; j++) {
            const ig_operand *o = &step->out[j];
            if (o->buffer == IG_ARENA) widen(u, o->offset, ig_operand_span(o));
            if (o->alias >= 0 && !ig_segment_is_far(s)) u->state_bytes += ig_operand_span(o);
        }
    }
}

/* Copies all such outputs to `saved` or back, with whatever lies between their elements. */
static void copy_state(const ig_plan *plan, const ig_segment *s, ig_run_args args, char *saved,
                       bool save) {
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++) {
            const ig_operand *o = &plan->steps[i].out[j];
            const uint64_t bytes = ig_operand_span(o);
            if (o->alias < 0 || bytes == 0) continue;
            char *at = (char *)args.buffers[o->buffer] + o->offset;
            memcpy(save ? saved : at, save ? at : saved, bytes);
            saved += bytes;
        }
}

static ig_status copy_arena(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                            const undo *u, bool save) {
    const uint64_t bytes = u->end - u->begin;
    if (bytes == 0) return IG_OK;
    if (ig_segment_is_far(s)) {
        ig_backend_buffer *far = args.mirrors[IG_ARENA]->buffer;
        return save ? ig_device_read(plan->far, far, u->begin, u->arena, bytes)
                    : ig_device_write(plan->far, far, u->begin, u->arena, bytes);
    }
    char *near = (char *)args.buffers[IG_ARENA] + u->begin;
    memcpy(save ? u->arena : near, save ? near : u->arena, bytes);
    return IG_OK;
}

/* Of bound memories on the device, the host's side is the copy: it is brought up to date before,
 * and is the newer one after a failure. */
static ig_status save(const ig_plan *plan, const ig_segment *s, ig_run_args args, undo *u) {
    measure(plan, s, u);
    u->state = ig_alloc(plan->allocator, u->state_bytes, 1);
    u->arena = ig_alloc(plan->allocator, u->end - u->begin, 1);
    if (!u->state || !u->arena)
        return IG_FAIL(IG_ERR_MEMORY, "plan: a copy of %llu bytes of state",
                       (unsigned long long)(u->state_bytes + u->end - u->begin));
    if (!ig_segment_is_far(s)) copy_state(plan, s, args, u->state, true);
    for (uint32_t i = s->touches; ig_segment_is_far(s) && i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m) IG_TRY(ig_mirror_to_host(m, plan->far));
    }
    return copy_arena(plan, s, args, u, true);
}

static ig_status put_back(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                          const undo *u) {
    if (!ig_segment_is_far(s)) copy_state(plan, s, args, u->state, false);
    for (uint32_t i = s->touches; ig_segment_is_far(s) && i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (!m) continue;
        ig_mirror_wrote_host(m);
        IG_TRY(ig_mirror_to_device(m, plan->far));
    }
    return copy_arena(plan, s, args, u, false);
}

/* ---- running ---- */

static ig_status submit(const ig_segment *s, ig_backend_buffer *const *buffers, ig_run_args args) {
    for (uint32_t j = 0; j < s->n_programs; j++) {
        ig_backend_program *program = s->programs[j];
        if (args.first_step) *args.first_step = s->first + j;
        const ig_status status =
            program->submit(program, buffers, args.n_buffers, args.slots, args.n_slots);
        if ((unsigned)status >= IG_STATUS_COUNT)
            return IG_FAIL(IG_ERR_DEVICE, "%s: submit() gave status %d", ig_segment_device(s),
                           (int)status);
        if (status != IG_OK) return status;
    }
    return IG_OK;
}

/* Submits until a level or another device works; the thread's error is the last one's. */
static ig_status submit_first(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                              ig_run_args args) {
    undo u = {0};
    ig_status status = save(plan, s, args, &u);
    while (status == IG_OK && !s->stand_in) {
        (void)IG_FAIL(IG_ERR_DEVICE, "%s: submit() failed and gave no reason", s->device->name);
        const ig_status ran = submit(s, buffers, args);
        const ig_status synced = ran == IG_OK ? ig_device_sync(s->device) : ran;
        s->ran = synced == IG_OK;
        if (s->ran) break;
        status = ig_segment_descend(plan, s, synced);
        const ig_status back = put_back(plan, s, args, &u);
        if (status == IG_OK) status = back;
    }
    ig_free(plan->allocator, u.arena);
    ig_free(plan->allocator, u.state);
    return status == IG_OK && s->stand_in ? ig_stand_in_run(plan, s, args) : status;
}

static bool is_proven(const ig_segment *s) {
    return s->ran || !s->device || s->device->info.flags & IG_NEVER_FAILS;
}

static bool lie_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a_bytes == 0 || b_bytes == 0 || a + a_bytes <= b || b + b_bytes <= a;
}

/* Whether a step of the segment writes to these bytes of the arena. */
static bool is_written(const ig_plan *plan, const ig_segment *s, const ig_operand *o) {
    const uint64_t bytes = ig_operand_span(o);
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        if (!lie_apart(o->offset, bytes, step->scratch_offset, step->scratch_bytes)) return true;
        for (uint32_t j = 0; j < step->n_out; j++)
            if (step->out[j].buffer == IG_ARENA &&
                !lie_apart(o->offset, bytes, step->out[j].offset, ig_operand_span(&step->out[j])))
                return true;
    }
    return false;
}

static bool is_made_here(const ig_plan *plan, const ig_segment *s, uint32_t end, uint32_t value) {
    for (uint32_t i = s->first; i < end; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++)
            if (plan->steps[i].out[j].value == value) return true;
    return false;
}

/* Whether all that the segment reads is still there when part of it has run. */
static bool can_run_again(const ig_plan *plan, const ig_segment *s) {
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->n_out; j++)
            if (step->out[j].alias >= 0) return false;
        for (uint32_t j = 0; j < step->n_in; j++)
            if (step->in[j].buffer == IG_ARENA && !is_made_here(plan, s, i, step->in[j].value) &&
                is_written(plan, s, &step->in[j]))
                return false;
    }
    return true;
}

/* A program that has worked before.  What it has overwritten is lost if it fails now; where that
 * is nothing, another device can do it all. */
static ig_status submit_proven(const ig_plan *plan, ig_segment *s,
                               ig_backend_buffer *const *buffers, ig_run_args args) {
    const ig_status status = submit(s, buffers, args);
    const bool fallible = s->device && !(s->device->info.flags & IG_NEVER_FAILS);
    if (status == IG_OK || !fallible) return status;
    if (!can_run_again(plan, s)) {
        ig_segment_fail(s);
        return IG_FAIL(status, "%s: %s; it has overwritten what it needs to run again",
                       s->device->name, ig_error_text());
    }
    IG_TRY(ig_segment_recover(plan, s, status));
    return ig_stand_in_run(plan, s, args);
}

static ig_status run_on(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                        ig_run_args args) {
    if (s->stand_in) return ig_stand_in_run(plan, s, args);
    if (is_proven(s)) return submit_proven(plan, s, buffers, args);
    return submit_first(plan, s, buffers, args);
}

static ig_status run_segment(const ig_plan *plan, ig_segment *s, ig_run_args args) {
    ig_backend_buffer *const *buffers = args.buffers;
    const uint64_t moved = plan->far ? plan->far->moved_bytes : 0;
    const bool watched = s->fallback[0] || !is_proven(s);
    const uint64_t begin = watched ? ig_clock_ns() : 0;
    if (plan->far) IG_TRY(bring(plan, s, args));
    if (ig_segment_is_far(s)) buffers = plan->far_buffers;
    IG_TRY(run_on(plan, s, buffers, args));
    if (plan->far) IG_TRY(leave(plan, s, args));
    if (plan->far) s->moved_bytes += plan->far->moved_bytes - moved;
    if (s->fallback[0] && watched) s->lost_ns += ig_clock_ns() - begin;
    s->n_runs++;
    return IG_OK;
}

/* What an earlier run left in the arena is gone; what an earlier part did is not. */
static ig_status begin_part(const ig_plan *plan, uint32_t part, ig_mirror *arena) {
    if (part > 0) return ig_mirror_catch_up(arena, plan->far, 0, arena->bytes);
    arena->n_late = 0;
    return IG_OK;
}

ig_status ig_plan_run_part(const ig_plan *plan, uint32_t part, ig_run_args args) {
    assert(!plan->far || args.mirrors);
    if (plan->far) IG_TRY(begin_part(plan, part, args.mirrors[IG_ARENA]));
    for (uint32_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].part == part) IG_TRY(run_segment(plan, &plan->segments[i], args));
    return IG_OK;
}

ig_status ig_plan_run(const ig_plan *plan, ig_run_args args) {
    for (uint32_t part = 0; part < plan->n_parts; part++)
        IG_TRY(ig_plan_run_part(plan, part, args));
    return IG_OK;
}
