/*
 * Steps that Vulkan's products do along with them: the same results as step by step,
 * wherever things lie.  Skipped without a device.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/standalone_host.h"

extern const ig_backend ig_vulkan_backend;

static const ig_backend *const vk = &ig_vulkan_backend;

enum { ROWS = 2, K = 64, COLUMNS = 48, STEPS = 4, ARENA = 1 << 16, MOST_OPERANDS = 4 };

/* Values by number, which is their id; h, the norm's weight and the matrix are in buffer 1, what
 * is computed in the arena. */
enum { H, GAIN, W, NORMED, PRODUCT, OTHER, TAKEN, VALUES };

/* One level each:  normed = rms_norm(h, gain);  product = normed w^T;  taken = product + other,
 * and before them other = h's first columns doubled, so that it is made in the program, too. */
typedef struct steps_of_join {
    uint64_t at[VALUES]; /* offsets */
    ig_operand operands[STEPS][MOST_OPERANDS];
    ig_attrs_norm norm;
    ig_attrs_matmul matmul;
    ig_step steps[STEPS];
} steps_of_join;

static ig_operand operand(const steps_of_join *j, uint32_t value, int64_t rows, int64_t columns) {
    return (ig_operand){.value = value,
                        .buffer = value <= W ? 1 : IG_ARENA,
                        .offset = j->at[value],
                        .desc = {IG_F32, IG_SHAPE(rows, columns)},
                        .stride = {columns, 1},
                        .dynamic_dim = -1,
                        .alias = -1};
}

static void set(steps_of_join *j, int i, uint32_t op, uint32_t n_in, const void *attrs,
                uint32_t attrs_bytes) {
    j->steps[i] = (ig_step){.size = sizeof(ig_step),
                            .op = op,
                            .level = (uint32_t)i,
                            .chain = (uint32_t)i,
                            .attrs_bytes = attrs_bytes,
                            .n_in = n_in,
                            .n_out = 1,
                            .attrs = attrs,
                            .in = j->operands[i],
                            .out = j->operands[i] + n_in};
}

static void make(steps_of_join *j, const uint64_t at[VALUES], uint32_t last_op) {
    *j = (steps_of_join){.norm = {.eps = 1e-5f}, .matmul = {.transpose_b = 1}};
    memcpy(j->at, at, sizeof j->at);
    ig_operand wide = operand(j, H, ROWS, COLUMNS);
    wide.stride[0] = K;
    j->operands[0][0] = j->operands[0][1] = wide;
    j->operands[0][2] = operand(j, OTHER, ROWS, COLUMNS);
    set(j, 0, IG_OP_ADD, 2, NULL, 0);
    j->operands[1][0] = operand(j, H, ROWS, K);
    j->operands[1][1] = operand(j, GAIN, 1, K);
    j->operands[1][1].desc.shape = IG_SHAPE(K);
    j->operands[1][1].stride[0] = 1;
    j->operands[1][2] = operand(j, NORMED, ROWS, K);
    set(j, 1, IG_OP_RMS_NORM, 2, &j->norm, sizeof j->norm);
    j->operands[2][0] = operand(j, NORMED, ROWS, K);
    j->operands[2][1] = operand(j, W, COLUMNS, K);
    j->operands[2][2] = operand(j, PRODUCT, ROWS, COLUMNS);
    set(j, 2, IG_OP_MATMUL, 2, &j->matmul, sizeof j->matmul);
    j->operands[3][0] = operand(j, OTHER, ROWS, COLUMNS);
    j->operands[3][1] = operand(j, PRODUCT, ROWS, COLUMNS);
    j->operands[3][2] = operand(j, TAKEN, ROWS, COLUMNS);
    set(j, 3, last_op, 2, NULL, 0);
}

static void run(ig_backend_device *device, const ig_step *steps, uint32_t count,
                ig_backend_buffer *const *buffers) {
    ig_backend_program *program = NULL;
    assert_int_equal(vk->compile(device, steps, count, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(program->submit(program, buffers, 2, NULL, 0), IG_OK);
    assert_int_equal(vk->synchronize(device), IG_OK);
    program->destroy(program);
}

static float error_of(const float *got, const float *want, size_t count) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)got[i] - (double)want[i], 2);
        norm += pow((double)want[i], 2);
    }
    return (float)sqrt(difference / norm);
}

/* Sums in another order: a few units in the last place. */
static const float most_error = 1e-6f;

