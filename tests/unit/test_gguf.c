/* GGUF in memory: what is written comes back, and nothing that cannot be is believed. */
#include <stdio.h>

#include "check.h"
#include "fuzz/gguf_bytes.h"

/* ---- An allocator that counts, and fails when told to ---- */

typedef struct counted {
    int left, alive;
    size_t bytes; /* asked for, altogether */
} counted;

static void *counted_alloc(void *user, size_t bytes, size_t alignment) {
    counted *c = user;
    if (c->left-- <= 0) return NULL;
    c->alive++;
    c->bytes += bytes;
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void counted_free(void *user, void *p) {
    ((counted *)user)->alive--;
    ig_heap.free(ig_heap.user, p);
}

/* Memory in all that reading may ask for: tables of what was found, grown by doubling. */
enum { BYTES_PER_BYTE = 16, BYTES_FIXED = 8192 };

/* Open and close, with memory that goes with the size of the file. */
static ig_status check(const uint8_t *bytes, size_t size) {
    counted memory = {.left = INT32_MAX};
    const ig_allocator a = {counted_alloc, counted_free, &memory};
    ig_gguf *gguf = NULL;
    const ig_status status = ig_gguf_parse(&a, "sample.gguf", bytes, size, &gguf);
    ig_gguf_close(gguf);
    assert_int_equal(memory.alive, 0);
    if (memory.bytes > BYTES_PER_BYTE * size + BYTES_FIXED)
        fail_msg("%zu bytes of memory for %zu of a file", memory.bytes, size);
    return status;
}

static ig_gguf *open_sample(gguf_bytes *file) {
    *file = gguf_sample();
    assert_non_null(file->bytes);
    ig_gguf *gguf = NULL;
    must(ig_gguf_parse(&ig_heap, "sample.gguf", file->bytes, file->size, &gguf));
    return gguf;
}

/* ---- Round trip ---- */

static void numbers_of_every_type_come_back(void **state) {
    (void)state;
    static const struct {
        const char *key;
        double real;
        int64_t integer;
        bool is_integer, is_real; /* without loss */
    } rows[] = {
        {"n.u8", 200, 200, true, true},
        {"n.i8", -100, -100, true, true},
        {"n.u16", 60000, 60000, true, true},
        {"n.i16", -30000, -30000, true, true},
        {"n.u32", 4000000000.0, 4000000000, true, true},
        {"n.i32", -2000000000.0, -2000000000, true, true},
        {"n.f32", 0.5, 0, false, true},
        {"n.true", 1, 1, true, true},
        {"n.u64", 0, 0, false, false},
        {"n.i64", -9223372036854775808.0, INT64_MIN, true, true},
        {"n.f64", 1e300, 0, false, true},
        {"general.architecture", 0, 0, false, false},
        {"a.i32", 0, 0, false, false},
        {"n.nothing", 0, 0, false, false},
    };
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t integer = 77;
        double real = 77;
        assert_int_equal(ig_gguf_int(gguf, rows[i].key, &integer), rows[i].is_integer);
        assert_int_equal(integer, rows[i].is_integer ? rows[i].integer : 77);
        assert_int_equal(ig_gguf_real(gguf, rows[i].key, &real), rows[i].is_real);
        assert_true(real == (rows[i].is_real ? rows[i].real : 77));
    }
    bool truth = false;
    assert_true(ig_gguf_bool(gguf, "n.true", &truth) && truth);
    assert_false(ig_gguf_bool(gguf, "n.u8", &truth));
    ig_gguf_close(gguf);
    free(file.bytes);
}

static void arrays_and_texts_come_back(void **state) {
    (void)state;
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    ig_string_view text;
    assert_true(ig_gguf_string(gguf, "general.architecture", &text));
    assert_int_equal(text.n_bytes, 5);
    assert_memory_equal(text.bytes, "llama", 5);
    assert_false(ig_gguf_string(gguf, "a.texts", &text));

    const ig_gguf_value *ints = ig_gguf_find(gguf, "a.i32");
    assert_int_equal(ints->type, IG_GGUF_ARRAY);
    assert_int_equal(ints->elements, IG_GGUF_I32);
    assert_int_equal(ints->count, 3);
    assert_int_equal(ig_gguf_int_at(ints, 1), -2);
    assert_true(ig_gguf_real_at(ig_gguf_find(gguf, "a.f32"), 1) == -8);
    assert_int_equal(ig_gguf_find(gguf, "a.none")->count, 0);

    const ig_gguf_value *texts = ig_gguf_find(gguf, "a.texts");
    assert_int_equal(texts->count, 3);
    assert_memory_equal(texts->texts[0].bytes, "one", 3);
    assert_int_equal(texts->texts[1].n_bytes, 0);
    assert_memory_equal(texts->texts[2].bytes, "a\0b", 3);
    assert_null(texts->packed);
    ig_gguf_close(gguf);
    free(file.bytes);
}

