/*
 * The Vulkan device apart from its kernels: drivers that are missing or broken, memory,
 * copies among submitted programs, runs with other buffers and other slots.  What
 * needs a device is skipped without one.
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

typedef struct session {
    ig_test_host host; /* first: trace() gets its address */
    ig_backend_device *device;
    uint32_t traced; /* calls of trace() */
} session;

static void open_device(session *s) {
    ig_test_host_init(&s->host, 2);
    if (!vk->is_available(&s->host.base)) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        ig_test_host_deinit(&s->host);
        skip();
    }
    assert_int_equal(vk->open(&s->host.base, 0, &s->device), IG_OK);
}

/* All memory came back, and the validation layer had nothing to say. */
static void close_device(session *s) {
    vk->close(s->device);
    assert_int_equal(s->host.live, 0);
    assert_int_equal(s->host.warnings, 0);
    ig_test_host_deinit(&s->host);
}

/* ---- drivers ---- */

/* A list of drivers for the loader to use instead of the machine's. */
static void with_drivers(const char *list, const char *words) {
    ig_test_host host;
    ig_backend_device *device = NULL;
    static const char *const names[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"};
    char *before[2];
    ig_test_host_init(&host, 1);
    for (int i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        before[i] = value ? strdup(value) : NULL;
        setenv(names[i], list, 1);
    }
    assert_false(vk->is_available(&host.base));
    assert_non_null(strstr(ig_error_text(), words));
    assert_int_equal(vk->count(&host.base), 0);
    if (vk->open) assert_int_equal(vk->open(&host.base, 0, &device), IG_ERR_DEVICE);
    assert_null(device);
    assert_int_equal(host.live, 0);
    for (int i = 0; i < 2; i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
    ig_test_host_deinit(&host);
}

static void without_a_driver_it_is_not_available_and_says_why(void **state) {
    (void)state;
    with_drivers("/nowhere/driver.json", "vulkan");
}

static void a_driver_that_cannot_be_loaded_is_as_none(void **state) {
    (void)state;
    char path[] = "/tmp/ingot-driver-XXXXXX";
    static const char text[] = "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": "
                               "\"/nowhere/libdriver.so\", \"api_version\": \"1.3.0\"}}\n";
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    with_drivers(path, "vulkan");
    remove(path);
}

static void a_filter_that_no_device_meets_leaves_none(void **state) {
    (void)state;
    ig_test_host host;
    ig_test_host_init(&host, 1);
    setenv("INGOT_VULKAN_DEVICE", "no such device", 1);
    assert_int_equal(vk->count(&host.base), 0);
    unsetenv("INGOT_VULKAN_DEVICE");
    ig_test_host_deinit(&host);
}

static void a_device_is_found_by_a_part_of_its_name(void **state) {
    (void)state;
    session s;
    ig_device_info info = {.struct_size = sizeof info};
    open_device(&s);
    vk->info(s.device, &info);
    info.name[strlen(info.name) / 2] = 0;
    setenv("INGOT_VULKAN_DEVICE", info.name, 1);
    assert_true(vk->count(&s.host.base) > 0);
    setenv("INGOT_VULKAN_DEVICE", "no such device", 1);
    assert_int_equal(vk->count(&s.host.base), 0);
    assert_non_null(strstr(ig_error_text(), "is not what INGOT_VULKAN_DEVICE asks for"));
    unsetenv("INGOT_VULKAN_DEVICE");
    close_device(&s);
}

static void a_device_beyond_the_last_is_an_error(void **state) {
    (void)state;
    session s;
    ig_backend_device *device = NULL;
    open_device(&s);
    assert_int_equal(vk->open(&s.host.base, 1000, &device), IG_ERR_DEVICE);
    assert_non_null(strstr(ig_error_text(), "counted from 0"));
    close_device(&s);
}

/* ---- memory ---- */

static void buffers_are_counted_and_keep_their_bytes_apart(void **state) {
    (void)state;
    enum { COUNT = 40 };
    session s;
    ig_backend_buffer *buffers[COUNT];
    ig_memory_stats stats;
    unsigned char bytes[5000], back[5000];
    open_device(&s);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            const uint64_t size = 1 + (uint64_t)(i * 131 + round * 17) % sizeof bytes;
            assert_int_equal(vk->buffer_alloc(s.device, size, &buffers[i]), IG_OK);
            memset(bytes, i + 1, size);
            assert_int_equal(vk->write(s.device, buffers[i], 0, bytes, size), IG_OK);
        }
        for (int i = 0; i < COUNT; i++) {
            const uint64_t size = 1 + (uint64_t)(i * 131 + round * 17) % sizeof bytes;
            memset(bytes, i + 1, size);
            assert_int_equal(vk->read(s.device, buffers[i], 0, back, size), IG_OK);
            assert_memory_equal(back, bytes, size);
        }
        vk->memory_stats(s.device, &stats);
        assert_true(stats.allocated_bytes >= COUNT && stats.available_bytes > 0);
        for (int i = 0; i < COUNT; i++) vk->buffer_free(s.device, buffers[(i * 7) % COUNT]);
        vk->memory_stats(s.device, &stats);
        assert_int_equal(stats.allocated_bytes, 0);
    }
    assert_true(stats.peak_bytes > 0);
    vk->reset_memory_stats(s.device);
    vk->memory_stats(s.device, &stats);
    assert_int_equal(stats.peak_bytes, 0);
    close_device(&s);
}

