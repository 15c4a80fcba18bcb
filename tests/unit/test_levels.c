/*
 * Plans of random graphs: levels, order, copies, and the numbers that come out.
 *
 * Graphs are written down without running.  Each is planned as a whole, with
 * only its leaves and its ends bound, and checked against the plain reading of
 * the rules: all pairs of steps are looked at, and every node is also run by
 * itself, in the order of building, with memory of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "sketch.h"

enum { GRAPHS = 300 };

/* ---- devices without a context ---- */

/* Like ref, but what a step reads must be packed, unless it only copies. */
static bool can_run_packed(const ig_backend_device *device, const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in && step->op != IG_OP_COPY; i++)
        if (!ig_operand_is_packed(&step->in[i])) return false;
    return ig_ref_backend.can_run(device, step);
}

/* The same, but it cannot copy either. */
static bool can_run_rigid(const ig_backend_device *device, const ig_step *step) {
    return step->op != IG_OP_COPY && can_run_packed(device, step);
}

/* Like ref, but without tanh and matmul. */
static bool can_run_some(const ig_backend_device *device, const ig_step *step) {
    return step->op != IG_OP_TANH && step->op != IG_OP_MATMUL &&
           ig_ref_backend.can_run(device, step);
}

/* Like ref, but products are of floats. */
static bool can_run_floats(const ig_backend_device *device, const ig_step *step) {
    return (step->op != IG_OP_MATMUL || step->in[0].desc.dtype == IG_F32) &&
           ig_ref_backend.can_run(device, step);
}

/* Like ref, but its compiler knows no norm, and of an ffn one step at a time, */
static ig_status compile_untagged(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                  ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].tag == IG_TAG_NORM || (steps[i].tag == IG_TAG_FFN && count > 1))
            return IG_FAIL(IG_ERR_UNSUPPORTED, "plain: no %s with a tag", ig_op_name(steps[i].op));
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

/* and these are its overrides. */
static ig_status compile_norm(ig_backend_device *device, const ig_step *steps, uint32_t count,
                              ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    for (uint32_t i = 0; i < count; i++) assert_int_equal(steps[i].tag, IG_TAG_NORM);
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

static ig_status compile_no_ffn(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)device, (void)saved, (void)progress, (void)out;
    return IG_FAIL(IG_ERR_UNSUPPORTED, "plain: ffn of %u steps from op %u", count, steps->op);
}

