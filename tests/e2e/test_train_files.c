/*
 * Files of a training run when the terminal closes, the log's disk is full or another run writes
 * the same file; and commands with a small stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"
#include "ingot/checkpoint.h"
#include "ingot/nn.h"
#include "model/adapter.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

enum { OPTIONS = 32 };

static const char *const tiny[] = {"--d-model", "16", "--layers", "1", "--heads", "2",
                                   "--ctx",     "16", "--batch",  "2", "-t",      "1"};

static void write_text(void **state, char path[PATH_BYTES]) {
    FILE *file = fopen(directory_path(state, "data.txt", path), "w");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) fprintf(file, "The mill number %d turns in the rain.\n", i);
    assert_int_equal(fclose(file), 0);
}

/* train -d TEXT with a tiny model, and more options up to NULL. */
static void arguments_of(const char *text, const char *const *more, const char *out[OPTIONS]) {
    size_t used = 0;
    out[used++] = "train";
    out[used++] = "-d";
    out[used++] = text;
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) out[used++] = tiny[i];
    while (*more) out[used++] = *more++;
    out[used] = NULL;
    assert_true(used < OPTIONS);
}

static program_result train(const char *text, const char *const *more) {
    const char *args[OPTIONS];
    arguments_of(text, more, args);
    return program_run(INGOT_PROGRAM, args, NULL);
}

#define TRAIN(text, ...) train(text, (const char *const[]){__VA_ARGS__, NULL})

static pid_t start_training(void **state, const char *text, const char *out) {
    const char *args[OPTIONS];
    char lock[PATH_BYTES];
    arguments_of(text,
                 (const char *const[]){"-q", "--steps", "100000000", "--save-every", "0", "--out",
                                       out, NULL},
                 args);
    const pid_t pid = program_start(INGOT_PROGRAM, args, &(program_options){0});
    snprintf(lock, sizeof lock, "%s.lock", out);
    (void)state;
    for (int i = 0; access(lock, F_OK) != 0; i++) {
        if (i > 2000) fail_msg("no %s", lock);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); /* long enough for some steps */
    return pid;
}

static void sighup_saves_as_sigterm_does(void **state) {
    char text[PATH_BYTES], out[PATH_BYTES];
    ig_checkpoint *file = NULL;
    write_text(state, text);
    directory_path(state, "m.oam", out);
    const pid_t pid = start_training(state, text, out);
    kill(pid, SIGHUP);
    assert_int_equal(program_wait(pid), 129);
    assert_int_equal(ig_checkpoint_open(out, &file), IG_OK);
    assert_true(ig_checkpoint_step(file) > 0);
    ig_checkpoint_close(file);
}

static void a_second_training_into_the_same_file_is_refused(void **state) {
    char text[PATH_BYTES], out[PATH_BYTES], words[64];
    write_text(state, text);
    directory_path(state, "m.oam", out);
    const pid_t pid = start_training(state, text, out);
    program_result second = TRAIN(text, "-q", "--steps", "2", "--out", out);
    snprintf(words, sizeof words, "another training run (process %ld) writes this file", (long)pid);
    if (second.code != 6 || !strstr(second.err, words))
        fail_msg("exit %d, %s", second.code, second.err);
    program_free(&second);
    kill(pid, SIGKILL); /* the leftover file locks nothing */
    assert_int_equal(program_wait(pid), 1000 + SIGKILL);
    program_result third = TRAIN(text, "-q", "--steps", "2", "--out", out);
    if (third.code != 0) fail_msg("exit %d, %s", third.code, third.err);
    program_free(&third);
    assert_int_equal(directory_count(state), 2); /* the text and the checkpoint */
}

static void a_full_disk_under_the_log_does_not_end_training(void **state) {
    char text[PATH_BYTES], out[PATH_BYTES];
    ig_checkpoint *file = NULL;
    write_text(state, text);
    directory_path(state, "m.oam", out);
    program_result result = TRAIN(text, "--steps", "20", "--log", "/dev/full", "--out", out);
    static const char warning[] = "warning: /dev/full: cannot write the log: No space left";
    const char *first = strstr(result.err, warning);
    if (result.code != 6 || !first || strstr(first + 1, warning))
        fail_msg("exit %d, %s", result.code, result.err);
    assert_non_null(strstr(result.out, "steps       20 "));
    program_free(&result);
    assert_int_equal(ig_checkpoint_open(out, &file), IG_OK);
    assert_non_null(strstr(ig_checkpoint_progress(file), "\"steps\":20,"));
    ig_checkpoint_close(file);
}

/* Counts the points of the per-step curve: the first path. */
static int points_of(const char *path) {
    char *svg = malloc(1 << 20);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    svg[fread(svg, 1, (1 << 20) - 1, file)] = 0;
    fclose(file);
    const char *at = strstr(svg, " d=\"M"), *end = at ? strchr(at + 4, '"') : NULL;
    assert_non_null(end);
    int points = 1;
    for (; at < end; at++) points += *at == 'L';
    free(svg);
    return points;
}