static void too_large_a_buffer_is_an_error_that_says_what_is_left(void **state) {
    (void)state;
    session s;
    ig_backend_buffer *buffer = NULL;
    open_device(&s);
    assert_int_equal(vk->buffer_alloc(s.device, UINT64_C(1) << 50, &buffer), IG_ERR_MEMORY);
    assert_non_null(strstr(ig_error_text(), "left"));
    assert_int_equal(vk->buffer_alloc(s.device, UINT64_MAX, &buffer), IG_ERR_MEMORY);
    assert_int_equal(vk->buffer_alloc(s.device, 64, &buffer), IG_OK); /* and it goes on */
    vk->buffer_free(s.device, buffer);
    close_device(&s);
}

/* ---- programs ---- */

enum { N = 1000 };

/* w -= rate g, with the rate from a slot */
typedef struct step_of_sgd {
    ig_operand operands[3];
    ig_attrs_sgd attrs;
    ig_step step;
} step_of_sgd;

static void make_sgd(step_of_sgd *s) {
    *s = (step_of_sgd){0};
    for (int i = 0; i < 3; i++)
        s->operands[i] = (ig_operand){.value = (uint32_t)i,
                                      .buffer = 1 + (uint32_t)i % 2,
                                      .desc = {IG_F32, IG_SHAPE(N)},
                                      .stride = {1},
                                      .dynamic_dim = -1,
                                      .alias = i == 2 ? 0 : -1};
    s->step = (ig_step){.size = sizeof(ig_step),
                        .op = IG_OP_SGD,
                        .attrs_bytes = sizeof s->attrs,
                        .n_in = 2,
                        .n_out = 1,
                        .attrs = &s->attrs,
                        .in = s->operands,
                        .out = s->operands + 2};
}

static void fill(float *x, float value) {
    for (int i = 0; i < N; i++) x[i] = value;
}

/* Runs that are not waited for: each with a rate of its own, gradients overwritten in between,
 * weights that take turns. */
