/* Real vocabularies (../shared/data/vocab, skipped where they are missing): the ids that the
 * models' own tokenizers give. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "model/gguf/gguf_vocab.h"
#include "shared.h"

static const char separator[] = "\n__ggml_vocab_test__\n";

enum { PATH_BYTES = 1024 };

static ig_file_map map(const char *path, const char *ending) {
    char full[PATH_BYTES];
    ig_file_map out = {0};
    snprintf(full, sizeof full, "%s%s", path, ending);
    if (ig_file_map_open(full, &out) != IG_OK) fail_msg("%s", ig_error_text());
    return out;
}

/* Compares the ids of a text with a line of numbers; returns where the next line begins. */
static const char *check_line(const ig_tokenizer *t, const char *path, const char *text,
                              size_t n_bytes, const char *line, const char *end) {
    ig_tokens ids = {.allocator = &ig_heap};
    if (ig_tokenize(t, text, n_bytes, 0, &ids) != IG_OK) fail_msg("%s", ig_error_text());
    size_t n = 0;
    while (line < end && *line != '\n') {
        char *after;
        const long want = strtol(line, &after, 10);
        if (n >= ids.count || ids.at[n] != want)
            fail_msg("%s: '%.*s': id %zu is %d, not %ld", path, (int)n_bytes, text, n,
                     n < ids.count ? ids.at[n] : -1, want);
        line = after;
        n++;
    }
    if (n != ids.count)
        fail_msg("%s: '%.*s': %zu ids, not %zu", path, (int)n_bytes, text, ids.count, n);

    char *back = malloc(4 * n_bytes + 1);
    const size_t n_back =
        ig_detokenize(t, ids.at, ids.count, IG_DETOKENIZE_START, back, 4 * n_bytes);
    if (strcmp(ig_tokenizer_name(t), "bert") != 0 && /* which forgets how it was written */
        (n_back != n_bytes || memcmp(back, text, n_bytes) != 0))
        fail_msg("%s: '%.*s' comes back as '%.*s'", path, (int)n_bytes, text, (int)n_back, back);
    free(back);
    ig_tokens_deinit(&ids);
    return line < end ? line + 1 : line;
}

/* Every text of the .inp file has a line in the .out file. */
static size_t check_pairs(const char *path) {
    ig_tokenizer *t = NULL;
    if (ig_tokenizer_open(path, NULL, &t) != IG_OK) fail_msg("%s", ig_error_text());
    ig_file_map in = map(path, ".inp"), out = map(path, ".out");
    const char *text = in.bytes, *text_end = text + in.size, *line = out.bytes;
    size_t count = 0;
    while (text) {
        const char *next = memmem(text, (size_t)(text_end - text), separator, sizeof separator - 1);
        const size_t n_bytes = (size_t)((next ? next : text_end) - text);
        line = check_line(t, path, text, n_bytes, line, (const char *)out.bytes + out.size);
        text = next ? next + sizeof separator - 1 : NULL;
        count++;
    }
    ig_file_map_close(&out);
    ig_file_map_close(&in);
    ig_tokenizer_destroy(t);
    return count;
}

static void recorded_texts_have_their_recorded_ids(void **state) {
    (void)state;
    char folder[PATH_BYTES / 2];
    snprintf(folder, sizeof folder, "%s/vocab", shared_data());
    DIR *dir = opendir(folder);
    if (!dir) skip();
    size_t vocabularies = 0, texts = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const char *ending = strrchr(entry->d_name, '.');
        if (!ending || strcmp(ending, ".gguf") != 0) continue;
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        texts += check_pairs(path);
        vocabularies++;
    }
    closedir(dir);
    print_message("%zu texts of %zu vocabularies\n", texts, vocabularies);
    assert_true(vocabularies > 0 && texts > vocabularies);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_texts_have_their_recorded_ids)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
