/*
 * Slots and pages: which replies run, and what happens when the KV cache is full.
 *
 * A reply is admitted if its prompt and 256 more tokens fit into the pages that are free or idle in
 * the prefix cache.  If running replies grow beyond that, the one that has computed least is
 * preempted: its pages go to the prefix cache, and it waits again.  After three times it is
 * admitted only when nothing else runs.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text_out.h"
#include "base/utf8.h"
#include "engine/scheduler.h"

enum { RESERVED_TOKENS = 256, MOST_PREEMPTIONS = 3 };

static ig_pages *pages_of(const ig_engine *e) { return &e->session->pages; }

static int64_t length_of(const ig_engine *e, const ig_reply *r) {
    return ig_session_length(e->session, r->slot);
}

static ig_prefix prefix_of(const ig_reply *r, int64_t count) {
    return (ig_prefix){&r->job->salt, r->tokens.at, count};
}

/* ---- leaving ---- */

void ig_slots_vacate(ig_engine *e, ig_reply *r) {
    if (r->slot < 0) return;
    if (e->prefix_cache && !r->job->request.embed)
        ig_prefix_cache_add(e->prefix_cache, prefix_of(r, length_of(e, r)), r->slot, true);
    e->texts[r->slot] = (ig_slot_text){length_of(e, r), r->job->salt};
    ig_pages_truncate(pages_of(e), r->slot, 0);
    e->slots[r->slot] = NULL;
    e->counts.slots[r->slot] = (ig_engine_slot){0};
    e->n_running--;
    e->n_claimed -= r->claimed_pages;
    r->claimed_pages = 0;
    r->n_step_tokens = r->n_draft = 0;
    r->slot = -1;
}

void ig_slots_drop_prompt(ig_engine *e, ig_job *job) {
    for (int64_t i = 0; i < job->n_pages; i++) ig_pages_drop(pages_of(e), job->pages[i]);
    job->n_pages = 0;
}

static void preempt(ig_engine *e, ig_reply *r) {
    ig_job *job = r->job;
    ig_engine_say(e, IG_LOG_INFO,
                  "request %llu: preempted after %lld tokens, since the KV cache is full",
                  (unsigned long long)job->stats.id, (long long)length_of(e, r));
    ig_slots_vacate(e, r);
    r->n_preempted++;
    e->counts.stats.n_preempted++;
    pthread_mutex_lock(&job->lock);
    job->stats.n_preempted++;
    pthread_mutex_unlock(&job->lock);
    ig_waiting_add(e, r);
}

/* ---- pages ---- */

static int32_t idle_pages(const ig_engine *e) {
    return e->prefix_cache ? ig_prefix_cache_idle_pages(e->prefix_cache) : 0;
}

/* Tries to have `wanted` pages free. */
static void free_pages(ig_engine *e, int32_t wanted) {
    const int32_t lacking = wanted - pages_of(e)->n_free;
    if (lacking > 0 && e->prefix_cache) ig_prefix_cache_evict(e->prefix_cache, lacking);
    for (ig_job *job = e->jobs; job && pages_of(e)->n_free < wanted; job = job->next) {
        if (job->n_pages == 0) continue;
        ig_slots_drop_prompt(e, job);
        if (e->prefix_cache) ig_prefix_cache_evict(e->prefix_cache, wanted - pages_of(e)->n_free);
    }
}

/* The running reply that loses least by being preempted. */
static ig_reply *victim_of(const ig_engine *e) {
    ig_reply *best = NULL;
    int64_t least = 0;
    for (int64_t i = 0; i < e->n_slots; i++) {
        ig_reply *r = e->slots[i];
        if (!r || r->n_preempted >= MOST_PREEMPTIONS) continue;
        const int64_t computed = length_of(e, r) - r->n_shared;
        if (best && (computed > least || (computed == least && r->arrival < best->arrival)))
            continue;
        best = r;
        least = computed;
    }
    return best;
}

/* Pages for a reply that runs alone: all that the cache has, also those that the reply shares with
 * it, since it would have to copy the last of them. */
static ig_status free_all(ig_engine *e, int32_t needed) {
    if (e->prefix_cache) ig_prefix_cache_clear(e->prefix_cache);
    if (needed <= pages_of(e)->n_free - e->n_claimed) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY,
                   "engine: the KV cache has %d pages, of which %d are free; %d are needed",
                   pages_of(e)->n_pages, pages_of(e)->n_free, needed);
}

