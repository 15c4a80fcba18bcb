#include "server/fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_parse.h"
#include "ingot/model.h"

static const ig_field rows[IG_FIELD_COUNT];

const ig_field *ig_field_row(ig_field_id id) { return &rows[id]; }

const char *ig_body_name(int bit) {
    static const char *const names[IG_BODIES] = {
        "ChatCompletionRequest", "CompletionRequest",    "EmbeddingRequest", "TokenizeRequest",
        "DetokenizeRequest",     "ApplyTemplateRequest", "RerankRequest",    "ModelRequest"};
    return names[bit];
}

/* ---- words ---- */

static void add(char *out, size_t room, const char *text) {
    const size_t used = strlen(out);
    snprintf(out + used, room - used, "%s", text);
}

/* Large integers in full, others briefly. */
static void print_number(char *out, size_t room, double value) {
    snprintf(out, room, fabs(value) < 1e15 ? "%.15g" : "%.0f", value);
}

static void add_range(const ig_field *f, char *out, size_t room) {
    char least[32], most[32], text[80];
    print_number(least, sizeof least, f->min);
    print_number(most, sizeof most, f->max);
    snprintf(text, sizeof text, " from %s to %s", least, most);
    add(out, room, text);
}

static bool has_range(const ig_field *f) { return f->min != 0 || f->max != 0; }

static void add_most(const ig_field *f, char *out, size_t room, const char *of_what) {
    char most[32], text[64];
    print_number(most, sizeof most, f->max);
    snprintf(text, sizeof text, " of at most %s %s", most, of_what);
    add(out, room, text);
}

void ig_field_describe(const ig_field *f, char *out, size_t room) {
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {{IG_JSON_BOOLEAN, "true or false"}, {IG_JSON_INTEGER, "an integer"},
                 {IG_JSON_NUMBER, "a number"},       {IG_JSON_STRING, "a string"},
                 {IG_JSON_ARRAY, "an array"},        {IG_JSON_OBJECT, "an object"}};
    out[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const unsigned type = names[i].type;
        if (!(f->types & type)) continue;
        if (out[0]) add(out, room, " or ");
        add(out, room, names[i].name);
        if (!has_range(f)) continue;
        if (type & (IG_JSON_INTEGER | IG_JSON_NUMBER)) add_range(f, out, room);
        if (type == IG_JSON_STRING && f->types == type) add_most(f, out, room, "bytes");
        if (type == IG_JSON_ARRAY || (type == IG_JSON_OBJECT && f->types == type))
            add_most(f, out, room, "elements");
    }
}

/* ---- checks ---- */

static unsigned type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_TRUE:
    case JSON_FALSE: return IG_JSON_BOOLEAN;
    case JSON_INTEGER: return IG_JSON_INTEGER | IG_JSON_NUMBER;
    case JSON_REAL: {
        const double real = json_real_value(value);
        const bool is_whole = rint(real) == real && fabs(real) < 0x1p63;
        return IG_JSON_NUMBER | (is_whole ? IG_JSON_INTEGER : 0);
    }
    case JSON_STRING: return IG_JSON_STRING;
    case JSON_ARRAY: return IG_JSON_ARRAY;
    case JSON_OBJECT: return IG_JSON_OBJECT;
    default: return 0;
    }
}

