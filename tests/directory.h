/*
 * directory.h - for each test a directory of its own, which goes with all that is in it.
 *
 *     IN_DIRECTORY(test)             a row of the table of tests; *state is the directory
 *     directory_path(state, "a", p)  p, of PATH_BYTES, becomes the path of "a" in it
 */
#ifndef TEST_DIRECTORY_H
#define TEST_DIRECTORY_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, directory_make, directory_remove)

static inline int directory_make(void **state) {
    const char *base = getenv("TMPDIR");
    char *directory = malloc(PATH_BYTES);
    snprintf(directory, PATH_BYTES, "%s/ingot-test-XXXXXX", base ? base : "/tmp");
    *state = directory;
    return mkdtemp(directory) ? 0 : -1;
}

static inline int directory_remove(void **state) {
    DIR *dir = opendir(*state);
    for (struct dirent *e; (e = readdir(dir));) unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    const int failed = rmdir(*state);
    free(*state);
    return failed;
}

static inline size_t directory_count(void **state) {
    size_t count = 0;
    DIR *dir = opendir(*state);
    for (struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static inline const char *directory_path(void **state, const char *name, char *out) {
    snprintf(out, PATH_BYTES, "%s/%s", (const char *)*state, name);
    return out;
}

#endif
