/* What happened, as numbers and as JSON. */
#include "ingot/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/ctx.h"

#ifndef INGOT_VERSION
#    define INGOT_VERSION "unknown"
#endif

const char *ig_version(void) { return INGOT_VERSION; }

ig_counters ig_report_counters(const ig_ctx *ctx) {
    ig_counters c = ctx->counters;
    c.programs = ctx->cache.count;
    c.program_hits = ctx->cache.hits;
    c.program_misses = ctx->cache.misses;
    return c;
}

ig_memory_stats ig_report_memory(const ig_ctx *ctx) {
    return ig_device_memory(ctx->planner.devices[0]);
}

void ig_report_reset_memory(ig_ctx *ctx) { ig_device_reset_peak(ctx->planner.devices[0]); }

/* Text that is counted even where it does not fit any more. */
typedef struct text {
    char *out;
    size_t room, used;
} text;

static void IG_PRINTF(2, 3) say(text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const bool fits = t->used < t->room;
    const int n = vsnprintf(fits ? t->out + t->used : NULL, fits ? t->room - t->used : 0, fmt, args);
    va_end(args);
    if (n > 0) t->used += (size_t)n;
}

static void say_string(text *t, const char *s) {
    say(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') say(t, "\\%c", c);
        else if (c < 0x20) say(t, "\\u%04x", c);
        else say(t, "%c", c);
    }
    say(t, "\"");
}

static void say_attempts(text *t, const ig_segment *s) {
    for (int i = 0; i < IG_ATTEMPTS; i++) {
        const ig_attempt *a = &s->attempts[i];
        say(t, "%s{\"level\":\"%s\",\"ok\":%s,\"reason\":", i ? "," : "", a->level,
            a->ok ? "true" : "false");
        say_string(t, a->reason);
        say(t, ",\"selected\":%s}", a->selected ? "true" : "false");
    }
}

typedef void segment_fn(text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s,
                        bool first);

static void say_timeline(text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s,
                         bool first) {
    say(t, "%s{\"module\":", first ? "" : ",");
    if (s->count == 1) say_string(t, ig_plan_step_name(&ctx->planner, &plan->steps[s->first]));
    else say(t, "\"step[%u..%u)\"", s->first, s->first + s->count);
    say(t, ",\"device\":\"%s\",\"attempts\":[", s->device ? s->device->name : "host");
    say_attempts(t, s);
    say(t, "]}");
}

static void say_fallback(text *t, const ig_ctx *ctx, const ig_plan *plan, const ig_segment *s,
                         bool first) {
    say(t, "%s{\"op\":", first ? "" : ",");
    say_string(t, ig_plan_step_name(&ctx->planner, &plan->steps[s->first]));
    say(t, ",\"from\":\"%s\",\"to\":\"%s\",\"reason\":", ctx->planner.devices[0]->name,
        s->device->name);
    say_string(t, s->fallback);
    say(t, "}");
}

/* Calls fn for the segments of a plan; with `fallbacks`, those on another device than asked. */
static void plan_segments(text *t, const ig_ctx *ctx, const ig_plan *plan, bool fallbacks,
                          segment_fn *fn, bool *first) {
    for (uint32_t j = 0; plan && j < plan->n_segments; j++) {
        const ig_segment *s = &plan->segments[j];
        if (fallbacks && !s->fallback[0]) continue;
        fn(t, ctx, plan, s, *first);
        *first = false;
    }
}

/* Plans of single ops, then those of recordings. */
static void each_segment(text *t, const ig_ctx *ctx, bool fallbacks, segment_fn *fn) {
    bool first = true;
    for (size_t i = 0; i < ctx->cache.room; i++)
        plan_segments(t, ctx, ctx->cache.entries[i].plan, fallbacks, fn, &first);
    for (uint32_t i = 0; i < ctx->recorder.count; i++)
        plan_segments(t, ctx, ctx->recorder.all[i]->plan, fallbacks, fn, &first);
}

static void say_recordings(text *t, const ig_ctx *ctx) {
    const ig_recorder *rec = &ctx->recorder;
    say(t, "\"recordings\":{\"count\":%u,\"refused\":%s,\"reason\":", rec->count,
        rec->refused ? "true" : "false");
    say_string(t, rec->reason);
    say(t, "},");
}

static void say_number(text *t, const char *name, uint64_t value, bool last) {
    if (value == UINT64_MAX) say(t, "\"%s\":null%s", name, last ? "" : ",");
    else say(t, "\"%s\":%llu%s", name, (unsigned long long)value, last ? "" : ",");
}

static void say_counters(text *t, const ig_ctx *ctx) {
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
               {"records", c.records},
               {"replays", c.replays},
               {"programs", c.programs},
               {"program_hits", c.program_hits},
               {"program_misses", c.program_misses},
               {"tensors", c.tensors}};
    const size_t count = sizeof all / sizeof all[0];
    for (size_t i = 0; i < count; i++) say_number(t, all[i].name, all[i].value, i + 1 == count);
}

size_t ig_report_json(const ig_ctx *ctx, char *out, size_t out_bytes) {
    text t = {out, out_bytes, 0};
    const ig_memory_stats m = ig_report_memory(ctx);
    const ig_device *device = ctx->planner.devices[0];
    if (out_bytes) out[0] = '\0';
    static const char *const modes[] = {"dynamic", "compiled", "auto"};
    say(&t, "{\"schema_version\":\"1.0.0\",\"backend\":\"%s\",\"execution_mode\":\"%s\",", device->name,
        modes[ctx->recorder.mode]);
    say(&t, "\"config_resolved\":{\"device\":\"%s\",\"architecture\":", device->name);
    say_string(&t, device->info.architecture);
    say(&t, ",\"threads\":%u,\"seed\":%llu,\"strict\":%s},", ig_team_threads(ctx->team),
        (unsigned long long)ctx->options.seed, ctx->options.strict ? "true" : "false");
    say(&t, "\"memory\":{");
    say_number(&t, "allocated_bytes", m.allocated_bytes, false);
    say_number(&t, "peak_bytes", m.peak_bytes, false);
    say_number(&t, "available_bytes", m.available_bytes, true);
    say(&t, "},\"counters\":{");
    say_counters(&t, ctx);
    say(&t, "},\"cache_hits\":{\"compile\":%llu},", (unsigned long long)ctx->cache.hits);
    say_recordings(&t, ctx);
    say(&t, "\"fallbacks\":[");
    each_segment(&t, ctx, true, say_fallback);
    say(&t, "],\"backend_timeline\":[");
    each_segment(&t, ctx, false, say_timeline);
    say(&t, "],\"error\":null}");
    return t.used;
}
