/*
 * Training as users run it: literal commands, interrupted and resumed, with bad input, and killed
 * during a save.
 */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "checks.h"
#include "ingot/checkpoint.h"
#include "program.h"
#include "xml.h"

enum { PATH_BYTES = 256, LINE_BYTES = 1024, STEPS_MAX = 128, TEXT_BYTES = 20000 };
enum { KILLS = 20, KILLS_LONG = 60 }; /* INGOT_TEST_LONG selects the larger count */

/* Sanitizers make the large models several times slower; the small ones test as much. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOW_BUILD = 1 };
#else
enum { SLOW_BUILD = 0 };
#endif

/* A folder for each test, with a text file. */
typedef struct place {
    char dir[32], before[PATH_BYTES];
} place;

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)
/* A model so small that a step is fast. */
#define TINY       "--d-model", "16", "--layers", "1", "--heads", "2", "--ctx", "16", "--batch", "2"
#define TRAIN(...) RUN("train", "-d", "data.txt", TINY, __VA_ARGS__)

static void write_file(const char *path, const char *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) fail_msg("%s is not there", path);
    char *text = program_read_all(fileno(file), NULL);
    fclose(file);
    return text;
}

/* Sentences from a small vocabulary, in an order that does not repeat. */
static void write_text(const char *path, size_t bytes) {
    static const char *const words[] = {"the ",  "mill ",  "turns ", "a ",      "stone ", "and ",
                                        "rain ", "falls ", "on ",    "hills. ", "grain ", "fills "};
    char *text = malloc(bytes + 16);
    assert_non_null(text);
    size_t used = 0;
    for (uint32_t x = 1; used < bytes; x = x * 1664525u + 1013904223u) {
        const char *word = words[(x >> 20) % (sizeof words / sizeof words[0])];
        memcpy(text + used, word, strlen(word));
        used += strlen(word);
    }
    write_file(path, text, bytes);
    free(text);
}

static int enter(void **state) {
    place *p = calloc(1, sizeof *p);
    if (!p || !getcwd(p->before, sizeof p->before)) return -1;
    strcpy(p->dir, "/tmp/ingot-train-XXXXXX");
    if (!mkdtemp(p->dir) || chdir(p->dir) != 0) return -1;
    write_text("data.txt", TEXT_BYTES);
    *state = p;
    return 0;
}

static int leave(void **state) {
    place *p = *state;
    DIR *dir = opendir(p->dir);
    for (struct dirent *e; dir && (e = readdir(dir));) unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    const int failed = chdir(p->before) != 0 || rmdir(p->dir) != 0;
    free(p);
    return failed;
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, enter, leave)

static void check_ok(program_result result) {
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    program_free(&result);
}

/* Asserts that the file is complete; returns its number of training steps. */
static int64_t check_file(const char *path) {
    ig_checkpoint *file;
    if (ig_checkpoint_open(path, &file) != IG_OK || ig_checkpoint_verify(file) != IG_OK)
        fail_msg("%s: %s", path, ig_error_text());
    json_t *progress = json_loads(ig_checkpoint_progress(file), 0, NULL);
    const int64_t steps = json_integer_value(json_object_get(progress, "steps"));
    json_decref(progress);
    ig_checkpoint_close(file);
    return steps;
}

/* Asserts equal weights and moments, bit for bit. */
static void check_same_tensors(const char *one, const char *other) {
    ig_checkpoint *a, *b;
    assert_int_equal(ig_checkpoint_open(one, &a), IG_OK);
    assert_int_equal(ig_checkpoint_open(other, &b), IG_OK);
    assert_int_equal(ig_checkpoint_count(a), ig_checkpoint_count(b));
    assert_true(ig_checkpoint_count(a) > 0);
    for (size_t i = 0; i < ig_checkpoint_count(a); i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(a, i), u = ig_checkpoint_get(b, i);
        assert_string_equal(t.name, u.name);
        assert_int_equal(t.n_bytes, u.n_bytes);
        if (memcmp(t.bytes, u.bytes, t.n_bytes) != 0) fail_msg("%s differs", t.name);
    }
    ig_checkpoint_close(a);
    ig_checkpoint_close(b);
}

