/*
 * vk_device.h - a Vulkan device: its queue, memory and pipelines.
 *
 * Work goes to one queue in order. Submissions are numbered, so "is this done" compares two
 * numbers.
 */
#ifndef IG_BACKEND_VULKAN_HOST_VK_DEVICE_H
#define IG_BACKEND_VULKAN_HOST_VK_DEVICE_H

#include "backend/vulkan/host/api.h"
#include "backend/vulkan/kernels/vk_kernel.h"

typedef struct vk_block vk_block;

/*
 * A piece of device memory. The pieces of a block form a list; adjacent free ones are merged.
 *
 *     block   | piece | piece (free) | piece | piece (free) |
 */
struct ig_backend_buffer {
    vk_block *block;
    ig_backend_buffer *before, *after; /* neighbors in the block */
    uint64_t offset, bytes;            /* in the block; multiples of VK_ALIGNMENT */
    uint64_t last_use;                 /* the last submission that touches it */
    bool free;
};

/* One allocation of the driver, as one VkBuffer. */
struct vk_block {
    vk_block *next;
    VkDeviceMemory memory;
    VkBuffer buffer;
    VkDeviceAddress address; /* or a unique number without buffer device addresses */
    char *mapped;            /* NULL: not host-visible */
    uint64_t bytes;
    ig_backend_buffer *pieces; /* the first */
};

enum { VK_ALIGNMENT = 256 }; /* of pieces */

typedef enum vk_pool_kind {
    VK_POOL_DEVICE, /* device memory for kernels; mapped if host-visible */
    VK_POOL_UPLOAD, /* the host writes, the device reads */
    VK_POOL_READ,   /* the device writes, the host reads */
    VK_POOL_COUNT
} vk_pool_kind;

typedef struct vk_pool {
    uint32_t type;     /* memory type index */
    bool mapped, fast; /* host-visible; host-cached */
    uint64_t block_bytes;
    vk_block *blocks;
} vk_pool;

/*
 * Staging memory, double-buffered: one half is filled while the other is copied. Uploads collect in
 * a half and go with the next submission, ahead of it.
 */
typedef struct vk_staging {
    ig_backend_buffer *upload, *read, *readback;
    VkCommandBuffer commands[2];
    uint64_t value[2]; /* the submission that uses it */
    uint32_t half;     /* current half */
    uint64_t filled;   /* bytes of pending uploads; 0: none */
} vk_staging;

/* Readback of bytes that the host reads after every run. */
typedef struct vk_readback {
    const ig_backend_buffer *of; /* NULL: nothing */
    uint64_t offset, bytes;
    VkCommandBuffer commands; /* the copy */
    uint64_t value;           /* the last submission that copied */
    bool recorded, is_used;   /* is_used: read since the last copy */
} vk_readback;

typedef struct vk_pipeline_key {
    uint32_t shader;
    uint32_t split; /* 1: some operand is bound by several windows */
    uint32_t constant[VK_MAX_CONSTANTS];
} vk_pipeline_key;

/* A generated shader for a chain of steps. */
typedef struct vk_written {
    uint32_t *words;
    size_t n_words;
    char name[64]; /* "chain of mul, scale" */
    VkShaderModule module;
} vk_written;

typedef struct vk_pipelines {
    const struct vk_shader_code
        *shaders;                   /* in the form (addressed or bound) that the device runs */
    VkDescriptorSetLayout bindings; /* for bound memory */
    VkPipelineLayout layout;
    VkPipelineCache cache; /* the driver's compiled pipelines, of all programs */
    void *saved;           /* its serialized data, lent by vk_pipelines_save() */
    VkShaderModule modules[VK_SHADER_COUNT];
    vk_written *written; /* shader number VK_SHADER_COUNT + i is written[i] */
    uint32_t n_written, written_room;
    vk_pipeline_key *keys; /* of created pipelines, in order of creation */
    VkPipeline *at;
    uint32_t count, room;
} vk_pipelines;

/*
 * Optional features beyond Vulkan 1.1:
 *
 *     addresses   buffer device addresses, with 8- and 16-bit storage, 64-bit integers and
 *                 subgroup arithmetic; without, memory is bound by descriptors
 *     timeline    timeline semaphores; without, each submission has a fence
 */
typedef struct vk_abilities {
    bool is_new; /* Vulkan 1.2, required by both */
    bool addresses, timeline;
} vk_abilities;

enum { VK_FENCES = 64 }; /* submissions in flight, without timeline semaphores */

