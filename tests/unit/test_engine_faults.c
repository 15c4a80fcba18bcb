/*
 * An engine whose memory or device fails: the requests that it hits end with the reason, all others
 * with the right text, and the next request is served.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "directory.h"
#include "unit/engine_runs.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 7 }; /* of the allocations that fail: sanitizers are slow */
#else
enum { STRIDE = 2 };
#endif

/* ---- memory ---- */

/* As meter.h, for several threads. */
typedef struct memory {
    atomic_llong asked, held;
    atomic_llong fail_at; /* 1-based number of the first allocation that fails; 0: none */
    atomic_llong n_fail;  /* how many fail from there on */
    atomic_bool failed;
} memory;

static void *memory_alloc(void *user, size_t bytes, size_t alignment) {
    memory *m = user;
    const long long n = ++m->asked, first = m->fail_at;
    if (first > 0 && n >= first && n < first + m->n_fail) {
        m->failed = true;
        return NULL;
    }
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *p = aligned_alloc(alignment, rounded);
    assert_non_null(p);
    m->held++;
    return memset(p, 0xcd, rounded);
}

static void memory_free(void *user, void *p) {
    ((memory *)user)->held--;
    free(p);
}

static void fail_from_now(memory *m, long long n, long long count) {
    m->failed = false;
    m->n_fail = count;
    m->fail_at = m->asked + n;
}

static void open_metered(fixture *f, memory *m) {
    OK(try_open_model(f, &(ig_ctx_options){.device = "cpu",
                                           .threads = 1,
                                           .seed = 7,
                                           .allocator = {memory_alloc, memory_free, m}}));
}

enum { KINDS = 4, LENGTH = 90 };

static ig_request request_of(int kind, const int32_t *prompt) {
    static const char *const stops[] = {"never that"};
    ig_request q = {.tokens = prompt,
                    .n_tokens = LENGTH,
                    .max_tokens = 6,
                    .ignore_eos = true,
                    .sampling = {.seed = 5, .repeat_penalty = 1.1}};
    if (kind == 1) q.n_choices = 2;
    if (kind == 2) q.logprobs = q.prompt_logprobs = true, q.top_logprobs = 2;
    if (kind == 2) q.stop = stops, q.n_stop = 1;
    if (kind == 3) q.embed = true;
    return q;
}

static void assert_as(const result *got, const result *want) {
    for (int i = 0; i < 2; i++) assert_same(&got->choice[i], &want->choice[i]);
    assert_int_equal(got->n_embedding, want->n_embedding);
    assert_memory_equal(got->embedding, want->embedding, sizeof want->embedding);
}

/* Either the right reply, or no memory. */
static void assert_ended_well(const result *got, const result *want, const memory *m) {
    if (got->status == IG_OK) {
        assert_as(got, want);
        return;
    }
    if (got->status != IG_ERR_MEMORY || !m->failed || strlen(got->error) < 4)
        fail_msg("%s: %s", ig_status_text(got->status), got->error);
}

/* All kinds at once; whether they could be submitted depends on the memory. */
static void submit_all(const fixture *f, const int32_t *prompt, ig_job **out) {
    for (int i = 0; i < KINDS; i++) {
        const ig_request q = request_of(i, prompt);
        const ig_status status = ig_engine_submit(f->engine, &q, &out[i]);
        if (status != IG_OK) assert_int_equal(status, IG_ERR_MEMORY);
        if (status != IG_OK) out[i] = NULL;
    }
}

