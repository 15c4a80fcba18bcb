/* Tokenizers of model files' tables: small vocabularies whose ids can be worked out by hand. */
#include "meter.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "text/tokenizer/tokenizer_kind.h"
#include "text/tokenizer/unicode.h"

enum { MOST = 64 };

/* ---- Vocabularies ---- */

/* A vocabulary in the making. */
typedef struct making {
    ig_vocab vocab;
    ig_string_view tokens[MOST + 256], merges[MOST];
    float scores[MOST + 256];
    int32_t kinds[MOST + 256];
    char bytes[256][8];
} making;

static int32_t add(making *m, const char *text, float score, ig_token_kind kind) {
    const size_t i = m->vocab.n_tokens++;
    m->tokens[i] = (ig_string_view){text, strlen(text)};
    m->scores[i] = score;
    m->kinds[i] = kind;
    return (int32_t)i;
}

static void start(making *m, const char *model) {
    memset(m, 0, sizeof *m);
    m->vocab = (ig_vocab){.source = "a.gguf", .model = model};
    ig_vocab *v = &m->vocab;
    v->tokens = m->tokens;
    v->merges = m->merges;
    v->scores = m->scores;
    v->kinds = m->kinds;
    v->bos = v->eos = v->eot = v->unknown = v->separator = v->padding = v->mask = -1;
}

/* <unk> 0, <s> 1, </s> 2, bytes from 3, pieces from 259. */
enum { LLAMA_BYTES = 3, LLAMA_PIECES = 259 };
static void llama(making *m) {
    start(m, "llama");
    add(m, "<unk>", 0, IG_TOKEN_UNKNOWN);
    add(m, "<s>", 0, IG_TOKEN_CONTROL);
    add(m, "</s>", 0, IG_TOKEN_CONTROL);
    for (int i = 0; i < 256; i++) {
        snprintf(m->bytes[i], sizeof m->bytes[i], "<0x%02X>", i);
        add(m, m->bytes[i], 0, IG_TOKEN_BYTE);
    }
    const char *const pieces[] = {"\u2581",       "a",   "b",       "c",        "ab",
                                  "bc",           "abc", "\u2581a", "\u2581ab", "<user>",
                                  "\u2581\u2581", "<",   "s",       ">",        "<s"};
    const float scores[] = {-9, -10, -11, -12, -3, -2, -5, -4, -1, 0, -6, -13, -14, -15, -7};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        add(m, pieces[i], scores[i], i == 9 ? IG_TOKEN_USER : IG_TOKEN_NORMAL);
    m->vocab.unknown = 0, m->vocab.bos = 1, m->vocab.eos = 2;
    m->vocab.add_bos = m->vocab.add_space_prefix = true;
}

/* Letters, then merges; ids as they stand here. */
static void gpt2(making *m, const char *pre) {
    start(m, "gpt2");
    const char *const tokens[] = {"a",       "b", "c",  "\u0120", "ab",     "abc",
                                  "\u0120a", "1", "bc", "aabc",   "\u00c3", "\u00a4"};
    const char *const merges[] = {"a b", "ab c", "\u0120 a", "b c", "x y"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        add(m, tokens[i], 0, IG_TOKEN_NORMAL);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        m->merges[m->vocab.n_merges++] = (ig_string_view){merges[i], strlen(merges[i])};
    m->vocab.bos = m->vocab.eos = add(m, "<|endoftext|>", 0, IG_TOKEN_CONTROL);
    m->vocab.eot = add(m, "<|im_end|>", 0, IG_TOKEN_CONTROL);
    add(m, "<|im|>", 0, IG_TOKEN_USER);
    m->vocab.pre = pre;
}

static void bert(making *m, bool hashes) {
    start(m, "bert");
    const char *const marked[] = {"\u2581un",
                                  "aff",
                                  "able",
                                  "\u2581cafe",
                                  "\u2581,",
                                  "\u2581\u4e2d",
                                  "\u2581\u1112\u1161\u11ab",
                                  "\u2581Caf\u00e9"};
    const char *const plain[] = {
        "un", "##aff", "##able", "cafe", ",", "\u4e2d", "\u1112\u1161\u11ab", "Caf\u00e9"};
    const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (size_t i = 0; i < 5; i++) add(m, specials[i], 0, IG_TOKEN_CONTROL);
    for (size_t i = 0; i < 8; i++) add(m, (hashes ? plain : marked)[i], 0, IG_TOKEN_NORMAL);
    ig_vocab *v = &m->vocab;
    v->padding = 0, v->unknown = 1, v->bos = 2, v->separator = 3, v->mask = 4;
    v->add_bos = v->add_eos = true;
}

static ig_tokenizer *make(const making *m) {
    ig_tokenizer *t = NULL;
    must(ig_tokenizer_from_vocab(&ig_heap, &m->vocab, &t));
    return t;
}

/* ---- Checks ---- */

static void has_ids(const ig_tokens *ids, const int32_t *want, size_t n_want, const char *text) {
    char got[256] = "";
    for (size_t i = 0; i < ids->count && i < 24; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), " %d", ids->at[i]);
    if (ids->count != n_want || (n_want && memcmp(ids->at, want, n_want * sizeof *want) != 0))
        fail_msg("'%s' becomes%s", text, got);
}

