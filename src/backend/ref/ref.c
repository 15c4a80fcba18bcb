/*
 * The reference backend: the function table of backend.h.
 *
 * It is written to be correct and readable. compile() copies what it needs of each step and looks
 * up the kernel; submit() runs the kernels one after the other. Memory is the host's: a buffer is
 * its address. Shapes are trusted, as the contract says; dtypes select the kernel.
 */
#include "backend/ref/ref.h"

#include "backend/ref/ref_families.h" /* one per file in kernels/ */
#include "backend/ref/ref_kernel.h"
#include "base/quant_blocks.h"

#define DECLARE(family, real) extern const ig_ref_entry IG_REF_LIST_OF(family, real)[];
#define NAME(family, real)    IG_REF_LIST_OF(family, real),

IG_REF_FAMILIES(DECLARE, float)
IG_REF_FAMILIES(DECLARE, double)

/* A kernel for any dtype is in both lists of its family; the first match is used. */
static const ig_ref_entry *const families[] = {IG_REF_FAMILIES(NAME, float)
                                                   IG_REF_FAMILIES(NAME, double)};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

typedef struct ref_program {
    ig_backend_program base;
    const ig_host *host;
    uint32_t n_launches, n_views;
    ig_ref_launch *launches;
    ig_ref_view *views; /* of all launches: each launch's inputs, then its outputs */
} ref_program;

static bool is_stored(ig_dtype dtype) { return ig_blocks_can_dequantize(dtype) && dtype != IG_F32; }

/* Whether the letters of ref_kernel.h accept these operands; `same` is the dtype bound to `s` so
 * far. */
static bool takes(const char *letters, const ig_operand *o, uint32_t count, ig_dtype real,
                  ig_dtype *same) {
    for (uint32_t i = 0; i < count; i++) {
        const ig_dtype dtype = o[i].desc.dtype;
        const char letter = *letters;
        if (letters[0] != '\0' && letters[1] != '\0') letters++;
        if (letter == 's' && *same == IG_DTYPE_COUNT) *same = dtype;
        if (o[i].dynamic_dim >= 0 || letter == '\0') return false;
        const bool plain = ig_dtype_block(dtype) == 1;
        if (letter == 'r' && dtype != real) return false;
        if (letter == 'h' && dtype != real && !(plain && is_stored(dtype))) return false;
        if (letter == 'w' && !is_stored(dtype)) return false;
        if ((letter == 's' || letter == 'a') && !plain) return false;
        if (letter == 'i' && dtype != IG_I32) return false;
        if (letter == 's' && dtype != *same) return false;
    }
    return true;
}

/* An activation added by a newer host is an unknown attribute. */
static bool activation_known(const ig_step *step) {
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return step->op != IG_OP_MATMUL || attrs.activation <= IG_ACTIVATION_GELU_TANH;
}

/* The kernel for the step; NULL: unsupported. */
static ig_ref_kernel *find(const ig_step *step) {
    if (!ig_step_known(step) || !activation_known(step)) return NULL;
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (const ig_ref_entry *e = families[f]; e->run; e++) {
            ig_dtype same = IG_DTYPE_COUNT;
            if (e->op == step->op && takes(e->in, step->in, step->n_in, e->real, &same) &&
                takes(e->out, step->out, step->n_out, e->real, &same))
                return e->run;
        }
    return NULL;
}

static bool ref_can_run(const ig_backend_device *device, const ig_step *step) {
    (void)device;
    return find(step) != NULL;
}

static ig_status ref_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                            uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)n_buffers, (void)n_slots;
    ref_program *p = (ref_program *)program;
    for (ig_ref_view *v = p->views; v < p->views + p->n_views; v++) {
        char *buffer = (char *)buffers[v->buffer];
        v->at = buffer ? buffer + v->offset : NULL; /* no elements: maybe no buffer */
    }
    for (ig_ref_launch *l = p->launches; l < p->launches + p->n_launches; l++) {
        l->slots = slots;
        l->run(l);
    }
    return IG_OK;
}

