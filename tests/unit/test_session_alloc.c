/*
 * A model file, a session of it, a prompt, an answer, the state saved and restored, or
 * a text made into a vector, with every allocation failing once.
 *
 * However it ends, it ends with IG_OK and the same logits, or with IG_ERR_MEMORY and
 * words; and everything that was allocated has been freed.
 */
#include <unistd.h>

#include "directory.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"
#include "unit/meter.h"

enum { PROMPT = 70, TOKENS = 320 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 11 }; /* of the allocations that fail: sanitizers are slow */
#else
enum { STRIDE = 1 };
#endif

typedef struct run {
    meter *meter;
    const char *model, *state;
    ig_ctx *ctx;
    ig_model *file;
    ig_adapter *adapter;
    ig_session *session;
    float logits[TOKENS]; /* or a vector, which is shorter */
    ig_status (*work)(struct run *r);
} run;

static ig_status open_all(run *r) {
    const ig_allocator memory = meter_allocator(r->meter);
    IG_TRY(ig_model_load(r->model, &(ig_model_options){.allocator = memory}, &r->file));
    IG_TRY(ig_ctx_create(&(ig_ctx_options){.threads = 1, .allocator = memory}, &r->ctx));
    return ig_adapter_from_model(r->ctx, r->file, &r->adapter);
}

/* A prompt in micro-batches, two more tokens, the state into a file and from it, one token more. */
static ig_status converse(run *r) {
    const ig_session_options options = {.ubatch = 32, .ctx_len = 128, .n_sequences = 2};
    int32_t tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++) tokens[i] = (i * 37 + i * i) % TOKENS;
    IG_TRY(ig_session_create(r->adapter, &options, &r->session));
    IG_TRY(ig_session_feed(r->session, 0, tokens, PROMPT, r->logits));
    IG_TRY(ig_session_feed(r->session, 0, tokens, 1, r->logits));
    IG_TRY(ig_session_fork(r->session, 0, 1));
    IG_TRY(ig_session_feed(r->session, 1, tokens + 1, 1, r->logits));
    IG_TRY(ig_session_save(r->session, 1, r->state));
    IG_TRY(ig_session_load(r->session, 0, r->state));
    return ig_session_feed(r->session, 0, tokens + 2, 1, r->logits);
}

static ig_status embed(run *r) {
    return ig_adapter_embed(r->adapter, "the cat sat", 11, IG_POOL_MEAN, r->logits, NULL);
}

static ig_status run_all(run *r) {
    ig_status status = open_all(r);
    if (status == IG_OK) status = r->work(r);
    ig_session_destroy(r->session);
    ig_adapter_destroy(r->adapter);
    ig_ctx_destroy(r->ctx);
    ig_model_release(r->file);
    return status;
}

static void must_end_well(const run *r, ig_status status, const run *calm) {
    const meter *m = r->meter;
    const int n = (int)m->fail_at;
    if (m->held != 0) fail_msg("allocation %d fails: %d are not freed", n, (int)m->held);
    if (status != IG_OK && status != IG_ERR_MEMORY)
        fail_msg("allocation %d fails: %s: %s", n, ig_status_text(status), ig_error_text());
    if (status == IG_ERR_MEMORY) assert_true(m->failed && strlen(ig_error_text()) > 3);
    if (status == IG_OK) assert_memory_equal(r->logits, calm->logits, sizeof r->logits);
}

static void let_each_fail(void **state, const char *model, ig_status (*work)(run *r)) {
    char path[PATH_BYTES], saved[PATH_BYTES];
    must(model_save(model, IG_Q4_0, directory_path(state, "model.gguf", path)));
    directory_path(state, "state", saved);
    meter none = {0};
    run calm = {.meter = &none, .model = path, .state = saved, .work = work};
    must(run_all(&calm));
    assert_int_equal(none.held, 0);
    print_message("%d allocations\n", (int)none.asked);
    for (uint64_t n = 1; n <= none.asked; n += STRIDE) {
        meter m = {.fail_at = n};
        run r = {.meter = &m, .model = path, .state = saved, .work = work};
        must_end_well(&r, run_all(&r), &calm);
    }
}

static void every_allocation_of_a_session_may_fail(void **state) {
    let_each_fail(state, "llama", converse);
}

static void every_allocation_of_an_embedding_may_fail(void **state) {
    let_each_fail(state, "llama", embed);
    let_each_fail(state, "bert", embed);
}

/* Other vocabularies, other weights: opening alone. */
static void every_allocation_of_opening_a_model_may_fail(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "model.gguf", path);
    for (size_t i = 0; model_name(i); i++) {
        must(model_save(model_name(i), IG_Q8_0, path));
        bool failed = true;
        for (uint64_t n = 1; failed; n += STRIDE) {
            meter m = {.fail_at = n};
            ig_model *model = NULL;
            const ig_model_options options = {.allocator = meter_allocator(&m)};
            const ig_status status = ig_model_load(path, &options, &model);
            failed = m.failed;
            if (status != (failed ? IG_ERR_MEMORY : IG_OK) && !(failed && status == IG_OK))
                fail_msg("%s: allocation %d fails: %s", model_name(i), (int)n, ig_error_text());
            ig_model_release(model);
            assert_int_equal(m.held, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(every_allocation_of_opening_a_model_may_fail),
        IN_DIRECTORY(every_allocation_of_a_session_may_fail),
        IN_DIRECTORY(every_allocation_of_an_embedding_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
