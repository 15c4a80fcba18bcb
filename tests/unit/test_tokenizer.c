/* Tokenizers: what is encoded comes back, what is learned is what counting by hand gives, and
 * nothing that a file says about one is believed unseen. */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/utf8.h"
#include "text/tokenizer/bpe_words.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/meter.h"

static const char sample[] =
    "The cat sat on the mat. \"It's the cat's mat,\" said the other cat, and the cat didn't move.\n"
    "Then they're 12 cats on 3 mats -- and 12 more!  The gr\xC3\xBC\xC3\x9F"
    "er of the caf\xC3\xA9 saw \xF0\x9F\x90\x88 \xF0\x9F\x90\x88\n\n";

static const char *const kinds[] = {"byte", "char", "bpe"};
enum { KINDS = 3, MERGES = 60 };

static ig_tokenizer *learn(const char *kind, const char *text, size_t bytes, int32_t merges) {
    const ig_string_view data = {text, bytes};
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_train(&ig_heap, kind,
                            &(ig_tokenizer_training){.data = &data, .n_data = 1, .merges = merges},
                            &t));
    return t;
}

static ig_tokenizer *parse(const char *json) {
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_parse(&ig_heap, "a.oam", json, strlen(json), &t));
    return t;
}

/* The caller frees it. */
static char *json_of(const ig_tokenizer *t) {
    const size_t bytes = ig_tokenizer_json(t, NULL, 0);
    char *json = malloc(bytes + 1);
    assert_int_equal(ig_tokenizer_json(t, json, bytes + 1), bytes);
    assert_int_equal(strlen(json), bytes);
    return json;
}

static void described_as(const ig_tokenizer *t, const char *want) {
    char *json = json_of(t);
    assert_string_equal(json, want);
    free(json);
}

/* The ids in memory that is just large enough, so that a sanitizer sees any excess. */
static int32_t *encode(const ig_tokenizer *t, const char *text, size_t bytes, size_t *n_ids) {
    ig_tokens all = {.allocator = &ig_heap};
    must(ig_tokenize(t, text, bytes, 0, &all));
    *n_ids = all.count;
    assert_true(*n_ids <= bytes);
    int32_t *ids = malloc(*n_ids * sizeof *ids + 1);
    if (*n_ids) memcpy(ids, all.at, *n_ids * sizeof *ids);
    ig_tokens_deinit(&all);
    for (size_t i = 0; i < *n_ids; i++) assert_in_range(ids[i], 0, ig_tokenizer_vocab_size(t) - 1);
    return ids;
}

static void comes_back(const ig_tokenizer *t, const char *text, size_t bytes) {
    size_t n_ids;
    int32_t *ids = encode(t, text, bytes, &n_ids);
    char *back = malloc(bytes + 1);
    assert_int_equal(ig_detokenize(t, ids, n_ids, 0, back, bytes), bytes);
    assert_memory_equal(back, text, bytes);
    free(back);
    free(ids);
}

/* Bytes of every sort, many that are no UTF-8; different for each seed. */
static void fill(char *text, size_t bytes, uint32_t seed, uint32_t alphabet) {
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(ig_random_bits((uint32_t[]){seed, 0}, 0, 0, i) % alphabet);
}

/* ---- Words ---- */

static void words_are_those_of_gpt2(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"He said: \"It's 12 o'clock   now.\"", "He| said|:| \"|It|'s| 12| o|'|clock|  | now|.\""},
        {"a\nb\n\n c", "a|\n|b|\n\n| c"},
        {"we'll they're I've I'm he'd don't", "we|'ll| they|'re| I|'ve| I|'m| he|'d| don|'t"},
        {"x  ", "x|  "},
        {" x", " x"},
        {"\t x", "\t| x"},
        {" \tx", " |\t|x"},
        {"!'s", "!'|s"},
        {" 's", " '|s"},
        {"v1.2,ok", "v|1|.|2|,|ok"},
        {"gr\xC3\xBC\xC3\x9F dich", "gr\xC3\xBC\xC3\x9F| dich"},
        {"'", "'"},
        {"'l", "'|l"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char got[128] = "";
        const size_t bytes = strlen(rows[i].text);
        size_t used = 0;
        for (size_t at = 0, n; at < bytes; at += n) {
            n = ig_word_next(rows[i].text + at, bytes - at);
            used += (size_t)snprintf(got + used, sizeof got - used, "%s%.*s", at ? "|" : "", (int)n,
                                     rows[i].text + at);
        }
        assert_string_equal(got, rows[i].words);
    }
}

