#include "cli/bench/serve_prompts.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"

static const char *const words[] = {
    "time",  "year",  "people",  "way",    "day",    "man",    "thing",  "woman",  "life",
    "child", "world", "school",  "state",  "group",  "hand",   "part",   "place",  "case",
    "week",  "work",  "point",   "home",   "water",  "room",   "area",   "money",  "story",
    "fact",  "month", "lot",     "right",  "study",  "book",   "eye",    "job",    "word",
    "issue", "side",  "kind",    "head",   "house",  "friend", "father", "power",  "hour",
    "game",  "line",  "end",     "member", "law",    "car",    "city",   "name",   "team",
    "idea",  "body",  "back",    "parent", "face",   "level",  "door",   "health", "art",
    "war",   "party", "morning", "reason", "girl",   "guy",    "moment", "air",    "teacher",
    "force", "foot",  "boy",     "age",    "policy", "music",  "market", "sense",  "green",
    "small", "early", "late",    "black",  "white",  "north",  "south",  "light",  "sound",
    "river", "field", "table",   "paper",  "stone",  "wood",   "road",   "ship",   "train",
    "bird",
};
enum { WORDS = sizeof words / sizeof words[0], CUTS = 32, EXTENSIONS = 16 };

/* Stream of the shared part; prompts have their numbers plus one. */
static const uint64_t shared_stream = 0;

/* ---- Counting ---- */

static ig_status count_tokens(const serve_prompts *p, const char *text, int64_t *out) {
    const serve_target *t = p->target;
    ig_http_result result;
    json_t *json = NULL;
    json_t *body =
        json_pack("{s:s, s:b, s:s}", "content", text, "add_special", true, "model", t->model);
    IG_TRY(serve_target_ask(t, "POST", "/tokenize", body, &result, &json));
    const json_t *tokens = json_object_get(json, "tokens");
    const bool ok = json_is_array(tokens);
    if (ok) *out = (int64_t)json_array_size(tokens);
    json_decref(json);
    if (ok) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "bench serve: POST /tokenize failed (%s, code %d)",
                   ig_http_outcome_names[result.outcome], result.code);
}

/* ---- Drawing ---- */

/* Appends words until the text has `bytes`. */
static ig_status add_words(const serve_prompts *p, uint64_t stream, size_t bytes,
                           ig_http_bytes *text, uint64_t *n_words) {
    const uint64_t seed = p->target->seed;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    while (text->used < bytes) {
        const char *word = words[ig_random_bits(key, stream, 0, *n_words) % WORDS];
        const ig_allocator *a = &p->target->cli->allocator;
        const bool first = text->used == 0;
        ++*n_words;
        if (!ig_http_bytes_add(a, text, " ", !first) ||
            !ig_http_bytes_add(a, text, word, strlen(word)))
            return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for a prompt");
    }
    return IG_OK;
}

/* Cuts the text to a number of tokens, which lies between those of its first `low` and all bytes.
 */
static ig_status cut(const serve_prompts *p, ig_http_bytes *text, size_t low, int64_t low_tokens,
                     int64_t high_tokens, int64_t wanted) {
    size_t high = text->used;
    for (int i = 0; i < CUTS && high - low > 1; i++) {
        const double share = (double)(wanted - low_tokens) / (double)(high_tokens - low_tokens);
        size_t middle = low + (size_t)(share * (double)(high - low));
        if (i % 4 == 3) middle = low + (high - low) / 2; /* always ends */
        if (middle <= low) middle = low + 1;
        if (middle >= high) middle = high - 1;
        const char kept = text->at[middle];
        int64_t tokens;
        text->at[middle] = 0;
        IG_TRY(count_tokens(p, text->at, &tokens));
        if (tokens == wanted) {
            text->used = middle;
            return IG_OK;
        }
        text->at[middle] = kept;
        if (tokens < wanted)
            low = middle, low_tokens = tokens;
        else
            high = middle, high_tokens = tokens;
    }
    text->at[high] = 0; /* no cut has the exact number: one token more */
    text->used = high;
    return IG_OK;
}

/* Extends the text to `wanted` tokens. */
static ig_status fit(serve_prompts *p, uint64_t stream, int64_t wanted, ig_http_bytes *text) {
    uint64_t n_words = 0;
    if (!p->target->has_tokenizer) {
        for (int64_t tokens = p->shared_tokens; tokens < wanted; tokens++)
            IG_TRY(add_words(p, stream, text->used + 1, text, &n_words));
        return IG_OK;
    }
    size_t low = text->used;
    int64_t low_tokens = text->used > 0 ? p->shared_tokens : 0, tokens = 0;
    double more = (double)(wanted - low_tokens) * 1.05 + 4;
    for (int i = 0; tokens < wanted; i++, more *= 1.5) {
        const double bytes = (double)low + more * p->bytes_per_token;
        if (i == EXTENSIONS)
            return IG_FAIL(IG_ERR_STATE, "bench serve: POST /tokenize: %zu bytes have %lld tokens",
                           text->used, (long long)tokens);
        IG_TRY(add_words(p, stream, (size_t)ceil(bytes), text, &n_words));
        IG_TRY(count_tokens(p, text->at, &tokens));
        if (tokens > 0) /* of the next text, too */
            p->bytes_per_token = (double)text->used / (double)tokens;
        if (tokens < wanted) low = text->used, low_tokens = tokens;
    }
    return tokens == wanted ? IG_OK : cut(p, text, low, low_tokens, tokens, wanted);
}

/* ---- Public ---- */

ig_status serve_prompts_init(serve_prompts *p, const serve_target *target, int64_t shared_tokens) {
    ig_http_bytes text = {0};
    *p = (serve_prompts){.target = target, .bytes_per_token = 6};
    if (shared_tokens > 0) {
        const ig_status status = fit(p, shared_stream, shared_tokens, &text);
        p->shared = text.at;
        IG_TRY(status);
    }
    p->shared_tokens = shared_tokens;
    return IG_OK;
}

void serve_prompts_deinit(serve_prompts *p) {
    if (p->target) ig_free(&p->target->cli->allocator, p->shared);
}

ig_status serve_prompts_text(serve_prompts *p, uint64_t number, int64_t n_tokens, char **out) {
    const ig_allocator *a = &p->target->cli->allocator;
    ig_http_bytes text = {0};
    const char *shared = p->shared ? p->shared : "";
    if (!ig_http_bytes_add(a, &text, shared, strlen(shared)))
        return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for a prompt");
    const ig_status status = fit(p, number + 1, n_tokens, &text);
    if (status == IG_OK)
        *out = text.at;
    else
        ig_free(a, text.at);
    return status;
}
