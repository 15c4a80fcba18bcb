/*
 * Any bytes as a GGUF file.  Nothing crashes, memory goes with the size of the
 * file and not with what it claims, all that is found can be read, and what was
 * read and is written again is read as the same.
 */
#include <stdio.h>

#include "fuzz.h"
#include "gguf_bytes.h"

/* NOLINTBEGIN(readability-identifier-naming): libFuzzer knows them by these names */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size); /* libFuzzer's own */
/* NOLINTEND(readability-identifier-naming) */

/* As tests/unit/test_gguf.c has it. */
enum { BYTES_PER_BYTE = 16, BYTES_FIXED = 8192 };

static void *counted_alloc(void *user, size_t bytes, size_t alignment) {
    *(size_t *)user += bytes;
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void counted_free(void *user, void *p) {
    (void)user;
    ig_heap.free(ig_heap.user, p);
}

/* Every second time one number somewhere becomes another that is near a limit: lengths, counts and
 * offsets are 8 bytes and lie anywhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    enum { WORD = 8 };
    if (seed % 2 == 0 || size < WORD) return LLVMFuzzerMutate(data, size, max_size);
    srand(seed);
    uint8_t *at = data + (size_t)rand() % (size - WORD + 1);
    const uint64_t old = gguf_get64(at);
    const uint64_t choices[] = {0,       1,       old + 1, old - 1,       old + 8,   old - 8,
                                old * 2, old / 2, size,    (uint64_t)-32, INT64_MAX, old + 32};
    const uint64_t value = choices[(size_t)rand() % (sizeof choices / sizeof *choices)];
    memcpy(at, &value, rand() % 2 ? 8 : 4);
    return size;
}

/* So that the compiler does not leave the reading out. */
static void keep(uint64_t sum) { __asm__ volatile("" : : "r"(sum)); }

static uint64_t read_all(const void *bytes, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const uint8_t *)bytes)[i];
    return sum;
}

static uint64_t read_value(const ig_gguf_value *v) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        if (v->texts)
            sum += read_all(v->texts[i].bytes, v->texts[i].n_bytes);
        else
            sum += (uint64_t)ig_gguf_int_at(v, i) + (ig_gguf_real_at(v, i) > 0);
    }
    return sum;
}

/* Names are found, numbers can be read, and a copy has the same head from the values on. */
static void check_content(const ig_gguf *gguf) {
    ig_gguf_writer *w = NULL;
    REQUIRE(ig_gguf_writer_create(&ig_heap, "again", &w) == IG_OK);
    uint64_t sum = 0;
    for (size_t i = 0; i < ig_gguf_n_values(gguf); i++) {
        const ig_gguf_value *v = ig_gguf_value_at(gguf, i);
        sum += read_value(v);
        ig_gguf_writer_value(w, v);
    }
    for (size_t i = 0; i < ig_gguf_n_tensors(gguf); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(gguf, i);
        REQUIRE(ig_gguf_find_tensor(gguf, t->name) == t);
        sum += read_all(t->bytes, t->n_bytes);
        ig_gguf_writer_tensor(w, t->name, t->desc);
    }
    keep(sum);
    gguf_bytes again = gguf_encode(w);
    ig_gguf *copy = NULL;
    REQUIRE(again.bytes &&
            ig_gguf_parse(&ig_heap, "again", again.bytes, again.size, &copy) == IG_OK);
    REQUIRE(ig_gguf_n_values(copy) == ig_gguf_n_values(gguf));
    REQUIRE(ig_gguf_n_tensors(copy) == ig_gguf_n_tensors(gguf));
    for (size_t i = 0; i < ig_gguf_n_values(gguf); i++)
        REQUIRE(read_value(ig_gguf_value_at(copy, i)) == read_value(ig_gguf_value_at(gguf, i)));
    ig_gguf_close(copy);
    free(again.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = malloc(size ? size : 1); /* of its own, so that reads beyond are seen */
    memcpy(bytes, data, size);
    size_t used = 0;
    const ig_allocator a = {counted_alloc, counted_free, &used};
    ig_gguf *gguf = NULL;
    const ig_status opened = ig_gguf_parse(&a, "fuzz", bytes, size, &gguf);
    REQUIRE(opened == IG_OK || opened == IG_ERR_FORMAT);
    REQUIRE(used <= BYTES_PER_BYTE * size + BYTES_FIXED);
    if (opened == IG_OK) check_content(gguf);
    ig_gguf_close(gguf);
    free(bytes);
    return 0;
}
