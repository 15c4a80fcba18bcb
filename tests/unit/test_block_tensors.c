/* Tensors of block types: made, wrapped at any address, viewed by whole blocks, read as weights. */
#include <stdlib.h>

#include "base/quant_blocks.h"
#include "ingot/blocks.h"
#include "unit/check.h"

static ig_desc q8(ig_shape shape) { return (ig_desc){IG_Q8_0, shape}; }

/* Rows of one block each; element i of row r stands for 2 (r + i). */
static void make_rows(ig_block_q8_0 *rows, int count) {
    for (int r = 0; r < count; r++) {
        rows[r].d = 0x4000; /* 2 */
        for (int i = 0; i < IG_BLOCK; i++) rows[r].q[i] = (int8_t)(r + i);
    }
}

static void blocks_are_written_and_read_as_they_are(void **state) {
    ig_block_q8_0 rows[6], got[6];
    ig_tensor *t = NULL;
    make_rows(rows, 6);
    must(ig_tensor_create_from(*state, q8(IG_SHAPE(2, 3, 32)), rows, &t));
    must(ig_tensor_read(t, got, sizeof got));
    assert_memory_equal(got, rows, sizeof rows);
    must(ig_tensor_read(ig_slice(t, 0, 1, 2), got, 3 * sizeof *got));
    assert_memory_equal(got, rows + 3, 3 * sizeof *got);
    must(ig_tensor_read(ig_slice(t, 1, 2, 3), got, 2 * sizeof *got)); /* not packed */
    assert_memory_equal(&got[0], &rows[2], sizeof *got);
    assert_memory_equal(&got[1], &rows[5], sizeof *got);
    must(ig_tensor_read(ig_reshape(t, IG_SHAPE(6, 32)), got, sizeof got));
    assert_memory_equal(got, rows, sizeof rows);
    ig_tensor_release(t);
}

static void weights_in_a_mapped_file_lie_at_any_address(void **state) {
    char file[1 + 5 * sizeof(ig_block_q8_0)];
    ig_block_q8_0 rows[5];
    ig_tensor *t = NULL;
    make_rows(rows, 5);
    memcpy(file + 1, rows, sizeof rows);
    must(ig_tensor_wrap(*state, q8(IG_SHAPE(5, 32)), NULL, file + 1, NULL, NULL, &t));

    float x[32] = {127, 64}, y[2]; /* as bytes they are what they are */
    ig_tensor *a = floats(*state, IG_SHAPE(1, 32), x);
    ig_tensor *b = ig_slice(t, 0, 2, 4);
    must(ig_tensor_read(ig_matmul_with(a, b, (ig_matmul_options){.transpose_b = true}), y,
                        sizeof y));
    assert_true(y[0] == 2 * (127 * 2 + 64 * 3) && y[1] == 2 * (127 * 3 + 64 * 4));

    ig_tensor *ids = INTS(*state, IG_SHAPE(1), 4);
    must(ig_tensor_read(ig_embedding(t, ids), x, sizeof x));
    for (int i = 0; i < 32; i++) assert_true(x[i] == (float)(2 * (4 + i)));
    must(ig_tensor_read(ig_cast(ig_slice(t, 0, 1, 2), IG_F32), x, sizeof x));
    for (int i = 0; i < 32; i++) assert_true(x[i] == (float)(2 * (1 + i)));
    ig_tensor_release(a);
    ig_tensor_release(ids);
    ig_tensor_release(t);
}

static void a_gradient_flows_past_stored_weights_to_what_they_multiply(void **state) {
    ig_block_q8_0 rows[3];
    float ones[64], want[32];
    ig_tensor *w = NULL;
    make_rows(rows, 3);
    for (int i = 0; i < 64; i++) ones[i] = 1;
    must(ig_tensor_create_from(*state, q8(IG_SHAPE(3, 32)), rows, &w));
    ig_tensor *x = floats(*state, IG_SHAPE(2, 32), ones);
    must(ig_tensor_require_grad(x));
    ig_tensor *y = ig_matmul_with(x, w, (ig_matmul_options){.transpose_b = true});
    must(ig_backward(ig_sum(y, NULL, 0, IG_DROP_DIM)));
    must(ig_tensor_read(ig_slice(ig_tensor_grad(x), 0, 1, 2), want, sizeof want));
    for (int i = 0; i < 32; i++) assert_true(want[i] == (float)(2 * (0 + 1 + 2 + 3 * i)));
    refused(ig_tensor_require_grad(w), IG_ERR_ARGUMENT, "q8_0 has no gradient");
    ig_tensor_release(x);
    ig_tensor_release(w);
}

static void fails(ig_tensor *t, const char *words) { refused(ig_eval(&t, 1), IG_ERR_SHAPE, words); }

static void what_does_not_fit_blocks_is_refused_in_words(void **state) {
    ig_ctx *ctx = *state;
    ig_block_q8_0 rows[8];
    ig_tensor *t = NULL, *odd = NULL;
    make_rows(rows, 8);
    refused(ig_tensor_create(ctx, q8(IG_SHAPE(4, 33)), &odd), IG_ERR_SHAPE, "[4,33] of q8_0");
    refused(
        ig_tensor_wrap(ctx, q8(IG_SHAPE(2, 32)), (const int64_t[]){64, 1}, rows, NULL, NULL, &odd),
        IG_ERR_ARGUMENT, "q8_0 must be packed");
    must(ig_tensor_create_from(ctx, q8(IG_SHAPE(4, 64)), rows, &t));
    ig_tensor *x = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(3, 64)}, &x));

    fails(ig_add(t, t), "add: input 0 is q8_0: cast it to f32");
    fails(ig_copy(t), "copy: input 0 is q8_0");
    fails(ig_slice(t, 1, 16, 48), "16 is within a block of q8_0");
    fails(ig_slice(t, 1, 0, 16), "[4,16] does not end in whole blocks of q8_0");
    fails(ig_transpose(t, 0, 1), "must stay the last");
    fails(ig_reshape(t, IG_SHAPE(16, 16)), "whole blocks");
    fails(ig_matmul(t, x), "matmul: input 0 is q8_0");
    fails(ig_matmul(x, t), "used transposed");
    const ig_matmul_options transposed = {.transpose_b = true};
    ig_tensor *wide = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F64, IG_SHAPE(3, 64)}, &wide));
    fails(ig_matmul_with(wide, t, transposed), "f64 x q8_0");
    ig_tensor *cast = ig_cast(x, IG_Q8_0);
    refused(ig_eval(&cast, 1), IG_ERR_ARGUMENT, "blocks are read, not made");
    ig_tensor_release(wide);
    ig_tensor_release(x);
    ig_tensor_release(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(blocks_are_written_and_read_as_they_are),
        TEST_WITH_CTX(weights_in_a_mapped_file_lie_at_any_address),
        TEST_WITH_CTX(a_gradient_flows_past_stored_weights_to_what_they_multiply),
        TEST_WITH_CTX(what_does_not_fit_blocks_is_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