static void long_words_are_cut_before_a_character(void **state) {
    (void)state;
    static const char euro[3] = {'\xE2', '\x82', '\xAC'};
    char text[600];
    memset(text, 'a', sizeof text);
    assert_int_equal(ig_word_next(text, sizeof text), IG_WORD_BYTES);
    assert_int_equal(ig_word_next(text, IG_WORD_BYTES), IG_WORD_BYTES);
    assert_int_equal(ig_word_next(text, IG_WORD_BYTES + 1), IG_WORD_BYTES);
    memcpy(text + IG_WORD_BYTES - 2, euro, sizeof euro);
    assert_int_equal(ig_word_next(text, sizeof text), IG_WORD_BYTES - 2);
    memset(text, 0x80, sizeof text); /* no character anywhere */
    assert_int_equal(ig_word_next(text, sizeof text), IG_WORD_BYTES);
    memset(text, ' ', sizeof text);
    assert_int_equal(ig_word_next(text, sizeof text), IG_WORD_BYTES);
    assert_int_equal(ig_word_next(text, IG_WORD_BYTES + 1), IG_WORD_BYTES);
    assert_int_equal(ig_word_next(text, IG_WORD_BYTES), IG_WORD_BYTES);
    text[IG_WORD_BYTES] = 'a';
    assert_int_equal(ig_word_next(text, sizeof text), IG_WORD_BYTES - 1);
}

/* ---- Round trips ---- */

static void every_kind_gives_back_the_data_it_was_made_from(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = learn(kinds[k], sample, strlen(sample), MERGES);
        assert_string_equal(ig_tokenizer_name(t), kinds[k]);
        comes_back(t, sample, strlen(sample));
        comes_back(t, "", 0);
        comes_back(t, "c", 1);
        ig_tokenizer_destroy(t);
    }
}

static void every_kind_gives_back_random_bytes(void **state) {
    (void)state;
    enum { BYTES = 3000 };
    char text[BYTES];
    for (uint32_t seed = 0; seed < 20; seed++) {
        fill(text, BYTES, seed, seed % 2 ? 256 : 24 + seed);
        for (int k = 0; k < KINDS; k++) {
            ig_tokenizer *t = learn(kinds[k], text, BYTES, 200);
            comes_back(t, text, BYTES);
            ig_tokenizer_destroy(t);
        }
    }
}

static void bytes_and_bpe_give_back_what_they_have_never_seen(void **state) {
    (void)state;
    char text[1000];
    fill(text, sizeof text, 5, 256);
    for (int k = 0; k < KINDS; k += 2) {
        ig_tokenizer *t = learn(kinds[k], sample, strlen(sample), MERGES);
        comes_back(t, text, sizeof text);
        ig_tokenizer_destroy(t);
    }
}

static void without_data_there_is_still_a_tokenizer(void **state) {
    (void)state;
    const int32_t vocabularies[KINDS] = {256, 1, 256};
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = NULL;
        must(ig_tokenizer_train(&ig_heap, kinds[k], NULL, &t));
        assert_int_equal(ig_tokenizer_vocab_size(t), vocabularies[k]);
        size_t n_ids;
        int32_t *ids = encode(t, "abc", 3, &n_ids);
        assert_int_equal(n_ids, 3);
        free(ids);
        ig_tokenizer_destroy(t);
    }
}

