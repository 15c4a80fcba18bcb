/*
 * Compiled programs that are kept: found again by what they were made of, and by nothing else.
 *
 * The device is simnpu, which packs weights when it compiles.
 */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/digests.h"
#include "directory.h"
#include "unit/check.h"

enum { ROWS = 8, INNER = 32, COLUMNS = 24 };

typedef struct job {
    const char *folder, *device; /* NULL: simnpu */
    ig_compile_options compile;
    uint64_t cache_bytes;
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
    char text[1 << 14]; /* several threads do this */
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
    must(ig_ctx_create(&(ig_ctx_options){.device = j->device ? j->device : "simnpu",
                                         .plugins = SIMNPU_PLUGIN ":" TEST_PLUGIN_DIR "/far/far.so",
                                         .cache_dir = j->folder,
                                         .compile = j->compile,
                                         .cache_bytes = j->cache_bytes},
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
    static const char *const others[] = {"programs/lock", "programs/counts"};
    for (size_t i = 0; i < 2; i++) unlink(directory_path(state, others[i], path));
    directory_path(state, "programs", path);
    must(ig_cache_entries_prune(&ig_heap, path, 0, &removed));
    (void)rmdir(path);
    directory_path(state, "digests", path);
    ig_digests_prune(path); /* of entries that are gone: none stays */
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
        {.rows = 4}, /* another part of the same entry */
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
/* Programs that have nothing of their weights are found with others, too. */
static void what_depends_on_no_weights_is_found_with_any(void **state) {
    static const struct {
        const char *saves;
        uint64_t hits;
    } rows[] = {{"weights", 0}, {"no weights", 1}};
    for (size_t i = 0; i < 2; i++) {
        job first = {.folder = *state, .device = "far"};
        job nudged = {.folder = *state, .device = "far", .nudge = 0.25f};
        setenv("FAR_SAVES", rows[i].saves, 1);
        run(&first);
        assert_int_equal(first.misses, 1);
        run(&nudged);
        assert_int_equal(nudged.hits, rows[i].hits);
        assert_int_equal(nudged.misses, 1 - rows[i].hits);
        assert_true(memcmp(first.y, nudged.y, sizeof first.y) != 0);
        remove_programs(state);
    }
    unsetenv("FAR_SAVES");
}

static void a_damaged_entry_is_a_counted_miss_and_the_numbers_stay_right(void **state) {
    char folder[PATH_BYTES], path[2 * PATH_BYTES];
    job first = {.folder = *state};
    run(&first);
    directory_path(state, "programs", folder);
    ig_cache_entry_info *list = NULL;
    size_t count = 0;
    must(ig_cache_entries_list(&ig_heap, folder, &list, &count));
    assert_int_equal(count, 1);
    const uint64_t bytes = list[0].bytes;
    snprintf(path, sizeof path, "%s/%s", folder, list[0].file);
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
        assert_int_equal(j.damaged, 1);
        assert_memory_equal(j.y, first.y, sizeof j.y);
    }
    assert_int_equal(truncate(path, 40), 0);
    job j = {.folder = *state};
    run(&j);
    assert_int_equal(j.damaged, 1);
    assert_memory_equal(j.y, first.y, sizeof j.y);
    remove_programs(state);
}

/* An entry with a part, by names of one letter. */
static void write_known(const char *folder, const char *name, const char *part, const char *blob,
                        ig_digests *digests, char file[IG_ENTRY_FILE_BYTES]) {
    char key[IG_ENTRY_NAME_BYTES];
    ig_cache_entry_name(name, 1, key);
    ig_cache_entry_file(key, "npu", file);
    ig_cache_entry_part p = {
        .inputs = part, .inputs_bytes = strlen(part), .blob = blob, .blob_bytes = strlen(blob)};
    ig_cache_entry_name(part, strlen(part), p.name);
    const ig_cache_entry entry = {
        .inputs = name, .inputs_bytes = 1, .timeline = "[]", .timeline_bytes = 2};
    must(ig_cache_entry_add(&ig_heap, folder, file, &entry, &p, digests));
}

static void write_entry(const char *folder, const char *name, const char *part, const char *blob,
                        char file[IG_ENTRY_FILE_BYTES]) {
    write_known(folder, name, part, blob, NULL, file);
}

static void the_least_recently_used_go_first(void **state) {
    static const char *const names[] = {"a", "b", "c"};
    char files[3][IG_ENTRY_FILE_BYTES];
    ig_cache_entry e;
    size_t removed, count;
    for (int i = 0; i < 3; i++) {
        char path[PATH_BYTES];
        write_entry(*state, names[i], "rows=1", "blob", files[i]);
        struct timespec used[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 9999 + i}};
        assert_int_equal(utimensat(AT_FDCWD, directory_path(state, files[i], path), used, 0), 0);
    }
    must(ig_cache_entry_open(*state, files[0], NULL, &e)); /* used just now */
    const uint64_t each = e.map.size;
    ig_cache_entry_close(&e);
    must(ig_cache_entry_look(*state, files[1], &e)); /* to look is not to use */
    ig_cache_entry_close(&e);
    must(ig_cache_entries_prune(&ig_heap, *state, each, &removed));
    assert_int_equal(removed, 2);
    ig_cache_entry_info *list = NULL;
    must(ig_cache_entries_list(&ig_heap, *state, &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].file, files[0]);
    ig_free(&ig_heap, list);
    refused(ig_cache_entry_open(*state, files[1], NULL, &e), IG_ERR_IO, "cannot open it");
    refused(ig_cache_entry_open(*state, "../../etc/passwd", NULL, &e), IG_ERR_IO, "no such entry");
    assert_true(ig_cache_entry_remove(*state, files[0]));
}

/* Room for one of them: the one that was used last stays. */
static void a_cache_does_not_grow_beyond_its_size(void **state) {
    char folder[PATH_BYTES];
    job first = {.folder = *state}, second = {.folder = *state, .nudge = 1};
    run(&first);
    ig_cache_entry_info *list = NULL;
    size_t count = 0;
    must(ig_cache_entries_list(&ig_heap, directory_path(state, "programs", folder), &list, &count));
    assert_int_equal(count, 1);
    second.cache_bytes = list[0].bytes + 10;
    ig_free(&ig_heap, list);
    usleep(10000); /* a tick of the file system's clock */
    run(&second);
    must(ig_cache_entries_list(&ig_heap, folder, &list, &count));
    assert_int_equal(count, 1);
    ig_free(&ig_heap, list);
    job again = {.folder = *state, .nudge = 1};
    run(&again);
    assert_int_equal(again.hits, 1);
    remove_programs(state);
}

static void an_entry_has_parts_and_equal_blobs_are_kept_once(void **state) {
    char file[IG_ENTRY_FILE_BYTES], part[24];
    ig_cache_entry e;
    ig_cache_entry_part found;
    uint64_t first = 0;
    for (int i = 0; i < IG_ENTRY_MOST_PARTS + 3; i++) {
        snprintf(part, sizeof part, "rows=%d", i);
        write_entry(*state, "a", part, i % 2 ? "one blob" : "another", file);
        must(ig_cache_entry_open(*state, file, NULL, &e));
        if (i == 1) first = e.map.size;
        char name[IG_ENTRY_NAME_BYTES];
        ig_cache_entry_name(part, strlen(part), name);
        assert_true(ig_cache_entry_find(&e, name, &found));
        assert_memory_equal(found.blob, i % 2 ? "one blob" : "another", found.blob_bytes);
        assert_int_equal((uintptr_t)found.blob % 64, 0);
        assert_true(ig_cache_entry_is_sound(&e));
        ig_cache_entry_close(&e);
    }
    must(ig_cache_entry_open(*state, file, NULL, &e));
    assert_int_equal(e.n_parts, IG_ENTRY_MOST_PARTS); /* the oldest went */
    assert_true(e.map.size < first + (uint64_t)IG_ENTRY_MOST_PARTS * 80);
    ig_cache_entry_close(&e);
    assert_true(ig_cache_entry_remove(*state, file));
}

static void programs_for_several_batch_sizes_are_one_entry(void **state) {
    char folder[PATH_BYTES];
    static const int64_t rows[] = {1, 4, 8};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < 3; i++) {
            job j = {.folder = *state, .rows = rows[i]};
            run(&j);
            assert_int_equal(j.hits, again);
        }
    ig_cache_entry_info *list = NULL;
    size_t count = 0;
    ig_cache_entry e;
    must(ig_cache_entries_list(&ig_heap, directory_path(state, "programs", folder), &list, &count));
    assert_int_equal(count, 1);
    assert_string_equal(list[0].file + 32, ".npu");
    must(ig_cache_entry_open(folder, list[0].file, NULL, &e));
    assert_int_equal(e.n_parts, 3);
    ig_cache_entry_close(&e);
    ig_free(&ig_heap, list);
    remove_programs(state);
}

