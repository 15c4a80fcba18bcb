/*
 * The CPU backend as a program sees it: which instruction set is taken, how steps
 * become chunks, and that neither threads nor chunks change a result.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"

/* ---- a host whose team is plain threads, one call at a time ---- */

enum { MOST_THREADS = 7 };

static struct {
    ig_team_fn *fn;
    void *task;
    uint32_t threads;
    _Atomic uint32_t entered;
    pthread_barrier_t barrier;
    _Atomic int waits; /* at barriers, of all threads */
    int calls;         /* of team() */
    int allocations;   /* not yet freed */
    int fail_after;    /* how many succeed before all fail; below 0: all succeed */
} crew;

static void *enter(void *unused) {
    crew.fn(crew.task, crew.entered++, crew.threads);
    return unused;
}

static void team(const ig_host *host, ig_team_fn *fn, void *task) {
    (void)host;
    pthread_t ids[MOST_THREADS];
    crew.calls++;
    crew.fn = fn;
    crew.task = task;
    crew.entered = 0;
    pthread_barrier_init(&crew.barrier, NULL, crew.threads);
    for (uint32_t i = 0; i < crew.threads; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, enter, NULL), 0);
    for (uint32_t i = 0; i < crew.threads; i++) pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&crew.barrier);
}

static void team_barrier(const ig_host *host) {
    (void)host;
    crew.waits++;
    pthread_barrier_wait(&crew.barrier);
}

static void *count_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    if (crew.fail_after == 0) return NULL;
    crew.fail_after--;
    crew.allocations++;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void count_free(const ig_host *host, void *p) {
    (void)host;
    if (p) crew.allocations--;
    ig_free(&ig_heap, p);
}

static const ig_host host = {
    IG_BACKEND_ABI,
    sizeof host,
    .fail = ig_fail,
    .alloc = count_alloc,
    .free = count_free,
    .team = team,
    .team_barrier = team_barrier,
};

static int start(void **state) {
    (void)state;
    crew.threads = 1;
    crew.waits = crew.calls = crew.allocations = 0;
    crew.fail_after = -1;
    return unsetenv("INGOT_ISA");
}

static int all_is_freed(void **state) {
    (void)state;
    return crew.allocations;
}

static ig_backend_device *open_cpu(const ig_host *with) {
    ig_backend_device *device = NULL;
    if (ig_cpu_backend.open(with, 0, &device) != IG_OK) fail_msg("%s", ig_error_text());
    return device;
}

/* ---- steps ---- */

static ig_operand packed(uint32_t buffer, ig_shape shape) {
    ig_operand o = {.buffer = buffer, .desc = {IG_F32, shape}, .dynamic_dim = -1, .alias = -1};
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        o.stride[d] = stride;
        stride *= shape.dim[d];
    }
    return o;
}

static ig_step step(uint32_t op, const ig_operand *in, const ig_operand *out, uint32_t level,
                    uint32_t chain) {
    const ig_op_info *info = ig_op_find(op);
    return (ig_step){.size = sizeof(ig_step),
                     .op = op,
                     .level = level,
                     .chain = chain,
                     .n_in = info->in_min,
                     .n_out = info->out_min,
                     .in = in,
                     .out = out};
}

enum { ROWS = 300, COLUMNS = 129, ELEMENTS = ROWS * ROWS, BUFFERS = 8 };
enum { SCRATCH_BUFFERS = 8, MOST_STEPS = 16 };
/* Behind the buffers lies what steps ask for as scratch, reached from the first, the arena. */
static float memory[BUFFERS + SCRATCH_BUFFERS][ELEMENTS];

static void fill(uint32_t buffer) {
    for (int i = 0; i < ELEMENTS; i++) memory[buffer][i] = (float)(i * 37 % 1009) / 1009 - 0.5f;
}