static void encodes(const ig_tokenizer *t, const char *text, unsigned flags, const int32_t *want,
                    size_t n_want) {
    ig_tokens ids = {.allocator = &ig_heap};
    must(ig_tokenize(t, text, strlen(text), flags, &ids));
    has_ids(&ids, want, n_want, text);
    ig_tokens_deinit(&ids);
}
#define IDS(...)                     (const int32_t[]){__VA_ARGS__}, sizeof(int32_t[]){__VA_ARGS__} / sizeof(int32_t)
#define ENCODES(t, text, flags, ...) encodes(t, text, flags, IDS(__VA_ARGS__))

static void decodes(const ig_tokenizer *t, unsigned flags, const char *want, const int32_t *ids,
                    size_t n_ids) {
    char text[256];
    const size_t n = ig_detokenize(t, ids, n_ids, flags, text, sizeof text - 1);
    text[n] = 0;
    assert_string_equal(text, want);
    ig_detokenizer *d;
    must(ig_detokenizer_create(t, flags, &d));
    char streamed[256];
    size_t used = 0;
    for (size_t i = 0; i <= n_ids; i++) {
        const ig_string_view part =
            i < n_ids ? ig_detokenizer_next(d, ids[i]) : ig_detokenizer_end(d);
        memcpy(streamed + used, part.bytes, part.n_bytes);
        used += part.n_bytes;
    }
    streamed[used] = 0;
    assert_string_equal(streamed, want);
    ig_detokenizer_destroy(d);
}

/* ---- llama ---- */

static void llama_merges_the_highest_score_first(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.vocab.add_space_prefix = false;
    ig_tokenizer *t = make(&m);
    /* bc has -2, ab -3: so a, bc; and a and bc are abc. */
    ENCODES(t, "abc", 0, LLAMA_PIECES + 6);
    ENCODES(t, "ab", 0, LLAMA_PIECES + 4);
    ENCODES(t, "abab", 0, LLAMA_PIECES + 4, LLAMA_PIECES + 4);
    ENCODES(t, " abc", 0, LLAMA_PIECES + 7, LLAMA_PIECES + 5); /* bc first; then " ab" cannot be */
    ENCODES(t, "\u2581abb", 0, LLAMA_PIECES + 8, LLAMA_PIECES + 2);
    encodes(t, "", 0, NULL, 0);
    ig_tokenizer_destroy(t);
}

static void llama_puts_a_space_before_a_text_and_after_special_tokens(void **state) {
    (void)state;
    making m;
    llama(&m);
    ig_tokenizer *t = make(&m);
    const unsigned both = IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_PARSE_SPECIAL;
    ENCODES(t, "a", 0, LLAMA_PIECES + 7);
    ENCODES(t, "a", IG_TOKENIZE_CONTINUES, LLAMA_PIECES + 1);
    ENCODES(t, "a", IG_TOKENIZE_ADD_SPECIAL, 1, LLAMA_PIECES + 7);
    ENCODES(t, "", IG_TOKENIZE_ADD_SPECIAL, 1);
    ENCODES(t, "a</s>a", both, 1, LLAMA_PIECES + 7, 2, LLAMA_PIECES + 7);
    ENCODES(t, "a<user>a", 0, LLAMA_PIECES + 7, LLAMA_PIECES + 9, LLAMA_PIECES + 7);
    ig_tokenizer_destroy(t);
}

