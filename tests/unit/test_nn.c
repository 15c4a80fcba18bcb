/*
 * Modules and layers: names, order, who owns what, and what a layer computes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingot/ingot.h"
#include "nn/module.h"

static const double tolerance = 1e-6; /* of products of a few numbers near 1, in f32 */

static void must(ig_status status) {
    if (status != IG_OK) fail_msg("%s: %s", ig_status_text(status), ig_error_text());
}

/* The call was refused, in words that contain `words`. */
static void refused(ig_status got, ig_status want, const char *words) {
    assert_int_equal(got, want);
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks \"%s\"", ig_error_text(), words);
}

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

static int setup(void **state) { return ig_ctx_create(NULL, (ig_ctx **)state) != IG_OK; }

static int teardown(void **state) {
    ig_ctx_destroy(*state);
    return 0;
}

static ig_module *container(ig_ctx *ctx) {
    ig_module *module;
    must(ig_module_create(ctx, NULL, NULL, &module));
    return module;
}

static ig_tensor *from(ig_ctx *ctx, ig_shape shape, const float *values) {
    ig_tensor *tensor;
    must(ig_tensor_create_from(ctx, f32(shape), values, &tensor));
    return tensor;
}

static void read_floats(ig_tensor *tensor, float *out, size_t count) {
    must(ig_tensor_read(tensor, out, count * sizeof *out));
}

/* ---- The tree ---- */

/* Gives a layer that was just made to its parent; it goes if that fails. */
static ig_status give(ig_module *parent, const char *name, ig_status made, ig_module **child) {
    if (made != IG_OK) return made;
    const ig_status status = ig_module_add(parent, name, *child);
    if (status != IG_OK) ig_module_destroy(*child);
    return status;
}

/* Embedding(27, 16), Linear(128, 64), Linear(64, 27). */
static ig_status char_mlp(ig_ctx *ctx, ig_module **out) {
    ig_module *net, *child;
    IG_TRY(ig_module_create(ctx, NULL, NULL, &net));
    ig_status status = give(net, "embed", ig_embedding_create(ctx, 27, 16, &child), &child);
    if (status == IG_OK)
        status = give(net, "fc1", ig_linear_create(ctx, 128, 64, NULL, &child), &child);
    if (status == IG_OK)
        status = give(net, "head", ig_linear_create(ctx, 64, 27, NULL, &child), &child);
    if (status == IG_OK)
        *out = net;
    else
        ig_module_destroy(net);
    return status;
}

static void check_paths(const ig_module *module, const char *const *paths, size_t count) {
    assert_int_equal(ig_module_param_count(module), count);
    for (size_t i = 0; i < count; i++) {
        const ig_param param = ig_module_param(module, i);
        assert_string_equal(param.path, paths[i]);
        assert_ptr_equal(ig_module_find(module, paths[i]), param.tensor);
    }
}

