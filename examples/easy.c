/*
 * easy.c - the easy route: layers, forward, backward, step.
 *
 * A tiny language model over bytes learns to spell a word.  It sees one byte at
 * a time, so the word is one that has no letter twice.
 *
 *     cc easy.c $(pkg-config --cflags --libs ingot) && ./a.out
 */
#include <ingot/ingot.h>
#include <stdio.h>

enum { BYTES = 256, WIDTH = 64, INNER = 256, LAYERS = 2, STEPS = 200 };

static const char text[] = "uncopyrightable\n";
enum { LENGTH = sizeof text - 1 };

/* One layer: h + down(silu(up(norm(h)))) */
typedef struct block {
    ig_module *self, *norm, *up, *down;
} block;

typedef struct tiny_llm {
    ig_module *self, *embed, *head;
    block layers[LAYERS];
} tiny_llm;

static ig_tensor *block_forward(ig_module *module, ig_tensor *h) {
    const block *b = ig_module_data(module);
    ig_tensor *r = ig_module_call(b->norm, h);
    r = ig_silu(ig_module_call(b->up, r));
    return ig_add(h, ig_module_call(b->down, r));
}

/* Gives a module that was just made to its parent, under a name. */
static ig_status add(ig_module *parent, const char *name, ig_status made, ig_module **child) {
    if (made != IG_OK) return made;
    const ig_status status = ig_module_add(parent, name, *child);
    if (status != IG_OK) ig_module_destroy(*child);
    return status;
}

/* Its parameters: embed.weight, 0.norm.weight, 0.up.weight, 0.up.bias, ... head.bias */
static ig_status tiny_llm_create(ig_ctx *ctx, tiny_llm *m) {
    IG_TRY(ig_sequential_create(ctx, &m->self));
    IG_TRY(add(m->self, "embed", ig_embedding_create(ctx, BYTES, WIDTH, &m->embed), &m->embed));
    for (int i = 0; i < LAYERS; i++) {
        block *b = &m->layers[i];
        const char name[] = {(char)('0' + i), 0};
        IG_TRY(add(m->self, name, ig_module_create(ctx, block_forward, b, &b->self), &b->self));
        IG_TRY(add(b->self, "norm", ig_rms_norm_create(ctx, WIDTH, 0, &b->norm), &b->norm));
        IG_TRY(add(b->self, "up", ig_linear_create(ctx, WIDTH, INNER, NULL, &b->up), &b->up));
        IG_TRY(add(b->self, "down", ig_linear_create(ctx, INNER, WIDTH, NULL, &b->down), &b->down));
    }
    return add(m->self, "head", ig_linear_create(ctx, WIDTH, BYTES, NULL, &m->head), &m->head);
}

static ig_status print_loss(int step, ig_tensor *loss) {
    double value;
    IG_TRY(ig_tensor_item(loss, &value));
    printf("step %4d  loss %.4f\n", step, value);
    return IG_OK;
}

static ig_status train(ig_module *model, ig_optimizer *optimizer, ig_tensor *input,
                       ig_tensor *target) {
    for (int step = 1; step <= STEPS; step++) {
        ig_tensor *loss = ig_cross_entropy(ig_module_call(model, input), target);
        IG_TRY(ig_backward(loss));
        IG_TRY(ig_optimizer_step(optimizer));
        ig_optimizer_zero_grad(optimizer);
        if (step == 1 || step % 20 == 0) IG_TRY(print_loss(step, loss));
    }
    return IG_OK;
}

/* Spells from the first letter: each byte is the most likely one after the byte before it. */
static ig_status spell(ig_ctx *ctx, ig_module *model) {
    ig_tensor *x;
    int32_t byte = (unsigned char)text[0];
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_I32, IG_SHAPE(1)}, &x));
    ig_status status = IG_OK;
    for (int i = 0; i < LENGTH && status == IG_OK; i++) {
        putchar(byte);
        status = ig_tensor_write(x, &byte, sizeof byte);
        if (status == IG_OK)
            status = ig_tensor_read(ig_argmax(ig_module_call(model, x), -1), &byte, sizeof byte);
    }
    ig_tensor_release(x);
    return status;
}

int main(void) {
    const ig_desc ids = {IG_I32, IG_SHAPE(LENGTH)};
    int32_t now[LENGTH], next[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        now[i] = (unsigned char)text[i];
        next[i] = (unsigned char)text[(i + 1) % LENGTH];
    }

    ig_ctx *ctx = NULL;
    tiny_llm model = {0};
    ig_optimizer *optimizer = NULL;
    ig_tensor *input = NULL, *target = NULL;
    ig_status status = ig_ctx_create(NULL, &ctx);
    if (status == IG_OK) status = tiny_llm_create(ctx, &model);
    if (status == IG_OK)
        status = ig_adamw_create(model.self, &(ig_adamw_options){.lr = 3e-4}, &optimizer);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, ids, now, &input);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, ids, next, &target);
    if (status == IG_OK) status = train(model.self, optimizer, input, target);
    if (status == IG_OK) status = spell(ctx, model.self);
    if (status != IG_OK) fprintf(stderr, "easy: %s\n", ig_error_text());

    ig_tensor_release(target);
    ig_tensor_release(input);
    ig_optimizer_destroy(optimizer);
    ig_module_destroy(model.self);
    if (ctx) ig_ctx_destroy(ctx);
    return status == IG_OK ? 0 : 1;
}
