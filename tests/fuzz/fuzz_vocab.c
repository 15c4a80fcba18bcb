/*
 * Any bytes as a model file's vocabulary, and as a text for it.
 *
 *     model, pre, flags, number of tokens and of merges: a byte each
 *     each token: its kind, the number of its bytes, its bytes
 *     each merge: the number of its bytes, its bytes
 *     the rest is text
 *
 * Tokens for all bytes are put before them, so that any text can be written.  What
 * must hold: nothing crashes; what is not refused gives ids of its vocabulary; no
 * control token comes from plain text; gpt2 gives the text back; what is decoded
 * for people is UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/vocab.h"

enum { LLAMA, GPT2, BERT, MODELS, BYTES = 256, MOST = 64 };

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static unsigned next(input *in) {
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

static ig_string_view next_text(input *in, size_t n_bytes) {
    if (n_bytes > in->left) n_bytes = in->left;
    const ig_string_view text = {(const char *)in->at, n_bytes};
    in->at += n_bytes;
    in->left -= n_bytes;
    return text;
}

typedef struct making {
    ig_vocab vocab;
    int model;
    ig_string_view tokens[BYTES + MOST], merges[MOST];
    float scores[BYTES + MOST];
    int32_t kinds[BYTES + MOST];
    char spelled[BYTES][8];
} making;

/* "<0x0A>", or the character that byte-level vocabularies have for a byte. */
static void spell(int model, unsigned byte, unsigned *hidden, char out[8]) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    memset(out, 0, 8);
    if (model == GPT2)
        ig_utf8_put(seen ? byte : 0x100 + (*hidden)++, out);
    else
        snprintf(out, 8, "<0x%02X>", byte);
}

static void add_bytes(making *m) {
    unsigned hidden = 0;
    for (unsigned byte = 0; byte < BYTES; byte++) {
        spell(m->model, byte, &hidden, m->spelled[byte]);
        m->tokens[byte] = (ig_string_view){m->spelled[byte], strlen(m->spelled[byte])};
        m->kinds[byte] = m->model == GPT2 ? IG_TOKEN_NORMAL : IG_TOKEN_BYTE;
    }
    m->vocab.n_tokens = BYTES;
}

static void read_vocab(input *in, making *m) {
    static const char *const models[MODELS] = {"llama", "gpt2", "bert"};
    size_t n_pres = 0;
    while (ig_pre_rows[n_pres].name) n_pres++;
    m->model = (int)(next(in) % MODELS);
    const unsigned pre = next(in), flags = next(in);
    const size_t n_tokens = next(in) % MOST, n_merges = next(in) % MOST;
    m->vocab = (ig_vocab){.source = "fuzz",
                          .model = models[m->model],
                          .pre = pre % 16 ? ig_pre_rows[pre % n_pres].name : NULL,
                          .tokens = m->tokens,
                          .merges = m->merges,
                          .scores = flags & 1 ? m->scores : NULL,
                          .kinds = m->kinds,
                          .add_bos = flags & 2,
                          .add_eos = flags & 4,
                          .add_space_prefix = flags & 8,
                          .remove_extra_spaces = flags & 16,
                          .keep_case = flags & 32,
                          .keep_accents = flags & 64,
                          .specials_strip_right = m->model != GPT2 && flags & 128};
    ig_vocab *v = &m->vocab;
    add_bytes(m);
    for (size_t i = 0; i < n_tokens; i++, v->n_tokens++) {
        const unsigned kind = next(in);
        m->kinds[v->n_tokens] = (int32_t)(kind % 7);
        m->scores[v->n_tokens] = (float)(kind / 7);
        m->tokens[v->n_tokens] = next_text(in, next(in));
    }
    for (; v->n_merges < n_merges; v->n_merges++) m->merges[v->n_merges] = next_text(in, next(in));
    v->bos = v->eos = v->eot = v->separator = v->padding = v->mask = -1;
    v->unknown = (int32_t)(flags % 4) - 1;
}

static void check_ids(const ig_tokenizer *t, const ig_tokens *ids, bool plain) {
    for (size_t i = 0; i < ids->count; i++) {
        const int32_t id = ids->at[i];
        REQUIRE(id >= 0 && id < ig_tokenizer_vocab_size(t));
        REQUIRE(!plain || !ig_tokenizer_is_control(t, id));
    }
}

static void check_back(const ig_tokenizer *t, const ig_tokens *ids, ig_string_view text) {
    char *back = malloc(text.n_bytes + 1);
    REQUIRE(ig_detokenize(t, ids->at, ids->count, IG_DETOKENIZE_SPECIAL, back, text.n_bytes) ==
            text.n_bytes);
    REQUIRE(memcmp(back, text.bytes, text.n_bytes) == 0);
    free(back);
}

/* Merges may make a token that is marked as unused; such a one says nothing. */
static bool says_all(const making *m, const ig_tokens *ids) {
    for (size_t i = 0; i < ids->count; i++)
        if (m->kinds[ids->at[i]] == IG_TOKEN_UNUSED) return false;
    return true;
}

static void check_stream(const ig_tokenizer *t, const ig_tokens *ids) {
    ig_detokenizer *decoder;
    REQUIRE(ig_detokenizer_create(t, IG_DETOKENIZE_START | IG_DETOKENIZE_SPECIAL, &decoder) ==
            IG_OK);
    for (size_t i = 0; i <= ids->count; i++) {
        const ig_string_view part =
            i < ids->count ? ig_detokenizer_next(decoder, ids->at[i]) : ig_detokenizer_end(decoder);
        uint32_t point;
        for (size_t at = 0, step; at < part.n_bytes; at += step)
            REQUIRE(ig_utf8_next(part.bytes + at, part.n_bytes - at, &point, &step) ==
                    IG_UTF8_WHOLE);
    }
    ig_detokenizer_destroy(decoder);
}

static void check_text(const making *m, const ig_tokenizer *t, ig_string_view text) {
    const unsigned all = IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_PARSE_SPECIAL;
    for (unsigned flags = 0; flags <= all; flags += all) {
        ig_tokens ids = {.allocator = &ig_heap};
        REQUIRE(ig_tokenize(t, text.bytes, text.n_bytes, flags, &ids) == IG_OK);
        check_ids(t, &ids, flags == 0 && m->vocab.unknown < 0);
        if (m->model == GPT2 && says_all(m, &ids)) check_back(t, &ids, text);
        check_stream(t, &ids);
        ig_tokens_deinit(&ids);
    }
    const size_t third = text.n_bytes / 3;
    const ig_text_span spans[] = {{text.bytes, third, true},
                                  {text.bytes + third, third, false},
                                  {text.bytes + 2 * third, text.n_bytes - 2 * third, true}};
    ig_tokens ids = {.allocator = &ig_heap};
    REQUIRE(ig_tokenize_spans(t, spans, 3, 0, &ids) == IG_OK);
    check_ids(t, &ids, false);
    if (m->model == GPT2 && says_all(m, &ids)) check_back(t, &ids, text);
    ig_tokens_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static making m;
    input in = {data, size};
    memset(&m, 0, sizeof m);
    read_vocab(&in, &m);
    ig_tokenizer *t = NULL;
    const ig_status made = ig_tokenizer_from_vocab(&ig_heap, &m.vocab, &t);
    REQUIRE(made == IG_OK || made == IG_ERR_FORMAT);
    if (made == IG_OK) check_text(&m, t, next_text(&in, in.left));
    ig_tokenizer_destroy(t);
    return 0;
}
