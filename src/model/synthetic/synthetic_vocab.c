#include "model/synthetic/synthetic_vocab.h"

#include <stdio.h>
#include <string.h>

#include "format/gguf/gguf_layout.h"

enum { TOKEN_BYTES = 24, NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };

typedef struct vocab {
    char texts[MODEL_TOKENS][TOKEN_BYTES];
    float scores[MODEL_TOKENS];
    int32_t types[MODEL_TOKENS];
    int count;
} vocab;

static void add(vocab *v, const char *text, int32_t type, float score) {
    assert(v->count < MODEL_TOKENS);
    snprintf(v->texts[v->count], TOKEN_BYTES, "%s", text);
    v->scores[v->count] = score;
    v->types[v->count++] = type;
}

/* Fills up to the full size with unused tokens. */
static void fill_up(vocab *v, int until) {
    char text[TOKEN_BYTES];
    while (v->count < until) {
        snprintf(text, sizeof text, "filler%d", v->count);
        add(v, text, NORMAL, -1000);
    }
}

static void put_texts(ig_gguf_writer *w, const char *key, char (*texts)[TOKEN_BYTES], int count) {
    ig_string_view list[MODEL_TOKENS];
    for (int i = 0; i < count; i++) list[i] = (ig_string_view){texts[i], strlen(texts[i])};
    ig_gguf_writer_texts(w, key, list, (uint64_t)count);
}

static void put_tokens(ig_gguf_writer *w, vocab *v, const char *model) {
    assert(v->count == MODEL_TOKENS);
    ig_gguf_writer_text(w, "tokenizer.ggml.model", model);
    put_texts(w, "tokenizer.ggml.tokens", v->texts, v->count);
    ig_gguf_writer_array(w, "tokenizer.ggml.token_type", IG_GGUF_I32, v->types, MODEL_TOKENS);
}

/* Pairs of pieces; '_' is a space. Later pairs build on earlier ones. */
static const char *const merges[][2] = {
    {"h", "e"},   {"t", "he"}, {"_", "the"},   {"i", "n"},  {"_", "a"},  {"o", "n"},
    {"e", "r"},   {"_", "t"},  {"r", "e"},     {"a", "t"},  {"n", "d"},  {"_a", "nd"},
    {"o", "u"},   {"_", "s"},  {"in", "g"},    {"_", "w"},  {"e", "n"},  {"i", "s"},
    {"_", "is"},  {"o", "r"},  {"l", "l"},     {"_", "o"},  {"_o", "f"}, {"_t", "o"},
    {"e", "d"},   {"_", "in"}, {"a", "n"},     {"_", "b"},  {"a", "r"},  {"_", "h"},
    {"h", "a"},   {"s", "t"},  {"_", "m"},     {"i", "t"},  {"_", "it"}, {"l", "e"},
    {"_w", "or"}, {"l", "d"},  {"_wor", "ld"}, {"_", "he"}, {"ll", "o"}, {"_he", "llo"},
};
enum { N_MERGES = sizeof merges / sizeof *merges };

/* Writes a piece with '_' replaced by `space`; returns the end. */
static char *put_piece(char *to, const char *piece, const char *space) {
    for (; *piece; piece++) {
        const char letter[] = {*piece, 0};
        const char *text = *piece == '_' ? space : letter;
        to += sprintf(to, "%s", text);
    }
    return to;
}

