/*
 * Views against a model that knows no strides.
 *
 * The model of a view is the list of all its elements, row by row, each as its
 * place in memory.  Views of views are drawn at random; each is made twice, as
 * a layout by ig_view() and as a list by moving whole elements, and what the
 * layout says of every index must be what stands in the list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "graph/shape_rules.h"
#include "graph/view.h"

enum { MOST = 1024, CHAINS = 3000, VIEWS_PER_CHAIN = 6 };

/* ---- the model ---- */

typedef struct list {
    ig_shape shape;
    int64_t place[MOST]; /* of element i, counted row by row */
} list;

/* Splits the number of an element into its index, and back. */
static void index_of(ig_shape shape, int64_t number, int64_t *index) {
    for (int d = shape.rank - 1; d >= 0; d--) {
        index[d] = number % shape.dim[d];
        number /= shape.dim[d];
    }
}

static int64_t number_of(ig_shape shape, const int64_t *index) {
    int64_t number = 0;
    for (int d = 0; d < shape.rank; d++) number = number * shape.dim[d] + index[d];
    return number;
}

static list model_packed(ig_shape shape) {
    list l = {.shape = shape};
    for (int64_t i = 0; i < ig_shape_count(shape); i++) l.place[i] = i;
    return l;
}

static list model_reshape(const list *x, ig_shape shape) {
    list y = *x;
    y.shape = shape;
    return y;
}

static list model_transpose(const list *x, ig_shape shape, const ig_attrs_axes *axes) {
    list y = {.shape = shape};
    for (int64_t i = 0; i < ig_shape_count(shape); i++) {
        int64_t to[IG_MAX_RANK] = {0}, from[IG_MAX_RANK] = {0};
        index_of(shape, i, to);
        for (int d = 0; d < shape.rank; d++) from[axes->axis[d]] = to[d];
        y.place[i] = x->place[number_of(x->shape, from)];
    }
    return y;
}

static list model_slice(const list *x, ig_shape shape, const ig_attrs_slice *s) {
    list y = {.shape = shape};
    for (int64_t i = 0; i < ig_shape_count(shape); i++) {
        int64_t at[IG_MAX_RANK] = {0};
        index_of(shape, i, at);
        at[s->axis] += s->begin;
        y.place[i] = x->place[number_of(x->shape, at)];
    }
    return y;
}

static list model_broadcast(const list *x, ig_shape shape) {
    list y = {.shape = shape};
    const int added = shape.rank - x->shape.rank;
    for (int64_t i = 0; i < ig_shape_count(shape); i++) {
        int64_t to[IG_MAX_RANK] = {0}, from[IG_MAX_RANK] = {0};
        index_of(shape, i, to);
        for (int d = 0; d < x->shape.rank; d++) from[d] = x->shape.dim[d] == 1 ? 0 : to[added + d];
        y.place[i] = x->place[number_of(x->shape, from)];
    }
    return y;
}

/* Whether strides can say where the elements of the list lie: those that its first steps along
 * each dimension ask for must hold for all elements. */
static bool is_even(const list *x) {
    int64_t stride[IG_MAX_RANK] = {0};
    const int64_t count = ig_shape_count(x->shape);
    for (int d = 0; d < x->shape.rank && count > 0; d++) {
        int64_t at[IG_MAX_RANK] = {0};
        at[d] = 1;
        if (x->shape.dim[d] > 1) stride[d] = x->place[number_of(x->shape, at)] - x->place[0];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at[IG_MAX_RANK] = {0}, place = x->place[0];
        index_of(x->shape, i, at);
        for (int d = 0; d < x->shape.rank; d++) place += at[d] * stride[d];
        if (place != x->place[i]) return false;
    }
    return true;
}

static void assert_shows(const ig_layout *layout, const list *want, int64_t memory) {
    assert_true(ig_shape_equal(layout->desc.shape, want->shape));
    assert_in_range(layout->offset, 0, memory);
    for (int d = 0; d < want->shape.rank; d++) assert_true(layout->stride[d] >= 0);
    for (int64_t i = 0; i < ig_shape_count(want->shape); i++) {
        int64_t at[IG_MAX_RANK] = {0}, place = layout->offset;
        index_of(want->shape, i, at);
        for (int d = 0; d < want->shape.rank; d++) place += at[d] * layout->stride[d];
        if (place != want->place[i])
            fail_msg("element %d lies at %d, not %d", (int)i, (int)place, (int)want->place[i]);
    }
}

/* ---- what is drawn ---- */

