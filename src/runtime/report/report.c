/* What happened, as numbers and as JSON. */
#include "ingot/report.h"

#include <string.h>

#include "plan/plan_json.h"
#include "runtime/ctx.h"

#ifndef INGOT_VERSION
#    define INGOT_VERSION "unknown"
#endif

const char *ig_version(void) { return INGOT_VERSION; }

ig_counters ig_report_counters(const ig_ctx *ctx) {
    if (!ctx) return (ig_counters){0};
    ig_counters c = ctx->counters;
    c.programs = ctx->cache.count;
    c.program_hits = ctx->cache.hits;
    c.program_misses = ctx->cache.misses;
    c.plan_ns = ctx->plan_ns;
    return c;
}

uint64_t ig_report_first_submit(const ig_ctx *ctx) { return ctx ? ctx->first_submit_ns : 0; }

ig_memory_stats ig_report_memory(const ig_ctx *ctx) {
    return ctx ? ig_device_memory(ctx->planner.devices[0]) : (ig_memory_stats){0};
}

void ig_report_reset_memory(ig_ctx *ctx) {
    if (ctx) ig_device_reset_peak(ctx->planner.devices[0]);
}

typedef void segment_fn(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s);

static void say_module(ig_text *t, const ig_plan *plan, const ig_segment *s) {
    char name[IG_MODULE_BYTES];
    ig_segment_name(plan, s, name);
    ig_text_add_string(t, name);
}

/* A device that could not do something after all, before the one that did it. */
static void say_refusal(ig_text *t, const ig_refusal *r) {
    ig_text_comma(t);
    ig_text_add(t, "{\"module\":");
    ig_text_add_string(t, r->module);
    ig_text_add(t, ",\"device\":\"%s\"", r->device);
    ig_attempts_describe(t, r->attempts);
    ig_text_add(t, "}");
}

static void say_refusals(ig_text *t, const ig_plan *plan) {
    for (uint32_t i = 0; plan && i < plan->n_refusals; i++) say_refusal(t, &plan->refusals[i]);
}

/* What a stand-in does was compiled by its device. */
static void say_timeline(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s) {
    static const ig_attempt compiled[IG_ATTEMPTS] = {
        {.level = "compile", .ok = true, .selected = true},
        {.level = "kernel_override", .reason = "no override registered"},
        {.level = "eager", .reason = "skipped: compile selected"}};
    (void)ctx;
    if (s->left) say_refusal(t, s->left);
    ig_text_comma(t);
    ig_text_add(t, "{\"module\":");
    say_module(t, plan, s);
    ig_text_add(t, ",\"device\":\"%s\"", ig_segment_device(s));
    ig_attempts_describe(t, s->left ? compiled : s->attempts);
    ig_text_add(t, "}");
}

/* What another device did for the first one. */
typedef struct fallback {
    const char *to, *reason;
    uint64_t runs, moved_bytes, lost_ns;
} fallback;

static void say_fallback_of(ig_text *t, const ig_ctx *ctx, fallback f) {
    ig_text_add(t, ",\"from\":\"%s\",\"to\":\"%s\",\"reason\":", ctx->planner.devices[0]->name,
                f.to);
    ig_text_add_string(t, f.reason);
    ig_text_add_number(t, "runs", f.runs);
    ig_text_add_number(t, "bytes_moved", f.moved_bytes);
    ig_text_add(t, ",\"ms_lost\":%.3f}", (double)f.lost_ns / 1e6);
}

static void say_fallback(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s) {
    if (!s->fallback[0]) return;
    ig_text_comma(t);
    ig_text_add(t, "{\"op\":");
    say_module(t, plan, s);
    say_fallback_of(
        t, ctx,
        (fallback){ig_segment_device(s), s->fallback, s->n_runs, s->moved_bytes, s->lost_ns});
}

static void plan_segments(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, segment_fn *fn) {
    for (uint32_t i = 0; plan && i < plan->n_segments; i++) fn(t, ctx, plan, &plan->segments[i]);
}

typedef void plan_fn(ig_text *t, const ig_ctx *ctx, const ig_plan *plan);

