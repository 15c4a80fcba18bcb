/*
 * char-mlp: eight characters in, the next one out.
 *
 *     ids [b, 8] -> embed [b, 8, 16] -> flatten [b, 128] -> fc1, tanh [b, 64] -> fc2 [b, 27]
 *
 * 10,443 parameters, cross entropy, AdamW.  The text is a passage that goes the
 * same way several times, so that a few hundred steps are enough to learn it.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cli/workload.h"
#include "ingot/context.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

enum { SYMBOLS = 27, SPACE = 26, WINDOW = 8, WIDTH = 16, FLAT = WINDOW * WIDTH, HIDDEN = 64 };

static const char corpus[] = "the cloud sends a rain the rain falls on a hill "
                             "the hill feeds a river the river drives a mill "
                             "the mill turns a stone the stone grinds a grain "
                             "the grain fills a sack the sack goes to a baker "
                             "the baker bakes a loaf the loaf warms a child "
                             "the child sings a song the song wakes a cloud "
                             "the cloud sends a rain the rain falls on a hill "
                             "the hill feeds a river the river drives a mill "
                             "the mill turns a stone the stone grinds a grain "
                             "the grain fills a sack the sack goes to a baker "
                             "the baker bakes a loaf the loaf warms a child "
                             "the child sings a song the song wakes a cloud "
                             "then one long summer no cloud was in the sky "
                             "so hill and river both ran dry and all was still "
                             "no wheel would turn no flour lay under the stone "
                             "and every sack hung empty beside the cold oven "
                             "until one day a child began to sing once more "
                             "far off it thundered and soon it began to rain "
                             "the cloud sends a rain the rain falls on a hill "
                             "the hill feeds a river the river drives a mill "
                             "the mill turns a stone the stone grinds a grain "
                             "the grain fills a sack the sack goes to a baker "
                             "the baker bakes a loaf the loaf warms a child "
                             "the child sings a song the song wakes a cloud "
                             "the cloud sends a rain the rain falls on a hill "
                             "the hill feeds a river the river drives a mill "
                             "the mill turns a stone the stone grinds a grain "
                             "the grain fills a sack the sack goes to a baker "
                             "the baker bakes a loaf the loaf warms a child "
                             "the child sings a song the song wakes a cloud ";
enum { CORPUS = sizeof corpus - 1 };

typedef struct char_mlp {
    ig_workload base;
    ig_module *embed, *fc1, *fc2; /* the model's */
    ig_tensor *ids, *targets;     /* [batch, 8], [batch]; i32 */
    ig_tensor *prompt;            /* [1, 8] */
    int32_t *windows;             /* room for both: [batch, 8], then [batch] */
} char_mlp;

/* a to z are 0 to 25; anything else is a space. */
static int32_t symbol_of(char c) { return c >= 'a' && c <= 'z' ? c - 'a' : SPACE; }
static char letter_of(int32_t symbol) { return symbol == SPACE ? ' ' : (char)('a' + symbol); }

static ig_tensor *forward(ig_module *module, ig_tensor *ids) {
    const char_mlp *mlp = ig_module_data(module);
    ig_tensor *x = ig_module_call(mlp->embed, ids);
    x = ig_reshape(x, IG_SHAPE(-1, FLAT));
    x = ig_tanh(ig_module_call(mlp->fc1, x));
    return ig_module_call(mlp->fc2, x);
}

/* Gives `child` to the model, or destroys it if that fails. */
static ig_status adopt(ig_module *model, const char *name, ig_module *child, ig_module **out) {
    const ig_status status = ig_module_add(model, name, child);
    if (status == IG_OK)
        *out = child;
    else
        ig_module_destroy(child);
    return status;
}

static ig_status create_model(char_mlp *mlp, ig_ctx *ctx) {
    ig_module *child;
    IG_TRY(ig_module_create(ctx, forward, mlp, &mlp->base.model));
    IG_TRY(ig_embedding_create(ctx, SYMBOLS, WIDTH, &child));
    IG_TRY(adopt(mlp->base.model, "embed", child, &mlp->embed));
    IG_TRY(ig_linear_create(ctx, FLAT, HIDDEN, NULL, &child));
    IG_TRY(adopt(mlp->base.model, "fc1", child, &mlp->fc1));
    IG_TRY(ig_linear_create(ctx, HIDDEN, SYMBOLS, NULL, &child));
    IG_TRY(adopt(mlp->base.model, "fc2", child, &mlp->fc2));
    return ig_adamw_create(mlp->base.model, &(ig_adamw_options){.rate = 0.01, .decay = 0.01},
                           &mlp->base.optimizer);
}

static ig_status create_inputs(char_mlp *mlp, ig_ctx *ctx) {
    const int64_t batch = mlp->base.batch;
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_I32, IG_SHAPE(batch, WINDOW)}, &mlp->ids));
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_I32, IG_SHAPE(batch)}, &mlp->targets));
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_I32, IG_SHAPE(1, WINDOW)}, &mlp->prompt));
    mlp->windows = ig_alloc(ig_ctx_allocator(ctx), (size_t)batch, (WINDOW + 1) * sizeof(int32_t));
    if (!mlp->windows) return IG_FAIL(IG_ERR_MEMORY, "char-mlp: no memory for a batch");
    return IG_OK;
}

