#include "conformance/trial.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/f16.h"
#include "base/quant_blocks.h"
#include "graph/shape_rules.h"
#include "ingot/blocks.h"

/* Size of the guard before and after the elements; keeps their alignment. */
static const size_t guard_bytes = 256;

enum { GAP = 0xff }; /* fills guards and gaps: NaN for floats, -1 for integers */

static char *must_alloc(size_t bytes) {
    char *p = ig_alloc(&ig_heap, bytes, 1);
    if (p) return p;
    fprintf(stderr, "conformance: no memory for %zu bytes\n", bytes);
    abort();
}

/* ---- elements ---- */

int64_t trial_block(ig_dtype dtype) { return ig_dtype_block(dtype); }

size_t trial_block_bytes(ig_dtype dtype) {
    return (size_t)ig_bytes_of(dtype, ig_dtype_block(dtype));
}

char *trial_at(const ig_ref_view *v, int64_t i) {
    return v->at + ig_bytes_of(v->dtype, ig_ref_place(v, i));
}

ig_ref_view trial_view(const ig_operand *o, const trial_memory *memory) {
    ig_ref_view v = {
        .at = memory[o->buffer].bytes + o->offset, .dtype = o->desc.dtype, .shape = o->desc.shape};
    memcpy(v.stride, o->stride, sizeof v.stride);
    return v;
}

/* ---- layouts ---- */

/* The order of the dimensions in memory: order[0] is the outermost. */
static void order_in_memory(case_layout layout, int rank, int *order) {
    for (int d = 0; d < rank; d++) order[d] = layout == COLUMN_MAJOR ? rank - 1 - d : d;
    if (layout == TRANSPOSED && rank >= 2) {
        order[rank - 1] = rank - 2;
        order[rank - 2] = rank - 1;
    }
    if (layout == HEADS_FIRST && rank == 4) {
        order[1] = 2;
        order[2] = 1;
    }
}

/* Sets the operand's strides and offset; returns the bytes of its memory with guards. */
static size_t lay_out(ig_operand *o, case_layout layout, uint32_t repeat) {
    const int rank = o->desc.shape.rank;
    const ig_dtype dtype = o->desc.dtype;
    int order[IG_MAX_RANK] = {0};
    order_in_memory(layout, rank, order);

    int64_t elements = 1, first = 0; /* total in memory, and before the operand's first */
    for (int i = rank - 1; i >= 0; i--) {
        const int d = order[i];
        const int64_t step = layout == STRIDED && i == rank - 1 ? 2 : 1;
        const bool sliced = layout == SLICED && (d < rank - 1 || trial_block(dtype) == 1);
        if (repeat >> d & 1) {
            o->stride[d] = 0;
            continue;
        }
        o->stride[d] = elements * step;
        first += sliced ? elements : 0;
        elements *= o->desc.shape.dim[d] * step + (sliced ? 2 : 0);
    }
    if (ig_shape_count(o->desc.shape) == 0) first = 0; /* an empty slice has no offset */
    const size_t odd = trial_block(dtype) > 1;         /* blocks need no alignment */
    o->offset = guard_bytes + odd + (uint64_t)ig_bytes_of(dtype, first);
    return 2 * guard_bytes + odd + (size_t)ig_bytes_of(dtype, elements);
}

static trial_memory gap_filled(size_t size) {
    trial_memory m = {must_alloc(size), size};
    memset(m.bytes, GAP, size);
    return m;
}

/* ---- values ---- */

