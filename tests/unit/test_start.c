/*
 * How a session starts: its first run is a run of the plan, weights are packed before
 * it, and what they were packed from goes.  Packed or not, the bits are the same;
 * who has no memory for packing reads weights as they lie, and packing can be stopped.
 */
#include <stdio.h>

#include "backend/cpu/exec/pack.h"
#include "base/file.h"
#include "directory.h"
#include "ingot/packing.h"
#include "ingot/report.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"
#include "unit/meter.h"

enum { PROMPT = 40, VOCABULARY = 320 }; /* of the models */

static const ig_dtype types[] = {IG_Q4_0, IG_Q4_1,   IG_Q5_0,  IG_Q5_1,   IG_Q8_0,
                                 IG_Q2_K, IG_Q3_K,   IG_Q4_K,  IG_Q5_K,   IG_Q6_K,
                                 IG_F16,  IG_IQ4_NL, IG_MXFP4, IG_IQ4_XS, IG_BF16};

/* A model in a context of its own. */
typedef struct engine {
    ig_model *model;
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session;
} engine;

static ig_status open_engine(const char *path, const ig_model_options *model,
                             const ig_ctx_options *ctx, engine *e) {
    *e = (engine){0};
    IG_TRY(ig_model_load(path, model, &e->model));
    IG_TRY(ig_ctx_create(ctx, &e->ctx));
    IG_TRY(ig_adapter_from_model(e->ctx, e->model, &e->adapter));
    return ig_session_create(e->adapter, &(ig_session_options){.ubatch = 32}, &e->session);
}

static void close_engine(engine *e) {
    ig_session_destroy(e->session);
    ig_adapter_destroy(e->adapter);
    ig_ctx_destroy(e->ctx);
    ig_model_release(e->model);
}

/* A prompt, which needs two buckets, and two more tokens: the logits after each. */
typedef struct answer {
    float logits[3][VOCABULARY];
} answer;

static ig_status ask(const engine *e, answer *out) {
    int32_t tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++) tokens[i] = (i * 37 + i * i) % VOCABULARY;
    IG_TRY(ig_session_truncate(e->session, 0, 0));
    IG_TRY(ig_session_feed(e->session, 0, tokens, PROMPT, out->logits[0]));
    for (int i = 1; i < 3; i++)
        IG_TRY(ig_session_feed(e->session, 0, &tokens[i], 1, out->logits[i]));
    return IG_OK;
}

/* ---- the first run ---- */

static void no_op_of_a_session_runs_alone(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "model.gguf", path);
    must(model_save("llama", IG_Q4_0, path));
    engine e;
    answer got;
    must(open_engine(path, NULL, &(ig_ctx_options){.device = "cpu", .threads = 2}, &e));
    must(ask(&e, &got));
    const ig_counters c = ig_report_counters(e.ctx);
    assert_int_equal(c.program_hits + c.program_misses, 0);
    assert_int_equal(c.submits, c.records + c.replays); /* a program each */
    assert_true(c.records > 0);
    assert_true(ig_report_first_submit(e.ctx) > 0);
    close_engine(&e);
}

/* ---- packed or not ---- */

static void ask_once(const char *path, bool no_pack, int threads, answer *out) {
    engine e;
    must(open_engine(path, &(ig_model_options){.no_pack = no_pack},
                     &(ig_ctx_options){.device = "cpu", .threads = threads}, &e));
    must(ask(&e, out));
    close_engine(&e);
}

/* Experts are packed as well: a block of columns each. */
static void packed_weights_give_the_bits_of_those_in_the_file(void **state) {
    static const char *const names[] = {"llama-tied", "qwen3moe"};
    char path[PATH_BYTES];
    static answer want, got;
    directory_path(state, "model.gguf", path);
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            must(model_save(names[n], types[t], path));
            ask_once(path, true, 1, &want);
            ask_once(path, false, 2, &got);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s of %s: other bits when packed", names[n], ig_dtype_name(types[t]));
        }
}

/* ---- memory ---- */

/* Bytes of the file that the process has in memory. */
static long resident_of(const char *path) {
    char line[PATH_BYTES + 128];
    long kilobytes = 0, all = 0;
    bool ours = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to; /* the first line of a mapping has its addresses */
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) ours = strstr(line, path) != NULL;
        if (ours && sscanf(line, "Rss: %ld kB", &kilobytes) == 1) all += kilobytes * 1024;
    }
    fclose(maps);
    return all;
}