static void text_in_pieces_has_the_ids_of_the_whole(void **state) {
    (void)state;
    const size_t bytes = strlen(sample);
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = learn(kinds[k], sample, bytes, MERGES);
        size_t n_whole, places = 0;
        int32_t *whole = encode(t, sample, bytes, &n_whole);
        for (size_t room = 1; room <= bytes; room++) {
            const size_t cut = ig_tokenizer_cut(t, sample, room);
            assert_true(cut <= room);
            if (cut == 0) continue;
            size_t n_first, n_second;
            int32_t *first = encode(t, sample, cut, &n_first);
            int32_t *second = encode(t, sample + cut, bytes - cut, &n_second);
            assert_int_equal(n_first + n_second, n_whole);
            assert_memory_equal(first, whole, n_first * sizeof *whole);
            assert_memory_equal(second, whole + n_first, n_second * sizeof *whole);
            free(first);
            free(second);
            places++;
        }
        assert_true(places > bytes / 2);
        free(whole);
        ig_tokenizer_destroy(t);
    }
}

/* ---- char ---- */

static void characters_are_sorted_and_all_others_are_one(void **state) {
    (void)state;
    ig_tokenizer *t = learn("char", "ba\xE2\x82\xAC b\xFF", 8, 0);
    described_as(t, "{\"kind\":\"char\",\"symbols\":[32,97,98,8364,1114367]}");
    assert_int_equal(ig_tokenizer_vocab_size(t), 6);
    size_t n_ids;
    int32_t *ids = encode(t, "b\xE2\x82\xACz\xC3\xA9\xFF\xFE", 9, &n_ids);
    const int32_t want[] = {2, 3, 5, 5, 4, 5};
    assert_int_equal(n_ids, 6);
    assert_memory_equal(ids, want, sizeof want);
    char back[32];
    const size_t bytes = ig_detokenize(t, ids, n_ids, 0, back, sizeof back);
    assert_int_equal(bytes, 14);
    assert_memory_equal(back, "b\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\xFF\xEF\xBF\xBD", 14);
    free(ids);
    ig_tokenizer_destroy(t);
}

