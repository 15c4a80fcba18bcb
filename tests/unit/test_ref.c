/*
 * The reference against numbers that did not come from it: worked out by hand or
 * with the formulas in another language, gradients by complex steps.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "base/alloc.h"
#include "base/random.h"

enum { MAX_OPERANDS = 9 };

/* The literals have 15 digits. */
static const double tolerance = 1e-13;

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) {
    (void)host;
    ig_free(&ig_heap, p);
}

static const ig_host host = {IG_BACKEND_ABI, sizeof host, .fail = ig_fail, .alloc = host_alloc,
                             .free = host_free};

/* A packed operand in memory of the test's. */
typedef struct value {
    ig_dtype dtype;
    ig_shape shape;
    void *at;
    int16_t alias; /* 1 + the input that an output overwrites; 0: none */
} value;

static value f64(ig_shape shape, double *at) { return (value){IG_F64, shape, at, 0}; }
static value i32(ig_shape shape, int32_t *at) { return (value){IG_I32, shape, at, 0}; }

static value over(int input, ig_shape shape, double *at) {
    return (value){IG_F64, shape, at, (int16_t)(1 + input)};
}

static ig_operand operand(const value *v, uint32_t buffer) {
    ig_operand o = {.value = buffer,
                    .buffer = buffer,
                    .desc = {v->dtype, v->shape},
                    .dynamic_dim = -1,
                    .alias = (int16_t)(v->alias - 1)};
    int64_t stride = 1;
    for (int d = v->shape.rank - 1; d >= 0; d--) {
        o.stride[d] = stride;
        stride *= v->shape.dim[d];
    }
    return o;
}

typedef struct call {
    uint32_t op;
    const void *attrs;
    const ig_slot *slots;
    value in[6], out[3];
    uint32_t n_in, n_out;
} call;

static void run(const call *c) {
    ig_operand operands[MAX_OPERANDS];
    ig_backend_buffer *buffers[1 + MAX_OPERANDS] = {NULL};
    for (uint32_t i = 0; i < c->n_in + c->n_out; i++) {
        const value *v = i < c->n_in ? &c->in[i] : &c->out[i - c->n_in];
        operands[i] = operand(v, 1 + i);
        buffers[1 + i] = v->at;
    }
    const ig_step step = {.size = sizeof step,
                          .op = c->op,
                          .attrs_bytes = ig_op_find(c->op)->attrs_bytes,
                          .n_in = c->n_in,
                          .n_out = c->n_out,
                          .attrs = c->attrs,
                          .in = operands,
                          .out = operands + c->n_in};
    ig_backend_device device = {&host};
    ig_backend_program *program = NULL;
    assert_int_equal(ig_ref_backend.compile(&device, &step, 1, (ig_blob){0}, NULL, &program),
                     IG_OK);
    assert_int_equal(program->submit(program, buffers, 1 + MAX_OPERANDS, c->slots, 4), IG_OK);
    program->destroy(program);
}

/* The common one: some inputs, one output, no slots. */
#define RUN(number, attributes, result, ...)                            \
    run(&(call){.op = number,                                           \
                .attrs = attributes,                                    \
                .in = {__VA_ARGS__},                                    \
                .n_in = sizeof((value[]){__VA_ARGS__}) / sizeof(value), \
                .out = {result},                                        \
                .n_out = 1})

static void expect(const double *got, const double *want, int count) {
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("element %d: %.17g, want %.17g", i, got[i], want[i]);
}

/* ---- element by element ---- */

static const ig_attrs_gelu erf_form = {IG_GELU_ERF}, tanh_form = {IG_GELU_TANH};

