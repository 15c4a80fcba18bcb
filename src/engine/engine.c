/* The engine's public functions: create and destroy, submit, call. */
#include <string.h>
#include <unistd.h>

#include "engine/scheduler.h"
#include "ingot/report.h"
#include "model/adapter.h"
#include "text/sampler.h"

/* ---- options ---- */

static ig_status copy_name(const ig_allocator *a, const char *from, char **out) {
    if (!from) return IG_OK;
    *out = ig_copy_text(a, from);
    return *out ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "engine: a name");
}

static ig_status resolve(ig_engine *e, const ig_engine_options *o) {
    enum { SEQUENCES = 32, QUEUE = 128 };
    e->options = *o;
    IG_TRY(copy_name(&e->allocator, o->prefix_cache_file, &e->cache_file));
    IG_TRY(copy_name(&e->allocator, o->cache_type_k, &e->cache_type_k));
    IG_TRY(copy_name(&e->allocator, o->cache_type_v, &e->cache_type_v));
    e->options.cache_type_k = e->cache_type_k;
    e->options.cache_type_v = e->cache_type_v;
    e->options.prefix_cache_file = e->cache_file;
    if (o->n_sequences == 0) e->options.n_sequences = SEQUENCES;
    if (o->max_queue == 0) e->options.max_queue = QUEUE;
    if (o->step_ms == 0) e->options.step_ms = 50;
    if (o->prefix_cache_file_bytes == 0)
        e->options.prefix_cache_file_bytes = IG_PREFIX_CACHE_FILE_BYTES;
    if (e->options.max_queue < 0 || !(e->options.step_ms > 0) || !(o->queue_timeout_ms >= 0))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "engine: max_queue %lld, step_ms %g, queue_timeout_ms %g: none may be below "
                       "0",
                       (long long)o->max_queue, o->step_ms, o->queue_timeout_ms);
    return IG_OK;
}

/* ---- parts ---- */

static ig_status make_session(ig_engine *e) {
    const ig_engine_options *o = &e->options;
    const uint64_t available = ig_report_memory(e->ctx).available_bytes;
    const ig_session_options options = {.ctx_len = o->ctx_len,
                                        .n_sequences = o->n_sequences,
                                        .kv_bytes = o->kv_bytes ? o->kv_bytes : available / 2,
                                        .ubatch = o->ubatch,
                                        .cache_type_k = o->cache_type_k,
                                        .cache_type_v = o->cache_type_v};
    IG_TRY(ig_session_create(e->adapter, &options, &e->session));
    e->ubatch = ig_session_ubatch(e->session);
    e->rules.ctx_len = ig_session_ctx_len(e->session);
    e->n_slots = ig_session_sequences(e->session);
    if (e->n_slots > e->ubatch) e->n_slots = e->ubatch; /* a step has a token of each */
    e->n_outputs = e->n_slots + IG_STEP_DRAFT_ROOM + IG_STEP_PROMPT_LOGPROBS;
    e->slots = ig_alloc(&e->allocator, (size_t)e->n_slots, sizeof(ig_reply *));
    e->texts = ig_alloc(&e->allocator, (size_t)e->n_slots, sizeof *e->texts);
    e->tokens = ig_alloc(&e->allocator, (size_t)e->ubatch + IG_STEP_DRAFT_ROOM, sizeof *e->tokens);
    e->logits =
        ig_alloc(&e->allocator, (size_t)(e->n_outputs * e->rules.vocabulary), sizeof *e->logits);
    if (!e->slots || !e->texts || !e->tokens || !e->logits)
        return IG_FAIL(IG_ERR_MEMORY, "engine: the outputs of %lld sequences",
                       (long long)e->n_slots);
    if (o->no_prefix_cache) return IG_OK;
    return ig_prefix_cache_create(e->session, &e->allocator, &e->prefix_cache);
}

/* ---- the prefix cache on disk: without it there is an engine, too ---- */

static void warn_file(const ig_engine *e, const char *what) {
    ig_engine_say(e, IG_LOG_WARNING, "prefix cache: %s: %s", what, ig_error_text());
}

static void load_prefix_cache(ig_engine *e) {
    int64_t n_pages = 0;
    if (!e->prefix_cache || !e->cache_file) return;
    if (ig_prefix_file_identify(e->session, &e->identity) != IG_OK) {
        warn_file(e, "not loaded");
        ig_free(&e->allocator, e->cache_file);
        e->cache_file = NULL;
        e->options.prefix_cache_file = NULL;
        return;
    }
    if (access(e->cache_file, F_OK) != 0) return;
    if (ig_prefix_file_load(e->prefix_cache, e->cache_file, e->identity, &n_pages) != IG_OK)
        warn_file(e, "not loaded");
    ig_engine_say(e, IG_LOG_INFO, "prefix cache: %lld pages from %s", (long long)n_pages,
                  e->cache_file);
    e->counts.stats.n_restored_pages = (uint64_t)n_pages;
    ig_counts_publish(&e->counts);
}

