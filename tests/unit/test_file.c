/* Files on a real disk: old or new, never a mix, and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "directory.h"
#include "unit/file_limit.h"

static ig_status save(const char *path, const char *text) {
    ig_file_writer *writer = NULL;
    IG_TRY(ig_file_writer_create(&ig_heap, path, strlen(text), &writer));
    ig_status status = ig_file_writer_write(writer, 0, text, strlen(text));
    if (status == IG_OK) status = ig_file_writer_commit(writer);
    ig_file_writer_destroy(writer);
    return status;
}

static void assert_content(const char *path, const char *text) {
    ig_file_map map;
    assert_int_equal(ig_file_map_open(path, &map), IG_OK);
    assert_int_equal(map.size, strlen(text));
    assert_memory_equal(map.bytes, text, map.size);
    ig_file_map_close(&map);
}

/* ---- Reading ---- */

static void a_file_is_mapped_with_its_size(void **state) {
    char path[PATH_BYTES];
    assert_int_equal(save(directory_path(state, "a", path), "hello"), IG_OK);
    assert_content(path, "hello");
    assert_int_equal(save(path, ""), IG_OK);
    assert_content(path, "");
    ig_file_map_close(&(ig_file_map){0});
}

static void what_cannot_be_mapped_is_refused_with_the_reason(void **state) {
    char path[PATH_BYTES];
    ig_file_map map = {"untouched", 9};
    assert_int_equal(ig_file_map_open(directory_path(state, "nothing", path), &map), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), path));
    assert_non_null(strstr(ig_error_text(), strerror(ENOENT)));
    assert_int_equal(ig_file_map_open(*state, &map), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "is a directory"));
    assert_int_equal(mkfifo(directory_path(state, "pipe", path), 0600),
                     0); /* An open must not wait. */
    assert_int_equal(ig_file_map_open(path, &map), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "not a regular file"));
    assert_int_equal(map.size, 9);
}

static void what_a_file_begins_with_is_seen_without_waiting(void **state) {
    char path[PATH_BYTES];
    assert_int_equal(save(directory_path(state, "a", path), "hello"), IG_OK);
    assert_true(ig_file_begins(path, "hell", 4));
    assert_true(ig_file_begins(path, "hello", 5));
    assert_false(ig_file_begins(path, "help", 4));
    assert_false(ig_file_begins(path, "hello!", 6));
    assert_false(ig_file_begins(directory_path(state, "nothing", path), "", 0));
    assert_int_equal(mkfifo(directory_path(state, "pipe", path), 0600), 0);
    assert_false(ig_file_begins(path, "", 0));
}

/* ---- Writing ---- */

static void parts_come_in_any_order_and_gaps_are_zeros(void **state) {
    char path[PATH_BYTES];
    ig_file_writer *writer;
    assert_int_equal(ig_file_writer_create(&ig_heap, directory_path(state, "a", path), 6, &writer),
                     IG_OK);
    assert_int_equal(ig_file_writer_write(writer, 4, "yz", 2), IG_OK);
    assert_int_equal(ig_file_writer_write(writer, 0, "a", 1), IG_OK);
    assert_int_equal(ig_file_writer_commit(writer), IG_OK);
    ig_file_writer_destroy(writer);

    ig_file_map map;
    assert_int_equal(ig_file_map_open(path, &map), IG_OK);
    assert_int_equal(map.size, 6);
    assert_memory_equal(map.bytes, "a\0\0\0yz", 6);
    ig_file_map_close(&map);
}

static void the_old_file_is_there_until_the_commit(void **state) {
    char path[PATH_BYTES];
    ig_file_writer *writer;
    assert_int_equal(save(directory_path(state, "a", path), "old"), IG_OK);
    assert_int_equal(ig_file_writer_create(&ig_heap, path, 4, &writer), IG_OK);
    assert_int_equal(ig_file_writer_write(writer, 0, "newer", 4), IG_OK);
    assert_content(path, "old");
    ig_file_writer_destroy(writer);
    assert_content(path, "old");
    assert_int_equal(directory_count(state), 1);
    assert_int_equal(save(path, "new"), IG_OK);
    assert_content(path, "new");
    assert_int_equal(directory_count(state), 1);
}

static void a_mapped_file_stays_as_it_was_when_it_is_replaced(void **state) {
    char path[PATH_BYTES];
    ig_file_map map;
    assert_int_equal(save(directory_path(state, "a", path), "old"), IG_OK);
    assert_int_equal(ig_file_map_open(path, &map), IG_OK);
    assert_int_equal(save(path, "new and longer"), IG_OK);
    assert_memory_equal(map.bytes, "old", 3);
    ig_file_map_close(&map);
}

static void what_a_killed_writer_left_is_taken_over(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "a", path);
    const pid_t child = fork();
    if (child == 0) {
        ig_file_writer *writer;
        if (ig_file_writer_create(&ig_heap, path, 1000, &writer) != IG_OK) _exit(1);
        raise(SIGKILL);
    }
    int how;
    waitpid(child, &how, 0);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(directory_count(state), 1); /* a.saving */
    assert_int_equal(save(path, "short"), IG_OK);
    assert_content(path, "short");
    assert_int_equal(directory_count(state), 1);
}

