/* Text generation: depends only on the model, the prompt and the seed, and errors are reported. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#include <cmocka.h>

#include "checks.h"
#include "ingot/ingot.h"
#include "results.h"

enum { TERMINAL_BYTES = 1 << 16, WAIT_MS = 60000 };

/* A folder for the whole group, with a trained model. */
static char dir[32], model[64], prompt_file[64], damaged[64];

#define RUN(...)      program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)
#define GENERATE(...) RUN("generate", "-m", model, __VA_ARGS__)

static void write_file(const char *path, const char *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static char *output_of(program_result result) {
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    char *out = strdup(result.out);
    program_free(&result);
    return out;
}

/* Trains a model that memorizes one sentence. */
static int make_model(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ingot-generate-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/m.oam", dir);
    snprintf(prompt_file, sizeof prompt_file, "%s/prompt.txt", dir);
    snprintf(damaged, sizeof damaged, "%s/damaged.oam", dir);
    char data[64];
    snprintf(data, sizeof data, "%s/data.txt", dir);
    FILE *file = fopen(data, "we");
    for (int i = 0; file && i < 200; i++) fputs("the caf\xC3\xA9 mill turns a stone. ", file);
    if (!file || fclose(file) != 0) return -1;
    write_file(prompt_file, "the mill", 8);
    write_file(damaged, "ingot", 5);
    program_result result =
        RUN("train", "-d", data, "--d-model", "32", "--layers", "1", "--heads", "2", "--ctx", "64",
            "--batch", "4", "--steps", "150", "--lr", "0.01", "--out", model, "-q");
    const int failed = result.code;
    if (failed) print_message("%s", result.err);
    program_free(&result);
    return failed;
}

static int remove_model(void **state) {
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    return rmdir(dir);
}

/* ---- memory ---- */

/* Fails every tenth allocation of loading, capturing and replaying. */
static void a_failing_allocation_ends_with_4_and_says_so(void **state) {
    (void)state;
    int failed = 0;
    for (int n = 1;; n += 5) {
        char variable[64];
        snprintf(variable, sizeof variable, "INGOT_TEST_FAIL_ALLOC=%d", n);
        program_result result = program_run(
            INGOT_PROGRAM,
            (const char *const[]){"generate", "-m", model, "-p", "the", "-n", "3", "-t", "1", NULL},
            &(program_options){.env = (const char *const[]){variable, NULL}});
        const bool reached = strstr(result.err, "fails on purpose") != NULL;
        const bool said = strstr(result.err, "ingot generate: out of memory: ") &&
                          !strstr(result.err, "cannot become");
        if (result.code != 0 && (result.code != 4 || !said))
            fail_msg("allocation %d: exit %d, %s", n, result.code, result.err);
        failed += result.code == 4;
        program_free(&result);
        if (!reached) break;
    }
    assert_true(failed > 50);
}

/* ---- generate ---- */

static void it_says_what_it_learned(void **state) {
    (void)state;
    char *text = output_of(GENERATE("-p", "the caf", "-n", "24", "--temp", "0"));
    assert_non_null(strstr(text, "the caf\xC3\xA9 mill turns"));
    free(text);
}

static void greedy_text_is_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    char *one = output_of(GENERATE("-p", "a stone", "-n", "50", "--temp", "0", "-t", "1"));
    static const char *const threads[] = {"2", "3", "7"};
    for (int i = 0; i < 3; i++) {
        char *other =
            output_of(GENERATE("-p", "a stone", "-n", "50", "--temp", "0", "-t", threads[i]));
        assert_string_equal(one, other);
        free(other);
    }
    free(one);
}

static void the_seed_decides_what_is_drawn(void **state) {
    (void)state;
#define DRAW(seed)                                                                           \
    output_of(GENERATE("-p", "t", "-n", "40", "--temp", "5", "--top-p", "1", "--min-p", "0", \
                       "--top-k", "0", "-s", seed, "-t", "2"))
    char *one = DRAW("1"), *again = DRAW("1"), *other = DRAW("2");
    assert_string_equal(one, again);
    assert_string_not_equal(one, other);
    free(one), free(again), free(other);
}

