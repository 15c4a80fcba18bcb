/* Small vocabularies, with every pre-tokenizer: the tokens that llama.cpp finds
 * (tests/golden/record). */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "../unit/check.h"
#include "ingot/tokenizer.h"

/* Compares the tokens of a text; returns how many there are. */
static size_t check_text(const ig_tokenizer *t, const char *name, const json_t *text,
                         const json_t *want) {
    ig_tokens ids = {0};
    const char *bytes = json_string_value(text);
    const size_t n_bytes = json_string_length(text), n = json_array_size(want);
    must(ig_tokenize(t, bytes, n_bytes, 0, &ids));
    for (size_t i = 0; i < n && i < ids.count; i++)
        if (ids.at[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s: '%s': token %zu is %d, llama.cpp has %lld", name, bytes, i, ids.at[i],
                     json_integer_value(json_array_get(want, i)));
    if (ids.count != n)
        fail_msg("%s: '%s': %zu tokens, llama.cpp has %zu", name, bytes, ids.count, n);

    char *back = malloc(4 * n_bytes + 1);
    const size_t n_back =
        ig_detokenize(t, ids.at, ids.count, IG_DETOKENIZE_START, back, 4 * n_bytes);
    if (strcmp(ig_tokenizer_name(t), "bert") != 0 && /* which loses case and white space */
        (n_back != n_bytes || memcmp(back, bytes, n_bytes) != 0))
        fail_msg("%s: '%s' comes back as '%.*s'", name, bytes, (int)n_back, back);
    free(back);
    ig_tokens_deinit(&ids);
    return n;
}

static size_t check_vocabulary(const json_t *texts, const json_t *vocabulary) {
    const char *file = json_string_value(json_object_get(vocabulary, "file"));
    const char *pre = json_string_value(json_object_get(vocabulary, "pre"));
    const json_t *which = json_object_get(vocabulary, "ids");
    char path[512], name[64];
    ig_tokenizer *t = NULL;
    size_t n_tokens = 0;
    snprintf(path, sizeof path, TEST_DATA_DIR "/vocab/%s.gguf", file);
    snprintf(name, sizeof name, "%s %s", file, pre);
    must(ig_tokenizer_open(path, &(ig_tokenizer_options){.pre_tokenizer = *pre ? pre : NULL}, &t));
    assert_int_equal(json_array_size(which), json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        const size_t id = (size_t)json_integer_value(json_array_get(which, i));
        const json_t *want = json_array_get(json_object_get(text, "ids"), id);
        n_tokens += check_text(t, name, json_object_get(text, "text"), want);
    }
    ig_tokenizer_destroy(t);
    return n_tokens;
}

static void texts_have_the_tokens_that_llama_cpp_finds(void **state) {
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(TEST_DATA_DIR "/vocab/tokens.json", JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("tokens.json: line %d: %s", error.line, error.text);
    const json_t *vocabularies = json_object_get(root, "vocabularies");
    size_t n_tokens = 0;
    for (size_t i = 0; i < json_array_size(vocabularies); i++)
        n_tokens +=
            check_vocabulary(json_object_get(root, "texts"), json_array_get(vocabularies, i));
    print_message("%zu tokens, %zu vocabularies\n", n_tokens, json_array_size(vocabularies));
    assert_true(json_array_size(vocabularies) > 20);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_tokens_that_llama_cpp_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
