/*
 * vk_kernel.h - the interface of a Vulkan kernel.
 *
 * shaders/<family>.comp holds the shaders of a family, and kernels/<family>.c turns a step into
 * dispatches: a shader with specialization constants, workgroup counts, memory and parameters.
 * setup() is called to ask whether a step can run, to count its dispatches, and to emit them; it
 * does the same each time, and vk_emit() makes the difference.
 */
#ifndef IG_BACKEND_VULKAN_KERNELS_VK_KERNEL_H
#define IG_BACKEND_VULKAN_KERNELS_VK_KERNEL_H

#include "backend/vulkan/vk_families.h" /* each <family>.c of kernels/ */
#include "backend/vulkan/vk_shaders.h"  /* each .comp of shaders/ */
#include "ingot/backend.h"

typedef enum vk_shader {
#define NAME(shader) VK_SHADER_##shader,
    VK_SHADERS(NAME)
#undef NAME
        VK_SHADER_COUNT
} vk_shader;

enum {
    VK_MAX_REFS = 8,       /* memory ranges per dispatch */
    VK_MAX_CONSTANTS = 12, /* per shader; the first is the workgroup size */
    VK_NUMBERS = 8,        /* words from slots per dispatch */
};

/* A byte range of a buffer of the plan. */
typedef struct vk_ref {
    uint32_t buffer;
    uint32_t writes; /* 1: also written */
    uint64_t offset, bytes;
} vk_ref;

/* Computes the words that a kernel needs from this run's slots; floats as bits. */
typedef void vk_numbers_fn(const void *attrs, const ig_slot *slots, uint32_t *out);

typedef struct vk_dispatch {
    uint32_t shader; /* a vk_shader, or VK_SHADER_COUNT + the index of a generated shader */
    uint32_t constant[VK_MAX_CONSTANTS];
    uint32_t groups[3]; /* 0 counts as 1 */
    uint32_t n_refs;
    vk_ref ref[VK_MAX_REFS]; /* in the shader's order */
    const void *params;      /* a struct of shaders/params.h */
    uint32_t params_bytes;
    vk_numbers_fn *numbers; /* NULL: none */
} vk_dispatch;

/* Steps fused into the kernel of another one, see fuse.h. */
typedef struct vk_join {
    const ig_step *before; /* produces in[0]; NULL: none */
    const ig_step *after;  /* consumes the result; NULL: none */
    bool stores;   /* the one of several steps with the same `before` that stores its result */
    bool absorbed; /* fused into another step */
} vk_join;

/* The left side of a matmul as F16, shared with other matmuls of its level. */
typedef struct vk_split {
    const ig_step *step; /* the step whose in[0] is split, in its scratch; NULL: none */
    vk_ref f16;
} vk_split;

/* Collects dispatches: only counts them, or adds them to a program, or rewrites those of a run. */
typedef struct vk_builder {
    const struct vk_device *device; /* that they are for */
    uint32_t n_launches, n_refs, n_numbers;
    uint64_t params_bytes, scratch_bytes;
    struct vk_program *program; /* NULL: count only */
    uint32_t n_varying;
    bool too_large; /* an operand exceeds what the device can bind */
    uint32_t
        *rewrite; /* destination of a dynamic dispatch, see dynamic_dims.h; NULL: not rewriting */
    const ig_step *step;
    uint32_t step_index;
    vk_join join;   /* fused steps; empty: none */
    vk_split split; /* the last one emitted */
} vk_builder;

void vk_emit(vk_builder *b, const vk_dispatch *dispatch);

/* False: this kernel cannot run the step. */
typedef bool vk_setup_fn(const ig_step *step, vk_builder *b);

typedef struct vk_entry {
    uint32_t op;
    ig_dtype dtype; /* of in[0], or of out[0] without inputs: what the capabilities list */
    vk_setup_fn *setup;
} vk_entry;

/* Whether the matmul kernel can compute `before` while reading its left side, and fuse `after`. */
bool vk_matmul_takes_before(const ig_step *product, const ig_step *before);
bool vk_matmul_takes_after(const ig_step *product, const ig_step *after);

/* Each table ends with an entry without `setup`. */
#define DECLARE(family) extern const vk_entry vk_##family[];
VK_FAMILIES(DECLARE)
#undef DECLARE

/* The functions of function.def, numbered. */
typedef enum vk_function {
#define IG_FN1(ID, name, cost, low, high, epsilons)          VK_FN_##name = __LINE__,
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) VK_FN_##name = __LINE__,
#define IG_FN2(ID, name, cost, epsilons)                     VK_FN_##name = __LINE__,
#define IG_SLOPE(ID, name, cost, epsilons)                   VK_FN_##name = __LINE__,
#define IG_SLOPE_OF(ID, form, name, cost, epsilons)          VK_FN_##name = __LINE__,
#include "ingot/function.def"
} vk_function;

/* The elementwise function of a step on floats, or VK_SCALE; -1: none. */
int vk_elementwise_function(const ig_step *step);

#endif
