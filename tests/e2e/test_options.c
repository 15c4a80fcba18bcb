/* Options: names known from other programs, and invalid values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checks.h"
#include "ingot/chat.h"
#include "model/synthetic/synthetic_models.h"
#include "results.h"

enum { ARGS_MAX = 16, PATH_BYTES = 64 };

static char dir[32], model[PATH_BYTES];

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ingot-options-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/llama.gguf", dir);
    return model_save("llama", IG_Q4_K, model) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    unlink(model);
    return rmdir(dir);
}

/* Generates two tokens, with additional arguments: "-ngl 99". */
static program_result generate_in(const char *variable, const char *words) {
    const char *args[ARGS_MAX] = {"generate", "-m", model, "-p", "Hello", "-n", "2", "--temp", "0"};
    char copy[128];
    int count = 9;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word && count + 1 < ARGS_MAX; word = strtok(NULL, " "))
        args[count++] = word;
    const char *const env[] = {variable, NULL};
    return program_run(INGOT_PROGRAM, args, &(program_options){.env = env});
}

static program_result generate_with(const char *words) { return generate_in(NULL, words); }

/* ---- words of llama.cpp ---- */

static void what_is_so_anyway_is_accepted(void **state) {
    (void)state;
    static const char *const lines[] = {
        "-fa",
        "-fa on",
        "-fa off -cb",
        "--flash-attn=auto",
        "--mmap -fa",
        "-no-cnv",
        "-ngl 0",
        "-ub 64",
        "-b 64",
        "-ctk f16 -ctv f16",
        "-dev cpu",
        "-tb 1",
        "-t 1",
        "--offline",
        "--n-gpu-layers 0 -fa",
        "--no-mmap -q",
        "--threads-batch=1",
    };
    program_result plain = generate_with("");
    assert_int_equal(plain.code, 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        program_result r = generate_with(lines[i]);
        if (r.code != 0 || strcmp(r.out, plain.out) != 0)
            fail_msg("%s: exit %d, '%s', '%s'", lines[i], r.code, r.out, r.err);
        program_free(&r);
    }
    program_free(&plain);
    json_decref(
        json_of(RUN("embed", "-m", model, "-p", "a", "--embedding", "--json"), "ingot.embed.v1"));
    json_decref(
        json_of(RUN("embed", "-m", model, "-p", "a", "-embeddings", "--json"), "ingot.embed.v1"));
}

static void what_cannot_be_is_refused_by_its_own_name(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"-hf a/b", "-hf: Ingot does not download models; give a file with -m"},
        {"-md x", "-md: draft models are not supported"},
        {"-sm none", "-sm: a model runs on one device"},
        {"-ts 1,2", "-ts: a model runs on one device"},
        {"-np 2", "-np: one sequence is generated at a time"},
        {"-cnv", "-cnv: use 'ingot chat' for a conversation"},
        {"--list-devices", "--list-devices: use 'ingot devices'"},
        {"--lora=x", "--lora: LoRA adapters are not supported"},
        {"-fa=maybe", "-fa 'maybe': must be one of on, off, auto"},
        {"--mmap=1", "--mmap: takes no value"},
        {"-ngl many", "--n-gpu-layers 'many': expected an integer, 'auto' or 'all'"},
        {"-ngl 0 --device vulkan", "--n-gpu-layers 0, --device vulkan: contradict each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_error(generate_with(cases[i][0]), 2, cases[i][1]);
    check_error(generate_with("--embedding"), 2, "--embedding: use 'ingot embed'");
    check_error(RUN("-hf", "a/b"), 2, "-hf: Ingot does not download");
    check_error(RUN("chat", "-m", model, "-no-cnv"), 2, "-no-cnv: 'ingot generate' continues");
}

static void what_would_have_no_effect_together_is_refused_by_both_names(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"--cache-weights --no-cache", "--cache-weights, --no-cache: contradict"},
        {"--no-pack --cache-weights", "--cache-weights, --no-pack: only packed weights"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_error(generate_with(cases[i][0]), 2, cases[i][1]);
}

