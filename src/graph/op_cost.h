/* cost.h - how much arithmetic a step is, for profiles and plans: estimates, not promises. */
#ifndef IG_OP_COST_H
#define IG_OP_COST_H

#include "ingot/backend.h"

uint64_t ig_step_flop(const ig_step *step);

/* Bytes of all operands, each once: what a perfect cache would move. */
uint64_t ig_step_bytes(const ig_step *step);
uint64_t ig_operand_bytes(const ig_operand *operand);

#endif
