/*
 * device.h - a device of Vulkan: its queue, its memory, its pipelines.
 *
 * Work goes to one queue in order.  Submissions are counted, so "is this done" is a
 * comparison of two numbers.
 */
#ifndef IG_BACKEND_VULKAN_DEVICE_H
#define IG_BACKEND_VULKAN_DEVICE_H

#include "backend/vulkan/host/api.h"
#include "backend/vulkan/kernels/vk_kernel.h"

typedef struct vk_block vk_block;

/*
 * A piece of device memory.  Pieces lie side by side in a block and know their
 * neighbours; free ones are joined.
 *
 *     block   | piece | piece (free) | piece | piece (free) |
 */
struct ig_backend_buffer {
    vk_block *block;
    ig_backend_buffer *before, *after; /* in the block */
    uint64_t offset, bytes;            /* in the block; whole units of VK_ALIGNMENT */
    uint64_t last_use;                 /* the submission that touches it last */
    bool free;
};

/* One allocation of the driver, as one buffer. */
struct vk_block {
    vk_block *next;
    VkDeviceMemory memory;
    VkBuffer buffer;
    VkDeviceAddress address; /* at least a number that tells it from others */
    char *mapped;            /* NULL: the host does not see it */
    uint64_t bytes;
    ig_backend_buffer *pieces; /* the first */
};

enum { VK_ALIGNMENT = 256 }; /* of pieces */

typedef enum vk_pool_kind {
    VK_POOL_DEVICE, /* where kernels work; mapped where the device offers it */
    VK_POOL_UPLOAD, /* the host writes, the device reads */
    VK_POOL_READ,   /* the device writes, the host reads */
    VK_POOL_COUNT
} vk_pool_kind;

typedef struct vk_pool {
    uint32_t type;     /* index among the device's kinds of memory */
    bool mapped, fast; /* the host sees it; the host reads it at full speed */
    uint64_t block_bytes;
    vk_block *blocks;
} vk_pool;

/*
 * Copies through memory that the host sees, in two halves: one is filled while the other goes.
 * Uploads gather in a half until something is submitted, and go with it, in front of it.
 */
typedef struct vk_staging {
    ig_backend_buffer *upload, *read, *echo;
    VkCommandBuffer commands[2];
    uint64_t value[2]; /* the submission that uses it */
    uint32_t half;     /* the one in use */
    uint64_t filled;   /* bytes of it that hold uploads; 0: none wait */
} vk_staging;

/* What the host reads after every run, and each run therefore copies to where it sees it. */
typedef struct vk_echo {
    const ig_backend_buffer *of; /* NULL: nothing */
    uint64_t offset, bytes;
    VkCommandBuffer commands; /* the copy */
    uint64_t value;           /* the submission that did it last */
    bool recorded, heard;     /* heard: read since then */
} vk_echo;

typedef struct vk_pipeline_key {
    uint32_t shader;
    uint32_t split; /* 1: some operand is bound by several windows */
    uint32_t constant[VK_MAX_CONSTANTS];
} vk_pipeline_key;

/* A shader that was written for a chain of steps. */
typedef struct vk_written {
    uint32_t *words;
    size_t n_words;
    char name[64]; /* "chain of mul, scale" */
    VkShaderModule module;
} vk_written;

typedef struct vk_pipelines {
    const struct vk_shader_code *shaders; /* those of the form that the device runs */
    VkDescriptorSetLayout bindings;       /* where memory is bound */
    VkPipelineLayout layout;
    VkPipelineCache cache; /* what the driver has compiled, of all programs */
    void *saved;           /* the same as bytes, lent by vk_pipelines_save() */
    VkShaderModule modules[VK_SHADER_COUNT];
    vk_written *written; /* shader number VK_SHADER_COUNT + i is written[i] */
    uint32_t n_written, written_room;
    vk_pipeline_key *keys; /* of those that are made, in the order of making */
    VkPipeline *at;
    uint32_t count, room;
} vk_pipelines;

/*
 * What a device can do beyond Vulkan 1.1:
 *
 *     addresses   kernels are handed addresses, and use 8- and 16-bit storage, 64-bit integers and
 *                 arithmetic of subgroups; else their memory is bound, and they use none of it
 *     timeline    a semaphore counts submissions; else each has a fence
 */
typedef struct vk_abilities {
    bool is_new; /* Vulkan 1.2, which all of them take */
    bool addresses, timeline;
} vk_abilities;

enum { VK_FENCES = 64 }; /* submissions under way at a time, where there is no timeline */

typedef struct vk_device {
    ig_backend_device base;
    vk_api api;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    vk_abilities has;
    bool has_budget;
    bool has_matrices;                     /* see matrices.h */
    bool keeps_subnormals, keeps_specials; /* floats may be asked to: denormals; signed zero, NaN */
    VkDevice handle;
    VkQueue queue;
    uint32_t tick_bits; /* of the queue's clock; 0: it has none */
    VkCommandPool commands;
    VkSemaphore timeline;          /* or: */
    VkFence fences[VK_FENCES];     /* number n is of submissions n, n + VK_FENCES, ... */
    bool is_lost;                  /* nothing that is submitted runs any more */
    uint64_t submitted, completed; /* the last that was given to the device, and was seen done */
    uint64_t waited_ns;            /* the last time that was too long to look all the while */
    vk_pool pools[VK_POOL_COUNT];
    uint64_t next_address;    /* of the next block, where blocks have none of their own */
    uint64_t allocated, peak; /* bytes in buffers that the host asked for */
    uint64_t returned;        /* pieces given back so far: what a pointer meant may have changed */
    vk_staging staging;
    vk_echo echo;
    vk_pipelines pipelines;
    ig_device_counters counters;
} vk_device;

