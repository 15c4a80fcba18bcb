/*
 * wrap: the only place that asks a backend for a program.
 *
 * Each segment climbs down the ladder compile -> kernel_override -> eager, and
 * all three rungs are written into its timeline, with the backend's own words
 * for what failed.  A level that a backend does not offer is no failure: a device
 * without a compiler (IG_CAN_COMPILE) has "not offered" there and starts with the
 * override.
 *
 * The longest segment of steps on a device is offered first.  Where the backend
 * answers SPLIT, it is offered the segments of one tag, then single steps.  Overrides
 * are for a tag: where compile() refuses a segment and one is registered for some
 * of its steps, the segment is split where the tag changes, and each piece climbs down
 * by itself.  Steps that fail on every level are barred from the device, and the plan
 * is rebuilt with the next one instead.
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

/* ---- asking a backend, whose answers are not to be trusted ---- */

static ig_status ask(const ig_planner *planner, ig_device *device, ig_compile_fn *fn,
                     const ig_step *steps, uint32_t count, ig_backend_program **out) {
    ig_backend_program *program = NULL;
    /* Single steps are worth a file only to a device that runs nothing but programs. */
    const bool worth = count > 1 || device->info.flags & IG_NO_EAGER;
    const bool kept = fn == device->backend->compile && worth &&
                      ig_compile_cache_keeps(planner->compile_cache, device);
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: compile() failed and gave no reason", device->name);
    const ig_status status =
        kept ? ig_compile_cache_compile(planner->compile_cache, device, steps, count,
                                        planner->progress, &program)
             : fn(device->handle, steps, count, (ig_blob){0}, planner->progress, &program);
    if ((unsigned)status >= IG_STATUS_COUNT)
        return IG_FAIL(IG_ERR_DEVICE, "%s: compile() gave status %d", device->name, (int)status);
    if (status != IG_OK) return status;
    if (!program || !program->submit)
        return IG_FAIL(IG_ERR_DEVICE, "%s: compile() made no program", device->name);
    *out = program;
    return IG_OK;
}

static ig_status compile(const ig_planner *planner, const ig_segment *s, const ig_step *steps,
                         uint32_t count, ig_backend_program **out) {
    return ask(planner, s->device, s->device->backend->compile, steps, count, out);
}

static ig_compile_fn *override_of(const ig_device *device, const ig_step *step) {
    return step->tag < IG_TAG_COUNT ? device->overrides[step->tag] : NULL;
}

static bool offers_compile(const ig_segment *s) { return s->device->info.flags & IG_CAN_COMPILE; }

static bool offers_eager(const ig_segment *s) { return !(s->device->info.flags & IG_NO_EAGER); }

static void destroy_programs(ig_segment *s) {
    for (uint32_t i = 0; i < s->n_programs; i++)
        if (s->programs[i] && s->programs[i]->destroy) s->programs[i]->destroy(s->programs[i]);
    s->n_programs = 0;
}

/* Failures that another level would not fix. */
static bool is_final(ig_status status) {
    return status == IG_ERR_MEMORY || status == IG_ERR_CANCELLED;
}

/* ---- the levels ---- */

/* One program per step. */
static ig_status eager(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    for (uint32_t i = 0; i < s->count; i++, s->n_programs++) {
        const ig_status status = compile(planner, s, &steps[i], 1, &s->programs[i]);
        if (status == IG_OK) continue;
        destroy_programs(s);
        return status;
    }
    return IG_OK;
}

/* The number of leading steps with the first one's tag. */
static uint32_t run_of_tag(const ig_segment *s, const ig_step *steps) {
    uint32_t same = 1;
    while (same < s->count && steps[same].tag == steps[0].tag) same++;
    return same;
}

/* Ends the segment where the tag changes, if an override could then apply. */
static bool cut_for_override(ig_segment *s, const ig_step *steps) {
    bool any = false;
    const uint32_t same = run_of_tag(s, steps);
    for (uint32_t i = 0; i < s->count; i++) any |= override_of(s->device, &steps[i]) != NULL;
    if (!any || same == s->count) return false;
    s->count = same;
    return true;
}

