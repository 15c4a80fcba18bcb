/*
 * Failover: other devices take over a segment during a run, after its own device has failed on
 * every level.
 *
 * The plan's memory stays where it is, so the rest of the plan is unaffected. The failover has its
 * own arena in host memory: the segment's inputs are copied in before it runs, and its results out
 * afterwards.
 *
 *     plan's arena    ...inputs............outputs....
 *                          v                  ^
 *     own arena       ...inputs............outputs....scratch
 *
 * Bound memory is used directly: its host side always exists.
 */
#include <stdio.h>
#include <string.h>

#include "plan/lower.h"

struct ig_failover {
    ig_device *device; /* of its first step, for reports */
    ig_step *steps;    /* copies, with scratch of their own */
    ig_backend_program **programs;
    uint32_t n_programs;
    char *arena;
    ig_backend_buffer **buffers; /* of this run */
    uint32_t n_buffers;
};

/* ---- making ---- */

/* The first device after the failed one that can run the step in host memory. */
static ig_device *device_for(const ig_planner *planner, const ig_device *failed,
                             const ig_step *step) {
    uint32_t d = 0;
    while (d < planner->n_devices && planner->devices[d] != failed) d++;
    for (d++; d < planner->n_devices; d++)
        if (planner->devices[d]->host_memory && ig_device_can_run(planner->devices[d], step))
            return planner->devices[d];
    return NULL;
}

/* One program per run of steps on the same device; scratch is placed after the plan's arena. */
static ig_status make_programs(const ig_plan *plan, const ig_segment *s, ig_failover *failover,
                               uint64_t *out_bytes) {
    uint64_t scratch = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        ig_step *step = &failover->steps[i];
        *step = plan->steps[s->first + i];
        const ig_device *device = device_for(plan->planner, s->device, step);
        if (!device)
            return IG_FAIL(IG_ERR_DEVICE, "%s: failed, and no other device runs %s",
                           s->device->name, ig_op_name(step->op));
        step->scratch_offset = plan->arena_bytes;
        step->scratch_bytes = ig_device_scratch(device, step);
        if (step->scratch_bytes > scratch) scratch = step->scratch_bytes;
        step->chain = step->level = i; /* serial, because they share the scratch */
    }
    *out_bytes = plan->arena_bytes + scratch;
    for (uint32_t first = 0, end; first < s->count; first = end) {
        ig_device *device = device_for(plan->planner, s->device, &failover->steps[first]);
        for (end = first + 1; end < s->count; end++)
            if (device_for(plan->planner, s->device, &failover->steps[end]) != device) break;
        if (!failover->device) failover->device = device;
        IG_TRY(device->backend->compile(device->handle, &failover->steps[first], end - first,
                                        (ig_blob){0}, NULL,
                                        &failover->programs[failover->n_programs]));
        failover->n_programs++;
    }
    return IG_OK;
}

void ig_failover_destroy(const ig_allocator *a, ig_failover *failover) {
    if (!failover) return;
    for (uint32_t i = 0; i < failover->n_programs; i++)
        if (failover->programs[i]->destroy) failover->programs[i]->destroy(failover->programs[i]);
    ig_free(a, failover->arena);
    ig_free(a, (void *)failover->buffers);
    ig_free(a, (void *)failover->programs);
    ig_free(a, failover->steps);
    ig_free(a, failover);
}

/* Records in the timeline how the device failed. */
static ig_status remember(const ig_plan *plan, ig_segment *s, const char *reason) {
    s->left = ig_alloc(plan->allocator, 1, sizeof *s->left);
    if (!s->left) return IG_FAIL(IG_ERR_MEMORY, "plan: a refusal");
    ig_segment_name(plan, s, s->left->module);
    snprintf(s->left->device, sizeof s->left->device, "%s", s->device->name);
    memcpy(s->left->attempts, s->attempts, sizeof s->attempts);
    snprintf(s->fallback, sizeof s->fallback, "%s", reason);
    return IG_OK;
}

