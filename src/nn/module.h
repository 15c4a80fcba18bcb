/*
 * module.h - what the layers of nn know of a module, beyond the public face.
 *
 * A module keeps the list of all parameters below it, with their joined paths,
 * so asking for one costs nothing and what is lent stays where it is.  Adding
 * puts new entries into the lists of all modules above, or into none.
 */
#ifndef IG_NN_MODULE_H
#define IG_NN_MODULE_H

#include "ingot/nn.h"

/* A module whose data are `data_bytes` of its own, zeroed; they go with it. */
IG_MUST_CHECK ig_status ig_module_create_with(ig_ctx *ctx, ig_forward_fn *forward,
                                              size_t data_bytes, ig_module **out);

/* What was added with ig_module_add(), in order; lent. */
size_t ig_module_child_count(const ig_module *module);
ig_module *ig_module_child(const ig_module *module, size_t i);

#endif
