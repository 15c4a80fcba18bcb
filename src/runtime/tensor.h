/*
 * tensor.h - tensor handles, their slabs and their scopes.
 *
 * A handle has one reference for each retain of a caller, one for the scope it was created in and
 * one for the recording that returns it again. Slabs are freed only with the context, so a stale
 * handle is still readable: check `alive`.
 */
#ifndef IG_RUNTIME_TENSOR_H
#define IG_RUNTIME_TENSOR_H

#include "graph/graph.h"
#include "ingot/tensor.h"
#include "runtime/storage.h"

/* Fields that a replay compares come first: one cache line. */
struct ig_tensor {
    uint32_t alive;      /* IG_TENSOR_ALIVE; 0: released, and the handle is reused last */
    uint32_t refs;       /* callers, the scope, the recording */
    uint64_t run;        /* of a result in a recorded step: the step number, */
    uint32_t cell;       /* and 1 + the index of the result; 0: none */
    bool made_by_op;     /* not by a caller: read-only to callers */
    bool in_scope;       /* one of the references is a scope's */
    bool replayed;       /* a recording's handle: one reference is the recording's */
    bool state;          /* matched by identity: a parameter, a gradient, an optimizer moment */
    uint64_t id;         /* unique in the context, never reused */
    ig_ctx *ctx;         /* NULL: the null tensor, which ops on NULL return */
    ig_storage *storage; /* NULL: poisoned */
    ig_tensor *next;     /* in its scope or the free list */
    ig_value value;      /* in the tape; IG_NO_VALUE: none */
    bool wants_grad;
    bool has_grad; /* since it was last zeroed */
    bool new_grad; /* from the backward in progress */
    bool lost;     /* without storage because a replayed step did not keep it */

    uint64_t tape; /* the tape number for which `value` is valid */
    ig_layout layout;
    ig_tensor *grad;    /* created by the first backward, then kept */
    char *name;         /* NULL: none */
    uint64_t recording; /* of a result in a recorded step: the recording of its cell */
};
static_assert(offsetof(ig_tensor, tape) == 64, "the cursor touches one line of a tensor");

enum { IG_TENSOR_ALIVE = 0x54454e53, IG_SLAB_TENSORS = 63 };

typedef struct ig_tensor_slab {
    struct ig_tensor_slab *next;
    ig_tensor tensors[IG_SLAB_TENSORS];
} ig_tensor_slab;

typedef struct ig_handles {
    ig_tensor_slab *slabs;
    ig_tensor *free_first, *free_last; /* oldest first: stale handles stay recognizable for long */
    ig_tensor **scopes;                /* the tensors of each open scope; [0] is outermost */
    size_t scopes_room;
    uint32_t depth;         /* number of open scopes */
    uint32_t failed_scopes; /* begun without memory; their tensors go to the enclosing scope */
    uint64_t n_ids;         /* ids given out */
    ig_tensor poison;       /* the result of ops that failed */
} ig_handles;

ig_handles *ig_ctx_handles(const ig_ctx *ctx);

/* Whether recordings match the tensor by identity, not by position: everything that an update may
 * overwrite, directly or through a view. */
static inline bool ig_tensor_has_identity(const ig_tensor *t) {
    return t->state || (t->made_by_op && (t->storage->of_caller || t->storage->wrapped));
}

/* A new handle that takes the reference to `storage`; NULL: out of memory. */
ig_tensor *ig_tensor_new(ig_ctx *ctx, ig_layout layout, ig_storage *storage);
/* Transfers the handle's one reference to the innermost scope. */
ig_tensor *ig_tensor_to_scope(ig_tensor *tensor);
void ig_scope_release(ig_ctx *ctx, uint32_t depth);
/* A recording drops its reference to one of its handles; NULL is fine. */
void ig_tensor_give_up(ig_tensor *tensor);
/* Frees all handles and the storages of unreleased ones. */
void ig_handles_deinit(ig_ctx *ctx);

/* Whether the tensor may be used with the context; if not, sets the thread's error. */
IG_MUST_CHECK ig_status ig_tensor_check(const ig_tensor *tensor, const ig_ctx *ctx,
                                        const char *what);
/* As ig_tensor_check(), and requires storage: a tensor of a failed op reports that failure. */
IG_MUST_CHECK ig_status ig_tensor_check_usable(const ig_tensor *tensor, const char *what);
/* As ig_tensor_check_usable(), and rejects frozen tensors. */
IG_MUST_CHECK ig_status ig_tensor_check_writable(const ig_tensor *tensor, const char *what);
/* Reports why a tensor has no storage. */
IG_MUST_CHECK ig_status ig_tensor_missing(const ig_tensor *tensor, const char *what);
/* Result of ops on NULL: no context could own a poisoned tensor. */
ig_tensor *ig_null_tensor(void);

#endif
