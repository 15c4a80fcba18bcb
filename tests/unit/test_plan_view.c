/* Plans as people see them: what a view makes of the JSON, and that pictures of it are whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cli/view/plan_view.h"
#include "xml.h"

/*
 *     level 0   chain 0: matmul v3      chain 1: fill v4
 *     level 1   chain 7: tanh v5, mul v6 (of v5 and v4)          reads both
 *     level 2   chain 8: adamw v7                                 reads v6 twice
 */
static const char plan_text[] =
    "{\"levels\":3,\"barriers\":2,\"chains\":4,\"regions\":1,\"copies\":0,"
    "\"arena_bytes\":128,\"live_bytes\":100,\"sum_bytes\":300,\"segments\":[],\"steps\":["
    "{\"op\":\"matmul\",\"level\":0,\"chain\":0,\"region\":0,\"device\":\"cpu:0\",\"flop\":64,"
    "\"bytes\":48,\"scratch\":{\"offset\":0,\"bytes\":0},"
    "\"in\":[{\"value\":1,\"buffer\":1},{\"value\":2,\"buffer\":2}],"
    "\"out\":[{\"value\":3,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[2,2]}]},"
    "{\"op\":\"fill\",\"level\":0,\"chain\":1,\"in\":[],"
    "\"out\":[{\"value\":4,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[]}]},"
    "{\"op\":\"tanh\",\"level\":1,\"chain\":7,\"in\":[{\"value\":3,\"buffer\":0}],"
    "\"out\":[{\"value\":5,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[2,2]}]},"
    "{\"op\":\"my <op> & \\\"co\\\\\",\"level\":1,\"chain\":7,"
    "\"in\":[{\"value\":5,\"buffer\":0},{\"value\":4,\"buffer\":0}],"
    "\"out\":[{\"value\":6,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[2,2]}]},"
    "{\"op\":\"adamw\",\"level\":2,\"chain\":8,"
    "\"in\":[{\"value\":6,\"buffer\":0},{\"value\":6,\"buffer\":0},{\"value\":1,\"buffer\":1}],"
    "\"out\":[{\"value\":7,\"buffer\":1,\"dtype\":\"f32\",\"shape\":[2]},"
    "{\"value\":8,\"buffer\":3,\"dtype\":\"f32\",\"shape\":[2]}]}]}";

static plan_view open_view(const char *text) {
    plan_view view;
    json_t *plan = json_loads(text, 0, NULL);
    assert_non_null(plan);
    assert_int_equal(plan_view_init(&view, &ig_heap, plan), IG_OK);
    return view;
}

static void steps_of_one_chain_are_one_box(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    assert_int_equal(v.n_steps, 5);
    assert_int_equal(v.n_levels, 3);
    assert_int_equal(v.n_chains, 4);
    assert_int_equal(v.chains[2].first, 2);
    assert_int_equal(v.chains[2].count, 2);
    assert_int_equal(v.steps[3].chain, 2);
    assert_int_equal(v.chains[3].level, 2);
    plan_view_deinit(&v);
}

static void what_is_read_from_another_chain_is_an_edge_once(void **state) {
    (void)state;
    static const plan_edge wanted[] = {{0, 2}, {1, 2}, {2, 3}};
    plan_view v = open_view(plan_text);
    assert_int_equal(v.n_edges, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(v.edges[i].from, wanted[i].from);
        assert_int_equal(v.edges[i].to, wanted[i].to);
    }
    assert_int_equal(v.buffers, 4);
    plan_view_deinit(&v);
}

static void ops_have_their_class_and_results_their_shape(void **state) {
    (void)state;
    static const plan_class classes[] = {PLAN_CONTRACT, PLAN_ELEMENT, PLAN_ELEMENT, PLAN_MOVE,
                                         PLAN_UPDATE};
    plan_view v = open_view(plan_text);
    for (int i = 0; i < 5; i++) assert_int_equal(v.steps[i].class, classes[i]);
    assert_string_equal(v.steps[0].result, "f32 [2,2]");
    assert_string_equal(v.steps[1].result, "f32 []");
    assert_string_equal(v.steps[4].result, "f32 [2] +1");
    plan_view_deinit(&v);
}

