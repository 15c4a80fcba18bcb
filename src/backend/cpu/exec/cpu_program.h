/*
 * cpu_program.h - a compiled program: exec/compile.c makes it, exec/run.c runs it.
 *
 *     step     task: kernel, params, operand addresses
 *     level    chains of tasks; a barrier before a chain that reads what others wrote
 *     chain    cut into chunks, each with a ticket that a thread claims
 *
 * Chunks depend on shapes alone, and each unit is computed by one thread, so results do not depend
 * on the number of threads.  A program owns all of its memory, from the host's allocator; a run
 * allocates nothing.
 */
#ifndef IG_BACKEND_CPU_EXEC_CPU_PROGRAM_H
#define IG_BACKEND_CPU_EXEC_CPU_PROGRAM_H

#include <stdatomic.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/exec/team_choice.h"

enum { IG_CPU_ALIGNMENT = 64 }; /* of offsets, and of params */

#define NO_SCRATCH UINT64_MAX
#define NO_TASK    UINT32_MAX

enum { SHARES = 64 }; /* maximum number of shares: a chain's chunks are split among them */

/* The next ticket of a share, on a cache line of its own. */
typedef struct share {
    _Atomic int64_t next;
    char apart[56];
} share;

typedef struct cpu_device {
    ig_backend_device base;
    ig_isa isa;
    const ig_cpu_entry *const *lists;
    share shares[SHARES]; /* of the program that runs */
} cpu_device;

/* A step with its kernel. */
typedef struct task {
    ig_cpu_launch launch;
    int64_t width;           /* kernel units per unit of the chain */
    uint64_t scratch_offset; /* in the arena */
} task;
static_assert(sizeof(task) <= 64, "a task is one cache line");

/* Tasks that a thread runs on a chunk without a barrier in between. */
typedef struct chain {
    uint32_t first, last;        /* its tasks, linked by cpu_program.next */
    bool barrier;                /* wait for all earlier chains first */
    ig_cpu_split split;          /* what its units are */
    int64_t units, chunk;        /* total, and per chunk */
    int64_t grain, grain_single; /* minimum units per chunk: with the team, with one thread */
    int64_t rows, columns;       /* of its first output */
    int64_t unit_cost, row_cost; /* of a kernel unit, of a row: the sum over all tasks */
    int64_t begin, end;          /* its tickets, one per chunk */
} chain;

typedef struct cpu_program {
    ig_backend_program base;
    const ig_host *host;
    task *tasks;          /* one per step, then prologues */
    uint32_t *step_of;    /* of each task: its step */
    uint32_t *next;       /* of each task: the next in its chain */
    ig_operand *operands; /* of all tasks */
    char **at;            /* of each operand: its address in this run */
    char *params;         /* of all tasks */
    chain *chains;
    uint32_t n_tasks, n_operands, n_chains;
    size_t params_bytes;
    bool is_serial;            /* no two chunks can run at the same time */
    uint32_t n_barriers;       /* including fork and join of the team */
    ig_cpu_team_choice choice; /* the team or one thread */
    bool traced;               /* in this run */
    share *shares;             /* of the device */
} cpu_program;

/* The kernel that computes the step, and its setup; NULL: none. */
const ig_cpu_entry *ig_cpu_find(const ig_backend_device *device, const ig_step *step,
                                ig_cpu_setup *setup);

/* As ig_backend.compile and ig_backend_program.submit. */
IG_MUST_CHECK ig_status ig_cpu_compile(ig_backend_device *device, const ig_step *steps,
                                       uint32_t count, ig_blob saved, ig_progress *progress,
                                       ig_backend_program **out);
IG_MUST_CHECK ig_status ig_cpu_submit(ig_backend_program *program,
                                      ig_backend_buffer *const *buffers, uint32_t n_buffers,
                                      const ig_slot *slots, uint32_t n_slots);

#endif
