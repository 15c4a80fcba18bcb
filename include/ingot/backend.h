/*
 * backend.h - the contract between Ingot and a backend.
 *
 * A backend is one table of functions.  It never sees a graph, a gradient or a
 * model: the planner hands it runs of steps whose shapes, buffers and offsets
 * are settled.  What can go wrong goes wrong in can_run() or compile().
 *
 * `name` and `compile` make a backend.  A function left NULL has the default
 * that stands beside it; all together: host memory, one device, synchronous.  A
 * plugin is a shared library that exports ig_backend_entry() and links nothing
 * of ours; examples/backend_plugin.c is a whole one.
 *
 * Two words that never mix: a *buffer* is memory, a *slot* is a scalar that may
 * change from run to run (a step count, a rate, the length of a KV cache).
 *
 * How a host and a plugin of different age get along:
 *   - Op and dtype numbers are appended, never reused.  can_run() is false for
 *     those beyond the counts that the plugin was compiled with.
 *   - Attrs have no padding and grow at the end; zero keeps the old meaning.
 *     can_run() is false for attrs longer than known, unless the tail is zero.
 *     ig_step_known() checks both rules, ig_step_attrs() reads shorter ones.
 *   - Tables start with `abi` and `struct_size`; what lies beyond the giver's
 *     size counts as NULL.  Another `abi` is another contract and not loaded.
 */
#ifndef INGOT_BACKEND_H
#define INGOT_BACKEND_H

#include <string.h>

#include "ingot/op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { IG_BACKEND_ABI = 1 };

/* The op that reads a slot says whether it is a count or a number. */
typedef union ig_slot {
    int64_t i;
    double f;
} ig_slot;

typedef enum ig_kind {
    IG_KIND_INPUT,  /* the caller writes it before a run */
    IG_KIND_OUTPUT, /* the caller reads it after a run */
    IG_KIND_LOCAL,  /* lives inside one run */
    IG_KIND_WEIGHT, /* never changes */
    IG_KIND_STATE,  /* stays from run to run: trained weights, moments, a KV cache */
} ig_kind;

enum { IG_ARENA = 0 }; /* the buffer of LOCAL values and of scratch */

/* A value that a step reads or writes.  Does not grow within an abi. */
typedef struct ig_operand {
    uint32_t value;              /* SSA id: same id, same value; enough with memory of your own */
    uint32_t buffer;             /* without, it lies in this buffer of the plan, */
    uint64_t offset;             /* from this byte on */
    ig_desc desc;                /* as the op sees it: broadcast already, extents at their bounds */
    int64_t stride[IG_MAX_RANK]; /* in elements; 0 where a dimension repeats */
    int16_t vary_dim;            /* the dimension that is slots[vary_slot].i long; -1: none */
    uint16_t vary_slot;
    uint16_t kind;    /* ig_kind */
    int16_t alias;    /* of an output: it overwrites in[alias]; -1: none */
    const void *host; /* of a WEIGHT: its bytes, valid during compile() only */
} ig_operand;

/* Whether all elements lie side by side, in their order.  Strides of no elements mean nothing. */
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
 * One operation, ready to run.  Steps come by level, those of a chain together:
 *
 *     level    0        1      2           A step reads, of what its chain computes, only
 *     chain    0   1    2      3   4       the rows that it writes, and all write equally
 *     steps    ab  c    def    g   h       many: a thread may take rows from a to b alone.
 *
 * Chains of one level do not read each other; a level may read all before it.
 * Rows are what all dimensions but the last count.
 */
typedef struct ig_step {
    uint32_t size; /* of this struct, as the host knows it: steps lie so far apart */
    uint32_t op, tag, level, chain;
    uint32_t attrs_bytes, n_in, n_out;
    const void *attrs;                      /* the op's struct in op.h; valid during the call, */
    const ig_operand *in, *out;             /* and so are these */
    uint64_t scratch_offset, scratch_bytes; /* in IG_ARENA: what scratch_bytes() asked for */
} ig_step;

static_assert(sizeof(void *) != 8 || (sizeof(ig_operand) == 144 && sizeof(ig_step) == 72), "ABI");

static inline const ig_step *ig_step_at(const ig_step *steps, uint32_t i) {
    return (const ig_step *)((const char *)steps + (size_t)i * steps->size);
}

