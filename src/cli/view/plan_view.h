/*
 * plan_view.h - a plan prepared for display: steps, chains, levels and the values between them.
 *
 * Built from the JSON of report.h, with the times of a profile if there is one.
 */
#ifndef IG_CLI_VIEW_PLAN_VIEW_H
#define IG_CLI_VIEW_PLAN_VIEW_H

#include <stdio.h>

#include <jansson.h>

#include "ingot/context.h"

/* The category of a step, for its color. */
typedef enum plan_class {
    PLAN_CONTRACT, /* matmul, attention */
    PLAN_ELEMENT,  /* element by element */
    PLAN_REDUCE,   /* norms, softmax, losses, sums */
    PLAN_UPDATE,   /* optimizers */
    PLAN_MOVE,     /* all others */
    PLAN_CLASSES
} plan_class;

extern const char *const plan_class_names[PLAN_CLASSES];

enum { PLAN_SHAPE_BYTES = 80 };

typedef struct plan_step {
    const char *op, *device; /* owned by the view's JSON */
    plan_class class;
    uint32_t level, chain, region; /* chain: index in the view */
    uint64_t flop, bytes, scratch_bytes;
    char result[PLAN_SHAPE_BYTES]; /* "f32 [32,64]" */
    const char *weight;            /* dtype of its matrix, such as "q4_0"; "": none */
    bool in_bytes;                 /* an int8 matmul on quantization blocks */
    /* From a profile, per run; 0 without one. */
    double ns; /* summed over all threads */
    double calls;
} plan_step;

typedef struct plan_chain {
    uint32_t first, count; /* its steps */
    uint32_t level;
} plan_chain;

/* One chain writes a value and another reads it; listed once per pair. */
typedef struct plan_edge {
    uint32_t from, to; /* chains */
} plan_edge;

typedef struct plan_view {
    const ig_allocator *allocator;
    json_t *plan; /* one reference is the view's */
    plan_step *steps;
    plan_chain *chains;
    plan_edge *edges;
    uint32_t n_steps, n_chains, n_edges, n_levels;
    uint64_t barriers, regions, copies;
    uint64_t buffers; /* number of buffers read or written, including the arena */
    uint64_t arena_bytes, live_bytes, sum_bytes;
    bool timed;
} plan_view;

/* Takes the reference to `plan`, also on failure. */
IG_MUST_CHECK ig_status plan_view_init(plan_view *view, const ig_allocator *allocator,
                                       json_t *plan);
void plan_view_deinit(plan_view *view); /* a zeroed one is fine */

/* Number of ops in a chain, including those fused into its steps. More than one: values pass
 * between them without a barrier. */
uint32_t plan_chain_ops(const plan_view *view, uint32_t chain);

/* Adds the times of a profile, averaged over its runs. */
void plan_view_add_times(plan_view *view, const json_t *profile);

/* ---- plan_draw.c: pictures.  Errors of the stream are left for the caller to find ---- */

/* Writes Graphviz dot. */
void plan_dot_print(FILE *to, const plan_view *view, const char *title);

/* Positions of all chains in a picture. NULL: out of memory. */
typedef struct plan_layout plan_layout;
plan_layout *plan_layout_create(const plan_view *view);
void plan_layout_destroy(const plan_view *view, plan_layout *layout); /* NULL is fine */

/* Writes a self-contained SVG. */
void plan_svg_print(FILE *to, const plan_view *view, const plan_layout *layout, const char *title);

/* ---- plan_trace.c ---- */

/* Writes the events of a profile as a Chrome or Perfetto trace: one lane per thread. */
void plan_trace_print(FILE *to, const plan_view *view, const json_t *profile, const char *title);

#endif