/* Reads the losses of a log, by step; NaN: missing. Returns the last step. */
static int read_losses(const char *path, double out[STEPS_MAX]) {
    char *text = read_file(path), *rest = text;
    int last = 0;
    for (int i = 0; i < STEPS_MAX; i++) out[i] = NAN;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *row = json_loads(line, 0, NULL);
        if (!row) fail_msg("no JSON: %s", line);
        const json_t *loss = json_object_get(row, "loss");
        const int step = (int)json_integer_value(json_object_get(row, "step"));
        assert_in_range(step, 1, STEPS_MAX - 1);
        if (loss) out[step] = json_number_value(loss), last = step;
        json_decref(row);
    }
    free(text);
    return last;
}

static void check_same_losses(const char *one, const char *other, int steps) {
    double a[STEPS_MAX], b[STEPS_MAX];
    assert_int_equal(read_losses(one, a), steps);
    assert_int_equal(read_losses(other, b), steps);
    for (int i = 1; i <= steps; i++)
        if (a[i] != b[i]) fail_msg("step %d: %.9g and %.9g", i, a[i], b[i]);
}

/* Starts a command and waits for the `wanted`-th line that begins with `words`. */
static pid_t start_until(const char *path, const char *const *args, const char *words, int wanted,
                         FILE **out_err) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    const pid_t pid =
        program_start(path, args, &(program_options){.err_fd = fds[1], .out_fd = fds[1]});
    close(fds[1]);
    *out_err = fdopen(fds[0], "r");
    char line[LINE_BYTES];
    while (wanted > 0) {
        if (!fgets(line, sizeof line, *out_err)) fail_msg("it ended too early");
        if (strncmp(line, words, strlen(words)) == 0) wanted--;
    }
    return pid;
}

/* The rest of the stream; the caller frees. */
static char *rest_of(FILE *stream) {
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    for (size_t got; text && (got = fread(text + used, 1, room - 1 - used, stream)) > 0;)
        used += got;
    text[used] = 0;
    fclose(stream);
    return text;
}

/* ---- The literal commands ---- */

static void interrupt_literal(const char *const *args, const char *file) {
    assert_int_equal(symlink(INGOT_PROGRAM, "train"), 0);
    FILE *err;
    const pid_t pid = start_until("./train", args, "train: ", 3, &err);
    kill(pid, SIGINT);
    char *said = rest_of(err);
    const int code = program_wait(pid);
    if (code != 130 || !strstr(said, "--resume")) fail_msg("exit %d: %s", code, said);
    free(said);
    assert_true(check_file(file) >= 3);
    assert_int_equal(access("data.txt", F_OK), 0);
}

static void train_oallm_384_by_6_runs_and_is_interrupted(void **state) {
    (void)state;
    interrupt_literal((const char *const[]){"--arch", "OaLlm", "-d", "data.txt", "--d-model", "384",
                                            "--layers", "6", NULL},
                      "llm.oam");
}

static void train_oagpt_768_by_12_runs_and_is_interrupted(void **state) {
    (void)state;
    if (SLOW_BUILD) skip();
    interrupt_literal((const char *const[]){"--arch", "OaGpt", "-d", "data.txt", "--d-model", "768",
                                            "--layers", "12", NULL},
                      "gpt.oam");
}

