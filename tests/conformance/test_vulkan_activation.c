/*
 * An activation fused into a Vulkan matmul is bit-exact with the activation as a step
 * of its own: for every matmul kernel.  Skipped without
 * a device.
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

/* A shape for each kernel: x [rows, k], w [columns, k]. */
static const struct {
    const char *kernel;
    int64_t rows, k, columns;
    ig_dtype weights;
} products[] = {
    {"matvec", 3, 96, 80, IG_F32},
    {"matvec of f16", 1, 256, 200, IG_F16},
    {"matmul_small", 32, 48, 100, IG_F32},
    {"matmul", 40, 1100, 90, IG_F32},
    {"matmul_wide", 520, 64, 520, IG_F32},
    {"matmul_wide in parts", 128, 2048, 256, IG_F32},
    {"matmul_coopmat", 64, 256, 256, IG_F16},
};

static const struct {
    uint32_t activation, op;
    ig_attrs_gelu gelu;
} activations[] = {
    {IG_ACTIVATION_RELU, IG_OP_RELU, {0}},
    {IG_ACTIVATION_TANH, IG_OP_TANH, {0}},
    {IG_ACTIVATION_SIGMOID, IG_OP_SIGMOID, {0}},
    {IG_ACTIVATION_SILU, IG_OP_SILU, {0}},
    {IG_ACTIVATION_GELU_ERF, IG_OP_GELU, {.form = IG_GELU_ERF}},
    {IG_ACTIVATION_GELU_TANH, IG_OP_GELU, {.form = IG_GELU_TANH}},
};

enum { PRODUCTS = sizeof products / sizeof products[0] };
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };
enum { GIVEN = IG_ARENA + 1, WEIGHTS, BUFFERS, MOST = 1 << 19 }; /* elements of an operand */

/* The sum is at 0 of the arena, and after it the result of the activation by itself. */
typedef struct pair {
    ig_operand product[4], element[2];
    ig_attrs_matmul attrs;
    ig_step steps[2];
    uint64_t arena_bytes;
} pair;

static ig_operand packed(uint32_t value, uint32_t buffer, uint64_t offset, ig_dtype dtype,
                         ig_shape shape) {
    ig_operand o = {.value = value,
                    .buffer = buffer,
                    .offset = offset,
                    .desc = {dtype, shape},
                    .dynamic_dim = -1,
                    .alias = -1};
    int64_t stride = 1;
    for (int d = shape.rank; d-- > 0; stride *= shape.dim[d]) o.stride[d] = stride;
    return o;
}

static ig_step step_of(uint32_t op, const void *attrs, uint32_t attrs_bytes, const ig_operand *in,
                       uint32_t n_in) {
    return (ig_step){.size = sizeof(ig_step),
                     .op = op,
                     .attrs = attrs,
                     .attrs_bytes = attrs_bytes,
                     .n_in = n_in,
                     .n_out = 1,
                     .in = in,
                     .out = in + n_in};
}

static void make(const ig_backend_device *device, size_t i, size_t a, pair *p) {
    const ig_shape shape = IG_SHAPE(products[i].rows, products[i].columns);
    const int64_t k = products[i].k;
    const uint64_t bytes = (uint64_t)ig_shape_count(shape) * sizeof(float);
    *p = (pair){.attrs = {.transpose_b = 1}};
    p->product[0] = packed(0, GIVEN, 0, IG_F32, IG_SHAPE(shape.dim[0], k));
    p->product[1] = packed(1, WEIGHTS, 0, products[i].weights, IG_SHAPE(shape.dim[1], k));
    p->product[2] = packed(2, GIVEN, 64, IG_F32, IG_SHAPE(shape.dim[1]));
    p->product[3] = p->element[0] = packed(3, IG_ARENA, 0, IG_F32, shape);
    p->element[1] = packed(4, IG_ARENA, bytes, IG_F32, shape);
    p->steps[0] = step_of(IG_OP_MATMUL, &p->attrs, sizeof p->attrs, p->product, 3);
    p->steps[1] =
        step_of(activations[a].op, &activations[a].gelu,
                activations[a].op == IG_OP_GELU ? sizeof(ig_attrs_gelu) : 0, p->element, 1);
    p->steps[0].scratch_offset = 2 * bytes;
    p->steps[0].scratch_bytes = vk->scratch_bytes(device, &p->steps[0]);
    p->arena_bytes = 2 * bytes + p->steps[0].scratch_bytes;
}