/* Like ref, but one step at a time. */
static ig_status compile_one(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    if (count > 1) return IG_FAIL(IG_ERR_UNSUPPORTED, "narrow: %u steps are too many", count);
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

/* Like ref, but steps of one tag at a time, and two of them at most. */
static ig_status compile_alike(ig_backend_device *device, const ig_step *steps, uint32_t count,
                               ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    for (uint32_t i = 1; i < count; i++)
        if (steps[i].tag != steps[0].tag || count > 2)
            return IG_FAIL(IG_ERR_SPLIT, "alike: %u steps are too many", count);
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

typedef struct kit {
    ig_device *ref, *cpu;
    ig_backend packed_backend, some_backend, narrow_backend, rigid_backend, plain_backend;
    ig_device packed, some, narrow, rigid, plain;
} kit;

static ig_device like_ref(const kit *k, const ig_backend *backend, const char *name) {
    ig_device device = *k->ref;
    device.backend = backend;
    device.info.flags |= IG_CAN_COMPILE;
    snprintf(device.name, sizeof device.name, "%s", name);
    return device;
}

static int setup(void **state) {
    static kit k;
    if (ig_device_open(&sketch_host, &ig_heap, "ref", &k.ref) != IG_OK) return -1;
    if (ig_device_open(&sketch_host, &ig_heap, "cpu", &k.cpu) != IG_OK) return -1;
    k.packed_backend = k.some_backend = k.narrow_backend = ig_ref_backend;
    k.rigid_backend = k.plain_backend = ig_ref_backend;
    k.rigid_backend.can_run = can_run_rigid;
    k.plain_backend.compile = compile_untagged;
    k.rigid = like_ref(&k, &k.rigid_backend, "rigid:0");
    k.plain = like_ref(&k, &k.plain_backend, "plain:0");
    k.packed_backend.can_run = can_run_packed;
    k.some_backend.can_run = can_run_some;
    k.narrow_backend.compile = compile_one;
    k.packed = like_ref(&k, &k.packed_backend, "packed:0");
    k.some = like_ref(&k, &k.some_backend, "some:0");
    k.narrow = like_ref(&k, &k.narrow_backend, "narrow:0");
    *state = &k;
    return 0;
}

static int teardown(void **state) {
    ig_device_close(((kit *)*state)->cpu);
    ig_device_close(((kit *)*state)->ref);
    return 0;
}

/* ---- the plain reading of the rules ---- */

static const ig_step *step_writing(const ig_plan *plan, uint32_t value) {
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_out; j++)
            if (plan->steps[i].out[j].value == value) return &plan->steps[i];
    return NULL;
}

static uint32_t base_of(const ig_graph *g, const ig_operand *o) {
    return o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
}

static bool reads_what_is_written(const ig_step *reader, const ig_step *writer) {
    for (uint32_t i = 0; i < reader->n_in; i++)
        for (uint32_t j = 0; j < writer->n_out; j++)
            if (reader->in[i].value == writer->out[j].value) return true;
    return false;
}

static bool writes_the_same(const ig_graph *g, const ig_step *a, const ig_step *b) {
    for (uint32_t i = 0; i < a->n_out; i++)
        for (uint32_t j = 0; j < b->n_out; j++)
            if (base_of(g, &a->out[i]) == base_of(g, &b->out[j])) return true;
    return false;
}

/* Whether `writer` overwrites something of which `reader` needs an older version: ids ascend. */
static bool overwrites_what_is_read(const ig_graph *g, const ig_step *writer,
                                    const ig_step *reader) {
    for (uint32_t i = 0; i < writer->n_out; i++)
        for (uint32_t j = 0; j < reader->n_in; j++)
            if (base_of(g, &writer->out[i]) == base_of(g, &reader->in[j]) &&
                reader->in[j].value < writer->out[i].value)
                return true;
    return false;
}

/* The rules: what a step waits for lies in a level before its own, or earlier in its chain, where
 * nothing is overwritten; a chain lies no deeper than it must. */
static void assert_levels(const ig_graph *g, const ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const ig_step *a = &plan->steps[i];
        for (uint32_t j = 0; j < plan->n_steps; j++) {
            const ig_step *b = &plan->steps[j];
            if (i == j) continue;
            if (reads_what_is_written(a, b))
                assert_true(b->level < a->level || (b->chain == a->chain && j < i));
            if (overwrites_what_is_read(g, a, b)) /* two updates of one thing may go row by row */
                assert_true(b->level < a->level ||
                            (writes_the_same(g, a, b) && b->chain == a->chain && j < i));
        }
    }
    for (uint32_t i = 1; i < plan->n_steps; i++) {
        const ig_step *a = &plan->steps[i], *before = &plan->steps[i - 1];
        assert_true(before->level <= a->level);
        assert_true(a->chain == before->chain || a->chain == before->chain + 1);
        if (a->chain == before->chain) assert_int_equal(a->level, before->level);
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const ig_step *a = &plan->steps[i];
        bool needed = a->level == 0 || (i > 0 && plan->steps[i - 1].chain == a->chain);
        for (uint32_t j = 0; j < plan->n_steps && !needed; j++)
            needed = plan->steps[j].level + 1 == a->level &&
                     (reads_what_is_written(a, &plan->steps[j]) ||
                      overwrites_what_is_read(g, a, &plan->steps[j]) ||
                      writes_the_same(g, a, &plan->steps[j]));
        assert_true(needed);
        assert_true(a->level < plan->n_levels);
    }
}

/* The bytes of a buffer that an operand spans. */
typedef struct span {
    uint32_t buffer;
    uint64_t begin, end;
} span;

static span span_of(const ig_operand *o) {
    int64_t last = 0;
    for (int d = 0; d < o->desc.shape.rank; d++) {
        if (o->desc.shape.dim[d] == 0) return (span){o->buffer, 0, 0};
        last += (o->desc.shape.dim[d] - 1) * o->stride[d];
    }
    return (span){o->buffer, o->offset, o->offset + (uint64_t)(last + 1) * sizeof(float)};
}

static bool meet(span a, span b) {
    return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

/* Chains of one level may run at once: none touches a byte that another one writes. */
static void assert_levels_are_free_of_clashes(const ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t j = 0; j < plan->n_steps; j++) {
            const ig_step *a = &plan->steps[i], *b = &plan->steps[j];
            if (a->chain == b->chain || a->level != b->level) continue;
            for (uint32_t x = 0; x < a->n_out; x++)
                for (uint32_t y = 0; y < b->n_in + b->n_out; y++)
                    assert_false(meet(span_of(&a->out[x]), span_of(ig_step_operand(b, y))));
        }
}

static void assert_arena_holds_all(const ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t j = 0; j < plan->steps[i].n_in + plan->steps[i].n_out; j++) {
            const ig_operand *o = ig_step_operand(&plan->steps[i], j);
            if (o->buffer != IG_ARENA) continue;
            assert_true(span_of(o).end <= plan->arena_bytes);
            assert_int_equal(o->kind == IG_KIND_STATE ? IG_KIND_LOCAL : o->kind, IG_KIND_LOCAL);
        }
}

/* Planned and run as a whole, on the planner's devices, the bound values are what node by node
 * gives on `device`. */
