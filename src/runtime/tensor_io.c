/*
 * Tensor creation, fills, reads and writes by callers.
 *
 * Bytes live in host memory. A read fetches newer bytes from the device; a write invalidates the
 * device's copy. Both notify the recorder first: a read may be a graph break, and a write may
 * change the input of pending ops of a replay.
 */
#include <math.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "base/random.h"
#include "runtime/ctx_host.h"
#include "runtime/record/record.h"
#include "runtime/record/steps.h"
#include "runtime/tape.h"
#include "runtime/tensor.h"

ig_status ig_tensor_create(ig_ctx *ctx, ig_desc desc, ig_tensor **out) {
    uint64_t bytes;
    char text[IG_SHAPE_TEXT_BYTES];
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "tensor_create: NULL");
    if (desc.shape.rank < 0 || desc.shape.rank > IG_MAX_RANK)
        return IG_FAIL(IG_ERR_SHAPE, "tensor_create: rank %d; at most %d", desc.shape.rank,
                       IG_MAX_RANK);
    if (!ig_desc_bytes(desc, &bytes))
        return IG_FAIL(IG_ERR_SHAPE, "tensor_create: %s of %s is not a valid size",
                       ig_shape_text(desc.shape, text), ig_dtype_name(desc.dtype));
    ig_storage *storage = NULL;
    IG_TRY(ig_storage_create(ig_ctx_memory(ctx), bytes, &storage));
    /* Memory from the pool has the contents of its last user. */
    if (!storage->zeroed) memset((void *)storage->buffer, 0, bytes);
    storage->of_caller = true;
    ig_tensor *t = ig_tensor_new(ctx, ig_layout_packed(desc), storage);
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "tensor_create: handle");
    *out = t;
    return IG_OK;
}

ig_status ig_tensor_create_from(ig_ctx *ctx, ig_desc desc, const void *src, ig_tensor **out) {
    ig_tensor *t = NULL;
    uint64_t bytes = 0;
    IG_TRY(ig_tensor_create(ctx, desc, &t));
    (void)ig_desc_bytes(desc, &bytes);
    const ig_status status = ig_tensor_write(t, src, bytes);
    if (status == IG_OK)
        *out = t;
    else
        ig_tensor_release(t);
    return status;
}

/* The layout of external memory with strides; checks that the byte count does not overflow. */
static ig_status outside_layout(ig_desc desc, const int64_t *stride, ig_layout *out) {
    const int64_t each = ig_bytes_of(desc.dtype, ig_dtype_block(desc.dtype));
    const bool empty = ig_shape_count(desc.shape) == 0;
    int64_t end = each; /* of the last element, in bytes */
    *out = ig_layout_packed(desc);
    for (int d = 0; stride && d < desc.shape.rank; d++) {
        int64_t reach = 0;
        bool fits = stride[d] >= 0;
        if (fits && !empty)
            fits = !__builtin_mul_overflow(desc.shape.dim[d] - 1, stride[d], &reach) &&
                   !__builtin_mul_overflow(reach, each, &reach) &&
                   !__builtin_add_overflow(end, reach, &end);
        if (!fits)
            return IG_FAIL(IG_ERR_ARGUMENT, "tensor_wrap: stride %d is %lld", d,
                           (long long)stride[d]);
        out->stride[d] = stride[d];
    }
    if (ig_dtype_block(desc.dtype) > 1 && !ig_layout_is_packed(out))
        return IG_FAIL(IG_ERR_ARGUMENT, "tensor_wrap: %s must be packed",
                       ig_dtype_name(desc.dtype));
    return IG_OK;
}

/* Bytes from the first element of a layout to the end of the last. */
static uint64_t span_bytes(const ig_layout *layout) {
    int64_t last = 0;
    for (int d = 0; d < layout->desc.shape.rank; d++) {
        if (layout->desc.shape.dim[d] == 0) return 0;
        last += (layout->desc.shape.dim[d] - 1) * layout->stride[d];
    }
    return (uint64_t)ig_bytes_of(layout->desc.dtype, last + 1);
}

