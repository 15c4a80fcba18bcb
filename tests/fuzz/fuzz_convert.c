/*
 * Any JSON as the texts of a model hub's folder:
 *
 *     {"config": {...}, "tokenizer": {...}, "tokenizer_config": {...}, "generation": {...}}
 *
 * Nothing crashes, and what is not refused makes a head that the reader takes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/convert/convert_parts.h"

enum { TOKENS = 280 };

static ig_status convert(ig_conversion *c, const convert_documents *docs, ig_gguf_writer *w) {
    IG_TRY(convert_find_arch(c));
    IG_TRY(convert_check_config(c));
    IG_TRY(convert_add_rotations(c));
    IG_TRY(convert_put_keys(c, w));
    IG_TRY(convert_put_vocabulary(c, docs, w));
    return ig_gguf_writer_finish(w);
}

static void check_head(const ig_gguf_writer *w) {
    uint64_t n_bytes;
    const void *head = ig_gguf_writer_head(w, &n_bytes);
    ig_gguf *gguf = NULL;
    REQUIRE(ig_gguf_parse(&ig_heap, "fuzz", head, n_bytes, &gguf) == IG_OK);
    REQUIRE(ig_gguf_find(gguf, "tokenizer.ggml.tokens")->count == TOKENS);
    ig_gguf_close(gguf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *root = NULL;
    if (ig_json_parse("fuzz", "it", data, size, &root) != IG_OK) return 0;
    ig_conversion *c = ig_alloc(&ig_heap, 1, sizeof *c);
    *c = (ig_conversion){.allocator = &ig_heap, .dir = "fuzz", .n_tokens = TOKENS};
    c->config = json_incref(json_object_get(root, "config"));
    const convert_documents docs = {json_object_get(root, "tokenizer"),
                                    json_object_get(root, "tokenizer_config"),
                                    json_object_get(root, "generation")};
    ig_gguf_writer *w = NULL;
    REQUIRE(ig_gguf_writer_create(&ig_heap, "fuzz", &w) == IG_OK);
    const ig_status status = convert(c, &docs, w);
    REQUIRE(status == IG_OK || status == IG_ERR_FORMAT);
    if (status == IG_OK) check_head(w);
    ig_gguf_writer_destroy(w);
    ig_conversion_close(c);
    json_decref(root);
    return 0;
}
