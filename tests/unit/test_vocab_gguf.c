/* The tokenizer keys of GGUF files: what they mean, their defaults, and what is refused. */
#include "check.h"

#include <stdlib.h>

#include "model/gguf/gguf_vocab.h"
#include "model/synthetic/synthetic_vocab.h"

/* ---- Files in memory ---- */

typedef struct file {
    ig_gguf_writer *writer;
    void *bytes;
    ig_gguf *gguf;
} file;

static file start(void) {
    file f = {0};
    must(ig_gguf_writer_create(&ig_heap, "a.gguf", &f.writer));
    return f;
}

/* Makes the tokenizer of what was written. */
static ig_status finish(file *f, const char *pre, ig_tokenizer **out) {
    uint64_t size = 0;
    must(ig_gguf_writer_finish(f->writer));
    const void *head = ig_gguf_writer_head(f->writer, &size);
    f->bytes = malloc(size);
    memcpy(f->bytes, head, size);
    must(ig_gguf_parse(&ig_heap, "a.gguf", f->bytes, size, &f->gguf));
    return ig_vocab_from_gguf(&ig_heap, "a.gguf", f->gguf, pre, out);
}

static void end(file *f, ig_tokenizer *t) {
    ig_tokenizer_destroy(t);
    ig_gguf_close(f->gguf);
    free(f->bytes);
    ig_gguf_writer_destroy(f->writer);
}

static void comes_back(const ig_tokenizer *t, const char *text, unsigned flags, const char *want) {
    ig_tokens ids = {.allocator = &ig_heap};
    must(ig_tokenize(t, text, strlen(text), flags, &ids));
    char back[256];
    const size_t n =
        ig_detokenize(t, ids.at, ids.count, IG_DETOKENIZE_SPECIAL, back, sizeof back - 1);
    back[n] = 0;
    assert_string_equal(back, want);
    ig_tokens_deinit(&ids);
}

/* ---- What is read ---- */

static void each_kind_is_made_as_its_file_says(void **state) {
    (void)state;
    const unsigned add = IG_TOKENIZE_ADD_SPECIAL;
    ig_tokenizer *t = NULL;
    file f = start();
    vocab_spm(f.writer);
    must(finish(&f, NULL, &t));
    assert_string_equal(ig_tokenizer_name(t), "llama");
    assert_int_equal(ig_tokenizer_vocab_size(t), MODEL_TOKENS);
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOS), 2);
    comes_back(t, "the world \u00e4", add, "<s> the world \u00e4");
    end(&f, t);

    f = start();
    vocab_bpe(f.writer, "gpt-2");
    must(finish(&f, NULL, &t));
    assert_string_equal(ig_tokenizer_name(t), "gpt2");
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOS), MODEL_TOKENS - 2);
    comes_back(t, "the world \xff", add, "the world \xff");
    end(&f, t);

    f = start();
    vocab_wordpiece(f.writer);
    must(finish(&f, NULL, &t));
    assert_string_equal(ig_tokenizer_name(t), "bert");
    comes_back(t, "", add, "[CLS][SEP]");
    end(&f, t);
}

static void keys_change_what_is_added(void **state) {
    (void)state;
    ig_tokenizer *t = NULL;
    file f = start();
    vocab_spm(f.writer);
    ig_gguf_writer_bool(f.writer, "tokenizer.ggml.add_bos_token", false);
    ig_gguf_writer_bool(f.writer, "tokenizer.ggml.add_eos_token", true);
    ig_gguf_writer_bool(f.writer, "tokenizer.ggml.add_space_prefix", false);
    ig_gguf_writer_bool(f.writer, "tokenizer.ggml.remove_extra_whitespaces", true);
    ig_gguf_writer_u32(f.writer, "tokenizer.ggml.padding_token_id", UINT32_MAX); /* none */
    must(finish(&f, NULL, &t));
    comes_back(t, "  the  world ", IG_TOKENIZE_ADD_SPECIAL, "the world</s>");
    comes_back(t, "  the  world ", IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_NO_EOS, "the world");
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_PADDING), -1);
    end(&f, t);
}

static void llama3s_patterns_add_bos_unless_the_file_says_otherwise(void **state) {
    (void)state;
    const struct {
        const char *pre;
        const char *want;
    } rows[] = {{"llama-bpe", "<|endoftext|>he"}, {"qwen2", "he"}};
    for (size_t i = 0; i < 2; i++) {
        ig_tokenizer *t = NULL;
        file f = start();
        ig_string_view tokens[3] = {{"h", 1}, {"e", 1}, {"<|endoftext|>", 13}};
        const int32_t kinds[3] = {1, 1, 3};
        ig_gguf_writer_text(f.writer, "tokenizer.ggml.model", "gpt2");
        ig_gguf_writer_text(f.writer, "tokenizer.ggml.pre", rows[i].pre);
        ig_gguf_writer_texts(f.writer, "tokenizer.ggml.tokens", tokens, 3);
        ig_gguf_writer_array(f.writer, "tokenizer.ggml.token_type", IG_GGUF_I32, kinds, 3);
        ig_gguf_writer_u32(f.writer, "tokenizer.ggml.bos_token_id", 2);
        must(finish(&f, NULL, &t));
        comes_back(t, "he", IG_TOKENIZE_ADD_SPECIAL, rows[i].want);
        end(&f, t);
    }
}

