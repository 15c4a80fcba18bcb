#include "sketch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "graph/shape_rules.h"

/* ---- a host and devices without a context ---- */

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) {
    (void)host;
    ig_free(&ig_heap, p);
}

const ig_host sketch_host = {.abi = IG_BACKEND_ABI,
                             .struct_size = sizeof(ig_host),
                             .fail = ig_fail,
                             .alloc = host_alloc,
                             .free = host_free};

/* ---- random graphs ---- */

static int64_t roll(dice *d, int64_t below) {
    const uint32_t seed[2] = {7, d->graph};
    return (int64_t)(ig_random_bits(seed, 0, 0, d->rolled++) % (uint64_t)below);
}

typedef union any_attrs {
    ig_attrs_scale scale;
    ig_attrs_shape shape;
    ig_attrs_axes axes;
    ig_attrs_slice slice;
    ig_attrs_axis axis;
    ig_attrs_reduce reduce;
    ig_attrs_matmul matmul;
    ig_attrs_sgd sgd;
    char bytes[IG_ATTRS_MAX];
} any_attrs;

static ig_shape roll_shape(dice *d) {
    static const ig_shape shapes[] = {{2, {3, 4}}, {2, {4, 3}}, {1, {4}},       {2, {1, 4}},
                                      {2, {3, 1}}, {0},         {3, {2, 3, 4}}, {2, {4, 4}}};
    return shapes[roll(d, sizeof shapes / sizeof shapes[0])];
}

static void roll_view_attrs(dice *d, ig_op op, ig_shape x, any_attrs *out) {
    const int axis = x.rank ? (int)roll(d, x.rank) : 0;
    if (op == IG_OP_TRANSPOSE) {
        for (int i = 0; i < x.rank; i++) out->axes.axis[i] = (axis + i) % x.rank;
    } else if (op == IG_OP_SLICE) {
        const int64_t begin = x.rank ? roll(d, x.dim[axis] + 1) : 0;
        const int64_t left = x.rank ? x.dim[axis] - begin : 0;
        out->slice = (ig_attrs_slice){begin, begin + roll(d, left + 1), axis, 0};
    } else if (op == IG_OP_RESHAPE) {
        out->shape = (ig_attrs_shape){.rank = 2, .dim = {1, ig_shape_count(x)}};
    } else if (op == IG_OP_BROADCAST) {
        out->shape.rank = x.rank + 1;
        out->shape.dim[0] = 2;
        for (int i = 0; i < x.rank && i + 1 < IG_MAX_RANK; i++) out->shape.dim[i + 1] = x.dim[i];
    }
}

static any_attrs roll_attrs(dice *d, ig_op op, ig_shape x) {
    any_attrs a = {.bytes = {0}};
    if (ig_op_find(op)->traits & IG_VIEWS)
        roll_view_attrs(d, op, x, &a);
    else if (op == IG_OP_SCALE)
        a.scale = (ig_attrs_scale){0.5, 0.25};
    else if (op == IG_OP_SUM)
        a.reduce = (ig_attrs_reduce){(uint32_t)roll(d, 1 << x.rank), (uint32_t)roll(d, 2)};
    else if (op == IG_OP_MATMUL)
        a.matmul = (ig_attrs_matmul){.transpose_a = (uint32_t)roll(d, 2),
                                     .transpose_b = (uint32_t)roll(d, 2)};
    return a;
}

