/* .oam in memory: what is written comes back, and nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/oam_bytes.h"

/* ---- A small file with one of everything ---- */

static const uint32_t odd_floats[15] = {
    0x7fc00000, 0x7f800001, 0xffc12345, /* quiet, signalling and signed NaN with a payload */
    0x7f800000, 0xff800000, 0x80000000, /* inf, -inf, -0 */
    0x00000001, 0x3f800000, 0x7f7fffff, /* smallest, 1, largest */
};
static const uint16_t f16[3] = {0x3c00, 0x7e01, 0x8000};
static const double scalar = 1.0 / 3.0;
static const float means[15] = {0.5f, -0.25f};
static const void *const sample_bytes[] = {odd_floats, f16, NULL, &scalar, means};

enum { WEIGHT, BIAS, EMPTY, SCALAR, MEAN, N_TENSORS };

static ig_oam_content sample_content(ig_oam_entry *entries) {
    const ig_oam_entry all[N_TENSORS] = {
        [WEIGHT] = {"fc1.weight", IG_ROLE_WEIGHT, {IG_F32, IG_SHAPE(3, 5)}},
        [BIAS] = {"fc1.bias", IG_ROLE_WEIGHT, {IG_F16, IG_SHAPE(3)}},
        [EMPTY] = {"nichts.größe", IG_ROLE_WEIGHT, {IG_F32, IG_SHAPE(0, 4)}},
        [SCALAR] = {"s", IG_ROLE_WEIGHT, {IG_F64, {0}}},
        [MEAN] = {"fc1.weight#mean", IG_ROLE_OPTIMIZER, {IG_F32, IG_SHAPE(3, 5)}},
    };
    memcpy(entries, all, sizeof all);
    return (ig_oam_content){
        .config = "{\"model\": \"char-mlp\",\n \"hidden\": 128}",
        .progress = "{}",
        .optimizer = "{\"kind\":\"adamw\"}",
        .seed = 0x0123456789abcdef,
        .step = 42,
        .entries = entries,
        .count = N_TENSORS,
    };
}

static oam_bytes sample(void) {
    ig_oam_entry entries[N_TENSORS];
    const ig_oam_content content = sample_content(entries);
    const oam_bytes file = oam_encode(&content, sample_bytes);
    assert_non_null(file.bytes);
    return file;
}

/* Open, verify, close: the first failure. */
static ig_status check(const uint8_t *bytes, size_t size) {
    ig_oam *oam;
    const ig_status opened = ig_oam_open(&ig_heap, "sample.oam", bytes, size, &oam);
    if (opened != IG_OK) return opened;
    const ig_status verified = ig_oam_verify(oam);
    ig_oam_close(oam);
    return verified;
}

static uint8_t *section_row(const oam_bytes *file, uint32_t kind) {
    uint8_t *row = file->bytes + OAM_HEADER_BYTES;
    while (oam_get32(row) != kind) row += OAM_SECTION_BYTES;
    return row;
}

static uint8_t *section(const oam_bytes *file, uint32_t kind) {
    return file->bytes + oam_get64(section_row(file, kind) + OAM_SECTION_OFFSET);
}

static uint8_t *entry(const oam_bytes *file, int i) {
    uint8_t *p = section(file, OAM_INDEX) + OAM_INDEX_BYTES;
    for (; i > 0; i--) {
        uint64_t step = 0;
        oam_align_up(OAM_ENTRY_NAME + oam_get32(p + OAM_ENTRY_NAME_BYTES), OAM_ALIGN, &step);
        p += step;
    }
    return p;
}

/* ---- Round trip ---- */

