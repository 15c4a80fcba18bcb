/*
 * setup.h - helpers that turn operands into shader parameters.
 *
 * Dimensions that are contiguous with each other are merged and those of extent 1 dropped: a packed
 * operand has one dimension.
 */
#ifndef IG_BACKEND_VULKAN_KERNELS_SETUP_H
#define IG_BACKEND_VULKAN_KERNELS_SETUP_H

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/kernels/vk_kernel.h"
#include "backend/vulkan/shaders/params.h"
#include "base/quant_blocks.h"

static_assert(VK_RANK == IG_MAX_RANK, "params.h");
static_assert(VK_F16 == (int)IG_F16 && VK_BF16 == (int)IG_BF16 && VK_I32 == (int)IG_I32 &&
                  VK_Q4_0 == (int)IG_Q4_0 && VK_MXFP4 == (int)IG_MXFP4,
              "params.h has the numbers of dtypes");

enum { VK_GROUP = 256, VK_MOST_GROUPS = 65535 };

/* Workgroups for n elements; threads loop if there are more elements. */
static inline uint32_t vk_groups(int64_t n, uint32_t group) {
    const int64_t groups = (n + group - 1) / group;
    return (uint32_t)(groups < VK_MOST_GROUPS ? groups : VK_MOST_GROUPS);
}

/* A power of two of threads for rows of n elements, at most one per element. */
static inline uint32_t vk_row_group(int64_t n) {
    uint32_t group = 32;
    while (group < VK_GROUP && (int64_t)group * 2 <= n) group *= 2;
    return group;
}

static inline int64_t vk_count(const ig_operand *o) { return ig_shape_count(o->desc.shape); }

static inline int64_t vk_last_dim(const ig_operand *o) {
    const ig_shape *shape = &o->desc.shape;
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
}

static inline uint32_t vk_last_stride(const ig_operand *o) {
    return o->desc.shape.rank > 0 ? (uint32_t)o->stride[o->desc.shape.rank - 1] : 1;
}

/* The product of all extents but the last. */
static inline int64_t vk_rows(const ig_operand *o) {
    int64_t rows = 1;
    for (int d = 0; d < o->desc.shape.rank - 1; d++) rows *= o->desc.shape.dim[d];
    return rows;
}

/* The byte range from the first element to the last. */
static inline vk_ref vk_memory(const ig_operand *o, uint32_t writes) {
    const int64_t block = ig_dtype_block(o->desc.dtype);
    int64_t last = 0;
    if (vk_count(o) == 0) return (vk_ref){o->buffer, writes, o->offset, 0};
    for (int d = 0; d < o->desc.shape.rank; d++) last += (o->desc.shape.dim[d] - 1) * o->stride[d];
    const int64_t elements = (last / block + 1) * block;
    return (vk_ref){o->buffer, writes, o->offset, (uint64_t)ig_bytes_of(o->desc.dtype, elements)};
}

static inline vk_ref vk_reads(const ig_operand *o) { return vk_memory(o, 0); }
static inline vk_ref vk_writes(const ig_operand *o) { return vk_memory(o, 1); }

/* Vector loads (see dequantize_vec4.glsl): elements per load and the alignment that rows need. */
typedef struct vk_piece {
    uint32_t elements, align; /* elements 0: no vector loads; align: bytes */
} vk_piece;

static inline vk_piece vk_piece_of(ig_dtype dtype) {
    switch (dtype) {
    case IG_F32:
    case IG_F16:
    case IG_BF16: return (vk_piece){8, 16};
    case IG_Q4_0:
    case IG_Q8_0: return (vk_piece){16, 2};
    case IG_Q4_K: return (vk_piece){32, 16};
    case IG_Q6_K: return (vk_piece){32, 2};
    default: return (vk_piece){0};
    }
}

/* Whether rows of `width` elements along the last dimension can be read in vectors. */
static inline bool vk_has_pieces(const ig_operand *o, int64_t width) {
    const vk_piece p = vk_piece_of(o->desc.dtype);
    const int last = o->desc.shape.rank - 1;
    if (p.elements == 0 || width % p.elements != 0 || o->stride[last] != 1) return false;
    if (o->offset % p.align != 0) return false;
    for (int d = 0; d < last; d++)
        if (o->desc.shape.dim[d] > 1 && ig_bytes_of(o->desc.dtype, o->stride[d]) % p.align != 0)
            return false;
    return true;
}