static void the_prompt_comes_from_an_argument_a_file_or_a_pipe(void **state) {
    (void)state;
    char *want = output_of(GENERATE("-p", "the mill", "-n", "10", "--temp", "0"));
    char *file = output_of(GENERATE("-f", prompt_file, "-n", "10", "--temp", "0"));
    assert_string_equal(file, want);
    const int in = open(prompt_file, O_RDONLY | O_CLOEXEC);
    char *piped = output_of(program_run(
        INGOT_PROGRAM,
        (const char *const[]){"generate", "-m", model, "-f", "-", "-n", "10", "--temp", "0", NULL},
        &(program_options){.in_fd = in}));
    close(in);
    assert_string_equal(piped, want);
    assert_memory_equal(want, "the mill", 8);
    int ends[2]; /* a pipe has no size, and cannot be mapped */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "the mill", 8), 8);
    close(ends[1]);
    char *named =
        output_of(program_run(INGOT_PROGRAM,
                              (const char *const[]){"generate", "-m", model, "-f", "/dev/stdin",
                                                    "-n", "10", "--temp", "0", NULL},
                              &(program_options){.in_fd = ends[0]}));
    close(ends[0]);
    assert_string_equal(named, want);
    free(named);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "the mill", 8), 8);
    close(ends[1]);
    free(output_of(program_run(
        INGOT_PROGRAM, (const char *const[]){"logits", "-m", model, "-f", "/dev/stdin", NULL},
        &(program_options){.in_fd = ends[0]})));
    close(ends[0]);
    check_error(GENERATE("-f", "/dev/zero"), 2, "/dev/zero: a text of more than 64 MiB");
    check_error(GENERATE("-f", dir), 6, dir);
    char *alone =
        output_of(GENERATE("-p", "the mill", "-n", "10", "--temp", "0", "--no-display-prompt"));
    assert_string_equal(alone, want + 8);
    free(alone), free(piped), free(file), free(want);
}