static void everything_comes_back_bit_for_bit(void **state) {
    (void)state;
    oam_bytes file = sample();
    ig_oam *oam;
    assert_int_equal(ig_oam_open(&ig_heap, "sample.oam", file.bytes, file.size, &oam), IG_OK);
    assert_int_equal(ig_oam_verify(oam), IG_OK);
    assert_int_equal(ig_oam_version(oam), 1);
    assert_int_equal(ig_oam_file_bytes(oam), file.size);
    assert_string_equal(ig_oam_config(oam), "{\"model\": \"char-mlp\",\n \"hidden\": 128}");
    assert_string_equal(ig_oam_progress(oam), "{}");
    assert_string_equal(ig_oam_optimizer(oam), "{\"kind\":\"adamw\"}");
    assert_int_equal(ig_oam_seed(oam), 0x0123456789abcdef);
    assert_int_equal(ig_oam_step(oam), 42);

    ig_oam_entry entries[N_TENSORS];
    sample_content(entries);
    assert_int_equal(ig_oam_count(oam), N_TENSORS);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const ig_checkpoint_tensor t = ig_oam_get(oam, i);
        uint64_t n_bytes;
        assert_true(ig_desc_bytes(entries[i].desc, &n_bytes));
        assert_string_equal(t.name, entries[i].name);
        assert_int_equal(t.role, entries[i].role);
        assert_int_equal(t.desc.dtype, entries[i].desc.dtype);
        assert_true(ig_shape_equal(t.desc.shape, entries[i].desc.shape));
        assert_int_equal(t.n_bytes, n_bytes);
        assert_int_equal(t.offset % OAM_ALIGN_TENSOR, 0);
        if (n_bytes > 0) assert_memory_equal(t.bytes, sample_bytes[i], n_bytes);
        assert_int_equal(ig_oam_verify_tensor(oam, i), IG_OK);
    }
    assert_int_equal(ig_oam_get(oam, 0).offset % OAM_ALIGN_DATA, 0);
    ig_oam_close(oam);
    free(file.bytes);
}

static void tensors_are_found_by_name(void **state) {
    (void)state;
    oam_bytes file = sample();
    ig_oam *oam;
    assert_int_equal(ig_oam_open(&ig_heap, "sample.oam", file.bytes, file.size, &oam), IG_OK);
    for (size_t i = 0; i < N_TENSORS; i++) {
        size_t found;
        assert_true(ig_oam_find(oam, ig_oam_get(oam, i).name, &found));
        assert_int_equal(found, i);
    }
    size_t untouched = 99;
    assert_false(ig_oam_find(oam, "fc1", &untouched));
    assert_false(ig_oam_find(oam, "", &untouched));
    assert_false(ig_oam_find(oam, "zzz", &untouched));
    assert_int_equal(untouched, 99);
    ig_oam_close(oam);
    free(file.bytes);
}

static void a_file_may_be_empty_of_texts_and_tensors(void **state) {
    (void)state;
    oam_bytes file = oam_encode(&(ig_oam_content){.step = 7}, NULL);
    ig_oam *oam;
    assert_int_equal(ig_oam_open(&ig_heap, "empty.oam", file.bytes, file.size, &oam), IG_OK);
    assert_int_equal(ig_oam_verify(oam), IG_OK);
    assert_null(ig_oam_config(oam));
    assert_null(ig_oam_progress(oam));
    assert_null(ig_oam_optimizer(oam));
    assert_int_equal(ig_oam_count(oam), 0);
    assert_int_equal(ig_oam_step(oam), 7);
    size_t i;
    assert_false(ig_oam_find(oam, "a", &i));
    ig_oam_close(oam);
    free(file.bytes);
}

/* ---- Damage ---- */

static void a_file_cut_off_at_any_byte_is_refused(void **state) {
    (void)state;
    oam_bytes file = sample();
    for (size_t n = 0; n < file.size; n++) {
        uint8_t *part = malloc(n ? n : 1);
        memcpy(part, file.bytes, n);
        if (check(part, n) != IG_ERR_FORMAT) fail_msg("%zu of %zu bytes passed", n, file.size);
        free(part);
    }
    free(file.bytes);
}

static void a_file_with_trailing_bytes_is_refused(void **state) {
    (void)state;
    oam_bytes file = sample();
    file.bytes = realloc(file.bytes, file.size + 64);
    memset(file.bytes + file.size, 0, 64);
    assert_int_equal(check(file.bytes, file.size + 64), IG_ERR_FORMAT);
    assert_non_null(strstr(ig_error_text(), "sample.oam: is too long"));
    free(file.bytes);
}

