/*
 * Profiles: while profiling is on, backends report each kernel call, and the newest are kept in a
 * ring. Each thread writes to its own ring, so tracing takes no lock. Times are also summed by kind
 * of step, over all plans and runs.
 */
#include "runtime/report/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text_out.h"
#include "graph/op_cost.h"
#include "ingot/report.h"
#include "plan/plan_json.h"
#include "runtime/ctx_host.h"

/* Called by a backend's threads; `step` counts from the first of the running program. */
static void trace(const ig_host *host, uint32_t thread, uint32_t step, uint64_t begin_ns,
                  uint64_t end_ns) {
    const ig_profile *p = ig_ctx_profile(((const ig_ctx_host *)host)->ctx);
    if (thread >= p->n_rings) return;
    ig_profile_ring *ring = &p->rings[thread];
    step += p->first_step;
    ring->events[ring->count++ % p->room] = (ig_profile_event){p->run, step, begin_ns, end_ns};
    if (step < p->n_kind_of) ring->kind_ns[p->kind_of[step]] += end_ns - begin_ns;
}

/* Clears everything except the time of the first submission. */
void ig_profile_deinit(ig_profile *p) {
    const ig_allocator *a = p->allocator;
    if (!a) return; /* never started */
    for (uint32_t i = 0; p->rings && i < p->n_rings; i++) ig_free(a, p->rings[i].events);
    ig_free(a, p->rings);
    ig_free(a, p->kinds);
    ig_free(a, p->kind_of);
    *p = (ig_profile){.first_submit_ns = p->first_submit_ns};
}

static bool add_rings(ig_profile *p, uint32_t threads) {
    const ig_allocator *a = p->allocator;
    p->rings = ig_alloc(a, threads, sizeof *p->rings);
    p->kinds = ig_alloc(a, IG_PROFILE_KINDS, sizeof *p->kinds);
    if (!p->rings || !p->kinds) return false;
    p->n_rings = threads;
    for (uint32_t i = 0; i < threads; i++) {
        p->rings[i].events = ig_alloc(a, p->room, sizeof *p->rings[i].events);
        if (!p->rings[i].events) return false;
    }
    return true;
}

ig_status ig_profile_begin(ig_ctx *ctx, uint32_t max_events) {
    if (!ctx || max_events == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "profile_begin: no context, or max_events is 0");
    ig_ctx_host *host = ig_ctx_get_host(ctx);
    ig_profile *p = ig_ctx_profile(ctx);
    host->table.trace = NULL;
    ig_profile_deinit(p);
    p->allocator = ig_ctx_allocator(ctx);
    p->room = max_events;
    if (!add_rings(p, ig_team_threads(host->team))) {
        ig_profile_deinit(p);
        return IG_FAIL(IG_ERR_MEMORY, "profile_begin: %u events", max_events);
    }
    host->table.trace = trace;
    p->on = true;
    return IG_OK;
}

void ig_profile_end(ig_ctx *ctx) {
    if (!ctx) return;
    ig_ctx_get_host(ctx)->table.trace = NULL;
    ig_ctx_profile(ctx)->on = false;
}

/* ---- kinds ---- */

/* "rms_norm", or "matmul+silu q4_0 [8192,2048]" if the step reads a 2D weight. */
static void name_kind(const ig_planner *planner, const ig_step *step,
                      char out[IG_PROFILE_NAME_BYTES]) {
    char title[IG_TITLE_BYTES];
    int used = snprintf(out, IG_PROFILE_NAME_BYTES, "%s", ig_step_title(planner, step, title));
    for (uint32_t i = 0; i < step->n_in && used < IG_PROFILE_NAME_BYTES; i++) {
        const ig_operand *o = &step->in[i];
        const ig_shape *shape = &o->desc.shape;
        const bool lasts = o->kind == IG_KIND_WEIGHT || o->kind == IG_KIND_STATE;
        if (!lasts || shape->rank != 2 || i == 0) continue; /* in[0]: a table or a KV cache */
        for (int d = 0; d <= shape->rank && used < IG_PROFILE_NAME_BYTES; d++)
            used += d == 0 ? snprintf(out + used, IG_PROFILE_NAME_BYTES - (size_t)used, " %s [%lld",
                                      ig_dtype_name(o->desc.dtype), (long long)shape->dim[0])
                           : snprintf(out + used, IG_PROFILE_NAME_BYTES - (size_t)used,
                                      d < shape->rank ? ",%lld" : "]", (long long)shape->dim[d]);
    }
}

static uint8_t find_kind(ig_profile *p, const ig_planner *planner, const ig_step *step) {
    char name[IG_PROFILE_NAME_BYTES];
    uint32_t i = 0;
    name_kind(planner, step, name);
    while (i < p->n_kinds && strcmp(p->kinds[i].name, name) != 0) i++;
    if (i == IG_PROFILE_KINDS) return IG_PROFILE_KINDS - 1;
    if (i == p->n_kinds) {
        const bool last = ++p->n_kinds == IG_PROFILE_KINDS;
        snprintf(p->kinds[i].name, sizeof name, "%s", last ? "all others" : name);
    }
    return (uint8_t)i;
}

