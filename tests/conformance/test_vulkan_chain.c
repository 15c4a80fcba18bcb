/*
 * Chains of elementwise steps on a Vulkan device: one dispatch with a shader that is
 * written for them gives just what each step gives by itself; and what is
 * counted: dispatches, barriers, submissions, recordings.  Skipped without a device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/standalone_host.h"
#include "backend/vulkan/host/vk_device.h"
#include "backend/vulkan/program/chain.h"
#include "backend/vulkan/spirv/spirv.h"

extern const ig_backend ig_vulkan_backend;

static const ig_backend *const vk = &ig_vulkan_backend;

enum { ROWS = 5, COLUMNS = 103, N = ROWS * COLUMNS, MOST_STEPS = 12, VALUES = 16 };

/* Steps on values that lie side by side in one buffer, and what they are compiled on. */
typedef struct net {
    ig_test_host host;
    ig_backend_device *device;
    ig_backend_buffer *buffer;
    ig_operand operands[MOST_STEPS][3];
    ig_attrs_scale scale[MOST_STEPS]; /* all attrs here are smaller */
    ig_step steps[MOST_STEPS];
    uint32_t count;
    ig_device_counters counted; /* of the last run */
} net;

static void net_open(net *n) {
    *n = (net){0};
    ig_test_host_init(&n->host, 2);
    if (!vk->is_available(&n->host.base)) {
        printf("vulkan: skipped: %s\n", ig_error_text());
        ig_test_host_deinit(&n->host);
        skip();
    }
    assert_int_equal(vk->open(&n->host.base, 0, &n->device), IG_OK);
    assert_int_equal(vk->buffer_alloc(n->device, VALUES * N * sizeof(float), &n->buffer), IG_OK);
}

static void net_close(net *n) {
    vk->buffer_free(n->device, n->buffer);
    vk->close(n->device);
    assert_int_equal(n->host.live, 0);
    assert_int_equal(n->host.warnings, 0); /* of the validation layer */
    ig_test_host_deinit(&n->host);
}

/* Value number `value`, as rows of columns. */
static ig_operand whole(uint32_t value) {
    return (ig_operand){.value = value,
                        .offset = (uint64_t)value * N * sizeof(float),
                        .desc = {IG_F32, IG_SHAPE(ROWS, COLUMNS)},
                        .stride = {COLUMNS, 1},
                        .dynamic_dim = -1,
                        .kind = IG_KIND_LOCAL,
                        .alias = -1};
}

static ig_operand with_strides(uint32_t value, int64_t row, int64_t column) {
    ig_operand o = whole(value);
    o.stride[0] = row;
    o.stride[1] = column;
    return o;
}

/* Adds a step of level `level` and chain `chain`. */
static void add(net *n, ig_op op, uint32_t level, uint32_t chain, ig_operand a, ig_operand b,
                ig_operand out) {
    const uint32_t i = n->count++, inputs = ig_op_find(op)->in_min;
    ig_operand *o = n->operands[i];
    o[0] = a;
    if (inputs == 2) o[1] = b;
    o[inputs] = out;
    n->scale[i] = (ig_attrs_scale){0};
    n->steps[i] = (ig_step){.size = sizeof(ig_step),
                            .op = op,
                            .level = level,
                            .chain = chain,
                            .attrs_bytes = ig_op_find(op)->attrs_bytes,
                            .n_in = inputs,
                            .n_out = 1,
                            .attrs = &n->scale[i],
                            .in = o,
                            .out = o + inputs};
}

/* Numbers of all sizes and both signs, infinities and NaN. */
static void fill(float *x) {
    static const uint32_t odd[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x00000001,
                                   0x807fffff, 0x7f7fffff, 0x00800000, 0x42b17218, 0xc2ce8ed0};
    uint32_t seed = 1;
    for (int i = 0; i < VALUES * N; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / (float)(1 << 23) - 1) * (i % 7 == 0 ? 40.0f : 2.0f);
        if (seed % 11 == 0) memcpy(&x[i], &odd[seed / 11 % 10], sizeof *x);
    }
}

