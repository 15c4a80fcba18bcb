#include "cli/commands/generation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/report_file.h"

/* Parses "15+1.5" or "15-inf": the bias for the logit of token 15. */
static ig_status parse_bias(const char *text, int64_t vocabulary, ig_logit_bias *out) {
    char *end;
    const long long token = strtoll(text, &end, 10);
    if (end == text || (*end != '+' && *end != '-') || token < 0 || token >= vocabulary)
        return IG_FAIL(
            IG_ERR_ARGUMENT,
            "--logit-bias '%s': expected TOKEN+BIAS or TOKEN-BIAS with a token below %lld", text,
            (long long)vocabulary);
    const char *number = end;
    out->token = (int32_t)token;
    out->bias = strtod(number, &end);
    if (end == number || *end)
        return IG_FAIL(IG_ERR_ARGUMENT, "--logit-bias '%s': '%s' is not a number", text, number);
    return IG_OK;
}

/* -1 draws a random seed and prints it, so that the text can be reproduced. */
static ig_status choose_seed(const ig_cli *cli, int64_t given, uint64_t *out) {
    *out = (uint64_t)given;
    if (given >= 0) return IG_OK;
    if (getentropy(out, sizeof *out) != 0)
        return IG_FAIL(IG_ERR_IO, "--seed -1: no random numbers: %s", strerror(errno));
    *out >>= 2; /* the range of --seed */
    ig_cli_say(cli, "--seed %llu", (unsigned long long)*out);
    return IG_OK;
}

/* On the command line 0 is off; in the API 0 is the default and a negative value is off. */
static ig_sampling sampling_of(const generator *g) {
    const generation_options *o = g->options;
    return (ig_sampling){
        .temperature = o->temperature > 0 ? o->temperature : -1,
        .top_k = o->top_k > 0 ? (int)o->top_k : -1,
        .top_p = o->top_p > 0 ? o->top_p : 1e-9, /* greedy */
        .min_p = o->min_p > 0 ? o->min_p : -1,
        .typical_p = o->typical_p > 0 ? o->typical_p : 1e-9,
        .repeat_penalty = o->repeat_penalty,
        .repeat_last_n = o->repeat_last_n > 0 ? (int)o->repeat_last_n : -1,
        .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty,
        .mirostat = (int)o->mirostat,
        .mirostat_tau = o->mirostat_tau,
        .mirostat_eta = o->mirostat_eta,
        .biases = g->biases,
        .n_biases = (size_t)o->biases.count,
        .seed = g->seed,
    };
}

/* Reports bad sampling options before anything is written. */
static ig_status check_sampling(const generator *g) {
    const ig_sampling sampling = sampling_of(g);
    return ig_sampling_check(&sampling, ig_adapter_vocab_size(g->model.adapter));
}

ig_status generation_open(ig_cli *cli, const generation_options *o, generator *out) {
    *out = (generator){.cli = cli, .options = o, .to_terminal = isatty(STDOUT_FILENO)};
    IG_TRY(choose_seed(cli, o->seed, &out->seed));
    IG_TRY(loaded_model_open(cli, &o->model, &out->model));
    const int64_t vocabulary = ig_adapter_vocab_size(out->model.adapter);
    for (int i = 0; i < o->biases.count; i++)
        IG_TRY(parse_bias(o->biases.at[i], vocabulary, &out->biases[i]));
    IG_TRY(model_session(&out->model, 0, 1));
    return check_sampling(out);
}

void generation_close(generator *g) {
    loaded_model_close(&g->model);
    *g = (generator){0};
}

ig_generate_options generation_generate_options(const generator *g) {
    const generation_options *o = g->options;
    return (ig_generate_options){
        .max_tokens = o->max_tokens > 0 ? o->max_tokens : 0,
        .ignore_eos = o->ignore_eos,
        .session = g->model.session,
        .sampling = sampling_of(g),
        .stop = o->stop.at,
        .n_stop = (size_t)o->stop.count,
        .draft_ngram = o->draft_ngram,
        .draft_max = o->draft_max,
    };
}