static void functions_of_one_element(void **state) {
    (void)state;
    enum { N = 5 };
    const struct {
        uint32_t op;
        const void *attrs;
        double want[N];
    } cases[] = {
        {IG_OP_EXP,
         NULL,
         {0.135335283236613, 0.606530659712633, 1, 1.64872127070013, 20.0855369231877}},
        {IG_OP_TANH,
         NULL,
         {-0.964027580075817, -0.46211715726001, 0, 0.46211715726001, 0.99505475368673}},
        {IG_OP_SIGMOID,
         NULL,
         {0.119202922022118, 0.377540668798145, 0.5, 0.622459331201855, 0.952574126822433}},
        {IG_OP_SILU,
         NULL,
         {-0.238405844044235, -0.188770334399073, 0, 0.311229665600927, 2.8577223804673}},
        {IG_OP_SOFTPLUS,
         NULL,
         {0.126928011042973, 0.474076984180107, 0.693147180559945, 0.974076984180107,
          3.04858735157374}},
        {IG_OP_GELU,
         &erf_form,
         {-0.0455002638963584, -0.154268769362993, 0, 0.345731230637007, 2.99595030590511}},
        {IG_OP_GELU,
         &tanh_form,
         {-0.0454023059122249, -0.154285990174856, 0, 0.345714009825144, 2.99636260791823}},
        {IG_OP_RELU, NULL, {0, 0, 0, 0.5, 3}},
        {IG_OP_POSITIVE, NULL, {0, 0, 0, 1, 1}},
        {IG_OP_NEG, NULL, {2, 0.5, 0, -0.5, -3}},
        {IG_OP_SCALE, &(ig_attrs_scale){2, -1}, {-5, -2, -1, 0, 5}},
    };
    double x[N] = {-2, -0.5, 0, 0.5, 3}, y[N] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        RUN(cases[i].op, cases[i].attrs, f64(IG_SHAPE(N), y), f64(IG_SHAPE(N), x));
        expect(y, cases[i].want, N);
    }
    double positive[] = {0.5, 1, 100};
    RUN(IG_OP_LOG, NULL, f64(IG_SHAPE(3), y), f64(IG_SHAPE(3), positive));
    expect(y, (double[]){-0.693147180559945, 0, 4.60517018598809}, 3);
    RUN(IG_OP_SQRT, NULL, f64(IG_SHAPE(3), y), f64(IG_SHAPE(3), positive));
    expect(y, (double[]){0.707106781186548, 1, 10}, 3);
}

static void slopes_of_gelu_and_silu(void **state) {
    (void)state;
    double x[] = {-2, -0.5, 0, 0.5, 3}, dy[] = {2, 2, 2, 2, 2}, dx[5] = {0};
    const value in = f64(IG_SHAPE(5), x), d = f64(IG_SHAPE(5), dy), out = f64(IG_SHAPE(5), dx);
    RUN(IG_OP_SILU_GRAD, NULL, out, in, d);
    expect(dx,
           (double[]){-0.181568497569791, 0.520077625394696, 1, 1.4799223746053, 2.17620821203034},
           5);
    RUN(IG_OP_GELU_GRAD, &tanh_form, out, in, d);
    expect(dx,
           (double[]){-0.172198513247237, 0.265260192930715, 1, 1.73473980706928, 2.02316833326194},
           5);
    RUN(IG_OP_GELU_GRAD, &erf_form, out, in, d);
    for (int i = 0; i < 5; i++) { /* 1 + erf(x / sqrt(2)) + 2 x density(x) */
        const double want =
            1 + erf(x[i] / sqrt(2)) + 2 * x[i] * exp(-x[i] * x[i] / 2) * 0.3989422804014327;
        assert_true(fabs(dx[i] - want) < tolerance);
    }
}

static void sums_products_and_comparisons_of_two(void **state) {
    (void)state;
    double a[] = {1, 2, 3, (double)NAN}, b[] = {4, -2, 3, (double)NAN}, y[4] = {0};
    const value x = f64(IG_SHAPE(3), a), z = f64(IG_SHAPE(3), b), out = f64(IG_SHAPE(3), y);
    RUN(IG_OP_ADD, NULL, out, x, z);
    expect(y, (double[]){5, 0, 6}, 3);
    RUN(IG_OP_SUB, NULL, out, x, z);
    expect(y, (double[]){-3, 4, 0}, 3);
    RUN(IG_OP_MUL, NULL, out, x, z);
    expect(y, (double[]){4, -4, 9}, 3);
    RUN(IG_OP_DIV, NULL, out, x, z);
    expect(y, (double[]){0.25, -1, 1}, 3);
    RUN(IG_OP_EQUAL, NULL, f64(IG_SHAPE(4), y), f64(IG_SHAPE(4), a), f64(IG_SHAPE(4), b));
    expect(y, (double[]){0, 0, 1, 0}, 4);
}

