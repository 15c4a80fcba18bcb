/*
 * ingot demo - trains a small model and generates text with it.
 *
 * Trains char-mlp in the three modes, which must agree bit for bit, plots the loss, saves a
 * checkpoint, loads it into another context, checks that both give identical logits, and lets the
 * loaded model continue a few prompts. All of it uses the public API only.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/demo_modes.h"
#include "cli/view/plot.h"
#include "ingot/checkpoint.h"
#include "ingot/grad.h"
#include "ingot/report.h"

enum { MEAN_STEPS = 20, TEXT_CHARS = 56, PROMPTS = 3 };

static const char *const default_prompts[PROMPTS] = {"the rain", "the child", "a grain"};

typedef struct demo_options {
    int64_t steps, seed, threads;
    const char *out, *device;
    ig_texts prompts;
    bool dry_run;
} demo_options;

typedef struct demo {
    ig_cli *cli;
    const demo_options *options;
    demo_job job;
    demo_mode modes[DEMO_MODES];
    const demo_mode *dynamic, *compiled; /* the second one is saved */
    char curve_path[PATH_MAX], file_path[PATH_MAX];
    uint64_t file_bytes;
    size_t n_logits; /* number of compared logits */
    int n_prompts;
    const char *prompts[IG_TEXTS_MAX];
    char texts[IG_TEXTS_MAX][TEXT_CHARS + 1];
} demo;

/* ---- What is left behind: a picture and a checkpoint ---- */

/* Moving average, so that the curve shows through the noise. */
static void smooth(const double *losses, int64_t steps, double *out) {
    for (int64_t i = 0; i < steps; i++) {
        const int64_t from = i < MEAN_STEPS / 2 ? 0 : i - MEAN_STEPS / 2;
        const int64_t to = i + MEAN_STEPS / 2 < steps ? i + MEAN_STEPS / 2 : steps;
        double sum = 0;
        for (int64_t j = from; j < to; j++) sum += losses[j];
        out[i] = sum / (double)(to - from);
    }
}

static double mean_of_last(const demo *d) {
    const int64_t steps = d->options->steps, count = steps < MEAN_STEPS ? steps : MEAN_STEPS;
    double sum = 0;
    for (int64_t i = steps - count; i < steps; i++) sum += d->compiled->losses[i];
    return sum / (double)count;
}

static void print_plot(FILE *to, const void *plot) { ig_plot_print(to, plot); }

static ig_status draw(demo *d) {
    const size_t steps = (size_t)d->options->steps;
    double *x = ig_alloc(&d->cli->allocator, steps, 2 * sizeof *x);
    if (!x) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu points", d->curve_path, steps);
    double *means = x + steps;
    for (size_t i = 0; i < steps; i++) x[i] = (double)(i + 1);
    smooth(d->compiled->losses, (int64_t)steps, means);

    char title[96], mean[48];
    snprintf(title, sizeof title, "%s: training loss", d->job.type->name);
    snprintf(mean, sizeof mean, "mean of %d steps", MEAN_STEPS);
    const ig_series series[] = {
        {.name = "each batch", .x = x, .y = d->compiled->losses, .count = steps, .faint = true},
        {.name = mean, .x = x, .y = means, .count = steps},
    };
    const ig_plot plot = {.title = title,
                          .x_label = "step",
                          .y_label = "cross entropy (nats)",
                          .series = series,
                          .n_series = 2};
    const ig_status status = ig_run_write(d->cli, "plot", d->curve_path, print_plot, &plot);
    ig_free(&d->cli->allocator, x);
    return status;
}

static ig_status save(demo *d) {
    ig_run_model(d->cli, d->job.type->name);
    ig_run_batch(d->cli, d->compiled->workload->sizes.batch);
    char progress[128], loss[32];
    snprintf(loss, sizeof loss, "%.6g", mean_of_last(d));
    snprintf(progress, sizeof progress, "{\"steps\": %lld, \"batch\": %lld, \"loss\": %s}",
             (long long)d->options->steps, (long long)d->compiled->workload->sizes.batch,
             isfinite(mean_of_last(d)) ? loss : "null");
    IG_TRY(
        ig_checkpoint_save(d->file_path, d->compiled->workload->model,
                           &(ig_checkpoint_options){.optimizer = d->compiled->workload->optimizer,
                                                    .config = d->compiled->workload->config,
                                                    .progress = progress}));
    ig_run_wrote(d->cli, "checkpoint", d->file_path);
    return IG_OK;
}