/* All values after a run of the steps, as compiled by `compile`. */
static void run(net *n, ig_compile_fn *compile, float *values) {
    ig_backend_program *program = NULL;
    ig_device_counters before, after;
    assert_int_equal(compile(n->device, n->steps, n->count, (ig_blob){0}, NULL, &program), IG_OK);
    fill(values);
    assert_int_equal(vk->write(n->device, n->buffer, 0, values, VALUES * N * sizeof *values),
                     IG_OK);
    vk->counters(n->device, &before);
    assert_int_equal(program->submit(program, &n->buffer, 1, NULL, 0), IG_OK);
    vk->counters(n->device, &after);
    assert_int_equal(vk->read(n->device, n->buffer, 0, values, VALUES * N * sizeof *values), IG_OK);
    program->destroy(program);
    n->counted = (ig_device_counters){.submits = after.submits - before.submits,
                                      .dispatches = after.dispatches - before.dispatches,
                                      .barriers = after.barriers - before.barriers,
                                      .recordings = after.recordings - before.recordings};
}

/* The same number: a NaN has many bits, and a driver may lose the sign of a 0. */
static bool is_same(float a, float b) { return a == b || (a != a && b != b); }

static void expect_equal_ways(net *n, uint64_t dispatches) {
    static float chained[VALUES * N], plain[VALUES * N];
    run(n, vk_compile_plain, plain);
    assert_int_equal(n->counted.dispatches, n->count);
    run(n, vk_compile, chained);
    assert_int_equal(n->counted.dispatches, dispatches);
    for (int i = 0; i < VALUES * N; i++)
        if (!is_same(chained[i], plain[i]))
            fail_msg("value %d, element %d: %.9g in a chain, %.9g alone", i / N, i % N,
                     (double)chained[i], (double)plain[i]);
}

static void every_function_gives_the_same_in_a_chain(void **state) {
    (void)state;
    static const ig_op ops[] = {
        IG_OP_ADD,      IG_OP_SUB,      IG_OP_MUL,       IG_OP_DIV,       IG_OP_EQUAL,
        IG_OP_SCALE,    IG_OP_NEG,      IG_OP_EXP,       IG_OP_LOG,       IG_OP_SQRT,
        IG_OP_TANH,     IG_OP_SIGMOID,  IG_OP_RELU,      IG_OP_GELU,      IG_OP_SILU,
        IG_OP_SOFTPLUS, IG_OP_POSITIVE, IG_OP_GELU_GRAD, IG_OP_SILU_GRAD,
    };
    net n;
    net_open(&n);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (int form = 0; form < 2; form++) {
            const ig_attrs_gelu tanh_form = {.form = IG_GELU_TANH};
            const bool is_gelu = ops[i] == IG_OP_GELU || ops[i] == IG_OP_GELU_GRAD;
            if (form > 0 && !is_gelu) continue;
            n.count = 0;
            add(&n, ops[i], 0, 0, whole(0), whole(1), whole(3));
            if (ops[i] == IG_OP_SCALE) n.scale[0] = (ig_attrs_scale){0.3, -1.7};
            if (form > 0) memcpy(&n.scale[0], &tanh_form, sizeof tanh_form);
            add(&n, IG_OP_MUL, 0, 0, whole(3), whole(0), whole(4));
            add(&n, IG_OP_ADD, 0, 0, whole(4), whole(2), whole(5));
            expect_equal_ways(&n, 1);
        }
    net_close(&n);
}

/* Rows that repeat, columns that repeat, a transposed input, one value all over, results in place
 * of an input. */
static void operands_may_lie_anywhere(void **state) {
    (void)state;
    net n;
    net_open(&n);
    add(&n, IG_OP_ADD, 0, 0, with_strides(0, 0, 1), with_strides(1, 1, 0), whole(6));
    add(&n, IG_OP_MUL, 0, 0, whole(6), with_strides(2, 1, ROWS), whole(7));
    add(&n, IG_OP_TANH, 0, 0, whole(7), whole(0), whole(7));
    n.operands[2][1].alias = 0;
    add(&n, IG_OP_SUB, 0, 0, with_strides(3, 0, 0), whole(7), whole(8));
    expect_equal_ways(&n, 1);
    net_close(&n);
}

/* What one thread writes another one must not read in the same dispatch. */
static void steps_that_see_other_elements_are_not_joined(void **state) {
    (void)state;
    net n;
    net_open(&n);
    add(&n, IG_OP_EXP, 0, 0, whole(0), whole(0), whole(6));
    add(&n, IG_OP_NEG, 0, 0, with_strides(6, 1, ROWS), whole(0), whole(7));
    expect_equal_ways(&n, 2);
    assert_int_equal(n.counted.barriers, 1);
    net_close(&n);
}

