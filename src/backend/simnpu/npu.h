/*
 * npu.h - a neural processor in software that behaves as real ones do.
 *
 * It runs complete programs only, of a small set of ops, for the configured batch sizes. It has
 * memory of its own. Its compiler packs weights into its own layout and takes its time; the result
 * can be cached and loaded later.
 *
 *     simnpu.c    the contract: device, memory, can_run, compile, save
 *     npu_pack.c  the compiler: packs weights for the multipliers
 *     engine.c    the execution engine: one function per op
 *
 * Weights are f32, bf16 or 8-bit integer blocks. Multipliers are 8 bits of mantissa wide. A 24-bit
 * mantissa is split into three such numbers that sum to it exactly; at lower precision a weight is
 * one number, or an 8-bit integer with a scale per column.
 */
#ifndef IG_BACKEND_SIMNPU_NPU_H
#define IG_BACKEND_SIMNPU_NPU_H

#include "ingot/backend.h"

enum { NPU_LANES = 16, NPU_MOST_IN = 3 };

typedef enum npu_precision { NPU_F32, NPU_BF16, NPU_INT8, NPU_F16 } npu_precision;

/* An operand: in a buffer, or in the program's packed weights. */
typedef struct npu_operand {
    bool packed_in; /* a weight: `offset` is relative to the packed weights */
    uint32_t buffer;
    uint64_t offset;
    int64_t stride[IG_MAX_RANK];
} npu_operand;

/* What save() returns: a header, then the packed weights. Programs for other batch sizes have the
 * same artifact and share it. */
typedef struct npu_artifact {
    struct npu_artifact *next; /* list of the device */
    uint32_t refs;
    uint64_t bytes;
    char *data;
} npu_artifact;

typedef struct npu_program npu_program;
typedef struct npu_action npu_action;
typedef void npu_run_fn(const npu_program *p, const npu_action *a, uint32_t part, uint32_t parts);

struct npu_action {
    npu_run_fn *run;
    uint32_t op, n_in;
    ig_shape shape; /* of the result */
    int64_t inner;  /* matmul: the reduced dimension; embedding: rows of the table */
    npu_operand in[NPU_MOST_IN], out;
    uint64_t attrs[IG_ATTRS_MAX / 8];
};

struct npu_program {
    ig_backend_program base;
    const ig_host *host;
    struct npu_device *device;
    npu_precision precision;
    int level; /* optimization_level */
    uint32_t count;
    npu_action *actions;
    npu_artifact *artifact;
    ig_backend_buffer *const *buffers; /* of the current run */
};

struct ig_backend_buffer {
    uint64_t bytes;
    char *data;
};

/* The header of an artifact. */
typedef struct npu_header {
    char magic[8];
    uint32_t version, precision;
    uint64_t bytes, hash; /* of the data after it */
} npu_header;

/* ---- pack.c ---- */

/* Whether weights may have this dtype; and dequantizes n elements, complete blocks. */
bool npu_reads(ig_dtype dtype);
void npu_decode(ig_dtype dtype, const void *bytes, float *out, int64_t n);

/* A weight matrix [k, n]: element (i, j) is at w[i * stride_k + j * stride_n]. */
typedef struct npu_matrix {
    const float *w;
    int64_t k, n, stride_k, stride_n;
} npu_matrix;

/* The packed size of a matrix [k, n], and packing it: columns in lanes, tile by tile. `level` 1 to
 * 3: effort of the search for int8 scales. */
uint64_t npu_packed_bytes(npu_precision precision, int64_t k, int64_t n);
void npu_pack(npu_precision precision, const npu_matrix *m, int level, void *out);
uint64_t npu_hash(const void *bytes, uint64_t count);

/* Rounds a float to an 8-bit mantissa (bf16), to nearest, ties to even. */
uint16_t npu_round(float x);
float npu_widen(uint16_t x);
/* Rounds a float to f16 (11 bits of mantissa) in the same way. */
float npu_half(float x);

/* ---- engine.c ---- */

/* The function for an op; NULL: unsupported. */
npu_run_fn *npu_find(uint32_t op);

#endif