/* Pages of a device that took over during the run have other bits than the next process's. */
static ig_status save_prefix_cache(ig_engine *e) {
    uint64_t identity = 0;
    if (e->session->pages.n_free == 0) ig_prefix_cache_evict(e->prefix_cache, 1);
    IG_TRY(ig_prefix_file_identify(e->session, &identity));
    if (identity != e->identity)
        return IG_FAIL(IG_ERR_STATE, "the device has changed since the engine was created");
    return ig_prefix_file_save(e->prefix_cache, e->cache_file, identity,
                               e->options.prefix_cache_file_bytes);
}

static ig_status find_eog(ig_engine *e) {
    const ig_tokenizer *tokenizer = e->rules.tokenizer;
    ig_tokens found = {.allocator = &e->allocator};
    for (int32_t id = 0; id < e->rules.vocabulary; id++)
        if (ig_tokenizer_is_eog(tokenizer, id)) {
            const ig_status status = ig_tokens_add(&found, id);
            if (status != IG_OK) ig_tokens_deinit(&found);
            IG_TRY(status);
        }
    e->rules.eog = found.at;
    e->rules.n_eog = found.count;
    return IG_OK;
}

static void init_locks(ig_engine *e) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, &monotonic);
    pthread_cond_init(&e->called, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static ig_status make_parts(ig_engine *e, const ig_engine_options *options) {
    IG_TRY(resolve(e, options));
    IG_TRY(find_eog(e));
    if (ig_adapter_can_generate(e->adapter))
        IG_TRY(make_session(e));
    else
        IG_TRY(ig_embeddings_prepare(e));
    IG_TRY(ig_counts_init(&e->counts, &e->allocator, e->n_slots));
    load_prefix_cache(e);
    if (pthread_create(&e->thread, NULL, ig_scheduler_run, e) != 0)
        return IG_FAIL(IG_ERR_MEMORY, "engine: cannot create a thread");
    e->has_thread = true;
    return IG_OK;
}

ig_status ig_engine_create(ig_adapter *adapter, const ig_engine_options *options, ig_engine **out) {
    static const ig_engine_options defaults;
    if (!adapter || !out) return IG_FAIL(IG_ERR_ARGUMENT, "engine_create: NULL");
    if (!ig_adapter_tokenizer(adapter))
        return IG_FAIL(IG_ERR_ARGUMENT, "engine_create: the model has no tokenizer");
    const ig_allocator *a = ig_ctx_allocator(adapter->ctx);
    ig_engine *e = ig_alloc(a, 1, sizeof *e);
    if (!e) return IG_FAIL(IG_ERR_MEMORY, "engine");
    e->adapter = adapter;
    e->ctx = adapter->ctx;
    e->allocator = *a;
    e->rules.tokenizer = ig_adapter_tokenizer(adapter);
    e->rules.vocabulary = ig_adapter_vocab_size(adapter);
    init_locks(e);
    const ig_status status = make_parts(e, options ? options : &defaults);
    if (status == IG_OK)
        *out = e;
    else
        ig_engine_destroy(e);
    return status;
}

void ig_engine_destroy(ig_engine *e) {
    if (!e) return;
    const ig_allocator a = e->allocator;
    pthread_mutex_lock(&e->lock);
    e->is_stopping = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    if (e->has_thread) pthread_join(e->thread, NULL);
    if (e->has_thread && e->prefix_cache && e->cache_file && save_prefix_cache(e) != IG_OK)
        warn_file(e, "not stored");
    ig_embeddings_drop(e);
    ig_prefix_cache_destroy(e->prefix_cache);
    ig_session_destroy(e->embedder);
    ig_session_destroy(e->session);
    ig_counts_deinit(&e->counts, &a);
    ig_free(&a, e->slots);
    ig_free(&a, e->texts);
    ig_free(&a, e->tokens);
    ig_free(&a, e->logits);
    ig_free(&a, (void *)e->rules.eog);
    ig_free(&a, e->cache_file);
    ig_free(&a, e->cache_type_k);
    ig_free(&a, e->cache_type_v);
    pthread_cond_destroy(&e->called);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    ig_free(&a, e);
}

int64_t ig_engine_ctx_len(const ig_engine *e) { return e->rules.ctx_len; }
int64_t ig_engine_sequences(const ig_engine *e) { return e->n_slots; }
const ig_tokenizer *ig_engine_tokenizer(const ig_engine *e) { return e->rules.tokenizer; }
uint64_t ig_engine_cache_bytes(const ig_engine *e) {
    return e->session ? ig_session_cache_bytes(e->session) : 0;
}

void ig_engine_get_stats(const ig_engine *e, ig_engine_stats *out) {
    ig_counts_read(&e->counts, out);
}

ig_engine_slot ig_engine_get_slot(const ig_engine *e, int64_t i) {
    return ig_counts_read_slot(&e->counts, i);
}

/* ---- requests ---- */

static ig_status check_tokens(const ig_engine *e, const int32_t *tokens, size_t count,
                              const char *what) {
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= e->rules.vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "engine: %s %zu is %d, not a token below %lld", what, i,
                           tokens[i], (long long)e->rules.vocabulary);
    return IG_OK;
}

