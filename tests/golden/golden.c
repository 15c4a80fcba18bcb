#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_head(char *line, golden_record *r) {
    char *rest = NULL;
    const char *name = strtok_r(line, " \n", &rest), *dtype = strtok_r(NULL, " \n", &rest);
    if (!name || !dtype || strlen(name) >= sizeof r->name) return false;
    memcpy(r->name, name, strlen(name) + 1);
    if (!ig_dtype_find(dtype, &r->desc.dtype)) return false;
    for (const char *n; (n = strtok_r(NULL, " \n", &rest)) && r->desc.shape.rank < IG_MAX_RANK;)
        r->desc.shape.dim[r->desc.shape.rank++] = strtoll(n, NULL, 10);
    if (!ig_shape_valid(r->desc.shape)) return false;
    r->count = ig_shape_count(r->desc.shape);
    return true;
}

/* Little-endian words to the machine's own. */
static void decode(golden_record *r) {
    unsigned char *b = r->elements;
    for (int64_t i = 0; i < r->count; i++, b += 4) {
        const uint32_t word =
            b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(b, &word, sizeof word);
    }
}

bool golden_read(const char *path, golden *g) {
    memset(g, 0, sizeof *g);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    char line[256];
    bool good = true;
    while (good && g->count < GOLDEN_MAX && fgets(line, sizeof line, file)) {
        golden_record *r = &g->records[g->count];
        good = read_head(line, r);
        if (!good) break;
        r->elements = malloc((size_t)r->count * 4 + 1);
        g->count++;
        good = r->elements && fread(r->elements, 4, (size_t)r->count, file) == (size_t)r->count;
        if (good) decode(r);
    }
    fclose(file);
    return good && g->count > 0;
}

void golden_free(golden *g) {
    for (int i = 0; i < g->count; i++) free(g->records[i].elements);
    g->count = 0;
}

const golden_record *golden_find(const golden *g, const char *name) {
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->records[i].name, name) == 0) return &g->records[i];
    return NULL;
}
