/* GGUF files by their path: split models, files that others wrote, files that are not there. */
#include <stdio.h>

#include "check.h"
#include "directory.h"
#include "fuzz/gguf_bytes.h"

static const char shared_data[] = TEST_DATA_DIR "/../../../shared/data";

static void save(const char *path, const void *bytes, size_t n_bytes) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
}

/* ---- Split models ---- */

/* Part `no` of `count`: one tensor, called by its number. */
static void save_part(void **state, const char *file, uint16_t no, uint16_t count,
                      int32_t n_tensors) {
    ig_gguf_writer *w = NULL;
    char path[PATH_BYTES], name[32];
    must(ig_gguf_writer_create(&ig_heap, file, &w));
    if (no == 0) ig_gguf_writer_text(w, "general.name", "in parts");
    gguf_sample_number(w, "split.no", IG_GGUF_U16, &no);
    gguf_sample_number(w, "split.count", IG_GGUF_U16, &count);
    gguf_sample_number(w, "split.tensors.count", IG_GGUF_I32, &n_tensors);
    snprintf(name, sizeof name, "t.%u", no);
    ig_gguf_writer_tensor(w, name, (ig_desc){IG_F32, {1, {no + 1}}});
    gguf_bytes bytes = gguf_encode(w);
    save(directory_path(state, file, path), bytes.bytes, bytes.size);
    free(bytes.bytes);
}

static void save_three(void **state) {
    save_part(state, "m-00001-of-00003.gguf", 0, 3, 3);
    save_part(state, "m-00002-of-00003.gguf", 1, 3, 3);
    save_part(state, "m-00003-of-00003.gguf", 2, 3, 3);
}

static void parts_of_a_split_model_read_as_one(void **state) {
    char path[PATH_BYTES];
    save_three(state);
    ig_gguf *gguf = NULL;
    must(ig_gguf_open_file(&ig_heap, directory_path(state, "m-00001-of-00003.gguf", path), &gguf));
    assert_int_equal(ig_gguf_n_parts(gguf), 3);
    char third[PATH_BYTES];
    directory_path(state, "m-00003-of-00003.gguf", third);
    assert_true(ig_file_is_same(ig_gguf_part_name(gguf, 2), third));
    assert_false(ig_file_is_same(ig_gguf_part_name(gguf, 1), third));
    assert_int_equal(ig_gguf_n_tensors(gguf), 3);
    assert_int_equal(ig_gguf_find_tensor(gguf, "t.2")->part, 2);
    assert_int_equal(ig_gguf_find_tensor(gguf, "t.2")->n_bytes, 12);
    assert_non_null(ig_gguf_find(gguf, "general.name"));
    ig_gguf_close(gguf);
}

static void a_missing_part_is_named(void **state) {
    char path[PATH_BYTES];
    save_three(state);
    unlink(directory_path(state, "m-00002-of-00003.gguf", path));
    ig_gguf *gguf = NULL;
    refused(
        ig_gguf_open_file(&ig_heap, directory_path(state, "m-00001-of-00003.gguf", path), &gguf),
        IG_ERR_IO, "m-00002-of-00003.gguf: cannot open it");
}

