/*
 * data.h - training text, from files of any size, in windows of ctx_len + 1 tokens.
 *
 *     ig_data *data;
 *     ig_data_open((const char *[]){"text.txt"}, 1, NULL, &data)
 *     ig_data_begin(data, &(ig_data_options){.tokenizer = ig_adapter_tokenizer(adapter),
 *                                            .ctx_len = 256, .val_split = 0.1})
 *     ig_data_next(data, batch, tokens), ig_adapter_train(adapter, tokens, batch, 256, ...)
 *     ig_data_close(data)
 *
 *     file a          file b                     one text, mapped, never read whole
 *     |--------------------------------|------|
 *      training                         validation: the end of it
 *      |~~|--w0--|--w1--|--w2--|~~|               windows of an epoch, in another order
 *                                                 and from another place on each time
 *
 * Order and place are functions of the seed and the epoch (a Feistel network
 * permutes, so there is no table), and a cursor of two numbers says where training is:
 * a resumed run reads exactly what it would have read.
 *
 * Bytes are tokens of the tokenizer "byte".  With any other one, a window is the first
 * ctx_len + 1 tokens of the text that begins there, tokenized on demand.
 */
#ifndef INGOT_DATA_H
#define INGOT_DATA_H

#include "ingot/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_data ig_data;

typedef struct ig_data_open_options {
    const ig_allocator *allocator; /* borrowed, outlives the data; NULL: malloc's */
    /* Called with the path of the file that is read next, and with NULL when the files are closed,
     * for programs that name it in a handler of SIGBUS.  NULL: no callback. */
    void (*reading)(const char *path);
} ig_data_open_options;

/* Maps the files; none may be empty.  Paths are borrowed until the close.  NULL options: all
 * defaults.  The caller owns the data. */
IG_API IG_MUST_CHECK ig_status ig_data_open(const char *const *paths, size_t n_paths,
                                            const ig_data_open_options *options, ig_data **out);
IG_API void ig_data_close(ig_data *data); /* NULL is a no-op */

IG_API uint64_t ig_data_bytes(const ig_data *data); /* total of all files */

/* Text to train a tokenizer on: all of it, or `most` bytes sampled evenly from it.  Borrowed until
 * the next call or the close. */
IG_API IG_MUST_CHECK ig_status ig_data_sample(ig_data *data, size_t most, ig_string_view *out);

typedef struct ig_data_options {
    const ig_tokenizer *tokenizer; /* borrowed, outlives the data; NULL: bytes are tokens */
    int64_t ctx_len;               /* tokens that a window predicts */
    double val_split;              /* share of the text kept for validation, in [0, 1) */
    uint64_t seed;                 /* of the order */
} ig_data_options;

/* Cuts the text into windows.  Less text than one window is IG_ERR_ARGUMENT, with both numbers. */
IG_API IG_MUST_CHECK ig_status ig_data_begin(ig_data *data, const ig_data_options *options);

/* Numbers of windows; 0 before ig_data_begin(). */
IG_API int64_t ig_data_windows(const ig_data *data);     /* per epoch */
IG_API int64_t ig_data_val_windows(const ig_data *data); /* 0: the text is too short */

/* Writes the next windows, as rows of [batch, ctx_len + 1]. */
IG_API IG_MUST_CHECK ig_status ig_data_next(ig_data *data, int64_t batch, int32_t *tokens);

/* Writes window `i` of the validation text, ctx_len + 1 tokens. */
IG_API IG_MUST_CHECK ig_status ig_data_validation(ig_data *data, int64_t i, int32_t *tokens);

/* Position of the training in the data.  `bytes` and `stride` identify the text: the rest is valid
 * only for the same ones. */
typedef struct ig_data_cursor {
    uint64_t epoch, window; /* epochs completed, and windows of the current one */
    uint64_t bytes, stride;
} ig_data_cursor;

IG_API ig_data_cursor ig_data_tell(const ig_data *data); /* to be saved with the model */
/* Restores the position; false: it belongs to another text, and nothing changed. */
IG_API bool ig_data_seek(ig_data *data, ig_data_cursor cursor);

#ifdef __cplusplus
}
#endif
#endif