static void a_pre_that_is_given_wins_over_the_files(void **state) {
    (void)state;
    ig_tokenizer *t = NULL;
    file f = start();
    vocab_bpe(f.writer, "mine");
    refused(finish(&f, NULL, &t), IG_ERR_FORMAT, "a.gguf: the pre-tokenizer 'mine' is not known");
    must(ig_vocab_from_gguf(&ig_heap, "a.gguf", f.gguf, "qwen2", &t));
    ig_tokenizer_destroy(t);
    refused(ig_vocab_from_gguf(&ig_heap, "a.gguf", f.gguf, "yours", &t), IG_ERR_ARGUMENT,
            "the pre-tokenizer 'yours' is not known");
    end(&f, NULL);
}

/* ---- What is refused ---- */

typedef void change(ig_gguf_writer *w);

static void few_scores(ig_gguf_writer *w) {
    ig_gguf_writer_array(w, "tokenizer.ggml.scores", IG_GGUF_F32, (const float[]){1, 2}, 2);
}
static void few_types(ig_gguf_writer *w) {
    ig_gguf_writer_array(w, "tokenizer.ggml.token_type", IG_GGUF_I32, (const int32_t[]){1}, 1);
}
static void one_score(ig_gguf_writer *w) { ig_gguf_writer_f32(w, "tokenizer.ggml.scores", 1); }
static void tokens_of_numbers(ig_gguf_writer *w) {
    ig_gguf_writer_array(w, "tokenizer.ggml.tokens", IG_GGUF_I32, (const int32_t[]){1}, 1);
}
static void no_tokens(ig_gguf_writer *w) {
    ig_gguf_writer_texts(w, "tokenizer.ggml.tokens", NULL, 0);
}
static void far_bos(ig_gguf_writer *w) {
    ig_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", MODEL_TOKENS);
}
static void text_for_eos(ig_gguf_writer *w) {
    ig_gguf_writer_text(w, "tokenizer.ggml.eos_token_id", "2");
}
static void number_for_flag(ig_gguf_writer *w) {
    ig_gguf_writer_f32(w, "tokenizer.ggml.add_bos_token", 0.5f);
}
static void other_model(ig_gguf_writer *w) { ig_gguf_writer_text(w, "tokenizer.ggml.model", "t5"); }
static void number_for_model(ig_gguf_writer *w) {
    ig_gguf_writer_u32(w, "tokenizer.ggml.model", 1);
}

static void what_does_not_fit_is_refused_by_its_name(void **state) {
    (void)state;
    const struct {
        change *make;
        const char *words;
    } rows[] = {
        {few_scores, "tokenizer.ggml.scores has 2 numbers for 320 tokens"},
        {few_types, "tokenizer.ggml.token_type has 1 numbers for 320 tokens"},
        {one_score, "tokenizer.ggml.scores is not an array of numbers"},
        {tokens_of_numbers, "tokenizer.ggml.tokens is not an array of texts"},
        {no_tokens, "tokenizer.ggml.scores has 320 numbers for 0 tokens"},
        {far_bos, "tokenizer.ggml.bos_token_id is 320, but there are 320 tokens"},
        {text_for_eos, "tokenizer.ggml.eos_token_id is not an integer"},
        {number_for_flag, "tokenizer.ggml.add_bos_token is not true or false"},
        {other_model, "the tokenizer is of model 't5'"},
        {number_for_model, "tokenizer.ggml.model is not a text"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ig_tokenizer *t = NULL;
        file f = start();
        vocab_spm(f.writer);
        rows[i].make(f.writer);
        refused(finish(&f, NULL, &t), IG_ERR_FORMAT, rows[i].words);
        assert_null(t);
        end(&f, t);
    }
    ig_tokenizer *t = NULL;
    file f = start();
    refused(finish(&f, NULL, &t), IG_ERR_FORMAT, "a.gguf: has no tokenizer");
    end(&f, t);
    f = start();
    ig_gguf_writer_text(f.writer, "tokenizer.ggml.model", "gpt2");
    few_types(f.writer);
    refused(finish(&f, NULL, &t), IG_ERR_FORMAT,
            "a.gguf: has no tokenizer (tokenizer.ggml.tokens is missing)");
    end(&f, t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_made_as_its_file_says),
        cmocka_unit_test(keys_change_what_is_added),
        cmocka_unit_test(llama3s_patterns_add_bos_unless_the_file_says_otherwise),
        cmocka_unit_test(a_pre_that_is_given_wins_over_the_files),
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