/* A chain may be longer, or touch more, than a dispatch can take. */
static void long_chains_are_cut(void **state) {
    (void)state;
    net n;
    net_open(&n);
    for (uint32_t i = 0; i < 10; i++) /* in place: two places in all */
        add(&n, i % 2 ? IG_OP_TANH : IG_OP_NEG, 0, 0, whole(6), whole(6), whole(6));
    expect_equal_ways(&n, 2);
    n.count = 0;
    for (uint32_t i = 0; i < 6; i++) /* each with an input and a result of its own */
        add(&n, IG_OP_ADD, 0, 0, whole(6 + i), whole(i), whole(7 + i));
    expect_equal_ways(&n, 2);
    net_close(&n);
}

/*
 *     level 0   a: exp, tanh    b: neg, neg     a and b side by side: one barrier for both
 *     level 1   c: a + b                        and one more
 */
static void barriers_stand_only_where_a_hazard_is(void **state) {
    (void)state;
    static float values[VALUES * N];
    net n;
    net_open(&n);
    add(&n, IG_OP_EXP, 0, 0, whole(0), whole(0), whole(4));
    add(&n, IG_OP_TANH, 0, 0, whole(4), whole(0), whole(5));
    add(&n, IG_OP_NEG, 0, 1, whole(1), whole(0), whole(6));
    add(&n, IG_OP_NEG, 0, 1, whole(6), whole(0), whole(7));
    add(&n, IG_OP_ADD, 1, 2, whole(5), whole(7), whole(8));
    run(&n, vk_compile_plain, values);
    assert_int_equal(n.counted.dispatches, 5);
    assert_int_equal(n.counted.barriers, 2);
    run(&n, vk_compile, values);
    assert_int_equal(n.counted.dispatches, 3);
    assert_int_equal(n.counted.barriers, 1);
    assert_int_equal(n.counted.recordings, 1);
    assert_int_equal(n.counted.submits, 1);
    net_close(&n);
}

/* Nothing is recorded again when a run comes again. */
static void a_replay_records_nothing(void **state) {
    (void)state;
    enum { RUNS = 20 };
    net n;
    ig_backend_program *program = NULL;
    ig_device_counters c;
    net_open(&n);
    add(&n, IG_OP_EXP, 0, 0, whole(0), whole(0), whole(4));
    assert_int_equal(vk->compile(n.device, n.steps, n.count, (ig_blob){0}, NULL, &program), IG_OK);
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(program->submit(program, &n.buffer, 1, NULL, 0), IG_OK);
    assert_int_equal(vk->synchronize(n.device), IG_OK);
    vk->counters(n.device, &c);
    assert_int_equal(c.submits, RUNS);
    assert_int_equal(c.dispatches, RUNS);
    assert_int_equal(c.recordings, 1);
    program->destroy(program);
    net_close(&n);
}

/* Memory of the size of a buffer's that came back is handed out again at once. */
enum { KEPT_MOST = 64 };
static struct {
    void *(*alloc)(const ig_host *, size_t, size_t);
    void (*free)(const ig_host *, void *);
    void *known[KEPT_MOST], *idle[KEPT_MOST];
    int n_known, n_idle;
} again;

static void *alloc_again(const ig_host *host, size_t count, size_t bytes_each) {
    const bool fits = count * bytes_each == sizeof(ig_backend_buffer);
    if (fits && again.n_idle > 0) return memset(again.idle[--again.n_idle], 0, bytes_each);
    void *p = again.alloc(host, count, bytes_each);
    if (fits && again.n_known < KEPT_MOST) again.known[again.n_known++] = p;
    return p;
}

static void free_again(const ig_host *host, void *p) {
    for (int i = 0; i < again.n_known; i++)
        if (p == again.known[i]) {
            again.idle[again.n_idle++] = p;
            return;
        }
    again.free(host, p);
}

static void free_idle(const ig_host *host) {
    while (again.n_idle > 0) again.free(host, again.idle[--again.n_idle]);
    again.n_known = 0;
}

