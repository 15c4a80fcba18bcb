/*
 * backend.h - the contract between Ingot and a backend.
 *
 * A backend is one table of functions.  It never sees a graph, a gradient or a
 * model: the planner hands it sequences of steps whose shapes, buffers and
 * offsets are final.  Everything that can fail fails in can_run() or compile().
 *
 * A minimal backend is `name` and `compile`.  A function left NULL has the default
 * given beside it; with all of them NULL the backend has one synchronous device that
 * works in host memory.  A plugin is a shared library that exports ig_backend_entry()
 * and links nothing of Ingot; examples/backend_plugin.c is a complete one.
 *
 * A *buffer* is memory.  A *slot* is a scalar that may change from run to run (a
 * step count, a learning rate, the length of a KV cache).
 *
 * Compatibility between a host and a plugin of different versions:
 *   - Op and dtype numbers are appended, never reused.  can_run() returns
 *     false for those beyond the counts that the plugin was compiled with.
 *   - Attrs have no padding and grow at the end; zero keeps the old meaning.
 *     can_run() returns false for attrs longer than known, unless the tail is zero.
 *     ig_step_known() checks both rules, ig_step_attrs() reads shorter ones.
 *   - Tables start with `abi` and `struct_size`; fields beyond that
 *     size count as NULL.  A plugin with another `abi` is not loaded.
 */
#ifndef INGOT_BACKEND_H
#define INGOT_BACKEND_H

#include <string.h>

#include "ingot/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { IG_BACKEND_ABI = 1 };

/* The op that reads a slot defines whether it is an integer or a float. */
typedef union ig_slot {
    int64_t i;
    double f;
} ig_slot;

typedef enum ig_operand_kind {
    IG_KIND_INPUT,  /* the caller writes it before a run */
    IG_KIND_OUTPUT, /* the caller reads it after a run */
    IG_KIND_LOCAL,  /* lives inside one run */
    IG_KIND_WEIGHT, /* never changes */
    IG_KIND_STATE,  /* persists from run to run: trained weights, moments, a KV cache */
} ig_operand_kind;

enum { IG_ARENA = 0 }; /* the buffer of LOCAL values and of scratch */

/* A value that a step reads or writes.  The struct does not grow within an ABI. */
typedef struct ig_operand {
    uint32_t value;  /* SSA id: same id, same value; device memory needs no more */
    uint32_t buffer; /* host memory: the plan's buffer that holds it, */
    uint64_t offset; /* from this byte */
    ig_desc desc;    /* as the op sees it: after broadcasting, extents at their bounds */
    int64_t stride[IG_MAX_RANK]; /* in elements; 0 where a dimension repeats */
    int16_t dynamic_dim;         /* the dimension that is slots[dynamic_slot].i long; -1: none */
    uint16_t dynamic_slot;
    uint16_t kind;    /* ig_operand_kind */
    int16_t alias;    /* of an output: overwrites in[alias]; -1: none */
    const void *host; /* of a WEIGHT: its bytes, valid during compile() only */
} ig_operand;

/* Whether the elements are contiguous, in row-major order.  An empty tensor always is. */
static inline bool ig_operand_is_packed(const ig_operand *o) {
    const ig_shape *shape = &o->desc.shape;
    bool packed = true;
    int64_t stride = 1;
    for (int d = shape->rank - 1; d >= 0; d--) {
        if (shape->dim[d] == 0) return true;
        if (shape->dim[d] > 1 && o->stride[d] != stride) packed = false;
        stride *= shape->dim[d];
    }
    return packed;
}

/*
 * One operation, ready to run.  Steps are sorted by level; those of a chain are adjacent:
 *
 *     level    0        1      2           Within a chain, a step reads only the rows that
 *     chain    0   1    2      3   4       it writes itself, and all steps write the same
 *     steps    ab  c    def    g   h       number of rows: one thread may run a and b.
 *
 * Chains of one level do not read each other; a level may read all earlier levels.
 * The number of rows is the product of all extents but the last.
 */
typedef struct ig_step {
    uint32_t size; /* of this struct in the host: the stride of an array of steps */
    uint32_t op, tag, level, chain;
    uint32_t attrs_bytes, n_in, n_out;
    const void *attrs;                      /* the op's struct in op.h; valid during the call, */
    const ig_operand *in, *out;             /* as are these */
    uint64_t scratch_offset, scratch_bytes; /* in IG_ARENA; the size is scratch_bytes()'s */
} ig_step;

static_assert(sizeof(void *) != 8 || (sizeof(ig_operand) == 144 && sizeof(ig_step) == 72), "ABI");

static inline const ig_step *ig_step_at(const ig_step *steps, uint32_t i) {
    return (const ig_step *)((const char *)steps + (size_t)i * steps->size);
}

/* Inputs, then outputs. */
static inline const ig_operand *ig_step_operand(const ig_step *step, uint32_t i) {
    return i < step->n_in ? &step->in[i] : &step->out[i - step->n_in];
}

