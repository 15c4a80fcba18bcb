/* op_cost.h - estimates of a step's arithmetic and memory traffic, for profiles and plans. */
#ifndef IG_GRAPH_OP_COST_H
#define IG_GRAPH_OP_COST_H

#include "ingot/backend.h"

uint64_t ig_step_flop(const ig_step *step);

/* Bytes of all operands, each counted once: the traffic with a perfect cache. */
uint64_t ig_step_bytes(const ig_step *step);
uint64_t ig_operand_bytes(const ig_operand *operand);

#endif