/* Whether a workgroup can have this much shared memory. */
static inline bool vk_can_share(const vk_builder *b, uint32_t bytes) {
    return bytes <= b->device->properties.limits.maxComputeSharedMemorySize;
}

/* A range of the step's scratch. */
static inline vk_ref vk_scratch(vk_builder *b, const ig_step *step, uint64_t offset, uint64_t bytes,
                                uint32_t writes) {
    if (b->scratch_bytes < offset + bytes) b->scratch_bytes = offset + bytes;
    return (vk_ref){IG_ARENA, writes, step->scratch_offset + offset, bytes};
}

/* Runs setup on a step whose first `count` inputs are F32: 16-bit ones are first cast into its
 * scratch. */
enum { VK_WIDENED_OPERANDS = 9 };
bool vk_setup_widened(const ig_step *step, vk_builder *b, uint32_t count, vk_setup_fn *setup_wide);

/* Merges dimensions of `shape` for operands with these strides; returns how many remain, at least
 * 1. `dim` and `out` must be zeroed. */
static inline uint32_t vk_join_dims(ig_shape shape, const int64_t *const *stride, int operands,
                                    uint32_t *dim, uint32_t (*out)[VK_RANK]) {
    uint32_t rank = 0;
    const bool empty = ig_shape_count(shape) == 0;
    for (int d = 0; d < shape.rank && !empty; d++) {
        const int64_t extent = shape.dim[d];
        if (extent == 1) continue;
        bool joins = rank > 0;
        for (int k = 0; k < operands && joins; k++)
            joins = out[k][rank - 1] == stride[k][d] * extent;
        if (!joins) dim[rank++] = 1;
        dim[rank - 1] *= (uint32_t)extent;
        for (int k = 0; k < operands; k++) out[k][rank - 1] = (uint32_t)stride[k][d];
    }
    if (rank > 0) return rank;
    dim[0] = !empty;
    for (int k = 0; k < operands; k++) out[k][0] = 1;
    return 1;
}

static inline vk_loop vk_loop_make(ig_shape shape, const int64_t *const *stride, int operands) {
    vk_loop g = {.n = 1};
    for (int d = 0; d < shape.rank; d++) g.n *= (uint32_t)shape.dim[d];
    g.rank = vk_join_dims(shape, stride, operands, g.dim, g.stride);
    return g;
}

/* Whether element i of every operand is at offset i. */
static inline bool vk_loop_is_packed(const vk_loop *g, int operands) {
    bool packed = g->rank == 1;
    for (int k = 0; k < operands; k++) packed &= g->stride[k][0] == 1;
    return packed;
}

static inline vk_places vk_places_of(ig_shape shape, const int64_t *stride) {
    const vk_loop g = vk_loop_make(shape, &stride, 1);
    vk_places p = {.rank = g.rank};
    for (int d = 0; d < VK_RANK; d++) {
        p.dim[d] = g.dim[d];
        p.stride[d] = g.stride[0][d];
    }
    return p;
}

/* The operand without its last `drop` dimensions. */
static inline vk_places vk_places_make(const ig_operand *o, int drop) {
    ig_shape shape = o->desc.shape;
    shape.rank = shape.rank > drop ? shape.rank - drop : 0;
    return vk_places_of(shape, o->stride);
}

/* Whether inputs from `first` on, and outputs, have this dtype. */
static inline bool vk_operands_are(const ig_step *step, uint32_t first, ig_dtype dtype) {
    for (uint32_t i = first; i < step->n_in + step->n_out; i++)
        if (ig_step_operand(step, i)->desc.dtype != dtype) return false;
    return true;
}

static inline bool vk_outputs_are_packed(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_out; i++)
        if (!ig_operand_is_packed(&step->out[i])) return false;
    return true;
}

/* All operands have the shape of the result. */
static inline bool vk_alike(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (!ig_shape_equal(ig_step_operand(step, i)->desc.shape, step->out[0].desc.shape))
            return false;
    return true;
}

/* An update writes each result in place of the input it replaces. */
static inline bool vk_lies_as_input(const ig_step *step, uint32_t output, uint32_t input) {
    const ig_operand *to = &step->out[output], *from = &step->in[input];
    return to->buffer == from->buffer && to->offset == from->offset &&
           ig_shape_equal(to->desc.shape, from->desc.shape) &&
           memcmp(to->stride, from->stride, (size_t)to->desc.shape.rank * sizeof *to->stride) == 0;
}

#endif
