/*
 * The prefix cache: what is evicted, why a prompt was not found, and the cache on disk, which is
 * another process's, full or corrupt.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "directory.h"
#include "engine/prefix_cache.h"
#include "unit/engine_runs.h"
#include "unit/file_limit.h"

/* ---- an engine with a log ---- */

typedef struct log_lines {
    char text[8192];
    size_t used;
    int n_warnings;
} log_lines;

static void add_line(void *user, ig_log_level level, const char *text) {
    log_lines *lines = user;
    lines->n_warnings += level == IG_LOG_WARNING;
    lines->used +=
        (size_t)snprintf(lines->text + lines->used, sizeof lines->text - lines->used, "%s\n", text);
    assert_true(lines->used < sizeof lines->text);
}

static void assert_logged(const log_lines *lines, const char *words) {
    if (!strstr(lines->text, words)) fail_msg("\"%s\" is not in\n%s", words, lines->text);
}

static fixture open_logged(log_lines *lines, ig_engine_options options) {
    *lines = (log_lines){0};
    options.log = add_line;
    options.user = lines;
    return open_engine(&options);
}

static uint64_t restored(const fixture *f) { return stats_of(f).n_restored_pages; }

/* ---- why a prompt was not found ---- */

static void a_miss_has_its_reason_in_the_log(void **state) {
    int32_t prompt[300];
    log_lines lines;
    fixture f = open_logged(&lines, (ig_engine_options){.n_sequences = 1});
    (void)state;
    make_prompt(prompt, 300, 0, 1);
    ig_request q = {.tokens = prompt, .n_tokens = 150, .max_tokens = 1};
    ask(&f, &q);
    assert_logged(&lines, "request 1: 0 of 150 prompt tokens are cached: nothing cached begins");
    ask(&f, &q);
    assert_null(strstr(lines.text, "request 2")); /* all was found */
    q.n_tokens = 300;
    ask(&f, &q);
    assert_logged(&lines, "request 3: 150 of 300 prompt tokens are cached: the cached text ends");
    const int32_t was = prompt[200];
    prompt[200] = '"';
    ask(&f, &q);
    char words[256];
    snprintf(words, sizeof words,
             "request 4: 200 of 300 prompt tokens are cached: the next token is \"\\\"\", the "
             "nearest cached text has \"%c\"",
             (char)was);
    assert_logged(&lines, words);
    q.salt = "another";
    q.salt_bytes = 7;
    ask(&f, &q);
    assert_logged(&lines, "request 5: 0 of 300 prompt tokens are cached: the next page was cached "
                          "with another salt");
    assert_int_equal(lines.n_warnings, 0);
    close_engine(&f);
}

static void pages_go_in_the_order_of_their_last_use(void **state) {
    enum { PROMPTS = 4, LENGTH = 128 };
    int32_t prompts[PROMPTS + 1][LENGTH];
    log_lines lines;
    /* One context of 8 pages: four prompts of two. */
    fixture f = open_logged(&lines, (ig_engine_options){.n_sequences = 1, .kv_bytes = 1});
    ig_request q = {.n_tokens = LENGTH, .prefill_only = true};
    ig_engine_stats stats;
    (void)state;
    for (unsigned i = 0; i <= PROMPTS; i++) make_prompt(prompts[i], LENGTH, 0, 3 * i);
    for (int i = 0; i < PROMPTS; i++) {
        q.tokens = prompts[i];
        assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 0);
    }
    stats = stats_of(&f);
    assert_int_equal(stats.n_pages, 8);
    assert_int_equal(stats.n_cached_pages, 8);
    assert_int_equal(stats.n_evicted_pages, 0);
    q.tokens = prompts[0];
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, LENGTH - 1); /* now it is the newest */
    q.tokens = prompts[PROMPTS];
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 0);
    stats = stats_of(&f);
    assert_true(stats.n_evicted_pages >= 2);
    q.tokens = prompts[0];
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, LENGTH - 1);
    q.tokens = prompts[1];
    assert_true(ask(&f, &q).stats.n_cached_tokens < IG_PAGE_TOKENS);
    assert_logged(&lines, "are cached: the next page was evicted");
    close_engine(&f);
}

