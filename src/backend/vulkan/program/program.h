/*
 * program.h - a program: dispatches, recorded once into a command buffer.
 *
 * A recording holds the addresses of the buffers it was made for.  Runs with other
 * buffers, or while the numbers of an earlier run are still being read, take
 * another recording of the same program; there are a few.
 */
#ifndef IG_BACKEND_VULKAN_PROGRAM_H
#define IG_BACKEND_VULKAN_PROGRAM_H

#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/shaders/params.h"
#include "backend/vulkan/program/dynamic_dims.h"

/* A dispatch, settled. */
typedef struct vk_launch {
    vk_pipeline_key key;
    VkPipeline pipeline;
    uint32_t groups[3];
    uint32_t first_ref, n_refs;
    uint64_t params_offset;
    uint32_t head[VK_HEAD_WORDS]; /* what the params begin with */
    uint32_t numbers;             /* which; UINT32_MAX: none */
    uint32_t varying;             /* which; UINT32_MAX: none */
    uint32_t step;                /* of the program's steps, whose work this is */
} vk_launch;

/* Words that are worked out from the slots before each run. */
typedef struct vk_numbers {
    vk_numbers_fn *make;
    char attrs[IG_ATTRS_MAX];
} vk_numbers;

enum { VK_RECORDINGS = 4 };

typedef struct vk_recording {
    VkCommandBuffer commands;
    VkDeviceAddress *bound;     /* of each buffer of the plan */
    ig_backend_buffer **pieces; /* these buffers, while none has been given back */
    uint64_t returned;          /* how many had been then: vk_device's */
    ig_backend_buffer *numbers; /* the words, mapped; NULL: the program has none */
    VkDescriptorPool sets;      /* where memory is bound */
    uint32_t *words;            /* the same, where reading costs nothing */
    uint32_t barriers;          /* between launches */
    uint64_t value;             /* the submission that uses it */
    uint64_t used;              /* when, counted in runs; 0: not recorded */
} vk_recording;

typedef struct vk_program {
    ig_backend_program base;
    vk_device *device;
    vk_launch *launches;
    vk_ref *refs;
    vk_numbers *numbers;
    vk_varying *varying;
    uint32_t *words; /* of what varies, then of the numbers, as this run has them */
    char *params;    /* of all launches; only while compiling */
    uint32_t n_launches, n_refs, n_numbers, n_varying, n_buffers;
    uint64_t params_bytes, runs;
    ig_backend_buffer *params_piece;
    VkQueryPool times; /* of a run that is watched; made when one is */
    vk_recording recordings[VK_RECORDINGS];
} vk_program;

/* Lets the kernel of the step emit its dispatches; false: there is none. */
bool vk_setup(const ig_step *step, vk_builder *b);

/* Where the words of a launch that varies begin among all words, and those of numbers after. */
static inline size_t vk_varying_at(uint32_t varying) { return (size_t)varying * VK_VARYING_WORDS; }
static inline size_t vk_numbers_at(const vk_program *p, uint32_t numbers) {
    return vk_varying_at(p->n_varying) + (size_t)numbers * VK_NUMBERS;
}

/* Records the program for these buffers, whose addresses are `r->bound`.  With `times`, the moment
 * before the first launch and after each one is noted there. */
IG_MUST_CHECK ig_status vk_record(vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers,
                                  VkQueryPool times);

/* Submits it, and counts what that starts. */
IG_MUST_CHECK ig_status vk_submit_recording(vk_program *p, vk_recording *r);

/* ---- watch.c ---- */

/* Whether somebody watches, and the device can tell the time. */
bool vk_is_watched(const vk_device *d);
IG_MUST_CHECK ig_status vk_times_create(vk_program *p); /* p->times, if there are none yet */
/* Runs a recording, waits for it and tells the host when each launch was under way. */
IG_MUST_CHECK ig_status vk_run_watched(vk_program *p, vk_recording *r);

#endif