static void narrow_floats_round_to_even_and_integers_stay_in_range(void **state) {
    (void)state;
    double x[] = {1,           -2,
                  65504,       65520,
                  1 + 0x1p-11, 1 + 3 * 0x1p-11,
                  0x1p-24,     0x1p-25,
                  0x1.8p-25,   (double)INFINITY,
                  0.1};
    const uint16_t f16[] = {0x3c00, 0xc000, 0x7bff, 0x7c00, 0x3c00, 0x3c02,
                            0x0001, 0x0000, 0x0001, 0x7c00, 0x2e66};
    uint16_t got[11] = {0};
    value out = {IG_F16, IG_SHAPE(11), got, 0};
    RUN(IG_OP_CAST, &(ig_attrs_dtype){IG_F16}, out, f64(IG_SHAPE(11), x));
    assert_memory_equal(got, f16, sizeof f16);

    double b[] = {1, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 3.4e38, 0x1p-133, (double)NAN, -0.1};
    const uint16_t bf16[] = {0x3f80, 0x3f80, 0x3f82, 0x7f80, 0x0001, 0x7fc0, 0xbdcd};
    out = (value){IG_BF16, IG_SHAPE(7), got, 0};
    RUN(IG_OP_CAST, &(ig_attrs_dtype){IG_BF16}, out, f64(IG_SHAPE(7), b));
    assert_memory_equal(got, bf16, sizeof bf16);

    double wide[] = {2.9, -2.9, 1e10, -1e10, (double)NAN, 2147483647, -0.5};
    const int32_t whole[] = {2, -2, INT32_MAX, INT32_MIN, 0, INT32_MAX, 0};
    int32_t ints[7] = {0};
    RUN(IG_OP_CAST, &(ig_attrs_dtype){IG_I32}, i32(IG_SHAPE(7), ints), f64(IG_SHAPE(7), wide));
    assert_memory_equal(ints, whole, sizeof whole);
}

/* ---- moves ---- */

static void moves_along_an_axis(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4, 5, 6}, more[] = {7, 8}, y[12] = {0};
    const value in = f64(IG_SHAPE(2, 3), x);
    RUN(IG_OP_PAD, (&(ig_attrs_pad){1, 1, 1, 0}), f64(IG_SHAPE(2, 5), y), in);
    expect(y, (double[]){0, 1, 2, 3, 0, 0, 4, 5, 6, 0}, 10);
    RUN(IG_OP_CONCAT, &(ig_attrs_axis){1}, f64(IG_SHAPE(2, 4), y), in, f64(IG_SHAPE(2, 1), more));
    expect(y, (double[]){1, 2, 3, 7, 4, 5, 6, 8}, 8);

    int32_t at[] = {2, 0, 1, 1, 9, 2};
    const value index = i32(IG_SHAPE(2, 3), at);
    RUN(IG_OP_GATHER, &(ig_attrs_axis){1}, f64(IG_SHAPE(2, 3), y), in, index);
    expect(y, (double[]){3, 1, 2, 5}, 4);
    assert_true(isnan(y[4]));
    expect(y + 5, (double[]){6}, 1);
    double src[] = {10, 20, 30, 40, 50, 60};
    RUN(IG_OP_SCATTER_ADD, &(ig_attrs_axis){1}, f64(IG_SHAPE(2, 3), y), in, index,
        f64(IG_SHAPE(2, 3), src));
    expect(y, (double[]){21, 32, 13, 4, 45, 66}, 6);
}

static void embeddings_pick_rows_and_their_gradient_adds_them_up(void **state) {
    (void)state;
    double table[] = {1, 2, 3, 4}, y[6] = {0}, dy[] = {1, 2, 10, 20, 100, 200};
    int32_t ids[] = {1, 5, 1};
    RUN(IG_OP_EMBEDDING, NULL, f64(IG_SHAPE(3, 2), y), f64(IG_SHAPE(2, 2), table),
        i32(IG_SHAPE(3), ids));
    expect(y, (double[]){3, 4}, 2);
    assert_true(isnan(y[2]) && isnan(y[3]));
    expect(y + 4, (double[]){3, 4}, 2);
    RUN(IG_OP_EMBEDDING_GRAD, &(ig_attrs_rows){2}, f64(IG_SHAPE(2, 2), y), i32(IG_SHAPE(3), ids),
        f64(IG_SHAPE(3, 2), dy));
    expect(y, (double[]){0, 0, 101, 202}, 4);
}

