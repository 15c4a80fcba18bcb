#include "ingot/data.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "nn/data_order.h"

enum {
    MEASURED_BYTES = 1 << 18, /* of text, to measure bytes per token */
    PIECE_BYTES = 1 << 16,    /* per sample */
    SPARE_TOKENS = 8,         /* after a window: the last tokens of a cut text are unreliable */
    PHASE = 0x9A5E,           /* the random stream of epoch offsets, distinct from the shuffles */
};

typedef struct region {
    uint64_t begin, end; /* byte range of the text */
    uint64_t windows;
} region;

struct ig_data {
    const ig_allocator *allocator;
    void (*reading)(const char *path); /* NULL: none */
    const char *const *paths;
    ig_file_map *files; /* [n_files] */
    size_t n_files;
    uint64_t bytes;
    char *buffer; /* copied text: a sample, or the text of a window */
    size_t buffer_room;
    ig_tokens tokens; /* of one window; reused */

    ig_data_options options;
    bool by_byte;
    uint64_t stride; /* bytes between windows: about ctx tokens */
    region train, val;
    uint64_t epoch, window;
};

/* ---- The text ---- */

static void say_reading(const ig_data *d, const char *path) {
    if (d->reading) d->reading(path);
}

static void close_files(ig_data *d) {
    for (size_t i = 0; i < d->n_files; i++) ig_file_map_close(&d->files[i]);
}

static ig_status open_files(ig_data *d, size_t n_paths) {
    for (; d->n_files < n_paths; d->n_files++) {
        const char *path = d->paths[d->n_files];
        ig_file_map *file = &d->files[d->n_files];
        IG_TRY(ig_file_map_open(path, file));
        if (file->size == 0) return IG_FAIL(IG_ERR_FORMAT, "%s: is empty", path);
        if (__builtin_add_overflow(d->bytes, file->size, &d->bytes))
            return IG_FAIL(IG_ERR_FORMAT, "%s: too much text in all", path);
    }
    return IG_OK;
}

ig_status ig_data_open(const char *const *paths, size_t n_paths,
                       const ig_data_open_options *options, ig_data **out) {
    const ig_data_open_options o = options ? *options : (ig_data_open_options){0};
    const ig_allocator *a = o.allocator ? o.allocator : &ig_heap;
    if (!out) return IG_FAIL(IG_ERR_ARGUMENT, "data_open: NULL");
    if (n_paths == 0 || !paths) return IG_FAIL(IG_ERR_ARGUMENT, "data: no file");
    ig_data *d = ig_alloc(a, 1, sizeof *d);
    if (!d) return IG_FAIL(IG_ERR_MEMORY, "data: no memory");
    *d =
        (ig_data){.allocator = a, .reading = o.reading, .paths = paths, .tokens = {.allocator = a}};
    d->files = ig_alloc(a, n_paths, sizeof *d->files);
    const ig_status status = d->files
                                 ? open_files(d, n_paths)
                                 : IG_FAIL(IG_ERR_MEMORY, "data: no memory for %zu files", n_paths);
    if (status == IG_OK)
        *out = d;
    else
        ig_data_close(d);
    return status;
}

void ig_data_close(ig_data *d) {
    if (!d) return;
    close_files(d);
    say_reading(d, NULL);
    ig_tokens_deinit(&d->tokens);
    ig_free(d->allocator, d->buffer);
    ig_free(d->allocator, d->files);
    ig_free(d->allocator, d);
}

uint64_t ig_data_bytes(const ig_data *d) { return d->bytes; }

/* Copies bytes of the text, which must exist, from one or more files. */
static void copy_text(const ig_data *d, uint64_t from, size_t n_bytes, char *out) {
    assert(from <= d->bytes && n_bytes <= d->bytes - from);
    for (size_t i = 0; i < d->n_files && n_bytes > 0; i++) {
        const ig_file_map *file = &d->files[i];
        if (from >= file->size) {
            from -= file->size;
            continue;
        }
        const uint64_t left = file->size - from;
        const size_t part = left < n_bytes ? (size_t)left : n_bytes;
        say_reading(d, d->paths[i]);
        memcpy(out, (const char *)file->bytes + from, part);
        out += part;
        n_bytes -= part;
        from = 0;
    }
}

static ig_status make_room(ig_data *d, size_t n_bytes) {
    if (IG_GROW(d->allocator, d->buffer, &d->buffer_room, n_bytes)) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "data: no memory for %zu bytes of text", n_bytes);
}

