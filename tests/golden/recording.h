/*
 * recording.h - what llama.cpp gave for a model: tokens of a prompt, logits after it, greedy
 * tokens.
 *
 * A folder holds NAME.json files.  The model is NAME.gguf beside it, or one that is generated: the
 * JSON then names it ("model", "type") and has the digest of its bytes.  tests/golden/record writes
 * those.
 */
#ifndef IG_TESTS_GOLDEN_RECORDING_H
#define IG_TESTS_GOLDEN_RECORDING_H

#include "ingot/session.h"

enum { RECORDING_TOKENS = 256, RECORDING_LOGITS = 1024, RECORDING_GREEDY = 24 };

typedef struct recording {
    char name[64], path[512]; /* of the model */
    char model[32], type[16]; /* generated; "": a file */
    char digest[17];          /* XXH3 of the file */
    char prompt[1024];
    int32_t tokens[RECORDING_TOKENS], greedy[RECORDING_GREEDY];
    int n_tokens, n_greedy, n_logits;
    double margin[RECORDING_GREEDY]; /* best minus second logit, where a greedy token was chosen */
    float logits[RECORDING_LOGITS];  /* or the embedding of the prompt, with n_greedy 0 */
    bool is_float;                   /* no weight is quantized */
} recording;

/* All recordings of a folder by name, freed by the caller; NULL: there is no such folder. */
recording *recordings_read(const char *folder, int *count);

/* Generates the model if it is no file, and checks its digest; then deletes it. */
void recording_make_model(recording *r);
void recording_delete_model(const recording *r);

/* |got - want| / |want| */
double recording_error(const float *got, const float *want, int n);
double recording_cosine(const float *a, const float *b, int n);
double recording_rms(const float *x, int n);

ig_ctx *recording_ctx(const char *device); /* strict; fails the test */
/* Logits after the prompt, or the embedding; the cache is of type `cache`. */
void recording_run(const recording *r, ig_ctx *ctx, const char *cache, float *out);

#endif
