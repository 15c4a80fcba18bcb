/*
 * Some numbers on whatever device there is.  The program names none: INGOT_DEVICE
 * or config.json may.
 *
 *     cc basic_usage.c $(pkg-config --cflags --libs ingot) -o basic_usage
 *     INGOT_DEVICE=npu ./basic_usage
 */
#include <ingot/ingot.h>
#include <stdio.h>

/* softmax(x w), row by row. */
static ig_status run(ig_ctx *ctx) {
    const float x[2][3] = {{1, 2, 3}, {3, 2, 1}}, w[3][2] = {{1, 0}, {0, 1}, {1, 1}};
    float y[2][2];
    ig_tensor *a = NULL, *b = NULL;
    IG_TRY(ig_tensor_create_from(ctx, (ig_desc){IG_F32, IG_SHAPE(2, 3)}, x, &a));
    IG_TRY(ig_tensor_create_from(ctx, (ig_desc){IG_F32, IG_SHAPE(3, 2)}, w, &b));
    IG_TRY(ig_tensor_read(ig_softmax(ig_matmul(a, b), -1), y, sizeof y));
    for (int i = 0; i < 2; i++) printf("%.4f %.4f\n", (double)y[i][0], (double)y[i][1]);
    ig_tensor_release(b);
    ig_tensor_release(a);
    return IG_OK;
}

int main(void) {
    ig_ctx *ctx = NULL;
    ig_status status = ig_ctx_create(NULL, &ctx);
    if (status == IG_OK) {
        printf("on %s\n", ig_ctx_device(ctx));
        status = run(ctx);
    }
    if (status != IG_OK) fprintf(stderr, "%s\n", ig_error_text());
    ig_ctx_destroy(ctx);
    return status != IG_OK;
}
