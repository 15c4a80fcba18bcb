/*
 * module.h - the module functions that the layers of nn use beyond the public API.
 *
 * A module keeps the list of all parameters below it with their full paths, so lookups are free and
 * borrowed entries never move. Adding inserts new entries into the lists of all ancestors, or into
 * none.
 */
#ifndef IG_NN_MODULE_H
#define IG_NN_MODULE_H

#include "ingot/nn.h"

/* Creates a module with `data_bytes` of zeroed data, freed with it. */
IG_MUST_CHECK ig_status ig_module_create_with(ig_ctx *ctx, ig_forward_fn *forward,
                                              size_t data_bytes, ig_module **out);

/* Children added with ig_module_add(), in order; borrowed. */
size_t ig_module_child_count(const ig_module *module);
ig_module *ig_module_child(const ig_module *module, size_t i);

#endif