/* ---- rows ---- */

static void reductions_over_any_axes(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4] = {0};
    const value in = f64(IG_SHAPE(2, 2, 2), x);
    RUN(IG_OP_SUM, (&(ig_attrs_reduce){5, 0}), f64(IG_SHAPE(2), y), in);
    expect(y, (double[]){14, 22}, 2);
    RUN(IG_OP_MEAN, (&(ig_attrs_reduce){2, 1}), f64(IG_SHAPE(2, 1, 2), y), in);
    expect(y, (double[]){2, 3, 6, 7}, 4);
    RUN(IG_OP_MAX, (&(ig_attrs_reduce){1, 0}), f64(IG_SHAPE(2, 2), y), in);
    expect(y, (double[]){5, 6, 7, 8}, 4);

    double ties[] = {3, 7, 7, -1, (double)NAN, 9};
    int32_t best[2] = {0};
    RUN(IG_OP_ARGMAX, &(ig_attrs_axis){1}, i32(IG_SHAPE(2), best), f64(IG_SHAPE(2, 3), ties));
    assert_int_equal(best[0], 1);
    assert_int_equal(best[1], 1);
    double a[] = {1, 2, 3}, b[] = {2, 4, 6};
    RUN(IG_OP_MSE, NULL, f64((ig_shape){0}, y), f64(IG_SHAPE(3), a), f64(IG_SHAPE(3), b));
    expect(y, (double[]){14.0 / 3}, 1);
    double c[] = {3, 0}, d[] = {4};
    RUN(IG_OP_GLOBAL_NORM, NULL, f64((ig_shape){0}, y), f64(IG_SHAPE(2), c), f64(IG_SHAPE(1), d));
    expect(y, (double[]){5}, 1);
}

static void reductions_of_nothing(void **state) {
    (void)state;
    double y[2] = {9, 9};
    const value in = f64(IG_SHAPE(2, 0), NULL), out = f64(IG_SHAPE(2), y);
    RUN(IG_OP_SUM, (&(ig_attrs_reduce){2, 0}), out, in);
    expect(y, (double[]){0, 0}, 2);
    RUN(IG_OP_MAX, (&(ig_attrs_reduce){2, 0}), out, in);
    assert_true(isinf(y[0]) && y[0] < 0);
    RUN(IG_OP_MEAN, (&(ig_attrs_reduce){2, 0}), out, in);
    assert_true(isnan(y[1]));
}

static void softmax_and_the_loss_on_top_of_it(void **state) {
    (void)state;
    double x[] = {1, 2, 4}, y[3] = {0}, dloss[] = {3};
    int32_t target[] = {1}, outside[] = {3};
    const value in = f64(IG_SHAPE(1, 3), x), out = f64(IG_SHAPE(1, 3), y);
    const value at = i32(IG_SHAPE(1), target), slope = f64(IG_SHAPE(1), dloss);
    RUN(IG_OP_SOFTMAX, NULL, out, in);
    expect(y, (double[]){0.042010066134066, 0.114195199384594, 0.843794734481339}, 3);
    RUN(IG_OP_LOG_SOFTMAX, NULL, out, in);
    expect(y, (double[]){-3.16984601955629, -2.16984601955629, -0.169846019556285}, 3);
    RUN(IG_OP_CROSS_ENTROPY, NULL, f64(IG_SHAPE(1), y), in, at);
    expect(y, (double[]){2.16984601955629}, 1);
    RUN(IG_OP_CROSS_ENTROPY_GRAD, NULL, out, in, at, slope);
    expect(y, (double[]){0.126030198402198, -2.65741440184622, 2.53138420344402}, 3);
    RUN(IG_OP_CROSS_ENTROPY_GRAD, NULL, out, in, i32(IG_SHAPE(1), outside), slope);
    assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
}

