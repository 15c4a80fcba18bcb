/*
 * A program for a device that compiles: weights are frozen, the work is captured
 * once and replayed, and what was compiled is there for the next process.
 *
 *     ./npu_compilation            compiles
 *     ./npu_compilation            finds it in the cache
 */
#include <ingot/ingot.h>
#include <stdio.h>

enum { ROWS = 8, WIDTH = 64 };

typedef struct layer {
    ig_tensor *x, *w, *y;
} layer;

static ig_status forward(void *arg) {
    layer *l = arg;
    l->y = ig_tensor_retain(ig_gelu(ig_matmul(l->x, l->w), IG_GELU_TANH));
    return ig_eval(&l->y, 1);
}

static void show_progress(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    (void)user;
    printf("%s: %3.0f %%\n", ig_progress_name(event), 100 * (double)done / (double)total);
}

static ig_status run(ig_ctx *ctx) {
    layer l = {NULL, NULL, NULL};
    ig_captured *program = NULL;
    float y[ROWS * WIDTH];
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(ROWS, WIDTH)}, &l.x));
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(WIDTH, WIDTH)}, &l.w));
    IG_TRY(ig_tensor_fill_normal(l.x, 0, 1));
    IG_TRY(ig_tensor_fill_normal(l.w, 0, 0.1));
    IG_TRY(ig_tensor_freeze(l.w)); /* so that the device may lay it out its own way */
    IG_TRY(ig_capture(ctx, forward, &l, &program));
    for (int i = 0; i < 10; i++) IG_TRY(ig_captured_replay(program));
    IG_TRY(ig_tensor_read(l.y, y, sizeof y));
    printf("y[0] = %.4f\n", (double)y[0]);

    char report[1 << 15];
    ig_report_json(ctx, report, sizeof report);
    puts(report); /* "backend_timeline", "fallbacks", "compile_cache" */
    ig_tensor_release(l.y);
    ig_captured_destroy(program);
    ig_tensor_release(l.w);
    ig_tensor_release(l.x);
    return IG_OK;
}

int main(void) {
    const ig_ctx_options options = {
        .device = "npu", .progress = show_progress, .compile = {.precision = "bf16"}};
    ig_ctx *ctx = NULL;
    ig_status status = ig_ctx_create(&options, &ctx);
    if (status == IG_OK) status = run(ctx);
    if (status != IG_OK) fprintf(stderr, "%s\n", ig_error_text());
    ig_ctx_destroy(ctx);
    return status != IG_OK;
}
