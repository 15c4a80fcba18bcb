/*
 * modes.h - runs one program in all modes, which must not change its results.
 *
 * A program trains or computes in a context and appends the numbers it reads to a trail. It runs in
 * Dynamic mode on one thread first, then in the other modes; the trails must be bit-exact.
 */
#ifndef IG_TESTS_UNIT_MODES_H
#define IG_TESTS_UNIT_MODES_H

#include "unit/check.h"

/* Name of the numbers from this index to the next mark. */
typedef struct trail_mark {
    size_t first;
    char name[48];
} trail_mark;

/* Numbers in the order in which they were read; f32 and i32 fit a double exactly. */
typedef struct trail {
    double *numbers;
    size_t count, room;
    trail_mark *marks; /* for messages about numbers that differ */
    size_t n_marks;
} trail;

/* Names the numbers that follow, in the format of printf. */
void trail_name(trail *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trail_put(trail *t, double number);
void trail_put_item(trail *t, ig_tensor *scalar); /* reads it */
void trail_put_tensor(trail *t, ig_tensor *f32);  /* reads all of it */
void trail_free(trail *t);
void trail_must_equal(const trail *got, const trail *want, const char *what);

typedef struct setting {
    ig_mode mode;
    const char *device; /* "cpu", "ref" */
    int threads;
} setting;

typedef void program(ig_ctx *ctx, trail *t);

/* Runs the program in its own context and returns the context's counters. */
ig_counters play(setting s, program *p, trail *t);

/* Runs it in all modes, on the device that the environment names and on ref, with 1 and 2 threads.
 */
void must_be_the_same_in_all_modes(program *p);

/* The report's recording counters; the reason is copied to `out` as it is in the JSON. */
typedef struct recordings {
    int count;
    bool refused;
    char reason[512];
} recordings;
recordings recordings_of(const ig_ctx *ctx);

/* Creates a tensor of ascending numbers, from `first` by `step`; the caller releases it. */
ig_tensor *ramp(ig_ctx *ctx, ig_shape shape, double first, double step);
/* Creates a parameter initialized from the context's seed; the caller releases it. */
ig_tensor *parameter(ig_ctx *ctx, ig_shape shape, const char *name);

#endif