static void layers_on_a_gpu_are_said_to_be_the_device(void **state) {
    (void)state;
    static const char *const lines[] = {"-ngl 99", "-ngl all", "--gpu-layers auto"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s -dev cpu", lines[i]);
        program_result r = generate_with(words);
        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.err, "a model runs on one device, here --device cpu"));
        program_free(&r);
    }
    program_result r = RUN("bench", "-m", model, "-p", "4", "-n", "2", "-r", "1", "-ngl", "0",
                           "-fa", "1", "-b", "2048", "-ub", "64", "-ctk", "f16", "-ctv", "f16");
    if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
    program_free(&r);
}

static void no_layers_on_a_gpu_is_stronger_than_a_variable(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"INGOT_DEVICE=vulkan", "cpu:0"},
        {"RM_DEVICE=vulkan", "cpu:0"},
        {"INGOT_DEVICE=ref", "ref:0"}, /* says the CPU, too */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *root = json_of(generate_in(cases[i][0], "-ngl 0 --json"), "ingot.generate.v1");
        const json_t *config = json_object_get(root, "config_resolved");
        assert_string_equal(json_string_value(json_object_get(config, "device")), cases[i][1]);
        json_decref(root);
    }
    check_error(generate_in("INGOT_DEVICE=vulkan", "-ngl 0 --device vulkan"), 2,
                "contradict each other");
    check_error(RUN("parity", "-m", model, "-ngl", "0", "--devices", "ref,vulkan"), 2,
                "--n-gpu-layers 0, --device vulkan: contradict each other");
}

static int64_t threads_of(const char *words, const char *says) {
    program_result r = generate_with(words);
    if (says && !strstr(r.err, says)) fail_msg("%s: '%s'", words, r.err);
    if (!says) assert_null(strstr(r.err, "--threads"));
    json_t *root = json_of(r, "ingot.generate.v1");
    const json_t *config = json_object_get(root, "config_resolved");
    const int64_t threads = json_integer_value(json_object_get(config, "threads"));
    json_decref(root);
    return threads;
}

static void prompts_have_no_threads_of_their_own(void **state) {
    (void)state;
    assert_int_equal(threads_of("--json -t 3 -tb 2", "--threads is 3"), 3);
    assert_int_equal(threads_of("--json -tb 2 -t 3", "--threads-batch 2: prefill"), 3);
    assert_int_equal(threads_of("--json -tb 3", NULL), 3);
    assert_int_equal(threads_of("--json -t 3 -tb 3", NULL), 3);
    assert_int_equal(threads_of("--json -t 3", NULL), 3);
    check_error(RUN("bench", "overhead", "-tb", "1"), 2, "--threads-batch: does not apply to");
}

/* ---- values ---- */

static int64_t seed_of(program_result result, int64_t *out_tokens) {
    json_t *root = json_of(result, "ingot.generate.v1");
    const int64_t seed = json_integer_value(json_object_get(root, "seed"));
    *out_tokens = json_integer_value(json_object_get(root, "n_tokens"));
    json_decref(root);
    return seed;
}

static void minus_one_draws_a_seed_and_lifts_the_limit(void **state) {
    (void)state;
    int64_t one, two, tokens;
    one = seed_of(generate_with("-s -1 --json"), &tokens);
    two = seed_of(generate_with("-s -1 --json"), &tokens);
    assert_true(one >= 0 && two >= 0 && one != two);
    assert_int_equal(seed_of(generate_with("-s 7 --json"), &tokens), 7);
    assert_int_equal(tokens, 2);
    seed_of(generate_with("-n -1 -c 32 --ignore-eos --json"), &tokens);
    assert_true(tokens > 8); /* as many as fit */
    check_error(generate_with("-s -2"), 2, "-s -2: must be from -1");
}

static void lists_are_checked_before_anything_runs(void **state) {
    (void)state;
    check_error(generate_with("--precision int4"), 2,
                "--precision 'int4': must be one of f32, f16, fp16, bf16, int8");
    check_error(generate_with("--batch-sizes 1,x"), 2, "--batch-sizes '1,x': must be integers");
    check_error(RUN("logits", "-m", model, "--ids", "1,,2"), 2, "--ids: ',2' is not a token id");
    check_error(RUN("logits", "-m", model, "--ids", "1,2,"), 2, "ends with a comma");
    static const char *const good[] = {"1,2", "1 2", " 1 , 2 ", "1\n2\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        json_decref(
            json_of(RUN("logits", "-m", model, "--ids", good[i], "--json"), "ingot.logits.v1"));
}

