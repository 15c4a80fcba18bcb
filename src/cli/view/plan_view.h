/*
 * plan_view.h - a plan as people look at it: steps, chains, levels, and what
 * flows between them.
 *
 * Made from the JSON of report.h, with the times of a profile if there is one.
 */
#ifndef IG_CLI_PLAN_VIEW_H
#define IG_CLI_PLAN_VIEW_H

#include <stdio.h>

#include <jansson.h>

#include "ingot/context.h"

/* What kind of work a step is: which colour it gets. */
typedef enum plan_class {
    PLAN_CONTRACT, /* matmul, attention */
    PLAN_ELEMENT,  /* element by element */
    PLAN_REDUCE,   /* norms, softmax, losses, sums */
    PLAN_UPDATE,   /* optimisers */
    PLAN_MOVE,     /* all else */
    PLAN_CLASSES
} plan_class;

extern const char *const plan_class_names[PLAN_CLASSES];

enum { PLAN_SHAPE_BYTES = 80 };

typedef struct plan_step {
    const char *op, *device; /* lent by the view */
    plan_class class;
    uint32_t level, chain, part; /* the chain by its place among the view's */
    uint64_t flop, bytes, scratch_bytes;
    char result[PLAN_SHAPE_BYTES]; /* "f32 [32,64]" */
    const char *weight;            /* what its matrix is stored as, "q4_0"; "": it has none */
    bool in_bytes;                 /* blocks are multiplied in whole numbers */
    /* Of a profile, in one run; 0 without. */
    double ns; /* of all threads together */
    double calls;
} plan_step;

typedef struct plan_chain {
    uint32_t first, count; /* its steps */
    uint32_t level;
} plan_chain;

/* Something that one chain writes and another reads, once however often. */
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
    uint64_t barriers, parts, copies;
    uint64_t buffers; /* that steps read or write, the arena counted in */
    uint64_t arena_bytes, live_bytes, sum_bytes;
    bool timed;
} plan_view;

/* Takes over the reference to `plan`, also when it fails. */
IG_MUST_CHECK ig_status plan_view_init(plan_view *view, const ig_allocator *allocator,
                                       json_t *plan);
void plan_view_deinit(plan_view *view); /* a zeroed one is fine */

/* The ops of a chain, those that steps have behind them counted in.  Where there are several they
 * are fused: values go from one to the next without a barrier. */
uint32_t plan_chain_ops(const plan_view *view, uint32_t chain);

/* Adds the times of a profile, the mean of its runs. */
void plan_view_add_times(plan_view *view, const json_t *profile);

/* ---- plan_draw.c: pictures.  Errors of the stream are left for the caller to find ---- */

/* As the dot program reads them. */
void plan_dot_print(FILE *to, const plan_view *view, const char *title);

/* Where each chain goes in a picture.  NULL: no memory. */
typedef struct plan_layout plan_layout;
plan_layout *plan_layout_create(const plan_view *view);
void plan_layout_destroy(const plan_view *view, plan_layout *layout); /* NULL is fine */

/* A picture that needs nothing else to be shown. */
void plan_svg_print(FILE *to, const plan_view *view, const plan_layout *layout, const char *title);

/* ---- plan_trace.c ---- */

/* The events of a profile as Chrome and Perfetto read them: a lane for each thread. */
void plan_trace_print(FILE *to, const plan_view *view, const json_t *profile, const char *title);

#endif