/* Briefly, as an error shows it. */
static void print_value(const json_t *value, char *out, size_t room) {
    const unsigned type = type_of(value);
    if (type & (IG_JSON_ARRAY | IG_JSON_OBJECT)) {
        const bool is_array = type == IG_JSON_ARRAY;
        snprintf(out, room, "%s of %zu elements", is_array ? "an array" : "an object",
                 is_array ? json_array_size(value) : json_object_size(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    snprintf(out, room, text && strlen(text) > 48 ? "%.48s..." : "%s", text ? text : "?");
    free(text);
}

static bool is_in_range(const ig_field *f, const json_t *value) {
    if (!has_range(f)) return true;
    if (json_is_number(value)) {
        const double number = json_number_value(value);
        return number >= f->min && number <= f->max;
    }
    const size_t most = (size_t)f->max;
    if (json_is_string(value))
        return f->types != IG_JSON_STRING || json_string_length(value) <= most;
    if (json_is_array(value)) return json_array_size(value) <= most;
    if (json_is_object(value)) return f->types != IG_JSON_OBJECT || json_object_size(value) <= most;
    return true;
}

static bool is_empty(const json_t *value) {
    return json_is_false(value) || (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool check(const ig_field *f, const json_t *value, ig_http_error *error) {
    char text[80], range[160];
    if (f->refusal) {
        if (is_empty(value)) return true;
        ig_refuse(error, 400, f->name, "%s: %s", f->name, f->refusal);
        error->type = "not_supported_error";
        return false;
    }
    if ((type_of(value) & f->types) && is_in_range(f, value)) return true;
    print_value(value, text, sizeof text);
    ig_field_describe(f, range, sizeof range);
    return ig_refuse(error, 400, f->name, "%s is %s, but must be %s", f->name, text, range);
}

/* The row of a name; -1: none. */
static int find(const char *name, unsigned body) {
    for (int i = 0; i < IG_FIELD_COUNT; i++)
        if ((rows[i].bodies & body) && strcmp(rows[i].name, name) == 0) return i;
    return -1;
}

bool ig_fields_read(json_t *object, unsigned body, void (*unknown)(void *user, const char *name),
                    void *user, ig_fields *out, ig_http_error *error) {
    const char *name;
    json_t *value;
    *out = (ig_fields){0};
    json_object_foreach(object, name, value) {
        const int i = find(name, body);
        if (json_is_null(value)) continue;
        if (i < 0 && unknown) unknown(user, name);
        if (i < 0) continue;
        if (!check(&rows[i], value, error)) return false;
        if (!rows[i].refusal) out->at[i] = value;
    }
    return true;
}

double ig_fields_number(const ig_fields *f, ig_field_id id) {
    return f->at[id] ? json_number_value(f->at[id]) : rows[id].standard;
}

int64_t ig_fields_int(const ig_fields *f, ig_field_id id) {
    if (json_is_integer(f->at[id])) return json_integer_value(f->at[id]);
    const double number = ig_fields_number(f, id);
    return isnan(number) ? 0 : (int64_t)number;
}

bool ig_fields_bool(const ig_fields *f, ig_field_id id) {
    return f->at[id] ? json_is_true(f->at[id]) : rows[id].standard == 1;
}

const char *ig_fields_text(const ig_fields *f, ig_field_id id) {
    return json_string_value(f->at[id]);
}

/* ---- bodies ---- */

enum { MAX_DEPTH = 64 };

/* Levels of brackets outside of strings. */
static int depth_of(const char *bytes, size_t n_bytes) {
    int depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < n_bytes; i++) {
        const char c = bytes[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            deepest = ++depth > deepest ? depth : deepest;
        else if (!in_string && (c == '}' || c == ']'))
            depth--;
    }
    return deepest;
}

bool ig_body_parse(const char *bytes, size_t n_bytes, json_t **out, ig_http_error *error) {
    char words[sizeof error->message];
    json_t *value = NULL;
    if (n_bytes == 0)
        return ig_refuse(error, 400, NULL, "the body is empty, but must be a JSON object");
    const int depth = depth_of(bytes, n_bytes);
    if (depth > MAX_DEPTH)
        return ig_refuse(error, 400, NULL, "the body is nested %d deep, but at most %d is allowed",
                         depth, MAX_DEPTH);
    const ig_status status = ig_json_decode(IG_ERR_ARGUMENT, "request", "the body", bytes, n_bytes,
                                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &value);
    if (status != IG_OK) {
        ig_error_words(words, sizeof words);
        return ig_refuse(error, status == IG_ERR_MEMORY ? 503 : 400, NULL, "%s", words);
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return ig_refuse(error, 400, NULL, "the body is an array, but must be a JSON object");
    }
    *out = value;
    return true;
}

/* ---- the table ---- */

enum {
    BOOLEAN = IG_JSON_BOOLEAN,
    INTEGER = IG_JSON_INTEGER,
    NUMBER = IG_JSON_NUMBER,
    STRING = IG_JSON_STRING,
    ARRAY = IG_JSON_ARRAY,
    OBJECT = IG_JSON_OBJECT,
    ANY = BOOLEAN | NUMBER | STRING | ARRAY | OBJECT,

    CHAT = IG_BODY_CHAT,
    COMPLETION = IG_BODY_COMPLETION,
    GENERATE = IG_BODY_GENERATE,
    EMBEDDING = IG_BODY_EMBEDDING,
    TOKENIZE = IG_BODY_TOKENIZE,
    DETOKENIZE = IG_BODY_DETOKENIZE,
    TEMPLATE = IG_BODY_TEMPLATE,
    RERANK = IG_BODY_RERANK,
    MESSAGES = IG_BODY_MESSAGES,
};
#define NONE   NAN
#define TOKENS 1073741824 /* more than any context */

static const char constrained[] = "constrained output is not supported yet";

static const ig_field rows[IG_FIELD_COUNT] = {
    [IG_FIELD_MODEL] = {"model", ~0u, STRING, 0, 512, NONE,
                        "Id of the model, as in `GET /v1/models`. A server with one model takes "
                        "any name, unless it was started with `--strict-model`.",
                        NULL},

    [IG_FIELD_MESSAGES] = {"messages", MESSAGES, ARRAY, 0, 4096, NONE,
                           "The conversation: objects with `role` (`system` or `developer`, "
                           "`user`, `assistant`, `tool`) and `content`, a string or an array of "
                           "`text` parts, which are joined by a blank line. `tool_calls`, "
                           "`tool_call_id`, `name` and `reasoning_content` go to the template.",
                           NULL},
    [IG_FIELD_TOOLS] = {"tools", MESSAGES, ARRAY, 0, 256, NONE,
                        "Definitions that the template renders. Calls remain text of the reply.",
                        NULL},
    [IG_FIELD_TOOL_CHOICE] = {"tool_choice", MESSAGES, STRING | OBJECT, 0, 0, NONE,
                              "`auto`, or `none`: the template does not see the tools.", NULL},
    [IG_FIELD_PARALLEL_TOOL_CALLS] = {"parallel_tool_calls", CHAT, BOOLEAN, 0, 0, NONE,
                                      "Without effect.", NULL},
    [IG_FIELD_CHAT_TEMPLATE_KWARGS] = {"chat_template_kwargs", MESSAGES, OBJECT, 0, 64, NONE,
                                       "Variables of the template, as "
                                       "`{\"enable_thinking\": false}`.",
                                       NULL},
    [IG_FIELD_REASONING_EFFORT] = {"reasoning_effort", MESSAGES, STRING, 0, 16, NONE,
                                   "A variable of the template; `none` also sets "
                                   "`enable_thinking` to false.",
                                   NULL},
    [IG_FIELD_ADD_GENERATION_PROMPT] = {"add_generation_prompt", MESSAGES, BOOLEAN, 0, 0, 1,
                                        "End the prompt with the beginning of the reply.", NULL},
    [IG_FIELD_CONTINUE_FINAL_MESSAGE] = {"continue_final_message", MESSAGES, BOOLEAN, 0, 0, 0,
                                         "The last message, of the assistant, is continued.", NULL},
    [IG_FIELD_PROMPT] = {"prompt", COMPLETION | TOKENIZE, STRING | ARRAY, 0, TOKENS, NONE,
                         "A string, an array of token ids, or an array of at most 256 of these.",
                         NULL},
    [IG_FIELD_SUFFIX] = {"suffix", COMPLETION, STRING, 0, TOKENS, NONE,
                         "Text that follows the completion; for models with fill-in-the-middle "
                         "tokens.",
                         NULL},
    [IG_FIELD_ECHO] = {"echo", COMPLETION, BOOLEAN, 0, 0, 0,
                       "Begin the reply with the prompt; with `logprobs` also with theirs.", NULL},

    [IG_FIELD_MAX_TOKENS] = {"max_tokens", GENERATE, INTEGER, -1, TOKENS, NONE,
                             "Tokens of each choice, at most. 0: only put the prompt into the "
                             "prefix cache; -1: until the context is full.",
                             NULL},
    [IG_FIELD_MAX_COMPLETION_TOKENS] = {"max_completion_tokens", CHAT, INTEGER, -1, TOKENS, NONE,
                                        "The newer name of `max_tokens`.", NULL},
    [IG_FIELD_N_PREDICT] = {"n_predict", GENERATE, INTEGER, -1, TOKENS, NONE,
                            "Another name of `max_tokens`.", NULL},
    [IG_FIELD_MIN_TOKENS] = {"min_tokens", GENERATE, INTEGER, 0, TOKENS, 0,
                             "Before these, nothing ends the reply.", NULL},
    [IG_FIELD_STOP] = {"stop", GENERATE, STRING | ARRAY, 0, 16, NONE,
                       "Strings of at most 256 bytes that end the reply, and are not part of it.",
                       NULL},
    [IG_FIELD_STOP_TOKEN_IDS] = {"stop_token_ids", GENERATE, ARRAY, 0, 64, NONE,
                                 "Tokens that end the reply, besides the model's.", NULL},
    [IG_FIELD_IGNORE_EOS] = {"ignore_eos", GENERATE, BOOLEAN, 0, 0, 0, "Continue past EOS.", NULL},

    [IG_FIELD_N] = {"n", GENERATE, INTEGER, 1, 128, 1,
                    "Choices for each prompt; together at most 256.", NULL},
    [IG_FIELD_BEST_OF] = {"best_of", COMPLETION, INTEGER, 1, 128, NONE, "Must equal `n`.", NULL},
    [IG_FIELD_TEMPERATURE] = {"temperature", GENERATE, NUMBER, 0, 10, NONE,
                              "0: greedy. Default: the model's, else 0.8.", NULL},
    [IG_FIELD_TOP_P] = {"top_p", GENERATE, NUMBER, 0, 1, NONE,
                        "Default: the model's, else 0.95. 1: off.", NULL},
    [IG_FIELD_TOP_K] = {"top_k", GENERATE, INTEGER, -1, TOKENS, NONE,
                        "Default: the model's, else 40. 0 or -1: off.", NULL},
    [IG_FIELD_MIN_P] = {"min_p", GENERATE, NUMBER, 0, 1, NONE,
                        "Default: the model's, else 0.05. 0: off.", NULL},
    [IG_FIELD_TYPICAL_P] = {"typical_p", GENERATE, NUMBER, 0, 1, NONE,
                            "Locally typical sampling. Default: the model's, else 1, off.", NULL},
    [IG_FIELD_REPEAT_PENALTY] = {"repeat_penalty", GENERATE, NUMBER, 0.01, 10, NONE,
                                 "Default: the model's, else 1, off.", NULL},
    [IG_FIELD_REPETITION_PENALTY] = {"repetition_penalty", GENERATE, NUMBER, 0.01, 10, NONE,
                                     "Another name of `repeat_penalty`.", NULL},
    [IG_FIELD_REPEAT_LAST_N] = {"repeat_last_n", GENERATE, INTEGER, -1, 1048576, NONE,
                                "Tokens that penalties look back at. Default: the model's, else "
                                "64. 0: no penalties; -1: the context.",
                                NULL},
    [IG_FIELD_PRESENCE_PENALTY] = {"presence_penalty", GENERATE, NUMBER, -2, 2, NONE,
                                   "Default: the model's, else 0.", NULL},
    [IG_FIELD_FREQUENCY_PENALTY] = {"frequency_penalty", GENERATE, NUMBER, -2, 2, NONE,
                                    "Default: the model's, else 0.", NULL},
    [IG_FIELD_MIROSTAT] = {"mirostat", GENERATE, INTEGER, 0, 2, 0, "0: off; 2: version 2.", NULL},
    [IG_FIELD_MIROSTAT_TAU] = {"mirostat_tau", GENERATE, NUMBER, 0, 100, 5,
                               "Target surprise, in bits.", NULL},
    [IG_FIELD_MIROSTAT_ETA] = {"mirostat_eta", GENERATE, NUMBER, 0, 10, 0.1, "Step size.", NULL},
    [IG_FIELD_SEED] = {"seed", GENERATE, INTEGER, -0x1p63, 0x1p63, NONE,
                       "Equal seeds give equal replies. Default: random, as is -1.", NULL},
    [IG_FIELD_LOGIT_BIAS] = {"logit_bias", GENERATE, ARRAY | OBJECT, 0, 1024, NONE,
                             "From -100 to 100 for token ids, or the tokens of texts; false: "
                             "never. An object, or an array of pairs.",
                             NULL},

    [IG_FIELD_STREAM] = {"stream", GENERATE, BOOLEAN, 0, 0, 0, "Server-sent events.", NULL},
    [IG_FIELD_STREAM_OPTIONS] = {"stream_options", GENERATE, OBJECT, 0, 16, NONE,
                                 "`{\"include_usage\": true}`: a last chunk with `usage`.", NULL},
    [IG_FIELD_CHAT_LOGPROBS] = {"logprobs", CHAT, BOOLEAN, 0, 0, 0,
                                "Log-probabilities of the tokens.", NULL},
    [IG_FIELD_LOGPROBS] = {"logprobs", COMPLETION, INTEGER, 0, 20, NONE,
                           "Log-probabilities of the tokens, and this number of alternatives.",
                           NULL},
    [IG_FIELD_TOP_LOGPROBS] = {"top_logprobs", CHAT, INTEGER, 0, 20, 0,
                               "Alternatives for each token; needs `logprobs`.", NULL},
    [IG_FIELD_REASONING_FORMAT] = {"reasoning_format", CHAT, STRING, 0, 16, NONE,
                                   "Where thoughts are: `deepseek`: in `reasoning_content`; "
                                   "`both`: in `reasoning`, too; `none`: in `content`. Default: "
                                   "`--reasoning-format`.",
                                   NULL},
    [IG_FIELD_RETURN_PROGRESS] = {"return_progress", GENERATE, BOOLEAN, 0, 0, 0,
                                  "Chunks with `prompt_progress` while the prompt is computed.",
                                  NULL},
    [IG_FIELD_TIMINGS_PER_TOKEN] = {"timings_per_token", GENERATE, BOOLEAN, 0, 0, 0,
                                    "`timings` in every chunk.", NULL},
    [IG_FIELD_RETURN_TOKEN_IDS] = {"return_token_ids", GENERATE, BOOLEAN, 0, 0, 0,
                                   "`prompt_token_ids` and each choice's `token_ids`.", NULL},
    [IG_FIELD_REPORT] = {"report", GENERATE, BOOLEAN, 0, 0, 0,
                         "The run report in `report`; not for streams.", NULL},

    [IG_FIELD_PRIORITY] = {"priority", GENERATE, INTEGER, -1000, 1000, 0,
                           "Higher first, among the requests of one key or client.", NULL},
    [IG_FIELD_CACHE_PROMPT] = {"cache_prompt", GENERATE, BOOLEAN, 0, 0, 1, "Use the prefix cache.",
                               NULL},
    [IG_FIELD_CACHE_SALT] = {"cache_salt", GENERATE, STRING, 0, 256, NONE,
                             "Requests share cached prefixes only if their salts are equal.", NULL},
    [IG_FIELD_DRAFT_NGRAM] = {"draft_ngram", GENERATE, INTEGER, 0, 64, NONE,
                              "Speculative decoding with n-grams of this length, which changes "
                              "no reply; 0: off. Default: `--draft-ngram`.",
                              NULL},
    [IG_FIELD_DRAFT_MAX] = {"draft_max", GENERATE, INTEGER, 0, IG_DRAFT_MAX, NONE,
                            "Draft tokens per step, at most; 0: 7. Default: `--draft-max`.", NULL},

    [IG_FIELD_INPUT] = {"input", EMBEDDING, STRING | ARRAY, 0, TOKENS, NONE,
                        "A string, an array of token ids, or an array of at most 256 of these.",
                        NULL},
    [IG_FIELD_ENCODING_FORMAT] = {"encoding_format", EMBEDDING, STRING, 0, 16, NONE,
                                  "`float`, or `base64`: little-endian F32. Default: `float`.",
                                  NULL},
    [IG_FIELD_DIMENSIONS] = {"dimensions", EMBEDDING, INTEGER, 1, 1048576, NONE,
                             "Keep the first ones, and normalize again. Default: all.", NULL},

    [IG_FIELD_CONTENT] = {"content", TOKENIZE, STRING, 0, TOKENS, NONE, "The text.", NULL},
    [IG_FIELD_TOKENS] = {"tokens", DETOKENIZE, ARRAY, 0, TOKENS, NONE, "Token ids.", NULL},
    [IG_FIELD_ADD_SPECIAL] = {"add_special", TOKENIZE, BOOLEAN, 0, 0, NONE,
                              "Add BOS where the model's file says so. Default: for `prompt` "
                              "alone, as in vLLM.",
                              NULL},
    [IG_FIELD_ADD_SPECIAL_TOKENS] = {"add_special_tokens", TOKENIZE, BOOLEAN, 0, 0, NONE,
                                     "vLLM's name of `add_special`.", NULL},
    [IG_FIELD_PARSE_SPECIAL] = {"parse_special", TOKENIZE, BOOLEAN, 0, 0, 1,
                                "Names of control tokens in the text are these tokens.", NULL},
    [IG_FIELD_WITH_PIECES] = {"with_pieces", TOKENIZE, BOOLEAN, 0, 0, 0,
                              "`{id, piece}` for each token; a piece that is not UTF-8 is an "
                              "array of bytes.",
                              NULL},
    [IG_FIELD_RETURN_TOKEN_STRS] = {"return_token_strs", TOKENIZE, BOOLEAN, 0, 0, 0,
                                    "The texts of the tokens in `token_strs`, as in vLLM.", NULL},

    [IG_FIELD_QUERY] = {"query", RERANK, STRING, 0, TOKENS, NONE, "The query.", NULL},
    [IG_FIELD_DOCUMENTS] = {"documents", RERANK, ARRAY, 0, 256, NONE, "Texts.", NULL},
    [IG_FIELD_TEXTS] = {"texts", RERANK, ARRAY, 0, 256, NONE, "Another name of `documents`.", NULL},
    [IG_FIELD_TOP_N] = {"top_n", RERANK, INTEGER, 1, 1048576, NONE, "Results, at most.", NULL},
    [IG_FIELD_RETURN_DOCUMENTS] = {"return_documents", RERANK, BOOLEAN, 0, 0, 0,
                                   "Add the texts to the results.", NULL},

    [IG_FIELD_USER] = {"user", GENERATE | EMBEDDING, STRING, 0, TOKENS, NONE, "Without effect.",
                       NULL},
    [IG_FIELD_STORE] = {"store", CHAT, BOOLEAN, 0, 0, NONE, "Without effect: nothing is stored.",
                        NULL},
    [IG_FIELD_METADATA] = {"metadata", CHAT, OBJECT, 0, 0, NONE, "Without effect.", NULL},
    [IG_FIELD_SERVICE_TIER] = {"service_tier", CHAT, STRING, 0, 64, NONE, "Without effect.", NULL},
    [IG_FIELD_SAFETY_IDENTIFIER] = {"safety_identifier", CHAT, STRING, 0, TOKENS, NONE,
                                    "Without effect.", NULL},
    [IG_FIELD_PROMPT_CACHE_KEY] = {"prompt_cache_key", CHAT, STRING, 0, TOKENS, NONE,
                                   "Without effect: prefixes are found by their tokens.", NULL},

    [IG_FIELD_RESPONSE_FORMAT] = {"response_format", GENERATE, OBJECT, 0, 0, NONE,
                                  "`{\"type\": \"text\"}`. JSON formats are refused: "
                                  "not supported yet.",
                                  NULL},
    [IG_FIELD_JSON_SCHEMA] = {"json_schema", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_GRAMMAR] = {"grammar", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_STRUCTURED_OUTPUTS] = {"structured_outputs", GENERATE, ANY, 0, 0, NONE, "",
                                     constrained},
    [IG_FIELD_GUIDED_JSON] = {"guided_json", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_GUIDED_REGEX] = {"guided_regex", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_GUIDED_CHOICE] = {"guided_choice", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_GUIDED_GRAMMAR] = {"guided_grammar", GENERATE, ANY, 0, 0, NONE, "", constrained},
    [IG_FIELD_FUNCTIONS] = {"functions", CHAT, ANY, 0, 0, NONE, "",
                            "the old form of tools is not supported, use tools"},
    [IG_FIELD_MODALITIES] = {"modalities", CHAT, ARRAY, 0, 8, NONE, "`[\"text\"]`.", NULL},
    [IG_FIELD_AUDIO] = {"audio", CHAT, ANY, 0, 0, NONE, "", "models here read and write text"},
    [IG_FIELD_WEB_SEARCH_OPTIONS] = {"web_search_options", CHAT, ANY, 0, 0, NONE, "",
                                     "the server reaches no network"},
    [IG_FIELD_LORA] = {"lora", GENERATE, ANY, 0, 0, NONE, "",
                       "LoRA adapters are not supported yet"},
    [IG_FIELD_CHAT_TEMPLATE] = {"chat_template", MESSAGES, ANY, 0, 0, NONE, "",
                                "requests cannot bring a template; --chat-template sets it for "
                                "the server"},
};
