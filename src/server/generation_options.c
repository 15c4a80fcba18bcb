/*
 * The fields of a request as an ig_request: sampling, what ends a reply, and what is replied.
 *
 * A sampling option is the request's, else that of the model's file, else the engine's default.  In
 * ig_sampling 0 means the default, so values that turn something off are replaced.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "server/serve_generation.h"

enum {
    MAX_STOP_BYTES = 256,
    MAX_BIASES = 4096, /* each token that is sampled takes as many additions */
};

/* ---- sampling ---- */

static bool given(const ig_generation *g, ig_field_id id) {
    return ig_fields_given(&g->work.fields, id);
}

static double number(const ig_generation *g, ig_field_id id) {
    return ig_fields_number(&g->work.fields, id);
}

/* A number for which 0 has a meaning that ig_sampling writes as `zero`. */
static void take_number(const ig_generation *g, ig_field_id id, double zero, double *out) {
    if (!given(g, id)) return;
    *out = number(g, id);
    if (*out == 0) *out = zero;
}

static uint64_t seed_of(const ig_generation *g) {
    uint64_t seed = 0;
    if (given(g, IG_FIELD_SEED)) {
        const int64_t value = ig_fields_int(&g->work.fields, IG_FIELD_SEED);
        if (value != -1) return (uint64_t)value;
    }
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = ig_clock_ns();
    return seed;
}

static void read_penalties(ig_generation *g, ig_sampling *s) {
    take_number(g, IG_FIELD_REPETITION_PENALTY, 1, &s->repeat_penalty);
    take_number(g, IG_FIELD_REPEAT_PENALTY, 1, &s->repeat_penalty);
    take_number(g, IG_FIELD_PRESENCE_PENALTY, 0, &s->presence_penalty);
    take_number(g, IG_FIELD_FREQUENCY_PENALTY, 0, &s->frequency_penalty);
    if (!given(g, IG_FIELD_REPEAT_LAST_N)) return;
    s->repeat_last_n = (int)ig_fields_int(&g->work.fields, IG_FIELD_REPEAT_LAST_N);
    if (s->repeat_last_n < 0) s->repeat_last_n = (int)g->work.served->ctx_len;
    if (s->repeat_last_n > 0) return;
    s->repeat_penalty = 1;
    s->presence_penalty = s->frequency_penalty = 0;
}

static void read_sampling(ig_generation *g) {
    const ig_fields *f = &g->work.fields;
    ig_sampling *s = &g->request.sampling;
    *s = g->work.served->sampling;
    s->biases = NULL;
    s->n_biases = 0;
    take_number(g, IG_FIELD_TEMPERATURE, -1, &s->temperature);
    take_number(g, IG_FIELD_TOP_P, 1e-9, &s->top_p);
    take_number(g, IG_FIELD_MIN_P, -1, &s->min_p);
    take_number(g, IG_FIELD_TYPICAL_P, 1, &s->typical_p);
    take_number(g, IG_FIELD_MIROSTAT_TAU, 1e-9, &s->mirostat_tau);
    take_number(g, IG_FIELD_MIROSTAT_ETA, 1e-9, &s->mirostat_eta);
    if (given(g, IG_FIELD_TOP_K)) {
        const int64_t top_k = ig_fields_int(f, IG_FIELD_TOP_K);
        s->top_k = top_k > 0 ? (int)top_k : -1;
    }
    if (given(g, IG_FIELD_MIROSTAT)) s->mirostat = (int)ig_fields_int(f, IG_FIELD_MIROSTAT);
    read_penalties(g, s);
    s->seed = seed_of(g);
}

/* ---- biases ---- */

static bool refuse_bias(ig_generation *g, const char *what) {
    return ig_refuse(&g->work.error, 400, "logit_bias",
                     "logit_bias: %s, but must be token ids or texts with numbers from -100 to 100 "
                     "or false",
                     what);
}

static bool bias_value(const json_t *value, float *out) {
    const double number = json_number_value(value);
    if (json_is_false(value)) *out = -INFINITY;
    if (json_is_number(value)) *out = (float)number;
    return json_is_false(value) || (json_is_number(value) && fabs(number) <= 100);
}

typedef struct bias_list {
    ig_logit_bias *at;
    size_t count, room;
} bias_list;

static bool add_bias(ig_generation *g, bias_list *list, int64_t id, float bias) {
    if (id < 0 || id >= g->work.served->n_vocab)
        return ig_refuse(&g->work.error, 400, "logit_bias",
                         "logit_bias: %lld is not a token, ids are below %lld", (long long)id,
                         (long long)g->work.served->n_vocab);
    if (list->count == MAX_BIASES)
        return ig_refuse(&g->work.error, 400, "logit_bias",
                         "logit_bias: the texts have more than %d tokens", MAX_BIASES);
    if (!IG_GROW(g->work.allocator, list->at, &list->room, list->count + 1))
        return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    list->at[list->count++] = (ig_logit_bias){(int32_t)id, bias};
    g->biases = list->at;
    g->request.sampling.n_biases = list->count;
    return true;
}