void vocab_spm(ig_gguf_writer *w) {
    vocab v = {.count = 0};
    char text[TOKEN_BYTES];
    add(&v, "<unk>", UNKNOWN, 0);
    add(&v, "<s>", CONTROL, 0);
    add(&v, "</s>", CONTROL, 0);
    for (int byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        add(&v, text, BYTE, 0);
    }
    for (int i = 0; i < N_MERGES; i++) {
        put_piece(put_piece(text, merges[i][0], "▁"), merges[i][1], "▁");
        add(&v, text, NORMAL, (float)-i);
    }
    const char *letters = "_etaoinshrdluwmgf";
    for (const char *c = letters; *c; c++) {
        const char piece[] = {*c, 0};
        put_piece(text, piece, "▁");
        add(&v, text, NORMAL, (float)(letters - c) - N_MERGES);
    }
    fill_up(&v, MODEL_TOKENS);
    put_tokens(w, &v, "llama");
    ig_gguf_writer_array(w, "tokenizer.ggml.scores", IG_GGUF_F32, v.scores, MODEL_TOKENS);
    ig_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    ig_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    ig_gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    ig_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
    ig_gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", false);
}

/* Byte-level BPE's character for a byte: itself if printable, else one from U+0100 on. */
static void put_byte(char *to, int byte) {
    int point = byte, hidden = 0;
    for (int b = 0; b <= byte; b++) {
        const int seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (!seen && b == byte) point = 256 + hidden;
        hidden += !seen;
    }
    if (point < 0x80) {
        sprintf(to, "%c", point);
        return;
    }
    sprintf(to, "%c%c", 0xc0 | point >> 6, 0x80 | (point & 63));
}

void vocab_bpe(ig_gguf_writer *w, const char *pre) {
    vocab v = {.count = 0};
    char text[TOKEN_BYTES], space[TOKEN_BYTES], pairs[N_MERGES][TOKEN_BYTES];
    put_byte(space, ' ');
    for (int byte = 0; byte < 256; byte++) {
        put_byte(text, byte);
        add(&v, text, NORMAL, 0);
    }
    for (int i = 0; i < N_MERGES; i++) {
        char *middle = put_piece(pairs[i], merges[i][0], space);
        *middle++ = ' ';
        put_piece(middle, merges[i][1], space);
        put_piece(put_piece(text, merges[i][0], space), merges[i][1], space);
        add(&v, text, NORMAL, 0);
    }
    fill_up(&v, MODEL_TOKENS - 3);
    add(&v, "<|im_start|>", CONTROL, 0);
    add(&v, "<|im_end|>", CONTROL, 0);
    add(&v, "<|endoftext|>", CONTROL, 0);
    put_tokens(w, &v, "gpt2");
    ig_gguf_writer_text(w, "tokenizer.ggml.pre", pre);
    put_texts(w, "tokenizer.ggml.merges", pairs, N_MERGES);
    ig_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", MODEL_TOKENS - 1);
    ig_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", MODEL_TOKENS - 2);
    ig_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
}

void vocab_wordpiece(ig_gguf_writer *w) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    static const char *const words[] = {"▁the", "▁and", "▁hello", "▁world", "ing", "ed", "er"};
    vocab v = {.count = 0};
    char text[TOKEN_BYTES];
    for (int i = 0; i < 5; i++) add(&v, special[i], i == 1 ? UNKNOWN : CONTROL, 0);
    for (int c = '!'; c <= '~'; c++) {
        if (c >= 'A' && c <= 'Z') continue; /* bert lowercases its input */
        snprintf(text, sizeof text, "▁%c", c);
        add(&v, text, NORMAL, 0);
    }
    for (int c = '!'; c <= '~'; c++) {
        if (c >= 'A' && c <= 'Z') continue;
        snprintf(text, sizeof text, "%c", c);
        add(&v, text, NORMAL, 0);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&v, words[i], NORMAL, 0);
    fill_up(&v, MODEL_TOKENS);
    put_tokens(w, &v, "bert");
    ig_gguf_writer_u32(w, "tokenizer.ggml.token_type_count", 2);
    ig_gguf_writer_u32(w, "tokenizer.ggml.padding_token_id", 0);
    ig_gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 1);
    ig_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 2);
    ig_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 3);
    ig_gguf_writer_u32(w, "tokenizer.ggml.seperator_token_id", 3);
    ig_gguf_writer_u32(w, "tokenizer.ggml.mask_token_id", 4);
}
