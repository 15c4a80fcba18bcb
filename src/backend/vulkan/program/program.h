/*
 * program.h - a program: dispatches, recorded once into a command buffer.
 *
 * A recording holds the addresses of its buffers. Runs with other buffers, or while an earlier run
 * still reads its words, use another recording of the same program; there are a few.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_PROGRAM_H
#define IG_BACKEND_VULKAN_PROGRAM_PROGRAM_H

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/program/dynamic_dims.h"
#include "backend/vulkan/shaders/params.h"

/* A dispatch with everything resolved. */
typedef struct vk_launch {
    vk_pipeline_key key;
    VkPipeline pipeline;
    uint32_t groups[3];
    uint32_t first_ref, n_refs;
    uint64_t params_offset;
    uint32_t head[VK_HEAD_WORDS]; /* the first words of the parameters */
    uint32_t numbers;             /* index; UINT32_MAX: none */
    uint32_t varying;             /* index; UINT32_MAX: none */
    uint32_t step;                /* index of its step in the program */
} vk_launch;

/* Words computed from the slots before each run. */
typedef struct vk_numbers {
    vk_numbers_fn *make;
    char attrs[IG_ATTRS_MAX];
} vk_numbers;

enum { VK_RECORDINGS = 4 };

typedef struct vk_recording {
    VkCommandBuffer commands;
    VkDeviceAddress *bound;     /* address of each buffer of the plan */
    ig_backend_buffer **pieces; /* these buffers, as long as none has been freed */
    uint64_t returned;          /* the device's `returned` at that time */
    ig_backend_buffer *numbers; /* the words, mapped; NULL: none */
    VkDescriptorPool sets;      /* for bound memory */
    uint32_t *words;            /* a copy that is fast to read */
    uint32_t barriers;          /* in the command buffer */
    uint64_t value;             /* the last submission that uses it */
    uint64_t used;              /* the run number of its last use; 0: not recorded */
} vk_recording;

typedef struct vk_program {
    ig_backend_program base;
    vk_device *device;
    vk_launch *launches;
    vk_ref *refs;
    vk_numbers *numbers;
    vk_varying *varying;
    uint32_t *words; /* the words of dynamic dispatches, then those of slots, for this run */
    char *params;    /* of all launches; only while compiling */
    uint32_t n_launches, n_refs, n_numbers, n_varying, n_buffers;
    uint64_t params_bytes, runs;
    ig_backend_buffer *params_piece;
    VkQueryPool times; /* timestamps of a profiled run; created on first use */
    vk_recording recordings[VK_RECORDINGS];
} vk_program;

/* Lets the kernel of the step emit its dispatches; false: no kernel. */
bool vk_setup(const ig_step *step, vk_builder *b);

/* Offset of a dynamic launch's words, and of slot words, among all words. */
static inline size_t vk_varying_at(uint32_t varying) { return (size_t)varying * VK_VARYING_WORDS; }
static inline size_t vk_numbers_at(const vk_program *p, uint32_t numbers) {
    return vk_varying_at(p->n_varying) + (size_t)numbers * VK_NUMBERS;
}

/* Records the program for the buffers at `r->bound`. With `times`, writes a timestamp before the
 * first launch and after each. */
IG_MUST_CHECK ig_status vk_record(vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers,
                                  VkQueryPool times);

/* Submits the recording and updates the counters. */
IG_MUST_CHECK ig_status vk_submit_recording(vk_program *p, vk_recording *r);

/* ---- host/timestamps.c ---- */

/* Whether profiling is on and the device has timestamps. */
bool vk_is_watched(const vk_device *d);
IG_MUST_CHECK ig_status vk_times_create(vk_program *p); /* creates p->times if missing */
/* Runs a recording, waits for it and reports the time of each launch to the host. */
IG_MUST_CHECK ig_status vk_run_watched(vk_program *p, vk_recording *r);

#endif
