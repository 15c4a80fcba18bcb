/*
 * Reports: counters as numbers and as JSON.
 *
 * A report reads the components and changes none of them, so it may be taken at any time between
 * two calls. Its fields are one table at the end of this file: a name, the value without a context,
 * and a function that writes the value. Fields that only the program knows (task, model, error)
 * have no function; the program fills them in.
 *
 * Units: ms with three decimals where a name ends in _ms; ns and bytes are integers. JSON is
 * written like snprintf: a buffer that is too small truncates it, and the return value is the full
 * size.
 */
#include "ingot/report.h"

#include <stdio.h>
#include <string.h>

#include "plan/plan_json.h"
#include "runtime/ctx_host.h"
#include "runtime/ctx_packing.h"
#include "runtime/record/capture.h"
#include "runtime/record/dispatch_batch.h"
#include "runtime/report/profile.h"
#include "runtime/run_node.h"

#ifndef INGOT_VERSION
#    define INGOT_VERSION "unknown"
#endif

const char *ig_version(void) { return INGOT_VERSION; }

/* Adds the counters of plans and caches here, not on the path of an op. */
ig_counters ig_report_counters(const ig_ctx *ctx) {
    if (!ctx) return (ig_counters){0};
    ig_counters c = *ig_ctx_counters(ctx);
    c.programs = ig_ctx_plan_cache(ctx)->count;
    c.program_hits = ig_ctx_plan_cache(ctx)->hits;
    c.program_misses = ig_ctx_plan_cache(ctx)->misses;
    return c;
}

uint64_t ig_report_first_submit(const ig_ctx *ctx) {
    return ctx ? ig_ctx_profile(ctx)->first_submit_ns : 0;
}

/* Memory of the requested device, without fallbacks. */
ig_memory_stats ig_report_memory(const ig_ctx *ctx) {
    return ctx ? ig_device_memory(ig_ctx_devices(ctx)->planner.devices[0]) : (ig_memory_stats){0};
}

void ig_report_reset_memory(ig_ctx *ctx) {
    if (ctx) ig_device_reset_peak(ig_ctx_devices(ctx)->planner.devices[0]);
}

/* ---- timelines and fallbacks ---- */

typedef void segment_fn(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s);

static void say_module(ig_text *t, const ig_plan *plan, const ig_segment *s) {
    char name[IG_MODULE_BYTES];
    ig_segment_name(plan, s, name);
    ig_text_add_string(t, name);
}

/* A device that refused a module before the next one ran it. */
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

static void say_timeline(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s) {
    (void)ctx;
    if (s->left) say_refusal(t, s->left);
    ig_text_comma(t);
    ig_text_add(t, "{\"module\":");
    say_module(t, plan, s);
    ig_text_add(t, ",\"device\":\"%s\"", ig_segment_device(s));
    ig_attempts_describe(t, ig_segment_attempts(s));
    ig_text_add(t, "}");
}

/* Work that another device did for the first one: number of runs, bytes copied between the two,
 * and the time lost. */
typedef struct fallback {
    const char *to, *reason;
    uint64_t runs, moved_bytes, lost_ns;
} fallback;

static void say_fallback_of(ig_text *t, const ig_ctx *ctx, fallback f) {
    ig_text_add(t, ",\"from\":\"%s\",\"to\":\"%s\",\"reason\":",
                ig_ctx_devices(ctx)->planner.devices[0]->name, f.to);
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
        (fallback){ig_segment_device(s), s->fallback, s->n_runs, s->transferred_bytes, s->lost_ns});
}

static void plan_segments(ig_text *t, const ig_ctx *ctx, const ig_plan *plan, segment_fn *fn) {
    for (uint32_t i = 0; plan && i < plan->n_segments; i++) fn(t, ctx, plan, &plan->segments[i]);
}

typedef void plan_fn(ig_text *t, const ig_ctx *ctx, const ig_plan *plan);

/* Visits plans of single ops in the order of creation, then those of recordings, captures and
 * batches. */