/* The device, or the test is skipped. */
static ig_backend_device *open_device(ig_test_host *host, ig_backend_buffer *buffers[2]) {
    ig_backend_device *device;
    static float given[ARENA / sizeof(float)];
    ig_test_host_init(host, 1);
    if (!vk->is_available(&host->base)) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        ig_test_host_deinit(host);
        skip();
    }
    assert_int_equal(vk->open(&host->base, 0, &device), IG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(vk->buffer_alloc(device, ARENA, &buffers[i]), IG_OK);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) given[i] = sinf((float)i) + 0.25f;
    assert_int_equal(vk->write(device, buffers[1], 0, given, sizeof given), IG_OK);
    return device;
}

static void close_device(ig_test_host *host, ig_backend_device *device,
                         ig_backend_buffer *buffers[2]) {
    for (int i = 0; i < 2; i++) vk->buffer_free(device, buffers[i]);
    vk->close(device);
    assert_int_equal(host->live, 0);
    assert_int_equal(host->warnings, 0);
    ig_test_host_deinit(host);
}

/* All steps at once and one by one leave the same value `last`, and also `also` if that is one. */
static void compare(const uint64_t at[VALUES], uint32_t last_op, uint32_t also) {
    ig_test_host host;
    ig_backend_buffer *buffers[2];
    steps_of_join j;
    static float once[ARENA / sizeof(float)], single[ARENA / sizeof(float)];
    ig_backend_device *device = open_device(&host, buffers);
    make(&j, at, last_op);
    run(device, j.steps, STEPS, buffers);
    assert_int_equal(vk->read(device, buffers[IG_ARENA], 0, once, sizeof once), IG_OK);
    for (int i = 0; i < STEPS; i++) run(device, &j.steps[i], 1, buffers);
    assert_int_equal(vk->read(device, buffers[IG_ARENA], 0, single, sizeof single), IG_OK);
    const size_t taken = at[TAKEN] / sizeof(float);
    assert_true(error_of(once + taken, single + taken, ROWS * COLUMNS) <= most_error);
    if (also < VALUES) {
        const size_t place = at[also] / sizeof(float);
        const size_t count = also == NORMED ? ROWS * K : ROWS * COLUMNS;
        assert_true(error_of(once + place, single + place, count) <= most_error);
    }
    close_device(&host, device, buffers);
}

/* Nothing lies on anything else. */
static const uint64_t apart[VALUES] = {
    [H] = 0,          [GAIN] = 4096,  [W] = 8192,     [NORMED] = 0,
    [PRODUCT] = 4096, [OTHER] = 8192, [TAKEN] = 12288};

static void a_norm_a_product_and_a_sum_are_as_one_by_one(void **state) {
    (void)state;
    compare(apart, IG_OP_ADD, NORMED);
    compare(apart, IG_OP_ADD, PRODUCT);
    compare(apart, IG_OP_ADD, OTHER);
}

static void a_product_may_be_multiplied_by_another(void **state) {
    (void)state;
    compare(apart, IG_OP_MUL, PRODUCT);
}

/* What one group writes, others would still read. */
static void a_result_that_lies_on_what_the_product_reads_comes_after_it(void **state) {
    (void)state;
    uint64_t at[VALUES];
    memcpy(at, apart, sizeof at);
    at[TAKEN] = at[NORMED];
    compare(at, IG_OP_ADD, PRODUCT);
}

static void a_value_that_is_made_next_to_the_product_is_waited_for(void **state) {
    (void)state;
    uint64_t at[VALUES];
    memcpy(at, apart, sizeof at);
    at[PRODUCT] = at[OTHER] + 64; /* overwrites what the sum would take */
    compare(at, IG_OP_ADD, VALUES);
}

/* Both work the norm out for themselves; that one of them stores it is nothing to the other. */
static void products_of_one_norm_do_not_wait_for_each_other(void **state) {
    (void)state;
    ig_test_host host;
    ig_backend_buffer *buffers[2];
    ig_device_counters counters;
    steps_of_join j;
    ig_operand second[MOST_OPERANDS];
    ig_backend_device *device = open_device(&host, buffers);
    make(&j, apart, IG_OP_ADD);
    memcpy(second, j.operands[2], sizeof second);
    second[2] = operand(&j, TAKEN, ROWS, COLUMNS);
    ig_step steps[] = {j.steps[1], j.steps[2], j.steps[2]};
    steps[2].chain++;
    steps[2].in = second;
    steps[2].out = second + 2;
    run(device, steps, 3, buffers);
    vk->counters(device, &counters);
    assert_int_equal(counters.dispatches, 2);
    assert_int_equal(counters.barriers, 0);
    close_device(&host, device, buffers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_a_product_and_a_sum_are_as_one_by_one),
        cmocka_unit_test(a_product_may_be_multiplied_by_another),
        cmocka_unit_test(a_result_that_lies_on_what_the_product_reads_comes_after_it),
        cmocka_unit_test(a_value_that_is_made_next_to_the_product_is_waited_for),
        cmocka_unit_test(products_of_one_norm_do_not_wait_for_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