static void fail_while_serving(long long count) {
    static result want[KINDS], got;
    static memory m;
    int32_t prompt[LENGTH];
    fixture f = {0};
    ig_job *jobs[KINDS];
    m = (memory){0};
    open_metered(&f, &m);
    OK(ig_engine_create(f.adapter, &(ig_engine_options){.n_sequences = 3}, &f.engine));
    make_prompt(prompt, LENGTH, 0, 1);
    for (int i = 0; i < KINDS; i++) {
        const ig_request q = request_of(i, prompt);
        want[i] = ask(&f, &q);
        assert_int_equal(want[i].status, IG_OK);
    }
    int n_failed = 0, n_served = 0;
    for (long long n = 1, calm = 0; calm < 3; n += STRIDE) {
        fail_from_now(&m, n, count);
        submit_all(&f, prompt, jobs);
        for (int i = 0; i < KINDS; i++) {
            if (!jobs[i]) continue;
            got = collect(jobs[i]);
            assert_ended_well(&got, &want[i], &m);
            n_failed += got.status != IG_OK;
            n_served += got.status == IG_OK && m.failed;
        }
        calm = m.failed ? 0 : calm + 1;
        m.fail_at = 0;
        const int kind = (int)(n % KINDS);
        const ig_request q = request_of(kind, prompt);
        got = ask(&f, &q); /* there is memory again */
        if (got.status != IG_OK) fail_msg("after allocation %lld: %s", n, got.error);
        assert_as(&got, &want[kind]);
    }
    assert_true(n_failed > 20 / STRIDE);
    if (count == 1) assert_true(n_served > n_failed); /* one of four, at most */
    close_engine(&f);
    assert_int_equal(m.held, 0);
}

static void an_allocation_that_fails_ends_one_request(void **state) {
    (void)state;
    fail_while_serving(1);
}

static void without_memory_requests_fail_and_the_engine_goes_on(void **state) {
    (void)state;
    fail_while_serving(INT32_MAX);
}

/* From create, which loads a cache, to destroy, which stores it. */
static ig_status run_cold(fixture *f, const char *path, const result *want, const memory *m) {
    static result got;
    const ig_engine_options options = {.n_sequences = 2, .ubatch = 32, .prefix_cache_file = path};
    int32_t prompt[LENGTH];
    ig_job *jobs[KINDS];
    IG_TRY(ig_engine_create(f->adapter, &options, &f->engine));
    make_prompt(prompt, LENGTH, 0, 1);
    submit_all(f, prompt, jobs);
    ig_status status = IG_OK;
    for (int i = 0; i < KINDS; i++) {
        if (!jobs[i]) continue;
        got = collect(jobs[i]);
        assert_ended_well(&got, &want[i], m);
        if (got.status != IG_OK) status = got.status;
    }
    ig_engine_destroy(f->engine);
    f->engine = NULL;
    return status;
}

/* Allocations that are held once allocation n of a run has failed. */
static long long held_after_failure(fixture *f, const char *path, const result *want, memory *m,
                                    long long n) {
    fail_from_now(m, n, 1);
    const ig_status status = run_cold(f, path, want, m);
    m->fail_at = 0;
    if (status != IG_OK && status != IG_ERR_MEMORY)
        fail_msg("allocation %lld: %s", n, ig_error_text());
    ig_ctx_release_memory(f->ctx);
    return m->held;
}

static void any_allocation_from_create_to_destroy_may_fail(void **state) {
    static result want[KINDS];
    static memory m;
    char path[PATH_BYTES];
    int32_t prompt[LENGTH];
    fixture f = {0};
    m = (memory){0};
    open_metered(&f, &m);
    directory_path(state, "cache", path);
    make_prompt(prompt, LENGTH, 0, 1);
    OK(ig_engine_create(f.adapter, &(ig_engine_options){.prefix_cache_file = path}, &f.engine));
    for (int i = 0; i < KINDS; i++) {
        const ig_request q = request_of(i, prompt);
        want[i] = ask(&f, &q);
    }
    ig_engine_destroy(f.engine);
    const long long before = m.asked;
    OK(run_cold(&f, path, want, &m));
    const long long all = m.asked - before, step = (all / 150 + 1) * STRIDE;
    ig_ctx_release_memory(f.ctx);
    long long most = m.held;
    for (long long n = 1; n <= all; n += step) {
        const long long held = held_after_failure(&f, path, want, &m, n);
        if (held <= most) continue;
        /* The context keeps what its pools have grown to; a leak grows again. */
        most = held_after_failure(&f, path, want, &m, n);
        if (most > held) fail_msg("allocation %lld: %lld more are held", n, most - held);
    }
    ig_adapter_destroy(f.adapter);
    ig_ctx_destroy(f.ctx);
    assert_int_equal(m.held, 0);
}

/* ---- devices ---- */

