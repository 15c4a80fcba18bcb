/*
 * The contract beyond single ops: programs of several levels and chains, steps
 * from a newer host, and a backend that computes nothing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "base/alloc.h"
#include "base/random.h"
#include "conformance/trial.h"

extern const ig_backend ig_cpu_backend, ig_null_backend;

static const ig_backend *const all[] = {&ig_cpu_backend, &ig_ref_backend, &ig_null_backend};

/* A dozen steps in float, one after the other, on numbers of the order of 1. */
static const double tolerance = 1e-4;

/* ---- a program of several levels ---- */

enum { ROWS = 70, COLUMNS = 129, WIDTH = 33, MAX_STEPS = 12, MAX_OPERANDS = 40, ALIGNMENT = 64 };

/* Steps as a newer host has them: with more behind what this header knows. */
typedef struct wide_step {
    ig_step step;
    char newer[24];
} wide_step;

typedef struct program {
    wide_step steps[MAX_STEPS];
    ig_operand operands[MAX_OPERANDS];
    uint32_t n_steps, n_operands, n_values;
    uint64_t arena_bytes; /* all values live in the arena */
} program;

static ig_operand value(program *p, ig_operand_kind kind, ig_shape shape) {
    ig_operand o = {.value = p->n_values++,
                    .buffer = IG_ARENA,
                    .offset = p->arena_bytes,
                    .desc = {IG_F32, shape},
                    .kind = (uint16_t)kind,
                    .dynamic_dim = -1,
                    .alias = -1};
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        o.stride[d] = stride;
        stride *= shape.dim[d];
    }
    const uint64_t bytes = (uint64_t)stride * sizeof(float);
    p->arena_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return o;
}

/* One row, seen as many. */
static ig_operand repeated(ig_operand row, int64_t rows) {
    row.desc.shape = IG_SHAPE(rows, row.desc.shape.dim[0]);
    row.stride[1] = row.stride[0];
    row.stride[0] = 0;
    return row;
}

typedef struct place {
    uint32_t level, chain;
} place;

static ig_operand add(program *p, place at, ig_op op, const void *attrs, ig_operand a,
                      const ig_operand *b, ig_operand out) {
    ig_operand *in = &p->operands[p->n_operands];
    in[0] = a;
    if (b) in[1] = *b;
    const uint32_t n_in = b ? 2 : 1;
    in[n_in] = out;
    p->n_operands += n_in + 1;
    p->steps[p->n_steps++].step = (ig_step){.size = sizeof(wide_step),
                                            .op = op,
                                            .level = at.level,
                                            .chain = at.chain,
                                            .attrs_bytes = ig_op_find(op)->attrs_bytes,
                                            .n_in = n_in,
                                            .n_out = 1,
                                            .attrs = attrs,
                                            .in = in,
                                            .out = in + n_in};
    return out;
}

typedef struct results {
    ig_operand sum, max, last;
} results;

/*
 *     level   0                    1                   2                  3     4
 *     chain   0               1    2              3    4             5    6     7
 *     steps   add silu mul    scale  norm mul    sum    product softmax  max  +=  2 x
 */
static results build(program *p) {
    static const ig_attrs_norm eps = {1e-5f};
    static const ig_attrs_scale half = {0.5, 1}, twice = {2, 0};
    static const ig_attrs_reduce first = {1, 0}, second = {2, 0};
    static const ig_attrs_matmul plain = {0};
    const ig_shape shape = IG_SHAPE(ROWS, COLUMNS), narrow = IG_SHAPE(ROWS, WIDTH);
    *p = (program){0};
    const ig_operand a = value(p, IG_KIND_INPUT, shape);
    const ig_operand row = value(p, IG_KIND_INPUT, IG_SHAPE(COLUMNS));
    const ig_operand weight = value(p, IG_KIND_INPUT, IG_SHAPE(COLUMNS, WIDTH));
    ig_operand state = value(p, IG_KIND_STATE, narrow);
    const ig_operand rows = repeated(row, ROWS);
    results r;

#define LOCAL(extents) value(p, IG_KIND_LOCAL, extents)
    const ig_operand y0 = add(p, (place){0, 0}, IG_OP_ADD, NULL, a, &rows, LOCAL(shape));
    const ig_operand y1 = add(p, (place){0, 0}, IG_OP_SILU, NULL, y0, NULL, LOCAL(shape));
    const ig_operand y2 = add(p, (place){0, 0}, IG_OP_MUL, NULL, y1, &a, LOCAL(shape));
    const ig_operand z = add(p, (place){0, 1}, IG_OP_SCALE, &half, a, NULL, LOCAL(shape));
    const ig_operand n = add(p, (place){1, 2}, IG_OP_RMS_NORM, &eps, y2, &row, LOCAL(shape));
    const ig_operand m = add(p, (place){1, 2}, IG_OP_MUL, NULL, n, &z, LOCAL(shape));
    r.sum = add(p, (place){1, 3}, IG_OP_SUM, &first, y2, NULL, LOCAL(IG_SHAPE(COLUMNS)));
    const ig_operand q = add(p, (place){2, 4}, IG_OP_MATMUL, &plain, m, &weight, LOCAL(narrow));
    const ig_operand s = add(p, (place){2, 4}, IG_OP_SOFTMAX, NULL, q, NULL, LOCAL(narrow));
    r.max = add(p, (place){2, 5}, IG_OP_MAX, &second, m, NULL, LOCAL(IG_SHAPE(ROWS)));
    ig_operand next = state;
    next.value = p->n_values++;
    next.alias = 0;
    state = add(p, (place){3, 6}, IG_OP_ACCUMULATE, NULL, state, &s, next);
    state.alias = -1;
    r.last = add(p, (place){4, 7}, IG_OP_SCALE, &twice, state, NULL, LOCAL(narrow));
#undef LOCAL
    return r;
}

