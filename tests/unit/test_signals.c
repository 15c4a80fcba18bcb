/* Signals: a mapped file that gets truncated is an error message and exit code 3, not a crash. */
#include <fcntl.h>
#include <sys/wait.h>

#include "base/file.h"
#include "check.h"
#include "cli/app/cli.h"
#include "cli/app/signals.h"
#include "directory.h"
#include "format/gguf/gguf_stream.h"
#include "ingot/data.h"

static void a_stopped_call_reports_how_far_it_came(void **state) {
    (void)state;
    static const struct {
        const char *words, *told;
    } cases[] = {{"captured_replay: cancelled", "stopped"},
                 {"reshape: cancelled", "stopped"},
                 {"bench: stopped", "stopped"},
                 {"m.gguf: reading it was stopped", "stopped"},
                 {"stopped after 3 tokens", "stopped after 3 tokens"},
                 {"tokenizer bpe: stopped after 2 of 9 merges", "stopped after 2 of 9 merges"}};
    const ig_cli cli = {0};
    char text[IG_ERROR_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)!IG_FAIL(IG_ERR_CANCELLED, "%s", cases[i].words);
        assert_string_equal(ig_cli_outcome(&cli, IG_ERR_CANCELLED, text), cases[i].told);
        assert_string_equal(ig_cli_outcome(&cli, IG_ERR_IO, text), cases[i].words);
    }
}

typedef void child_fn(const char *path);

/* Runs it with a file of two pages, which it cuts off, and reads what is no longer there. */
static void ends_with_3_and_its_name(void **state, child_fn *read_it) {
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
        ig_signals_guard_files();
        read_it(path);
        _exit(97);
    }
    close(pipe_ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(pipe_ends[0], said, sizeof said - 1) > 0);
    close(pipe_ends[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_non_null(strstr(said, "model.gguf: was truncated while in use"));
}

static void read_beyond_the_end(const char *path) {
    ig_file_map map;
    ig_signals_reading(path);
    if (ig_file_map_open(path, &map) != IG_OK || truncate(path, 1) != 0) _exit(99);
    const volatile char *bytes = map.bytes;
    if (bytes[map.size - 1] == 0) _exit(98);
}

static void reading_a_file_that_became_shorter_ends_with_3_and_its_name(void **state) {
    ends_with_3_and_its_name(state, read_beyond_the_end);
}

/* Reads from the file while what is made of it is written. */
static void read_numbers(const ig_gguf_output *product, int64_t first, int64_t n, float *out) {
    (void)first, (void)n, (void)out;
    read_beyond_the_end(product->source);
}

/* Quantizes a tensor, as far as that comes. */
static void quantize(const char *path, const char *to) {
    const ig_gguf_output product = {
        "weight", {IG_Q8_0, IG_SHAPE(1, 32)}, .read = read_numbers, .source = path};
    const ig_produce_options options = {.threads = 1, .writing = ig_signals_writing};
    ig_gguf_writer *writer = NULL;
    ig_produced made;
    if (ig_gguf_writer_create(&ig_heap, to, &writer) != IG_OK) _exit(96);
    if (ig_gguf_announce(writer, &product, 1) != IG_OK) _exit(95);
    if (ig_gguf_produce(&ig_heap, to, writer, &product, 1, &options, &made) != IG_ERR_IO) _exit(94);
}

/* Beside the file: a link to what is made of it. */
static void write_meanwhile(const char *path) {
    char link[PATH_BYTES + 8], out[PATH_BYTES + 8];
    snprintf(out, sizeof out, "%s.out", path);
    snprintf(link, sizeof link, "%s.link", path);
    const int fd = open(out, O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || close(fd) != 0 || symlink(out, link) != 0) _exit(93);
    quantize(path, link);
}

static void what_was_made_of_it_goes_and_the_file_before_stays(void **state) {
    char path[PATH_BYTES];
    ends_with_3_and_its_name(state, write_meanwhile);
    assert_int_equal(access(directory_path(state, "model.gguf.out", path), F_OK), 0);
    assert_int_equal(directory_count(state), 3); /* no .saving */
}

/* Another process writes there, so that reading is never reached. */
static void write_too(const char *path) {
    char out[PATH_BYTES + 8];
    snprintf(out, sizeof out, "%s.out", path);
    quantize(path, out);
    read_beyond_the_end(path);
}

static void bytes_written_by_another_process_stay(void **state) {
    char path[PATH_BYTES];
    ig_file_writer *writer = NULL;
    must(ig_file_writer_create(&ig_heap, directory_path(state, "model.gguf.out", path), 10,
                               &writer));
    ends_with_3_and_its_name(state, write_too);
    assert_int_equal(access(ig_file_writer_temporary(writer), F_OK), 0);
    ig_file_writer_destroy(writer);
    assert_int_equal(directory_count(state), 1);
}

/* Sends itself a signal twice at once, and another when it has waited: that one ends it. */
static void one_that_comes_twice_at_once_is_one(void **state) {
    (void)state;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        ig_signals_catch();
        raise(SIGINT);
        raise(SIGINT);
        if (ig_signals_caught() != SIGINT) _exit(92);
        usleep(500000);
        raise(SIGTERM);
        _exit(91);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void read_as_text(const char *path) {
    ig_data *data = NULL;
    ig_string_view text;
    const ig_data_open_options options = {.reading = ig_signals_reading};
    if (ig_data_open(&path, 1, &options, &data) != IG_OK || truncate(path, 1) != 0) _exit(99);
    /* All but a byte is copied, and the second page is gone. */
    (void)!ig_data_sample(data, (size_t)ig_data_bytes(data) - 1, &text);
}

static void text_to_train_with_is_named_too(void **state) {
    ends_with_3_and_its_name(state, read_as_text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(reading_a_file_that_became_shorter_ends_with_3_and_its_name),
        IN_DIRECTORY(what_was_made_of_it_goes_and_the_file_before_stays),
        IN_DIRECTORY(bytes_written_by_another_process_stay),
        IN_DIRECTORY(text_to_train_with_is_named_too),
        cmocka_unit_test(one_that_comes_twice_at_once_is_one),
        cmocka_unit_test(a_stopped_call_reports_how_far_it_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
