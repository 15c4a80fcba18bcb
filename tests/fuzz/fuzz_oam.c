/*
 * Any bytes as an .oam file.
 *
 * The first byte says what is set right first: bit 0 the checksums, bit 1 the
 * size in the header.  Without that, chance would never get past them.  Two
 * things must hold: nothing crashes, and a file that passes is the only encoding
 * of what it holds, so that writing its content again gives the same bytes.
 */
#include <stdio.h>

#include "fuzz.h"
#include "oam_bytes.h"

/* NOLINTBEGIN(readability-identifier-naming): libFuzzer knows them by these names */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size); /* libFuzzer's own */
/* NOLINTEND(readability-identifier-naming) */

/*
 * Every second time changes one number of the head a little or to one of its
 * limits; most other changes move all that follows, and are found out at once.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    enum { WORD = 8, HEAD_WORDS = 128 };
    const size_t words = size <= WORD ? 0 : (size - 1) / WORD;
    if (seed % 2 == 0 || words == 0) return LLVMFuzzerMutate(data, size, max_size);

    srand(seed);
    uint8_t *at = data + 1 + WORD * ((size_t)rand() % (words < HEAD_WORDS ? words : HEAD_WORDS));
    const uint64_t old = oam_get64(at);
    const uint64_t choices[] = {0,       1,       old + 1, old - 1,       old + 8,   old - 8,
                                old * 2, old / 2, size,    (uint64_t)-64, INT64_MAX, old + 4096};
    const uint64_t value = choices[(size_t)rand() % (sizeof choices / sizeof *choices)];
    if (rand() % 2)
        oam_put64(at, value);
    else
        oam_put32(at + (rand() % 2 ? 4 : 0), (uint32_t)value);
    return size;
}

/* Names are found, numbers can be read, and written again it is the same file. */
static void check_content(const ig_oam *oam, const uint8_t *bytes, size_t size) {
    const size_t count = ig_oam_count(oam);
    ig_oam_entry *entries = calloc(count + 1, sizeof *entries);
    const void **tensors = calloc(count + 1, sizeof *tensors);
    for (size_t i = 0; i < count; i++) {
        const ig_checkpoint_tensor t = ig_oam_get(oam, i);
        size_t found;
        REQUIRE(ig_oam_find(oam, t.name, &found) && found == i);
        REQUIRE(ig_oam_verify_tensor(oam, i) == IG_OK);
        entries[i] = (ig_oam_entry){t.name, t.role, t.desc};
        tensors[i] = t.bytes;
    }
    const ig_oam_content content = {
        .config = ig_oam_config(oam),
        .progress = ig_oam_progress(oam),
        .optimizer = ig_oam_optimizer(oam),
        .seed = ig_oam_seed(oam),
        .step = ig_oam_step(oam),
        .entries = entries,
        .count = count,
    };
    const oam_bytes again = oam_encode(&content, tensors);
    REQUIRE(again.bytes && again.size == size && memcmp(again.bytes, bytes, size) == 0);
    free(again.bytes);
    free(tensors);
    free(entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const uint8_t repair = data[0];
    size--;
    uint8_t *bytes = malloc(size ? size : 1); /* of its own, so that reads beyond are seen */
    memcpy(bytes, data + 1, size);
    if (repair & 2 && size >= OAM_HEADER_BYTES) oam_put64(bytes + OAM_AT_FILE_BYTES, size);
    if (repair & 1) oam_repair(bytes, size);

    ig_oam *oam = NULL;
    const ig_status opened = ig_oam_open(&ig_heap, "fuzz", bytes, size, &oam);
    REQUIRE(opened == IG_OK || opened == IG_ERR_FORMAT);
    if (opened == IG_OK) {
        const ig_status verified = ig_oam_verify(oam);
        REQUIRE(verified == IG_OK || verified == IG_ERR_FORMAT);
        if (verified == IG_OK) check_content(oam, bytes, size);
        for (size_t i = 0; i < ig_oam_count(oam); i++) (void)!ig_oam_verify_tensor(oam, i);
    }
    ig_oam_close(oam);
    free(bytes);
    return 0;
}
