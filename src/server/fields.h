/*
 * fields.h - the fields of request bodies: one table of names, types, ranges and defaults.
 *
 * The table checks requests, words the errors, and is printed in docs/server.md and
 * docs/openapi.json.
 */
#ifndef IG_SERVER_FIELDS_H
#define IG_SERVER_FIELDS_H

#include <jansson.h>

#include "server/http_error.h"

/* The bodies that have a field. */
enum {
    IG_BODY_CHAT = 1 << 0,
    IG_BODY_COMPLETION = 1 << 1,
    IG_BODY_EMBEDDING = 1 << 2,
    IG_BODY_TOKENIZE = 1 << 3,
    IG_BODY_DETOKENIZE = 1 << 4,
    IG_BODY_TEMPLATE = 1 << 5,
    IG_BODY_RERANK = 1 << 6,
    IG_BODY_MODEL = 1 << 7, /* load, unload */
    IG_BODIES = 8,

    IG_BODY_GENERATE = IG_BODY_CHAT | IG_BODY_COMPLETION,
    IG_BODY_MESSAGES = IG_BODY_CHAT | IG_BODY_TEMPLATE | IG_BODY_TOKENIZE,
};
/* The name of a body's schema in the OpenAPI file, by bit; static. */
const char *ig_body_name(int bit);

/* Types of JSON values. */
enum {
    IG_JSON_BOOLEAN = 1 << 0,
    IG_JSON_INTEGER = 1 << 1,
    IG_JSON_NUMBER = 1 << 2,
    IG_JSON_STRING = 1 << 3,
    IG_JSON_ARRAY = 1 << 4,
    IG_JSON_OBJECT = 1 << 5,
};

typedef enum ig_field_id {
    IG_FIELD_MODEL,
    /* prompts */
    IG_FIELD_MESSAGES,
    IG_FIELD_TOOLS,
    IG_FIELD_TOOL_CHOICE,
    IG_FIELD_PARALLEL_TOOL_CALLS,
    IG_FIELD_CHAT_TEMPLATE_KWARGS,
    IG_FIELD_REASONING_EFFORT,
    IG_FIELD_ADD_GENERATION_PROMPT,
    IG_FIELD_CONTINUE_FINAL_MESSAGE,
    IG_FIELD_PROMPT,
    IG_FIELD_SUFFIX,
    IG_FIELD_ECHO,
    /* length */
    IG_FIELD_MAX_TOKENS,
    IG_FIELD_MAX_COMPLETION_TOKENS,
    IG_FIELD_N_PREDICT,
    IG_FIELD_MIN_TOKENS,
    IG_FIELD_STOP,
    IG_FIELD_STOP_TOKEN_IDS,
    IG_FIELD_IGNORE_EOS,
    /* sampling */
    IG_FIELD_N,
    IG_FIELD_BEST_OF,
    IG_FIELD_TEMPERATURE,
    IG_FIELD_TOP_P,
    IG_FIELD_TOP_K,
    IG_FIELD_MIN_P,
    IG_FIELD_TYPICAL_P,
    IG_FIELD_REPEAT_PENALTY,
    IG_FIELD_REPETITION_PENALTY,
    IG_FIELD_REPEAT_LAST_N,
    IG_FIELD_PRESENCE_PENALTY,
    IG_FIELD_FREQUENCY_PENALTY,
    IG_FIELD_MIROSTAT,
    IG_FIELD_MIROSTAT_TAU,
    IG_FIELD_MIROSTAT_ETA,
    IG_FIELD_SEED,
    IG_FIELD_LOGIT_BIAS,
    /* the reply */
    IG_FIELD_STREAM,
    IG_FIELD_STREAM_OPTIONS,
    IG_FIELD_CHAT_LOGPROBS,
    IG_FIELD_LOGPROBS,
    IG_FIELD_TOP_LOGPROBS,
    IG_FIELD_REASONING_FORMAT,
    IG_FIELD_RETURN_PROGRESS,
    IG_FIELD_TIMINGS_PER_TOKEN,
    IG_FIELD_RETURN_TOKEN_IDS,
    IG_FIELD_REPORT,
    /* scheduling */
    IG_FIELD_PRIORITY,
    IG_FIELD_CACHE_PROMPT,
    IG_FIELD_CACHE_SALT,
    IG_FIELD_DRAFT_NGRAM,
    IG_FIELD_DRAFT_MAX,
    /* embeddings */
    IG_FIELD_INPUT,
    IG_FIELD_ENCODING_FORMAT,
    IG_FIELD_DIMENSIONS,
    /* tokens */
    IG_FIELD_CONTENT,
    IG_FIELD_TOKENS,
    IG_FIELD_ADD_SPECIAL,
    IG_FIELD_ADD_SPECIAL_TOKENS,
    IG_FIELD_PARSE_SPECIAL,
    IG_FIELD_WITH_PIECES,
    IG_FIELD_RETURN_TOKEN_STRS,
    /* rerank */
    IG_FIELD_QUERY,
    IG_FIELD_DOCUMENTS,
    IG_FIELD_TEXTS,
    IG_FIELD_TOP_N,
    IG_FIELD_RETURN_DOCUMENTS,
    /* taken without effect */
    IG_FIELD_USER,
    IG_FIELD_STORE,
    IG_FIELD_METADATA,
    IG_FIELD_SERVICE_TIER,
    IG_FIELD_SAFETY_IDENTIFIER,
    IG_FIELD_PROMPT_CACHE_KEY,
    /* refused */
    IG_FIELD_RESPONSE_FORMAT,
    IG_FIELD_JSON_SCHEMA,
    IG_FIELD_GRAMMAR,
    IG_FIELD_STRUCTURED_OUTPUTS,
    IG_FIELD_GUIDED_JSON,
    IG_FIELD_GUIDED_REGEX,
    IG_FIELD_GUIDED_CHOICE,
    IG_FIELD_GUIDED_GRAMMAR,
    IG_FIELD_FUNCTIONS,
    IG_FIELD_MODALITIES,
    IG_FIELD_AUDIO,
    IG_FIELD_WEB_SEARCH_OPTIONS,
    IG_FIELD_LORA,
    IG_FIELD_CHAT_TEMPLATE,
    IG_FIELD_COUNT,
} ig_field_id;