typedef struct dice {
    uint32_t chain;
    uint64_t rolled;
} dice;

/* A number from 0 to below - 1. */
static int64_t roll(dice *d, int64_t below) {
    const uint32_t seed[2] = {2024, d->chain};
    return (int64_t)(ig_random_bits(seed, 0, 0, d->rolled++) % (uint64_t)below);
}

/* Extents 0 (seldom), 1 (often), 2, 3 and 4. */
static ig_shape roll_shape(dice *d) {
    static const int64_t extents[] = {1, 1, 2, 2, 3, 4, 1, 2, 3, 3, 4, 2, 1, 2, 3, 0};
    ig_shape shape = {.rank = (int32_t)roll(d, 5)};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = extents[roll(d, 16)];
    return shape;
}

/* Any shape of `count` elements; single dimensions stand anywhere. */
static ig_shape roll_reshape(dice *d, int64_t count) {
    ig_shape shape = {.rank = 0};
    if (count == 0) {
        shape = roll_shape(d);
        if (shape.rank == 0) shape.rank = 1;
        shape.dim[roll(d, shape.rank)] = 0;
        return shape;
    }
    while (shape.rank < IG_MAX_RANK - 1 && (count > 1 || roll(d, 3) == 0)) {
        int64_t extent = 1 + roll(d, 6);
        while (count % extent != 0) extent--;
        shape.dim[shape.rank++] = extent;
        count /= extent;
    }
    if (count > 1) shape.dim[shape.rank++] = count;
    return shape;
}

static void roll_reshape_attrs(dice *d, ig_shape x, ig_attrs_shape *out) {
    const ig_shape shape = roll_reshape(d, ig_shape_count(x));
    *out = (ig_attrs_shape){.rank = shape.rank};
    memcpy(out->dim, shape.dim, sizeof out->dim);
}

static void roll_transpose_attrs(dice *d, ig_shape x, ig_attrs_axes *out) {
    *out = (ig_attrs_axes){{0, 1, 2, 3, 4, 5}};
    for (int i = x.rank - 1; i > 0; i--) {
        const int64_t j = roll(d, i + 1);
        const int32_t kept = out->axis[i];
        out->axis[i] = out->axis[j];
        out->axis[j] = kept;
    }
}

static void roll_slice_attrs(dice *d, ig_shape x, ig_attrs_slice *out) {
    *out = (ig_attrs_slice){.axis = (int32_t)roll(d, x.rank)};
    out->begin = roll(d, x.dim[out->axis] + 1);
    out->end = out->begin + roll(d, x.dim[out->axis] - out->begin + 1);
    if (out->end == out->begin && roll(d, 4) > 0) out->end = x.dim[out->axis]; /* seldom empty */
}

static void roll_broadcast_attrs(dice *d, ig_shape x, ig_attrs_shape *out) {
    *out = (ig_attrs_shape){.rank = x.rank};
    if (x.rank < 4 && roll(d, 2)) out->rank++;
    const int added = out->rank - x.rank;
    if (added) out->dim[0] = 1 + roll(d, 3);
    for (int i = 0; i < x.rank; i++)
        out->dim[added + i] = x.dim[i] == 1 ? 1 + roll(d, 3) : x.dim[i];
}

/* ---- the trials ---- */

typedef struct view {
    ig_op op;
    union {
        ig_attrs_shape shape;
        ig_attrs_axes axes;
        ig_attrs_slice slice;
    } attrs;
} view;

static view roll_view(dice *d, ig_shape x) {
    static const ig_op ops[] = {IG_OP_RESHAPE, IG_OP_TRANSPOSE, IG_OP_SLICE, IG_OP_BROADCAST};
    view v = {.op = ops[roll(d, 4)]};
    if (v.op == IG_OP_SLICE && x.rank == 0) v.op = IG_OP_RESHAPE;
    if (v.op == IG_OP_RESHAPE) roll_reshape_attrs(d, x, &v.attrs.shape);
    if (v.op == IG_OP_TRANSPOSE) roll_transpose_attrs(d, x, &v.attrs.axes);
    if (v.op == IG_OP_SLICE) roll_slice_attrs(d, x, &v.attrs.slice);
    if (v.op == IG_OP_BROADCAST) roll_broadcast_attrs(d, x, &v.attrs.shape);
    return v;
}

static list model_view(const view *v, const list *x, ig_shape shape) {
    if (v->op == IG_OP_RESHAPE) return model_reshape(x, shape);
    if (v->op == IG_OP_TRANSPOSE) return model_transpose(x, shape, &v->attrs.axes);
    if (v->op == IG_OP_SLICE) return model_slice(x, shape, &v->attrs.slice);
    return model_broadcast(x, shape);
}