static ig_plan *try_graph_on(ig_device *device, const ig_planner *planner, sketch *s,
                             uint32_t number) {
    const ig_planner alone = {.allocator = &ig_heap, .devices = {device}, .n_devices = 1};
    ig_value bound[MOST_VALUES];
    memory got, want;
    sketch_draw(s, number);
    const uint32_t n_bound = sketch_choose_bound(s, bound, number % 5);
    sketch_memory_init(&got, &s->g);
    sketch_memory_init(&want, &s->g);
    sketch_run_one_by_one(&alone, &s->g, &want);
    ig_plan *plan = sketch_plan(planner, &s->g, 0, (uint32_t)s->g.n_nodes, bound, n_bound);
    sketch_run(plan, &got, bound, n_bound);
    for (uint32_t i = 0; i < n_bound; i++)
        assert_memory_equal(got.of[bound[i]], want.of[bound[i]], want.bytes[bound[i]]);
    sketch_memory_deinit(&got);
    sketch_memory_deinit(&want);
    return plan;
}

static ig_plan *try_graph(const kit *k, const ig_planner *planner, sketch *s, uint32_t number) {
    return try_graph_on(k->ref, planner, s, number);
}

static void the_cpu_runs_plans_as_it_runs_their_nodes(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->cpu}, .n_devices = 1};
    uint32_t chained = 0, empty = 0;
    for (uint32_t number = 0; number < GRAPHS; number++) {
        sketch s;
        ig_plan *plan = try_graph_on(k->cpu, &planner, &s, number);
        assert_levels(&s.g, plan);
        assert_levels_are_free_of_clashes(plan);
        assert_arena_holds_all(plan);
        for (uint32_t i = 1; i < plan->n_steps; i++)
            if (plan->steps[i].chain == plan->steps[i - 1].chain) {
                chained++;
                empty += ig_shape_count(plan->steps[i].out[0].desc.shape) == 0;
            }
        ig_plan_destroy(plan);
        ig_graph_deinit(&s.g);
    }
    assert_true(chained > 2 * GRAPHS && empty > 10); /* there was something to see */
}

static void a_step_is_in_a_later_level_than_its_inputs_or_later_in_their_chain(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->ref}, .n_devices = 1};
    uint32_t updates = 0, levels = 0, chained = 0;
    for (uint32_t number = 0; number < GRAPHS; number++) {
        sketch s;
        ig_plan *plan = try_graph(k, &planner, &s, number);
        assert_levels(&s.g, plan);
        assert_levels_are_free_of_clashes(plan);
        assert_arena_holds_all(plan);
        assert_int_equal(plan->n_copies, 0); /* ref reads any strides */
        assert_int_equal(plan->n_segments, 1);
        for (uint32_t i = 0; i < plan->n_steps; i++) updates += plan->steps[i].out[0].alias >= 0;
        for (uint32_t i = 1; i < plan->n_steps; i++)
            chained += plan->steps[i].chain == plan->steps[i - 1].chain;
        levels += plan->n_levels;
        ig_plan_destroy(plan);
        ig_graph_deinit(&s.g);
    }
    /* There was something to see. */
    assert_true(updates > GRAPHS && levels > 2 * GRAPHS && chained > 2 * GRAPHS);
}

/* Both products go through the rows of h; in the third, each row of the result needs all of it. */
static void products_go_by_row_after_what_they_read_unless_it_is_read_whole(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->cpu}, .n_devices = 1};
    ig_graph g;
    memory got, want;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_layout square = ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(40, 40)});
    const ig_attrs_matmul plain = {0};
    const ig_value x = ig_graph_leaf(&g, square), w = ig_graph_leaf(&g, square);
    const ig_value h = ig_build(&g, IG_OP_MATMUL, &plain, (ig_value[]){x, w}, 2);
    const ig_value y = ig_build(&g, IG_OP_MATMUL, &plain, (ig_value[]){h, w}, 2);
    const ig_value end = ig_build_unary(&g, IG_OP_NEG, y);
    const ig_value whole = ig_build(&g, IG_OP_MATMUL, &plain, (ig_value[]){x, h}, 2);
    const ig_value bound[] = {x, w, end, whole};
    ig_plan *plan = sketch_plan(&planner, &g, 0, (uint32_t)g.n_nodes, bound, 4);
    assert_int_equal(step_writing(plan, y)->chain, step_writing(plan, h)->chain);
    assert_int_equal(step_writing(plan, end)->chain, step_writing(plan, h)->chain);
    assert_int_equal(step_writing(plan, whole)->level, step_writing(plan, h)->level + 1);

    sketch_memory_init(&got, &g);
    sketch_memory_init(&want, &g);
    sketch_run_one_by_one(&planner, &g, &want);
    sketch_run(plan, &got, bound, 4);
    assert_memory_equal(got.of[end], want.of[end], want.bytes[end]);
    assert_memory_equal(got.of[whole], want.of[whole], want.bytes[whole]);
    sketch_memory_deinit(&got);
    sketch_memory_deinit(&want);
    ig_plan_destroy(plan);
    ig_graph_deinit(&g);
}

