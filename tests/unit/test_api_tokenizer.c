/* ingot/tokenizer.h as a program uses it: public headers, and models from the synthetic ones. */
#include "check.h"

#include <stdio.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"

static void write_text(void **state, const char *name, const char *text) {
    char path[PATH_BYTES];
    FILE *f = fopen(directory_path(state, name, path), "wb");
    fputs(text, f);
    fclose(f);
}

/* Tokens of a text, and these back as text: equal to `want`. */
static size_t comes_back(const ig_tokenizer *t, const char *text, unsigned flags,
                         const char *want) {
    ig_tokens tokens = {0};
    char back[256];
    must(ig_tokenize(t, text, strlen(text), flags, &tokens));
    const size_t n =
        ig_detokenize(t, tokens.at, tokens.count, IG_DETOKENIZE_START, back, sizeof back - 1);
    assert_true(n < sizeof back);
    back[n] = 0;
    assert_string_equal(back, want);
    assert_int_equal(ig_detokenize(t, tokens.at, tokens.count, IG_DETOKENIZE_START, NULL, 0), n);
    ig_tokens_deinit(&tokens);
    assert_null(tokens.at);
    return n;
}

static void a_gguf_file_gives_its_tokenizer(void **state) {
    char path[PATH_BYTES];
    ig_tokenizer *t = NULL;
    must(model_save("llama", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_tokenizer_open(path, NULL, &t));
    assert_string_equal(ig_tokenizer_name(t), "llama");
    assert_int_equal(ig_tokenizer_vocab_size(t), 320);
    comes_back(t, "the cat", 0, "the cat");

    const int32_t bos = ig_tokenizer_special(t, IG_SPECIAL_BOS);
    const int32_t eos = ig_tokenizer_special(t, IG_SPECIAL_EOS);
    assert_true(bos >= 0 && ig_tokenizer_is_control(t, bos) && !ig_tokenizer_is_eog(t, bos));
    assert_true(eos >= 0 && ig_tokenizer_is_eog(t, eos));
    assert_true(ig_tokenizer_special(t, IG_SPECIAL_MASK) < 0);

    ig_tokens tokens = {0};
    must(ig_tokenize(t, "a", 1, IG_TOKENIZE_PROMPT, &tokens));
    must(ig_tokens_add(&tokens, eos));
    assert_int_equal(tokens.at[0], bos);
    assert_int_equal(tokens.at[tokens.count - 1], eos);
    ig_tokens_deinit(&tokens);
    ig_tokenizer_destroy(t);
}

static void ids_outside_the_vocabulary_are_replacement_characters(void **state) {
    char path[PATH_BYTES];
    ig_tokenizer *t = NULL;
    must(model_save("qwen2", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_tokenizer_open(path, NULL, &t));
    const int32_t wild[] = {-1, INT32_MAX};
    char out[8];
    assert_int_equal(ig_detokenize(t, wild, 2, 0, out, sizeof out), 6);
    assert_memory_equal(out, "\xef\xbf\xbd\xef\xbf\xbd", 6);
    assert_int_equal(ig_tokenizer_piece(t, INT32_MIN).n_bytes, 3);
    assert_false(ig_tokenizer_is_control(t, INT32_MAX) || ig_tokenizer_is_eog(t, -1));
    ig_tokenizer_destroy(t);
}

/* Bytes of a character arrive one by one; text leaves in complete characters. */
static void a_stream_of_tokens_becomes_complete_characters(void **state) {
    char path[PATH_BYTES], text[16] = "";
    ig_tokenizer *t = NULL;
    ig_detokenizer *d = NULL;
    ig_tokens tokens = {0};
    must(model_save("qwen2", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_tokenizer_open(path, NULL, &t));
    must(ig_tokenize(t, "\xe2\x82\xac\xe2\x82", 5, 0, &tokens));
    must(ig_detokenizer_create(t, 0, &d));
    size_t used = 0;
    for (size_t i = 0; i <= tokens.count; i++) {
        const ig_string_view part =
            i < tokens.count ? ig_detokenizer_next(d, tokens.at[i]) : ig_detokenizer_end(d);
        memcpy(text + used, part.bytes, part.n_bytes);
        used += part.n_bytes;
    }
    assert_string_equal(text, "\xe2\x82\xac\xef\xbf\xbd");
    ig_detokenizer_destroy(d);
    ig_detokenizer_destroy(NULL);
    ig_tokens_deinit(&tokens);
    ig_tokenizer_destroy(t);
    ig_tokenizer_destroy(NULL);
}

static const char bpe[] =
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<end>\": 3},"
    " \"merges\": [\"a b\"]},"
    " \"added_tokens\": [{\"id\": 3, \"content\": \"<end>\", \"special\": true}],"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false,"
    "  \"use_regex\": true}}";

/* No config.json and no weights: tokenizer.json is enough. */
static void a_folder_gives_its_tokenizer(void **state) {
    char path[PATH_BYTES];
    ig_tokenizer *t = NULL;
    write_text(state, "tokenizer.json", bpe);
    write_text(state, "tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
    const char *const names[] = {"", "tokenizer.json"};
    for (int i = 0; i < 2; i++) {
        must(ig_tokenizer_open(directory_path(state, names[i], path), NULL, &t));
        assert_string_equal(ig_tokenizer_name(t), "gpt2");
        assert_int_equal(ig_tokenizer_vocab_size(t), 4);
        assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOS), 3);
        ig_tokens tokens = {0};
        must(ig_tokenize(t, "ab<end>", 7, IG_TOKENIZE_PARSE_SPECIAL, &tokens));
        assert_int_equal(tokens.count, 2);
        assert_int_equal(tokens.at[0], 2);
        assert_int_equal(tokens.at[1], 3);
        ig_tokens_deinit(&tokens);
        ig_tokenizer_destroy(t);
    }
}

static void a_checkpoint_gives_its_tokenizer(void **state) {
    char path[PATH_BYTES];
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_tokenizer *t = NULL;
    const ig_model_config config = {
        .d_model = 8, .n_layers = 1, .n_heads = 1, .ctx_len = 8, .tokenizer = "byte"};
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_create(ctx, "llm", &config, &adapter));
    must(ig_adapter_export(adapter, directory_path(state, "a.oam", path)));
    assert_string_equal(ig_tokenizer_name(ig_adapter_tokenizer(adapter)), "byte");
    must(ig_tokenizer_open(path, NULL, &t));
    assert_string_equal(ig_tokenizer_name(t), "byte");
    assert_int_equal(comes_back(t, "\x01\xff", 0, "\x01\xff"), 2);
    const ig_tokenizer_options options = {.pre_tokenizer = "gpt-2"};
    ig_tokenizer *none = NULL;
    refused(ig_tokenizer_open(path, &options, &none), IG_ERR_ARGUMENT, "is not a GGUF file");
    ig_tokenizer_destroy(t);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
}

static void what_cannot_be_opened_is_an_error_that_names_it(void **state) {
    char path[PATH_BYTES];
    ig_tokenizer *t = NULL;
    refused(ig_tokenizer_open(NULL, NULL, &t), IG_ERR_ARGUMENT, "NULL");
    refused(ig_tokenizer_open(directory_path(state, "none.gguf", path), NULL, &t), IG_ERR_IO,
            "none.gguf");
    refused(ig_tokenizer_open(*state, NULL, &t), IG_ERR_IO, "tokenizer.json");
    write_text(state, "tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
    refused(ig_tokenizer_open(*state, NULL, &t), IG_ERR_FORMAT, "Unigram");
    write_text(state, "tokenizer.json",
               "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}}}");
    refused(ig_tokenizer_open(*state, NULL, &t), IG_ERR_FORMAT, "ids above");
    write_text(state, "tokenizer.json", bpe);
    const ig_tokenizer_options options = {.pre_tokenizer = "mine"};
    refused(ig_tokenizer_open(*state, &options, &t), IG_ERR_ARGUMENT, "'mine' is not known");
    write_text(state, "cut.gguf", "GGUF");
    refused(ig_tokenizer_open(directory_path(state, "cut.gguf", path), NULL, &t), IG_ERR_FORMAT,
            "cut.gguf");
    assert_null(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(a_gguf_file_gives_its_tokenizer),
        IN_DIRECTORY(ids_outside_the_vocabulary_are_replacement_characters),
        IN_DIRECTORY(a_stream_of_tokens_becomes_complete_characters),
        IN_DIRECTORY(a_folder_gives_its_tokenizer),
        IN_DIRECTORY(a_checkpoint_gives_its_tokenizer),
        IN_DIRECTORY(what_cannot_be_opened_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
