/*
 * nets.h - networks that tests of modes, captures and plans train.
 *
 * Each is a program of modes.h that trains NET_STEPS steps and writes every loss
 * and, at the end, every parameter.  Inputs change from step to step, and so does
 * the rate.
 */
#ifndef IG_TESTS_UNIT_NETS_H
#define IG_TESTS_UNIT_NETS_H

#include "unit/modes.h"

enum { NET_STEPS = 60 };

program train_char_mlp;   /* modules and AdamW: the workload of the demo */
program train_every_op;   /* attention, rope, norms, dropout, views, joins, gathers; AdamW, clip */
program train_by_sgd;     /* momentum, Nesterov's form, clip */
program train_custom_op;  /* an op of the program's own, with a gradient */

/* x^2 as an op of the program's own: its number in the context. */
uint32_t register_square(ig_ctx *ctx);

#endif