/* Plans of single ops, in the order they were made, then those of recordings and captures. */
static void each_plan(ig_text *t, const ig_ctx *ctx, plan_fn *fn) {
    for (size_t i = 0; i < ctx->cache.count; i++) fn(t, ctx, ctx->cache.entries[i].plan);
    for (uint32_t i = 0; i < ctx->recorder.count; i++) fn(t, ctx, ctx->recorder.all[i]->plan);
    for (const ig_captured *c = ctx->captured; c; c = c->next) fn(t, ctx, c->recording->plan);
}

static void say_plan_timeline(ig_text *t, const ig_ctx *ctx, const ig_plan *plan) {
    say_refusals(t, plan);
    plan_segments(t, ctx, plan, say_timeline);
}

static void say_plan_fallbacks(ig_text *t, const ig_ctx *ctx, const ig_plan *plan) {
    plan_segments(t, ctx, plan, say_fallback);
}

/* Plans of single ops that had to make room: equal ones are one entry. */
static void say_past_timeline(ig_text *t, const ig_ctx *ctx) {
    for (size_t i = 0; i < ctx->cache.n_past; i++) say_refusal(t, &ctx->cache.past[i].was);
}

static void say_past_fallbacks(ig_text *t, const ig_ctx *ctx) {
    for (size_t i = 0; i < ctx->cache.n_past; i++) {
        const ig_past *p = &ctx->cache.past[i];
        const fallback f = {p->was.device, p->fallback, p->n_runs, p->moved_bytes, p->lost_ns};
        if (!p->fallback[0]) continue;
        ig_text_comma(t);
        ig_text_add(t, "{\"op\":");
        ig_text_add_string(t, p->was.module);
        say_fallback_of(t, ctx, f);
    }
}

/* ---- the fields ---- */

static void say_backend(ig_text *t, const ig_ctx *ctx) {
    ig_text_add_string(t, ctx->planner.devices[0]->name);
}

/* What ran, whatever was asked for: a step whose plan ran whole, recorded or captured, or none. */
static void say_mode(ig_text *t, const ig_ctx *ctx) {
    const bool whole = ctx->captured || ctx->counters.replays > 0;
    ig_text_add_string(t, whole ? "compiled" : "dynamic");
}

/* How work reaches a device of this class. */
static void say_flow(ig_text *t, const ig_ctx *ctx) {
    static const char *const flows[] = {[IG_DEVICE_CPU] = "cpu direct",
                                        [IG_DEVICE_GPU] = "gpu direct",
                                        [IG_DEVICE_NPU] = "npu compile"};
    const uint32_t class = ctx->planner.devices[0]->info.device_class;
    ig_text_add_string(t, class < sizeof flows / sizeof flows[0] ? flows[class] : "");
}

static void say_timings(ig_text *t, const ig_ctx *ctx) {
    const double compile_ms = (double)ctx->artifacts.counts.compile_ns / 1e6;
    ig_text_add(t, "{\"compile_ms\":%.3f,\"plan_ms\":%.3f,\"pack_ms\":%.3f}", compile_ms,
                (double)ctx->plan_ns / 1e6, (double)ctx->pack_ns / 1e6);
}

/* Integers of JSON end where those with a sign end, for most who read it. */
static void say_seed(ig_text *t, uint64_t seed) {
    const char *quote = seed > INT64_MAX ? "\"" : "";
    ig_text_add(t, ",\"seed\":%s%llu%s", quote, (unsigned long long)seed, quote);
}

static void say_named(ig_text *t, const char *name, const char *value) {
    ig_text_comma(t);
    ig_text_add(t, "\"%s\":", name);
    ig_text_add_string(t, value);
}

static void say_config(ig_text *t, const ig_ctx *ctx) {
    const ig_device *device = ctx->planner.devices[0];
    ig_text_add(t, "{");
    say_named(t, "device", device->name);
    say_named(t, "architecture", device->info.architecture);
    ig_text_add_number(t, "threads", ig_team_threads(ctx->team));
    say_seed(t, ctx->options.seed);
    ig_text_add(t, ",\"strict\":%s", ctx->options.strict ? "true" : "false");
    say_named(t, "cache_dir", ctx->artifacts.folder); /* "": nothing is kept */
    ig_text_add(t, ",\"compile_options\":{");
    say_named(t, "optimization_level", ctx->optimization_level); /* "": as the device has it */
    say_named(t, "precision", ctx->precision);
    say_named(t, "batch_sizes", ctx->batch_sizes);
    ig_text_add(t, "}}");
}