static void the_report_has_tokens_text_times_and_memory(void **state) {
    (void)state;
    json_t *root = json_of(GENERATE("-p", "the mill", "-n", "10", "--json"), "ingot.generate.v1");
    assert_int_equal(json_array_size(json_object_get(root, "tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(root, "n_tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(root, "n_prompt")), 8);
    assert_string_equal(json_string_value(json_object_get(root, "prompt")), "the mill");
    assert_true(json_string_length(json_object_get(root, "text")) >= 10);
    assert_string_equal(json_string_value(json_object_get(root, "finish")), "length");
    static const char *const times[] = {"load_ms", "prefill_ms", "decode_ms", "first_token_ms"};
    const json_t *timings = json_object_get(root, "timings");
    for (int i = 0; i < 4; i++)
        assert_true(json_number_value(json_object_get(timings, times[i])) > 0);
    assert_true(json_integer_value(json_object_get(json_object_get(root, "memory"), "peak_bytes")) >
                0);
    assert_non_null(json_object_get(root, "counters")); /* from the run report */
    json_decref(root);
}

static void rates_are_of_tokens_that_went_through_the_model(void **state) {
    (void)state;
    json_t *one = json_of(GENERATE("-p", "the mill", "-n", "1", "--json"), "ingot.generate.v1");
    assert_true(json_is_null(json_object_get(one, "tokens_per_s"))); /* only prefill */
    assert_true(json_number_value(json_object_get(one, "prompt_tokens_per_s")) > 0);
    json_t *root = json_of(GENERATE("-p", "the mill", "-n", "10", "--json"), "ingot.generate.v1");
    const json_t *timings = json_object_get(root, "timings");
    const double read = json_number_value(json_object_get(root, "prompt_tokens_per_s"));
    const double made = json_number_value(json_object_get(root, "tokens_per_s"));
    /* Nine tokens were decoded, in less than the total time, which includes planning. */
    assert_true(made * json_number_value(json_object_get(timings, "decode_ms")) > 9 * 1e3);
    assert_true(read * json_number_value(json_object_get(timings, "prefill_ms")) > 8 * 1e3);
    json_decref(root);
    json_decref(one);
}

static void verbose_text_ends_with_rates_and_acceptance(void **state) {
    (void)state;
    program_result drafted = GENERATE("-p", "the mill", "-n", "10", "-v", "--draft-ngram", "1");
    assert_int_equal(drafted.code, 0);
    assert_non_null(strstr(drafted.err, "prompt: 8 tokens ("));
    assert_non_null(strstr(drafted.err, " tok/s); generated: 10 tokens ("));
    assert_non_null(strstr(drafted.err, " draft tokens\n"));
    program_result plain = GENERATE("-p", "the mill", "-n", "1", "-v");
    assert_non_null(strstr(plain.err, " tok/s); generated: 1 tokens\n"));
    program_free(&plain);
    program_free(&drafted);
}

static void a_stop_string_ends_the_text_before_it(void **state) {
    (void)state;
    json_t *root = json_of(
        GENERATE("-p", "the caf", "--temp", "0", "--stop", "mill", "--stop", "nowhere", "--json"),
        "ingot.generate.v1");
    assert_string_equal(json_string_value(json_object_get(root, "text")), "\xC3\xA9 ");
    assert_string_equal(json_string_value(json_object_get(root, "finish")), "stop");
    json_decref(root);
}

static void text_comes_in_whole_characters(void **state) {
    (void)state;
    /* The prompt ends inside a character: its second byte is generated first. */
    char *text = output_of(GENERATE("-p", "the caf\xC3", "-n", "8", "--temp", "0"));
    assert_true(strlen(text) > 8);
    free(text);
    for (int n = 1; n < 12; n++) { /* whatever the length, no half character at the end */
        char count[16];
        snprintf(count, sizeof count, "%d", n);
        json_t *root = json_of(GENERATE("-p", "the", "-n", count, "--temp", "0", "--json"),
                               "ingot.generate.v1");
        json_decref(root);
    }
}

static void without_a_limit_the_context_is_filled(void **state) {
    (void)state;
    json_t *root = json_of(GENERATE("-p", "the mill", "--json"), "ingot.generate.v1");
    assert_int_equal(json_integer_value(json_object_get(root, "n_tokens")), 64 - 8);
    json_decref(root);
}

/* Stops a run after this delay; returns its exit code and output. */
static int stop_after(useconds_t delay, char **out) {
    char path[64];
    snprintf(path, sizeof path, "%s/stopped.json", dir);
    const int to = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(to >= 0);
    const char *const args[] = {"generate", "-p", "Once", "--ignore-eos", "-t", "1",
                                "--json",   "-q", NULL};
    const pid_t pid = program_start(INGOT_PROGRAM, args, &(program_options){.out_fd = to});
    usleep(delay);
    kill(pid, SIGTERM);
    const int code = program_wait(pid);
    assert_int_equal(lseek(to, 0, SEEK_SET), 0);
    *out = program_read_all(to, NULL);
    close(to);
    return code;
}

/* The signal may come before the first token or after the last one: repeats until it comes
 * between. */
static void what_was_made_before_a_signal_is_printed(void **state) {
    (void)state;
    size_t n_tokens = 0;
    double delay = 50000; /* microseconds */
    for (int attempt = 0; attempt < 100 && n_tokens == 0; attempt++) {
        char *text;
        const int code = stop_after((useconds_t)delay, &text);
        json_t *root = json_loads(text, 0, NULL);
        const json_t *finish = json_object_get(root, "finish");
        if (code == 143 && finish) {
            n_tokens = json_array_size(json_object_get(root, "tokens"));
            assert_string_equal(json_string_value(finish), "cancelled");
            assert_string_equal(
                json_string_value(json_object_get(json_object_get(root, "error"), "name")),
                "Cancelled");
            assert_int_equal(json_integer_value(json_object_get(root, "n_tokens")), n_tokens);
        }
        delay *= code == 0 ? 0.8 : 1.15;
        json_decref(root);
        free(text);
    }
    assert_true(n_tokens > 0);
}

/* ---- models ---- */

/* The program alone, in another folder, does not find the bundled model. */
static void the_model_that_comes_along_tells_a_story(void **state) {
    (void)state;
    char alone[64], copy[4096 + 64];
    char *text = output_of(RUN("generate", "-p", "Once upon a time", "-n", "60", "--temp", "0"));
    assert_memory_equal(text, "Once upon a time", 16);
    assert_non_null(strstr(text, " named ")); /* every story names its characters */
    assert_non_null(strstr(text, ". "));
    free(text);

    snprintf(alone, sizeof alone, "%s/ingot", dir);
    snprintf(copy, sizeof copy, "cp '%s' '%s'", INGOT_PROGRAM, alone);
    assert_int_equal(system(copy), 0); /* NOLINT(cert-env33-c): a fixed command */
    const char *const args[] = {"generate", "-p", "the mill", "-n", "4", NULL};
    check_error(program_run(alone, args, NULL), 2, "--model is required");
    char variable[96];
    snprintf(variable, sizeof variable, "INGOT_MODEL=%s", model);
    free(output_of(program_run(alone, args,
                               &(program_options){.env = (const char *const[]){variable, NULL}})));
}

static void exported_weights_generate_the_same_text_from_a_third_of_the_bytes(void **state) {
    (void)state;
    char weights[64];
    snprintf(weights, sizeof weights, "%s/weights.oam", dir);
    json_t *root = json_of(RUN("export", model, weights, "--json"), "ingot.export.v1");
    const json_int_t from = json_integer_value(json_object_get(root, "from_bytes"));
    const json_int_t to = json_integer_value(json_object_get(root, "to_bytes"));
    json_decref(root);
    assert_true(to > 0 && to < from / 2);
    char *one = output_of(GENERATE("-p", "a stone", "-n", "30"));
    char *other = output_of(RUN("generate", "-m", weights, "-p", "a stone", "-n", "30"));
    assert_string_equal(one, other);
    free(one);
    free(other);
    check_error(RUN("train", "-d", prompt_file, "--resume", weights), 3, "no optimizer state");
    static const char *const names[] = {"export", "convert"};
    for (int n = 0; n < 2; n++) {
        char gguf[sizeof dir + 32], again[sizeof dir + 32];
        snprintf(gguf, sizeof gguf, "%s/%s.gguf", dir, names[n]);
        snprintf(again, sizeof again, "%s/%s.oam", dir, names[n]);
        program_result made = RUN(names[n], model, gguf);
        if (made.code != 0) fail_msg("%s", made.err);
        program_free(&made);
        char magic[5] = "";
        FILE *file = fopen(gguf, "rb");
        assert_non_null(file);
        assert_int_equal(fread(magic, 1, 4, file), 4);
        fclose(file);
        assert_string_equal(magic, "GGUF");
        made = RUN(names[n], model, again);
        if (made.code != 0) fail_msg("%s", made.err);
        program_free(&made);
        check_error(RUN(names[n], model, "out.safetensors"), 2,
                    "cannot write .safetensors; name it .gguf, or .oam");
    }
    check_error(RUN("export", model), 2, "OUT");
    check_error(RUN("export", damaged, weights), 3, "damaged.oam");
    check_error(RUN("export", model, "/nowhere/at/all.oam"), 6, "/nowhere/at/all.oam");
}

static void what_cannot_be_generated_is_one_sentence(void **state) {
    (void)state;
    static char long_prompt[200];
    memset(long_prompt, 'x', sizeof long_prompt - 1);
    check_error(GENERATE("-n", "3"), 2, "--prompt is required");
    check_error(GENERATE("-p", "a", "-f", prompt_file), 2, "give only one of them");
    check_error(GENERATE("-f", "/nowhere/at/all"), 6, "/nowhere/at/all");
    check_error(RUN("generate", "-p", "a", "-m", "/nowhere/at/all"), 6, "/nowhere/at/all");
    check_error(RUN("generate", "-p", "a", "-m", damaged), 3, "damaged.oam");
    check_error(GENERATE("-p", "a", "--temp", "-1"), 2, "--temp -1");
    check_error(GENERATE("-p", "a", "--top-p", "2"), 2, "--top-p 2");
    program_result result = GENERATE("-p", long_prompt, "--no-display-prompt");
    check_error(result, 2, "199 tokens, but the context is 64");
    /* The prompt is not printed before these errors, either. */
    check_error(GENERATE("-p", long_prompt), 2, "199 tokens, but the context is 64");
    check_error(GENERATE("-p", "a", "-c", "1"), 2, "1 tokens, but the context is 1");
    check_error(GENERATE("-p", "a", "--mirostat", "1"), 2, "mirostat is 1");
    check_error(GENERATE("-p", "a", "--logit-bias", "5+nan"), 2, "the bias of token 5");
}

/* ---- chat ---- */

static program_result chat_of(const char *lines, const char *const *args) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], lines, strlen(lines)), (ssize_t)strlen(lines));
    close(fds[1]);
    const program_result result =
        program_run(INGOT_PROGRAM, args, &(program_options){.in_fd = fds[0]});
    close(fds[0]);
    return result;
}

