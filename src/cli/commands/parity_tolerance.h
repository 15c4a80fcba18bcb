/*
 * parity_tolerance.h - how far devices may differ on a model, by the dtypes of its weights and of
 * its KV cache.
 */
#ifndef IG_CLI_COMMANDS_PARITY_TOLERANCE_H
#define IG_CLI_COMMANDS_PARITY_TOLERANCE_H

#include "ingot/tensor.h"

typedef struct parity_tolerance {
    double most;      /* relative L2 distance of the logits */
    const char *from; /* what makes devices differ; NULL: no model has weights of this dtype */
} parity_tolerance;

parity_tolerance parity_tolerance_of(ig_dtype dtype);
/* By the dtype of the KV cache ("bf16"; NULL: the default).  `most` is 0 where the one of the
 * weights is larger. */
parity_tolerance parity_tolerance_of_cache(const char *dtype);

/* Whether devices may differ more on weights of `a` than of `b`: by tolerance, then by bits per
 * weight. */
bool parity_is_coarser(ig_dtype a, ig_dtype b);

#endif