/* ---- The checkpoint, in a context that has never trained ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static ig_status compare_logits(demo *d, ig_workload *loaded, float *values) {
    const size_t n = d->n_logits;
    IG_TRY(ig_workload_next_batch(d->compiled->workload));
    IG_TRY(ig_workload_next_batch(loaded));
    IG_TRY(ig_workload_logits(d->compiled->workload, values, n));
    IG_TRY(ig_workload_logits(loaded, values + n, n));
    size_t differ = 0;
    for (size_t i = 0; i < n; i++) differ += bits_of(values[i]) != bits_of(values[n + i]);
    if (differ == 0) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %zu of %zu logits differ from those before saving",
                   d->file_path, differ, n);
}

static ig_status use_loaded(demo *d, ig_ctx *ctx, ig_workload *loaded, float *values) {
    IG_TRY(ig_mode_set(ctx, IG_MODE_DYNAMIC));
    IG_TRY(ig_checkpoint_load(d->file_path, loaded->model, loaded->optimizer));
    IG_TRY(compare_logits(d, loaded, values));
    for (int i = 0; i < d->n_prompts; i++)
        IG_TRY(ig_char_mlp_generate(loaded, d->prompts[i], d->texts[i], TEXT_CHARS));
    return IG_OK;
}

static ig_status reload(demo *d) {
    ig_ctx *ctx = NULL;
    ig_workload *loaded = NULL;
    d->n_logits = (size_t)ig_workload_targets(d->compiled->workload) * (size_t)d->job.type->symbols;
    float *values = ig_alloc(&d->cli->allocator, 2 * d->n_logits, sizeof *values);
    if (!values) return IG_FAIL(IG_ERR_MEMORY, "demo: no memory for %zu logits", 2 * d->n_logits);
    ig_status status = demo_context(d->cli, &d->job, &ctx);
    if (status == IG_OK)
        status = ig_workload_create(d->job.type, ctx, d->compiled->workload->sizes, &loaded);
    if (status == IG_OK) status = use_loaded(d, ctx, loaded, values);
    ig_workload_destroy(loaded);
    ig_ctx_destroy(ctx);
    ig_free(&d->cli->allocator, values);
    return status;
}

static ig_status find_file_bytes(demo *d) {
    ig_checkpoint *file;
    IG_TRY(ig_checkpoint_open(d->file_path, &file));
    d->file_bytes = ig_checkpoint_file_bytes(file);
    ig_checkpoint_close(file);
    return IG_OK;
}

/* ---- Results ---- */