static void tensors_come_back_outermost_dimension_first(void **state) {
    (void)state;
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    assert_int_equal(ig_gguf_version(gguf), 3);
    assert_int_equal(ig_gguf_n_parts(gguf), 1);
    assert_int_equal(ig_gguf_file_bytes(gguf), file.size);
    assert_int_equal(ig_gguf_n_tensors(gguf), 5);

    const ig_gguf_tensor *t = ig_gguf_find_tensor(gguf, "token_embd.weight");
    assert_ptr_equal(t, ig_gguf_tensor_at(gguf, 0));
    assert_int_equal(t->desc.dtype, IG_Q8_0);
    assert_true(ig_shape_equal(t->desc.shape, IG_SHAPE(3, 64)));
    assert_int_equal(t->n_bytes, 3 * 2 * 34);
    const ig_gguf_tensor *deep = ig_gguf_find_tensor(gguf, "deep");
    assert_true(ig_shape_equal(deep->desc.shape, IG_SHAPE(2, 1, 3, 2)));
    const uint8_t *bytes = deep->bytes;
    assert_int_equal((bytes - file.bytes) % GGUF_DEFAULT_ALIGNMENT, 0);
    for (size_t i = 0; i < deep->n_bytes; i++)
        assert_int_equal(bytes[i], (uint8_t)(&bytes[i] - file.bytes));
    assert_int_equal(ig_gguf_find_tensor(gguf, "scalar")->n_bytes, 2);
    assert_int_equal(ig_gguf_find_tensor(gguf, "nothing")->n_bytes, 0);
    assert_null(ig_gguf_find_tensor(gguf, "token_embd"));
    assert_null(ig_gguf_find_tensor(gguf, ""));
    ig_gguf_close(gguf);
    free(file.bytes);
}

/* What was read is what is written again, byte for byte. */
static void a_file_written_from_what_was_read_is_the_same(void **state) {
    (void)state;
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    ig_gguf_writer *w = NULL;
    must(ig_gguf_writer_create(&ig_heap, "again", &w));
    for (size_t i = 0; i < ig_gguf_n_values(gguf); i++)
        ig_gguf_writer_value(w, ig_gguf_value_at(gguf, i));
    for (size_t i = 0; i < ig_gguf_n_tensors(gguf); i++)
        ig_gguf_writer_tensor(w, ig_gguf_tensor_at(gguf, i)->name,
                              ig_gguf_tensor_at(gguf, i)->desc);
    gguf_bytes again = gguf_encode(w);
    assert_int_equal(again.size, file.size);
    assert_memory_equal(again.bytes, file.bytes, file.size);
    ig_gguf_close(gguf);
    free(again.bytes);
    free(file.bytes);
}

static void a_key_set_again_keeps_its_place(void **state) {
    (void)state;
    ig_gguf_writer *w = NULL;
    must(ig_gguf_writer_create(&ig_heap, "x", &w));
    ig_gguf_writer_u32(w, "general.file_type", 1);
    ig_gguf_writer_text(w, "general.name", "small");
    ig_gguf_writer_text(w, "general.file_type", "another type, and longer");
    gguf_bytes file = gguf_encode(w);
    ig_gguf *gguf = NULL;
    must(ig_gguf_parse(&ig_heap, "x", file.bytes, file.size, &gguf));
    assert_int_equal(ig_gguf_n_values(gguf), 2);
    assert_int_equal(ig_gguf_value_at(gguf, 0)->type, IG_GGUF_STRING);
    assert_int_equal(ig_gguf_value_at(gguf, 0)->texts[0].n_bytes, 24);
    ig_gguf_close(gguf);
    free(file.bytes);
}

