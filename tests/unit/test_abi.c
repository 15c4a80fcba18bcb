/* What bindings compare when they load the library, and how they learn that an op failed. */
#include "ingot/abi.h"

#include "ingot/engine.h"
#include "ingot/ops.h"
#include "unit/check.h"

static void structs_have_names_and_sizes(void **state) {
    (void)state;
    assert_int_equal(ig_struct_size("ig_desc"), sizeof(ig_desc));
    assert_int_equal(ig_struct_size("ig_engine_stats"), sizeof(ig_engine_stats));
    size_t count = 0;
    for (const char *name; (name = ig_struct_name(count)) != NULL; count++)
        assert_true(ig_struct_size(name) > 0);
    assert_true(count > 50);
    assert_null(ig_struct_name(SIZE_MAX));
}

static void an_unknown_struct_has_no_size(void **state) {
    (void)state;
    assert_int_equal(ig_struct_size("ig_parrot"), 0);
    assert_int_equal(ig_struct_size(""), 0);
    assert_int_equal(ig_struct_size(NULL), 0);
}

static void only_the_result_of_an_op_that_failed_is_poisoned(void **state) {
    (void)state;
    ig_ctx *ctx;
    ig_tensor *x;
    assert_int_equal(ig_ctx_create(&(ig_ctx_options){.device = "cpu"}, &ctx), IG_OK);
    assert_int_equal(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(3, 4)}, &x), IG_OK);
    assert_false(ig_tensor_is_poisoned(x));
    assert_false(ig_tensor_is_poisoned(ig_add(x, x)));

    ig_tensor *wrong = ig_matmul(x, x);
    assert_true(ig_tensor_is_poisoned(wrong));
    assert_true(ig_tensor_is_poisoned(ig_add(wrong, x)));
    assert_int_equal(ig_eval(&wrong, 1), IG_ERR_SHAPE);
    assert_false(ig_tensor_is_poisoned(ig_add(x, x)));
    assert_true(ig_tensor_is_poisoned(NULL));
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_have_names_and_sizes),
        cmocka_unit_test(an_unknown_struct_has_no_size),
        cmocka_unit_test(only_the_result_of_an_op_that_failed_is_poisoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
