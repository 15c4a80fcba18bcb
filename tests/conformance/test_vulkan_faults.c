/*
 * Drivers of Vulkan that fail, one way after the other: the layer of tests/vulkan_faults
 * stands between the backend and a driver that works.  Each failure is a status in
 * words, nothing is lost, and the next device that is opened works.  Skipped without a
 * device.
 */
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

enum { N = 1000 };

/* exp, and neg of that */
typedef struct net {
    ig_test_host host;
    ig_backend_device *device;
    ig_backend_buffer *buffer; /* three values */
    ig_operand operands[4];
    ig_step steps[2];
} net;

static void set_fault(const char *fault) {
    setenv("VK_ADD_LAYER_PATH", TEST_PLUGIN_DIR "/vulkan", 1);
    setenv("VK_INSTANCE_LAYERS", "VK_LAYER_INGOT_faults", 1);
    setenv("INGOT_VULKAN_FAULT", fault, 1);
}

static void clear_fault(void) {
    unsetenv("INGOT_VULKAN_FAULT");
    unsetenv("VK_INSTANCE_LAYERS");
    unsetenv("VK_ADD_LAYER_PATH");
}

static void skip_without_device(void) {
    ig_test_host host;
    ig_test_host_init(&host, 1);
    const bool there = vk->is_available(&host.base);
    ig_test_host_deinit(&host);
    if (there) return;
    printf("vulkan: skipped: %s\n", ig_error_text());
    skip();
}

static void init(net *n, const char *fault) {
    static const int from[] = {0, 1, 1, 2}; /* the values of in, out, in, out */
    skip_without_device();
    *n = (net){0};
    ig_test_host_init(&n->host, 2);
    set_fault(fault);
    for (int i = 0; i < 4; i++)
        n->operands[i] = (ig_operand){.value = (uint32_t)from[i],
                                      .offset = (uint64_t)from[i] * N * sizeof(float),
                                      .desc = {IG_F32, IG_SHAPE(N)},
                                      .stride = {1},
                                      .dynamic_dim = -1,
                                      .kind = IG_KIND_LOCAL,
                                      .alias = -1};
    for (int i = 0; i < 2; i++)
        n->steps[i] = (ig_step){.size = sizeof(ig_step),
                                .op = i == 0 ? IG_OP_EXP : IG_OP_NEG,
                                .n_in = 1,
                                .n_out = 1,
                                .in = &n->operands[2 * i],
                                .out = &n->operands[2 * i + 1]};
}

static void deinit(net *n) {
    if (n->buffer) vk->buffer_free(n->device, n->buffer);
    if (n->device) vk->close(n->device);
    assert_int_equal(n->host.live, 0);
    assert_int_equal(n->host.warnings, 0); /* of the validation layer */
    ig_test_host_deinit(&n->host);
    clear_fault();
}

static void expect_words(const char *words) {
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks: %s", ig_error_text(), words);
}