static void help_offers_what_is_taken(void **state) {
    (void)state;
    program_result r =
        program_run(INGOT_PROGRAM, (const char *const[]){"train", "--help-all", NULL},
                    &(program_options){.env = (const char *const[]){"COLUMNS=100", NULL}});
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "(f32, bf16)"));
    assert_non_null(strstr(r.out, "(auto, cpu, vulkan, ref, null)"));
    program_free(&r);
    check_error(RUN("train", "-d", model, "--dtype", "f61"), 2,
                "--dtype 'f61': must be f32 or bf16");
}

static void a_default_is_shown_once_and_in_one_form(void **state) {
    (void)state;
    program_result r = RUN("help", "--man");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "(default "));
    assert_non_null(strstr(r.out, "micro\\-batch: tokens per prefill chunk (default: 128)\n"));
    char *rest = NULL;
    for (char *line = strtok_r(r.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *first = strstr(line, "(default: ");
        if (first && strstr(first + 1, "(default: ")) fail_msg("two defaults: %s", line);
    }
    program_free(&r);
}

static void chat_templates_are_those_of_the_library(void **state) {
    (void)state;
    char want[512] = "\"auto none";
    for (size_t i = 0; ig_chat_builtin_name(i); i++) {
        const size_t used = strlen(want);
        snprintf(want + used, sizeof want - used, " %s", ig_chat_builtin_name(i));
    }
    strncat(want, "\"", sizeof want - strlen(want) - 1);
    program_result r = RUN("completion", "bash");
    assert_int_equal(r.code, 0);
    if (!strstr(r.out, want)) fail_msg("the completion lacks %s", want);
    program_free(&r);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Writes a short text and a checkpoint trained on it; the caller unlinks both. */
static void train_some(const char *text, const char *oam) {
    FILE *file = fopen(text, "we");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) fprintf(file, "line %d of a text about %d fish\n", i, i);
    assert_int_equal(fclose(file), 0);
    program_result r = RUN("train", "-q", "-d", text, "-o", oam, "--steps", "20", "--d-model", "32",
                           "--layers", "1", "--heads", "2", "-c", "32");
    if (r.code != 0) fail_msg("exit %d: %s", r.code, r.err);
    program_free(&r);
}

static void inspect_tells_steps_of_training(void **state) {
    (void)state;
    char text[PATH_BYTES], oam[PATH_BYTES];
    snprintf(text, sizeof text, "%s/text.txt", dir);
    snprintf(oam, sizeof oam, "%s/text.oam", dir);
    train_some(text, oam);
    json_t *root = json_of(RUN("inspect", oam, "--json"), "ingot.inspect.v1");
    assert_int_equal(json_integer_value(json_object_get(root, "steps")), 20);
    assert_true(json_integer_value(json_object_get(root, "context_steps")) > 20);
    json_decref(root);
    program_result r = RUN("inspect", oam);
    assert_non_null(strstr(r.out, "steps       20 of training, "));
    program_free(&r);
    unlink(text);
    unlink(oam);
}

static void a_full_disk_is_called_that_while_text_comes(void **state) {
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/lines.txt", dir);
    write_file(path, "hello\n");
    const char *const lines[][10] = {
        {"generate", "-m", model, "-p", "a", "-n", "4", NULL},
        {"generate", "-m", model, "-p", "a", "-n", "4", "--no-display-prompt", NULL},
        {"chat", "-q", "-m", model, "-n", "4", NULL},
        {"chat", "-q", "-m", model, "-n", "4", "--json", NULL}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        FILE *full = fopen("/dev/full", "we"), *in = fopen(path, "re");
        if (!full || !in) skip();
        program_result r =
            program_run(INGOT_PROGRAM, lines[i],
                        &(program_options){.out_fd = fileno(full), .in_fd = fileno(in)});
        fclose(full);
        fclose(in);
        if (r.code != 6 || !strstr(r.err, "standard output: No space left on device"))
            fail_msg("%s %zu: exit %d, %s", lines[i][0], i, r.code, r.err);
        program_free(&r);
    }
    unlink(path);
}

