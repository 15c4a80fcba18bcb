/*
 * npu.h - a neural processor in software, which behaves as such devices do.
 *
 * It runs whole programs only, of a small set of ops, for the batch sizes it was
 * told of.  It has memory of its own.  Its compiler lays weights out its own way
 * and takes its time; what it makes can be kept and loaded later.
 *
 *     simnpu.c    the contract: device, memory, can_run, compile, save
 *     pack.c      the compiler's work: weights as the multipliers want them
 *     engine.c    the machine: one function for each op
 *
 * Weights come as f32, bf16 or blocks of 8-bit integers.
 * Multipliers are 8 bits of mantissa wide.  A weight of 24 bits is three numbers
 * of that width, the sum of which is exact; with less precision it is one, or an
 * integer of 8 bits with a scale for each column.
 */
#ifndef IG_BACKEND_SIMNPU_NPU_H
#define IG_BACKEND_SIMNPU_NPU_H

#include "ingot/backend.h"

enum { NPU_LANES = 16, NPU_MOST_IN = 3 };

typedef enum npu_precision { NPU_F32, NPU_BF16, NPU_INT8 } npu_precision;

/* An operand: in a buffer, or among the weights of the program. */
typedef struct npu_operand {
    bool packed_in; /* a weight: `offset` counts from the first of them */
    uint32_t buffer;
    uint64_t offset;
    int64_t stride[IG_MAX_RANK];
} npu_operand;

/* What save() hands out: a header, then the weights.  Programs for other batch sizes have the same,
 * and share it. */
typedef struct npu_artifact {
    struct npu_artifact *next; /* of the device's */
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
    int64_t inner;  /* of a product: what is summed over; of a table: its rows */
    npu_operand in[NPU_MOST_IN], out;
    uint64_t attrs[IG_ATTRS_MAX / 8];
};

struct npu_program {
    ig_backend_program base;
    const ig_host *host;
    struct npu_device *device;
    npu_precision precision;
    uint32_t count;
    npu_action *actions;
    npu_artifact *artifact;
    ig_backend_buffer *const *buffers; /* of this run */
};

struct ig_backend_buffer {
    uint64_t bytes;
    char *data;
};

/* The head of an artifact. */
typedef struct npu_header {
    char magic[8];
    uint32_t version, precision;
    uint64_t bytes, hash; /* of what follows */
} npu_header;

/* ---- pack.c ---- */

/* What weights may come as, and n of them, whole blocks, as floats. */
bool npu_reads(ig_dtype dtype);
void npu_decode(ig_dtype dtype, const void *bytes, float *out, int64_t n);

/* What a matrix of [k, n] takes, and its packing: columns in lanes, tile by tile.  The weight's
 * element (k, n) lies at k * stride_k + n * stride_n. */
uint64_t npu_packed_bytes(npu_precision precision, int64_t k, int64_t n);
void npu_pack(npu_precision precision, const float *w, int64_t k, int64_t n, int64_t stride_k,
              int64_t stride_n, void *out);
uint64_t npu_hash(const void *bytes, uint64_t count);

/* A float rounded to 8 bits of mantissa, to nearest, ties to even. */
uint16_t npu_round(float x);
float npu_widen(uint16_t x);

/* ---- engine.c ---- */

/* What runs an op; NULL: the machine cannot. */
npu_run_fn *npu_find(uint32_t op);

#endif