static void each_plan(ig_text *t, const ig_ctx *ctx, plan_fn *fn) {
    for (size_t i = 0; i < ig_ctx_plan_cache(ctx)->count; i++)
        fn(t, ctx, ig_ctx_plan_cache(ctx)->entries[i].plan);
    for (uint32_t i = 0; i < ig_ctx_recorder(ctx)->count; i++)
        fn(t, ctx, ig_ctx_recorder(ctx)->all[i]->plan);
    for (const ig_captured *c = ig_ctx_captures(ctx)->newest; c; c = c->next)
        fn(t, ctx, c->recording->plan);
    for (const ig_batch *b = ig_ctx_devices(ctx)->batches; b; b = ig_batch_before(b))
        fn(t, ctx, ig_batch_plan(b));
}

static void say_plan_timeline(ig_text *t, const ig_ctx *ctx, const ig_plan *plan) {
    say_refusals(t, plan);
    plan_segments(t, ctx, plan, say_timeline);
}

static void say_plan_fallbacks(ig_text *t, const ig_ctx *ctx, const ig_plan *plan) {
    plan_segments(t, ctx, plan, say_fallback);
}

/* Evicted plans of single ops; equal ones are merged. */
static void say_past_timeline(ig_text *t, const ig_ctx *ctx) {
    for (size_t i = 0; i < ig_ctx_plan_cache(ctx)->n_past; i++)
        say_refusal(t, &ig_ctx_plan_cache(ctx)->past[i].was);
}

static void say_past_fallbacks(ig_text *t, const ig_ctx *ctx) {
    for (size_t i = 0; i < ig_ctx_plan_cache(ctx)->n_past; i++) {
        const ig_past *p = &ig_ctx_plan_cache(ctx)->past[i];
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
    ig_text_add_string(t, ig_ctx_devices(ctx)->planner.devices[0]->name);
}

/* What ran, whatever the mode: "compiled" if a step ran as one plan, recorded or captured. */
static void say_mode(ig_text *t, const ig_ctx *ctx) {
    const bool compiled = ig_ctx_captures(ctx)->newest || ig_ctx_counters(ctx)->replays > 0;
    ig_text_add_string(t, compiled ? "compiled" : "dynamic");
}

/* How this class of device receives its work. */
static void say_flow(ig_text *t, const ig_ctx *ctx) {
    static const char *const flows[] = {[IG_DEVICE_CPU] = "cpu direct",
                                        [IG_DEVICE_GPU] = "gpu direct",
                                        [IG_DEVICE_NPU] = "npu compile"};
    const uint32_t class = ig_ctx_devices(ctx)->planner.devices[0]->info.device_class;
    ig_text_add_string(t, class < sizeof flows / sizeof flows[0] ? flows[class] : "");
}

/* plan_ms includes the compile_ms and pack_ms that recordings and captures needed. */
static void say_timings(ig_text *t, const ig_ctx *ctx) {
    const double compile_ms = (double)ig_ctx_compile_cache(ctx)->counts.compile_ns / 1e6;
    ig_text_add(t, "{\"compile_ms\":%.3f,\"plan_ms\":%.3f,\"pack_ms\":%.3f}", compile_ms,
                (double)ig_ctx_counters(ctx)->plan_ns / 1e6,
                (double)ig_ctx_packings(ctx)->ns / 1e6);
}

/* Most JSON readers use signed 64-bit integers: larger seeds are strings. */
static void say_seed(ig_text *t, uint64_t seed) {
    const char *quote = seed > INT64_MAX ? "\"" : "";
    ig_text_add(t, ",\"seed\":%s%llu%s", quote, (unsigned long long)seed, quote);
}

static void say_named(ig_text *t, const char *name, const char *value) {
    ig_text_comma(t);
    ig_text_add(t, "\"%s\":", name);
    ig_text_add_string(t, value);
}

/* The resolved options of the call, the environment and config.json, and the chosen device. */
static void say_config(ig_text *t, const ig_ctx *ctx) {
    const ig_device *device = ig_ctx_devices(ctx)->planner.devices[0];
    ig_text_add(t, "{");
    say_named(t, "device", device->name);
    say_named(t, "architecture", device->info.architecture);
    ig_text_add_number(t, "threads", ig_team_threads(ig_ctx_get_host(ctx)->team));
    say_seed(t, ig_ctx_get_options(ctx)->seed);
    ig_text_add(t, ",\"strict\":%s", ig_ctx_get_options(ctx)->strict ? "true" : "false");
    say_named(t, "cache_dir", ig_ctx_compile_cache(ctx)->folder); /* "": nothing is stored */
    ig_text_add(t, ",\"compile_options\":{");
    say_named(t, "optimization_level",
              ig_ctx_compile_texts(ctx)->optimization_level); /* "": the device's default */
    say_named(t, "precision", ig_ctx_compile_texts(ctx)->precision);
    say_named(t, "batch_sizes", ig_ctx_compile_texts(ctx)->batch_sizes);
    ig_text_add(t, "}}");
}

/* Of the requested device, in bytes; packed weights are counted apart from tensors. */
static void say_memory(ig_text *t, const ig_ctx *ctx) {
    const ig_memory_stats m = ig_report_memory(ctx);
    ig_text_add(t, "{");
    ig_text_add_number(t, "allocated_bytes", m.allocated_bytes);
    ig_text_add_number(t, "peak_bytes", m.peak_bytes);
    ig_text_add_number(t, "packed_bytes", ig_ctx_devices(ctx)->planner.devices[0]->packed);
    ig_text_add_number(t, "available_bytes", m.available_bytes);
    ig_text_add(t, "}");
}

/* Programs of single ops are cached in the process, compiled ones on disk. The owner of the
 * sessions reports the prefix cache. */
static void say_cache_hits(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "{");
    ig_text_add_number(t, "compile", ig_ctx_compile_cache(ctx)->counts.hits);
    ig_text_add_number(t, "prefix", 0);
    ig_text_add_number(t, "op", ig_ctx_plan_cache(ctx)->hits);
    ig_text_add(t, "}");
}