ig_status ig_data_sample(ig_data *d, size_t most, ig_string_view *out) {
    if (!d || !out) return IG_FAIL(IG_ERR_ARGUMENT, "data_sample: NULL");
    if (d->n_files == 1 && d->bytes <= most) {
        say_reading(d, d->paths[0]);
        *out = (ig_string_view){d->files[0].bytes, (size_t)d->bytes};
        return IG_OK;
    }
    const size_t bytes = d->bytes < most ? (size_t)d->bytes : most;
    IG_TRY(make_room(d, bytes));
    const uint64_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    const uint64_t spare = d->bytes - bytes; /* skipped, in equal gaps between the pieces */
    for (uint64_t i = 0; i < pieces; i++) {
        const size_t at = (size_t)i * PIECE_BYTES;
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        const uint64_t gaps = pieces > 1 ? spare / (pieces - 1) * i : 0;
        copy_text(d, at + gaps, part, d->buffer + at);
    }
    *out = (ig_string_view){d->buffer, bytes};
    return IG_OK;
}

/* ---- Windows ---- */

/* "data.txt has", or "data.txt and 2 more have": the start of an error. */
static const char *who_has(const ig_data *d, char *out, size_t out_bytes) {
    if (d->n_files == 1)
        snprintf(out, out_bytes, "%s has", d->paths[0]);
    else
        snprintf(out, out_bytes, "%s and %zu more have", d->paths[0], d->n_files - 1);
    return out;
}

static ig_status too_short(const ig_data *d, const char *what, uint64_t tokens) {
    char who[256];
    return IG_FAIL(IG_ERR_ARGUMENT, "context %lld needs %lld tokens, %s %llu%s",
                   (long long)d->options.ctx_len, (long long)d->options.ctx_len + 1,
                   who_has(d, who, sizeof who), (unsigned long long)tokens, what);
}

static void read_bytes(const ig_data *d, uint64_t from, int32_t *tokens) {
    unsigned char part[512];
    const uint64_t count = (uint64_t)d->options.ctx_len + 1;
    for (uint64_t at = 0; at < count; at += sizeof part) {
        const size_t n = count - at < sizeof part ? (size_t)(count - at) : sizeof part;
        copy_text(d, from + at, n, (char *)part);
        for (size_t i = 0; i < n; i++) tokens[at + i] = part[i];
    }
}

