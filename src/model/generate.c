/* Generation: prompt in, text out, piece by piece. */
#include <string.h>
#include <time.h>

#include "ingot/report.h"
#include "model/adapter.h"
#include "model/draft_ngram.h"
#include "text/sampler.h"

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Text that is held back as long as it may be the beginning of a stop string. */
typedef struct outlet {
    const ig_generate_options *o;
    char *held;
    size_t n_held, room;
    bool stopped, closed; /* by a stop string, by the caller */
} outlet;

/* How many of the last bytes of `text` could begin `stop`. */
static size_t could_begin(const char *text, size_t n, const char *stop) {
    const size_t length = strlen(stop);
    for (size_t k = length - 1 < n ? length - 1 : n; length > 0 && k > 0; k--)
        if (memcmp(text + n - k, stop, k) == 0) return k;
    return 0;
}

static const char *find(const char *text, size_t n, const char *what) {
    const size_t length = strlen(what);
    for (size_t i = 0; length > 0 && i + length <= n; i++)
        if (memcmp(text + i, what, length) == 0) return text + i;
    return NULL;
}

static void hand_out(outlet *u, size_t bytes) {
    if (bytes == 0 || u->closed) return;
    if (u->o->emit && !u->o->emit(u->o->user, u->held, bytes)) u->closed = true;
    memmove(u->held, u->held + bytes, u->n_held - bytes);
    u->n_held -= bytes;
}

static ig_status put(outlet *u, const ig_allocator *memory, ig_tokenizer_data text) {
    size_t keep = 0;
    if (!IG_GROW(memory, u->held, &u->room, u->n_held + text.n_bytes))
        return IG_FAIL(IG_ERR_MEMORY, "generate: %zu bytes of text", text.n_bytes);
    if (text.n_bytes > 0) memcpy(u->held + u->n_held, text.bytes, text.n_bytes);
    u->n_held += text.n_bytes;
    for (size_t i = 0; i < u->o->n_stop; i++) {
        const char *at = find(u->held, u->n_held, u->o->stop[i]);
        if (at) {
            u->n_held = (size_t)(at - u->held);
            u->stopped = true;
        }
        const size_t may = u->stopped ? 0 : could_begin(u->held, u->n_held, u->o->stop[i]);
        if (may > keep) keep = may;
    }
    hand_out(u, u->stopped ? u->n_held : u->n_held - keep);
    return IG_OK;
}

typedef struct run {
    ig_adapter *a;
    const ig_generate_options *o;
    ig_generated *out;
    ig_session *session;
    int32_t sequence;
    int64_t held; /* tokens of the sequence before the prompt */
    ig_sampler *sampler;
    ig_ids prompt;
    ig_decoder decoder;
    float *logits; /* [1 + guess_most, vocabulary] */
    /* The rows that went through the model last: a token and what was guessed to follow. */
    int64_t before; /* tokens of the sequence before them */
    int64_t guess_most, n_guesses, right;
    int32_t guesses[IG_GUESS_MOST];
    outlet outlet;
    double start;
} run;

/* The caller's session goes on from where it is; the adapter's own begins anew. */
static ig_status find_session(run *r) {
    r->session = r->o->session;
    r->sequence = r->session ? r->o->sequence : 0;
    if (!r->session) {
        if (!r->a->session) IG_TRY(ig_session_create(r->a, NULL, &r->a->session));
        r->session = r->a->session;
        IG_TRY(ig_session_truncate(r->session, 0, 0));
    }
    if (r->session->hidden)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "generate: the session hands out hidden states, not logits");
    IG_TRY(ig_session_check(r->session, r->sequence));
    r->held = ig_session_length(r->session, r->sequence);
    return IG_OK;
}

static ig_status take_tokens(run *r) {
    for (size_t i = 0; i < r->o->n_tokens; i++) IG_TRY(ig_ids_add(&r->prompt, r->o->tokens[i]));
    return IG_OK;
}