static program_result chat_with(const char *lines, const char *option) {
    return chat_of(
        lines, (const char *const[]){"chat", "-m", model, "-n", "12", "--temp", "0", option, NULL});
}

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void chat_continues_each_line_until_the_end_or_exit(void **state) {
    (void)state;
    program_result result = chat_with("the caf\n\nthe mill", NULL); /* no end of line at the end */
    assert_int_equal(result.code, 0);
    assert_int_equal(count_lines(result.out), 2);
    assert_memory_equal(result.out, "\xC3\xA9 mill turn", 12);
    assert_non_null(strstr(result.err, "continues what you type"));
    program_free(&result);

    result = chat_with("the caf\n/exit\nthe mill\n", "-q");
    assert_int_equal(result.code, 0);
    assert_int_equal(count_lines(result.out), 1);
    assert_string_equal(result.err, "");
    program_free(&result);

    result = chat_with("", "-q");
    assert_int_equal(result.code, 0);
    assert_string_equal(result.out, "");
    program_free(&result);
}

static void chat_says_which_context_it_has(void **state) {
    (void)state;
    program_result result = chat_with("", NULL);
    assert_non_null(strstr(result.err, "context 64\n"));
    program_free(&result);
    result = chat_with("the mill turns a stone\n", "-c20");
    assert_int_equal(result.code, 2);
    assert_non_null(strstr(result.err, "context 20 of the model's 64 (-c N for more)\n"));
    assert_non_null(strstr(result.err,
                           "22 tokens, but the context is 20: no room for more; -c N makes it "
                           "longer, up to the model's own 64"));
    program_free(&result);
}

