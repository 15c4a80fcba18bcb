/*
 * Shape rules: what an op gives for what it is given, and the words it has for what does not fit.
 *
 * gives() and refuses() call a rule; the second also looks whether the result was left alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/quant_blocks.h"
#include "graph/shape_rules.h"

/* A list of inputs, and how many they are. */
#define IN(...) \
    (const ig_desc[]){__VA_ARGS__}, (uint32_t)(sizeof((ig_desc[]){__VA_ARGS__}) / sizeof(ig_desc))

static const ig_desc untouched = {IG_BF16, {1, {77}}};

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }
static ig_desc f64(ig_shape shape) { return (ig_desc){IG_F64, shape}; }
static ig_desc i32(ig_shape shape) { return (ig_desc){IG_I32, shape}; }
static const ig_shape scalar = {0};

static void assert_desc(ig_desc got, ig_desc want) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    if (got.dtype != want.dtype || !ig_shape_equal(got.shape, want.shape))
        fail_msg("%s %s, not %s %s", ig_dtype_name(got.dtype), ig_shape_text(got.shape, a),
                 ig_dtype_name(want.dtype), ig_shape_text(want.shape, b));
}

static void gives(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in, ig_desc want) {
    ig_desc out = untouched;
    if (ig_infer(op, attrs, in, n_in, &out, 1) != IG_OK) fail_msg("%s", ig_error_text());
    assert_desc(out, want);
}

static void refuses_with(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in,
                         uint32_t n_out, ig_status status, const char *words) {
    ig_desc out[IG_MAX_OUT + 1];
    for (int i = 0; i <= IG_MAX_OUT; i++) out[i] = untouched;
    assert_int_equal(ig_infer(op, attrs, in, n_in, out, n_out), status);
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks \"%s\"", ig_error_text(), words);
    for (int i = 0; i <= IG_MAX_OUT; i++) assert_desc(out[i], untouched);
}

static void refuses(ig_op op, const void *attrs, const ig_desc *in, uint32_t n_in,
                    const char *words) {
    refuses_with(op, attrs, in, n_in, ig_op_find(op)->out_min, IG_ERR_SHAPE, words);
}

/* ---- element by element ---- */

