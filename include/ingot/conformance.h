/*
 * conformance.h - the conformance suite: does a backend keep the contract of backend.h, and are its
 * results correct?
 *
 * Every case of every op runs on the backend with one thread and with three, in fresh
 * memory.  A case passes if the results are within the op's tolerance of the reference
 * in double precision and bit-equal for any number of threads, and if nothing else was
 * written.  A backend may refuse a case; an op and dtype without a passed case is not offered.
 *
 * The backend's code runs in this process: check a plugin that is not trusted in a child.
 */
#ifndef INGOT_CONFORMANCE_H
#define INGOT_CONFORMANCE_H

#include <stdio.h>

#include "ingot/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_conformance_options {
    const char *op;       /* only cases of this op; NULL: of all */
    FILE *out;            /* a line per op and dtype, and per failure; NULL: no output */
    double min_error;     /* smaller errors pass: for devices without subnormal numbers */
    int64_t max_elements; /* skip cases with larger operands; 0: no limit */
    bool once;            /* run each case once, without comparing runs */
} ig_conformance_options;

typedef struct ig_conformance_count {
    uint32_t passed, refused, failed;
} ig_conformance_count;

typedef struct ig_conformance ig_conformance;

/* Runs the cases.  Fails only if the device cannot be opened; failed cases are in the result, which
 * the caller owns.  NULL options: all defaults. */
IG_API IG_MUST_CHECK ig_status ig_conformance_run(const ig_backend *backend,
                                                  const ig_conformance_options *options,
                                                  ig_conformance **out);
/* Loads the plugin at an absolute path, runs the cases and unloads it.  IG_ERR_DEVICE: it is not a
 * plugin, or not safe to load.  The caller owns the result. */
IG_API IG_MUST_CHECK ig_status ig_conformance_run_plugin(const char *path,
                                                         const ig_conformance_options *options,
                                                         ig_conformance **out);
IG_API void ig_conformance_destroy(ig_conformance *result); /* NULL is a no-op */

/* The backend's name and version; borrowed from the result. */
IG_API const char *ig_conformance_name(const ig_conformance *result);
IG_API const char *ig_conformance_version(const ig_conformance *result);

/* Cases of an op and a dtype, and of all; zeros for an op or dtype that does not exist. */
IG_API ig_conformance_count ig_conformance_at(const ig_conformance *result, uint32_t op,
                                              ig_dtype dtype);
IG_API ig_conformance_count ig_conformance_total(const ig_conformance *result);

/* Why the backend does not conform: wrong numbers, no case accepted, host memory leaked, or a dtype
 * in info() without a case that passed (unless options.op was set).  "": it conforms.  Static. */
IG_API const char *ig_conformance_complaint(const ig_conformance *result);

#ifdef __cplusplus
}
#endif
#endif
