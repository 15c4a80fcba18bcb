/*
 * The contract of the simulated NPU.
 *
 * A program is a list of actions, rebuilt from the steps each time, and an artifact: the packed
 * weights. Packing takes the time, so save() stores the artifact.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/simnpu/npu.h"

enum { VERSION = 2, MOST_BATCHES = 16 };

/* The tests build it with another version, and with another architecture. */
#ifndef SIMNPU_VERSION
#    define SIMNPU_VERSION "2"
#endif
#ifndef SIMNPU_ARCHITECTURE
#    define SIMNPU_ARCHITECTURE "simnpu-1"
#endif

typedef struct npu_device {
    ig_backend_device base;
    npu_precision precision;
    int level;                     /* optimization_level */
    int64_t batches[MOST_BATCHES]; /* supported batch sizes, in rows */
    uint32_t n_batches;
    uint64_t allocated, peak;
    npu_artifact *artifacts; /* artifacts in use by programs */
    uint64_t delay_ns, busy_until;
} npu_device;

/* ---- time ---- */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* SIMNPU_DELAY_US makes each program take that much longer, asynchronously: submit() returns at
 * once, and the device is done when synchronize() returns. Unset: no delay. */
static void be_busy(npu_device *d) {
    const uint64_t now = now_ns();
    if (d->delay_ns == 0) return;
    if (d->busy_until < now) d->busy_until = now;
    d->busy_until += d->delay_ns;
}

static ig_status npu_synchronize(ig_backend_device *device) {
    npu_device *d = (npu_device *)device;
    for (uint64_t now; d->delay_ns > 0 && (now = now_ns()) < d->busy_until;) {
        const uint64_t left = d->busy_until - now;
        nanosleep(&(struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)},
                  NULL);
    }
    return IG_OK;
}

/* ---- devices ---- */

static const char *option(const ig_host *host, const char *name, const char *fallback) {
    const bool asks = host->struct_size >= offsetof(ig_host, option) + sizeof host->option;
    const char *said = asks && host->option ? host->option(host, name) : NULL;
    return said ? said : fallback;
}

static ig_status read_options(npu_device *d) {
    static const struct {
        const char *name;
        npu_precision precision;
    } precisions[] = {{"f32", NPU_F32},
                      {"bf16", NPU_BF16},
                      {"int8", NPU_INT8},
                      {"f16", NPU_F16},
                      {"fp16", NPU_F16}};
    enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };
    const ig_host *host = d->base.host;
    const char *precision = option(host, "precision", "f32");
    const char *batches = option(host, "batch_sizes", "1,2,4,8,16,32,64,128,256,512");
    int p = 0;
    while (p < PRECISIONS && strcmp(precision, precisions[p].name) != 0) p++;
    if (p == PRECISIONS)
        return IG_HOST_FAIL(host, IG_ERR_ARGUMENT,
                            "simnpu: precision %s; there are f32 f16 bf16 int8", precision);
    d->precision = precisions[p].precision;
    d->level = atoi(option(host, "optimization_level", "3"));
    for (const char *at = batches; *at && d->n_batches < MOST_BATCHES;) {
        char *end;
        const long long rows = strtoll(at, &end, 10);
        if (end == at || rows < 1)
            return IG_HOST_FAIL(host, IG_ERR_ARGUMENT, "simnpu: batch_sizes %s", batches);
        d->batches[d->n_batches++] = rows;
        at = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return IG_HOST_FAIL(host, IG_ERR_ARGUMENT, "simnpu: batch_sizes %s", batches);
    }
    return IG_OK;
}

static void npu_close(ig_backend_device *device) { device->host->free(device->host, device); }

static ig_status npu_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    npu_device *d = host->alloc(host, 1, sizeof *d);
    (void)index;
    if (!d) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "simnpu: device");
    const char *delay = getenv("SIMNPU_DELAY_US");
    d->base.host = host;
    d->delay_ns = delay ? strtoull(delay, NULL, 10) * 1000 : 0;
    const ig_status status = read_options(d);
    if (status == IG_OK)
        *out = &d->base;
    else
        npu_close(&d->base);
    return status;
}

