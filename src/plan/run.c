/*
 * Running a plan: segment after segment, each on its device.
 *
 * The first run of a program is when a device shows whether it can do what it
 * said.  What such a segment updates is saved before; if it fails, that is put
 * back and the next level of the ladder takes the segment over.
 */
#include <string.h>
#include <time.h>

#include "plan/lower.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

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

/* What it has written is old on the other side. */
static ig_status leave(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    const bool far = ig_segment_is_far(s);
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m && far) ig_mirror_wrote_device(m);
        if (m && !far) ig_mirror_wrote_host(m);
        if (m && far && m->shared) IG_TRY(ig_mirror_to_host(m, plan->far));
    }
    return make_moves(plan, s->moves + s->n_moves, s->n_after, args.mirrors[IG_ARENA]);
}

/* ---- the first run ---- */

/* The bytes of every output that overwrites an input. */
static uint64_t state_bytes(const ig_plan *plan, const ig_segment *s) {
    uint64_t bytes = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++)
            if (plan->steps[i].out[j].alias >= 0) bytes += ig_operand_span(&plan->steps[i].out[j]);
    return bytes;
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

/* On the device, the host's side is the copy: it is brought up to date before, and is the newer one
 * after a failure. */
static ig_status save_far(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m) IG_TRY(ig_mirror_to_host(m, plan->far));
    }
    return IG_OK;
}

static ig_status restore_far(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m) ig_mirror_wrote_host(m);
    }
    return bring(plan, s, args);
}

/* ---- running ---- */

static ig_status submit(const ig_segment *s, ig_backend_buffer *const *buffers, ig_run_args args) {
    for (uint32_t j = 0; j < s->n_programs; j++) {
        ig_backend_program *program = s->programs[j];
        if (args.first_step) *args.first_step = s->first + j;
        IG_TRY(program->submit(program, buffers, args.n_buffers, args.slots, args.n_slots));
    }
    return IG_OK;
}

/* Submits until a level works; the thread's error is the last one's. */
static ig_status submit_first(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                              ig_run_args args) {
    const bool far = ig_segment_is_far(s);
    const uint64_t bytes = far ? 0 : state_bytes(plan, s);
    char *saved = ig_alloc(plan->allocator, bytes, 1);
    if (!saved)
        return IG_FAIL(IG_ERR_MEMORY, "plan: a copy of %llu bytes of state",
                       (unsigned long long)bytes);
    ig_status status = far ? save_far(plan, s, args) : IG_OK;
    if (status == IG_OK && !far) copy_state(plan, s, args, saved, true);
    while (status == IG_OK) {
        (void)IG_FAIL(IG_ERR_DEVICE, "%s: submit() failed and gave no reason", s->device->name);
        const ig_status ran = submit(s, buffers, args);
        const ig_status synced = ran == IG_OK && s->device ? ig_device_sync(s->device) : ran;
        s->ran = synced == IG_OK;
        if (s->ran) break;
        if (!far) copy_state(plan, s, args, saved, false);
        status = ig_segment_descend(plan, s, synced);
        if (status == IG_OK && far) status = restore_far(plan, s, args);
    }
    ig_free(plan->allocator, saved);
    return status;
}

static bool is_proven(const ig_segment *s) {
    return s->ran || !s->device || s->device->info.flags & IG_NEVER_FAILS;
}

static ig_status run_segment(const ig_plan *plan, ig_segment *s, ig_run_args args) {
    ig_backend_buffer *const *buffers = args.buffers;
    const uint64_t moved = plan->far ? plan->far->moved_bytes : 0;
    const uint64_t begin = s->fallback[0] ? now_ns() : 0;
    if (plan->far) IG_TRY(bring(plan, s, args));
    if (ig_segment_is_far(s)) buffers = plan->far_buffers;
    const bool proven = is_proven(s);
    const ig_status status =
        proven ? submit(s, buffers, args) : submit_first(plan, s, buffers, args);
    if (proven && status != IG_OK) ig_segment_fail(s);
    IG_TRY(status);
    if (plan->far) IG_TRY(leave(plan, s, args));
    if (plan->far) s->moved_bytes += plan->far->moved_bytes - moved;
    if (s->fallback[0]) s->lost_ns += now_ns() - begin;
    s->n_runs++;
    return IG_OK;
}

ig_status ig_plan_run_part(const ig_plan *plan, uint32_t part, ig_run_args args) {
    assert(!plan->far || args.mirrors);
    for (uint32_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].part == part) IG_TRY(run_segment(plan, &plan->segments[i], args));
    return IG_OK;
}

ig_status ig_plan_run(const ig_plan *plan, ig_run_args args) {
    for (uint32_t part = 0; part < plan->n_parts; part++)
        IG_TRY(ig_plan_run_part(plan, part, args));
    return IG_OK;
}