bool ig_slots_claim(ig_engine *e, ig_reply *r, int64_t count) {
    int32_t needed = ig_pages_needed(pages_of(e), r->slot, count);
    while (r->slot >= 0 && needed > pages_of(e)->n_free - e->n_claimed) {
        free_pages(e, needed + e->n_claimed);
        needed = ig_pages_needed(pages_of(e), r->slot, count); /* a page may be its own now */
        if (needed <= pages_of(e)->n_free - e->n_claimed) break;
        if (e->n_running == 1) {
            const ig_status status = free_all(e, needed);
            if (status == IG_OK) break;
            ig_scheduler_end_job(e, r->job, status);
            return false;
        }
        ig_reply *victim = victim_of(e);
        preempt(e, victim ? victim : r);
    }
    if (r->slot < 0) return false;
    needed = ig_pages_needed(pages_of(e), r->slot, count); /* fewer if the cache was cleared */
    r->claimed_pages = needed;
    e->n_claimed += needed;
    return true;
}

/* ---- admission ---- */

static int64_t free_slot(const ig_engine *e) {
    int64_t i = 0;
    while (i < e->n_slots && e->slots[i]) i++;
    return i;
}

static bool runs_alone(const ig_engine *e) {
    for (int64_t i = 0; i < e->n_slots; i++)
        if (e->slots[i] && e->slots[i]->n_preempted >= MOST_PREEMPTIONS) return true;
    return false;
}

/* The text of a token as a JSON string: a log line remains a line. */
static const char *piece_of(const ig_engine *e, int32_t token, char out[static 64]) {
    const ig_string_view piece = ig_tokenizer_piece(e->rules.tokenizer, token);
    char text[16] = "";
    for (size_t at = 0, bytes; at < piece.n_bytes; at += bytes) {
        uint32_t point;
        const ig_utf8_found found =
            ig_utf8_next(piece.bytes + at, piece.n_bytes - at, &point, &bytes);
        const bool is_text = found == IG_UTF8_WHOLE && point >= ' ' && point != 0x7f;
        const size_t used = strlen(text);
        if (used + 5 > sizeof text) break;
        if (is_text) memcpy(text + used, piece.bytes + at, bytes);
        if (!is_text) snprintf(text + used, sizeof text - used, "?");
    }
    ig_text t = ig_text_begin(out, 64);
    ig_text_add_string(&t, text);
    return out;
}

/* Of one prompt at the first admission.  What the reader can change is info: a prompt that begins
 * with a clock, a cache that is too small, keys that share nothing. */
static void log_lookup(const ig_engine *e, const ig_reply *r, ig_prefix_miss miss) {
    static const struct {
        ig_log_level level;
        const char *reason;
    } rows[] = {
        [IG_PREFIX_NEW] = {IG_LOG_DEBUG, "nothing cached begins like this"},
        [IG_PREFIX_ENDS] = {IG_LOG_DEBUG, "the cached text ends here"},
        [IG_PREFIX_EVICTED] = {IG_LOG_INFO, "the next page was evicted"},
        [IG_PREFIX_OTHER_SALT] = {IG_LOG_INFO, "the next page was cached with another salt"},
    };
    char differs[192], here[64], there[64];
    const unsigned long long id = r->job->stats.id;
    if (!e->options.log || miss.reason == IG_PREFIX_ALL_FOUND) return;
    ig_log_level level = IG_LOG_INFO;
    const char *reason = differs;
    if (miss.reason == IG_PREFIX_DIFFERS) {
        snprintf(differs, sizeof differs, "the next token is %s, the nearest cached text has %s",
                 piece_of(e, miss.token, here), piece_of(e, miss.cached, there));
    } else {
        level = rows[miss.reason].level;
        reason = rows[miss.reason].reason;
    }
    ig_engine_say(e, level, "request %llu: %lld of %lld prompt tokens are cached: %s", id,
                  (long long)r->n_shared, (long long)r->n_prompt, reason);
}

static bool wants_cache(const ig_engine *e, const ig_reply *r) {
    const ig_request *q = &r->job->request;
    return e->prefix_cache && (r->n_preempted > 0 || (!q->no_prefix_cache && !q->prompt_logprobs));
}

/* Attaches the pages that the job holds, or those in the prefix cache.  At least one token is left
 * to be run, unless the job has the logits of the last one. */
