/*
 * Profiles: while one is taken, backends report each kernel call, and the newest
 * are kept in a ring.  Threads write to rings of their own, so watching takes no
 * lock.
 */

#include "base/text.h"
#include "op/cost.h"
#include "runtime/ctx.h"

/* Called by a backend's threads; `step` counts from the first of the program that runs. */
static void trace(const ig_host *host, uint32_t thread, uint32_t step, uint64_t begin_ns,
                  uint64_t end_ns) {
    const ig_profile *p = &((const ig_ctx_host *)host)->ctx->profile;
    if (thread >= p->n_rings) return;
    ig_profile_ring *ring = &p->rings[thread];
    ring->events[ring->count++ % p->room] =
        (ig_profile_event){p->run, p->first_step + step, begin_ns, end_ns};
}

static void free_rings(ig_ctx *ctx) {
    ig_profile *p = &ctx->profile;
    for (uint32_t i = 0; p->rings && i < p->n_rings; i++)
        ig_free(&ctx->allocator, p->rings[i].events);
    ig_free(&ctx->allocator, p->rings);
    p->rings = NULL;
    p->n_rings = 0;
}

void ig_profile_deinit(ig_ctx *ctx) { free_rings(ctx); }

ig_status ig_profile_begin(ig_ctx *ctx, uint32_t max_events) {
    if (!ctx || max_events == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "profile_begin: no room asked for");
    ig_profile *p = &ctx->profile;
    free_rings(ctx);
    *p = (ig_profile){.room = max_events};
    p->rings = ig_alloc(&ctx->allocator, ig_team_threads(ctx->team), sizeof *p->rings);
    if (!p->rings) return IG_FAIL(IG_ERR_MEMORY, "profile_begin: %u events", max_events);
    p->n_rings = ig_team_threads(ctx->team);
    for (uint32_t i = 0; i < p->n_rings; i++) {
        p->rings[i].events = ig_alloc(&ctx->allocator, max_events, sizeof *p->rings[i].events);
        if (p->rings[i].events) continue;
        free_rings(ctx);
        return IG_FAIL(IG_ERR_MEMORY, "profile_begin: %u events", max_events);
    }
    ctx->host.table.trace = trace;
    return IG_OK;
}

void ig_profile_end(ig_ctx *ctx) {
    if (ctx) ctx->host.table.trace = NULL;
}

void ig_profile_run(ig_ctx *ctx, const ig_plan *plan) {
    ig_profile *p = &ctx->profile;
    if (!ctx->host.table.trace) return;
    p->run++;
    p->plan = plan;
}

/* The newest events of all threads, in the order of their beginnings. */
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

/* Sums over the newest runs of the plan that ran last. */
static void say_steps(ig_text *t, const ig_ctx *ctx) {
    const ig_profile *p = &ctx->profile;
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
        ig_text_comma(t);
        ig_text_add(t, "{\"index\":%u,\"op\":", s);
        ig_text_add_string(t, ig_plan_step_name(&ctx->planner, step));
        ig_text_add_number(t, "calls", calls);
        ig_text_add_number(t, "ns", ns);
        ig_text_add_number(t, "bytes", ig_step_bytes(step));
        ig_text_add_number(t, "flop", ig_step_flop(step));
        ig_text_add(t, "}");
    }
}

size_t ig_profile_json(const ig_ctx *ctx, char *out, size_t out_bytes) {
    const ig_profile *p = &ctx->profile;
    ig_text t = ig_text_begin(out, out_bytes);
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < p->n_rings; i++)
        if (p->rings[i].count > p->room) dropped += p->rings[i].count - p->room;
    ig_text_add(&t, "{");
    ig_text_add_number(&t, "runs", p->run);
    ig_text_add_number(&t, "dropped", dropped);
    ig_text_add(&t, ",\"steps\":[");
    say_steps(&t, ctx);
    ig_text_add(&t, "],\"events\":[");
    say_events(&t, p);
    ig_text_add(&t, "]}");
    return t.used;
}
