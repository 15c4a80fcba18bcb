/*
 * arch.h - architectures of your own: defined by modules or by dispatches, registered by name.
 *
 * An architecture is a table of functions.  Once it is registered with a context,
 * ig_adapter_create() and ig_adapter_load() take its name like a built-in one, and so
 * do training, checkpoints, generation and chat.  A program registers it itself; a
 * plugin exports ig_arch_entry(), links nothing of Ingot, and is loaded with
 * ig_arch_load() or `ingot train --plugin`.
 *
 * Level 1: create() makes modules, hidden() and head() run them op by op, and autograd
 * does the rest.  Level 2: an ig_production table does the training step by hand, in
 * batches (batch.h).  Either is enough.  With both, training takes the route it is asked
 * for, and generation uses hidden() and head() with their KV cache.
 *
 * Compatibility: tables start with `abi` and `struct_size`, and grow at the end.  Fields
 * beyond that size count as NULL.  A table with another `abi` is refused.
 */
#ifndef INGOT_ARCH_H
#define INGOT_ARCH_H

#include "ingot/batch.h"
#include "ingot/nn.h"
#include "ingot/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { IG_ARCH_ABI = 1 };

/* Sizes of a model.  Does not grow within an ABI. */
typedef struct ig_lm_config {
    int64_t d_model, n_layers, n_heads, n_kv_heads, d_ff, ctx_len, vocabulary;
    int64_t key_width, value_width; /* of a head; 0: d_model / n_heads */
} ig_lm_config;

/* ---- Level 1: modules ---- */

/* The tokens of one forward pass: a training batch, or a micro-batch of a session. */
typedef struct ig_ubatch ig_ubatch;

IG_API ig_tensor *ig_ubatch_ids(const ig_ubatch *rows);       /* [batch, rows], i32; borrowed */
IG_API ig_tensor *ig_ubatch_positions(const ig_ubatch *rows); /* [rows], i32; borrowed */

/*
 * Causal attention of q [b, t, h, d] to k and v [b, t, g, d]: in training to the rows of
 * the batch, in a session to the KV cache, where k and v are stored first.  Returns
 * [b, t', h d], owned by the innermost scope.  In the last layer of a session t' counts
 * only the tokens whose outputs are wanted.
 */
IG_API ig_tensor *ig_ubatch_attend(const ig_ubatch *rows, int64_t layer, ig_tensor *q, ig_tensor *k,
                                   ig_tensor *v);
/* The same tokens of x [b, t, d]: the residual that attention is added to.  Outside the last layer
 * of a session, x itself; owned by the innermost scope. */
IG_API ig_tensor *ig_ubatch_outputs(const ig_ubatch *rows, int64_t layer, ig_tensor *x);
/* x [b, t, n h] -> [b, t, h, n], owned by the innermost scope. */
IG_API ig_tensor *ig_split_heads(ig_tensor *x, int64_t heads);

