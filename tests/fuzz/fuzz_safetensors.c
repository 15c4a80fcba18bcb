/*
 * Any bytes as a safetensors file: nothing crashes, and what is accepted tiles the
 * file, so that every byte behind the header belongs to one tensor.
 *
 * The first four bytes are data; the rest is the header, whose length is put right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/safetensors.h"
#include "fuzz.h"

enum { LENGTH = 8 };

static void try_file(const uint8_t *bytes, size_t size) {
    ig_safetensors *st = NULL;
    const ig_status opened = ig_safetensors_open(&ig_heap, "fuzz", bytes, size, &st);
    REQUIRE(opened == IG_OK || opened == IG_ERR_FORMAT);
    uint64_t covered = 0, header = 0;
    for (size_t i = 0; opened == IG_OK && i < ig_safetensors_count(st); i++) {
        const ig_safetensor *t = ig_safetensors_at(st, i);
        uint64_t n_bytes;
        REQUIRE(ig_safetensors_find(st, t->name) == t);
        REQUIRE(!t->readable || (ig_desc_bytes(t->desc, &n_bytes) && n_bytes == t->n_bytes));
        REQUIRE((const uint8_t *)t->bytes + t->n_bytes <= bytes + size);
        covered += t->n_bytes;
    }
    if (opened == IG_OK) {
        memcpy(&header, bytes, LENGTH);
        REQUIRE(covered == size - LENGTH - header);
    }
    ig_safetensors_close(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { DATA = 4 };
    if (size < DATA) return 0;
    const uint64_t header = size - DATA, raw = size;
    uint8_t *file = malloc(LENGTH + size);
    memcpy(file, &header, LENGTH);
    memcpy(file + LENGTH, data + DATA, header);
    memcpy(file + LENGTH + header, data, DATA);
    try_file(file, LENGTH + size);
    free(file);

    uint8_t *as_it_is = malloc(raw);
    memcpy(as_it_is, data, raw);
    try_file(as_it_is, raw);
    free(as_it_is);
    return 0;
}
