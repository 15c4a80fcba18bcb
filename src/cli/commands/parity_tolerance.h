/*
 * parity_tolerance.h - how far devices may differ on a model, by the dtypes of its weights.
 */
#ifndef IG_CLI_COMMANDS_PARITY_TOLERANCE_H
#define IG_CLI_COMMANDS_PARITY_TOLERANCE_H

#include "ingot/tensor.h"

typedef struct parity_tolerance {
    double most;      /* relative L2 distance of the logits */
    const char *from; /* what makes devices differ; NULL: no model has weights of this dtype */
} parity_tolerance;

parity_tolerance parity_tolerance_of(ig_dtype dtype);

/* Whether devices may differ more on weights of `a` than of `b`: by tolerance, then by bits per
 * weight. */
bool parity_is_coarser(ig_dtype a, ig_dtype b);

#endif
