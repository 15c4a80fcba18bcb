#include "cli/data.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"
#include "cli/app/signals.h"

enum {
    MEASURED_BYTES = 1 << 18, /* of text, to learn how long a token is */
    PIECE_BYTES = 1 << 16,    /* of a sample */
    SPARE_TOKENS = 8, /* behind a window: the last ones of a cut text are not to be trusted */
    ROUNDS = 6,
    PHASE = 0x9A5E, /* of the random stream: the first window's place, not a round */
};

typedef struct region {
    uint64_t begin, end; /* bytes of the text */
    uint64_t windows;
} region;

struct ig_data {
    const ig_allocator *allocator;
    const char *const *paths;
    ig_file_map *files; /* [n_files] */
    size_t n_files;
    uint64_t bytes;
    char *buffer; /* text that is copied: a sample, or what a window is encoded from */
    size_t buffer_room;

    ig_data_options options;
    bool by_byte;
    uint64_t stride; /* bytes from one window to the next: what ctx tokens take, about */
    region train, val;
    uint64_t epoch, window;
};

/* ---- The text ---- */

static void close_files(ig_data *d) {
    for (size_t i = 0; i < d->n_files; i++) ig_file_map_close(&d->files[i]);
}

static ig_status open_files(ig_data *d, size_t n_paths) {
    for (; d->n_files < n_paths; d->n_files++) {
        const char *path = d->paths[d->n_files];
        ig_file_map *file = &d->files[d->n_files];
        IG_TRY(ig_file_map_open(path, file));
        if (file->size == 0) return IG_FAIL(IG_ERR_FORMAT, "%s: is empty: nothing to learn", path);
        if (__builtin_add_overflow(d->bytes, file->size, &d->bytes))
            return IG_FAIL(IG_ERR_FORMAT, "%s: too much text in all", path);
    }
    return IG_OK;
}

ig_status ig_data_open(const ig_allocator *a, const char *const *paths, size_t n_paths,
                       ig_data **out) {
    if (n_paths == 0) return IG_FAIL(IG_ERR_ARGUMENT, "data: no file");
    ig_data *d = ig_alloc(a, 1, sizeof *d);
    if (!d) return IG_FAIL(IG_ERR_MEMORY, "data: no memory");
    *d = (ig_data){.allocator = a, .paths = paths};
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
    ig_signals_reading(NULL);
    ig_free(d->allocator, d->buffer);
    ig_free(d->allocator, d->files);
    ig_free(d->allocator, d);
}

uint64_t ig_data_bytes(const ig_data *d) { return d->bytes; }

/* Copies bytes of the text, which must have them, from one file or several. */
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
        ig_signals_reading(d->paths[i]);
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

ig_status ig_data_sample(ig_data *d, size_t most, ig_data_text *out) {
    if (d->n_files == 1 && d->bytes <= most) {
        ig_signals_reading(d->paths[0]);
        *out = (ig_data_text){d->files[0].bytes, (size_t)d->bytes};
        return IG_OK;
    }
    const size_t bytes = d->bytes < most ? (size_t)d->bytes : most;
    IG_TRY(make_room(d, bytes));
    const uint64_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    const uint64_t spare = d->bytes - bytes; /* is left out, in equal gaps between the pieces */
    for (uint64_t i = 0; i < pieces; i++) {
        const size_t at = (size_t)i * PIECE_BYTES;
        const size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        const uint64_t gaps = pieces > 1 ? spare / (pieces - 1) * i : 0;
        copy_text(d, at + gaps, part, d->buffer + at);
    }
    *out = (ig_data_text){d->buffer, bytes};
    return IG_OK;
}

/* ---- Windows ---- */

/* "data.txt has", or "data.txt and 2 more have": what an error begins with. */
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
                   (long long)d->options.ctx, (long long)d->options.ctx + 1,
                   who_has(d, who, sizeof who), (unsigned long long)tokens, what);
}

static void read_bytes(const ig_data *d, uint64_t from, int32_t *tokens) {
    unsigned char part[512];
    const uint64_t count = (uint64_t)d->options.ctx + 1;
    for (uint64_t at = 0; at < count; at += sizeof part) {
        const size_t n = count - at < sizeof part ? (size_t)(count - at) : sizeof part;
        copy_text(d, from + at, n, (char *)part);
        for (size_t i = 0; i < n; i++) tokens[at + i] = part[i];
    }
}

