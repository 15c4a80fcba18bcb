/*
 * ingot parity - the same model on several devices, compared.
 *
 * Logits behind one prompt; the error is norm-wise, |a - b| / |a| over the whole
 * vocabulary.  ref computes with plain loops on decoded weights, so a pair with it
 * says how exact the other device is.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "cli/report.h"

enum { MOST_DEVICES = 8, DEVICE_BYTES = 32 };

typedef struct parity_options {
    model_options model;
    const char *prompt, *file, *devices;
} parity_options;

typedef struct device_run {
    char name[DEVICE_BYTES];
    float *logits;
} device_run;

typedef struct comparison {
    ig_cli *cli;
    const parity_options *options;
    char model[PATH_MAX];
    model_text text;
    device_run runs[MOST_DEVICES];
    int n_runs;
    int64_t vocabulary, n_tokens;
} comparison;

static ig_status split_devices(comparison *c) {
    for (const char *at = c->options->devices; *at;) {
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= DEVICE_BYTES || c->n_runs == MOST_DEVICES)
            return IG_FAIL(IG_ERR_ARGUMENT, "--devices '%s': up to %d names with commas between",
                           c->options->devices, MOST_DEVICES);
        memcpy(c->runs[c->n_runs++].name, at, length);
        at += length + (at[length] == ',');
    }
    if (c->n_runs > 1) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--devices '%s': two at least are needed to compare",
                   c->options->devices);
}

static ig_status feed(comparison *c, opened_model *m, device_run *r) {
    model_tokens tokens = {0};
    ig_status status = model_encode(m, c->text, &tokens);
    if (status == IG_OK && tokens.count == 0)
        status = IG_FAIL(IG_ERR_ARGUMENT, "the prompt has no tokens");
    if (status == IG_OK) status = model_session(m, (int64_t)tokens.count, 1);
    if (status == IG_OK) {
        c->vocabulary = ig_adapter_vocabulary(m->adapter);
        c->n_tokens = (int64_t)tokens.count;
        r->logits = ig_alloc(&c->cli->allocator, (size_t)c->vocabulary, sizeof *r->logits);
        status = r->logits ? ig_session_feed(m->session, 0, tokens.at, c->n_tokens, r->logits)
                           : IG_FAIL(IG_ERR_MEMORY, "parity: no memory for logits");
    }
    ig_free(&c->cli->allocator, tokens.at);
    return status;
}

/* Caches of F32, unless another one was asked for: their rounding would hide the device's. */
static ig_status run_device(comparison *c, device_run *r) {
    model_options options = c->options->model;
    opened_model m;
    options.device = r->name;
    if (!options.cache) options.cache = "f32";
    ig_status status = model_open(c->cli, &options, &m);
    memcpy(c->model, m.path, sizeof c->model);
    if (status == IG_OK) status = feed(c, &m, r);
    model_close(&m);
    return status;
}

/* ---- results ---- */

typedef struct distance {
    double error, cosine, largest;
    bool same_best;
} distance;

static distance distance_of(const comparison *c, const float *a, const float *b) {
    double aa = 0, bb = 0, ab = 0, apart = 0, largest = 0;
    int64_t best_a = 0, best_b = 0;
    for (int64_t i = 0; i < c->vocabulary; i++) {
        const double x = (double)a[i], y = (double)b[i];
        aa += x * x;
        bb += y * y;
        ab += x * y;
        apart += (x - y) * (x - y);
        largest = fmax(largest, fabs(x - y));
        if (a[i] > a[best_a]) best_a = i;
        if (b[i] > b[best_b]) best_b = i;
    }
    return (distance){sqrt(apart / aa), ab / sqrt(aa * bb), largest, best_a == best_b};
}

static ig_status print(const comparison *c) {
    json_t *pairs = json_array();
    if (!c->cli->json)
        printf("  %-10s %-10s %12s %12s %14s  %s\n", "device", "device", "error", "cosine",
               "largest apart", "same best token");
    for (int i = 0; i < c->n_runs; i++)
        for (int k = i + 1; k < c->n_runs; k++) {
            const device_run *a = &c->runs[i], *b = &c->runs[k];
            const distance d = distance_of(c, a->logits, b->logits);
            if (!c->cli->json)
                printf("  %-10s %-10s %12.3e %12.9f %14.3e  %s\n", a->name, b->name, d.error,
                       d.cosine, d.largest, d.same_best ? "yes" : "no");
            json_array_append_new(
                pairs, json_pack("{s:[s,s], s:o, s:o, s:o, s:b}", "devices", a->name, b->name,
                                 "error", ig_json_real(d.error), "cosine", ig_json_real(d.cosine),
                                 "max_abs", ig_json_real(d.largest), "same_best", d.same_best));
        }
    json_t *root =
        json_pack("{s:s, s:o, s:I, s:O}", "schema", "ingot.parity.v1", "model",
                  ig_json_text(c->model), "tokens", (json_int_t)c->n_tokens, "pairs", pairs);
    json_decref(pairs);
    if (c->cli->json) return ig_run_result(c->cli, root);
    json_decref(root);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    comparison c = {.cli = cli, .options = options};
    const parity_options *o = c.options;
    const char *prompt = o->prompt || o->file ? o->prompt : "The quick brown fox";
    ig_status status = split_devices(&c);
    if (status == IG_OK) status = model_read_text(cli, prompt, o->file, &c.text);
    for (int i = 0; i < c.n_runs && status == IG_OK; i++) status = run_device(&c, &c.runs[i]);
    if (status == IG_OK) status = print(&c);
    for (int i = 0; i < c.n_runs; i++) ig_free(&cli->allocator, c.runs[i].logits);
    ig_free(&cli->allocator, c.text.bytes);
    return status;
}

#define OPTION(member) offsetof(parity_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "devices", OPTION(devices), .help = "which to compare, with commas between",
     .value = "LIST", .initial = "ref,cpu"},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT"},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "a file with that text; - is standard input",
     .value = "FILE", .flags = OPT_FILE},
    MODEL_ROWS(parity_options, model),
    {0},
};

static const char *const examples[] = {
    "ingot parity -m model.gguf --devices ref,cpu",
    "How far the logits of two devices are apart.",
    NULL,
};

const ig_command cmd_parity = {
    .name = "parity",
    .summary = "compare what devices make of the same model",
    .about = "Puts one prompt through a model on each device and compares the logits behind it, "
             "pair by pair: the norm of their difference beside the norm of the first, the cosine "
             "between them, and whether the likeliest token is the same. Keys and values are kept "
             "as f32 unless --kv says otherwise.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(parity_options),
    .cancels = true,
    .run = run,
};
