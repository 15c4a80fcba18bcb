/* Training text: every window once an epoch, the same again from the same place, none from the
 * part that validates. */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "directory.h"
#include "ingot/data.h"
#include "ingot/model.h"
#include "nn/data_order.h"

enum { CTX = 16, ROW = CTX + 1, BYTES = 4000 };

typedef struct fixture {
    ig_ctx *ctx;
    ig_adapter *adapter;
    void *directory;
} fixture;

static int open_fixture(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f || directory_make(&f->directory) != 0) return -1;
    must(ig_ctx_create(&(ig_ctx_options){.threads = 1}, &f->ctx));
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    ig_adapter_destroy(f->adapter);
    ig_ctx_destroy(f->ctx);
    const int failed = directory_remove(&f->directory);
    free(f);
    return failed;
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

/* The smallest model there is: only its tokenizer matters. */
static void make_adapter(fixture *f, const char *tokenizer, const char *sample, size_t bytes) {
    ig_model_config config = {.d_model = 2, .n_layers = 1, .d_ff = 2, .ctx_len = CTX};
    config.tokenizer = tokenizer;
    config.sample = sample;
    config.sample_bytes = bytes;
    must(ig_adapter_create(f->ctx, "tinyllm", &config, &f->adapter));
}

/* Bytes of which no few occur twice in the same order. */
static void fill(char *out, size_t bytes) {
    uint32_t x = 12345;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (char)(x >> 24);
    }
}

static const char *write_file(const fixture *f, const char *name, const char *bytes, size_t n_bytes,
                              char path[PATH_BYTES]) {
    directory_path((void **)&f->directory, name, path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static ig_data *open_data(const fixture *f, const char *const *paths, size_t n_paths, double split,
                          uint64_t seed) {
    ig_data *d = NULL;
    must(ig_data_open(paths, n_paths, NULL, &d));
    must(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter),
                                             .ctx_len = CTX,
                                             .val_split = split,
                                             .seed = seed}));
    return d;
}

/* Where in the text a window of byte tokens is. */
static size_t place_of(const char *text, size_t bytes, const int32_t *row) {
    char window[ROW];
    for (int i = 0; i < ROW; i++) {
        assert_in_range(row[i], 0, 255);
        window[i] = (char)row[i];
    }
    const char *at = memmem(text, bytes, window, ROW);
    assert_non_null(at);
    assert_null(memmem(at + 1, bytes - (size_t)(at + 1 - text), window, ROW));
    return (size_t)(at - text);
}

/* ---- Order ---- */

static void a_permutation_has_every_number_once(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000};
    static bool seen[1000];
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < counts[c]; i++) {
                const uint64_t at = ig_data_permute(i, counts[c], 7, epoch);
                assert_true(at < counts[c]);
                assert_false(seen[at]);
                seen[at] = true;
            }
        }
}

static void seed_and_epoch_change_the_order(void **state) {
    (void)state;
    int same_seed = 0, same_epoch = 0, in_order = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t at = ig_data_permute(i, 1000, 1, 0);
        same_seed += at == ig_data_permute(i, 1000, UINT64_C(1) << 33, 0);
        same_epoch += at == ig_data_permute(i, 1000, 1, 1);
        in_order += at == i;
    }
    assert_true(same_seed < 20 && same_epoch < 20 && in_order < 20);
}

static void large_counts_are_permuted_too(void **state) {
    (void)state;
    const uint64_t count = (UINT64_C(1) << 40) + 3;
    for (uint64_t i = 0; i < 100; i++)
        for (uint64_t j = 0; j < i; j++)
            assert_true(ig_data_permute(i, count, 5, 9) != ig_data_permute(j, count, 5, 9));
}

/* ---- Windows of bytes ---- */

