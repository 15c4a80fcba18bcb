/*
 * Compiled programs that are kept: found again by what they were made of, and by nothing else.
 *
 * The device is simnpu, which packs weights when it compiles.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/entries.h"
#include "directory.h"
#include "unit/check.h"

enum { ROWS = 8, INNER = 32, COLUMNS = 24 };

typedef struct job {
    const char *folder;
    ig_compile_options compile;
    float nudge;  /* of one weight */
    int64_t rows; /* 0: ROWS */
    float y[ROWS * COLUMNS];
    uint64_t hits, misses, damaged, stored;
} job;

typedef struct net {
    ig_tensor *x, *w, *y;
} net;

static ig_status forward(void *arg) {
    net *n = arg;
    n->y = ig_tensor_retain(ig_silu(ig_matmul(n->x, n->w)));
    return ig_eval(&n->y, 1);
}

static void read_report(const ig_ctx *ctx, job *j) {
    static char text[1 << 15];
    json_error_t error;
    assert_true(ig_report_json(ctx, text, sizeof text) < sizeof text);
    json_t *root = json_loads(text, 0, &error);
    const json_t *cache = json_object_get(root, "compile_cache");
    j->hits = (uint64_t)json_integer_value(json_object_get(cache, "hits"));
    j->misses = (uint64_t)json_integer_value(json_object_get(cache, "misses"));
    j->damaged = (uint64_t)json_integer_value(json_object_get(cache, "damaged"));
    j->stored = (uint64_t)json_integer_value(json_object_get(cache, "stored"));
    json_decref(root);
}

/* silu(x w) in a context of its own, as another process would. */
static void run(job *j) {
    ig_ctx *ctx = NULL;
    net n = {0};
    ig_captured *program = NULL;
    const int64_t rows = j->rows ? j->rows : ROWS;
    float x[ROWS * INNER], w[INNER * COLUMNS];
    for (int i = 0; i < ROWS * INNER; i++) x[i] = (float)(i % 7) - 3;
    for (int i = 0; i < INNER * COLUMNS; i++) w[i] = (float)(i % 11) * 0.1f - 0.5f;
    w[5] += j->nudge;
    must(ig_ctx_create(&(ig_ctx_options){.device = "simnpu",
                                         .plugins = SIMNPU_PLUGIN,
                                         .cache_dir = j->folder,
                                         .compile = j->compile},
                       &ctx));
    n.x = floats(ctx, IG_SHAPE(rows, INNER), x);
    n.w = floats(ctx, IG_SHAPE(INNER, COLUMNS), w);
    must(ig_tensor_freeze(n.w));
    must(ig_capture(ctx, forward, &n, &program));
    must(ig_captured_replay(program));
    must(ig_tensor_read(n.y, j->y, (size_t)rows * COLUMNS * sizeof(float)));
    read_report(ctx, j);
    ig_tensor_release(n.y);
    ig_captured_destroy(program);
    ig_tensor_release(n.x);
    ig_tensor_release(n.w);
    ig_ctx_destroy(ctx);
}

static void remove_programs(void **state) {
    char path[PATH_BYTES];
    size_t removed;
    directory_path(state, "programs", path);
    must(ig_entries_prune(&ig_heap, path, 0, &removed));
    (void)rmdir(path);
}

static void what_was_compiled_once_is_not_compiled_twice(void **state) {
    job first = {.folder = *state}, second = {.folder = *state};
    run(&first);
    assert_int_equal(first.misses, 1);
    assert_int_equal(first.stored, 1);
    run(&second);
    assert_int_equal(second.hits, 1);
    assert_int_equal(second.misses + second.stored, 0);
    assert_memory_equal(first.y, second.y, sizeof first.y);
    remove_programs(state);
}

static void another_folder_of_the_same_bytes_is_a_hit(void **state) {
    char from[PATH_BYTES], to[PATH_BYTES], command[4 * PATH_BYTES];
    job first = {.folder = *state};
    run(&first);
    snprintf(command, sizeof command, "mkdir %s && cp -r %s %s/",
             directory_path(state, "other", to), directory_path(state, "programs", from), to);
    assert_int_equal(system(command), 0);
    setenv("HOME", "/nowhere", 1);
    job moved = {.folder = to};
    run(&moved);
    assert_int_equal(moved.hits, 1);
    snprintf(command, sizeof command, "rm -r %s", to);
    assert_int_equal(system(command), 0);
    remove_programs(state);
}