ig_status ig_failover_create(const ig_plan *plan, ig_segment *s, const char *reason) {
    const ig_allocator *a = plan->allocator;
    ig_failover *failover = ig_alloc(a, 1, sizeof *failover);
    uint64_t bytes = 0;
    if (!failover) return IG_FAIL(IG_ERR_MEMORY, "plan: a failover");
    failover->steps = ig_alloc(a, s->count, sizeof *failover->steps);
    failover->programs = ig_alloc(a, s->count, sizeof *failover->programs);
    ig_status status = failover->steps && failover->programs
                           ? make_programs(plan, s, failover, &bytes)
                           : IG_FAIL(IG_ERR_MEMORY, "plan: a failover of %u steps", s->count);
    if (status == IG_OK && !(failover->arena = ig_alloc(a, bytes, 1)))
        status = IG_FAIL(IG_ERR_MEMORY, "plan: a failover's arena of %llu bytes",
                         (unsigned long long)bytes);
    if (status == IG_OK) status = remember(plan, s, reason);
    if (status == IG_OK)
        s->failover = failover;
    else
        ig_failover_destroy(a, failover);
    return status;
}

const char *ig_segment_device(const ig_segment *s) {
    return s->failover ? s->failover->device->name : s->device ? s->device->name : "host";
}

const ig_attempt *ig_segment_attempts(const ig_segment *s) {
    return s->failover ? ig_device_attempts(s->failover->device) : s->attempts;
}

/* ---- running ---- */

/* Copies between the plan's arena, on the segment's side, and the failover's. */
static ig_status copy(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                      const ig_operand *o, bool in) {
    const uint64_t bytes = ig_operand_span(o);
    char *own = s->failover->arena + o->offset;
    if (o->buffer != IG_ARENA || bytes == 0) return IG_OK;
    if (ig_segment_is_remote(s)) {
        ig_backend_buffer *remote = args.mirrors[IG_ARENA]->buffer;
        plan->remote->moved_bytes += bytes;
        return in ? ig_device_read(plan->remote, remote, o->offset, own, bytes)
                  : ig_device_write(plan->remote, remote, o->offset, own, bytes);
    }
    char *theirs = (char *)args.buffers[IG_ARENA] + o->offset;
    memcpy(in ? own : theirs, in ? theirs : own, bytes);
    return IG_OK;
}

/* Outputs are copied in as well: a strided output covers only part of its byte range. */
static ig_status copy_all(const ig_plan *plan, const ig_segment *s, ig_run_args args, bool in) {
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = in ? 0 : step->n_in; j < step->n_in + step->n_out; j++)
            IG_TRY(copy(plan, s, args, ig_step_operand(step, j), in));
    }
    return IG_OK;
}

static ig_status bring_home(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    for (uint32_t i = s->touches; i < s->touches + s->n_touches; i++) {
        ig_mirror *m = args.mirrors[plan->touches[i].buffer];
        if (m) IG_TRY(ig_mirror_to_host(m, plan->remote));
        if (m && plan->touches[i].written) ig_mirror_wrote_host(m);
    }
    return IG_OK;
}

ig_status ig_failover_run(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    ig_failover *failover = s->failover;
    if (!failover->buffers)
        failover->buffers = ig_alloc(plan->allocator, args.n_buffers, sizeof(ig_backend_buffer *));
    if (!failover->buffers) return IG_FAIL(IG_ERR_MEMORY, "plan: %u buffers", args.n_buffers);
    if (ig_segment_is_remote(s)) IG_TRY(bring_home(plan, s, args));
    IG_TRY(copy_all(plan, s, args, true));
    memcpy((void *)failover->buffers, (const void *)args.buffers,
           args.n_buffers * sizeof(ig_backend_buffer *));
    failover->buffers[IG_ARENA] = (ig_backend_buffer *)failover->arena;
    for (uint32_t i = 0; i < failover->n_programs; i++) {
        ig_backend_program *p = failover->programs[i];
        IG_TRY(p->submit(p, failover->buffers, args.n_buffers, args.slots, args.n_slots));
    }
    return copy_all(plan, s, args, false);
}
