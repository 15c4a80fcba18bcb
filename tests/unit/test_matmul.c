/*
 * Matmul is bit-exact.  Every element is one chain of multiply-adds over
 * ascending k, then the bias, then the activation: so a plain loop gives the same
 * bits as any kernel, however it packs, cuts and shares the work.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "base/team.h"

/* ---- running a step ---- */

static ig_team *crew;

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) {
    (void)host;
    ig_free(&ig_heap, p);
}

static void team(const ig_host *host, ig_team_fn *fn, void *task) {
    (void)host;
    ig_team_run(crew, fn, task);
}

static void team_barrier(const ig_host *host) {
    (void)host;
    ig_team_barrier(crew);
}

static const ig_host host = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof host,
    .fail = ig_fail,
    .alloc = host_alloc,
    .free = host_free,
    .team = team,
    .team_barrier = team_barrier,
};

enum { ARENA, A, B, BIAS, RESIDUAL, Y, BUFFERS, GUARD = 64 };

static float *new_floats(int64_t count) {
    float *p = ig_alloc(&ig_heap, (size_t)count + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

/* Numbers whose products do not fit a float, so that every rounding shows. */
static float *new_numbers(int64_t count, uint32_t seed) {
    float *p = new_floats(count);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    return p;
}

static ig_operand packed(uint32_t buffer, ig_shape shape) {
    ig_operand o = {.buffer = buffer, .desc = {IG_F32, shape}, .dynamic_dim = -1, .alias = -1};
    int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; d--) {
        o.stride[d] = stride;
        stride *= shape.dim[d];
    }
    return o;
}

/* Runs the step by the team and then alone, as the backend does to find out what is faster. */
static void run_step(ig_isa isa, uint32_t threads, ig_step *step, float *const *memory, float *y,
                     int64_t elements) {
    ig_backend_device *device = NULL;
    ig_backend_program *program = NULL;
    setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1);
    assert_int_equal(ig_team_create(&ig_heap, threads, &crew), IG_OK);
    if (ig_cpu_backend.open(&host, 0, &device) != IG_OK) fail_msg("%s", ig_error_text());
    step->scratch_bytes = ig_cpu_backend.scratch_bytes(device, step);
    float *arena = new_floats((int64_t)(step->scratch_bytes / sizeof *arena));
    if (ig_cpu_backend.compile(device, step, 1, (ig_blob){0}, NULL, &program) != IG_OK)
        fail_msg("%s", ig_error_text());

    ig_backend_buffer *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) buffers[i] = (ig_backend_buffer *)memory[i];
    buffers[ARENA] = (ig_backend_buffer *)arena;
    for (int run = 0; run < 2; run++) {
        float *result = new_floats(elements + GUARD);
        memset(result, 0xff, (size_t)(elements + GUARD) * sizeof *result);
        buffers[Y] = (ig_backend_buffer *)result;
        assert_int_equal(program->submit(program, buffers, BUFFERS, NULL, 0), IG_OK);
        for (int i = 0; i < GUARD; i++) assert_true(isnan(result[elements + i]));
        if (run > 0) assert_memory_equal(result, y, (size_t)elements * sizeof *y);
        memcpy(y, result, (size_t)elements * sizeof *y);
        ig_free(&ig_heap, result);
    }
    program->destroy(program);
    ig_cpu_backend.close(device);
    ig_free(&ig_heap, arena);
    ig_team_destroy(crew);
}

/* ---- products ---- */

typedef struct problem {
    int64_t m, n, k;
    bool transpose_a, transpose_b, has_bias;
    uint32_t activation;
    float *a, *b, *bias; /* [m, k] or [k, m], [k, n] or [n, k], [n] */
    float *residual;     /* [m, n], or NULL */
} problem;

static problem new_problem(int64_t m, int64_t n, int64_t k, int form) {
    problem p = {.m = m, .n = n, .k = k};
    p.transpose_a = form & 1;
    p.transpose_b = form & 2;
    p.has_bias = form & 4;
    p.a = new_numbers(m * k, 1);
    p.b = new_numbers(k * n, 2);
    p.bias = new_numbers(n, 3);
    return p;
}

static void free_problem(problem *p) {
    ig_free(&ig_heap, p->a);
    ig_free(&ig_heap, p->b);
    ig_free(&ig_heap, p->bias);
}

static float a_of(const problem *p, int64_t i, int64_t k) {
    return p->a[p->transpose_a ? k * p->m + i : i * p->k + k];
}

static float b_of(const problem *p, int64_t k, int64_t j) {
    return p->b[p->transpose_b ? j * p->k + k : k * p->n + j];
}

/* Where a is transposed and the result small, long sums are split along k: the samples of a split.
 */
static int64_t samples_of(const problem *p) {
    enum { LEAST = 256, PARTS = 16, LARGEST = 1 << 15 };
    if (!p->transpose_a || p->k < 2 * LEAST || p->m * p->n > LARGEST) return p->k;
    const int64_t samples = (p->k + PARTS - 1) / PARTS;
    return samples > LEAST ? samples : LEAST;
}

