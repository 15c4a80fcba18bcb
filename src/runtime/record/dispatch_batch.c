/*
 * Batches: dispatches recorded, planned together and run as one program.
 *
 * The list of dispatches is kept with its plan. While the next batch is recorded, each call is
 * compared with the kept list; if all calls match, the flush runs the plan again.
 */
#include "runtime/record/dispatch_batch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "graph/build.h"
#include "graph/shape_rules.h"
#include "runtime/ctx_host.h"
#include "runtime/record/record.h"
#include "runtime/record/steps.h"
#include "runtime/report/profile.h"
#include "runtime/run_node.h"
#include "runtime/tensor.h"

typedef struct dispatch {
    const char *name; /* the caller's pointer, borrowed: compared by address only */
    ig_op op;
    uint32_t n_in, n_out;
    uint32_t tensors; /* index of its first tensor in `tensors`: inputs, then outputs */
    uint32_t attrs;   /* offset in the attribute pool */
} dispatch;

/* Tensors whose bytes overlap form one memory. */
typedef struct memory {
    uintptr_t begin, end;
    ig_value base;
    ig_storage *storage; /* of the first tensor */
    bool several;        /* its tensors have different storages */
} memory;

struct ig_batch {
    ig_ctx *ctx;
    ig_batch *before; /* next in the context's list */
    dispatch *list;
    ig_tensor **tensors;
    uint64_t *ids; /* of the tensors: addresses are reused, ids are not */
    char *attrs;
    size_t count, n_tensors, n_attrs;
    size_t list_room, tensors_room, ids_room, attrs_room;

    bool open;
    size_t cursor;   /* dispatches in this batch; those before it match the kept list */
    size_t t_cursor; /* tensors of these dispatches */
    size_t a_cursor; /* attribute bytes of these dispatches */
    ig_graph graph;
    ig_plan *plan;     /* of the whole list; NULL: not planned yet */
    uint64_t switches; /* value of n_switches when the plan was made */
    memory *memories;
    size_t n_memories, memories_room;
    ig_backend_buffer **buffers;
    ig_mirror **mirrors;
    size_t buffers_room, mirrors_room;
    ig_tensor **owned; /* created by ig_batch_create_tensor() */
    size_t n_owned, owned_room;
};

/* ---- names ---- */

/* Compares letters and digits, ignoring case: "RMS_Norm" equals "rmsnorm". */
static bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a && !isalnum((unsigned char)*a)) a++;
        while (*b && !isalnum((unsigned char)*b)) b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

ig_status ig_kernel_find(const char *name, ig_op *out) {
    static const struct {
        const char *name;
        ig_op op;
    } also[] = {{"byte_embed", IG_OP_EMBEDDING}, {"embed", IG_OP_EMBEDDING}, {"mm", IG_OP_MATMUL}};
    if (!name || !out) return IG_FAIL(IG_ERR_ARGUMENT, "kernel_find: NULL");
    for (uint32_t op = 0; op < IG_OP_COUNT; op++) {
        const uint32_t traits = ig_op_find(op)->traits;
        if (traits & IG_VIEWS || op == IG_OP_CUSTOM || !same_name(name, ig_op_name(op))) continue;
        *out = (ig_op)op;
        return IG_OK;
    }
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (same_name(name, also[i].name)) {
            *out = also[i].op;
            return IG_OK;
        }
    char alike[160] = "";
    size_t used = 0;
    for (uint32_t op = 0; op < IG_OP_COUNT && used < sizeof alike - 24; op++)
        if (tolower((unsigned char)name[0]) == ig_op_name(op)[0] &&
            !(ig_op_find(op)->traits & IG_VIEWS))
            used += (size_t)snprintf(alike + used, sizeof alike - used, " %s", ig_op_name(op));
    return IG_FAIL(IG_ERR_ARGUMENT, "there is no kernel %s; alike are:%s", name,
                   used ? alike : " none (op.def lists all)");
}

/* ---- making ---- */