static void chat_answers_in_json_lines(void **state) {
    (void)state;
    program_result result = chat_with("the caf\nthe mill\n", "--json");
    assert_int_equal(result.code, 0);
    char *rest = result.out;
    for (int i = 0; i < 2; i++) {
        json_t *root = json_loads(strsep(&rest, "\n"), 0, NULL);
        assert_string_equal(json_string_value(json_object_get(root, "schema")), "ingot.chat.v1");
        assert_int_equal(json_integer_value(json_object_get(root, "n_tokens")), 12);
        json_decref(root);
    }
    program_free(&result);
}

static void a_chat_reports_drafts_of_each_answer_and_in_total(void **state) {
    (void)state;
    program_result result =
        chat_of("the caf\nthe mill\n",
                (const char *const[]){"chat", "-m", model, "-n", "40", "-q", "--temp", "0",
                                      "--json", "--draft-ngram", "2", NULL});
    assert_int_equal(result.code, 0);
    char *rest = result.out;
    json_int_t drafted[3], accepted[3];
    for (int i = 0; i < 3; i++) {
        json_t *root = json_loads(strsep(&rest, "\n"), 0, NULL);
        const json_t *speculation = json_object_get(root, "speculation");
        assert_int_equal(json_integer_value(json_object_get(speculation, "ngram")), 2);
        assert_true(json_is_number(json_object_get(speculation, "acceptance_rate")));
        assert_int_equal(json_is_number(json_object_get(root, "tokens_per_s")), i < 2);
        drafted[i] = json_integer_value(json_object_get(speculation, "drafted"));
        accepted[i] = json_integer_value(json_object_get(speculation, "accepted"));
        json_decref(root);
    }
    assert_int_equal(drafted[2], drafted[0] + drafted[1]);
    assert_int_equal(accepted[2], accepted[0] + accepted[1]);
    program_free(&result);
}

/* The second answer to the same line with this seed, and the seed that it reports. */
static json_t *second_answer(const char *seed, json_int_t *out_seed) {
    program_result result = chat_of(
        "the caf\nthe caf\n", (const char *const[]){"chat", "-m", model, "-n", "12", "-q", "--temp",
                                                    "5", "--json", "-s", seed, NULL});
    assert_int_equal(result.code, 0);
    char *rest = result.out;
    strsep(&rest, "\n");
    json_t *root = json_loads(strsep(&rest, "\n"), 0, NULL);
    assert_true(json_is_integer(json_object_get(root, "seed")));
    *out_seed = json_integer_value(json_object_get(root, "seed"));
    json_t *text = json_incref(json_object_get(root, "text"));
    json_decref(root);
    program_free(&result);
    return text;
}

static void a_chat_tells_the_seed_that_it_drew(void **state) {
    (void)state;
    char seed[24];
    json_int_t drawn, again;
    json_t *first = second_answer("-1", &drawn);
    snprintf(seed, sizeof seed, "%lld", (long long)drawn);
    json_t *same = second_answer(seed, &again);
    assert_int_equal(again, drawn);
    assert_string_equal(json_string_value(same), json_string_value(first));
    json_decref(same);
    json_decref(first);
}

/* Longer than a pipe's buffer, so it comes from a file. */
static void a_line_that_cannot_be_answered_does_not_end_a_chat(void **state) {
    (void)state;
    enum { LONGER = (1 << 24) + 100000 }; /* than a line may be */
    char *lines = malloc(LONGER + 256), path[64];
    assert_non_null(lines);
    char *at = stpcpy(lines, "the caf\n");
    memset(at, 'x', 100);
    at = stpcpy(at + 100, "\n");
    memset(at, 'y', LONGER);
    at = stpcpy(at + LONGER, "\nthe caf\n");
    snprintf(path, sizeof path, "%s/lines.txt", dir);
    write_file(path, lines, (size_t)(at - lines));
    free(lines);
    const int in = open(path, O_RDONLY | O_CLOEXEC);
    const char *const args[] = {"chat", "-m", model, "-q", "-n", "12", "--temp", "0", NULL};
    program_result result = program_run(INGOT_PROGRAM, args, &(program_options){.in_fd = in});
    close(in);
    assert_int_equal(result.code, 0);
    assert_int_equal(count_lines(result.out), 2);
    assert_memory_equal(strchr(result.out, '\n') + 1, "\xC3\xA9 mill turn", 12);
    assert_non_null(strstr(result.err, "line 2: the line has 100 tokens, but the context is 64: "));
    assert_non_null(strstr(result.err, "line 3: standard input: a line of more than 16 MiB"));
    assert_int_equal(count_lines(result.err), 2);
    program_free(&result);
}

