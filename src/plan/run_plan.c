/*
 * Running a plan: segment after segment, each on its device.
 *
 * The first run of a program shows whether a device can do what it claimed. Data that such a
 * segment overwrites is saved first; on failure it is restored, and the next level of the ladder or
 * another device takes over. A program that fails later goes to another device at once.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "plan/lower.h"

/* ---- between two memories ---- */

static ig_status run_transfers(const ig_plan *plan, uint32_t first, uint32_t count,
                               const ig_mirror *arena) {
    for (uint32_t i = first; i < first + count; i++) {
        const ig_transfer *m = &plan->transfers[i];
        IG_TRY(ig_mirror_move(arena, plan->remote, m->to_device, m->offset, m->bytes));
    }
    return IG_OK;
}

/* Brings the segment's inputs up to date on its side. */
static ig_status bring(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    const bool remote = ig_segment_is_remote(s);
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        const uint32_t buffer = plan->touches[i].buffer;
        ig_mirror *m = args.mirrors[buffer];
        if (!m) continue;
        if (!remote) IG_TRY(ig_mirror_to_host(m, plan->remote));
        if (remote && !ig_mirror_is_there(m)) IG_TRY(ig_mirror_to_device(m, plan->remote));
        plan->remote_buffers[buffer] = m->buffer;
    }
    if (remote || s->n_transfers > 0)
        IG_TRY(ig_mirror_reserve(args.mirrors[IG_ARENA], plan->remote));
    plan->remote_buffers[IG_ARENA] = args.mirrors[IG_ARENA]->buffer;
    return run_transfers(plan, s->transfers, s->n_transfers, args.mirrors[IG_ARENA]);
}

/* Results in the arena are copied to the host when accessed. */
static ig_status bring_home(const ig_plan *plan, const ig_segment *s, ig_mirror *arena) {
    const ig_transfer *after = plan->transfers + s->transfers + s->n_transfers;
    for (uint32_t i = 0; i < s->n_after; i++)
        IG_TRY(ig_mirror_move_late(arena, plan->remote, after[i].offset, after[i].bytes));
    return IG_OK;
}

