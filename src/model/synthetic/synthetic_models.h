/*
 * models.h - small language models in GGUF, made from nothing: one of every
 * architecture, with random weights that are always the same.
 *
 * name         arch       vocabulary   what is special
 * llama        llama      SPM          grouped heads (8 to 2), untied output
 * llama-tied   llama      BPE          no output.weight, rope_freqs.weight
 * mistral      llama      SPM          another rope base, head size given by key_length
 * qwen2        qwen2      BPE          biases of q, k and v
 * qwen3        qwen3      BPE          norms of q and k, heads wider than embedding / heads
 * qwen3moe     qwen3moe   BPE          4 experts, 2 used
 * gemma3       gemma3     SPM          6 layers (5 with a window of 16), post norms, tied
 * phi3         phi3       SPM          q, k, v in one matrix; gate and up in one
 * gpt2         gpt2       BPE          layer norms, learnt positions, biases everywhere, tied
 * bert         bert       WordPiece    token types, norms after, no cache, mean pooling
 *
 * All rows are whole blocks of every type: embedding 256, feed-forward 512, 320
 * tokens, context 128, 2 layers where not said otherwise.  Matrices have the type
 * that is asked for; norms, biases, positions and token types are F32.
 */
#ifndef IG_TESTS_MODELS_H
#define IG_TESTS_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/tensor.h"

enum { MODEL_EXPERTS = 4, MODEL_CONTEXT = 128 };

const char *model_name(size_t i); /* in the order above; NULL: there are no more */

/* Others, which have the parts of these in other orders: mixtral, fused (llama with q, k and v in
 * one matrix), and one for each further architecture, which bears its name. */
const char *model_relative(size_t i);
bool model_is_known(const char *name);

typedef struct model_bytes {
    void *bytes; /* malloc'd; the caller frees them */
    size_t size;
} model_bytes;

/* The file of one of these.  The same arguments give the same bytes. */
IG_MUST_CHECK ig_status model_make(const char *name, ig_dtype type, model_bytes *out);

/* Gives a key that the file has another number. */
IG_MUST_CHECK ig_status model_set_u32(model_bytes *file, const char *key, uint32_t value);
IG_MUST_CHECK ig_status model_set_f32(model_bytes *file, const char *key, float value);

/* Gives the file a key that it has not; a text is in quotes, as JSON has it: "\"yarn\"", an array
 * of whole numbers in brackets: "[1,2]". */
IG_MUST_CHECK ig_status model_add(model_bytes *file, const char *key, const char *value);

IG_MUST_CHECK ig_status model_write(const model_bytes *file, const char *path);

/* Made and written to a path.  Blocks take long to find: where INGOT_TEST_MODELS names a folder, a
 * model is made once, kept there, and copied from there.  tests/CMakeLists.txt sets it, and empties
 * the folder before each run. */
IG_MUST_CHECK ig_status model_save(const char *name, ig_dtype type, const char *path);

#endif
