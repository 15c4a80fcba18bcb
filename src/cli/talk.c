#include "cli/talk.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/progress.h"

ig_status talk_open(ig_cli *cli, const talk_options *o, talker *out) {
    *out = (talker){.cli = cli, .options = o, .to_terminal = isatty(STDOUT_FILENO)};
    const double began = ig_clock_seconds();
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = o->device;
    options.threads = (int)o->threads;
    IG_TRY(ig_ctx_create(&options, &out->ctx));
    IG_TRY(ig_adapter_load(out->ctx, o->model, &out->adapter));
    IG_TRY(ig_adapter_freeze(out->adapter));
    out->load_ms = (ig_clock_seconds() - began) * 1e3;
    return IG_OK;
}

void talk_close(talker *t) {
    ig_adapter_destroy(t->adapter);
    ig_ctx_destroy(t->ctx);
    *t = (talker){0};
}

/* On the command line 0 switches off; in the API it is the default, and below 0 is off. */
ig_generate_options talk_generate_options(const talker *t) {
    const talk_options *o = t->options;
    return (ig_generate_options){
        .max_tokens = o->max_tokens > 0 ? o->max_tokens : 0,
        .sampling = {.temperature = o->temperature > 0 ? o->temperature : -1,
                     .top_k = o->top_k > 0 ? (int)o->top_k : -1,
                     .top_p = o->top_p > 0 ? o->top_p : 1e-9, /* the likeliest alone */
                     .min_p = o->min_p > 0 ? o->min_p : -1,
                     .repeat_penalty = o->repeat_penalty,
                     .repeat_last = o->repeat_last > 0 ? (int)o->repeat_last : -1,
                     .seed = (uint64_t)o->seed},
        .stop = o->stop.at,
        .n_stop = (size_t)o->stop.count,
    };
}

/* Control characters of one byte, but for the ends of lines and tabs. */
static bool steers(unsigned char byte) {
    return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

/* Bytes of the control character at `text`, of which `left` follow; 0: it is none. */
static size_t control_bytes(const char *text, size_t left) {
    const unsigned char byte = (unsigned char)text[0];
    if (steers(byte)) return 1;
    const unsigned char next = byte == 0xC2 && left > 1 ? (unsigned char)text[1] : 0;
    return next >= 0x80 && next < 0xA0 ? 2 : 0; /* U+0080 to U+009F */
}

void talk_write(const talker *t, const char *text, size_t bytes) {
    size_t begin = 0; /* of what is not written yet */
    for (size_t at = 0; t->to_terminal && at < bytes;) {
        const size_t control = control_bytes(text + at, bytes - at);
        if (control > 0) {
            fwrite(text + begin, 1, at - begin, stdout);
            fputc('?', stdout);
            begin = at + control;
        }
        at += control > 0 ? control : 1;
    }
    fwrite(text + begin, 1, bytes - begin, stdout);
    fflush(stdout);
}

const char *talk_finish_name(ig_finish finish) {
    static const char *const names[] = {
        [IG_FINISH_LENGTH] = "length", [IG_FINISH_STOP] = "stop", [IG_FINISH_CALLER] = "cancelled"};
    return names[finish];
}

bool talk_keep(const talker *t, talk_text *text, const char *bytes, size_t n_bytes) {
    if (!IG_GROW(&t->cli->allocator, text->bytes, &text->room, text->used + n_bytes + 1))
        return false;
    memcpy(text->bytes + text->used, bytes, n_bytes);
    text->used += n_bytes;
    text->bytes[text->used] = 0;
    return true;
}

/* ---- Options: the spellings are llama.cpp's, and so is what 0 means ---- */

static const char *const devices[] = {"auto", "cpu", "ref", NULL};

#define OPTION(member) offsetof(talk_options, member)

const ig_opt talk_opts[] = {
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text to continue", .value = "TEXT"},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "a file with that text; - is standard input",
     .value = "FILE", .flags = OPT_FILE},
    {OPT_FLAG, 0, "no-display-prompt", OPTION(hide_prompt),
     .help = "print what is made, without the prompt before it"},
    /* TALK_SHARED */
    {OPT_TEXT, 'm', "model", OPTION(model), .help = "the model, an .oam file", .value = "FILE",
     .env = "INGOT_MODEL", .flags = OPT_REQUIRED | OPT_FILE},
    {OPT_INT, 'n', "n-predict", OPTION(max_tokens),
     .help = "tokens to make; 0: as many as fit into the context", .value = "N",
     .alias = "predict tokens", .initial = "0", .low = -1, .high = 1e12},
    {OPT_REAL, 0, "temp", OPTION(temperature),
     .help = "how freely to draw; 0: always the likeliest token", .value = "X",
     .alias = "temperature", .initial = "0.8", .low = 0, .high = 1e6},
    {OPT_INT, 0, "top-k", OPTION(top_k), .help = "draw from so many; 0: from all", .value = "N",
     .initial = "40", .low = 0, .high = 1e6},
    {OPT_REAL, 0, "top-p", OPTION(top_p),
     .help = "draw from the likeliest that together have this probability; 1: from all",
     .value = "X", .initial = "0.95", .low = 0, .high = 1},
    {OPT_REAL, 0, "min-p", OPTION(min_p),
     .help = "draw from those at least so likely, beside the likeliest; 0: from all", .value = "X",
     .initial = "0.05", .low = 0, .high = 1},
    {OPT_REAL, 0, "repeat-penalty", OPTION(repeat_penalty),
     .help = "how much less likely is what was said already; 1: not at all", .value = "X",
     .initial = "1", .low = 0.01, .high = 100},
    {OPT_INT, 0, "repeat-last-n", OPTION(repeat_last),
     .help = "tokens that the penalty looks back at; 0: none", .value = "N", .initial = "64",
     .low = 0, .high = 1e6},
    {OPT_INT, 's', "seed", OPTION(seed),
     .help = "where random numbers start: equal seeds give equal text", .value = "N",
     .initial = "0", .low = 0, .high = 9e18},
    {OPT_TEXT, 'r', "stop", OPTION(stop),
     .help = "end before this text; may be given several times", .value = "TEXT",
     .alias = "reverse-prompt", .flags = OPT_REPEAT},
    {OPT_INT, 't', "threads", OPTION(threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", OPTION(device), .help = "where to compute", .value = "NAME",
     .alias = "backend dev", .env = "INGOT_DEVICE", .choices = devices},
    {0},
};