static void char_mlp_has_10443_numbers_under_five_paths(void **state) {
    static const char *const paths[] = {"embed.weight", "fc1.weight", "fc1.bias", "head.weight",
                                        "head.bias"};
    ig_module *net = NULL;
    must(char_mlp(*state, &net));
    assert_int_equal(ig_module_element_count(net), 10443);
    check_paths(net, paths, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(ig_tensor_name(ig_module_param(net, i).tensor), paths[i]);
    assert_null(ig_module_find(net, "fc1"));
    assert_null(ig_module_find(net, "weight"));
    assert_null(ig_module_find(net, NULL));
    assert_null(ig_module_param(net, 5).tensor);
    ig_module_destroy(net);
}

static void what_is_added_late_takes_its_place_in_every_list_above(void **state) {
    ig_module *root = container(*state), *a = container(*state), *b = container(*state);
    ig_module *leaf = container(*state);
    ig_tensor *x;
    must(ig_module_add(root, "a", a));
    must(ig_module_add_param(root, "own", f32(IG_SHAPE(2)), &x));
    must(ig_module_add(root, "b", b));
    must(ig_module_add_param(b, "x", f32(IG_SHAPE(3)), &x));
    const char *kept = ig_module_param(root, 1).path;
    must(ig_module_add_param(leaf, "y", f32(IG_SHAPE(5)), &x));
    must(ig_module_add_param(leaf, "z", f32(IG_SHAPE(7)), &x));
    must(ig_module_add(a, "leaf", leaf));
    must(ig_module_add_param(leaf, "late", f32(IG_SHAPE(11)), &x));

    check_paths(root, (const char *[]){"a.leaf.y", "a.leaf.z", "a.leaf.late", "own", "b.x"}, 5);
    check_paths(a, (const char *[]){"leaf.y", "leaf.z", "leaf.late"}, 3);
    check_paths(leaf, (const char *[]){"y", "z", "late"}, 3);
    check_paths(b, (const char *[]){"x"}, 1);
    assert_ptr_equal(ig_module_param(root, 4).path, kept); /* lent texts stay */
    assert_string_equal(ig_tensor_name(x), "a.leaf.late");
    assert_int_equal(ig_module_element_count(root), 2 + 3 + 5 + 7 + 11);
    ig_module_destroy(root);
}

static void names_must_be_plain_and_free(void **state) {
    ig_module *root = container(*state), *child = container(*state);
    ig_tensor *x = NULL;
    must(ig_module_add_param(root, "w", f32(IG_SHAPE(1)), &x));
    refused(ig_module_add(root, "a.b", child), IG_ERR_ARGUMENT, "\"a.b\"");
    refused(ig_module_add(root, "", child), IG_ERR_ARGUMENT, "empty");
    refused(ig_module_add(root, NULL, child), IG_ERR_ARGUMENT, "empty");
    refused(ig_module_add(root, "w", child), IG_ERR_ARGUMENT, "\"w\"");
    refused(ig_module_add_param(root, "w", f32(IG_SHAPE(1)), &x), IG_ERR_ARGUMENT, "\"w\"");
    refused(ig_module_add_param(root, "x.y", f32(IG_SHAPE(1)), &x), IG_ERR_ARGUMENT, "\"x.y\"");
    must(ig_module_add(root, "child", child));
    refused(ig_module_add_param(root, "child", f32(IG_SHAPE(1)), &x), IG_ERR_ARGUMENT, "child");
    check_paths(root, (const char *[]){"w"}, 1);
    ig_module_destroy(root);
}

static void a_child_has_one_parent_of_its_context_and_does_not_hold_itself(void **state) {
    ig_ctx *other_ctx;
    must(ig_ctx_create(NULL, &other_ctx));
    ig_module *root = container(*state), *a = container(*state), *b = container(*state);
    ig_module *foreign = container(other_ctx);
    must(ig_module_add(root, "a", a));
    must(ig_module_add(a, "b", b));
    refused(ig_module_add(root, "again", b), IG_ERR_ARGUMENT, "as \"b\"");
    refused(ig_module_add(root, "foreign", foreign), IG_ERR_ARGUMENT, "another context");
    refused(ig_module_add(b, "loop", root), IG_ERR_ARGUMENT, "itself");
    refused(ig_module_add(root, "self", root), IG_ERR_ARGUMENT, "itself");
    refused(ig_module_add(root, "none", NULL), IG_ERR_ARGUMENT, "none");
    ig_module_destroy(b); /* is its parent's: nothing happens */
    assert_int_equal(ig_module_child_count(a), 1);
    ig_module_destroy(foreign);
    ig_module_destroy(root);
    ig_ctx_destroy(other_ctx);
}

/* ---- Layers ---- */

static void check_range(ig_tensor *tensor, size_t count, double bound) {
    float *x = malloc(count * sizeof *x);
    double sum = 0, largest = 0;
    assert_non_null(x);
    read_floats(tensor, x, count);
    for (size_t i = 0; i < count; i++) {
        sum += x[i];
        largest = fmax(largest, fabs((double)x[i]));
    }
    free(x);
    assert_true(largest <= bound && largest > 0.9 * bound);
    /* The mean of n draws has the deviation bound / sqrt(3 n); five of them are out of reach. */
    assert_true(fabs(sum / (double)count) < 5 * bound / sqrt(3.0 * (double)count));
}

static void weights_are_drawn_as_pytorch_draws_them(void **state) {
    enum { IN = 100, OUT = 64, DRAWN = 4096 };
    ig_module *linear, *embedding, *norm;
    must(ig_linear_create(*state, IN, OUT, NULL, &linear));
    check_range(ig_module_find(linear, "weight"), (size_t)IN * OUT, 0.1);
    check_range(ig_module_find(linear, "bias"), OUT, 0.1);
    ig_module_destroy(linear);

    static float x[DRAWN];
    double squares = 0;
    must(ig_embedding_create(*state, 128, DRAWN / 128, &embedding));
    read_floats(ig_module_find(embedding, "weight"), x, DRAWN);
    for (size_t i = 0; i < DRAWN; i++) squares += (double)x[i] * x[i];
    assert_true(fabs(squares / DRAWN - 1) < 0.12); /* five deviations of sqrt(2 / n) */
    ig_module_destroy(embedding);

    must(ig_layer_norm_create(*state, 3, 0, &norm));
    read_floats(ig_module_find(norm, "weight"), x, 3);
    assert_true(x[0] == 1 && x[1] == 1 && x[2] == 1);
    read_floats(ig_module_find(norm, "bias"), x, 3);
    assert_true(x[0] == 0 && x[1] == 0 && x[2] == 0);
    ig_module_destroy(norm);
}

static void equal_seeds_give_equal_weights(void **state) {
    float weight[3][6];
    (void)state;
    for (int i = 0; i < 3; i++) {
        ig_ctx *ctx;
        ig_module *linear;
        must(ig_ctx_create(&(ig_ctx_options){.seed = i < 2 ? 7 : 8}, &ctx));
        must(ig_linear_create(ctx, 2, 3, &(ig_linear_options){.no_bias = true}, &linear));
        assert_int_equal(ig_module_param_count(linear), 1);
        read_floats(ig_module_find(linear, "weight"), weight[i], 6);
        ig_module_destroy(linear);
        ig_ctx_destroy(ctx);
    }
    assert_memory_equal(weight[0], weight[1], sizeof weight[0]);
    assert_memory_not_equal(weight[0], weight[2], sizeof weight[0]);
}

static void linear_takes_rows_of_any_rank(void **state) {
    static const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30}, x[] = {1, -1, 2, 0.5f};
    const ig_shape shapes[] = {IG_SHAPE(2), IG_SHAPE(2, 2), IG_SHAPE(1, 2, 2)};
    ig_module *linear;
    must(ig_linear_create(*state, 2, 3, NULL, &linear));
    must(ig_tensor_write(ig_module_find(linear, "weight"), w, sizeof w));
    must(ig_tensor_write(ig_module_find(linear, "bias"), b, sizeof b));
    for (int s = 0; s < 3; s++) {
        ig_shape want = shapes[s];
        want.dim[want.rank - 1] = 3;
        ig_tensor *in = from(*state, shapes[s], x), *y = ig_module_call(linear, in);
        assert_true(ig_shape_equal(ig_tensor_desc(y).shape, want));
        const size_t rows = s == 0 ? 1 : 2;
        float got[6];
        read_floats(y, got, rows * 3);
        for (size_t i = 0; i < rows * 3; i++) {
            const float *row = x + i / 3 * 2, *column = w + i % 3 * 2;
            assert_float_equal(got[i], row[0] * column[0] + row[1] * column[1] + b[i % 3],
                               tolerance);
        }
        ig_tensor_release(in);
    }
    ig_module_destroy(linear);
}

