/* Generation: tokenize, prefill, decode token by token, and stream the text. */
#include <string.h>

#include "base/clock.h"
#include "ingot/report.h"
#include "model/adapter.h"
#include "model/draft_ngram.h"
#include "text/sampler.h"
#include "text/stop_strings.h"

/* Holds text back while it may be the beginning of a stop string. */
typedef struct outlet {
    const ig_generate_options *o;
    char *held;
    size_t n_held, room;
    bool stopped, closed; /* by a stop string, by the caller */
} outlet;

static void hand_out(outlet *u, size_t bytes) {
    if (bytes == 0 || u->closed) return;
    if (u->o->emit && !u->o->emit(u->o->user, u->held, bytes)) u->closed = true;
    memmove(u->held, u->held + bytes, u->n_held - bytes);
    u->n_held -= bytes;
}

static ig_status put(outlet *u, const ig_allocator *memory, ig_string_view text) {
    if (!IG_GROW(memory, u->held, &u->room, u->n_held + text.n_bytes))
        return IG_FAIL(IG_ERR_MEMORY, "generate: %zu bytes of text", text.n_bytes);
    if (text.n_bytes > 0) memcpy(u->held + u->n_held, text.bytes, text.n_bytes);
    u->n_held += text.n_bytes;
    const ig_stop_match match = ig_stop_find(u->held, u->n_held, u->o->stop, u->o->n_stop);
    u->stopped = match.stop >= 0;
    if (u->stopped) u->n_held = match.at;
    hand_out(u, u->n_held - match.keep);
    return IG_OK;
}

typedef struct run {
    ig_adapter *a;
    const ig_generate_options *o;
    ig_generated *out;
    ig_session *session;
    int32_t sequence;
    int64_t held; /* tokens in the KV cache before the prompt */
    ig_sampler *sampler;
    ig_tokens prompt;
    ig_detokenizer *decoder;
    float *logits; /* [1 + draft_max, vocab_size] */
    /* The last ubatch: a token and its draft tokens. */
    int64_t before; /* sequence length before its first token */
    int64_t draft_max, n_draft, n_accepted;
    int32_t draft[IG_DRAFT_MAX];
    outlet outlet;
    double start;
} run;

/* The caller's session continues from its position; the adapter's own starts empty. */
static ig_status find_session(run *r) {
    r->session = r->o->session;
    r->sequence = r->session ? r->o->sequence : 0;
    if (!r->session) {
        if (!r->a->session) IG_TRY(ig_session_create(r->a, NULL, &r->a->session));
        r->session = r->a->session;
        IG_TRY(ig_session_truncate(r->session, 0, 0));
    }
    if (!ig_session_returns_logits(r->session))
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: the session returns hidden states, not logits");
    IG_TRY(ig_session_check(r->session, r->sequence));
    r->held = ig_session_length(r->session, r->sequence);
    return IG_OK;
}

static ig_status take_tokens(run *r) {
    for (size_t i = 0; i < r->o->n_prompt_tokens; i++)
        IG_TRY(ig_tokens_add(&r->prompt, r->o->prompt_tokens[i]));
    return IG_OK;
}

/* Adds BOS at the beginning of a sequence if the model wants it. */
static ig_status take_text(run *r) {
    const ig_tokenizer *tokenizer = r->a->tokenizer;
    if (!tokenizer)
        return IG_FAIL(IG_ERR_ARGUMENT, "generate: the model has no tokenizer: give token ids");
    const unsigned begins = r->held == 0 ? IG_TOKENIZE_ADD_SPECIAL : IG_TOKENIZE_CONTINUES;
    const unsigned flags =
        begins | IG_TOKENIZE_NO_EOS | (r->o->no_parse_special ? 0 : IG_TOKENIZE_PARSE_SPECIAL);
    return ig_tokenize(tokenizer, r->o->prompt, r->o->prompt_bytes, flags, &r->prompt);
}