static ig_backend_program *compile(ig_backend_device *device, const ig_step *steps,
                                   uint32_t count) {
    ig_backend_program *program = NULL;
    ig_step given[MOST_STEPS];
    uint64_t offset = sizeof memory[0] * BUFFERS;
    assert_true(count <= MOST_STEPS);
    for (uint32_t i = 0; i < count; i++) { /* as the planner does */
        given[i] = steps[i];
        given[i].scratch_offset = offset;
        given[i].scratch_bytes = ig_cpu_backend.scratch_bytes(device, &steps[i]);
        offset += (given[i].scratch_bytes + 63) / 64 * 64;
    }
    assert_true(offset <= sizeof memory);
    if (ig_cpu_backend.compile(device, given, count, (ig_blob){0}, NULL, &program) != IG_OK)
        fail_msg("%s", ig_error_text());
    return program;
}

/* Runs on memory that holds nothing but buffer 0, so that no kernel finds the results of before. */
static void submit(ig_backend_program *program) {
    ig_backend_buffer *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) buffers[i] = (ig_backend_buffer *)memory[i];
    memset(memory[1], 0, sizeof memory - sizeof memory[0]);
    assert_int_equal(program->submit(program, buffers, BUFFERS, NULL, 0), IG_OK);
}

/* The backend tries one thread and the team alternately, until it knows which is faster. */
enum { RUNS = 6 };

/* Runs the steps some times, which must give the same every time. */
static void run(const ig_host *with, const ig_step *steps, uint32_t count) {
    static float first[BUFFERS][ELEMENTS];
    ig_backend_device *device = open_cpu(with);
    ig_backend_program *program = compile(device, steps, count);
    fill(0);
    submit(program);
    memcpy(first, memory, sizeof first);
    for (int i = 1; i < RUNS; i++) {
        submit(program);
        assert_memory_equal(first, memory, sizeof first);
    }
    program->destroy(program);
    ig_cpu_backend.close(device);
}

/*
 *     level    0                1                      2
 *     chain    0        1       2         3            4
 *              a = e^x  c = xx  d = b c^T  e = softmax  g = sum of d's rows
 *              b = a+x                     f = e + b
 */
static void run_three_levels(uint32_t threads) {
    const ig_shape wide = IG_SHAPE(ROWS, COLUMNS), square = IG_SHAPE(ROWS, ROWS);
    const ig_operand x = packed(0, wide), a = packed(1, wide), b = packed(2, wide);
    const ig_operand c = packed(3, wide), d = packed(4, square), e = packed(5, wide);
    const ig_operand f = packed(6, wide), g = packed(7, IG_SHAPE(ROWS, 1));
    const ig_operand ax[] = {a, x}, xx[] = {x, x}, bc[] = {b, c}, eb[] = {e, b};
    const ig_attrs_matmul transposed = {.transpose_b = 1};
    const ig_attrs_reduce rows = {.axes = 2, .keep = 1};
    ig_step steps[] = {
        step(IG_OP_EXP, &x, &a, 0, 0),     step(IG_OP_ADD, ax, &b, 0, 0),
        step(IG_OP_MUL, xx, &c, 0, 1),     step(IG_OP_MATMUL, bc, &d, 1, 2),
        step(IG_OP_SOFTMAX, &c, &e, 1, 3), step(IG_OP_ADD, eb, &f, 1, 3),
        step(IG_OP_SUM, &d, &g, 2, 4),
    };
    steps[3].attrs = &transposed;
    steps[3].attrs_bytes = sizeof transposed;
    steps[6].attrs = &rows;
    steps[6].attrs_bytes = sizeof rows;
    crew.threads = threads;
    crew.calls = 0;
    run(&host, steps, sizeof steps / sizeof steps[0]);
    assert_true(crew.calls > 0);
}

/* ---- instruction sets ---- */

static void every_set_that_is_there_can_be_forced(void **state) {
    (void)state;
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1);
        ig_backend_device *device = open_cpu(&host);
        ig_device_info info = {.struct_size = sizeof info};
        ig_cpu_backend.info(device, &info);
        assert_non_null(strstr(info.name, ig_cpu_isa_name(isa)));
        assert_int_equal(info.device_class, IG_DEVICE_CPU);
        /* Every dtype has kernels that compute but F64, which is only moved and cast. */
        assert_int_equal(info.dtypes, ((1u << IG_DTYPE_COUNT) - 1) & ~(1u << IG_F64));
        ig_cpu_backend.close(device);
    }
}

