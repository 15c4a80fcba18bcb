/*
 * The graph as a notebook: what builders write down, what sticks when one fails, and what a cut
 * takes back.  Nothing is computed here; the hooks only count.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/build.h"

/* What the hooks saw, and which node is to fail. */
typedef struct watcher {
    uint32_t runs, drops, fail_at;
    uint32_t last_node;
} watcher;

static ig_status watch_run(void *user, ig_graph *g, uint32_t node) {
    watcher *w = user;
    w->runs++;
    w->last_node = node;
    if (node == w->fail_at) return IG_FAIL(IG_ERR_DEVICE, "node %u burns", node);
    for (uint32_t i = 0; i < g->nodes[node].n_out; i++)
        ig_value_at(g, g->nodes[node].out + i)->memory = w;
    return IG_OK;
}

static void watch_drop(void *user, ig_value_info *value) {
    watcher *w = user;
    if (value->memory) w->drops++;
    value->memory = NULL;
}

static int setup(void **state) {
    static ig_graph g;
    *state = &g;
    return ig_graph_init(&g, &ig_heap, (ig_graph_hooks){0}) == IG_OK ? 0 : -1;
}

static int teardown(void **state) {
    ig_graph_deinit(*state);
    return 0;
}

static ig_value leaf(ig_graph *g, ig_shape shape) {
    const ig_value v = ig_graph_leaf(g, ig_layout_packed((ig_desc){IG_F32, shape}));
    assert_int_not_equal(v, IG_NO_VALUE);
    return v;
}

static void assert_shape(const ig_graph *g, ig_value v, ig_shape want) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    if (!ig_shape_equal(ig_value_shape(g, v), want))
        fail_msg("%s, not %s", ig_shape_text(ig_value_shape(g, v), a), ig_shape_text(want, b));
}

static void assert_stuck(ig_graph *g, ig_status status, const char *words) {
    assert_int_equal(ig_graph_take_error(g), status);
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks \"%s\"", ig_error_text(), words);
}

/* ---- building ---- */

static void a_new_graph_has_no_nodes_and_only_the_null_value(void **state) {
    const ig_graph *g = *state;
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(g->n_values, 1);
    assert_int_equal(ig_graph_get_mark(g).n_values, 1);
}

static void values_are_numbered_from_one_in_the_order_of_building(void **state) {
    ig_graph *g = *state;
    const ig_value a = leaf(g, IG_SHAPE(2, 3)), b = leaf(g, IG_SHAPE(3));
    const ig_value sum = ig_build_binary(g, IG_OP_ADD, a, b);
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(sum, 3);
    assert_shape(g, sum, IG_SHAPE(2, 3));
    assert_int_equal(ig_value_at(g, a)->node, IG_NO_NODE);
    assert_int_equal(ig_value_at(g, sum)->node, 0);
    assert_int_equal(g->nodes[0].op, IG_OP_ADD);
    assert_int_equal(ig_node_in(g, &g->nodes[0])[1], b);
}

static void outputs_of_one_node_have_ids_in_a_row(void **state) {
    ig_graph *g = *state;
    const ig_value q = leaf(g, IG_SHAPE(1, 3, 4, 8)), k = leaf(g, IG_SHAPE(1, 3, 2, 8));
    const ig_value in[] = {q, k, k};
    const ig_attrs_attention attrs = {0, 1};
    const ig_value out = ig_build_op(
        g,
        (ig_build_args){.op = IG_OP_ATTENTION, .attrs = &attrs, .in = in, .n_in = 3, .n_out = 2});
    assert_shape(g, out, IG_SHAPE(1, 3, 4, 8));
    assert_shape(g, out + 1, IG_SHAPE(1, 3, 4));
    assert_int_equal(ig_value_at(g, out + 1)->node, ig_value_at(g, out)->node);
    assert_int_equal(g->nodes[0].n_out, 2);
}

static void attributes_are_copied_to_aligned_places(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(4, 4));
    ig_attrs_axis axis = {1};
    ig_value in[] = {x, x};
    ig_build(g, IG_OP_CONCAT, &axis, in, 2);
    axis.axis = 99;
    in[0] = in[1] = 0;
    ig_build_scale(g, x, 2, 3);
    assert_int_equal(((const ig_attrs_axis *)ig_node_attrs(g, &g->nodes[0]))->axis, 1);
    assert_int_equal(ig_node_in(g, &g->nodes[0])[0], x);
    const ig_attrs_scale *scale = ig_node_attrs(g, &g->nodes[1]);
    assert_true(scale->scale == 2 && scale->shift == 3);
    for (size_t i = 0; i < g->n_nodes; i++) assert_int_equal(g->nodes[i].attrs % 8, 0);
}