static void llama_names_of_control_tokens_are_plain_text_unless_asked_for(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.vocab.add_space_prefix = false;
    ig_tokenizer *t = make(&m);
    ENCODES(t, "<s>", 0, LLAMA_PIECES + 14, LLAMA_PIECES + 13);
    ENCODES(t, "<s>", IG_TOKENIZE_PARSE_SPECIAL, 1);
    ENCODES(t, "<unk>", IG_TOKENIZE_PARSE_SPECIAL, 0);
    ig_tokenizer_destroy(t);
}

static void llama_bytes_stand_for_what_has_no_piece(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.vocab.add_space_prefix = false;
    ig_tokenizer *t = make(&m);
    ENCODES(t, "\u00e4a", 0, LLAMA_BYTES + 0xC3, LLAMA_BYTES + 0xA4, LLAMA_PIECES + 1);
    ENCODES(t,
            "\xff"
            "a",
            0, LLAMA_BYTES + 0xFF, LLAMA_PIECES + 1);
    ig_tokenizer_destroy(t);
    for (size_t i = 0; i < 256; i++) m.kinds[LLAMA_BYTES + i] = IG_TOKEN_UNUSED;
    t = make(&m); /* without bytes there is the unknown token, one for each character */
    ENCODES(t, "\u00e4a", 0, 0, LLAMA_PIECES + 1);
    ig_tokenizer_destroy(t);
}

static void llama_takes_spaces_away_if_the_file_says_so(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.vocab.remove_extra_spaces = true;
    ig_tokenizer *t = make(&m);
    ENCODES(t, "  a   a  ", 0, LLAMA_PIECES + 7, LLAMA_PIECES + 7);
    encodes(t, "   ", 0, NULL, 0);
    ig_tokenizer_destroy(t);
}

static void tokens_that_are_not_in_use_say_nothing(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.kinds[LLAMA_PIECES + 2] = IG_TOKEN_UNUSED;
    ig_tokenizer *t = make(&m);
    const int32_t ids[] = {LLAMA_PIECES + 1, LLAMA_PIECES + 2, LLAMA_PIECES + 3};
    decodes(t, IG_DETOKENIZE_SPECIAL, "ac", ids, 3);
    ig_tokenizer_destroy(t);
}

static void llama_decodes_to_text(void **state) {
    (void)state;
    making m;
    llama(&m);
    ig_tokenizer *t = make(&m);
    const int32_t ids[] = {1,
                           LLAMA_PIECES + 7,
                           LLAMA_PIECES + 9,
                           LLAMA_BYTES + 0xC3,
                           LLAMA_BYTES + 0xA4,
                           LLAMA_PIECES + 8,
                           2};
    decodes(t, 0, " a<user>\u00e4 ab", ids, 7);
    decodes(t, IG_DETOKENIZE_START, "a<user>\u00e4 ab", ids, 7);
    decodes(t, IG_DETOKENIZE_SPECIAL, "<s> a<user>\u00e4 ab</s>", ids, 7);
    assert_true(ig_tokenizer_is_control(t, 0) && ig_tokenizer_is_control(t, 1));
    assert_false(ig_tokenizer_is_control(t, LLAMA_PIECES) || ig_tokenizer_is_control(t, -1));
    assert_true(ig_tokenizer_is_eog(t, 2));
    assert_false(ig_tokenizer_is_eog(t, 1) || ig_tokenizer_is_eog(t, 1 << 20));
    ig_tokenizer_destroy(t);
}

/* ---- gpt2 ---- */

static void gpt2_merges_in_the_order_of_the_file(void **state) {
    (void)state;
    making m;
    gpt2(&m, "gpt-2");
    ig_tokenizer *t = make(&m);
    ENCODES(t, "abc", 0, 5);
    ENCODES(t, "bc abc", 0, 8, 3, 5); /* "a b" comes before " a" */
    ENCODES(t, "aabc", 0, 0, 5);      /* aabc is a piece, but no merge makes it */
    ENCODES(t, "\u00e4", 0, 10, 11);
    encodes(t, "xyz", 0, NULL, 0); /* bytes that the vocabulary does not have */
    ig_tokenizer_destroy(t);

    gpt2(&m, "llama-bpe");
    t = make(&m); /* where a word that is a piece is that piece */
    ENCODES(t, "aabc", 0, 9);
    ig_tokenizer_destroy(t);
}