/* Code points one after the other: more different ones than ids. */
static void too_many_different_characters_are_refused(void **state) {
    (void)state;
    enum { COUNT = 70000 };
    char *text = malloc(4 * COUNT);
    size_t bytes = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t c = 0x10000 + i;
        const char four[] = {(char)(0xF0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                             (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
        memcpy(text + bytes, four, sizeof four);
        bytes += sizeof four;
    }
    ig_tokenizer *t = NULL;
    const ig_string_view data = {text, bytes};
    refused(ig_tokenizer_train(&ig_heap, "char",
                               &(ig_tokenizer_training){.data = &data, .n_data = 1}, &t),
            IG_ERR_ARGUMENT, "70000 different symbols, at most 65535");
    assert_null(t);
    free(text);
}

/* ---- bpe: counting by hand ---- */

enum { SLOW_WORDS = 1024 };

/* All words of a text with their ids, and the merges found by counting all pairs again each time.
 */
typedef struct slow {
    int ids[SLOW_WORDS][IG_WORD_BYTES];
    int lengths[SLOW_WORDS];
    int n_words;
    int counts[400][400];
} slow;

static void slow_begin(slow *s, const char *text, size_t bytes) {
    s->n_words = 0;
    for (size_t at = 0, n; at < bytes; at += n, s->n_words++) {
        assert_true(s->n_words < SLOW_WORDS);
        n = ig_word_next(text + at, bytes - at);
        s->lengths[s->n_words] = (int)n;
        for (size_t i = 0; i < n; i++) s->ids[s->n_words][i] = (unsigned char)text[at + i];
    }
}

/* The most frequent pair, of equals the one with the smallest ids; how often it occurs. */
static int slow_best(slow *s, int *left, int *right) {
    memset(s->counts, 0, sizeof s->counts);
    for (int w = 0; w < s->n_words; w++)
        for (int i = 0; i + 1 < s->lengths[w]; i++) s->counts[s->ids[w][i]][s->ids[w][i + 1]]++;
    int best = 0;
    for (int a = 0; a < 400; a++)
        for (int b = 0; b < 400; b++)
            if (s->counts[a][b] > best) best = s->counts[a][b], *left = a, *right = b;
    return best;
}

static void slow_merge(slow *s, int left, int right, int made) {
    for (int w = 0; w < s->n_words; w++) {
        int to = 0, *ids = s->ids[w];
        for (int i = 0; i < s->lengths[w]; i++) {
            const bool here = i + 1 < s->lengths[w] && ids[i] == left && ids[i + 1] == right;
            ids[to++] = here ? made : ids[i];
            i += here;
        }
        s->lengths[w] = to;
    }
}

/* Learns both ways, compares the merges, and the ids of the text with the words left over. */
static void learns_as_by_hand(const char *text, size_t bytes, int merges) {
    slow *s = malloc(sizeof *s);
    slow_begin(s, text, bytes);
    char *want = malloc(32 + 16 * (size_t)merges);
    int used = sprintf(want, "{\"kind\":\"bpe\",\"merges\":[");
    for (int i = 0, left = 0, right = 0; i < merges && slow_best(s, &left, &right) >= 2; i++) {
        slow_merge(s, left, right, 256 + i);
        used += sprintf(want + used, "%s[%d,%d]", i ? "," : "", left, right);
    }
    sprintf(want + used, "]}");
    ig_tokenizer *t = learn("bpe", text, bytes, merges);
    described_as(t, want);

    size_t n_ids, at = 0;
    int32_t *ids = encode(t, text, bytes, &n_ids);
    for (int w = 0; w < s->n_words; w++)
        for (int i = 0; i < s->lengths[w]; i++) assert_int_equal(ids[at++], s->ids[w][i]);
    assert_int_equal(at, n_ids);
    ig_tokenizer_destroy(t);
    free(ids);
    free(want);
    free(s);
}

static void merges_are_those_that_counting_by_hand_finds(void **state) {
    (void)state;
    char text[1000];
    learns_as_by_hand(sample, strlen(sample), MERGES);
    for (uint32_t seed = 0; seed < 30; seed++) {
        fill(text, sizeof text, seed, 2 + seed % 7);
        for (size_t i = 0; i < sizeof text; i++) text[i] = "ab cde\n"[(unsigned char)text[i]];
        learns_as_by_hand(text, sizeof text, 100);
    }
    memset(text, 'a', sizeof text);
    for (size_t n = 1; n < 40; n++) learns_as_by_hand(text, n, 20);
    learns_as_by_hand(text, sizeof text, 100);
}

static void equal_counts_are_merged_by_ids(void **state) {
    (void)state;
    ig_tokenizer *t = learn("bpe", " zy zy cd cd ab ab", 18, 4);
    /* Each word twice: " a", " c", " z", "ab", "cd", "zy" occur equally often. */
    described_as(t, "{\"kind\":\"bpe\",\"merges\":[[32,97],[32,99],[32,122],[256,98]]}");
    ig_tokenizer_destroy(t);
}

static void merges_do_not_cross_words_or_parts(void **state) {
    (void)state;
    const ig_string_view data[] = {{"ab", 2}, {"cd", 2}, {"", 0}, {"ab", 2}, {"cd", 2}};
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_train(&ig_heap, "bpe", &(ig_tokenizer_training){.data = data, .n_data = 5},
                            &t));
    described_as(t, "{\"kind\":\"bpe\",\"merges\":[[97,98],[99,100]]}");
    assert_int_equal(ig_tokenizer_vocab_size(t), 258);
    ig_tokenizer_destroy(t);

    t = learn("bpe", "1a1a1a1a", 8, 10);
    described_as(t, "{\"kind\":\"bpe\",\"merges\":[]}");
    ig_tokenizer_destroy(t);
}

static void an_invalid_number_of_merges_is_refused(void **state) {
    (void)state;
    ig_tokenizer *t = NULL;
    refused(ig_tokenizer_train(&ig_heap, "bpe", &(ig_tokenizer_training){.merges = -1}, &t),
            IG_ERR_ARGUMENT, "-1 merges, 1 to 65280");
    refused(ig_tokenizer_train(&ig_heap, "bpe", &(ig_tokenizer_training){.merges = 65281}, &t),
            IG_ERR_ARGUMENT, "65281 merges, 1 to 65280");
    const ig_string_view data = {sample, SIZE_MAX};
    refused(ig_tokenizer_train(&ig_heap, "bpe",
                               &(ig_tokenizer_training){.data = &data, .n_data = 1}, &t),
            IG_ERR_ARGUMENT, "bytes to learn from, at most 1073741824");
    assert_null(t);
}

static void an_unknown_kind_lists_the_known(void **state) {
    (void)state;
    ig_tokenizer *t = NULL;
    refused(ig_tokenizer_train(&ig_heap, "bites", NULL, &t), IG_ERR_ARGUMENT,
            "tokenizer 'bites': must be one of byte, char, bpe");
    assert_null(t);
}

typedef struct watcher {
    uint64_t calls, last, stop_at;
} watcher;

static bool watch(void *user, uint64_t done, uint64_t total) {
    watcher *w = user;
    assert_true(done >= w->last && done <= total);
    w->last = done;
    return ++w->calls != w->stop_at;
}

static void learning_says_how_far_it_is_and_can_be_stopped(void **state) {
    (void)state;
    const ig_string_view data = {sample, strlen(sample)};
    watcher w = {0};
    ig_tokenizer_training options = {
        .data = &data, .n_data = 1, .merges = MERGES, .progress = watch, .user = &w};
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_train(&ig_heap, "bpe", &options, &t));
    assert_int_equal(w.last, MERGES);
    assert_true(w.calls >= 3);
    ig_tokenizer_destroy(t);
    t = NULL;
    for (uint64_t stop = 1, calls = w.calls; stop <= calls; stop++) {
        w = (watcher){.stop_at = stop};
        refused(ig_tokenizer_train(&ig_heap, "bpe", &options, &t), IG_ERR_CANCELLED, "stopped");
        assert_null(t);
    }
}