/* Whether this header defines everything the step uses: the first test of every can_run(). */
static inline bool ig_step_known(const ig_step *step) {
    const ig_op_info *op = ig_op_find(step->op);
    if (!op || step->n_in < op->in_min || step->n_in > op->in_max) return false;
    if (step->n_out < op->out_min || step->n_out > op->out_max) return false;

    for (uint32_t i = op->attrs_bytes; i < step->attrs_bytes; i++)
        if (((const char *)step->attrs)[i] != 0) return false;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if ((uint32_t)ig_step_operand(step, i)->desc.dtype >= IG_DTYPE_COUNT) return false;
    return true;
}

/* Copies the attrs to `out`; fields that an older host lacks are zero. */
static inline void ig_step_attrs(const ig_step *step, void *out, size_t out_bytes) {
    memset(out, 0, out_bytes);
    if (step->attrs_bytes < out_bytes) out_bytes = step->attrs_bytes;
    if (out_bytes > 0) memcpy(out, step->attrs, out_bytes);
}

typedef struct ig_host ig_host;
typedef struct ig_progress ig_progress;
typedef struct ig_backend_buffer ig_backend_buffer;
typedef struct ig_backend_device ig_backend_device;
typedef struct ig_backend_program ig_backend_program;

/* The first member of a backend's device struct; without open() the host provides it. */
struct ig_backend_device {
    const ig_host *host;
};

/* The result of compile(); the first member of a backend's program struct. */
struct ig_backend_program {
    /* Runs the steps, or enqueues them if the backend has synchronize(); runs stay in order. */
    ig_status (*submit)(ig_backend_program *program, ig_backend_buffer *const *buffers,
                        uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots);
    void (*destroy)(ig_backend_program *program); /* NULL: nothing to free */
};

typedef struct ig_blob {
    const void *bytes;
    size_t size;
} ig_blob;

/*
 * Compiles a program of `count` steps, at least one.  `saved` is what save() returned
 * for equal steps, or empty; it may be corrupt.  Besides IG_OK it may return
 *   IG_ERR_UNSUPPORTED  with the reason: the host tries an override or another device
 *   IG_ERR_SPLIT        to ask for fewer steps: the host offers those of one tag, then single steps
 *   IG_ERR_CANCELLED    because progress() returned false
 */
typedef ig_status ig_compile_fn(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                ig_blob saved, ig_progress *progress, ig_backend_program **out);

typedef void ig_team_fn(void *task, uint32_t thread, uint32_t threads);

/* Services of the host for a backend; valid while the device is open. */
struct ig_host {
    uint32_t abi, struct_size;

    /* Records the message for the report, verbatim, and returns `code`. */
    ig_status (*fail)(ig_status code, const char *file, int line, const char *fmt, ...)
        IG_PRINTF(4, 5);
    void (*log)(const ig_host *host, ig_log_level level, const char *text);

    /* The context's allocator: zeroed, 64-byte aligned; NULL: out of memory.  free takes NULL. */
    void *(*alloc)(const ig_host *host, size_t count, size_t bytes_each);
    void (*free)(const ig_host *host, void *p);
    bool (*progress)(ig_progress *progress, uint64_t done, uint64_t total); /* false: stop */

    /* In prepare(): steps of this tag that the backend's compile() rejects go to `compile`; all
     * steps of the tag on a device without IG_CAN_COMPILE. */
    ig_status (*register_override)(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile);

    /* Calls fn once on every thread of the team and returns when all are done.  Inside fn,
     * team_barrier() waits for all threads. */
    void (*team)(const ig_host *host, ig_team_fn *fn, void *task);
    void (*team_barrier)(const ig_host *host);

    /* NULL unless profiling.  Reports that a thread of the team ran part of step `step` (index in
     * the program) between two CLOCK_MONOTONIC timestamps. */
    void (*trace)(const ig_host *host, uint32_t thread, uint32_t step, uint64_t begin_ns,
                  uint64_t end_ns);

    /* A compile option of the user: "precision", "optimization_level", "batch_sizes".  NULL: not
     * set.  All options are part of the compile cache's key. */
    const char *(*option)(const ig_host *host, const char *name);

    /*
     * In compile(): memory for a WEIGHT packed in a named layout of the backend.  The host keeps it
     * as long as the weight and shares it among all programs that ask for the same layout.  NULL:
     * not available, use the weight's original layout.  If *out_ready is false, the caller fills
     * the memory and then calls pack_end() from the same thread, on failure too with `complete`
     * false; other threads that ask for the layout wait until then.
     */
    void *(*pack_begin)(const ig_host *host, const ig_operand *weight, const char *layout,
                        uint64_t bytes, bool *out_ready);
    void (*pack_end)(const ig_host *host, const ig_operand *weight, bool complete);

    /* Between the two, from the same thread: the first `source_bytes` bytes of a contiguous weight
     * will not be read again, so the host may release them. */
    void (*pack_consumed)(const ig_host *host, const ig_operand *weight, uint64_t source_bytes);
};

#define IG_HOST_FAIL(host, code, ...) (host)->fail(code, __FILE__, __LINE__, __VA_ARGS__)

