/*
 * storage.h - accounted host memory, which a device may mirror.
 *
 * Tensors, views and values share storages by reference. A storage comes from the pool of its size
 * class and returns there; wrapped memory returns to the caller. A storage is in one of three
 * states: reserved (no buffer), committed, or in the pool.
 */
#ifndef IG_RUNTIME_STORAGE_H
#define IG_RUNTIME_STORAGE_H

#include "runtime/ctx_devices.h"

typedef struct ig_storage {
    uint32_t refs;
    uint32_t version;          /* incremented when it is overwritten */
    ig_backend_buffer *buffer; /* NULL: reserved, nothing computed */
    uint64_t bytes;
    ig_mirror mirror;
    void (*release)(void *owner); /* of wrapped memory; NULL: the caller frees it */
    void *owner;
    bool wrapped;
    bool zeroed;             /* fresh and zeroed by the host: needs no clearing */
    bool frozen;             /* its bytes never change again */
    bool of_caller;          /* created for a tensor of the caller, not for the result of an op */
    struct ig_storage *next; /* in the pool */
} ig_storage;

enum { IG_POOL_CLASSES = 160 };

typedef struct ig_memory {
    const ig_allocator *allocator; /* of the storages themselves; devices allocate the buffers */
    const ig_devices *devices;
    ig_storage *pool[IG_POOL_CLASSES]; /* by size class */
    ig_storage arena;                  /* buffer 0 of every run; holds the results of replays */
} ig_memory;

ig_memory *ig_ctx_memory(const ig_ctx *ctx);

/* A committed storage with one reference; its bytes are undefined unless `zeroed`. */
IG_MUST_CHECK ig_status ig_storage_create(ig_memory *memory, uint64_t bytes, ig_storage **out);
/* A storage without memory, until ig_storage_commit(). */
IG_MUST_CHECK ig_status ig_storage_reserve(ig_memory *memory, uint64_t bytes, ig_storage **out);
IG_MUST_CHECK ig_status ig_storage_commit(ig_memory *memory, ig_storage *storage);
ig_storage *ig_storage_retain(ig_storage *storage);
void ig_storage_release(ig_memory *memory, ig_storage *storage); /* NULL is fine */
/* Replaces the storage's own memory by wrapped external memory. */
void ig_storage_adopt(ig_memory *memory, ig_storage *storage, const ig_storage *outside);
/* Call before the host reads the bytes: fetches newer ones from the device. */
IG_MUST_CHECK ig_status ig_storage_to_host(ig_memory *memory, ig_storage *storage);
IG_MUST_CHECK ig_status ig_storage_range_to_host(ig_memory *memory, ig_storage *storage,
                                                 uint64_t offset, uint64_t bytes);
void ig_storage_drop_mirror(const ig_memory *memory, ig_storage *storage);
/* Whether the two share a byte. */
bool ig_storage_overlaps(const ig_storage *a, const ig_storage *b);

void ig_pool_drain(ig_memory *memory); /* frees all unused storages */
/* Grows buffer 0 of every run to the largest size a plan needs; growing discards its bytes. */
IG_MUST_CHECK ig_status ig_arena_reserve(ig_memory *memory, uint64_t bytes);
void ig_arena_free(ig_memory *memory);

#endif