/* All tokens of a text. */
static bool add_text_bias(ig_generation *g, bias_list *list, const char *text, size_t n_bytes,
                          float bias) {
    ig_tokens tokens = {.allocator = g->work.allocator};
    bool good = ig_tokenize(g->work.served->tokenizer, text, n_bytes,
                            IG_TOKENIZE_PARSE_SPECIAL | IG_TOKENIZE_CONTINUES, &tokens) == IG_OK;
    if (!good) ig_refuse(&g->work.error, 503, NULL, "out of memory");
    for (size_t i = 0; good && i < tokens.count; i++) good = add_bias(g, list, tokens.at[i], bias);
    ig_tokens_deinit(&tokens);
    return good;
}

static bool is_id(const char *key) {
    const size_t digits = strspn(key, "0123456789");
    return digits > 0 && digits < 10 && key[digits] == '\0';
}

static bool add_named_bias(ig_generation *g, bias_list *list, const char *key,
                           const json_t *value) {
    float bias;
    if (!bias_value(value, &bias)) return refuse_bias(g, "a value is out of range");
    return is_id(key) ? add_bias(g, list, strtoll(key, NULL, 10), bias)
                      : add_text_bias(g, list, key, strlen(key), bias);
}

static bool add_bias_pair(ig_generation *g, bias_list *list, const json_t *entry) {
    const json_t *key = json_array_get(entry, 0), *value = json_array_get(entry, 1);
    float bias;
    if (json_array_size(entry) != 2) return refuse_bias(g, "an entry is not a pair");
    if (!bias_value(value, &bias)) return refuse_bias(g, "a value is out of range");
    if (json_is_integer(key)) return add_bias(g, list, json_integer_value(key), bias);
    if (!json_is_string(key)) return refuse_bias(g, "an entry has no token");
    return add_text_bias(g, list, json_string_value(key), json_string_length(key), bias);
}

static bool read_biases(ig_generation *g) {
    json_t *field = g->work.fields.at[IG_FIELD_LOGIT_BIAS], *value;
    bias_list list = {0};
    const char *key;
    size_t i;
    if (json_is_object(field)) {
        json_object_foreach(field, key, value) {
            if (!add_named_bias(g, &list, key, value)) return false;
        }
    } else {
        json_array_foreach(field, i, value) {
            if (!add_bias_pair(g, &list, value)) return false;
        }
    }
    g->request.sampling.biases = g->biases;
    return true;
}

/* ---- what ends a reply ---- */

static bool add_stop(ig_generation *g, const json_t *value) {
    const char *text = json_string_value(value);
    const size_t bytes = json_string_length(value);
    if (!text || bytes > MAX_STOP_BYTES || strlen(text) != bytes)
        return ig_refuse(&g->work.error, 400, "stop",
                         "stop: must be strings of at most %d bytes without NUL", MAX_STOP_BYTES);
    if (bytes > 0) g->stops[g->request.n_stop++] = text;
    return true;
}

static bool read_stops(ig_generation *g) {
    json_t *field = g->work.fields.at[IG_FIELD_STOP], *value;
    size_t i;
    g->stops = ig_alloc(g->work.allocator, json_array_size(field) + 2, sizeof *g->stops);
    if (!g->stops) return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    g->request.stop = g->stops;
    if (json_is_string(field)) return add_stop(g, field);
    json_array_foreach(field, i, value) {
        if (!add_stop(g, value)) return false;
    }
    return true;
}

static bool read_stop_tokens(ig_generation *g) {
    json_t *field = g->work.fields.at[IG_FIELD_STOP_TOKEN_IDS], *value;
    const int64_t vocabulary = g->work.served->n_vocab;
    const size_t count = json_array_size(field);
    size_t i;
    if (count == 0) return true;
    g->stop_tokens = ig_alloc(g->work.allocator, count, sizeof *g->stop_tokens);
    if (!g->stop_tokens) return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    json_array_foreach(field, i, value) {
        const int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= vocabulary)
            return ig_refuse(&g->work.error, 400, "stop_token_ids",
                             "stop_token_ids[%zu]: must be a token id below %lld", i,
                             (long long)vocabulary);
        g->stop_tokens[i] = (int32_t)id;
    }
    g->request.stop_tokens = g->stop_tokens;
    g->request.n_stop_tokens = count;
    return true;
}

static void read_length(ig_generation *g) {
    static const ig_field_id names[] = {IG_FIELD_MAX_COMPLETION_TOKENS, IG_FIELD_MAX_TOKENS,
                                        IG_FIELD_N_PREDICT};
    const ig_fields *f = &g->work.fields;
    g->request.max_tokens = ig_server_get_options(g->work.server)->default_max_tokens;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!ig_fields_given(f, names[i])) continue;
        const int64_t most = ig_fields_int(f, names[i]);
        g->request.max_tokens = most > 0 ? most : 0;
        g->request.prefill_only = most == 0;
        break;
    }
    g->request.min_tokens = ig_fields_int(f, IG_FIELD_MIN_TOKENS);
    g->request.ignore_eos = ig_fields_bool(f, IG_FIELD_IGNORE_EOS);
}