static void an_update_waits_for_readers_and_readers_wait_for_it(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->ref}, .n_devices = 1};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_layout layout = ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(3, 4)});
    const ig_value w = ig_graph_leaf(&g, layout), d = ig_graph_leaf(&g, layout);
    const ig_value row = ig_build_slice(&g, w, 0, 0, 1);
    const ig_value deep = ig_build_unary(&g, IG_OP_TANH, ig_build_unary(&g, IG_OP_TANH, d));
    const ig_value reader = ig_build_binary(&g, IG_OP_ADD, row, deep); /* of a view of w */
    const ig_value next = ig_build_binary(&g, IG_OP_ASSIGN, w, d);
    const ig_value after = ig_build_unary(&g, IG_OP_NEG, ig_build_slice(&g, next, 1, 1, 2));
    const ig_value bound[] = {w, d, reader, after};
    ig_plan *plan = sketch_plan(&planner, &g, 0, (uint32_t)g.n_nodes, bound, 4);

    /* The two tanh and the sum go row by row, so they are one chain. */
    assert_int_equal(step_writing(plan, reader)->level, 0);
    assert_int_equal(step_writing(plan, next)->level, 1);
    assert_int_equal(step_writing(plan, after)->level, 2);
    assert_int_equal(step_writing(plan, next)->out[0].alias, 0);
    assert_int_equal(step_writing(plan, next)->out[0].kind, IG_KIND_STATE);
    ig_plan_destroy(plan);
    ig_graph_deinit(&g);
}

static uint32_t count_copies(const ig_graph *g, const ig_plan *plan) {
    uint32_t copies = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        copies += plan->steps[i].op == IG_OP_COPY && plan->steps[i].out[0].value >= g->n_values;
    return copies;
}

/* Reading strided input is what a copy is for. */
static void assert_inputs_are_packed(const ig_graph *g, const ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const ig_step *step = &plan->steps[i];
        const bool inserted = step->op == IG_OP_COPY && step->out[0].value >= g->n_values;
        for (uint32_t j = 0; j < step->n_in; j++)
            if (inserted)
                assert_false(ig_operand_is_packed(&step->in[j]));
            else if (step->op != IG_OP_COPY)
                assert_true(ig_operand_is_packed(&step->in[j]));
    }
}

static void strided_inputs_are_copied_where_a_kernel_needs_it(void **state) {
    const kit *k = *state;
    const ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->packed}, .n_devices = 1};
    uint32_t copies = 0;
    for (uint32_t number = 0; number < GRAPHS; number++) {
        sketch s;
        ig_plan *plan = try_graph(k, &planner, &s, number);
        assert_levels(&s.g, plan);
        assert_levels_are_free_of_clashes(plan);
        assert_arena_holds_all(plan);
        assert_inputs_are_packed(&s.g, plan);
        assert_int_equal(plan->n_copies, count_copies(&s.g, plan));
        copies += plan->n_copies;
        ig_plan_destroy(plan);
        ig_graph_deinit(&s.g);
    }
    assert_true(copies > GRAPHS);
}

/* A concat of `count` transposed [2, 3], whose leaves have the buffers 1 to count; the last is its
 * result's. */
static ig_status plan_many(const ig_planner *planner, uint32_t count, uint32_t n_bound,
                           ig_plan **out) {
    enum { MOST = 40 };
    ig_graph g;
    ig_value in[MOST], bound[MOST + 1];
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_attrs_axes turned = {{1, 0}};
    for (uint32_t i = 0; i < count; i++) {
        bound[i] = ig_graph_leaf(&g, ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(2, 3)}));
        in[i] = ig_build(&g, IG_OP_TRANSPOSE, &turned, &bound[i], 1);
    }
    bound[count] = ig_build(&g, IG_OP_CONCAT, &(ig_attrs_axis){1}, in, count);
    const ig_plan_args args = {.graph = &g,
                               .count = (uint32_t)g.n_nodes,
                               .bound = bound + count + 1 - n_bound,
                               .n_bound = n_bound};
    const ig_status status = ig_plan_create(planner, args, out);
    ig_graph_deinit(&g);
    return status;
}

static void any_number_of_strided_inputs_is_copied(void **state) {
    const kit *k = *state;
    const ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->packed}, .n_devices = 1};
    for (uint32_t count = 1; count <= 40; count += 13) {
        ig_plan *plan = NULL;
        if (plan_many(&planner, count, count + 1, &plan) != IG_OK) fail_msg("%s", ig_error_text());
        assert_int_equal(plan->n_copies, count);
        ig_plan_destroy(plan);
    }
}

static void a_device_that_cannot_copy_is_not_asked_to(void **state) {
    const kit *k = *state;
    ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->rigid, k->ref}, .n_devices = 2};
    ig_plan *plan = NULL;
    if (plan_many(&planner, 2, 3, &plan) != IG_OK) fail_msg("%s", ig_error_text());
    assert_int_equal(plan->n_copies, 0);
    assert_int_equal(plan->n_segments, 1);
    assert_ptr_equal(plan->segments[0].device, k->ref);
    ig_plan_destroy(plan);

    planner.n_devices = 1;
    assert_int_equal(plan_many(&planner, 2, 3, &plan), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "rigid:0 has no kernel for concat of f32"));
}

