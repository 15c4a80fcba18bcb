/* Safetensors: files in memory, folders of shards, and what is not believed. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "check.h"
#include "directory.h"
#include "format/safetensors.h"

enum { LENGTH = 8 };

typedef struct st_bytes {
    uint8_t *bytes; /* malloc'd to the size, so that a sanitizer sees every read beyond */
    size_t size;
} st_bytes;

/* A header and `data_bytes` bytes that count upwards. */
static st_bytes encode(const char *header, size_t data_bytes) {
    const uint64_t n = strlen(header);
    st_bytes file = {malloc(LENGTH + n + data_bytes), LENGTH + n + data_bytes};
    memcpy(file.bytes, &n, LENGTH);
    memcpy(file.bytes + LENGTH, header, n);
    for (size_t i = 0; i < data_bytes; i++) file.bytes[LENGTH + n + i] = (uint8_t)i;
    return file;
}

static const char sample[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
    "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[20,20]},"
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}}  ";

static ig_status check(st_bytes file) {
    ig_safetensors *st = NULL;
    const ig_status status =
        ig_safetensors_open(&ig_heap, "m.safetensors", file.bytes, file.size, &st);
    ig_safetensors_close(st);
    return status;
}

static void tensors_of_every_type_are_found(void **state) {
    (void)state;
    st_bytes file = encode(sample, 28);
    ig_safetensors *st = NULL;
    must(ig_safetensors_open(&ig_heap, "m.safetensors", file.bytes, file.size, &st));
    assert_int_equal(ig_safetensors_count(st), 4);
    const ig_safetensor *b = ig_safetensors_find(st, "b");
    assert_true(b->readable);
    assert_int_equal(b->desc.dtype, IG_BF16);
    assert_true(ig_shape_equal(b->desc.shape, IG_SHAPE(2, 3)));
    assert_int_equal(b->n_bytes, 12);
    assert_int_equal(((const uint8_t *)b->bytes)[0], 8);
    const ig_safetensor *ids = ig_safetensors_find(st, "ids");
    assert_false(ids->readable);
    assert_string_equal(ids->type, "I64");
    assert_int_equal(ids->desc.shape.rank, 0);
    assert_string_equal(ig_safetensors_at(st, 0)->name, "a");
    assert_null(ig_safetensors_find(st, "__metadata__"));
    ig_safetensors_close(st);
    free(file.bytes);
}

static void a_file_cut_off_at_any_byte_is_refused(void **state) {
    (void)state;
    st_bytes file = encode(sample, 28);
    for (size_t n = 0; n < file.size; n++) {
        st_bytes part = {malloc(n ? n : 1), n};
        memcpy(part.bytes, file.bytes, n);
        if (check(part) != IG_ERR_FORMAT) fail_msg("%zu of %zu bytes passed", n, file.size);
        free(part.bytes);
    }
    must(check(file));
    free(file.bytes);
}

#define ENTRY(type, shape, begin, end) \
    "{\"dtype\":" type ",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void headers_that_lie_are_refused_and_named(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *words;
    } rows[] = {
        {"[]", 0, "is not a safetensors file"},
        {"{\"a\":", 0, "the header is not JSON"},
        {"{\"a\":1}", 0, "a is of type none"},
        {"{\"a\":" ENTRY("\"F33\"", "[2]", "0", "8") "}", 8, "a is of type F33"},
        {"{\"a\":" ENTRY("\"F32\"", "2", "0", "8") "}", 8, "a: its shape is none"},
        {"{\"a\":" ENTRY("\"F32\"", "[-2]", "0", "8") "}", 8, "a: its shape is none"},
        {"{\"a\":" ENTRY("\"F32\"", "[2.0]", "0", "8") "}", 8, "a: its shape is none"},
        {"{\"a\":" ENTRY("\"F32\"", "[1,1,1,1,1,1,2]", "0", "8") "}", 8, "a: its shape is none"},
        {"{\"a\":" ENTRY("\"F32\"", "[4611686018427387904,4]", "0", "8") "}", 8, "its shape is"},
        {"{\"a\":" ENTRY("\"F32\"", "[4611686018427387904]", "0", "8") "}", 8, "are not its shape"},
        {"{\"a\":" ENTRY("\"F32\"", "[2]", "8", "0") "}", 8, "a: data_offsets are no two"},
        {"{\"a\":" ENTRY("\"F32\"", "[2]", "0", "9") "}", 8, "a: data_offsets are no two"},
        {"{\"a\":" ENTRY("\"F32\"", "[2]", "-8", "0") "}", 8, "a: data_offsets are no two"},
        {"{\"a\":" ENTRY("\"F32\"", "[3]", "0", "8") "}", 8, "a: 8 bytes are not its shape of F32"},
        {"{\"a\":" ENTRY("\"F32\"", "[1]", "4", "8") "}", 8, "a begins at 4"},
        {"{\"a\":" ENTRY("\"F32\"", "[1]", "0", "4") "}", 8, "the last 4 of its bytes"},
        {"{\"a\":" ENTRY("\"F32\"", "[2]", "0", "8") ",\"b\":" ENTRY("\"F32\"", "[1]", "4",
                                                                     "8") "}",
         8, "b begins at 4, the tensors before it end at 8"},
        {"{\"a\":" ENTRY("\"U8\"", "[1]", "0", "1") ",\"a\":" ENTRY("\"U8\"", "[1]", "1", "2") "}",
         2, "is not JSON: duplicate"},
        {"{\"\":" ENTRY("\"U8\"", "[1]", "0", "1") "}", 1, "a tensor's name has 0 bytes"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ is not texts alone"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not texts alone"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        st_bytes file = encode(rows[i].header, rows[i].data_bytes);
        refused(check(file), IG_ERR_FORMAT, rows[i].words);
        free(file.bytes);
    }
}

