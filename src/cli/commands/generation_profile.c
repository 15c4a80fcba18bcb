#include "cli/commands/generation_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/bench/cmd_bench.h"
#include "ingot/report.h"

enum { EVENTS = 1 << 10 }; /* only the sums by kind are used */

static const char *const phase_keys[N_PHASES] = {"prompt", "tokens"};
static const char *const phase_titles[N_PHASES] = {"the prompt", "the generated tokens"};

/* ---- taking ---- */

static ig_status begin_phase(generation_profile *p, generation_phase phase) {
    p->phase = phase;
    p->first = ig_session_length(p->model->session, 0);
    p->began = ig_clock_seconds();
    return ig_profile_begin(p->model->ctx, EVENTS);
}

/* KV positions read for rows [first, end): prefill reads them once per ubatch, decode once per
 * token. */
static double seen(const generation_profile *p, int64_t first, int64_t end) {
    const int64_t step = p->phase == PHASE_DECODE ? 1 : ig_session_ubatch(p->model->session);
    double sum = 0;
    for (int64_t at = first; at < end; at += step)
        sum += (double)(at + step < end ? at + step : end);
    return sum;
}

/* Attention FLOP of rows [first, end); in prefill, the last layer computes only the last row. */
static double seen_flop(const generation_profile *p, const ig_token_cost *cost, int64_t first,
                        int64_t end) {
    const double pairs = ig_seen_by_rows(first, end);
    const double last = p->phase == PHASE_DECODE ? pairs : end > first ? (double)end : 0;
    return 2 * (pairs * (double)cost->attention_macs + last * (double)cost->last_attention_macs);
}

static ig_status end_phase(generation_profile *p) {
    json_t *profile;
    const ig_token_cost cost = ig_session_cost(p->model->session);
    const int64_t length = ig_session_length(p->model->session, 0);
    ig_profile_end(p->model->ctx);
    p->of[p->phase].seconds = ig_clock_seconds() - p->began;
    p->of[p->phase].tokens = length - p->first;
    p->of[p->phase].cache_bytes = seen(p, p->first, length) * (double)cost.kv_bytes;
    p->of[p->phase].cache_flop = seen_flop(p, &cost, p->first, length);
    IG_TRY(ig_json_profile(p->model->ctx, &profile));
    p->of[p->phase].kinds = json_incref(json_object_get(profile, "kinds"));
    json_decref(profile);
    return IG_OK;
}

/* Makes the plans of both phases: the prompt with logits, and one token. */
static ig_status make_plans(const loaded_model *model, const int32_t *tokens, size_t count) {
    const int64_t length = ig_session_length(model->session, 0);
    const size_t vocabulary = (size_t)ig_adapter_vocab_size(model->adapter);
    const bool room = length + (int64_t)count < ig_session_ctx_len(model->session);
    float *logits = ig_alloc(&model->cli->allocator, vocabulary, sizeof *logits);
    if (!logits) return IG_FAIL(IG_ERR_MEMORY, "profile: %zu logits", vocabulary);
    ig_status status = ig_session_feed(model->session, 0, tokens, (int64_t)count, logits);
    if (status == IG_OK && room) status = ig_session_feed(model->session, 0, tokens, 1, logits);
    ig_free(&model->cli->allocator, logits);
    IG_TRY(status);
    return ig_session_truncate(model->session, 0, length);
}

ig_status generation_profile_begin(generation_profile *p, loaded_model *model,
                                   const int32_t *tokens, size_t count) {
    bench_device device;
    if (count > 0) IG_TRY(make_plans(model, tokens, count));
    IG_TRY(bench_device_of(model->ctx, &device));
    *p = (generation_profile){.model = model, .threads = device.threads > 0 ? device.threads : 1};
    return begin_phase(p, PHASE_PREFILL);
}

ig_status generation_profile_turn(generation_profile *p) {
    IG_TRY(end_phase(p));
    return begin_phase(p, PHASE_DECODE);
}

ig_status generation_profile_end(generation_profile *p) { return end_phase(p); }

void generation_profile_deinit(generation_profile *p) {
    for (int i = 0; i < N_PHASES; i++) json_decref(p->of[i].kinds);
    *p = (generation_profile){0};
}