static void an_epoch_has_every_window_once_and_none_of_validation(void **state) {
    fixture *f = *state;
    char text[BYTES], path[PATH_BYTES];
    bool seen[BYTES] = {false};
    int32_t row[ROW];
    make_adapter(f, NULL, NULL, 0);
    fill(text, BYTES);
    const char *paths[] = {write_file(f, "a", text, BYTES, path)};
    ig_data *d = open_data(f, paths, 1, 0.1, 3);
    const int64_t windows = ig_data_windows(d);
    assert_in_range(windows, 3600 / CTX - 2, 3600 / CTX);
    for (int64_t i = 0; i < windows; i++) {
        assert_int_equal(ig_data_tell(d).window, i);
        must(ig_data_next(d, 1, row));
        const size_t at = place_of(text, BYTES, row);
        assert_true(at + ROW <= 3600);
        for (size_t j = at; j < at + CTX; j++) {
            assert_false(seen[j]); /* the last token of a window is the next one's first */
            seen[j] = true;
        }
    }
    assert_int_equal(ig_data_tell(d).epoch, 1);
    assert_int_equal(ig_data_tell(d).window, 0);

    assert_int_equal(ig_data_val_windows(d), 399 / CTX);
    for (int64_t i = 0; i < ig_data_val_windows(d); i++) {
        must(ig_data_validation(d, i, row));
        assert_int_equal(place_of(text, BYTES, row), 3600 + i * CTX);
    }
    ig_data_close(d);
}

static void epochs_begin_at_different_places(void **state) {
    fixture *f = *state;
    char text[BYTES], path[PATH_BYTES];
    int32_t row[ROW];
    bool phases[CTX] = {false};
    make_adapter(f, NULL, NULL, 0);
    fill(text, BYTES);
    const char *paths[] = {write_file(f, "a", text, BYTES, path)};
    ig_data *d = open_data(f, paths, 1, 0, 3);
    for (uint64_t epoch = 0; epoch < 50; epoch++) {
        ig_data_cursor cursor = ig_data_tell(d);
        cursor.epoch = epoch, cursor.window = 0;
        assert_true(ig_data_seek(d, cursor));
        must(ig_data_next(d, 1, row));
        phases[place_of(text, BYTES, row) % CTX] = true;
    }
    int different = 0;
    for (int i = 0; i < CTX; i++) different += phases[i];
    assert_true(different > CTX / 2);
    ig_data_close(d);
}

static void several_files_are_one_text(void **state) {
    fixture *f = *state;
    char text[BYTES], path[3][PATH_BYTES];
    int32_t rows[4 * ROW];
    make_adapter(f, NULL, NULL, 0);
    fill(text, BYTES);
    const char *paths[] = {write_file(f, "a", text, 1000, path[0]),
                           write_file(f, "b", text + 1000, 5, path[1]),
                           write_file(f, "c", text + 1005, BYTES - 1005, path[2])};
    ig_data *d = open_data(f, paths, 3, 0, 3);
    assert_int_equal(ig_data_bytes(d), BYTES);
    bool crossed = false;
    for (int i = 0; i < 100; i++) {
        must(ig_data_next(d, 4, rows));
        for (int r = 0; r < 4; r++) {
            const size_t at = place_of(text, BYTES, rows + r * ROW);
            crossed = crossed || (at < 1000 && at + ROW > 1005);
        }
    }
    assert_true(crossed);
    ig_data_close(d);
}