/* Whether it is a continuation byte of a UTF-8 character. */
static bool is_inside(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* Tokenizes `n_bytes` of the text and writes the first ctx + 1 tokens; `out_count` is the number
 * of tokens found. */
static ig_status encode(ig_data *d, uint64_t from, size_t n_bytes, int32_t *tokens,
                        size_t *out_count) {
    IG_TRY(make_room(d, n_bytes));
    copy_text(d, from, n_bytes, d->buffer);
    size_t skip = 0;
    while (skip < 3 && skip < n_bytes && from > 0 && is_inside(d->buffer[skip])) skip++;
    d->tokens.count = 0;
    IG_TRY(ig_tokenize(d->options.tokenizer, d->buffer + skip, n_bytes - skip, 0, &d->tokens));
    const size_t needed = (size_t)d->options.ctx_len + 1;
    *out_count = d->tokens.count;
    memcpy(tokens, d->tokens.at, (*out_count < needed ? *out_count : needed) * sizeof *tokens);
    return IG_OK;
}

/* Tokenizes more text until it has the tokens of a window; if the text ends too early, starts
 * again from an earlier position. */
static ig_status encode_window(ig_data *d, const region *r, uint64_t from, int32_t *tokens) {
    const size_t needed = (size_t)d->options.ctx_len + 1;
    uint64_t span = d->stride + d->stride / 4 + 64;
    for (;;) {
        const uint64_t left = r->end - from, n_bytes = span < left ? span : left;
        size_t count;
        IG_TRY(encode(d, from, (size_t)n_bytes, tokens, &count));
        if (count >= needed + SPARE_TOKENS || (count >= needed && n_bytes == left)) return IG_OK;
        if (n_bytes == left && from == r->begin)
            return too_short(d, r == &d->val ? " for validation" : "", count);
        if (n_bytes == left) from = from - r->begin > d->stride ? from - d->stride : r->begin;
        span *= 2;
    }
}

static ig_status read_window(ig_data *d, const region *r, uint64_t from, int32_t *tokens) {
    if (!d->by_byte) return encode_window(d, r, from, tokens);
    read_bytes(d, from, tokens);
    return IG_OK;
}

/* ---- Cutting ---- */

/* Measures how many bytes ctx tokens take, at the start of the text. */
static ig_status measure_stride(ig_data *d) {
    const uint64_t ctx = (uint64_t)d->options.ctx_len;
    d->stride = ctx;
    if (d->by_byte) return IG_OK;
    const size_t n_bytes = d->bytes < MEASURED_BYTES ? (size_t)d->bytes : MEASURED_BYTES;
    IG_TRY(make_room(d, n_bytes));
    copy_text(d, 0, n_bytes, d->buffer);
    d->tokens.count = 0;
    IG_TRY(ig_tokenize(d->options.tokenizer, d->buffer, n_bytes, 0, &d->tokens));
    const size_t count = d->tokens.count;
    if (n_bytes == d->bytes && count < ctx + 1) return too_short(d, "", count);
    const double each = count > 0 ? (double)n_bytes / (double)count : 1;
    d->stride = (uint64_t)((double)ctx * each) + 1;
    return IG_OK;
}

/* Number of windows that fit, minus one: an epoch may begin a little after the start of the text.
 */
static uint64_t count_windows(const region *r, uint64_t stride) {
    const uint64_t fit = (r->end - r->begin - 1) / stride;
    return fit > 2 ? fit - 1 : 1;
}

static void split(ig_data *d) {
    const uint64_t window = d->stride + 1;
    uint64_t kept = (uint64_t)((double)d->bytes * d->options.val_split);
    if (d->options.val_split > 0 && kept < 2 * window) kept = 2 * window;
    if (d->bytes / 4 < kept && d->options.val_split < 0.25) kept = 0; /* too little text to split */
    if (d->bytes < kept + window) kept = 0;
    d->train = (region){.begin = 0, .end = d->bytes - kept};
    d->val = (region){.begin = d->bytes - kept, .end = d->bytes};
    d->train.windows = count_windows(&d->train, d->stride);
    d->val.windows = kept > 0 ? (kept - 1) / d->stride : 0;
}

ig_status ig_data_begin(ig_data *d, const ig_data_options *options) {
    if (!d || !options) return IG_FAIL(IG_ERR_ARGUMENT, "data_begin: NULL");
    if (options->ctx_len < 1 || options->ctx_len > INT32_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "data: a context of %lld", (long long)options->ctx_len);
    if (!(options->val_split >= 0 && options->val_split < 1))
        return IG_FAIL(IG_ERR_ARGUMENT, "data: a validation split of %g", options->val_split);
    d->options = *options;
    d->train = d->val = (region){0};
    const ig_tokenizer *tokenizer = options->tokenizer;
    d->by_byte = !tokenizer || strcmp(ig_tokenizer_name(tokenizer), "byte") == 0;
    if (d->by_byte && d->bytes < (uint64_t)options->ctx_len + 1) return too_short(d, "", d->bytes);
    IG_TRY(measure_stride(d));
    split(d);
    d->epoch = d->window = 0;
    return IG_OK;
}

int64_t ig_data_windows(const ig_data *d) { return (int64_t)d->train.windows; }
int64_t ig_data_val_windows(const ig_data *d) { return (int64_t)d->val.windows; }

/* ---- Order ---- */

/* Start of the epoch's first window: random, but the last window must fit. */
static uint64_t epoch_begin(const ig_data *d) {
    const uint64_t used = d->train.windows * d->stride + 1;
    const uint64_t all = d->train.end - d->train.begin;
    if (all <= used) return d->train.begin;
    const uint64_t spare = all - used;
    const uint64_t bits = (uint64_t)ig_data_draw(d->options.seed, d->epoch, PHASE, 0) << 32 |
                          ig_data_draw(d->options.seed, d->epoch, PHASE, 1);
    return d->train.begin + bits % (spare + 1);
}

static ig_status check_begun(const ig_data *d, const int32_t *tokens) {
    if (!d || !tokens) return IG_FAIL(IG_ERR_ARGUMENT, "data: NULL");
    if (d->train.windows > 0) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "data: no windows yet; call ig_data_begin() first");
}

ig_status ig_data_next(ig_data *d, int64_t batch, int32_t *tokens) {
    IG_TRY(check_begun(d, tokens));
    for (int64_t row = 0; row < batch; row++) {
        const uint64_t i = ig_data_permute(d->window, d->train.windows, d->options.seed, d->epoch);
        IG_TRY(read_window(d, &d->train, epoch_begin(d) + i * d->stride,
                           tokens + row * (d->options.ctx_len + 1)));
        if (++d->window < d->train.windows) continue;
        d->window = 0;
        d->epoch++;
    }
    return IG_OK;
}

ig_status ig_data_validation(ig_data *d, int64_t i, int32_t *tokens) {
    IG_TRY(check_begun(d, tokens));
    if (i < 0 || (uint64_t)i >= d->val.windows)
        return IG_FAIL(IG_ERR_ARGUMENT, "data: validation window %lld of %llu", (long long)i,
                       (unsigned long long)d->val.windows);
    return read_window(d, &d->val, d->val.begin + (uint64_t)i * d->stride, tokens);
}

ig_data_cursor ig_data_tell(const ig_data *d) {
    return (ig_data_cursor){d->epoch, d->window, d->train.end, d->stride};
}

bool ig_data_seek(ig_data *d, ig_data_cursor cursor) {
    if (cursor.bytes != d->train.end || cursor.stride != d->stride) return false;
    if (cursor.window >= d->train.windows) return false;
    d->epoch = cursor.epoch;
    d->window = cursor.window;
    return true;
}