static void every_single_flipped_bit_is_found(void **state) {
    (void)state;
    oam_bytes file = sample();
    for (size_t bit = 0; bit < file.size * 8; bit++) {
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (check(file.bytes, file.size) != IG_ERR_FORMAT)
            fail_msg("bit %zu of byte %zu passed", bit % 8, bit / 8);
        file.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(check(file.bytes, file.size), IG_OK);
    free(file.bytes);
}

static void damaged_numbers_are_found_by_verify_and_named(void **state) {
    (void)state;
    oam_bytes file = sample();
    ig_oam *oam;
    file.bytes[oam_get64(entry(&file, BIAS) + OAM_ENTRY_OFFSET) + 1] ^= 4;
    assert_int_equal(ig_oam_open(&ig_heap, "sample.oam", file.bytes, file.size, &oam), IG_OK);
    assert_int_equal(ig_oam_verify(oam), IG_ERR_FORMAT);
    assert_non_null(strstr(ig_error_text(), "sample.oam: DATA is damaged: fc1.bias"));
    assert_int_equal(ig_oam_verify_tensor(oam, BIAS), IG_ERR_FORMAT);
    assert_int_equal(ig_oam_verify_tensor(oam, WEIGHT), IG_OK);
    ig_oam_close(oam);
    free(file.bytes);
}

static void a_newer_version_is_refused_with_both_numbers(void **state) {
    (void)state;
    oam_bytes file = sample();
    oam_put32(file.bytes + OAM_AT_VERSION, 7);
    oam_repair(file.bytes, file.size);
    assert_int_equal(check(file.bytes, file.size), IG_ERR_FORMAT);
    assert_non_null(strstr(ig_error_text(), "version 7, this program reads up to 1"));
    free(file.bytes);
}

/* ---- Malice: numbers that lie, under checksums that are right ---- */

typedef struct lie {
    const char *words;               /* what the message must have in it */
    uint8_t *(*at)(oam_bytes *file); /* the field */
    int bytes;                       /* 1, 4 or 8 */
    uint64_t value;
} lie;

#define AT(name, place) \
    static uint8_t *name(oam_bytes *f) { return place; }
AT(magic, f->bytes)
AT(version, f->bytes + OAM_AT_VERSION)
AT(header_bytes, f->bytes + OAM_AT_HEADER_BYTES)
AT(n_sections, f->bytes + OAM_AT_N_SECTIONS)
AT(table_at, f->bytes + OAM_AT_TABLE)
AT(file_bytes, f->bytes + OAM_AT_FILE_BYTES)
AT(reserved, f->bytes + OAM_AT_RESERVED + 9)
AT(progress_kind, section_row(f, OAM_PROGRESS))
AT(state_kind, section_row(f, OAM_STATE))
AT(state_reserved, section_row(f, OAM_STATE) + OAM_SECTION_RESERVED)
AT(state_size, section_row(f, OAM_STATE) + OAM_SECTION_SIZE)
AT(index_at, section_row(f, OAM_INDEX) + OAM_SECTION_OFFSET)
AT(data_at, section_row(f, OAM_DATA) + OAM_SECTION_OFFSET)
AT(data_size, section_row(f, OAM_DATA) + OAM_SECTION_SIZE)
AT(pad_before_data, section(f, OAM_DATA) - 1)
AT(config_text, section(f, OAM_CONFIG))
AT(config_middle, section(f, OAM_CONFIG) + 5)
AT(progress_end, section(f, OAM_PROGRESS) + 2)
AT(count, section(f, OAM_INDEX))
AT(offset, entry(f, BIAS) + OAM_ENTRY_OFFSET)
AT(size, entry(f, BIAS) + OAM_ENTRY_SIZE)
AT(role, entry(f, BIAS) + OAM_ENTRY_ROLE)
AT(dtype, entry(f, BIAS) + OAM_ENTRY_DTYPE)
AT(rank, entry(f, BIAS) + OAM_ENTRY_RANK)
AT(name_bytes, entry(f, BIAS) + OAM_ENTRY_NAME_BYTES)
AT(dim0, entry(f, BIAS) + OAM_ENTRY_DIMS)
AT(dim1, entry(f, BIAS) + OAM_ENTRY_DIMS + 8)
AT(empty_dim1, entry(f, EMPTY) + OAM_ENTRY_DIMS + 8)
AT(letter, entry(f, BIAS) + OAM_ENTRY_NAME + 2)
AT(after_name, entry(f, BIAS) + OAM_ENTRY_NAME + 9)
AT(last_name_bytes, entry(f, MEAN) + OAM_ENTRY_NAME_BYTES)
AT(tensor_pad, f->bytes + oam_get64(entry(f, WEIGHT) + OAM_ENTRY_OFFSET) + 60)
#undef AT

static const lie lies[] = {
    {"is neither an .oam nor a .gguf file", magic, 1, 'o'},
    {"version 0 has values", version, 4, 0},
    {"has values that it never has", header_bytes, 4, 128},
    {"has 7 sections", n_sections, 4, 7},
    {"has 4294967295 sections", n_sections, 4, UINT32_MAX},
    {"after a section that ends at", n_sections, 4, 5},
    {"the sections end at 64", n_sections, 4, 0},
    {"has values that it never has", table_at, 8, 128},
    {"is cut off", file_bytes, 8, UINT64_MAX},
    {"is too long", file_bytes, 8, 64},
    {"has values that it never has", reserved, 1, 1},
    {"a section of kind 1 after one of kind 1", progress_kind, 4, OAM_CONFIG},
    {"a section of kind 0", progress_kind, 4, 0},
    {"a section of kind 7", state_kind, 4, OAM_KIND_END},
    {"a section of kind 4294967295", state_kind, 4, UINT32_MAX},
    {"row of STATE has values", state_reserved, 4, 1},
    {"INDEX has", state_size, 8, 24},
    {"STATE has 15 bytes", state_size, 8, 15},
    {"STATE has 18446744073709551615 bytes", state_size, 8, UINT64_MAX},
    {"INDEX has", index_at, 8, 352},
    {"INDEX has", index_at, 8, UINT64_MAX - 7},
    {"DATA has", data_at, 8, 8192},
    {"DATA has", data_at, 8, 0},
    {"DATA has", data_size, 8, UINT64_MAX},
    {"the sections end at", data_size, 8, 64},
    {"the bytes before DATA are not zeros", pad_before_data, 1, 1},
    {"CONFIG is not JSON", config_text, 1, 'x'},
    {"CONFIG is not a text", config_middle, 1, 0},
    {"PROGRESS is not a text", progress_end, 1, ' '},
    {"6 tensors do not fit", count, 8, 6},
    {"18446744073709551615 tensors do not fit", count, 8, UINT64_MAX},
    {"belong to no tensor", count, 8, 4},
    {"fc1.bias: 6 bytes at 4096", offset, 8, 4096},
    {"fc1.bias: 6 bytes at 4161", offset, 8, 4161},
    {"fc1.bias: 6 bytes at 0", offset, 8, 0},
    {"fc1.bias: 6 bytes at 18446744073709551615", offset, 8, UINT64_MAX},
    {"fc1.bias: 8 bytes are not [3] of f16", size, 8, 8},
    {"fc1.bias: role 2", role, 4, 2},
    {"fc1.bias: role 0, dtype 255", dtype, 4, 255},
    {"rank 7", rank, 4, 7},
    {"rank 4294967295", rank, 4, UINT32_MAX},
    {"has extents beyond its rank 0", rank, 4, 0},
    {"tensor 1 is cut off", name_bytes, 4, 0},
    {"tensor 1 is cut off", name_bytes, 4, 1},
    {"tensor 1 is cut off", name_bytes, 4, 8},
    {"tensor 1 is cut off", name_bytes, 4, UINT32_MAX},
    {"tensor 4 is cut off", last_name_bytes, 4, 1024},
    {"fc1.bias: 6 bytes are not [2] of f16", dim0, 8, 2},
    {"fc1.bias: 6 bytes are not [-1] of f16", dim0, 8, UINT64_MAX},
    {"fc1.bias: 6 bytes are not [9223372036854775807] of f16", dim0, 8, INT64_MAX},
    {"has extents beyond its rank 1", dim1, 8, 1},
    {"tensor 1 is cut off or has no valid name", letter, 1, '\n'},
    {"tensor 1 is cut off or has no valid name", letter, 1, 0x7f},
    {"tensor 1 is cut off or has no valid name", letter, 1, 0xff},
    {"tensor 1 is cut off or has no valid name", letter, 1, 0},
    {"tensor 1 is cut off or has no valid name", after_name, 1, 1},
    {"no zeros before fc1.bias", tensor_pad, 1, 1},
};

static void numbers_that_lie_under_right_checksums_are_refused_and_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        oam_bytes file = sample();
        uint8_t *at = lies[i].at(&file);
        for (int b = 0; b < lies[i].bytes; b++) at[b] = (uint8_t)(lies[i].value >> 8 * b);
        oam_repair(file.bytes, file.size);
        const ig_status status = check(file.bytes, file.size);
        if (status != IG_ERR_FORMAT || !strstr(ig_error_text(), lies[i].words))
            fail_msg("wanted \"%s\", got %d \"%s\"", lies[i].words, (int)status, ig_error_text());
        free(file.bytes);
    }
}