static ig_prefix_miss attach(ig_engine *e, ig_reply *r) {
    const ig_job *job = r->job;
    const int64_t count = (int64_t)r->tokens.count;
    ig_prefix_miss miss = {.reason = IG_PREFIX_ALL_FOUND};
    r->n_shared = 0;
    if (job->n_pages > 0 && r->n_generated == 0)
        for (int64_t i = 0, left = count; left > 0; i++, left -= IG_PAGE_TOKENS)
            ig_session_attach(e->session, r->slot, job->pages[i], r->tokens.at + i * IG_PAGE_TOKENS,
                              left < IG_PAGE_TOKENS ? left : IG_PAGE_TOKENS);
    else if (wants_cache(e, r))
        ig_prefix_cache_attach(e->prefix_cache, prefix_of(r, count - 1), r->slot, &miss);
    r->n_shared = length_of(e, r);
    return miss;
}

static void count_lookup(ig_engine *e, const ig_reply *r, ig_prefix_miss miss) {
    ig_engine_stats *stats = &e->counts.stats;
    ig_job *job = r->job;
    if (r->choice > 0 || r->n_preempted > 0) return;
    pthread_mutex_lock(&job->lock);
    job->stats.n_cached_tokens = r->n_shared;
    pthread_mutex_unlock(&job->lock);
    stats->n_prompt_tokens += (uint64_t)r->n_prompt;
    stats->n_cached_tokens += (uint64_t)r->n_shared;
    ig_histogram_add_tokens(&stats->prompt_tokens, r->n_prompt);
    if (!wants_cache(e, r)) return;
    stats->n_cache_queries++;
    stats->n_cache_hits += r->n_shared > 0;
    log_lookup(e, r, miss);
}

static void note_started(ig_engine *e, ig_reply *r) {
    ig_job *job = r->job;
    const double now = ig_clock_ms();
    r->admitted_ms = now;
    if (job->is_started) return;
    job->is_started = true;
    atomic_fetch_sub(&e->n_queued, 1);
    atomic_fetch_add(&e->n_started, 1);
    pthread_mutex_lock(&job->lock);
    job->stats.queue_ms = now - job->submitted_ms;
    pthread_mutex_unlock(&job->lock);
    ig_histogram_add_seconds(&e->counts.stats.queue, now - job->submitted_ms);
}

/* Pages that the reply may take soon, of which the attached ones are no more needed. */
static bool fits(const ig_engine *e, const ig_reply *r) {
    const int64_t most = r->job->request.max_tokens, count = (int64_t)r->tokens.count;
    int64_t more = most > 0 && most < RESERVED_TOKENS ? most : RESERVED_TOKENS;
    if (count + more > e->rules.ctx_len) more = e->rules.ctx_len - count;
    const int64_t length = length_of(e, r);
    const int32_t needed = ig_pages_needed(pages_of(e), r->slot, count + more - length);
    int32_t held = 0;
    for (const ig_job *job = e->jobs; job; job = job->next)
        if (job != r->job) held += (int32_t)job->n_pages;
    return needed <= pages_of(e)->n_free + idle_pages(e) + held;
}

/* False: it does not fit now, and waits. */
static bool admit(ig_engine *e, ig_reply *r, int64_t slot) {
    r->slot = (int32_t)slot;
    e->texts[slot].n_tokens = 0;
    const ig_prefix_miss miss = attach(e, r);
    if (e->n_running > 0 && !fits(e, r)) {
        ig_pages_truncate(pages_of(e), r->slot, 0);
        r->slot = -1;
        return false;
    }
    e->slots[slot] = r;
    e->n_running++;
    ig_waiting_remove(e, r);
    ig_waiting_note_served(e, r);
    note_started(e, r);
    count_lookup(e, r, miss);
    const ig_status status = ig_reply_prepare(r, e->rules.tokenizer, e->rules.vocabulary);
    if (status != IG_OK) ig_scheduler_end_job(e, r->job, status);
    return true;
}

void ig_slots_admit(ig_engine *e) {
    if (e->n_running == 0) e->is_batch_closed = false;
    while (e->session && !e->is_batch_closed && e->n_running < e->n_slots && !runs_alone(e)) {
        ig_reply *r = ig_waiting_next(e, false);
        if (!r || (r->n_preempted >= MOST_PREEMPTIONS && e->n_running > 0)) break;
        if (!admit(e, r, free_slot(e))) break;
    }
    if (e->options.static_batching && e->n_running > 0) e->is_batch_closed = true;
}
