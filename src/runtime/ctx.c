/*
 * The context: creation, destruction, and the services it offers its backends.
 *
 *     options > team > compile cache > registry > devices      ig_ctx_create()
 *     tape > recordings > handles > plans > memory > devices    ig_ctx_destroy()
 *
 * Ownership. The context owns all of its components and, through the slabs, every tensor handle.
 * Captures, batches and modules belong to their callers and are destroyed first. The caller's
 * allocator and callbacks are borrowed; strings of the options are copied.
 *
 * Threads. One thread at a time uses a context and its tensors. Threads of the team may allocate
 * and, while profiling, call trace(); a packing, which contexts share, has its own lock.
 */
#include "runtime/ctx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/user_dirs.h"
#include "runtime/config.h"

/* ---- what the host does for backends ---- */

/* Backends pass the address of the table, the first member of ig_ctx_host. */
static ig_ctx *ctx_of(const ig_host *host) { return ((const ig_ctx_host *)host)->ctx; }

/* Calls the caller's log(), or writes to stderr if the options say verbose. */
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

/* `progress` is the argument of compile(): NULL without a callback. False: cancel. */
static bool host_progress(ig_progress *progress, uint64_t done, uint64_t total) {
    return !progress || ig_progress_tell(progress, done, total);
}

static void *host_pack_begin(const ig_host *host, const ig_operand *weight, const char *layout,
                             uint64_t bytes, bool *out_ready) {
    return ig_ctx_pack_begin(ctx_of(host), weight, layout, bytes, out_ready);
}

static void host_pack_consumed(const ig_host *host, const ig_operand *weight,
                               uint64_t source_bytes) {
    ig_ctx_pack_consumed(ctx_of(host), weight, source_bytes);
}

static void host_pack_end(const ig_host *host, const ig_operand *weight, bool complete) {
    ig_ctx_pack_end(ctx_of(host), weight, complete);
}

/* Overrides belong to a device of this context: a backend registers them in prepare(), when the
 * device is in the planner. */
static ig_status host_register_override(ig_backend_device *device, ig_tag tag,
                                        ig_compile_fn *compile) {
    const ig_planner *p = &ctx_of(device->host)->devices.planner;
    for (uint32_t i = 0; i < p->n_devices; i++)
        if (p->devices[i]->handle == device) return ig_device_override(p->devices[i], tag, compile);
    return IG_FAIL(IG_ERR_STATE, "register_override: the device is not open yet: prepare() may");
}

static void host_team(const ig_host *host, ig_team_fn *fn, void *task) {
    ig_team_run(ctx_of(host)->host.team, fn, task);
}

static void host_team_barrier(const ig_host *host) { ig_team_barrier(ctx_of(host)->host.team); }

/* NULL: unset, the device decides. */
static const char *host_option(const ig_host *host, const char *name) {
    ig_compile_texts *t = &ctx_of(host)->compile_options;
    const struct {
        const char *name, *text;
    } all[] = {[IG_OPTION_LEVEL] = {"optimization_level", t->optimization_level},
               [IG_OPTION_PRECISION] = {"precision", t->precision},
               [IG_OPTION_BATCHES] = {"batch_sizes", t->batch_sizes}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(name, all[i].name) != 0) continue;
        t->read |= 1u << i;
        return all[i].text[0] ? all[i].text : NULL;
    }
    return NULL;
}

/* ---- making ---- */

/* Copies the options, including the caller's strings. */
static ig_status keep_options(ig_ctx *ctx, const ig_ctx_options *options) {
    const ig_compile_options *o = &options->compile;
    ctx->options = *options;
    ctx->options.device = ctx->options.plugins = ctx->options.cache_dir = NULL;
    ctx->options.compile = (ig_compile_options){0};
    const char *precision = o->precision ? o->precision : "";
    const char *batches = o->batch_sizes ? o->batch_sizes : "";
    if (strlen(precision) >= sizeof ctx->compile_options.precision ||
        strlen(batches) >= sizeof ctx->compile_options.batch_sizes)
        return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: compile options are too long");
    if (o->optimization_level)
        snprintf(ctx->compile_options.optimization_level,
                 sizeof ctx->compile_options.optimization_level, "%d", o->optimization_level);
    snprintf(ctx->compile_options.precision, sizeof ctx->compile_options.precision, "%s",
             precision);
    snprintf(ctx->compile_options.batch_sizes, sizeof ctx->compile_options.batch_sizes, "%s",
             batches);
    return IG_OK;
}