ig_status generation_from_tokens(generator *g, const int32_t *tokens, size_t count,
                                 ig_generate_options *out) {
    const int32_t *held = ig_session_tokens(g->model.session, 0);
    const int64_t length = ig_session_length(g->model.session, 0);
    int64_t same = 0;
    while (same < length && same + 1 < (int64_t)count && held[same] == tokens[same]) same++;
    out->prompt_tokens = tokens + same; /* at least one: its logits are needed */
    out->n_prompt_tokens = count - (size_t)same;
    ig_run_prefix(g->cli, same);
    return ig_session_truncate(g->model.session, 0, same);
}

ig_status generation_check_room(const generator *g, const char *what, size_t count,
                                const char *next) {
    const long long room = (long long)ig_session_ctx_len(g->model.session);
    const long long own = (long long)ig_adapter_config(g->model.adapter).ctx_len;
    if ((long long)count < room) return IG_OK;
    char more[96];
    snprintf(more, sizeof more,
             own > room ? "-c N makes it longer, up to the model's own %lld"
                        : "the model has none above %lld",
             own);
    return IG_FAIL(IG_ERR_ARGUMENT,
                   "%s has %zu tokens, but the context is %lld: no room for more; %s%s%s", what,
                   count, room, next ? next : "", next ? ", " : "", more);
}

/* ---- Chat templates ---- */

/* Parses a template and rejects it if it cannot render a conversation with --system. */
static ig_status parse_template(const generator *g, const char *text, size_t n_bytes,
                                ig_chat_template **out) {
    ig_chat_template *chat = NULL;
    IG_TRY(ig_chat_template_parse(text, n_bytes, &g->cli->allocator, &chat));
    const ig_status status =
        ig_chat_template_check(chat, ig_adapter_tokenizer(g->model.adapter), g->options->system);
    if (status == IG_OK)
        *out = chat;
    else
        ig_chat_template_destroy(chat);
    return status;
}

static ig_status read_template(const generator *g, const char *path, ig_chat_template **out) {
    model_text text = {0};
    char words[IG_ERROR_BYTES];
    ig_status status = model_read_text(g->cli, NULL, path, MODEL_TEXT_MOST, &text);
    if (status == IG_OK) {
        status = parse_template(g, text.bytes, text.n_bytes, out);
        if (status != IG_OK && status != IG_ERR_MEMORY) /* the file is at fault */
            status = IG_FAIL(IG_ERR_FORMAT, "%s: %s", path, ig_cli_error(g->cli, words));
    }
    ig_free(&g->cli->allocator, text.bytes);
    return status;
}

/* A template that cannot be parsed is a warning: most match one of the built-in templates. */
static ig_status use_own_template(const generator *g, ig_chat_template **out) {
    ig_string_view text;
    char words[IG_ERROR_BYTES];
    if (!ig_adapter_chat_template(g->model.adapter, &text)) return IG_OK;
    const ig_status status = parse_template(g, text.bytes, text.n_bytes, out);
    if (status == IG_OK || status == IG_ERR_MEMORY) return status;
    const char *name = ig_chat_detect(text.bytes, text.n_bytes);
    ig_cli_say(g->cli, "warning: %s; %s%s", ig_cli_error(g->cli, words),
               name ? "using the built-in template " : "it is not used", name ? name : "");
    return name ? ig_chat_template_builtin(name, &g->cli->allocator, out) : IG_OK;
}

ig_status generation_find_template(const generator *g, const char *initial,
                                   ig_chat_template **out) {
    const generation_options *o = g->options;
    const char *name = o->format ? o->format : initial;
    *out = NULL;
    if (o->template_file && o->format)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--chat-template, --chat-template-file: give only one of them");
    if (o->template_file) return read_template(g, o->template_file, out);
    if (strcmp(name, "none") == 0) return IG_OK;
    if (strcmp(name, "auto") == 0) return use_own_template(g, out);
    char words[IG_ERROR_BYTES];
    const ig_status status = ig_chat_template_builtin(name, &g->cli->allocator, out);
    if (status != IG_ERR_ARGUMENT) return status;
    return IG_FAIL(status, "--chat-template '%s': %s", name, ig_cli_error(g->cli, words));
}

