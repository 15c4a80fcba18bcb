/* Cutting text into words by the patterns that model files name. */
#include "check.h"

#include <stdlib.h>

#include "text/tokenizer/pretokenizer.h"

/* Words with a bar between. */
typedef struct words {
    char text[512];
    size_t used;
} words;

static ig_status take(void *user, const char *bytes, size_t n_bytes, bool matched) {
    words *w = user;
    (void)matched;
    assert_true(n_bytes > 0 && w->used + n_bytes + 2 < sizeof w->text);
    if (w->used) w->text[w->used++] = '|';
    memcpy(w->text + w->used, bytes, n_bytes);
    w->used += n_bytes;
    return IG_OK;
}

static ig_pretokenizer *make(const char *name) {
    ig_pretokenizer *p = NULL;
    const ig_pre *row = ig_pre_find(name);
    if (!row) fail_msg("%s is not in the table", name);
    must(ig_pretokenizer_create(&ig_heap, row, &p));
    return p;
}

static void splits_to(const char *name, const char *text, const char *want) {
    ig_pretokenizer *p = make(name);
    words w = {.used = 0};
    must(ig_pretokenizer_split(p, text, strlen(text), take, &w));
    w.text[w.used] = 0;
    if (strcmp(w.text, want) != 0)
        fail_msg("%s: '%s' becomes '%s', not '%s'", name, text, w.text, want);
    ig_pretokenizer_destroy(p);
}

/* ---- Names ---- */

/* Those that issue 5 asks for, and some that people meet. */
static const char *const needed[] = {
    "gpt-2",       "llama-bpe",
    "llama3",      "llama-v3",
    "qwen2",       "deepseek-llm",
    "starcoder",   "deepseek-coder",
    "falcon",      "refact",
    "command-r",   "smollm",
    "tekken",      "gpt-4o",
    "phi-2",       "mpt",
    "olmo",        "dbrx",
    "default",     "jina-v2-code",
    "codeshell",   "bloom",
    "chatglm-bpe", "deepseek-v3",
    "stablelm2",   "deepseek-r1-qwen",
    "poro-chat",   "viking",
    "exaone",      "minerva-7b",
    "chameleon",   "superbpe",
    "trillion",    "qwen35",
    "kimi-k2",     "granite-docling",
    "hunyuan",     "lfm2",
    "llama4",      "seed-coder",
    "glm4",        "bailingmoe",
};

static void every_pattern_of_the_table_compiles(void **state) {
    (void)state;
    for (const ig_pre *row = ig_pre_rows; row->name; row++)
        ig_pretokenizer_destroy(make(row->name));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        assert_non_null(ig_pre_find(needed[i]));
}

static void no_name_stands_twice(void **state) {
    (void)state;
    for (const ig_pre *row = ig_pre_rows; row->name; row++) {
        assert_ptr_equal(ig_pre_find(row->name), row);
        for (const char *at = row->aliases; at && *at;) {
            char name[64] = {0};
            const size_t n = strcspn(at, " ");
            assert_in_range(n, 1, sizeof name - 1);
            memcpy(name, at, n);
            assert_ptr_equal(ig_pre_find(name), row);
            at += n + (at[n] == ' ');
        }
    }
}

static void an_unknown_name_is_refused_with_the_known_ones(void **state) {
    (void)state;
    const char *const wrong[] = {"", "llama", "gpt", "gpt-2 phi-2", "phi-2 ", "GPT-2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_null(ig_pre_find(wrong[i]));
    refused(ig_pre_unknown(IG_ERR_FORMAT, "a.gguf", "mine"), IG_ERR_FORMAT,
            "a.gguf: the pre-tokenizer 'mine' is not known; --pre chooses one of gpt-2, llama-bpe");
}

static void patterns_of_a_tokenizer_json_have_their_names(void **state) {
    (void)state;
    const char *const llama3 =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,"
        "3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    const char *const digits[] = {ig_pre_single_digits, ig_pre_byte_level};
    const char *const raw[] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                               "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}"};
    assert_string_equal(ig_pre_name_of(&llama3, 1, true), "llama-bpe");
    assert_string_equal(ig_pre_name_of(&llama3, 1, false), "dbrx");
    assert_string_equal(ig_pre_name_of(digits, 2, false), "starcoder");
    assert_string_equal(ig_pre_name_of(digits + 1, 1, false), "gpt-2");
    assert_string_equal(ig_pre_name_of(raw, 5, false), "deepseek-coder");
    assert_null(ig_pre_name_of(digits, 2, true));
    assert_null(ig_pre_name_of(digits, 1, false));
    assert_null(ig_pre_name_of(NULL, 0, false));
    const char *const own = "\\p{L}+";
    assert_null(ig_pre_name_of(&own, 1, false));
}

/* ---- Words ---- */