static void ref_destroy(ig_backend_program *program) {
    ref_program *p = (ref_program *)program;
    const ig_host *host = p->host;
    host->free(host, p->views);
    host->free(host, p->launches);
    host->free(host, p);
}

static ref_program *create(const ig_host *host, const ig_step *steps, uint32_t count) {
    size_t views = 0;
    for (uint32_t i = 0; i < count; i++)
        views += (size_t)ig_step_at(steps, i)->n_in + ig_step_at(steps, i)->n_out;

    ref_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return NULL;
    p->base = (ig_backend_program){ref_submit, ref_destroy};
    p->host = host;
    p->launches = host->alloc(host, count, sizeof *p->launches);
    p->views = host->alloc(host, views, sizeof *p->views);
    if (p->launches && p->views) return p;
    ref_destroy(&p->base);
    return NULL;
}

static void add_launch(ref_program *p, const ig_step *step, ig_ref_kernel *run) {
    ig_ref_view *views = &p->views[p->n_views];
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++) {
        const ig_operand *o = ig_step_operand(step, i);
        ig_ref_view *v = &p->views[p->n_views++];
        *v = (ig_ref_view){NULL,      o->desc.dtype, o->desc.shape,          {0},
                           o->buffer, o->offset,     ig_operand_is_packed(o)};
        memcpy(v->stride, o->stride, sizeof v->stride);
    }
    ig_ref_launch *l = &p->launches[p->n_launches++];
    *l = (ig_ref_launch){.run = run,
                         .in = views,
                         .out = views + step->n_in,
                         .n_in = step->n_in,
                         .n_out = step->n_out};
    ig_step_attrs(step, &l->attrs, sizeof l->attrs);
}

static ig_status ref_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)saved, (void)progress; /* compiling takes no time: nothing to cache or report */
    ref_program *p = create(device->host, steps, count);
    if (!p) return IG_HOST_FAIL(device->host, IG_ERR_MEMORY, "ref: %u steps", count);

    for (uint32_t i = 0; i < count; i++) {
        const ig_step *step = ig_step_at(steps, i);
        ig_ref_kernel *run = find(step);
        if (!run) {
            const char *dtype = step->n_in > 0    ? ig_dtype_name(step->in[0].desc.dtype)
                                : step->n_out > 0 ? ig_dtype_name(step->out[0].desc.dtype)
                                                  : "nothing";
            ref_destroy(&p->base);
            return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED,
                                "ref: step %u: no kernel for %s of %s", i, ig_op_name(step->op),
                                dtype);
        }
        add_launch(p, step, run);
    }
    *out = &p->base;
    return IG_OK;
}

/* The dtypes that the letters accept. */
static uint64_t dtypes_of(const char *letters, ig_dtype real) {
    uint64_t dtypes = 0;
    for (; *letters; letters++)
        for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
            ig_dtype same = IG_DTYPE_COUNT;
            const ig_operand o = {.desc = {.dtype = dtype}, .dynamic_dim = -1};
            if (takes((const char[]){*letters, '\0'}, &o, 1, real, &same))
                dtypes |= UINT64_C(1) << dtype;
        }
    return dtypes;
}

static void ref_info(const ig_backend_device *device, ig_device_info *out) {
    (void)device;
    out->device_class = IG_DEVICE_CPU;
    out->flags = IG_NEVER_FAILS;
    out->alignment = sizeof(double);
    memcpy(out->name, "reference loops", sizeof "reference loops");
    memcpy(out->architecture, "any", sizeof "any");
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (const ig_ref_entry *e = families[f]; e->run; e++)
            out->dtypes |= dtypes_of(e->in, e->real) | dtypes_of(e->out, e->real);
}

const ig_backend ig_ref_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "ref",
    .version = "1",
    .info = ref_info,
    .can_run = ref_can_run,
    .compile = ref_compile,
};