/* Counts this context only; the folder counts all processes. */
static void say_compile_cache(ig_text *t, const ig_ctx *ctx) {
    const ig_compile_cache *a = ig_ctx_compile_cache(ctx);
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
    const ig_compile_cache *a = ig_ctx_compile_cache(ctx);
    ig_text_add(t, "{");
    ig_text_add_number(t, "hits", a->counts.weights_found);
    ig_text_add_number(t, "hit_bytes", a->found_bytes);
    ig_text_add_number(t, "stored", a->weights_kept);
    ig_text_add_number(t, "stored_bytes", a->kept_bytes);
    ig_text_add(t, "}");
}

/* A segment that failed over counts for the device that runs it now. */
static uint64_t steps_on(const ig_plan *plan, const char *device) {
    uint64_t count = 0;
    for (uint32_t i = 0; plan && i < plan->n_segments; i++)
        if (strcmp(ig_segment_device(&plan->segments[i]), device) == 0)
            count += plan->segments[i].count;
    return count;
}

/* Number of plan steps that each device runs now; "host" runs the custom ops. */
static void say_steps_on(ig_text *t, const ig_ctx *ctx, const char *device) {
    uint64_t count = 0;
    for (size_t i = 0; i < ig_ctx_plan_cache(ctx)->count; i++)
        count += steps_on(ig_ctx_plan_cache(ctx)->entries[i].plan, device);
    for (uint32_t i = 0; i < ig_ctx_recorder(ctx)->count; i++)
        count += steps_on(ig_ctx_recorder(ctx)->all[i]->plan, device);
    for (const ig_captured *c = ig_ctx_captures(ctx)->newest; c; c = c->next)
        count += steps_on(c->recording->plan, device);
    if (count > 0) ig_text_add_number(t, device, count);
}

static void say_placement(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "{");
    for (uint32_t i = 0; i < ig_ctx_devices(ctx)->planner.n_devices; i++)
        say_steps_on(t, ctx, ig_ctx_devices(ctx)->planner.devices[i]->name);
    say_steps_on(t, ctx, "host");
    ig_text_add(t, "}");
}

static void say_moved(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "%llu",
                (unsigned long long)ig_ctx_devices(ctx)->planner.devices[0]->moved_bytes);
}

/* The device's own counters, if it has any. */
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
    say_device_counters(t, ig_ctx_devices(ctx)->planner.devices[0]);
    ig_text_add(t, "}");
}

