/*
 * Tensor handles.
 *
 * Handles come from slabs that live as long as the context, and those that went
 * are reused last of all: using one of them is found out and answered with an
 * error instead of a crash.
 */
#include <math.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "base/random.h"
#include "runtime/ctx.h"

static const ig_tensor nowhere = {.alive = IG_TENSOR_ALIVE, .refs = 1};

/* Nobody writes to it: it has no storage, which every call that writes asks for first. */
ig_tensor *ig_nowhere(void) { return (ig_tensor *)&nowhere; }

ig_status ig_ctx_check_idle(ig_ctx *ctx, const char *what) {
    if (!ctx || !ctx->guard.running) return IG_OK;
    ctx->guard.called = true;
    return IG_FAIL(IG_ERR_STATE, "%s: called from the run() of a custom op", what);
}

static bool add_slab(ig_ctx *ctx) {
    ig_tensor_slab *slab = ig_alloc(&ctx->allocator, 1, sizeof *slab);
    if (!slab) return false;
    slab->next = ctx->slabs;
    ctx->slabs = slab;
    const size_t count = sizeof slab->tensors / sizeof slab->tensors[0];
    for (size_t i = 0; i + 1 < count; i++) slab->tensors[i].next = &slab->tensors[i + 1];
    ctx->free_first = &slab->tensors[0];
    ctx->free_last = &slab->tensors[count - 1];
    return true;
}

ig_tensor *ig_tensor_new(ig_ctx *ctx, ig_layout layout, ig_storage *storage) {
    if (!ctx->free_first && !add_slab(ctx)) {
        ig_storage_release(ctx, storage);
        return NULL;
    }
    ig_tensor *t = ctx->free_first;
    ctx->free_first = t->next;
    if (!ctx->free_first) ctx->free_last = NULL;
    *t = (ig_tensor){.alive = IG_TENSOR_ALIVE,
                     .refs = 1,
                     .ctx = ctx,
                     .storage = storage,
                     .layout = layout,
                     .id = ++ctx->n_ids};
    ctx->counters.tensors++;
    return t;
}

static void give_back(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    t->alive = 0;
    ig_tensor_release(t->grad);
    t->grad = NULL;
    ig_free(&ctx->allocator, t->name);
    t->name = NULL;
    ig_storage_release(ctx, t->storage);
    t->storage = NULL;
    t->next = NULL;
    if (ctx->free_last)
        ctx->free_last->next = t;
    else
        ctx->free_first = t;
    ctx->free_last = t;
    ctx->counters.tensors--;
}

static bool is_counted(const ig_tensor *t) {
    return t && t->alive == IG_TENSOR_ALIVE && t->ctx && t != &t->ctx->poison;
}

ig_tensor *ig_tensor_retain(ig_tensor *tensor) {
    if (!is_counted(tensor)) return tensor;
    tensor->refs++;
    if (tensor->cell) ig_replay_retain(tensor);
    return tensor;
}

void ig_tensor_release(ig_tensor *tensor) {
    if (!is_counted(tensor)) return;
    const uint32_t not_the_caller_s = (uint32_t)tensor->in_scope + tensor->replayed;
    if (tensor->refs == not_the_caller_s && tensor->in_scope) return;
    if (tensor->refs == 1 && tensor->state) ig_replay_release(tensor);
    if (--tensor->refs == 0)
        give_back(tensor);
    else if (tensor->refs == 1 && tensor->replayed)
        tensor->alive = 0; /* until the next replay */
}

void ig_tensor_give_up(ig_tensor *tensor) {
    if (!tensor) return;
    const bool held = tensor->alive == IG_TENSOR_ALIVE;
    tensor->replayed = false;
    if (!held)
        give_back(tensor); /* nobody has it but the recording */
    else
        tensor->refs--;
}

ig_tensor *ig_tensor_to_scope(ig_tensor *tensor) {
    ig_ctx *ctx = tensor->ctx;
    tensor->in_scope = true;
    tensor->next = ctx->scopes[ctx->depth];
    ctx->scopes[ctx->depth] = tensor;
    return tensor;
}

void ig_scope_release(ig_ctx *ctx, uint32_t depth) {
    for (ig_tensor *t; (t = ctx->scopes[depth]) != NULL;) {
        ctx->scopes[depth] = t->next;
        t->next = NULL;
        t->in_scope = false;
        if (ig_is_passing(ctx)) t->value = IG_NO_VALUE;
        ig_tensor_release(t);
    }
}

ig_status ig_tensor_check(const ig_tensor *tensor, const ig_ctx *ctx, const char *what) {
    if (!tensor || tensor == &nowhere)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor is NULL", what);
    if (tensor->alive != IG_TENSOR_ALIVE)
        return IG_FAIL(IG_ERR_STATE,
                       "%s: a tensor has gone with its scope or step; ig_tensor_retain() keeps it",
                       what);
    if (ctx && tensor->ctx != ctx)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor belongs to another context", what);
    return IG_OK;
}