static void gpt2_finds_special_tokens_by_their_names(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    m.vocab.add_bos = true;
    ig_tokenizer *t = make(&m);
    const unsigned both = IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_PARSE_SPECIAL;
    ENCODES(t, "a<|im|>b", 0, 0, 14, 1);
    ENCODES(t, "a<|im_end|>b", IG_TOKENIZE_PARSE_SPECIAL, 0, 13, 1);
    ENCODES(t, "a<|im_end|>b", both, 12, 0, 13, 1);
    ENCODES(t, "<|endoftext|><|im|><|im_en", both, 12, 12, 14); /* the rest has no ids */
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_BOS), 12);
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOT), 13);
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_MASK), -1);
    assert_true(ig_tokenizer_is_eog(t, 12) && ig_tokenizer_is_eog(t, 13));
    assert_false(ig_tokenizer_is_eog(t, 14));
    assert_int_equal(ig_tokenizer_json(t, NULL, 0), 0);
    ig_tokenizer_destroy(t);
}

static void the_end_of_a_turn_is_found_by_its_name(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    m.vocab.eot = -1;
    ig_tokenizer *t = make(&m);
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOT), 13);
    ig_tokenizer_destroy(t);
}

/* Whether <|end|> is the end, beside another name that may be one. */
static bool end_is_end(const char *beside) {
    making m;
    gpt2(&m, NULL);
    const int32_t end = add(&m, "<|end|>", 0, IG_TOKEN_CONTROL);
    m.vocab.eot = end;
    m.vocab.eos = add(&m, "<|return|>", 0, IG_TOKEN_CONTROL);
    const int32_t other = add(&m, beside, 0, IG_TOKEN_CONTROL);
    ig_tokenizer *t = make(&m);
    const bool is_end = ig_tokenizer_is_eog(t, end);
    assert_true(ig_tokenizer_is_control(t, end) && ig_tokenizer_is_eog(t, m.vocab.eos));
    assert_true(ig_tokenizer_is_eog(t, other));
    ig_tokenizer_destroy(t);
    return is_end;
}

static void a_message_ends_before_the_turn_where_both_have_names(void **state) {
    (void)state;
    assert_false(end_is_end("<|call|>"));
    assert_true(end_is_end("<|eot_id|>"));
}

static void no_control_token_comes_from_a_span_that_may_have_none(void **state) {
    (void)state;
    making m;
    llama(&m);
    ig_tokenizer *t = make(&m);
    const ig_text_span spans[] = {
        {"<s>", 3, true}, {"", 0, false}, {"a", 1, true}, {"b<s>", 4, false}, {"</s>", 4, true}};
    ig_tokens ids = {.allocator = &ig_heap};
    must(ig_tokenize_spans(t, spans, 5, 0, &ids));
    /* " ab" reaches over from one span into the next; "<s>" of the fourth is text. */
    const int32_t want[] = {1, LLAMA_PIECES + 8, LLAMA_PIECES + 14, LLAMA_PIECES + 13, 2};
    has_ids(&ids, want, 5, "spans");
    ids.count = 0;
    const ig_text_span pieces[] = {
        {"<", 1, true}, {"s>", 2, false}, {"</s", 3, false}, {">", 1, true}};
    must(ig_tokenize_spans(t, pieces, 4, IG_TOKENIZE_CONTINUES, &ids));
    for (size_t i = 0; i < ids.count; i++) assert_false(ig_tokenizer_is_control(t, ids.at[i]));
    ids.count = 0;
    must(ig_tokenize_spans(t, NULL, 0, IG_TOKENIZE_ADD_SPECIAL, &ids));
    has_ids(&ids, (const int32_t[]){1}, 1, "nothing");
    ig_tokens_deinit(&ids);
    ig_tokenizer_destroy(t);
}

static void white_space_behind_special_tokens_goes_with_them_for_phi3(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    m.vocab.specials_strip_right = true;
    ig_tokenizer *t = make(&m);
    ENCODES(t, "<|im_end|>\n a", IG_TOKENIZE_PARSE_SPECIAL, 13, 0);
    ENCODES(t, "<|endoftext|> a", IG_TOKENIZE_PARSE_SPECIAL, 12, 6);
    ENCODES(t, "<|im_end|>  ", IG_TOKENIZE_PARSE_SPECIAL, 13);
    ig_tokenizer_destroy(t);
}