/* residual + x w, planned; x is of this dtype. */
static ig_plan *plan_residual(ig_device *device, ig_dtype dtype) {
    const ig_planner planner = {.allocator = &ig_heap, .devices = {device}, .n_devices = 1};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_value in[] = {ig_graph_leaf(&g, ig_layout_packed((ig_desc){dtype, IG_SHAPE(2, 3)})),
                           ig_graph_leaf(&g, ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(3, 4)})),
                           ig_graph_leaf(&g, ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(2, 4)}))};
    const ig_value product = ig_build(&g, IG_OP_MATMUL, &(ig_attrs_matmul){0}, in, 2);
    const ig_value y = ig_build_binary(&g, IG_OP_ADD, in[2], product);
    const ig_value bound[] = {in[0], in[1], in[2], y};
    const ig_plan_args args = {.graph = &g, .count = 2, .bound = bound, .n_bound = 4};
    ig_plan *plan = NULL;
    if (ig_plan_create(&planner, args, &plan) != IG_OK) fail_msg("%s", ig_error_text());
    ig_graph_deinit(&g);
    return plan;
}

static void a_residual_joins_the_product_before_it(void **state) {
    const kit *k = *state;
    ig_plan *plan = plan_residual(k->cpu, IG_BF16);
    assert_int_equal(plan->n_steps, 1);
    assert_int_equal(plan->steps[0].op, IG_OP_MATMUL);
    assert_int_equal(plan->steps[0].n_in, 3);
    assert_int_equal(((const ig_attrs_matmul *)plan->steps[0].attrs)->residual, 1);
    assert_int_equal(plan->steps[0].in[2].buffer, 3); /* the third that is bound */
    ig_plan_destroy(plan);
}

static void f16_is_cast_where_a_device_multiplies_f32_only(void **state) {
    const kit *k = *state;
    ig_backend backend = ig_ref_backend;
    backend.can_run = can_run_floats;
    ig_device device = like_ref(k, &backend, "floats:0");
    ig_plan *plan = plan_residual(&device, IG_BF16);
    assert_int_equal(plan->n_steps, 2);
    assert_int_equal(plan->steps[0].op, IG_OP_CAST);
    assert_int_equal(plan->steps[0].in[0].desc.dtype, IG_BF16);
    assert_int_equal(plan->steps[1].op, IG_OP_MATMUL);
    assert_int_equal(plan->steps[1].in[0].desc.dtype, IG_F32);
    assert_int_equal(plan->steps[1].in[0].value, plan->steps[0].out[0].value);
    ig_plan_destroy(plan);
}

static void a_leaf_without_memory_is_refused(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->ref}, .n_devices = 1};
    ig_plan *plan = NULL;
    assert_int_equal(plan_many(&planner, 3, 3, &plan), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "plan: concat: input 0 is a value without memory"));
    assert_null(plan);
}

/* No kernel should stumble over the strides of no elements. */
static void operands_without_elements_have_packed_strides(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->cpu}, .n_devices = 1};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_value x = ig_graph_leaf(&g, ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(4, 3)}));
    const ig_value t = ig_build(&g, IG_OP_TRANSPOSE, &(ig_attrs_axes){{1, 0}}, &x, 1);
    const ig_value none = ig_build_slice(&g, t, 0, 0, 0); /* [0, 4], strides 1 and 3 */
    const ig_value bound[] = {x, ig_build_unary(&g, IG_OP_SOFTMAX, none)};
    ig_plan *plan = sketch_plan(&planner, &g, 0, (uint32_t)g.n_nodes, bound, 2);
    assert_int_equal(plan->n_steps, 1); /* and not a copy */
    assert_int_equal(plan->steps[0].in[0].stride[1], 1);
    assert_int_equal(plan->steps[0].in[0].stride[0], 4);
    ig_plan_destroy(plan);
    ig_graph_deinit(&g);
}

/* ---- devices ---- */

static void what_the_first_device_cannot_run_goes_to_the_next(void **state) {
    const kit *k = *state;
    const ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->some, k->ref}, .n_devices = 2};
    uint32_t moved = 0;
    for (uint32_t number = 0; number < GRAPHS / 3; number++) {
        sketch s;
        ig_plan *plan = try_graph(k, &planner, &s, number);
        assert_levels(&s.g, plan);
        uint32_t next = 0;
        for (uint32_t i = 0; i < plan->n_segments; i++) {
            const ig_segment *segment = &plan->segments[i];
            assert_int_equal(segment->first, next); /* segments follow each other */
            next += segment->count;
            for (uint32_t j = segment->first; j < next; j++) {
                const uint32_t op = plan->steps[j].op;
                const bool other = op == IG_OP_TANH || op == IG_OP_MATMUL;
                assert_ptr_equal(segment->device, other ? k->ref : &k->some);
                assert_int_equal(segment->fallback[0] != '\0', other);
                moved += other;
            }
            if (segment->fallback[0])
                assert_non_null(strstr(segment->fallback, "some:0 has no kernel for "));
        }
        assert_int_equal(next, plan->n_steps);
        ig_plan_destroy(plan);
        ig_graph_deinit(&s.g);
    }
    assert_true(moved > GRAPHS / 3);
}

