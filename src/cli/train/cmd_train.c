/*
 * ingot train - trains a language model on a text file.
 *
 * This file has the options and the top-level sequence; cmd_train.h lists the other parts.
 */
#include "cli/train/cmd_train.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "cli/app/arch_plugin.h"
#include "cli/app/report_file.h"
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
    return IG_FAIL(IG_ERR_ARGUMENT, "--data is required: the training text");
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

/* Saves the checkpoint and writes the other files, also after a signal, but not after another
 * failure. */
static ig_status finish(trainer *t) {
    const ig_status status = train_finish(t);
    if (status != IG_OK && status != IG_ERR_CANCELLED) return status;
    char words[IG_ERROR_BYTES] = "";
    if (status == IG_ERR_CANCELLED) ig_cli_error(t->cli, words); /* before it is overwritten */
    IG_TRY(train_write_files(t));
    if (status != IG_OK) {
        IG_TRY(train_log_close(t));
        return IG_FAIL(status, "%s", words);
    }
    IG_TRY(train_print_result(t));
    return train_log_close(t);
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
    train_unlock(t);
    if (t->log) fclose(t->log);
    plan_view_deinit(&t->view);
    json_decref(t->profile);
    release_curve(a, &t->curve);
    release_curve(a, &t->val_curve);
    ig_free(a, t->tokens);
    ig_data_close(t->data);
    if (t->ctx) ig_run_context(t->cli, t->ctx); /* plans of batches are freed with the adapter */
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
    {OPT_TEXT, 0, "FILE", OPTION(more_data), .help = "more training text, as with --data",
     .flags = OPT_POSITIONAL | OPT_REPEAT | OPT_FILE},
    {OPT_TEXT, 'd', "data", OPTION(data), .help = "training text; may be given several times",
     .value = "FILE", .flags = OPT_FIRST | OPT_REPEAT | OPT_FILE},
    {OPT_TEXT, 0, "arch", OPTION(arch), .help = "architecture, see 'ingot archs'",
     .default_help = "llm", .value = "NAME", .flags = OPT_FIRST},
    {OPT_INT, 0, "d-model", OPTION(d_model), .help = "hidden size (n_embd)",
     .default_help = "the architecture's", .value = "N", .low = 1, .high = 65536,
     .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_INT, 0, "layers", OPTION(layers), .help = "number of layers",
     .default_help = "the architecture's", .value = "N", .low = 1, .high = 1000,
     .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_INT, 0, "heads", OPTION(heads), .help = "attention heads",
     .default_help = "the architecture's", .value = "N", .low = 1, .high = 65536,
     .flags = OPT_NO_DEFAULT},
    {OPT_INT, 0, "kv-heads", OPTION(kv_heads), .help = "KV heads, for GQA",
     .default_help = "--heads", .value = "N", .low = 1, .high = 65536, .flags = OPT_NO_DEFAULT},
    {OPT_INT, 0, "d-ff", OPTION(d_ff), .help = "feed-forward hidden size",
     .default_help = "the architecture's", .value = "N", .low = 1, .high = 1e6,
     .flags = OPT_NO_DEFAULT},
    {OPT_INT, 'c', "ctx", OPTION(ctx), .help = "context length",
     .default_help = "the architecture's", .value = "N", .low = 1, .high = 1e6,
     .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_TEXT, 0, "tokenizer", OPTION(tokenizer),
     .help = "tokenizer: byte, char, or bpe:N with N merges learned from the data",
     .default_help = "byte", .value = "NAME", .choices = tokenizers, .flags = OPT_FIRST},
    {OPT_INT, 'b', "batch", OPTION(batch), .help = "sequences per batch", .default_help = "4",
     .value = "N", .low = 1, .high = 1e6, .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_INT, 0, "accumulate", OPTION(accumulate),
     .help = "gradient accumulation: batches per step", .default_help = "1", .value = "N", .low = 1,
     .high = 1e6, .flags = OPT_NO_DEFAULT},
    {OPT_INT, 'n', "steps", OPTION(steps), .help = "training steps", .default_help = "1000",
     .value = "N", .low = 1, .high = 1e12, .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_REAL, 0, "epochs", OPTION(epochs), .help = "instead of --steps: passes over the text",
     .value = "X", .low = 1e-9, .high = 1e9, .flags = OPT_NO_DEFAULT},
    {OPT_TEXT, 0, "time", OPTION(time),
     .help = "instead of --steps: duration, such as 90 (seconds), 5m or 2h", .value = "TIME"},
    {OPT_REAL, 0, "lr", OPTION(rate), .help = "learning rate", .default_help = "3e-4", .value = "X",
     .low = 1e-12, .high = 1e3, .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_REAL, 0, "min-lr", OPTION(min_rate), .help = "final learning rate",
     .default_help = "--lr / 10", .value = "X", .low = 0, .high = 1e3, .flags = OPT_NO_DEFAULT},
    {OPT_INT, 0, "warmup", OPTION(warmup), .help = "learning rate warmup steps",
     .default_help = "a tenth of the steps, at most 100", .value = "N", .low = 0, .high = 1e12,
     .flags = OPT_NO_DEFAULT},
    {OPT_CHOICE, 0, "schedule", OPTION(schedule), .help = "learning rate schedule",
     .default_help = "cosine", .value = "NAME", .choices = train_schedules,
     .flags = OPT_NO_DEFAULT},
    {OPT_REAL, 0, "weight-decay", OPTION(weight_decay), .help = "AdamW weight decay",
     .default_help = "0.01", .value = "X", .low = 0, .high = 100, .flags = OPT_NO_DEFAULT},
    {OPT_REAL, 0, "clip", OPTION(clip), .help = "gradient norm clipping; 0: off",
     .default_help = "1", .value = "X", .low = 0, .high = 1e9, .flags = OPT_NO_DEFAULT},
    {OPT_REAL, 0, "val-split", OPTION(val_split),
     .help = "fraction of the text, at its end, held out for validation", .default_help = "0.05",
     .value = "X", .low = 0, .high = 0.9, .flags = OPT_NO_DEFAULT},
    {OPT_INT, 0, "eval-every", OPTION(eval_every),
     .help = "steps between evaluations; 0: only at the end", .value = "N", .initial = "200",
     .low = 0, .high = 1e12},
    {OPT_INT, 0, "sample-every", OPTION(sample_every),
     .help = "steps between generated samples; 0: off", .value = "N", .initial = "0", .low = 0,
     .high = 1e12},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "prompt of the samples",
     .default_help = "the beginning of the text", .value = "TEXT"},
    {OPT_INT, 0, "save-every", OPTION(save_every),
     .help = "steps between checkpoints; 0: only at the end", .value = "N", .initial = "500",
     .low = 0, .high = 1e12},
    {OPT_TEXT, 'o', "out", OPTION(out), .help = "checkpoint to write",
     .default_help = "ARCH.oam, or the resumed file", .value = "FILE",
     .flags = OPT_FIRST | OPT_FILE | OPT_OUTPUT | OPT_RENEWED},
    {OPT_TEXT, 0, "resume", OPTION(resume),
     .help = "resume from this checkpoint; its settings are the defaults", .value = "FILE",
     .flags = OPT_FIRST | OPT_FILE | OPT_RENEWED},
    {OPT_INT, 's', "seed", OPTION(seed), .help = "RNG seed; equal seeds give equal bits",
     .default_help = "0", .value = "N", .low = 0, .high = 9e18, .flags = OPT_NO_DEFAULT},
    {OPT_TEXT, 0, "dtype", OPTION(dtype), .help = "dtype of matmul inputs; accumulation is f32",
     .default_help = "f32", .value = "TYPE", .choices = dtypes},
    {OPT_CHOICE, 0, "mode", OPTION(mode), .help = "grad mode", .value = "MODE", .initial = "auto",
     .choices = train_modes},
    {OPT_CHOICE, 0, "route", OPTION(route),
     .help = "easy: op by op; replay: recorded and replayed; production: hand-written dispatches",
     .default_help = "as --mode, or the route that the architecture has", .value = "ROUTE",
     .choices = train_routes, .flags = OPT_NO_DEFAULT},
    IG_ARCH_PLUGIN_OPT(OPTION(plugin)),
    {OPT_INT, 't', "threads", OPTION(threads), .help = "compute threads; 0: one per processor",
     .value = "N", .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", OPTION(device), .help = "device to run on", .value = "NAME",
     .alias = "backend dev", .env = "INGOT_DEVICE", .suggestion = ig_device_suggestion,
     .flags = OPT_FIRST},
    {OPT_TEXT, 0, "log", OPTION(log), .help = "write one JSON line per step to this file",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "plot", OPTION(plot), .help = "plot the losses as SVG", .value = "FILE",
     .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "trace", OPTION(trace),
     .help = "write a Chrome trace of a few steps (chrome://tracing, ui.perfetto.dev)",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {0},
};

static const char *const examples[] = {
    "ingot train --arch llm -d data.txt --d-model 384 --layers 6",
    "6 layers of 384, trained on data.txt, saved as llm.oam.",
    "ingot train -d book.txt --tokenizer bpe:4096 --time 10m --plot loss.svg",
    "Ten minutes, with a BPE tokenizer learned from the book.",
    "ingot train --resume llm.oam -d data.txt --steps 5000",
    "Continue to 5,000 steps.",
    NULL,
};

const ig_command cmd_train = {
    .name = "train",
    .summary = "train a language model on text files",
    .about = "Trains a language model on one or more text files, which may be larger than memory. "
             "The end of the text is held out for validation; its loss is reported in bits per "
             "byte.\n\nThe checkpoint holds the model, its tokenizer, the optimizer state and the "
             "position in the text. It is replaced atomically every --save-every steps, and when "
             "Ctrl-C stops the run. --resume continues as if the run had never stopped: the same "
             "data gives the same bits. 'ingot generate' and 'ingot chat' run the trained model.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(train_options),
    .cancels = true,
    .run = run,
};
