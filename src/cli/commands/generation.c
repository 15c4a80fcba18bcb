#include "cli/commands/generation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/report_file.h"
#include "model/draft_ngram.h"
#include "text/sampler.h"

/* "15+1.5" or "15-inf": what is added to the logit of token 15. */
static ig_status parse_bias(const char *text, int64_t vocabulary, ig_logit_bias *out) {
    char *end;
    const long long token = strtoll(text, &end, 10);
    if (end == text || (*end != '+' && *end != '-') || token < 0 || token >= vocabulary)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--logit-bias '%s': TOKEN+BIAS or TOKEN-BIAS, the token below %lld", text,
                       (long long)vocabulary);
    const char *number = end;
    out->token = (int32_t)token;
    out->bias = strtod(number, &end);
    if (end == number || *end)
        return IG_FAIL(IG_ERR_ARGUMENT, "--logit-bias '%s': '%s' is no number", text, number);
    return IG_OK;
}

/* -1 draws a seed, and says which one: who likes the text can have it again. */
static ig_status choose_seed(const ig_cli *cli, int64_t said, uint64_t *out) {
    *out = (uint64_t)said;
    if (said >= 0) return IG_OK;
    if (getentropy(out, sizeof *out) != 0)
        return IG_FAIL(IG_ERR_IO, "--seed -1: no random numbers: %s", strerror(errno));
    *out >>= 2; /* within what --seed takes */
    ig_cli_say(cli, "--seed %llu", (unsigned long long)*out);
    return IG_OK;
}

/* On the command line 0 switches off; in the API it is the default, and below 0 is off. */
static ig_sampling sampling_of(const talker *t) {
    const talk_options *o = t->options;
    return (ig_sampling){
        .temperature = o->temperature > 0 ? o->temperature : -1,
        .top_k = o->top_k > 0 ? (int)o->top_k : -1,
        .top_p = o->top_p > 0 ? o->top_p : 1e-9, /* the likeliest alone */
        .min_p = o->min_p > 0 ? o->min_p : -1,
        .typical_p = o->typical_p > 0 ? o->typical_p : 1e-9,
        .repeat_penalty = o->repeat_penalty,
        .repeat_last = o->repeat_last > 0 ? (int)o->repeat_last : -1,
        .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty,
        .mirostat = (int)o->mirostat,
        .mirostat_tau = o->mirostat_tau,
        .mirostat_eta = o->mirostat_eta,
        .biases = t->biases,
        .n_biases = (size_t)o->biases.count,
        .seed = t->seed,
    };
}

/* What cannot be drawn with is said before anything is written. */
static ig_status check_sampling(const talker *t) {
    const ig_sampling sampling = sampling_of(t);
    ig_sampler *sampler = NULL;
    IG_TRY(ig_sampler_create(&t->cli->allocator, &sampling, ig_adapter_vocabulary(t->model.adapter),
                             &sampler));
    ig_sampler_destroy(sampler);
    return IG_OK;
}

ig_status talk_open(ig_cli *cli, const talk_options *o, talker *out) {
    *out = (talker){.cli = cli, .options = o, .to_terminal = isatty(STDOUT_FILENO)};
    IG_TRY(choose_seed(cli, o->seed, &out->seed));
    IG_TRY(model_open(cli, &o->model, &out->model));
    const int64_t vocabulary = ig_adapter_vocabulary(out->model.adapter);
    for (int i = 0; i < o->biases.count; i++)
        IG_TRY(parse_bias(o->biases.at[i], vocabulary, &out->biases[i]));
    IG_TRY(model_session(&out->model, 0, 1));
    return check_sampling(out);
}

void talk_close(talker *t) {
    model_close(&t->model);
    *t = (talker){0};
}

ig_generate_options talk_generate_options(const talker *t) {
    const talk_options *o = t->options;
    return (ig_generate_options){
        .max_tokens = o->max_tokens > 0 ? o->max_tokens : 0,
        .ignore_end = o->ignore_end,
        .session = t->model.session,
        .sampling = sampling_of(t),
        .stop = o->stop.at,
        .n_stop = (size_t)o->stop.count,
        .guess_ngram = o->guess_ngram,
        .guess_most = o->guess_most,
    };
}