typedef struct tally {
    int shown, refused, strided_reshapes, empty;
} tally;

/* A chain of views, each of the one before.  A reshape that cannot be ends it. */
static void try_chain(uint32_t number, tally *t) {
    dice d = {number, 0};
    ig_layout layout = ig_layout_packed((ig_desc){IG_F32, roll_shape(&d)});
    list want = model_packed(layout.desc.shape);
    const int64_t memory = ig_shape_count(want.shape);
    for (int i = 0; i < VIEWS_PER_CHAIN; i++) {
        const view v = roll_view(&d, want.shape);
        ig_desc desc;
        assert_int_equal(ig_infer(v.op, &v.attrs, &layout.desc, 1, &desc, 1), IG_OK);
        if (ig_shape_count(desc.shape) > MOST) return;
        const list next = model_view(&v, &want, desc.shape);
        ig_layout shown;
        const bool strided = !ig_layout_is_packed(&layout);
        if (!ig_view(v.op, &v.attrs, &layout, desc, &shown)) {
            assert_int_equal(v.op, IG_OP_RESHAPE);
            assert_false(is_even(&next)); /* no strides would have done */
            t->refused++;
            return;
        }
        assert_shows(&shown, &next, memory);
        t->shown++;
        t->strided_reshapes += strided && v.op == IG_OP_RESHAPE;
        t->empty += ig_shape_count(desc.shape) == 0;
        layout = shown;
        want = next;
    }
}

static void views_show_the_elements_that_index_arithmetic_says(void **state) {
    (void)state;
    tally t = {0};
    for (uint32_t chain = 0; chain < CHAINS; chain++) try_chain(chain, &t);
    assert_true(t.shown > CHAINS && t.refused > 50 && t.strided_reshapes > 50 && t.empty > 50);
}

/* ---- cases that have a name ---- */

static ig_layout layout_of(ig_shape shape, const int64_t *stride) {
    ig_layout layout = {.desc = {IG_F32, shape}, .offset = 3};
    for (int d = 0; d < shape.rank; d++) layout.stride[d] = stride[d];
    return layout;
}

static bool reshaped(ig_layout in, ig_shape shape, ig_layout *out) {
    ig_attrs_shape attrs = {.rank = shape.rank};
    memcpy(attrs.dim, shape.dim, sizeof attrs.dim);
    return ig_view(IG_OP_RESHAPE, &attrs, &in, (ig_desc){IG_F32, shape}, out);
}

static void a_reshape_splits_a_packed_run_again(void **state) {
    (void)state;
    ig_layout out;
    const ig_layout in = layout_of(IG_SHAPE(4, 6, 5), (int64_t[]){60, 5, 1});
    assert_true(reshaped(in, IG_SHAPE(4, 3, 10), &out));
    assert_int_equal(out.stride[0], 60);
    assert_int_equal(out.stride[1], 10);
    assert_int_equal(out.stride[2], 1);
    assert_int_equal(out.offset, 3);
    assert_false(reshaped(in, IG_SHAPE(24, 5), &out));
}

static void a_reshape_looks_past_single_dimensions(void **state) {
    (void)state;
    ig_layout out;
    /* The strides of single dimensions mean nothing. */
    const ig_layout in = layout_of(IG_SHAPE(1, 2, 1, 3, 1), (int64_t[]){77, 30, 99, 10, 55});
    assert_true(reshaped(in, IG_SHAPE(6), &out));
    assert_int_equal(out.stride[0], 10);
    assert_true(reshaped(in, IG_SHAPE(1, 3, 1, 2), &out));
    assert_int_equal(out.stride[1], 20);
    assert_int_equal(out.stride[3], 10);
}

static void a_reshape_merges_dimensions_that_repeat(void **state) {
    (void)state;
    ig_layout out;
    assert_true(reshaped(layout_of(IG_SHAPE(2, 3), (int64_t[]){0, 0}), IG_SHAPE(6), &out));
    assert_int_equal(out.stride[0], 0);
    assert_false(reshaped(layout_of(IG_SHAPE(2, 3), (int64_t[]){0, 1}), IG_SHAPE(6), &out));
}

static void an_empty_layout_takes_every_reshape(void **state) {
    (void)state;
    ig_layout out;
    const ig_layout in = layout_of(IG_SHAPE(3, 0, 2), (int64_t[]){1, 50, 7});
    assert_true(reshaped(in, IG_SHAPE(0), &out));
    assert_true(reshaped(in, IG_SHAPE(2, 5, 0), &out));
    assert_true(ig_layout_is_packed(&out));
}