/* Inputs, then outputs. */
static inline const ig_operand *ig_step_operand(const ig_step *step, uint32_t i) {
    return i < step->n_in ? &step->in[i] : &step->out[i - step->n_in];
}

/* Whether this header knows all that the step asks for: the first question of every can_run(). */
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

/* Copies the attrs out; what an older host does not have yet is zero. */
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

/* A backend's own device begins with this one; without open() the host brings it. */
struct ig_backend_device {
    const ig_host *host;
};

/* What compile() makes; a backend's own program begins with it. */
struct ig_backend_program {
    /* Runs the steps, or enqueues them where there is a synchronize(); runs keep their order. */
    ig_status (*submit)(ig_backend_program *program, ig_backend_buffer *const *buffers,
                        uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots);
    void (*destroy)(ig_backend_program *program); /* NULL: there is nothing to free */
};

typedef struct ig_blob {
    const void *bytes;
    size_t size;
} ig_blob;

/*
 * Makes a program of `count` steps, at least one.  `saved` is what save() gave
 * for equal steps, or empty; it may be damaged.  Besides IG_OK it may answer
 *   IG_ERR_UNSUPPORTED  and say what it cannot do: an override or another device is tried
 *   IG_ERR_SPLIT        fewer steps would do: the host offers runs of one tag, then single steps
 *   IG_ERR_CANCELLED    progress() returned false
 */
typedef ig_status ig_compile_fn(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                ig_blob saved, ig_progress *progress, ig_backend_program **out);

typedef void ig_team_fn(void *task, uint32_t thread, uint32_t threads);

/* What the host does for a backend; valid as long as the device is open. */
struct ig_host {
    uint32_t abi, struct_size;

    /* Keeps the words for the report, as they are, and returns `code`. */
    ig_status (*fail)(ig_status code, const char *file, int line, const char *fmt, ...)
        IG_PRINTF(4, 5);
    void (*log)(const ig_host *host, ig_log_level level, const char *text);

    /* The context's memory: zeroed and aligned to 64 bytes; NULL: none left.  free takes NULL. */
    void *(*alloc)(const ig_host *host, size_t count, size_t bytes_each);
    void (*free)(const ig_host *host, void *p);
    bool (*progress)(ig_progress *progress, uint64_t done, uint64_t total); /* false: stop */

    /* In prepare(): steps of this tag that compile() turns down go to `compile`. */
    ig_status (*register_override)(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile);

    /* Calls fn once on every thread of the team, and returns when all are done.  Inside fn,
     * team_barrier() lets no thread pass before all have come. */
    void (*team)(const ig_host *host, ig_team_fn *fn, void *task);
    void (*team_barrier)(const ig_host *host);

    /* NULL unless somebody watches.  A thread of the team has run some of step `step`, counted from
     * the first of the program, between these two moments of CLOCK_MONOTONIC. */
    void (*trace)(const ig_host *host, uint32_t thread, uint32_t step, uint64_t begin_ns,
                  uint64_t end_ns);

    /* What the user has said about compiling: "precision", "optimization_level", "batch_sizes".
     * NULL: nothing.  Whatever a program depends on of it is part of the cache's key already. */
    const char *(*option)(const ig_host *host, const char *name);

    /*
     * In compile(): a WEIGHT in a layout of the backend's own, which has a name.  The host keeps
     * the memory as long as the weight, for this program and all others that ask for the same.
     * NULL: it is not to be had, and the weight is read as it lies.  Unless it is ready, the caller
     * fills it in and then calls pack_end(), from the same thread and whatever came of it; `whole`
     * says that all is there.  Others who want it wait meanwhile.
     */
    void *(*pack_begin)(const ig_host *host, const ig_operand *weight, const char *layout,
                        uint64_t bytes, bool *out_ready);
    void (*pack_end)(const ig_host *host, const ig_operand *weight, bool whole);

    /* Between the two, from the same thread: the first `source_bytes` bytes of a weight that lies
     * in one piece will not be read again, so that they need not stay in memory. */
    void (*pack_reached)(const ig_host *host, const ig_operand *weight, uint64_t source_bytes);
};

#define IG_HOST_FAIL(host, code, ...) (host)->fail(code, __FILE__, __LINE__, __VA_ARGS__)