/* External memory must be aligned for its elements. */
static ig_status check_outside(ig_dtype dtype, const void *bytes, const char *what) {
    const int64_t each = ig_dtype_block(dtype) > 1 ? 1 : ig_bytes_of(dtype, 1);
    if ((uintptr_t)bytes % (uintptr_t)each != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: the address of %s must be a multiple of %lld bytes",
                       what, ig_dtype_name(dtype), (long long)each);
    return IG_OK;
}

ig_status ig_tensor_wrap(ig_ctx *ctx, ig_desc desc, const int64_t *stride, void *bytes,
                         void (*release)(void *owner), void *owner, ig_tensor **out) {
    uint64_t n_bytes;
    if (!ctx || !out || !bytes) return IG_FAIL(IG_ERR_ARGUMENT, "tensor_wrap: NULL");
    if (desc.shape.rank < 0 || desc.shape.rank > IG_MAX_RANK || !ig_desc_bytes(desc, &n_bytes))
        return IG_FAIL(IG_ERR_SHAPE, "tensor_wrap: invalid shape or dtype");
    IG_TRY(check_outside(desc.dtype, bytes, "tensor_wrap"));
    ig_layout layout;
    IG_TRY(outside_layout(desc, stride, &layout));
    ig_storage *storage = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *storage);
    if (!storage) return IG_FAIL(IG_ERR_MEMORY, "tensor_wrap: storage");
    *storage = (ig_storage){
        .refs = 1,
        .buffer = bytes,
        .bytes = n_bytes,
        .mirror = {.host = bytes, .bytes = span_bytes(&layout), .device_old = true, .shared = true},
        .wrapped = true};
    ig_tensor *t = ig_tensor_new(ctx, layout, storage);
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "tensor_wrap: handle"); /* the owner keeps the memory */
    storage->release = release;
    storage->owner = owner;
    *out = t;
    return IG_OK;
}

ig_status ig_tensor_adopt(ig_tensor *tensor, void *bytes, void (*release)(void *owner),
                          void *owner) {
    IG_TRY(ig_tensor_check_usable(tensor, "tensor_adopt"));
    IG_TRY(ig_ctx_check_idle(tensor->ctx, "tensor_adopt"));
    const ig_desc desc = tensor->layout.desc;
    uint64_t n_bytes = 0;
    (void)ig_desc_bytes(desc, &n_bytes);
    if (tensor->made_by_op || tensor->layout.offset != 0 || !ig_layout_is_packed(&tensor->layout))
        return IG_FAIL(IG_ERR_ARGUMENT, "tensor_adopt: the tensor is a view, or an op's result");
    if (!bytes) return IG_FAIL(IG_ERR_ARGUMENT, "tensor_adopt: the memory is NULL");
    IG_TRY(ig_tensor_check_writable(tensor, "tensor_adopt"));
    IG_TRY(check_outside(desc.dtype, bytes, "tensor_adopt"));
    IG_TRY(ig_replay_write(tensor->ctx, tensor));
    const ig_storage outside = {
        .buffer = bytes, .bytes = n_bytes, .release = release, .owner = owner};
    ig_storage_adopt(ig_ctx_memory(tensor->ctx), tensor->storage, &outside);
    return IG_OK;
}

ig_status ig_tensor_freeze(ig_tensor *tensor) {
    IG_TRY(ig_tensor_check_usable(tensor, "freeze"));
    if (tensor->made_by_op)
        return IG_FAIL(IG_ERR_ARGUMENT, "freeze: the result of an op cannot be frozen");
    IG_TRY(ig_replay_write(tensor->ctx, tensor)); /* run pending programs that may write it first */
    IG_TRY(ig_storage_to_host(ig_ctx_memory(tensor->ctx), tensor->storage));
    tensor->state = true; /* programs depend on these bytes, so the tensor is known by identity */
    tensor->storage->frozen = true;
    tensor->storage->mirror.shared = false;
    return IG_OK;
}

ig_desc ig_tensor_desc(const ig_tensor *tensor) {
    return tensor && tensor->storage ? tensor->layout.desc : (ig_desc){IG_F32, {0}};
}

ig_ctx *ig_tensor_ctx(const ig_tensor *tensor) { return tensor ? tensor->ctx : NULL; }