static void missing_attributes_are_zero(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(2, 3)), y = leaf(g, IG_SHAPE(3, 5));
    assert_shape(g, ig_build_binary(g, IG_OP_MATMUL, x, y), IG_SHAPE(2, 5));
    const ig_attrs_matmul *attrs = ig_node_attrs(g, &g->nodes[0]);
    assert_int_equal(attrs->transpose_a | attrs->transpose_b, 0);
}

static void a_node_may_have_hundreds_of_inputs(void **state) {
    enum { MANY = 300 };
    ig_graph *g = *state;
    ig_value in[MANY];
    for (int i = 0; i < MANY; i++) in[i] = leaf(g, IG_SHAPE(2, i % 3));
    const ig_value joined = ig_build(g, IG_OP_CONCAT, &(ig_attrs_axis){1}, in, MANY);
    assert_shape(g, joined, IG_SHAPE(2, MANY));
    assert_memory_equal(ig_node_in(g, &g->nodes[0]), in, sizeof in);
}

/* ---- memory that values share ---- */

static void a_view_shows_the_memory_of_its_input(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(4, 6)), y = ig_build_unary(g, IG_OP_EXP, x);
    const ig_value part = ig_build_slice(g, y, 1, 2, 5);
    const ig_value wide = ig_build_broadcast(g, ig_build_slice(g, part, 0, 1, 2), IG_SHAPE(7, 3));
    assert_int_equal(ig_value_at(g, part)->base, y);
    assert_int_equal(ig_value_at(g, wide)->base, y);
    assert_int_equal(ig_value_at(g, part)->layout.offset, 2);
    assert_int_equal(ig_value_at(g, wide)->layout.offset, 8);
    assert_int_equal(ig_value_at(g, wide)->layout.stride[0], 0);
    assert_int_equal(ig_value_at(g, x)->base, x);
}

static void a_reshape_that_strides_cannot_express_is_copied_first(void **state) {
    ig_graph *g = *state;
    const ig_attrs_axes turn = {{1, 0}};
    const ig_value x = leaf(g, IG_SHAPE(4, 6));
    const ig_value flat =
        ig_build_reshape(g, ig_build(g, IG_OP_TRANSPOSE, &turn, &x, 1), IG_SHAPE(24));
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(g->nodes[1].op, IG_OP_COPY);
    assert_int_equal(g->nodes[2].op, IG_OP_RESHAPE);
    assert_int_equal(ig_value_at(g, flat)->base, g->nodes[1].out);
    assert_shape(g, flat, IG_SHAPE(24));
    assert_int_equal(g->n_values, 5); /* none, x, its transpose, the copy, the reshape */
}

static void the_next_version_of_state_lies_where_the_one_before_lay(void **state) {
    ig_graph *g = *state;
    const ig_value w = leaf(g, IG_SHAPE(2, 3)), d = leaf(g, IG_SHAPE(2, 3));
    const ig_value m = leaf(g, IG_SHAPE(2, 3)), v = leaf(g, IG_SHAPE(2, 3));
    const ig_value in[] = {w, d, m, v};
    const ig_value out =
        ig_build_op(g, (ig_build_args){.op = IG_OP_ADAMW, .in = in, .n_in = 4, .n_out = 3});
    assert_int_equal(ig_value_at(g, out)->base, w);
    assert_int_equal(ig_value_at(g, out + 1)->base, m);
    assert_int_equal(ig_value_at(g, out + 2)->base, v);
    const ig_value again = ig_build_binary(g, IG_OP_ACCUMULATE, out, d);
    assert_int_equal(ig_value_at(g, again)->base, w);
}

/* ---- errors ---- */

