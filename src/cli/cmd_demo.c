/*
 * ingot demo - train a small model, from nothing to a prediction.
 *
 * Trains char-mlp, draws the loss, saves a checkpoint, loads it into a second
 * context, makes sure that both give the same bits, and lets the loaded model
 * continue a few prompts.  What works here works in a program of one's own: all
 * of it is public API.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/progress.h"
#include "cli/workload.h"
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
    const ig_workload_type *type;
    ig_ctx *ctx;
    ig_workload *trained;
    double *losses, *means; /* [steps] each; one piece of memory */
    double seconds;         /* of training, on the clock on the wall */
    ig_counters counters;   /* of training */
    ig_memory_stats memory;
    char curve_path[PATH_MAX], file_path[PATH_MAX];
    uint64_t file_bytes;
    size_t n_logits; /* that were compared */
    int n_prompts;
    const char *prompts[IG_TEXTS_MAX];
    char texts[IG_TEXTS_MAX][TEXT_CHARS + 1];
} demo;

/* ---- Training ---- */

static ig_status create_context(const demo *d, ig_ctx **out) {
    ig_ctx_options options = ig_cli_ctx_options(d->cli);
    options.device = d->options->device;
    options.threads = (int)d->options->threads;
    options.seed = (uint64_t)d->options->seed;
    return ig_ctx_create(&options, out);
}

static ig_status train_step(demo *d, int64_t step, ig_meter *meter) {
    ig_workload *w = d->trained;
    IG_TRY(ig_workload_next_batch(w));
    IG_TRY(ig_workload_step(w, &d->losses[step]));
    char note[32];
    snprintf(note, sizeof note, "loss %.3f", d->losses[step]);
    if (step + 1 < d->options->steps)
        ig_meter_update(meter, (uint64_t)step + 1, note);
    else
        ig_meter_end(meter, (uint64_t)step + 1, note);
    return ig_cli_cancelled(d->cli) ? IG_ERR_CANCELLED : IG_OK;
}

static ig_status train(demo *d) {
    const int64_t steps = d->options->steps;
    IG_TRY(ig_mode_set(d->ctx, IG_MODE_DYNAMIC));
    ig_meter meter =
        ig_meter_begin(&d->cli->term, d->cli->quiet, "train", "steps", (uint64_t)steps);
    const double began = ig_clock_seconds();
    int64_t step = 0;
    ig_status status = IG_OK;
    while (step < steps && status == IG_OK) status = train_step(d, step++, &meter);
    d->seconds = ig_clock_seconds() - began;
    d->counters = ig_report_counters(d->ctx);
    d->memory = ig_report_memory(d->ctx);
    if (meter.line_open) fputc('\n', stderr); /* stopped in the middle of a line */
    if (status == IG_ERR_CANCELLED)
        return IG_FAIL(status, "stopped at step %lld of %lld; nothing was saved", (long long)step,
                       (long long)steps);
    return status;
}

/* ---- What is left behind: a picture and a checkpoint ---- */

/* The mean of the steps around each one, so that the curve shows through the noise. */
static void smooth(demo *d) {
    const int64_t steps = d->options->steps;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t from = i < MEAN_STEPS / 2 ? 0 : i - MEAN_STEPS / 2;
        const int64_t to = i + MEAN_STEPS / 2 < steps ? i + MEAN_STEPS / 2 : steps;
        double sum = 0;
        for (int64_t j = from; j < to; j++) sum += d->losses[j];
        d->means[i] = sum / (double)(to - from);
    }
}

static double mean_of_last(const demo *d) {
    const int64_t steps = d->options->steps, count = steps < MEAN_STEPS ? steps : MEAN_STEPS;
    double sum = 0;
    for (int64_t i = steps - count; i < steps; i++) sum += d->losses[i];
    return sum / (double)count;
}

static void print_plot(FILE *to, const void *plot) { ig_plot_print(to, plot); }

static ig_status draw(demo *d) {
    const size_t steps = (size_t)d->options->steps;
    double *x = ig_alloc(&d->cli->allocator, steps, sizeof *x);
    if (!x) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu points", d->curve_path, steps);
    for (size_t i = 0; i < steps; i++) x[i] = (double)(i + 1);
    smooth(d);

    char title[96], mean[48];
    snprintf(title, sizeof title, "%s: training loss", d->type->name);
    snprintf(mean, sizeof mean, "mean of %d steps", MEAN_STEPS);
    const ig_series series[] = {
        {.name = "each batch", .x = x, .y = d->losses, .count = steps, .faint = true},
        {.name = mean, .x = x, .y = d->means, .count = steps},
    };
    const ig_plot plot = {.title = title,
                          .x_label = "step",
                          .y_label = "cross entropy (nats)",
                          .series = series,
                          .n_series = 2};
    const ig_status status = ig_file_replace(&d->cli->allocator, d->curve_path, print_plot, &plot);
    ig_free(&d->cli->allocator, x);
    return status;
}