/* ---- Decoding ---- */

static void decoding_writes_what_fits_and_counts_all(void **state) {
    (void)state;
    ig_tokenizer *t = parse("{\"kind\":\"bpe\",\"merges\":[[97,98],[256,99]]}");
    const int32_t ids[] = {257, 256, -1, 258, 120};
    char out[16];
    assert_int_equal(ig_detokenize(t, ids, 5, 0, NULL, 0), 12);
    for (size_t room = 0; room <= 12; room++) {
        memset(out, '#', sizeof out);
        assert_int_equal(ig_detokenize(t, ids, 5, 0, out, room), 12);
        assert_memory_equal(out, "abcab\xEF\xBF\xBD\xEF\xBF\xBDx", room);
        assert_int_equal(out[room], '#');
    }
    ig_tokenizer_destroy(t);
}

static void is_whole_utf8(const char *text, size_t bytes) {
    uint32_t point;
    for (size_t at = 0, n; at < bytes; at += n)
        assert_int_equal(ig_utf8_next(text + at, bytes - at, &point, &n), IG_UTF8_WHOLE);
}

/* Feeds ids one by one; each part must be UTF-8 by itself. */
static size_t stream(const ig_tokenizer *t, const int32_t *ids, size_t n_ids, char *out) {
    ig_detokenizer *decoder;
    must(ig_detokenizer_create(t, 0, &decoder));
    size_t used = 0;
    for (size_t i = 0; i <= n_ids; i++) {
        const ig_string_view part =
            i < n_ids ? ig_detokenizer_next(decoder, ids[i]) : ig_detokenizer_end(decoder);
        is_whole_utf8(part.bytes, part.n_bytes);
        memcpy(out + used, part.bytes, part.n_bytes);
        used += part.n_bytes;
    }
    assert_int_equal(ig_detokenizer_end(decoder).n_bytes, 0);
    ig_detokenizer_destroy(decoder);
    return used;
}

static void streams_to(const ig_tokenizer *t, const int32_t *ids, size_t n_ids, const char *want) {
    char got[256];
    const size_t bytes = stream(t, ids, n_ids, got);
    assert_int_equal(bytes, strlen(want));
    assert_memory_equal(got, want, bytes);
}