static void lengths_beyond_the_file_are_refused(void **state) {
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, 1000, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        st_bytes file = encode(sample, 28);
        memcpy(file.bytes, &lengths[i], LENGTH);
        refused(check(file), IG_ERR_FORMAT, "longer than the file");
        free(file.bytes);
    }
}

/* ---- Folders ---- */

static void save(void **state, const char *name, const void *bytes, size_t n_bytes) {
    char path[PATH_BYTES];
    FILE *out = fopen(directory_path(state, name, path), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
}

static void save_shard(void **state, const char *file, const char *tensor) {
    char header[256];
    snprintf(header, sizeof header, "{\"%s\":" ENTRY("\"F32\"", "[2]", "0", "8") "}", tensor);
    st_bytes bytes = encode(header, 8);
    save(state, file, bytes.bytes, bytes.size);
    free(bytes.bytes);
}

static void save_index(void **state, const char *map) {
    char index[512];
    snprintf(index, sizeof index, "{\"metadata\":{\"total_size\":16},\"weight_map\":%s}", map);
    save(state, "model.safetensors.index.json", index, strlen(index));
}

static void shards_read_as_one(void **state) {
    save_shard(state, "model-1.safetensors", "a");
    save_shard(state, "model-2.safetensors", "b");
    save_index(state, "{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}");
    ig_safetensors *st = NULL;
    must(ig_safetensors_open_dir(&ig_heap, *state, &st));
    assert_int_equal(ig_safetensors_count(st), 2);
    assert_non_null(ig_safetensors_find(st, "a"));
    assert_non_null(ig_safetensors_find(st, "b"));
    ig_safetensors_close(st);
}

static void a_single_file_needs_no_index(void **state) {
    ig_safetensors *st = NULL;
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_IO,
            "model.safetensors: cannot open it");
    save_shard(state, "model.safetensors", "a");
    must(ig_safetensors_open_dir(&ig_heap, *state, &st));
    assert_int_equal(ig_safetensors_count(st), 1);
    ig_safetensors_close(st);
}

static void no_name_of_a_shard_leaves_the_folder(void **state) {
    static const char *const names[] = {
        "../model.safetensors",
        "/etc/model.safetensors",
        "a/b.safetensors",
        "",
        "..",
        ".safetensors",
        "model.bin",
        "a/../../model.safetensors",
        "./model.safetensors",
        ".hidden.safetensors",
    };
    save_shard(state, "model.safetensors", "a");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char map[256];
        snprintf(map, sizeof map, "{\"a\":\"%s\"}", names[i]);
        save_index(state, map);
        ig_safetensors *st = NULL;
        refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_FORMAT,
                "is no name of a .safetensors file in this folder");
    }
}

static void an_index_that_does_not_fit_is_refused(void **state) {
    ig_safetensors *st = NULL;
    save_shard(state, "m1.safetensors", "a");
    save_shard(state, "m2.safetensors", "a");
    save_index(state, "{\"a\":\"m1.safetensors\",\"c\":\"m1.safetensors\"}");
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_FORMAT,
            "the index says m1.safetensors has c, which it has not");
    save_index(state, "{\"a\":\"m1.safetensors\",\"b\":\"m2.safetensors\"}");
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_FORMAT,
            "has the tensor a twice");
    save_index(state, "[]");
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_FORMAT, "has no weight_map");
    save_index(state, "{\"a\":\"m3.safetensors\"}");
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_IO,
            "m3.safetensors: cannot open");
    save_index(state, "{\"a\":7}");
    refused(ig_safetensors_open_dir(&ig_heap, *state, &st), IG_ERR_FORMAT, "is no name of a");
}

/* ---- No memory ---- */

typedef struct scarce {
    int left, alive;
} scarce;

static void *scarce_alloc(void *user, size_t bytes, size_t alignment) {
    scarce *s = user;
    if (s->left-- <= 0) return NULL;
    s->alive++;
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void scarce_free(void *user, void *p) {
    ((scarce *)user)->alive--;
    ig_heap.free(ig_heap.user, p);
}

static void every_allocation_may_fail(void **state) {
    save_shard(state, "model-1.safetensors", "a");
    save_shard(state, "model-2.safetensors", "b");
    save_index(state, "{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}");
    scarce memory = {0};
    const ig_allocator a = {scarce_alloc, scarce_free, &memory};
    ig_status status = IG_ERR_MEMORY;
    for (int n = 0; status != IG_OK; n++) {
        ig_safetensors *st = NULL;
        memory.left = n;
        status = ig_safetensors_open_dir(&a, *state, &st);
        ig_safetensors_close(st);
        assert_int_equal(memory.alive, 0);
        assert_true(status == IG_OK || status == IG_ERR_MEMORY);
        assert_true(n < 30);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_every_type_are_found),
        cmocka_unit_test(a_file_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(headers_that_lie_are_refused_and_named),
        cmocka_unit_test(lengths_beyond_the_file_are_refused),
        IN_DIRECTORY(shards_read_as_one),
        IN_DIRECTORY(a_single_file_needs_no_index),
        IN_DIRECTORY(no_name_of_a_shard_leaves_the_folder),
        IN_DIRECTORY(an_index_that_does_not_fit_is_refused),
        IN_DIRECTORY(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