/* ---- printing ---- */

/* A kind of step with its wall time. */
typedef struct kind {
    const char *name;
    double ms, share, bytes, flop;
} kind;

static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static kind kind_of(const generation_profile *p, int phase, const json_t *from) {
    const double seconds = p->of[phase].seconds;
    kind k = {.name = json_string_value(json_object_get(from, "name")),
              .ms = number(from, "ns") / 1e6 / (double)p->threads,
              .bytes = number(from, "bytes"),
              .flop = number(from, "flop")};
    k.share = seconds > 0 ? k.ms / 1e3 / seconds : 0;
    if (k.name && strncmp(k.name, "attention_paged", strlen("attention_paged")) == 0) {
        k.bytes += p->of[phase].cache_bytes;
        k.flop += p->of[phase].cache_flop;
    }
    return k;
}

/* Time outside kernels: waiting for other threads, sampling, output. */
static double rest_ms(const generation_profile *p, int phase) {
    double ms = p->of[phase].seconds * 1e3;
    const json_t *from;
    size_t i;
    json_array_foreach(p->of[phase].kinds, i, from) ms -= kind_of(p, phase, from).ms;
    return ms > 0 ? ms : 0;
}

static int by_time(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->ms < y->ms) - (x->ms > y->ms);
}

static void print_phase(FILE *to, const generation_profile *p, int phase) {
    enum { MOST = 64 };
    kind kinds[MOST];
    size_t count = 0, i;
    const double ms = p->of[phase].seconds * 1e3, rest = rest_ms(p, phase);
    const json_t *from;
    json_array_foreach(p->of[phase].kinds, i, from) if (count < MOST) kinds[count++] =
        kind_of(p, phase, from);
    qsort(kinds, count, sizeof kinds[0], by_time);
    fprintf(to, "\n%s: %lld tokens, %.1f ms\n", phase_titles[phase], (long long)p->of[phase].tokens,
            ms);
    fprintf(to, "  %-40s %7s %10s %10s %8s %8s\n", "step", "share", "ms", "MB", "GB/s", "GOP/s");
    for (i = 0; i < count; i++)
        fprintf(to, "  %-40s %5.1f %% %10.2f %10.1f %8.1f %8.1f\n", kinds[i].name,
                100 * kinds[i].share, kinds[i].ms, kinds[i].bytes / 1e6,
                kinds[i].ms > 0 ? kinds[i].bytes / kinds[i].ms / 1e6 : 0,
                kinds[i].ms > 0 ? kinds[i].flop / kinds[i].ms / 1e6 : 0);
    fprintf(to, "  %-40s %5.1f %% %10.2f\n", "waiting, and everything outside of kernels",
            ms > 0 ? 100 * rest / ms : 0, rest);
}

void generation_profile_print(FILE *to, const generation_profile *p) {
    for (int phase = 0; phase < N_PHASES; phase++)
        if (p->of[phase].kinds) print_phase(to, p, phase);
}

static json_t *phase_json(const generation_profile *p, int phase) {
    json_t *list = json_array();
    const json_t *from;
    size_t i;
    json_array_foreach(p->of[phase].kinds, i, from) {
        const kind k = kind_of(p, phase, from);
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", k.name, "steps",
                      json_integer((json_int_t)number(from, "steps")), "ms", ig_json_real(k.ms),
                      "share", ig_json_real(k.share), "bytes", ig_json_real(k.bytes), "bytes_per_s",
                      ig_json_real(k.ms > 0 ? k.bytes / k.ms * 1e3 : 0), "op_per_s",
                      ig_json_real(k.ms > 0 ? k.flop / k.ms * 1e3 : 0)));
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)p->of[phase].tokens, "ms",
                     ig_json_real(p->of[phase].seconds * 1e3), "kinds", list, "rest_ms",
                     ig_json_real(rest_ms(p, phase)));
}

json_t *generation_profile_json(const generation_profile *p) {
    json_t *root = json_object();
    for (int phase = 0; phase < N_PHASES; phase++)
        if (p->of[phase].kinds) json_object_set_new(root, phase_keys[phase], phase_json(p, phase));
    return root;
}