static void without_a_wish_the_best_set_is_taken(void **state) {
    (void)state;
    ig_isa isa;
    assert_int_equal(ig_isa_choose(&host, &isa), IG_OK);
    assert_int_equal(isa, ig_isa_best());
    setenv("INGOT_ISA", "", 1);
    assert_int_equal(ig_isa_choose(&host, &isa), IG_OK);
    assert_int_equal(isa, ig_isa_best());
}

static void an_unknown_set_is_refused_and_the_known_ones_are_named(void **state) {
    (void)state;
    ig_backend_device *device = NULL;
    setenv("INGOT_ISA", "avx1024", 1);
    assert_int_equal(ig_cpu_backend.open(&host, 0, &device), IG_ERR_DEVICE);
    assert_null(device);
    assert_non_null(strstr(ig_error_text(), "avx1024"));
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        assert_true(!ig_isa_available(isa) || strstr(ig_error_text(), ig_cpu_isa_name(isa)));
}

static void there_is_one_device(void **state) {
    (void)state;
    ig_backend_device *device = NULL;
    assert_int_equal(ig_cpu_backend.open(&host, 1, &device), IG_ERR_DEVICE);
    assert_non_null(strstr(ig_error_text(), "cpu:1"));
}

static void info_writes_no_more_than_the_host_knows(void **state) {
    (void)state;
    ig_backend_device *device = open_cpu(&host);
    ig_device_info info;
    memset(&info, 0x5a, sizeof info);
    info.struct_size = offsetof(ig_device_info, name);
    ig_cpu_backend.info(device, &info);
    assert_int_equal(info.alignment, 64);
    assert_int_equal(info.name[0], 0x5a);
    ig_cpu_backend.close(device);
}

/* ---- programs ---- */

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    static const uint32_t threads[] = {2, 3, MOST_THREADS};
    static float alone[BUFFERS][ELEMENTS];
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1);
        run_three_levels(1);
        memcpy(alone, memory, sizeof alone);
        assert_true(alone[7][ROWS - 1] != 0);
        for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            run_three_levels(threads[i]);
            assert_memory_equal(alone, memory, sizeof alone);
        }
    }
}

/* One row, so that it could be cut only between elements: but each element needs the first. */
static void a_chain_that_repeats_what_it_computed_is_not_cut(void **state) {
    (void)state;
    const ig_shape line = IG_SHAPE(1, ELEMENTS);
    const ig_operand x = packed(0, line), y = packed(1, line), z = packed(2, line);
    ig_operand first = y;
    first.stride[1] = 0;
    const ig_operand y_first[] = {y, first};
    const ig_step steps[] = {step(IG_OP_EXP, &x, &y, 0, 0), step(IG_OP_SUB, y_first, &z, 0, 0)};
    for (int round = 0; round < 20; round++) {
        memset(memory, 0, sizeof memory);
        fill(0);
        crew.threads = 3;
        run(&host, steps, 2);
        for (int i = 0; i < ELEMENTS; i++) assert_true(memory[2][i] == memory[1][i] - memory[1][0]);
    }
}

/* The planner may chain what this backend computes in units of another kind. */
static void a_chained_product_is_done_before_it_is_read(void **state) {
    (void)state;
    const ig_shape square = IG_SHAPE(ROWS, ROWS);
    const ig_operand x = packed(0, square), y = packed(1, square), z = packed(2, square);
    const ig_operand xx[] = {x, x}, yy[] = {y, y};
    const ig_attrs_matmul plain = {0};
    ig_step steps[] = {step(IG_OP_MATMUL, xx, &y, 0, 0), step(IG_OP_ADD, yy, &z, 0, 0)};
    steps[0].attrs = &plain;
    steps[0].attrs_bytes = sizeof plain;
    crew.threads = 3;
    for (int round = 0; round < 5; round++) run(&host, steps, 2);
    for (int i = 0; i < ELEMENTS; i++) assert_true(memory[2][i] == 2 * memory[1][i]);
    assert_true(crew.calls > 0);
}