static void a_chat_without_an_answer_fails(void **state) {
    (void)state;
    char line[102];
    memset(line, 'x', 100);
    strcpy(line + 100, "\n");
    check_error(chat_with(line, "-q"), 2, "no line was answered: 1 were skipped");
}

/* A chat on a pseudoterminal. */
typedef struct session {
    pid_t pid;
    int terminal;
    struct termios before; /* settings before the program started */
    char seen[TERMINAL_BYTES];
    size_t used;
} session;

static void begin_session_with(session *s, const char *term, const char *path, const char *n) {
    memset(s, 0, sizeof *s);
    int inside;
    if (openpty(&s->terminal, &inside, NULL, NULL, &(struct winsize){24, 80, 0, 0}) != 0) {
        print_message("there are no terminals here: %s\n", strerror(errno)); /* no /dev/pts */
        skip();
    }
    assert_int_equal(tcgetattr(inside, &s->before), 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid != 0) {
        close(inside);
        return;
    }
    close(s->terminal);
    login_tty(inside);
    setenv("TERM", term, 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    alarm(300);
    execl(INGOT_PROGRAM, "ingot", "chat", "-m", path, "-n", n, "--temp", "0", (char *)NULL);
    _exit(127);
}

static void begin_session(session *s, const char *term) {
    begin_session_with(s, term, model, "12");
}

static void expect_more(session *s) {
    struct pollfd in = {.fd = s->terminal, .events = POLLIN};
    const ssize_t got = poll(&in, 1, WAIT_MS) == 1
                            ? read(s->terminal, s->seen + s->used, sizeof s->seen - 1 - s->used)
                            : -1;
    if (got <= 0) fail_msg("nothing more than '%s'", s->seen);
    s->used += (size_t)got;
}

/* Reads until the text appears at or after `*from`, and advances `*from` past it. */
static void expect(session *s, size_t *from, const char *words) {
    for (;;) {
        const char *at = memmem(s->seen + *from, s->used - *from, words, strlen(words));
        if (at) {
            *from = (size_t)(at - s->seen) + strlen(words);
            return;
        }
        struct pollfd in = {.fd = s->terminal, .events = POLLIN};
        const ssize_t got = poll(&in, 1, WAIT_MS) == 1
                                ? read(s->terminal, s->seen + s->used, sizeof s->seen - 1 - s->used)
                                : -1;
        if (got <= 0) fail_msg("no '%s' in '%s'", words, s->seen);
        s->used += (size_t)got;
    }
}

static void type(session *s, const char *keys) {
    assert_int_equal(write(s->terminal, keys, strlen(keys)), (ssize_t)strlen(keys));
}

static int end_session(session *s) {
    const int code = program_wait(s->pid);
    close(s->terminal);
    return code;
}

static void on_a_terminal_lines_can_be_edited_and_called_back(void **state) {
    (void)state;
    void *library = dlopen("libedit.so.2", RTLD_LAZY);
    if (!library) skip(); /* plain lines without libedit */
    dlclose(library);
    session s;
    size_t at = 0;
    begin_session(&s, "xterm");
    expect(&s, &at, "> ");
    type(&s, "the fac\x7F\x7F\x7F"
             "caf\r"); /* three times backspace */
    expect(&s, &at, "\xC3\xA9 mill turn");
    expect(&s, &at, "> ");
    type(&s, "\033[A\r"); /* up: the previous line */
    expect(&s, &at, "\xC3\xA9 mill turn");
    expect(&s, &at, "> ");
    type(&s, "/exit\r");
    assert_int_equal(end_session(&s), 0);
}

static void control_c_at_the_prompt_ends_it_and_leaves_the_terminal_as_it_was(void **state) {
    (void)state;
    static const char *const terms[] = {"xterm", "dumb"};
    for (int i = 0; i < 2; i++) {
        session s;
        size_t at = 0;
        struct termios after;
        begin_session(&s, terms[i]);
        expect(&s, &at, "> ");
        type(&s, "the m\x03");
        assert_int_equal(program_wait(s.pid), 130);
        assert_int_equal(tcgetattr(s.terminal, &after), 0);
        assert_int_equal(after.c_lflag, s.before.c_lflag);
        assert_int_equal(after.c_iflag, s.before.c_iflag);
        close(s.terminal);
    }
}

static void the_end_of_a_terminals_input_ends_it(void **state) {
    (void)state;
    static const char *const terms[] = {"xterm", "dumb"};
    for (int i = 0; i < 2; i++) {
        session s;
        size_t at = 0;
        begin_session(&s, terms[i]);
        expect(&s, &at, "> ");
        type(&s, "\x04");
        assert_int_equal(end_session(&s), 0);
    }
}

static void a_line_too_long_for_the_context_does_not_end_a_conversation(void **state) {
    (void)state;
    session s;
    size_t at = 0;
    char line[102];
    memset(line, 'x', 100);
    strcpy(line + 100, "\r");
    begin_session(&s, "dumb");
    expect(&s, &at, "> ");
    type(&s, line);
    expect(&s, &at, "100 tokens, but the context is 64");
    expect(&s, &at, "> ");
    type(&s, "the caf\r");
    expect(&s, &at, "\xC3\xA9 mill turn");
    type(&s, "\x04");
    assert_int_equal(end_session(&s), 0);
}

/* Creates a model with initial weights. */
static void make_random_model(const char *path, int64_t d_model, int64_t n_layers,
                              int64_t ctx_len) {
    const ig_model_config config = {
        .d_model = d_model, .n_layers = n_layers, .n_heads = 4, .ctx_len = ctx_len};
    ig_ctx *ctx;
    ig_adapter *adapter;
    assert_int_equal(ig_ctx_create(NULL, &ctx), IG_OK);
    assert_int_equal(ig_adapter_create(ctx, "llm", &config, &adapter), IG_OK);
    assert_int_equal(ig_adapter_export(adapter, path), IG_OK);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
}

/* 131072 tokens of 2 layers and 4 heads of 16, keys and values of 2 bytes: 64 MiB. */
static void the_context_is_the_models_own_or_what_fits_into_memory(void **state) {
    (void)state;
    char long_model[sizeof dir + 32];
    snprintf(long_model, sizeof long_model, "%s/long.oam", dir);
    make_random_model(long_model, 64, 2, 131072);
    program_result result = RUN("chat", "-m", long_model, "-n", "1");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "context 131072\n"));
    assert_null(strstr(result.err, "reduced"));
    program_free(&result);
    result = RUN("generate", "-m", long_model, "-n", "1", "-p", "the", "--memory-limit", "32M");
    assert_int_equal(result.code, 0);
    const char *said = strstr(result.err, "context length reduced from the model's 131072 to ");
    if (!said) fail_msg("%s", result.err);
    const int ctx_len = atoi(said + strlen("context length reduced from the model's 131072 to "));
    if (ctx_len < 16384 || ctx_len > 65536 || ctx_len % 64 != 0) fail_msg("%s", said);
    program_free(&result);
    result = RUN("generate", "-m", long_model, "-n", "1", "-p", "the", "--memory-limit", "32M",
                 "-c", "2048");
    assert_int_equal(result.code, 0);
    assert_null(strstr(result.err, "reduced"));
    program_free(&result);
}