static ig_status save(demo *d) {
    char progress[128], loss[32];
    snprintf(loss, sizeof loss, "%.6g", mean_of_last(d));
    snprintf(progress, sizeof progress, "{\"steps\": %lld, \"batch\": %lld, \"loss\": %s}",
             (long long)d->options->steps, (long long)d->trained->sizes.batch,
             isfinite(mean_of_last(d)) ? loss : "null");
    return ig_checkpoint_save(d->file_path, d->trained->model,
                              &(ig_checkpoint_options){.optimizer = d->trained->optimizer,
                                                       .config = d->trained->config,
                                                       .progress = progress});
}

/* ---- The checkpoint, in a context that has never trained ---- */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static ig_status compare_logits(demo *d, ig_workload *loaded, float *values) {
    const size_t n = d->n_logits;
    IG_TRY(ig_workload_next_batch(d->trained));
    IG_TRY(ig_workload_next_batch(loaded));
    IG_TRY(ig_workload_logits(d->trained, values, n));
    IG_TRY(ig_workload_logits(loaded, values + n, n));
    size_t differ = 0;
    for (size_t i = 0; i < n; i++) differ += bits_of(values[i]) != bits_of(values[n + i]);
    if (differ == 0) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %zu of %zu logits are others than before saving",
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
    d->n_logits = (size_t)ig_workload_targets(d->trained) * (size_t)d->type->symbols;
    float *values = ig_alloc(&d->cli->allocator, 2 * d->n_logits, sizeof *values);
    if (!values) return IG_FAIL(IG_ERR_MEMORY, "demo: no memory for %zu logits", 2 * d->n_logits);
    ig_status status = create_context(d, &ctx);
    if (status == IG_OK) status = ig_workload_create(d->type, ctx, d->trained->sizes, &loaded);
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

static double samples_per_second(const demo *d) {
    return (double)d->options->steps * (double)d->trained->sizes.batch / d->seconds;
}

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
    printf("%s%s%s, %s\n\n", bold, d->type->name, plain, d->type->summary);
    print_row(d, "loss", "%.3f -> %s%.3f%s (mean of the last %d steps: %.3f)", d->losses[0], bold,
              d->losses[steps - 1], plain, steps < MEAN_STEPS ? (int)steps : MEAN_STEPS,
              mean_of_last(d));
    print_row(d, "steps", "%s of %lld samples, in %.2f s", ig_count_text((uint64_t)steps, a),
              (long long)d->trained->sizes.batch, d->seconds);
    print_row(d, "samples/s", "%s (wall clock, batches and reading the loss included)",
              ig_count_text((uint64_t)(samples_per_second(d) + 0.5), a));
    print_row(d, "ops", "%s (%.1f a step)", ig_count_text(d->counters.ops, a),
              (double)d->counters.ops / (double)steps);
    print_row(d, "submits", "%s, of %s programs", ig_count_text(d->counters.submits, a),
              ig_count_text(d->counters.programs, b));
    print_row(d, "parameters", "%s",
              ig_count_text((uint64_t)ig_module_element_count(d->trained->model), a));
    print_row(d, "device", "%s, %s at most", ig_ctx_device(d->ctx),
              ig_bytes_text(d->memory.peak_bytes, a));
    print_row(d, "checkpoint", "%s (%s); loaded again, %s logits bit-equal",
              ig_text_safe(d->file_path, path, sizeof path), ig_bytes_text(d->file_bytes, a),
              ig_count_text(d->n_logits, b));
    print_row(d, "loss curve", "%s", ig_text_safe(d->curve_path, path, sizeof path));
    printf("\n%swhat it has learnt%s\n\n", bold, plain);
    int widest = 0; /* prompts end, and what follows them begins, in one column */
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
    return ig_json_print(json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:I,"
        " s:{s:o, s:I}, s:o, s:{s:b, s:I}, s:o}",
        "schema", "ingot.demo.v1", "workload", d->type->name, "device", ig_ctx_device(d->ctx),
        "seed", (json_int_t)d->options->seed, "steps", (json_int_t)steps, "batch",
        (json_int_t)d->trained->sizes.batch, "parameters",
        (json_int_t)ig_module_element_count(d->trained->model), "loss", "first",
        ig_json_real(d->losses[0]), "last", ig_json_real(d->losses[steps - 1]), "mean_last_20",
        ig_json_real(mean_of_last(d)), "seconds", ig_json_real(d->seconds), "samples_per_second",
        ig_json_real(samples_per_second(d)), "counters", counters_json(&d->counters), "peak_bytes",
        (json_int_t)d->memory.peak_bytes, "checkpoint", "file", ig_json_text(d->file_path), "bytes",
        (json_int_t)d->file_bytes, "loss_curve", ig_json_text(d->curve_path), "reload", "equal",
        true, "logits", (json_int_t)d->n_logits, "texts", texts_json(d)));
}

/* ---- The command ---- */