/* What the plain loop gives; without FMA a product is rounded before it is added. */
static float dot(const problem *p, bool fma_is_there, int64_t i, int64_t j, int64_t k0, int64_t k) {
    float sum = 0;
    for (; k0 < k && k0 < p->k; k0++)
        sum = fma_is_there ? fmaf(a_of(p, i, k0), b_of(p, k0, j), sum)
                           : a_of(p, i, k0) * b_of(p, k0, j) + sum;
    return sum;
}

static void chain(const problem *p, bool fma_is_there, float *y) {
    const int64_t samples = samples_of(p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = dot(p, fma_is_there, i, j, 0, samples);
            for (int64_t k = samples; k < p->k; k += samples)
                sum += dot(p, fma_is_there, i, j, k, k + samples);
            y[i * p->n + j] = p->has_bias ? sum + p->bias[j] : sum;
        }
}

static void multiply(const problem *p, ig_isa isa, uint32_t threads, float *y) {
    const ig_attrs_matmul attrs = {.transpose_a = p->transpose_a,
                                   .transpose_b = p->transpose_b,
                                   .activation = p->activation,
                                   .residual = p->residual != NULL};
    ig_operand in[4] = {
        packed(A, p->transpose_a ? IG_SHAPE(p->k, p->m) : IG_SHAPE(p->m, p->k)),
        packed(B, p->transpose_b ? IG_SHAPE(p->n, p->k) : IG_SHAPE(p->k, p->n)),
        packed(BIAS, IG_SHAPE(p->n)),
    };
    uint32_t n_in = p->has_bias ? 3 : 2;
    if (p->residual) in[n_in++] = packed(RESIDUAL, IG_SHAPE(p->m, p->n));
    const ig_operand out = packed(Y, IG_SHAPE(p->m, p->n));
    ig_step step = {.size = sizeof step,
                    .op = IG_OP_MATMUL,
                    .attrs = &attrs,
                    .attrs_bytes = sizeof attrs,
                    .n_in = n_in,
                    .n_out = 1,
                    .in = in,
                    .out = &out};
    float *const memory[BUFFERS] = {
        [A] = p->a, [B] = p->b, [BIAS] = p->bias, [RESIDUAL] = p->residual};
    run_step(isa, threads, &step, memory, y, p->m * p->n);
}

static void expect_bits(const problem *p, ig_isa isa, const float *got, const float *want) {
    for (int64_t i = 0; i < p->m * p->n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("%s: %lld x %lld x %lld%s%s%s: element [%lld, %lld] is %.9g, not %.9g",
                     ig_cpu_isa_name(isa), (long long)p->m, (long long)p->n, (long long)p->k,
                     p->transpose_a ? ", a transposed" : "", p->transpose_b ? ", b transposed" : "",
                     p->has_bias ? ", bias" : "", (long long)(i / p->n), (long long)(i % p->n),
                     (double)got[i], (double)want[i]);
}

/* Of every kind: read in place, packed by each unit, packed before all units; one or more
 * k-blocks; tails of rows, columns and k. */
static const int64_t sizes[][3] = {
    {1, 1, 1},       {1, 100, 37},   {2, 33, 1},      {3, 130, 70},   {6, 65, 64},
    {8, 200, 513},   {9, 5, 4},      {12, 48, 600},   {13, 33, 33},   {24, 32, 8},
    {27, 64, 32},    {32, 27, 64},   {32, 64, 128},   {40, 1, 70},    {97, 17, 9},
    {30, 40, 1024},  {27, 64, 2500}, {100, 100, 100}, {50, 300, 600}, {300, 40, 600},
    {300, 270, 500}, {1, 129, 1000}, {3, 50, 130},    {4, 16, 8},     {5, 75, 66},
    {7, 31, 200},    {8, 33, 15},
};
enum { SIZES = sizeof sizes / sizeof sizes[0], FORMS = 8 };

static void every_sum_is_one_chain_over_ascending_k_or_a_few_over_samples(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++)
        for (int form = 0; form < FORMS; form++) {
            if (form >= 4 && s % 4 != form % 4) continue; /* the bias now and then */
            problem p = new_problem(sizes[s][0], sizes[s][1], sizes[s][2], form);
            float *want[] = {new_floats(p.m * p.n), new_floats(p.m * p.n)};
            float *got = new_floats(p.m * p.n);
            chain(&p, false, want[0]);
            chain(&p, true, want[1]);
            for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++) {
                if (!ig_isa_available(isa)) continue;
                multiply(&p, isa, 2, got);
                expect_bits(&p, isa, got, want[isa != IG_ISA_SCALAR]);
            }
            ig_free(&ig_heap, got);
            ig_free(&ig_heap, want[0]);
            ig_free(&ig_heap, want[1]);
            free_problem(&p);
        }
}