/* The folder is gone, and the context has the program all the same. */
static void what_a_context_has_used_is_not_looked_for_on_disk(void **state) {
    ig_ctx *ctx = NULL;
    net n = {0};
    float x[INNER] = {1}, w[INNER * COLUMNS] = {2};
    must(ig_ctx_create(
        &(ig_ctx_options){.device = "simnpu", .plugins = SIMNPU_PLUGIN, .cache_dir = *state},
        &ctx));
    n.x = floats(ctx, IG_SHAPE(1, INNER), x);
    n.w = floats(ctx, IG_SHAPE(INNER, COLUMNS), w);
    must(ig_tensor_freeze(n.w));
    for (int again = 0; again < 2; again++) {
        ig_captured *program = NULL;
        must(ig_capture(ctx, forward, &n, &program));
        ig_tensor_release(n.y);
        ig_captured_destroy(program);
        job j = {0};
        read_report(ctx, &j);
        assert_int_equal(j.hits, again);
        assert_int_equal(j.misses, 1);
        remove_programs(state);
    }
    ig_tensor_release(n.x);
    ig_tensor_release(n.w);
    ig_ctx_destroy(ctx);
    remove_programs(state);
}

static void of_those_who_want_the_same_one_has_the_lock(void **state) {
    ig_cache_entry_lock first = {-1}, second = {-1}, other = {-1};
    assert_true(ig_cache_entry_try_lock(*state, "a", &first));
    assert_false(ig_cache_entry_try_lock(*state, "a", &second));
    assert_true(ig_cache_entry_try_lock(*state, "b", &other));
    ig_cache_entry_unlock(&first);
    assert_true(ig_cache_entry_try_lock(*state, "a", &second));
    ig_cache_entry_unlock(&second);
    ig_cache_entry_unlock(&other);
    char path[PATH_BYTES];
    assert_int_equal(unlink(directory_path(state, "lock", path)), 0);
}

