/*
 * Running a plan: segment after segment, each on its device.
 *
 * The first run of a program is when a device shows whether it can do what it
 * said.  What such a segment overwrites is kept before; if it fails, that is put
 * back and the next level of the ladder takes the segment over, or another device.
 * A program that fails later is left for another device at once.
 */
#include <stdio.h>
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
        if (!far) IG_TRY(ig_mirror_to_host(m, plan->far));
        if (far && !ig_mirror_is_there(m)) IG_TRY(ig_mirror_to_device(m, plan->far));
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

/* On the device, too, everything is as it was before the run that failed. */
static ig_status renew(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    for (uint32_t i = s->touches; ig_segment_is_far(s) && i < s->touches + s->n_touches; i++) {
        ig_mirror *m = args.mirrors[plan->touches[i].buffer];
        if (m) IG_TRY(ig_mirror_to_device(m, plan->far));
    }
    return IG_OK;
}

/* Submits until a level or another device works; the thread's error is the last one's. */
static ig_status try_levels(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                            ig_run_args args, const ig_undo *u) {
    ig_status status = IG_OK;
    while (status == IG_OK && !s->stand_in) {
        (void)IG_FAIL(IG_ERR_DEVICE, "%s: submit() failed and gave no reason", s->device->name);
        const ig_status ran = submit(s, buffers, args);
        const ig_status synced = ran == IG_OK ? ig_device_sync(s->device) : ran;
        s->ran = synced == IG_OK;
        if (s->ran) break;
        status = ig_segment_descend(plan, s, synced);
        ig_status back = ig_undo_put_back(plan, s, args, u);
        if (back == IG_OK && !s->stand_in) back = renew(plan, s, args);
        if (status == IG_OK) status = back;
    }
    return status;
}

static ig_status submit_first(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                              ig_run_args args) {
    ig_undo u = {0};
    ig_status status = ig_undo_all(plan, s, &u);
    if (status == IG_OK) status = ig_undo_save(plan, s, args, &u);
    if (status == IG_OK) status = try_levels(plan, s, buffers, args, &u);
    ig_undo_deinit(plan, &u);
    if (status == IG_OK && s->stand_in) return ig_stand_in_run(plan, s, args);
    if (status == IG_OK && !(s->device->info.flags & IG_COSTLY_STATE))
        status = ig_undo_needed(plan, s, &s->undo);
    return status;
}

static bool is_fallible(const ig_segment *s) {
    return s->device && !(s->device->info.flags & IG_NEVER_FAILS);
}

static bool is_proven(const ig_segment *s) { return s->ran || !is_fallible(s); }

/* Whether what the segment reads is still there after part of it has run, or was kept. */
static ig_status check_again(const ig_plan *plan, const ig_segment *s) {
    ig_undo needed = {0};
    if (!(s->device->info.flags & IG_COSTLY_STATE)) return IG_OK;
    const ig_status status = ig_undo_needed(plan, s, &needed);
    const bool lost = needed.count > 0;
    ig_undo_deinit(plan, &needed);
    if (status != IG_OK || !lost) return status;
    return ig_fail(IG_ERR_DEVICE, NULL, 0,
                   "it has overwritten what it needs to run again, and its state is not copied "
                   "before every run: go on from the last checkpoint, or on another device");
}

/* What a run that failed has left behind is undone, if that can be. */
static ig_status undo(const ig_plan *plan, ig_segment *s, ig_run_args args) {
    IG_TRY(check_again(plan, s));
    IG_TRY(ig_device_sync(s->device)); /* what it was given before must have been done */
    return ig_undo_put_back(plan, s, args, &s->undo);
}

/* A program that has worked before fails: another device takes over what is left of it. */
static ig_status recover(const ig_plan *plan, ig_segment *s, ig_run_args args, ig_status failed) {
    char reason[IG_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    ig_status status = undo(plan, s, args);
    if (status != IG_OK) {
        char why[IG_REASON_BYTES];
        snprintf(why, sizeof why, "%s", ig_error_text());
        ig_segment_fail(s, reason);
        return IG_FAIL(failed, "%s: %s; %s", s->device->name, reason, why);
    }
    IG_TRY(ig_segment_recover(plan, s, failed, reason));
    status = ig_stand_in_run(plan, s, args);
    if (status == IG_OK) return IG_OK;
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    return IG_FAIL(status, "%s: %s; nor can another device go on: %s", s->device->name, s->fallback,
                   reason);
}

/* A program that has worked before.  Where something is kept for it, it is waited for: a failure
 * must be known before that is given up. */
static ig_status submit_proven(const ig_plan *plan, ig_segment *s,
                               ig_backend_buffer *const *buffers, ig_run_args args) {
    const bool keeps = s->undo.count > 0;
    if (keeps) IG_TRY(ig_undo_save(plan, s, args, &s->undo));
    ig_status status = submit(s, buffers, args);
    if (status == IG_OK && keeps) status = ig_device_sync(s->device);
    if (status == IG_OK || !is_fallible(s)) return status;
    return recover(plan, s, args, status);
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
    const bool watched = s->fallback[0] || is_fallible(s);
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

/* What an earlier run left in the arena is gone, and where its buffers were means nothing; what an
 * earlier part did stays. */
static ig_status begin_part(const ig_plan *plan, uint32_t part, ig_run_args args) {
    ig_mirror *arena = args.mirrors[IG_ARENA];
    if (part > 0) return ig_mirror_catch_up(arena, plan->far, 0, arena->bytes);
    arena->n_late = 0;
    memset(plan->far_buffers, 0, args.n_buffers * sizeof *plan->far_buffers);
    return IG_OK;
}

ig_status ig_plan_run_part(const ig_plan *plan, uint32_t part, ig_run_args args) {
    assert(!plan->far || args.mirrors);
    if (plan->far) IG_TRY(begin_part(plan, part, args));
    for (uint32_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].part == part) IG_TRY(run_segment(plan, &plan->segments[i], args));
    return IG_OK;
}

ig_status ig_plan_run(const ig_plan *plan, ig_run_args args) {
    for (uint32_t part = 0; part < plan->n_parts; part++)
        IG_TRY(ig_plan_run_part(plan, part, args));
    return IG_OK;
}
