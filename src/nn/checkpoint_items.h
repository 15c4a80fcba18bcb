/*
 * checkpoint_items.h - the contents of a checkpoint: a module's and an optimizer's tensors by name,
 * and the optimizer's hyperparameters as JSON.
 */
#ifndef IG_NN_CHECKPOINT_ITEMS_H
#define IG_NN_CHECKPOINT_ITEMS_H

#include "format/oam/oam.h"
#include "nn/optimizer.h"

/* Weights first, so that loading weights alone reads one range of the file. */
typedef struct checkpoint_items {
    const ig_allocator *allocator;
    size_t count;
    ig_oam_entry *entries;
    ig_tensor **tensors; /* borrowed */
    char *names;         /* names of the optimizer's state: "fc1.weight#mean" */
} checkpoint_items;

/* `opt` may be NULL; else it must be the optimizer of `module`. `name` is for error messages. */
IG_MUST_CHECK ig_status checkpoint_items_init(checkpoint_items *items, const char *name,
                                              ig_module *module, const ig_optimizer *opt);
void checkpoint_items_deinit(checkpoint_items *items); /* a zeroed struct is allowed */

/* {"kind":"adamw","steps":10,"rate":0.001,...}, bit-exact; the caller frees. */
IG_MUST_CHECK ig_status checkpoint_optimizer_text(const ig_allocator *a, const char *name,
                                                  const ig_optimizer *opt, char **out);

/* The parsed text. */
typedef struct checkpoint_optimizer {
    int64_t steps;
    double hypers[IG_HYPER_MAX];
} checkpoint_optimizer;

/* Parses and checks the text: setting the values cannot fail afterwards. */
IG_MUST_CHECK ig_status checkpoint_optimizer_read(const char *name, const char *text,
                                                  const ig_optimizer *opt,
                                                  checkpoint_optimizer *out);

#endif
