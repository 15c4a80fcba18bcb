/* GGUF files that llama.cpp wrote (../shared/data; skipped where it is missing) can be read. */
#include <stdio.h>
#include <unistd.h>

#include "../unit/check.h"
#include "format/gguf/gguf.h"
#include "shared.h"

/* Skips where the data are not there. */
static ig_gguf *open_shared(const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", shared_data(), file);
    if (access(path, R_OK) != 0) skip();
    ig_gguf *gguf = NULL;
    must(ig_gguf_open(path, NULL, &gguf));
    return gguf;
}

static void models_of_every_type_are_read(void **state) {
    (void)state;
    static const struct {
        const char *file, *arch;
        ig_dtype ffn_up;
    } rows[] = {
        {"golden/llama.f32.gguf", "llama", IG_F32},
        {"golden/llama.F16.gguf", "llama", IG_F16},
        {"golden/llama.BF16.gguf", "llama", IG_BF16},
        {"golden/llama.Q4_0.gguf", "llama", IG_Q4_0},
        {"golden/llama.Q4_1.gguf", "llama", IG_Q4_1},
        {"golden/llama.Q5_0.gguf", "llama", IG_Q5_0},
        {"golden/llama.Q5_1.gguf", "llama", IG_Q5_1},
        {"golden/llama.Q8_0.gguf", "llama", IG_Q8_0},
        {"golden/llama.Q2_K.gguf", "llama", IG_Q2_K},
        {"golden/llama.Q3_K.gguf", "llama", IG_Q3_K},
        {"golden/llama.Q4_K.gguf", "llama", IG_Q4_K},
        {"golden/llama.Q5_K.gguf", "llama", IG_Q5_K},
        {"golden/llama.Q6_K.gguf", "llama", IG_Q6_K},
        {"golden/llama.IQ4_NL.gguf", "llama", IG_IQ4_NL},
        {"golden/llama.IQ4_XS.gguf", "llama", IG_IQ4_XS},
        {"golden/gpt2.F16.gguf", "gpt2", IG_F16},
        {"golden/qwen2.F16.gguf", "qwen2", IG_F16},
        {"golden/qwen3.Q4_K_M.gguf", "qwen3", IG_Q4_K},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ig_gguf *gguf = open_shared(rows[i].file);
        ig_string_view arch;
        assert_true(ig_gguf_string(gguf, "general.architecture", &arch));
        assert_int_equal(arch.n_bytes, strlen(rows[i].arch));
        assert_memory_equal(arch.bytes, rows[i].arch, arch.n_bytes);
        const ig_gguf_tensor *t = ig_gguf_find_tensor(gguf, "blk.0.ffn_up.weight");
        assert_non_null(t);
        assert_int_equal(t->desc.dtype, rows[i].ffn_up);
        assert_int_equal(t->desc.shape.rank, 2);
        ig_gguf_close(gguf);
    }
}

static void vocabularies_without_tensors_are_read(void **state) {
    (void)state;
    static const struct {
        const char *file;
        uint64_t n_tokens;
    } rows[] = {
        {"vocab/ggml-vocab-llama-spm.gguf", 32000},
        {"vocab/ggml-vocab-gpt-2.gguf", 50257},
        {"vocab/ggml-vocab-deepseek-coder.gguf", 32256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ig_gguf *gguf = open_shared(rows[i].file);
        const ig_gguf_value *tokens = ig_gguf_find(gguf, "tokenizer.ggml.tokens");
        assert_int_equal(tokens->count, rows[i].n_tokens);
        assert_int_equal(ig_gguf_n_tensors(gguf), 0);
        ig_gguf_close(gguf);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_every_type_are_read),
        cmocka_unit_test(vocabularies_without_tensors_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