/* y = e^x, z = y w^T where w is blocks: what the product needs of y is made with y, so that there
 * is one barrier, and not another one behind the rounding. */
static void check_rounding(int64_t m) {
    static float apart[ELEMENTS];
    enum { K = 256, N = 512 };
    const ig_operand x = packed(0, IG_SHAPE(m, K)), y = packed(1, IG_SHAPE(m, K));
    const ig_operand z = packed(2, IG_SHAPE(m, N));
    ig_operand yw[] = {y, packed(0, IG_SHAPE(N, K))};
    const ig_attrs_matmul transposed = {.transpose_b = 1};
    yw[1].desc.dtype = IG_Q4_0;
    ig_step steps[] = {step(IG_OP_EXP, &x, &y, 0, 0), step(IG_OP_MATMUL, yw, &z, 1, 1)};
    steps[1].attrs = &transposed;
    steps[1].attrs_bytes = sizeof transposed;
    crew.waits = crew.calls = 0;
    run(&host, steps, 2);
    assert_true(crew.calls > 0);
    assert_int_equal(crew.waits, crew.threads * crew.calls);
    memcpy(apart, memory[2], sizeof apart);
    steps[1].level = 2; /* as if others stood between the two */
    crew.waits = crew.calls = 0;
    run(&host, steps, 2);
    assert_int_equal(crew.waits, 2 * crew.threads * crew.calls);
    assert_memory_equal(apart, memory[2], sizeof apart);
}

static void activations_are_rounded_where_they_are_made(void **state) {
    (void)state;
    assert_int_equal(setenv("INGOT_ISA", "scalar", 1), 0); /* others may round in tiles */
    crew.threads = 2;
    check_rounding(1);
    check_rounding(96);
}

/* A host may chain what can only be cut between rows, and the rows may have no columns. */
static void a_chain_of_rows_without_columns_is_nothing_to_do(void **state) {
    (void)state;
    const ig_shape none = IG_SHAPE(ROWS, 0);
    const ig_operand x = packed(0, none), y = packed(1, none);
    const ig_operand deep = packed(0, IG_SHAPE(ROWS, 0, 4)), sum = packed(2, none);
    const ig_attrs_reduce last = {.axes = 1u << 2};
    ig_step steps[] = {step(IG_OP_NEG, &x, &y, 0, 0), step(IG_OP_SUM, &deep, &sum, 0, 0)};
    steps[1].attrs = &last;
    steps[1].attrs_bytes = sizeof last;
    run(&host, steps, 2);
}

static void small_programs_stay_on_the_calling_thread(void **state) {
    (void)state;
    const ig_operand x = packed(0, IG_SHAPE(2, 5)), y = packed(1, IG_SHAPE(2, 5)), xy[] = {x, y};
    const ig_operand z = packed(2, IG_SHAPE(2, 5));
    const ig_step steps[] = {step(IG_OP_NEG, &x, &y, 0, 0), step(IG_OP_ADD, xy, &z, 1, 1)};
    run(&host, steps, 2);
    assert_int_equal(crew.calls, 0);
    assert_true(memory[0][9] != 0 && memory[2][9] == 0);
}

static void a_host_without_a_team_is_served_alone(void **state) {
    (void)state;
    static float want[ELEMENTS];
    const ig_operand x = packed(0, IG_SHAPE(ELEMENTS)), y = packed(1, IG_SHAPE(ELEMENTS));
    const ig_step only = step(IG_OP_TANH, &x, &y, 0, 0);
    ig_host lonely = host;
    lonely.team = NULL;
    lonely.team_barrier = NULL;
    run(&host, &only, 1);
    assert_true(crew.calls > 0);
    memcpy(want, memory[1], sizeof want);
    run(&lonely, &only, 1);
    assert_memory_equal(want, memory[1], sizeof want);
}