/* Runs it on `threads` threads; returns the arena, which the caller frees. */
static float *run(const ig_backend *backend, program *p, uint32_t threads) {
    static const uint32_t seed[2] = {3, 5};
    ig_test_host host;
    ig_backend_device plain, *device;
    ig_test_host_init(&host, threads);
    assert_int_equal(trial_open(backend, &host, &plain, &device), IG_OK);
    uint64_t bytes = p->arena_bytes;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        ig_step *step = &p->steps[i].step;
        step->scratch_offset = bytes;
        step->scratch_bytes = backend->scratch_bytes ? backend->scratch_bytes(device, step) : 0;
        bytes += (step->scratch_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    float *arena = ig_alloc(&ig_heap, bytes, 1);
    assert_non_null(arena);
    for (uint64_t i = 0; i < p->arena_bytes / sizeof *arena; i++)
        arena[i] = (float)ig_random_bits(seed, 0, 0, i) / 2147483648.0f - 1;

    ig_backend_program *made = NULL;
    ig_backend_buffer *buffers[] = {(ig_backend_buffer *)arena};
    assert_int_equal(
        backend->compile(device, &p->steps[0].step, p->n_steps, (ig_blob){0}, NULL, &made), IG_OK);
    assert_int_equal(made->submit(made, buffers, 1, NULL, 0), IG_OK);
    made->destroy(made);
    trial_close(backend, &plain, device);
    assert_int_equal(host.live, 0);
    ig_test_host_deinit(&host);
    return arena;
}

static void expect_close(const float *got, const float *want, const ig_operand *o) {
    const int64_t n = ig_shape_count(o->desc.shape), at = (int64_t)(o->offset / sizeof(float));
    for (int64_t i = at; i < at + n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance * (1 + fabs((double)want[i]))))
            fail_msg("value %u, element %d: %g, want %g", o->value, (int)(i - at), (double)got[i],
                     (double)want[i]);
}

static void levels_and_chains_give_what_one_step_after_the_other_gives(void **state) {
    (void)state;
    program p;
    const results r = build(&p);
    float *want = run(&ig_ref_backend, &p, 1), *alone = run(&ig_cpu_backend, &p, 1);
    expect_close(alone, want, &r.sum);
    expect_close(alone, want, &r.max);
    expect_close(alone, want, &r.last);
    for (uint32_t threads = 2; threads <= IG_TEST_HOST_THREADS; threads += 3) {
        float *together = run(&ig_cpu_backend, &p, threads);
        assert_memory_equal(alone, together, p.arena_bytes);
        ig_free(&ig_heap, together);
    }
    ig_free(&ig_heap, alone);
    ig_free(&ig_heap, want);
}

/* ---- steps from a newer host ---- */

/* A step on [2, 3] in f32 that every backend knows. */
typedef struct simple_step {
    ig_operand operands[2];
    ig_attrs_norm attrs[2]; /* the second is what a newer host has added */
    ig_step step;
} simple_step;

static void simple(simple_step *s) {
    *s = (simple_step){.attrs = {{1e-5f}, {0}}};
    for (int i = 0; i < 2; i++)
        s->operands[i] = (ig_operand){.value = (uint32_t)i,
                                      .offset = (uint64_t)i * ALIGNMENT,
                                      .desc = {IG_F32, IG_SHAPE(2, 3)},
                                      .stride = {3, 1},
                                      .dynamic_dim = -1,
                                      .alias = -1};
    s->step = (ig_step){.size = sizeof(ig_step),
                        .op = IG_OP_RMS_NORM,
                        .attrs_bytes = sizeof(ig_attrs_norm),
                        .n_in = 1,
                        .n_out = 1,
                        .attrs = s->attrs,
                        .in = &s->operands[0],
                        .out = &s->operands[1]};
}

typedef enum answer { TAKEN, REFUSED } answer;