/* The bytes that follow the first one of a UTF-8 character look like this. */
static bool is_inside(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

/* Encodes `n_bytes` of the text; `out_count` is how many tokens there are, of which the first
 * ctx + 1 are written. */
static ig_status encode(ig_data *d, uint64_t from, size_t n_bytes, int32_t *tokens,
                        size_t *out_count) {
    IG_TRY(make_room(d, n_bytes));
    copy_text(d, from, n_bytes, d->buffer);
    size_t skip = 0;
    while (skip < 3 && skip < n_bytes && from > 0 && is_inside(d->buffer[skip])) skip++;
    return ig_adapter_encode(d->options.adapter, d->buffer + skip, n_bytes - skip, tokens,
                             (size_t)d->options.ctx + 1, out_count);
}

/* Takes more text until it has the tokens of a window; where the text ends too early, from an
 * earlier place on. */
static ig_status encode_window(ig_data *d, const region *r, uint64_t from, int32_t *tokens) {
    const size_t needed = (size_t)d->options.ctx + 1;
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

/* How many bytes ctx tokens take, measured at the begin of the text. */
static ig_status measure_stride(ig_data *d) {
    const uint64_t ctx = (uint64_t)d->options.ctx;
    d->stride = ctx;
    if (d->by_byte) return IG_OK;
    const size_t n_bytes = d->bytes < MEASURED_BYTES ? (size_t)d->bytes : MEASURED_BYTES;
    size_t count = 0;
    IG_TRY(make_room(d, n_bytes));
    copy_text(d, 0, n_bytes, d->buffer);
    IG_TRY(ig_adapter_encode(d->options.adapter, d->buffer, n_bytes, NULL, 0, &count));
    if (n_bytes == d->bytes && count < ctx + 1) return too_short(d, "", count);
    const double each = count > 0 ? (double)n_bytes / (double)count : 1;
    d->stride = (uint64_t)((double)ctx * each) + 1;
    return IG_OK;
}

/* Windows that fit, less one: an epoch may begin a little later than the text. */
static uint64_t count_windows(const region *r, uint64_t stride) {
    const uint64_t fit = (r->end - r->begin - 1) / stride;
    return fit > 2 ? fit - 1 : 1;
}

static void split(ig_data *d) {
    const uint64_t window = d->stride + 1;
    uint64_t kept = (uint64_t)((double)d->bytes * d->options.val_split);
    if (d->options.val_split > 0 && kept < 2 * window) kept = 2 * window;
    if (d->bytes / 4 < kept && d->options.val_split < 0.25) kept = 0; /* too little to give away */
    if (d->bytes < kept + window) kept = 0;
    d->train = (region){.begin = 0, .end = d->bytes - kept};
    d->val = (region){.begin = d->bytes - kept, .end = d->bytes};
    d->train.windows = count_windows(&d->train, d->stride);
    d->val.windows = kept > 0 ? (kept - 1) / d->stride : 0;
}

ig_status ig_data_begin(ig_data *d, const ig_data_options *options) {
    if (options->ctx < 1 || options->ctx > INT32_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "data: a context of %lld", (long long)options->ctx);
    if (!(options->val_split >= 0 && options->val_split < 1))
        return IG_FAIL(IG_ERR_ARGUMENT, "data: a validation split of %g", options->val_split);
    d->options = *options;
    const char *tokenizer = ig_adapter_config(options->adapter).tokenizer;
    d->by_byte = !tokenizer || strcmp(tokenizer, "byte") == 0;
    if (d->by_byte && d->bytes < (uint64_t)options->ctx + 1) return too_short(d, "", d->bytes);
    IG_TRY(measure_stride(d));
    split(d);
    d->epoch = d->window = 0;
    return IG_OK;
}

int64_t ig_data_windows(const ig_data *d) { return (int64_t)d->train.windows; }
int64_t ig_data_val_windows(const ig_data *d) { return (int64_t)d->val.windows; }

/* ---- Order ---- */

static uint32_t draw(uint64_t seed, uint64_t epoch, uint32_t what, uint32_t number) {
    const ig_philox counter = {{number, what, (uint32_t)epoch, (uint32_t)(epoch >> 32)}};
    return ig_philox_block((uint32_t)seed, (uint32_t)(seed >> 32), counter).word[0];
}

/* A Feistel network permutes numbers of 2 x half bits; whatever lands beyond the count is sent
 * through again, until it lands within. */
uint64_t ig_data_permute(uint64_t i, uint64_t count, uint64_t seed, uint64_t epoch) {
    assert(i < count);
    unsigned half = 1;
    while (half < 32 && (count - 1) >> (2 * half) > 0) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half & mask, right = i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            const uint64_t mixed = left ^ (draw(seed, epoch, round, (uint32_t)right) & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= count);
    return i;
}

/* Where the epoch's first window begins: anywhere, as long as the last one fits. */
static uint64_t epoch_begin(const ig_data *d) {
    const uint64_t used = d->train.windows * d->stride + 1;
    const uint64_t all = d->train.end - d->train.begin;
    if (all <= used) return d->train.begin;
    const uint64_t spare = all - used;
    const uint64_t bits = (uint64_t)draw(d->options.seed, d->epoch, PHASE, 0) << 32 |
                          draw(d->options.seed, d->epoch, PHASE, 1);
    return d->train.begin + bits % (spare + 1);
}

ig_status ig_data_next(ig_data *d, int64_t batch, int32_t *tokens) {
    for (int64_t row = 0; row < batch; row++) {
        const uint64_t i = ig_data_permute(d->window, d->train.windows, d->options.seed, d->epoch);
        IG_TRY(read_window(d, &d->train, epoch_begin(d) + i * d->stride,
                           tokens + row * (d->options.ctx + 1)));
        if (++d->window < d->train.windows) continue;
        d->window = 0;
        d->epoch++;
    }
    return IG_OK;
}

ig_status ig_data_validation(ig_data *d, int64_t i, int32_t *tokens) {
    assert(i >= 0 && (uint64_t)i < d->val.windows);
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