static void every_architecture_learns_and_says_how_well(void **state) {
    (void)state;
    static const char *const archs[] = {"llm", "OaGpt", "Tiny-LLM"};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        program_result result =
            RUN("train", "-d", "data.txt", "--arch", archs[i], "--d-model", "16", "--layers", "2",
                "--ctx", "16", "--steps", "60", "--lr", "0.01", "--out", "m.oam", "--json");
        if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
        json_t *root = json_loads(result.out, 0, NULL), *loss = json_object_get(root, "loss");
        assert_string_equal(json_string_value(json_object_get(root, "schema")), "ingot.train.v1");
        const double first = json_number_value(json_object_get(loss, "first"));
        const double val = json_number_value(json_object_get(loss, "validation"));
        const double bits = json_number_value(json_object_get(loss, "bits_per_byte"));
        assert_true(first > 5 && first < 6.2); /* ln 256 is 5.55 */
        assert_true(val < 0.8 * first);
        assert_true(fabs(bits - val / log(2)) < 1e-6); /* a token is a byte */
        const json_t *memory = json_object_get(root, "memory");
        assert_true(json_integer_value(json_object_get(memory, "estimate_bytes")) > 10000);
        assert_non_null(strstr(result.err, "training takes about"));
        assert_int_equal(check_file("m.oam"), 60);
        json_decref(root);
        program_free(&result);
    }
}

static void a_table_a_log_curves_and_a_trace_come_out(void **state) {
    (void)state;
    program_result result =
        TRAIN("--steps", "30", "--eval-every", "10", "--sample-every", "15", "--prompt", "the mill",
              "--log", "log.jsonl", "--plot", "loss.svg", "--trace", "trace.json");
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    static const char *const rows[] = {"loss ",     "validation ", "bits/byte ", "steps ",
                                       "tokens/s ", "memory ",     "checkpoint "};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strstr(result.out, rows[i])) fail_msg("no '%s' in %s", rows[i], result.out);
    assert_non_null(strstr(result.err, "step 15: the mill|"));
    assert_non_null(strstr(result.err, "train: 100%  30/30 steps"));
    program_free(&result);

    double losses[STEPS_MAX];
    assert_int_equal(read_losses("log.jsonl", losses), 30);
    for (int i = 1; i <= 30; i++) assert_true(losses[i] > 0);
    char *log = read_file("log.jsonl"), *svg = read_file("loss.svg"), *text;
    assert_non_null(strstr(log, "\"val_loss\""));
    assert_non_null(strstr(log, "\"sample\""));
    assert_true(xml_is_well_formed(svg));
    assert_non_null(strstr(svg, "validation"));
    json_t *trace = json_loads(text = read_file("trace.json"), 0, NULL);
    assert_true(json_array_size(json_object_get(trace, "traceEvents")) > 10);
    json_decref(trace);
    free(text), free(svg), free(log);
}

static void the_three_modes_give_the_same_losses(void **state) {
    (void)state;
    static const char *const modes[] = {"dynamic", "compiled", "auto"};
    for (int i = 0; i < 3; i++) {
        char log[32], file[32];
        snprintf(log, sizeof log, "%s.jsonl", modes[i]);
        snprintf(file, sizeof file, "%s.oam", modes[i]);
        check_ok(TRAIN("--steps", "12", "--mode", modes[i], "--log", log, "--out", file));
    }
    check_same_losses("dynamic.jsonl", "compiled.jsonl", 12);
    check_same_losses("dynamic.jsonl", "auto.jsonl", 12);
    check_same_tensors("dynamic.oam", "compiled.oam");
}

static void it_ends_after_an_epoch_or_after_a_time(void **state) {
    (void)state;
    check_ok(TRAIN("--epochs", "1", "--val-split", "0", "--out", "epoch.oam"));
    /* Windows of 16 bytes, minus one for the epoch's offset; two per step. */
    const int64_t windows = (TEXT_BYTES - 1) / 16 - 1;
    assert_int_equal(check_file("epoch.oam"), (windows + 1) / 2);
    check_ok(TRAIN("--time", "0.5s", "--out", "time.oam"));
    assert_true(check_file("time.oam") > 1);
    check_error(TRAIN("--time", "soon"), 2, "--time 'soon'");
    check_error(TRAIN("--time", "5m", "--steps", "3"), 2, "one of them");
}

static void any_bytes_are_data_for_bytes(void **state) {
    (void)state;
    char bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 256);
    write_file("binary", bytes, sizeof bytes);
    check_ok(RUN("train", "-d", "binary", TINY, "--steps", "3", "--sample-every", "1"));
    check_ok(RUN("train", TINY, "--steps", "3", "binary", "data.txt")); /* -d *.txt in a shell */
}