/* Whether it is a control character of one byte other than newline and tab. */
static bool steers(unsigned char byte) {
    return (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
}

/* Length of the control character at `text`, with `left` bytes remaining; 0: not a control
 * character. */
static size_t control_bytes(const char *text, size_t left) {
    const unsigned char byte = (unsigned char)text[0];
    if (steers(byte)) return 1;
    const unsigned char next = byte == 0xC2 && left > 1 ? (unsigned char)text[1] : 0;
    return next >= 0x80 && next < 0xA0 ? 2 : 0; /* U+0080 to U+009F */
}

void generation_write(const generator *g, const char *text, size_t bytes) {
    size_t begin = 0; /* start of the unwritten part */
    for (size_t at = 0; g->to_terminal && at < bytes;) {
        const size_t control = control_bytes(text + at, bytes - at);
        if (control > 0) {
            fwrite(text + begin, 1, at - begin, stdout);
            fputc('?', stdout);
            begin = at + control;
        }
        at += control > 0 ? control : 1;
    }
    fwrite(text + begin, 1, bytes - begin, stdout);
    ig_cli_flush(g->cli);
}

void generation_report(const generator *g, const ig_generated *made) {
    if (made->prefill_ms == 0) return; /* prefill did not run */
    ig_run_stage(g->cli, "tokenize", made->tokenize_ms);
    ig_run_stage(g->cli, "prefill", made->prefill_ms);
    ig_run_first(g->cli, "first_token", made->first_token_ms);
    ig_run_stage(g->cli, "decode", made->decode_ms);
    ig_run_stage(g->cli, "detokenize", made->detokenize_ms);
    ig_run_event(g->cli, "prefill", made->decode_ms);
    ig_run_event(g->cli, "first_token",
                 made->decode_ms - (made->first_token_ms - made->prefill_ms));
    ig_run_event(g->cli, "decode", 0);
}

static double per_second(int64_t tokens, double ms) {
    return tokens > 0 && ms > 0 ? (double)tokens / ms * 1e3 : 0;
}

generation_rates generation_rates_of(const ig_generated *made) {
    const double drawing_ms = made->first_token_ms - made->prefill_ms; /* the first */
    return (generation_rates){
        .prefill = per_second(made->n_prompt_tokens,
                              made->prefill_ms - made->tokenize_ms - made->prefill_plan_ms),
        .decode =
            per_second(made->n_generated - 1, made->decode_ms - drawing_ms - made->decode_plan_ms)};
}

static json_t *rate_json(double rate) { return rate > 0 ? ig_json_real(rate) : json_null(); }

void generation_add_rates(json_t *root, const ig_generated *made) {
    const generation_rates rates = generation_rates_of(made);
    json_object_set_new(root, "prompt_tokens_per_s", rate_json(rates.prefill));
    json_object_set_new(root, "tokens_per_s", rate_json(rates.decode));
}

enum { RATE_BYTES = 48 };

static const char *rate_text(double rate, char out[RATE_BYTES]) {
    *out = 0;
    if (rate > 0) snprintf(out, RATE_BYTES, " (%.1f tok/s)", rate);
    return out;
}

void generation_say(const generator *g, const ig_generated *made) {
    const generation_rates rates = generation_rates_of(made);
    char prefill[RATE_BYTES], decode[RATE_BYTES], drafts[80] = "";
    if (!g->cli->verbose || made->prefill_ms == 0) return;
    if (g->options->draft_ngram > 0)
        snprintf(drafts, sizeof drafts, "; accepted %lld of %lld draft tokens",
                 (long long)made->n_accepted, (long long)made->n_drafted);
    ig_cli_say(g->cli, "prompt: %lld tokens%s; generated: %lld tokens%s%s",
               (long long)made->n_prompt_tokens, rate_text(rates.prefill, prefill),
               (long long)made->n_generated, rate_text(rates.decode, decode), drafts);
}

json_t *speculation_json(const generator *g, const ig_generated *made) {
    const double share =
        made->n_drafted > 0 ? (double)made->n_accepted / (double)made->n_drafted : 0;
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "ngram", (json_int_t)g->options->draft_ngram,
                     "draft_max", (json_int_t)g->options->draft_max, "drafted",
                     (json_int_t)made->n_drafted, "accepted", (json_int_t)made->n_accepted,
                     "acceptance_rate", ig_json_real(share));
}

