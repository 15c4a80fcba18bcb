/*
 * wrap: the only place that asks a backend for a program.
 *
 * Each segment climbs down the ladder compile -> kernel_override -> eager, and
 * all three rungs are written into its timeline, with the backend's own words
 * for what failed.  A level that a backend does not offer is no failure.
 *
 * The largest run of steps on a device is offered first.  Overrides are for a
 * tag: where compile() turns the run down and one is registered for some of its
 * steps, the run is cut where the tag changes, and each piece goes its own way.
 */
#include <stdio.h>
#include <string.h>

#include "plan/lower.h"

enum { COMPILE, OVERRIDE, EAGER };

static const char *const level_names[IG_ATTEMPTS] = {"compile", "kernel_override", "eager"};

static void note(ig_segment *s, int level, bool ok, const char *reason) {
    ig_attempt *a = &s->attempts[level];
    a->level = level_names[level];
    a->ok = a->selected = ok;
    snprintf(a->reason, sizeof a->reason, "%s", reason);
}

static ig_status compile(const ig_lowering *l, const ig_segment *s, const ig_step *steps,
                         uint32_t count, ig_backend_program **out) {
    ig_device *device = s->device;
    return device->backend->compile(device->handle, steps, count, (ig_blob){0},
                                    l->planner->progress, out);
}

static ig_compile_fn *override_of(const ig_device *device, const ig_step *step) {
    return step->tag < IG_TAG_COUNT ? device->overrides[step->tag] : NULL;
}

static void destroy_programs(ig_segment *s) {
    for (uint32_t i = 0; i < s->n_programs; i++)
        if (s->programs[i] && s->programs[i]->destroy) s->programs[i]->destroy(s->programs[i]);
    s->n_programs = 0;
}

/* One program per step. */
static ig_status eager(const ig_lowering *l, ig_segment *s, const ig_step *steps) {
    for (uint32_t i = 0; i < s->count; i++, s->n_programs++) {
        const ig_status status = compile(l, s, &steps[i], 1, &s->programs[i]);
        if (status == IG_OK) continue;
        destroy_programs(s);
        return status;
    }
    return IG_OK;
}

/* Failures that another way of compiling would not mend. */
static bool is_final(ig_status status) {
    return status == IG_ERR_MEMORY || status == IG_ERR_CANCELLED;
}

/* Cuts the segment off where the tag changes, if that gives an override something to do. */
static bool cut_at_tag(ig_segment *s, const ig_step *steps) {
    bool any = false;
    uint32_t same = 1;
    for (uint32_t i = 0; i < s->count; i++) any |= override_of(s->device, &steps[i]) != NULL;
    while (same < s->count && steps[same].tag == steps[0].tag) same++;
    if (!any || same == s->count) return false;
    s->count = same;
    return true;
}

static ig_status wrap(const ig_lowering *l, ig_segment *s, const ig_step *steps) {
    ig_status status = compile(l, s, steps, s->count, &s->programs[0]);
    if (status != IG_OK && !is_final(status) && cut_at_tag(s, steps))
        status = compile(l, s, steps, s->count, &s->programs[0]);
    ig_compile_fn *override = override_of(s->device, steps);
    if (status == IG_OK) {
        s->n_programs = 1;
        note(s, COMPILE, true, "");
        note(s, OVERRIDE, false,
             override ? "skipped: compile selected; override registered but unused"
                      : "no override registered");
        note(s, EAGER, false, "skipped: compile selected");
        return IG_OK;
    }
    if (is_final(status)) return status;
    note(s, COMPILE, false, ig_error_text());
    note(s, OVERRIDE, false, "no override registered");
    if (override) {
        status = override(s->device->handle, steps, s->count, (ig_blob){0}, l->planner->progress,
                          &s->programs[0]);
        if (is_final(status)) return status;
        note(s, OVERRIDE, status == IG_OK, status == IG_OK ? "" : ig_error_text());
        if (status == IG_OK) {
            s->n_programs = 1;
            note(s, EAGER, false, "skipped: kernel_override selected");
            return IG_OK;
        }
    }
    status = eager(l, s, steps);
    note(s, EAGER, status == IG_OK, status == IG_OK ? "" : ig_error_text());
    return status;
}

/* A custom op: its function is called, and no backend is asked. */
static ig_status wrap_custom(const ig_lowering *l, ig_segment *s, const ig_step *step) {
    ig_attrs_custom attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const ig_custom_op *op = l->planner->custom(l->planner->user, attrs.id);
    IG_TRY(ig_custom_program_create(l->planner, op, step, &s->programs[0]));
    s->n_programs = 1;
    note(s, COMPILE, false, "not offered");
    note(s, OVERRIDE, false, "no override registered");
    note(s, EAGER, true, "");
    return IG_OK;
}

/* The next segment: steps on one device, or a single custom op. */
static ig_status add_segment(ig_lowering *l, uint32_t first) {
    ig_plan *p = l->plan;
    const uint32_t where = l->places[first].device;
    ig_segment *s = &p->segments[p->n_segments++];
    *s = (ig_segment){.first = first, .count = 1, .part = l->places[first].part};
    while (where != IG_ON_HOST && first + s->count < p->n_steps &&
           l->places[first + s->count].device == where &&
           l->places[first + s->count].part == s->part)
        s->count++;
    s->device = where == IG_ON_HOST ? NULL : l->planner->devices[where];
    memcpy(s->fallback, l->places[first].why, sizeof s->fallback);
    s->programs = ig_alloc(p->allocator, s->count, sizeof *s->programs);
    if (!s->programs) return IG_FAIL(IG_ERR_MEMORY, "plan: %u programs", s->count);
    return s->device ? wrap(l, s, &p->steps[first]) : wrap_custom(l, s, &p->steps[first]);
}

/* Every device that runs some of the steps sees all of them before it compiles any. */
static ig_status prepare(const ig_lowering *l) {
    const ig_plan *p = l->plan;
    for (uint32_t d = 0; d < l->planner->n_devices; d++) {
        const ig_device *device = l->planner->devices[d];
        uint32_t i = 0;
        while (i < p->n_steps && l->places[i].device != d) i++;
        if (i < p->n_steps && device->backend->prepare)
            IG_TRY(device->backend->prepare(device->handle, p->steps, p->n_steps));
    }
    return IG_OK;
}

ig_status ig_lower_wrap(ig_lowering *l) {
    ig_plan *p = l->plan;
    IG_TRY(prepare(l));
    p->segments = ig_alloc(p->allocator, p->n_steps, sizeof *p->segments);
    if (!p->segments) return IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", p->n_steps);
    for (uint32_t first = 0; first < p->n_steps;) {
        IG_TRY(add_segment(l, first));
        const ig_segment *s = &p->segments[p->n_segments - 1];
        first += s->count;
        p->n_submits += s->n_programs;
    }
    return IG_OK;
}