static void each_row_cuts_as_it_was_published(void **state) {
    (void)state;
    const struct {
        const char *name, *text, *want;
    } rows[] = {
        {"gpt-2", "I'll pay 1234 DON'T", "I|'ll| pay| 1234| DON|'|T"},
        {"gpt-2", "a  b\n\n c\n", "a| | b|\n\n| c|\n"},
        {"llama-bpe", "I'LL pay 12345 (x)\n\ny", "I|'LL| pay| |123|45| (|x|)\n\n|y"},
        {"qwen2", "12 a\r\n  b", "1|2| a|\r\n| | b"},
        {"starcoder", "v12 ", "v|1|2| "},
        {"falcon", "12345a,b '' x", "123|45|a|,|b| |''| x"},
        {"default", "12345 a's", "123|45| a|'|s"},
        {"deepseek-coder", "foo(12)\n\t x", "foo|(|1|2|)|\n|\t| x"},
        {"deepseek-llm", /* its signs go from ':' to '~', letters between them */
         "caf\u00e9 12 \u4e2d\u6587  ", "caf|\u00e9| |12| |\u4e2d\u6587|  "},
        {"deepseek-v3", "1234.hello\u4e2d\u3042", "123|4|.hello|\u4e2d\u3042"},
        {"gpt-4o", "HelloWorld IT'S it's", "Hello|World| IT'S| it's"},
        {"tekken", "HelloWorld it's 12", "Hello|World| it|'s| |1|2"},
        {"bloom", "a, b c", "a|,| b| c"},
        {"viking", "a1 b", "a|1| b"},
        {"chameleon", "a  b\tc1", "a|  |b|\t|c|1"},
        {"superbpe", "a 1234567 b", "a |1|234|567| b"},
        {"tiny_aya", "1234567 12345x", "1|234|567| |123|45|x"},
        {"kimi-k2", "\u6f22\u5b57\u304b\u306a DONE it's", "\u6f22\u5b57|\u304b\u306a| DONE| it's"},
        {"bailingmoe", "a'LL\n\n", "a|'LL|\n\n"},
        {"seed-coder", "x!\n\n", "x|!|\n\n"},
        {"jais-2", "a     b", "a|    | b"},
        {"laguna", "a\n\nb c", "a|\n\n|b| c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        splits_to(rows[i].name, rows[i].text, rows[i].want);
}

static void a_mongolian_separator_is_no_white_space(void **state) {
    (void)state;
    splits_to("gpt-2", "a\u180e b", "a|\u180e| b");
    splits_to("gpt-2",
              "\u2003\u3000\xc2\x85"
              "\u00a0x",
              "\u2003\u3000\xc2\x85"
              "|\u00a0|x");
}

static void bytes_that_are_no_text_are_words_of_their_own(void **state) {
    (void)state;
    splits_to("gpt-2", "ab\xff\xc3 cd\xe2\x82", "ab|\xff\xc3| cd|\xe2\x82");
    splits_to("llama-bpe", "\x80\x80", "\x80\x80");
}

/* ---- Limits ---- */

typedef struct tally {
    size_t words, bytes;
} tally;

static ig_status count(void *user, const char *bytes, size_t n_bytes, bool matched) {
    tally *c = user;
    (void)bytes, (void)matched;
    c->words++;
    c->bytes += n_bytes;
    return IG_OK;
}

/* A pattern that tried every place of such a text again would run for hours. */
static void long_rows_of_one_character_take_no_longer_than_other_text(void **state) {
    (void)state;
    enum { BYTES = 300000 };
    char *text = malloc(BYTES);
    for (const ig_pre *row = ig_pre_rows; row->name; row++) {
        ig_pretokenizer *p = make(row->name);
        for (const char *c = "a1 A.\n"; *c; c++) {
            tally t = {0};
            memset(text, *c, BYTES);
            memcpy(text + BYTES - 4, "\xcc\x81 x", 4); /* a mark: what no pattern ends with */
            must(ig_pretokenizer_split(p, text, BYTES, count, &t));
            assert_int_equal(t.bytes, BYTES);
        }
        ig_pretokenizer_destroy(p);
    }
    free(text);
}

static ig_status enough(void *user, const char *bytes, size_t n_bytes, bool matched) {
    int *left = user;
    (void)bytes, (void)n_bytes, (void)matched;
    return --*left > 0 ? IG_OK : IG_FAIL(IG_ERR_CANCELLED, "enough");
}

static void splitting_ends_with_what_the_caller_returns(void **state) {
    (void)state;
    ig_pretokenizer *p = make("falcon");
    int left = 2;
    refused(ig_pretokenizer_split(p, "a b c d", 7, enough, &left), IG_ERR_CANCELLED, "enough");
    assert_int_equal(left, 0);
    ig_pretokenizer_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_of_the_table_compiles),
        cmocka_unit_test(no_name_stands_twice),
        cmocka_unit_test(an_unknown_name_is_refused_with_the_known_ones),
        cmocka_unit_test(patterns_of_a_tokenizer_json_have_their_names),
        cmocka_unit_test(each_row_cuts_as_it_was_published),
        cmocka_unit_test(a_mongolian_separator_is_no_white_space),
        cmocka_unit_test(bytes_that_are_no_text_are_words_of_their_own),
        cmocka_unit_test(long_rows_of_one_character_take_no_longer_than_other_text),
        cmocka_unit_test(splitting_ends_with_what_the_caller_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