static void a_second_writer_of_the_same_path_is_refused(void **state) {
    char path[PATH_BYTES];
    ig_file_writer *first, *second = NULL;
    assert_int_equal(ig_file_writer_create(&ig_heap, directory_path(state, "a", path), 3, &first),
                     IG_OK);
    assert_int_equal(ig_file_writer_create(&ig_heap, path, 3, &second), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "another process is writing it"));
    assert_null(second);
    assert_int_equal(ig_file_writer_write(first, 0, "one", 3), IG_OK);
    assert_int_equal(ig_file_writer_commit(first), IG_OK);
    assert_int_equal(save(path, "two"), IG_OK); /* Committed is free again. */
    ig_file_writer_destroy(first);
    assert_content(path, "two");
    assert_int_equal(directory_count(state), 1);
}

static void a_full_disk_is_an_error_with_both_sizes_and_leaves_the_old_file(void **state) {
    char path[PATH_BYTES];
    assert_int_equal(save(directory_path(state, "a", path), "old"), IG_OK);

    const rlim_t before = limit_files(8192);
    ig_file_writer *writer = NULL;
    const ig_status status = ig_file_writer_create(&ig_heap, path, 123456, &writer);
    limit_files(before);

    assert_int_equal(status, IG_ERR_IO);
    assert_null(writer);
    assert_non_null(strstr(ig_error_text(), "123456 bytes needed, the limit is 8192"));
    assert_content(path, "old");
    assert_int_equal(directory_count(state), 1);
}

static void a_disk_that_fills_up_while_writing_leaves_the_old_file(void **state) {
    char path[PATH_BYTES];
    static const char bytes[20000];
    assert_int_equal(save(directory_path(state, "a", path), "old"), IG_OK);

    ig_file_writer *writer;
    assert_int_equal(ig_file_writer_create(&ig_heap, path, sizeof bytes, &writer), IG_OK);
    const rlim_t before = limit_files(8192);
    const ig_status status = ig_file_writer_write(writer, 0, bytes, sizeof bytes);
    limit_files(before);

    assert_int_equal(status, IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "20000 bytes needed"));
    ig_file_writer_destroy(writer);
    assert_content(path, "old");
    assert_int_equal(directory_count(state), 1);
}

static void a_link_is_followed_and_permissions_stay(void **state) {
    char target[PATH_BYTES], link[PATH_BYTES];
    assert_int_equal(save(directory_path(state, "target", target), "old"), IG_OK);
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(symlink("target", directory_path(state, "link", link)), 0);
    assert_int_equal(save(link, "new"), IG_OK);
    assert_content(target, "new");

    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void what_is_no_regular_file_is_not_replaced(void **state) {
    char path[PATH_BYTES];
    assert_int_equal(mkfifo(directory_path(state, "pipe", path), 0600), 0);
    assert_int_equal(save(path, "new"), IG_ERR_IO);
    assert_int_equal(save("/dev/null", "new"), IG_ERR_IO);
    assert_int_equal(save(*state, "new"), IG_ERR_IO);
    assert_int_equal(save("", "new"), IG_ERR_IO);
    assert_int_equal(save(directory_path(state, "no/such/file", path), "new"), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), strerror(ENOENT)));
    assert_int_equal(save(directory_path(state, "new/", path), "new"), IG_ERR_IO);

    /* A link in the place of the temporary file would let an attacker choose what we overwrite. */
    char victim[PATH_BYTES], planted[PATH_BYTES];
    assert_int_equal(save(directory_path(state, "victim", victim), "precious"), IG_OK);
    assert_int_equal(symlink("victim", directory_path(state, "a.saving", planted)), 0);
    assert_int_equal(save(directory_path(state, "a", path), "new"), IG_ERR_IO);
    assert_content(victim, "precious");
}

static void a_path_without_a_directory_is_in_the_current_one(void **state) {
    char before[PATH_BYTES], path[PATH_BYTES];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    const ig_status status = save("here", "new");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, IG_OK);
    assert_content(directory_path(state, "here", path), "new");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(a_file_is_mapped_with_its_size),
        IN_DIRECTORY(what_cannot_be_mapped_is_refused_with_the_reason),
        IN_DIRECTORY(what_a_file_begins_with_is_seen_without_waiting),
        IN_DIRECTORY(parts_come_in_any_order_and_gaps_are_zeros),
        IN_DIRECTORY(the_old_file_is_there_until_the_commit),
        IN_DIRECTORY(a_mapped_file_stays_as_it_was_when_it_is_replaced),
        IN_DIRECTORY(what_a_killed_writer_left_is_taken_over),
        IN_DIRECTORY(a_second_writer_of_the_same_path_is_refused),
        IN_DIRECTORY(a_full_disk_is_an_error_with_both_sizes_and_leaves_the_old_file),
        IN_DIRECTORY(a_disk_that_fills_up_while_writing_leaves_the_old_file),
        IN_DIRECTORY(a_link_is_followed_and_permissions_stay),
        IN_DIRECTORY(what_is_no_regular_file_is_not_replaced),
        IN_DIRECTORY(a_path_without_a_directory_is_in_the_current_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
