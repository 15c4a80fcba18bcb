/*
 * A stand-in: other devices that take a segment over, in the midst of a run, when
 * its own device has failed on every level.
 *
 * All memory stays where the plan put it, so the rest of the plan does not notice.
 * The stand-in has an arena of its own in host memory: what the segment touches of
 * the plan's is copied in before, and its results out after.
 *
 *     plan's arena    ...inputs............outputs....
 *                          v                  ^
 *     own arena       ...inputs............outputs....scratch
 *
 * Bound memories are used as they are: the host's side is always there.
 */
#include <stdio.h>
#include <string.h>

#include "plan/lower.h"

struct ig_stand_in {
    ig_device *device; /* of its first step, for reports */
    ig_step *steps;    /* copies, with their scratch elsewhere */
    ig_backend_program **programs;
    uint32_t n_programs;
    char *arena;
    ig_backend_buffer **buffers; /* of this run */
    uint32_t n_buffers;
};

/* ---- making ---- */

/* The first device behind the one that failed that runs the step as it is, in host memory. */
static ig_device *device_for(const ig_planner *planner, const ig_device *failed,
                             const ig_step *step) {
    uint32_t d = 0;
    while (d < planner->n_devices && planner->devices[d] != failed) d++;
    for (d++; d < planner->n_devices; d++)
        if (planner->devices[d]->host_memory && ig_device_can_run(planner->devices[d], step))
            return planner->devices[d];
    return NULL;
}

/* Programs for runs of steps on one device each; scratch lies behind the plan's arena. */
static ig_status make_programs(const ig_plan *plan, const ig_segment *s, ig_stand_in *in,
                               uint64_t *out_bytes) {
    uint64_t scratch = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        ig_step *step = &in->steps[i];
        *step = plan->steps[s->first + i];
        const ig_device *device = device_for(plan->planner, s->device, step);
        if (!device)
            return IG_FAIL(IG_ERR_DEVICE, "%s: failed, and no other device runs %s",
                           s->device->name, ig_op_name(step->op));
        step->scratch_offset = plan->arena_bytes;
        step->scratch_bytes = ig_device_scratch(device, step);
        if (step->scratch_bytes > scratch) scratch = step->scratch_bytes;
        step->chain = step->level = i; /* one after the other: they share the scratch */
    }
    *out_bytes = plan->arena_bytes + scratch;
    for (uint32_t first = 0, end; first < s->count; first = end) {
        ig_device *device = device_for(plan->planner, s->device, &in->steps[first]);
        for (end = first + 1; end < s->count; end++)
            if (device_for(plan->planner, s->device, &in->steps[end]) != device) break;
        if (!in->device) in->device = device;
        IG_TRY(device->backend->compile(device->handle, &in->steps[first], end - first,
                                        (ig_blob){0}, NULL, &in->programs[in->n_programs]));
        in->n_programs++;
    }
    return IG_OK;
}

void ig_stand_in_destroy(const ig_allocator *a, ig_stand_in *in) {
    if (!in) return;
    for (uint32_t i = 0; i < in->n_programs; i++)
        if (in->programs[i]->destroy) in->programs[i]->destroy(in->programs[i]);
    ig_free(a, in->arena);
    ig_free(a, (void *)in->buffers);
    ig_free(a, (void *)in->programs);
    ig_free(a, in->steps);
    ig_free(a, in);
}

/* What the timeline says of the device that could not. */
static ig_status remember(const ig_plan *plan, ig_segment *s, const char *reason) {
    s->left = ig_alloc(plan->allocator, 1, sizeof *s->left);
    if (!s->left) return IG_FAIL(IG_ERR_MEMORY, "plan: a refusal");
    ig_segment_name(plan, s, s->left->module);
    snprintf(s->left->device, sizeof s->left->device, "%s", s->device->name);
    memcpy(s->left->attempts, s->attempts, sizeof s->attempts);
    snprintf(s->fallback, sizeof s->fallback, "%s", reason);
    return IG_OK;
}

ig_status ig_stand_in_create(const ig_plan *plan, ig_segment *s, const char *reason) {
    const ig_allocator *a = plan->allocator;
    ig_stand_in *in = ig_alloc(a, 1, sizeof *in);
    uint64_t bytes = 0;
    if (!in) return IG_FAIL(IG_ERR_MEMORY, "plan: a stand-in");
    in->steps = ig_alloc(a, s->count, sizeof *in->steps);
    in->programs = ig_alloc(a, s->count, sizeof *in->programs);
    ig_status status = in->steps && in->programs
                           ? make_programs(plan, s, in, &bytes)
                           : IG_FAIL(IG_ERR_MEMORY, "plan: a stand-in of %u steps", s->count);
    if (status == IG_OK && !(in->arena = ig_alloc(a, bytes, 1)))
        status = IG_FAIL(IG_ERR_MEMORY, "plan: a stand-in's arena of %llu bytes",
                         (unsigned long long)bytes);
    if (status == IG_OK) status = remember(plan, s, reason);
    if (status == IG_OK)
        s->stand_in = in;
    else
        ig_stand_in_destroy(a, in);
    return status;
}

const char *ig_segment_device(const ig_segment *s) {
    return s->stand_in ? s->stand_in->device->name : s->device ? s->device->name : "host";
}

/* ---- running ---- */

/* Between the plan's arena, on whichever side the segment has it, and the stand-in's own. */
static ig_status copy(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                      const ig_operand *o, bool in) {
    const uint64_t bytes = ig_operand_span(o);
    char *own = s->stand_in->arena + o->offset;
    if (o->buffer != IG_ARENA || bytes == 0) return IG_OK;
    if (ig_segment_is_far(s)) {
        ig_backend_buffer *far = args.mirrors[IG_ARENA]->buffer;
        plan->far->moved_bytes += bytes;
        return in ? ig_device_read(plan->far, far, o->offset, own, bytes)
                  : ig_device_write(plan->far, far, o->offset, own, bytes);
    }
    char *theirs = (char *)args.buffers[IG_ARENA] + o->offset;
    memcpy(in ? own : theirs, in ? theirs : own, bytes);
    return IG_OK;
}

/* Outputs come in as well: some write only part of what lies between their ends. */
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
        if (m) IG_TRY(ig_mirror_to_host(m, plan->far));
        if (m && plan->touches[i].written) ig_mirror_wrote_host(m);
    }
    return IG_OK;
}

ig_status ig_stand_in_run(const ig_plan *plan, const ig_segment *s, ig_run_args args) {
    ig_stand_in *in = s->stand_in;
    if (!in->buffers)
        in->buffers = ig_alloc(plan->allocator, args.n_buffers, sizeof(ig_backend_buffer *));
    if (!in->buffers) return IG_FAIL(IG_ERR_MEMORY, "plan: %u buffers", args.n_buffers);
    if (ig_segment_is_far(s)) IG_TRY(bring_home(plan, s, args));
    IG_TRY(copy_all(plan, s, args, true));
    memcpy((void *)in->buffers, (const void *)args.buffers,
           args.n_buffers * sizeof(ig_backend_buffer *));
    in->buffers[IG_ARENA] = (ig_backend_buffer *)in->arena;
    for (uint32_t i = 0; i < in->n_programs; i++) {
        ig_backend_program *p = in->programs[i];
        IG_TRY(p->submit(p, in->buffers, args.n_buffers, args.slots, args.n_slots));
    }
    return copy_all(plan, s, args, false);
}
