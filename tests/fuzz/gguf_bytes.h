/*
 * gguf_bytes.h - GGUF files in memory, for the fuzz harness and the unit tests.
 *
 * gguf_sample() is a small file with one of everything: a value of every type,
 * arrays, tensors of several types, one of them empty.
 */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "format/gguf/gguf.h"
#include "format/gguf/gguf_layout.h"

typedef struct gguf_bytes {
    uint8_t *bytes; /* malloc'd to the size, so that a sanitizer sees every read beyond */
    size_t size;
} gguf_bytes;

/* Finishes the writer and destroys it; tensors count upwards byte by byte.  An empty result: it
 * refused. */
static inline gguf_bytes gguf_encode(ig_gguf_writer *writer) {
    gguf_bytes file = {NULL, 0};
    if (ig_gguf_writer_finish(writer) == IG_OK) {
        uint64_t head_bytes;
        const void *head = ig_gguf_writer_head(writer, &head_bytes);
        file.size = (size_t)ig_gguf_writer_file_bytes(writer);
        file.bytes = malloc(file.size);
        for (size_t i = 0; i < file.size; i++) file.bytes[i] = (uint8_t)i;
        memcpy(file.bytes, head, (size_t)head_bytes);
    }
    ig_gguf_writer_destroy(writer);
    return file;
}

static inline ig_string_view gguf_text(const char *text) {
    return (ig_string_view){text, strlen(text)};
}

static inline void gguf_sample_number(ig_gguf_writer *w, const char *key, ig_gguf_type type,
                                      const void *packed) {
    const ig_gguf_value v = {.key = gguf_text(key), .type = type, .count = 1, .packed = packed};
    ig_gguf_writer_value(w, &v);
}

static inline void gguf_sample_values(ig_gguf_writer *w) {
    ig_gguf_writer_text(w, "general.architecture", "llama");
    ig_gguf_writer_u32(w, "n.u32", 4000000000u);
    ig_gguf_writer_f32(w, "n.f32", 0.5f);
    ig_gguf_writer_bool(w, "n.true", true);
    gguf_sample_number(w, "n.u8", IG_GGUF_U8, &(uint8_t){200});
    gguf_sample_number(w, "n.i8", IG_GGUF_I8, &(int8_t){-100});
    gguf_sample_number(w, "n.u16", IG_GGUF_U16, &(uint16_t){60000});
    gguf_sample_number(w, "n.i16", IG_GGUF_I16, &(int16_t){-30000});
    gguf_sample_number(w, "n.i32", IG_GGUF_I32, &(int32_t){-2000000000});
    gguf_sample_number(w, "n.u64", IG_GGUF_U64, &(uint64_t){UINT64_MAX});
    gguf_sample_number(w, "n.i64", IG_GGUF_I64, &(int64_t){INT64_MIN});
    gguf_sample_number(w, "n.f64", IG_GGUF_F64, &(double){1e300});
    ig_gguf_writer_array(w, "a.i32", IG_GGUF_I32, (const int32_t[]){3, -2, 1}, 3);
    ig_gguf_writer_array(w, "a.f32", IG_GGUF_F32, (const float[]){0.25f, -8}, 2);
    ig_gguf_writer_array(w, "a.none", IG_GGUF_U8, NULL, 0);
    ig_gguf_writer_texts(w, "a.texts",
                         (const ig_string_view[]){gguf_text("one"), gguf_text(""), {"a\0b", 3}}, 3);
}

static inline gguf_bytes gguf_sample(void) {
    ig_gguf_writer *w = NULL;
    if (ig_gguf_writer_create(&ig_heap, "sample", &w) != IG_OK) return (gguf_bytes){NULL, 0};
    gguf_sample_values(w);
    ig_gguf_writer_tensor(w, "token_embd.weight", (ig_desc){IG_Q8_0, {2, {3, 64}}});
    ig_gguf_writer_tensor(w, "blk.0.attn_norm.weight", (ig_desc){IG_F32, {1, {5}}});
    ig_gguf_writer_tensor(w, "nothing", (ig_desc){IG_F16, {2, {0, 7}}});
    ig_gguf_writer_tensor(w, "scalar", (ig_desc){IG_BF16, {0, {0}}});
    ig_gguf_writer_tensor(w, "deep", (ig_desc){IG_F16, {4, {2, 1, 3, 2}}});
    return gguf_encode(w);
}

#endif