/* One program for the segment, or for as much of it as the backend accepts. */
static ig_status compile_split(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    ig_status status = compile(planner, s, steps, s->count, &s->programs[0]);
    while (status == IG_ERR_SPLIT && s->count > 1) {
        const uint32_t same = run_of_tag(s, steps);
        s->count = same < s->count ? same : 1;
        status = compile(planner, s, steps, s->count, &s->programs[0]);
    }
    return status;
}

/* The same, up to where an override applies. */
static ig_status compile_most(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    ig_status status = compile_split(planner, s, steps);
    if (status != IG_OK && !is_final(status) && cut_for_override(s, steps))
        status = compile(planner, s, steps, s->count, &s->programs[0]);
    return status;
}

static void note_compiled(ig_segment *s, const ig_step *steps) {
    s->n_programs = 1;
    note(s, COMPILE, true, "");
    note(s, OVERRIDE, false,
         override_of(s->device, steps) ? "skipped: compile selected; override registered but unused"
                                       : "no override registered");
    note(s, EAGER, false, "skipped: compile selected");
}

/* The second level: kernel_override. */
static ig_status try_override(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    ig_compile_fn *override = override_of(s->device, steps);
    note(s, OVERRIDE, false, "no override registered");
    if (!override) return IG_ERR_UNSUPPORTED;
    const ig_status status = ask(planner, s->device, override, steps, s->count, &s->programs[0]);
    note(s, OVERRIDE, status == IG_OK, status == IG_OK ? "" : ig_error_text());
    if (status != IG_OK) return status;
    s->n_programs = 1;
    note(s, EAGER, false, "skipped: kernel_override selected");
    return IG_OK;
}

/* The third level: eager. */
static ig_status try_eager(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    if (!offers_eager(s)) {
        note(s, EAGER, false, "not offered");
        return IG_ERR_UNSUPPORTED;
    }
    const ig_status status = eager(planner, s, steps);
    note(s, EAGER, status == IG_OK, status == IG_OK ? "" : ig_error_text());
    return status;
}

/* Eager on a device without a compiler: kernels of several steps in one list, which costs a single
 * submit.  Where the backend takes no list of these steps, one program per step; the attempt keeps
 * the reason. */
