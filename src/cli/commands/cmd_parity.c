/*
 * ingot parity - the same model on several devices, compared.
 *
 * Logits behind one prompt and behind the tokens that are made from there on, each
 * the likeliest; the error is norm-wise, |a - b| / |a| over the whole vocabulary,
 * the largest of all rows up to the first token that differs.  ref computes with
 * plain loops on decoded weights, so a pair with it says how exact the other
 * device is.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/commands/parity.h"
#include "cli/app/report_file.h"

enum { MOST_DEVICES = 8 };

/* What two devices may differ by.  With float weights they only add up in another order: 1e-6 is
 * usual (docs/parity.md), and 1e-4 is a mistake.  Kernels that multiply blocks round what goes in
 * to eight bits, 2e-2 of the logits. */
static const double float_tolerance = 1e-4, block_tolerance = 5e-2;

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
            return IG_FAIL(IG_ERR_ARGUMENT, "--devices '%s': up to %d names with commas between",
                           devices, MOST_DEVICES);
        memcpy(c->runs[c->n_runs++].name, at, length);
        at += length + (at[length] == ',');
    }
    if (c->n_runs > 1) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--devices '%s': two at least are needed to compare", devices);
}

/* Where no list is given, the one that would be computed on, beside the oracle. */
static ig_status choose_devices(comparison *c) {
    const char *one = c->options->model.device;
    char pair[2 * PARITY_DEVICE_BYTES]; /* what is too long for one stays so */
    if (c->options->devices) return split_devices(c, c->options->devices);
    snprintf(pair, sizeof pair, "ref,%s", one && strcmp(one, "ref") != 0 ? one : "cpu");
    return split_devices(c, pair);
}

/* ---- Two devices ---- */

typedef struct distance {
    double error, cosine, largest; /* the worst of all rows */
    double hidden;  /* of mean, std, p50 and p95, beside the first's root mean square */
    int64_t n_same; /* tokens, before the first that differs */
    bool same_best; /* behind the prompt */
    bool explained; /* the first difference is no more than the tolerance allows */
    double tolerance;
    bool ok;
} distance;