/* A buffer that was given back may come again by the same name, elsewhere. */
static void buffers_used_again_are_checked_again(void **state) {
    (void)state;
    enum { TURNS = 12 };
    static float in[N], out[N];
    net n;
    ig_backend_program *program = NULL;
    net_open(&n);
    again.alloc = n.host.base.alloc, n.host.base.alloc = alloc_again;
    again.free = n.host.base.free, n.host.base.free = free_again;
    add(&n, IG_OP_NEG, 0, 0, whole(0), whole(0), whole(1));
    assert_int_equal(vk->compile(n.device, n.steps, n.count, (ig_blob){0}, NULL, &program), IG_OK);
    for (int turn = 0; turn < TURNS; turn++) {
        ig_backend_buffer *before, *own;
        const uint64_t room = (uint64_t)(1 + turn * 7 % 5) * 4096; /* so that `own` moves */
        assert_int_equal(vk->buffer_alloc(n.device, room, &before), IG_OK);
        assert_int_equal(vk->buffer_alloc(n.device, sizeof in + sizeof out, &own), IG_OK);
        for (int i = 0; i < N; i++) in[i] = (float)(turn * N + i);
        assert_int_equal(vk->write(n.device, own, 0, in, sizeof in), IG_OK);
        assert_int_equal(program->submit(program, &own, 1, NULL, 0), IG_OK);
        assert_int_equal(vk->read(n.device, own, sizeof in, out, sizeof out), IG_OK);
        for (int i = 0; i < N; i++) assert_true(out[i] == -in[i]);
        vk->buffer_free(n.device, before);
        vk->buffer_free(n.device, own);
    }
    program->destroy(program);
    free_idle(&n.host.base);
    n.host.base.alloc = again.alloc, n.host.base.free = again.free;
    net_close(&n);
}

/* ---- extents from slots ---- */

static ig_operand varying(ig_operand o, uint16_t slot) {
    o.dynamic_dim = 0;
    o.dynamic_slot = slot;
    return o;
}

/* out = -(a + b), of as many rows as a slot says; a row of b serves all. */
static void extents_come_from_slots_and_nothing_is_recorded_again(void **state) {
    (void)state;
    enum { SLOT = 1, A = 0, B = 1, SUM = 6, OUT = 7 };
    static const int64_t extents[] = {ROWS, 1, 0, 3, ROWS + 2, 2, -1};
    static float before[VALUES * N], values[VALUES * N];
    net n;
    ig_backend_program *program = NULL;
    ig_device_counters c, first;
    net_open(&n);
    add(&n, IG_OP_ADD, 0, 0, varying(whole(A), SLOT), with_strides(B, 0, 1),
        varying(whole(SUM), SLOT));
    add(&n, IG_OP_NEG, 0, 0, varying(whole(SUM), SLOT), whole(0), varying(whole(OUT), SLOT));
    assert_true(vk->can_run(n.device, &n.steps[0]) && vk->can_run(n.device, &n.steps[1]));
    assert_int_equal(vk->compile(n.device, n.steps, n.count, (ig_blob){0}, NULL, &program), IG_OK);
    for (int i = 0; i < VALUES * N; i++) before[i] = (float)(i % 1000);
    vk->counters(n.device, &first);
    for (size_t k = 0; k < sizeof extents / sizeof extents[0]; k++) {
        const ig_slot slots[] = {{.i = 99}, {.i = extents[k]}};
        assert_int_equal(vk->write(n.device, n.buffer, 0, before, sizeof before), IG_OK);
        assert_int_equal(program->submit(program, &n.buffer, 1, slots, 2), IG_OK);
        assert_int_equal(vk->read(n.device, n.buffer, 0, values, sizeof values), IG_OK);
        for (int i = 0; i < N; i++) {
            const bool computed = i / COLUMNS < extents[k];
            const float want =
                computed ? -(before[A * N + i] + before[B * N + i % COLUMNS]) : before[OUT * N + i];
            if (values[OUT * N + i] != want)
                fail_msg("%lld rows: element %d is %g, not %g", (long long)extents[k], i,
                         (double)values[OUT * N + i], (double)want);
        }
    }
    vk->counters(n.device, &c);
    assert_int_equal(c.recordings - first.recordings, 1);
    assert_int_equal(program->submit(program, &n.buffer, 1, &(ig_slot){0}, 1), IG_ERR_ARGUMENT);
    program->destroy(program);
    net_close(&n);
}

