/* attachments.h - data that a client attaches to a context: ig_ctx_attach(). */
#ifndef IG_RUNTIME_ATTACHMENTS_H
#define IG_RUNTIME_ATTACHMENTS_H

#include "base/alloc.h"

typedef struct ig_attachment {
    const void *key;
    void *data;
    void (*destroy)(void *data); /* NULL: none */
} ig_attachment;

typedef struct ig_attachments {
    ig_attachment *at; /* in the order of attachment */
    size_t count, room;
} ig_attachments;

/* Destroys the data, newest first. */
void ig_attachments_deinit(ig_attachments *all, const ig_allocator *allocator);

#endif