static double norm_of(const float *x, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* Of two, the one that is worse; what is no number is worse than all. */
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
    const double norms = norm_a * norm_b, same = norm_a == norm_b; /* of zeros: all or nothing */
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

/* Where another token was likelier: by less than two logits may be off? */
static bool is_explained(const parity_run *a, const parity_run *b, int64_t row, double tolerance) {
    const float *logits = a->logits + row * a->width;
    const double margin = (double)logits[a->tokens[row]] - (double)logits[b->tokens[row]];
    return margin <= 2 * tolerance * norm_of(logits, a->width);
}

static distance distance_of(const comparison *c, const parity_run *a, const parity_run *b) {
    const double given = c->options->tolerance;
    distance d = {.cosine = 1, .explained = true};
    d.tolerance = given > 0 ? given : a->blocks ? block_tolerance : float_tolerance;
    for (; d.n_same < a->n_rows; d.n_same++) {
        const int64_t at = d.n_same * a->width;
        add_row(&d, a->logits + at, b->logits + at, a->width);
        if (d.n_same + 1 == a->n_rows || a->tokens[d.n_same] != b->tokens[d.n_same]) break;
    }
    const bool all = d.n_same + 1 == a->n_rows;
    if (!all) d.explained = is_explained(a, b, d.n_same, d.tolerance);
    d.same_best = all || d.n_same > 0;
    d.hidden = hidden_distance(a, b);
    /* Written so that what is no number is not within it. */
    d.ok = d.explained && d.error <= d.tolerance && d.hidden <= d.tolerance;
    return d;
}

/* ---- Results ---- */

static void print_heading(const comparison *c) {
    char model[256];
    const parity_run *r = &c->runs[0];
    const char *name = c->job.arch ? c->job.arch : c->options->model.path;
    printf("%s, %lld tokens read and %lld made\n\n",
           ig_text_safe(name ? name : "the model that comes along", model, sizeof model),
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
           "largest apart", "hidden", "tokens", "within tolerance");
}

static void print_pair(const parity_run *a, const parity_run *b, const distance *d) {
    char tokens[48];
    snprintf(tokens, sizeof tokens, "%lld/%lld", (long long)d->n_same, (long long)(a->n_rows - 1));
    printf("  %-10s %-10s %10.2e %12.9f %14.2e %10.2e %8s  %s (%.0e)\n", a->name, b->name, d->error,
           d->cosine, d->largest, d->hidden, tokens, d->ok ? "yes" : "NO", d->tolerance);
}

static json_t *pair_json(const parity_run *a, const parity_run *b, const distance *d) {
    return json_pack("{s:[s,s], s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:o, s:b}", "devices", a->name,
                     b->name, "error", ig_json_real(d->error), "cosine", ig_json_real(d->cosine),
                     "max_abs", ig_json_real(d->largest), "hidden", ig_json_real(d->hidden),
                     "same_best", d->same_best, "greedy_same", (json_int_t)d->n_same, "greedy",
                     (json_int_t)(a->n_rows - 1), "tolerance", ig_json_real(d->tolerance), "ok",
                     d->ok);
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
    return IG_FAIL(IG_ERR_STATE, "%d of the pairs differ by more than the tolerance", n_apart);
}

static ig_status run(ig_cli *cli, const void *options) {
    comparison c = {.cli = cli, .options = options};
    const parity_options *o = c.options;
    const char *prompt = o->prompt || o->file ? o->prompt : "The quick brown fox";
    if (o->arch && o->model.path)
        return IG_FAIL(IG_ERR_ARGUMENT, "--arch, --model: one model is enough");
    c.job = (parity_job){.cli = cli, .model = o->model, .arch = o->arch, .n_tokens = o->n_tokens};
    ig_status status = choose_devices(&c);
    if (status == IG_OK) status = model_read_text(cli, prompt, o->file, &c.job.text);
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
     .help = "which to compare, with commas between; otherwise ref and --device", .value = "LIST"},
    {OPT_TEXT, 0, "arch", OPTION(arch),
     .help = "instead of a model: a small one of this architecture, with weights that are random "
             "but always the same",
     .value = "NAME"},
    {OPT_INT, 'n', "n-predict", OPTION(n_tokens),
     .help = "tokens to make behind the prompt, each the likeliest", .value = "N",
     .alias = "predict tokens", .initial = "16", .low = 0, .high = 1024},
    {OPT_REAL, 0, "tolerance", OPTION(tolerance),
     .help = "what may differ; 0: 1e-4 with float weights, 5e-2 with quantised ones", .value = "X",
     .initial = "0", .low = 0, .high = 10},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT"},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "a file with that text; - is standard input",
     .value = "FILE", .flags = OPT_FILE},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot parity -m model.gguf --device vulkan",
    "How far a device is from plain loops.",
    "ingot parity -m model.gguf --devices ref,cpu",
    "How far two devices are apart.",
    "ingot parity --arch llama --devices cpu,ref,simnpu",
    "Three devices, with a small model that is made for it.",
    NULL,
};

const ig_command cmd_parity = {
    .name = "parity",
    .summary = "compare what devices make of the same model",
    .about = "Puts one prompt through a model on each device, lets it make some tokens, each the "
             "likeliest, and compares pair by pair: the norm of the difference of the logits "
             "beside the norm of the first's, the cosine between them, mean, deviation, median and "
             "95th percentile of the last hidden state, and the tokens. Keys and values are kept "
             "as f32 unless --kv says otherwise. A pair that differs by more than the tolerance is "
             "exit code 1; another token is no difference where the first device prefers its own "
             "by less than the tolerance.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(parity_options),
    .cancels = true,
    .run = run,
};