static void print_row(const demo *d, const char *label, const char *fmt, ...) IG_PRINTF(3, 4);
static void print_row(const demo *d, const char *label, const char *fmt, ...) {
    const bool color = d->cli->term.out_color;
    printf("  %s%-11s%s ", ig_term_style(color, IG_DIM), label, ig_term_style(color, IG_PLAIN));
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void print_table(const demo *d) {
    const bool color = d->cli->term.out_color;
    const char *bold = ig_term_style(color, IG_BOLD), *plain = ig_term_style(color, IG_PLAIN);
    const int64_t steps = d->options->steps;
    char a[IG_UNIT_TEXT_BYTES], b[IG_UNIT_TEXT_BYTES], path[PATH_MAX];
    printf("%s%s%s, %s\n\n", bold, d->job.type->name, plain, d->job.type->summary);
    print_row(d, "loss", "%.3f -> %s%.3f%s (mean of the last %d steps: %.3f)",
              d->compiled->losses[0], bold, d->compiled->losses[steps - 1], plain,
              steps < MEAN_STEPS ? (int)steps : MEAN_STEPS, mean_of_last(d));
    print_row(d, "steps", "%s of %lld samples, %.1f ops each", ig_count_text((uint64_t)steps, a),
              (long long)d->compiled->workload->sizes.batch,
              (double)d->dynamic->counters.ops / (double)steps);
    print_row(d, "parameters", "%s",
              ig_count_text((uint64_t)ig_module_element_count(d->compiled->workload->model), a));
    print_row(d, "device", "%s, peak %s", ig_ctx_device(d->compiled->ctx),
              ig_bytes_text(d->compiled->memory.peak_bytes, a));
    print_row(d, "checkpoint", "%s (%s); loaded again, %s logits bit-equal",
              ig_text_safe(d->file_path, path, sizeof path), ig_bytes_text(d->file_bytes, a),
              ig_count_text(d->n_logits, b));
    print_row(d, "loss curve", "%s", ig_text_safe(d->curve_path, path, sizeof path));
    printf("\n%sthree modes%s, wall time, including batches and reading the loss\n\n", bold, plain);
    demo_modes_print(d->cli, &d->job, d->modes);
    printf("\n%swhat it learned%s\n\n", bold, plain);
    int widest = 0; /* column where continuations start */
    for (int i = 0; i < d->n_prompts; i++)
        if ((int)strlen(d->prompts[i]) > widest) widest = (int)strlen(d->prompts[i]);
    for (int i = 0; i < d->n_prompts; i++)
        printf("  %s%*s%s|%s\n", bold, widest, d->prompts[i], plain, d->texts[i]);
}

static json_t *counters_json(const ig_counters *c) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "steps", (json_int_t)c->steps,
                     "ops", (json_int_t)c->ops, "views", (json_int_t)c->views, "submits",
                     (json_int_t)c->submits, "dispatches", (json_int_t)c->dispatches, "programs",
                     (json_int_t)c->programs, "program_hits", (json_int_t)c->program_hits,
                     "program_misses", (json_int_t)c->program_misses);
}

static json_t *texts_json(const demo *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n_prompts; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "prompt", d->prompts[i], "text", d->texts[i]));
    return list;
}

static ig_status print_json(const demo *d) {
    const int64_t steps = d->options->steps;
    const ig_workload *w = d->compiled->workload;
    const double *losses = d->compiled->losses;
    return ig_run_result(
        d->cli,
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:{s:o, s:o, s:o}, s:o, s:b, s:o, s:I,"
                  " s:{s:o, s:I}, s:o, s:{s:b, s:I}, s:o}",
                  "schema", "ingot.demo.v1", "workload", d->job.type->name, "device",
                  ig_ctx_device(d->compiled->ctx), "seed", (json_int_t)d->options->seed, "steps",
                  (json_int_t)steps, "batch", (json_int_t)w->sizes.batch, "parameters",
                  (json_int_t)ig_module_element_count(w->model), "loss", "first",
                  ig_json_real(losses[0]), "last", ig_json_real(losses[steps - 1]), "mean_last_20",
                  ig_json_real(mean_of_last(d)), "modes", demo_modes_json(&d->job, d->modes),
                  "modes_bit_equal", true, "counters", counters_json(&d->dynamic->counters),
                  "peak_bytes", (json_int_t)d->compiled->memory.peak_bytes, "checkpoint", "file",
                  ig_json_text(d->file_path), "bytes", (json_int_t)d->file_bytes, "loss_curve",
                  ig_json_text(d->curve_path), "reload", "equal", true, "logits",
                  (json_int_t)d->n_logits, "texts", texts_json(d)));
}

/* ---- The command ---- */

static ig_status choose_prompts(demo *d) {
    const ig_texts *given = &d->options->prompts;
    d->n_prompts = given->count > 0 ? given->count : PROMPTS;
    for (int i = 0; i < d->n_prompts; i++) {
        d->prompts[i] = given->count > 0 ? given->at[i] : default_prompts[i];
        if (d->prompts[i][strspn(d->prompts[i], "abcdefghijklmnopqrstuvwxyz ")])
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "--prompt '%s': the model knows only lowercase letters and spaces",
                           d->prompts[i]);
    }
    return IG_OK;
}

static ig_status choose_paths(demo *d) {
    const char *dir = d->options->out;
    const int a = snprintf(d->curve_path, PATH_MAX, "%s/loss.svg", dir);
    const int b = snprintf(d->file_path, PATH_MAX, "%s/text.oam", dir);
    if (a < 0 || b < 0 || a >= PATH_MAX || b >= PATH_MAX || !*dir)
        return IG_FAIL(IG_ERR_ARGUMENT, "--out: a path of %zu bytes is too long", strlen(dir));
    return IG_OK;
}