/* ---- the queue ---- */

IG_MUST_CHECK ig_status vk_queue_init(vk_device *d, uint32_t family);
void vk_queue_deinit(vk_device *d);

/* After the uploads that wait, and before `echo`; NULL: not any. */
IG_MUST_CHECK ig_status vk_submit(vk_device *d, VkCommandBuffer commands, VkCommandBuffer echo);
IG_MUST_CHECK ig_status vk_wait(vk_device *d, uint64_t value);
bool vk_is_done(vk_device *d, uint64_t value);
IG_MUST_CHECK ig_status vk_commands_create(vk_device *d, VkCommandBuffer *out, uint32_t count);

/* Begins a recording; all that was submitted before is done and seen when its commands start. */
IG_MUST_CHECK ig_status vk_commands_begin(vk_device *d, VkCommandBuffer commands);
/* Ends it; the host sees what it wrote. */
IG_MUST_CHECK ig_status vk_commands_end(vk_device *d, VkCommandBuffer commands);

/* ---- memory ---- */

/* Ends the recording of the uploads that wait, for the submission that comes; NULL: none do. */
IG_MUST_CHECK ig_status vk_uploads_take(vk_device *d, VkCommandBuffer *out);

IG_MUST_CHECK ig_status vk_memory_init(vk_device *d);
void vk_memory_deinit(vk_device *d);
IG_MUST_CHECK ig_status vk_piece_alloc(vk_device *d, vk_pool_kind kind, uint64_t bytes,
                                       ig_backend_buffer **out);
void vk_piece_free(vk_device *d, ig_backend_buffer *piece); /* NULL is fine */

static inline char *vk_piece_mapped(const ig_backend_buffer *p) {
    return p->block->mapped ? p->block->mapped + p->offset : NULL;
}
static inline VkDeviceAddress vk_piece_address(const ig_backend_buffer *p) {
    return p->block->address + p->offset;
}

/* ---- echo.c ---- */

enum { VK_ECHO_BYTES = 1 << 10 }; /* of an echo, at most */

/* The host has read this by a copy; after the second time in a row, runs bring it along. */
IG_MUST_CHECK ig_status vk_echo_learn(vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                                      uint64_t bytes);
/* What a run is to copy; NULL: nothing.  Once it is submitted, that is d->echo.value. */
VkCommandBuffer vk_echo_take(vk_device *d);
/* Whether the echo is what is there now. */
bool vk_echo_has(const vk_device *d, const ig_backend_buffer *src, uint64_t offset, uint64_t bytes);
IG_MUST_CHECK ig_status vk_echo_read(vk_device *d, void *dst);
void vk_echo_forget(vk_device *d, const ig_backend_buffer *piece);

/* The functions of backend.h. */
IG_MUST_CHECK ig_status vk_buffer_alloc(ig_backend_device *device, uint64_t bytes,
                                        ig_backend_buffer **out);
void vk_buffer_free(ig_backend_device *device, ig_backend_buffer *buffer);
IG_MUST_CHECK ig_status vk_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                                 const void *src, uint64_t bytes);
IG_MUST_CHECK ig_status vk_read(ig_backend_device *device, const ig_backend_buffer *src,
                                uint64_t offset, void *dst, uint64_t bytes);
void vk_memory_stats(const ig_backend_device *device, ig_memory_stats *out);
void vk_reset_memory_stats(ig_backend_device *device);

/* ---- pipelines ---- */

IG_MUST_CHECK ig_status vk_pipelines_init(vk_device *d);
void vk_pipelines_deinit(vk_device *d);

/* Makes those of the keys that are not there yet, on all threads of the host's team. */
IG_MUST_CHECK ig_status vk_pipelines_make(vk_device *d, const vk_pipeline_key *keys,
                                          uint32_t count);
VkPipeline vk_pipelines_find(const vk_device *d, const vk_pipeline_key *key);

/* Takes the words of a shader, and frees them where it has the same already.  `out` is its number
 * among all shaders. */
IG_MUST_CHECK ig_status vk_pipelines_write(vk_device *d, vk_written shader, uint32_t *out);

/* What the driver has compiled, to be compiled no more: lent until the next call. */
IG_MUST_CHECK ig_status vk_pipelines_save(vk_device *d, ig_blob *out);
/* Takes it back.  IG_ERR_FORMAT: it is damaged, or of another driver. */
IG_MUST_CHECK ig_status vk_pipelines_load(vk_device *d, ig_blob saved);

/* ---- programs ---- */

/* Those of the kernels' entries. */
uint64_t vk_dtypes(void);
bool vk_can_run(const ig_backend_device *device, const ig_step *step);
uint64_t vk_scratch_bytes(const ig_backend_device *device, const ig_step *step);
ig_compile_fn vk_compile; /* with shaders of their own for chains of steps */
ig_compile_fn vk_compile_plain;
IG_MUST_CHECK ig_status vk_save(const ig_backend_program *program, ig_blob *out);

#endif
