/*
 * parity.h - runs a model on one device and keeps the results for comparison.
 */
#ifndef IG_CLI_COMMANDS_PARITY_H
#define IG_CLI_COMMANDS_PARITY_H

#include "cli/commands/loaded_model.h"

enum { PARITY_DEVICE_BYTES = 32 };

/* The same for all devices. */
typedef struct parity_job {
    ig_cli *cli;
    model_options model; /* its path is ignored if `arch` is set */
    const char *arch;    /* a model of this architecture with fixed random weights; NULL: a file */
    model_text text;
    int64_t n_tokens; /* tokens to generate after the text */
} parity_job;

/* Results on one device. */
typedef struct parity_run {
    char name[PARITY_DEVICE_BYTES];
    int64_t width;   /* row width of logits: the vocabulary; d_model for a model without a head */
    int64_t n_rows;  /* after the text, then after each generated token */
    float *logits;   /* [n_rows, width]; owned */
    int32_t *tokens; /* [n_rows - 1]: greedy; owned */
    float *hidden;   /* [d_model], after the text; owned */
    int64_t d_model, n_prompt;
    ig_dtype coarsest; /* dtype of the weights */
    bool routed;       /* it is an MoE */
} parity_run;

/* Runs the job on the device named in the run; release it also after an error. */
IG_MUST_CHECK ig_status parity_run_on(const parity_job *job, parity_run *run);
void parity_run_release(const ig_cli *cli, parity_run *run);

#endif