static void tokenizers_are_learned_and_kept(void **state) {
    (void)state;
    static const char *const names[] = {"char", "bpe:50"};
    for (int i = 0; i < 2; i++) {
        check_ok(TRAIN("--tokenizer", names[i], "--steps", "4", "--out", "t.oam"));
        program_result result =
            RUN("train", "-d", "data.txt", "--resume", "t.oam", "--steps", "6", "--json");
        if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
        json_t *root = json_loads(result.out, 0, NULL), *config = json_object_get(root, "config");
        assert_string_equal(json_string_value(json_object_get(config, "tokenizer")), names[i]);
        json_decref(root);
        program_free(&result);
    }
}

/* By default a checkpoint is written at step 500, however the run ends later. */
static void every_500_steps_there_is_a_checkpoint(void **state) {
    (void)state;
    const char *const args[] = {"train", "-d",    "data.txt", TINY,    "--steps", "1000000",
                                "--out", "m.oam", "--log",    "m.log", "-q",      NULL};
    const pid_t pid = program_start(INGOT_PROGRAM, args, NULL);
    for (int steps = 0; steps < 510; usleep(1000)) {
        steps = 0;
        FILE *log = fopen("m.log", "re");
        for (int c; log && (c = fgetc(log)) != EOF;) steps += c == '\n';
        if (log) fclose(log);
        if (steps < 499) assert_int_equal(access("m.oam", F_OK), -1);
    }
    kill(pid, SIGKILL);
    (void)program_wait(pid);
    assert_int_equal(check_file("m.oam") % 500, 0);
}

/* ---- Going on ---- */

static void bf16_goes_on_in_bf16_without_being_asked(void **state) {
    (void)state;
#define EVEN(...) TRAIN("--dtype", "bf16", "--schedule", "constant", "--warmup", "0", __VA_ARGS__)
    check_ok(EVEN("--steps", "4", "--out", "half.oam"));
    check_ok(RUN("train", "-d", "data.txt", "--resume", "half.oam", "--steps", "8"));
    check_ok(EVEN("--steps", "8", "--out", "whole.oam"));
#undef EVEN
    check_same_tensors("half.oam", "whole.oam");
}

/* 20 steps at once, and 10 and 10: the same losses, the same file. */
static void check_resumed(const char *option, const char *value) {
    check_ok(TRAIN("--schedule", "linear", "--warmup", "4", "--steps", "20", option, value, "--out",
                   "a.oam", "--log", "a.jsonl"));
    /* The schedule depends on the total, so the first half states all steps. */
    FILE *err;
    const char *const args[] = {"train",    "-d",    "data.txt", TINY,      "--schedule", "linear",
                                "--warmup", "4",     "--steps",  "20",      option,       value,
                                "--out",    "b.oam", "--log",    "b.jsonl", NULL};
    const pid_t pid = start_until(INGOT_PROGRAM, args, "train: ", 3, &err);
    kill(pid, SIGINT);
    free(rest_of(err));
    const int code = program_wait(pid);
    assert_true(code == 130 || code == 0); /* it may have finished before the signal */
    const int64_t reached = check_file("b.oam");
    if (code == 130) {
        assert_true(reached >= 3 && reached < 20);
        check_ok(RUN("train", "-d", "data.txt", "--resume", "b.oam", "--log", "b.jsonl"));
    }
    check_same_losses("a.jsonl", "b.jsonl", 20);
    check_same_tensors("a.oam", "b.oam");
    assert_int_equal(check_file("b.oam"), 20);
}

static void an_interrupted_run_goes_on_bit_for_bit(void **state) {
    (void)state;
    check_resumed("--arch", "llm");
    check_resumed("--accumulate", "3");
    check_resumed("--tokenizer", "bpe:30");
    check_resumed("--arch", "gpt");
}