/* For create(): makes a layer and adds it to `parent`, which owns it. */
IG_API IG_MUST_CHECK ig_status ig_arch_linear(ig_module *parent, const char *name, int64_t n_in,
                                              int64_t n_out, bool bias, ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_arch_embedding(ig_module *parent, const char *name, int64_t count,
                                                 int64_t width, double std, ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_arch_rms_norm(ig_module *parent, const char *name, int64_t width,
                                                ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_arch_layer_norm(ig_module *parent, const char *name,
                                                  int64_t width, ig_module **out);
/* A module that only holds others: "layers", or "3" in it. */
IG_API IG_MUST_CHECK ig_status ig_arch_group(ig_module *parent, const char *name, ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_arch_layer_group(ig_module *layers, int64_t number,
                                                   ig_module **out);
/* Initializes the weight of a linear layer again, from a normal distribution. */
IG_API IG_MUST_CHECK ig_status ig_arch_reinit(ig_module *linear, double std);
/* For check(): d_model is divisible by n_heads, and n_heads by n_kv_heads. */
IG_API IG_MUST_CHECK ig_status ig_arch_check_heads(const char *arch, const ig_lm_config *config);

/* ---- Level 2: dispatches ---- */

/* A weight, with its gradient and AdamW moments, all alike in shape.  Borrowed. */
typedef struct ig_production_param {
    const char *path; /* "layers.0.q.weight" */
    ig_tensor *weight, *grad, *mean, *variance;
} ig_production_param;

/* Borrowed by init(), and what it points to as long as the model lives. */
typedef struct ig_production_args {
    const ig_lm_config *config;
    int64_t batch, rows;      /* sequences, and tokens of each; fixed for this model */
    ig_tensor *ids, *targets; /* [batch rows], i32, sequence by sequence; set before forward() */
    ig_tensor *positions;     /* [rows], i32: 0, 1, ... */
    const ig_production_param *params; /* in the order of the module's parameters */
    size_t n_params;
    ig_attrs_adamw adamw; /* for step(): constants, and the slots of the rate and the step count */
    bool inference;       /* forward() alone will be called; grad, mean and variance are NULL */
} ig_production_args;

/* Results of init(); the model owns the tensors. */
typedef struct ig_production_model {
    void *model;       /* passed to the other functions */
    ig_tensor *logits; /* [batch rows, vocabulary], F32 */
    ig_tensor *loss;   /* the mean cross entropy, an F32 scalar */
} ig_production_model;

/*
 * A training step by hand.  init() creates every tensor and batch, and plans the batches
 * with ig_batch_prepare(), so that no step allocates, the first one included.  The host
 * calls forward(), reads the loss, then backward(), clips the gradients if asked to, and
 * step().  Gradients are overwritten, not accumulated.
 */
typedef struct ig_production {
    uint32_t abi, struct_size;
    ig_status (*init)(ig_ctx *ctx, const ig_production_args *args, ig_production_model *out);
    void (*destroy)(ig_ctx *ctx, void *model);
    ig_status (*forward)(void *model);  /* ids, targets -> logits, loss */
    ig_status (*backward)(void *model); /* -> the gradient of every parameter */
    ig_status (*step)(void *model);     /* weight, grad, mean, variance -> their next values */
} ig_production;

/* The parameter of that path; the error lists a few of the paths there are. */
IG_API IG_MUST_CHECK ig_status ig_production_find(const ig_production_args *args, const char *path,
                                                  ig_production_param *out);

/* ---- Registration ---- */

typedef struct ig_arch_desc {
    uint32_t abi, struct_size;
    const char *name;        /* of a-z, 0-9, - and _; not that of a built-in architecture */
    const char *description; /* one line; NULL: none */
    ig_lm_config defaults;   /* sizes that the user does not give; the vocabulary is ignored */
    bool has_cache;          /* hidden() attends to earlier tokens: sessions keep a KV cache */
    /* Refuses sizes that do not fit, with the values; NULL: takes all. */
    ig_status (*check)(const ig_lm_config *config);
    /* Makes the weights below `root`, as modules or parameters.  destroy() frees what `out` gets;
     * NULL: nothing to free. */
    ig_status (*create)(ig_ctx *ctx, const ig_lm_config *config, ig_module *root, void **out);
    void (*destroy)(ig_ctx *ctx, void *model);
    /* The state after the last layer and its norm, [batch, rows, d_model], then its logits
     * [..., vocabulary]; both or neither. */
    ig_tensor *(*hidden)(void *model, const ig_ubatch *rows);
    ig_tensor *(*head)(void *model, ig_tensor *hidden);
    const ig_production *production; /* NULL: no production route */
} ig_arch_desc;

/* Registers an architecture with the context, which copies the table and its strings; the
 * functions must outlive the context.  Refused: another abi, missing functions, a name that is
 * taken. */
IG_API IG_MUST_CHECK ig_status ig_arch_register(ig_ctx *ctx, const ig_arch_desc *desc);

/* The context's i-th registered architecture, borrowed until the next registration; NULL after the
 * last.  ig_arch_name() lists the built-in ones. */
IG_API const ig_arch_desc *ig_arch_registered(const ig_ctx *ctx, size_t i);

/*
 * Loads a plugin, a shared library that exports ig_arch_entry(), and registers all its
 * architectures, or none.  The path is absolute; library and folder belong to root or
 * the user and are writable by no one else.  The context owns the library.  Its
 * constructors run in this process: ig_arch_probe() in a child process comes first
 * where the library is not trusted to load.
 */
IG_API IG_MUST_CHECK ig_status ig_arch_load(ig_ctx *ctx, const char *path);

/* Loads such a plugin, checks its tables, and unloads it. */
IG_API IG_MUST_CHECK ig_status ig_arch_probe(const char *path);

/* What a plugin exports: its i-th architecture, static; NULL after the last. */
__attribute__((visibility("default"))) const ig_arch_desc *ig_arch_entry(size_t i);

#ifdef __cplusplus
}
#endif
#endif