static void what_cannot_be_written_is_known_before_the_run(void **state) {
    (void)state;
    char text[PATH_BYTES], oam[PATH_BYTES], lost[PATH_BYTES];
    snprintf(text, sizeof text, "%s/text.txt", dir);
    snprintf(oam, sizeof oam, "%s/text.oam", dir);
    snprintf(lost, sizeof lost, "%s/none/x", dir);
    train_some(text, oam);
    unlink(oam);
    static const char *const options[] = {"--plot", "--trace", "--report"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char words[PATH_BYTES + 64];
        snprintf(words, sizeof words, "%s %s: No such file or directory", options[i], lost);
        check_error(RUN("train", "-d", text, "-o", oam, "--steps", "1", "--d-model", "32",
                        "--layers", "1", "--heads", "2", "-c", "32", options[i], lost),
                    6, words);
        assert_int_equal(access(oam, F_OK), -1); /* it did not run */
    }
    check_error(generate_with("--report /dev/null/x"), 6, "--report /dev/null/x: Not a directory");
    check_error(generate_with("--report -"), 2, "--report -: must be a file");
    check_error(RUN("quantize", model, "-", "Q8_0"), 2, "OUT -: must be a file");
    check_error(RUN("quantize", model, "x.onnx", "Q8_0"), 2, "name it .gguf");
    check_error(RUN("generate", "-m", model, "-p", "a", "-n", "1", "--prompt-cache", lost), 6,
                "No such file");
    assert_int_equal(access("-", F_OK), -1);
    unlink(text);
}

/* ---- lines ---- */

static json_t *vectors_of(const char *path, const char *text) {
    write_file(path, text);
    json_t *root =
        json_of(RUN("embed", "-m", model, "--lines", "-f", path, "--json"), "ingot.embed.v1");
    json_t *data = json_incref(json_object_get(root, "data"));
    json_decref(root);
    return data;
}

static void vectors_have_the_numbers_of_their_lines(void **state) {
    (void)state;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/lines.txt", dir);
    json_t *plain = vectors_of(path, "a fish\n\nb"),
           *crlf = vectors_of(path, "a fish\r\n\r\nb\r\n");
    assert_int_equal(json_array_size(plain), 3);
    assert_true(json_equal(plain, crlf));
    for (int i = 0; i < 3; i++) {
        const json_t *row = json_array_get(plain, (size_t)i);
        assert_int_equal(json_integer_value(json_object_get(row, "index")), i);
        assert_int_equal(json_is_null(json_object_get(row, "embedding")), i == 1);
    }
    json_decref(plain);
    json_decref(crlf);

    program_result r = RUN("embed", "-m", model, "--lines", "-f", path);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\n\n"));
    assert_non_null(strstr(r.err, "1 empty line skipped, the first is line 2"));
    program_free(&r);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_so_anyway_is_accepted),
        cmocka_unit_test(what_cannot_be_is_refused_by_its_own_name),
        cmocka_unit_test(what_would_have_no_effect_together_is_refused_by_both_names),
        cmocka_unit_test(layers_on_a_gpu_are_said_to_be_the_device),
        cmocka_unit_test(no_layers_on_a_gpu_is_stronger_than_a_variable),
        cmocka_unit_test(prompts_have_no_threads_of_their_own),
        cmocka_unit_test(minus_one_draws_a_seed_and_lifts_the_limit),
        cmocka_unit_test(lists_are_checked_before_anything_runs),
        cmocka_unit_test(help_offers_what_is_taken),
        cmocka_unit_test(chat_templates_are_those_of_the_library),
        cmocka_unit_test(a_default_is_shown_once_and_in_one_form),
        cmocka_unit_test(inspect_tells_steps_of_training),
        cmocka_unit_test(a_full_disk_is_called_that_while_text_comes),
        cmocka_unit_test(what_cannot_be_written_is_known_before_the_run),
        cmocka_unit_test(vectors_have_the_numbers_of_their_lines),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
