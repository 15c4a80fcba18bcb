/*
 * ingot train - a language model from a text file.
 *
 * This file has the options and the order of things; cmd_train.h says where the
 * rest is.
 */
#include "cli/train/cmd_train.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "ingot/grad.h"

const char *const train_schedules[] = {"constant", "linear", "cosine", NULL};
const char *const train_modes[] = {"dynamic", "compiled", "auto", NULL};
static const char *const dtypes[] = {"f32", "bf16", NULL};
static const char *const tokenizers[] = {"byte", "char", "bpe", NULL};

static ig_status gather_paths(trainer *t) {
    const ig_texts *const lists[] = {&t->options->data, &t->options->more_data};
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->count; i++) t->paths[t->n_paths++] = lists[l]->at[i];
    if (t->n_paths > 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--data: is missing; it is the text to learn");
}

/* ---- As an application: init, ticks, shutdown ---- */

static ig_status init(void *self) {
    trainer *t = self;
    IG_TRY(gather_paths(t));
    IG_TRY(train_setup(t));
    IG_TRY(train_log_open(t));
    train_begin(t);
    return IG_OK;
}

/* Saves, and leaves the other files behind however it ended, but for a failure of their own. */
static ig_status finish(trainer *t) {
    const ig_status status = train_finish(t);
    if (status != IG_OK && status != IG_ERR_CANCELLED) return status;
    char words[IG_ERROR_BYTES] = "";
    if (status == IG_ERR_CANCELLED) ig_cli_error(t->cli, words); /* files may fail in other words */
    IG_TRY(train_write_files(t));
    IG_TRY(train_log_close(t));
    return status == IG_OK ? train_print_result(t) : IG_FAIL(status, "%s", words);
}

static ig_status tick(void *self, bool *done) {
    trainer *t = self;
    IG_TRY(train_tick(t, done));
    return *done ? finish(t) : IG_OK;
}

static void release_curve(const ig_allocator *a, train_curve *curve) {
    ig_free(a, curve->step);
    ig_free(a, curve->loss);
}

static void deinit(void *self) {
    trainer *t = self;
    const ig_allocator *a = &t->cli->allocator;
    train_end_line(t);
    if (t->log) fclose(t->log);
    plan_view_deinit(&t->view);
    json_decref(t->profile);
    release_curve(a, &t->curve);
    release_curve(a, &t->val_curve);
    ig_free(a, t->tokens);
    ig_data_close(t->data);
    ig_adapter_destroy(t->adapter);
    ig_ctx_destroy(t->ctx);
}

static ig_status run(ig_cli *cli, const void *options) {
    trainer *t = ig_alloc(&cli->allocator, 1, sizeof *t);
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "train: no memory");
    t->cli = cli, t->options = options, t->saved_step = t->finite_step = -1;
    t->val_loss = t->bits_per_byte = t->first_loss = NAN;
    const ig_status status = ig_app_run(&(ig_app){init, tick, deinit, t});
    ig_free(&cli->allocator, t);
    return status;
}

