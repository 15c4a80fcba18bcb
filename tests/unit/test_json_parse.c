/* JSON texts: the same values as jansson's parser gives, and out of memory reported as such. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json_parse.h"
#include "check.h"

static const char *const texts[] = {
    "{}",
    " [ ] ",
    "{\"a\":1,\"b\":[true,false,null,-0,-12,1.5,2e3,1E-2,0.0]}",
    "{\"text\":\"tab\\t quote\\\" slash\\/ \\u00e9 \\ud83d\\ude00 \xc3\xa9\xe4\xbd\xa0\"}",
    "[9223372036854775807,-9223372036854775808]",
    "{\"a\":{\"a\":{\"a\":[[[1]]]}},\"a b\":\"\"}",
    "{\"long\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
    "{\"x\":1}trailing",
    "{\"x\":1,\"x\":2}",
    "[1,]",
    "[01]",
    "[1.]",
    "[.5]",
    "[1e]",
    "[+1]",
    "[9223372036854775808]",
    "[1e999]",
    "[\"\\u0000\"]",
    "[\"\\ud800\"]",
    "[\"\\udc00x\"]",
    "[\"\\q\"]",
    "[\"a\nb\"]",
    "[\"\xff\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"open",
    "{\"a\" 1}",
    "{1:2}",
    "[tru]",
    "\"text\"",
    "12",
    "",
    "[1 2]",
    "[\"\\u12g4\"]",
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static const size_t flags[] = {0, JSON_REJECT_DUPLICATES, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                               JSON_DECODE_INT_AS_REAL};

static void agree(const char *text, size_t n_bytes, size_t how) {
    json_error_t error;
    json_t *want = json_loadb(text, n_bytes, how, &error), *got = NULL;
    const ig_status status = ig_json_decode(IG_ERR_FORMAT, "file", "it", text, n_bytes, how, &got);
    if ((status == IG_OK) != (want != NULL) || !json_equal(want, got) != (want == NULL))
        fail_msg("'%.*s', flags %zu: %s, not %s", (int)n_bytes, text, how,
                 status == IG_OK ? "taken" : ig_error_text(), want ? "taken" : error.text);
    if (status != IG_OK) refused(status, IG_ERR_FORMAT, "file: it is not JSON: ");
    json_decref(want);
    json_decref(got);
}

static void values_are_those_of_jansson(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TEXTS; i++)
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            agree(texts[i], strlen(texts[i]), flags[f]);
}

/* Texts with bytes replaced, removed and repeated. */
static void values_of_damaged_texts_are_those_of_jansson(void **state) {
    static const char signs[] = "\"\\{}[]:,0123e.-utfn \xc3\xa9\xff";
    uint64_t random = 7;
    char text[256];
    (void)state;
    for (int n = 0; n < 100000; n++) {
        const char *from = texts[n % N_TEXTS];
        size_t bytes = strlen(from);
        memcpy(text, from, bytes);
        for (int change = 0; bytes > 1 && change < 3; change++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            const size_t at = (size_t)(random >> 33) % bytes;
            const char sign = signs[(size_t)(random >> 20) % (sizeof signs - 1)];
            if ((random >> 60) % 4 == 0) {
                memmove(text + at, text + at + 1, --bytes - at);
            } else if ((random >> 60) % 4 == 1) {
                memmove(text + at + 1, text + at, bytes++ - at);
                text[at] = sign;
            } else {
                text[at] = sign;
            }
        }
        agree(text, bytes, flags[(size_t)n % (sizeof flags / sizeof *flags)]);
    }
}

static void errors_name_the_line_and_the_column(void **state) {
    static const char text[] = "{\"a\": 1,\n \"b\": ?}";
    json_t *json = NULL;
    (void)state;
    refused(ig_json_decode(IG_ERR_ARGUMENT, "f", "the header", text, strlen(text), 0, &json),
            IG_ERR_ARGUMENT, "f: the header is not JSON: expected a value (line 2, column 7)");
}

static void deep_nesting_is_refused(void **state) {
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH);
    json_t *json = NULL;
    (void)state;
    memset(text, '[', DEPTH);
    refused(ig_json_decode(IG_ERR_FORMAT, "f", "it", text, DEPTH, 0, &json), IG_ERR_FORMAT,
            "nested too deeply");
    free(text);
}

/* ---- Memory ---- */

static int left;

static void *scarce(size_t bytes) { return left-- > 0 ? malloc(bytes) : NULL; }

/* One allocation fails, or all from there on. */
static void *scarce_once(size_t bytes) { return left-- != 0 ? malloc(bytes) : NULL; }

static void every_allocation_may_fail(void **state) {
    json_malloc_t *const functions[] = {&(json_malloc_t){scarce}, &(json_malloc_t){scarce_once}};
    json_malloc_t before;
    json_free_t release;
    (void)state;
    (void)ig_json_failures(); /* wraps what is there now, for good */
    json_get_alloc_funcs(&before, &release);
    for (size_t i = 0; i < 14; i++) {
        json_t *json = NULL;
        ig_status status = IG_ERR_MEMORY;
        json_set_alloc_funcs(*functions[i % 2], free);
        for (int n = 0; status == IG_ERR_MEMORY; n++) {
            left = n;
            status = ig_json_decode(IG_ERR_FORMAT, "f", "it", texts[i / 2], strlen(texts[i / 2]), 0,
                                    &json);
            assert_true(status == IG_OK || status == IG_ERR_MEMORY);
        }
        json_set_alloc_funcs(before, release);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_jansson),
        cmocka_unit_test(values_of_damaged_texts_are_those_of_jansson),
        cmocka_unit_test(errors_name_the_line_and_the_column),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