/* Two ids, one for the bytes before the split and one for those after it.  No byte of the text
 * occurs twice, so each chain of merges is a tokenizer. */
static void a_character_is_handed_out_whole_wherever_ids_split_it(void **state) {
    (void)state;
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    const int bytes = (int)strlen(text);
    for (int split = 1; split < bytes; split++) {
        char json[512];
        int used = sprintf(json, "{\"kind\":\"bpe\",\"merges\":["), made = 256;
        int32_t ids[2] = {(unsigned char)text[0], (unsigned char)text[split]};
        for (int i = 1; i < bytes; i++) {
            if (i == split) continue;
            int32_t *id = &ids[i > split];
            used += sprintf(json + used, "%s[%d,%d]", made > 256 ? "," : "", *id,
                            (unsigned char)text[i]);
            *id = made++;
        }
        sprintf(json + used, "]}");
        ig_tokenizer *t = parse(json);
        streams_to(t, ids, 2, text);
        ig_tokenizer_destroy(t);
    }
}

static void bytes_that_are_no_character_become_the_replacement(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *want;
    } rows[] = {
        {"a\x80z", "a\xEF\xBF\xBDz"},
        {"\xC3", "\xEF\xBF\xBD"},
        {"\xC3(", "\xEF\xBF\xBD("},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82x", "\xEF\xBF\xBDx"},
        {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
        {"\xF0\x9F\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* too long a form */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* beyond */
    };
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_train(&ig_heap, "byte", NULL, &t));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n_ids;
        int32_t *ids = encode(t, rows[i].bytes, strlen(rows[i].bytes), &n_ids);
        streams_to(t, ids, n_ids, rows[i].want);
        free(ids);
    }
    ig_tokenizer_destroy(t);
}

/* However the same bytes are split into ids, the text is the same. */
static void a_stream_of_random_bytes_does_not_depend_on_the_ids(void **state) {
    (void)state;
    enum { BYTES = 2000 };
    char text[BYTES], by_bytes[3 * BYTES], by_pieces[3 * BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        static const unsigned char some[] = {0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0x80, 0x9F, 0xA9, 'a'};
        text[i] = (char)some[ig_random_bits((uint32_t[]){3, 0}, 0, 0, i) % sizeof some];
    }
    ig_tokenizer *bytes = learn("byte", NULL, 0, 0), *pieces = learn("bpe", text, BYTES, 300);
    size_t n_bytes, n_pieces;
    int32_t *a = encode(bytes, text, BYTES, &n_bytes), *b = encode(pieces, text, BYTES, &n_pieces);
    assert_true(n_pieces < n_bytes / 2);
    const size_t want = stream(bytes, a, n_bytes, by_bytes);
    assert_int_equal(stream(pieces, b, n_pieces, by_pieces), want);
    assert_memory_equal(by_pieces, by_bytes, want);
    free(a);
    free(b);
    ig_tokenizer_destroy(bytes);
    ig_tokenizer_destroy(pieces);
}

/* ---- As JSON ---- */

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = learn(kinds[k], sample, strlen(sample), MERGES);
        char *json = json_of(t);
        ig_tokenizer *again = parse(json);
        described_as(again, json);
        assert_string_equal(ig_tokenizer_name(again), kinds[k]);
        assert_int_equal(ig_tokenizer_vocab_size(again), ig_tokenizer_vocab_size(t));
        size_t n_a, n_b;
        int32_t *a = encode(t, sample, strlen(sample), &n_a);
        int32_t *b = encode(again, sample, strlen(sample), &n_b);
        assert_int_equal(n_a, n_b);
        assert_memory_equal(a, b, n_a * sizeof *a);
        free(a);
        free(b);
        free(json);
        ig_tokenizer_destroy(again);
        ig_tokenizer_destroy(t);
    }
}

