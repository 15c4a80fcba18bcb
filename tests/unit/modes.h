/*
 * modes.h - one program, run in every way that must not change its numbers.
 *
 * A program trains or computes something in a context and writes the numbers it
 * sees into a trail.  It is run in Dynamic mode on one thread first; then in the
 * other modes, and the trails must be equal to the last bit.
 */
#ifndef IG_TESTS_UNIT_MODES_H
#define IG_TESTS_UNIT_MODES_H

#include "unit/check.h"

/* What numbers are, from one of them on until the next mark. */
typedef struct trail_mark {
    size_t first;
    char name[48];
} trail_mark;

/* Numbers in the order in which they were seen; f32 and i32 fit a double exactly. */
typedef struct trail {
    double *numbers;
    size_t count, room;
    trail_mark *marks; /* for what is said of numbers that differ */
    size_t n_marks;
} trail;

/* Names what is put from now on, as printf does. */
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

/* Runs the program in a context of its own and tells what the context counted. */
ig_counters play(setting s, program *p, trail *t);

/* In all modes, on the device that the environment names and on ref, with 1 and 2 threads. */
void must_be_the_same_in_all_modes(program *p);

/* What the report says of recordings: the reason goes to `out` as it stands in the JSON. */
typedef struct recordings {
    int count;
    bool refused;
    char reason[512];
} recordings;
recordings recordings_of(const ig_ctx *ctx);

/* A tensor of these numbers, which ascend from `first` by `step`; the caller releases it. */
ig_tensor *ramp(ig_ctx *ctx, ig_shape shape, double first, double step);
/* A parameter drawn from the context's seed; the caller releases it. */
ig_tensor *parameter(ig_ctx *ctx, ig_shape shape, const char *name);

#endif