static void norms_and_their_gradients(void **state) {
    (void)state;
    double x[] = {1, 2, 4}, w[] = {0.5, 2, -1}, b[] = {0.1, 0.2, 0.3}, dy[] = {1, -2, 0.5},
           y[3] = {0};
    const ig_attrs_norm quarter = {0.25f};
    const value in = f64(IG_SHAPE(1, 3), x), slope = f64(IG_SHAPE(1, 3), dy);
    const value weight = f64(IG_SHAPE(3), w), shift = f64(IG_SHAPE(3), b);
    const value out = f64(IG_SHAPE(1, 3), y);
    RUN(IG_OP_RMS_NORM, &quarter, out, in, weight);
    expect(y, (double[]){0.185695338177052, 1.48556270541641, -1.48556270541641}, 3);
    RUN(IG_OP_RMS_NORM_GRAD, &quarter, out, in, slope, weight);
    expect(y, (double[]){0.347911955435166, -1.16112947090019, 0.463171130855405}, 3);
    RUN(IG_OP_LAYER_NORM, &quarter, out, in, weight, shift);
    expect(y, (double[]){-0.396138938356834, -0.296138938356834, -0.940347345892084}, 3);
    RUN(IG_OP_LAYER_NORM_GRAD, &quarter, out, in, slope, weight);
    expect(y, (double[]){1.33385045350549, -1.99218866017129, 0.658338206665799}, 3);
}

/* ---- contractions ---- */

static void products_in_all_four_forms(void **state) {
    (void)state;
    double a[] = {1, 2, 3, 4, 5, 6}, at[] = {1, 4, 2, 5, 3, 6};       /* [2, 3], [3, 2] */
    double b[] = {1, 0, -1, 2, 0.5, 1}, bt[] = {1, -1, 0.5, 0, 2, 1}; /* [3, 2], [2, 3] */
    double bias[] = {100, 200}, y[4] = {0};
    for (uint32_t form = 0; form < 4; form++) {
        const ig_attrs_matmul t = {.transpose_a = form & 1, .transpose_b = form >> 1};
        RUN(IG_OP_MATMUL, &t, f64(IG_SHAPE(2, 2), y),
            t.transpose_a ? f64(IG_SHAPE(3, 2), at) : f64(IG_SHAPE(2, 3), a),
            t.transpose_b ? f64(IG_SHAPE(2, 3), bt) : f64(IG_SHAPE(3, 2), b),
            f64(IG_SHAPE(2), bias));
        expect(y, (double[]){100.5, 207, 102, 216}, 4);
    }
}

static void a_product_may_be_put_through_an_activation(void **state) {
    (void)state;
    double a[] = {1, -2}, b[] = {1, 2}, bias[] = {-1, 0.5}, y[4] = {0};
    RUN(IG_OP_MATMUL, &(ig_attrs_matmul){.activation = IG_ACTIVATION_RELU}, f64(IG_SHAPE(2, 2), y),
        f64(IG_SHAPE(2, 1), a), f64(IG_SHAPE(1, 2), b), f64(IG_SHAPE(2), bias));
    expect(y, (double[]){0, 2.5, 0, 0}, 4);
    RUN(IG_OP_MATMUL, &(ig_attrs_matmul){.activation = IG_ACTIVATION_SILU}, f64(IG_SHAPE(2, 2), y),
        f64(IG_SHAPE(2, 1), a), f64(IG_SHAPE(1, 2), b));
    expect(y,
           (double[]){0.731058578630005, 1.76159415595576, -0.238405844044235, -0.0719448398483662},
           4);
}