/* exp(tanh(x)), planned: the status; with IG_OK, the plan. */
static ig_status plan_two(const ig_planner *planner, ig_dtype dtype, ig_plan **out) {
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_value x = ig_graph_leaf(&g, ig_layout_packed((ig_desc){dtype, IG_SHAPE(3, 4)}));
    const ig_value y = ig_build_unary(&g, IG_OP_EXP, ig_build_unary(&g, IG_OP_TANH, x));
    const ig_value bound[] = {x, y};
    const ig_plan_args args = {.graph = &g, .count = 2, .bound = bound, .n_bound = 2};
    const ig_status status = ig_plan_create(planner, args, out);
    ig_graph_deinit(&g);
    return status;
}

static void strict_refuses_another_device_and_says_why(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap,
                                .devices = {(ig_device *)&k->some, k->ref},
                                .n_devices = 2,
                                .strict = true};
    ig_plan *plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F64, &plan), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "strict: some:0 has no kernel for tanh of f64 [3,4]"));
    assert_null(plan);
}

static void an_op_without_any_kernel_is_refused_by_name(void **state) {
    const kit *k = *state;
    const ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->some}, .n_devices = 1};
    ig_plan *plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F32, &plan), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "some:0 has no kernel for tanh of f32 [3,4]"));
    assert_null(plan);
}

static void assert_attempt(const ig_attempt *a, const char *level, bool ok, const char *reason) {
    assert_string_equal(a->level, level);
    assert_int_equal(a->ok, ok);
    assert_int_equal(a->selected, ok);
    if (strncmp(a->reason, reason, strlen(reason)) != 0) fail_msg("%s", a->reason);
}

static void the_ladder_is_written_down_when_compile_is_taken(void **state) {
    const kit *k = *state;
    ig_device device = like_ref(k, &ig_ref_backend, "ref:0");
    const ig_planner planner = {.allocator = &ig_heap, .devices = {&device}, .n_devices = 1};
    ig_plan *plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F32, &plan), IG_OK);
    const ig_attempt *attempts = plan->segments[0].attempts;
    assert_int_equal(plan->n_submits, 1);
    assert_attempt(&attempts[0], "compile", true, "");
    assert_attempt(&attempts[1], "kernel_override", false, "no override registered");
    assert_attempt(&attempts[2], "eager", false, "skipped: compile selected");
    ig_plan_destroy(plan);
}

static void steps_go_one_by_one_where_a_segment_cannot_be_compiled(void **state) {
    const kit *k = *state;
    const ig_planner planner = {
        .allocator = &ig_heap, .devices = {(ig_device *)&k->narrow}, .n_devices = 1};
    ig_plan *plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F32, &plan), IG_OK);
    const ig_attempt *attempts = plan->segments[0].attempts;
    assert_int_equal(plan->n_submits, 2);
    assert_attempt(&attempts[0], "compile", false, "narrow: 2 steps are too many");
    assert_attempt(&attempts[1], "kernel_override", false, "no override registered");
    assert_attempt(&attempts[2], "eager", true, "");
    ig_plan_destroy(plan);

    for (uint32_t number = 0; number < 20; number++) { /* and the numbers are the same */
        sketch s;
        ig_plan_destroy(try_graph(k, &planner, &s, number));
        ig_graph_deinit(&s.g);
    }
}

/* The kernels of both steps are one list, so eager costs one submit. */
static void a_device_without_a_compiler_has_no_compile_selected(void **state) {
    const kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {k->ref}, .n_devices = 1};
    ig_plan *plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F32, &plan), IG_OK);
    const ig_attempt *attempts = plan->segments[0].attempts;
    assert_int_equal(plan->n_submits, 1);
    assert_attempt(&attempts[0], "compile", false, "not offered");
    assert_attempt(&attempts[1], "kernel_override", false, "no override registered");
    assert_attempt(&attempts[2], "eager", true, "");
    ig_plan_destroy(plan);

    /* One that takes no list runs one program per step, and the attempt keeps the reason. */
    ig_device narrow = k->narrow;
    narrow.info.flags &= ~(uint32_t)IG_CAN_COMPILE;
    const ig_planner one = {.allocator = &ig_heap, .devices = {&narrow}, .n_devices = 1};
    assert_int_equal(plan_two(&one, IG_F32, &plan), IG_OK);
    attempts = plan->segments[0].attempts;
    assert_int_equal(plan->n_submits, 2);
    assert_attempt(&attempts[0], "compile", false, "not offered");
    assert_attempt(&attempts[2], "eager", true, "narrow: 2 steps are too many");
    ig_plan_destroy(plan);
}