static void an_empty_slice_stays_inside_the_memory(void **state) {
    (void)state;
    const ig_layout in = ig_layout_packed((ig_desc){IG_F32, IG_SHAPE(4, 3)});
    const ig_attrs_slice none = {4, 4, 0, 0};
    ig_layout out;
    assert_true(ig_view(IG_OP_SLICE, &none, &in, (ig_desc){IG_F32, IG_SHAPE(0, 3)}, &out));
    assert_int_equal(out.offset, 0);
}

static void a_layout_is_packed_whatever_its_single_dimensions_say(void **state) {
    (void)state;
    ig_layout layout = layout_of(IG_SHAPE(1, 2, 1, 3), (int64_t[]){9, 3, 0, 1});
    assert_true(ig_layout_is_packed(&layout));
    layout.stride[1] = 4;
    assert_false(ig_layout_is_packed(&layout));
    layout = layout_of(IG_SHAPE(2, 3), (int64_t[]){0, 1});
    assert_false(ig_layout_is_packed(&layout));
}

/* ---- shapes and dtypes ---- */

static void a_shape_is_valid_if_its_elements_can_be_counted(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 32;
    assert_true(ig_shape_valid((ig_shape){0}));
    assert_true(ig_shape_valid(IG_SHAPE(0, 3)));
    assert_true(ig_shape_valid(IG_SHAPE(INT64_MAX)));
    assert_false(ig_shape_valid(IG_SHAPE(-1)));
    assert_false(ig_shape_valid(IG_SHAPE(huge, huge)));
    assert_false(ig_shape_valid(IG_SHAPE(huge, 0, huge))); /* its strides could not be counted */
    assert_false(ig_shape_valid((ig_shape){.rank = 7}));
    assert_false(ig_shape_valid((ig_shape){.rank = -1}));
}

static void the_bytes_of_a_desc_are_checked(void **state) {
    (void)state;
    uint64_t bytes = 7;
    assert_true(ig_desc_bytes((ig_desc){IG_F64, IG_SHAPE(3, 5)}, &bytes));
    assert_int_equal(bytes, 120);
    assert_true(ig_desc_bytes((ig_desc){IG_BF16, {0}}, &bytes));
    assert_int_equal(bytes, 2);
    assert_true(ig_desc_bytes((ig_desc){IG_F32, IG_SHAPE(0, 9)}, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(ig_desc_bytes((ig_desc){IG_F32, IG_SHAPE(INT64_MAX)}, &bytes));
    assert_false(ig_desc_bytes((ig_desc){(ig_dtype)99, IG_SHAPE(1)}, &bytes));
}

static void shapes_and_dtypes_have_a_text(void **state) {
    (void)state;
    char text[IG_SHAPE_TEXT_BYTES];
    ig_dtype dtype = IG_F32;
    assert_string_equal(ig_shape_text((ig_shape){0}, text), "[]");
    assert_string_equal(ig_shape_text(IG_SHAPE(4, 0, 3), text), "[4,0,3]");
    const int64_t least = INT64_MIN; /* the longest there is */
    assert_int_equal(
        strlen(ig_shape_text(IG_SHAPE(least, least, least, least, least, least), text)),
        6 * 20 + 5 + 2);
    assert_true(ig_dtype_find("bf16", &dtype));
    assert_int_equal(dtype, IG_BF16);
    assert_false(ig_dtype_find("f8", &dtype));
    assert_int_equal(dtype, IG_BF16);
    assert_string_equal(ig_dtype_name((ig_dtype)99), "unknown");
    assert_string_equal(ig_dtype_name((ig_dtype)-1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_show_the_elements_that_index_arithmetic_says),
        cmocka_unit_test(a_reshape_splits_a_packed_run_again),
        cmocka_unit_test(a_reshape_looks_past_single_dimensions),
        cmocka_unit_test(a_reshape_merges_dimensions_that_repeat),
        cmocka_unit_test(an_empty_layout_takes_every_reshape),
        cmocka_unit_test(an_empty_slice_stays_inside_the_memory),
        cmocka_unit_test(a_layout_is_packed_whatever_its_single_dimensions_say),
        cmocka_unit_test(a_shape_is_valid_if_its_elements_can_be_counted),
        cmocka_unit_test(the_bytes_of_a_desc_are_checked),
        cmocka_unit_test(shapes_and_dtypes_have_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