static void rope_rotates_interleaved_or_neox_pairs(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4, 5}, y[5] = {0}, factors[] = {2, 4};
    int32_t position[] = {3};
    const value in = f64(IG_SHAPE(1, 1, 5), x), out = f64(IG_SHAPE(1, 1, 5), y);
    const value at = i32(IG_SHAPE(1), position);
    ig_attrs_rope r = {.freq_base = 100, .rotary_dims = 4, .type = IG_ROPE_INTERLEAVED};
    RUN(IG_OP_ROPE, &r, out, in, at);
    expect(y,
           (double[]){-1.27223251272018, -1.83886498514102, 1.68392864073146, 4.70790657648644, 5},
           5);
    r.inverse = 1;
    RUN(IG_OP_ROPE, &r, in, out, at);
    expect(x, (double[]){1, 2, 3, 4, 5}, 5);
    r = (ig_attrs_rope){.freq_base = 100, .rotary_dims = 4, .type = IG_ROPE_NEOX};
    RUN(IG_OP_ROPE, &r, out, in, at);
    expect(y,
           (double[]){-1.41335252078005, 0.728592151605854, -2.82885748174147, 4.4123863698251, 5},
           5);
    r = (ig_attrs_rope){
        .freq_base = 100, .freq_scale = 0.5f, .rotary_dims = 4, .type = IG_ROPE_INTERLEAVED};
    RUN(IG_OP_ROPE, &r, out, in, at, f64(IG_SHAPE(2), factors));
    expect(y,
           (double[]){-0.631588651172847, 2.14501649777098, 2.84792602595895, 4.10966146424078, 5},
           5);
}

/* Two rows, two heads that share one of k and v, causal. */
static void attention_and_its_gradients(void **state) {
    (void)state;
    double q[] = {1, 0, 0, 1, 0.5, -1, 2, 1}, k[] = {1, 2, -1, 0.5}, v[] = {3, -1};
    double dout[] = {1, 2, -1, 0.5}, out[4] = {0}, lse[4] = {0}, dq[8] = {0}, dk[4] = {0},
           dv[2] = {0};
    call c = {.op = IG_OP_ATTENTION,
              .attrs = &(ig_attrs_attention){.causal = 1},
              .in = {f64(IG_SHAPE(1, 2, 2, 2), q), f64(IG_SHAPE(1, 2, 1, 2), k),
                     f64(IG_SHAPE(1, 2, 1, 1), v), f64(IG_SHAPE(1, 2, 2, 1), out),
                     f64(IG_SHAPE(1, 2, 2), lse), f64(IG_SHAPE(1, 2, 2, 1), dout)},
              .out = {f64(IG_SHAPE(1, 2, 2, 1), out), f64(IG_SHAPE(1, 2, 2), lse)},
              .n_in = 3,
              .n_out = 2};
    run(&c);
    expect(out, (double[]){3, 3, 0.650083996641561, 2.91978545135565}, 4);
    expect(lse,
           (double[]){0.707106781186547, 1.41421356237309, -0.175192004332191, 2.84868456535858},
           4);
    c.op = IG_OP_ATTENTION_GRAD;
    c.n_in = 6;
    c.n_out = 3;
    c.out[0] = f64(IG_SHAPE(1, 2, 2, 2), dq);
    c.out[1] = f64(IG_SHAPE(1, 2, 1, 2), dk);
    c.out[2] = f64(IG_SHAPE(1, 2, 1, 1), dv);
    run(&c);
    expect(dq,
           (double[]){0, 0, 0, 0, -1.37092405763914, -1.02819304322936, 0.0555828039570553,
                      0.0416871029677913},
           8);
    expect(dk,
           (double[]){-0.28714821045273, 0.713253430798098, 0.28714821045273, -0.713253430798098},
           4);
    expect(dv, (double[]){3.07745218225907, -0.577452182259066}, 2);
}

/* ---- updates and random numbers ---- */