/* Builds an op on current values if it fits them. */
static void try_op(sketch *s) {
    static const ig_op ops[] = {IG_OP_ADD,     IG_OP_MUL,       IG_OP_TANH,  IG_OP_SCALE,
                                IG_OP_RELU,    IG_OP_TRANSPOSE, IG_OP_SLICE, IG_OP_RESHAPE,
                                IG_OP_SUM,     IG_OP_MATMUL,    IG_OP_TANH,  IG_OP_CONCAT,
                                IG_OP_SOFTMAX, IG_OP_BROADCAST};
    ig_graph *g = &s->g;
    const ig_op op = ops[roll(&s->dice, sizeof ops / sizeof ops[0])];
    const uint32_t n_in = op == IG_OP_CONCAT ? 2 : ig_op_find(op)->in_min;
    ig_value in[2];
    ig_desc descs[2], out;
    for (uint32_t i = 0; i < n_in; i++) {
        in[i] = s->usable[roll(&s->dice, s->n_usable)];
        descs[i] = ig_value_at(g, in[i])->layout.desc;
    }
    const any_attrs attrs = roll_attrs(&s->dice, op, descs[0].shape);
    if (ig_infer(op, &attrs, descs, n_in, &out, 1) != IG_OK) return;
    if (ig_shape_count(out.shape) > MOST_ELEMENTS) return;
    s->usable[s->n_usable++] = ig_build(g, op, &attrs, in, n_in);
}

/* Values that show the older version of a state must not be read any more. */
static void forget_version(sketch *s, ig_value base) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_usable; i++)
        if (ig_value_at(&s->g, s->usable[i])->base != base) s->usable[kept++] = s->usable[i];
    s->n_usable = kept;
}

/* Overwrites a state, or two of them at once, by what has its shape. */
static void try_update(sketch *s) {
    static const ig_op ops[] = {IG_OP_ASSIGN, IG_OP_ACCUMULATE, IG_OP_SGD};
    ig_graph *g = &s->g;
    const ig_op op = ops[roll(&s->dice, 3)];
    const int64_t which = roll(&s->dice, STATES);
    const ig_value w = s->states[which], src = s->usable[roll(&s->dice, s->n_usable)];
    const ig_value m = s->states[(which + 1) % STATES];
    const ig_shape shape = ig_value_shape(g, w);
    if (!ig_shape_equal(shape, ig_value_shape(g, src))) return;
    const ig_value base = ig_value_at(g, w)->base, other = ig_value_at(g, m)->base;
    const ig_value from = ig_value_at(g, src)->base;
    if (from == base || (op == IG_OP_SGD && from == other)) return;

    const any_attrs attrs = {.sgd = {.momentum = 0.5f}};
    const ig_value in[] = {w, src, m};
    const uint32_t n_out = op == IG_OP_SGD ? 2 : 1;
    const ig_value out = ig_build_op(
        g, (ig_build_args){.op = op, .attrs = &attrs, .in = in, .n_in = n_out + 1, .n_out = n_out});
    for (uint32_t i = 0; i < n_out; i++) {
        forget_version(s, i ? other : base);
        s->usable[s->n_usable++] = s->states[(which + i) % STATES] = out + i;
    }
}

void sketch_draw(sketch *s, uint32_t number) {
    s->dice = (dice){number, 0};
    s->n_usable = 0;
    assert_int_equal(ig_graph_init(&s->g, &ig_heap, (ig_graph_hooks){0}), IG_OK);
    for (int i = 0; i < LEAVES; i++) {
        const ig_shape shape = i < STATES ? IG_SHAPE(3, 4) : roll_shape(&s->dice);
        const ig_value leaf = ig_graph_leaf(&s->g, ig_layout_packed((ig_desc){IG_F32, shape}));
        if (i < STATES) s->states[i] = leaf;
        s->usable[s->n_usable++] = leaf;
    }
    for (int tries = 0; s->g.n_nodes < NODES && tries < 1000; tries++) {
        if (roll(&s->dice, 5) == 0)
            try_update(s);
        else
            try_op(s);
    }
    assert_int_equal(ig_graph_take_error(&s->g), IG_OK);
    assert_true(s->g.n_values < MOST_VALUES);
}

/* ---- memory ---- */

static bool is_view(const ig_node *node) { return ig_op_find(node->op)->traits & IG_VIEWS; }