static void a_program_runs_again_on_new_numbers_and_allocates_nothing(void **state) {
    (void)state;
    const ig_operand x = packed(0, IG_SHAPE(ELEMENTS)), y = packed(1, IG_SHAPE(ELEMENTS));
    const ig_step only = step(IG_OP_NEG, &x, &y, 0, 0);
    ig_backend_device *device = open_cpu(&host);
    ig_backend_program *program = compile(device, &only, 1);
    crew.threads = 2;
    crew.fail_after = 0;
    for (int round = 0; round < RUNS; round++) {
        for (int i = 0; i < ELEMENTS; i++) memory[0][i] = (float)(i + round);
        submit(program);
        for (int i = 0; i < ELEMENTS; i++) assert_true(memory[1][i] == -(float)(i + round));
    }
    program->destroy(program);
    ig_cpu_backend.close(device);
}

static void steps_that_no_kernel_fits_are_refused_by_name(void **state) {
    (void)state;
    const ig_operand x = packed(0, IG_SHAPE(4)), y = packed(1, IG_SHAPE(4));
    ig_operand wide = x;
    wide.desc.dtype = IG_F64;
    ig_step unknown = step(IG_OP_NEG, &x, &y, 0, 0);
    unknown.op = IG_OP_COUNT + 5;
    const struct {
        ig_step step;
        const char *words;
    } cases[] = {
        {unknown, "cpu: step 1: no kernel for unknown op"},
        {step(IG_OP_CUSTOM, &x, &y, 0, 0), "no kernel for custom"},
        {step(IG_OP_EXP, &wide, &wide, 0, 0), "no kernel for exp of f64"},
    };
    ig_backend_device *device = open_cpu(&host);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ig_step steps[] = {step(IG_OP_NEG, &x, &y, 0, 0), cases[i].step};
        ig_backend_program *program = NULL;
        assert_false(ig_cpu_backend.can_run(device, &cases[i].step));
        assert_int_equal(ig_cpu_backend.compile(device, steps, 2, (ig_blob){0}, NULL, &program),
                         IG_ERR_UNSUPPORTED);
        assert_null(program);
        if (!strstr(ig_error_text(), cases[i].words)) fail_msg("%s", ig_error_text());
    }
    ig_cpu_backend.close(device);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const ig_operand x = packed(0, IG_SHAPE(4)), y = packed(1, IG_SHAPE(4));
    const ig_step only = step(IG_OP_NEG, &x, &y, 0, 0);
    for (int n = 0;; n++) {
        ig_backend_device *device = NULL;
        ig_backend_program *program = NULL;
        crew.fail_after = n;
        ig_status status = ig_cpu_backend.open(&host, 0, &device);
        if (status == IG_OK)
            status = ig_cpu_backend.compile(device, &only, 1, (ig_blob){0}, NULL, &program);
        if (program) program->destroy(program);
        if (device) ig_cpu_backend.close(device);
        assert_int_equal(crew.allocations, 0);
        if (status == IG_OK) return;
        assert_int_equal(status, IG_ERR_MEMORY);
        assert_null(program);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, all_is_freed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_set_that_is_there_can_be_forced),
        TEST(without_a_wish_the_best_set_is_taken),
        TEST(an_unknown_set_is_refused_and_the_known_ones_are_named),
        TEST(there_is_one_device),
        TEST(info_writes_no_more_than_the_host_knows),
        TEST(results_do_not_depend_on_the_number_of_threads),
        TEST(a_chain_that_repeats_what_it_computed_is_not_cut),
        TEST(a_chained_product_is_done_before_it_is_read),
        TEST(a_chain_of_rows_without_columns_is_nothing_to_do),
        TEST(small_programs_stay_on_the_calling_thread),
        TEST(activations_are_rounded_where_they_are_made),
        TEST(a_host_without_a_team_is_served_alone),
        TEST(a_program_runs_again_on_new_numbers_and_allocates_nothing),
        TEST(steps_that_no_kernel_fits_are_refused_by_name),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