/* Where a text begins, its model may want a token before it. */
static ig_status take_text(run *r) {
    const ig_tokenizer *tokenizer = r->a->tokenizer;
    const unsigned begins = r->held == 0 ? IG_ENCODE_ADD_SPECIAL : IG_ENCODE_CONTINUES;
    const unsigned flags = begins | IG_ENCODE_GOES_ON | (r->o->plain ? 0 : IG_ENCODE_PARSE_SPECIAL);
    return ig_tokenizer_encode(tokenizer, r->o->prompt, r->o->prompt_bytes, flags, &r->prompt);
}

static ig_status encode_prompt(run *r) {
    const ig_allocator *memory = ig_ctx_allocator(r->a->ctx);
    const int64_t limit = ig_session_ctx_len(r->session);
    r->prompt.allocator = memory;
    const size_t rows = 1 + (size_t)r->guess_most;
    r->logits = ig_alloc(memory, rows * (size_t)r->a->config.vocabulary, sizeof *r->logits);
    if (!r->logits)
        return IG_FAIL(IG_ERR_MEMORY, "generate: no memory for the logits of %lld tokens",
                       (long long)r->a->config.vocabulary);
    const double began = now_ms();
    IG_TRY(r->o->n_tokens > 0 ? take_tokens(r) : take_text(r));
    r->out->tokenize_ms = now_ms() - began;
    const int32_t bos = ig_tokenizer_special(r->a->tokenizer, IG_SPECIAL_BOS);
    if (r->prompt.count == 0) /* something has to come first */
        IG_TRY(ig_ids_add(&r->prompt, bos >= 0 ? bos : 0));
    const int64_t count = (int64_t)r->prompt.count;
    if (count >= limit - r->held)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "the prompt has %lld tokens, the context %lld, of which %lld are taken: no "
                       "room for more",
                       (long long)count, (long long)limit, (long long)r->held);
    r->out->n_prompt = count;
    return IG_OK;
}

static double plan_ms(const run *r) { return (double)ig_report_counters(r->a->ctx).plan_ns * 1e-6; }

static ig_status prefill(run *r) {
    const int32_t *before = ig_session_tokens(r->session, r->sequence);
    const double planned = plan_ms(r);
    IG_TRY(ig_sampler_create(ig_ctx_allocator(r->a->ctx), &r->o->sampling, r->a->config.vocabulary,
                             &r->sampler));
    for (int64_t i = 0; i < r->held; i++) ig_sampler_accept(r->sampler, before[i]);
    for (int64_t i = 0; i < r->out->n_prompt; i++) ig_sampler_accept(r->sampler, r->prompt.at[i]);
    IG_TRY(ig_session_feed(r->session, r->sequence, r->prompt.at, r->out->n_prompt, r->logits));
    r->out->prefill_plan_ms = plan_ms(r) - planned;
    r->out->prefill_ms = now_ms() - r->start;
    return IG_OK;
}

static bool goes_on(const run *r, int64_t most) {
    return r->out->n_tokens < most && !r->outlet.stopped && !r->outlet.closed;
}

/* One token: drawn, told, its text handed on.  One that ends the text has none. */
static ig_status next_token(run *r, int32_t *out) {
    float *logits = r->logits + r->right * r->a->config.vocabulary;
    const int32_t id = ig_sampler_next(r->sampler, logits);
    const bool ends = !r->o->ignore_end && ig_tokenizer_is_end(r->a->tokenizer, id);
    ig_sampler_accept(r->sampler, id);
    if (r->out->n_tokens++ == 0) r->out->first_token_ms = now_ms() - r->start;
    if (r->o->token) r->o->token(r->o->user, id, logits);
    *out = id;
    if (!ends) {
        const double began = now_ms();
        const ig_tokenizer_data text = ig_decoder_next(&r->decoder, id);
        r->out->detokenize_ms += now_ms() - began;
        return put(&r->outlet, ig_ctx_allocator(r->a->ctx), text);
    }
    hand_out(&r->outlet, r->outlet.n_held);
    r->outlet.stopped = true;
    return IG_OK;
}

/* Guesses from the first wrong one on leave the sequence. */
static ig_status forget_wrong(run *r) {
    if (r->right == r->n_guesses) return IG_OK;
    return ig_session_truncate(r->session, r->sequence, r->before + 1 + r->right);
}