static void the_longest_name_is_meant(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    const int32_t two = add(&m, "aa", 0, IG_TOKEN_USER), four = add(&m, "aaaa", 0, IG_TOKEN_USER),
                  five = add(&m, "aaaab", 0, IG_TOKEN_CONTROL);
    ig_tokenizer *t = make(&m);
    ENCODES(t, "aaaaaaa", 0, four, two, 0);
    ENCODES(t, "aaaab", 0, four, 1);
    ENCODES(t, "aaaab", IG_TOKENIZE_PARSE_SPECIAL, five);
    ig_tokenizer_destroy(t);
}

static void tokens_that_end_a_turn_are_control_tokens_whatever_the_file_says(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    m.vocab.eot = -1;
    m.kinds[13] = IG_TOKEN_NORMAL;
    ig_tokenizer *t = make(&m);
    assert_true(ig_tokenizer_is_control(t, 13) && ig_tokenizer_is_eog(t, 13));
    assert_int_equal(ig_tokenizer_special(t, IG_SPECIAL_EOT), 13);
    ig_tokenizer_destroy(t);
}

static void files_without_kinds_have_bytes_by_their_spelling(void **state) {
    (void)state;
    making m;
    llama(&m);
    m.vocab.kinds = NULL;
    m.vocab.add_space_prefix = false;
    ig_tokenizer *t = make(&m);
    ENCODES(t, "\u00e4a", 0, LLAMA_BYTES + 0xC3, LLAMA_BYTES + 0xA4, LLAMA_PIECES + 1);
    assert_int_equal(ig_tokenizer_piece(t, LLAMA_BYTES + 'x').bytes[0], 'x');
    ig_tokenizer_destroy(t);
}

/* ---- bert ---- */

static void bert_cuts_words_into_the_longest_pieces(void **state) {
    (void)state;
    for (int hashes = 0; hashes < 2; hashes++) {
        making m;
        bert(&m, hashes);
        ig_tokenizer *t = make(&m);
        ENCODES(t, "unaffable", 0, 5, 6, 7);
        ENCODES(t, "UN, un", IG_TOKENIZE_ADD_SPECIAL, 2, 5, 9, 5, 3);
        ENCODES(t, "unaff\u4e2dun", 0, 5, 6, 10, 5);
        ENCODES(t, "aff unx able", 0, 1, 1, 1); /* no piece begins a word so */
        ENCODES(t, "[SEP]", IG_TOKENIZE_PARSE_SPECIAL, 3);
        ENCODES(t, "[SEP]", 0, 1, 1, 1);
        decodes(t, IG_DETOKENIZE_START, "unaffable , cafe", IDS(2, 5, 6, 7, 9, 8, 3));
        ig_tokenizer_destroy(t);
    }
}

static void bert_drops_capitals_accents_and_controls(void **state) {
    (void)state;
    making m;
    bert(&m, false);
    ig_tokenizer *t = make(&m);
    ENCODES(t, "Caf\u00e9 CAFE\u0301 ca\u200bfe\x01\xff", 0, 8, 8, 8);
    ENCODES(t, "\ud55c", 0, 11); /* a syllable becomes its letters */
    ENCODES(t, "un\u00a0un\u3000un\t\r\nun", 0, 5, 5, 5, 5);
    ig_tokenizer_destroy(t);
    m.vocab.keep_case = m.vocab.keep_accents = true;
    t = make(&m);
    ENCODES(t, "Caf\u00e9 cafe caf\u00e9", 0, 12, 8, 1);
    ig_tokenizer_destroy(t);
}

static void a_word_of_more_than_100_characters_is_unknown_to_bert(void **state) {
    (void)state;
    making m;
    bert(&m, false);
    ig_tokenizer *t = make(&m);
    char word[2 + 33 * 3 + 1] = "un";
    for (size_t i = 0; i < 33; i++) memcpy(word + 2 + 3 * i, "aff", 3);
    ENCODES(t, word, 0, 1); /* 101 */
    word[2 + 32 * 3] = 0;   /* 98 */
    ig_tokens ids = {.allocator = &ig_heap};
    must(ig_tokenize(t, word, strlen(word), 0, &ids));
    assert_int_equal(ids.count, 33);
    ig_tokens_deinit(&ids);
    ig_tokenizer_destroy(t);
}