static void say_recordings(ig_text *t, const ig_ctx *ctx) {
    const ig_recorder *rec = ig_ctx_recorder(ctx);
    uint32_t count = rec->count;
    for (const ig_captured *c = ig_ctx_captures(ctx)->newest; c; c = c->next) count++;
    ig_text_add(t, "{\"count\":%u,\"refused\":%s,\"reason\":", count,
                rec->refused ? "true" : "false");
    ig_text_add_string(t, rec->reason);
    ig_text_add(t, ",\"out_of_memory\":%s,\"events\":[", rec->out_of_memory ? "true" : "false");
    const uint64_t first = rec->n_log > IG_RECORDER_LOG ? rec->n_log - IG_RECORDER_LOG : 0;
    for (uint64_t i = first; i < rec->n_log; i++) {
        const ig_recorder_entry *e = &rec->log[i % IG_RECORDER_LOG];
        ig_text_comma(t);
        ig_text_add(t, "{\"event\":\"%s\"", e->what);
        ig_text_add_number(t, "step", e->step);
        ig_text_add_number(t, "count", e->count);
        ig_text_add(t, ",\"why\":");
        ig_text_add_string(t, e->why);
        ig_text_add(t, "}");
    }
    ig_text_add(t, "]");
    ig_text_add(t, "}");
}

/* The device that was refused before a model was loaded. */
static void say_refused_fallback(ig_text *t, const ig_ctx *ctx) {
    const ig_refusal *r = ig_ctx_devices(ctx)->refused;
    if (!r) return;
    const bool compiles = strcmp(r->attempts[0].reason, "not offered") != 0;
    ig_text_add(t, "{\"op\":");
    ig_text_add_string(t, r->module);
    ig_text_add(t, ",\"from\":\"%s\",\"to\":\"%s\",\"reason\":", r->device,
                ig_ctx_devices(ctx)->planner.devices[0]->name);
    ig_text_add_string(t, r->attempts[compiles ? 0 : IG_ATTEMPTS - 1].reason);
    ig_text_add(t, ",\"runs\":0,\"bytes_moved\":0,\"ms_lost\":0.000}");
}

static void say_fallbacks(ig_text *t, const ig_ctx *ctx) {
    ig_text_add(t, "[");
    say_refused_fallback(t, ctx);
    say_past_fallbacks(t, ctx);
    each_plan(t, ctx, say_plan_fallbacks);
    ig_text_add(t, "]");
}

static void say_timelines(ig_text *t, const ig_ctx *ctx) {
    const ig_refusal *refused = ig_ctx_devices(ctx)->refused;
    ig_text_add(t, "[");
    if (refused) say_refusal(t, refused);
    say_past_timeline(t, ctx);
    each_plan(t, ctx, say_plan_timeline);
    ig_text_add(t, "]");
}

/* ---- the timeline in the log ---- */

/* The end of the JSON object that begins here: after its closing brace. */
static char *end_of_object(char *at) {
    bool quoted = false;
    for (int depth = 0; *at; at++) {
        if (quoted && *at == '\\' && at[1])
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == '{')
            depth++;
        else if (!quoted && *at == '}' && --depth == 0)
            return at + 1;
    }
    return at;
}

void ig_report_log_timeline(const ig_ctx *ctx) {
    enum { LINE_BYTES = 8192 };
    if (!ctx) return;
    const ig_host *host = &ig_ctx_get_host(ctx)->table;
    ig_text t = ig_text_begin(NULL, 0);
    say_timelines(&t, ctx);
    const size_t bytes = t.used + 1;
    char *all = host->alloc(host, bytes, 1);
    if (!all) return;
    t = ig_text_begin(all, bytes);
    say_timelines(&t, ctx);
    for (char *at = strchr(all, '{'), *end; at && *at; at = strchr(end, '{')) {
        char line[LINE_BYTES];
        end = end_of_object(at);
        snprintf(line, sizeof line, "backend_timeline %.*s", (int)(end - at), at);
        host->log(host, IG_LOG_INFO, line);
    }
    host->free(host, all);
}

/* All fields of a report, in JSON order. `say` is NULL if only the program knows the value; `none`
 * is the value then, and without a context. */
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
    const ig_recorder *rec = ig_ctx_recorder(ctx);
    const ig_plan *plan = index < rec->count ? rec->all[rec->count - 1 - index]->plan
                                             : ig_captured_plan(ctx, index - rec->count);
    if (plan) ig_plan_describe(&t, &ig_ctx_devices(ctx)->planner, plan);
    return t.used;
}