static ig_tensor *plus_one(ig_module *module, ig_tensor *x) {
    (void)module;
    return ig_scale(x, 1, 1);
}

static ig_tensor *times(ig_module *module, ig_tensor *x) {
    return ig_scale(x, *(const double *)ig_module_data(module), 0);
}

static void a_sequence_calls_in_the_order_of_adding(void **state) {
    double three = 3, got;
    ig_module *sequence, *a, *b;
    must(ig_sequential_create(*state, &sequence));
    must(ig_module_create(*state, plus_one, NULL, &a));
    must(ig_module_create(*state, times, &three, &b));
    must(ig_module_add(sequence, "z", a));
    must(ig_module_add(sequence, "a", b));
    ig_tensor *x = from(*state, (ig_shape){0}, &(float){2});
    must(ig_tensor_item(ig_module_call(sequence, x), &got));
    assert_float_equal(got, 9, tolerance);
    ig_tensor_release(x);
    ig_module_destroy(sequence);
}

static ig_tensor *nothing(ig_module *module, ig_tensor *x) {
    (void)module;
    (void)x;
    return NULL;
}

static void a_call_that_fails_is_reported_when_it_is_evaluated(void **state) {
    ig_module *linear, *silent, *empty = container(*state);
    must(ig_linear_create(*state, 4, 3, NULL, &linear));
    must(ig_module_create(*state, nothing, NULL, &silent));
    ig_tensor *x = from(*state, IG_SHAPE(1, 2), (const float[]){1, 2});
    ig_tensor *failed[] = {ig_module_call(linear, x), ig_module_call(silent, x),
                           ig_module_call(empty, x), ig_module_call(NULL, x),
                           ig_module_call(linear, NULL)};
    double value;
    refused(ig_eval(failed, 1), IG_ERR_SHAPE, "matmul: [1,2]"); /* the first; it stuck */
    for (size_t i = 0; i < sizeof failed / sizeof *failed; i++) {
        assert_non_null(failed[i]);
        assert_int_not_equal(ig_tensor_item(ig_neg(failed[i]), &value), IG_OK);
    }
    refused(ig_tensor_item(ig_module_call(linear, x), &value), IG_ERR_SHAPE, "matmul: [1,2]");
    must(ig_tensor_item(ig_sum(x, NULL, 0, IG_DROP_DIM), &value)); /* the context goes on */
    assert_float_equal(value, 3, tolerance);
    ig_tensor_release(x);
    ig_module_destroy(linear);
    ig_module_destroy(silent);
    ig_module_destroy(empty);
}