/* ---- Commands of a chat ---- */

static void lines_with_a_slash_are_commands(void **state) {
    (void)state;
    char path[sizeof dir + 32], lines[512], *saved;
    snprintf(path, sizeof path, "%s/chat.json", dir);
    snprintf(lines, sizeof lines,
             "/help\n/stats\n/regen\n/save %s\nthe caf\n/stats\n/regen\n/save %s\n/frob\n"
             "/clear now\n//etc\n/clear\n/bye\nthe mill\n",
             path, path);
    program_result result = chat_with(lines, "-q");
    assert_int_equal(result.code, 0);
    /* An answer, the same again, and an answer to "/etc": commands are not sent to the model. */
    assert_int_equal(count_lines(result.out), 3);
    const char *again = strchr(result.out, '\n') + 1;
    assert_memory_equal(result.out, again, (size_t)(again - result.out));
    static const char *const words[] = {
        "/save FILE ",
        "context: ",
        "line 3: /regen: there is no answer yet",
        "line 4: /save: there is nothing to save yet",
        "2 messages in ",
        "line 9: /frob: no such command; /help lists them",
        "line 10: /clear: takes no argument",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strstr(result.err, words[i])) fail_msg("no '%s' in %s", words[i], result.err);
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    if (!list) fail_msg("%s", error.text);
    assert_int_equal(json_array_size(list), 2);
    json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
    assert_string_equal(json_string_value(json_object_get(first, "role")), "user");
    assert_string_equal(json_string_value(json_object_get(first, "content")), "the caf");
    assert_string_equal(json_string_value(json_object_get(second, "role")), "assistant");
    assert_int_equal(
        asprintf(&saved, "%s\n", json_string_value(json_object_get(second, "content"))) > 0, 1);
    assert_memory_equal(result.out, saved, strlen(saved));
    free(saved);
    json_decref(list);
    program_free(&result);
}