/* ---- what is replied ---- */

static bool read_stream(ig_generation *g) {
    const ig_fields *f = &g->work.fields;
    const json_t *options = f->at[IG_FIELD_STREAM_OPTIONS];
    const json_t *usage = json_object_get(options, "include_usage");
    g->stream = ig_fields_bool(f, IG_FIELD_STREAM);
    if (usage && !json_is_boolean(usage) && !json_is_null(usage))
        return ig_refuse(&g->work.error, 400, "stream_options.include_usage",
                         "stream_options.include_usage: must be true or false");
    g->include_usage = json_is_true(usage);
    g->return_progress = ig_fields_bool(f, IG_FIELD_RETURN_PROGRESS);
    g->timings_per_token = ig_fields_bool(f, IG_FIELD_TIMINGS_PER_TOKEN);
    g->return_token_ids = ig_fields_bool(f, IG_FIELD_RETURN_TOKEN_IDS);
    g->report = ig_fields_bool(f, IG_FIELD_REPORT);
    if (g->report && g->stream)
        return ig_refuse(&g->work.error, 400, "report",
                         "report: a stream has none, GET /v1/report does");
    return true;
}

/* "text" is the only one. */
static bool check_format(ig_generation *g) {
    const json_t *format = g->work.fields.at[IG_FIELD_RESPONSE_FORMAT];
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0)) return true;
    ig_refuse(&g->work.error, 400, "response_format",
              "response_format.type is %.40s, but must be text: constrained output is not "
              "supported yet",
              type ? type : "not a string");
    g->work.error.type = "not_supported_error";
    return false;
}

static bool check_modalities(ig_generation *g) {
    const json_t *modalities = g->work.fields.at[IG_FIELD_MODALITIES];
    for (size_t i = 0; i < json_array_size(modalities); i++) {
        const char *name = json_string_value(json_array_get(modalities, i));
        if (!name || strcmp(name, "text") != 0)
            return ig_refuse(&g->work.error, 400, "modalities",
                             "modalities: must be text, models here write nothing else");
    }
    return true;
}

static bool check_mirostat(ig_generation *g) {
    if (ig_fields_int(&g->work.fields, IG_FIELD_MIROSTAT) != 1) return true;
    return ig_refuse(&g->work.error, 400, "mirostat",
                     "mirostat is 1, but must be 0 or 2: version 1 is not supported");
}

/* Salts of a key and of a request never meet: the key's has a fixed length. */
static bool read_salt(ig_generation *g) {
    const ig_exchange_request *request = ig_exchange_get_request(g->work.x);
    const char *own = ig_fields_text(&g->work.fields, IG_FIELD_CACHE_SALT);
    const size_t own_bytes = json_string_length(g->work.fields.at[IG_FIELD_CACHE_SALT]);
    const size_t bytes = request->salt_bytes + own_bytes;
    g->request.party = request->party;
    if (bytes == 0) return true;
    g->salt = ig_alloc(g->work.allocator, bytes, 1);
    if (!g->salt) return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    if (request->salt_bytes > 0) memcpy(g->salt, request->salt, request->salt_bytes);
    if (own_bytes > 0) memcpy(g->salt + request->salt_bytes, own, own_bytes);
    g->request.salt = g->salt;
    g->request.salt_bytes = bytes;
    return true;
}

bool ig_generation_read_options(ig_generation *g) {
    const ig_fields *f = &g->work.fields;
    const ig_server_options *o = ig_server_get_options(g->work.server);
    g->n = (int)ig_fields_int(f, IG_FIELD_N);
    g->request.n_choices = g->n;
    if (given(g, IG_FIELD_BEST_OF) && ig_fields_int(f, IG_FIELD_BEST_OF) != g->n)
        return ig_refuse(&g->work.error, 400, "best_of", "best_of must equal n, which is %d", g->n);
    g->request.priority = (int32_t)ig_fields_int(f, IG_FIELD_PRIORITY);
    g->request.no_prefix_cache = !ig_fields_bool(f, IG_FIELD_CACHE_PROMPT);
    g->request.timeout_ms = o->request_timeout_s * 1e3;
    g->request.draft_ngram =
        given(g, IG_FIELD_DRAFT_NGRAM) ? ig_fields_int(f, IG_FIELD_DRAFT_NGRAM) : o->draft_ngram;
    g->request.draft_max =
        given(g, IG_FIELD_DRAFT_MAX) ? ig_fields_int(f, IG_FIELD_DRAFT_MAX) : o->draft_max;
    read_length(g);
    return read_stream(g) && check_mirostat(g) && check_format(g) && check_modalities(g) &&
           read_stops(g) && read_salt(g);
}

bool ig_generation_read_model_options(ig_generation *g) {
    read_sampling(g);
    return read_biases(g) && read_stop_tokens(g);
}