ig_status ig_batch_create(ig_ctx *ctx, ig_batch **out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "batch_create: NULL");
    ig_batch *b = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *b);
    if (!b) return IG_FAIL(IG_ERR_MEMORY, "batch_create");
    b->ctx = ctx;
    const ig_status status = ig_graph_init(&b->graph, ig_ctx_allocator(ctx), (ig_graph_hooks){0});
    if (status == IG_OK) {
        b->before = ig_ctx_devices(ctx)->batches;
        ig_ctx_devices(ctx)->batches = b;
        *out = b;
    } else {
        ig_free(ig_ctx_allocator(ctx), b);
    }
    return status;
}

ig_batch *ig_batch_before(const ig_batch *b) { return b->before; }
const ig_plan *ig_batch_plan(const ig_batch *b) { return b->plan; }

void ig_batch_destroy(ig_batch *b) {
    if (!b) return;
    ig_batch **at = &ig_ctx_devices(b->ctx)->batches;
    while (*at != b) at = &(*at)->before;
    *at = b->before;
    const ig_allocator *a = ig_ctx_allocator(b->ctx);
    ig_plan_destroy(b->plan);
    ig_graph_deinit(&b->graph);
    for (size_t i = b->n_owned; i > 0; i--) ig_tensor_release(b->owned[i - 1]);
    void *const all[] = {b->list,     b->tensors, b->ids,     b->attrs,
                         b->memories, b->buffers, b->mirrors, (void *)b->owned};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ig_free(a, all[i]);
    ig_free(a, b);
}

/* ---- writing down ---- */

ig_status ig_batch_begin(ig_batch *b) {
    if (!b) return IG_FAIL(IG_ERR_ARGUMENT, "batch_begin: NULL");
    b->open = true;
    b->cursor = b->t_cursor = b->a_cursor = 0;
    return IG_OK;
}

static bool is_next(const ig_batch *b, const char *name, const void *attrs, ig_tensor *const *in,
                    uint32_t n_in, ig_tensor *const *out, uint32_t n_out) {
    if (b->cursor >= b->count) return false;
    const dispatch *d = &b->list[b->cursor];
    if (d->n_in != n_in || d->n_out != n_out || (d->name != name && strcmp(d->name, name) != 0))
        return false;
    const size_t bytes = ig_op_find(d->op)->attrs_bytes;
    static const char zeros[IG_ATTRS_MAX];
    if (bytes && memcmp(&b->attrs[d->attrs], attrs ? attrs : zeros, bytes) != 0) return false;
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        const ig_tensor *t = i < n_in ? in[i] : out[i - n_in];
        if (b->tensors[d->tensors + i] != t || b->ids[d->tensors + i] != t->id) return false;
    }
    return true;
}

static ig_status check_tensors(const ig_batch *b, const char *name, ig_tensor *const *tensors,
                               uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        IG_TRY(ig_tensor_check(tensors[i], b->ctx, name));
        if (!tensors[i]->storage || tensors[i]->made_by_op)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: tensor %u was not made by the caller", name, i);
    }
    return IG_OK;
}

static ig_status infer_results(const ig_allocator *a, const dispatch *d, const void *attrs,
                               ig_tensor *const *in, ig_desc *to) {
    const ig_op_info *info = ig_op_find(d->op);
    ig_desc *from = ig_alloc(a, d->n_in, sizeof *from);
    if (!from) return IG_FAIL(IG_ERR_MEMORY, "%s: %u inputs", ig_op_name(d->op), d->n_in);
    for (uint32_t i = 0; i < d->n_in; i++) from[i] = in[i]->layout.desc;
    uint32_t n_out = info->traits & IG_UPDATES ? info->out_max : d->n_out;
    if (d->op == IG_OP_SGD) n_out = d->n_in - 1;
    const ig_status status = ig_infer(d->op, attrs, from, d->n_in, to, n_out);
    ig_free(a, from);
    return status;
}