static void npu_info(const ig_backend_device *device, ig_device_info *out) {
    (void)device;
    out->device_class = IG_DEVICE_NPU;
    out->flags = IG_CAN_COMPILE | IG_NO_EAGER | IG_OWNS_WEIGHTS;
    out->alignment = 64;
    for (uint32_t d = 0; d < IG_DTYPE_COUNT; d++)
        if (d == IG_I32 || npu_reads((ig_dtype)d)) out->dtypes |= UINT64_C(1) << d;
    snprintf(out->name, sizeof out->name, "simulated NPU");
    snprintf(out->architecture, sizeof out->architecture, SIMNPU_ARCHITECTURE);
}

/* ---- memory ---- */

static ig_status npu_alloc(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out) {
    npu_device *d = (npu_device *)device;
    const ig_host *host = device->host;
    ig_backend_buffer *b = host->alloc(host, 1, sizeof *b);
    if (b) b->data = host->alloc(host, bytes, 1);
    if (!b || !b->data) {
        host->free(host, b);
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "simnpu: a buffer of %llu bytes",
                            (unsigned long long)bytes);
    }
    b->bytes = bytes;
    d->allocated += bytes;
    if (d->allocated > d->peak) d->peak = d->allocated;
    *out = b;
    return IG_OK;
}

static void npu_free(ig_backend_device *device, ig_backend_buffer *b) {
    if (!b) return;
    ((npu_device *)device)->allocated -= b->bytes;
    device->host->free(device->host, b->data);
    device->host->free(device->host, b);
}

static ig_status check_range(const ig_backend_device *device, const ig_backend_buffer *b,
                             uint64_t offset, uint64_t bytes) {
    if (offset <= b->bytes && bytes <= b->bytes - offset) return IG_OK;
    return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "simnpu: %llu bytes at %llu of %llu",
                        (unsigned long long)bytes, (unsigned long long)offset,
                        (unsigned long long)b->bytes);
}

static ig_status npu_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                           const void *src, uint64_t bytes) {
    IG_TRY(check_range(device, dst, offset, bytes));
    IG_TRY(npu_synchronize(device)); /* copies are ordered with programs */
    if (bytes > 0) memcpy(dst->data + offset, src, bytes);
    return IG_OK;
}

static ig_status npu_read(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                          void *dst, uint64_t bytes) {
    IG_TRY(check_range(device, src, offset, bytes));
    IG_TRY(npu_synchronize(device));
    if (bytes > 0) memcpy(dst, src->data + offset, bytes);
    return IG_OK;
}

static void npu_memory_stats(const ig_backend_device *device, ig_memory_stats *out) {
    const npu_device *d = (const npu_device *)device;
    *out = (ig_memory_stats){d->allocated, d->peak, UINT64_MAX};
}

static void npu_reset_memory_stats(ig_backend_device *device) {
    npu_device *d = (npu_device *)device;
    d->peak = d->allocated;
}

/* ---- what it can run ---- */

static int64_t rows_of(const ig_operand *o) {
    int64_t rows = 1;
    for (int d = 0; d < o->desc.shape.rank - 1; d++) rows *= o->desc.shape.dim[d];
    return rows;
}

static bool is_batch(const npu_device *d, int64_t rows) {
    for (uint32_t i = 0; i < d->n_batches; i++)
        if (d->batches[i] == rows) return true;
    return false;
}

static bool is_plain(const ig_operand *o, ig_dtype dtype) {
    return o->desc.dtype == dtype && o->dynamic_dim < 0;
}

/* [..., k] times a weight [k, n] or, transposed, [n, k]. */
static bool takes_product(const ig_step *step) {
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const ig_operand *a = &step->in[0], *w = &step->in[1];
    return w->kind == IG_KIND_WEIGHT && w->desc.shape.rank == 2 && !attrs.transpose_a &&
           attrs.activation <= IG_ACTIVATION_GELU_TANH && !attrs.residual &&
           a->desc.shape.rank >= 1 && a->stride[a->desc.shape.rank - 1] == 1 &&
           (step->n_in < 3 || ig_operand_is_packed(&step->in[2]));
}

/* The weights of matmul and embedding may have several dtypes; other than f32 they must be packed.
 */
static bool takes_type(const ig_step *step, uint32_t i) {
    const ig_operand *o = &step->in[i];
    if (step->op == IG_OP_EMBEDDING && i == 1) return is_plain(o, IG_I32);
    const bool big = step->op == IG_OP_EMBEDDING || (step->op == IG_OP_MATMUL && i == 1);
    if (!big || o->desc.dtype == IG_F32) return is_plain(o, IG_F32);
    return o->kind == IG_KIND_WEIGHT && o->dynamic_dim < 0 && npu_reads(o->desc.dtype) &&
           ig_operand_is_packed(o);
}