ig_status talk_from_tokens(talker *t, const int32_t *tokens, size_t count,
                           ig_generate_options *out) {
    const int32_t *held = ig_session_tokens(t->model.session, 0);
    const int64_t length = ig_session_length(t->model.session, 0);
    int64_t same = 0;
    while (same < length && same + 1 < (int64_t)count && held[same] == tokens[same]) same++;
    out->tokens = tokens + same; /* one at least: its logits are needed */
    out->n_tokens = count - (size_t)same;
    ig_run_prefix(t->cli, same);
    return ig_session_truncate(t->model.session, 0, same);
}

ig_status talk_check_room(const talker *t, const char *what, size_t count, const char *next) {
    const long long room = (long long)ig_session_ctx_len(t->model.session);
    const long long own = (long long)ig_adapter_config(t->model.adapter).ctx_len;
    if ((long long)count < room) return IG_OK;
    char more[96];
    snprintf(more, sizeof more,
             own > room ? "-c N makes it longer, up to the model's own %lld"
                        : "the model has none above %lld",
             own);
    return IG_FAIL(IG_ERR_ARGUMENT, "%s has %zu tokens, the context %lld: no room for more; %s%s%s",
                   what, count, room, next ? next : "", next ? ", " : "", more);
}

/* ---- How conversations are written ---- */

bool talk_has_style(const ig_chat_style *style) { return style->jinja || style->format; }

static ig_status read_template(const talker *t, const char *path, ig_chat_style *out) {
    model_text text = {0};
    char words[IG_ERROR_BYTES];
    ig_status status = model_read_text(t->cli, NULL, path, &text);
    if (status == IG_OK) {
        status = ig_chat_style_parse(t->model.adapter, text.bytes, text.n_bytes, t->options->system,
                                     out);
        if (status != IG_OK && status != IG_ERR_MEMORY) /* it is the file that is wrong */
            status = IG_FAIL(IG_ERR_FORMAT, "%s: %s", path, ig_cli_error(t->cli, words));
    }
    ig_free(&t->cli->allocator, text.bytes);
    return status;
}

/* A template that is no good is no reason to leave: most write what one of our formats does. */
static ig_status use_own_template(const talker *t, ig_chat_style *out) {
    ig_tokenizer_data text;
    char words[IG_ERROR_BYTES];
    if (!ig_adapter_chat_template(t->model.adapter, &text)) return IG_OK;
    const ig_status status =
        ig_chat_style_parse(t->model.adapter, text.bytes, text.n_bytes, t->options->system, out);
    if (status == IG_OK || status == IG_ERR_MEMORY) return status;
    out->format = ig_chat_detect(text.bytes, text.n_bytes);
    ig_cli_say(t->cli, "warning: %s; %s%s", ig_cli_error(t->cli, words),
               out->format ? "what it writes looks like the format " : "it is not used",
               out->format ? ig_chat_name(out->format) : "");
    return IG_OK;
}