static void the_first_error_sticks_until_it_is_taken(void **state) {
    ig_graph *g = *state;
    const ig_value a = leaf(g, IG_SHAPE(2)), b = leaf(g, IG_SHAPE(3));
    const ig_graph_mark mark = ig_graph_get_mark(g);
    assert_int_equal(ig_build_binary(g, IG_OP_ADD, a, b), IG_NO_VALUE);
    assert_int_equal(ig_build_slice(g, a, 0, 0, 9), IG_NO_VALUE);
    assert_int_equal(ig_build_unary(g, IG_OP_EXP, a), IG_NO_VALUE);
    assert_int_equal(ig_graph_leaf(g, ig_value_at(g, a)->layout), IG_NO_VALUE);
    (void)IG_FAIL(IG_ERR_IO, "something else failed meanwhile");
    const ig_graph_mark after = ig_graph_get_mark(g);
    assert_memory_equal(&after, &mark, sizeof mark); /* nothing was written down */

    assert_stuck(g, IG_ERR_SHAPE, "add: [2] x [3]");
    assert_int_equal(ig_graph_take_error(g), IG_OK);
    assert_int_not_equal(ig_build_unary(g, IG_OP_EXP, a), IG_NO_VALUE);
}

static void the_place_of_an_error_is_named_once(void **state) {
    ig_graph *g = *state;
    const ig_value a = leaf(g, IG_SHAPE(2)), b = leaf(g, IG_SHAPE(3));
    ig_build_binary(g, IG_OP_ADD, a, b);
    assert_stuck(g, IG_ERR_SHAPE, "(shape_call.h:");
    const char *place = strchr(ig_error_text(), '(');
    assert_null(strchr(place + 1, '('));
}

static void builders_hand_no_value_on_without_an_error_of_their_own(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(2, 3, 4));
    assert_int_equal(ig_build_unary(g, IG_OP_EXP, IG_NO_VALUE), IG_NO_VALUE);
    assert_int_equal(ig_build_binary(g, IG_OP_ADD, x, IG_NO_VALUE), IG_NO_VALUE);
    assert_int_equal(ig_build_rows(g, IG_NO_VALUE), IG_NO_VALUE);
    assert_int_equal(ig_build_sum_to(g, IG_NO_VALUE, IG_SHAPE(1)), IG_NO_VALUE);
    assert_int_equal(ig_build_reshape(g, IG_NO_VALUE, IG_SHAPE(1)), IG_NO_VALUE);
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(ig_graph_take_error(g), IG_OK);
}

static void a_wrong_number_of_inputs_is_an_error(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(2));
    assert_int_equal(ig_build(g, IG_OP_ADD, NULL, &x, 1), IG_NO_VALUE);
    assert_stuck(g, IG_ERR_ARGUMENT, "add: 1 inputs, 1 outputs");
}

/* ---- hooks and cuts ---- */

static void a_cut_takes_back_what_was_built_since_the_mark(void **state) {
    ig_graph *g = *state;
    const ig_value x = leaf(g, IG_SHAPE(2));
    const ig_value kept = ig_build_scale(g, x, 2, 0);
    const ig_graph_mark mark = ig_graph_get_mark(g);
    const ig_value first = ig_build_scale(g, kept, 3, 0);
    for (int i = 0; i < 100; i++) ig_build_binary(g, IG_OP_ADD, leaf(g, IG_SHAPE(2)), x);
    ig_graph_cut(g, mark);

    const ig_graph_mark after = ig_graph_get_mark(g);
    assert_memory_equal(&after, &mark, sizeof mark);
    assert_int_equal(ig_build_scale(g, kept, 4, 0), first); /* ids are reused */
    assert_true(((const ig_attrs_scale *)ig_node_attrs(g, &g->nodes[1]))->scale == 4);
    assert_true(((const ig_attrs_scale *)ig_node_attrs(g, &g->nodes[0]))->scale == 2);
}

static void every_node_runs_once_and_every_memory_is_dropped_once(void **state) {
    (void)state;
    watcher w = {.fail_at = UINT32_MAX};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){watch_run, watch_drop, NULL, &w}),
                     IG_OK);
    const ig_value x = leaf(&g, IG_SHAPE(2));
    const ig_value y = ig_build_unary(&g, IG_OP_EXP, x);
    const ig_graph_mark mark = ig_graph_get_mark(&g);
    ig_build_unary(&g, IG_OP_LOG, ig_build_binary(&g, IG_OP_ADD, x, y));
    assert_int_equal(w.runs, 3);
    ig_graph_cut(&g, mark);
    assert_int_equal(w.drops, 2);
    ig_graph_deinit(&g);
    assert_int_equal(w.drops, 3); /* a leaf has no memory of the watcher */
}

