/*
 * synthetic_models.h - small language models in GGUF, generated: one of every architecture, with
 * fixed pseudo-random weights.
 *
 *     name         arch       vocabulary   features
 *     llama        llama      SPM          GQA (8 heads, 2 KV heads), untied output
 *     llama-tied   llama      BPE          no output.weight, rope_freqs.weight
 *     mistral      llama      SPM          another RoPE base, head size given by key_length
 *     qwen2        qwen2      BPE          QKV biases
 *     qwen3        qwen3      BPE          QK norm, heads wider than embedding / heads
 *     qwen3moe     qwen3moe   BPE          4 experts, 2 used
 *     gemma3       gemma3     SPM          6 layers (5 with a window of 16), post-norms, tied
 *     phi3         phi3       SPM          fused QKV; fused gate and up
 *     gpt2         gpt2       BPE          LayerNorm, learned positions, biases everywhere, tied
 *     bert         bert       WordPiece    token types, post-norm, no cache, mean pooling
 *
 * All row lengths are multiples of every quantization block: embedding 256, feed-forward 512, 320
 * tokens, context 128, 2 layers by default. Matrices have the requested dtype; norms, biases,
 * positions and token types are F32.
 */
#ifndef IG_MODEL_SYNTHETIC_SYNTHETIC_MODELS_H
#define IG_MODEL_SYNTHETIC_SYNTHETIC_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/tensor.h"

enum { MODEL_EXPERTS = 4, MODEL_CONTEXT = 128 };

const char *model_name(size_t i); /* in the order above; NULL after the last */

/* Further models from the same features: mixtral, fused (llama with fused QKV), and one per
 * further architecture, with its name. */
const char *model_relative(size_t i);
bool model_is_known(const char *name);

typedef struct model_bytes {
    void *bytes; /* malloc'd; the caller frees them */
    size_t size;
} model_bytes;

/* Generates the GGUF file. The same arguments give the same bytes. */
IG_MUST_CHECK ig_status model_make(const char *name, ig_dtype type, model_bytes *out);

/* Changes the value of an existing key. */
IG_MUST_CHECK ig_status model_set_u32(model_bytes *file, const char *key, uint32_t value);
IG_MUST_CHECK ig_status model_set_f32(model_bytes *file, const char *key, float value);

/* Adds a key, with a value in JSON spelling: a string in quotes ("\"yarn\""), an array of integers
 * in brackets ("[1,2]"). */
IG_MUST_CHECK ig_status model_add(model_bytes *file, const char *key, const char *value);

IG_MUST_CHECK ig_status model_write(const model_bytes *file, const char *path);

/* Generates a model and writes it to a path. Quantizing is slow: if INGOT_TEST_MODELS names a
 * folder, a model is generated once, kept there and copied from there. tests/CMakeLists.txt sets
 * it to a new folder for each version of the generator's sources. */
IG_MUST_CHECK ig_status model_save(const char *name, ig_dtype type, const char *path);

#endif