void sketch_memory_init(memory *m, const ig_graph *g) {
    *m = (memory){0};
    const uint32_t seed[2] = {99, 0};
    for (ig_value v = 1; v < g->n_values; v++) {
        const ig_value_info *info = ig_value_at(g, v);
        uint64_t bytes;
        if (info->base != v) continue;
        assert_true(ig_desc_bytes(info->layout.desc, &bytes));
        m->bytes[v] = bytes;
        float *at = ig_alloc(&ig_heap, bytes, 1);
        assert_non_null(at);
        m->of[v] = (ig_backend_buffer *)at;
        for (uint64_t i = 0; info->node == IG_NO_NODE && i < bytes / sizeof *at; i++)
            at[i] = (float)ig_random_bits(seed, 0, v, i) / 4294967296.0f * 2 - 1;
    }
}

void sketch_memory_deinit(memory *m) {
    for (int v = 0; v < MOST_VALUES; v++) ig_free(&ig_heap, m->of[v]);
}

static ig_slot slots[] = {{.f = 0.125}}; /* the rate of sgd */

void sketch_run(const ig_plan *plan, const memory *m, const ig_value *bound, uint32_t n_bound) {
    ig_backend_buffer *buffers[MOST_VALUES + 1];
    buffers[IG_ARENA] = ig_alloc(&ig_heap, plan->arena_bytes, 1);
    assert_non_null(buffers[IG_ARENA]);
    memset((char *)buffers[IG_ARENA], 0xff, plan->arena_bytes); /* NaN, where no step writes */
    for (uint32_t i = 0; i < n_bound; i++) buffers[i + 1] = m->of[bound[i]];
    assert_int_equal(ig_plan_run(plan, (ig_run_args){.buffers = buffers,
                                                     .n_buffers = n_bound + 1,
                                                     .slots = slots,
                                                     .n_slots = 1}),
                     IG_OK);
    ig_free(&ig_heap, buffers[IG_ARENA]);
}

ig_plan *sketch_plan(const ig_planner *planner, const ig_graph *g, uint32_t first, uint32_t count,
                     const ig_value *bound, uint32_t n_bound) {
    ig_plan *plan = NULL;
    const ig_plan_args args = {
        .graph = g, .first = first, .count = count, .bound = bound, .n_bound = n_bound};
    if (ig_plan_create(planner, args, &plan) != IG_OK) fail_msg("%s", ig_error_text());
    return plan;
}

/* All nodes, one by one, as they were built. */
void sketch_run_one_by_one(const ig_planner *planner, const ig_graph *g, const memory *m) {
    ig_value all[MOST_VALUES];
    uint32_t count = 0;
    for (ig_value v = 1; v < g->n_values; v++)
        if (m->of[v]) all[count++] = v;
    for (uint32_t node = 0; node < g->n_nodes; node++) {
        if (is_view(&g->nodes[node])) continue;
        ig_plan *plan = sketch_plan(planner, g, node, 1, all, count);
        if (planner->devices[0]->backend == &ig_ref_backend) { /* which needs no copies */
            assert_int_equal(plan->n_levels, 1);
            assert_int_equal(plan->arena_bytes, 0);
        }
        sketch_run(plan, m, all, count);
        ig_plan_destroy(plan);
    }
}

/* Leaves; what no node reads; and some others: `of_four` of four. */
uint32_t sketch_choose_bound(sketch *s, ig_value *bound, int64_t of_four) {
    const ig_graph *g = &s->g;
    bool read[MOST_VALUES] = {0};
    uint32_t count = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->nodes[i].n_in && !is_view(&g->nodes[i]); j++)
            read[ig_value_at(g, ig_node_in(g, &g->nodes[i])[j])->base] = true;
    for (ig_value v = 1; v < g->n_values; v++) {
        const ig_value_info *info = ig_value_at(g, v);
        if (info->base != v) continue;
        if (info->node == IG_NO_NODE || !read[v] || roll(&s->dice, 4) < of_four) bound[count++] = v;
    }
    return count;
}