/* ---- the cache on disk ---- */

enum { KEPT = 3 }; /* prompts: without a salt, and with two */

static ig_request kept_request(int i, int32_t *prompt) {
    static const char *const salts[KEPT] = {NULL, "one", "two"};
    make_prompt(prompt, 300, 0, (unsigned)(i == 2 ? 1 : i)); /* the last two are equal */
    return (ig_request){.tokens = prompt,
                        .n_tokens = 300,
                        .max_tokens = 20,
                        .sampling = {.seed = (uint64_t)i},
                        .ignore_eos = true,
                        .salt = salts[i],
                        .salt_bytes = salts[i] ? 3 : 0};
}

/* Runs the requests in an engine that stores its cache. */
static void store(const ig_engine_options *options, result *out) {
    int32_t prompt[300];
    fixture f = open_engine(options);
    for (int i = 0; i < KEPT; i++) {
        const ig_request q = kept_request(i, prompt);
        const result got = ask(&f, &q);
        assert_int_equal(got.stats.n_cached_tokens, 0);
        if (out) out[i] = got;
    }
    close_engine(&f);
}

static void keep(void **state, const char *type) {
    static result before[KEPT];
    char path[PATH_BYTES];
    int32_t prompt[300];
    log_lines lines;
    const ig_engine_options options = {.prefix_cache_file = directory_path(state, "cache", path),
                                       .cache_type_k = type,
                                       .cache_type_v = type};
    store(&options, before);
    fixture f = open_logged(&lines, options);
    assert_int_equal(restored(&f), KEPT * 5); /* 319 positions each */
    for (int i = 0; i < KEPT; i++) {
        const ig_request q = kept_request(i, prompt);
        const result after = ask(&f, &q);
        assert_int_equal(after.stats.n_cached_tokens, 299);
        assert_same(&after.choice[0], &before[i].choice[0]);
    }
    ig_request other = kept_request(2, prompt);
    other.salt = "six";
    assert_int_equal(ask(&f, &other).stats.n_cached_tokens, 0);
    assert_int_equal(lines.n_warnings, 0);
    close_engine(&f);
    assert_int_equal(directory_count(state), 1);
    remove(path);
}

static void a_stored_cache_gives_the_same_bits(void **state) {
    keep(state, NULL);
    keep(state, "f32");
}

static void salts_are_not_stored(void **state) {
    char path[PATH_BYTES], chunk[4096];
    int32_t prompt[300];
    fixture f = open_engine(
        &(ig_engine_options){.prefix_cache_file = directory_path(state, "cache", path)});
    ig_request q = kept_request(0, prompt);
    q.salt = "secret-key-0123456789";
    q.salt_bytes = 21;
    ask(&f, &q);
    close_engine(&f);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    const size_t n = fread(chunk, 1, sizeof chunk, file); /* head, salts and first tokens */
    fclose(file);
    assert_true(n > 100);
    assert_null(memmem(chunk, n, "secret-key", 10));
}

static void a_cache_of_something_else_is_ignored_with_a_warning(void **state) {
    char path[PATH_BYTES];
    int32_t prompt[300];
    log_lines lines;
    const ig_request q = kept_request(0, prompt);
    ig_engine_options options = {
        .prefix_cache_file = directory_path(state, "cache", path), .log = add_line, .user = &lines};
    store(&(ig_engine_options){.prefix_cache_file = path}, NULL);

    options.cache_type_k = "f32"; /* another type, */
    fixture f = open_logged(&lines, options);
    assert_logged(&lines, "not loaded");
    assert_logged(&lines, "another model, KV cache type or device");
    assert_int_equal(restored(&f), 0);
    ig_engine_destroy(f.engine); /* empty: it leaves the file alone */
    ig_adapter_destroy(f.adapter);

    fixture other = {.ctx = f.ctx}; /* and other weights */
    const ig_model_config config = {
        .d_model = 64, .n_layers = 2, .n_heads = 4, .d_ff = 128, .ctx_len = CONTEXT};
    OK(ig_adapter_create(f.ctx, "gpt", &config, &other.adapter));
    options.cache_type_k = NULL;
    lines = (log_lines){0};
    OK(ig_engine_create(other.adapter, &options, &other.engine));
    assert_int_equal(lines.n_warnings, 1);
    assert_int_equal(ask(&other, &q).stats.n_cached_tokens, 0);
    ig_engine_destroy(other.engine);
    ig_adapter_destroy(other.adapter);
    ig_ctx_destroy(f.ctx);

    f = open_logged(&lines, (ig_engine_options){.prefix_cache_file = path}); /* was replaced */
    assert_int_equal(lines.n_warnings, 1);
    close_engine(&f);
}

