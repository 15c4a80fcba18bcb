/*
 * parity.h - what one device makes of a model, kept to be compared with others.
 */
#ifndef IG_CLI_PARITY_H
#define IG_CLI_PARITY_H

#include "cli/commands/loaded_model.h"

enum { PARITY_DEVICE_BYTES = 32 };

/* What all devices are given. */
typedef struct parity_job {
    ig_cli *cli;
    model_options model; /* whose path is not looked at where `arch` is given */
    const char *arch;    /* a model of this architecture with fixed random weights; NULL: a file */
    model_text text;
    int64_t n_tokens; /* to be made behind the text */
} parity_job;

/* What came of it on one device. */
typedef struct parity_run {
    char name[PARITY_DEVICE_BYTES];
    int64_t width;   /* of a row of logits: the vocabulary; of a model without a head, d_model */
    int64_t n_rows;  /* behind the text, then behind each token that was made */
    float *logits;   /* [n_rows, width]; owned */
    int32_t *tokens; /* [n_rows - 1]: each the likeliest; owned */
    float *hidden;   /* [d_model], behind the text; owned */
    int64_t d_model, n_prompt;
    bool blocks; /* some weights are of a block type */
} parity_run;

/* Runs the job on the device that the run names; it must be released in any case. */
IG_MUST_CHECK ig_status parity_run_on(const parity_job *job, parity_run *run);
void parity_run_release(const ig_cli *cli, parity_run *run);

#endif