static ig_status find_format(const char *name, const ig_chat_format **out) {
    *out = ig_chat_find(name);
    if (*out) return IG_OK;
    char names[256] = "";
    for (size_t i = 0, used = 0; ig_chat_at(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s",
                                 ig_chat_name(ig_chat_at(i)));
    return IG_FAIL(IG_ERR_ARGUMENT, "--chat-format '%s': must be one of auto, none%s", name, names);
}

ig_status talk_find_style(const talker *t, const char *initial, ig_chat_style *out) {
    const talk_options *o = t->options;
    const char *name = o->format ? o->format : initial;
    *out = (ig_chat_style){0};
    if (o->template_file && o->format)
        return IG_FAIL(IG_ERR_ARGUMENT, "--chat-format, --chat-template-file: one is enough");
    if (o->template_file) return read_template(t, o->template_file, out);
    if (strcmp(name, "none") == 0) return IG_OK;
    return strcmp(name, "auto") == 0 ? use_own_template(t, out) : find_format(name, &out->format);
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
    ig_cli_flush(t->cli);
}

void talk_report(const talker *t, const ig_generated *made) {
    if (made->prefill_ms == 0) return; /* it did not come to that */
    ig_run_stage(t->cli, "tokenize", made->tokenize_ms);
    ig_run_stage(t->cli, "prefill", made->prefill_ms);
    ig_run_first(t->cli, "first_token", made->first_token_ms);
    ig_run_stage(t->cli, "decode", made->decode_ms);
    ig_run_stage(t->cli, "detokenize", made->detokenize_ms);
    ig_run_event(t->cli, "prefill", made->decode_ms);
    ig_run_event(t->cli, "first_token",
                 made->decode_ms - (made->first_token_ms - made->prefill_ms));
    ig_run_event(t->cli, "decode", 0);
}

static double per_second(int64_t tokens, double ms) {
    return tokens > 0 && ms > 0 ? (double)tokens / ms * 1e3 : 0;
}

talk_rates talk_rates_of(const ig_generated *made) {
    const double drawing_ms = made->first_token_ms - made->prefill_ms; /* the first one */
    return (talk_rates){.read = per_second(made->n_prompt, made->prefill_ms - made->tokenize_ms -
                                                               made->prefill_plan_ms),
                        .made = per_second(made->n_tokens - 1,
                                           made->decode_ms - drawing_ms - made->decode_plan_ms)};
}

static json_t *rate_json(double rate) { return rate > 0 ? ig_json_real(rate) : json_null(); }

void talk_add_rates(json_t *root, const ig_generated *made) {
    const talk_rates rates = talk_rates_of(made);
    json_object_set_new(root, "prompt_tokens_per_s", rate_json(rates.read));
    json_object_set_new(root, "tokens_per_s", rate_json(rates.made));
}

enum { RATE_BYTES = 48 };

static const char *rate_text(double rate, char out[RATE_BYTES]) {
    *out = 0;
    if (rate > 0) snprintf(out, RATE_BYTES, " at %.1f a second", rate);
    return out;
}

void talk_say(const talker *t, const ig_generated *made) {
    const talk_rates rates = talk_rates_of(made);
    char read[RATE_BYTES], decoded[RATE_BYTES], guesses[80] = "";
    if (!t->cli->verbose || made->prefill_ms == 0) return;
    if (t->options->guess_ngram > 0)
        snprintf(guesses, sizeof guesses, "; %lld of %lld guesses were right",
                 (long long)made->n_guessed_right, (long long)made->n_guessed);
    ig_cli_say(t->cli, "tokens: %lld read%s, %lld made%s%s", (long long)made->n_prompt,
               rate_text(rates.read, read), (long long)made->n_tokens,
               rate_text(rates.made, decoded), guesses);
}

json_t *talk_guesses_json(const talker *t, const ig_generated *made) {
    const double share =
        made->n_guessed > 0 ? (double)made->n_guessed_right / (double)made->n_guessed : 0;
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "ngram", (json_int_t)t->options->guess_ngram,
                     "draft", (json_int_t)t->options->guess_most, "guessed",
                     (json_int_t)made->n_guessed, "accepted", (json_int_t)made->n_guessed_right,
                     "rate", ig_json_real(share));
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

static const char *const formats[] = {"auto",
                                      "none",
                                      "chatml",
                                      "llama2",
                                      "llama3",
                                      "gemma",
                                      "phi3",
                                      "phi4",
                                      "zephyr",
                                      "deepseek",
                                      "mistral-v1",
                                      "mistral-v3",
                                      "mistral-v3-tekken",
                                      "mistral-v7",
                                      "mistral-v7-tekken",
                                      NULL};

#define OPTION(member) offsetof(talk_options, member)

const ig_opt talk_opts[] = {
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text to continue", .value = "TEXT"},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "a file with that text; - is standard input",
     .value = "FILE", .flags = OPT_FILE},
    {OPT_FLAG, 0, "no-display-prompt", OPTION(hide_prompt),
     .help = "print what is made, without the prompt before it"},
    {OPT_TEXT, 0, "prompt-cache", OPTION(prompt_cache),
     .help = "keep what the prompt left in the model in this file, and go on from it next time",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_INT, 0, "logprobs", OPTION(n_logprobs),
     .help = "with --json: how likely each token was, and so many others", .value = "N",
     .alias = "n-probs", .initial = "0", .low = 0, .high = 100},
    {OPT_FLAG, 0, "profile", OPTION(profile),
     .help = "say where the time went: each kind of step, its share, bytes and rates; reads the "
             "prompt twice"},
    {OPT_MOOT, 0, "no-conversation", .help = "a text is continued", .alias = "no-cnv",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "conversation", .help = "'ingot chat' holds a conversation", .alias = "cnv",
     .flags = OPT_HIDDEN},
    /* TALK_SHARED */
    {OPT_MOOT, 0, "conversation", .help = "a conversation is held", .alias = "cnv",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "no-conversation", .help = "'ingot generate' continues a text",
     .alias = "no-cnv", .flags = OPT_HIDDEN},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {OPT_INT, 'n', "n-predict", OPTION(max_tokens),
     .help = "tokens to make; 0 or -1: as many as fit into the context", .value = "N",
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
     .help = "where random numbers start: equal seeds give equal text; -1: draw one", .value = "N",
     .initial = "0", .low = -1, .high = 9e18},
    {OPT_TEXT, 'r', "stop", OPTION(stop),
     .help = "end before this text; may be given several times", .value = "TEXT",
     .alias = "reverse-prompt", .flags = OPT_REPEAT},
    {OPT_REAL, 0, "typical", OPTION(typical_p),
     .help = "draw from the share whose surprise is nearest the mean; 1: from all", .value = "X",
     .alias = "typical-p", .initial = "1", .low = 0, .high = 1},
    {OPT_REAL, 0, "presence-penalty", OPTION(presence_penalty),
     .help = "taken off what was said already, once", .value = "X", .initial = "0", .low = -100,
     .high = 100},
    {OPT_REAL, 0, "frequency-penalty", OPTION(frequency_penalty),
     .help = "taken off what was said already, for each time", .value = "X", .initial = "0",
     .low = -100, .high = 100},
    {OPT_INT, 0, "mirostat", OPTION(mirostat),
     .help = "2: steer how surprising the text is, in place of the cut-offs; 0: do not",
     .value = "N", .initial = "0", .low = 0, .high = 2},
    {OPT_REAL, 0, "mirostat-ent", OPTION(mirostat_tau),
     .help = "how surprising the text should be, in bits", .value = "X", .alias = "mirostat-tau",
     .initial = "5", .low = 0.01, .high = 100},
    {OPT_REAL, 0, "mirostat-lr", OPTION(mirostat_eta), .help = "how fast that is steered",
     .value = "X", .alias = "mirostat-eta", .initial = "0.1", .low = 0.0001, .high = 10},
    {OPT_TEXT, 'l', "logit-bias", OPTION(biases),
     .help = "TOKEN+BIAS or TOKEN-BIAS: make a token likelier or less likely; may be given several "
             "times",
     .value = "BIAS", .flags = OPT_REPEAT},
    {OPT_TEXT, 0, "chat-format", OPTION(format),
     .help = "how a conversation is written; auto: as the model's file has it, none: text is "
             "continued",
     .value = "NAME", .alias = "chat-template", .choices = formats},
    {OPT_TEXT, 0, "chat-template-file", OPTION(template_file),
     .help = "a file with a Jinja template that writes conversations, instead of the model's own",
     .value = "FILE", .flags = OPT_FILE},
    {OPT_TEXT, 0, "system", OPTION(system),
     .help = "what the model is told before the conversation", .value = "TEXT",
     .alias = "sys system-prompt"},
    {OPT_INT, 0, "spec-ngram", OPTION(guess_ngram),
     .help = "guess that a text goes on as it did where its last N tokens stood before; what comes "
             "is the same, but sooner where it repeats itself; 0: do not",
     .value = "N", .initial = "0", .low = 0, .high = 64},
    {OPT_INT, 0, "spec-draft", OPTION(guess_most), .help = "tokens that are guessed at a time",
     .value = "N", .alias = "draft-max", .initial = "7", .low = 1, .high = IG_GUESS_MOST},
    {OPT_FLAG, 0, "ignore-eos", OPTION(ignore_end),
     .help = "go on although the model says that its text ends"},
    {0},
};