static void a_full_disk_is_a_warning_and_leaves_the_file_before(void **state) {
    char path[PATH_BYTES];
    int32_t prompt[300];
    log_lines lines;
    struct stat was, is;
    const ig_engine_options options = {.prefix_cache_file = directory_path(state, "cache", path)};
    store(&options, NULL);
    assert_int_equal(stat(path, &was), 0);
    fixture f = open_logged(&lines, options);
    ig_request q = kept_request(0, prompt);
    q.salt = "new";
    q.salt_bytes = 3;
    ask(&f, &q);
    const rlim_t before = limit_files(8192);
    close_engine(&f);
    limit_files(before);
    assert_int_equal(lines.n_warnings, 1);
    assert_logged(&lines, "prefix cache: not stored: ");
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_size, was.st_size);
    assert_int_equal(is.st_ino, was.st_ino);
    f = open_logged(&lines, options);
    assert_int_equal(restored(&f), KEPT * 5);
    close_engine(&f);
    assert_int_equal(directory_count(state), 1);
}

static void the_file_has_the_pages_used_last_and_no_more_than_its_limit(void **state) {
    enum { LIMIT = 200 << 10 }; /* a page takes 32 KiB and more */
    char path[PATH_BYTES];
    int32_t prompt[300];
    log_lines lines;
    struct stat file;
    ig_engine_options options = {.prefix_cache_file = directory_path(state, "cache", path),
                                 .prefix_cache_file_bytes = LIMIT};
    store(&options, NULL);
    assert_int_equal(stat(path, &file), 0);
    assert_in_range(file.st_size, LIMIT / 2, LIMIT);
    options.n_sequences = 1;
    fixture f = open_logged(&lines, options);
    const uint64_t pages = restored(&f);
    assert_in_range(pages, 4, 6);
    ig_request q = kept_request(2, prompt);
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 299);
    q = kept_request(0, prompt);
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 0);
    close_engine(&f);

    options.kv_bytes = 1; /* a pool of one context, 8 pages, and a file of 15 */
    options.prefix_cache_file_bytes = 0;
    remove(path);
    store(&(ig_engine_options){.prefix_cache_file = path, .kv_bytes = 15 * 64 * 512}, NULL);
    f = open_logged(&lines, options);
    assert_int_equal(lines.n_warnings, 0);
    assert_in_range(restored(&f), 6, 8);
    q = kept_request(2, prompt);
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 299);
    close_engine(&f);
}

/* ---- slots as files ---- */