ig_status ig_tensor_missing(const ig_tensor *tensor, const char *what) {
    if (!tensor->lost)
        return IG_FAIL(IG_ERR_STATE, "%s: the tensor comes from an op that failed", what);
    ig_replay_used(tensor->ctx, tensor);
    return IG_FAIL(IG_ERR_STATE,
                   "%s: the replayed step did not keep this result; it does from the next step on "
                   "(results that are read or retained in the first step are kept)",
                   what);
}

/* For calls that return a status: a tensor of a failed op reports that failure. */
static ig_status check_usable(const ig_tensor *tensor, const char *what) {
    IG_TRY(ig_tensor_check(tensor, NULL, what));
    if (tensor->storage) return IG_OK;
    IG_TRY(ig_graph_take_error(&tensor->ctx->graph));
    return ig_tensor_missing(tensor, what);
}

ig_status ig_tensor_create(ig_ctx *ctx, ig_desc desc, ig_tensor **out) {
    uint64_t bytes;
    char text[IG_SHAPE_TEXT_BYTES];
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "tensor_create: NULL");
    if (desc.shape.rank < 0 || desc.shape.rank > IG_MAX_RANK)
        return IG_FAIL(IG_ERR_SHAPE, "tensor_create: rank %d; at most %d", desc.shape.rank,
                       IG_MAX_RANK);
    if (!ig_desc_bytes(desc, &bytes))
        return IG_FAIL(IG_ERR_SHAPE, "tensor_create: %s of %s cannot be",
                       ig_shape_text(desc.shape, text), ig_dtype_name(desc.dtype));
    ig_storage *storage = NULL;
    IG_TRY(ig_storage_create(ctx, bytes, &storage));
    /* The pool hands memory out as its last user left it. */
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

/* The layout that strides from outside make, if the bytes up to its last element can be counted. */
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
        return IG_FAIL(IG_ERR_ARGUMENT, "tensor_wrap: %s must lie packed",
                       ig_dtype_name(desc.dtype));
    return IG_OK;
}

/* Bytes from the first element of a layout to behind the last. */
static uint64_t span_bytes(const ig_layout *layout) {
    int64_t last = 0;
    for (int d = 0; d < layout->desc.shape.rank; d++) {
        if (layout->desc.shape.dim[d] == 0) return 0;
        last += (layout->desc.shape.dim[d] - 1) * layout->stride[d];
    }
    return (uint64_t)ig_bytes_of(layout->desc.dtype, last + 1);
}

/* Memory from outside must lie as elements have to. */
static ig_status check_outside(ig_dtype dtype, const void *bytes, const char *what) {
    const int64_t each = ig_dtype_block(dtype) > 1 ? 1 : ig_bytes_of(dtype, 1);
    if ((uintptr_t)bytes % (uintptr_t)each != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s must lie at a multiple of %lld bytes", what,
                       ig_dtype_name(dtype), (long long)each);
    return IG_OK;
}

ig_status ig_tensor_wrap(ig_ctx *ctx, ig_desc desc, const int64_t *stride, void *bytes,
                         void (*release)(void *owner), void *owner, ig_tensor **out) {
    uint64_t n_bytes;
    if (!ctx || !out || !bytes) return IG_FAIL(IG_ERR_ARGUMENT, "tensor_wrap: NULL");
    if (desc.shape.rank < 0 || desc.shape.rank > IG_MAX_RANK || !ig_desc_bytes(desc, &n_bytes))
        return IG_FAIL(IG_ERR_SHAPE, "tensor_wrap: no such shape or dtype");
    IG_TRY(check_outside(desc.dtype, bytes, "tensor_wrap"));
    ig_layout layout;
    IG_TRY(outside_layout(desc, stride, &layout));
    ig_storage *storage = ig_alloc(&ctx->allocator, 1, sizeof *storage);
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
    IG_TRY(check_usable(tensor, "tensor_adopt"));
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
    ig_storage_adopt(tensor->ctx, tensor->storage, &outside);
    return IG_OK;
}

ig_status ig_tensor_freeze(ig_tensor *tensor) {
    IG_TRY(check_usable(tensor, "freeze"));
    if (tensor->made_by_op)
        return IG_FAIL(IG_ERR_ARGUMENT, "freeze: the result of an op cannot be frozen");
    IG_TRY(ig_replay_write(tensor->ctx, tensor)); /* programs that could change it go first */
    IG_TRY(ig_storage_to_host(tensor->ctx, tensor->storage));
    tensor->state = true; /* programs are for these bytes, so the tensor is known by identity */
    tensor->storage->frozen = true;
    tensor->storage->mirror.shared = false;
    return IG_OK;
}