static void destroy(ig_workload *workload) {
    if (!workload) return;
    char_mlp *mlp = (char_mlp *)workload;
    const ig_allocator *a = ig_ctx_allocator(workload->ctx);
    ig_free(a, mlp->windows);
    ig_tensor_release(mlp->prompt);
    ig_tensor_release(mlp->targets);
    ig_tensor_release(mlp->ids);
    ig_optimizer_destroy(workload->optimizer);
    ig_module_destroy(workload->model);
    ig_free(a, mlp);
}

static ig_status create(ig_ctx *ctx, int64_t batch, ig_workload **out) {
    char_mlp *mlp = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *mlp);
    if (!mlp) return IG_FAIL(IG_ERR_MEMORY, "char-mlp: no memory");
    mlp->base = (ig_workload){.type = &ig_workload_char_mlp, .ctx = ctx, .batch = batch};
    ig_status status = create_model(mlp, ctx);
    if (status == IG_OK) status = create_inputs(mlp, ctx);
    if (status == IG_OK)
        *out = &mlp->base;
    else
        destroy(&mlp->base);
    return status;
}

/* Sample i of step s starts where random number i of stream (seed, s) says. */
static ig_status next_batch(ig_workload *workload) {
    char_mlp *mlp = (char_mlp *)workload;
    const size_t batch = (size_t)workload->batch;
    const uint64_t seed = ig_ctx_seed(workload->ctx);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint64_t step = (uint64_t)ig_optimizer_steps(workload->optimizer);
    int32_t *targets = mlp->windows + batch * WINDOW;
    for (size_t i = 0; i < batch; i++) {
        const char *from = corpus + ig_random_bits(key, step, 0, i) % (CORPUS - WINDOW);
        for (size_t j = 0; j < WINDOW; j++) mlp->windows[i * WINDOW + j] = symbol_of(from[j]);
        targets[i] = symbol_of(from[WINDOW]);
    }
    IG_TRY(ig_tensor_write(mlp->ids, mlp->windows, batch * WINDOW * sizeof(int32_t)));
    return ig_tensor_write(mlp->targets, targets, batch * sizeof(int32_t));
}

static ig_status step(ig_workload *workload, double *out_loss) {
    char_mlp *mlp = (char_mlp *)workload;
    ig_optimizer_zero_grad(workload->optimizer);
    ig_tensor *loss = ig_cross_entropy(ig_module_call(workload->model, mlp->ids), mlp->targets);
    IG_TRY(ig_backward(loss));
    IG_TRY(ig_optimizer_step(workload->optimizer));
    return out_loss ? ig_tensor_item(loss, out_loss) : IG_OK;
}

static ig_status logits(ig_workload *workload, float *out, size_t count) {
    ig_ctx *ctx = workload->ctx;
    ig_scope_begin(ctx);
    ig_no_grad_begin(ctx);
    ig_tensor *y = ig_module_call(workload->model, ((char_mlp *)workload)->ids);
    const ig_status status = ig_tensor_read(y, out, count * sizeof *out);
    ig_no_grad_end(ctx);
    ig_scope_end(ctx);
    return status;
}

/* The most likely character after the window. */
static ig_status predict(char_mlp *mlp, const int32_t window[WINDOW], int32_t *out) {
    ig_ctx *ctx = mlp->base.ctx;
    IG_TRY(ig_tensor_write(mlp->prompt, window, WINDOW * sizeof *window));
    ig_scope_begin(ctx);
    ig_no_grad_begin(ctx);
    ig_tensor *best = ig_argmax(ig_module_call(mlp->base.model, mlp->prompt), -1); /* [1] */
    const ig_status status = ig_tensor_read(best, out, sizeof *out);
    ig_no_grad_end(ctx);
    ig_scope_end(ctx);
    return status;
}

static ig_status generate(ig_workload *workload, const char *prompt, char *out, size_t count) {
    int32_t window[WINDOW]; /* the last characters, spaces before a prompt that is shorter */
    for (size_t i = 0; i < WINDOW; i++) window[i] = SPACE;
    for (; *prompt; prompt++) {
        memmove(window, window + 1, (WINDOW - 1) * sizeof *window);
        window[WINDOW - 1] = symbol_of(*prompt);
    }
    for (size_t i = 0; i < count; i++) {
        int32_t next;
        IG_TRY(predict((char_mlp *)workload, window, &next));
        memmove(window, window + 1, (WINDOW - 1) * sizeof *window);
        window[WINDOW - 1] = next;
        out[i] = letter_of(next);
    }
    out[count] = 0;
    return IG_OK;
}

const ig_workload_type ig_workload_char_mlp = {
    .name = "char-mlp",
    .summary = "embedding, tanh layer, output layer: the next of 27 characters from eight",
    .steps = 300,
    .batch = 32,
    .config = "{\"workload\": \"char-mlp\", \"symbols\": \"abcdefghijklmnopqrstuvwxyz \", "
              "\"window\": 8, \"width\": 16, \"hidden\": 64}",
    .create = create,
    .destroy = destroy,
    .next_batch = next_batch,
    .step = step,
    .logits = logits,
    .logits_per_sample = SYMBOLS,
    .generate = generate,
};