static void ten_and_ten_steps_are_twenty(void **state) {
    (void)state;
    check_ok(TRAIN("--schedule", "constant", "--warmup", "3", "--steps", "20", "--out", "a.oam",
                   "--log", "a.jsonl", "--eval-every", "3", "--sample-every", "4"));
    check_ok(TRAIN("--schedule", "constant", "--warmup", "3", "--steps", "10", "--out", "b.oam",
                   "--log", "b.jsonl"));
    assert_int_equal(check_file("b.oam"), 10);
    check_ok(TRAIN("--steps", "20", "--resume", "b.oam", "--log", "b.jsonl", "--out", "c.oam",
                   "--threads", "1"));
    assert_int_equal(check_file("b.oam"), 10); /* it continued in the other file */
    check_same_losses("a.jsonl", "b.jsonl", 20);
    check_same_tensors("a.oam", "c.oam");
}

static void what_is_resumed_must_be_the_same_model(void **state) {
    (void)state;
    check_ok(TRAIN("--steps", "4", "--seed", "5", "--out", "m.oam"));
#define RESUME(...) RUN("train", "-d", "data.txt", "--resume", "m.oam", "--steps", "6", __VA_ARGS__)
    check_error(RESUME("--arch", "gpt"), 2, "m.oam holds the architecture llm");
    check_error(RESUME("--d-model", "32"), 2, "--d-model 32: cannot be changed; m.oam has 16");
    check_error(RESUME("--layers", "2"), 2, "--layers 2: cannot be changed; m.oam has 1");
    check_error(RESUME("--ctx", "32"), 2, "--ctx 32: cannot be changed; m.oam has 16");
    check_error(RESUME("--seed", "6"), 2, "--seed 6: cannot be changed; m.oam has 5");
    check_error(RESUME("--tokenizer", "char"), 2, "m.oam has byte");
    check_error(RESUME("--weight-decay", "0.5"), 2, "cannot be changed; m.oam has 0.01");
    check_error(RUN("train", "-d", "data.txt", "--resume", "m.oam"), 2, "has finished its 4 steps");
    check_error(RUN("train", "-d", "data.txt", "--resume", "none.oam"), 6, "none.oam");
    check_error(RUN("train", "-d", "data.txt", "--resume", "data.txt"), 3, "data.txt");
    assert_int_equal(check_file("m.oam"), 4);
    check_ok(RESUME("--arch", "OaLlm", "--d-model", "16", "--seed", "5"));

    write_text("other.txt", 5000);
    program_result result =
        RUN("train", "-d", "other.txt", "--resume", "m.oam", "--steps", "8", "--quiet");
    assert_int_equal(result.code, 0);
    program_free(&result);
    result = RUN("train", "-d", "data.txt", "--resume", "m.oam", "--steps", "10");
    assert_non_null(strstr(result.err, "differs from the one m.oam was trained on"));
    check_ok(result);
}

static void sigterm_saves_too(void **state) {
    (void)state;
    FILE *err;
    const char *const args[] = {"train",   "-d",    "data.txt", TINY, "--steps",
                                "1000000", "--out", "m.oam",    NULL};
    const pid_t pid = start_until(INGOT_PROGRAM, args, "train: ", 3, &err);
    kill(pid, SIGTERM);
    free(rest_of(err));
    assert_int_equal(program_wait(pid), 143);
    assert_true(check_file("m.oam") >= 3);
}

/* ---- Bad input ---- */

static void what_cannot_be_trained_is_one_sentence(void **state) {
    (void)state;
    write_file("empty", "", 0);
    write_file("short", "0123456789012345678901234567890123456789", 40);
    check_error(RUN("train"), 2, "--data is required");
    check_error(RUN("train", "-d", "none.txt"), 6, "none.txt");
    check_error(RUN("train", "-d", "."), 6, "directory");
    check_error(RUN("train", "-d", "empty"), 3, "empty: is empty");
    check_error(RUN("train", "-d", "data.txt", "empty"), 3, "empty: is empty");
    check_error(RUN("train", "-d", "short", "--ctx", "128", "--d-model", "16"), 2,
                "context 128 needs 129 tokens, short has 40");
    check_error(RUN("train", "-d", "data.txt", "--d-model", "65", "--heads", "4"), 2,
                "65 is not divisible by 4");
    check_error(TRAIN("--arch", "nothing"), 2,
                "--arch: unknown architecture nothing; known: llm gpt tinyllm");
    check_error(TRAIN("--tokenizer", "morse"), 2, "morse");
    check_error(TRAIN("--prompt", "more than fits into it"), 2,
                "has 22 tokens, but the context is 16");
    check_error(TRAIN("--dtype", "f16"), 2, "loss scaler");
    check_error(TRAIN("--min-lr", "1", "--lr", "0.1"), 2, "above --lr");
    check_error(TRAIN("--out", "no/such/folder.oam"), 6, "no/such/folder.oam");
    check_error(TRAIN("--log", "no/such/folder.log"), 6, "no/such/folder.log");
    assert_int_equal(access("llm.oam", F_OK), -1);
}