typedef enum ig_device_class { IG_DEVICE_CPU, IG_DEVICE_GPU, IG_DEVICE_NPU } ig_device_class;

enum {
    IG_CAN_COMPILE = 1 << 0,   /* programs go through a compiler of the device */
    IG_CAN_GRAPH = 1 << 1,     /* a submit replays a graph kept there */
    IG_NO_EAGER = 1 << 2,      /* single ops are not worth a program: they run elsewhere */
    IG_KEEPS_WEIGHTS = 1 << 3, /* compile() has taken the bytes of every WEIGHT: submit() looks at
                                  none of their buffers, and the host does not fill them */
    IG_NEVER_FAILS = 1 << 4,   /* submit(), once compiled */
    IG_JOINS_STEPS = 1 << 5,  /* a step may run with one of the level before or behind: what a level
                                 reads stays for two more */
    IG_COSTLY_STATE = 1 << 6, /* what a run overwrites is kept before the first alone, since copying
                                 it before each would cost too much: a later failure in the midst
                                 of an update ends the run */
    IG_SAVES_NO_WEIGHTS = 1 << 7, /* what save() gives has nothing of the bytes of WEIGHTs: other
                                     weights of the same shapes find it, too */
    IG_EARLY_SCRATCH = 1 << 8,    /* a step's scratch is its own in the level before, too: it may be
                                     filled by who makes what the step reads */
};

typedef struct ig_device_info {
    uint32_t struct_size;  /* set by the host: fill in no more than that */
    uint32_t device_class; /* ig_device_class */
    uint32_t flags;        /* IG_CAN_* */
    uint32_t alignment;    /* of every offset, in bytes */
    uint64_t dtypes;       /* bit 1 << ig_dtype; taken from the kernel table, so it cannot lie */
    uint64_t memory_bytes;
    char name[64];
    char architecture[32]; /* a saved program runs on all devices of its architecture */
} ig_device_info;

/* What a device has done since it was opened, in its own units. */
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

    /* Devices.  NULL: one, of class cpu, always there. */
    bool (*is_available)(const ig_host *host); /* never an error: false, and why in host->fail() */
    uint32_t (*count)(const ig_host *host);
    ig_status (*open)(const ig_host *host, uint32_t index, ig_backend_device **out);
    void (*close)(ig_backend_device *device);
    void (*info)(const ig_backend_device *device, ig_device_info *out);

    /* Memory.  NULL, all six: the host's; an ig_backend_buffer * then is the address of its first
     * byte.  Copies keep their place among submitted programs. */
    ig_status (*buffer_alloc)(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out);
    void (*buffer_free)(ig_backend_device *device, ig_backend_buffer *buffer);
    ig_status (*write)(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                       const void *src, uint64_t bytes);
    ig_status (*read)(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                      void *dst, uint64_t bytes);
    void (*memory_stats)(const ig_backend_device *device, ig_memory_stats *out);
    void (*reset_memory_stats)(ig_backend_device *device); /* the peak starts anew */

    /* Programs.  prepare() sees all steps of a plan before any is compiled. */
    bool (*can_run)(const ig_backend_device *device, const ig_step *step); /* NULL: ask compile */
    uint64_t (*scratch_bytes)(const ig_backend_device *device, const ig_step *step); /* NULL: 0 */
    ig_status (*prepare)(ig_backend_device *device, const ig_step *steps, uint32_t count);
    ig_compile_fn *compile;
    ig_status (*save)(const ig_backend_program *program, ig_blob *out); /* lent; NULL: no cache */

    /* Execution.  Waits for all that was submitted.  NULL: submit() returns when it is done. */
    ig_status (*synchronize)(ig_backend_device *device);

    const char *extension; /* of the files that keep what save() gives: "npu"; NULL: "program" */

    void (*counters)(const ig_backend_device *device, ig_device_counters *out); /* NULL: none */

    /* Whether it takes rows of a product through by themselves, as it does those of a norm: the
     * product then goes into chains.  Asked for matmuls whose a is not transposed.  NULL: no. */
    bool (*goes_by_row)(const ig_backend_device *device, const ig_step *step);
} ig_backend;

/* The one symbol of a plugin. */
__attribute__((visibility("default"))) const ig_backend *ig_backend_entry(void);

#ifdef __cplusplus
}
#endif
#endif