static ig_status choose_prompts(demo *d) {
    const ig_texts *given = &d->options->prompts;
    d->n_prompts = given->count > 0 ? given->count : PROMPTS;
    for (int i = 0; i < d->n_prompts; i++) {
        d->prompts[i] = given->count > 0 ? given->at[i] : default_prompts[i];
        if (d->prompts[i][strspn(d->prompts[i], "abcdefghijklmnopqrstuvwxyz ")])
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "--prompt '%s': the model knows small letters and spaces only",
                           d->prompts[i]);
    }
    return IG_OK;
}

static ig_status choose_paths(demo *d) {
    const char *dir = d->options->out;
    const int a = snprintf(d->curve_path, PATH_MAX, "%s/loss.svg", dir);
    const int b = snprintf(d->file_path, PATH_MAX, "%s/text.oam", dir);
    if (a < 0 || b < 0 || a >= PATH_MAX || b >= PATH_MAX || !*dir)
        return IG_FAIL(IG_ERR_ARGUMENT, "--out: a name of %zu bytes is no folder", strlen(dir));
    return IG_OK;
}

static ig_status print_intent(const demo *d) {
    if (d->cli->json)
        return ig_json_print(json_pack("{s:s, s:b, s:[o, o]}", "schema", "ingot.demo.v1", "dry_run",
                                       true, "writes", ig_json_text(d->curve_path),
                                       ig_json_text(d->file_path)));
    char path[PATH_MAX];
    printf("would train %s for %lld steps and write\n", d->type->name,
           (long long)d->options->steps);
    printf("  %s\n", ig_text_safe(d->curve_path, path, sizeof path));
    printf("  %s\n", ig_text_safe(d->file_path, path, sizeof path));
    return IG_OK;
}

static ig_status run_stages(demo *d) {
    IG_TRY(ig_dir_make(d->options->out));
    IG_TRY(create_context(d, &d->ctx));
    IG_TRY(ig_workload_create(d->type, d->ctx, (ig_workload_sizes){0}, &d->trained));
    IG_TRY(train(d));
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
    d->cli = cli, d->options = o, d->type = &ig_workload_char_mlp;
    d->losses = ig_alloc(a, (size_t)o->steps, 2 * sizeof *d->losses);
    d->means = d->losses ? d->losses + o->steps : NULL;

    ig_status status =
        d->losses ? choose_prompts(d)
                  : IG_FAIL(IG_ERR_MEMORY, "demo: no memory for %lld losses", (long long)o->steps);
    if (status == IG_OK) status = choose_paths(d);
    if (status == IG_OK) status = o->dry_run ? print_intent(d) : run_stages(d);

    ig_workload_destroy(d->trained);
    ig_ctx_destroy(d->ctx);
    ig_free(a, d->losses);
    ig_free(a, d);
    return status;
}

static const char *const devices[] = {"auto", "cpu", "ref", NULL};

static const ig_opt opts[] = {
    {OPT_INT, 'n', "steps", offsetof(demo_options, steps), .help = "how many steps to train",
     .value = "N", .initial = "300", .low = 1, .high = 1e7},
    {OPT_INT, 's', "seed", offsetof(demo_options, seed),
     .help = "where random numbers start: equal seeds give equal bits", .value = "N",
     .initial = "0", .low = 0, .high = 9e18},
    {OPT_TEXT, 'o', "out", offsetof(demo_options, out),
     .help = "the folder for loss.svg and text.oam; made if it is not there", .value = "DIR",
     .initial = "ingot-demo", .flags = OPT_DIR},
    {OPT_TEXT, 'p', "prompt", offsetof(demo_options, prompts),
     .help = "a beginning to continue, in small letters and spaces; may be given several times",
     .value = "TEXT", .flags = OPT_REPEAT},
    {OPT_INT, 't', "threads", offsetof(demo_options, threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", offsetof(demo_options, device), .help = "where to compute",
     .value = "NAME", .alias = "backend dev", .env = "INGOT_DEVICE", .choices = devices},
    {OPT_FLAG, 0, "dry-run", offsetof(demo_options, dry_run),
     .help = "say what would be written, and stop"},
    {0},
};

static const char *const examples[] = {
    "ingot demo",
    "Train, draw, save, load and predict, with files in ./ingot-demo.",
    "ingot demo --steps 1000 --prompt 'the child'",
    "Train for longer, and continue a beginning of one's own.",
    "ingot demo --json | jq .loss",
    "How the loss fell, for a program to read.",
    NULL,
};

const ig_command cmd_demo = {
    .name = "demo",
    .summary = "train a small model, from nothing to a prediction",
    .about = "Trains char-mlp, a network of 10,443 parameters that predicts the next of 27 "
             "characters from the eight before, on a short text of its own. Then it draws the "
             "loss (loss.svg), saves a checkpoint (text.oam), loads that into a second context, "
             "makes sure that both give the same bits, and continues a few prompts.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(demo_options),
    .cancels = true,
    .run = run,
};