static void many_names_are_found(void **state) {
    (void)state;
    enum { MANY = 3000 };
    ig_gguf_writer *w = NULL;
    must(ig_gguf_writer_create(&ig_heap, "x", &w));
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "blk.%d.weight", i);
        ig_gguf_writer_tensor(w, name, (ig_desc){IG_F32, {1, {i % 9}}});
    }
    gguf_bytes file = gguf_encode(w);
    ig_gguf *gguf = NULL;
    must(ig_gguf_parse(&ig_heap, "x", file.bytes, file.size, &gguf));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "blk.%d.weight", i);
        assert_ptr_equal(ig_gguf_find_tensor(gguf, name), ig_gguf_tensor_at(gguf, (size_t)i));
    }
    assert_null(ig_gguf_find_tensor(gguf, "blk.3000.weight"));
    ig_gguf_close(gguf);
    free(file.bytes);
}

/* ---- Damage ---- */

static void a_file_cut_off_at_any_byte_is_refused(void **state) {
    (void)state;
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    const ig_gguf_tensor *last = ig_gguf_find_tensor(gguf, "deep");
    /* Nothing is kept in the padding at the end. */
    const size_t needed = (size_t)((const uint8_t *)last->bytes + last->n_bytes - file.bytes);
    ig_gguf_close(gguf);
    for (size_t n = 0; n < file.size; n++) {
        uint8_t *part = malloc(n ? n : 1);
        memcpy(part, file.bytes, n);
        if (check(part, n) != (n < needed ? IG_ERR_FORMAT : IG_OK))
            fail_msg("%zu of %zu bytes: %s", n, file.size, ig_error_text());
        free(part);
    }
    free(file.bytes);
}

static void no_flipped_bit_of_the_head_crashes_or_takes_memory(void **state) {
    (void)state;
    gguf_bytes file;
    ig_gguf *gguf = open_sample(&file);
    const size_t head = (size_t)((const uint8_t *)ig_gguf_tensor_at(gguf, 0)->bytes - file.bytes);
    ig_gguf_close(gguf);
    size_t refused = 0;
    for (size_t bit = 0; bit < head * 8; bit++) {
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const ig_status status = check(file.bytes, file.size);
        assert_true(status == IG_OK || status == IG_ERR_FORMAT);
        refused += status != IG_OK;
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    must(check(file.bytes, file.size));
    assert_true(refused > head * 8 / 3); /* the rest are letters of names and numbers of values */
    free(file.bytes);
}

/* ---- Malice: numbers that lie ---- */

/* After the first place where `text` stands in the file, with its length before it. */
static uint8_t *after(gguf_bytes *file, const char *text) {
    const size_t length = strlen(text);
    for (uint8_t *p = file->bytes; p + 8 + length <= file->bytes + file->size; p++)
        if (gguf_get64(p) == length && memcmp(p + 8, text, length) == 0) return p + 8 + length;
    fail_msg("no %s in the sample", text);
    return NULL;
}

typedef struct lie {
    const char *words; /* what the message must have in it */
    const char *text;  /* the field lies `offset` bytes after this text; NULL: after the start */
    int offset, bytes;
    uint64_t value;
} lie;

static const lie lies[] = {
    {"is not a GGUF file", NULL, 0, 1, 'g'},
    {"is of GGUF version 0", NULL, 4, 4, 0},
    {"is of GGUF version 1, this program reads 2 and 3", NULL, 4, 4, 1},
    {"is of GGUF version 4", NULL, 4, 4, 4},
    {"other byte order", NULL, 4, 4, 0x03000000},
    {"tensors do not fit", NULL, 8, 8, UINT64_MAX},
    {"tensors do not fit", NULL, 8, 8, 1000000},
    {"a tensor's name \"\" has 0 bytes", NULL, 8, 8, 6},
    {"18446744073709551615 keys do not fit", NULL, 16, 8, UINT64_MAX},
    {"the name of a tensor has", NULL, 16, 8, 17},
    {"has an empty key", NULL, 24, 8, 0},
    {"a key has 9223372036854775807 bytes", NULL, 24, 8, INT64_MAX},
    {"a key takes 1073741824 bytes at 32", NULL, 24, 8, 1 << 30},
    {"n.u32 is of type 13, which is not known", "n.u32", 0, 4, 13},
    {"n.u32 is of type 4294967295", "n.u32", 0, 4, UINT32_MAX},
    {"a.i32 is an array of arrays", "a.i32", 4, 4, IG_GGUF_ARRAY},
    {"a.i32 is an array of nothing that is known (type 77)", "a.i32", 4, 4, 77},
    {"a.i32 has 1073741825 elements", "a.i32", 8, 8, (1 << 30) + 1},
    {"a.i32 has 1073741824 numbers at", "a.i32", 8, 8, 1 << 30},
    {"a text has", "a.texts", 8, 8, 1 << 30},
    {"a text has 1073741825 bytes", "a.texts", 16, 8, (1 << 30) + 1},
    {"has the key n.i16 twice", "n.u16", -3, 1, 'i'},
    {"has 5 dimensions, at most 4", "deep", 0, 4, 5},
    {"has 4294967295 dimensions", "deep", 0, 4, UINT32_MAX},
    {"deep: [2,1,3,-2] is no shape", "deep", 4, 8, (uint64_t)-2},
    {"deep: [2,1,3,9223372036854775807] is no shape", "deep", 4, 8, INT64_MAX},
    {"deep: 18446744073709551612 bytes at 288 are too many", "deep", 4, 8, 1537228672809129301},
    {"token_embd.weight: [3,65] cannot be made of q8_0", "token_embd.weight", 4, 8, 65},
    {"deep is of type 43, which is not known", "deep", 36, 4, 43},
    {"deep is of type 4, which is not known", "deep", 36, 4, 4},
    {"deep is of type IQ2_XXS, which this program does not read", "deep", 36, 4, 16},
    {"deep is at offset 1, the tensors before it end at", "deep", 40, 8, 1},
    {"deep is at offset 0, the tensors before it end at", "deep", 40, 8, 0},
    {"deep is at offset 18446744073709551584", "deep", 40, 8, (uint64_t)-32},
    {"is cut off: deep has 240 bytes at", "deep", 4, 8, 20},
    {"is cut off: deep has", "deep", 4, 8, UINT64_C(1) << 50},
};

static void numbers_that_lie_are_refused_and_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const lie *l = &lies[i];
        gguf_bytes file = gguf_sample();
        uint8_t *at = (l->text ? after(&file, l->text) : file.bytes) + l->offset;
        for (int b = 0; b < l->bytes; b++) at[b] = (uint8_t)(l->value >> 8 * b);
        const ig_status status = check(file.bytes, file.size);
        if (status != IG_ERR_FORMAT || !strstr(ig_error_text(), l->words))
            fail_msg("wanted \"%s\", got %d \"%s\"", l->words, (int)status, ig_error_text());
        free(file.bytes);
    }
}