static void times_are_the_mean_of_the_runs(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    json_t *profile = json_loads("{\"runs\":4,\"dropped\":0,\"steps\":["
                                 "{\"index\":2,\"calls\":8,\"ns\":400},"
                                 "{\"index\":99,\"calls\":1,\"ns\":1}],\"events\":[]}",
                                 0, NULL);
    assert_false(v.timed);
    plan_view_add_times(&v, profile);
    assert_true(v.timed);
    assert_true(v.steps[2].ns == 100 && v.steps[2].calls == 2);
    assert_true(v.steps[0].ns == 0);
    json_decref(profile);
    plan_view_deinit(&v);
}

/* What a print function writes; the caller frees. */
static char *svg_of(const plan_view *v) {
    char *text;
    size_t bytes;
    plan_layout *layout = plan_layout_create(v);
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(layout);
    assert_non_null(to);
    plan_svg_print(to, v, layout, "a <title> & \"more\"");
    assert_int_equal(fclose(to), 0);
    plan_layout_destroy(v, layout);
    return text;
}

static void picture_is_whole_whatever_ops_are_called(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    char *svg = svg_of(&v);
    assert_true(xml_is_well_formed(svg));
    assert_non_null(strstr(svg, "my &lt;op&gt; &amp; &quot;co"));
    assert_non_null(strstr(svg, "level 2"));
    assert_null(strstr(svg, "nan"));
    free(svg);
    v.timed = true;
    svg = svg_of(&v);
    assert_true(xml_is_well_formed(svg));
    assert_non_null(strstr(svg, " us"));
    free(svg);
    plan_view_deinit(&v);
}