/* Compiled programs are stored in "programs" below the cache folder. Without a folder (no_cache,
 * or no home directory) the cache works in memory only. */
static ig_status open_cache(ig_ctx *ctx, const ig_ctx_options *o) {
    char folder[PATH_MAX];
    ig_compile_cache *a = &ctx->compile_cache;
    a->allocator = &ctx->allocator;
    a->host = &ctx->host.table;
    a->most_bytes = o->cache_bytes ? o->cache_bytes : IG_CACHE_BYTES_DEFAULT;
    snprintf(a->options, sizeof a->options, "optimization_level=%s\nprecision=%s\nbatch_sizes=%s\n",
             ctx->compile_options.optimization_level, ctx->compile_options.precision,
             ctx->compile_options.batch_sizes);
    a->keeps_weights = o->cache_packed_weights;
    ctx->devices.planner.compile_cache = a;
    if (o->no_cache || !ig_dir_cache(o->cache_dir, folder)) return IG_OK;
    const int length = snprintf(a->folder, sizeof a->folder, "%s/programs", folder);
    if (length > 0 && (size_t)length < sizeof a->folder) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "ctx_create: the cache's path is too long");
}

/* Logs which device "auto" or a device class resolved to. */
static void tell_device(const ig_ctx *ctx, const char *wanted) {
    const ig_device *device = ctx->devices.planner.devices[0];
    char text[192];
    snprintf(text, sizeof text, "device %s is %s, %s", wanted, device->name,
             device->info.architecture);
    host_log(&ctx->host.table, IG_LOG_INFO, text);
}

ig_devices_wish ig_ctx_devices_wish(const ig_ctx *ctx, const char *name) {
    return (ig_devices_wish){name, ctx->options.memory_bytes, ctx->options.unsafe_device};
}

/* Fails if the caller set a compile option that the device never read, since it would have no
 * effect. Options of config.json apply only to devices that have a compiler. */
static ig_status check_compile_options(const ig_ctx *ctx) {
    const ig_compile_texts *t = &ctx->compile_options;
    const char *device = ctx->devices.planner.devices[0]->name;
    if (t->gives_level && !(t->read & 1u << IG_OPTION_LEVEL))
        return IG_FAIL(IG_ERR_ARGUMENT, "device %s does not support --optimization-level %s",
                       device, t->optimization_level);
    if (t->gives_precision && !(t->read & 1u << IG_OPTION_PRECISION))
        return IG_FAIL(IG_ERR_ARGUMENT, "device %s does not support --precision %s", device,
                       t->precision);
    return IG_OK;
}

/* The registry keeps pointers to the plugin paths and to the host table: both live as long as the
 * context. Devices come last, since opening one may call any service above. */
static ig_status choose_device(ig_ctx *ctx, const ig_ctx_options *options) {
    const char *paths = options->plugins;
    if (paths && !(ctx->devices.plugin_paths = ig_copy_text(&ctx->allocator, paths)))
        return IG_FAIL(IG_ERR_MEMORY, "ctx_create: plugins");
    ctx->devices.registry =
        (ig_registry){.allocator = &ctx->allocator,
                      .host = &ctx->host.table,
                      .places = {ctx->devices.plugin_paths, options->accept_plugin, options->user,
                                 options->isolate_plugins}};
    IG_TRY(ig_devices_open(&ctx->devices, ig_ctx_devices_wish(ctx, options->device),
                           &ctx->devices.planner));
    IG_TRY(check_compile_options(ctx));
    tell_device(ctx, options->device);
    return IG_OK;
}