/* The token that was drawn goes through the model, together with what may follow it. */
static ig_status feed(run *r, int32_t id, int64_t most) {
    ig_session_row rows[1 + IG_GUESS_MOST];
    IG_TRY(forget_wrong(r));
    const int64_t length = ig_session_length(r->session, r->sequence);
    const int64_t room = ig_session_ctx_len(r->session) - length - 1;
    int64_t want = most - r->out->n_tokens - 1; /* the last one needs no successor */
    if (want > r->guess_most) want = r->guess_most;
    if (want > room) want = room;
    r->before = length;
    r->right = r->n_guesses = 0;
    rows[0] = (ig_session_row){.sequence = r->sequence, .token = id, .logits = r->logits};
    if (want > 0 && ig_guess_next(ig_session_tokens(r->session, r->sequence), length, id,
                                  r->o->guess_ngram, r->guesses, want))
        r->n_guesses = want;
    for (int64_t i = 0; i < r->n_guesses; i++)
        rows[1 + i] = (ig_session_row){.sequence = r->sequence,
                                       .token = r->guesses[i],
                                       .logits = r->logits + (1 + i) * r->a->config.vocabulary};
    r->out->n_guessed += r->n_guesses;
    return ig_session_run(r->session, rows, 1 + r->n_guesses);
}

/* Token by token, until there is enough. */
static ig_status make_tokens(run *r) {
    const int64_t room = ig_session_ctx_len(r->session) - r->held - r->out->n_prompt;
    const int64_t most = r->o->max_tokens > 0 && r->o->max_tokens < room ? r->o->max_tokens : room;
    while (goes_on(r, most)) {
        int32_t id;
        IG_TRY(next_token(r, &id));
        if (!goes_on(r, most)) break;
        if (r->right < r->n_guesses && r->guesses[r->right] == id) {
            r->right++; /* it went through already */
            r->out->n_guessed_right++;
        } else {
            IG_TRY(feed(r, id, most));
        }
    }
    IG_TRY(forget_wrong(r));
    if (r->outlet.stopped) return IG_OK;
    IG_TRY(put(&r->outlet, ig_ctx_allocator(r->a->ctx), ig_decoder_end(&r->decoder)));
    hand_out(&r->outlet, r->outlet.n_held);
    return IG_OK;
}

/* Tokens that were made before it failed took their time, too. */
static ig_status decode(run *r) {
    IG_TRY(ig_decoder_init(r->a->tokenizer, 0, &r->decoder));
    const double begin = now_ms(), planned = plan_ms(r);
    const ig_status status = make_tokens(r);
    r->out->decode_ms = now_ms() - begin;
    r->out->decode_plan_ms = plan_ms(r) - planned;
    r->out->finish = r->outlet.stopped  ? IG_FINISH_STOP
                     : r->outlet.closed ? IG_FINISH_CALLER
                                        : IG_FINISH_LENGTH;
    return status;
}

ig_status ig_adapter_generate(ig_adapter *a, const ig_generate_options *options,
                              ig_generated *out) {
    ig_generated unused;
    if (!a || !options) return IG_FAIL(IG_ERR_ARGUMENT, "generate: NULL");
    run r = {.a = a, .o = options, .out = out ? out : &unused, .start = now_ms()};
    if (options->guess_ngram < 0 || options->guess_most < 0 || options->guess_most > IG_GUESS_MOST)
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: %lld guesses by %lld tokens: at most %d",
                       (long long)options->guess_most, (long long)options->guess_ngram,
                       IG_GUESS_MOST);
    if (options->guess_ngram > 0)
        r.guess_most = options->guess_most > 0 ? options->guess_most : IG_GUESS_DEFAULT;
    const ig_allocator *memory = ig_ctx_allocator(a->ctx);
    *r.out = (ig_generated){0};
    r.outlet.o = options;
    ig_status status = find_session(&r);
    if (status == IG_OK) status = encode_prompt(&r);
    if (status == IG_OK) status = prefill(&r);
    if (status == IG_OK) status = decode(&r);
    ig_free(memory, r.outlet.held);
    ig_free(memory, r.logits);
    ig_decoder_deinit(&r.decoder);
    ig_ids_deinit(&r.prompt);
    ig_sampler_destroy(r.sampler);
    return status;
}