static size_t count_of(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static void chains_of_several_steps_are_marked_as_fused(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    size_t fused = 0;
    for (uint32_t i = 0; i < v.n_chains; i++) {
        const bool several = v.chains[i].count > 1;
        if (several) assert_true(plan_chain_ops(&v, i) > 1);
        fused += plan_chain_ops(&v, i) > 1;
    }
    assert_true(fused > 0 && fused < v.n_chains);
    char *svg = svg_of(&v), *dot;
    size_t bytes;
    FILE *to = open_memstream(&dot, &bytes);
    plan_dot_print(to, &v, "fused");
    assert_int_equal(fclose(to), 0);
    assert_int_equal(count_of(svg, "class=\"fused\""), fused + 1); /* one is the legend's */
    assert_int_equal(count_of(dot, "fused, "), fused);
    free(svg);
    free(dot);
    plan_view_deinit(&v);
}

/* Two steps, one of which has an activation and a sum fused into it, as matmuls of models have. */
static const char joined_text[] =
    "{\"steps\":[{\"op\":\"matmul+silu+add\",\"level\":0,\"chain\":0,"
    "\"in\":[{\"value\":1,\"buffer\":1,\"kind\":\"input\",\"dtype\":\"f32\",\"shape\":[1,64]},"
    "{\"value\":2,\"buffer\":2,\"kind\":\"weight\",\"dtype\":\"q4_k\",\"shape\":[32,64]}],"
    "\"out\":[{\"value\":3,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[1,32]}]},"
    "{\"op\":\"matmul\",\"level\":1,\"chain\":1,"
    "\"in\":[{\"value\":3,\"buffer\":0,\"kind\":\"local\",\"dtype\":\"f32\",\"shape\":[1,32]},"
    "{\"value\":4,\"buffer\":3,\"kind\":\"weight\",\"dtype\":\"f16\",\"shape\":[8,32]}],"
    "\"out\":[{\"value\":5,\"buffer\":0,\"dtype\":\"f32\",\"shape\":[1,8]}]}]}";

static void a_step_that_does_the_work_of_several_is_marked_as_fused(void **state) {
    (void)state;
    plan_view v = open_view(joined_text);
    assert_int_equal(plan_chain_ops(&v, 0), 3);
    assert_int_equal(plan_chain_ops(&v, 1), 1);
    char *svg = svg_of(&v);
    assert_int_equal(count_of(svg, "class=\"fused\""), 1 + 1); /* one is the legend's */
    assert_non_null(strstr(svg, "runs all 3 ops"));
    free(svg);
    plan_view_deinit(&v);
}

static void steps_know_what_their_weights_are_stored_as(void **state) {
    (void)state;
    plan_view v = open_view(joined_text);
    assert_string_equal(v.steps[0].weight, "q4_k");
    assert_true(v.steps[0].in_bytes);
    assert_string_equal(v.steps[1].weight, "f16");
    assert_false(v.steps[1].in_bytes);
    plan_view_deinit(&v);
    v = open_view(plan_text);
    for (uint32_t i = 0; i < v.n_steps; i++) assert_string_equal(v.steps[i].weight, "");
    plan_view_deinit(&v);
}

static void picture_of_nothing_is_whole_too(void **state) {
    (void)state;
    plan_view v = open_view("{\"steps\":[]}");
    char *svg = svg_of(&v);
    assert_true(xml_is_well_formed(svg));
    free(svg);
    plan_view_deinit(&v);
}

static void dot_quotes_what_has_a_meaning_there(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    plan_dot_print(to, &v, "say \"plan\"");
    assert_int_equal(fclose(to), 0);
    assert_non_null(strstr(text, "label=\"say \\\"plan\\\"\""));
    assert_non_null(strstr(text, "& \\\"co\\\\"));
    assert_non_null(strstr(text, "c1 -> c2;"));
    free(text);
    plan_view_deinit(&v);
}

static void trace_starts_at_zero_and_skips_steps_that_are_not_there(void **state) {
    (void)state;
    plan_view v = open_view(plan_text);
    json_t *profile =
        json_loads("{\"runs\":1,\"events\":["
                   "{\"run\":1,\"thread\":1,\"step\":3,\"begin_ns\":5000,\"end_ns\":7500},"
                   "{\"run\":1,\"thread\":0,\"step\":0,\"begin_ns\":4000,\"end_ns\":6000},"
                   "{\"run\":1,\"thread\":0,\"step\":77,\"begin_ns\":4000,\"end_ns\":6000}]}",
                   0, NULL);
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    plan_trace_print(to, &v, profile, "a \"job\"");
    assert_int_equal(fclose(to), 0);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 1 + 2 + 2); /* the program, two threads, two calls */
    const json_t *call = json_array_get(events, 3);
    assert_true(json_number_value(json_object_get(call, "ts")) == 1.0);
    assert_true(json_number_value(json_object_get(call, "dur")) == 2.5);
    assert_int_equal(json_integer_value(json_object_get(call, "tid")), 1);
    json_decref(root);
    free(text);
    json_decref(profile);
    plan_view_deinit(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_one_chain_are_one_box),
        cmocka_unit_test(chains_of_several_steps_are_marked_as_fused),
        cmocka_unit_test(a_step_that_does_the_work_of_several_is_marked_as_fused),
        cmocka_unit_test(steps_know_what_their_weights_are_stored_as),
        cmocka_unit_test(what_is_read_from_another_chain_is_an_edge_once),
        cmocka_unit_test(ops_have_their_class_and_results_their_shape),
        cmocka_unit_test(times_are_the_mean_of_the_runs),
        cmocka_unit_test(picture_is_whole_whatever_ops_are_called),
        cmocka_unit_test(picture_of_nothing_is_whole_too),
        cmocka_unit_test(dot_quotes_what_has_a_meaning_there),
        cmocka_unit_test(trace_starts_at_zero_and_skips_steps_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