#define OPTION(member) offsetof(train_options, member)
static_assert(sizeof(train_options) <= IG_OPTIONS_BYTES, "the program has room for them");

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "FILE", OPTION(more_data), .help = "more text, as with --data",
     .flags = OPT_POSITIONAL | OPT_REPEAT | OPT_FILE},
    {OPT_TEXT, 'd', "data", OPTION(data), .help = "text to learn; may be given several times",
     .value = "FILE", .flags = OPT_REPEAT | OPT_FILE},
    {OPT_TEXT, 0, "arch", OPTION(arch), .help = "the architecture ('ingot archs' lists them); llm",
     .value = "NAME"},
    {OPT_INT, 0, "d-model", OPTION(d_model), .help = "width of the model", .value = "N", .low = 1,
     .high = 65536, .flags = OPT_UNSAID},
    {OPT_INT, 0, "layers", OPTION(layers), .help = "layers of the model", .value = "N", .low = 1,
     .high = 1000, .flags = OPT_UNSAID},
    {OPT_INT, 0, "heads", OPTION(heads), .help = "heads of attention", .value = "N", .low = 1,
     .high = 65536, .flags = OPT_UNSAID},
    {OPT_INT, 0, "kv-heads", OPTION(kv_heads), .help = "heads of keys and values; as --heads",
     .value = "N", .low = 1, .high = 65536, .flags = OPT_UNSAID},
    {OPT_INT, 0, "d-ff", OPTION(d_ff), .help = "width between the layers' two halves", .value = "N",
     .low = 1, .high = 1e6, .flags = OPT_UNSAID},
    {OPT_INT, 'c', "ctx", OPTION(ctx), .help = "tokens that the model sees at once", .value = "N",
     .low = 1, .high = 1e6, .flags = OPT_UNSAID},
    {OPT_TEXT, 0, "tokenizer", OPTION(tokenizer),
     .help = "byte, char, or bpe:N with N merges learnt from the data; byte", .value = "NAME",
     .choices = tokenizers},
    {OPT_INT, 'b', "batch", OPTION(batch), .help = "windows of text in a step; 4", .value = "N",
     .low = 1, .high = 1e6, .flags = OPT_UNSAID},
    {OPT_INT, 0, "accumulate", OPTION(accumulate), .help = "batches summed up in a step; 1",
     .value = "N", .low = 1, .high = 1e6, .flags = OPT_UNSAID},
    {OPT_INT, 'n', "steps", OPTION(steps), .help = "steps in all; 1000", .value = "N", .low = 1,
     .high = 1e12, .flags = OPT_UNSAID},
    {OPT_REAL, 0, "epochs", OPTION(epochs), .help = "instead of --steps: times through the text",
     .value = "X", .low = 1e-9, .high = 1e9, .flags = OPT_UNSAID},
    {OPT_TEXT, 0, "time", OPTION(time), .help = "instead of --steps: for so long, as 90, 5m or 2h",
     .value = "TIME"},
    {OPT_REAL, 0, "lr", OPTION(rate), .help = "learning rate; 3e-4", .value = "X", .low = 1e-12,
     .high = 1e3, .flags = OPT_UNSAID},
    {OPT_REAL, 0, "min-lr", OPTION(min_rate), .help = "what the rate falls to; a tenth of --lr",
     .value = "X", .low = 0, .high = 1e3, .flags = OPT_UNSAID},
    {OPT_INT, 0, "warmup", OPTION(warmup),
     .help = "steps in which the rate rises; a tenth, 100 at most", .value = "N", .low = 0,
     .high = 1e12, .flags = OPT_UNSAID},
    {OPT_CHOICE, 0, "schedule", OPTION(schedule), .help = "how the rate falls; cosine",
     .value = "NAME", .choices = train_schedules, .flags = OPT_UNSAID},
    {OPT_REAL, 0, "weight-decay", OPTION(weight_decay), .help = "pull of weights to 0; 0.01",
     .value = "X", .low = 0, .high = 100, .flags = OPT_UNSAID},
    {OPT_REAL, 0, "clip", OPTION(clip), .help = "limit of the gradients' norm, 0 for none; 1",
     .value = "X", .low = 0, .high = 1e9, .flags = OPT_UNSAID},
    {OPT_REAL, 0, "val-split", OPTION(val_split),
     .help = "share of the text, at its end, that is kept to validate with; 0.05", .value = "X",
     .low = 0, .high = 0.9, .flags = OPT_UNSAID},
    {OPT_INT, 0, "eval-every", OPTION(eval_every),
     .help = "steps between evaluations, 0 for one at the end", .value = "N", .initial = "200",
     .low = 0, .high = 1e12},
    {OPT_INT, 0, "sample-every", OPTION(sample_every),
     .help = "steps between samples of its text, 0 for none", .value = "N", .initial = "0",
     .low = 0, .high = 1e12},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "what samples begin with; the text's begin",
     .value = "TEXT"},
    {OPT_INT, 0, "save-every", OPTION(save_every),
     .help = "steps between checkpoints, 0 for one at the end", .value = "N", .initial = "500",
     .low = 0, .high = 1e12},
    {OPT_TEXT, 'o', "out", OPTION(out), .help = "the checkpoint; ARCH.oam, or what is resumed",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT | OPT_RENEWED},
    {OPT_TEXT, 0, "resume", OPTION(resume),
     .help = "go on from this checkpoint, with its settings where none are given", .value = "FILE",
     .flags = OPT_FILE | OPT_RENEWED},
    {OPT_INT, 's', "seed", OPTION(seed),
     .help = "where random numbers start: equal seeds give equal bits; 0", .value = "N", .low = 0,
     .high = 9e18, .flags = OPT_UNSAID},
    {OPT_TEXT, 0, "dtype", OPTION(dtype),
     .help = "what products are given, while sums are f32; f32", .value = "TYPE",
     .choices = dtypes},
    {OPT_CHOICE, 0, "mode", OPTION(mode), .help = "how steps are run", .value = "MODE",
     .initial = "auto", .choices = train_modes},
    {OPT_INT, 't', "threads", OPTION(threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", OPTION(device), .help = "where to compute", .value = "NAME",
     .alias = "backend dev", .env = "INGOT_DEVICE", .choices = ig_devices},
    {OPT_TEXT, 0, "log", OPTION(log), .help = "a line of JSON for every step into this file",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "plot", OPTION(plot), .help = "draw the losses into this file, as SVG",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "trace", OPTION(trace),
     .help = "who computed what when, in a few steps, for chrome://tracing or ui.perfetto.dev",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {0},
};

static const char *const examples[] = {
    "ingot train --arch OaLlm -d data.txt --d-model 384 --layers 6",
    "A model of 384 x 6 from data.txt, into llm.oam.",
    "ingot train -d book.txt --tokenizer bpe:4096 --time 10m --plot loss.svg",
    "Ten minutes, with words cut into pieces that the book has often.",
    "ingot train --resume llm.oam -d data.txt --steps 5000",
    "Go on to 5,000 steps.",
    NULL,
};

const ig_command cmd_train = {
    .name = "train",
    .summary = "train a language model on text files",
    .about =
        "Trains a language model to continue the text of one or more files, which may be larger "
        "than memory. The end of the text is kept to validate with: the loss on it is given in "
        "bits per byte.\n\n"
        "The checkpoint holds the model, its tokenizer, the optimiser's state and the place in the "
        "text. It is replaced every --save-every steps, whole or not at all, and when Ctrl-C ends "
        "the run. --resume goes on from it as if there had been no end: the same data gives the "
        "same bits. 'ingot generate' and 'ingot chat' talk with what was trained.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(train_options),
    .cancels = true,
    .run = run,
};
