/* The byte tokenizer: each byte is its own id. */
#include "text/tokenizer/tokenizer_kind.h"

enum { BYTES = 256 };

static ig_status make(ig_tokenizer *t) {
    for (int i = 0; i < BYTES; i++) IG_TRY(ig_pieces_add(t, &(char){(char)i}, 1));
    return IG_OK;
}

static ig_status learn(ig_tokenizer *t, const ig_tokenizer_training *options) {
    (void)options;
    return make(t);
}

static ig_status parse(ig_tokenizer *t, const char *source, const json_t *array) {
    (void)source, (void)array;
    return make(t);
}

static ig_status encode(const ig_tokenizer *t, ig_fragment f, ig_tokens *out) {
    (void)t;
    IG_TRY(ig_tokens_reserve(out, f.n_bytes));
    for (size_t i = 0; i < f.n_bytes; i++) out->at[out->count++] = (unsigned char)f.bytes[i];
    return IG_OK;
}

static size_t cut(const ig_tokenizer *t, const char *text, size_t n_bytes) {
    (void)t, (void)text;
    return n_bytes;
}

const ig_tokenizer_kind ig_tokenizer_byte = {
    .name = "byte",
    .struct_bytes = sizeof(ig_tokenizer),
    .learn = learn,
    .encode = encode,
    .cut = cut,
    .parse = parse,
};