static void whatever_a_program_is_made_of_makes_another_key(void **state) {
    static const job rows[] = {
        {.nudge = 0.25f},
        {.rows = 4},
        {.compile = {.precision = "bf16"}},
        {.compile = {.precision = "int8"}},
        {.compile = {.batch_sizes = "8,9"}},
        {.compile = {.optimization_level = 3}},
    };
    job first = {.folder = *state};
    run(&first);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int again = 0; again < 2; again++) {
            job j = rows[i];
            j.folder = *state;
            run(&j);
            assert_int_equal(j.hits, again);
            assert_int_equal(j.misses, 1 - again);
        }
    remove_programs(state);
}

/* Every byte of an entry, one after the other. */
static void a_damaged_entry_is_a_counted_miss_and_the_numbers_stay_right(void **state) {
    char folder[PATH_BYTES], path[2 * PATH_BYTES];
    job first = {.folder = *state};
    run(&first);
    directory_path(state, "programs", folder);
    ig_entry_info *list = NULL;
    size_t count = 0;
    must(ig_entries_list(&ig_heap, folder, &list, &count));
    assert_int_equal(count, 1);
    const uint64_t bytes = list[0].bytes;
    snprintf(path, sizeof path, "%s/%s.program", folder, list[0].name);
    ig_free(&ig_heap, list);
    for (uint64_t at = 0; at < bytes; at += 61) {
        FILE *f = fopen(path, "r+b");
        fseek(f, (long)at, SEEK_SET);
        const int c = fgetc(f);
        fseek(f, (long)at, SEEK_SET);
        fputc(c ^ 0x40, f);
        fclose(f);
        job j = {.folder = *state};
        run(&j);
        if (at < 12 || at >= 16) assert_int_equal(j.damaged, 1); /* four bytes mean nothing yet */
        assert_memory_equal(j.y, first.y, sizeof j.y);
    }
    assert_int_equal(truncate(path, 40), 0);
    job j = {.folder = *state};
    run(&j);
    assert_int_equal(j.damaged, 1);
    assert_memory_equal(j.y, first.y, sizeof j.y);
    remove_programs(state);
}

static void the_least_recently_used_go_first(void **state) {
    static const char *const names[] = {"a", "b", "c"};
    char keys[3][IG_ENTRY_NAME_BYTES];
    ig_entry e;
    size_t removed, count;
    for (int i = 0; i < 3; i++) {
        ig_entry_name(names[i], 1, keys[i]);
        must(ig_entry_write(&ig_heap, *state, keys[i],
                            &(ig_entry){.inputs = names[i],
                                        .inputs_bytes = 1,
                                        .timeline = "[]",
                                        .timeline_bytes = 2,
                                        .blob = "blob",
                                        .blob_bytes = 4}));
        usleep(2000);
    }
    must(ig_entry_open(*state, keys[0], &e)); /* used just now */
    assert_int_equal(e.blob_bytes, 4);
    assert_memory_equal(e.blob, "blob", 4);
    const uint64_t each = e.map.size;
    ig_entry_close(&e);
    must(ig_entries_prune(&ig_heap, *state, each, &removed));
    assert_int_equal(removed, 2);
    ig_entry_info *list = NULL;
    must(ig_entries_list(&ig_heap, *state, &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].name, keys[0]);
    ig_free(&ig_heap, list);
    refused(ig_entry_open(*state, keys[1], &e), IG_ERR_IO, "cannot open it");
    refused(ig_entry_open(*state, "../../etc/passwd", &e), IG_ERR_IO, "no such entry");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(what_was_compiled_once_is_not_compiled_twice),
        IN_DIRECTORY(another_folder_of_the_same_bytes_is_a_hit),
        IN_DIRECTORY(whatever_a_program_is_made_of_makes_another_key),
        IN_DIRECTORY(a_damaged_entry_is_a_counted_miss_and_the_numbers_stay_right),
        IN_DIRECTORY(the_least_recently_used_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