static void letters_lose_their_accents_as_unicode_has_them(void **state) {
    (void)state;
    ig_unicode_decompositions d = {0};
    must(ig_unicode_decompositions_init(&ig_heap, &d));
    assert_int_equal(d.count,
                     2055); /* of Unicode 14, without marks and Hangul; 12 are themselves */
    for (size_t i = 1; i < d.count; i++) assert_true(d.rows[i - 1].point < d.rows[i].point);
    const struct {
        uint32_t from, to[3];
        size_t n;
    } rows[] = {
        {'x', {'x'}, 1},
        {0xC5, {'A'}, 1},
        {0x212B, {'A'}, 1},
        {0x1EA7, {'a'}, 1},
        {0x307E, {0x307E}, 1},
        {0x304C, {0x304B}, 1},
        {0x1F82, {0x3B1}, 1},
        {0xF900, {0x8C48}, 1},
        {0xFA0E, {0xFA0E}, 1},
        {0x2FA1D, {0x2A600}, 1},
        {0x9CB, {0x9C7, 0x9BE}, 2},
        {0xAC00, {0x1100, 0x1161}, 2},
        {0xD7A3, {0x1112, 0x1175, 0x11C2}, 3},
        {0x1D160, {0x1D158, 0x1D165, 0x1D16E}, 3},
        {0x37E, {';'}, 1},
        {0x10FFFF, {0x10FFFF}, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t got[3] = {0};
        assert_int_equal(ig_unicode_bare(&d, rows[i].from, got), rows[i].n);
        assert_memory_equal(got, rows[i].to, rows[i].n * sizeof *got);
    }
    ig_free(&ig_heap, d.rows);

    const uint32_t small[][2] = {
        {'A', 'a'},     {'z', 'z'},      {'@', '@'},         {0xD7, 0xD7},   {0xD8, 0xF8},
        {0x100, 0x101}, {0x101, 0x101},  {0x178, 0xFF},      {0x3A3, 0x3C3}, {0x410, 0x430},
        {0x1E9E, 0xDF}, {0x2C6F, 0x250}, {0x10400, 0x10428}, {0x130, 0x130}, {0x10FFFF, 0x10FFFF}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        assert_int_equal(ig_unicode_small(small[i][0]), small[i][1]);
}

/* ---- Limits ---- */

static void pieces_may_be_of_any_length(void **state) {
    (void)state;
    enum { LENGTH = 5000 };
    char *text = malloc(LENGTH + 1);
    memset(text, 'a', LENGTH);
    text[LENGTH] = 0;
    making m;
    gpt2(&m, NULL);
    const int32_t id = add(&m, text, 0, IG_TOKEN_USER);
    ig_tokenizer *t = make(&m);
    ENCODES(t, text, 0, id);
    ig_detokenizer *d;
    must(ig_detokenizer_create(t, 0, &d));
    const ig_string_view got = ig_detokenizer_next(d, id);
    assert_int_equal(got.n_bytes, LENGTH);
    assert_memory_equal(got.bytes, text, LENGTH);
    ig_detokenizer_destroy(d);
    ig_tokenizer_destroy(t);
    free(text);
}

/* Merging that went over the text for every merge would take hours. */
static void long_texts_without_a_gap_are_encoded_in_time(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) text[i] = "abc"[i % 3];
    const char *const models[] = {"llama", "gpt2", "bert"};
    for (size_t k = 0; k < 3; k++) {
        making m;
        if (k == 0) llama(&m);
        if (k == 1) gpt2(&m, "gpt-2");
        if (k == 2) bert(&m, false);
        ig_tokenizer *t = make(&m);
        assert_string_equal(ig_tokenizer_name(t), models[k]);
        ig_tokens ids = {.allocator = &ig_heap};
        must(ig_tokenize(t, text, BYTES, 0, &ids));
        assert_true(k == 2 ? ids.count == 1 : ids.count >= BYTES / 3 && ids.count < BYTES / 2);
        ig_tokens_deinit(&ids);
        ig_tokenizer_destroy(t);
    }
    free(text);
}

static void a_text_of_more_than_2_gib_is_refused(void **state) {
    (void)state;
    making m;
    gpt2(&m, NULL);
    ig_tokenizer *t = make(&m);
    ig_tokens ids = {.allocator = &ig_heap};
    refused(ig_tokenize(t, "", (size_t)INT32_MAX + 1, 0, &ids), IG_ERR_ARGUMENT,
            "a text of 2147483648 bytes");
    const ig_text_span spans[] = {{"", SIZE_MAX, false}, {"", SIZE_MAX, false}};
    refused(ig_tokenize_spans(t, spans, 2, 0, &ids), IG_ERR_ARGUMENT, "a text of");
    ig_tokenizer_destroy(t);
}

/* ---- What is refused ---- */

static void tables_that_do_not_fit_are_refused(void **state) {
    (void)state;
    making m;
    ig_tokenizer *t = NULL;
    gpt2(&m, "mine");
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT,
            "a.gguf: the pre-tokenizer 'mine' is not known; --pre");
    gpt2(&m, NULL);
    m.merges[2] = (ig_string_view){"ab", 2};
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT,
            "a.gguf: merge 2 is not two pieces");
    gpt2(&m, NULL);
    m.vocab.eos = 15;
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT,
            "the eos token is 15, but there are 15 tokens");
    gpt2(&m, NULL);
    m.vocab.model = "t5";
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT,
            "model 't5', not one of llama, gpt2, bert");
    gpt2(&m, NULL);
    m.vocab.n_tokens = 0;
    m.vocab.bos = m.vocab.eos = m.vocab.eot = -1;
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT, "of 0 tokens");
    llama(&m);
    m.kinds[LLAMA_PIECES] = IG_TOKEN_BYTE;
    refused(ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t), IG_ERR_FORMAT,
            "token 259 is said to be a byte, but is '\u2581'");
    assert_null(t);
}

