/*
 * A program of a user: it knows the installed headers and
 * the library, and nothing of this tree.  It adds two tensors, and asks how the
 * sum of the squares of the result changes with the first one.
 */
#include <ingot/ingot.h>
#include <stdio.h>

enum { N = 3 };

/* loss = sum((a + b)^2), so d(loss)/da = 2 (a + b). */
static ig_status run(ig_ctx *ctx, ig_tensor *a, ig_tensor *b) {
    float sum[N], grad[N];
    IG_TRY(ig_tensor_require_grad(a));
    ig_scope_begin(ctx);
    ig_tensor *y = ig_add(a, b);
    ig_tensor *loss = ig_sum(ig_mul(y, y), NULL, 0, IG_DROP_DIM);
    ig_status status = ig_tensor_read(y, sum, sizeof sum);
    if (status == IG_OK) status = ig_backward(loss);
    if (status == IG_OK) status = ig_tensor_read(ig_tensor_grad(a), grad, sizeof grad);
    ig_scope_end(ctx);
    if (status != IG_OK) return status;

    printf("sum  %g %g %g\n", sum[0], sum[1], sum[2]);
    printf("grad %g %g %g\n", grad[0], grad[1], grad[2]);
    return IG_OK;
}

int main(void) {
    static const float a_data[N] = {1, 2, 3}, b_data[N] = {10, 20, 30};
    const ig_desc desc = {IG_F32, IG_SHAPE(N)};
    ig_ctx *ctx = NULL;
    ig_tensor *a = NULL, *b = NULL;
    ig_status status = ig_ctx_create(NULL, &ctx);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, desc, a_data, &a);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, desc, b_data, &b);
    if (status == IG_OK) status = run(ctx, a, b);
    if (status != IG_OK) fprintf(stderr, "consumer: %s\n", ig_error_text());

    ig_tensor_release(b);
    ig_tensor_release(a);
    ig_ctx_destroy(ctx);
    return status != IG_OK;
}