/* Borrowed until the next registration, which may move the list: plans copy it. */
static const ig_custom_op *custom_of(void *user, uint32_t id) {
    return &((const ig_ctx *)user)->custom_ops.at[id];
}

/* On failure the context is partly initialized; ig_ctx_destroy() handles every prefix of this. */
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
                               .pack_consumed = host_pack_consumed},
                              .ctx = ctx};
    ctx->devices.planner = (ig_planner){.allocator = &ctx->allocator,
                                        .strict = options->strict,
                                        .custom = custom_of,
                                        .user = ctx,
                                        .guard = &ctx->custom_ops.guard,
                                        .progress = &ctx->progress};
    ctx->progress =
        (ig_progress){.tell = options->progress, .cancel = options->cancel, .user = options->user};
    ctx->handles.poison = (ig_tensor){.alive = IG_TENSOR_ALIVE, .refs = 1, .ctx = ctx};
    ctx->tape.number = 1;
    ctx->memory.allocator = &ctx->allocator;
    ctx->memory.devices = &ctx->devices;
    ctx->memory.arena.refs = 1; /* the context's reference */
    ig_plan_cache_init(&ctx->plan_cache, &ctx->allocator);
    ig_graph_hooks hooks = ig_run_hooks;
    hooks.user = ctx;
    IG_TRY(ig_graph_init(&ctx->tape.graph, &ctx->allocator, hooks));
    if (!IG_GROW(&ctx->allocator, ctx->handles.scopes, &ctx->handles.scopes_room, 1))
        return IG_FAIL(IG_ERR_MEMORY, "ctx_create: scopes");
    IG_TRY(ig_slot_create(ctx, &slot)); /* IG_SLOT_STEP */
    const uint32_t threads =
        options->threads > 0 ? (uint32_t)options->threads : ig_team_default_threads();
    IG_TRY(ig_team_create(&ctx->allocator, threads, &ctx->host.team));
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
    ctx->compile_options.gives_level = options->compile.optimization_level != 0;
    ctx->compile_options.gives_precision = options->compile.precision != NULL;
    if (status == IG_OK) status = init(ctx, &settled);
    ig_config_deinit(allocator, &config);
    if (status == IG_OK)
        *out = ctx;
    else
        ig_ctx_destroy(ctx);
    return status;
}

/* Order: users of a device (plans, mirrors, buffers) are destroyed before the devices, and what
 * devices refer to (host table, team, packed weights) after them. on_destroy() comes first, while
 * everything still works. */
void ig_ctx_destroy(ig_ctx *ctx) {
    if (!ctx) return;
    const ig_allocator allocator = ctx->allocator;
    const bool has_device = ctx->devices.planner.n_devices > 0;
    if (ctx->options.on_destroy && has_device) ctx->options.on_destroy(ctx->options.user, ctx);
    if (ctx->tape.graph.allocator) ig_graph_deinit(&ctx->tape.graph);
    ig_recorder_deinit(ctx);
    ig_handles_deinit(ctx);
    ig_plan_cache_deinit(&ctx->plan_cache);
    if (has_device) {
        ig_pool_drain(&ctx->memory);
        ig_arena_free(&ctx->memory);
    }
    ig_devices_close(&ctx->devices);
    ig_compile_cache_deinit(&ctx->compile_cache);
    ig_devices_deinit(&ctx->devices, &allocator);
    ig_ctx_detach_all(ctx);
    ig_profile_deinit(&ctx->profile);
    ig_team_destroy(ctx->host.team);
    ig_custom_ops_deinit(&ctx->custom_ops, &allocator);
    ig_slots_deinit(&ctx->slots, &allocator);
    ig_attachments_deinit(&ctx->host.attachments, &allocator);
    ig_free(&allocator, ctx);
}

/* ---- components ----
 *
 * For files off the path of an op, which see the component's header and not ctx.h.  The const of
 * the argument says that the context itself stays as it is. */

#define COMPONENT(type, function, member) \
    type *function(const ig_ctx *ctx) { return &((ig_ctx *)(uintptr_t)ctx)->member; }
