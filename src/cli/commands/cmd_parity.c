/*
 * ingot parity - compares a model across devices.
 *
 * Compares the logits after one prompt and after each token that is then generated greedily. The
 * error is norm-wise, |a - b| / |a| over the whole vocabulary: the largest of all rows up to the
 * first token that differs. ref computes with plain loops on dequantized weights, so a pair with
 * ref shows how exact the other device is.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quant_blocks.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/parity.h"
#include "cli/commands/parity_tolerance.h"

enum { MOST_DEVICES = 8 };

typedef struct parity_options {
    model_options model;
    const char *prompt, *file, *devices, *arch;
    int64_t n_tokens;
    double tolerance;
} parity_options;

typedef struct comparison {
    ig_cli *cli;
    const parity_options *options;
    parity_job job;
    parity_run runs[MOST_DEVICES];
    int n_runs;
} comparison;

static ig_status split_devices(comparison *c, const char *devices) {
    for (const char *at = devices; *at;) {
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= PARITY_DEVICE_BYTES || c->n_runs == MOST_DEVICES)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "--devices '%s': expected up to %d comma-separated names", devices,
                           MOST_DEVICES);
        memcpy(c->runs[c->n_runs++].name, at, length);
        at += length + (at[length] == ',');
    }
    if (c->n_runs > 1) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--devices '%s': at least two are needed", devices);
}

/* Without a list: the default device and the reference. */
static ig_status choose_devices(comparison *c) {
    const char *one = c->options->model.device;
    char pair[2 * PARITY_DEVICE_BYTES]; /* a longer name stays as it is */
    if (c->options->devices) return split_devices(c, c->options->devices);
    snprintf(pair, sizeof pair, "ref,%s", one && strcmp(one, "ref") != 0 ? one : "cpu");
    return split_devices(c, pair);
}

/* ---- Two devices ---- */

typedef struct distance {
    double error, cosine, largest; /* worst of all rows */
    double hidden;  /* worst of mean, std, p50 and p95, relative to the first run's RMS */
    int64_t n_same; /* number of tokens before the first difference */
    bool same_best; /* the same top token after the prompt */
    bool explained; /* the first difference is within the tolerance */
    double tolerance;
    char from[128]; /* source of the tolerance: the dtype, and why devices differ on it */
    bool ok;
} distance;

static double norm_of(const float *x, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* The worse of two values; NaN is the worst of all. */
static double larger(double a, double b) { return b > a || isnan(b) ? b : a; }
static double smaller(double a, double b) { return b < a || isnan(b) ? b : a; }

static void add_row(distance *d, const float *a, const float *b, int64_t count) {
    double ab = 0, apart = 0;
    const double norm_a = norm_of(a, count), norm_b = norm_of(b, count);
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)a[i], y = (double)b[i];
        ab += x * y;
        apart += (x - y) * (x - y);
        d->largest = larger(d->largest, fabs(x - y));
    }
    const double norms = norm_a * norm_b, same = norm_a == norm_b; /* of zeros: 0 or 1 */
    d->error = larger(d->error, apart == 0 ? 0 : sqrt(apart) / norm_a);
    d->cosine = smaller(d->cosine, norms == 0 ? same : ab / norms);
}

static double hidden_distance(const parity_run *a, const parity_run *b) {
    static const char *const names[] = {"mean", "std", "p50", "p95"};
    json_t *x = ig_json_stats(a->hidden, a->d_model), *y = ig_json_stats(b->hidden, b->d_model);
    const double scale = norm_of(a->hidden, a->d_model) / sqrt((double)a->d_model);
    double worst = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const double apart = json_number_value(json_object_get(x, names[i])) -
                             json_number_value(json_object_get(y, names[i]));
        worst = fmax(worst, fabs(apart) / scale);
    }
    json_decref(x);
    json_decref(y);
    return worst;
}