static ig_status try_eager_list(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    const ig_status status = compile_split(planner, s, steps);
    if (is_final(status)) return status;
    if (status == IG_OK) {
        s->n_programs = 1;
        note(s, EAGER, true, "");
        return IG_OK;
    }
    char reason[IG_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    if (s->count == 1) {
        note(s, EAGER, false, reason);
        return status;
    }
    IG_TRY(try_eager(planner, s, steps));
    note(s, EAGER, true, reason);
    return IG_OK;
}

/* An offered level that failed is a fallback, and strict has none. */
static ig_status refuse_fallback(const ig_planner *planner, const ig_segment *s, int level) {
    if (!planner->strict) return IG_OK;
    char reason[IG_REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", s->attempts[level].reason);
    return IG_FAIL(IG_ERR_UNSUPPORTED, "strict: %s: %s: %s", s->device->name, level_names[level],
                   reason);
}

/* On a device without a compiler an override comes first, then eager. */
static ig_status wrap_uncompiled(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    note(s, COMPILE, false, "not offered");
    (void)cut_for_override(s, steps);
    const ig_status status = try_override(planner, s, steps);
    if (status == IG_OK || is_final(status)) return status;
    if (override_of(s->device, steps)) IG_TRY(refuse_fallback(planner, s, OVERRIDE));
    return try_eager_list(planner, s, steps);
}

static ig_status wrap(const ig_planner *planner, ig_segment *s, const ig_step *steps) {
    if (!offers_compile(s)) return wrap_uncompiled(planner, s, steps);
    ig_status status = compile_most(planner, s, steps);
    if (status == IG_OK) {
        note_compiled(s, steps);
        return IG_OK;
    }
    if (is_final(status)) return status;
    note(s, COMPILE, false, ig_error_text());
    IG_TRY(refuse_fallback(planner, s, COMPILE));
    status = try_override(planner, s, steps);
    if (status == IG_OK || is_final(status)) return status;
    return try_eager(planner, s, steps);
}

/* Hands the segment to another device. If there is none, the failure names this one. */
static ig_status take_over(const ig_plan *plan, ig_segment *s, const char *reason) {
    const ig_status status = ig_failover_create(plan, s, reason);
    if (status == IG_OK || is_final(status)) return status;
    return IG_FAIL(IG_ERR_DEVICE, "%s: %s", s->device->name, reason);
}

const ig_attempt *ig_device_attempts(const ig_device *device) {
    static const ig_attempt compiled[IG_ATTEMPTS] = {
        {.level = "compile", .ok = true, .selected = true},
        {.level = "kernel_override", .reason = "no override registered"},
        {.level = "eager", .reason = "skipped: compile selected"}};
    static const ig_attempt listed[IG_ATTEMPTS] = {
        {.level = "compile", .reason = "not offered"},
        {.level = "kernel_override", .reason = "no override registered"},
        {.level = "eager", .ok = true, .selected = true}};
    return device->info.flags & IG_CAN_COMPILE ? compiled : listed;
}

static int selected_level(const ig_segment *s) {
    int level = COMPILE;
    while (level < EAGER && !s->attempts[level].selected) level++;
    return level;
}

void ig_segment_fail(ig_segment *s, const char *reason) {
    note(s, selected_level(s), false, reason);
}

ig_status ig_segment_descend(const ig_plan *plan, ig_segment *s, ig_status status) {
    const ig_step *steps = &plan->steps[s->first];
    char reason[IG_REASON_BYTES];
    const int level = selected_level(s);
    const bool was_list = s->n_programs == 1; /* all steps in one program */
    snprintf(reason, sizeof reason, "%s", ig_error_text());
    if (is_final(status)) return status;
    note(s, level, false, reason);
    destroy_programs(s);
    IG_TRY(refuse_fallback(plan->planner, s, level));
    status = IG_ERR_DEVICE;
    if (level < OVERRIDE) status = try_override(plan->planner, s, steps);
    if (was_list && status != IG_OK && s->count > 1 && !is_final(status))
        status = try_eager(plan->planner, s, steps);
    if (status == IG_OK || is_final(status)) return status;
    return take_over(plan, s, reason);
}

ig_status ig_segment_recover(const ig_plan *plan, ig_segment *s, ig_status status,
                             const char *reason) {
    const int level = selected_level(s);
    if (is_final(status)) return IG_FAIL(status, "%s", reason);
    note(s, level, false, reason);
    IG_TRY(refuse_fallback(plan->planner, s, level));
    return take_over(plan, s, reason);
}

/* ---- no level works ---- */

static ig_status remember(ig_lowering *l, const ig_segment *s) {
    ig_refusal r = {0};
    ig_segment_name(l->plan, s, r.module);
    snprintf(r.device, sizeof r.device, "%s", s->device->name);
    memcpy(r.attempts, s->attempts, sizeof r.attempts);
    return ig_refusal_add(l, &r);
}

static void bar(ig_lowering *l, uint32_t step, const char *why) {
    ig_bar *b = &l->bars[l->places[step].node];
    b->first = l->places[step].device + 1;
    snprintf(b->why, sizeof b->why, "%s", why);
    l->again = true;
}

/* Bars the steps that the device cannot run even alone; if it can run each, all of them. */
static ig_status bar_segment(ig_lowering *l, const ig_segment *s) {
    const ig_allocator *a = l->planner->allocator;
    if (!l->bars) l->bars = ig_alloc(a, l->args->count, sizeof *l->bars);
    if (!l->bars) return IG_FAIL(IG_ERR_MEMORY, "plan: %u nodes", l->args->count);
    const int last = offers_eager(s) ? EAGER : COMPILE;
    char why[IG_REASON_BYTES];
    snprintf(why, sizeof why, "%s", s->attempts[last].reason);
    IG_TRY(remember(l, s));
    bool any = false;
    for (uint32_t i = s->first; i < s->first + s->count && s->count > 1; i++) {
        ig_backend_program *program = NULL;
        const ig_status status = compile(l->planner, s, &l->plan->steps[i], 1, &program);
        if (is_final(status)) return status;
        if (program && program->destroy) program->destroy(program);
        if (status == IG_OK) continue;
        bar(l, i, ig_error_text());
        any = true;
    }
    for (uint32_t i = s->first; !any && i < s->first + s->count; i++) bar(l, i, why);
    return IG_OK;
}

/* Tries the next device. */
static ig_status go_elsewhere(ig_lowering *l, const ig_segment *s, ig_status status) {
    const bool last = l->places[s->first].device + 1 >= l->planner->n_devices;
    if (is_final(status) || l->planner->strict || last) return status;
    return bar_segment(l, s);
}

/* ---- segments ---- */

/* A custom op: runs its function without a backend. */
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

/* Forms the next segment: steps on one device, or a single custom op. */
static ig_status add_segment(ig_lowering *l, uint32_t first) {
    ig_plan *p = l->plan;
    const uint32_t where = l->places[first].device;
    ig_segment *s = &p->segments[p->n_segments++];
    *s = (ig_segment){.first = first, .count = 1, .region = l->places[first].region};
    while (where != IG_ON_HOST && first + s->count < p->n_steps &&
           l->places[first + s->count].device == where &&
           l->places[first + s->count].region == s->region)
        s->count++;
    s->device = where == IG_ON_HOST ? NULL : l->planner->devices[where];
    memcpy(s->fallback, l->places[first].why, sizeof s->fallback);
    s->programs = ig_alloc(p->allocator, s->count, sizeof *s->programs);
    if (!s->programs) return IG_FAIL(IG_ERR_MEMORY, "plan: %u programs", s->count);
    if (!s->device) return wrap_custom(l, s, &p->steps[first]);
    ig_progress_part(l->planner->progress,
                     s->device->info.flags & IG_CAN_COMPILE ? IG_PROGRESS_COMPILE
                                                            : IG_PROGRESS_PACK,
                     first, s->count);
    const ig_status status = wrap(l->planner, s, &p->steps[first]);
    return status == IG_OK ? IG_OK : go_elsewhere(l, s, status);
}

/* Shows every device all of its steps before it compiles any. */
static ig_status prepare(const ig_lowering *l) {
    const ig_plan *p = l->plan;
    for (uint32_t d = 0; d < l->planner->n_devices; d++) {
        const ig_device *device = l->planner->devices[d];
        uint32_t i = 0;
        while (i < p->n_steps && l->places[i].device != d) i++;
        if (i == p->n_steps || !device->backend->prepare) continue;
        (void)IG_FAIL(IG_ERR_DEVICE, "it failed and gave no reason");
        const ig_status status = device->backend->prepare(device->handle, p->steps, p->n_steps);
        if (status != IG_OK)
            return IG_FAIL(is_final(status) ? status : IG_ERR_DEVICE, "%s: prepare(): %s",
                           device->name, ig_error_text());
    }
    return IG_OK;
}

static bool keeps_any(const ig_lowering *l) {
    for (uint32_t d = 0; d < l->planner->n_devices; d++)
        if (ig_compile_cache_keeps(l->planner->compile_cache, l->planner->devices[d])) return true;
    return false;
}

ig_status ig_lower_wrap(ig_lowering *l) {
    ig_plan *p = l->plan;
    ig_compile_cache *a = l->planner->compile_cache;
    const ig_cache_entry_counts before = a ? a->counts : (ig_cache_entry_counts){0};
    if (a && (a->keeps_weights || keeps_any(l))) ig_compile_cache_look(a);
    IG_TRY(prepare(l));
    ig_progress_begin(l->planner->progress, p->n_steps);
    p->segments = ig_alloc(p->allocator, p->n_steps, sizeof *p->segments);
    if (!p->segments) return IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", p->n_steps);
    for (uint32_t first = 0; first < p->n_steps;) {
        IG_TRY(add_segment(l, first));
        const ig_segment *s = &p->segments[p->n_segments - 1];
        first += s->count;
        p->n_submits += s->n_programs;
    }
    const ig_cache_entry_counts now = a ? a->counts : before;
    if (!l->again)
        ig_progress_end(l->planner->progress, now.hits - before.hits, now.stored - before.stored);
    return IG_OK;
}
