/* `ingot tokenize`. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static const char *make(void **state, const char *name, char *path) {
    directory_path(state, name, path);
    if (model_save(name, IG_Q8_0, path) != IG_OK) fail_msg("%s", ig_error_text());
    return path;
}

static void prints(program_result result, int code, const char *out, const char *err) {
    assert_int_equal(result.code, code);
    assert_string_equal(result.out, out);
    if (!strstr(result.err, err)) fail_msg("'%s' lacks '%s'", result.err, err);
    program_free(&result);
}

static void tokens_are_shown_with_what_they_stand_for(void **state) {
    char path[PATH_BYTES];
    make(state, "qwen2", path);
    prints(RUN("tokenize", "-m", path, "-p", "the \"\n\xff"), 0,
           "    257  \"the\"\n     32  \" \"\n     34  \"\\\"\"\n     10  \"\\n\"\n"
           "    255  \"\\xff\"\n",
           "");
    prints(RUN("tokenize", "-m", path, "-p", "the the", "--ids"), 0, "257 258\n", "");
    prints(RUN("tokenize", "-m", path, "-p", "", "--ids"), 0, "\n", "");
}

static void special_tokens_count_only_when_asked_for(void **state) {
    char path[PATH_BYTES];
    make(state, "llama", path);
    program_result plain = RUN("tokenize", "-m", path, "-p", "<s>", "--ids");
    assert_non_null(strstr(plain.out, " ")); /* several */
    program_free(&plain);
    prints(RUN("tokenize", "-m", path, "-p", "<s></s>", "--ids", "--special"), 0, "1 1 2\n", "");
}

static void text_comes_from_standard_input_byte_by_byte(void **state) {
    char path[PATH_BYTES], text[PATH_BYTES];
    make(state, "qwen2", path);
    directory_path(state, "text", text);
    FILE *f = fopen(text, "wb");
    assert_int_equal(fwrite("a\0\n\xc3", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
    const int in = open(text, O_RDONLY);
    const char *const args[] = {"tokenize", "-m", path, "--json", NULL};
    program_result result = program_run(INGOT_PROGRAM, args, &(program_options){.in_fd = in});
    close(in);
    json_t *root = json_loads(result.out, JSON_ALLOW_NUL, NULL);
    if (result.code != 0 || !root) fail_msg("exit code %d: %s", result.code, result.err);
    const json_t *tokens = json_object_get(root, "tokens"),
                 *pieces = json_object_get(root, "pieces");
    const int want[] = {'a', 0, '\n', 0xC3};
    assert_int_equal(json_array_size(tokens), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(json_integer_value(json_array_get(tokens, i)), want[i]);
    assert_string_equal(json_string_value(json_array_get(pieces, 0)), "a");
    assert_int_equal(json_integer_value(json_array_get(json_array_get(pieces, 3), 0)), 0xC3);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "ingot.tokenize.v1");
    json_decref(root);
    program_free(&result);
}

/* As of every prompt: the error has the reason. */
static void standard_input_that_cannot_be_read_is_an_error(void **state) {
    char path[PATH_BYTES];
    make(state, "qwen2", path);
    const int in = open("/", O_RDONLY);
    const char *const args[] = {"tokenize", "-m", path, NULL};
    prints(program_run(INGOT_PROGRAM, args, &(program_options){.in_fd = in}), 6, "",
           "standard input: Is a directory");
    close(in);
}

static void what_is_wrong_is_said_in_a_sentence(void **state) {
    char path[PATH_BYTES], text[PATH_BYTES];
    make(state, "qwen2", path);
    prints(RUN("tokenize", "-p", "a"), 2, "", "--model");
    prints(RUN("tokenize", "-m", path, "-p", "a", "--pre", "mine"), 2, "",
           "the pre-tokenizer 'mine' is not known; --pre chooses one of gpt-2");
    directory_path(state, "nothing.gguf", text);
    prints(RUN("tokenize", "-m", text, "-p", "a"), 6, "", "nothing.gguf");
    directory_path(state, "text", text);
    FILE *f = fopen(text, "wb");
    fputs("GGUF", f);
    fclose(f);
    prints(RUN("tokenize", "-m", text, "-p", "a"), 3, "", "text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(tokens_are_shown_with_what_they_stand_for),
        IN_DIRECTORY(special_tokens_count_only_when_asked_for),
        IN_DIRECTORY(text_comes_from_standard_input_byte_by_byte),
        IN_DIRECTORY(standard_input_that_cannot_be_read_is_an_error),
        IN_DIRECTORY(what_is_wrong_is_said_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
