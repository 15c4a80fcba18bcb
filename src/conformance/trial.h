/*
 * trial.h - a case laid out in memory, ready to run on a backend.
 *
 *     buffer 0     the arena: scratch of the step
 *     buffer 1..   one for each input, then one for each output that is not an input's
 *
 *     | guard | elements, with whatever lies between them | guard |
 *
 * Guards and gaps hold a pattern; after a run everything but the elements of
 * outputs must still be as it was.
 */
#ifndef IG_CONFORMANCE_TRIAL_H
#define IG_CONFORMANCE_TRIAL_H

#include "backend/ref/ref_convert.h"
#include "conformance/cases.h"
#include "conformance/conformance_host.h"

enum { TRIAL_MAX_OUT = 3, TRIAL_BUFFERS = 1 + CASE_MAX_IN + TRIAL_MAX_OUT };

typedef struct trial_memory {
    char *bytes; /* owned */
    size_t size;
} trial_memory;

typedef struct trial {
    ig_step step;
    ig_operand in[CASE_MAX_IN], out[TRIAL_MAX_OUT];
    trial_memory memory[TRIAL_BUFFERS]; /* before a run; memory[0] is made by trial_run() */
    uint32_t n_buffers;
    const ig_slot *slots;
    uint32_t n_slots;
} trial;

/* Lays the case out, with `real` for what is real in it.  The shape rules' refusal is returned. */
IG_MUST_CHECK ig_status trial_init(trial *t, const ig_case *c, ig_dtype real);

/* The same values, packed, with F64 for what has the dtype `real`: what the oracle is given. */
IG_MUST_CHECK ig_status trial_init_oracle(trial *t, const trial *from, ig_dtype real);
void trial_deinit(trial *t);

/* An operand in a buffer's bytes: convert.h of the reference reads and writes its elements. */
ig_ref_view trial_view(const ig_operand *o, const trial_memory *memory);

/* Elements that are stored together, what they take, and where those from element i on lie. */
int64_t trial_block(ig_dtype dtype);
size_t trial_block_bytes(ig_dtype dtype);
char *trial_at(const ig_ref_view *v, int64_t i);

/* What a run left behind; the caller gives it back with trial_result_deinit(). */
typedef struct trial_result {
    trial_memory memory[TRIAL_BUFFERS];
} trial_result;
void trial_result_deinit(trial_result *r);

typedef enum trial_garbage { GARBAGE_HUGE = 0x5e, GARBAGE_HUGE_NEGATIVE = 0xde } trial_garbage;

typedef enum trial_runs { RUN_ONCE = 1, RUN_TWICE } trial_runs;

/* Whether the backend takes the step: can_run() says so, or compile() where there is none. */
bool trial_taken(trial *t, const ig_backend *backend, ig_backend_device *device);

/*
 * Runs the trial on an open device and hands back what the buffers hold then.
 * Outputs and scratch are full of garbage before.  A program that is run twice
 * starts from the same memory, and must not have worn out.  IG_ERR_UNSUPPORTED:
 * the backend does not take the step.
 */
IG_MUST_CHECK ig_status trial_run(trial *t, const ig_backend *backend, ig_backend_device *device,
                                  trial_garbage garbage, trial_runs runs, trial_result *out);

/* The first buffer in which a run touched what is not its own; -1: none. */
int trial_find_stray_write(const trial *t, const trial_result *r, trial_garbage garbage);

/* Opens a backend's device, or brings one where it has no open(). */
IG_MUST_CHECK ig_status trial_open(const ig_backend *backend, test_host *host,
                                   ig_backend_device *plain, ig_backend_device **out);
void trial_close(const ig_backend *backend, ig_backend_device *plain, ig_backend_device *device);

#endif
