/*
 * checkpoint_items.h - what of a module and its optimiser goes into a file: named tensors, and a
 * text with the optimiser's numbers.
 */
#ifndef IG_NN_CHECKPOINT_ITEMS_H
#define IG_NN_CHECKPOINT_ITEMS_H

#include "format/oam/oam.h"
#include "nn/optimizer.h"

/* Weights first, so that a reader of these alone reads one stretch of the file. */
typedef struct checkpoint_items {
    const ig_allocator *allocator;
    size_t count;
    ig_oam_entry *entries;
    ig_tensor **tensors; /* lent */
    char *names;         /* those of the optimiser's state: "fc1.weight#mean" */
} checkpoint_items;

/* `opt` may be NULL; else it must be one of `module`.  `name` is for messages. */
IG_MUST_CHECK ig_status checkpoint_items_init(checkpoint_items *items, const char *name,
                                              ig_module *module, const ig_optimizer *opt);
void checkpoint_items_deinit(checkpoint_items *items); /* a zeroed one is fine */

/* {"kind":"adamw","steps":10,"rate":0.001,...}, exact to the last bit; the caller frees. */
IG_MUST_CHECK ig_status checkpoint_optimizer_text(const ig_allocator *a, const char *name,
                                                  const ig_optimizer *opt, char **out);

/* What such a text says. */
typedef struct checkpoint_optimizer {
    int64_t steps;
    double hypers[IG_HYPER_MAX];
} checkpoint_optimizer;

/* Reads and checks it all: setting it will not fail. */
IG_MUST_CHECK ig_status checkpoint_optimizer_read(const char *name, const char *text,
                                                  const ig_optimizer *opt,
                                                  checkpoint_optimizer *out);

#endif