static ig_status encode_prompt(run *r) {
    const ig_allocator *memory = ig_ctx_allocator(r->a->ctx);
    const int64_t limit = ig_session_ctx_len(r->session);
    r->prompt.allocator = memory;
    const size_t rows = 1 + (size_t)r->draft_max;
    r->logits = ig_alloc(memory, rows * (size_t)r->a->config.vocabulary, sizeof *r->logits);
    if (!r->logits)
        return IG_FAIL(IG_ERR_MEMORY, "generate: no memory for the logits of %lld tokens",
                       (long long)r->a->config.vocabulary);
    const double began = ig_clock_ms();
    IG_TRY(r->o->n_prompt_tokens > 0 ? take_tokens(r) : take_text(r));
    r->out->tokenize_ms = ig_clock_ms() - began;
    if (r->prompt.count == 0) { /* the model needs at least one token */
        const int32_t bos = ig_tokenizer_special(r->a->tokenizer, IG_SPECIAL_BOS);
        IG_TRY(ig_tokens_add(&r->prompt, bos >= 0 ? bos : 0));
    }
    const int64_t count = (int64_t)r->prompt.count;
    if (count >= limit - r->held)
        return IG_FAIL(
            IG_ERR_ARGUMENT,
            "the prompt has %lld tokens, but the context is %lld, of which %lld are taken: no "
            "room for more",
            (long long)count, (long long)limit, (long long)r->held);
    r->out->n_prompt_tokens = count;
    return IG_OK;
}

static double plan_ms(const run *r) { return (double)ig_report_counters(r->a->ctx).plan_ns * 1e-6; }

static ig_status prefill(run *r) {
    const int32_t *before = ig_session_tokens(r->session, r->sequence);
    const double planned = plan_ms(r);
    IG_TRY(ig_sampler_create(ig_ctx_allocator(r->a->ctx), &r->o->sampling, r->a->config.vocabulary,
                             &r->sampler));
    for (int64_t i = 0; i < r->held; i++) ig_sampler_accept(r->sampler, before[i]);
    for (int64_t i = 0; i < r->out->n_prompt_tokens; i++)
        ig_sampler_accept(r->sampler, r->prompt.at[i]);
    IG_TRY(
        ig_session_feed(r->session, r->sequence, r->prompt.at, r->out->n_prompt_tokens, r->logits));
    r->before = ig_session_length(r->session, r->sequence) - 1;
    IG_TRY(ig_ctx_synchronize(r->a->ctx)); /* else decode timing includes prefill */
    r->out->prefill_plan_ms = plan_ms(r) - planned;
    r->out->prefill_ms = ig_clock_ms() - r->start;
    return IG_OK;
}

static bool goes_on(const run *r, int64_t most) {
    return r->out->n_generated < most && !r->outlet.stopped && !r->outlet.closed;
}

/* Samples a token and streams its text. EOS has no text. */
static ig_status next_token(run *r, int32_t *out) {
    float *logits = r->logits + r->n_accepted * r->a->config.vocabulary;
    const int64_t n_tokens = r->before + 1 + r->n_accepted; /* the later ones are drafts */
    if (r->o->edit)
        r->o->edit(r->o->user, ig_session_tokens(r->session, r->sequence), n_tokens, logits);
    const int32_t id = ig_sampler_next(r->sampler, logits);
    const bool ends = r->decoder && !r->o->ignore_eos && ig_tokenizer_is_eog(r->a->tokenizer, id);
    ig_sampler_accept(r->sampler, id);
    if (r->out->n_generated++ == 0) r->out->first_token_ms = ig_clock_ms() - r->start;
    if (r->o->token) r->o->token(r->o->user, id, logits);
    *out = id;
    if (!r->decoder) return IG_OK; /* token ids only */
    if (!ends) {
        const double began = ig_clock_ms();
        const ig_string_view text = ig_detokenizer_next(r->decoder, id);
        r->out->detokenize_ms += ig_clock_ms() - began;
        return put(&r->outlet, ig_ctx_allocator(r->a->ctx), text);
    }
    hand_out(&r->outlet, r->outlet.n_held);
    r->outlet.stopped = true;
    return IG_OK;
}

/* Removes rejected draft tokens from the KV cache. */
static ig_status forget_wrong(run *r) {
    if (r->n_accepted == r->n_draft) return IG_OK;
    return ig_session_truncate(r->session, r->sequence, r->before + 1 + r->n_accepted);
}

