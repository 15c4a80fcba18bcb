#include "text/tokenizer/bpe_words.h"

#include <stdbool.h>
#include <string.h>

typedef enum sort { LETTER, DIGIT, SPACE, OTHER } sort;

static inline sort sort_of(char byte) {
    const unsigned c = (unsigned char)byte;
    if ((c | 32) - 'a' < 26 || c >= 0x80) return LETTER;
    if (c == ' ' || c - '\t' < 5) return SPACE; /* tab, newline, \v, \f, \r */
    return c - '0' < 10 ? DIGIT : OTHER;
}

/* The end of a run of characters of one class, from text[from] up to text[end]. */
static inline size_t run_end(const char *text, size_t from, size_t end, sort of) {
    while (from < end && sort_of(text[from]) == of) from++;
    return from;
}

/* The length of a contraction such as 's at the start of a text that starts with '; 0: none. */
static size_t contraction(const char *text, size_t bytes) {
    static const char *const all[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const size_t n = strlen(all[i]);
        if (n <= bytes && memcmp(text, all[i], n) == 0) return n;
    }
    return 0;
}

static bool inside_character(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* Shortens an overlong word to end at a character boundary, if there is one. */
static size_t shorten(const char *text) {
    size_t n = IG_WORD_BYTES;
    while (n > IG_WORD_BYTES - 3 && inside_character(text[n])) n--;
    return inside_character(text[n]) ? IG_WORD_BYTES : n;
}

size_t ig_word_next(const char *text, size_t bytes) {
    const size_t end = bytes <= IG_WORD_BYTES ? bytes : IG_WORD_BYTES + 1;
    const sort first = sort_of(text[0]);
    size_t n;
    if (first == SPACE) {
        n = run_end(text, 0, end, SPACE);
        if (n == end) return n <= IG_WORD_BYTES ? n : IG_WORD_BYTES;
        if (n > 1) return n - 1;
        if (text[0] != ' ') return 1;
        n = run_end(text, 1, end, sort_of(text[1]));
    } else {
        if (text[0] == '\'' && (n = contraction(text, bytes)) > 0) return n;
        n = run_end(text, 1, end, first);
    }
    return n <= IG_WORD_BYTES ? n : shorten(text);
}

size_t ig_words_whole(const char *text, size_t bytes) {
    for (size_t i = bytes; i > 1; i--)
        if (sort_of(text[i - 1]) == SPACE && sort_of(text[i - 2]) != SPACE) return i - 1;
    return 0;
}