const char *generation_finish_name(ig_finish finish) {
    static const char *const names[] = {[IG_FINISH_LENGTH] = "length",
                                        [IG_FINISH_STOP] = "stop",
                                        [IG_FINISH_CANCELLED] = "cancelled"};
    return names[finish];
}

bool generation_keep(const generator *g, generation_text *text, const char *bytes, size_t n_bytes) {
    if (!IG_GROW(&g->cli->allocator, text->bytes, &text->room, text->used + n_bytes + 1))
        return false;
    memcpy(text->bytes + text->used, bytes, n_bytes);
    text->used += n_bytes;
    text->bytes[text->used] = 0;
    return true;
}

/* ---- Options: the spellings are llama.cpp's, and so is what 0 means ---- */

static const char *template_suggestion(size_t i) {
    static const char *const others[] = {"auto", "none"};
    return i < 2 ? others[i] : ig_chat_builtin_name(i - 2);
}

#define OPTION(member) offsetof(generation_options, member)

const ig_opt generation_opts[] = {
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text to continue", .value = "TEXT",
     .flags = OPT_FIRST},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "read the text from a file; -: standard input",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_FLAG, 0, "no-display-prompt", OPTION(hide_prompt),
     .help = "print the generated text without the prompt"},
    {OPT_TEXT, 0, "prompt-cache", OPTION(prompt_cache),
     .help = "save and restore the prompt's KV cache in this file", .value = "FILE",
     .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_INT, 0, "logprobs", OPTION(n_logprobs),
     .help = "with --json: log-probabilities of each token and of its N most likely alternatives",
     .value = "N", .alias = "n-probs", .initial = "0", .low = 0, .high = 100},
    {OPT_FLAG, 0, "profile", OPTION(profile),
     .help = "print where the time went: each kind of step with its share, bytes and rates; runs "
             "the prompt twice"},
    {OPT_IGNORED, 0, "no-conversation", .help = "'generate' continues a text", .alias = "no-cnv",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "conversation", .help = "use 'ingot chat' for a conversation", .alias = "cnv",
     .flags = OPT_HIDDEN},
    /* From here on the options are shared with chat: GENERATION_SHARED. */
    {OPT_IGNORED, 0, "conversation", .help = "'chat' is always a conversation", .alias = "cnv",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "no-conversation", .help = "'ingot generate' continues a text",
     .alias = "no-cnv", .flags = OPT_HIDDEN},
    {OPT_TABLE, .to = OPTION(model), .table = model_file_opts},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {OPT_INT, 'n', "n-predict", OPTION(max_tokens),
     .help = "tokens to generate; 0 or -1: until the context is full", .value = "N",
     .alias = "predict tokens", .initial = "0", .low = -1, .high = 1e12, .flags = OPT_FIRST},
    {OPT_REAL, 0, "temp", OPTION(temperature), .help = "sampling temperature; 0: greedy",
     .value = "X", .alias = "temperature", .initial = "0.8", .low = 0, .high = 1e6,
     .flags = OPT_FIRST},
    {OPT_INT, 0, "top-k", OPTION(top_k), .help = "top-k sampling; 0: off", .value = "N",
     .initial = "40", .low = 0, .high = 1e6, .flags = OPT_FIRST},
    {OPT_REAL, 0, "top-p", OPTION(top_p), .help = "top-p (nucleus) sampling; 1: off", .value = "X",
     .initial = "0.95", .low = 0, .high = 1, .flags = OPT_FIRST},
    {OPT_REAL, 0, "min-p", OPTION(min_p),
     .help = "min-p sampling, relative to the most likely token; 0: off", .value = "X",
     .initial = "0.05", .low = 0, .high = 1},
    {OPT_REAL, 0, "repeat-penalty", OPTION(repeat_penalty), .help = "repetition penalty; 1: off",
     .value = "X", .initial = "1", .low = 0.01, .high = 100},
    {OPT_INT, 0, "repeat-last-n", OPTION(repeat_last_n),
     .help = "number of last tokens to penalize; 0: none", .value = "N", .initial = "64", .low = 0,
     .high = 1e6},
    {OPT_INT, 's', "seed", OPTION(seed), .help = "RNG seed; -1: random", .value = "N",
     .initial = "0", .low = -1, .high = 9e18, .flags = OPT_FIRST},
    {OPT_TEXT, 'r', "stop", OPTION(stop),
     .help = "stop string: generation ends before it; may be given several times", .value = "TEXT",
     .alias = "reverse-prompt", .flags = OPT_REPEAT},
    {OPT_REAL, 0, "typical", OPTION(typical_p), .help = "locally typical sampling; 1: off",
     .value = "X", .alias = "typical-p", .initial = "1", .low = 0, .high = 1},
    {OPT_REAL, 0, "presence-penalty", OPTION(presence_penalty), .help = "presence penalty; 0: off",
     .value = "X", .initial = "0", .low = -100, .high = 100},
    {OPT_REAL, 0, "frequency-penalty", OPTION(frequency_penalty),
     .help = "frequency penalty; 0: off", .value = "X", .initial = "0", .low = -100, .high = 100},
    {OPT_INT, 0, "mirostat", OPTION(mirostat),
     .help = "2: Mirostat 2 instead of top-k, top-p, min-p and typical; 0: off", .value = "N",
     .initial = "0", .low = 0, .high = 2},
    {OPT_REAL, 0, "mirostat-ent", OPTION(mirostat_tau),
     .help = "Mirostat target entropy (tau), in bits", .value = "X", .alias = "mirostat-tau",
     .initial = "5", .low = 0.01, .high = 100},
    {OPT_REAL, 0, "mirostat-lr", OPTION(mirostat_eta), .help = "Mirostat learning rate (eta)",
     .value = "X", .alias = "mirostat-eta", .initial = "0.1", .low = 0.0001, .high = 10},
    {OPT_TEXT, 'l', "logit-bias", OPTION(biases),
     .help = "TOKEN+BIAS or TOKEN-BIAS: change the logit of a token; may be given several "
             "times",
     .value = "BIAS", .flags = OPT_REPEAT},
    {OPT_TEXT, 0, "chat-template", OPTION(format),
     .help = "chat template: auto (from the model), none (continue the text), or a built-in "
             "name",
     .value = "NAME", .suggestion = template_suggestion},
    {OPT_TEXT, 0, "chat-template-file", OPTION(template_file),
     .help = "a file with a Jinja chat template, instead of the model's own", .value = "FILE",
     .flags = OPT_FILE},
    {OPT_TEXT, 0, "system", OPTION(system), .help = "system prompt", .value = "TEXT",
     .alias = "sys system-prompt", .flags = OPT_FIRST},
    {OPT_INT, 0, "draft-ngram", OPTION(draft_ngram),
     .help = "n-gram speculative decoding: draft the tokens that followed an earlier "
             "occurrence of the last N tokens; the output does not change; 0: off",
     .value = "N", .initial = "0", .low = 0, .high = 64},
    {OPT_INT, 0, "draft-max", OPTION(draft_max), .help = "draft tokens per step", .value = "N",
     .alias = "draft draft-n", .initial = "7", .low = 1, .high = IG_DRAFT_MAX},
    {OPT_FLAG, 0, "ignore-eos", OPTION(ignore_eos),
     .help = "continue past the end-of-sequence token"},
    {0},
};
