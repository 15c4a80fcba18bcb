/*
 * Training that continues on another device: the weights, the optimizer and the loss stay
 * what they are when the device changes.
 */
#include <ingot/ingot.h>
#include <stdio.h>

enum { WIDTH = 16, STEPS = 10 };

static ig_status train(ig_module *net, ig_optimizer *optimizer, ig_tensor *x) {
    double loss = 0;
    for (int i = 0; i < STEPS; i++) {
        ig_tensor *error = ig_mse(ig_module_call(net, x), x); /* y = x is to be learned */
        IG_TRY(ig_backward(error));
        IG_TRY(ig_optimizer_step(optimizer));
        ig_optimizer_zero_grad(optimizer);
        IG_TRY(ig_tensor_item(error, &loss));
    }
    printf("%-10s loss %.4f after %lld steps\n", ig_ctx_device(ig_module_ctx(net)), loss,
           (long long)ig_optimizer_steps(optimizer));
    return IG_OK;
}

static ig_status run(ig_ctx *ctx) {
    static const char *const devices[] = {"cpu", "ref", "simnpu", "cpu"};
    ig_module *net = NULL;
    ig_optimizer *optimizer = NULL;
    ig_tensor *x = NULL;
    IG_TRY(ig_linear_create(ctx, WIDTH, WIDTH, NULL, &net));
    IG_TRY(ig_adamw_create(net, NULL, &optimizer));
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(WIDTH, WIDTH)}, &x));
    IG_TRY(ig_tensor_fill_normal(x, 0, 1));
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        IG_TRY(ig_switch_device(ctx, devices[i]));
        IG_TRY(train(net, optimizer, x));
    }
    ig_tensor_release(x);
    ig_optimizer_destroy(optimizer);
    ig_module_destroy(net);
    return IG_OK;
}

int main(void) {
    ig_ctx *ctx = NULL;
    ig_status status = ig_ctx_create(NULL, &ctx);
    if (status == IG_OK) status = run(ctx);
    if (status != IG_OK) fprintf(stderr, "%s\n", ig_error_text());
    ig_ctx_destroy(ctx);
    return status != IG_OK;
}