/* Asserts that all weights of the file are finite. */
static void check_finite(const char *path) {
    ig_checkpoint *file;
    assert_int_equal(ig_checkpoint_open(path, &file), IG_OK);
    for (size_t i = 0; i < ig_checkpoint_count(file); i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
        if (t.role != IG_ROLE_WEIGHT) continue;
        const float *values = t.bytes;
        for (uint64_t j = 0; j < t.n_bytes / sizeof *values; j++)
            if (!isfinite(values[j])) fail_msg("%s has a %g", t.name, (double)values[j]);
    }
    ig_checkpoint_close(file);
}

static void a_nan_loss_ends_training_and_the_last_file_stays(void **state) {
    (void)state;
    /* Without clipping the update overflows; with clipping, an op before it. */
    static const struct {
        const char *arch, *clip, *op;
    } rows[] = {{"tinyllm", "0", "adamw"},
                {"tinyllm", "1", "the first op with a NaN or Inf result was "},
                {"llm", "1", "_grad with "},
                {"gpt", "1", "_grad with "}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        program_result result =
            RUN("train", "-d", "data.txt", "--arch", rows[i].arch, "--d-model", "32", "--layers",
                "4", "--heads", "2", "--ctx", "16", "--lr", "1000", "--clip", rows[i].clip,
                "--warmup", "0", "--steps", "200", "--save-every", "1", "--out", "m.oam");
        if (result.code != 1) fail_msg("exit %d: %s", result.code, result.err);
        const char *words = strstr(result.err, "ingot train: ");
        const char *step = words ? strstr(words, "step ") : NULL;
        if (!step || !strstr(step, rows[i].op) || !strstr(step, "m.oam still holds step"))
            fail_msg("%s, clip %s: %s", rows[i].arch, rows[i].clip, result.err);
        const int64_t at = strtol(step + strlen("step "), NULL, 10);
        program_free(&result);
        const int64_t saved = check_file("m.oam");
        assert_true(saved >= 1 && saved < at);
        check_finite("m.oam");
    }
}

static void what_memory_cannot_hold_is_refused_before_it_is_taken(void **state) {
    (void)state;
    check_error(program_run(INGOT_PROGRAM,
                            (const char *const[]){"train", "-d", "data.txt", "--d-model", "65536",
                                                  "--layers", "100", "--steps", "1", NULL},
                            NULL),
                4, "the weights need at least ");
    check_error(program_run(INGOT_PROGRAM,
                            (const char *const[]){"train", "-d", "data.txt", "--steps", "1",
                                                  "--memory-limit", "100K", NULL},
                            NULL),
                4, "MiB, but 0.1 MiB are available; use fewer layers");
    check_error(
        program_run(INGOT_PROGRAM,
                    (const char *const[]){"train", "-d", "data.txt", "--d-model", "512", "--layers",
                                          "6", "--steps", "1", "--memory-limit", "200M", NULL},
                    NULL),
        4, "gradients and moments");
}

static void a_disk_that_is_full_from_the_start_is_found_before_training(void **state) {
    (void)state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4000;
    setrlimit(RLIMIT_FSIZE, &small);
    program_result result = TRAIN("--steps", "3");
    setrlimit(RLIMIT_FSIZE, &before);
    check_error(result, 6, "llm.oam");
    assert_int_equal(access("llm.oam", F_OK), -1);
    assert_int_equal(access("llm.oam.saving", F_OK), -1);
}