static void parts_that_do_not_fit_together_are_refused(void **state) {
    char path[PATH_BYTES];
    ig_gguf *gguf = NULL;
    save_three(state);
    refused(
        ig_gguf_open_file(&ig_heap, directory_path(state, "m-00002-of-00003.gguf", path), &gguf),
        IG_ERR_FORMAT, "is part 2 of 3 of a split model; give the first");

    const char *first = directory_path(state, "m-00001-of-00003.gguf", path);
    save_part(state, "m-00002-of-00003.gguf", 2, 3, 3);
    refused(ig_gguf_open_file(&ig_heap, first, &gguf), IG_ERR_FORMAT, "part 3 of 3, not 2 of 3");
    save_part(state, "m-00002-of-00003.gguf", 1, 4, 3);
    refused(ig_gguf_open_file(&ig_heap, first, &gguf), IG_ERR_FORMAT, "part 2 of 4, not 2 of 3");
    save_three(state);
    save_part(state, "m-00001-of-00003.gguf", 0, 3, 4);
    refused(ig_gguf_open_file(&ig_heap, first, &gguf), IG_ERR_FORMAT, "have 3 tensors, not 4");

    save_part(state, "other.gguf", 0, 3, 3);
    refused(ig_gguf_open_file(&ig_heap, directory_path(state, "other.gguf", path), &gguf),
            IG_ERR_FORMAT, "is not named NAME-00001-of-00003.gguf");
    save_part(state, "m-00001-of-00002.gguf", 0, 3, 3);
    refused(
        ig_gguf_open_file(&ig_heap, directory_path(state, "m-00001-of-00002.gguf", path), &gguf),
        IG_ERR_FORMAT, "is not named NAME-00001-of-00003.gguf");
    assert_null(gguf);
}

static void what_is_no_file_is_refused(void **state) {
    char path[PATH_BYTES];
    ig_gguf *gguf = NULL;
    refused(ig_gguf_open_file(&ig_heap, directory_path(state, "nothing.gguf", path), &gguf),
            IG_ERR_IO, "nothing.gguf: cannot open it");
    refused(ig_gguf_open_file(&ig_heap, *state, &gguf), IG_ERR_IO, "is a directory");
    save(directory_path(state, "empty.gguf", path), "", 0);
    refused(ig_gguf_open_file(&ig_heap, path, &gguf), IG_ERR_FORMAT, "has 0 bytes");
}

/* A file that is cut off while it is open: a copy of its bytes does not mind. */
static void a_copy_outlives_what_becomes_of_the_file(void **state) {
    char path[PATH_BYTES];
    gguf_bytes file = gguf_sample();
    save(directory_path(state, "m.gguf", path), file.bytes, file.size);
    ig_gguf *gguf = NULL;
    must(ig_gguf_open_file_with(&ig_heap, path, &(ig_gguf_options){.copy = true}, &gguf));
    assert_int_equal(truncate(path, 0), 0);
    const ig_gguf_tensor *deep = ig_gguf_find_tensor(gguf, "deep");
    const uint8_t *bytes = deep->bytes;
    for (size_t i = 0; i < deep->n_bytes; i++) assert_int_equal(bytes[i], (uint8_t)(bytes[0] + i));
    ig_gguf_close(gguf);
    free(file.bytes);
}

static void bytes_can_be_locked_in_memory(void **state) {
    char path[PATH_BYTES];
    gguf_bytes file = gguf_sample();
    save(directory_path(state, "m.gguf", path), file.bytes, file.size);
    ig_gguf *gguf = NULL;
    must(ig_gguf_open_file_with(&ig_heap, path, &(ig_gguf_options){.lock = true}, &gguf));
    ig_gguf_close(gguf);
    free(file.bytes);
}

/* ---- Files that llama.cpp wrote ---- */

/* Skips where the data are not there. */
static ig_gguf *open_shared(const char *file) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", shared_data, file);
    if (access(path, R_OK) != 0) skip();
    ig_gguf *gguf = NULL;
    must(ig_gguf_open_file(&ig_heap, path, &gguf));
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
        ig_gguf_text arch;
        assert_true(ig_gguf_text_of(gguf, "general.architecture", &arch));
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
        IN_DIRECTORY(parts_of_a_split_model_read_as_one),
        IN_DIRECTORY(a_missing_part_is_named),
        IN_DIRECTORY(parts_that_do_not_fit_together_are_refused),
        IN_DIRECTORY(what_is_no_file_is_refused),
        IN_DIRECTORY(a_copy_outlives_what_becomes_of_the_file),
        IN_DIRECTORY(bytes_can_be_locked_in_memory),
        cmocka_unit_test(models_of_every_type_are_read),
        cmocka_unit_test(vocabularies_without_tensors_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