typedef enum ig_device_class { IG_DEVICE_CPU, IG_DEVICE_GPU, IG_DEVICE_NPU } ig_device_class;

enum {
    IG_CAN_COMPILE = 1 << 0,         /* programs go through a compiler of the device.  Without it
                                        compile() lists kernels: the timeline says "not offered" at
                                        `compile`, and `kernel_override` or `eager` is selected */
    IG_CAN_GRAPH = 1 << 1,           /* a submit replays a graph that the device holds */
    IG_NO_EAGER = 1 << 2,            /* a single op is not worth a program: it runs elsewhere.
                                        With IG_CAN_COMPILE only */
    IG_OWNS_WEIGHTS = 1 << 3,        /* compile() copies every WEIGHT: submit() reads none of their
                                         buffers, and the host does not fill them */
    IG_NEVER_FAILS = 1 << 4,         /* submit() cannot fail once compiled */
    IG_FUSES_ACROSS_LEVELS = 1 << 5, /* a step may run with one of an adjacent level: the
                                inputs of a level stay for two more levels */
    IG_STATE_BACKUP_ONCE = 1 << 6,   /* STATE is backed up before the first run only, because
                                   copying it before each would cost too much: a later failure
                                   during an update ends the run */
    IG_SAVES_NO_WEIGHTS = 1 << 7,    /* what save() returns holds no WEIGHT bytes: models with
                                        other weights of the same shapes share it */
    IG_EARLY_SCRATCH = 1 << 8, /* a step's scratch is reserved one level early: the producer of
                                  its input may fill it */
};

typedef struct ig_device_info {
    uint32_t struct_size;  /* set by the host: fill in no more bytes */
    uint32_t device_class; /* ig_device_class */
    uint32_t flags;        /* IG_CAN_* */
    uint32_t alignment;    /* of every offset, in bytes */
    uint64_t dtypes;       /* bit 1 << ig_dtype; derived from the kernel table */
    uint64_t memory_bytes;
    char name[64];
    char architecture[32]; /* a saved program runs on all devices of its architecture */
} ig_device_info;

/* What a device did since it was opened. */
typedef struct ig_device_counters {
    uint64_t submits;    /* to its queue, copies included */
    uint64_t dispatches; /* kernels started */
    uint64_t barriers;   /* between dispatches */
    uint64_t recordings; /* command buffers written; a replay writes none */
} ig_device_counters;

/* One device is used by one thread at a time. */
typedef struct ig_backend {
    uint32_t abi, struct_size; /* IG_BACKEND_ABI, sizeof(ig_backend) */
    const char *name;          /* as in the device string "name:0" */
    const char *version;       /* a saved program is for one version */

    /* Devices.  NULL: one, of class cpu, always there; without info(), with IG_CAN_COMPILE. */
    bool (*is_available)(
        const ig_host *host); /* false, with the reason in host->fail(); never an error */
    uint32_t (*count)(const ig_host *host);
    ig_status (*open)(const ig_host *host, uint32_t index, ig_backend_device **out);
    void (*close)(ig_backend_device *device);
    void (*info)(const ig_backend_device *device, ig_device_info *out);

    /* Memory.  All six NULL: host memory, where an ig_backend_buffer * is the address of the first
     * byte.  Copies are ordered with submitted programs. */
    ig_status (*buffer_alloc)(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out);
    void (*buffer_free)(ig_backend_device *device, ig_backend_buffer *buffer);
    ig_status (*write)(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                       const void *src, uint64_t bytes);
    ig_status (*read)(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                      void *dst, uint64_t bytes);
    void (*memory_stats)(const ig_backend_device *device, ig_memory_stats *out);
    void (*reset_memory_stats)(ig_backend_device *device); /* resets the peak */

    /* Programs.  prepare() sees all steps of a plan before any is compiled. */
    bool (*can_run)(const ig_backend_device *device, const ig_step *step); /* NULL: ask compile.
               A false may come with the reason in host->fail(), for the timeline */
    uint64_t (*scratch_bytes)(const ig_backend_device *device, const ig_step *step); /* NULL: 0 */
    ig_status (*prepare)(ig_backend_device *device, const ig_step *steps, uint32_t count);
    ig_compile_fn *compile;
    ig_status (*save)(const ig_backend_program *program, ig_blob *out); /* lent; NULL: no cache */

    /* Execution.  Waits for everything submitted.  NULL: submit() returns when it is done. */
    ig_status (*synchronize)(ig_backend_device *device);

    const char *extension; /* of the files that hold what save() returned: "npu"; NULL: "program" */

    void (*counters)(const ig_backend_device *device, ig_device_counters *out); /* NULL: none */

    /* Whether a matmul step can run on any range of its rows, as a norm can, and so may join a
     * chain.  Asked for matmuls whose a is not transposed.  NULL: no. */
    bool (*can_chunk_rows)(const ig_backend_device *device, const ig_step *step);
} ig_backend;

/* The one symbol of a plugin. */
__attribute__((visibility("default"))) const ig_backend *ig_backend_entry(void);

#ifdef __cplusplus
}
#endif
#endif
