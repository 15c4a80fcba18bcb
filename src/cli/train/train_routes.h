/*
 * train_routes.h - the three routes of a training step.
 *
 *     easy        modules and autograd, op by op: grad mode Dynamic
 *     replay      the same code, recorded once and replayed: grad mode Compiled
 *     production  dispatches written by hand, in batches planned by Init
 */
#ifndef IG_CLI_TRAIN_TRAIN_ROUTES_H
#define IG_CLI_TRAIN_TRAIN_ROUTES_H

#include "ingot/model.h"

typedef enum train_route { TRAIN_EASY, TRAIN_REPLAY, TRAIN_PRODUCTION, TRAIN_ROUTES } train_route;
extern const char *const train_routes[]; /* their names; NULL at the end */

/* Sets the grad mode of the easy and the replay route, or initializes the production route for
 * batches of `batch` sequences of `ctx` tokens: with the architecture's table, or for llm and gpt
 * with the program's own, from examples/production_*.c. */
IG_MUST_CHECK ig_status train_route_begin(ig_ctx *context, ig_adapter *adapter, train_route route,
                                          int64_t batch, int64_t ctx,
                                          const ig_train_options *options);

/* The program's table for a built-in architecture; NULL: none. */
const ig_production *train_production(const char *arch);

#endif