/* Extents that no kernel can have from a slot are turned down when asked for. */
static void other_extents_from_slots_are_refused(void **state) {
    (void)state;
    net n;
    net_open(&n);
    add(&n, IG_OP_ADD, 0, 0, varying(whole(0), 1), varying(whole(1), 2), varying(whole(6), 1));
    add(&n, IG_OP_NEG, 0, 0, varying(whole(0), 1), whole(0), whole(6));
    add(&n, IG_OP_NEG, 0, 0, varying(whole(0), 1), whole(0), varying(whole(6), 1));
    n.operands[2][0].dynamic_dim = 1;
    add(&n, IG_OP_SOFTMAX, 0, 0, varying(whole(0), 1), whole(0), varying(whole(6), 1));
    for (uint32_t i = 0; i < n.count; i++) assert_false(vk->can_run(n.device, &n.steps[i]));
    net_close(&n);
}

static void expect_valid(const vk_written *shader, const char *environment) {
    char path[] = "/tmp/ingot-chain-XXXXXX", command[128];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, shader->words, shader->n_words * sizeof *shader->words),
                     shader->n_words * sizeof *shader->words);
    close(fd);
    snprintf(command, sizeof command, "spirv-val --target-env %s %s", environment, path);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a path of our own
    unlink(path);
}

/* The words of a chain's shader, as a tool of the specification's authors sees them. */
static void shaders_that_are_written_are_valid(void **state) {
    (void)state;
    static const vk_shader_code *const forms[] = {vk_shaders, vk_shaders_bound};
    static const char *const environments[] = {"vulkan1.2", "vulkan1.1"};
    net n;
    vk_written shader;
    if (system("command -v spirv-val >/dev/null") != 0) { // NOLINT(cert-env33-c): a constant
        printf("vulkan: skipped: spirv-val is not installed\n");
        skip();
    }
    ig_test_host_init(&n.host, 1);
    n.count = 0;
    add(&n, IG_OP_SCALE, 0, 0, whole(0), whole(0), whole(6));
    add(&n, IG_OP_SUB, 0, 0, whole(6), with_strides(1, 1, ROWS), whole(7));
    add(&n, IG_OP_GELU, 0, 0, whole(7), whole(0), whole(8));
    assert_int_equal(vk_chain_length(n.steps, 0, 3), 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            vk_chain_write(&n.host.base, &forms[i][VK_SHADER_chain], n.steps, 0, 3, &shader),
            IG_OK);
        assert_string_equal(shader.name, "chain of scale, sub, gelu");
        expect_valid(&shader, environments[i]);
        n.host.base.free(&n.host.base, shader.words);
    }
    assert_int_equal(n.host.live, 0);
    ig_test_host_deinit(&n.host);
}

/* glslc leaves no names in modules that it optimizes; a body may be too long. */
static void what_cannot_be_written_is_a_status(void **state) {
    (void)state;
    enum { TOO_MANY = 2000 };
    static spv_writer w;
    ig_test_host host;
    uint32_t *words = NULL;
    size_t count;
    ig_test_host_init(&host, 1);
    spv_begin(&w, &vk_shaders[VK_SHADER_elementwise], "chain(");
    assert_int_equal(spv_finish(&w, &host.base, &words, &count), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "writing a shader from elementwise: chain("));
    spv_begin(&w, &vk_shaders[VK_SHADER_chain], "chain(");
    (void)spv_call(&w, "exp_of(", (spv_id[]){spv_uint(&w, 1), spv_uint(&w, 2)}, 2);
    assert_int_equal(spv_finish(&w, &host.base, &words, &count), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "exp_of("));
    spv_begin(&w, &vk_shaders[VK_SHADER_chain], "chain(");
    for (int i = 0; i < TOO_MANY; i++) (void)spv_uint(&w, 1);
    assert_int_equal(spv_finish(&w, &host.base, &words, &count), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "too long"));
    assert_int_equal(host.live, 0);
    ig_test_host_deinit(&host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_gives_the_same_in_a_chain),
        cmocka_unit_test(operands_may_lie_anywhere),
        cmocka_unit_test(steps_that_see_other_elements_are_not_joined),
        cmocka_unit_test(long_chains_are_cut),
        cmocka_unit_test(barriers_stand_only_where_a_hazard_is),
        cmocka_unit_test(a_replay_records_nothing),
        cmocka_unit_test(buffers_used_again_are_checked_again),
        cmocka_unit_test(extents_come_from_slots_and_nothing_is_recorded_again),
        cmocka_unit_test(other_extents_from_slots_are_refused),
        cmocka_unit_test(shaders_that_are_written_are_valid),
        cmocka_unit_test(what_cannot_be_written_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
