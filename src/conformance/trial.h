/*
 * trial.h - a case laid out in memory, ready to run on a backend.
 *
 *     buffer 0     the arena: scratch of the step
 *     buffer 1..   one per input, then one per output that does not alias an input
 *
 *     | guard | elements, and gaps between them | guard |
 *
 * Guards and gaps hold a pattern; a run may change only the elements of outputs.
 */
#ifndef IG_CONFORMANCE_TRIAL_H
#define IG_CONFORMANCE_TRIAL_H

#include "backend/ref/ref_convert.h"
#include "backend/standalone_host.h"
#include "conformance/cases.h"

enum { TRIAL_MAX_OUT = 3, TRIAL_BUFFERS = 1 + CASE_MAX_IN + TRIAL_MAX_OUT };

typedef struct trial_memory {
    char *bytes; /* owned */
    size_t size;
} trial_memory;

typedef struct trial {
    ig_step step;
    ig_operand in[CASE_MAX_IN], out[TRIAL_MAX_OUT];
    trial_memory memory[TRIAL_BUFFERS]; /* contents before a run; memory[0] is set by trial_run() */
    uint32_t n_buffers;
    const ig_slot *slots;
    uint32_t n_slots;
} trial;

/* Lays the case out, with `real` as the dtype of real operands. Returns the shape rule's error. */
IG_MUST_CHECK ig_status trial_init(trial *t, const ig_case *c, ig_dtype real);

/* The oracle's version of a trial: the same values, packed, with F64 in place of the dtype `real`.
 */
IG_MUST_CHECK ig_status trial_init_oracle(trial *t, const trial *from, ig_dtype real);
void trial_deinit(trial *t);

/* An operand in a buffer: ref_convert.h reads and writes its elements. */
ig_ref_view trial_view(const ig_operand *o, const trial_memory *memory);

/* Elements per block, bytes per block, and the address of the block that starts at element i. */
int64_t trial_block(ig_dtype dtype);
size_t trial_block_bytes(ig_dtype dtype);
char *trial_at(const ig_ref_view *v, int64_t i);

/* The buffers after a run; free with trial_result_deinit(). */
typedef struct trial_result {
    trial_memory memory[TRIAL_BUFFERS];
} trial_result;
void trial_result_deinit(trial_result *r);

typedef enum trial_garbage { GARBAGE_HUGE = 0x5e, GARBAGE_HUGE_NEGATIVE = 0xde } trial_garbage;

typedef enum trial_runs { RUN_ONCE = 1, RUN_TWICE } trial_runs;

/* Whether the backend accepts the step: by can_run(), or by compile() if there is none. */
bool trial_taken(trial *t, const ig_backend *backend, ig_backend_device *device);

/*
 * Runs the trial on an open device and returns the contents of the buffers afterwards. Outputs and
 * scratch hold garbage before. A program that runs twice starts from the same memory, and must give
 * a valid result again. IG_ERR_UNSUPPORTED: the backend refuses the step.
 */
IG_MUST_CHECK ig_status trial_run(trial *t, const ig_backend *backend, ig_backend_device *device,
                                  trial_garbage garbage, trial_runs runs, trial_result *out);

/* The first buffer in which a run wrote outside of its outputs; -1: none. */
int trial_find_stray_write(const trial *t, const trial_result *r, trial_garbage garbage);

/* Opens a backend's device, or provides the default one if it has no open(). */
IG_MUST_CHECK ig_status trial_open(const ig_backend *backend, ig_test_host *host,
                                   ig_backend_device *plain, ig_backend_device **out);
void trial_close(const ig_backend *backend, ig_backend_device *plain, ig_backend_device *device);

#endif