static void a_module_that_cannot_be_called_says_why(void **state) {
    ig_module *silent, *empty = container(*state), *outer = container(*state);
    must(ig_module_create(*state, nothing, NULL, &silent));
    must(ig_module_add(outer, "silent", silent));
    must(ig_module_add(outer, "empty", empty));
    ig_tensor *x = from(*state, IG_SHAPE(1, 2), (const float[]){1, 2});
    ig_tensor *y = ig_neg(ig_module_call(empty, x));
    refused(ig_eval(&y, 1), IG_ERR_ARGUMENT, "module \"empty\" has no forward function");
    y = ig_neg(ig_module_call(silent, x));
    refused(ig_eval(&y, 1), IG_ERR_ARGUMENT, "the forward function of module \"silent\" gave NULL");
    y = ig_module_call(NULL, x);
    refused(ig_eval(&y, 1), IG_ERR_ARGUMENT, "module_call: no module");
    y = ig_poison(*state, IG_FAIL(IG_ERR_FORMAT, "a failure of one's own"));
    refused(ig_eval(&y, 1), IG_ERR_FORMAT, "a failure of one's own");
    y = ig_poison(*state, IG_OK);
    refused(ig_eval(&y, 1), IG_ERR_ARGUMENT, "poison: there is no error to report");
    assert_non_null(ig_poison(NULL, IG_ERR_IO));
    ig_tensor_release(x);
    ig_module_destroy(outer);
}

static void parameters_in_narrow_floats_are_kept_but_not_trained(void **state) {
    static const ig_dtype dtypes[] = {IG_F32, IG_F64, IG_F16, IG_BF16};
    ig_module *net = container(*state);
    ig_tensor *t = NULL;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        must(ig_module_add_param(net, ig_dtype_name(dtypes[i]), (ig_desc){dtypes[i], IG_SHAPE(2)},
                                 &t));
        must(ig_backward(
            ig_sum(ig_add(ig_cast(t, IG_F32), ig_cast(ig_module_find(net, "f32"), IG_F32)), NULL, 0,
                   IG_DROP_DIM)));
        assert_int_equal(ig_tensor_grad(t) != NULL, dtypes[i] == IG_F32 || dtypes[i] == IG_F64);
    }
    refused(ig_module_add_param(net, "i32", (ig_desc){IG_I32, IG_SHAPE(2)}, &t), IG_ERR_ARGUMENT,
            "i32 has no gradient");
    ig_module_destroy(net);
}