/* 64 pseudo-random bits for an element of an input: the finalizer of splitmix64. */
static uint64_t bits_at(uint32_t input, int64_t place) {
    uint64_t x = ((uint64_t)place + 1) * 0x9e3779b97f4a7c15u + ((uint64_t)input << 56);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double draw(const case_operand *spec, uint32_t input, int64_t place) {
    if (spec->list) return spec->list[place % spec->list_count];
    double low = spec->low, high = spec->high;
    if (low == 0 && high == 0) low = -2, high = 2;
    const double u = ldexp((double)(bits_at(input, place) >> 11), -53); /* in [0, 1) */
    const bool whole = spec->values == INTEGER || spec->type == 1 + IG_I32;
    return whole ? floor(low + (high - low + 1) * u) : low + (high - low) * u;
}

/* All 16-bit patterns in order; random ones of 32 and 64 bits. */
static void put_bits(const ig_ref_view *v, int64_t place, uint32_t input) {
    const size_t size = trial_block_bytes(v->dtype);
    const uint64_t bits = bits_at(input, place);
    const uint16_t small = (uint16_t)place;
    memcpy(v->at + (size_t)place * size, size == 2 ? (const void *)&small : &bits, size);
}

/* The offset of an F16 scale in a block, and its maximum, chosen so that elements reach about 2. */
typedef struct scale_place {
    size_t at;
    float most;
} scale_place;

#define SCALE(type, field, most) \
    { offsetof(ig_block_##type, field), most }
static const scale_place scales[IG_DTYPE_COUNT][2] = {
    [IG_Q4_0] = {SCALE(q4_0, d, 0.25f)},
    [IG_Q4_1] = {SCALE(q4_1, d, 0.25f), SCALE(q4_1, m, -2)},
    [IG_Q5_0] = {SCALE(q5_0, d, 0.125f)},
    [IG_Q5_1] = {SCALE(q5_1, d, 0.125f), SCALE(q5_1, m, -2)},
    [IG_Q8_0] = {SCALE(q8_0, d, 2 / 127.0f)},
    [IG_Q2_K] = {SCALE(q2_k, d, 4 / 45.0f), SCALE(q2_k, m, 2 / 15.0f)},
    [IG_Q3_K] = {SCALE(q3_k, d, 2 / 128.0f)},
    [IG_Q4_K] = {SCALE(q4_k, d, 4 / 945.0f), SCALE(q4_k, m, 2 / 63.0f)},
    [IG_Q5_K] = {SCALE(q5_k, d, 4 / 1953.0f), SCALE(q5_k, m, 2 / 63.0f)},
    [IG_Q6_K] = {SCALE(q6_k, d, 2 / 4096.0f)},
    [IG_IQ4_NL] = {SCALE(iq4_nl, d, 2 / 127.0f)},
    [IG_IQ4_XS] = {SCALE(iq4_xs, d, 2 / 4064.0f)},
};

/* Random bits with scales in range. */
static void fill_block(const ig_ref_view *v, int64_t i, uint32_t input) {
    const size_t size = trial_block_bytes(v->dtype);
    const int64_t place = ig_ref_place(v, i);
    char *block = trial_at(v, i);
    for (size_t b = 0; b < size; b++) {
        const uint64_t bits = bits_at(input, place * 2 + (int64_t)b);
        memcpy(block + b, &bits, 1);
    }
    for (int s = 0; s < 2; s++) {
        const scale_place scale = scales[v->dtype][s];
        const float share = ldexpf((float)(bits_at(input, place + s) >> 40), -24); /* in [0, 1) */
        const uint16_t half = ig_f32_to_f16(scale.most * (0.5f + share / 2));
        if (scale.most != 0) memcpy(block + scale.at, &half, sizeof half);
    }
    if (v->dtype == IG_MXFP4) *block = (char)(124 + place / IG_BLOCK % 3);
}

/* The value depends on the address, so a broadcast element has only one. */
static void fill(const ig_ref_view *v, const case_operand *spec, uint32_t input) {
    const int64_t block = trial_block(v->dtype);
    const int64_t n = ig_shape_count(v->shape);
    for (int64_t i = 0; i < n; i += block) {
        const int64_t place = ig_ref_place(v, i);
        if (block > 1)
            fill_block(v, i, input);
        else if (spec->values == BITS)
            put_bits(v, place, input);
        else
            ig_ref_put_any(v, i, draw(spec, input, place));
    }
}

/* ---- building a trial ---- */

/* The input that an output overwrites; -1: none. */
static int alias_of(uint32_t op, uint32_t output) {
    static const int8_t adamw[] = {0, 2, 3}, sgd[] = {0, 2, 2};
    assert(output < TRIAL_MAX_OUT);
    if (op == IG_OP_ADAMW) return adamw[output];
    if (op == IG_OP_SGD) return sgd[output];
    return ig_op_find(op)->traits & IG_UPDATES ? 0 : -1;
}

static uint32_t outputs_of(const ig_case *c, uint32_t n_in) {
    if (c->n_out > 0) return c->n_out;
    return c->op == IG_OP_SGD ? n_in - 1 : ig_op_find(c->op)->out_max;
}

/* Outputs are packed in buffers of their own, or alias the input that they overwrite. */
static void add_outputs(trial *t, const ig_desc *descs) {
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const int alias = alias_of(t->step.op, k);
        ig_operand *o = &t->out[k];
        if (alias >= 0) {
            t->in[alias].kind = IG_KIND_STATE;
            *o = t->in[alias];
        } else {
            *o = (ig_operand){.desc = descs[k], .kind = IG_KIND_OUTPUT, .dynamic_dim = -1};
            const size_t size = lay_out(o, PACKED, 0);
            o->buffer = t->n_buffers;
            t->memory[t->n_buffers++] = gap_filled(size);
        }
        o->alias = (int16_t)alias;
        o->value = t->step.n_in + k;
    }
}

static ig_operand *add_input(trial *t, ig_desc desc, case_layout layout, uint32_t repeat) {
    ig_operand *o = &t->in[t->step.n_in];
    *o = (ig_operand){.value = t->step.n_in++,
                      .desc = desc,
                      .kind = IG_KIND_INPUT,
                      .dynamic_dim = -1,
                      .alias = -1};
    const size_t size = lay_out(o, layout, repeat);
    o->buffer = t->n_buffers;
    t->memory[t->n_buffers++] = gap_filled(size);
    return o;
}

static void begin(trial *t, uint32_t op, const void *attrs) {
    *t = (trial){.n_buffers = 1};
    t->step = (ig_step){.size = sizeof(ig_step),
                        .op = op,
                        .attrs_bytes = ig_op_find(op)->attrs_bytes,
                        .attrs = attrs,
                        .in = t->in,
                        .out = t->out};
}

static ig_shape shape_of(const case_operand *spec) {
    ig_shape shape = {.rank = spec->rank};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = spec->dim[d];
    return shape;
}

ig_status trial_init(trial *t, const ig_case *c, ig_dtype real) {
    ig_desc in[CASE_MAX_IN], out[IG_MAX_OUT];
    begin(t, c->op, c->attrs);
    t->slots = c->slots;
    t->n_slots = c->n_slots;
    assert(c->n_in <= CASE_MAX_IN);
    for (uint32_t i = 0; i < c->n_in; i++) {
        const case_operand *spec = &c->in[i];
        in[i] = (ig_desc){spec->type ? (ig_dtype)(spec->type - 1) : real, shape_of(spec)};
        ig_operand *o = add_input(t, in[i], spec->layout, spec->repeat);
        const ig_ref_view v = trial_view(o, t->memory);
        fill(&v, spec, i);
        if (!spec->weight) continue;
        o->kind = IG_KIND_WEIGHT;
        o->host = v.at;
    }
    t->step.n_out = outputs_of(c, t->step.n_in);
    const ig_status status = ig_infer((ig_op)c->op, c->attrs, in, t->step.n_in, out, t->step.n_out);
    if (status != IG_OK) {
        trial_deinit(t);
        return status;
    }
    add_outputs(t, out);
    return IG_OK;
}

static ig_desc as_f64(ig_desc desc, ig_dtype real) {
    return (ig_desc){desc.dtype == real ? IG_F64 : desc.dtype, desc.shape};
}

ig_status trial_init_oracle(trial *t, const trial *from, ig_dtype real) {
    ig_desc out[TRIAL_MAX_OUT];
    begin(t, from->step.op, from->step.attrs);
    t->slots = from->slots;
    t->n_slots = from->n_slots;
    for (uint32_t i = 0; i < from->step.n_in; i++) {
        const ig_operand *src = &from->in[i];
        const ig_operand *dst = add_input(t, as_f64(src->desc, real), PACKED, 0);
        const ig_ref_view x = trial_view(src, from->memory), y = trial_view(dst, t->memory);
        const int64_t n = ig_shape_count(src->desc.shape), block = trial_block(x.dtype);
        for (int64_t e = 0; e < n; e += block) {
            if (x.dtype == y.dtype)
                memcpy(trial_at(&y, e), trial_at(&x, e), trial_block_bytes(x.dtype));
            else
                ig_ref_put_any(&y, e, ig_ref_get_any(&x, e));
        }
    }
    t->step.n_out = from->step.n_out;
    for (uint32_t k = 0; k < t->step.n_out; k++) out[k] = as_f64(from->out[k].desc, real);
    add_outputs(t, out);
    return IG_OK;
}

static void release(trial_memory *memory) {
    for (int b = 0; b < TRIAL_BUFFERS; b++) ig_free(&ig_heap, memory[b].bytes);
    memset(memory, 0, TRIAL_BUFFERS * sizeof *memory);
}

void trial_deinit(trial *t) { release(t->memory); }
void trial_result_deinit(trial_result *r) { release(r->memory); }

/* ---- running it ---- */

/* Sets up memory before a run: inputs, and garbage in outputs and scratch. */
static void prepare(const trial *t, trial_garbage garbage, trial_memory *out) {
    for (uint32_t b = 0; b < t->n_buffers; b++) {
        out[b] = (trial_memory){must_alloc(t->memory[b].size), t->memory[b].size};
        memcpy(out[b].bytes, t->memory[b].bytes, out[b].size);
        if (b == IG_ARENA || b > t->step.n_in)
            memset(out[b].bytes + guard_bytes, garbage, out[b].size - 2 * guard_bytes);
    }
}

/* If the backend has memory of its own, copies `memory` to it and back. */
static ig_status submit(const trial *t, const ig_backend *backend, ig_backend_device *device,
                        ig_backend_program *program, trial_memory *memory) {
    ig_backend_buffer *buffers[TRIAL_BUFFERS] = {0};
    const bool own = backend->buffer_alloc != NULL;
    ig_status status = IG_OK;
    for (uint32_t b = 0; b < t->n_buffers && status == IG_OK; b++) {
        if (!own) {
            buffers[b] = (ig_backend_buffer *)memory[b].bytes;
            continue;
        }
        status = backend->buffer_alloc(device, memory[b].size, &buffers[b]);
        if (status == IG_OK)
            status = backend->write(device, buffers[b], 0, memory[b].bytes, memory[b].size);
    }
    if (status == IG_OK)
        status = program->submit(program, buffers, t->n_buffers, t->slots, t->n_slots);
    if (status == IG_OK && backend->synchronize) status = backend->synchronize(device);
    for (uint32_t b = 0; own && b < t->n_buffers; b++) {
        if (status == IG_OK)
            status = backend->read(device, buffers[b], 0, memory[b].bytes, memory[b].size);
        backend->buffer_free(device, buffers[b]);
    }
    return status;
}

static ig_status compile(trial *t, const ig_backend *backend, ig_backend_device *device,
                         ig_backend_program **out) {
    const bool can_run = backend->can_run && backend->can_run(device, &t->step);
    if (backend->can_run && !can_run) return IG_FAIL(IG_ERR_UNSUPPORTED, "can_run says no");

    const uint64_t scratch = backend->scratch_bytes ? backend->scratch_bytes(device, &t->step) : 0;
    ig_free(&ig_heap, t->memory[IG_ARENA].bytes);
    t->memory[IG_ARENA] = gap_filled(2 * guard_bytes + (size_t)scratch);
    t->step.scratch_offset = guard_bytes;
    t->step.scratch_bytes = scratch;
    const ig_status status = backend->compile(device, &t->step, 1, (ig_blob){0}, NULL, out);
    if (status == IG_ERR_UNSUPPORTED && can_run)
        return IG_FAIL(IG_ERR_STATE, "can_run says yes, compile no");
    if (status == IG_OK && (!*out || !(*out)->submit))
        return IG_FAIL(IG_ERR_STATE, "compile made no program");
    return status;
}

bool trial_taken(trial *t, const ig_backend *backend, ig_backend_device *device) {
    if (backend->can_run) return backend->can_run(device, &t->step);
    ig_backend_program *program = NULL;
    const ig_status status = compile(t, backend, device, &program);
    if (status == IG_OK && program->destroy) program->destroy(program);
    return status != IG_ERR_UNSUPPORTED;
}

ig_status trial_run(trial *t, const ig_backend *backend, ig_backend_device *device,
                    trial_garbage garbage, trial_runs runs, trial_result *out) {
    ig_backend_program *program = NULL;
    IG_TRY(compile(t, backend, device, &program));
    assert(program);
    ig_status status = IG_OK;
    memset(out, 0, sizeof *out);
    for (int run = 0; run < (int)runs && status == IG_OK; run++) {
        trial_result_deinit(out);
        prepare(t, garbage, out->memory);
        status = submit(t, backend, device, program, out->memory);
    }
    if (program->destroy) program->destroy(program);
    if (status != IG_OK) trial_result_deinit(out);
    return status;
}

int trial_find_stray_write(const trial *t, const trial_result *r, trial_garbage garbage) {
    trial_memory expected[TRIAL_BUFFERS] = {{0}};
    prepare(t, garbage, expected);
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const ig_ref_view v = trial_view(&t->out[k], r->memory);
        const ig_ref_view e = trial_view(&t->out[k], expected);
        assert(v.at && e.at);
        const int64_t n = ig_shape_count(v.shape), block = trial_block(v.dtype);
        for (int64_t i = 0; i < n; i += block)
            memcpy(trial_at(&e, i), trial_at(&v, i), trial_block_bytes(v.dtype));
    }
    assert(expected[IG_ARENA].bytes);
    const size_t scratch = t->memory[IG_ARENA].size - 2 * guard_bytes;
    memcpy(expected[IG_ARENA].bytes + guard_bytes, r->memory[IG_ARENA].bytes + guard_bytes,
           scratch);

    int stray = -1;
    for (uint32_t b = 0; b < t->n_buffers && stray < 0; b++)
        if (memcmp(expected[b].bytes, r->memory[b].bytes, expected[b].size) != 0) stray = (int)b;
    release(expected);
    return stray;
}

ig_status trial_open(const ig_backend *backend, ig_test_host *host, ig_backend_device *plain,
                     ig_backend_device **out) {
    *plain = (ig_backend_device){&host->base};
    *out = plain;
    if (backend->is_available && !backend->is_available(&host->base)) return IG_ERR_DEVICE;
    return backend->open ? backend->open(&host->base, 0, out) : IG_OK;
}

void trial_close(const ig_backend *backend, ig_backend_device *plain, ig_backend_device *device) {
    if (device != plain && backend->close) backend->close(device);
}