static void an_empty_tensor_may_have_any_other_extent_that_can_be_counted(void **state) {
    (void)state;
    oam_bytes file = sample();
    oam_put64(empty_dim1(&file), UINT64_C(1) << 40); /* [0, 2^40] has no bytes either */
    oam_repair(file.bytes, file.size);
    assert_int_equal(check(file.bytes, file.size), IG_OK);
    free(file.bytes);
}

static void a_name_that_is_there_twice_is_refused(void **state) {
    (void)state;
    ig_oam_entry entries[] = {
        {"a.weight", IG_ROLE_WEIGHT, {IG_F64, {0}}},
        {"b.weight", IG_ROLE_OPTIMIZER, {IG_F64, {0}}},
    };
    const void *const bytes[] = {&scalar, &scalar};
    const ig_oam_content content = {.entries = entries, .count = 2};
    oam_bytes file = oam_encode(&content, bytes);
    entry(&file, 1)[OAM_ENTRY_NAME] = 'a';
    oam_repair(file.bytes, file.size);
    assert_int_equal(check(file.bytes, file.size), IG_ERR_FORMAT);
    assert_non_null(strstr(ig_error_text(), "sample.oam: has a.weight twice"));
    free(file.bytes);
}

/* ---- What is not written ---- */

static void assert_refused(const ig_oam_content *content, const char *words) {
    ig_oam_writer *writer = NULL;
    assert_int_equal(ig_oam_writer_create(&ig_heap, "x.oam", content, &writer), IG_ERR_ARGUMENT);
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" not in: %s", words, ig_error_text());
    assert_null(writer);
}