static void *run_in_thread(void *arg) {
    run(arg);
    return NULL;
}

static void threads_that_want_the_same_compile_it_once(void **state) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    job jobs[THREADS];
    uint64_t misses = 0, hits = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.folder = *state};
        assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        misses += jobs[i].misses;
        hits += jobs[i].hits;
    }
    assert_int_equal(misses, 1);
    assert_int_equal(hits, THREADS - 1);
    remove_programs(state);
}

static void counts_are_added_up_over_processes(void **state) {
    char path[PATH_BYTES];
    job first = {.folder = *state}, second = {.folder = *state};
    run(&first);
    run(&second);
    directory_path(state, "programs", path);
    const ig_cache_entry_counts c = ig_cache_entries_counts(path);
    assert_int_equal(c.hits, 1);
    assert_int_equal(c.misses, 1);
    assert_int_equal(c.stored, 1);
    assert_true(c.compile_ns > 0);
    remove_programs(state);
}

static void what_a_killed_writer_left_is_taken_away(void **state) {
    char path[PATH_BYTES], file[IG_ENTRY_FILE_BYTES], left[2 * PATH_BYTES];
    size_t removed;
    write_entry(*state, "a", "rows=1", "blob", file);
    snprintf(left, sizeof left, "%s.saving", directory_path(state, file, path));
    FILE *f = fopen(left, "w");
    fputs("half of it", f);
    fclose(f);
    must(ig_cache_entries_prune(&ig_heap, *state, UINT64_MAX, &removed));
    assert_int_equal(removed, 0);
    assert_int_not_equal(access(left, F_OK), 0);
    assert_true(ig_cache_entry_remove(*state, file));
}

/* ---- digests ---- */

static ig_digest digest_once(const char *folder, const ig_file_map *map, uint64_t *out_read) {
    ig_digests *d = NULL;
    must(ig_digests_create(&ig_heap, folder, &d));
    ig_digests_look(d);
    const ig_digest digest = ig_digests_of(d, (const char *)map->bytes + 100, 5000);
    *out_read = ig_digests_read(d);
    ig_digests_destroy(d);
    return digest;
}