/* Runs the sampled token through the model, together with draft tokens. */
static ig_status feed(run *r, int32_t id, int64_t most) {
    ig_session_token rows[1 + IG_DRAFT_MAX];
    IG_TRY(forget_wrong(r));
    const int64_t length = ig_session_length(r->session, r->sequence);
    const int64_t room = ig_session_ctx_len(r->session) - length - 1;
    int64_t want = most - r->out->n_generated - 1; /* the last token needs no logits */
    if (want > r->draft_max) want = r->draft_max;
    if (want > room) want = room;
    r->before = length;
    r->n_accepted = r->n_draft = 0;
    rows[0] = (ig_session_token){.sequence = r->sequence, .id = id, .logits = r->logits};
    if (want > 0 && ig_draft_ngram(ig_session_tokens(r->session, r->sequence), length, id,
                                   r->o->draft_ngram, r->draft, want))
        r->n_draft = want;
    for (int64_t i = 0; i < r->n_draft; i++)
        rows[1 + i] = (ig_session_token){.sequence = r->sequence,
                                         .id = r->draft[i],
                                         .logits = r->logits + (1 + i) * r->a->config.vocabulary};
    r->out->n_drafted += r->n_draft;
    return ig_session_run(r->session, rows, 1 + r->n_draft);
}

/* Decodes until the limit, EOS or a stop string. */
static ig_status make_tokens(run *r) {
    const int64_t room = ig_session_ctx_len(r->session) - r->held - r->out->n_prompt_tokens;
    const int64_t most = r->o->max_tokens > 0 && r->o->max_tokens < room ? r->o->max_tokens : room;
    while (goes_on(r, most)) {
        int32_t id;
        IG_TRY(next_token(r, &id));
        if (!goes_on(r, most)) break;
        if (r->n_accepted < r->n_draft && r->draft[r->n_accepted] == id) {
            r->n_accepted++; /* a draft token: already in the KV cache */
            r->out->n_accepted++;
        } else {
            IG_TRY(feed(r, id, most));
        }
    }
    IG_TRY(forget_wrong(r));
    if (r->outlet.stopped || !r->decoder) return IG_OK;
    IG_TRY(put(&r->outlet, ig_ctx_allocator(r->a->ctx), ig_detokenizer_end(r->decoder)));
    hand_out(&r->outlet, r->outlet.n_held);
    return IG_OK;
}

/* Counts the time of a failed run, too. */
static ig_status decode(run *r) {
    if (r->a->tokenizer) IG_TRY(ig_detokenizer_create(r->a->tokenizer, 0, &r->decoder));
    const double begin = ig_clock_ms(), planned = plan_ms(r);
    ig_status status = make_tokens(r);
    if (status == IG_OK) status = ig_ctx_synchronize(r->a->ctx);
    r->out->decode_ms = ig_clock_ms() - begin;
    r->out->decode_plan_ms = plan_ms(r) - planned;
    r->out->finish = r->outlet.stopped  ? IG_FINISH_STOP
                     : r->outlet.closed ? IG_FINISH_CANCELLED
                                        : IG_FINISH_LENGTH;
    return status;
}

ig_status ig_adapter_generate(ig_adapter *a, const ig_generate_options *options,
                              ig_generated *out) {
    ig_generated unused;
    if (!a || !options) return IG_FAIL(IG_ERR_ARGUMENT, "generate: NULL");
    run r = {.a = a, .o = options, .out = out ? out : &unused, .start = ig_clock_ms()};
    if (options->draft_ngram < 0 || options->draft_max < 0 || options->draft_max > IG_DRAFT_MAX)
        return IG_FAIL(
            IG_ERR_ARGUMENT, "generate: %lld draft tokens by %lld-grams: the maximum is %d",
            (long long)options->draft_max, (long long)options->draft_ngram, IG_DRAFT_MAX);
    if (options->draft_ngram > 0)
        r.draft_max = options->draft_max > 0 ? options->draft_max : IG_DRAFT_DEFAULT;
    const ig_allocator *memory = ig_ctx_allocator(a->ctx);
    *r.out = (ig_generated){0};
    r.outlet.o = options;
    ig_status status = find_session(&r);
    if (status == IG_OK) status = encode_prompt(&r);
    if (status == IG_OK) status = prefill(&r);
    if (status == IG_OK) status = decode(&r);
    ig_free(memory, r.outlet.held);
    ig_free(memory, r.logits);
    ig_detokenizer_destroy(r.decoder);
    ig_tokens_deinit(&r.prompt);
    ig_sampler_destroy(r.sampler);
    return status;
}