/* can_run() and compile() say the same, and a refusal makes no program. */
static void expect_answer(const ig_backend *backend, const ig_step *step, answer want) {
    ig_test_host host;
    ig_backend_device plain, *device;
    ig_backend_program *made = NULL;
    ig_test_host_init(&host, 1);
    assert_int_equal(trial_open(backend, &host, &plain, &device), IG_OK);
    assert_int_equal(backend->can_run(device, step), want == TAKEN);
    const ig_status status = backend->compile(device, step, 1, (ig_blob){0}, NULL, &made);
    assert_int_equal(status, want == TAKEN ? IG_OK : IG_ERR_UNSUPPORTED);
    assert_int_equal(made != NULL, want == TAKEN);
    if (made) made->destroy(made);
    if (want == REFUSED) assert_non_null(strstr(ig_error_text(), backend->name));
    trial_close(backend, &plain, device);
    assert_int_equal(host.live, 0);
    ig_test_host_deinit(&host);
}

static void attributes_that_are_newer_are_taken_only_while_they_are_zero(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        simple_step s;
        simple(&s);
        expect_answer(all[i], &s.step, TAKEN);
        s.step.attrs_bytes = sizeof s.attrs;
        expect_answer(all[i], &s.step, TAKEN);
        s.attrs[1].eps = 1;
        expect_answer(all[i], &s.step, REFUSED);
    }
}

static void ops_and_dtypes_that_are_newer_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        simple_step s;
        simple(&s);
        s.step.op = IG_OP_COUNT;
        expect_answer(all[i], &s.step, REFUSED);
        simple(&s);
        s.operands[0].desc.dtype = IG_DTYPE_COUNT;
        expect_answer(all[i], &s.step, REFUSED);
        simple(&s);
        s.step.n_out = 2;
        s.step.out = s.step.in;
        expect_answer(all[i], &s.step, REFUSED);
    }
}

/* ---- the null backend ---- */

static void null_takes_every_step_and_writes_nothing(void **state) {
    (void)state;
    ig_test_host host;
    ig_backend_device plain, *device;
    ig_test_host_init(&host, 1);
    assert_int_equal(trial_open(&ig_null_backend, &host, &plain, &device), IG_OK);
    for (const case_table *const *table = case_tables; *table; table++)
        for (size_t i = 0; i < (*table)->count; i++) {
            trial t;
            trial_result r;
            assert_int_equal(trial_init(&t, &(*table)->cases[i], IG_F32), IG_OK);
            assert_int_equal(trial_run(&t, &ig_null_backend, device, GARBAGE_HUGE, RUN_ONCE, &r),
                             IG_OK);
            assert_int_equal(trial_find_stray_write(&t, &r, GARBAGE_HUGE), -1);
            for (uint32_t k = 0; k < t.step.n_out; k++) {
                const ig_ref_view y = trial_view(&t.out[k], r.memory);
                if (t.out[k].alias < 0 && ig_shape_count(y.shape) > 0)
                    assert_int_equal((unsigned char)y.at[0], GARBAGE_HUGE);
            }
            trial_result_deinit(&r);
            trial_deinit(&t);
        }
    trial_close(&ig_null_backend, &plain, device);
    assert_int_equal(host.live, 0);
    ig_test_host_deinit(&host);
}

static void null_counts_its_memory(void **state) {
    (void)state;
    ig_test_host host;
    ig_backend_device plain, *device;
    ig_backend_buffer *buffers[2];
    ig_memory_stats stats;
    ig_test_host_init(&host, 1);
    assert_int_equal(trial_open(&ig_null_backend, &host, &plain, &device), IG_OK);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(ig_null_backend.buffer_alloc(device, 100, &buffers[i]), IG_OK);
    ig_null_backend.buffer_free(device, buffers[0]);
    ig_null_backend.memory_stats(device, &stats);
    assert_int_equal(stats.allocated_bytes, 100);
    assert_int_equal(stats.peak_bytes, 200);
    ig_null_backend.reset_memory_stats(device);
    ig_null_backend.memory_stats(device, &stats);
    assert_int_equal(stats.peak_bytes, 100);
    assert_int_equal(ig_null_backend.buffer_alloc(device, UINT64_MAX, &buffers[0]), IG_ERR_MEMORY);
    ig_null_backend.buffer_free(device, buffers[1]);
    trial_close(&ig_null_backend, &plain, device);
    assert_int_equal(host.live, 0);
    ig_test_host_deinit(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_chains_give_what_one_step_after_the_other_gives),
        cmocka_unit_test(attributes_that_are_newer_are_taken_only_while_they_are_zero),
        cmocka_unit_test(ops_and_dtypes_that_are_newer_are_refused),
        cmocka_unit_test(null_takes_every_step_and_writes_nothing),
        cmocka_unit_test(null_counts_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