static void digests_of_a_file_are_remembered_until_it_changes(void **state) {
    char path[PATH_BYTES], folder[PATH_BYTES];
    uint64_t read;
    ig_file_map map;
    directory_path(state, "weights", path);
    directory_path(state, "digests", folder);
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 10000; i++) fputc(i * 31, f);
    fclose(f);
    must(ig_file_map_open(path, &map));
    const ig_digest fresh = digest_once(folder, &map, &read);
    assert_int_equal(read, 5000);
    digest_once(folder, &map, &read);
    assert_int_equal(read, 5000); /* so new a file may change without its clock showing it */
    sleep(3);
    digest_once(folder, &map, &read);
    assert_int_equal(read, 5000);
    const ig_digest known = digest_once(folder, &map, &read);
    assert_int_equal(read, 0);
    assert_true(known.high == fresh.high && known.low == fresh.low);
    ig_digests_state s = ig_digests_verify(folder);
    assert_int_equal(s.sound, 1);
    ig_file_map_close(&map);
    f = fopen(path, "r+");
    fseek(f, 200, SEEK_SET);
    fputc('!', f);
    fclose(f);
    must(ig_file_map_open(path, &map));
    const ig_digest changed = digest_once(folder, &map, &read);
    assert_int_equal(read, 5000);
    assert_true(changed.high != fresh.high || changed.low != fresh.low);
    ig_file_map_close(&map);
    s = ig_digests_verify(folder);
    assert_int_equal(s.sound, 0);
    assert_int_equal(s.stale, 1);
    assert_int_equal(rmdir(folder), 0); /* it was removed */
    unlink(path);
}

static void who_stores_an_entry_knows_it_until_it_is_damaged(void **state) {
    char file[IG_ENTRY_FILE_BYTES], path[PATH_BYTES], folder[PATH_BYTES];
    ig_digests *d = NULL;
    ig_cache_entry e;
    directory_path(state, "digests", folder);
    must(ig_digests_create(&ig_heap, folder, &d));
    write_known(*state, "a", "rows=1", "blob", d, file);
    directory_path(state, file, path);
    assert_true(ig_digests_knows(d, path));
    usleep(100000); /* many ticks of the clock that files are marked with */
    ig_digests_destroy(d);
    assert_int_equal(ig_digests_verify(folder).sound, 1);
    must(ig_digests_create(&ig_heap, folder, &d));
    assert_true(ig_digests_knows(d, path));
    must(ig_cache_entry_open(*state, file, d, &e));
    ig_cache_entry_close(&e);
    FILE *f = fopen(path, "r+");
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc('!', f);
    fclose(f);
    assert_false(ig_digests_knows(d, path));
    refused(ig_cache_entry_open(*state, file, d, &e), IG_ERR_FORMAT, "is damaged");
    ig_digests_destroy(d);
    ig_digests_prune(folder);
    assert_int_equal(rmdir(folder), 0); /* nothing was left */
    assert_true(ig_cache_entry_remove(*state, file));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(what_was_compiled_once_is_not_compiled_twice),
        IN_DIRECTORY(another_folder_of_the_same_bytes_is_a_hit),
        IN_DIRECTORY(whatever_a_program_is_made_of_makes_another_key),
        IN_DIRECTORY(what_depends_on_no_weights_is_found_with_any),
        IN_DIRECTORY(a_damaged_entry_is_a_counted_miss_and_the_numbers_stay_right),
        IN_DIRECTORY(the_least_recently_used_go_first),
        IN_DIRECTORY(a_cache_does_not_grow_beyond_its_size),
        IN_DIRECTORY(an_entry_has_parts_and_equal_blobs_are_kept_once),
        IN_DIRECTORY(programs_for_several_batch_sizes_are_one_entry),
        IN_DIRECTORY(what_a_context_has_used_is_not_looked_for_on_disk),
        IN_DIRECTORY(of_those_who_want_the_same_one_has_the_lock),
        IN_DIRECTORY(threads_that_want_the_same_compile_it_once),
        IN_DIRECTORY(counts_are_added_up_over_processes),
        IN_DIRECTORY(what_a_killed_writer_left_is_taken_away),
        IN_DIRECTORY(digests_of_a_file_are_remembered_until_it_changes),
        IN_DIRECTORY(who_stores_an_entry_knows_it_until_it_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