typedef struct vk_device {
    ig_backend_device base;
    vk_api api;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    vk_abilities has;
    bool has_budget;
    bool has_matrices; /* cooperative matrices, see coopmat.h */
    bool keeps_subnormals,
        keeps_specials; /* float controls: denormals; signed zero, infinity and NaN */
    VkDevice handle;
    VkQueue queue;
    uint32_t tick_bits; /* valid bits of the queue's timestamps; 0: none */
    VkCommandPool commands;
    VkSemaphore timeline;          /* or: */
    VkFence fences[VK_FENCES];     /* fence n is for submissions n, n + VK_FENCES, ... */
    bool is_lost;                  /* the device is lost: no submission runs */
    uint64_t submitted, completed; /* the last submission, and the last one known to be complete */
    uint64_t waited_ns;            /* duration of the last wait that was too long for polling */
    vk_pool pools[VK_POOL_COUNT];
    uint64_t next_address;    /* for the next block, without buffer device addresses */
    uint64_t allocated, peak; /* bytes of buffers requested by the host */
    uint64_t returned;        /* pieces freed so far: cached buffer pointers may be stale */
    vk_staging staging;
    vk_readback readback;
    vk_pipelines pipelines;
    ig_device_counters counters;
} vk_device;

/* ---- the queue ---- */

IG_MUST_CHECK ig_status vk_queue_init(vk_device *d, uint32_t family);
void vk_queue_deinit(vk_device *d);

/* Submits pending uploads, the commands, then `readback`; NULL: none. */
IG_MUST_CHECK ig_status vk_submit(vk_device *d, VkCommandBuffer commands, VkCommandBuffer readback);
IG_MUST_CHECK ig_status vk_wait(vk_device *d, uint64_t value);
bool vk_is_done(vk_device *d, uint64_t value);
IG_MUST_CHECK ig_status vk_commands_create(vk_device *d, VkCommandBuffer *out, uint32_t count);

/* Starts recording; all earlier submissions complete and are visible before its commands. */
IG_MUST_CHECK ig_status vk_commands_begin(vk_device *d, VkCommandBuffer commands);
/* Ends recording and makes the results visible to the host. */
IG_MUST_CHECK ig_status vk_commands_end(vk_device *d, VkCommandBuffer commands);

/* ---- memory ---- */

/* Ends recording of the pending uploads for the next submission; NULL: none. */
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

/* ---- readback.c ---- */

enum { VK_READBACK_BYTES = 1 << 10 }; /* maximum size of a readback */

/* The host has read this by a copy; from the second time in a row, runs include it. */
IG_MUST_CHECK ig_status vk_readback_learn(vk_device *d, const ig_backend_buffer *src,
                                          uint64_t offset, uint64_t bytes);
/* The copy that a run should include; NULL: none. After submission its number is d->readback.value.
 */
VkCommandBuffer vk_readback_take(vk_device *d);
/* Whether the readback holds the current bytes. */
bool vk_readback_has(const vk_device *d, const ig_backend_buffer *src, uint64_t offset,
                     uint64_t bytes);
IG_MUST_CHECK ig_status vk_readback_get(vk_device *d, void *dst);
void vk_readback_forget(vk_device *d, const ig_backend_buffer *piece);

/* Functions of backend.h. */
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

/* Creates the missing pipelines, on all threads of the host's team. */
IG_MUST_CHECK ig_status vk_pipelines_make(vk_device *d, const vk_pipeline_key *keys,
                                          uint32_t count);
VkPipeline vk_pipelines_find(const vk_device *d, const vk_pipeline_key *key);

/* Takes ownership of a shader's words, and frees them if it already has the same shader. `out` is
 * its index among all shaders. */
IG_MUST_CHECK ig_status vk_pipelines_write(vk_device *d, vk_written shader, uint32_t *out);

/* The pipeline cache data, lent until the next call. */
IG_MUST_CHECK ig_status vk_pipelines_save(vk_device *d, ig_blob *out);
/* Loads it. IG_ERR_FORMAT: damaged, or of another driver. */
IG_MUST_CHECK ig_status vk_pipelines_load(vk_device *d, ig_blob saved);

/* ---- programs ---- */

/* The union of the kernels' dtypes. */
uint64_t vk_dtypes(void);
bool vk_can_run(const ig_backend_device *device, const ig_step *step);
uint64_t vk_scratch_bytes(const ig_backend_device *device, const ig_step *step);
ig_compile_fn vk_compile; /* generates shaders for chains of steps */
ig_compile_fn vk_compile_plain;
IG_MUST_CHECK ig_status vk_save(const ig_backend_program *program, ig_blob *out);

#endif
