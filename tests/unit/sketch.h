/*
 * sketch.h - random graphs, built without running, and memory to run their plans in.
 *
 * Equal seeds give equal graphs. Devices are opened without a context.
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

/* Chooses the leaves, all values that no node reads, and `of_four` of every four others. Returns
 * their count. */
uint32_t sketch_choose_bound(sketch *s, ig_value *bound, int64_t of_four);

/* One buffer for each value with its own memory; leaves are filled with random numbers. */
typedef struct memory {
    ig_backend_buffer *of[MOST_VALUES];
    size_t bytes[MOST_VALUES];
} memory;

void sketch_memory_init(memory *m, const ig_graph *g);
void sketch_memory_deinit(memory *m);

/* Plans the nodes [first, first + count); fails the test if that fails. */
ig_plan *sketch_plan(const ig_planner *planner, const ig_graph *g, uint32_t first, uint32_t count,
                     const ig_value *bound, uint32_t n_bound);
/* Runs the plan on the memory; the arena is NaN where no step writes. */
void sketch_run(const ig_plan *plan, const memory *m, const ig_value *bound, uint32_t n_bound);
/* Runs all nodes one by one, in the order in which they were built. */
void sketch_run_one_by_one(const ig_planner *planner, const ig_graph *g, const memory *m);

#endif