static void alignments_that_are_no_powers_of_two_from_8_are_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t alignment;
        bool good;
    } rows[] = {{0, false},  {1, false}, {4, false},   {8, true},          {24, false},
                {33, false}, {64, true}, {4096, true}, {0xffffffff, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ig_gguf_writer *w = NULL;
        must(ig_gguf_writer_create(&ig_heap, "x", &w));
        ig_gguf_writer_u32(w, GGUF_KEY_ALIGNMENT, rows[i].good ? rows[i].alignment : 32);
        ig_gguf_writer_tensor(w, "a", (ig_desc){IG_F32, {1, {3}}});
        ig_gguf_writer_tensor(w, "b", (ig_desc){IG_F32, {1, {3}}});
        gguf_bytes file = gguf_encode(w);
        memcpy(after(&file, GGUF_KEY_ALIGNMENT) + 4, &rows[i].alignment, 4);
        if (rows[i].good)
            must(check(file.bytes, file.size));
        else
            refused(check(file.bytes, file.size), IG_ERR_FORMAT, "not a power of two from 8");
        free(file.bytes);
    }
}

static void a_tensor_that_is_there_twice_is_refused(void **state) {
    (void)state;
    ig_gguf_writer *w = NULL;
    must(ig_gguf_writer_create(&ig_heap, "x", &w));
    ig_gguf_writer_tensor(w, "a.weight", (ig_desc){IG_F32, {1, {3}}});
    ig_gguf_writer_tensor(w, "b.weight", (ig_desc){IG_F32, {1, {3}}});
    gguf_bytes file = gguf_encode(w);
    after(&file, "b.weight")[-8] = 'a';
    refused(check(file.bytes, file.size), IG_ERR_FORMAT,
            "sample.gguf: has the tensor a.weight twice");
    free(file.bytes);
}