/* neg(tanh(exp(neg(x)))) with the tags of each, planned. */
static ig_plan *plan_tagged(const ig_planner *planner, const ig_tag tags[4]) {
    static const ig_op ops[] = {IG_OP_NEG, IG_OP_EXP, IG_OP_TANH, IG_OP_NEG};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    const ig_value x = ig_graph_leaf(&g, ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(3, 4)}));
    ig_value y = x;
    for (int i = 0; i < 4; i++) {
        y = ig_build_unary(&g, ops[i], y);
        g.nodes[i].tag = (uint16_t)tags[i];
    }
    const ig_value bound[] = {x, y};
    ig_plan *plan = sketch_plan(planner, &g, 0, 4, bound, 2);
    ig_graph_deinit(&g);
    return plan;
}

static void an_override_takes_the_steps_of_its_tag_that_compile_turns_down(void **state) {
    kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {&k->plain}, .n_devices = 1};
    assert_int_equal(ig_device_override(&k->plain, IG_TAG_NORM, compile_norm), IG_OK);
    assert_int_equal(ig_device_override(&k->plain, IG_TAG_FFN, compile_no_ffn), IG_OK);
    assert_int_equal(ig_device_override(&k->plain, IG_TAG_NONE, compile_norm), IG_ERR_UNSUPPORTED);
    assert_int_equal(ig_device_override(&k->plain, (ig_tag)99, compile_norm), IG_ERR_UNSUPPORTED);

    const ig_tag tags[] = {IG_TAG_NONE, IG_TAG_NORM, IG_TAG_NORM, IG_TAG_NONE};
    ig_plan *plan = plan_tagged(&planner, tags);
    assert_int_equal(plan->n_segments, 3);
    assert_int_equal(plan->n_submits, 3);
    assert_int_equal(plan->segments[1].count, 2);
    const ig_attempt *attempts = plan->segments[1].attempts;
    assert_attempt(&attempts[0], "compile", false, "plain: no exp with a tag");
    assert_attempt(&attempts[1], "kernel_override", true, "");
    assert_attempt(&attempts[2], "eager", false, "skipped: kernel_override selected");
    for (int i = 0; i < 3; i += 2) {
        attempts = plan->segments[i].attempts;
        assert_attempt(&attempts[0], "compile", true, "");
        assert_attempt(&attempts[1], "kernel_override", false, "no override registered");
        assert_attempt(&attempts[2], "eager", false, "skipped: compile selected");
    }
    ig_plan_destroy(plan);

    /* One that fails is written down, too. */
    const ig_tag ffn[] = {IG_TAG_FFN, IG_TAG_FFN, IG_TAG_FFN, IG_TAG_FFN};
    plan = plan_tagged(&planner, ffn);
    attempts = plan->segments[0].attempts;
    assert_int_equal(plan->n_segments, 1);
    assert_attempt(&attempts[0], "compile", false, "plain: no neg with a tag");
    assert_attempt(&attempts[1], "kernel_override", false, "plain: ffn of 4 steps");
    assert_attempt(&attempts[2], "eager", true, "");
    assert_int_equal(plan->n_submits, 4);
    ig_plan_destroy(plan);
}

static void an_override_comes_before_eager_on_a_device_without_a_compiler(void **state) {
    const kit *k = *state;
    ig_device device = like_ref(k, &ig_ref_backend, "ref:0");
    device.info.flags &= ~(uint32_t)IG_CAN_COMPILE;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {&device}, .n_devices = 1};
    assert_int_equal(ig_device_override(&device, IG_TAG_NORM, compile_norm), IG_OK);
    const ig_tag tags[] = {IG_TAG_NONE, IG_TAG_NORM, IG_TAG_NORM, IG_TAG_NONE};
    ig_plan *plan = plan_tagged(&planner, tags);
    assert_int_equal(plan->n_segments, 3);
    for (int i = 0; i < 3; i++) {
        const ig_attempt *attempts = plan->segments[i].attempts;
        assert_attempt(&attempts[0], "compile", false, "not offered");
        assert_attempt(&attempts[1], "kernel_override", i == 1,
                       i == 1 ? "" : "no override registered");
        assert_attempt(&attempts[2], "eager", i != 1,
                       i == 1 ? "skipped: kernel_override selected" : "");
    }
    ig_plan_destroy(plan);
}

static ig_status compile_no_tanh(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                 ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].op == IG_OP_TANH) return IG_FAIL(IG_ERR_UNSUPPORTED, "odd: nothing like tanh");
    return ig_ref_backend.compile(device, steps, count, saved, progress, out);
}

