#include "format/name_table.h"

#include <assert.h>
#include <string.h>

#include <xxhash.h>

bool ig_names_init(ig_names *names, const ig_allocator *a, size_t count) {
    size_t n_places = 8;
    while (n_places / 2 < count) n_places *= 2; /* at most half full */
    ig_name *places = ig_alloc(a, n_places, sizeof *places);
    if (!places) return false;
    *names = (ig_names){places, n_places};
    return true;
}

void ig_names_deinit(ig_names *names, const ig_allocator *a) {
    ig_free(a, names->places);
    *names = (ig_names){0};
}

/* The slot of a name, or the free slot to insert it. The table's own address seeds the hash, so a
 * crafted file cannot make all its names collide. */
static ig_name *place_of(const ig_names *names, const char *bytes, size_t n_bytes) {
    const uint64_t seed = (uintptr_t)names->places;
    size_t i = (size_t)XXH3_64bits_withSeed(bytes, n_bytes, seed);
    for (;; i++) {
        ig_name *place = &names->places[i & (names->n_places - 1)];
        if (!place->bytes) return place;
        if (place->n_bytes == n_bytes && memcmp(place->bytes, bytes, n_bytes) == 0) return place;
    }
}

bool ig_names_add(ig_names *names, const char *bytes, size_t n_bytes, size_t index) {
    assert(bytes && names->n_places > 0);
    ig_name *place = place_of(names, bytes, n_bytes);
    if (place->bytes) return false;
    *place = (ig_name){bytes, n_bytes, index};
    return true;
}

bool ig_names_find(const ig_names *names, const char *bytes, size_t n_bytes, size_t *out) {
    if (names->n_places == 0) return false;
    const ig_name *place = place_of(names, bytes, n_bytes);
    if (place->bytes) *out = place->index;
    return place->bytes != NULL;
}
