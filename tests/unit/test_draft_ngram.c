/*
 * N-gram speculative decoding: the draft of a text, and that generation with drafts makes
 * the same tokens from the same logits, ends at the same place, and leaves the same
 * sequence behind.
 */
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "ingot/session.h"
#include "model/draft_ngram.h"
#include "model/synthetic/synthetic_models.h"

enum { VOCABULARY = 320, MOST_TOKENS = 128 };

/* ---- drafts ---- */

static void a_draft_continues_a_text_as_it_continued_before(void **state) {
    (void)state;
    static const struct {
        int32_t tokens[10];
        int64_t count;
        int32_t last;
        int64_t ngram, most;
        bool found;
        int32_t want[4];
    } cases[] = {
        {{1, 2, 3, 4, 5, 1}, 6, 2, 2, 3, true, {3, 4, 5}},
        {{1, 2, 3, 1, 2, 4, 1}, 7, 2, 2, 2, true, {4, 1}}, /* the newest place */
        {{1, 2, 3, 4, 5, 9}, 6, 2, 2, 3, false, {0}},
        {{7, 8, 7}, 3, 8, 2, 4, true, {7, 8, 7, 8}}, /* in rounds */
        {{5, 5}, 2, 5, 1, 3, true, {5, 5, 5}},
        {{5}, 1, 5, 2, 3, false, {0}}, /* too short */
        {{0}, 0, 5, 1, 3, false, {0}},
        {{1, 2, 3}, 3, 4, 1, 3, false, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t got[4] = {0};
        assert_int_equal(ig_draft_ngram(cases[i].tokens, cases[i].count, cases[i].last,
                                        cases[i].ngram, got, cases[i].most),
                         cases[i].found);
        assert_memory_equal(got, cases[i].want, sizeof got);
    }
}

/* ---- generation ---- */

typedef struct made {
    int32_t tokens[MOST_TOKENS];
    float logits[MOST_TOKENS][VOCABULARY];
    int n;
    char text[4096];
    size_t n_text;
    ig_generated result;
    int32_t held[MOST_TOKENS];
    int64_t n_held;
} made;

static void keep_token(void *user, int32_t id, const float *logits) {
    made *m = user;
    assert_true(m->n < MOST_TOKENS);
    memcpy(m->logits[m->n], logits, sizeof m->logits[0]);
    m->tokens[m->n++] = id;
}

static bool keep_text(void *user, const char *text, size_t bytes) {
    made *m = user;
    assert_true(m->n_text + bytes < sizeof m->text);
    memcpy(m->text + m->n_text, text, bytes);
    m->n_text += bytes;
    return true;
}

static void generate(ig_adapter *a, ig_generate_options o, made *out) {
    static const int32_t prompt[] = {3, 40, 41, 42, 9, 40, 41, 42, 17, 40, 41};
    *out = (made){.n = 0};
    must(ig_session_create(a, NULL, &o.session));
    o.prompt_tokens = prompt;
    o.n_prompt_tokens = sizeof prompt / sizeof prompt[0];
    o.ignore_eos = true;
    o.token = keep_token;
    o.emit = keep_text;
    o.user = out;
    must(ig_adapter_generate(a, &o, &out->result));
    out->n_held = ig_session_length(o.session, 0);
    memcpy(out->held, ig_session_tokens(o.session, 0), (size_t)out->n_held * sizeof out->held[0]);
    ig_session_destroy(o.session);
}

static void same(const made *got, const made *want) {
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->tokens, want->tokens, (size_t)got->n * sizeof got->tokens[0]);
    assert_memory_equal(got->logits, want->logits, (size_t)got->n * sizeof got->logits[0]);
    assert_int_equal(got->n_text, want->n_text);
    assert_memory_equal(got->text, want->text, got->n_text);
    assert_int_equal(got->result.finish, want->result.finish);
    assert_int_equal(got->n_held, want->n_held);
    assert_memory_equal(got->held, want->held, (size_t)got->n_held * sizeof got->held[0]);
}

/* With these biases the text is made of three tokens, which the penalty makes alternate. */
static const ig_logit_bias biases[] = {{50, 60}, {51, 60}, {52, 60}};
static const char *const stops[] = {"never said", "3"};

typedef struct way {
    const char *name;
    ig_generate_options options;
    bool repeats; /* so that drafts must be accepted */
} way;

static const way ways[] = {
    {"greedy", {.sampling = {.temperature = -1}}, false},
    {"greedy, a text that repeats itself",
     {.sampling = {.temperature = -1,
                   .repeat_penalty = 1.5,
                   .repeat_last_n = 2,
                   .biases = biases,
                   .n_biases = 3}},
     true},
    {"drawn", {.sampling = {.temperature = 1, .seed = 7}}, false},
    {"drawn, a text that repeats itself",
     {.sampling = {.temperature = 0.7, .seed = 3, .biases = biases, .n_biases = 2}},
     true},
    {"a few tokens",
     {.max_tokens = 9, .sampling = {.temperature = -1, .biases = biases, .n_biases = 1}},
     true},
    {"until a text is said",
     {.sampling = {.temperature = 2, .seed = 5, .top_k = -1}, .stop = stops, .n_stop = 2},
     false},
};

static void drafts_change_nothing_but_the_time(void **state) {
    ig_adapter *a = *state;
    static made want, got;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (int64_t ngram = 1; ngram <= 3; ngram++) {
            ig_generate_options o = ways[i].options;
            generate(a, o, &want);
            assert_int_equal(want.result.n_drafted, 0);
            o.draft_ngram = ngram;
            o.draft_max = ngram == 3 ? 15 : 0;
            generate(a, o, &got);
            same(&got, &want);
            if (ways[i].repeats && got.result.n_accepted == 0)
                fail_msg("%s: none of %lld draft tokens was accepted", ways[i].name,
                         (long long)got.result.n_drafted);
            assert_true(got.result.n_accepted <= got.result.n_drafted);
        }
}

static void longer_drafts_than_the_limit_are_refused(void **state) {
    ig_adapter *a = *state;
    const int32_t token = 1;
    const ig_generate_options o = {.prompt_tokens = &token,
                                   .n_prompt_tokens = 1,
                                   .draft_ngram = 2,
                                   .draft_max = IG_DRAFT_MAX + 1};
    refused(ig_adapter_generate(a, &o, NULL), IG_ERR_ARGUMENT, "64 draft tokens");
}

static ig_ctx *ctx;

static int open_adapter(void **state) {
    char path[128];
    ig_adapter *adapter = NULL;
    snprintf(path, sizeof path, "/tmp/ingot-draft-%d", (int)getpid());
    must(model_save("llama", IG_Q8_0, path));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &ctx));
    must(ig_adapter_load(ctx, path, &adapter));
    unlink(path);
    *state = adapter;
    return 0;
}

static int close_adapter(void **state) {
    ig_adapter_destroy(*state);
    ig_ctx_destroy(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_continues_a_text_as_it_continued_before),
        cmocka_unit_test_setup_teardown(drafts_change_nothing_but_the_time, open_adapter,
                                        close_adapter),
        cmocka_unit_test_setup_teardown(longer_drafts_than_the_limit_are_refused, open_adapter,
                                        close_adapter),
    };
    return cmocka_run_group_tests_name("draft", tests, NULL, NULL);
}