static void equal_data_gives_equal_tokenizers(void **state) {
    (void)state;
    char *text = malloc(strlen(sample) + 1); /* elsewhere in memory */
    strcpy(text, sample);
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *a = learn(kinds[k], sample, strlen(sample), MERGES);
        ig_tokenizer *b = learn(kinds[k], text, strlen(text), MERGES);
        char *json = json_of(a);
        described_as(b, json);
        free(json);
        ig_tokenizer_destroy(a);
        ig_tokenizer_destroy(b);
    }
    free(text);
}

static void damaged_descriptions_are_refused_in_words(void **state) {
    (void)state;
    static const struct {
        const char *json, *words;
    } rows[] = {
        {"", "the tokenizer is not JSON"},
        {"[]", "has no \"kind\""},
        {"{}", "has no \"kind\""},
        {"{\"kind\":7}", "has no \"kind\""},
        {"{\"kind\":\"byte\",\"kind\":\"byte\"}", "not JSON: duplicate"},
        {"{\"kind\":\"word\"}", "is of kind 'word', not one of byte, char, bpe"},
        {"{\"kind\":\"byte\",\"x\":1}", "of kind byte has nothing else"},
        {"{\"kind\":\"char\"}", "of kind char has an array 'symbols' and nothing else"},
        {"{\"kind\":\"char\",\"symbols\":{}}", "has an array 'symbols'"},
        {"{\"kind\":\"char\",\"symbols\":[97,97]}", "symbol 1 of the tokenizer is no symbol (97 "},
        {"{\"kind\":\"char\",\"symbols\":[98,97]}", "symbol 1"},
        {"{\"kind\":\"char\",\"symbols\":[-1]}", "symbol 0"},
        {"{\"kind\":\"char\",\"symbols\":[55296]}", "symbol 0"},
        {"{\"kind\":\"char\",\"symbols\":[1114112]}", "symbol 0"},
        {"{\"kind\":\"char\",\"symbols\":[1114368]}", "symbol 0"},
        {"{\"kind\":\"char\",\"symbols\":[\"a\"]}", "symbol 0"},
        {"{\"kind\":\"char\",\"symbols\":[1.5]}", "symbol 0"},
        {"{\"kind\":\"bpe\",\"symbols\":[]}", "of kind bpe has an array 'merges'"},
        {"{\"kind\":\"bpe\",\"merges\":[],\"x\":0}", "nothing else"},
        {"{\"kind\":\"bpe\",\"merges\":[7]}", "merge 0 of the tokenizer is not two ids"},
        {"{\"kind\":\"bpe\",\"merges\":[[97]]}", "merge 0"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,98,99]]}", "merge 0"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,-1]]}", "merge 0"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,65536]]}", "merge 0"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,98],[97,257]]}",
         "merge 1 of the tokenizer is [97,257]: there are 257 ids before it"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,98],[1,2],[97,98]]}",
         "merge 2 of the tokenizer, [97,98], is merge 0 again"},
        {"{\"kind\":\"bpe\",\"merges\":[[97,97],[256,256],[257,257],[258,258],[259,259],[260,260],"
         "[261,261],[262,262],[263,263]]}",
         "merge 8 of the tokenizer makes a piece of 512 bytes, at most 256"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_tokenizer *t = NULL;
        refused(ig_tokenizer_parse(&ig_heap, "a.oam", rows[i].json, strlen(rows[i].json), &t),
                IG_ERR_FORMAT, rows[i].words);
        assert_non_null(strstr(ig_error_text(), "a.oam: "));
        assert_null(t);
    }
}

static void a_description_that_is_cut_off_anywhere_is_refused(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = learn(kinds[k], sample, strlen(sample), 5);
        char *json = json_of(t);
        ig_tokenizer_destroy(t);
        for (size_t n = 0; n < strlen(json); n++) {
            char *part = malloc(n + 1); /* just as long, so that reads beyond are seen */
            memcpy(part, json, n);
            t = NULL;
            refused(ig_tokenizer_parse(&ig_heap, "a.oam", part, n, &t), IG_ERR_FORMAT, "not JSON");
            assert_null(t);
            free(part);
        }
        free(json);
    }
}

