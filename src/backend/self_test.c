/*
 * A device's self-test: are its results correct?
 *
 * Runs an addition and a matmul of small integers on the device the way a plan does: can_run(),
 * compile(), submit(), read(). The results are exact in f32 and bf16 and nearly so with int8
 * weights, so a wrong value means a broken device. If the device refuses a step or fails with an
 * error, the test does not fail: the error is reported where the device is used.
 */
#include <math.h>
#include <stdio.h>

#include "backend/device.h"

enum { SIDE = 8, COUNT = SIDE * SIDE, ARENA = 0, A, B, Y, BUFFERS, MOST_SCRATCH = 1 << 20 };

static const double tolerance = 0.02; /* relative: int8 weights have 7 significant bits */

/* y[i][j] = a[i][j] + b[i][j], and y[i][j] = 2 a[i][j - 1 mod SIDE]: b is a permutation, doubled.
 */
typedef struct self_test {
    ig_op op;
    float a[COUNT], b[COUNT], want[COUNT];
} self_test;

static void make_addition(self_test *t) {
    t->op = IG_OP_ADD;
    for (int i = 0; i < COUNT; i++) {
        t->a[i] = (float)(i % 13);
        t->b[i] = (float)(i % 5);
        t->want[i] = t->a[i] + t->b[i];
    }
}

static void make_product(self_test *t) {
    t->op = IG_OP_MATMUL;
    for (int i = 0; i < COUNT; i++) {
        const int row = i / SIDE, column = i % SIDE;
        t->a[i] = (float)(i % 13);
        t->b[i] = column == (row + 1) % SIDE ? 2 : 0;
        t->want[i] = 2 * (float)((row * SIDE + (column + SIDE - 1) % SIDE) % 13);
    }
}

static ig_operand operand(uint32_t buffer, ig_operand_kind kind) {
    return (ig_operand){.value = buffer,
                        .buffer = buffer,
                        .desc = {IG_F32, IG_SHAPE(SIDE, SIDE)},
                        .stride = {SIDE, 1},
                        .dynamic_dim = -1,
                        .kind = (uint16_t)kind,
                        .alias = -1};
}

/* Uploads the inputs, runs the program and reads the result into `got`. */
static ig_status run(ig_device *device, const self_test *t, ig_backend_program *program,
                     uint64_t arena_bytes, float got[COUNT]) {
    ig_backend_buffer *buffers[BUFFERS] = {0};
    const uint64_t bytes[BUFFERS] = {arena_bytes, sizeof t->a, sizeof t->b, sizeof t->want};
    ig_status status = IG_OK;
    for (int i = 0; i < BUFFERS && status == IG_OK; i++)
        status = ig_device_alloc(device, bytes[i], &buffers[i]);
    if (status == IG_OK) status = ig_device_write(device, buffers[A], 0, t->a, sizeof t->a);
    if (status == IG_OK) status = ig_device_write(device, buffers[B], 0, t->b, sizeof t->b);
    if (status == IG_OK) status = program->submit(program, buffers, BUFFERS, NULL, 0);
    if (status == IG_OK) status = ig_device_sync(device);
    if (status == IG_OK) status = ig_device_read(device, buffers[Y], 0, got, COUNT * sizeof got[0]);
    for (int i = 0; i < BUFFERS; i++) ig_device_free(device, buffers[i], bytes[i]);
    return status;
}

/* Whether the device computed the step; false: refused or failed. */
static bool compute(ig_device *device, const self_test *t, ig_operand_kind kind_of_b,
                    float got[COUNT]) {
    const ig_attrs_matmul attrs = {0};
    ig_operand in[] = {operand(A, IG_KIND_INPUT), operand(B, kind_of_b)};
    const ig_operand out = operand(Y, IG_KIND_OUTPUT);
    if (kind_of_b == IG_KIND_WEIGHT) in[1].host = t->b;
    ig_step step = {.size = sizeof step,
                    .op = t->op,
                    .n_in = 2,
                    .n_out = 1,
                    .attrs = &attrs,
                    .attrs_bytes = ig_op_find(t->op)->attrs_bytes,
                    .in = in,
                    .out = &out};
    ig_backend_program *program = NULL;
    if (!ig_device_can_run(device, &step)) return false;
    step.scratch_bytes = ig_device_scratch(device, &step);
    if (step.scratch_bytes > MOST_SCRATCH) return false;
    if (device->backend->compile(device->handle, &step, 1, (ig_blob){0}, NULL, &program) != IG_OK)
        return false;
    const bool ran = program && program->submit &&
                     run(device, t, program, step.scratch_bytes + 64, got) == IG_OK;
    if (program && program->destroy) program->destroy(program);
    return ran;
}

static ig_status check(ig_device *device, const self_test *t) {
    float got[COUNT];
    if (!compute(device, t, IG_KIND_INPUT, got) &&
        (t->op != IG_OP_MATMUL || !compute(device, t, IG_KIND_WEIGHT, got)))
        return IG_OK;
    for (int i = 0; i < COUNT; i++) {
        const double g = (double)got[i], want = (double)t->want[i];
        if (fabs(g - want) <= tolerance * (1 + fabs(want))) continue; /* false for NaN */
        return IG_FAIL(IG_ERR_DEVICE,
                       "device %s: self-test failed: %s gave %g, expected %g; "
                       "--unsafe-device uses it anyway",
                       device->name, ig_op_name(t->op), g, want);
    }
    return IG_OK;
}

ig_status ig_device_self_test(ig_device *device) {
    self_test t;
    make_addition(&t);
    ig_status status = check(device, &t);
    make_product(&t);
    if (status == IG_OK) status = check(device, &t);
    ig_device_reset_peak(device);
    return status;
}