/* ---- Memory ---- */

static ig_status make_and_use(const ig_allocator *a, const ig_vocab *vocab) {
    const ig_text_span spans[] = {{"ab abc un ", 10, false}, {"\u00e9 <s>", 6, true}};
    ig_tokenizer *t = NULL;
    ig_detokenizer *d = NULL;
    ig_tokens ids = {.allocator = a};
    ig_status status = ig_tokenizer_from_vocab(a, vocab, &t);
    if (status == IG_OK) status = ig_tokenize_spans(t, spans, 2, 3, &ids);
    if (status != IG_OK) assert_int_equal(ids.count, 0);
    if (status == IG_OK) status = ig_detokenizer_create(t, 0, &d);
    ig_detokenizer_destroy(d);
    ig_tokens_deinit(&ids);
    ig_tokenizer_destroy(t);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        making made;
        if (k == 0) llama(&made);
        if (k == 1) gpt2(&made, "falcon");
        if (k == 2) bert(&made, true);
        ig_status status = IG_ERR_MEMORY;
        for (uint64_t n = 1; status != IG_OK; n++) {
            meter m = {.fail_at = n};
            const ig_allocator a = {meter_alloc, meter_free, &m};
            status = make_and_use(&a, &made.vocab);
            if (status != IG_OK) refused(status, IG_ERR_MEMORY, "no memory");
            assert_int_equal(m.held, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_merges_the_highest_score_first),
        cmocka_unit_test(llama_puts_a_space_before_a_text_and_after_special_tokens),
        cmocka_unit_test(llama_names_of_control_tokens_are_plain_text_unless_asked_for),
        cmocka_unit_test(llama_bytes_stand_for_what_has_no_piece),
        cmocka_unit_test(llama_takes_spaces_away_if_the_file_says_so),
        cmocka_unit_test(llama_decodes_to_text),
        cmocka_unit_test(tokens_that_are_not_in_use_say_nothing),
        cmocka_unit_test(gpt2_merges_in_the_order_of_the_file),
        cmocka_unit_test(gpt2_finds_special_tokens_by_their_names),
        cmocka_unit_test(the_end_of_a_turn_is_found_by_its_name),
        cmocka_unit_test(tokens_that_end_a_turn_are_control_tokens_whatever_the_file_says),
        cmocka_unit_test(files_without_kinds_have_bytes_by_their_spelling),
        cmocka_unit_test(a_message_ends_before_the_turn_where_both_have_names),
        cmocka_unit_test(no_control_token_comes_from_a_span_that_may_have_none),
        cmocka_unit_test(white_space_behind_special_tokens_goes_with_them_for_phi3),
        cmocka_unit_test(the_longest_name_is_meant),
        cmocka_unit_test(bert_cuts_words_into_the_longest_pieces),
        cmocka_unit_test(bert_drops_capitals_accents_and_controls),
        cmocka_unit_test(a_word_of_more_than_100_characters_is_unknown_to_bert),
        cmocka_unit_test(letters_lose_their_accents_as_unicode_has_them),
        cmocka_unit_test(pieces_may_be_of_any_length),
        cmocka_unit_test(long_texts_without_a_gap_are_encoded_in_time),
        cmocka_unit_test(a_text_of_more_than_2_gib_is_refused),
        cmocka_unit_test(tables_that_do_not_fit_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