ig_status ig_tensor_check_writable(const ig_tensor *tensor, const char *what) {
    if (!tensor->storage->frozen) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %s is frozen", what,
                   tensor->name ? tensor->name : "the tensor");
}

ig_desc ig_tensor_desc(const ig_tensor *tensor) {
    return tensor && tensor->storage ? tensor->layout.desc : (ig_desc){IG_F32, {0}};
}

ig_ctx *ig_tensor_ctx(const ig_tensor *tensor) { return tensor ? tensor->ctx : NULL; }

ig_status ig_tensor_set_name(ig_tensor *tensor, const char *name) {
    IG_TRY(check_usable(tensor, "set_name"));
    char *copy = ig_copy_text(&tensor->ctx->allocator, name ? name : "");
    if (!copy) return IG_FAIL(IG_ERR_MEMORY, "set_name: %s", name ? name : "");
    ig_free(&tensor->ctx->allocator, tensor->name);
    tensor->name = copy;
    return IG_OK;
}

const char *ig_tensor_name(const ig_tensor *tensor) {
    return tensor && tensor->name ? tensor->name : "";
}

/* The layout of whole blocks, each counted as one element. */
static ig_layout layout_of_blocks(const ig_layout *layout, int64_t block) {
    ig_layout blocks = *layout;
    const int last = layout->desc.shape.rank - 1;
    if (block == 1) return blocks;
    blocks.desc.shape.dim[last] /= block;
    for (int d = 0; d < last; d++) blocks.stride[d] /= block;
    return blocks;
}

/* Copies between packed bytes and elements that lie `of` apart. */
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
        for (int d = shape->rank - 1; d >= 0; d--) { /* count on */
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
    ig_device *device = t->ctx->planner.devices[0];
    if (device->host_memory) IG_TRY(ig_device_sync(device)); /* with its own, copies wait */
    const ig_layout *layout = &t->layout;
    (void)ig_desc_bytes(layout->desc, &bytes);
    if (ig_layout_is_packed(layout))
        IG_TRY(ig_storage_part_to_host(
            t->ctx, t->storage, (uint64_t)ig_bytes_of(layout->desc.dtype, layout->offset), bytes));
    else
        IG_TRY(ig_storage_to_host(t->ctx, t->storage));
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
    IG_TRY(check_usable(tensor, "read"));
    IG_TRY(ig_ctx_check_idle(tensor->ctx, "read"));
    IG_TRY(check_bytes(tensor, dst, dst_bytes, "read"));
    IG_TRY(ig_replay_read(tensor->ctx, tensor));
    return transfer(tensor, dst, true);
}

ig_status ig_tensor_write(ig_tensor *tensor, const void *src, size_t src_bytes) {
    IG_TRY(check_usable(tensor, "write"));
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
    IG_TRY(check_usable(tensor, "item"));
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
        return IG_FAIL(IG_ERR_SHAPE, "item: %s has not one element",
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

/* A number in (0, 1), from 32 bits. */
static double unit(uint32_t bits) { return ((double)bits + 0.5) / 4294967296.0; }

/* Fills with low + (high - low) u, or with mean a and deviation b by Box and Muller. */
static ig_status fill(ig_tensor *t, double a, double b, bool normal) {
    IG_TRY(check_usable(t, "fill"));
    if (t->ctx->no_draw > 0) {
        t->ctx->n_filled++;
        return IG_OK;
    }
    const ig_desc desc = t->layout.desc;
    if (desc.dtype != IG_F32 && desc.dtype != IG_F64)
        return IG_FAIL(IG_ERR_ARGUMENT, "fill: %s: f32 and f64 can be drawn",
                       ig_dtype_name(desc.dtype));
    ig_ctx *ctx = t->ctx;
    const uint32_t seed[2] = {(uint32_t)ctx->options.seed, (uint32_t)(ctx->options.seed >> 32)};
    const uint32_t ordinal = (uint32_t)ctx->n_filled;
    const int64_t count = ig_shape_count(desc.shape);
    uint64_t bytes = 0;
    (void)ig_desc_bytes(desc, &bytes);
    void *all = ig_alloc(&ctx->allocator, bytes, 1);
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
    ig_free(&ctx->allocator, all);
    if (status == IG_OK) ctx->n_filled++;
    return status;
}

void ig_no_draw_begin(ig_ctx *ctx) {
    if (ctx) ctx->no_draw++;
}

void ig_no_draw_end(ig_ctx *ctx) {
    if (ctx && ctx->no_draw > 0) ctx->no_draw--;
}

ig_status ig_tensor_fill_uniform(ig_tensor *tensor, double low, double high) {
    return fill(tensor, low, high, false);
}

ig_status ig_tensor_fill_normal(ig_tensor *tensor, double mean, double std) {
    return fill(tensor, mean, std, true);
}