static void runs_copies_and_slots_keep_their_order(void **state) {
    (void)state;
    enum { RUNS = 60, WEIGHTS = 7 };
    session s;
    step_of_sgd sgd;
    ig_backend_program *program = NULL;
    ig_backend_buffer *weights[WEIGHTS], *gradient;
    float x[N], want[WEIGHTS] = {0};
    open_device(&s);
    make_sgd(&sgd);
    assert_int_equal(vk->compile(s.device, &sgd.step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(vk->buffer_alloc(s.device, sizeof x, &gradient), IG_OK);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_int_equal(vk->buffer_alloc(s.device, sizeof x, &weights[i]), IG_OK);
        fill(x, 0);
        assert_int_equal(vk->write(s.device, weights[i], 0, x, sizeof x), IG_OK);
    }
    for (int run = 0; run < RUNS; run++) {
        const ig_slot rate = {.f = run % 5};
        ig_backend_buffer *buffers[] = {NULL, weights[run % WEIGHTS], gradient};
        fill(x, (float)run);
        assert_int_equal(vk->write(s.device, gradient, 0, x, sizeof x), IG_OK);
        assert_int_equal(program->submit(program, buffers, 3, &rate, 1), IG_OK);
        want[run % WEIGHTS] -= (float)(run % 5) * (float)run;
    }
    for (int i = 0; i < WEIGHTS; i++) {
        assert_int_equal(vk->read(s.device, weights[i], 0, x, sizeof x), IG_OK);
        for (int k = 0; k < N; k++) assert_true(x[k] == want[i]);
        vk->buffer_free(s.device, weights[i]);
    }
    assert_int_equal(vk->synchronize(s.device), IG_OK);
    vk->buffer_free(s.device, gradient);
    program->destroy(program);
    close_device(&s);
}

/* Also where the host does not see them, and runs bring them along because they were read before:
 * reads of other places, writes, and runs whose results are not read come in between. */
static void a_few_bytes_are_those_of_the_last_run(void **state) {
    (void)state;
    enum { RUNS = 40 };
    session s;
    step_of_sgd sgd;
    ig_backend_program *program = NULL;
    ig_backend_buffer *buffers[3] = {0};
    float x[N], want = 0, got = 0;
    const ig_slot rate = {.f = 1};
    open_device(&s);
    make_sgd(&sgd);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(vk->buffer_alloc(s.device, sizeof x, &buffers[i]), IG_OK);
        fill(x, (float)(i - 1));
        assert_int_equal(vk->write(s.device, buffers[i], 0, x, sizeof x), IG_OK);
    }
    assert_int_equal(vk->compile(s.device, &sgd.step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    for (int run = 0; run < RUNS; run++) {
        assert_int_equal(program->submit(program, buffers, 3, &rate, 1), IG_OK);
        want -= 1;
        if (run % 11 == 10) {
            want = (float)run;
            assert_int_equal(vk->write(s.device, buffers[1], 8, &want, sizeof want), IG_OK);
        }
        if (run % 7 == 6) continue;
        if (run % 13 == 12) {
            assert_int_equal(vk->read(s.device, buffers[2], 8, &got, sizeof got), IG_OK);
            assert_true(got == 1);
        }
        assert_int_equal(vk->read(s.device, buffers[1], 8, &got, sizeof got), IG_OK);
        assert_true(got == want);
    }
    for (int run = 0; run < 4; run++) {
        assert_int_equal(program->submit(program, buffers, 3, &rate, 1), IG_OK);
        assert_int_equal(vk->read(s.device, buffers[1], 8, &got, sizeof got), IG_OK);
        assert_true(got == --want);
    }
    for (int again = 0; again < 5; again++) { /* of another place, without a run between */
        assert_int_equal(vk->read(s.device, buffers[2], 8, &got, sizeof got), IG_OK);
        assert_true(got == 1);
    }
    for (int i = 1; i < 3; i++) vk->buffer_free(s.device, buffers[i]);
    program->destroy(program);
    close_device(&s);
}

/* A program that goes while it runs is waited for. */
static void a_program_may_be_destroyed_right_after_its_run(void **state) {
    (void)state;
    session s;
    step_of_sgd sgd;
    ig_backend_program *program = NULL;
    ig_backend_buffer *buffers[3] = {0};
    float x[N];
    const ig_slot rate = {.f = 2};
    open_device(&s);
    make_sgd(&sgd);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(vk->buffer_alloc(s.device, sizeof x, &buffers[i]), IG_OK);
        fill(x, (float)i);
        assert_int_equal(vk->write(s.device, buffers[i], 0, x, sizeof x), IG_OK);
    }
    assert_int_equal(vk->compile(s.device, &sgd.step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(program->submit(program, buffers, 3, &rate, 1), IG_OK);
    program->destroy(program);
    assert_int_equal(vk->read(s.device, buffers[1], 0, x, sizeof x), IG_OK);
    assert_true(x[0] == -3 && x[N - 1] == -3);
    for (int i = 1; i < 3; i++) vk->buffer_free(s.device, buffers[i]);
    close_device(&s);
}

static void note(const ig_host *host, uint32_t thread, uint32_t step, uint64_t begin_ns,
                 uint64_t end_ns) {
    session *s = (session *)host;
    assert_int_equal(thread, 0);
    assert_int_equal(step, 0);
    assert_true(begin_ns > 0 && begin_ns <= end_ns);
    s->traced++;
}

/* Runs before and after it are not. */
static void a_run_that_is_watched_tells_when_its_step_ran(void **state) {
    (void)state;
    session s = {0};
    step_of_sgd sgd;
    ig_backend_program *program = NULL;
    ig_backend_buffer *buffers[3] = {0};
    float x[N];
    open_device(&s);
    make_sgd(&sgd);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(vk->buffer_alloc(s.device, sizeof x, &buffers[i]), IG_OK);
        fill(x, 1);
        assert_int_equal(vk->write(s.device, buffers[i], 0, x, sizeof x), IG_OK);
    }
    assert_int_equal(vk->compile(s.device, &sgd.step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    for (int run = 0; run < 5; run++) {
        const ig_slot rate = {.f = run};
        s.host.base.trace = run == 1 || run == 3 ? note : NULL;
        assert_int_equal(program->submit(program, buffers, 3, &rate, 1), IG_OK);
    }
    assert_int_equal(s.traced, 2);
    assert_int_equal(vk->read(s.device, buffers[1], 0, x, sizeof x), IG_OK);
    assert_true(x[0] == 1 - (0 + 1 + 2 + 3 + 4) && x[N - 1] == x[0]);
    for (int i = 1; i < 3; i++) vk->buffer_free(s.device, buffers[i]);
    program->destroy(program);
    close_device(&s);
}

/* ---- what is saved ---- */

/* What one device has compiled, another one of the same driver takes back; anything else it says no
 * to, and can still compile. */
static void saved_pipelines_are_taken_back_unless_damaged(void **state) {
    (void)state;
    enum { HEAD = 24, UUID = HEAD + 16, DEVICE = HEAD + 12 };
    static const size_t damaged[] = {0, 8, 16, UUID, DEVICE};
    session s;
    step_of_sgd sgd;
    ig_backend_program *program = NULL;
    ig_blob saved;
    open_device(&s);
    make_sgd(&sgd);
    assert_int_equal(vk->compile(s.device, &sgd.step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(vk->save(program, &saved), IG_OK);
    assert_true(saved.size > HEAD);
    char *copy = malloc(saved.size);
    assert_non_null(copy);
    memcpy(copy, saved.bytes, saved.size);
    program->destroy(program);
    vk->close(s.device);
    assert_int_equal(vk->open(&s.host.base, 0, &s.device), IG_OK);
    for (size_t i = 0; i <= sizeof damaged / sizeof damaged[0]; i++) {
        ig_blob given = {copy, saved.size};
        if (i < sizeof damaged / sizeof damaged[0])
            copy[damaged[i]] ^= 1;
        else
            given.size--;
        assert_int_equal(vk->compile(s.device, &sgd.step, 1, given, NULL, &program), IG_ERR_FORMAT);
        assert_non_null(strstr(ig_error_text(), "damaged, or of another driver"));
        if (i < sizeof damaged / sizeof damaged[0]) copy[damaged[i]] ^= 1;
    }
    assert_int_equal(
        vk->compile(s.device, &sgd.step, 1, (ig_blob){copy, saved.size}, NULL, &program), IG_OK);
    program->destroy(program);
    free(copy);
    close_device(&s);
}

/* More than a binding of a descriptor could show: 128 MiB on lavapipe. */
static void a_kernel_reaches_beyond_the_range_of_a_binding(void **state) {
    (void)state;
    enum { COUNT = 36 << 20 }; /* 144 MiB */
    session s;
    ig_operand operands[2];
    ig_backend_buffer *buffer;
    ig_backend_program *program = NULL;
    const float five = 5;
    float x = 0;
    open_device(&s);
    for (int i = 0; i < 2; i++)
        operands[i] = (ig_operand){.desc = {IG_F32, IG_SHAPE(COUNT)},
                                   .stride = {1},
                                   .dynamic_dim = -1,
                                   .kind = IG_KIND_LOCAL,
                                   .alias = i == 1 ? 0 : -1};
    const ig_step step = {.size = sizeof step,
                          .op = IG_OP_NEG,
                          .n_in = 1,
                          .n_out = 1,
                          .in = operands,
                          .out = operands + 1};
    const uint64_t bytes = (uint64_t)COUNT * sizeof(float), last = bytes - sizeof(float);
    assert_int_equal(vk->buffer_alloc(s.device, bytes, &buffer), IG_OK);
    assert_int_equal(vk->write(s.device, buffer, last, &five, sizeof five), IG_OK);
    assert_int_equal(vk->compile(s.device, &step, 1, (ig_blob){0}, NULL, &program), IG_OK);
    assert_int_equal(program->submit(program, &buffer, 1, NULL, 0), IG_OK);
    assert_int_equal(vk->read(s.device, buffer, last, &x, sizeof x), IG_OK);
    assert_true(x == -five);
    program->destroy(program);
    vk->buffer_free(s.device, buffer);
    close_device(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver_it_is_not_available_and_says_why),
        cmocka_unit_test(a_driver_that_cannot_be_loaded_is_as_none),
        cmocka_unit_test(a_filter_that_no_device_meets_leaves_none),
        cmocka_unit_test(a_device_is_found_by_a_part_of_its_name),
        cmocka_unit_test(a_device_beyond_the_last_is_an_error),
        cmocka_unit_test(buffers_are_counted_and_keep_their_bytes_apart),
        cmocka_unit_test(too_large_a_buffer_is_an_error_that_says_what_is_left),
        cmocka_unit_test(runs_copies_and_slots_keep_their_order),
        cmocka_unit_test(a_few_bytes_are_those_of_the_last_run),
        cmocka_unit_test(a_program_may_be_destroyed_right_after_its_run),
        cmocka_unit_test(a_run_that_is_watched_tells_when_its_step_ran),
        cmocka_unit_test(saved_pipelines_are_taken_back_unless_damaged),
        cmocka_unit_test(a_kernel_reaches_beyond_the_range_of_a_binding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
