/*
 * kernel.h - what a kernel of the Vulkan backend is.
 *
 * A file kernels/<family>.comp holds the shaders of a family, and <family>.c says,
 * step by step, which dispatches a step becomes: a shader with its constants, how
 * many groups, which memory it touches, and the numbers it needs.  setup() is
 * called to ask whether a step can run, then to count, then to write; it
 * does the same each time and lets vk_emit() do what differs.
 */
#ifndef IG_BACKEND_VULKAN_KERNEL_H
#define IG_BACKEND_VULKAN_KERNEL_H

#include "ingot/backend.h"

/* Kernel families: one shader each, variants by constants. */
#define VK_SHADERS(X) \
    X(elementwise)    \
    X(chain)          \
    X(cast)           \
    X(move)           \
    X(index)          \
    X(reduce)         \
    X(softmax)        \
    X(norm)           \
    X(matmul)         \
    X(matmul_wide)    \
    X(matmul_split)   \
    X(matmul_matrix)  \
    X(matmul_join)    \
    X(matvec)         \
    X(matmul_small)   \
    X(rope)           \
    X(attention)      \
    X(attention_grad) \
    X(paged)          \
    X(paged_wide)     \
    X(paged_tile)     \
    X(moe)            \
    X(update)         \
    X(random)

typedef enum vk_shader {
#define NAME(family) VK_SHADER_##family,
    VK_SHADERS(NAME)
#undef NAME
        VK_SHADER_COUNT
} vk_shader;

enum {
    VK_MAX_REFS = 8,       /* memory that a dispatch touches */
    VK_MAX_CONSTANTS = 12, /* of a shader; the first is the number of threads of a group */
    VK_NUMBERS = 8,        /* words that a dispatch may take from slots */
};

/* Bytes of a buffer of the plan. */
typedef struct vk_ref {
    uint32_t buffer;
    uint32_t writes; /* 1: they are written, too */
    uint64_t offset, bytes;
} vk_ref;

/* What a kernel needs of this run's slots, as words: floats by their bits. */
typedef void vk_numbers_fn(const void *attrs, const ig_slot *slots, uint32_t *out);

typedef struct vk_dispatch {
    uint32_t shader; /* vk_shader, or that of a chain: VK_SHADER_COUNT + its number */
    uint32_t constant[VK_MAX_CONSTANTS];
    uint32_t groups[3]; /* 0 counts as 1 */
    uint32_t n_refs;
    vk_ref ref[VK_MAX_REFS]; /* in the order in which the shader names them */
    const void *params;      /* a struct of kernels/params.h */
    uint32_t params_bytes;
    vk_numbers_fn *numbers; /* NULL: none */
} vk_dispatch;

/* Steps that the kernel of another does along with it: see join.h. */
typedef struct vk_join {
    const ig_step *before; /* makes in[0]; NULL: none */
    const ig_step *after;  /* takes the result further; NULL: none */
    bool stores;           /* of several that have the same `before`, this one stores its result */
    bool absorbed;         /* this step is done by another */
} vk_join;

/* The left side of a product as halves, which others of its level may use as well. */
typedef struct vk_split {
    const ig_step *step; /* whose in[0] and scratch it is; NULL: there is none */
    vk_ref halves;
} vk_split;

/* Where dispatches go: nowhere, but counted, or into a program, or into the words of a run. */
typedef struct vk_builder {
    const struct vk_device *device; /* that they are for */
    uint32_t n_launches, n_refs, n_numbers;
    uint64_t params_bytes, scratch_bytes;
    struct vk_program *program; /* NULL: only counts */
    uint32_t n_varying;
    bool too_large;    /* a dispatch has operands that the device cannot show */
    uint32_t *rewrite; /* of a dispatch that varies: see vary.h; NULL: it is no such run */
    const ig_step *step;
    uint32_t step_index;
    vk_join join;   /* of the step; empty: it is by itself */
    vk_split split; /* the last that was emitted */
} vk_builder;

void vk_emit(vk_builder *b, const vk_dispatch *dispatch);

/* False: this kernel cannot run the step. */
typedef bool vk_setup_fn(const ig_step *step, vk_builder *b);

typedef struct vk_entry {
    uint32_t op;
    ig_dtype dtype; /* of in[0], or of out[0] where there is none: what capabilities list */
    vk_setup_fn *setup;
} vk_entry;

/* Whether the product's kernel can work out `before` as it reads its left side, and take `after`
 * along. */
bool vk_matmul_takes_before(const ig_step *product, const ig_step *before);
bool vk_matmul_takes_after(const ig_step *product, const ig_step *after);

/* Each ends with an entry without `setup`. */
extern const vk_entry vk_elementwise[], vk_cast[], vk_move[], vk_index[], vk_reduce[], vk_softmax[],
    vk_norm[], vk_matmul[], vk_rope[], vk_attention[], vk_paged[], vk_moe[], vk_update[],
    vk_random[];

/* Which of the functions of params.h a step computes of floats; -1: none. */
int vk_elementwise_function(const ig_step *step);

#endif