static void a_node_that_cannot_run_is_taken_back_and_its_error_sticks(void **state) {
    (void)state;
    watcher w = {.fail_at = 1};
    ig_graph g;
    assert_int_equal(ig_graph_init(&g, &ig_heap, (ig_graph_hooks){watch_run, watch_drop, NULL, &w}),
                     IG_OK);
    const ig_value x = leaf(&g, IG_SHAPE(2)), y = ig_build_unary(&g, IG_OP_EXP, x);
    assert_int_equal(ig_build_unary(&g, IG_OP_LOG, y), IG_NO_VALUE);
    assert_int_equal(ig_build_unary(&g, IG_OP_LOG, y), IG_NO_VALUE);
    assert_int_equal(w.runs, 2); /* after the first error nothing is tried */
    assert_int_equal(g.n_nodes, 1);
    assert_stuck(&g, IG_ERR_DEVICE, "node 1 burns");
    ig_graph_deinit(&g);
    assert_int_equal(w.drops, 1);
}

/* ---- helpers that rules are written in ---- */

static void sum_to_undoes_a_broadcast(void **state) {
    ig_graph *g = *state;
    const ig_value wide = leaf(g, IG_SHAPE(4, 2, 3));
    assert_shape(g, ig_build_sum_to(g, wide, IG_SHAPE(2, 1)), IG_SHAPE(2, 1));
    assert_shape(g, ig_build_sum_to(g, wide, IG_SHAPE(1, 1, 3)), IG_SHAPE(1, 1, 3));
    assert_shape(g, ig_build_sum_to(g, wide, (ig_shape){0}), (ig_shape){0});
    assert_int_equal(ig_build_sum_to(g, wide, IG_SHAPE(4, 2, 3)), wide);
    const ig_value none = leaf(g, IG_SHAPE(0, 3));
    assert_shape(g, ig_build_sum_to(g, none, IG_SHAPE(1, 3)), IG_SHAPE(1, 3));
}

static void rows_are_all_dimensions_but_the_last(void **state) {
    ig_graph *g = *state;
    const ig_value deep = leaf(g, IG_SHAPE(4, 2, 3)), flat = leaf(g, IG_SHAPE(4, 3));
    assert_shape(g, ig_build_rows(g, deep), IG_SHAPE(8, 3));
    assert_int_equal(ig_build_rows(g, flat), flat);
    assert_shape(g, ig_build_rows(g, leaf(g, IG_SHAPE(3))), IG_SHAPE(1, 3));
}

static void a_full_value_repeats_one_element(void **state) {
    ig_graph *g = *state;
    const ig_value full = ig_build_full(g, (ig_desc){IG_F64, IG_SHAPE(1000, 1000)}, 3);
    const ig_value_info *info = ig_value_at(g, full);
    assert_int_equal(info->layout.desc.dtype, IG_F64);
    assert_int_equal(info->layout.stride[0] | info->layout.stride[1], 0);
    assert_shape(g, info->base, (ig_shape){0});
    assert_int_equal(ig_build_full(g, (ig_desc){IG_F32, {0}}, 3), full + 1); /* no view is needed */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_new_graph_has_no_nodes_and_only_the_null_value),
        TEST(values_are_numbered_from_one_in_the_order_of_building),
        TEST(outputs_of_one_node_have_ids_in_a_row),
        TEST(attributes_are_copied_to_aligned_places),
        TEST(missing_attributes_are_zero),
        TEST(a_node_may_have_hundreds_of_inputs),
        TEST(a_view_shows_the_memory_of_its_input),
        TEST(a_reshape_that_strides_cannot_express_is_copied_first),
        TEST(the_next_version_of_state_lies_where_the_one_before_lay),
        TEST(the_first_error_sticks_until_it_is_taken),
        TEST(the_place_of_an_error_is_named_once),
        TEST(builders_hand_no_value_on_without_an_error_of_their_own),
        TEST(a_wrong_number_of_inputs_is_an_error),
        TEST(a_cut_takes_back_what_was_built_since_the_mark),
        TEST(every_node_runs_once_and_every_memory_is_dropped_once),
        TEST(a_node_that_cannot_run_is_taken_back_and_its_error_sticks),
        TEST(sum_to_undoes_a_broadcast),
        TEST(rows_are_all_dimensions_but_the_last),
        TEST(a_full_value_repeats_one_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