static void optimizers_step_where_their_weights_lie(void **state) {
    (void)state;
    double w[] = {1}, g[] = {0.5}, m[] = {0.25}, v[] = {0.04};
    const ig_shape one = IG_SHAPE(1);
    const ig_slot slots[4] = {{.f = 0.5}, {.i = 2}};
    run(&(call){.op = IG_OP_ADAMW,
                .attrs = &(ig_attrs_adamw){0.5f, 0.75f, 0.125f, 0.25f, 0, 1},
                .slots = slots,
                .in = {f64(one, w), f64(one, g), f64(one, m), f64(one, v)},
                .out = {over(0, one, w), over(2, one, m), over(3, one, v)},
                .n_in = 4,
                .n_out = 3});
    expect((double[]){w[0], m[0], v[0]}, (double[]){0.447513381142505, 0.375, 0.0925}, 3);

    const double want[2][2] = {{0.78125, 1.75}, {0.796875, 1.75}};
    for (uint32_t nesterov = 0; nesterov < 2; nesterov++) {
        const ig_slot rate[4] = {{.f = 0.125}};
        w[0] = 1;
        m[0] = 2;
        run(&(call){.op = IG_OP_SGD,
                    .attrs = &(ig_attrs_sgd){0.5f, 0.25f, nesterov, 0},
                    .slots = rate,
                    .in = {f64(one, w), f64(one, g), f64(one, m)},
                    .out = {over(0, one, w), over(2, one, m)},
                    .n_in = 3,
                    .n_out = 2});
        expect((double[]){w[0], m[0]}, want[nesterov], 2);
    }
    double x[] = {3}, norm[] = {5};
    RUN(IG_OP_CLIP, &(ig_attrs_clip){2}, over(0, one, x), f64(one, x), f64((ig_shape){0}, norm));
    expect(x, (double[]){1.19999976000005}, 1);
    RUN(IG_OP_ACCUMULATE, NULL, over(0, one, x), f64(one, x), f64(one, g));
    expect(x, (double[]){1.69999976000005}, 1);
    RUN(IG_OP_ASSIGN, NULL, over(0, one, x), f64(one, x), f64(one, g));
    expect(x, (double[]){0.5}, 1);
}

/* The zero block is the known answer that the generator's authors publish. */
static void dropout_keeps_what_philox_says(void **state) {
    (void)state;
    const ig_philox zero = ig_philox_block(0, 0, (ig_philox){{0}});
    const ig_philox known = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}};
    assert_memory_equal(&zero, &known, sizeof known);

    double x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    const ig_slot step[4] = {{.i = 5}};
    run(&(call){.op = IG_OP_DROPOUT,
                .attrs = &(ig_attrs_dropout){0.5f, {17, 42}, 3, 0},
                .slots = step,
                .in = {f64(IG_SHAPE(8), x)},
                .out = {f64(IG_SHAPE(8), y)},
                .n_in = 1,
                .n_out = 1});
    expect(y, (double[]){2, 0, 6, 8, 0, 12, 14, 0}, 8);
}

static void what_has_no_kernel_is_refused_in_words(void **state) {
    (void)state;
    const value v = {IG_F16, IG_SHAPE(3), NULL, 0};
    const ig_operand o = operand(&v, 1);
    const ig_step step = {
        .size = sizeof step, .op = IG_OP_EXP, .n_in = 1, .n_out = 1, .in = &o, .out = &o};
    ig_backend_device device = {&host};
    ig_backend_program *program = NULL;
    assert_false(ig_ref_backend.can_run(&device, &step));
    assert_int_equal(ig_ref_backend.compile(&device, &step, 1, (ig_blob){0}, NULL, &program),
                     IG_ERR_UNSUPPORTED);
    assert_null(program);
    assert_non_null(strstr(ig_error_text(), "ref: step 0: no kernel for exp of f16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_element),
        cmocka_unit_test(slopes_of_gelu_and_silu),
        cmocka_unit_test(sums_products_and_comparisons_of_two),
        cmocka_unit_test(narrow_floats_round_to_even_and_integers_stay_in_range),
        cmocka_unit_test(moves_along_an_axis),
        cmocka_unit_test(embeddings_pick_rows_and_their_gradient_adds_them_up),
        cmocka_unit_test(reductions_over_any_axes),
        cmocka_unit_test(reductions_of_nothing),
        cmocka_unit_test(softmax_and_the_loss_on_top_of_it),
        cmocka_unit_test(norms_and_their_gradients),
        cmocka_unit_test(products_in_all_four_forms),
        cmocka_unit_test(a_product_may_be_put_through_an_activation),
        cmocka_unit_test(rope_rotates_interleaved_or_neox_pairs),
        cmocka_unit_test(attention_and_its_gradients),
        cmocka_unit_test(optimizers_step_where_their_weights_lie),
        cmocka_unit_test(dropout_keeps_what_philox_says),
        cmocka_unit_test(what_has_no_kernel_is_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