static void a_disk_that_fills_up_leaves_the_last_file(void **state) {
    (void)state;
    FILE *err;
    const char *const args[] = {"train", "-d",           "data.txt", TINY,      "--save-every",
                                "1",     "--eval-every", "0",        "--steps", "1000000",
                                NULL};
    const pid_t pid = start_until(INGOT_PROGRAM, args, "train: ", 3, &err);
    const struct rlimit small = {4000, 4000};
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &small, NULL), 0);
    char line[LINE_BYTES];
    do /* A failed save is a warning: a later one may succeed. */
        if (!fgets(line, sizeof line, err)) fail_msg("it ended");
    while (!strstr(line, "is not saved"));
    const int64_t saved = check_file("llm.oam");
    kill(pid, SIGINT);
    char *said = rest_of(err);
    const int code = program_wait(pid);
    if (code != 6 || !strstr(said, "llm.oam")) fail_msg("exit %d: %s", code, said);
    free(said);
    assert_int_equal(check_file("llm.oam"), saved);
}

/* ---- Killed while it saves ---- */

static void sleep_ns(int64_t ns) {
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static void a_run_killed_at_any_moment_leaves_a_file_to_resume(void **state) {
    (void)state;
    const int kills = getenv("INGOT_TEST_LONG") ? KILLS_LONG : KILLS;
    int64_t last = 0;
    uint32_t x = 7;
    check_ok(TRAIN("--steps", "1", "--val-split", "0", "--out", "m.oam"));
    const char *const args[] = {"train",   "-d",      "data.txt",     "--resume", "m.oam",
                                "--steps", "1000000", "--save-every", "1",        NULL};
    for (int i = 0; i < kills; i++) {
        FILE *err;
        const pid_t pid = start_until(INGOT_PROGRAM, args, "train: ", 3, &err);
        x = x * 1664525u + 1013904223u;
        sleep_ns((int64_t)(x >> 8) % 20000000); /* up to 20 ms: several saves of this model */
        kill(pid, SIGKILL);
        assert_int_equal(program_wait(pid), 1000 + SIGKILL);
        fclose(err);
        const int64_t steps = check_file("m.oam");
        assert_true(steps > last);
        last = steps;
    }
    print_message("%d of %d files were whole, the last of step %lld\n", kills, kills,
                  (long long)last);
}

int main(void) {
    /* Background jobs may ignore signals, and children inherit that. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    const struct CMUnitTest tests[] = {
        IN_PLACE(train_oallm_384_by_6_runs_and_is_interrupted),
        IN_PLACE(train_oagpt_768_by_12_runs_and_is_interrupted),
        IN_PLACE(every_architecture_learns_and_says_how_well),
        IN_PLACE(a_table_a_log_curves_and_a_trace_come_out),
        IN_PLACE(the_three_modes_give_the_same_losses),
        IN_PLACE(it_ends_after_an_epoch_or_after_a_time),
        IN_PLACE(any_bytes_are_data_for_bytes),
        IN_PLACE(tokenizers_are_learned_and_kept),
        IN_PLACE(an_interrupted_run_goes_on_bit_for_bit),
        IN_PLACE(ten_and_ten_steps_are_twenty),
        IN_PLACE(what_is_resumed_must_be_the_same_model),
        IN_PLACE(sigterm_saves_too),
        IN_PLACE(what_cannot_be_trained_is_one_sentence),
        IN_PLACE(every_500_steps_there_is_a_checkpoint),
        IN_PLACE(bf16_goes_on_in_bf16_without_being_asked),
        IN_PLACE(a_nan_loss_ends_training_and_the_last_file_stays),
        IN_PLACE(what_memory_cannot_hold_is_refused_before_it_is_taken),
        IN_PLACE(a_disk_that_is_full_from_the_start_is_found_before_training),
        IN_PLACE(a_disk_that_fills_up_leaves_the_last_file),
        IN_PLACE(a_run_killed_at_any_moment_leaves_a_file_to_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