/* A name and a compile() are all that a backend needs. */
static void without_can_run_the_words_and_overrides_are_the_same(void **state) {
    const kit *k = *state;
    ig_backend odd = ig_ref_backend;
    odd.can_run = NULL;
    odd.compile = compile_no_tanh;
    ig_device device = like_ref(k, &odd, "odd:0");
    ig_planner planner = {.allocator = &ig_heap, .devices = {&device, k->ref}, .n_devices = 2};
    const ig_tag tags[] = {IG_TAG_NONE, IG_TAG_NONE, IG_TAG_NORM, IG_TAG_NONE};
    ig_plan *plan = plan_tagged(&planner, tags);
    assert_int_equal(plan->n_segments, 3);
    assert_ptr_equal(plan->segments[0].device, &device);
    assert_ptr_equal(plan->segments[1].device, k->ref);
    assert_ptr_equal(plan->segments[2].device, &device);
    const char *why = plan->segments[1].fallback;
    if (strncmp(why, "odd: nothing like tanh", 22) != 0) fail_msg("%s", why);
    ig_plan_destroy(plan);

    assert_int_equal(ig_device_override(&device, IG_TAG_NORM, compile_norm), IG_OK);
    plan = plan_tagged(&planner, tags);
    assert_int_equal(plan->n_segments, 3);
    assert_ptr_equal(plan->segments[1].device, &device);
    const ig_attempt *attempts = plan->segments[1].attempts;
    assert_attempt(&attempts[0], "compile", false, "odd: nothing like tanh");
    assert_attempt(&attempts[1], "kernel_override", true, "");
    ig_plan_destroy(plan);
    device.overrides[IG_TAG_NORM] = NULL;

    planner.strict = true;
    plan = NULL;
    assert_int_equal(plan_two(&planner, IG_F32, &plan), IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "strict: odd:0: compile: odd: nothing like tanh"));
}

static void a_run_that_is_too_long_is_offered_by_tag_and_then_step_by_step(void **state) {
    const kit *k = *state;
    ig_backend alike = ig_ref_backend;
    alike.compile = compile_alike;
    ig_device device = like_ref(k, &alike, "alike:0");
    const ig_planner planner = {.allocator = &ig_heap, .devices = {&device}, .n_devices = 1};
    static const struct {
        ig_tag tags[4];
        uint32_t n_segments, counts[4];
    } rows[] = {
        {{IG_TAG_NORM, IG_TAG_NORM, IG_TAG_FFN, IG_TAG_FFN}, 2, {2, 2}},
        {{IG_TAG_NORM, IG_TAG_NORM, IG_TAG_NORM, IG_TAG_FFN}, 3, {1, 2, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_plan *plan = plan_tagged(&planner, rows[i].tags);
        assert_int_equal(plan->n_segments, rows[i].n_segments);
        for (uint32_t j = 0; j < plan->n_segments; j++) {
            assert_int_equal(plan->segments[j].count, rows[i].counts[j]);
            assert_attempt(&plan->segments[j].attempts[0], "compile", true, "");
        }
        ig_plan_destroy(plan);
    }
}

static void an_override_that_is_not_needed_is_mentioned(void **state) {
    kit *k = *state;
    const ig_planner planner = {.allocator = &ig_heap, .devices = {&k->packed}, .n_devices = 1};
    const ig_tag tags[] = {IG_TAG_NORM, IG_TAG_NORM, IG_TAG_NORM, IG_TAG_NORM};
    assert_int_equal(ig_device_override(&k->packed, IG_TAG_NORM, compile_norm), IG_OK);
    ig_plan *plan = plan_tagged(&planner, tags);
    const ig_attempt *attempts = plan->segments[0].attempts;
    assert_attempt(&attempts[0], "compile", true, "");
    assert_attempt(&attempts[1], "kernel_override", false,
                   "skipped: compile selected; override registered but unused");
    ig_plan_destroy(plan);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_step_is_in_a_later_level_than_its_inputs_or_later_in_their_chain),
        TEST(the_cpu_runs_plans_as_it_runs_their_nodes),
        TEST(products_go_by_row_after_what_they_read_unless_it_is_read_whole),
        TEST(an_update_waits_for_readers_and_readers_wait_for_it),
        TEST(strided_inputs_are_copied_where_a_kernel_needs_it),
        TEST(any_number_of_strided_inputs_is_copied),
        TEST(a_device_that_cannot_copy_is_not_asked_to),
        TEST(a_residual_joins_the_product_before_it),
        TEST(f16_is_cast_where_a_device_multiplies_f32_only),
        TEST(a_leaf_without_memory_is_refused),
        TEST(operands_without_elements_have_packed_strides),
        TEST(what_the_first_device_cannot_run_goes_to_the_next),
        TEST(strict_refuses_another_device_and_says_why),
        TEST(an_op_without_any_kernel_is_refused_by_name),
        TEST(the_ladder_is_written_down_when_compile_is_taken),
        TEST(a_device_without_a_compiler_has_no_compile_selected),
        TEST(an_override_comes_before_eager_on_a_device_without_a_compiler),
        TEST(steps_go_one_by_one_where_a_segment_cannot_be_compiled),
        TEST(an_override_takes_the_steps_of_its_tag_that_compile_turns_down),
        TEST(without_can_run_the_words_and_overrides_are_the_same),
        TEST(a_run_that_is_too_long_is_offered_by_tag_and_then_step_by_step),
        TEST(an_override_that_is_not_needed_is_mentioned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