static void layers_refuse_sizes_that_make_no_sense(void **state) {
    ig_module *m = NULL;
    refused(ig_linear_create(*state, 0, 5, NULL, &m), IG_ERR_ARGUMENT, "0 -> 5");
    refused(ig_linear_create(*state, 5, -1, NULL, &m), IG_ERR_ARGUMENT, "5 -> -1");
    refused(ig_embedding_create(*state, 0, 4, &m), IG_ERR_ARGUMENT, "embedding: 0 rows");
    refused(ig_rms_norm_create(*state, 0, 0, &m), IG_ERR_ARGUMENT, "rms_norm: width 0");
    refused(ig_layer_norm_create(*state, 4, -1, &m), IG_ERR_ARGUMENT, "layer_norm: eps -1");
    refused(ig_layer_norm_create(*state, 4, NAN, &m), IG_ERR_ARGUMENT, "layer_norm: eps");
    refused(ig_dropout_create(*state, 1, &m), IG_ERR_ARGUMENT, "dropout");
    refused(ig_dropout_create(*state, NAN, &m), IG_ERR_ARGUMENT, "dropout");
    assert_int_not_equal(ig_linear_create(*state, INT64_MAX, INT64_MAX, NULL, &m), IG_OK);
    assert_null(m);
}

/* ---- Training or not ---- */

static size_t count_zeros(ig_tensor *tensor, float *x, size_t count) {
    size_t zeros = 0;
    read_floats(tensor, x, count);
    for (size_t i = 0; i < count; i++) zeros += x[i] == 0;
    return zeros;
}