static void say_memory(ig_text *t, const ig_ctx *ctx) {
    const ig_memory_stats m = ig_report_memory(ctx);
    ig_text_add(t, "{");
    ig_text_add_number(t, "allocated_bytes", m.allocated_bytes);
    ig_text_add_number(t, "peak_bytes", m.peak_bytes);
    ig_text_add_number(t, "packed_bytes", ctx->planner.devices[0]->packed);
    ig_text_add_number(t, "available_bytes", m.available_bytes);
    ig_text_add(t, "}");
}

/* Programs of single ops are kept in the process, compiled ones on disk.  Prefixes of texts are
 * the business of whoever holds the sessions. */
static void say_cache_hits(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "{");
    ig_text_add_number(t, "compile", ctx->artifacts.counts.hits);
    ig_text_add_number(t, "prefix", 0);
    ig_text_add_number(t, "op", ctx->cache.hits);
    ig_text_add(t, "}");
}

static void say_compile_cache(ig_text *t, const ig_ctx *ctx) {
    const ig_artifacts *a = &ctx->artifacts;
    ig_text_add(t, "{");
    ig_text_add_number(t, "hits", a->counts.hits);
    ig_text_add_number(t, "misses", a->counts.misses);
    ig_text_add_number(t, "damaged", a->counts.damaged);
    ig_text_add_number(t, "stored", a->counts.stored);
    ig_text_add_number(t, "waits", a->waits);
    ig_text_add(t, ",\"compile_ms\":%.3f,\"load_ms\":%.3f}", (double)a->counts.compile_ns / 1e6,
                (double)a->load_ns / 1e6);
}

static void say_weight_cache(ig_text *t, const ig_ctx *ctx) {
    const ig_artifacts *a = &ctx->artifacts;
    ig_text_add(t, "{");
    ig_text_add_number(t, "hits", a->counts.weights_found);
    ig_text_add_number(t, "hit_bytes", a->found_bytes);
    ig_text_add_number(t, "stored", a->weights_kept);
    ig_text_add_number(t, "stored_bytes", a->kept_bytes);
    ig_text_add(t, "}");
}

static uint64_t steps_on(const ig_plan *plan, const char *device) {
    uint64_t count = 0;
    for (uint32_t i = 0; plan && i < plan->n_segments; i++)
        if (strcmp(ig_segment_device(&plan->segments[i]), device) == 0)
            count += plan->segments[i].count;
    return count;
}

/* How many steps of the plans each device runs now; the "host" has the custom ops. */
static void say_steps_on(ig_text *t, const ig_ctx *ctx, const char *device) {
    uint64_t count = 0;
    for (size_t i = 0; i < ctx->cache.count; i++)
        count += steps_on(ctx->cache.entries[i].plan, device);
    for (uint32_t i = 0; i < ctx->recorder.count; i++)
        count += steps_on(ctx->recorder.all[i]->plan, device);
    for (const ig_captured *c = ctx->captured; c; c = c->next)
        count += steps_on(c->recording->plan, device);
    if (count > 0) ig_text_add_number(t, device, count);
}

static void say_placement(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "{");
    for (uint32_t i = 0; i < ctx->planner.n_devices; i++)
        say_steps_on(t, ctx, ctx->planner.devices[i]->name);
    say_steps_on(t, ctx, "host");
    ig_text_add(t, "}");
}

static void say_moved(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "%llu", (unsigned long long)ctx->planner.devices[0]->moved_bytes);
}

/* What the device counts itself, where it does. */
static void say_device_counters(ig_text *t, const ig_device *device) {
    ig_device_counters c = {0};
    if (!device->backend->counters) return;
    device->backend->counters(device->handle, &c);
    ig_text_add_number(t, "device_submits", c.submits);
    ig_text_add_number(t, "device_dispatches", c.dispatches);
    ig_text_add_number(t, "device_barriers", c.barriers);
    ig_text_add_number(t, "device_recordings", c.recordings);
}

