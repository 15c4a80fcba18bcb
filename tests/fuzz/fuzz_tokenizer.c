/*
 * Any bytes as the description of a tokenizer, and the same bytes as its text.
 *
 * What must hold: nothing crashes; one that is accepted, written and read again
 * is the same; its ids lie in its vocabulary; byte and bpe give the text back; a
 * text cut where it may be cut has the same ids; what is decoded for people is
 * UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "text/tokenizer/tokenizer.h"

static void check_description(const ig_tokenizer *t) {
    const size_t bytes = ig_tokenizer_json(t, NULL, 0);
    char *json = malloc(bytes + 1), *again = malloc(bytes + 1);
    REQUIRE(ig_tokenizer_json(t, json, bytes + 1) == bytes);
    ig_tokenizer *same = NULL;
    REQUIRE(ig_tokenizer_parse(&ig_heap, "fuzz", json, bytes, &same) == IG_OK);
    REQUIRE(ig_tokenizer_vocab_size(same) == ig_tokenizer_vocab_size(t));
    REQUIRE(ig_tokenizer_json(same, again, bytes + 1) == bytes);
    REQUIRE(memcmp(json, again, bytes + 1) == 0);
    ig_tokenizer_destroy(same);
    free(again);
    free(json);
}

static void check_ids(const ig_tokenizer *t, const char *text, size_t size, const int32_t *ids,
                      size_t n_ids) {
    for (size_t i = 0; i < n_ids; i++) REQUIRE(ids[i] >= 0 && ids[i] < ig_tokenizer_vocab_size(t));
    if (strcmp(ig_tokenizer_name(t), "char") == 0) return;
    char *back = malloc(size + 1);
    REQUIRE(ig_detokenize(t, ids, n_ids, 0, back, size) == size);
    REQUIRE(memcmp(back, text, size) == 0);
    free(back);
}

static void check_cut(const ig_tokenizer *t, const char *text, size_t size, const int32_t *ids,
                      size_t n_ids) {
    const size_t cut = ig_tokenizer_cut(t, text, size / 2);
    REQUIRE(cut <= size / 2);
    ig_tokens parts = {.allocator = &ig_heap};
    REQUIRE(ig_tokenize(t, text, cut, 0, &parts) == IG_OK);
    REQUIRE(ig_tokenize(t, text + cut, size - cut, 0, &parts) == IG_OK);
    REQUIRE(parts.count == n_ids && memcmp(parts.at, ids, n_ids * sizeof *ids) == 0);
    ig_tokens_deinit(&parts);
}

static void check_stream(const ig_tokenizer *t, const int32_t *ids, size_t n_ids) {
    ig_detokenizer *decoder;
    REQUIRE(ig_detokenizer_create(t, 0, &decoder) == IG_OK);
    for (size_t i = 0; i <= n_ids; i++) {
        const ig_string_view part =
            i < n_ids ? ig_detokenizer_next(decoder, ids[i]) : ig_detokenizer_end(decoder);
        uint32_t point;
        for (size_t at = 0, step; at < part.n_bytes; at += step)
            REQUIRE(ig_utf8_next(part.bytes + at, part.n_bytes - at, &point, &step) ==
                    IG_UTF8_WHOLE);
    }
    ig_detokenizer_destroy(decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    ig_tokenizer *t = NULL;
    const ig_status parsed = ig_tokenizer_parse(&ig_heap, "fuzz", text, size, &t);
    REQUIRE(parsed == IG_OK || parsed == IG_ERR_FORMAT);
    if (parsed != IG_OK) return 0;

    ig_tokens ids = {.allocator = &ig_heap};
    REQUIRE(ig_tokenize(t, text, size, 0, &ids) == IG_OK);
    REQUIRE(ids.count <= size);
    check_description(t);
    check_ids(t, text, size, ids.at, ids.count);
    check_cut(t, text, size, ids.at, ids.count);
    check_stream(t, ids.at, ids.count);
    ig_tokens_deinit(&ids);
    ig_tokenizer_destroy(t);
    return 0;
}
