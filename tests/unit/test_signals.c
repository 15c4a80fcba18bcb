/* A mapped file that somebody shortens: a sentence and exit code 3, not a crash. */
#include <fcntl.h>
#include <sys/wait.h>

#include "base/file.h"
#include "check.h"
#include "cli/signals.h"
#include "directory.h"

/* Maps a file of two pages, cuts it off, and reads what is no longer there. */
static void read_beyond_the_end(const char *path) {
    ig_file_map map;
    ig_signals_guard_files();
    ig_signals_reading(path);
    if (ig_file_map_open(path, &map) != IG_OK || truncate(path, 1) != 0) _exit(99);
    const volatile char *bytes = map.bytes;
    _exit(bytes[map.size - 1] == 0 ? 98 : 97);
}

static void reading_a_file_that_became_shorter_ends_with_3_and_its_name(void **state) {
    char path[PATH_BYTES], said[512] = "";
    int pipe_ends[2], status;
    directory_path(state, "model.gguf", path);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, 2 * sysconf(_SC_PAGESIZE)), 0);
    close(fd);
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        read_beyond_the_end(path);
    }
    close(pipe_ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(pipe_ends[0], said, sizeof said - 1) > 0);
    close(pipe_ends[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_non_null(strstr(said, "model.gguf: became shorter while it was read"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(reading_a_file_that_became_shorter_ends_with_3_and_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