static void say_counters(ig_text *t, const ig_ctx *ctx) {
    const ig_counters c = ig_report_counters(ctx);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {{"steps", c.steps},
               {"ops", c.ops},
               {"views", c.views},
               {"submits", c.submits},
               {"dispatches", c.dispatches},
               {"copies", c.copies},
               {"waits", c.waits},
               {"records", c.records},
               {"replays", c.replays},
               {"replay_ns", c.replay_ns},
               {"programs", c.programs},
               {"program_hits", c.program_hits},
               {"program_misses", c.program_misses},
               {"tensors", c.tensors}};
    ig_text_add(t, "{");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ig_text_add_number(t, all[i].name, all[i].value);
    say_device_counters(t, ctx->planner.devices[0]);
    ig_text_add(t, "}");
}

static void say_recordings(ig_text *t, const ig_ctx *ctx) {
    const ig_recorder *rec = &ctx->recorder;
    uint32_t count = rec->count;
    for (const ig_captured *c = ctx->captured; c; c = c->next) count++;
    ig_text_add(t, "{\"count\":%u,\"refused\":%s,\"reason\":", count,
                rec->refused ? "true" : "false");
    ig_text_add_string(t, rec->reason);
    ig_text_add(t, "}");
}

static void say_fallbacks(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "[");
    say_past_fallbacks(t, ctx);
    each_plan(t, ctx, say_plan_fallbacks);
    ig_text_add(t, "]");
}

static void say_timelines(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "[");
    say_past_timeline(t, ctx);
    each_plan(t, ctx, say_plan_timeline);
    ig_text_add(t, "]");
}

/* Every field of a report, in the order of the JSON.  `say` is NULL where only the program that
 * runs can know; `none` is what stands there then, and where there is no context. */
static const struct field {
    const char *name, *none;
    void (*say)(ig_text *t, const ig_ctx *ctx);
} fields[] = {
    {"schema_version", "\"1.0.0\"", NULL},
    {"run_id", "null", NULL},
    {"task", "null", NULL},
    {"model", "null", NULL},
    {"backend", "null", say_backend},
    {"job_id", "null", NULL},
    {"trace_id", "null", NULL},
    {"worker_id", "null", NULL},
    {"enqueued_at_ms", "null", NULL},
    {"queue_wait_ms", "null", NULL},
    {"execution_mode", "null", say_mode},
    {"flow", "null", say_flow},
    {"timings", "{}", say_timings},
    {"memory", "null", say_memory},
    {"config_resolved", "{}", say_config},
    {"artifacts", "[]", NULL},
    {"error", "null", NULL},
    {"latent_stats", "null", NULL},
    {"cache_hits", "{\"compile\":0,\"prefix\":0,\"op\":0}", say_cache_hits},
    {"compile_cache", "null", say_compile_cache},
    {"weight_cache", "null", say_weight_cache},
    {"device_placement", "{}", say_placement},
    {"batch_size", "null", NULL},
    {"batch_group_id", "null", NULL},
    {"stream_events", "[]", NULL},
    {"moved_bytes", "0", say_moved},
    {"counters", "null", say_counters},
    {"recordings", "null", say_recordings},
    {"fallbacks", "[]", say_fallbacks},
    {"backend_timeline", "[]", say_timelines},
};

size_t ig_report_json(const ig_ctx *ctx, char *out, size_t out_bytes) {
    ig_text t = ig_text_begin(out, out_bytes);
    ig_text_add(&t, "{");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ig_text_comma(&t);
        ig_text_add(&t, "\"%s\":", fields[i].name);
        if (ctx && fields[i].say)
            fields[i].say(&t, ctx);
        else
            ig_text_add(&t, "%s", fields[i].none);
    }
    ig_text_add(&t, "}");
    return t.used;
}

size_t ig_report_plan_json(const ig_ctx *ctx, uint32_t index, char *out, size_t out_bytes) {
    ig_text t = ig_text_begin(out, out_bytes);
    if (!ctx) return 0;
    const ig_recorder *rec = &ctx->recorder;
    const ig_plan *plan = index < rec->count ? rec->all[rec->count - 1 - index]->plan
                                             : ig_captured_plan(ctx, index - rec->count);
    if (plan) ig_plan_describe(&t, &ctx->planner, plan);
    return t.used;
}