/* A product with a weight that is a file's: zeros, of which none takes room on disk. */
typedef struct product {
    ig_tensor *x, *w, *y;
} product;

static ig_status multiply(void *arg) {
    product *p = arg;
    p->y = ig_tensor_retain(ig_matmul_with(p->x, p->w, (ig_matmul_options){.transpose_b = true}));
    return IG_OK;
}

static void pages_that_were_packed_are_not_in_memory_any_more(void **state) {
    enum { ROWS = 4096, K = 4096 };
    const ig_desc desc = {IG_Q8_0, IG_SHAPE(ROWS, K)};
    char path[PATH_BYTES];
    uint64_t bytes = 0;
    product p = {0};
    ig_ctx *ctx = NULL;
    ig_packing *packing = NULL;
    ig_captured *program = NULL;
    ig_file_map map;
    assert_true(ig_desc_bytes(desc, &bytes));
    FILE *file = fopen(directory_path(state, "weight", path), "we");
    assert_true(file && ftruncate(fileno(file), (off_t)bytes) == 0 && fclose(file) == 0);
    must(ig_file_map_open(path, &map));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1}, &ctx));
    must(ig_packing_create(NULL, &packing));
    must(ig_packing_add(packing, map.bytes, bytes, IG_PACK_MAPPED));
    must(ig_ctx_attach_packing(ctx, packing));
    must(ig_tensor_wrap(ctx, desc, NULL, (void *)(uintptr_t)map.bytes, NULL, NULL, &p.w));
    must(ig_tensor_freeze(p.w));
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(1, K)}, &p.x));
    must(ig_capture(ctx, multiply, &p, &program));
    if (ig_packing_bytes(packing) > 0) assert_true((uint64_t)resident_of(path) < bytes / 16);
    ig_captured_destroy(program);
    ig_tensor_release(p.y);
    ig_tensor_release(p.x);
    ig_tensor_release(p.w);
    ig_ctx_detach_packing(ctx, packing);
    ig_ctx_destroy(ctx);
    ig_packing_release(packing);
    ig_file_map_close(&map);
}

/* A host that watches a weight being packed, 32 MiB of it. */
typedef struct watcher {
    ig_host host;
    char *packed;
    uint64_t reached; /* bytes of the weight in the last progress event, */
    int slices;       /* and how often it was */
} watcher;

enum { WATCHED_ROWS = 4096, WATCHED_BYTES = 8192 };

static void pack_ones(const void *params, const char *weight, char *packed, int64_t begin,
                      int64_t end) {
    (void)params, (void)weight;
    memset(packed + begin * WATCHED_BYTES, 1, (size_t)(end - begin) * WATCHED_BYTES);
}

static void *give_memory(const ig_host *host, const ig_operand *weight, const char *layout,
                         uint64_t bytes, bool *out_ready) {
    (void)weight, (void)layout, (void)bytes;
    *out_ready = false;
    return ((const watcher *)host)->packed;
}

static void is_reached(const ig_host *host, const ig_operand *weight, uint64_t source_bytes) {
    watcher *w = (watcher *)(uintptr_t)host;
    (void)weight;
    assert_true(source_bytes > w->reached && source_bytes <= WATCHED_ROWS * WATCHED_BYTES);
    assert_int_equal(w->packed[source_bytes - 1], 1); /* not before it is packed */
    w->reached = source_bytes;
    w->slices++;
}

static void is_done(const ig_host *host, const ig_operand *weight, bool whole) {
    (void)host, (void)weight;
    assert_true(whole);
}

static bool goes_on(ig_progress *progress, uint64_t done, uint64_t total) {
    (void)progress;
    assert_int_equal(done, total);
    return true;
}

static void a_large_weight_goes_from_memory_in_slices(void **state) {
    (void)state;
    static char weight[1], packed[WATCHED_ROWS * WATCHED_BYTES];
    watcher w = {.host = {.struct_size = sizeof(ig_host),
                          .progress = goes_on,
                          .pack_begin = give_memory,
                          .pack_end = is_done,
                          .pack_consumed = is_reached},
                 .packed = packed};
    const ig_operand in = {.desc = {IG_F32, IG_SHAPE(WATCHED_ROWS, WATCHED_BYTES / 4)},
                           .stride = {WATCHED_BYTES / 4, 1},
                           .kind = IG_KIND_WEIGHT,
                           .host = weight};
    const ig_step step = {.in = &in, .n_in = 1};
    ig_cpu_setup setup = {0};
    setup.pack.run = (ig_cpu_kernel *)(uintptr_t)1; /* never called */
    setup.pack.pack = pack_ones;
    setup.pack.groups = WATCHED_ROWS;
    setup.pack.group_bytes = WATCHED_BYTES;
    ig_cpu_pack_progress progress = {.total = sizeof packed};
    const void *out = NULL;
    must(ig_cpu_pack_weight(&w.host, &step, &setup, &progress, &out));
    assert_ptr_equal(out, packed);
    assert_int_equal(w.reached, sizeof packed);
    assert_true(w.slices > 1);
}