static void a_row_alone_is_the_row_among_a_thousand(void **state) {
    (void)state;
    enum { ROWS = 1000, COLUMNS = 70, DEPTH = 530 };
    static const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 31, 49};
    float *all = new_floats(ROWS * COLUMNS), *few = new_floats(ROWS * COLUMNS);
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (int form = 0; form < FORMS && ig_isa_available(isa); form += 2) {
            problem p = new_problem(ROWS, COLUMNS, DEPTH, form), part = p;
            multiply(&p, isa, 1, all);
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                const int64_t first = (int64_t)c * 79;
                part.m = counts[c];
                part.a = p.a + first * DEPTH;
                multiply(&part, isa, 1, few);
                expect_bits(&part, isa, few, all + first * COLUMNS);
            }
            free_problem(&p);
        }
    ig_free(&ig_heap, few);
    ig_free(&ig_heap, all);
}

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    (void)state;
    static const int64_t some[][3] = {
        {32, 64, 128}, {300, 270, 500}, {50, 300, 600}, {997, 27, 65}, {27, 64, 1000}};
    static const uint32_t threads[] = {2, 3, 7};
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (size_t s = 0; s < 5 && ig_isa_available(isa); s++)
            for (int form = 0; form < 4; form++) {
                problem p = new_problem(some[s][0], some[s][1], some[s][2], form);
                float *one = new_floats(p.m * p.n), *many = new_floats(p.m * p.n);
                multiply(&p, isa, 1, one);
                for (int t = 0; t < 3; t++) {
                    multiply(&p, isa, threads[t], many);
                    expect_bits(&p, isa, many, one);
                }
                ig_free(&ig_heap, many);
                ig_free(&ig_heap, one);
                free_problem(&p);
            }
}

/* ---- activations ---- */

static const struct {
    uint32_t activation, op;
    ig_gelu_form form;
} activations[] = {
    {IG_ACTIVATION_RELU, IG_OP_RELU, 0},
    {IG_ACTIVATION_TANH, IG_OP_TANH, 0},
    {IG_ACTIVATION_SIGMOID, IG_OP_SIGMOID, 0},
    {IG_ACTIVATION_SILU, IG_OP_SILU, 0},
    {IG_ACTIVATION_GELU_ERF, IG_OP_GELU, IG_GELU_ERF},
    {IG_ACTIVATION_GELU_TANH, IG_OP_GELU, IG_GELU_TANH},
};

static void apply(ig_isa isa, size_t activation, float *x, float *y, int64_t n) {
    const ig_attrs_gelu attrs = {(uint32_t)activations[activation].form};
    const ig_operand in = packed(A, IG_SHAPE(n)), out = packed(Y, IG_SHAPE(n));
    ig_step step = {.size = sizeof step,
                    .op = activations[activation].op,
                    .attrs = &attrs,
                    .attrs_bytes = ig_op_find(activations[activation].op)->attrs_bytes,
                    .n_in = 1,
                    .n_out = 1,
                    .in = &in,
                    .out = &out};
    float *const memory[BUFFERS] = {[A] = x};
    run_step(isa, 1, &step, memory, y, n);
}

static void an_activation_gives_the_bits_of_the_op_on_its_own(void **state) {
    (void)state;
    static const int64_t some[][3] = {{32, 64, 128}, {5, 37, 20}, {300, 40, 600}};
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (size_t s = 0; s < 3 && ig_isa_available(isa); s++)
            for (size_t f = 0; f < sizeof activations / sizeof activations[0]; f++) {
                problem p = new_problem(some[s][0], some[s][1], some[s][2], 2 | 4);
                float *plain = new_floats(p.m * p.n), *want = new_floats(p.m * p.n);
                float *got = new_floats(p.m * p.n);
                multiply(&p, isa, 2, plain);
                apply(isa, f, plain, want, p.m * p.n);
                p.activation = activations[f].activation;
                multiply(&p, isa, 2, got);
                expect_bits(&p, isa, got, want);
                ig_free(&ig_heap, got);
                ig_free(&ig_heap, want);
                ig_free(&ig_heap, plain);
                free_problem(&p);
            }
}

/* ---- residuals ---- */

static void a_residual_gives_the_bits_of_an_add(void **state) {
    (void)state;
    for (ig_isa isa = 0; isa < IG_ISA_COUNT; isa++)
        for (size_t s = 0; s < SIZES && ig_isa_available(isa); s++)
            for (uint32_t activation = 0; activation < 2; activation++) {
                const int form = (int)s % FORMS;
                problem p = new_problem(sizes[s][0], sizes[s][1], sizes[s][2], form);
                const int64_t n = p.m * p.n;
                float *residual = new_numbers(n, 4), *want = new_floats(n), *got = new_floats(n);
                p.activation = activation ? IG_ACTIVATION_TANH : IG_ACTIVATION_NONE;
                multiply(&p, isa, 2, want);
                for (int64_t i = 0; i < n; i++) want[i] = residual[i] + want[i];
                p.residual = residual;
                multiply(&p, isa, 2, got);
                expect_bits(&p, isa, got, want);
                ig_free(&ig_heap, got);
                ig_free(&ig_heap, want);
                ig_free(&ig_heap, residual);
                free_problem(&p);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sum_is_one_chain_over_ascending_k_or_a_few_over_samples),
        cmocka_unit_test(a_row_alone_is_the_row_among_a_thousand),
        cmocka_unit_test(results_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(an_activation_gives_the_bits_of_the_op_on_its_own),
        cmocka_unit_test(a_residual_gives_the_bits_of_an_add),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