static void control_c_stops_an_answer_and_the_next_one_ends_the_chat(void **state) {
    (void)state;
    char slow[sizeof dir + 32];
    snprintf(slow, sizeof slow, "%s/slow.oam", dir);
    make_random_model(slow, 512, 6, 4096); /* its answers take seconds */
    static const char *const terms[] = {"xterm", "dumb"};
    for (int i = 0; i < 2; i++) {
        session s;
        size_t at = 0;
        begin_session_with(&s, terms[i], slow, "100000");
        expect(&s, &at, "> ");
        type(&s, "the mill\r");
        expect(&s, &at, "\n");
        while (s.used < at + 16) expect_more(&s); /* the answer has started */
        type(&s, "\x03");
        expect(&s, &at, "[stopped; Ctrl-C again quits]");
        expect(&s, &at, "> ");
        type(&s, "/stats\r"); /* the chat continues */
        expect(&s, &at, "answers: 1");
        expect(&s, &at, "> ");
        struct timespec later = {.tv_nsec = 400000000}; /* within 300 ms it is the same Ctrl-C */
        nanosleep(&later, NULL);
        type(&s, "\x03");
        assert_int_equal(end_session(&s), 130);
    }
}

/* ---- archs ---- */

static void archs_lists_what_can_be_trained(void **state) {
    (void)state;
    char *text = output_of(RUN("archs"));
    assert_non_null(strstr(text, "llm "));
    assert_non_null(strstr(text, "gpt "));
    assert_non_null(strstr(text, "tinyllm "));
    free(text);
    json_t *root = json_of(RUN("archs", "--json"), "ingot.archs.v1");
    const json_t *first = json_array_get(json_object_get(root, "archs"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "llm");
    json_decref(root);
}

int main(void) {
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL); /* as in a shell, even where tests run in the background */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_what_it_learned),
        cmocka_unit_test(a_failing_allocation_ends_with_4_and_says_so),
        cmocka_unit_test(the_model_that_comes_along_tells_a_story),
        cmocka_unit_test(exported_weights_generate_the_same_text_from_a_third_of_the_bytes),
        cmocka_unit_test(greedy_text_is_the_same_for_any_number_of_threads),
        cmocka_unit_test(the_seed_decides_what_is_drawn),
        cmocka_unit_test(the_prompt_comes_from_an_argument_a_file_or_a_pipe),
        cmocka_unit_test(the_report_has_tokens_text_times_and_memory),
        cmocka_unit_test(rates_are_of_tokens_that_went_through_the_model),
        cmocka_unit_test(verbose_text_ends_with_rates_and_acceptance),
        cmocka_unit_test(a_stop_string_ends_the_text_before_it),
        cmocka_unit_test(text_comes_in_whole_characters),
        cmocka_unit_test(without_a_limit_the_context_is_filled),
        cmocka_unit_test(what_was_made_before_a_signal_is_printed),
        cmocka_unit_test(what_cannot_be_generated_is_one_sentence),
        cmocka_unit_test(chat_continues_each_line_until_the_end_or_exit),
        cmocka_unit_test(chat_says_which_context_it_has),
        cmocka_unit_test(chat_answers_in_json_lines),
        cmocka_unit_test(a_chat_reports_drafts_of_each_answer_and_in_total),
        cmocka_unit_test(a_chat_tells_the_seed_that_it_drew),
        cmocka_unit_test(a_line_that_cannot_be_answered_does_not_end_a_chat),
        cmocka_unit_test(a_chat_without_an_answer_fails),
        cmocka_unit_test(on_a_terminal_lines_can_be_edited_and_called_back),
        cmocka_unit_test(control_c_at_the_prompt_ends_it_and_leaves_the_terminal_as_it_was),
        cmocka_unit_test(the_end_of_a_terminals_input_ends_it),
        cmocka_unit_test(a_line_too_long_for_the_context_does_not_end_a_conversation),
        cmocka_unit_test(the_context_is_the_models_own_or_what_fits_into_memory),
        cmocka_unit_test(lines_with_a_slash_are_commands),
        cmocka_unit_test(control_c_stops_an_answer_and_the_next_one_ends_the_chat),
        cmocka_unit_test(archs_lists_what_can_be_trained),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
