/* The context: options, host services, devices; made and unmade. */
#include "runtime/ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/user_dirs.h"
#include "runtime/config.h"

/* ---- what the host does for backends ---- */

static ig_ctx *ctx_of(const ig_host *host) { return ((const ig_ctx_host *)host)->ctx; }

static void host_log(const ig_host *host, ig_log_level level, const char *text) {
    const ig_ctx_options *o = &ctx_of(host)->options;
    if (o->log)
        o->log(o->user, level, text);
    else if (o->verbose)
        fprintf(stderr, "ingot: %s\n", text);
}

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    return ig_alloc(&ctx_of(host)->allocator, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) { ig_free(&ctx_of(host)->allocator, p); }

static bool host_progress(ig_progress *progress, uint64_t done, uint64_t total) {
    return !progress || ig_progress_tell(progress, done, total);
}

static void *host_pack_begin(const ig_host *host, const ig_operand *weight, const char *layout,
                             uint64_t bytes, bool *out_ready) {
    return ig_ctx_pack_begin(ctx_of(host), weight, layout, bytes, out_ready);
}

static void host_pack_reached(const ig_host *host, const ig_operand *weight,
                              uint64_t source_bytes) {
    ig_ctx_pack_reached(ctx_of(host), weight, source_bytes);
}

static void host_pack_end(const ig_host *host, const ig_operand *weight, bool whole) {
    ig_ctx_pack_end(ctx_of(host), weight, whole);
}

static ig_status host_register_override(ig_backend_device *device, ig_tag tag,
                                        ig_compile_fn *compile) {
    const ig_planner *p = &ctx_of(device->host)->planner;
    for (uint32_t i = 0; i < p->n_devices; i++)
        if (p->devices[i]->handle == device) return ig_device_override(p->devices[i], tag, compile);
    return IG_FAIL(IG_ERR_STATE, "register_override: the device is not open yet: prepare() may");
}

static void host_team(const ig_host *host, ig_team_fn *fn, void *task) {
    ig_team_run(ctx_of(host)->team, fn, task);
}

static void host_team_barrier(const ig_host *host) { ig_team_barrier(ctx_of(host)->team); }

static const char *host_option(const ig_host *host, const char *name) {
    const ig_ctx *ctx = ctx_of(host);
    const struct {
        const char *name, *text;
    } all[] = {{"optimization_level", ctx->optimization_level},
               {"precision", ctx->precision},
               {"batch_sizes", ctx->batch_sizes}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i].name) == 0) return all[i].text[0] ? all[i].text : NULL;
    return NULL;
}

/* ---- making ---- */

/* All but the texts of others, which may go. */
static ig_status keep_options(ig_ctx *ctx, const ig_ctx_options *options) {
    const ig_compile_options *o = &options->compile;
    ctx->options = *options;
    ctx->options.device = ctx->options.plugins = ctx->options.cache_dir = NULL;
    ctx->options.compile = (ig_compile_options){0};
    const char *precision = o->precision ? o->precision : "";
    const char *batches = o->batch_sizes ? o->batch_sizes : "";
    if (strlen(precision) >= sizeof ctx->precision || strlen(batches) >= sizeof ctx->batch_sizes)
        return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: compile options are too long");
    if (o->optimization_level)
        snprintf(ctx->optimization_level, sizeof ctx->optimization_level, "%d",
                 o->optimization_level);
    snprintf(ctx->precision, sizeof ctx->precision, "%s", precision);
    snprintf(ctx->batch_sizes, sizeof ctx->batch_sizes, "%s", batches);
    return IG_OK;
}

/* The device asked for; and behind it, for what it cannot do, those that can do all.  One that
 * cannot be opened is done without. */
ig_status ig_ctx_open_devices(ig_ctx *ctx, const char *name, ig_planner *p) {
    static const char *const behind[] = {"cpu", "ref"};
    IG_TRY(ig_registry_open(&ctx->registry, name, &p->devices[0]));
    p->n_devices = 1;
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        if (strcmp(p->devices[0]->backend->name, behind[i]) == 0) continue;
        const ig_status status =
            ig_device_open(&ctx->host.table, &ctx->allocator, behind[i], &p->devices[p->n_devices]);
        if (status == IG_OK)
            p->n_devices++;
        else if (status == IG_ERR_MEMORY)
            return status;
    }
    for (uint32_t i = 0; i < p->n_devices; i++) p->devices[i]->limit = ctx->options.memory_bytes;
    return IG_OK;
}