static void the_text_continues_from_a_saved_place(void **state) {
    fixture *f = *state;
    char text[BYTES], path[PATH_BYTES];
    int32_t want[3 * ROW], got[3 * ROW];
    make_adapter(f, NULL, NULL, 0);
    fill(text, BYTES);
    const char *paths[] = {write_file(f, "a", text, BYTES, path)};
    ig_data *d = open_data(f, paths, 1, 0.1, 3), *other = open_data(f, paths, 1, 0.1, 3);
    for (int i = 0; i < 200; i++) { /* more than two epochs */
        const ig_data_cursor cursor = ig_data_tell(d);
        must(ig_data_next(d, 3, want));
        assert_true(ig_data_seek(other, cursor));
        must(ig_data_next(other, 3, got));
        assert_memory_equal(got, want, sizeof got);
    }
    assert_true(ig_data_tell(d).epoch >= 2);
    ig_data_close(other);

    /* Another part for validation is another text. */
    other = open_data(f, paths, 1, 0.2, 3);
    assert_false(ig_data_seek(other, ig_data_tell(d)));
    assert_int_equal(ig_data_tell(other).window, 0);
    const ig_data_cursor nonsense = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    assert_false(ig_data_seek(other, nonsense));
    ig_data_close(other);
    ig_data_close(d);
}

static void one_window_is_enough(void **state) {
    fixture *f = *state;
    char text[3 * ROW], path[PATH_BYTES];
    int32_t row[ROW];
    make_adapter(f, NULL, NULL, 0);
    fill(text, sizeof text);
    for (size_t bytes = ROW; bytes < sizeof text; bytes++) {
        const char *paths[] = {write_file(f, "a", text, bytes, path)};
        ig_data *d = open_data(f, paths, 1, 0.05, 3);
        assert_int_equal(ig_data_windows(d), bytes > 3 * CTX ? 2 : 1);
        assert_int_equal(ig_data_val_windows(d), 0);
        for (int i = 0; i < 5; i++) {
            must(ig_data_next(d, 1, row));
            assert_true(place_of(text, bytes, row) + ROW <= bytes);
        }
        ig_data_close(d);
    }
}

static void a_file_larger_than_memory_is_not_read(void **state) {
    fixture *f = *state;
    char path[PATH_BYTES];
    int32_t row[ROW];
    make_adapter(f, NULL, NULL, 0);
    const char *paths[] = {write_file(f, "a", "", 0, path)};
    if (truncate(path, (off_t)1 << 40) != 0) skip(); /* this file system has no room for holes */
    ig_data *d = NULL;
    if (ig_data_open(paths, 1, NULL, &d) != IG_OK) skip(); /* nor has the address space */
    must(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter),
                                             .ctx_len = CTX,
                                             .val_split = 0.1}));
    assert_true(ig_data_windows(d) > (INT64_C(1) << 34));
    for (int i = 0; i < 100; i++) must(ig_data_next(d, 1, row));
    assert_int_equal(row[0], 0);
    ig_data_close(d);
}

/* ---- Other tokenizers ---- */

/* Words with characters of one to four bytes. */
static size_t write_words(char *out, size_t room) {
    static const char *const words[] = {"fox ",  "na\xC3\xAFve ",     "\xE2\x82\xAC ",
                                        "hill ", "\xF0\x9F\x8C\xBE ", "mill\n"};
    size_t used = 0;
    for (uint32_t x = 1; used + 8 < room; x = x * 1664525u + 1013904223u) {
        const char *word = words[(x >> 20) % 6];
        memcpy(out + used, word, strlen(word));
        used += strlen(word);
    }
    return used;
}

static void check_tokenizer(fixture *f, const char *tokenizer) {
    static char text[BYTES];
    char path[PATH_BYTES], decoded[BYTES];
    int32_t row[ROW];
    const size_t bytes = write_words(text, sizeof text);
    make_adapter(f, tokenizer, text, bytes);
    const char *paths[] = {write_file(f, "a", text, bytes, path)};
    ig_data *d = open_data(f, paths, 1, 0.2, 3);
    assert_true(ig_data_windows(d) >= 2 && ig_data_val_windows(d) >= 2);
    for (int i = 0; i < 300; i++) {
        const bool validates = i % 3 == 0;
        if (validates)
            must(ig_data_validation(d, i % ig_data_val_windows(d), row));
        else
            must(ig_data_next(d, 1, row));
        const size_t n =
            ig_detokenize(ig_adapter_tokenizer(f->adapter), row, ROW, 0, decoded, sizeof decoded);
        /* Of the text, and of its right part. */
        const size_t from = validates ? bytes - bytes / 5 - 1 : 0;
        const size_t to = validates ? bytes : bytes - bytes / 5 + 1;
        assert_non_null(memmem(text + from, to - from, decoded, n));
    }
    ig_data_close(d);
}

