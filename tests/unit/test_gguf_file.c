/* GGUF files by their path: split models, copies, files that are not there. */
#include <stdio.h>

#include "check.h"
#include "directory.h"
#include "fuzz/gguf_bytes.h"

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
    must(ig_gguf_open(directory_path(state, "m-00001-of-00003.gguf", path), NULL, &gguf));
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
    refused(ig_gguf_open(directory_path(state, "m-00001-of-00003.gguf", path), NULL, &gguf),
            IG_ERR_IO, "m-00002-of-00003.gguf: cannot open it");
}

static void parts_that_do_not_fit_together_are_refused(void **state) {
    char path[PATH_BYTES];
    ig_gguf *gguf = NULL;
    save_three(state);
    refused(ig_gguf_open(directory_path(state, "m-00002-of-00003.gguf", path), NULL, &gguf),
            IG_ERR_FORMAT, "is part 2 of 3 of a split model; give the first");

    const char *first = directory_path(state, "m-00001-of-00003.gguf", path);
    save_part(state, "m-00002-of-00003.gguf", 2, 3, 3);
    refused(ig_gguf_open(first, NULL, &gguf), IG_ERR_FORMAT, "part 3 of 3, not 2 of 3");
    save_part(state, "m-00002-of-00003.gguf", 1, 4, 3);
    refused(ig_gguf_open(first, NULL, &gguf), IG_ERR_FORMAT, "part 2 of 4, not 2 of 3");
    save_three(state);
    save_part(state, "m-00001-of-00003.gguf", 0, 3, 4);
    refused(ig_gguf_open(first, NULL, &gguf), IG_ERR_FORMAT, "have 3 tensors, not 4");

    save_part(state, "other.gguf", 0, 3, 3);
    refused(ig_gguf_open(directory_path(state, "other.gguf", path), NULL, &gguf), IG_ERR_FORMAT,
            "is not named NAME-00001-of-00003.gguf");
    save_part(state, "m-00001-of-00002.gguf", 0, 3, 3);
    refused(ig_gguf_open(directory_path(state, "m-00001-of-00002.gguf", path), NULL, &gguf),
            IG_ERR_FORMAT, "is not named NAME-00001-of-00003.gguf");
    assert_null(gguf);
}

static void what_is_no_file_is_refused(void **state) {
    char path[PATH_BYTES];
    ig_gguf *gguf = NULL;
    refused(ig_gguf_open(directory_path(state, "nothing.gguf", path), NULL, &gguf), IG_ERR_IO,
            "nothing.gguf: cannot open it");
    refused(ig_gguf_open(*state, NULL, &gguf), IG_ERR_IO, "is a directory");
    save(directory_path(state, "empty.gguf", path), "", 0);
    refused(ig_gguf_open(path, NULL, &gguf), IG_ERR_FORMAT, "has 0 bytes");
}

/* A file that is cut off while it is open: a copy of its bytes does not mind. */
static void a_copy_outlives_what_becomes_of_the_file(void **state) {
    char path[PATH_BYTES];
    gguf_bytes file = gguf_sample();
    save(directory_path(state, "m.gguf", path), file.bytes, file.size);
    ig_gguf *gguf = NULL;
    must(ig_gguf_open(path, &(ig_gguf_options){.no_mmap = true}, &gguf));
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
    must(ig_gguf_open(path, &(ig_gguf_options){.mlock = true}, &gguf));
    ig_gguf_close(gguf);
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(parts_of_a_split_model_read_as_one),
        IN_DIRECTORY(a_missing_part_is_named),
        IN_DIRECTORY(parts_that_do_not_fit_together_are_refused),
        IN_DIRECTORY(what_is_no_file_is_refused),
        IN_DIRECTORY(a_copy_outlives_what_becomes_of_the_file),
        IN_DIRECTORY(bytes_can_be_locked_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