/* A different token is explained if its margin is below the sum of both logits' tolerances. */
static bool is_explained(const parity_run *a, const parity_run *b, int64_t row, double tolerance) {
    const float *logits = a->logits + row * a->width;
    const double margin = (double)logits[a->tokens[row]] - (double)logits[b->tokens[row]];
    return margin <= 2 * tolerance * norm_of(logits, a->width);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The error over all rows: the largest, or the median with a router. */
static double error_of(double *errors, int64_t count, bool routed) {
    double worst = 0;
    for (int64_t i = 0; i < count; i++) worst = larger(worst, errors[i]);
    if (!routed || isnan(worst)) return worst;
    qsort(errors, (size_t)count, sizeof *errors, by_size);
    return errors[count / 2];
}

/* The larger one of the caches of keys and of values. */
static parity_tolerance cache_tolerance(const model_options *o, const char **out_dtype) {
    const char *k = o->cache_k ? o->cache_k : o->cache, *v = o->cache_v ? o->cache_v : o->cache;
    const parity_tolerance of_k = parity_tolerance_of_cache(k), of_v = parity_tolerance_of_cache(v);
    *out_dtype = of_v.most > of_k.most ? v : k;
    return of_v.most > of_k.most ? of_v : of_k;
}

/* --tolerance, or the default of the coarsest dtype of weights or of the KV cache. With blocks and
 * a router, a quantized activation may route to another expert, which changes the logits of that
 * token (0.5 was seen): the median over the tokens is compared. */
static void set_tolerance(const comparison *c, const parity_run *r, bool routed, distance *d) {
    const char *dtype = ig_dtype_name(r->coarsest), *cache;
    parity_tolerance row = parity_tolerance_of(r->coarsest);
    const parity_tolerance of_cache = cache_tolerance(&c->options->model, &cache);
    if (of_cache.most > row.most) {
        row = of_cache;
        dtype = cache;
    }
    d->tolerance = c->options->tolerance > 0 ? c->options->tolerance : row.most;
    if (c->options->tolerance > 0)
        snprintf(d->from, sizeof d->from, "--tolerance");
    else
        snprintf(d->from, sizeof d->from, "%s: %s%s", dtype, row.from,
                 routed ? "; median, since experts may change" : "");
}

static distance distance_of(const comparison *c, const parity_run *a, const parity_run *b) {
    enum { MOST_ROWS = 1025 }; /* --n-predict is at most 1024 */
    double errors[MOST_ROWS];
    const bool routed = a->routed && ig_dtype_block(a->coarsest) > 1;
    distance d = {.cosine = 1, .explained = true};
    int64_t n_rows = 0;
    set_tolerance(c, a, routed, &d);
    for (; d.n_same < a->n_rows; d.n_same++) {
        const int64_t at = d.n_same * a->width;
        d.error = 0;
        add_row(&d, a->logits + at, b->logits + at, a->width);
        errors[n_rows++] = d.error;
        if (d.n_same + 1 == a->n_rows || a->tokens[d.n_same] != b->tokens[d.n_same]) break;
    }
    const double last = d.error;
    d.error = error_of(errors, n_rows, routed);
    const bool all = d.n_same + 1 == a->n_rows;
    if (!all) d.explained = is_explained(a, b, d.n_same, fmax(d.tolerance, routed ? last : 0));
    d.same_best = all || d.n_same > 0;
    d.hidden = hidden_distance(a, b);
    /* Written so that NaN fails. */
    d.ok = d.explained && d.error <= d.tolerance && (routed || d.hidden <= d.tolerance);
    return d;
}

/* ---- Results ---- */

static void print_heading(const comparison *c) {
    char model[256];
    const parity_run *r = &c->runs[0];
    const char *name = c->job.arch ? c->job.arch : c->options->model.path;
    printf("%s, %lld prompt tokens and %lld generated\n\n",
           ig_text_safe(name ? name : "the bundled model", model, sizeof model),
           (long long)r->n_prompt, (long long)(r->n_rows - 1));
    printf("  %-10s %12s %12s %12s %12s\n", "hidden", "mean", "std", "p50", "p95");
    for (int i = 0; i < c->n_runs; i++) {
        json_t *s = ig_json_stats(c->runs[i].hidden, r->d_model);
        printf("  %-10s %12.6f %12.6f %12.6f %12.6f\n", c->runs[i].name,
               json_number_value(json_object_get(s, "mean")),
               json_number_value(json_object_get(s, "std")),
               json_number_value(json_object_get(s, "p50")),
               json_number_value(json_object_get(s, "p95")));
        json_decref(s);
    }
    printf("\n  %-10s %-10s %10s %12s %14s %10s %8s  %s\n", "device", "device", "error", "cosine",
           "max diff", "hidden", "tokens", "within tolerance");
}

static void print_pair(const parity_run *a, const parity_run *b, const distance *d) {
    char tokens[48];
    snprintf(tokens, sizeof tokens, "%lld/%lld", (long long)d->n_same, (long long)(a->n_rows - 1));
    printf("  %-10s %-10s %10.2e %12.9f %14.2e %10.2e %8s  %s (%.0e: %s)\n", a->name, b->name,
           d->error, d->cosine, d->largest, d->hidden, tokens, d->ok ? "yes" : "NO", d->tolerance,
           d->from);
}

static json_t *pair_json(const parity_run *a, const parity_run *b, const distance *d) {
    return json_pack("{s:[s,s], s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:o, s:s, s:b}", "devices",
                     a->name, b->name, "error", ig_json_real(d->error), "cosine",
                     ig_json_real(d->cosine), "max_abs", ig_json_real(d->largest), "hidden",
                     ig_json_real(d->hidden), "same_top_token", d->same_best, "n_same_tokens",
                     (json_int_t)d->n_same, "n_tokens", (json_int_t)(a->n_rows - 1), "tolerance",
                     ig_json_real(d->tolerance), "tolerance_from", d->from, "ok", d->ok);
}

static json_t *run_json(const parity_run *r) {
    json_t *tokens = json_array();
    for (int64_t i = 0; i + 1 < r->n_rows; i++)
        json_array_append_new(tokens, json_integer(r->tokens[i]));
    return json_pack("{s:s, s:o, s:o}", "device", r->name, "latent_stats",
                     ig_json_stats(r->hidden, r->d_model), "greedy_tokens", tokens);
}

static ig_status print_result(const comparison *c, json_t *pairs, bool ok) {
    json_t *runs = json_array();
    for (int i = 0; i < c->n_runs; i++) json_array_append_new(runs, run_json(&c->runs[i]));
    return ig_run_result(c->cli, json_pack("{s:s, s:I, s:b, s:o, s:o}", "schema", "ingot.parity.v1",
                                           "tokens", (json_int_t)c->runs[0].n_prompt, "ok", ok,
                                           "runs", runs, "pairs", pairs));
}

static ig_status compare(const comparison *c) {
    json_t *pairs = json_array();
    int n_apart = 0;
    if (!c->cli->json) print_heading(c);
    for (int i = 0; i < c->n_runs; i++)
        for (int k = i + 1; k < c->n_runs; k++) {
            const distance d = distance_of(c, &c->runs[i], &c->runs[k]);
            if (!c->cli->json) print_pair(&c->runs[i], &c->runs[k], &d);
            json_array_append_new(pairs, pair_json(&c->runs[i], &c->runs[k], &d));
            n_apart += !d.ok;
        }
    IG_TRY(print_result(c, pairs, n_apart == 0));
    if (n_apart == 0) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%d of the device pairs differ by more than the tolerance",
                   n_apart);
}