COMPONENT(ig_ctx_host, ig_ctx_get_host, host)
COMPONENT(const ig_ctx_options, ig_ctx_get_options, options)
COMPONENT(const ig_compile_texts, ig_ctx_compile_texts, compile_options)
COMPONENT(ig_devices, ig_ctx_devices, devices)
COMPONENT(ig_tape, ig_ctx_tape, tape)
COMPONENT(ig_handles, ig_ctx_handles, handles)
COMPONENT(ig_memory, ig_ctx_memory, memory)
COMPONENT(ig_recorder, ig_ctx_recorder, recorder)
COMPONENT(ig_captures, ig_ctx_captures, captures)
COMPONENT(ig_plan_cache, ig_ctx_plan_cache, plan_cache)
COMPONENT(ig_compile_cache, ig_ctx_compile_cache, compile_cache)
COMPONENT(ig_packings, ig_ctx_packings, packings)
COMPONENT(ig_slots, ig_ctx_slots, slots)
COMPONENT(ig_custom_ops, ig_ctx_custom_ops, custom_ops)
COMPONENT(ig_steps, ig_ctx_steps, steps)
COMPONENT(ig_profile, ig_ctx_profile, profile)
COMPONENT(ig_nan_check, ig_ctx_nan_check, nan_check)
COMPONENT(ig_counters, ig_ctx_counters, counters)

/* ---- state and properties ---- */

/* Checked before each op, region, capture or batch: running work is not interrupted. */
bool ig_ctx_is_cancelled(const ig_ctx *ctx) {
    const ig_ctx_options *o = &ctx->options;
    return o->cancel && o->cancel(o->user);
}

/* A custom op runs inside a plan: reading or computing there would deadlock. */
ig_status ig_ctx_check_idle(ig_ctx *ctx, const char *what) {
    if (!ctx || !ctx->custom_ops.guard.running) return IG_OK;
    ctx->custom_ops.guard.called = true;
    return IG_FAIL(IG_ERR_STATE, "%s: called from the run() of a custom op", what);
}

void ig_ctx_release_memory(ig_ctx *ctx) {
    if (ctx) ig_pool_drain(&ctx->memory);
}

ig_status ig_ctx_synchronize(ig_ctx *ctx) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "ctx_synchronize: NULL");
    return ig_device_sync(ctx->devices.planner.devices[0]);
}

uint64_t ig_ctx_seed(const ig_ctx *ctx) { return ctx->options.seed; }
const char *ig_ctx_device(const ig_ctx *ctx) { return ctx->devices.planner.devices[0]->name; }

const char *ig_ctx_batch_sizes(const ig_ctx *ctx) { return ctx->compile_options.batch_sizes; }

uint32_t ig_ctx_device_class(const ig_ctx *ctx) {
    return ctx->devices.planner.devices[0]->info.device_class;
}
const ig_allocator *ig_ctx_allocator(const ig_ctx *ctx) { return &ctx->allocator; }

const char *ig_progress_name(ig_progress_event event) {
    static const char *const names[] = {
        [IG_PROGRESS_LOAD] = "load",
        [IG_PROGRESS_COMPILE] = "compile",
        [IG_PROGRESS_PACK] = "pack",
        [IG_PROGRESS_PROGRAMS_CACHED] = "programs cached",
        [IG_PROGRESS_PROGRAMS_STORED] = "programs stored",
        [IG_PROGRESS_WEIGHTS_CACHED] = "weights cached",
        [IG_PROGRESS_WEIGHTS_STORED] = "weights stored",
    };
    return (unsigned)event < sizeof names / sizeof *names ? names[event] : "unknown";
}

/* False: cancel. */
bool ig_ctx_progress(const ig_ctx *ctx, ig_progress_event event, uint64_t done, uint64_t total) {
    const ig_ctx_options *o = &ctx->options;
    if (o->progress && total > 0) o->progress(o->user, event, done, total);
    return !ig_ctx_is_cancelled(ctx);
}