static void run(ig_backend_device *device, const ig_step *step, ig_backend_buffer *const *buffers) {
    ig_backend_program *program = NULL;
    assert_int_equal(vk->compile(device, step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(program->submit(program, buffers, BUFFERS, NULL, 0), IG_OK);
    assert_int_equal(vk->synchronize(device), IG_OK);
    program->destroy(program);
}

/* Sums of about 1, of either sign. */
static void fill(ig_backend_device *device, ig_backend_buffer *buffer, ig_dtype dtype, int64_t k) {
    static float numbers[MOST];
    static uint16_t f16[MOST];
    for (size_t i = 0; i < MOST; i++) {
        numbers[i] = sinf((float)i) * 2 / sqrtf((float)k);
        f16[i] = (uint16_t)(0x2c00 + i * 40503 % 0x0800 + (i * 7 / 3 % 2 == 0 ? 0x8000 : 0));
    }
    assert_int_equal(dtype == IG_F16 ? vk->write(device, buffer, 0, f16, sizeof f16)
                                     : vk->write(device, buffer, 0, numbers, sizeof numbers),
                     IG_OK);
}

static void compare(ig_backend_device *device, size_t i, size_t a) {
    static float with[MOST], behind[MOST];
    ig_backend_buffer *buffers[BUFFERS];
    pair p;
    make(device, i, a, &p);
    const size_t count = (size_t)ig_shape_count(p.product[3].desc.shape);
    const uint64_t bytes = count * sizeof(float);
    for (uint32_t b = 0; b < BUFFERS; b++)
        assert_int_equal(
            vk->buffer_alloc(device, b == IG_ARENA ? p.arena_bytes : sizeof with, &buffers[b]),
            IG_OK);
    fill(device, buffers[GIVEN], IG_F32, 1);
    fill(device, buffers[WEIGHTS], products[i].weights, products[i].k);
    for (int s = 0; s < 2; s++) run(device, &p.steps[s], buffers);
    assert_int_equal(vk->read(device, buffers[IG_ARENA], bytes, behind, bytes), IG_OK);
    p.attrs.activation = activations[a].activation;
    run(device, &p.steps[0], buffers);
    assert_int_equal(vk->read(device, buffers[IG_ARENA], 0, with, bytes), IG_OK);
    for (size_t j = 0; j < count; j++)
        if (memcmp(&with[j], &behind[j], sizeof with[j]) != 0)
            fail_msg("%s, %s: element %zu is %.9g fused, %.9g by itself", products[i].kernel,
                     ig_op_name(activations[a].op), j, (double)with[j], (double)behind[j]);
    for (int b = 0; b < BUFFERS; b++) vk->buffer_free(device, buffers[b]);
}

static void an_activation_fused_into_a_matmul_equals_its_own_step(void **state) {
    (void)state;
    ig_test_host host;
    ig_backend_device *device;
    ig_test_host_init(&host, 1);
    if (!vk->is_available(&host.base)) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        ig_test_host_deinit(&host);
        skip();
    }
    assert_int_equal(vk->open(&host.base, 0, &device), IG_OK);
    for (size_t i = 0; i < PRODUCTS; i++)
        for (size_t a = 0; a < ACTIVATIONS; a++) compare(device, i, a);
    vk->close(device);
    assert_int_equal(host.live, 0);
    assert_int_equal(host.warnings, 0);
    ig_test_host_deinit(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_activation_fused_into_a_matmul_equals_its_own_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
