/*
 * data_order.h - the order of windows of training text.
 */
#ifndef IG_NN_DATA_ORDER_H
#define IG_NN_DATA_ORDER_H

#include <stdint.h>

/* A random number of seed and epoch; `what` distinguishes its uses. */
uint32_t ig_data_draw(uint64_t seed, uint64_t epoch, uint32_t what, uint32_t number);

/* Element `i` of a permutation of 0 to count - 1 (`i` is below `count`), determined by seed and
 * epoch. */
uint64_t ig_data_permute(uint64_t i, uint64_t count, uint64_t seed, uint64_t epoch);

#endif