static void pairs_broadcast_as_in_numpy(void **state) {
    (void)state;
    static const struct {
        ig_shape a, b, want;
    } cases[] = {
        {{3, {4, 1, 3}}, {2, {5, 1}}, {3, {4, 5, 3}}},
        {{0}, {2, {2, 3}}, {2, {2, 3}}},
        {{0}, {0}, {0}},
        {{1, {1}}, {1, {7}}, {1, {7}}},
        {{2, {0, 3}}, {1, {3}}, {2, {0, 3}}},
        {{2, {1, 3}}, {2, {0, 1}}, {2, {0, 3}}},
        {{1, {1}}, {1, {0}}, {1, {0}}},
        {{6, {2, 1, 2, 1, 2, 1}}, {6, {1, 3, 1, 3, 1, 3}}, {6, {2, 3, 2, 3, 2, 3}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gives(IG_OP_ADD, NULL, IN(f32(cases[i].a), f32(cases[i].b)), f32(cases[i].want));
        gives(IG_OP_DIV, NULL, IN(f64(cases[i].b), f64(cases[i].a)), f64(cases[i].want));
    }
}

static void pairs_that_do_not_broadcast_are_named(void **state) {
    (void)state;
    refuses(IG_OP_ADD, NULL, IN(f32(IG_SHAPE(4, 3)), f32(IG_SHAPE(2, 3))), "add: [4,3] x [2,3]");
    refuses(IG_OP_SUB, NULL, IN(f32(IG_SHAPE(3)), f32(IG_SHAPE(0))), "sub: [3] x [0]");
    refuses(IG_OP_MUL, NULL, IN(f32(IG_SHAPE(2, 0)), f32(IG_SHAPE(2, 5))), "mul: [2,0] x [2,5]");
}

static void pairs_of_two_dtypes_ask_for_a_cast(void **state) {
    (void)state;
    refuses(IG_OP_MUL, NULL, IN(f32(scalar), f64(scalar)), "mul: f32 x f64");
    refuses(IG_OP_EQUAL, NULL, IN(i32(scalar), f32(scalar)), "equal: i32 x f32");
}

static void arithmetic_is_for_f32_and_f64(void **state) {
    (void)state;
    const ig_desc half = {IG_F16, scalar}, brain = {IG_BF16, scalar};
    refuses(IG_OP_ADD, NULL, IN(i32(scalar), i32(scalar)), "add: input 0 is i32");
    refuses(IG_OP_EXP, NULL, IN(half), "exp: input 0 is f16");
    refuses(IG_OP_SCALE, &(ig_attrs_scale){1, 0}, IN(brain), "scale: input 0 is bf16");
    refuses(IG_OP_EQUAL, NULL, IN(half, half), "equal: input 0 is f16");
    gives(IG_OP_EQUAL, NULL, IN(i32(IG_SHAPE(2)), i32(scalar)), i32(IG_SHAPE(2)));
}

static void a_cast_reads_every_dtype_and_makes_no_blocks(void **state) {
    (void)state;
    for (uint32_t from = 0; from < IG_DTYPE_COUNT; from++)
        for (uint32_t to = 0; to < IG_DTYPE_COUNT; to++) {
            const ig_desc in = {(ig_dtype)from, IG_SHAPE(2, 256)};
            if (ig_dtype_block((ig_dtype)to) == 1)
                gives(IG_OP_CAST, &(ig_attrs_dtype){to}, IN(in),
                      (ig_desc){(ig_dtype)to, IG_SHAPE(2, 256)});
            else
                refuses_with(IG_OP_CAST, &(ig_attrs_dtype){to}, IN(in), 1, IG_ERR_ARGUMENT,
                             "blocks are read, not made");
        }
    refuses_with(IG_OP_CAST, &(ig_attrs_dtype){99}, IN(f32(scalar)), 1, IG_ERR_ARGUMENT,
                 "cast: dtype 99 is unknown");
    refuses_with(IG_OP_FILL, &(ig_attrs_fill){0, 99, 0}, NULL, 0, 1, IG_ERR_ARGUMENT,
                 "fill: dtype 99 is unknown");
}

static void gradients_of_activations_want_two_alike(void **state) {
    (void)state;
    gives(IG_OP_SILU_GRAD, NULL, IN(f32(IG_SHAPE(2, 3)), f32(IG_SHAPE(2, 3))), f32(IG_SHAPE(2, 3)));
    refuses(IG_OP_SILU_GRAD, NULL, IN(f32(IG_SHAPE(2, 3)), f32(IG_SHAPE(3))),
            "silu_grad: [2,3] x [3]");
}

/* ---- views ---- */

static ig_attrs_shape to(ig_shape shape) {
    ig_attrs_shape attrs = {.rank = shape.rank};
    memcpy(attrs.dim, shape.dim, sizeof attrs.dim);
    return attrs;
}

static void a_reshape_keeps_the_number_of_elements(void **state) {
    (void)state;
    const ig_attrs_shape six = to(IG_SHAPE(6)), none = to(IG_SHAPE(7, 0, 5)), one = to(scalar);
    gives(IG_OP_RESHAPE, &six, IN(i32(IG_SHAPE(2, 3))), i32(IG_SHAPE(6)));
    gives(IG_OP_RESHAPE, &none, IN(f32(IG_SHAPE(0))), f32(IG_SHAPE(7, 0, 5)));
    gives(IG_OP_RESHAPE, &one, IN(f32(IG_SHAPE(1, 1, 1))), f32(scalar));
    refuses(IG_OP_RESHAPE, &six, IN(f32(IG_SHAPE(2, 4))), "reshape: [2,4] cannot become [6]");
}

static void a_reshape_refuses_shapes_that_cannot_be(void **state) {
    (void)state;
    const ig_attrs_shape left = to(IG_SHAPE(-1, -6)), deep = {.rank = 7}, wrong = {.rank = -1};
    refuses(IG_OP_RESHAPE, &left, IN(f32(IG_SHAPE(6))), "reshape: [6] cannot become [-1,-6]");
    refuses(IG_OP_RESHAPE, &deep, IN(f32(scalar)), "reshape: rank 7; at most 6");
    refuses(IG_OP_RESHAPE, &wrong, IN(f32(scalar)), "reshape: rank -1; at most 6");
}

static void only_dimensions_of_one_broadcast(void **state) {
    (void)state;
    const ig_attrs_shape wide = to(IG_SHAPE(4, 2, 3)), none = to(IG_SHAPE(0, 3));
    gives(IG_OP_BROADCAST, &wide, IN(i32(IG_SHAPE(2, 1))), i32(IG_SHAPE(4, 2, 3)));
    gives(IG_OP_BROADCAST, &none, IN(f32(IG_SHAPE(1, 3))), f32(IG_SHAPE(0, 3)));
    refuses(IG_OP_BROADCAST, &wide, IN(f32(IG_SHAPE(2, 2))),
            "broadcast: [2,2] cannot become [4,2,3]");
    refuses(IG_OP_BROADCAST, &none, IN(f32(IG_SHAPE(2, 3))),
            "broadcast: [2,3] cannot become [0,3]");
    refuses(IG_OP_BROADCAST, &none, IN(f32(IG_SHAPE(5, 1, 3))),
            "broadcast: [5,1,3] cannot become [0,3]");
}

static void a_transpose_names_every_axis_once(void **state) {
    (void)state;
    const ig_attrs_axes turn = {{2, 0, 1}}, twice = {{0, 0, 1}}, out_of = {{0, 3, 1}};
    const ig_desc x = f32(IG_SHAPE(2, 3, 4));
    gives(IG_OP_TRANSPOSE, &turn, IN(x), f32(IG_SHAPE(4, 2, 3)));
    refuses(IG_OP_TRANSPOSE, &twice, IN(x), "transpose: axis 0 is named twice");
    refuses(IG_OP_TRANSPOSE, &out_of, IN(x), "transpose: axis 3 of [2,3,4]");
}

static void a_slice_stays_inside_its_axis(void **state) {
    (void)state;
    const ig_desc x = f32(IG_SHAPE(4, 6));
    gives(IG_OP_SLICE, &(ig_attrs_slice){2, 5, 1, 0}, IN(x), f32(IG_SHAPE(4, 3)));
    gives(IG_OP_SLICE, &(ig_attrs_slice){4, 4, 0, 0}, IN(x), f32(IG_SHAPE(0, 6)));
    refuses(IG_OP_SLICE, &(ig_attrs_slice){3, 2, 1, 0}, IN(x), "slice: [3, 2) of axis 1 of [4,6]");
    refuses(IG_OP_SLICE, &(ig_attrs_slice){-1, 2, 1, 0}, IN(x),
            "slice: [-1, 2) of axis 1 of [4,6]");
    refuses(IG_OP_SLICE, &(ig_attrs_slice){0, 7, 1, 0}, IN(x), "slice: [0, 7) of axis 1 of [4,6]");
    refuses(IG_OP_SLICE, &(ig_attrs_slice){0, 1, 2, 0}, IN(x), "slice: axis 2 of [4,6]");
    refuses(IG_OP_SLICE, &(ig_attrs_slice){0, 1, -1, 0}, IN(x), "slice: axis -1 of [4,6]");
}

/* ---- elements moved about ---- */

static void a_pad_grows_one_axis(void **state) {
    (void)state;
    const ig_desc x = f32(IG_SHAPE(2, 3));
    gives(IG_OP_PAD, &(ig_attrs_pad){1, 2, 0, 0}, IN(x), f32(IG_SHAPE(5, 3)));
    refuses_with(IG_OP_PAD, &(ig_attrs_pad){-1, 2, 0, 0}, IN(x), 1, IG_ERR_ARGUMENT,
                 "pad: by -1 and 2");
    refuses(IG_OP_PAD, &(ig_attrs_pad){INT64_MAX, 1, 0, 0}, IN(x), "too large");
    refuses(IG_OP_PAD, &(ig_attrs_pad){0, 1, 2, 0}, IN(x), "pad: axis 2 of [2,3]");
}

static void a_concat_takes_any_number_and_adds_up_the_axis(void **state) {
    (void)state;
    const ig_attrs_axis last = {1};
    const ig_desc a = f32(IG_SHAPE(2, 3)), none = f32(IG_SHAPE(2, 0)), b = f32(IG_SHAPE(2, 4));
    gives(IG_OP_CONCAT, &last, IN(a, none, b), f32(IG_SHAPE(2, 7)));
    gives(IG_OP_CONCAT, &last, IN(a), a);
    refuses(IG_OP_CONCAT, &last, IN(a, f32(IG_SHAPE(3, 3))), "concat: [2,3] x [3,3]");
    refuses(IG_OP_CONCAT, &last, IN(a, f32(IG_SHAPE(3))), "concat: [2,3] x [3]");
    refuses(IG_OP_CONCAT, &last, IN(a, f64(IG_SHAPE(2, 3))), "concat: f32 x f64");
    refuses(IG_OP_CONCAT, &last, IN(f32(IG_SHAPE(3))), "concat: axis 1 of [3]");
    refuses_with(IG_OP_CONCAT, &last, NULL, 0, 1, IG_ERR_ARGUMENT, "concat: 0 inputs, 1 outputs");
}

static void a_concat_too_long_to_count_is_refused(void **state) {
    (void)state;
    const ig_attrs_axis first = {0};
    const ig_desc x = f32(IG_SHAPE(INT64_MAX / 2, 0));
    refuses(IG_OP_CONCAT, &first, IN(x, x, x), "concat: [4611686018427387903,0] x ");
}

static void gather_and_scatter_index_one_axis(void **state) {
    (void)state;
    const ig_attrs_axis first = {0};
    const ig_desc x = f32(IG_SHAPE(5, 3)), at = i32(IG_SHAPE(2, 3)), src = f32(IG_SHAPE(2, 3));
    gives(IG_OP_GATHER, &first, IN(x, at), f32(IG_SHAPE(2, 3)));
    gives(IG_OP_SCATTER_ADD, &first, IN(x, at, src), x);
    refuses(IG_OP_GATHER, &first, IN(x, i32(IG_SHAPE(2, 4))), "gather: [5,3] x [2,4]");
    refuses(IG_OP_GATHER, &first, IN(x, src), "gather: input 1 holds indices and must be i32");
    refuses(IG_OP_SCATTER_ADD, &first, IN(x, at, f32(IG_SHAPE(1, 3))),
            "scatter_add: [2,3] x [1,3]");
    refuses(IG_OP_SCATTER_ADD, &first, IN(x, at, f64(IG_SHAPE(2, 3))), "scatter_add: f32 x f64");
}

static void an_embedding_adds_the_width_to_the_ids(void **state) {
    (void)state;
    const ig_desc table = f32(IG_SHAPE(27, 16));
    gives(IG_OP_EMBEDDING, NULL, IN(table, i32(IG_SHAPE(4, 8))), f32(IG_SHAPE(4, 8, 16)));
    gives(IG_OP_EMBEDDING, NULL, IN(table, i32(scalar)), f32(IG_SHAPE(16)));
    refuses(IG_OP_EMBEDDING, NULL, IN(f32(IG_SHAPE(27)), i32(scalar)), "embedding: [27] x []");
    refuses(IG_OP_EMBEDDING, NULL, IN(table, f32(IG_SHAPE(4))),
            "embedding: input 1 holds indices and must be i32, not f32");
    refuses(IG_OP_EMBEDDING, NULL, IN(table, i32(IG_SHAPE(1, 1, 1, 1, 1, 1))),
            "embedding: [27,16] x [1,1,1,1,1,1]");
}

static void what_only_moves_takes_integers_too(void **state) {
    (void)state;
    const ig_attrs_axis first = {0};
    const ig_desc x = i32(IG_SHAPE(2, 3)), at = i32(IG_SHAPE(4, 3)),
                  half = {IG_F16, IG_SHAPE(2, 3)};
    gives(IG_OP_PAD, &(ig_attrs_pad){1, 2, 0, 0}, IN(x), i32(IG_SHAPE(5, 3)));
    gives(IG_OP_CONCAT, &first, IN(x, at), i32(IG_SHAPE(6, 3)));
    gives(IG_OP_GATHER, &first, IN(x, at), at);
    gives(IG_OP_EMBEDDING, NULL, IN(x, i32(IG_SHAPE(7))), i32(IG_SHAPE(7, 3)));
    refuses(IG_OP_CONCAT, &first, IN(half, half), "concat: input 0 is f16");
    refuses(IG_OP_SCATTER_ADD, &first, IN(x, at, at), "scatter_add: input 0 is i32");
}

static void an_embedding_gradient_is_the_table_again(void **state) {
    (void)state;
    const ig_attrs_rows rows = {27};
    gives(IG_OP_EMBEDDING_GRAD, &rows, IN(i32(IG_SHAPE(4, 8)), f32(IG_SHAPE(4, 8, 16))),
          f32(IG_SHAPE(27, 16)));
    refuses(IG_OP_EMBEDDING_GRAD, &rows, IN(i32(IG_SHAPE(4, 8)), f32(IG_SHAPE(8, 16))),
            "embedding_grad: [4,8] x [8,16]");
    refuses(IG_OP_EMBEDDING_GRAD, &rows, IN(i32(scalar), f32(scalar)), "embedding_grad: [] x []");
}

/* ---- many to one ---- */

static void a_reduction_drops_or_keeps_its_axes(void **state) {
    (void)state;
    const ig_desc x = f32(IG_SHAPE(2, 3, 4));
    gives(IG_OP_SUM, &(ig_attrs_reduce){5, 0}, IN(x), f32(IG_SHAPE(3)));
    gives(IG_OP_MEAN, &(ig_attrs_reduce){5, 1}, IN(x), f32(IG_SHAPE(1, 3, 1)));
    gives(IG_OP_MAX, &(ig_attrs_reduce){7, 0}, IN(x), f32(scalar));
    gives(IG_OP_SUM, &(ig_attrs_reduce){0, 0}, IN(x), x);
    gives(IG_OP_SUM, &(ig_attrs_reduce){1, 0}, IN(f64(IG_SHAPE(0, 2))), f64(IG_SHAPE(2)));
    refuses(IG_OP_SUM, &(ig_attrs_reduce){8, 0}, IN(x), "sum: axes 0x8 of rank 3");
    refuses(IG_OP_SUM, &(ig_attrs_reduce){1, 0}, IN(i32(IG_SHAPE(2))), "sum: input 0 is i32");
}

static void an_argmax_gives_indices_without_the_axis(void **state) {
    (void)state;
    gives(IG_OP_ARGMAX, &(ig_attrs_axis){1}, IN(f32(IG_SHAPE(2, 3, 4))), i32(IG_SHAPE(2, 4)));
    gives(IG_OP_ARGMAX, &(ig_attrs_axis){0}, IN(f32(IG_SHAPE(0 + 3))), i32(scalar));
    refuses(IG_OP_ARGMAX, &(ig_attrs_axis){1}, IN(f32(IG_SHAPE(2, 0))), "argmax: axis 1 is empty");
    refuses(IG_OP_ARGMAX, &(ig_attrs_axis){0}, IN(f32(scalar)), "argmax: axis 0 of []");
}

static void rows_need_a_dimension(void **state) {
    (void)state;
    gives(IG_OP_SOFTMAX, NULL, IN(f32(IG_SHAPE(2, 0))), f32(IG_SHAPE(2, 0)));
    refuses(IG_OP_SOFTMAX, NULL, IN(f32(scalar)), "softmax: []: needs a dimension");
    refuses(IG_OP_RMS_NORM, &(ig_attrs_norm){0}, IN(f32(scalar)), "rms_norm: []: needs");
}

static void a_cross_entropy_has_a_target_for_every_row(void **state) {
    (void)state;
    const ig_desc logits = f32(IG_SHAPE(4, 8, 27));
    gives(IG_OP_CROSS_ENTROPY, NULL, IN(logits, i32(IG_SHAPE(4, 8))), f32(IG_SHAPE(4, 8)));
    gives(IG_OP_CROSS_ENTROPY, NULL, IN(f32(IG_SHAPE(27)), i32(scalar)), f32(scalar));
    gives(IG_OP_CROSS_ENTROPY_GRAD, NULL, IN(logits, i32(IG_SHAPE(4, 8)), f32(IG_SHAPE(4, 8))),
          logits);
    refuses(IG_OP_CROSS_ENTROPY, NULL, IN(logits, i32(IG_SHAPE(8))),
            "cross_entropy: [4,8,27] x [8]");
    refuses(IG_OP_CROSS_ENTROPY, NULL, IN(f32(scalar), i32(scalar)), "cross_entropy: [] x []");
    refuses(IG_OP_CROSS_ENTROPY_GRAD, NULL, IN(logits, i32(IG_SHAPE(4, 8)), f32(IG_SHAPE(8))),
            "cross_entropy_grad: [4,8] x [8]");
}

static void an_mse_is_a_scalar_of_two_alike(void **state) {
    (void)state;
    gives(IG_OP_MSE, NULL, IN(f32(IG_SHAPE(2, 3)), f32(IG_SHAPE(2, 3))), f32(scalar));
    refuses(IG_OP_MSE, NULL, IN(f32(IG_SHAPE(2, 3)), f32(IG_SHAPE(3))), "mse: [2,3] x [3]");
}

static void a_norm_has_vectors_of_the_last_dimension(void **state) {
    (void)state;
    const ig_attrs_norm eps = {1e-5f};
    const ig_desc x = f32(IG_SHAPE(2, 8)), w = f32(IG_SHAPE(8)), narrow = f32(IG_SHAPE(7));
    gives(IG_OP_LAYER_NORM, &eps, IN(x, w, w), x);
    gives(IG_OP_RMS_NORM_GRAD, &eps, IN(x, x, w), x);
    refuses(IG_OP_RMS_NORM, &eps, IN(x, narrow), "rms_norm: [2,8] x [7]");
    refuses(IG_OP_LAYER_NORM, &eps, IN(x, w, narrow), "layer_norm: [2,8] x [7]");
    refuses(IG_OP_RMS_NORM_GRAD, &eps, IN(x, w), "rms_norm_grad: [2,8] x [8]");
    refuses_with(IG_OP_RMS_NORM, &eps, IN(x, w, w), 1, IG_ERR_ARGUMENT, "rms_norm: 3 inputs");
}

static void a_global_norm_takes_any_shapes_of_one_dtype(void **state) {
    (void)state;
    gives(IG_OP_GLOBAL_NORM, NULL, IN(f32(IG_SHAPE(2, 8)), f32(scalar)), f32(scalar));
    refuses(IG_OP_GLOBAL_NORM, NULL, IN(f32(scalar), f64(scalar)), "global_norm: f32 x f64");
}

/* ---- contractions ---- */

static void a_matmul_takes_either_side_transposed(void **state) {
    (void)state;
    const ig_desc a = f32(IG_SHAPE(4, 3)), at = f32(IG_SHAPE(3, 4));
    const ig_desc b = f32(IG_SHAPE(3, 5)), bt = f32(IG_SHAPE(5, 3)), want = f32(IG_SHAPE(4, 5));
    gives(IG_OP_MATMUL, &(ig_attrs_matmul){.transpose_a = 0, .transpose_b = 0}, IN(a, b), want);
    gives(IG_OP_MATMUL, &(ig_attrs_matmul){.transpose_a = 1, .transpose_b = 0}, IN(at, b), want);
    gives(IG_OP_MATMUL, &(ig_attrs_matmul){.transpose_a = 0, .transpose_b = 1}, IN(a, bt), want);
    gives(IG_OP_MATMUL, &(ig_attrs_matmul){.transpose_a = 1, .transpose_b = 1},
          IN(at, bt, f32(IG_SHAPE(5))), want);
    gives(IG_OP_MATMUL, &(ig_attrs_matmul){.transpose_a = 0, .transpose_b = 0},
          IN(f32(IG_SHAPE(2, 0)), f32(IG_SHAPE(0, 3))), f32(IG_SHAPE(2, 3)));
}

static void a_matmul_broadcasts_its_batch(void **state) {
    (void)state;
    const ig_attrs_matmul plain = {.transpose_a = 0, .transpose_b = 0};
    gives(IG_OP_MATMUL, &plain, IN(f32(IG_SHAPE(7, 1, 4, 3)), f32(IG_SHAPE(2, 3, 5))),
          f32(IG_SHAPE(7, 2, 4, 5)));
    gives(IG_OP_MATMUL, &plain, IN(f32(IG_SHAPE(4, 3)), f32(IG_SHAPE(0, 3, 5))),
          f32(IG_SHAPE(0, 4, 5)));
    refuses(IG_OP_MATMUL, &plain, IN(f32(IG_SHAPE(7, 4, 3)), f32(IG_SHAPE(2, 3, 5))),
            "matmul: [7,4,3] x [2,3,5]");
}

static void a_matmul_names_the_shapes_that_do_not_fit(void **state) {
    (void)state;
    const ig_attrs_matmul plain = {.transpose_a = 0, .transpose_b = 0}, turned = {.transpose_b = 1};
    const ig_desc a = f32(IG_SHAPE(4, 3)), b = f32(IG_SHAPE(3, 5));
    refuses(IG_OP_MATMUL, &plain, IN(a, f32(IG_SHAPE(2, 5))), "matmul: [4,3] x [2,5]");
    refuses(IG_OP_MATMUL, &turned, IN(a, b), "matmul: [4,3] x [3,5]");
    refuses(IG_OP_MATMUL, &plain, IN(a, f32(IG_SHAPE(3))), "matmul: [4,3] x [3]");
    refuses(IG_OP_MATMUL, &plain, IN(a, b, f32(IG_SHAPE(4))), "matmul: [3,5] x [4]");
    refuses(IG_OP_MATMUL, &plain, IN(a, f64(IG_SHAPE(3, 5))), "matmul: f32 x f64");
}

static void rope_has_positions_for_every_row(void **state) {
    (void)state;
    const ig_attrs_rope all = {.freq_base = 10000};
    const ig_desc x = f32(IG_SHAPE(2, 7, 4, 6));
    gives(IG_OP_ROPE, &all, IN(x, i32(IG_SHAPE(7))), x);
    gives(IG_OP_ROPE, &all, IN(x, i32(IG_SHAPE(2, 7)), f32(IG_SHAPE(3))), x);
    refuses(IG_OP_ROPE, &all, IN(x, i32(IG_SHAPE(4))), "rope: [2,7,4,6] x [4]");
    refuses(IG_OP_ROPE, &all, IN(x, f32(IG_SHAPE(7))), "rope: input 1 holds indices");
    refuses(IG_OP_ROPE, &all, IN(x, i32(IG_SHAPE(7)), f32(IG_SHAPE(6))), "rope: [2,7,4,6] x [6]");
    refuses(IG_OP_ROPE, &all, IN(f32(IG_SHAPE(4, 6)), i32(IG_SHAPE(4))),
            "rope: [4,6]: must be [..., rows, heads, width]");
}

static void rope_turns_an_even_number_of_dimensions(void **state) {
    (void)state;
    const ig_attrs_rope odd = {.freq_base = 10000, .rotary_dims = 3},
                        wide = {.freq_base = 10000, .rotary_dims = 8};
    const ig_attrs_rope all = {.freq_base = 10000}, some = {.freq_base = 10000, .rotary_dims = 4};
    const ig_desc x = f32(IG_SHAPE(7, 4, 6)), at = i32(IG_SHAPE(7));
    gives(IG_OP_ROPE, &some, IN(x, at, f32(IG_SHAPE(2))), x);
    refuses(IG_OP_ROPE, &odd, IN(x, at), "rope: 3 of 6 dimensions");
    refuses(IG_OP_ROPE, &wide, IN(x, at), "rope: 8 of 6 dimensions");
    refuses(IG_OP_ROPE, &all, IN(f32(IG_SHAPE(7, 4, 5)), at), "rope: 5 of 5 dimensions");
}

static void attention_gives_rows_of_v_and_their_log_sum_exp(void **state) {
    (void)state;
    const ig_attrs_attention plain = {0, 1};
    const ig_desc q = f32(IG_SHAPE(2, 3, 8, 16)), k = f32(IG_SHAPE(2, 5, 4, 16)),
                  v = f32(IG_SHAPE(2, 5, 4, 6));
    ig_desc out[3] = {untouched, untouched, untouched};
    assert_int_equal(ig_infer(IG_OP_ATTENTION, &plain, IN(q, k, v), out, 2), IG_OK);
    assert_desc(out[0], f32(IG_SHAPE(2, 3, 8, 6)));
    assert_desc(out[1], f32(IG_SHAPE(2, 3, 8)));
    assert_desc(out[2], untouched);
    gives(IG_OP_ATTENTION, &plain, IN(q, k, v), f32(IG_SHAPE(2, 3, 8, 6)));

    assert_int_equal(ig_infer(IG_OP_ATTENTION_GRAD, &plain, IN(q, k, v, out[0], out[1], out[0]),
                              (ig_desc[3]){untouched}, 3),
                     IG_OK);
}

static void attention_names_the_shapes_that_do_not_fit(void **state) {
    (void)state;
    const ig_attrs_attention plain = {0, 1};
    const ig_desc q = f32(IG_SHAPE(2, 3, 8, 16)), k = f32(IG_SHAPE(2, 5, 4, 16));
    refuses(IG_OP_ATTENTION, &plain, IN(q, f32(IG_SHAPE(2, 5, 3, 16)), k),
            "attention: [2,3,8,16] x [2,5,3,16]"); /* 3 does not divide 8 */
    refuses(IG_OP_ATTENTION, &plain, IN(q, f32(IG_SHAPE(2, 5, 0, 16)), k),
            "attention: [2,3,8,16] x [2,5,0,16]");
    refuses(IG_OP_ATTENTION, &plain, IN(q, f32(IG_SHAPE(2, 5, 4, 8)), k),
            "attention: [2,3,8,16] x [2,5,4,8]");
    refuses(IG_OP_ATTENTION, &plain, IN(q, k, f32(IG_SHAPE(2, 6, 4, 16))),
            "attention: [2,5,4,16] x [2,6,4,16]");
    refuses(IG_OP_ATTENTION, &plain, IN(q, k, f32(IG_SHAPE(5, 4, 16))),
            "attention: [5,4,16]: must be [batch, rows, heads, width]");
    refuses(IG_OP_ATTENTION, &plain, IN(q, k, f64(IG_SHAPE(2, 5, 4, 16))), "attention: f32 x f64");
}

static void an_attention_gradient_checks_what_forward_gave(void **state) {
    (void)state;
    const ig_attrs_attention plain = {0, 1};
    const ig_desc q = f32(IG_SHAPE(2, 3, 4, 6)), lse = f32(IG_SHAPE(2, 3, 4));
    refuses(IG_OP_ATTENTION_GRAD, &plain, IN(q, q, q, lse, lse, q),
            "attention_grad: [2,3,4,6] x [2,3,4]");
    refuses(IG_OP_ATTENTION_GRAD, &plain, IN(q, q, q, q, q, q),
            "attention_grad: [2,3,4,6] x [2,3,4,6]");
    refuses(IG_OP_ATTENTION_GRAD, &plain, IN(q, q, q, q, lse, lse),
            "attention_grad: [2,3,4,6] x [2,3,4]");
    refuses(IG_OP_ATTENTION_GRAD, &plain, IN(q, q, q, q, lse, f64(IG_SHAPE(2, 3, 4, 6))),
            "attention_grad: f32 x f64");
}

/* ---- updates ---- */

static void updates_want_all_of_one_shape(void **state) {
    (void)state;
    const ig_desc w = f32(IG_SHAPE(2, 3)), narrow = f32(IG_SHAPE(3));
    gives(IG_OP_ASSIGN, NULL, IN(i32(IG_SHAPE(2)), i32(IG_SHAPE(2))), i32(IG_SHAPE(2)));
    refuses(IG_OP_ASSIGN, NULL, IN(w, narrow), "assign: [2,3] x [3]");
    refuses(IG_OP_ACCUMULATE, NULL, IN(w, f64(IG_SHAPE(2, 3))), "accumulate: f32 x f64");
    refuses(IG_OP_ACCUMULATE, NULL, IN(i32(IG_SHAPE(2)), i32(IG_SHAPE(2))),
            "accumulate: input 0 is i32");
    refuses(IG_OP_ADAMW, &(ig_attrs_adamw){0}, IN(w, w, w, narrow), "adamw: [2,3] x [3]");
    refuses(IG_OP_ADAMW, &(ig_attrs_adamw){0}, IN(w, narrow, w, w), "adamw: [2,3] x [3]");
    refuses(IG_OP_CLIP, &(ig_attrs_clip){1}, IN(w, narrow), "clip: [3]: the norm is a scalar");
}

static void adamw_and_sgd_hand_their_state_on(void **state) {
    (void)state;
    const ig_desc w = f64(IG_SHAPE(2, 3));
    ig_desc out[3] = {untouched, untouched, untouched};
    assert_int_equal(ig_infer(IG_OP_ADAMW, &(ig_attrs_adamw){0}, IN(w, w, w, w), out, 3), IG_OK);
    for (int i = 0; i < 3; i++) assert_desc(out[i], w);

    out[1] = untouched;
    assert_int_equal(ig_infer(IG_OP_SGD, &(ig_attrs_sgd){0}, IN(w, w), out, 1), IG_OK);
    assert_desc(out[1], untouched);
    assert_int_equal(ig_infer(IG_OP_SGD, &(ig_attrs_sgd){0}, IN(w, w, w), out, 2), IG_OK);
    assert_desc(out[1], w);
    refuses_with(IG_OP_SGD, &(ig_attrs_sgd){0}, IN(w, w), 2, IG_ERR_ARGUMENT,
                 "sgd: 2 inputs, 2 outputs");
}

/* ---- all of them ---- */

static void a_result_too_large_to_count_is_refused(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    const ig_desc column = f32(IG_SHAPE(huge, 1)), row = f32(IG_SHAPE(1, huge));
    refuses(IG_OP_MUL, NULL, IN(column, row), "mul: the result is too large");
    refuses(IG_OP_MATMUL, &(ig_attrs_matmul){0}, IN(column, row),
            "matmul: the result is too large");
    refuses(IG_OP_EMBEDDING, NULL, IN(f32(IG_SHAPE(1, huge)), i32(IG_SHAPE(huge))),
            "embedding: the result is too large");
    /* So many elements can be counted; their bytes cannot. */
    const int64_t half = INT64_C(1) << 31;
    refuses(IG_OP_MUL, NULL, IN(f32(IG_SHAPE(half, 1)), f32(IG_SHAPE(1, half))),
            "mul: the result is too large");
}

static void every_op_refuses_a_wrong_number_of_operands(void **state) {
    (void)state;
    static const char zeros[IG_ATTRS_MAX];
    const ig_desc in[8] = {{0}};
    for (uint32_t op = 0; op < IG_OP_COUNT; op++) {
        const ig_op_info *info = ig_op_find(op);
        if (info->in_min > 0)
            refuses_with((ig_op)op, zeros, in, info->in_min - 1u, info->out_min, IG_ERR_ARGUMENT,
                         info->name);
        if (info->in_max < 8)
            refuses_with((ig_op)op, zeros, in, info->in_max + 1u, info->out_min, IG_ERR_ARGUMENT,
                         info->name);
        refuses_with((ig_op)op, zeros, in, info->in_min, info->out_max + 1u, IG_ERR_ARGUMENT,
                     info->name);
    }
}

static void a_custom_op_has_no_rule_here(void **state) {
    (void)state;
    refuses_with(IG_OP_CUSTOM, &(ig_attrs_custom){0}, IN(f32(scalar)), 1, IG_ERR_ARGUMENT,
                 "custom: the shape rule is the program's own");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_broadcast_as_in_numpy),
        cmocka_unit_test(pairs_that_do_not_broadcast_are_named),
        cmocka_unit_test(pairs_of_two_dtypes_ask_for_a_cast),
        cmocka_unit_test(arithmetic_is_for_f32_and_f64),
        cmocka_unit_test(a_cast_reads_every_dtype_and_makes_no_blocks),
        cmocka_unit_test(gradients_of_activations_want_two_alike),
        cmocka_unit_test(a_reshape_keeps_the_number_of_elements),
        cmocka_unit_test(a_reshape_refuses_shapes_that_cannot_be),
        cmocka_unit_test(only_dimensions_of_one_broadcast),
        cmocka_unit_test(a_transpose_names_every_axis_once),
        cmocka_unit_test(a_slice_stays_inside_its_axis),
        cmocka_unit_test(a_pad_grows_one_axis),
        cmocka_unit_test(a_concat_takes_any_number_and_adds_up_the_axis),
        cmocka_unit_test(a_concat_too_long_to_count_is_refused),
        cmocka_unit_test(gather_and_scatter_index_one_axis),
        cmocka_unit_test(an_embedding_adds_the_width_to_the_ids),
        cmocka_unit_test(what_only_moves_takes_integers_too),
        cmocka_unit_test(an_embedding_gradient_is_the_table_again),
        cmocka_unit_test(a_reduction_drops_or_keeps_its_axes),
        cmocka_unit_test(an_argmax_gives_indices_without_the_axis),
        cmocka_unit_test(rows_need_a_dimension),
        cmocka_unit_test(a_cross_entropy_has_a_target_for_every_row),
        cmocka_unit_test(an_mse_is_a_scalar_of_two_alike),
        cmocka_unit_test(a_norm_has_vectors_of_the_last_dimension),
        cmocka_unit_test(a_global_norm_takes_any_shapes_of_one_dtype),
        cmocka_unit_test(a_matmul_takes_either_side_transposed),
        cmocka_unit_test(a_matmul_broadcasts_its_batch),
        cmocka_unit_test(a_matmul_names_the_shapes_that_do_not_fit),
        cmocka_unit_test(rope_has_positions_for_every_row),
        cmocka_unit_test(rope_turns_an_even_number_of_dimensions),
        cmocka_unit_test(attention_gives_rows_of_v_and_their_log_sum_exp),
        cmocka_unit_test(attention_names_the_shapes_that_do_not_fit),
        cmocka_unit_test(an_attention_gradient_checks_what_forward_gave),
        cmocka_unit_test(updates_want_all_of_one_shape),
        cmocka_unit_test(adamw_and_sgd_hand_their_state_on),
        cmocka_unit_test(a_result_too_large_to_count_is_refused),
        cmocka_unit_test(every_op_refuses_a_wrong_number_of_operands),
        cmocka_unit_test(a_custom_op_has_no_rule_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
