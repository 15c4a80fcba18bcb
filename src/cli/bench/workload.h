/*
 * workload.h - named training jobs for demos, plans and benchmarks.
 *
 * A workload defines its model, its optimizer and its data; the caller chooses the context, the
 * mode, the number of steps and what to measure:
 *
 *     create;  for every step: next_batch, step;  destroy
 *
 * All train on the same text, symbol by symbol: a sample is a window of it, and the target is the
 * next symbol, at the window's end or at each position. All randomness comes from the context's
 * seed, and a batch depends only on that seed and the optimizer's step count: a resumed job sees
 * the same batches.
 */
#ifndef IG_CLI_BENCH_WORKLOAD_H
#define IG_CLI_BENCH_WORKLOAD_H

#include "ingot/nn.h"

typedef struct ig_workload ig_workload;

/* Sizes chosen by the user; 0: the workload's default. */
typedef struct ig_workload_sizes {
    int64_t batch;  /* samples per step */
    int64_t width;  /* size of the embedding of a symbol */
    int64_t layers; /* number of layers */
    int64_t length; /* symbols per sample */
} ig_workload_sizes;

typedef enum ig_workload_target {
    IG_TARGET_LAST, /* the symbol after the window: targets [batch] */
    IG_TARGET_EACH, /* the next symbol at each position: targets [batch, length] */
} ig_workload_target;

typedef struct ig_workload_type {
    const char *name, *summary;
    int64_t steps;           /* defaults: as in the published figures, */
    ig_workload_sizes sizes; /* and the sizes */
    bool fixed;              /* only the batch size can be changed */
    ig_workload_target target;
    int32_t symbols;              /* ids are 0 to symbols - 1 */
    int32_t (*symbol_of)(char c); /* NULL: the byte itself */
    ig_adamw_options optimizer;

    size_t struct_bytes; /* of the workload's own struct, which begins with an ig_workload */

    /* Builds `model` for the sizes and describes it in `config`. Modules are destroyed with the
     * workload, also after an error. */
    ig_status (*build)(ig_workload *workload);
} ig_workload_type;

enum { IG_WORKLOAD_CONFIG_BYTES = 256 };

/* The common head of all workloads, read by the drivers. */
struct ig_workload {
    const ig_workload_type *type;
    ig_ctx *ctx;
    ig_module *model; /* ids -> logits: a row of `symbols` per target */
    ig_optimizer *optimizer;
    ig_workload_sizes sizes;
    ig_tensor *ids, *targets; /* [batch, length], [batch] or [batch, length]; i32 */
    const int32_t *text;      /* symbols */
    size_t n_text;
    int32_t *windows;                      /* space for ids, then targets */
    uint32_t *starts;                      /* of the batch, as positions in the text: [batch] */
    char config[IG_WORKLOAD_CONFIG_BYTES]; /* JSON description of the model, for checkpoints */
};

extern const ig_workload_type ig_workload_char_mlp, ig_workload_tinyllm, ig_workload_gpt;

/* All workloads; NULL at the end. */
extern const ig_workload_type *const ig_workload_types[];

/* The workload with this name; an unknown name is an error that lists all names. */
IG_MUST_CHECK ig_status ig_workload_find(const char *name, const ig_workload_type **out);

/* Creates the workload in the context, which must outlive it. The caller owns the result. */
IG_MUST_CHECK ig_status ig_workload_create(const ig_workload_type *type, ig_ctx *ctx,
                                           ig_workload_sizes sizes, ig_workload **out);
void ig_workload_destroy(ig_workload *workload); /* NULL is fine */

/* Writes the start positions of the step's samples to `starts`. */
void ig_workload_draw(ig_workload *workload, uint64_t step);

/* Fills the inputs for the optimizer's next step. */
IG_MUST_CHECK ig_status ig_workload_next_batch(ig_workload *workload);

/* Forward, backward and update on the current batch. Reads the loss only if out_loss is not NULL.
 */
IG_MUST_CHECK ig_status ig_workload_step(ig_workload *workload, double *out_loss);

/* Predictions per step: one per sample, or one per position. */
int64_t ig_workload_targets(const ig_workload *workload);

/* The model's logits for the current batch, without gradient: [targets, symbols]. */
IG_MUST_CHECK ig_status ig_workload_logits(ig_workload *workload, float *out, size_t count);

/* Continues a prompt greedily by `count` symbols; `out` has space for a final 0. Only for
 * workloads with the symbols of char-mlp. */
IG_MUST_CHECK ig_status ig_char_mlp_generate(ig_workload *workload, const char *prompt, char *out,
                                             size_t count);

/* Adds `child` to a module under a name; destroys it on failure. */
IG_MUST_CHECK ig_status ig_workload_adopt(ig_module *parent, const char *name, ig_module *child,
                                          ig_module **out);

/* The text of all workloads; a final 0 follows. */
extern const char ig_workload_text[];
extern const size_t ig_workload_text_bytes; /* without the final 0 */

#endif