static void texts_that_are_no_json_objects_are_not_written(void **state) {
    (void)state;
    assert_refused(&(ig_oam_content){.config = ""}, "x.oam: config is not JSON");
    assert_refused(&(ig_oam_content){.config = "{\"a\":1"}, "x.oam: config is not JSON");
    assert_refused(&(ig_oam_content){.progress = "[1]"}, "x.oam: progress is not a JSON object");
    assert_refused(&(ig_oam_content){.progress = "{\"a\":1,\"a\":2}"}, "progress is not JSON");
    assert_refused(&(ig_oam_content){.optimizer = "{\"a\":\"\xff\"}"}, "optimizer is not JSON");

    char *large = malloc(OAM_MAX_TEXT_BYTES + 1);
    memset(large, ' ', OAM_MAX_TEXT_BYTES);
    memcpy(large, "{}", 2);
    large[OAM_MAX_TEXT_BYTES] = '\0';
    assert_refused(&(ig_oam_content){.config = large}, "config has 4194305 bytes, at most 4194304");
    free(large);
}

static void names_and_shapes_that_cannot_come_back_are_not_written(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",         "a\nb",         "\x1b[31m",     "a\x7f",
        "\xc2\x80", "\xc0\xaf",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xe2\x82", "\xf8\x88\x80", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const ig_oam_entry e = {bad[i], IG_ROLE_WEIGHT, {IG_F32, {0}}};
        assert_refused(&(ig_oam_content){.entries = &e, .count = 1}, "the name of tensor 0");
    }
    static char long_name[OAM_MAX_NAME_BYTES + 2];
    memset(long_name, 'a', OAM_MAX_NAME_BYTES + 1);
    const ig_oam_entry too_long = {long_name, IG_ROLE_WEIGHT, {IG_F32, {0}}};
    assert_refused(&(ig_oam_content){.entries = &too_long, .count = 1}, "the name of tensor 0");

    const ig_oam_entry same[] = {{"a", IG_ROLE_WEIGHT, {IG_F32, {0}}},
                                 {"b", IG_ROLE_WEIGHT, {IG_F32, {0}}},
                                 {"a", IG_ROLE_OPTIMIZER, {IG_F32, {0}}}};
    assert_refused(&(ig_oam_content){.entries = same, .count = 3}, "two tensors are called a");

    const ig_oam_entry negative = {"a", IG_ROLE_WEIGHT, {IG_F32, IG_SHAPE(-1)}};
    assert_refused(&(ig_oam_content){.entries = &negative, .count = 1}, "x.oam: a: f32");
    const ig_oam_entry huge[] = {{"a", IG_ROLE_WEIGHT, {IG_F32, IG_SHAPE(INT64_C(1) << 60)}},
                                 {"b", IG_ROLE_WEIGHT, {IG_F32, IG_SHAPE(INT64_C(1) << 60)}}};
    assert_refused(&(ig_oam_content){.entries = huge, .count = 2}, "too large for a file");
}

