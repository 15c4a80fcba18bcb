/*
 * sketch.h - graphs by chance, written down without running, and memory to run their plans in.
 *
 * The same number draws the same graph.  Devices are opened without a context.
 */
#ifndef TESTS_UNIT_SKETCH_H
#define TESTS_UNIT_SKETCH_H

#include "base/random.h"
#include "graph/build.h"
#include "plan/plan.h"

enum { NODES = 40, LEAVES = 6, STATES = 3, MOST_VALUES = 256, MOST_ELEMENTS = 200 };

extern const ig_host sketch_host;

typedef struct dice {
    uint32_t graph;
    uint64_t rolled;
} dice;

typedef struct sketch {
    ig_graph g;
    dice dice;
    ig_value usable[MOST_VALUES]; /* values of current versions */
    uint32_t n_usable;
    ig_value states[STATES]; /* the current version of each */
} sketch;

void sketch_draw(sketch *s, uint32_t number);

/* Leaves; what no node reads; and some others: so many of four.  Returns how many. */
uint32_t sketch_choose_bound(sketch *s, ig_value *bound, int64_t of_four);

/* One buffer for each value that has memory of its own; leaves are filled by chance. */
typedef struct memory {
    ig_backend_buffer *of[MOST_VALUES];
    size_t bytes[MOST_VALUES];
} memory;

void sketch_memory_init(memory *m, const ig_graph *g);
void sketch_memory_deinit(memory *m);

/* A plan of the nodes [first, first + count); one that cannot be made fails the test. */
ig_plan *sketch_plan(const ig_planner *planner, const ig_graph *g, uint32_t first, uint32_t count,
                     const ig_value *bound, uint32_t n_bound);
/* Runs it on the memory; its arena is NaN where nobody writes. */
void sketch_run(const ig_plan *plan, const memory *m, const ig_value *bound, uint32_t n_bound);
/* All nodes, one by one, as they were built. */
void sketch_run_one_by_one(const ig_planner *planner, const ig_graph *g, const memory *m);

#endif
