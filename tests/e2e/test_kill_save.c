/*
 * A process killed during a save leaves the old file or the new one.
 *
 * A child saves in a loop: in save k all weights are k, and so is the progress. It is killed at
 * moments spread over the duration of two saves. The file must then be complete and from one save.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"
#include "ingot/ingot.h"

enum { TRIES = 60, TENSORS = 6, NUMBERS = 100000 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_ns(int64_t ns) {
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static ig_status make_model(ig_ctx **out_ctx, ig_module **out) {
    IG_TRY(ig_ctx_create(&(ig_ctx_options){.threads = 1}, out_ctx));
    IG_TRY(ig_module_create(*out_ctx, NULL, NULL, out));
    for (int i = 0; i < TENSORS; i++) {
        ig_tensor *t;
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        IG_TRY(ig_module_add_param(*out, name, (ig_desc){IG_F32, IG_SHAPE(NUMBERS)}, &t));
    }
    return IG_OK;
}

static ig_status save(const char *path, ig_module *module, int32_t k, float *buffer) {
    for (int i = 0; i < NUMBERS; i++) buffer[i] = (float)k;
    for (size_t i = 0; i < TENSORS; i++)
        IG_TRY(
            ig_tensor_write(ig_module_param(module, i).tensor, buffer, NUMBERS * sizeof *buffer));
    char progress[64];
    snprintf(progress, sizeof progress, "{\"save\":%d}", (int)k);
    return ig_checkpoint_save(path, module, &(ig_checkpoint_options){.progress = progress});
}

/* Never returns. Writes to the pipe after every save. */
static void child(const char *path, int32_t first, int tell) {
    ig_ctx *ctx;
    ig_module *module;
    float *buffer = malloc(NUMBERS * sizeof *buffer);
    ig_status status = make_model(&ctx, &module);
    for (int32_t k = first; status == IG_OK; k++) {
        status = save(path, module, k, buffer);
        if (status == IG_OK && write(tell, "", 1) != 1) _exit(1);
    }
    fprintf(stderr, "%s\n", ig_error_text());
    _exit(1);
}

/* Returns the number of the save that wrote the file. */
static int32_t check_file(const char *path) {
    ig_checkpoint *file;
    if (ig_checkpoint_open(path, &file) != IG_OK || ig_checkpoint_verify(file) != IG_OK)
        fail_msg("%s", ig_error_text());
    const char before_number[] = "{\"save\":", *progress = ig_checkpoint_progress(file);
    assert_memory_equal(progress, before_number, sizeof before_number - 1);
    const int32_t number = (int32_t)strtol(progress + sizeof before_number - 1, NULL, 10);
    assert_int_equal(ig_checkpoint_count(file), TENSORS);
    for (size_t t = 0; t < TENSORS; t++) {
        const float *values = ig_checkpoint_get(file, t).bytes;
        for (int i = 0; i < NUMBERS; i++)
            if (values[i] != (float)number)
                fail_msg("save %d has a %g in it", (int)number, (double)values[i]);
    }
    ig_checkpoint_close(file);
    return number;
}

/* Lets a child save, and kills it `part` of the duration of two saves after its second. */
static void save_and_kill(const char *path, int32_t first, double part) {
    int tell[2];
    char byte;
    assert_int_equal(pipe(tell), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) child(path, first, tell[1]);
    close(tell[1]);

    assert_int_equal(read(tell[0], &byte, 1), 1);
    const int64_t begin = now_ns();
    assert_int_equal(read(tell[0], &byte, 1), 1);
    sleep_ns((int64_t)((double)(now_ns() - begin) * 2 * part));
    kill(pid, SIGKILL);
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
    close(tell[0]);
}

static void sixty_of_sixty_killed_saves_leave_a_whole_file(void **state) {
    char path[PATH_BYTES];
    directory_path(state, "model.oam", path);

    int32_t last = -1;
    int interrupted = 0;
    for (int i = 0; i < TRIES; i++) {
        save_and_kill(path, last + 1, (double)i / TRIES);
        const int32_t number = check_file(path);
        assert_true(number > last);
        last = number;
        interrupted += directory_count(state) > 1;
    }
    print_message("%d whole files of %d; %d saves were cut off\n", TRIES, TRIES, interrupted);

    /* The next save removes the leftovers of the last one. */
    ig_ctx *ctx;
    ig_module *module;
    float *buffer = malloc(NUMBERS * sizeof *buffer);
    assert_int_equal(make_model(&ctx, &module), IG_OK);
    assert_int_equal(save(path, module, last + 1, buffer), IG_OK);
    assert_int_equal(check_file(path), last + 1);
    assert_int_equal(directory_count(state), 1);
    free(buffer);
    ig_module_destroy(module);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(sixty_of_sixty_killed_saves_leave_a_whole_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