static void the_longest_name_and_the_largest_character_come_back(void **state) {
    (void)state;
    static const char largest[4] = {'\xf4', '\x8f', '\xbf', '\xbf'}; /* U+10FFFF */
    static char name[OAM_MAX_NAME_BYTES + 1];
    for (size_t i = 0; i < OAM_MAX_NAME_BYTES; i++) name[i] = largest[i % 4];
    const ig_oam_entry e = {name, IG_ROLE_WEIGHT, {IG_F64, {0}}};
    const void *const bytes[] = {&scalar};
    const ig_oam_content content = {.entries = &e, .count = 1};
    oam_bytes file = oam_encode(&content, bytes);
    assert_int_equal(check(file.bytes, file.size), IG_OK);
    free(file.bytes);
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
    (void)state;
    oam_bytes file = sample();
    ig_oam_entry entries[N_TENSORS];
    const ig_oam_content content = sample_content(entries);
    scarce memory = {0};
    const ig_allocator a = {scarce_alloc, scarce_free, &memory};

    ig_status opened = IG_ERR_MEMORY, created = IG_ERR_MEMORY;
    for (int n = 0; opened != IG_OK || created != IG_OK; n++) {
        ig_oam *oam = NULL;
        memory.left = n;
        opened = ig_oam_open(&a, "sample.oam", file.bytes, file.size, &oam);
        ig_oam_close(oam);
        ig_oam_writer *writer = NULL;
        memory.left = n;
        created = ig_oam_writer_create(&a, "sample.oam", &content, &writer);
        ig_oam_writer_destroy(writer);
        assert_int_equal(memory.alive, 0);
        assert_true(opened == IG_OK || opened == IG_ERR_MEMORY);
        assert_true(created == IG_OK || created == IG_ERR_MEMORY);
        assert_true(n < 10);
    }
    free(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back_bit_for_bit),
        cmocka_unit_test(tensors_are_found_by_name),
        cmocka_unit_test(a_file_may_be_empty_of_texts_and_tensors),
        cmocka_unit_test(a_file_cut_off_at_any_byte_is_refused),
        cmocka_unit_test(a_file_with_trailing_bytes_is_refused),
        cmocka_unit_test(every_single_flipped_bit_is_found),
        cmocka_unit_test(damaged_numbers_are_found_by_verify_and_named),
        cmocka_unit_test(a_newer_version_is_refused_with_both_numbers),
        cmocka_unit_test(numbers_that_lie_under_right_checksums_are_refused_and_named),
        cmocka_unit_test(an_empty_tensor_may_have_any_other_extent_that_can_be_counted),
        cmocka_unit_test(a_name_that_is_there_twice_is_refused),
        cmocka_unit_test(texts_that_are_no_json_objects_are_not_written),
        cmocka_unit_test(names_and_shapes_that_cannot_come_back_are_not_written),
        cmocka_unit_test(the_longest_name_and_the_largest_character_come_back),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