static ig_status check_numbers(const ig_request *q) {
    enum { MOST_CHOICES = 1024 };
    const struct {
        const char *name;
        double value, least, most;
    } rows[] = {
        {"max_tokens", (double)q->max_tokens, 0, 0x1p53},
        {"min_tokens", (double)q->min_tokens, 0, 0x1p53},
        {"n_choices", q->n_choices, 0, MOST_CHOICES},
        {"top_logprobs", q->top_logprobs, 0, IG_TOP_LOGPROBS_MAX},
        {"timeout_ms", q->timeout_ms, 0, 1e15},
        {"draft_ngram", (double)q->draft_ngram, 0, 0x1p31},
        {"draft_max", (double)q->draft_max, 0, IG_DRAFT_MAX},
        {"pooling", q->pooling, 0, IG_POOL_LAST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!(rows[i].value >= rows[i].least && rows[i].value <= rows[i].most))
            return IG_FAIL(IG_ERR_ARGUMENT, "engine: %s is %g: %g to %g", rows[i].name,
                           rows[i].value, rows[i].least, rows[i].most);
    return IG_OK;
}

static ig_status check_request(const ig_engine *e, const ig_request *q) {
    if (q->n_tokens == 0 || !q->tokens)
        return IG_FAIL(IG_ERR_ARGUMENT, "engine: the prompt has no tokens");
    if (!q->embed && !e->session)
        return IG_FAIL(IG_ERR_ARGUMENT, "engine: %s is an encoder: it makes embeddings, not text",
                       ig_adapter_architecture(e->adapter));
    const int64_t room = e->rules.ctx_len - (q->embed || q->prefill_only ? 0 : 1);
    if ((int64_t)q->n_tokens > room)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "engine: the prompt has %zu tokens, but the context is %lld: no room for "
                       "more",
                       q->n_tokens, (long long)e->rules.ctx_len);
    IG_TRY(check_numbers(q));
    IG_TRY(check_tokens(e, q->tokens, q->n_tokens, "prompt token"));
    IG_TRY(check_tokens(e, q->stop_tokens, q->n_stop_tokens, "stop token"));
    return ig_sampling_check(&q->sampling, e->rules.vocabulary);
}

/* Jobs that may be queued: those that a slot is free for do not wait. */
static int64_t queue_room(const ig_engine *e) {
    const int64_t n_slots = e->n_slots > 0 ? e->n_slots : 1, n = atomic_load(&e->n_started);
    return e->options.max_queue + (n < n_slots ? n_slots - n : 0);
}

/* Hands the job to the scheduler thread, or says why not. */
static ig_status enqueue(ig_engine *e, ig_job *job) {
    ig_status status = IG_OK;
    pthread_mutex_lock(&e->lock);
    if (e->is_stopping) {
        status = IG_FAIL(IG_ERR_BUSY, "engine: it is being stopped");
    } else if (atomic_load(&e->n_queued) >= queue_room(e)) {
        status = IG_FAIL(IG_ERR_BUSY, "engine: %lld requests wait already",
                         (long long)e->options.max_queue);
        atomic_fetch_add(&e->counts.n_rejected, 1);
    } else {
        atomic_fetch_add(&e->n_queued, 1);
        atomic_fetch_add(&e->counts.n_submitted, 1);
        job->stats.id = ++e->n_jobs;
        ig_job_retain(job); /* the scheduler's reference */
        job->next = e->inbox;
        e->inbox = job;
        pthread_cond_signal(&e->wake);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

ig_status ig_engine_submit(ig_engine *e, const ig_request *request, ig_job **out) {
    if (!e || !request || !out) return IG_FAIL(IG_ERR_ARGUMENT, "engine_submit: NULL");
    ig_job *job = NULL;
    IG_TRY(check_request(e, request));
    IG_TRY(ig_job_create(&e->allocator, request, &job));
    *out = job; /* before notify() may come */
    const ig_status status = enqueue(e, job);
    if (status == IG_OK) return IG_OK;
    *out = NULL;
    ig_job_unref(job);
    return status;
}

ig_status ig_engine_call(ig_engine *e, ig_status (*call)(ig_adapter *adapter, void *user),
                         void *user) {
    ig_engine_work work = {.call = call, .user = user};
    if (!e || !call) return IG_FAIL(IG_ERR_ARGUMENT, "engine_call: NULL");
    pthread_mutex_lock(&e->lock);
    if (!e->is_stopping) {
        ig_engine_work **at = &e->work;
        while (*at) at = &(*at)->next;
        *at = &work;
        pthread_cond_signal(&e->wake);
        while (!work.is_done) pthread_cond_wait(&e->called, &e->lock);
    } else {
        work.status = IG_ERR_BUSY;
        strcpy(work.error, "engine: it is being stopped");
    }
    pthread_mutex_unlock(&e->lock);
    return work.status == IG_OK ? IG_OK : IG_FAIL(work.status, "%s", work.error);
}