typedef struct ig_field {
    const char *name;
    unsigned bodies; /* IG_BODY_* */
    unsigned types;  /* IG_JSON_* */
    double min, max; /* of numbers; bytes of strings; else elements.  Both 0: not limited */
    double standard; /* default of a number or boolean; NaN: the server's or the model's */
    const char *summary;
    const char *refusal; /* why any value but null, false and empty ones is refused; NULL: it is
                            not */
} ig_field;
const ig_field *ig_field_row(ig_field_id id);

/* "an integer from 0 to 20", "a string or an array of at most 16 elements". */
void ig_field_describe(const ig_field *field, char *out, size_t room);

/* The fields of a body: values are borrowed from it, NULL where they were not given. */
typedef struct ig_fields {
    json_t *at[IG_FIELD_COUNT];
} ig_fields;

/* Checks all fields of an object against the rows of one body.  Fields that have no row are named
 * to `unknown`.  False: `error` names the field, its value and its range. */
bool ig_fields_read(json_t *object, unsigned body, void (*unknown)(void *user, const char *name),
                    void *user, ig_fields *out, ig_http_error *error);

static inline bool ig_fields_given(const ig_fields *f, ig_field_id id) { return f->at[id] != NULL; }
/* The value, or the row's default. */
double ig_fields_number(const ig_fields *f, ig_field_id id);
int64_t ig_fields_int(const ig_fields *f, ig_field_id id); /* 0 where there is no default */
bool ig_fields_bool(const ig_fields *f, ig_field_id id);
const char *ig_fields_text(const ig_fields *f, ig_field_id id); /* NULL: none */

/* Parses a body: an object, UTF-8, without duplicate keys, nested at most 64 deep.  The caller
 * drops the reference. */
bool ig_body_parse(const char *bytes, size_t n_bytes, json_t **out, ig_http_error *error);

#endif
