/*
 * Runs nodes: Dynamic mode. The graph calls run_node() for each node that is built (forward,
 * backward or update): outputs get memory, a plan for this one op is looked up or made, and
 * submitted. During a capture, memory is only reserved and nothing is submitted.
 */
#include "graph/grad_rules.h"
#include "runtime/ctx.h"

enum { FEW = 24 }; /* operands of most ops */

ig_run_args ig_ctx_run_args(ig_ctx *ctx, ig_backend_buffer *const *buffers,
                            ig_mirror *const *mirrors, size_t count) {
    return (ig_run_args){.buffers = buffers,
                         .n_buffers = (uint32_t)count,
                         .slots = ctx->slots.at,
                         .n_slots = (uint32_t)ctx->slots.count,
                         .first_step = &ctx->profile.first_step,
                         .mirrors = mirrors};
}

void ig_ctx_count_run(ig_ctx *ctx, const ig_plan *plan, uint64_t n_ops) {
    ig_counters *c = &ctx->counters;
    c->ops += n_ops;
    c->submits += plan->n_submits;
    c->dispatches += plan->n_steps;
    c->copies += plan->n_copies;
}

/* The memory used by a node, each base value once. */
typedef struct binding {
    ig_value *bound;
    ig_backend_buffer **buffers; /* [0] is the arena */
    ig_mirror **mirrors;
    uint32_t count;
} binding;

static void bind(binding *b, const ig_value_info *info) {
    for (uint32_t i = 0; i < b->count; i++)
        if (b->bound[i] == info->base) return;
    ig_storage *storage = info->memory;
    b->bound[b->count++] = info->base;
    b->buffers[b->count] = storage->buffer;
    b->mirrors[b->count] = &storage->mirror;
}

static bool carries_grad(const ig_ctx *ctx, const ig_graph *g, const ig_node *node) {
    if (ctx->tape.no_grad || !ig_grad_flows((ig_op)node->op)) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (ig_value_at(g, ig_node_in(g, node)[i])->carries_grad) return true;
    return false;
}

static ig_status check_inputs(const ig_graph *g, const ig_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!ig_value_at(g, ig_node_in(g, node)[i])->memory)
            return IG_FAIL(IG_ERR_STATE, "%s: an input was freed by a backward",
                           ig_op_name(node->op));
    return IG_OK;
}

/* Views and updates share the memory of an input; other outputs get new memory. */
static ig_status give_memory(ig_ctx *ctx, ig_graph *g, const ig_node *node, uint32_t traits) {
    const bool carries = carries_grad(ctx, g, node);
    for (uint32_t i = 0; i < node->n_out; i++) {
        ig_value_info *out = ig_value_at(g, node->out + i);
        uint64_t bytes = 0;
        out->carries_grad = carries;
        if (traits & (IG_VIEWS | IG_UPDATES)) {
            const uint32_t source = traits & IG_UPDATES ? ig_update_alias(i) : 0;
            const ig_value_info *in = ig_value_at(g, ig_node_in(g, node)[source]);
            out->memory = ig_storage_retain(in->memory);
            out->version = in->version;
            continue;
        }
        ig_storage *storage = NULL;
        (void)ig_desc_bytes(out->layout.desc, &bytes);
        IG_TRY(ctx->recorder.deferring ? ig_storage_reserve(&ctx->memory, bytes, &storage)
                                       : ig_storage_create(&ctx->memory, bytes, &storage));
        out->memory = storage;
    }
    return IG_OK;
}

/* Only an update that ran creates the next version: a failed one has overwritten nothing. */
static void count_versions(ig_graph *g, const ig_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        ig_value_info *out = ig_value_at(g, node->out + i);
        out->version = ++((ig_storage *)out->memory)->version;
    }
}

static ig_status submit(ig_ctx *ctx, const ig_graph *g, uint32_t id, const binding *b) {
    const ig_plan *plan = NULL;
    const ig_plan_args args = {
        .graph = g, .first = id, .count = 1, .bound = b->bound, .n_bound = b->count, .alone = true};
    IG_TRY(ig_plan_cache_get(&ctx->plan_cache, &ctx->devices.planner, args, &plan));
    IG_TRY(ig_arena_reserve(&ctx->memory, plan->arena_bytes));
    b->buffers[IG_ARENA] = ctx->memory.arena.buffer;
    b->mirrors[IG_ARENA] = &ctx->memory.arena.mirror;
    ig_profile_run(&ctx->profile, NULL);
    IG_TRY(ig_plan_run(plan, ig_ctx_run_args(ctx, b->buffers, b->mirrors, b->count + 1)));
    ig_ctx_count_run(ctx, plan, 1);
    return IG_OK;
}