static void descriptions_that_are_too_long_are_refused(void **state) {
    (void)state;
    ig_tokenizer *t = NULL;
    refused(ig_tokenizer_parse(&ig_heap, "a.oam", sample, IG_TOKENIZER_JSON_MAX + 1, &t),
            IG_ERR_FORMAT, "a.oam: the tokenizer has 4194305 bytes, at most 4194304");

    enum { COUNT = 65536 };
    char *json = malloc(32 + 2 * COUNT);
    size_t used = (size_t)sprintf(json, "{\"kind\":\"bpe\",\"merges\":[0");
    for (int i = 1; i < COUNT; i++) used += (size_t)sprintf(json + used, ",0");
    used += (size_t)sprintf(json + used, "]}");
    refused(ig_tokenizer_parse(&ig_heap, "a.oam", json, used, &t), IG_ERR_FORMAT,
            "has 65536 merges, at most 65280");
    assert_null(t);
    free(json);
}

/* ---- Memory ---- */

/* Makes one, reads one; the n-th allocation of either fails. */
static ig_status make_both(const ig_allocator *a, const char *kind, const char *json) {
    const ig_string_view data = {sample, strlen(sample)};
    const ig_tokenizer_training options = {.data = &data, .n_data = 1, .merges = MERGES};
    ig_tokenizer *made = NULL, *read = NULL;
    ig_status status = ig_tokenizer_train(a, kind, &options, &made);
    if (status == IG_OK) status = ig_tokenizer_parse(a, "a.oam", json, strlen(json), &read);
    ig_tokenizer_destroy(made);
    ig_tokenizer_destroy(read);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        ig_tokenizer *t = learn(kinds[k], sample, strlen(sample), MERGES);
        char *json = json_of(t);
        ig_tokenizer_destroy(t);
        ig_status status = IG_ERR_MEMORY;
        for (uint64_t n = 1; status != IG_OK; n++) {
            meter m = {.fail_at = n};
            const ig_allocator a = {meter_alloc, meter_free, &m};
            status = make_both(&a, kinds[k], json);
            if (status != IG_OK) refused(status, IG_ERR_MEMORY, "no memory");
            assert_int_equal(m.held, 0);
            assert_true(status == IG_OK ? m.asked < n : m.asked == n);
        }
        free(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_gpt2),
        cmocka_unit_test(long_words_are_cut_before_a_character),
        cmocka_unit_test(every_kind_gives_back_the_data_it_was_made_from),
        cmocka_unit_test(every_kind_gives_back_random_bytes),
        cmocka_unit_test(bytes_and_bpe_give_back_what_they_have_never_seen),
        cmocka_unit_test(without_data_there_is_still_a_tokenizer),
        cmocka_unit_test(text_in_pieces_has_the_ids_of_the_whole),
        cmocka_unit_test(characters_are_sorted_and_all_others_are_one),
        cmocka_unit_test(too_many_different_characters_are_refused),
        cmocka_unit_test(merges_are_those_that_counting_by_hand_finds),
        cmocka_unit_test(equal_counts_are_merged_by_ids),
        cmocka_unit_test(merges_do_not_cross_words_or_parts),
        cmocka_unit_test(an_invalid_number_of_merges_is_refused),
        cmocka_unit_test(an_unknown_kind_lists_the_known),
        cmocka_unit_test(learning_says_how_far_it_is_and_can_be_stopped),
        cmocka_unit_test(decoding_writes_what_fits_and_counts_all),
        cmocka_unit_test(a_character_is_handed_out_whole_wherever_ids_split_it),
        cmocka_unit_test(bytes_that_are_no_character_become_the_replacement),
        cmocka_unit_test(a_stream_of_random_bytes_does_not_depend_on_the_ids),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(equal_data_gives_equal_tokenizers),
        cmocka_unit_test(damaged_descriptions_are_refused_in_words),
        cmocka_unit_test(a_description_that_is_cut_off_anywhere_is_refused),
        cmocka_unit_test(descriptions_that_are_too_long_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