static bool takes_operands(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!takes_type(step, i)) return false;
    if (step->op == IG_OP_MATMUL) return takes_product(step);
    const bool rowwise = step->op == IG_OP_SOFTMAX || step->op == IG_OP_RMS_NORM ||
                         step->op == IG_OP_LAYER_NORM || step->op == IG_OP_EMBEDDING;
    for (uint32_t i = 0; rowwise && i < step->n_in; i++)
        if (!ig_operand_is_packed(&step->in[i])) return false;
    return true;
}

/* A plugin links nothing of Ingot, so it takes dtype names from the list. */
static const char *name_of(ig_dtype dtype) {
    static const char *const names[] = {
#define IG_DTYPE(ID, name, block, bytes) [IG_##ID] = (name),
#include "ingot/dtype.def"
    };
    return dtype < IG_DTYPE_COUNT ? names[dtype] : "a newer dtype";
}

/* Why the device has no program for the step, with the offending value; "": it has one. */
static void explain(const npu_device *d, const ig_step *step, char *out, size_t out_bytes) {
    const ig_operand *y = &step->out[0];
    *out = '\0';
    if (!is_batch(d, rows_of(y)))
        snprintf(out, out_bytes, "%lld rows are not one of its batch sizes", (long long)rows_of(y));
    for (uint32_t i = 0; i < step->n_in && !*out; i++)
        if (!takes_type(step, i))
            snprintf(out, out_bytes, "input %u is %s%s; it takes f32, and weights of bf16 or q8_0",
                     i, name_of(step->in[i].desc.dtype),
                     step->in[i].kind == IG_KIND_WEIGHT ? "" : " and no weight");
    if (!*out && !is_plain(y, IG_F32))
        snprintf(out, out_bytes, "the result is %s; it computes f32", name_of(y->desc.dtype));
}

/* Whether the engine has a function for the op with this number of operands. */
static bool is_offered(const ig_step *step) {
    return ig_step_known(step) && npu_find(step->op) && step->n_out == 1 && step->n_in >= 1 &&
           step->n_in <= NPU_MOST_IN;
}

static bool npu_can_run(const ig_backend_device *device, const ig_step *step) {
    char words[128];
    if (!is_offered(step)) return false;
    const ig_operand *y = &step->out[0];
    if (is_plain(y, IG_F32) && y->alias < 0 && y->kind != IG_KIND_STATE &&
        y->desc.shape.rank >= 1 && ig_operand_is_packed(y) &&
        is_batch((const npu_device *)device, rows_of(y)) && takes_operands(step))
        return true;
    explain((const npu_device *)device, step, words, sizeof words);
    if (*words) (void)device->host->fail(IG_ERR_UNSUPPORTED, NULL, 0, "simnpu: %s", words);
    return false;
}

/* ---- compiling ---- */

/* Bytes of a weight in the packed weights; 0: it stays in its buffer. */
static uint64_t weight_bytes(npu_precision precision, const ig_step *step, uint32_t i) {
    const ig_operand *o = &step->in[i];
    if (o->kind != IG_KIND_WEIGHT) return 0;
    const int64_t n = step->out[0].desc.shape.dim[step->out[0].desc.shape.rank - 1];
    const ig_shape *s = &o->desc.shape;
    uint64_t bytes = sizeof(float);
    if (step->op == IG_OP_MATMUL && i == 1)
        bytes = npu_packed_bytes(precision, s->dim[0] * s->dim[1] / (n ? n : 1), n);
    else
        for (int d = 0; d < s->rank; d++) bytes *= (uint64_t)s->dim[d];
    return (bytes + 63) & ~UINT64_C(63);
}