static void names_with_a_0_or_too_long_are_refused(void **state) {
    (void)state;
    gguf_bytes file = gguf_sample();
    after(&file, "deep")[-2] = 0;
    refused(check(file.bytes, file.size), IG_ERR_FORMAT, "a tensor's name");
    free(file.bytes);

    file = gguf_sample();
    uint8_t *length = after(&file, "blk.0.attn_norm.weight") - 22 - 8;
    length[0] = 64;
    refused(check(file.bytes, file.size), IG_ERR_FORMAT, "has 64 bytes, not 1 to 63");
    free(file.bytes);
}

/* ---- What is not written ---- */

static void what_could_not_be_read_is_not_written(void **state) {
    (void)state;
    static char long_name[65];
    memset(long_name, 'a', 64);
    const struct {
        const char *first, *second;
        ig_desc desc;
        const char *words;
    } rows[] = {
        {"a", "a", {IG_F32, {1, {1}}}, "x: two tensors are called a"},
        {"a", "", {IG_F32, {1, {1}}}, "a tensor's name has 1 to 63 bytes"},
        {"a", long_name, {IG_F32, {1, {1}}}, "a tensor's name has 1 to 63 bytes"},
        {"a", "b", {IG_Q8_0, {1, {31}}}, "x: b: [31] of q8_0 cannot be stored"},
        {"a", "b", {IG_F32, {5, {1, 1, 1, 1, 1}}}, "x: b: [1,1,1,1,1] of f32 cannot be stored"},
        {"a", "b", {IG_F32, {1, {-1}}}, "x: b: a tensor of f32 cannot be stored"},
        {"a", "b", {IG_F32, {1, {INT64_C(1) << 60}}}, "too large for a file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ig_gguf_writer *w = NULL;
        must(ig_gguf_writer_create(&ig_heap, "x", &w));
        ig_gguf_writer_tensor(w, rows[i].first, (ig_desc){IG_F32, {1, {1}}});
        ig_gguf_writer_tensor(w, rows[i].second, rows[i].desc);
        ig_gguf_writer_tensor(w, "c", rows[0].desc); /* the first failure counts */
        refused(ig_gguf_writer_finish(w), IG_ERR_ARGUMENT, rows[i].words);
        ig_gguf_writer_destroy(w);
    }
}

/* ---- No memory ---- */

static void every_allocation_may_fail(void **state) {
    (void)state;
    gguf_bytes file = gguf_sample();
    counted memory = {0};
    const ig_allocator a = {counted_alloc, counted_free, &memory};
    ig_status opened = IG_ERR_MEMORY, written = IG_ERR_MEMORY;
    for (int n = 0; opened != IG_OK || written != IG_OK; n++) {
        ig_gguf *gguf = NULL;
        memory.left = n;
        opened = ig_gguf_parse(&a, "sample.gguf", file.bytes, file.size, &gguf);
        ig_gguf_close(gguf);
        assert_int_equal(memory.alive, 0);

        ig_gguf_writer *w = NULL;
        memory.left = n;
        written = ig_gguf_writer_create(&a, "sample.gguf", &w);
        if (written == IG_OK) {
            gguf_sample_values(w);
            ig_gguf_writer_tensor(w, "a", (ig_desc){IG_F32, {1, {3}}});
            written = ig_gguf_writer_finish(w);
        }
        ig_gguf_writer_destroy(w);
        assert_int_equal(memory.alive, 0);
        assert_true(opened == IG_OK || opened == IG_ERR_MEMORY);
        assert_true(written == IG_OK || written == IG_ERR_MEMORY);
        assert_true(n < 200);
    }
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_type_come_back),
        cmocka_unit_test(arrays_and_texts_come_back),
        cmocka_unit_test(tensors_come_back_outermost_dimension_first),
        cmocka_unit_test(a_file_written_from_what_was_read_is_the_same),
        cmocka_unit_test(a_key_set_again_keeps_its_place),
        cmocka_unit_test(many_names_are_found),
        cmocka_unit_test(a_file_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(no_flipped_bit_of_the_head_crashes_or_takes_memory),
        cmocka_unit_test(numbers_that_lie_are_refused_and_named),
        cmocka_unit_test(alignments_that_are_no_powers_of_two_from_8_are_refused),
        cmocka_unit_test(a_tensor_that_is_there_twice_is_refused),
        cmocka_unit_test(names_with_a_0_or_too_long_are_refused),
        cmocka_unit_test(what_could_not_be_read_is_not_written),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