static ig_status print_intent(const demo *d) {
    if (d->cli->json)
        return ig_run_result(
            d->cli, json_pack("{s:s, s:b, s:[o, o]}", "schema", "ingot.demo.v1", "dry_run", true,
                              "writes", ig_json_text(d->curve_path), ig_json_text(d->file_path)));
    char path[PATH_MAX];
    printf("would train %s for %lld steps and write\n", d->job.type->name,
           (long long)d->options->steps);
    printf("  %s\n", ig_text_safe(d->curve_path, path, sizeof path));
    printf("  %s\n", ig_text_safe(d->file_path, path, sizeof path));
    return IG_OK;
}

static ig_status run_stages(demo *d) {
    IG_TRY(ig_dir_make(d->options->out));
    IG_TRY(demo_modes_train(d->cli, &d->job, d->modes));
    IG_TRY(draw(d));
    IG_TRY(save(d));
    IG_TRY(find_file_bytes(d));
    IG_TRY(reload(d));
    if (d->cli->json) return print_json(d);
    print_table(d);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const demo_options *o = options;
    const ig_allocator *a = &cli->allocator;
    demo *d = ig_alloc(a, 1, sizeof *d);
    if (!d) return IG_FAIL(IG_ERR_MEMORY, "demo: no memory");
    d->cli = cli, d->options = o;
    d->job = (demo_job){.type = &ig_workload_char_mlp,
                        .device = o->device,
                        .threads = (int)o->threads,
                        .seed = (uint64_t)o->seed,
                        .steps = o->steps};
    d->dynamic = &d->modes[IG_MODE_DYNAMIC], d->compiled = &d->modes[IG_MODE_COMPILED];

    ig_status status = choose_prompts(d);
    if (status == IG_OK) status = choose_paths(d);
    if (status == IG_OK) status = o->dry_run ? print_intent(d) : run_stages(d);
    demo_modes_close(cli, d->modes);
    ig_free(a, d);
    return status;
}

static const ig_opt opts[] = {
    {OPT_INT, 'n', "steps", offsetof(demo_options, steps), .help = "training steps", .value = "N",
     .initial = "300", .low = 1, .high = 1e7},
    {OPT_INT, 's', "seed", offsetof(demo_options, seed),
     .help = "RNG seed; equal seeds give equal bits", .value = "N", .initial = "0", .low = 0,
     .high = 9e18},
    {OPT_TEXT, 'o', "out", offsetof(demo_options, out),
     .help = "output folder for loss.svg and text.oam; created if missing", .value = "DIR",
     .initial = "ingot-demo", .flags = OPT_DIR},
    {OPT_TEXT, 'p', "prompt", offsetof(demo_options, prompts),
     .help = "prompt to continue, in lowercase letters and spaces; may be given several times",
     .value = "TEXT", .flags = OPT_REPEAT},
    {OPT_INT, 't', "threads", offsetof(demo_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0",
     .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", offsetof(demo_options, device), .help = "device to run on",
     .value = "NAME", .alias = "backend dev", .env = "INGOT_DEVICE",
     .suggestion = ig_device_suggestion},
    {OPT_FLAG, 0, "dry-run", offsetof(demo_options, dry_run),
     .help = "print what would be written, and exit"},
    {0},
};

static const char *const examples[] = {
    "ingot demo",
    "Train, draw, save, load and predict, with files in ./ingot-demo.",
    "ingot demo --steps 1000 --prompt 'the child'",
    "Train longer, and continue your own prompt.",
    "ingot demo --json | jq .loss",
    "The loss curve as JSON.",
    NULL,
};

const ig_command cmd_demo = {
    .name = "demo",
    .summary = "train, save, load and run a small model",
    .about = "Trains char-mlp, a network of 10,443 parameters that predicts the next of 27 "
             "characters from the previous eight, on a short built-in text: in Dynamic, Compiled "
             "and Auto mode, with bit-equal losses. Then it plots the loss (loss.svg), saves a "
             "checkpoint (text.oam), loads it into a second context, checks that both give the "
             "same bits, and continues a few prompts.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(demo_options),
    .cancels = true,
    .run = run,
};