ig_status ig_tensor_set_name(ig_tensor *tensor, const char *name) {
    IG_TRY(ig_tensor_check_usable(tensor, "set_name"));
    char *copy = ig_copy_text(ig_ctx_allocator(tensor->ctx), name ? name : "");
    if (!copy) return IG_FAIL(IG_ERR_MEMORY, "set_name: %s", name ? name : "");
    ig_free(ig_ctx_allocator(tensor->ctx), tensor->name);
    tensor->name = copy;
    return IG_OK;
}

const char *ig_tensor_name(const ig_tensor *tensor) {
    return tensor && tensor->name ? tensor->name : "";
}

/* The layout in quantization blocks, each counted as one element. */
static ig_layout layout_of_blocks(const ig_layout *layout, int64_t block) {
    ig_layout blocks = *layout;
    const int last = layout->desc.shape.rank - 1;
    if (block == 1) return blocks;
    blocks.desc.shape.dim[last] /= block;
    for (int d = 0; d < last; d++) blocks.stride[d] /= block;
    return blocks;
}

/* Copies between packed bytes and elements with the strides of `of`. */
static void copy_strided(const ig_layout *of, char *strided, char *packed, bool pack) {
    const int64_t block = ig_dtype_block(of->desc.dtype);
    const int64_t each = ig_bytes_of(of->desc.dtype, block);
    const ig_layout blocks = layout_of_blocks(of, block), *layout = &blocks;
    const ig_shape *shape = &layout->desc.shape;
    const int64_t count = ig_shape_count(*shape);
    int64_t at[IG_MAX_RANK] = {0}, offset = 0;
    for (int64_t i = 0; i < count; i++) {
        char *element = strided + offset * each;
        if (pack)
            memcpy(packed + i * each, element, (size_t)each);
        else
            memcpy(element, packed + i * each, (size_t)each);
        for (int d = shape->rank - 1; d >= 0; d--) { /* odometer: next index */
            offset += layout->stride[d];
            if (++at[d] < shape->dim[d]) break;
            offset -= layout->stride[d] * shape->dim[d];
            at[d] = 0;
        }
    }
}

static ig_status transfer(ig_tensor *t, void *outside, bool reading) {
    char *at = (char *)t->storage->buffer + ig_bytes_of(t->layout.desc.dtype, t->layout.offset);
    uint64_t bytes = 0;
    ig_device *device = ig_ctx_devices(t->ctx)->planner.devices[0];
    if (device->host_memory) IG_TRY(ig_device_sync(device)); /* others sync in copies */
    const ig_layout *layout = &t->layout;
    (void)ig_desc_bytes(layout->desc, &bytes);
    if (ig_layout_is_packed(layout))
        IG_TRY(ig_storage_range_to_host(ig_ctx_memory(t->ctx), t->storage,
                                        (uint64_t)ig_bytes_of(layout->desc.dtype, layout->offset),
                                        bytes));
    else
        IG_TRY(ig_storage_to_host(ig_ctx_memory(t->ctx), t->storage));
    if (!ig_layout_is_packed(layout))
        copy_strided(&t->layout, at, outside, reading);
    else if (bytes > 0)
        memcpy(reading ? outside : at, reading ? at : outside, bytes);
    if (!reading) ig_mirror_wrote_host(&t->storage->mirror);
    return IG_OK;
}

static ig_status check_bytes(const ig_tensor *t, const void *p, size_t bytes, const char *what) {
    uint64_t needed = 0;
    char shape[IG_SHAPE_TEXT_BYTES];
    (void)ig_desc_bytes(t->layout.desc, &needed);
    if (!p && needed) return IG_FAIL(IG_ERR_ARGUMENT, "%s: the memory is NULL", what);
    if (bytes == needed) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: %zu bytes; %s of %s takes %llu", what, bytes,
                   ig_shape_text(t->layout.desc.shape, shape), ig_dtype_name(t->layout.desc.dtype),
                   (unsigned long long)needed);
}

ig_status ig_tensor_read(ig_tensor *tensor, void *dst, size_t dst_bytes) {
    IG_TRY(ig_tensor_check_usable(tensor, "read"));
    IG_TRY(ig_ctx_check_idle(tensor->ctx, "read"));
    IG_TRY(check_bytes(tensor, dst, dst_bytes, "read"));
    IG_TRY(ig_replay_read(tensor->ctx, tensor));
    return transfer(tensor, dst, true);
}

