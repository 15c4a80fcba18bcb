/*
 * A model trained from scratch, using only the program: trained, converted to GGUF, quantized, and
 * evaluated by its perplexity on unseen stories.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "program.h"

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

/* Perplexity relative to F16, minus 1. */
static const double most_q8_0 = 0.001, most_q4_k_m = 0.02;
static const double float_noise = 1e-4; /* F16 weights, another order of summation */

static void must_run(program_result result) {
    if (result.code != 0) fail_msg("exit code %d: %s", result.code, result.err);
    program_free(&result);
}

static void write_stories(const char *path, const char *bytes, const char *seed) {
    program_result told = RUN("stories", "-q", "--bytes", bytes, "--seed", seed);
    assert_int_equal(told.code, 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(told.out, 1, strlen(told.out), file), strlen(told.out));
    assert_int_equal(fclose(file), 0);
    program_free(&told);
}

static double perplexity(const char *model, const char *text) {
    program_result result = RUN("perplexity", "-q", "-m", model, "-f", text, "--json");
    json_t *root = json_loads(result.out, 0, NULL);
    if (result.code != 0 || !root) fail_msg("exit code %d: %s", result.code, result.err);
    const double value = json_real_value(json_object_get(root, "perplexity"));
    json_decref(root);
    program_free(&result);
    return value;
}

/* The relative increase of the perplexity by quantization. */
static double loss_by(void **state, const char *f16, const char *type, const char *text) {
    char out[PATH_BYTES];
    directory_path(state, type, out);
    must_run(RUN("quantize", "-q", f16, out, type));
    const double before = perplexity(f16, text), after = perplexity(out, text);
    print_message("%s: %.4f, F16 %.4f (%+.3f %%)\n", type, after, before,
                  100 * (after / before - 1));
    return fabs(after / before - 1);
}

static void try_model(void **state, const char *checkpoint) {
    char text[PATH_BYTES], f16[PATH_BYTES];
    write_stories(directory_path(state, "unseen.txt", text), "24K", "77");
    must_run(RUN("convert", "-q", checkpoint, directory_path(state, "f16.gguf", f16)));
    assert_true(fabs(perplexity(f16, text) / perplexity(checkpoint, text) - 1) <= float_noise);
    assert_true(loss_by(state, f16, "Q8_0", text) <= most_q8_0);
    assert_true(loss_by(state, f16, "Q4_K_M", text) <= most_q4_k_m);
}

/* 128 wide: rows do not fill super-blocks of 256, and Q4_K_M uses other types. */
static void the_model_that_comes_with_the_program_loses_little_by_quantizing(void **state) {
    try_model(state, TEST_DATA_DIR "/../../models/stories.oam");
}

/* 256 wide: super-blocks of K-quants. Enough steps to predict something. */
static void a_model_trained_here_loses_little_by_quantizing(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* it trains for minutes */
#endif
    char text[PATH_BYTES], checkpoint[PATH_BYTES];
    write_stories(directory_path(state, "seen.txt", text), "200K", "5");
    directory_path(state, "llm.oam", checkpoint);
    must_run(RUN("train", "-q", "-d", text, "-o", checkpoint, "--d-model", "256", "--layers", "2",
                 "--heads", "4", "--kv-heads", "2", "--d-ff", "512", "-c", "512", "--tokenizer",
                 "bpe:200", "-b", "2", "-n", "60", "--lr", "3e-3", "--eval-every", "0",
                 "--save-every", "0"));
    try_model(state, checkpoint);
}

static void a_gpt_of_ours_is_converted_too(void **state) {
    char text[PATH_BYTES], checkpoint[PATH_BYTES], f32[PATH_BYTES];
    write_stories(directory_path(state, "seen.txt", text), "8K", "5");
    directory_path(state, "gpt.oam", checkpoint);
    must_run(RUN("train", "-q", "-d", text, "-o", checkpoint, "--arch", "gpt", "--d-model", "32",
                 "--layers", "1", "--heads", "2", "-c", "32", "-n", "3", "--eval-every", "0",
                 "--save-every", "0"));
    directory_path(state, "f32.gguf", f32);
    must_run(RUN("convert", "-q", checkpoint, f32, "--type", "F32"));
    assert_true(fabs(perplexity(f32, text) / perplexity(checkpoint, text) - 1) <= float_noise);
}

static void what_has_no_place_in_gguf_is_refused_by_name(void **state) {
    char text[PATH_BYTES], checkpoint[PATH_BYTES], out[PATH_BYTES];
    static const struct {
        const char *arch, *tokenizer, *message;
    } cases[] = {{"tinyllm", "byte", "tinyllm cannot be converted; supported: llm, gpt"},
                 {"llm", "char", "its tokenizer is char; only byte and bpe can be converted"}};
    write_stories(directory_path(state, "seen.txt", text), "4K", "5");
    directory_path(state, "small.oam", checkpoint);
    directory_path(state, "out.gguf", out);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        must_run(RUN("train", "-q", "-d", text, "-o", checkpoint, "--arch", cases[i].arch,
                     "--tokenizer", cases[i].tokenizer, "--d-model", "32", "--layers", "1", "-c",
                     "16", "-n", "1", "--eval-every", "0", "--save-every", "0"));
        program_result result = RUN("convert", "-q", checkpoint, out);
        assert_int_equal(result.code, 3);
        assert_non_null(strstr(result.err, cases[i].message));
        assert_int_not_equal(access(out, F_OK), 0);
        program_free(&result);
    }
    program_result no_checkpoint = RUN("convert", "-q", text, out);
    assert_int_equal(no_checkpoint.code, 3);
    program_free(&no_checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(the_model_that_comes_with_the_program_loses_little_by_quantizing),
        IN_DIRECTORY(a_model_trained_here_loses_little_by_quantizing),
        IN_DIRECTORY(a_gpt_of_ours_is_converted_too),
        IN_DIRECTORY(what_has_no_place_in_gguf_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
