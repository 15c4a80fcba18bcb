/*
 * harness.h - runs all cases on one or several backends.
 *
 * Each case runs on the backend with one thread and with three, each time in fresh memory; the
 * reference backend in double is the oracle. A case passes if every run is within the op's
 * tolerance, gives the same bits for any number of threads and any previous contents of the
 * outputs, and writes nowhere else.
 *
 * A backend may refuse a case (an unsupported layout or dtype): that is no failure. An op and dtype
 * without a passed case is not offered.
 */
#ifndef IG_CONFORMANCE_HARNESS_H
#define IG_CONFORMANCE_HARNESS_H

#include <stdio.h>

#include "backend/standalone_host.h"

typedef struct conformance_count {
    uint32_t passed, refused, failed;
} conformance_count;

typedef struct conformance {
    /* By op and dtype: the case's real dtype, or the fixed dtype of its first operand. */
    conformance_count at[IG_OP_COUNT][IG_DTYPE_COUNT];
    conformance_count all;
    uint64_t claimed; /* dtypes in the device's info */
    uint64_t shown;   /* dtypes of operands in passed cases */
    int64_t leaked;   /* host allocations not freed */
    int64_t warnings; /* in the log */
} conformance;

typedef struct conformance_options {
    FILE *out;      /* one line per op and dtype, and each failure with its values */
    const char *op; /* run only this op's cases; NULL: all */
    double least;   /* smaller absolute errors are ignored: for devices that flush subnormals */
    int64_t most_elements; /* skip cases with more elements in all operands; 0: no limit */
    bool one_device; /* run everything on the second seat: for devices that do not compute on the
                        team */
    bool once;       /* run each case once, without comparing runs */
} conformance_options;

/* Fails only if the device does not open; case results are in `result`. */
IG_MUST_CHECK ig_status conformance_run(const ig_backend *backend, conformance_options options,
                                        conformance *result);

enum { CONFORMANCE_SEATS = 2 }; /* one thread, three threads */

/* A backend with one team of threads. */
typedef struct conformance_seat {
    ig_test_host host;
    ig_backend_device plain, *device;
} conformance_seat;

/* An open backend; must not be moved in memory. */
typedef struct conformance_subject {
    const char *name; /* printed name */
    const ig_backend *backend;
    conformance_seat seats[CONFORMANCE_SEATS];
    conformance result;
} conformance_subject;

/* Opens a device for each team of threads. The name and the backend must outlive the subject. */
IG_MUST_CHECK ig_status conformance_open(conformance_subject *subject, const char *name,
                                         const ig_backend *backend);

/* Runs every case on every subject, then closes them. The oracle, which takes most of the time,
 * runs once per case. */
void conformance_run_all(conformance_subject *subjects, size_t count, conformance_options options);

#endif