ig_status ig_tensor_write(ig_tensor *tensor, const void *src, size_t src_bytes) {
    IG_TRY(ig_tensor_check_usable(tensor, "write"));
    IG_TRY(ig_ctx_check_idle(tensor->ctx, "write"));
    if (tensor->made_by_op)
        return IG_FAIL(IG_ERR_ARGUMENT, "write: the result of an op cannot be overwritten");
    IG_TRY(ig_tensor_check_writable(tensor, "write"));
    IG_TRY(check_bytes(tensor, src, src_bytes, "write"));
    IG_TRY(ig_replay_write(tensor->ctx, tensor));
    tensor->storage->version++;
    return transfer(tensor, (void *)(uintptr_t)src, false);
}

ig_status ig_tensor_item(ig_tensor *tensor, double *out) {
    IG_TRY(ig_tensor_check_usable(tensor, "item"));
    IG_TRY(ig_ctx_check_idle(tensor->ctx, "item"));
    char text[IG_SHAPE_TEXT_BYTES];
    const ig_desc desc = tensor->layout.desc;
    union {
        float f;
        double d;
        int32_t i;
        uint16_t h;
    } x;
    if (ig_shape_count(desc.shape) != 1)
        return IG_FAIL(IG_ERR_SHAPE, "item: %s is not a single element",
                       ig_shape_text(desc.shape, text));
    IG_TRY(ig_replay_read(tensor->ctx, tensor));
    IG_TRY(transfer(tensor, &x, true));
    switch (desc.dtype) {
    case IG_F32: *out = x.f; return IG_OK;
    case IG_F64: *out = x.d; return IG_OK;
    case IG_I32: *out = x.i; return IG_OK;
    default:
        return IG_FAIL(IG_ERR_UNSUPPORTED, "item: %s: cast it to f32", ig_dtype_name(desc.dtype));
    }
}

/* ---- random contents ---- */

/* A uniform number in (0, 1), from 32 random bits. */
static double unit(uint32_t bits) { return ((double)bits + 0.5) / 4294967296.0; }

/* Fills with uniform numbers in (low a, high b), or with normal ones of mean a and standard
 * deviation b (Box-Muller). */
static ig_status fill(ig_tensor *t, double a, double b, bool normal) {
    IG_TRY(ig_tensor_check_usable(t, "fill"));
    ig_steps *steps = ig_ctx_steps(t->ctx);
    if (steps->no_init > 0) {
        steps->n_fills++;
        return IG_OK;
    }
    const ig_desc desc = t->layout.desc;
    if (desc.dtype != IG_F32 && desc.dtype != IG_F64)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "fill: %s: only f32 and f64 can be filled with random numbers",
                       ig_dtype_name(desc.dtype));
    ig_ctx *ctx = t->ctx;
    const uint32_t seed[2] = {(uint32_t)ig_ctx_seed(ctx), (uint32_t)(ig_ctx_seed(ctx) >> 32)};
    const uint32_t ordinal = (uint32_t)steps->n_fills;
    const int64_t count = ig_shape_count(desc.shape);
    uint64_t bytes = 0;
    (void)ig_desc_bytes(desc, &bytes);
    void *all = ig_alloc(ig_ctx_allocator(ctx), bytes, 1);
    if (!all) return IG_FAIL(IG_ERR_MEMORY, "fill: %lld numbers", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const ig_philox block = ig_random_block(seed, UINT64_MAX, ordinal, (uint64_t)i / 2);
        const double u = unit(block.word[i % 2 * 2]), v = unit(block.word[i % 2 * 2 + 1]);
        const double x =
            normal ? a + b * sqrt(-2 * log(u)) * cos(6.283185307179586 * v) : a + (b - a) * u;
        if (desc.dtype == IG_F32)
            ((float *)all)[i] = (float)x;
        else
            ((double *)all)[i] = x;
    }
    const ig_status status = ig_tensor_write(t, all, bytes);
    ig_free(ig_ctx_allocator(ctx), all);
    if (status == IG_OK) steps->n_fills++;
    return status;
}

ig_status ig_tensor_fill_uniform(ig_tensor *tensor, double low, double high) {
    return fill(tensor, low, high, false);
}

ig_status ig_tensor_fill_normal(ig_tensor *tensor, double mean, double std) {
    return fill(tensor, mean, std, true);
}