static void dropout_drops_only_while_training(void **state) {
    enum { COUNT = 10000 };
    static float x[COUNT], first[COUNT], second[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = 3;
    ig_module *net, *dropout;
    must(ig_sequential_create(*state, &net));
    must(ig_dropout_create(*state, 0.25, &dropout));
    must(ig_module_add(net, "dropout", dropout));
    ig_tensor *in = from(*state, IG_SHAPE(COUNT), x);

    const size_t zeros = count_zeros(ig_module_call(net, in), first, COUNT);
    assert_true(zeros > COUNT / 4 - 250 && zeros < COUNT / 4 + 250); /* more than 5 deviations */
    for (int i = 0; i < COUNT; i++) assert_true(first[i] == 0 || fabsf(first[i] - 4) < 1e-5f);
    must(ig_ctx_step_end(*state));
    count_zeros(ig_module_call(net, in), second, COUNT);
    assert_memory_not_equal(first, second, sizeof first); /* others, every step */

    ig_module_set_training(net, false);
    assert_ptr_equal(ig_module_call(net, in), in);
    ig_module_set_training(net, true);
    assert_true(count_zeros(ig_module_call(net, in), first, COUNT) > 0);
    ig_tensor_release(in);
    ig_module_destroy(net);
}

static void what_joins_a_module_that_does_not_train_does_not_train(void **state) {
    ig_module *net = container(*state), *middle = container(*state), *dropout;
    must(ig_dropout_create(*state, 0.5, &dropout));
    must(ig_module_add(middle, "dropout", dropout));
    assert_true(ig_module_training(dropout));
    ig_module_set_training(net, false);
    must(ig_module_add(net, "middle", middle));
    assert_false(ig_module_training(dropout));
    ig_module_destroy(net);
}

/* ---- Memory ---- */

typedef struct counted {
    atomic_long alive, until_failure; /* below 0: none fails */
} counted;

static void *counted_alloc(void *user, size_t bytes, size_t alignment) {
    counted *c = user;
    if (atomic_fetch_sub(&c->until_failure, 1) == 0) return NULL;
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (p) atomic_fetch_add(&c->alive, 1);
    return p;
}

static void counted_free(void *user, void *p) {
    atomic_fetch_sub(&((counted *)user)->alive, 1);
    free(p);
}

/* Builds char-mlp inside of `outer`, and trains it for a step. */
static ig_status build_and_train(ig_ctx *ctx, ig_module *outer, ig_module **net,
                                 ig_optimizer **opt) {
    static const int32_t ids[16] = {1, 5, 2, 26, 0, 7, 7, 3, 9}, next[2] = {4, 8};
    ig_tensor *x = NULL, *y = NULL;
    IG_TRY(char_mlp(ctx, net));
    ig_status status = ig_module_add(outer, "net", *net);
    if (status != IG_OK) { /* nothing has changed */
        assert_int_equal(ig_module_param_count(outer), 0);
        assert_string_equal(ig_tensor_name(ig_module_find(*net, "fc1.bias")), "fc1.bias");
        return status;
    }
    status = ig_adamw_create(outer, NULL, opt);
    if (status == IG_OK)
        status = ig_tensor_create_from(ctx, (ig_desc){IG_I32, IG_SHAPE(2, 8)}, ids, &x);
    if (status == IG_OK)
        status = ig_tensor_create_from(ctx, (ig_desc){IG_I32, IG_SHAPE(2)}, next, &y);
    if (status == IG_OK) {
        ig_tensor *h = ig_module_call(ig_module_child(*net, 0), x); /* [2, 8, 16] */
        h = ig_module_call(ig_module_child(*net, 1), ig_reshape(h, IG_SHAPE(2, 128)));
        h = ig_module_call(ig_module_child(*net, 2), ig_tanh(h));
        status = ig_backward(ig_cross_entropy(h, y));
    }
    if (status == IG_OK) status = ig_optimizer_step(*opt);
    if (*opt) assert_int_equal(ig_optimizer_steps(*opt), status == IG_OK);
    ig_tensor_release(y);
    ig_tensor_release(x);
    return status;
}

static void any_allocation_may_fail_without_a_leak(void **state) {
    (void)state;
    counted c = {.until_failure = -1};
    const ig_ctx_options options = {.threads = 1, .allocator = {counted_alloc, counted_free, &c}};
    bool reached = true;
    for (long n = 0; reached; n++) {
        ig_ctx *ctx;
        ig_module *net = NULL;
        ig_optimizer *opt = NULL;
        must(ig_ctx_create(&options, &ctx));
        ig_module *outer = container(ctx);
        atomic_store(&c.until_failure, n);
        const ig_status status = build_and_train(ctx, outer, &net, &opt);
        reached = atomic_exchange(&c.until_failure, -1) < 0;
        if (!reached) must(status);
        if (status != IG_OK) assert_int_equal(status, IG_ERR_MEMORY); /* a retry may help */

        ig_optimizer_destroy(opt);
        ig_module_destroy(net); /* does nothing if it has been added */
        ig_module_destroy(outer);
        ig_ctx_destroy(ctx);
        assert_int_equal(atomic_load(&c.alive), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(char_mlp_has_10443_numbers_under_five_paths),
        cmocka_unit_test(what_is_added_late_takes_its_place_in_every_list_above),
        cmocka_unit_test(names_must_be_plain_and_free),
        cmocka_unit_test(a_child_has_one_parent_of_its_context_and_does_not_hold_itself),
        cmocka_unit_test(weights_are_drawn_as_pytorch_draws_them),
        cmocka_unit_test(equal_seeds_give_equal_weights),
        cmocka_unit_test(linear_takes_rows_of_any_rank),
        cmocka_unit_test(a_sequence_calls_in_the_order_of_adding),
        cmocka_unit_test(a_call_that_fails_is_reported_when_it_is_evaluated),
        cmocka_unit_test(a_module_that_cannot_be_called_says_why),
        cmocka_unit_test(parameters_in_narrow_floats_are_kept_but_not_trained),
        cmocka_unit_test(layers_refuse_sizes_that_make_no_sense),
        cmocka_unit_test(dropout_drops_only_while_training),
        cmocka_unit_test(what_joins_a_module_that_does_not_train_does_not_train),
        cmocka_unit_test(any_allocation_may_fail_without_a_leak),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