/* Marks the other side of everything written as out of date. */
static ig_status leave(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    const bool remote = ig_segment_is_remote(s);
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = plan->touches[i].written ? args.mirrors[plan->touches[i].buffer] : NULL;
        if (m && remote && !s->failover) ig_mirror_wrote_device(m); /* a failover writes here */
        if (m && !remote) ig_mirror_wrote_host(m);
        if (m && remote && m->shared) IG_TRY(ig_mirror_to_host(m, plan->remote));
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

/* Restores the device side to the state before the failed run. */
static ig_status renew(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    for (uint32_t i = s->touches; ig_segment_is_remote(s) && i < s->touches + s->n_touches; i++) {
        ig_mirror *m = args.mirrors[plan->touches[i].buffer];
        if (m) IG_TRY(ig_mirror_to_device(m, plan->remote));
    }
    return IG_OK;
}

/* Submits until a level or a device succeeds; the error is that of the last attempt. */
static ig_status try_levels(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                            ig_run_args args, const ig_rollback *u) {
    ig_status status = IG_OK;
    while (status == IG_OK && !s->failover) {
        (void)IG_FAIL(IG_ERR_DEVICE, "%s: submit() failed and gave no reason", s->device->name);
        const ig_status ran = submit(s, buffers, args);
        const ig_status synced = ran == IG_OK ? ig_device_sync(s->device) : ran;
        s->ran = synced == IG_OK;
        if (s->ran) break;
        status = ig_segment_descend(plan, s, synced);
        ig_status back = ig_rollback_restore(plan, s, args, u);
        if (back == IG_OK && !s->failover) back = renew(plan, s, args);
        if (status == IG_OK) status = back;
    }
    return status;
}

static ig_status submit_first(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                              ig_run_args args) {
    ig_rollback u = {0};
    ig_status status = ig_rollback_all(plan, s, &u);
    if (status == IG_OK) status = ig_rollback_save(plan, s, args, &u);
    if (status == IG_OK) status = try_levels(plan, s, buffers, args, &u);
    ig_rollback_deinit(plan, &u);
    if (status == IG_OK && s->failover) return ig_failover_run(plan, s, args);
    if (status == IG_OK && !(s->device->info.flags & IG_STATE_BACKUP_ONCE))
        status = ig_rollback_needed(plan, s, &s->rollback);
    return status;
}

static bool is_fallible(const ig_segment *s) {
    return s->device && !(s->device->info.flags & IG_NEVER_FAILS);
}

static bool is_proven(const ig_segment *s) { return s->ran || !is_fallible(s); }

/* Whether the inputs of the segment still exist after a partial run, or were saved. */
static ig_status check_again(const ig_plan *plan, const ig_segment *s) {
    ig_rollback needed = {0};
    if (!(s->device->info.flags & IG_STATE_BACKUP_ONCE)) return IG_OK;
    const ig_status status = ig_rollback_needed(plan, s, &needed);
    const bool lost = needed.count > 0;
    ig_rollback_deinit(plan, &needed);
    if (status != IG_OK || !lost) return status;
    return ig_fail(IG_ERR_DEVICE, NULL, 0,
                   "it has overwritten what it needs to run again, and its state is not copied "
                   "before every run: resume from the last checkpoint, or use another device");
}

/* Undoes a failed run, if possible. */
static ig_status roll_back(const ig_plan *plan, ig_segment *s, ig_run_args args) {
    IG_TRY(check_again(plan, s));
    IG_TRY(ig_device_sync(s->device)); /* earlier submissions must have completed */
    return ig_rollback_restore(plan, s, args, &s->rollback);
}

/* A proven program fails: another device takes over the rest. */
static ig_status recover(const ig_plan *plan, ig_segment *s, ig_run_args args, ig_status failed) {
    char reason[IG_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    ig_status status = roll_back(plan, s, args);
    if (status != IG_OK) {
        char why[IG_REASON_BYTES];
        snprintf(why, sizeof why, "%s", ig_error_text());
        ig_segment_fail(s, reason);
        return IG_FAIL(failed, "%s: %s; %s", s->device->name, reason, why);
    }
    IG_TRY(ig_segment_recover(plan, s, failed, reason));
    status = ig_failover_run(plan, s, args);
    if (status == IG_OK) return IG_OK;
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    return IG_FAIL(status, "%s: %s; and no other device can continue: %s", s->device->name,
                   s->fallback, reason);
}

/* Runs a proven program. If inputs were saved for it, waits for it, because a failure must be
 * known before they are discarded. */
static ig_status submit_proven(const ig_plan *plan, ig_segment *s,
                               ig_backend_buffer *const *buffers, ig_run_args args) {
    const bool keeps = s->rollback.count > 0;
    if (keeps) IG_TRY(ig_rollback_save(plan, s, args, &s->rollback));
    ig_status status = submit(s, buffers, args);
    if (status == IG_OK && keeps) status = ig_device_sync(s->device);
    if (status == IG_OK || !is_fallible(s)) return status;
    return recover(plan, s, args, status);
}

static ig_status run_on(const ig_plan *plan, ig_segment *s, ig_backend_buffer *const *buffers,
                        ig_run_args args) {
    if (s->failover) return ig_failover_run(plan, s, args);
    if (is_proven(s)) return submit_proven(plan, s, buffers, args);
    return submit_first(plan, s, buffers, args);
}

static ig_status run_segment(const ig_plan *plan, ig_segment *s, ig_run_args args) {
    ig_backend_buffer *const *buffers = args.buffers;
    const uint64_t moved = plan->remote ? plan->remote->moved_bytes : 0;
    const bool watched = s->fallback[0] || is_fallible(s);
    const uint64_t begin = watched ? ig_clock_ns() : 0;
    if (plan->remote) IG_TRY(bring(plan, s, args));
    if (ig_segment_is_remote(s)) buffers = plan->remote_buffers;
    IG_TRY(run_on(plan, s, buffers, args));
    if (plan->remote) IG_TRY(leave(plan, s, args));
    if (plan->remote) s->transferred_bytes += plan->remote->moved_bytes - moved;
    if (s->fallback[0] && watched) s->lost_ns += ig_clock_ns() - begin;
    s->n_runs++;
    return IG_OK;
}

/* The first region resets arena and addresses of the last run; later regions continue with them. */
static ig_status begin_region(const ig_plan *plan, uint32_t region, ig_run_args args) {
    ig_mirror *arena = args.mirrors[IG_ARENA];
    if (region > 0) return ig_mirror_catch_up(arena, plan->remote, 0, arena->bytes);
    arena->n_late = 0;
    memset(plan->remote_buffers, 0, args.n_buffers * sizeof *plan->remote_buffers);
    return IG_OK;
}

ig_status ig_plan_run_region(const ig_plan *plan, uint32_t region, ig_run_args args) {
    assert(!plan->remote || args.mirrors);
    if (plan->remote) IG_TRY(begin_region(plan, region, args));
    for (uint32_t i = 0; i < plan->n_segments; i++)
        if (plan->segments[i].region == region) IG_TRY(run_segment(plan, &plan->segments[i], args));
    return IG_OK;
}

ig_status ig_plan_run(const ig_plan *plan, ig_run_args args) {
    for (uint32_t region = 0; region < plan->n_regions; region++)
        IG_TRY(ig_plan_run_region(plan, region, args));
    return IG_OK;
}
