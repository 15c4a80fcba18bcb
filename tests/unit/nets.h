/*
 * nets.h - networks for tests of modes, captures and plans.
 *
 * Each is a program for modes.h that trains NET_STEPS steps and appends every loss and, at the end,
 * every parameter. Inputs and the learning rate change from step to step.
 */
#ifndef IG_TESTS_UNIT_NETS_H
#define IG_TESTS_UNIT_NETS_H

#include "unit/modes.h"

enum { NET_STEPS = 60 };

program train_char_mlp;  /* modules and AdamW: the workload of the demo */
program train_every_op;  /* attention, rope, norms, dropout, views, joins, gathers; AdamW, clip */
program train_by_sgd;    /* SGD with momentum and Nesterov momentum, clip */
program train_custom_op; /* a custom op with a gradient */

/*
 * A network small enough to write its steps by hand:
 *
 *     x [5,6] -> tanh(x w0) [5,10] -> dropout -> rms_norm, w2 -> times w1 [5,4]
 */
enum { SMALL_ROWS = 5, SMALL_IN = 6, SMALL_INNER = 10, SMALL_OUT = 4, SMALL_PARAMS = 3 };

typedef struct small_net {
    ig_ctx *ctx;
    ig_tensor *w[SMALL_PARAMS], *mean[SMALL_PARAMS], *variance[SMALL_PARAMS];
    ig_tensor *x, *y;     /* [5,6]; [5], class indices */
    uint32_t rate, count; /* slots */
    int64_t steps;        /* steps taken */
} small_net;

small_net small_make(ig_ctx *ctx);
void small_unmake(small_net *n);
void small_next_batch(small_net *n); /* new random x */
ig_tensor *small_logits(const small_net *n, ig_tensor *x, double dropout);
ig_tensor *small_loss(const small_net *n); /* of x and y, with dropout */
void small_zero_grad(small_net *n);
void small_update(small_net *n, double rate);         /* clip and AdamW; does not end the step */
void small_step(small_net *n, double rate, trail *t); /* all of it; appends the loss */
void small_put(const small_net *n, trail *t);         /* the parameters */

/* Registers x^2 as a custom op; returns its id. */
uint32_t register_square(ig_ctx *ctx);
ig_tensor *square(ig_ctx *ctx, uint32_t id, ig_tensor *x);

#endif