/* The op's result must have the shape and dtype of `out`. */
static ig_status check_results(const ig_allocator *a, const dispatch *d, const void *attrs,
                               ig_tensor *const *in, ig_tensor *const *out) {
    ig_desc to[IG_MAX_OUT];
    const char *name = ig_op_name(d->op);
    if (ig_op_find(d->op)->traits & IG_UPDATES && d->n_out > 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s writes to its inputs and takes no outputs", name);
    IG_TRY(infer_results(a, d, attrs, in, to));
    for (uint32_t i = 0; i < d->n_out; i++) {
        const ig_desc have = out[i]->layout.desc;
        char is[IG_SHAPE_TEXT_BYTES], want[IG_SHAPE_TEXT_BYTES];
        if (have.dtype != to[i].dtype || !ig_shape_equal(have.shape, to[i].shape))
            return IG_FAIL(IG_ERR_SHAPE, "%s: output %u is %s %s, the result %s %s", name, i,
                           ig_dtype_name(have.dtype), ig_shape_text(have.shape, is),
                           ig_dtype_name(to[i].dtype), ig_shape_text(to[i].shape, want));
        if (!ig_layout_is_packed(&out[i]->layout))
            return IG_FAIL(IG_ERR_SHAPE, "%s: output %u is not packed", name, i);
    }
    return IG_OK;
}

/* Drops the rest of the kept list and its plan: the batch differs from here on. */
static void leave_old_list(ig_batch *b) {
    if (b->cursor == b->count && b->plan == NULL) return;
    b->count = b->cursor;
    b->n_tensors = b->t_cursor;
    b->n_attrs = b->a_cursor;
    ig_plan_destroy(b->plan);
    b->plan = NULL;
}

static ig_status append(ig_batch *b, dispatch d, const void *attrs, ig_tensor *const *in,
                        ig_tensor *const *out) {
    const ig_allocator *a = ig_ctx_allocator(b->ctx);
    const size_t bytes = ig_op_find(d.op)->attrs_bytes, all = (size_t)d.n_in + d.n_out;
    leave_old_list(b);
    if (!IG_GROW(a, b->list, &b->list_room, b->count + 1) ||
        !IG_GROW(a, b->tensors, &b->tensors_room, b->n_tensors + all) ||
        !IG_GROW(a, b->ids, &b->ids_room, b->n_tensors + all) ||
        !IG_GROW(a, b->attrs, &b->attrs_room, b->n_attrs + bytes + 8))
        return IG_FAIL(IG_ERR_MEMORY, "dispatch: %zu of them", b->count);
    d.tensors = (uint32_t)b->n_tensors;
    d.attrs = (uint32_t)b->n_attrs;
    if (bytes) memcpy(&b->attrs[b->n_attrs], attrs, bytes);
    for (size_t i = 0; i < all; i++) {
        ig_tensor *t = i < d.n_in ? in[i] : out[i - d.n_in];
        b->tensors[b->n_tensors] = t;
        b->ids[b->n_tensors++] = t->id;
    }
    b->n_attrs += (bytes + 7) & ~(size_t)7;
    b->list[b->count++] = d;
    return IG_OK;
}

ig_status ig_dispatch(ig_batch *b, const char *kernel, const void *attrs, ig_tensor *const *in,
                      uint32_t n_in, ig_tensor *const *out, uint32_t n_out) {
    static const char zeros[IG_ATTRS_MAX];
    if (!b || !kernel || !b->open)
        return IG_FAIL(IG_ERR_STATE, "dispatch: no batch has been begun, or no kernel named");
    if (!is_next(b, kernel, attrs, in, n_in, out, n_out)) {
        dispatch d = {.name = kernel, .n_in = n_in, .n_out = n_out};
        IG_TRY(ig_kernel_find(kernel, &d.op));
        IG_TRY(check_tensors(b, kernel, in, n_in));
        IG_TRY(check_tensors(b, kernel, out, n_out));
        IG_TRY(check_results(ig_ctx_allocator(b->ctx), &d, attrs ? attrs : zeros, in, out));
        IG_TRY(append(b, d, attrs ? attrs : zeros, in, out));
    }
    const dispatch *d = &b->list[b->cursor++];
    b->t_cursor = d->tensors + (size_t)d->n_in + d->n_out;
    b->a_cursor = d->attrs + ((ig_op_find(d->op)->attrs_bytes + (size_t)7) & ~(size_t)7);
    return IG_OK;
}

/* ---- planning ---- */

static int by_begin(const void *x, const void *y) {
    const memory *a = x, *b = y;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Collects the memories of all tensors by address and merges overlapping ones. */
static ig_status gather_memories(ig_batch *b) {
    if (!IG_GROW(ig_ctx_allocator(b->ctx), b->memories, &b->memories_room, b->n_tensors))
        return IG_FAIL(IG_ERR_MEMORY, "batch: %zu tensors", b->n_tensors);
    for (size_t i = 0; i < b->n_tensors; i++) {
        ig_storage *s = b->tensors[i]->storage;
        const uintptr_t begin = (uintptr_t)s->buffer;
        b->memories[i] = (memory){begin, begin + s->bytes, IG_NO_VALUE, s, false};
    }
    qsort(b->memories, b->n_tensors, sizeof *b->memories, by_begin);
    b->n_memories = 0;
    for (size_t i = 0; i < b->n_tensors; i++) {
        memory *last = b->n_memories ? &b->memories[b->n_memories - 1] : NULL;
        if (!last || b->memories[i].begin >= last->end) {
            b->memories[b->n_memories++] = b->memories[i];
            continue;
        }
        last->several |= last->storage != b->memories[i].storage;
        if (b->memories[i].end > last->end) last->end = b->memories[i].end;
    }
    for (size_t i = 0; i < b->n_memories; i++)
        if (b->memories[i].several && ig_devices_remote(ig_ctx_devices(b->ctx)))
            return IG_FAIL(IG_ERR_UNSUPPORTED,
                           "batch: tensors share wrapped memory, which %s cannot mirror",
                           ig_devices_remote(ig_ctx_devices(b->ctx))->name);
    return IG_OK;
}

static memory *memory_of(const ig_batch *b, const ig_tensor *t) {
    const uintptr_t at = (uintptr_t)t->storage->buffer;
    size_t low = 0, high = b->n_memories - 1;
    while (low < high) {
        const size_t middle = (low + high + 1) / 2;
        if (b->memories[middle].begin <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return &b->memories[low];
}

/* The tensor's layout relative to its memory. */
static ig_status layout_of(const ig_batch *b, const ig_tensor *t, ig_layout *out) {
    const uintptr_t apart = (uintptr_t)t->storage->buffer - memory_of(b, t)->begin;
    const ig_dtype dtype = t->layout.desc.dtype;
    if (apart % (uintptr_t)ig_bytes_of(dtype, ig_dtype_block(dtype)) != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "batch: tensors overlap at a fraction of an element");
    *out = t->layout;
    out->offset += ig_elements_of(dtype, (int64_t)apart);
    return IG_OK;
}

/* A value for the tensor: a view of the memory's newest version. */
static ig_status show(ig_batch *b, const ig_tensor *t, ig_value *out) {
    ig_layout layout;
    IG_TRY(layout_of(b, t, &layout));
    *out = ig_graph_leaf(&b->graph, layout);
    IG_TRY(ig_graph_take_error(&b->graph));
    ig_value_at(&b->graph, *out)->base = memory_of(b, t)->base;
    return IG_OK;
}

static ig_status build_dispatch(ig_batch *b, const dispatch *d, ig_value *in) {
    ig_graph *g = &b->graph;
    for (uint32_t i = 0; i < d->n_in; i++) IG_TRY(show(b, b->tensors[d->tensors + i], &in[i]));
    const bool updates = ig_op_find(d->op)->traits & IG_UPDATES;
    uint32_t n_out = updates ? ig_op_find(d->op)->out_max : d->n_out;
    if (d->op == IG_OP_SGD) n_out = d->n_in - 1;
    const ig_value v = ig_build_op(
        g,
        (ig_build_args){
            .op = d->op, .attrs = &b->attrs[d->attrs], .in = in, .n_in = d->n_in, .n_out = n_out});
    IG_TRY(ig_graph_take_error(g));
    for (uint32_t i = 0; i < d->n_out; i++) {
        const ig_tensor *t = b->tensors[d->tensors + d->n_in + i];
        ig_value_info *info = ig_value_at(g, v + i);
        IG_TRY(layout_of(b, t, &info->layout));
        info->base = memory_of(b, t)->base;
    }
    return IG_OK;
}

static ig_status build(ig_batch *b) {
    uint32_t most = 1;
    for (size_t i = 0; i < b->count; i++)
        if (b->list[i].n_in > most) most = b->list[i].n_in;
    ig_value *in = ig_alloc(ig_ctx_allocator(b->ctx), most, sizeof *in);
    ig_status status = in ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "batch: %u inputs", most);
    for (size_t i = 0; i < b->n_memories && status == IG_OK; i++) {
        const ig_desc bytes = {IG_F32, {0}}; /* stands for the memory; never read as such */
        b->memories[i].base = ig_graph_leaf(&b->graph, ig_layout_packed(bytes));
        status = ig_graph_take_error(&b->graph);
    }
    for (size_t i = 0; i < b->count && status == IG_OK; i++)
        status = build_dispatch(b, &b->list[i], in);
    ig_free(ig_ctx_allocator(b->ctx), in);
    return status;
}

static ig_status make_plan(ig_batch *b) {
    ig_ctx *ctx = b->ctx;
    ig_graph_cut(&b->graph, (ig_graph_mark){.n_values = 1});
    IG_TRY(gather_memories(b));
    IG_TRY(build(b));
    ig_value *bound = ig_alloc(ig_ctx_allocator(ctx), b->n_memories, sizeof *bound);
    if (!bound ||
        !IG_GROW(ig_ctx_allocator(ctx), b->buffers, &b->buffers_room, b->n_memories + 1) ||
        !IG_GROW(ig_ctx_allocator(ctx), b->mirrors, &b->mirrors_room, b->n_memories + 1)) {
        ig_free(ig_ctx_allocator(ctx), bound);
        return IG_FAIL(IG_ERR_MEMORY, "batch: %zu buffers", b->n_memories);
    }
    for (size_t i = 0; i < b->n_memories; i++) bound[i] = b->memories[i].base;
    const ig_status status = ig_plan_create(&ig_ctx_devices(ctx)->planner,
                                            (ig_plan_args){.graph = &b->graph,
                                                           .count = (uint32_t)b->graph.n_nodes,
                                                           .bound = bound,
                                                           .n_bound = (uint32_t)b->n_memories},
                                            &b->plan);
    ig_free(ig_ctx_allocator(ctx), bound);
    return status;
}

/* Closes the list and plans it, unless it equals the list of the last flush. */
static ig_status close_list(ig_batch *b, const char *what) {
    if (!b || !b->open) return IG_FAIL(IG_ERR_STATE, "%s: no batch has been begun", what);
    ig_ctx *ctx = b->ctx;
    const ig_devices *devices = ig_ctx_devices(ctx);
    IG_TRY(ig_ctx_check_idle(ctx, what));
    b->open = false;
    if (b->cursor < b->count) leave_old_list(b); /* shorter than the kept list */
    if (b->count == 0) return IG_OK;
    if (ig_ctx_is_cancelled(ctx)) return IG_FAIL(IG_ERR_CANCELLED, "%s: cancelled", what);
    IG_TRY(ig_replay_give_way(ctx));
    if (b->plan && b->switches != devices->n_switches) {
        ig_plan_destroy(b->plan);
        b->plan = NULL;
    }
    if (!b->plan) IG_TRY(make_plan(b));
    b->switches = devices->n_switches;
    return ig_arena_reserve(ig_ctx_memory(ctx), b->plan->arena_bytes);
}

ig_status ig_batch_prepare(ig_batch *b) { return close_list(b, "batch_prepare"); }

ig_status ig_batch_flush(ig_batch *b) {
    IG_TRY(close_list(b, "batch_flush"));
    if (b->count == 0) return IG_OK;
    ig_ctx *ctx = b->ctx;
    const ig_devices *devices = ig_ctx_devices(ctx);
    ig_memory *host = ig_ctx_memory(ctx);
    b->buffers[IG_ARENA] = host->arena.buffer;
    b->mirrors[IG_ARENA] = &host->arena.mirror;
    for (size_t i = 0; i < b->n_memories; i++) {
        b->buffers[i + 1] = (ig_backend_buffer *)b->memories[i].begin;
        b->mirrors[i + 1] = &b->memories[i].storage->mirror;
    }
    ig_profile_run(ig_ctx_profile(ctx), b->plan);
    IG_TRY(ig_plan_run(b->plan, ig_ctx_run_args(ctx, b->buffers, b->mirrors, b->n_memories + 1)));
    IG_TRY(ig_device_sync(devices->planner.devices[0]));
    ig_ctx_count_run(ctx, b->plan, b->count);
    ig_ctx_steps(ctx)->flushed = true;
    ig_ctx_counters(ctx)->waits++;
    return IG_OK;
}

/* ---- tensors for it ---- */

static ig_status reserve_owned(ig_batch *b) {
    if (!b) return IG_FAIL(IG_ERR_ARGUMENT, "batch: NULL");
    if (IG_GROW(ig_ctx_allocator(b->ctx), b->owned, &b->owned_room, b->n_owned + 1)) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "batch: %zu tensors", b->n_owned);
}

ig_status ig_batch_create_tensor(ig_batch *b, ig_desc desc, ig_tensor **out) {
    IG_TRY(reserve_owned(b));
    IG_TRY(ig_tensor_create(b->ctx, desc, out));
    b->owned[b->n_owned++] = *out;
    return IG_OK;
}

ig_status ig_batch_create_view(ig_batch *b, ig_tensor *of, ig_desc desc, const int64_t *stride,
                               int64_t offset, ig_tensor **out) {
    IG_TRY(reserve_owned(b));
    IG_TRY(ig_tensor_create_view(of, desc, stride, offset, out));
    b->owned[b->n_owned++] = *out;
    return IG_OK;
}

ig_status ig_tensor_create_view(ig_tensor *of, ig_desc desc, const int64_t *stride, int64_t offset,
                                ig_tensor **out) {
    uint64_t bytes;
    IG_TRY(ig_tensor_check(of, NULL, "create_view"));
    if (!of->storage || of->made_by_op)
        return IG_FAIL(IG_ERR_ARGUMENT, "create_view: the tensor was not made by the caller");
    if (desc.dtype != of->layout.desc.dtype)
        return IG_FAIL(IG_ERR_ARGUMENT, "create_view: %s of a tensor of %s",
                       ig_dtype_name(desc.dtype), ig_dtype_name(of->layout.desc.dtype));
    if (desc.shape.rank < 0 || desc.shape.rank > IG_MAX_RANK || !ig_desc_bytes(desc, &bytes) ||
        offset < 0)
        return IG_FAIL(IG_ERR_SHAPE, "create_view: invalid shape or offset");
    ig_layout layout = ig_layout_packed(desc);
    int64_t last = offset += of->layout.offset;
    for (int d = 0; d < desc.shape.rank; d++) {
        int64_t reach;
        if (stride) layout.stride[d] = stride[d];
        if (desc.shape.dim[d] == 0) continue;
        if (layout.stride[d] < 0 ||
            __builtin_mul_overflow(desc.shape.dim[d] - 1, layout.stride[d], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return IG_FAIL(IG_ERR_SHAPE, "create_view: stride %lld", (long long)layout.stride[d]);
    }
    const int64_t held = ig_elements_of(desc.dtype, (int64_t)of->storage->bytes);
    if (bytes > 0 && last >= held)
        return IG_FAIL(IG_ERR_SHAPE, "create_view: element %lld of %lld", (long long)last,
                       (long long)held);
    layout.offset = offset;
    ig_tensor *t = ig_tensor_new(of->ctx, layout, ig_storage_retain(of->storage));
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "create_view: handle");
    of->state = t->state = true; /* aliases: both are known by identity */
    *out = t;
    return IG_OK;
}

void *ig_tensor_map(ig_tensor *tensor) {
    if (ig_tensor_check(tensor, NULL, "map") != IG_OK || !tensor->storage) return NULL;
    if (ig_replay_read(tensor->ctx, tensor) != IG_OK) return NULL;
    if (ig_device_sync(ig_ctx_devices(tensor->ctx)->planner.devices[0]) != IG_OK) return NULL;
    if (ig_storage_to_host(ig_ctx_memory(tensor->ctx), tensor->storage) != IG_OK) return NULL;
    tensor->storage->mirror.shared = !tensor->storage->frozen; /* the caller may write */
    return (char *)tensor->storage->buffer +
           ig_bytes_of(tensor->layout.desc.dtype, tensor->layout.offset);
}