static void a_slot_is_saved_erased_and_restored(void **state) {
    char path[PATH_BYTES];
    int32_t prompt[300];
    int64_t n_tokens = 0;
    ig_job *job;
    ig_job_event event;
    const ig_engine_options options = {.n_sequences = 1, .kv_bytes = 1};
    fixture f = open_engine(&options);
    ig_request q = kept_request(1, prompt);
    directory_path(state, "slot", path);
    refused(ig_engine_save_slot(f.engine, 0, path, NULL), IG_ERR_STATE, "slot 0 has no text");
    refused(ig_engine_save_slot(f.engine, 1, path, NULL), IG_ERR_ARGUMENT, "slot 1 of 1");
    const result before = ask(&f, &q);
    OK(ig_engine_save_slot(f.engine, 0, path, &n_tokens));
    assert_int_equal(n_tokens, 319);
    OK(ig_engine_erase_slot(f.engine, 0, &n_tokens));
    assert_int_equal(n_tokens, 319);
    assert_int_equal(stats_of(&f).n_cached_pages, 0);
    refused(ig_engine_erase_slot(f.engine, 0, NULL), IG_ERR_STATE, "no text");

    q.max_tokens = 0; /* it fills the pool and the slot */
    job = submit(&f, &q);
    do assert_true(ig_job_wait(job, -1));
    while (ig_job_poll(job, &event) && event.type != IG_JOB_EVENT_TOKEN);
    refused(ig_engine_restore_slot(f.engine, 0, path, "one", 3, NULL), IG_ERR_BUSY, "runs request");
    assert_int_equal(collect(job).status, IG_OK);

    OK(ig_engine_restore_slot(f.engine, 0, path, "own", 3, &n_tokens));
    assert_int_equal(n_tokens, 319);
    q = kept_request(1, prompt);
    q.salt = "two";
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 0);
    OK(ig_engine_restore_slot(f.engine, 0, path, "own", 3, &n_tokens));
    q.salt = "own";
    const result after = ask(&f, &q);
    assert_int_equal(after.stats.n_cached_tokens, 299);
    assert_same(&after.choice[0], &before.choice[0]);
    refused(ig_engine_restore_slot(f.engine, 0, "/nonexistent/slot", NULL, 0, NULL), IG_ERR_IO,
            "/nonexistent/slot");
    assert_int_equal(ask(&f, &q).status, IG_OK);
    const ig_engine_stats stats = stats_of(&f);
    assert_int_equal(stats.n_free_pages + stats.n_cached_pages, stats.n_pages);
    close_engine(&f);
}

/* ---- corrupt files ---- */

typedef struct bench {
    fixture f;
    ig_session *session;
    ig_prefix_cache *cache;
    uint64_t identity;
    char path[PATH_BYTES], *bytes;
    size_t n_bytes;
} bench;

enum { BODY_SUM = 48, HEAD_SUM = 56, HEAD = 64, SALT = 64, NODE = 8 + 4 * IG_PAGE_TOKENS };

/* A file with two trees of three nodes, and a cache to load it into. */
static void open_bench(void **state, bench *b) {
    int32_t prompt[130];
    *b = (bench){0};
    open_model(&b->f, 1);
    OK(ig_session_create(b->f.adapter, &(ig_session_options){.n_sequences = 2}, &b->session));
    OK(ig_prefix_cache_create(b->session, &ig_heap, &b->cache));
    OK(ig_prefix_file_identify(b->session, &b->identity));
    make_prompt(prompt, 130, 0, 1);
    OK(ig_session_feed(b->session, 0, prompt, 130, NULL));
    const ig_salt_digest none = ig_salt_digest_of(NULL, 0), salt = ig_salt_digest_of("salt", 4);
    ig_prefix_cache_add(b->cache, (ig_prefix){&none, prompt, 130}, 0, true);
    ig_prefix_cache_add(b->cache, (ig_prefix){&salt, prompt, 130}, 0, true);
    directory_path(state, "cache", b->path);
    OK(ig_prefix_file_save(b->cache, b->path, b->identity, UINT64_MAX));
    OK(ig_session_truncate(b->session, 0, 0));
    ig_prefix_cache_clear(b->cache);
    FILE *file = fopen(b->path, "rbe");
    b->bytes = malloc(1 << 20);
    b->n_bytes = fread(b->bytes, 1, 1 << 20, file);
    fclose(file);
    assert_int_equal(b->n_bytes, HEAD + 2 * SALT + 6 * NODE + 2 * 130 * 512);
}

static void close_bench(bench *b) {
    free(b->bytes);
    ig_prefix_cache_destroy(b->cache);
    ig_session_destroy(b->session);
    close_engine(&b->f);
}