/* With this fault, all works. */
static void expect_well_with(const char *fault) {
    net n;
    ig_backend_program *program = NULL;
    float x[3 * N] = {0};
    init(&n, fault);
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_int_equal(vk->buffer_alloc(n.device, sizeof x, &n.buffer), IG_OK);
    assert_int_equal(vk->write(n.device, n.buffer, 0, x, sizeof x), IG_OK);
    assert_int_equal(vk->compile(n.device, n.steps, 2, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(program->submit(program, &n.buffer, 1, NULL, 0), IG_OK);
    assert_int_equal(vk->read(n.device, n.buffer, 0, x, sizeof x), IG_OK);
    assert_true(x[N] == 1 && x[3 * N - 1] == -1);
    program->destroy(program);
    deinit(&n);
}

/* After any failure: a device as if nothing had been. */
static void expect_all_well(void) { expect_well_with("none"); }

/* ---- before there is a device ---- */

static void expect_not_available(const char *fault, const char *words) {
    net n;
    init(&n, fault);
    assert_false(vk->is_available(&n.host.base));
    expect_words(words);
    assert_int_equal(vk->count(&n.host.base), 0);
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_ERR_DEVICE);
    assert_null(n.device);
    deinit(&n);
}

static void a_driver_that_fails_is_as_none(void **state) {
    (void)state;
    expect_not_available("instance", "no driver");
    expect_not_available("enumerate", "its driver fails");
    expect_all_well();
}

/* What there is no way around. */
static void a_device_that_lacks_too_much_says_what(void **state) {
    (void)state;
    static const struct {
        const char *fault, *words;
    } all[] = {
        {"without=anything", "Vulkan 1.1"},
        {"without=threads", "256 threads"},
        {"without=shared", "32 KiB"},
        {"without=bindings", "16 storage buffers"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        expect_not_available(all[i].fault, all[i].words);
}

/* Whatever the device cannot do, it computes the same; every kernel without any of it is what
 * conformance.vulkan.bound is for. */
static void a_device_does_without_any_one_feature(void **state) {
    (void)state;
    static const char *const all[] = {
        "without=version",
        "without=bufferDeviceAddress",
        "without=timelineSemaphore",
        "without=storageBuffer8BitAccess",
        "without=storageBuffer16BitAccess",
        "without=shaderInt64",
        "without=subgroups",
        "without=mapped",
        "without=cached",
        "range=1024", /* so that operands, of 4000 bytes each, are shown by several windows */
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) expect_well_with(all[i]);
}

/* More than all windows show goes elsewhere. */
static void what_no_binding_shows_is_refused(void **state) {
    (void)state;
    net n;
    ig_backend_program *program = NULL;
    init(&n, "range=512");
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_false(vk->can_run(n.device, &n.steps[0]));
    assert_int_equal(vk->compile(n.device, n.steps, 1, (ig_blob){0}, NULL, &program),
                     IG_ERR_UNSUPPORTED);
    expect_words("no kernel for exp");
    deinit(&n);
}

/* More submissions than there are fences, with none waited for in between. */
static void fences_go_round(void **state) {
    (void)state;
    enum { RUNS = 300 };
    net n;
    ig_backend_program *program = NULL;
    float x[3 * N] = {0};
    init(&n, "without=timelineSemaphore");
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_int_equal(vk->buffer_alloc(n.device, sizeof x, &n.buffer), IG_OK);
    assert_int_equal(vk->compile(n.device, n.steps, 2, (ig_blob){0}, NULL, &program), IG_OK);
    for (int i = 0; i < RUNS; i++) {
        x[0] = (float)(i % 2);
        assert_int_equal(vk->write(n.device, n.buffer, 0, x, sizeof x[0]), IG_OK);
        assert_int_equal(program->submit(program, &n.buffer, 1, NULL, 0), IG_OK);
    }
    assert_int_equal(vk->read(n.device, n.buffer, 0, x, sizeof x), IG_OK);
    assert_true(x[0] == 1 && x[2 * N] == -x[N] && x[N] > 2.7f && x[N] < 2.8f);
    program->destroy(program);
    deinit(&n);
}

static void a_device_that_does_not_open_is_an_error(void **state) {
    (void)state;
    net n;
    init(&n, "device");
    assert_true(vk->is_available(&n.host.base));
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_ERR_DEVICE);
    expect_words("does not open");
    deinit(&n);
    expect_all_well();
}

/* ---- shaders ---- */

/* The shader of a chain is rejected, and each step by itself is not. */
static void a_written_shader_that_is_rejected_leaves_the_built_in_ones(void **state) {
    (void)state;
    net n;
    ig_backend_program *program = NULL;
    init(&n, "written");
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_int_equal(vk->compile(n.device, n.steps, 2, (ig_blob){0}, NULL, &program),
                     IG_ERR_DEVICE);
    expect_words("chain of exp, neg: the driver rejects the shader");
    assert_null(program);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(vk->compile(n.device, &n.steps[i], 1, (ig_blob){0}, NULL, &program),
                         IG_OK);
        program->destroy(program);
    }
    deinit(&n);
    expect_all_well();
}

static void a_built_in_shader_that_is_rejected_is_named(void **state) {
    (void)state;
    static const char *const faults[] = {"shaders", "pipelines=1"};
    for (int i = 0; i < 2; i++) {
        net n;
        ig_backend_program *program = NULL;
        init(&n, faults[i]);
        assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
        assert_int_equal(vk->compile(n.device, n.steps, 1, (ig_blob){0}, NULL, &program),
                         IG_ERR_DEVICE);
        expect_words("elementwise");
        expect_words("the driver rejects the shader");
        deinit(&n);
    }
    expect_all_well();
}

/* ---- a device that goes, and memory ---- */

static void a_lost_device_is_an_error_and_everything_comes_back(void **state) {
    (void)state;
    net n;
    ig_backend_program *program = NULL;
    init(&n, "lost=3");
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_int_equal(vk->buffer_alloc(n.device, 3 * N * sizeof(float), &n.buffer), IG_OK);
    assert_int_equal(vk->compile(n.device, n.steps, 2, (ig_blob){0}, NULL, &program), IG_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(program->submit(program, &n.buffer, 1, NULL, 0), IG_OK);
    for (int i = 0; i < 3; i++) { /* and lost it stays */
        assert_int_equal(program->submit(program, &n.buffer, 1, NULL, 0), IG_ERR_DEVICE);
        expect_words("the device was lost");
    }
    program->destroy(program);
    deinit(&n);
    expect_all_well();
}

static void too_little_memory_is_a_status_with_what_is_left(void **state) {
    (void)state;
    static const char *const faults[] = {"memory=1", "memory=9000000", "memory=30000000"};
    for (int i = 0; i < 3; i++) {
        net n;
        init(&n, faults[i]);
        ig_status status = vk->open(&n.host.base, 0, &n.device);
        if (status == IG_OK) status = vk->buffer_alloc(n.device, 40 << 20, &n.buffer);
        assert_int_equal(status, IG_ERR_MEMORY);
        expect_words("bytes");
        expect_words("left");
        expect_words("out of device memory");
        deinit(&n);
    }
    expect_all_well();
}

/* Where a block of the usual size is too much, what is needed may still be had. */
static void a_small_device_gives_what_it_has(void **state) {
    (void)state;
    net n;
    init(&n, "memory=30000000");
    assert_int_equal(vk->open(&n.host.base, 0, &n.device), IG_OK);
    assert_int_equal(vk->buffer_alloc(n.device, 4 << 20, &n.buffer), IG_OK);
    deinit(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_that_fails_is_as_none),
        cmocka_unit_test(a_device_that_lacks_too_much_says_what),
        cmocka_unit_test(a_device_does_without_any_one_feature),
        cmocka_unit_test(what_no_binding_shows_is_refused),
        cmocka_unit_test(fences_go_round),
        cmocka_unit_test(a_device_that_does_not_open_is_an_error),
        cmocka_unit_test(a_written_shader_that_is_rejected_leaves_the_built_in_ones),
        cmocka_unit_test(a_built_in_shader_that_is_rejected_is_named),
        cmocka_unit_test(a_lost_device_is_an_error_and_everything_comes_back),
        cmocka_unit_test(too_little_memory_is_a_status_with_what_is_left),
        cmocka_unit_test(a_small_device_gives_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
