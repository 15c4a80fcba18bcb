/* file_limit.h - a disk that is full: files of this process cannot grow. */
#ifndef TEST_FILE_LIMIT_H
#define TEST_FILE_LIMIT_H

#include <signal.h>
#include <sys/resource.h>

/* Files end at `bytes` from here on; returns where they ended before. */
static inline rlim_t limit_files(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

#endif