static void windows_of_characters_are_whole_characters(void **state) {
    check_tokenizer(*state, "char");
}

static void windows_of_learned_pieces_are_text(void **state) { check_tokenizer(*state, "bpe:40"); }

static void too_few_tokens_are_counted(void **state) {
    fixture *f = *state;
    char path[PATH_BYTES];
    static const char text[] = "the mill the mill the mill the mill";
    make_adapter(f, "bpe:20", text, sizeof text - 1);
    const char *paths[] = {write_file(f, "a", text, sizeof text - 1, path)};
    ig_data *d = NULL;
    must(ig_data_open(paths, 1, NULL, &d));
    refused(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter),
                                                .ctx_len = CTX}),
            IG_ERR_ARGUMENT, "context 16 needs 17 tokens, ");
    ig_data_close(d);
}

/* ---- Samples for tokenizers ---- */

static void a_sample_is_all_or_spread_over_all(void **state) {
    fixture *f = *state;
    enum { LARGE = 1 << 20 };
    static char text[LARGE];
    char path[PATH_BYTES];
    ig_string_view sample;
    for (size_t i = 0; i < LARGE; i++) text[i] = (char)('a' + i * 26 / LARGE);
    const char *paths[] = {write_file(f, "a", text, LARGE, path)};
    ig_data *d = NULL;
    must(ig_data_open(paths, 1, NULL, &d));
    must(ig_data_sample(d, LARGE, &sample));
    assert_int_equal(sample.n_bytes, LARGE);
    assert_memory_equal(sample.bytes, text, LARGE);
    must(ig_data_sample(d, LARGE / 4, &sample));
    assert_int_equal(sample.n_bytes, LARGE / 4);
    assert_int_equal(sample.bytes[0], 'a');
    assert_true(sample.bytes[sample.n_bytes - 1] >= 'y');
    assert_non_null(memchr(sample.bytes, 'i', sample.n_bytes));
    must(ig_data_sample(d, 1, &sample));
    assert_int_equal(sample.n_bytes, 1);
    ig_data_close(d);
}

/* ---- Errors ---- */

static void bad_files_are_named(void **state) {
    fixture *f = *state;
    char empty[PATH_BYTES], some[PATH_BYTES];
    write_file(f, "empty", "", 0, empty);
    write_file(f, "some", "0123456789012345678901234567890123456789", 40, some);
    ig_data *d = NULL;
    refused(ig_data_open((const char *const[]){some, empty}, 2, NULL, &d), IG_ERR_FORMAT,
            "empty: is empty");
    refused(ig_data_open((const char *const[]){"/nowhere/at/all"}, 1, NULL, &d), IG_ERR_IO,
            "/nowhere/at/all");
    refused(ig_data_open((const char *const[]){"/"}, 1, NULL, &d), IG_ERR_IO, "directory");
    refused(ig_data_open(NULL, 0, NULL, &d), IG_ERR_ARGUMENT, "no file");
    assert_null(d);

    make_adapter(f, NULL, NULL, 0);
    must(ig_data_open((const char *const[]){some, some}, 2, NULL, &d));
    refused(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter),
                                                .ctx_len = 128}),
            IG_ERR_ARGUMENT, "some and 1 more have 80");
    refused(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter)}),
            IG_ERR_ARGUMENT, "context of 0");
    refused(ig_data_begin(d, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(f->adapter),
                                                .ctx_len = CTX,
                                                .val_split = 1}),
            IG_ERR_ARGUMENT, "split of 1");
    ig_data_close(d);
    ig_data_close(NULL);
}