/* Loads these bytes; all pages are free again afterwards. */
static ig_status load(bench *b, const void *bytes, size_t n_bytes) {
    int64_t n_pages = 0;
    FILE *file = fopen(b->path, "wbe");
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    const ig_status status = ig_prefix_file_load(b->cache, b->path, b->identity, &n_pages);
    const int32_t held = b->session->pages.n_pages - b->session->pages.n_free;
    if (status == IG_OK) assert_int_equal(held, n_pages);
    if (status != IG_OK) assert_int_equal(held, 0);
    ig_prefix_cache_clear(b->cache);
    assert_int_equal(b->session->pages.n_free, b->session->pages.n_pages);
    return status;
}

static void any_byte_may_be_wrong_and_any_end_missing(void **state) {
    bench b;
    open_bench(state, &b);
    assert_int_equal(load(&b, b.bytes, b.n_bytes), IG_OK);
    for (size_t i = 0; i < b.n_bytes; i += i < HEAD + 2 * SALT + NODE ? 1 : 997) {
        b.bytes[i] ^= (char)(1 << i % 8);
        assert_int_not_equal(load(&b, b.bytes, b.n_bytes), IG_OK);
        b.bytes[i] ^= (char)(1 << i % 8);
    }
    for (size_t n = 0; n < b.n_bytes; n += n < 2 * HEAD ? 1 : 1009)
        assert_int_not_equal(load(&b, b.bytes, n), IG_OK);
    b.bytes[b.n_bytes] = 0;
    assert_int_not_equal(load(&b, b.bytes, b.n_bytes + 1), IG_OK);
    close_bench(&b);
}

static void seal(bench *b) {
    const uint64_t body = XXH3_64bits(b->bytes + HEAD, b->n_bytes - HEAD);
    memcpy(b->bytes + BODY_SUM, &body, sizeof body);
    const uint64_t head = XXH3_64bits(b->bytes, HEAD_SUM);
    memcpy(b->bytes + HEAD_SUM, &head, sizeof head);
}

/* With right checksums: the numbers lie. */
static void what_a_file_says_of_itself_is_checked(void **state) {
    static const int64_t values[] = {0,  1,       -1,        -2,        -3,        5,
                                     65, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    bench b;
    open_bench(state, &b);
    char *copy = malloc(b.n_bytes);
    memcpy(copy, b.bytes, b.n_bytes);
    int n_refused = 0;
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
        for (size_t at = 8; at < BODY_SUM; at += 8) { /* of the head */
            memcpy(b.bytes + at, &values[k], 8);
            seal(&b);
            assert_int_not_equal(load(&b, b.bytes, b.n_bytes), IG_OK);
            memcpy(b.bytes, copy, HEAD);
        }
        for (size_t node = 0; node < 6; node++)
            for (size_t field = 0; field < 4; field++) { /* parent, n_tokens, two tokens */
                const size_t at = HEAD + 2 * SALT + node * NODE + 4 * field;
                memcpy(b.bytes + at, &values[k], 4);
                seal(&b);
                n_refused += load(&b, b.bytes, b.n_bytes) != IG_OK;
                memcpy(b.bytes + at, copy + at, 4);
            }
    }
    assert_true(n_refused > 100);
    seal(&b);
    assert_int_equal(load(&b, b.bytes, b.n_bytes), IG_OK);
    free(copy);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_miss_has_its_reason_in_the_log),
        cmocka_unit_test(pages_go_in_the_order_of_their_last_use),
        IN_DIRECTORY(a_stored_cache_gives_the_same_bits),
        IN_DIRECTORY(salts_are_not_stored),
        IN_DIRECTORY(a_cache_of_something_else_is_ignored_with_a_warning),
        IN_DIRECTORY(a_full_disk_is_a_warning_and_leaves_the_file_before),
        IN_DIRECTORY(the_file_has_the_pages_used_last_and_no_more_than_its_limit),
        IN_DIRECTORY(a_slot_is_saved_erased_and_restored),
        IN_DIRECTORY(any_byte_may_be_wrong_and_any_end_missing),
        IN_DIRECTORY(what_a_file_says_of_itself_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
