/* Workloads: batches that depend on the seed and the step alone, targets that follow their input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench/workload.h"
#include "ingot/context.h"
#include "ingot/grad.h"

enum { BATCH = 6, NUMBERS = 4096 };

/* Small enough to be built in a moment. */
static ig_workload_sizes small(const ig_workload_type *type) {
    if (type->fixed) return (ig_workload_sizes){.batch = BATCH};
    return (ig_workload_sizes){.batch = BATCH, .width = 64, .layers = 1, .length = 16};
}

static ig_workload *open_one(const ig_workload_type *type, uint64_t seed) {
    ig_ctx *ctx;
    ig_workload *w;
    const ig_ctx_options options = {.device = "cpu", .threads = 1, .seed = seed};
    assert_int_equal(ig_ctx_create(&options, &ctx), IG_OK);
    assert_int_equal(ig_workload_create(type, ctx, small(type), &w), IG_OK);
    return w;
}

static void close_one(ig_workload *w) {
    ig_ctx *ctx = w->ctx;
    ig_workload_destroy(w);
    ig_ctx_destroy(ctx);
}

static void read_batch(ig_workload *w, int32_t *ids, int32_t *targets) {
    const size_t count = (size_t)(w->sizes.batch * w->sizes.length);
    assert_true(count <= NUMBERS);
    assert_int_equal(ig_workload_next_batch(w), IG_OK);
    assert_int_equal(ig_tensor_read(w->ids, ids, count * sizeof *ids), IG_OK);
    assert_int_equal(
        ig_tensor_read(w->targets, targets, (size_t)ig_workload_targets(w) * sizeof *targets),
        IG_OK);
}

static void a_sample_is_a_window_of_the_text_and_what_follows(void **state) {
    (void)state;
    static int32_t ids[NUMBERS], targets[NUMBERS];
    for (const ig_workload_type *const *type = ig_workload_types; *type; type++) {
        ig_workload *w = open_one(*type, 3);
        const size_t length = (size_t)w->sizes.length;
        read_batch(w, ids, targets);
        for (size_t i = 0; i < BATCH; i++) {
            const int32_t *from = w->text + w->starts[i];
            assert_true(w->starts[i] + length < w->n_text);
            assert_memory_equal(ids + i * length, from, length * sizeof *ids);
            if ((*type)->target == IG_TARGET_EACH)
                assert_memory_equal(targets + i * length, from + 1, length * sizeof *ids);
            else
                assert_int_equal(targets[i], from[length]);
        }
        for (size_t i = 0; i < w->n_text; i++)
            assert_true(w->text[i] >= 0 && w->text[i] < (*type)->symbols);
        close_one(w);
    }
}

static void batches_depend_on_seed_and_step_alone(void **state) {
    (void)state;
    static int32_t a[NUMBERS], b[NUMBERS], targets[NUMBERS];
    const size_t bytes = BATCH * 8 * sizeof *a;
    ig_workload *w = open_one(&ig_workload_char_mlp, 1), *same = open_one(&ig_workload_char_mlp, 1);
    ig_workload *other = open_one(&ig_workload_char_mlp, 2);
    read_batch(w, a, targets);
    read_batch(w, b, targets); /* no step was taken: the same batch again */
    assert_memory_equal(a, b, bytes);
    read_batch(same, b, targets);
    assert_memory_equal(a, b, bytes);
    read_batch(other, b, targets);
    assert_memory_not_equal(a, b, bytes);
    assert_int_equal(ig_workload_step(w, NULL), IG_OK);
    read_batch(w, b, targets);
    assert_memory_not_equal(a, b, bytes);
    close_one(w);
    close_one(same);
    close_one(other);
}

static void losses_are_bit_equal_in_all_modes(void **state) {
    (void)state;
    for (const ig_workload_type *const *type = ig_workload_types; *type; type++) {
        double losses[3][8];
        for (int mode = 0; mode < 3; mode++) {
            ig_workload *w = open_one(*type, 5);
            assert_int_equal(ig_mode_set(w->ctx, (ig_mode)mode), IG_OK);
            for (int step = 0; step < 8; step++) {
                assert_int_equal(ig_workload_next_batch(w), IG_OK);
                assert_int_equal(ig_workload_step(w, &losses[mode][step]), IG_OK);
            }
            close_one(w);
        }
        assert_true(losses[0][7] < losses[0][0]); /* it learns */
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_memory_equal(losses[0], losses[2], sizeof losses[0]);
    }
}

static void gpt_has_as_many_numbers_as_its_shape_says(void **state) {
    (void)state;
    const int64_t d = 64, length = 16;
    const int64_t block = 4 * (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d) + 4 * d;
    ig_workload *w = open_one(&ig_workload_gpt, 0);
    assert_int_equal(ig_module_element_count(w->model), 256 * d + length * d + block + 2 * d);
    close_one(w);
}

static void an_unknown_name_lists_the_known_ones(void **state) {
    (void)state;
    const ig_workload_type *type = NULL;
    assert_int_equal(ig_workload_find("tinyllm", &type), IG_OK);
    assert_ptr_equal(type, &ig_workload_tinyllm);
    assert_int_equal(ig_workload_find("lenet", &type), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "expected one of char-mlp, tinyllm, gpt"));
    assert_ptr_equal(type, &ig_workload_tinyllm); /* untouched */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_is_a_window_of_the_text_and_what_follows),
        cmocka_unit_test(batches_depend_on_seed_and_step_alone),
        cmocka_unit_test(losses_are_bit_equal_in_all_modes),
        cmocka_unit_test(gpt_has_as_many_numbers_as_its_shape_says),
        cmocka_unit_test(an_unknown_name_lists_the_known_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