static void calls_out_of_order_or_range_are_refused(void **state) {
    fixture *f = *state;
    static char text[BYTES];
    char path[PATH_BYTES];
    int32_t row[ROW];
    ig_string_view sample;
    fill(text, sizeof text);
    const char *paths[] = {write_file(f, "a", text, sizeof text, path)};
    const ig_data_options options = {.ctx_len = CTX, .val_split = 0.1}; /* of bytes */
    ig_data *d = NULL;
    refused(ig_data_open(paths, 1, NULL, NULL), IG_ERR_ARGUMENT, "NULL");
    must(ig_data_open(paths, 1, NULL, &d));
    assert_int_equal(ig_data_windows(d), 0);
    refused(ig_data_next(d, 1, row), IG_ERR_STATE, "call ig_data_begin() first");
    refused(ig_data_validation(d, 0, row), IG_ERR_STATE, "call ig_data_begin() first");
    refused(ig_data_begin(d, NULL), IG_ERR_ARGUMENT, "NULL");
    refused(ig_data_sample(d, 1, NULL), IG_ERR_ARGUMENT, "NULL");
    refused(ig_data_sample(NULL, 1, &sample), IG_ERR_ARGUMENT, "NULL");
    must(ig_data_begin(d, &options));
    const int64_t windows = ig_data_val_windows(d);
    char words[64];
    snprintf(words, sizeof words, "validation window %d of %d", (int)windows, (int)windows);
    refused(ig_data_validation(d, windows, row), IG_ERR_ARGUMENT, words);
    refused(ig_data_validation(d, -1, row), IG_ERR_ARGUMENT, "validation window -1");
    refused(ig_data_next(d, 1, NULL), IG_ERR_ARGUMENT, "NULL");
    must(ig_data_validation(d, windows - 1, row));
    assert_true(place_of(text, sizeof text, row) >= BYTES - BYTES / 10);
    refused(ig_data_begin(d, &(ig_data_options){.ctx_len = BYTES}), IG_ERR_ARGUMENT, "needs 4001");
    refused(ig_data_next(d, 1, row), IG_ERR_STATE, "call ig_data_begin() first");
    ig_data_close(d);
}

static const char *told;
static void tell(const char *path) { told = path; }

static void the_file_that_is_read_is_told(void **state) {
    fixture *f = *state;
    char a[PATH_BYTES], b[PATH_BYTES];
    ig_string_view sample;
    const char *paths[] = {write_file(f, "a", "aaaa", 4, a), write_file(f, "b", "bbbb", 4, b)};
    ig_data *d = NULL;
    must(ig_data_open(paths, 2, &(ig_data_open_options){.reading = tell}, &d));
    must(ig_data_sample(d, 8, &sample));
    assert_memory_equal(sample.bytes, "aaaabbbb", 8);
    assert_ptr_equal(told, b);
    ig_data_close(d);
    assert_null(told);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permutation_has_every_number_once),
        cmocka_unit_test(seed_and_epoch_change_the_order),
        cmocka_unit_test(large_counts_are_permuted_too),
        WITH_FIXTURE(an_epoch_has_every_window_once_and_none_of_validation),
        WITH_FIXTURE(epochs_begin_at_different_places),
        WITH_FIXTURE(several_files_are_one_text),
        WITH_FIXTURE(the_text_continues_from_a_saved_place),
        WITH_FIXTURE(one_window_is_enough),
        WITH_FIXTURE(a_file_larger_than_memory_is_not_read),
        WITH_FIXTURE(windows_of_characters_are_whole_characters),
        WITH_FIXTURE(windows_of_learned_pieces_are_text),
        WITH_FIXTURE(too_few_tokens_are_counted),
        WITH_FIXTURE(a_sample_is_all_or_spread_over_all),
        WITH_FIXTURE(bad_files_are_named),
        WITH_FIXTURE(calls_out_of_order_or_range_are_refused),
        WITH_FIXTURE(the_file_that_is_read_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
