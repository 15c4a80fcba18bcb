/*
 * data.h - training text, from files of any size, in windows of ctx + 1 tokens.
 *
 *     file a          file b                     one text, mapped, never read whole
 *     |--------------------------------|------|
 *      training                         validation: the end of it
 *      |~~|--w0--|--w1--|--w2--|~~|               windows of an epoch, in another order
 *                                                 and from another place on each time
 *
 * Order and place are functions of the seed and the epoch (a Feistel network
 * permutes, so there is no table), and where training is are two numbers: a run
 * that goes on from them reads just what it would have read.
 *
 * Bytes are tokens of the tokenizer "byte".  With any other one, a window is the
 * first ctx + 1 tokens of the text that begins there, encoded when it is needed.
 */
#ifndef IG_CLI_DATA_H
#define IG_CLI_DATA_H

#include "base/alloc.h"
#include "ingot/model.h"

typedef struct ig_data ig_data;

/* Maps the files; none may be empty.  Paths are lent.  The allocator must outlive the data. */
IG_MUST_CHECK ig_status ig_data_open(const ig_allocator *a, const char *const *paths,
                                     size_t n_paths, ig_data **out);
void ig_data_close(ig_data *data); /* NULL is fine */

uint64_t ig_data_bytes(const ig_data *data); /* of all files */

/* Text to learn a tokenizer from: all there is, or `most` bytes taken from all over it.  Lent until
 * the next call and the close. */
typedef struct ig_data_text {
    const char *bytes;
    size_t n_bytes;
} ig_data_text;
IG_MUST_CHECK ig_status ig_data_sample(ig_data *data, size_t most, ig_data_text *out);

typedef struct ig_data_options {
    const ig_adapter *adapter; /* whose tokenizer it is; must outlive the data */
    int64_t ctx;
    double val_split; /* share of the text kept for validation, 0 for none, below 1 */
    uint64_t seed;
} ig_data_options;

/* Cuts the text into windows.  Less than one is an error with both numbers. */
IG_MUST_CHECK ig_status ig_data_begin(ig_data *data, const ig_data_options *options);

int64_t ig_data_windows(const ig_data *data);     /* of an epoch */
int64_t ig_data_val_windows(const ig_data *data); /* 0: too little text to keep any */

/* The windows that come next, as rows of [batch, ctx + 1]. */
IG_MUST_CHECK ig_status ig_data_next(ig_data *data, int64_t batch, int32_t *tokens);

/* Window `i` of the validation text, ctx + 1 tokens. */
IG_MUST_CHECK ig_status ig_data_validation(ig_data *data, int64_t i, int32_t *tokens);

/* Where training is.  `bytes` and `stride` are of the text: with others, the rest has no meaning.
 */
typedef struct ig_data_cursor {
    uint64_t epoch, window; /* epochs done, and windows of the one at hand */
    uint64_t bytes, stride;
} ig_data_cursor;
ig_data_cursor ig_data_tell(const ig_data *data);
/* False: it is of another text, and nothing has changed. */
bool ig_data_seek(ig_data *data, ig_data_cursor cursor);

/* Number `i` of a permutation of 0 to count - 1, which seed and epoch choose. */
uint64_t ig_data_permute(uint64_t i, uint64_t count, uint64_t seed, uint64_t epoch);

#endif