static void add_action(npu_program *p, const ig_step *step, uint64_t *used) {
    npu_action *a = &p->actions[p->count++];
    const ig_operand *y = &step->out[0];
    *a = (npu_action){.run = npu_find(step->op), .op = step->op, .n_in = step->n_in};
    a->shape = y->desc.shape;
    ig_step_attrs(step, a->attrs, sizeof a->attrs);
    a->out = (npu_operand){.buffer = y->buffer, .offset = y->offset};
    for (uint32_t i = 0; i < step->n_in; i++) {
        const ig_operand *o = &step->in[i];
        const uint64_t bytes = weight_bytes(p->precision, step, i);
        a->in[i] = (npu_operand){bytes > 0, o->buffer, bytes > 0 ? *used : o->offset, {0}};
        memcpy(a->in[i].stride, o->stride, sizeof o->stride);
        *used += bytes;
    }
    const ig_shape *x = &step->in[0].desc.shape;
    if (step->op == IG_OP_MATMUL) a->inner = x->dim[x->rank - 1];
    if (step->op == IG_OP_EMBEDDING) a->inner = x->dim[0];
}

static ig_status pack_one(const npu_program *p, const ig_step *step, const npu_action *a,
                          uint32_t i) {
    char *to = p->artifact->data + sizeof(npu_header) + a->in[i].offset;
    const ig_operand *o = &step->in[i];
    const int64_t n = a->shape.dim[a->shape.rank - 1];
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    int64_t count = 1;
    for (int d = 0; d < o->desc.shape.rank; d++) count *= o->desc.shape.dim[d];
    if (step->op != IG_OP_MATMUL || i != 1) {
        npu_decode(o->desc.dtype, o->host, (float *)(void *)to, count);
        return IG_OK;
    }
    const int along_k = attrs.transpose_b ? 1 : 0;
    const bool plain = o->desc.dtype == IG_F32;
    float *decoded = plain ? NULL : p->host->alloc(p->host, (size_t)count, sizeof *decoded);
    if (!plain && !decoded)
        return IG_HOST_FAIL(p->host, IG_ERR_MEMORY, "simnpu: %lld weights", (long long)count);
    if (!plain) npu_decode(o->desc.dtype, o->host, decoded, count);
    const npu_matrix m = {plain ? o->host : decoded, a->inner, n, o->stride[along_k],
                          o->stride[1 - along_k]};
    npu_pack(p->precision, &m, p->level, to);
    p->host->free(p->host, decoded);
    return IG_OK;
}

/* The slow part: packs all weights. */
static ig_status pack_all(npu_program *p, const ig_step *steps, ig_progress *progress) {
    const uint64_t total = p->artifact->bytes - sizeof(npu_header);
    uint64_t done = 0;
    for (uint32_t s = 0; s < p->count; s++) {
        const ig_step *step = ig_step_at(steps, s);
        for (uint32_t i = 0; i < step->n_in; i++) {
            const uint64_t bytes = weight_bytes(p->precision, step, i);
            if (bytes == 0) continue;
            IG_TRY(pack_one(p, step, &p->actions[s], i));
            done += bytes;
            if (!p->host->progress(progress, done, total))
                return IG_HOST_FAIL(p->host, IG_ERR_CANCELLED, "simnpu: compile: cancelled");
        }
    }
    npu_header header = {{'S', 'I', 'M', 'N', 'P', 'U', 0, 0}, VERSION, p->precision, total, 0};
    header.hash = npu_hash(p->artifact->data + sizeof header, total);
    memcpy(p->artifact->data, &header, sizeof header);
    return IG_OK;
}

/* ---- artifacts ---- */

static ig_status make_artifact(npu_program *p, uint64_t bytes) {
    const ig_host *host = p->host;
    npu_artifact *a = host->alloc(host, 1, sizeof *a);
    if (a) *a = (npu_artifact){p->device->artifacts, 1, bytes, host->alloc(host, bytes, 1)};
    if (!a || !a->data) {
        host->free(host, a);
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "simnpu: %llu bytes of weights",
                            (unsigned long long)bytes);
    }
    p->device->artifacts = p->artifact = a;
    return IG_OK;
}

static void drop_artifact(npu_program *p) {
    npu_artifact *a = p->artifact, **at = &p->device->artifacts;
    if (!a || --a->refs > 0) return;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    p->host->free(p->host, a->data);
    p->host->free(p->host, a);
}

/* Shares the artifact of another program, if it is the same. */
static bool share(npu_program *p, const npu_header *h, uint64_t bytes) {
    for (npu_artifact *a = p->device->artifacts; a; a = a->next)
        if (a->bytes == bytes && memcmp(a->data, h, sizeof *h) == 0) {
            a->refs++;
            p->artifact = a;
            return true;
        }
    return false;
}

