/*
 * workload.h - training jobs that demos, plans and benchmarks run by name.
 *
 * A workload brings its model, its optimiser and its data; whoever runs it
 * decides on context, mode, number of steps, and what to measure:
 *
 *     create;  for every step: next_batch, step;  destroy
 *
 * All learn the same text, symbol by symbol: a sample is a window of it, and the
 * target is the symbol that follows, at the window's end or at each position.
 * All that is random comes from the context's seed, and a batch depends on
 * nothing but that seed and how many steps the optimiser has taken: a job that
 * was stopped and loaded again sees the batches it would have seen.
 */
#ifndef IG_CLI_WORKLOAD_H
#define IG_CLI_WORKLOAD_H

#include "ingot/nn.h"

typedef struct ig_workload ig_workload;

/* What a user may choose; 0: as the type has it. */
typedef struct ig_workload_sizes {
    int64_t batch;  /* samples of a step */
    int64_t width;  /* numbers that stand for a symbol inside of the model */
    int64_t layers; /* blocks, one after the other */
    int64_t length; /* symbols of a sample */
} ig_workload_sizes;

typedef enum ig_workload_target {
    IG_TARGET_LAST, /* the symbol after the window: targets [batch] */
    IG_TARGET_EACH, /* the next symbol at each position: targets [batch, length] */
} ig_workload_target;

typedef struct ig_workload_type {
    const char *name, *summary;
    int64_t steps;           /* as the published figures have them, */
    ig_workload_sizes sizes; /* and these */
    bool fixed;              /* only the batch can be chosen */
    ig_workload_target target;
    int32_t symbols;              /* ids are 0 to symbols - 1 */
    int32_t (*symbol_of)(char c); /* NULL: the byte */
    ig_adamw_options optimizer;

    size_t struct_bytes; /* of the workload's own struct, which begins with an ig_workload */

    /* Fills in `model` for the sizes and says in `config` what it is.  What was made of it is
     * destroyed with the workload, also when this fails. */
    ig_status (*build)(ig_workload *workload);
} ig_workload_type;

enum { IG_WORKLOAD_CONFIG_BYTES = 256 };

/* What all begin with; to be read by those who run them. */
struct ig_workload {
    const ig_workload_type *type;
    ig_ctx *ctx;
    ig_module *model; /* ids -> logits, for each target a row of `symbols` */
    ig_optimizer *optimizer;
    ig_workload_sizes sizes;
    ig_tensor *ids, *targets; /* [batch, length], [batch] or [batch, length]; i32 */
    const int32_t *text;      /* symbols */
    size_t n_text;
    int32_t *windows;                      /* room for ids, then targets */
    uint32_t *starts;                      /* of the batch, in the text: [batch] */
    char config[IG_WORKLOAD_CONFIG_BYTES]; /* JSON for checkpoints: what the model is */
};

extern const ig_workload_type ig_workload_char_mlp, ig_workload_tinyllm, ig_workload_gpt;

/* All rows; NULL at the end. */
extern const ig_workload_type *const ig_workload_types[];

/* A row of the table by its name; an unknown one is an error that lists the names. */
IG_MUST_CHECK ig_status ig_workload_find(const char *name, const ig_workload_type **out);

/* In the context, which must outlive it.  The caller owns the result. */
IG_MUST_CHECK ig_status ig_workload_create(const ig_workload_type *type, ig_ctx *ctx,
                                           ig_workload_sizes sizes, ig_workload **out);
void ig_workload_destroy(ig_workload *workload); /* NULL is fine */

/* Where in the text the samples of a step begin: written to `starts`. */
void ig_workload_draw(ig_workload *workload, uint64_t step);

/* Fills the inputs for the optimiser's next step. */
IG_MUST_CHECK ig_status ig_workload_next_batch(ig_workload *workload);

/* Forward, backward and update on the current batch.  The loss is read only if asked for. */
IG_MUST_CHECK ig_status ig_workload_step(ig_workload *workload, double *out_loss);

/* Predictions of a step: one for each sample, or for each of its positions. */
int64_t ig_workload_targets(const ig_workload *workload);

/* The model's outputs for the current batch, without a gradient: targets x symbols floats. */
IG_MUST_CHECK ig_status ig_workload_logits(ig_workload *workload, float *out, size_t count);

/* Continues a prompt by the `count` most likely symbols, one after the other; `out` has room for a
 * final 0.  Only for types whose symbols are those of char-mlp. */
IG_MUST_CHECK ig_status ig_char_mlp_generate(ig_workload *workload, const char *prompt, char *out,
                                             size_t count);

/* Gives `child` to a module under a name, or destroys it if that fails. */
IG_MUST_CHECK ig_status ig_workload_adopt(ig_module *parent, const char *name, ig_module *child,
                                          ig_module **out);

/* The text that all learn; a final 0 follows. */
extern const char ig_workload_text[];
extern const size_t ig_workload_text_bytes; /* without it */

#endif