static ig_status run(ig_cli *cli, const void *options) {
    comparison c = {.cli = cli, .options = options};
    const parity_options *o = c.options;
    const char *prompt = o->prompt || o->file ? o->prompt : "The quick brown fox";
    if (o->arch && o->model.path)
        return IG_FAIL(IG_ERR_ARGUMENT, "--arch, --model: give only one of them");
    c.job = (parity_job){.cli = cli, .model = o->model, .arch = o->arch, .n_tokens = o->n_tokens};
    ig_status status = choose_devices(&c);
    if (status == IG_OK)
        status = model_read_text(cli, prompt, o->file, MODEL_TEXT_MOST, &c.job.text);
    for (int i = 0; i < c.n_runs && status == IG_OK; i++)
        status = parity_run_on(&c.job, &c.runs[i]);
    if (status == IG_OK) status = compare(&c);
    for (int i = 0; i < c.n_runs; i++) parity_run_release(cli, &c.runs[i]);
    ig_free(&cli->allocator, c.job.text.bytes);
    return status;
}

#define OPTION(member) offsetof(parity_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "devices", OPTION(devices),
     .help = "comma-separated devices to compare (default: ref and --device)", .value = "LIST",
     .flags = OPT_FIRST},
    {OPT_TEXT, 0, "arch", OPTION(arch),
     .help = "instead of --model: a small synthetic model of this architecture", .value = "NAME",
     .flags = OPT_FIRST},
    {OPT_INT, 'n', "n-predict", OPTION(n_tokens), .help = "tokens to generate (greedy)",
     .value = "N", .alias = "predict tokens", .initial = "16", .low = 0, .high = 1024,
     .flags = OPT_FIRST},
    {OPT_REAL, 0, "tolerance", OPTION(tolerance),
     .help = "allowed difference; 0: by the coarsest dtype of the weights (docs/parity.md)",
     .value = "X", .initial = "0", .low = 0, .high = 10, .flags = OPT_FIRST},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT",
     .flags = OPT_FIRST},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "read the text from a file; -: standard input",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_TABLE, .to = OPTION(model), .table = model_file_opts},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot parity -m model.gguf --device vulkan",
    "Compare a device with the reference backend.",
    "ingot parity -m model.gguf --devices ref,cpu",
    "Compare two devices.",
    "ingot parity --arch llama --devices cpu,ref,simnpu",
    "Compare three devices on a synthetic model.",
    NULL,
};

const ig_command cmd_parity = {
    .name = "parity",
    .summary = "compare the results of devices on the same model",
    .about = "Runs one prompt through a model on each device, generates tokens (greedy), and "
             "compares each pair of devices: relative L2 distance and cosine of the logits; mean, "
             "standard deviation, median and 95th percentile of the last hidden state; and the "
             "tokens. The KV cache is f32 unless --kv is given. If a pair differs by more than the "
             "tolerance, the exit code is 1. A different token counts only if the first device's "
             "margin exceeds the tolerance.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(parity_options),
    .cancels = true,
    .run = run,
};
