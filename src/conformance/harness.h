/*
 * harness.h - all cases against a backend, or against several at once.
 *
 * Each case runs on the backend with one thread and with three, each time in
 * fresh memory; the reference backend in double is the oracle.  A case passes
 * when every run gave numbers within the op's tolerance, the same bits whatever
 * the threads and whatever lay in the outputs before, and wrote nowhere else.
 *
 * A backend may turn a case down (another layout or dtype than its kernels
 * take): that is no failure.  An op and dtype of which no case passed is not
 * offered.
 */
#ifndef IG_CONFORMANCE_HARNESS_H
#define IG_CONFORMANCE_HARNESS_H

#include <stdio.h>

#include "conformance/conformance_host.h"

typedef struct conformance_count {
    uint32_t passed, refused, failed;
} conformance_count;

typedef struct conformance {
    /* By op and dtype: the real type of the case, or the one that its first operand has always. */
    conformance_count at[IG_OP_COUNT][IG_DTYPE_COUNT];
    conformance_count all;
    uint64_t claimed; /* dtypes that the device's capabilities list */
    uint64_t shown;   /* dtypes of the operands of cases that passed */
    int64_t leaked;   /* allocations of the host that did not come back */
    int64_t warnings; /* in the log */
} conformance;

typedef struct conformance_options {
    FILE *out;      /* one line per op and dtype, and each failure with the values that clash */
    const char *op; /* cases of this op alone; NULL: of all */
    double least;   /* errors below this do not count: for devices without subnormal numbers */
    int64_t most_elements; /* cases whose operands have more are left out; 0: none is */
    bool one_device;       /* all runs on the second team's: where no thread computes anything */
    bool once;             /* one run of each case, which does not compare runs */
} conformance_options;

/* Fails only if the device does not open; what the cases gave is in `result`. */
IG_MUST_CHECK ig_status conformance_run(const ig_backend *backend, conformance_options options,
                                        conformance *result);

enum { CONFORMANCE_SEATS = 2 }; /* one thread, three threads */

/* A backend as one team of threads sees it. */
typedef struct conformance_seat {
    test_host host;
    ig_backend_device plain, *device;
} conformance_seat;

/* A backend that is open, so it stays where it is in memory. */
typedef struct conformance_subject {
    const char *name; /* how it is called in what is printed */
    const ig_backend *backend;
    conformance_seat seats[CONFORMANCE_SEATS];
    conformance result;
} conformance_subject;

/* Opens a device for each team of threads.  The name and the backend outlive the subject. */
IG_MUST_CHECK ig_status conformance_open(conformance_subject *subject, const char *name,
                                         const ig_backend *backend);

/* Every case on every subject; then closes them.  The oracle, which takes most of the time, is
 * asked once for all of them. */
void conformance_run_all(conformance_subject *subjects, size_t count, conformance_options options);

#endif