static ig_status compute(ig_ctx *ctx, const ig_graph *g, uint32_t id) {
    const ig_node *node = &g->nodes[id];
    const size_t most = (size_t)node->n_in + node->n_out;
    ig_value few[FEW];
    ig_backend_buffer *few_buffers[FEW + 1];
    ig_mirror *few_mirrors[FEW + 1];
    binding b = {few, few_buffers, few_mirrors, 0};
    if (most > FEW) {
        b.bound = ig_alloc(&ctx->allocator, most, sizeof *b.bound);
        b.buffers = ig_alloc(&ctx->allocator, most + 1, sizeof *b.buffers);
        b.mirrors = ig_alloc(&ctx->allocator, most + 1, sizeof *b.mirrors);
    }
    ig_status status = IG_OK;
    if (!b.bound || !b.buffers || !b.mirrors)
        status = IG_FAIL(IG_ERR_MEMORY, "%s: %zu operands", ig_op_name(node->op), most);
    if (status == IG_OK) {
        for (uint32_t i = 0; i < node->n_in; i++) bind(&b, ig_value_at(g, ig_node_in(g, node)[i]));
        for (uint32_t i = 0; i < node->n_out; i++) bind(&b, ig_value_at(g, node->out + i));
        status = submit(ctx, g, id, &b);
    }
    if (most > FEW) {
        ig_free(&ctx->allocator, b.mirrors);
        ig_free(&ctx->allocator, b.buffers);
        ig_free(&ctx->allocator, b.bound);
    }
    return status;
}

static ig_status run_node(void *user, ig_graph *g, uint32_t id) {
    ig_ctx *ctx = user;
    const ig_node *node = &g->nodes[id];
    const uint32_t traits = ig_op_find(node->op)->traits;
    if (ig_ctx_is_cancelled(ctx))
        return IG_FAIL(IG_ERR_CANCELLED, "%s: cancelled", ig_op_name(node->op));
    if (ctx->recorder.failed) return ig_capture_failed(ctx);
    IG_TRY(check_inputs(g, node));
    IG_TRY(give_memory(ctx, g, node, traits));
    if (traits & IG_VIEWS) {
        ctx->counters.views++;
        return IG_OK;
    }
    if (!ctx->recorder.deferring) IG_TRY(compute(ctx, g, id));
    if (ctx->nan_check.watching) ig_nan_check_look(&ctx->nan_check, &ctx->memory, g, node);
    if (traits & IG_UPDATES) count_versions(g, node);
    return IG_OK;
}

ig_status ig_tape_run(ig_ctx *ctx) {
    ig_graph *g = &ctx->tape.graph;
    for (uint32_t id = 0; id < g->n_nodes; id++) {
        const ig_node *node = &g->nodes[id];
        if (ig_op_find(node->op)->traits & IG_VIEWS) continue;
        for (uint32_t i = 0; i < node->n_out; i++)
            IG_TRY(ig_storage_commit(&ctx->memory, ig_value_at(g, node->out + i)->memory));
        IG_TRY(compute(ctx, g, id));
    }
    return IG_OK;
}

static void drop(void *user, ig_value_info *value) {
    ig_ctx *ctx = user;
    ig_storage_release(&ctx->memory, value->memory);
    ig_tensor_release(value->source);
    value->memory = value->source = NULL;
}

/* Calls the gradient function of a custom op with tensors made of the values. */
static ig_status custom_grad(void *user, ig_graph *g, uint32_t id, const ig_value *dout,
                             ig_value *din) {
    ig_ctx *ctx = user;
    const ig_node node = g->nodes[id];
    const ig_attrs_custom *attrs = ig_node_attrs(g, &node);
    const ig_custom_op *op = &ctx->custom_ops.at[attrs->id];
    if (!op->grad)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "backward: %s has no gradient function", op->name);
    assert(node.n_in <= IG_CUSTOM_MOST_IN); /* checked by ig_custom() */
    ig_tensor *in[IG_CUSTOM_MOST_IN], *d_in[IG_CUSTOM_MOST_IN] = {0};
    ig_tensor *out[IG_MAX_OUT], *d_out[IG_MAX_OUT] = {0};
    const size_t met = ig_record_met(ctx);
    ig_scope_begin(ctx);
    for (uint32_t i = 0; i < node.n_in; i++) in[i] = ig_tensor_of(ctx, ig_node_in(g, &node)[i]);
    for (uint32_t i = 0; i < node.n_out; i++) {
        out[i] = ig_tensor_of(ctx, node.out + i);
        if (dout[i] != IG_NO_VALUE) d_out[i] = ig_tensor_of(ctx, dout[i]);
    }
    ig_status status = op->grad(op->user, in, node.n_in, out, d_out, d_in);
    for (uint32_t i = 0; i < node.n_in && status == IG_OK; i++) {
        if (!d_in[i]) continue;
        status = ig_tensor_check(d_in[i], ctx, op->name);
        const ig_shape want = ig_value_shape(g, ig_node_in(g, &node)[i]);
        char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
        if (status == IG_OK && d_in[i]->storage &&
            !ig_shape_equal(d_in[i]->layout.desc.shape, want))
            status =
                IG_FAIL(IG_ERR_SHAPE, "backward: %s: gradient %u is %s, its input %s", op->name, i,
                        ig_shape_text(d_in[i]->layout.desc.shape, a), ig_shape_text(want, b));
        if (status == IG_OK) din[i] = ig_value_of(ctx, d_in[i]);
    }
    ig_scope_end(ctx);
    /* Replays skip this code, so the recording cannot know which tensor it is. */
    if (ig_record_met(ctx) != met && !ctx->recorder.capturing)
        ig_record_refuse(ctx, "backward: the gradient of a custom op reads a tensor that the step "
                              "has not met");
    return status;
}

const ig_graph_hooks ig_run_hooks = {run_node, drop, custom_grad, NULL};