/* Finds the kind of each step of the plan. If memory runs out, times are not summed. */
static void find_kinds(ig_profile *p, const ig_plan *plan) {
    ig_free(p->allocator, p->kind_of);
    p->n_kind_of = 0;
    p->kind_of = plan ? ig_alloc(p->allocator, plan->n_steps, sizeof *p->kind_of) : NULL;
    if (!p->kind_of) return;
    p->n_kind_of = plan->n_steps;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        p->kind_of[i] = find_kind(p, plan->planner, &plan->steps[i]);
}

void ig_profile_run(ig_profile *p, const ig_plan *plan) {
    if (!p->first_submit_ns) p->first_submit_ns = ig_clock_ns();
    if (!p->on) return;
    p->run++;
    if (p->plan != plan || !plan) find_kinds(p, plan);
    p->plan = plan;
    for (uint32_t i = 0; i < p->n_kind_of; i++) {
        ig_profile_kind *kind = &p->kinds[p->kind_of[i]];
        kind->steps++;
        kind->bytes += ig_step_bytes(&plan->steps[i]);
        kind->flop += ig_step_flop(&plan->steps[i]);
    }
}

static void say_kinds(ig_text *t, const ig_profile *p) {
    for (uint32_t k = 0; k < p->n_kinds; k++) {
        uint64_t ns = 0;
        for (uint32_t i = 0; i < p->n_rings; i++) ns += p->rings[i].kind_ns[k];
        ig_text_comma(t);
        ig_text_add(t, "{\"name\":");
        ig_text_add_string(t, p->kinds[k].name);
        ig_text_add_number(t, "steps", p->kinds[k].steps);
        ig_text_add_number(t, "ns", ns);
        ig_text_add_number(t, "bytes", p->kinds[k].bytes);
        ig_text_add_number(t, "flop", p->kinds[k].flop);
        ig_text_add(t, "}");
    }
}

/* ---- what was gathered ---- */

/* The newest events of all threads, ordered by start time. */
static void say_events(ig_text *t, const ig_profile *p) {
    uint64_t at[256] = {0}, left = p->room;
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->n_rings; i++) {
        const uint64_t count = p->rings[i].count;
        at[i] = count > p->room ? count - p->room : 0;
        total += count - at[i];
    }
    for (uint64_t skip = total > left ? total - left : 0; total > 0; total--) {
        uint32_t first = UINT32_MAX;
        for (uint32_t i = 0; i < p->n_rings; i++) {
            if (at[i] >= p->rings[i].count) continue;
            const ig_profile_event *e = &p->rings[i].events[at[i] % p->room];
            if (first == UINT32_MAX ||
                e->begin_ns < p->rings[first].events[at[first] % p->room].begin_ns)
                first = i;
        }
        const ig_profile_event *e = &p->rings[first].events[at[first]++ % p->room];
        if (skip > 0) {
            skip--;
            continue;
        }
        ig_text_comma(t);
        ig_text_add(t, "{\"run\":%llu,\"thread\":%u,\"step\":%u,\"begin_ns\":%llu,\"end_ns\":%llu}",
                    (unsigned long long)e->run, first, e->step, (unsigned long long)e->begin_ns,
                    (unsigned long long)e->end_ns);
    }
}

/* Sums over the newest runs of the last plan. */
static void say_steps(ig_text *t, const ig_profile *p) {
    for (uint32_t s = 0; p->plan && s < p->plan->n_steps; s++) {
        const ig_step *step = &p->plan->steps[s];
        uint64_t calls = 0, ns = 0;
        for (uint32_t i = 0; i < p->n_rings; i++) {
            const ig_profile_ring *ring = &p->rings[i];
            for (uint64_t k = ring->count > p->room ? ring->count - p->room : 0; k < ring->count;
                 k++) {
                const ig_profile_event *e = &ring->events[k % p->room];
                if (e->step != s) continue;
                calls++;
                ns += e->end_ns - e->begin_ns;
            }
        }
        char title[IG_TITLE_BYTES];
        ig_text_comma(t);
        ig_text_add(t, "{\"index\":%u,\"op\":", s);
        ig_text_add_string(t, ig_step_title(p->plan->planner, step, title));
        ig_text_add_number(t, "calls", calls);
        ig_text_add_number(t, "ns", ns);
        ig_text_add_number(t, "bytes", ig_step_bytes(step));
        ig_text_add_number(t, "flop", ig_step_flop(step));
        ig_text_add(t, "}");
    }
}

size_t ig_profile_json(const ig_ctx *ctx, char *out, size_t out_bytes) {
    const ig_profile *p = ig_ctx_profile(ctx);
    ig_text t = ig_text_begin(out, out_bytes);
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < p->n_rings; i++)
        if (p->rings[i].count > p->room) dropped += p->rings[i].count - p->room;
    ig_text_add(&t, "{");
    ig_text_add_number(&t, "runs", p->run);
    ig_text_add_number(&t, "dropped", dropped);
    ig_text_add(&t, ",\"steps\":[");
    say_steps(&t, p);
    ig_text_add(&t, "],\"kinds\":[");
    say_kinds(&t, p);
    ig_text_add(&t, "],\"events\":[");
    say_events(&t, p);
    ig_text_add(&t, "]}");
    return t.used;
}
