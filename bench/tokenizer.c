/*
 * tokenizer FILE MERGES JSON - trains BPE on a file, tokenizes its first megabyte, writes the
 * tokenizer to JSON, and prints the times: {"learn_s":..., "learn_cpu_s":..., "encode_cpu_s":...,
 * "ids":...}. bench/tokenizer.py compiles and runs it beside its peer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "text/tokenizer/tokenizer.h"

enum { ENCODE_BYTES = 1000000 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ig_status measure(const ig_file_map *file, int32_t merges, FILE *json) {
    const ig_string_view data = {file->bytes, (size_t)file->size};
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    ig_tokenizer *t = NULL;
    IG_TRY(ig_tokenizer_train(
        &ig_heap, "bpe", &(ig_tokenizer_training){.data = &data, .n_data = 1, .merges = merges},
        &t));
    const double learn = seconds(CLOCK_MONOTONIC) - wall;
    const double learn_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;

    const size_t n_encode = data.n_bytes < ENCODE_BYTES ? data.n_bytes : ENCODE_BYTES;
    const size_t text_bytes = ig_tokenizer_json(t, NULL, 0) + 1;
    ig_tokens ids = {0};
    char *text = ig_alloc(&ig_heap, text_bytes, 1);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "no memory for %zu bytes", text_bytes);
    const double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
    IG_TRY(ig_tokenize(t, data.bytes, n_encode, 0, &ids));
    const double encode_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;

    ig_tokenizer_json(t, text, text_bytes);
    fputs(text, json);
    printf("{\"learn_s\":%.4f,\"learn_cpu_s\":%.4f,\"encode_cpu_s\":%.4f,\"ids\":%zu}\n", learn,
           learn_cpu, encode_cpu, ids.count);
    ig_free(&ig_heap, text);
    ig_tokens_deinit(&ids);
    ig_tokenizer_destroy(t);
    return IG_OK;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: tokenizer FILE MERGES JSON\n"), 2;
    ig_file_map file = {0};
    FILE *json = fopen(argv[3], "w");
    ig_status status = json ? ig_file_map_open(argv[1], &file) : IG_FAIL(IG_ERR_IO, "%s", argv[3]);
    if (status == IG_OK) status = measure(&file, (int32_t)strtol(argv[2], NULL, 10), json);
    if (status != IG_OK) fprintf(stderr, "%s\n", ig_error_text());
    ig_file_map_close(&file);
    if (json && fclose(json) != 0 && status == IG_OK) status = IG_ERR_IO;
    return status == IG_OK ? 0 : 1;
}
