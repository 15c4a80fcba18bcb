/*
 * char-mlp: predicts the next character from eight.
 *
 *     ids [b, 8] -> embed [b, 8, 16] -> flatten [b, 128] -> fc1, tanh [b, 64] -> fc2 [b, 27]
 *
 * 10,443 parameters, cross-entropy, AdamW.
 */
#include <stdio.h>
#include <string.h>

#include "cli/bench/workload.h"
#include "ingot/context.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

enum { SYMBOLS = 27, SPACE = 26, WINDOW = 8, WIDTH = 16, FLAT = WINDOW * WIDTH, HIDDEN = 64 };

typedef struct char_mlp {
    ig_workload base;
    ig_module *embed, *fc1, *fc2; /* owned by the model */
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

static ig_status build(ig_workload *w) {
    char_mlp *mlp = (char_mlp *)w;
    ig_module *child;
    snprintf(w->config, sizeof w->config,
             "{\"workload\": \"char-mlp\", \"symbols\": \"abcdefghijklmnopqrstuvwxyz \", "
             "\"window\": %d, \"width\": %d, \"hidden\": %d}",
             WINDOW, WIDTH, HIDDEN);
    IG_TRY(ig_module_create(w->ctx, forward, mlp, &w->model));
    IG_TRY(ig_embedding_create(w->ctx, SYMBOLS, WIDTH, &child));
    IG_TRY(ig_workload_adopt(w->model, "embed", child, &mlp->embed));
    IG_TRY(ig_linear_create(w->ctx, FLAT, HIDDEN, NULL, &child));
    IG_TRY(ig_workload_adopt(w->model, "fc1", child, &mlp->fc1));
    IG_TRY(ig_linear_create(w->ctx, HIDDEN, SYMBOLS, NULL, &child));
    return ig_workload_adopt(w->model, "fc2", child, &mlp->fc2);
}

/* ---- Text ---- */

/* The most likely next symbol after the window; `prompt` [1, 8] is the model's input. */
static ig_status predict(ig_workload *w, ig_tensor *prompt, const int32_t window[WINDOW],
                         int32_t *out) {
    IG_TRY(ig_tensor_write(prompt, window, WINDOW * sizeof *window));
    ig_scope_begin(w->ctx);
    ig_no_grad_begin(w->ctx);
    ig_tensor *best = ig_argmax(ig_module_call(w->model, prompt), -1); /* [1] */
    const ig_status status = ig_tensor_read(best, out, sizeof *out);
    ig_no_grad_end(w->ctx);
    ig_scope_end(w->ctx);
    return status;
}

static void push(int32_t window[WINDOW], int32_t symbol) {
    memmove(window, window + 1, (WINDOW - 1) * sizeof *window);
    window[WINDOW - 1] = symbol;
}

ig_status ig_char_mlp_generate(ig_workload *w, const char *prompt, char *out, size_t count) {
    int32_t window[WINDOW]; /* the last characters; short prompts are padded with spaces */
    for (size_t i = 0; i < WINDOW; i++) window[i] = SPACE;
    for (; *prompt; prompt++) push(window, symbol_of(*prompt));
    ig_tensor *x;
    IG_TRY(ig_tensor_create(w->ctx, (ig_desc){IG_I32, IG_SHAPE(1, WINDOW)}, &x));
    ig_status status = IG_OK;
    for (size_t i = 0; i < count && status == IG_OK; i++) {
        int32_t next = SPACE;
        status = predict(w, x, window, &next);
        push(window, next);
        out[i] = letter_of(next);
    }
    out[count] = 0;
    ig_tensor_release(x);
    return status;
}

const ig_workload_type ig_workload_char_mlp = {
    .name = "char-mlp",
    .summary = "embedding, tanh layer, output layer: predicts the next of 27 characters from eight",
    .steps = 300,
    .sizes = {.batch = 32, .width = WIDTH, .layers = 1, .length = WINDOW},
    .fixed = true,
    .target = IG_TARGET_LAST,
    .symbols = SYMBOLS,
    .symbol_of = symbol_of,
    .optimizer = {.lr = 0.01, .weight_decay = 0.01},
    .struct_bytes = sizeof(char_mlp),
    .build = build,
};