/* Compiled programs are kept below the cache's folder. */
static ig_status open_cache(ig_ctx *ctx, const ig_ctx_options *o) {
    char folder[PATH_MAX];
    ig_artifacts *a = &ctx->artifacts;
    a->allocator = &ctx->allocator;
    a->host = &ctx->host.table;
    a->most_bytes = o->cache_bytes ? o->cache_bytes : IG_CACHE_BYTES_DEFAULT;
    snprintf(a->options, sizeof a->options, "optimization_level=%s\nprecision=%s\nbatch_sizes=%s\n",
             ctx->optimization_level, ctx->precision, ctx->batch_sizes);
    a->keeps_weights = o->cache_weights;
    ctx->planner.artifacts = a;
    if (o->no_cache || !ig_dir_cache(o->cache_dir, folder)) return IG_OK;
    const int length = snprintf(a->folder, sizeof a->folder, "%s/programs", folder);
    if (length > 0 && (size_t)length < sizeof a->folder) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: the cache's path is too long");
}

static void tell_device(const ig_ctx *ctx, const char *wanted) {
    const ig_device *device = ctx->planner.devices[0];
    char text[192];
    snprintf(text, sizeof text, "device %s is %s, %s", wanted, device->name,
             device->info.architecture);
    host_log(&ctx->host.table, IG_LOG_INFO, text);
}

static ig_status choose_device(ig_ctx *ctx, const ig_ctx_options *options) {
    const char *paths = options->plugins;
    if (paths && !(ctx->plugin_paths = ig_copy_text(&ctx->allocator, paths)))
        return IG_FAIL(IG_ERR_MEMORY, "ctx_create: plugins");
    ctx->registry = (ig_registry){.allocator = &ctx->allocator,
                                  .host = &ctx->host.table,
                                  .places = {ctx->plugin_paths, options->accept_plugin,
                                             options->user, options->isolate_plugins}};
    IG_TRY(ig_ctx_open_devices(ctx, options->device, &ctx->planner));
    tell_device(ctx, options->device);
    return IG_OK;
}

static const ig_custom_op *custom_of(void *user, uint32_t id) {
    return &((const ig_ctx *)user)->customs[id];
}

static ig_status init(ig_ctx *ctx, const ig_ctx_options *options) {
    uint32_t slot;
    IG_TRY(keep_options(ctx, options));
    ctx->host = (ig_ctx_host){{.abi = IG_BACKEND_ABI,
                               .struct_size = sizeof(ig_host),
                               .fail = ig_fail,
                               .log = host_log,
                               .alloc = host_alloc,
                               .free = host_free,
                               .progress = host_progress,
                               .register_override = host_register_override,
                               .team = host_team,
                               .team_barrier = host_team_barrier,
                               .option = host_option,
                               .pack_begin = host_pack_begin,
                               .pack_end = host_pack_end,
                               .pack_reached = host_pack_reached},
                              ctx};
    ctx->planner = (ig_planner){.allocator = &ctx->allocator,
                                .strict = options->strict,
                                .custom = custom_of,
                                .user = ctx,
                                .guard = &ctx->guard,
                                .progress = &ctx->progress};
    ctx->progress =
        (ig_progress){.tell = options->progress, .cancel = options->cancel, .user = options->user};
    ctx->poison = (ig_tensor){.alive = IG_TENSOR_ALIVE, .refs = 1, .ctx = ctx};
    ctx->tape = 1;
    ctx->arena.refs = 1; /* the context's */
    ig_plan_cache_init(&ctx->cache, &ctx->allocator);
    ig_graph_hooks hooks = ig_run_hooks;
    hooks.user = ctx;
    IG_TRY(ig_graph_init(&ctx->graph, &ctx->allocator, hooks));
    if (!IG_GROW(&ctx->allocator, ctx->scopes, &ctx->scopes_room, 1))
        return IG_FAIL(IG_ERR_MEMORY, "ctx_create: scopes");
    IG_TRY(ig_slot_create(ctx, &slot)); /* IG_SLOT_STEP */
    const uint32_t threads =
        options->threads > 0 ? (uint32_t)options->threads : ig_team_default_threads();
    IG_TRY(ig_team_create(&ctx->allocator, threads, &ctx->team));
    IG_TRY(open_cache(ctx, options));
    return choose_device(ctx, options);
}