/* One run, in which allocation number n of the model fails: of its tables, or of what is packed. */
static void fail_one(const char *path, uint64_t n, const answer *want, bool *out_failed) {
    meter m = {.fail_at = n};
    engine e;
    static answer got;
    ig_status status = open_engine(path, &(ig_model_options){.allocator = meter_allocator(&m)},
                                   &(ig_ctx_options){.device = "cpu", .threads = 1}, &e);
    if (status == IG_OK) status = ask(&e, &got);
    if (status != IG_OK && status != IG_ERR_MEMORY)
        fail_msg("allocation %d fails: %s", (int)n, ig_error_text());
    if (status == IG_OK && memcmp(&got, want, sizeof got) != 0)
        fail_msg("allocation %d fails: other bits", (int)n);
    close_engine(&e);
    assert_int_equal(m.held, 0);
    *out_failed = m.failed;
}

static void weights_that_there_is_no_memory_for_are_read_as_they_lie(void **state) {
    char path[PATH_BYTES];
    static answer want;
    directory_path(state, "model.gguf", path);
    must(model_save("qwen3moe", IG_Q4_K, path));
    ask_once(path, true, 1, &want);
    bool failed = true;
    for (uint64_t n = 1; failed; n++) fail_one(path, n, &want, &failed);
}

/* ---- stopped ---- */

typedef struct stopper {
    int packed; /* how often packing has told of itself */
    int stop_at;
} stopper;

static void count_packing(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    stopper *s = user;
    (void)done, (void)total;
    s->packed += event == IG_PROGRESS_PACK;
}

static bool is_over(void *user) {
    const stopper *s = user;
    return s->stop_at && s->packed >= s->stop_at;
}

static void packing_can_be_stopped_and_gone_on_with(void **state) {
    char path[PATH_BYTES];
    static answer want, got;
    directory_path(state, "model.gguf", path);
    must(model_save("llama", IG_Q4_0, path));
    ask_once(path, true, 1, &want);
    for (int stop_at = 1; stop_at <= 4; stop_at++) {
        stopper s = {.stop_at = stop_at};
        engine e;
        must(open_engine(path, NULL,
                         &(ig_ctx_options){.device = "cpu",
                                           .threads = 2,
                                           .progress = count_packing,
                                           .cancel = is_over,
                                           .user = &s},
                         &e));
        refused(ask(&e, &got), IG_ERR_CANCELLED, "packing weights was stopped");
        assert_int_equal(s.packed, stop_at); /* it ends with the weight at hand */
        assert_int_equal(ig_session_length(e.session, 0), 0);
        s.stop_at = 0;
        must(ask(&e, &got));
        assert_memory_equal(&got, &want, sizeof got);
        close_engine(&e);
    }
}

/* ---- reading ---- */

static void reading_a_file_says_how_far_it_is_and_can_be_stopped(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "model.gguf", path);
    must(model_save("llama", IG_Q4_0, path));
    ig_model *model = NULL;
    stopper s = {.stop_at = 1};
    s.packed = 1;
    const ig_model_options options = {.no_mmap = true, .cancel = is_over, .user = &s};
    refused(ig_model_load(path, &options, &model), IG_ERR_CANCELLED, "reading it was stopped");
    assert_null(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(no_op_of_a_session_runs_alone),
        IN_DIRECTORY(packed_weights_give_the_bits_of_those_in_the_file),
        IN_DIRECTORY(pages_that_were_packed_are_not_in_memory_any_more),
        cmocka_unit_test(a_large_weight_goes_from_memory_in_slices),
        IN_DIRECTORY(weights_that_there_is_no_memory_for_are_read_as_they_lie),
        IN_DIRECTORY(packing_can_be_stopped_and_gone_on_with),
        IN_DIRECTORY(reading_a_file_says_how_far_it_is_and_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