/* Validates a cached artifact by its header; equal steps have the same weights at the same
 * offsets. */
static bool is_sound(const npu_program *p, ig_blob saved, uint64_t bytes, npu_header *h) {
    if (saved.size != bytes) return false;
    memcpy(h, saved.bytes, sizeof *h);
    return memcmp(h->magic, "SIMNPU\0", sizeof h->magic) == 0 && h->version == VERSION &&
           h->precision == (uint32_t)p->precision && h->bytes == bytes - sizeof *h;
}

/* The program's artifact: shared, loaded from `saved`, or packed. */
static ig_status get_artifact(npu_program *p, const ig_step *steps, ig_blob saved, uint64_t bytes,
                              ig_progress *progress) {
    npu_header h;
    const bool sound = is_sound(p, saved, bytes, &h);
    if (sound && share(p, &h, bytes)) return IG_OK;
    IG_TRY(make_artifact(p, bytes));
    if (!sound || h.hash != npu_hash((const char *)saved.bytes + sizeof h, h.bytes))
        return pack_all(p, steps, progress);
    memcpy(p->artifact->data, saved.bytes, saved.size);
    return IG_OK;
}

/* ---- programs ---- */

static void run_on_team(void *task, uint32_t thread, uint32_t threads) {
    const npu_program *p = task;
    for (uint32_t i = 0; i < p->count; i++) {
        p->actions[i].run(p, &p->actions[i], thread, threads);
        p->host->team_barrier(p->host);
    }
}

static ig_status npu_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                            uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)n_buffers, (void)slots, (void)n_slots;
    npu_program *p = (npu_program *)program;
    p->buffers = buffers;
    p->host->team(p->host, run_on_team, p);
    be_busy(p->device);
    return IG_OK;
}

static void npu_destroy(ig_backend_program *program) {
    npu_program *p = (npu_program *)program;
    const ig_host *host = p->host;
    drop_artifact(p);
    host->free(host, p->actions);
    host->free(host, p);
}

static ig_status build(npu_program *p, const ig_step *steps, uint32_t count, ig_blob saved,
                       ig_progress *progress) {
    uint64_t used = 0;
    p->actions = p->host->alloc(p->host, count, sizeof *p->actions);
    if (!p->actions) return IG_HOST_FAIL(p->host, IG_ERR_MEMORY, "simnpu: %u steps", count);
    for (uint32_t i = 0; i < count; i++) add_action(p, ig_step_at(steps, i), &used);
    return get_artifact(p, steps, saved, sizeof(npu_header) + used, progress);
}

static ig_status npu_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    const ig_host *host = device->host;
    for (uint32_t i = 0; i < count; i++) {
        const ig_step *step = ig_step_at(steps, i);
        if (npu_can_run(device, step)) continue;
        return IG_HOST_FAIL(host, IG_ERR_UNSUPPORTED, "simnpu: step %u: no program for %s of %s", i,
                            ig_op_name(step->op), name_of(ig_step_operand(step, 0)->desc.dtype));
    }
    npu_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "simnpu: program");
    *p = (npu_program){.base = {npu_submit, npu_destroy},
                       .host = host,
                       .device = (npu_device *)device,
                       .precision = ((npu_device *)device)->precision,
                       .level = ((npu_device *)device)->level};
    const ig_status status = build(p, steps, count, saved, progress);
    if (status == IG_OK)
        *out = &p->base;
    else
        npu_destroy(&p->base);
    return status;
}

static ig_status npu_save(const ig_backend_program *program, ig_blob *out) {
    const npu_program *p = (const npu_program *)program;
    *out = (ig_blob){p->artifact->data, p->artifact->bytes};
    return IG_OK;
}

const ig_backend *ig_backend_entry(void) {
    static const ig_backend backend = {
        .abi = IG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "simnpu",
        .version = SIMNPU_VERSION,
        .open = npu_open,
        .close = npu_close,
        .info = npu_info,
        .buffer_alloc = npu_alloc,
        .buffer_free = npu_free,
        .write = npu_write,
        .read = npu_read,
        .memory_stats = npu_memory_stats,
        .reset_memory_stats = npu_reset_memory_stats,
        .can_run = npu_can_run,
        .compile = npu_compile,
        .save = npu_save,
        .synchronize = npu_synchronize,
        .extension = "npu",
    };
    return &backend;
}