static void open_far(fixture *f, bool strict) {
    const ig_ctx_options options = {.device = "far",
                                    .plugins = TEST_PLUGIN_DIR "/far/far.so",
                                    .strict = strict,
                                    .threads = 2,
                                    .seed = 7,
                                    .no_cache = true};
    unsetenv("FAR_FAILS");
    OK(try_open_model(f, &options));
    OK(ig_engine_create(f->adapter, NULL, &f->engine));
}

/* On the thread that the device runs on. */
static ig_status set_fault(ig_adapter *adapter, void *user) {
    (void)adapter;
    if (user)
        setenv("FAR_FAILS", user, 1);
    else
        unsetenv("FAR_FAILS");
    return IG_OK;
}

/* Four streams, in the middle of which the device fails. */
static void fail_in_the_middle(const fixture *f, const char *how, result *out) {
    int32_t prompt[LENGTH];
    ig_job *jobs[4];
    ig_job_event event;
    for (int i = 0; i < 4; i++) {
        make_prompt(prompt, LENGTH, 0, (unsigned)i);
        jobs[i] = submit(
            f, &(ig_request){
                   .tokens = prompt, .n_tokens = LENGTH, .max_tokens = 300, .ignore_eos = true});
    }
    do assert_true(ig_job_wait(jobs[0], -1));
    while (ig_job_poll(jobs[0], &event) && event.type != IG_JOB_EVENT_TOKEN);
    OK(ig_engine_call(f->engine, set_fault, (void *)how));
    for (int i = 0; i < 4; i++) out[i] = collect(jobs[i]);
}

static result ask_again(const fixture *f) {
    int32_t prompt[LENGTH];
    make_prompt(prompt, LENGTH, 0, 9);
    const ig_request q = {
        .tokens = prompt, .n_tokens = LENGTH, .max_tokens = 20, .ignore_eos = true};
    return ask(f, &q);
}

static void replies_continue_on_another_device(void **state) {
    static result got[4];
    fixture f = {0};
    (void)state;
    open_far(&f, false);
    fail_in_the_middle(&f, "always", got);
    for (int i = 0; i < 4; i++) {
        if (got[i].status != IG_OK) fail_msg("%s", got[i].error);
        assert_int_equal(got[i].stats.n_generated, 300);
    }
    assert_int_equal(ask_again(&f).status, IG_OK);
    close_engine(&f);
    unsetenv("FAR_FAILS");
}

/* Strict: there is no other device. */
static void replies_end_with_the_reason_and_the_next_is_served(void **state) {
    static result got[4];
    ig_engine_stats stats;
    fixture f = {0};
    (void)state;
    open_far(&f, true);
    fail_in_the_middle(&f, "always", got);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got[i].status, IG_ERR_UNSUPPORTED); /* strict: no fallback */
        assert_non_null(strstr(got[i].error, "far"));
        assert_true(got[i].stats.n_generated < 300);
    }
    assert_int_not_equal(ask_again(&f).status, IG_OK);
    OK(ig_engine_call(f.engine, set_fault, NULL)); /* the engine lives, and the device again */
    const result after = ask_again(&f);
    if (after.status != IG_OK) fail_msg("%s", after.error);
    OK(ig_engine_call(f.engine, set_fault, NULL));
    ig_engine_get_stats(f.engine, &stats);
    assert_int_equal(stats.n_failed, 5);
    close_engine(&f);
}

static void numbers_that_are_not_finite_end_a_reply_with_words(void **state) {
    static result got[4];
    fixture f = {0};
    (void)state;
    open_far(&f, true);
    fail_in_the_middle(&f, "nan", got);
    for (int i = 0; i < 4; i++) assert_int_equal(got[i].status, IG_ERR_NOT_FINITE);
    OK(ig_engine_call(f.engine, set_fault, NULL));
    const result after = ask_again(&f);
    if (after.status != IG_OK) fail_msg("%s", after.error);
    close_engine(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocation_that_fails_ends_one_request),
        cmocka_unit_test(without_memory_requests_fail_and_the_engine_goes_on),
        IN_DIRECTORY(any_allocation_from_create_to_destroy_may_fail),
        cmocka_unit_test(replies_continue_on_another_device),
        cmocka_unit_test(replies_end_with_the_reason_and_the_next_is_served),
        cmocka_unit_test(numbers_that_are_not_finite_end_a_reply_with_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