ig_status ig_ctx_create(const ig_ctx_options *options, ig_ctx **out) {
    static const ig_ctx_options defaults;
    if (!options) options = &defaults;
    if (!out) return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: NULL");
    if (options->threads < 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: %d threads", options->threads);
    if (!options->allocator.alloc != !options->allocator.free)
        return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: an allocator needs both functions");
    const ig_allocator *allocator = options->allocator.alloc ? &options->allocator : &ig_heap;
    ig_ctx *ctx = ig_alloc(allocator, 1, sizeof *ctx);
    if (!ctx) return IG_FAIL(IG_ERR_MEMORY, "ctx_create: a context");
    ctx->allocator = *allocator;
    ig_config config = {0};
    ig_status status = ig_config_read(allocator, &config);
    const ig_ctx_options settled = ig_config_settle(&config, options);
    if (status == IG_OK) status = init(ctx, &settled);
    ig_config_deinit(allocator, &config);
    if (status == IG_OK)
        *out = ctx;
    else
        ig_ctx_destroy(ctx);
    return status;
}

static void free_tensors(ig_ctx *ctx) {
    for (uint32_t d = 0; ctx->scopes && d <= ctx->depth; d++) ig_scope_release(ctx, d);
    for (ig_tensor_slab *slab; (slab = ctx->slabs) != NULL;) {
        for (size_t i = 0; i < sizeof slab->tensors / sizeof slab->tensors[0]; i++) {
            ig_tensor *t = &slab->tensors[i];
            if (t->alive != IG_TENSOR_ALIVE) continue;
            ig_storage_release(ctx, t->storage); /* of handles that nobody returned */
            ig_free(&ctx->allocator, t->name);
        }
        ctx->slabs = slab->next;
        ig_free(&ctx->allocator, slab);
    }
}

void ig_ctx_destroy(ig_ctx *ctx) {
    if (!ctx) return;
    const ig_allocator allocator = ctx->allocator;
    if (ctx->options.closing && ctx->planner.n_devices > 0)
        ctx->options.closing(ctx->options.user, ctx);
    if (ctx->graph.allocator) ig_graph_deinit(&ctx->graph);
    ig_recorder_deinit(ctx);
    free_tensors(ctx);
    ig_plan_cache_deinit(&ctx->cache);
    if (ctx->planner.n_devices > 0) {
        ig_pool_drain(ctx);
        ig_arena_free(ctx);
    }
    for (uint32_t i = ctx->planner.n_devices; i > 0; i--)
        ig_device_close(ctx->planner.devices[i - 1]);
    for (size_t i = 0; i < ctx->n_retired; i++) ig_device_close(ctx->retired[i]);
    ig_artifacts_deinit(&ctx->artifacts);
    ig_free(&allocator, (void *)ctx->retired);
    ig_registry_deinit(&ctx->registry);
    ig_free(&allocator, ctx->plugin_paths);
    ig_ctx_detach_all(ctx);
    ig_profile_deinit(ctx);
    ig_team_destroy(ctx->team);
    for (size_t i = 0; i < ctx->n_customs; i++)
        ig_free(&allocator, (void *)(uintptr_t)ctx->customs[i].name);
    ig_free(&allocator, ctx->customs);
    ig_free(&allocator, ctx->slot_is_count);
    ig_free(&allocator, ctx->slots);
    ig_free(&allocator, ctx->scopes);
    ig_free(&allocator, ctx);
}

uint64_t ig_ctx_seed(const ig_ctx *ctx) { return ctx->options.seed; }
const char *ig_ctx_device(const ig_ctx *ctx) { return ctx->planner.devices[0]->name; }

const char *ig_ctx_batch_sizes(const ig_ctx *ctx) { return ctx->batch_sizes; }

uint32_t ig_ctx_device_class(const ig_ctx *ctx) {
    return ctx->planner.devices[0]->info.device_class;
}
const ig_allocator *ig_ctx_allocator(const ig_ctx *ctx) { return &ctx->allocator; }

bool ig_ctx_tell(const ig_ctx *ctx, const char *what, uint64_t done, uint64_t total) {
    const ig_ctx_options *o = &ctx->options;
    if (o->progress && total > 0) o->progress(o->user, what, done, total);
    return !o->cancel || !o->cancel(o->user);
}