static void a_resumed_plot_has_its_whole_history(void **state) {
    char text[PATH_BYTES], out[PATH_BYTES], plot[PATH_BYTES];
    write_text(state, text);
    directory_path(state, "m.oam", out);
    directory_path(state, "loss.svg", plot);
    program_result result =
        TRAIN(text, "-q", "--steps", "30", "--eval-every", "10", "--out", out, "--plot", plot);
    if (result.code != 0) fail_msg("%s", result.err);
    program_free(&result);
    assert_int_equal(points_of(plot), 30);
    result = program_run(INGOT_PROGRAM,
                         (const char *const[]){"train", "-q", "-d", text, "--resume", out,
                                               "--steps", "40", "--plot", plot, NULL},
                         NULL);
    if (result.code != 0) fail_msg("%s", result.err);
    program_free(&result);
    assert_int_equal(points_of(plot), 40);
}

/* ---- Stack ---- */

static void a_stack_of_256_kib_is_enough(void **state) {
    char text[PATH_BYTES], model[PATH_BYTES], out[PATH_BYTES], gguf[PATH_BYTES], command[8192];
    write_text(state, text);
    directory_path(state, "m.gguf", model);
    directory_path(state, "m.oam", out);
    directory_path(state, "o.gguf", gguf);
    assert_int_equal(model_save("llama", IG_F32, model), IG_OK);
    const char *const commands[] = {
        "train -q -d %1$s --d-model 64 --layers 2 --heads 2 --ctx 64 --steps 2 --out %3$s",
        "train -q -d %1$s --resume %3$s --steps 3",
        "generate -q -m %2$s -p 'the mill turns in the rain' -n 4",
        "generate -q -m %3$s -p 'the mill' -n 4",
        "logits -q -m %2$s -p 'the mill turns in the rain and the rain falls on the mill'",
        "chat -q -m %3$s -n 4 <%1$s",
        "quantize -q %2$s %4$s Q8_0",
        "generate -q -m %4$s -p 'the mill turns in the rain' -n 4",
        "convert -q %3$s %4$s",
        "inspect %4$s",
        "plan -m %2$s",
        "bench -q -m %2$s -p 16 -n 4",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char words[4096];
        (void)snprintf(words, sizeof words, commands[i], text, model, out, gguf);
        snprintf(command, sizeof command, "ulimit -s 256; exec %s %s", INGOT_PROGRAM, words);
        program_result r = program_run("/bin/sh", (const char *const[]){"-c", command, NULL}, NULL);
        if (r.code != 0) fail_msg("%s: exit %d, %s", words, r.code, r.err);
        program_free(&r);
    }
}

/* ---- NaN in a file's weights ---- */

static void must(ig_status status) {
    if (status != IG_OK) fail_msg("%s", ig_error_text());
}

/* Copies a checkpoint with a NaN in one weight; returns the name of the tensor. */
static void poison(const char *from, const char *to, char name[64]) {
    ig_ctx *ctx = NULL;
    ig_adapter *a = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1, .plugins = "", .seed = 0},
                       &ctx));
    must(ig_adapter_load(ctx, from, &a));
    const ig_param last = ig_module_param(a->root, ig_module_param_count(a->root) - 1);
    ((float *)ig_tensor_map(last.tensor))[1] = NAN;
    snprintf(name, 64, "tensor %s has NaN or Inf", last.path);
    char *progress = strdup(a->progress);
    must(ig_adapter_save(a, to, progress));
    free(progress);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

static void fails_with_3(program_result r, const char *words) {
    if (r.code != 3 || !strstr(r.err, words)) fail_msg("exit %d, not %s: %s", r.code, words, r.err);
    program_free(&r);
}

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static void a_nan_weight_of_an_oam_file_is_named(void **state) {
    static const char *const archs[] = {"llm", "gpt", "tinyllm"};
    char text[PATH_BYTES], good[PATH_BYTES], bad[PATH_BYTES], out[PATH_BYTES], words[64];
    write_text(state, text);
    directory_path(state, "good.oam", good);
    directory_path(state, "bad.oam", bad);
    directory_path(state, "out.oam", out);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        program_result r = TRAIN(text, "-q", "--arch", archs[i], "--steps", "2", "--out", good);
        if (r.code != 0) fail_msg("%s", r.err);
        program_free(&r);
        poison(good, bad, words);
        fails_with_3(RUN("generate", "-m", bad, "-p", "a", "-n", "2", "-q"), words);
        fails_with_3(RUN("logits", "-m", bad, "-p", "a"), words);
        fails_with_3(RUN("perplexity", "-m", bad, "-f", text, "-c", "16"), words);
        fails_with_3(RUN("train", "-q", "--resume", bad, "-d", text, "--steps", "4", "--out", out),
                     words);
        fails_with_3(RUN("generate", "-m", bad, "-p", "a", "-n", "2", "--device", "simnpu"), words);
        assert_int_not_equal(access(out, F_OK), 0); /* nothing was saved */
    }
}

int main(void) {
    signal(SIGHUP, SIG_DFL); /* under nohup it is ignored, and children inherit that */
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(sighup_saves_as_sigterm_does),
        IN_DIRECTORY(a_second_training_into_the_same_file_is_refused),
        IN_DIRECTORY(a_full_disk_under_the_log_does_not_end_training),
        IN_DIRECTORY(a_resumed_plot_has_its_whole_history),
        IN_DIRECTORY(a_stack_of_256_kib_is_enough),
        IN_DIRECTORY(a_nan_weight_of_an_oam_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
