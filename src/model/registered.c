/*
 * Architectures that a program or a plugin registers.
 *
 * The list is attached to the context, and so are the handles of the plugin libraries, which are
 * closed last. A table is copied field by field into an ig_arch, so that the layers below see a
 * single type.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plugin_file.h"
#include "ingot/model.h"
#include "model/train/production_route.h"

enum { PLUGIN_ARCHS = 64 }; /* per plugin: more means a missing end of the list */

typedef struct registered {
    ig_arch arch;
    ig_arch_desc desc; /* a copy; the strings are owned */
    ig_production production;
} registered;

typedef struct archs {
    const ig_allocator *memory;
    registered **at; /* entries never move: adapters point to them */
    void **libraries;
    size_t count, room, n_libraries, libraries_room;
} archs;

static const char key; /* key of the attachment */

static void free_row(const ig_allocator *memory, registered *r) {
    if (!r) return;
    ig_free(memory, (void *)(uintptr_t)r->desc.name);
    ig_free(memory, (void *)(uintptr_t)r->desc.description);
    ig_free(memory, r);
}

static void destroy_archs(void *data) {
    archs *all = data;
    const ig_allocator *memory = all->memory;
    for (size_t i = 0; i < all->count; i++) free_row(memory, all->at[i]);
    for (size_t i = all->n_libraries; i > 0; i--) dlclose(all->libraries[i - 1]);
    ig_free(memory, (void *)all->libraries);
    ig_free(memory, (void *)all->at);
    ig_free(memory, all);
}

static ig_status archs_of(ig_ctx *ctx, archs **out) {
    const ig_allocator *memory = ig_ctx_allocator(ctx);
    archs *all = ig_ctx_attached(ctx, &key);
    if (!all) {
        if (!(all = ig_alloc(memory, 1, sizeof *all)))
            return IG_FAIL(IG_ERR_MEMORY, "arch_register: a list");
        all->memory = memory;
        const ig_status status = ig_ctx_attach(ctx, &key, all, destroy_archs);
        if (status != IG_OK) ig_free(memory, all);
        IG_TRY(status);
    }
    *out = all;
    return IG_OK;
}

const ig_arch *ig_arch_registered_at(const ig_ctx *ctx, size_t i) {
    const archs *all = ig_ctx_attached(ctx, &key);
    return all && i < all->count ? &all->at[i]->arch : NULL;
}

const ig_arch_desc *ig_arch_registered(const ig_ctx *ctx, size_t i) {
    const archs *all = ig_ctx_attached(ctx, &key);
    return all && i < all->count ? &all->at[i]->desc : NULL;
}

/* ---- checking a table ---- */

static bool is_name(const char *s) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    return s && *s && strlen(s) < 64 && strspn(s, allowed) == strlen(s);
}

static ig_status check_head(const char *what, uint32_t abi, uint32_t bytes, size_t least) {
    if (abi != IG_ARCH_ABI)
        return IG_FAIL(IG_ERR_MODEL, "%s is for ABI %u, %s than this one's, which is %d", what, abi,
                       abi < IG_ARCH_ABI ? "older" : "newer", IG_ARCH_ABI);
    if (bytes < least)
        return IG_FAIL(IG_ERR_MODEL, "%s has %u bytes, and at least %zu are needed", what, bytes,
                       least);
    return IG_OK;
}

static ig_status missing(const char *name, const char *function) {
    return IG_FAIL(IG_ERR_MODEL, "the architecture %s has no %s()", name, function);
}

static ig_status take_production(const char *name, const ig_production *given, ig_production *out) {
    IG_TRY(check_head("its production table", given->abi, given->struct_size,
                      offsetof(ig_production, step) + sizeof given->step));
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
    const struct {
        const char *name;
        bool there;
    } functions[] = {{"production.init", out->init != NULL},
                     {"production.destroy", out->destroy != NULL},
                     {"production.forward", out->forward != NULL},
                     {"production.backward", out->backward != NULL},
                     {"production.step", out->step != NULL}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!functions[i].there) return missing(name, functions[i].name);
    return IG_OK;
}

ig_status ig_production_check(const char *name, const ig_production *given) {
    ig_production unused;
    return take_production(name, given, &unused);
}

/* `given` is valid up to its struct_size: the first two fields say whether more may be read. */
static ig_status take_table(const ig_arch_desc *given, registered *r) {
    ig_arch_desc *d = &r->desc;
    IG_TRY(check_head("its table", given->abi, given->struct_size,
                      offsetof(ig_arch_desc, create) + sizeof given->create));
    memcpy(d, given, given->struct_size < sizeof *d ? given->struct_size : sizeof *d);
    const char *name = d->name, *description = d->description;
    const ig_lm_config *c = &d->defaults;
    d->name = d->description = NULL; /* not owned yet */
    if (!is_name(name))
        return IG_FAIL(IG_ERR_MODEL, "its name is missing, above 63 bytes, or has other characters "
                                     "than a-z, 0-9, - and _");
    if (!d->create) return missing(name, "create");
    if (!d->hidden != !d->head) return missing(name, d->hidden ? "head" : "hidden");
    if (!d->hidden && !d->production) return missing(name, "hidden");
    if (c->d_model < 1 || c->n_layers < 1 || c->ctx_len < 1)
        return IG_FAIL(IG_ERR_MODEL,
                       "the architecture %s has defaults of d_model %lld, n_layers %lld and "
                       "ctx_len %lld, each of which must be at least 1",
                       name, (long long)c->d_model, (long long)c->n_layers, (long long)c->ctx_len);
    if (d->production) {
        IG_TRY(take_production(name, d->production, &r->production));
        d->production = &r->production;
    }
    d->name = name;
    d->description = description;
    return IG_OK;
}

static ig_status accept_all(const ig_lm_config *config) {
    (void)config;
    return IG_OK;
}

static void free_nothing(ig_ctx *ctx, void *model) { (void)ctx, (void)model; }

static ig_arch arch_of(const ig_arch_desc *d) {
    ig_arch arch = {.name = d->name,
                    .description = d->description,
                    .defaults = d->defaults,
                    .has_cache = d->has_cache && d->hidden,
                    .check = d->check ? d->check : accept_all,
                    .create = d->create,
                    .destroy = d->destroy ? d->destroy : free_nothing,
                    .production = d->production,
                    .hidden = d->hidden,
                    .head = d->head};
    if (arch.defaults.n_heads < 1) arch.defaults.n_heads = 1;
    return arch;
}

/* ---- registering ---- */

static ig_status check_unique(const archs *all, const char *name) {
    for (size_t i = 0; ig_arch_name(i); i++)
        if (ig_arch_same_name(name, ig_arch_name(i)))
            return IG_FAIL(IG_ERR_MODEL, "the name %s is that of a built-in architecture", name);
    for (size_t i = 0; i < all->count; i++)
        if (ig_arch_same_name(name, all->at[i]->desc.name))
            return IG_FAIL(IG_ERR_MODEL, "an architecture %s is registered already", name);
    return IG_OK;
}

/* Copies the strings. */
static ig_status keep_strings(const ig_allocator *memory, registered *r) {
    char *name = ig_copy_text(memory, r->desc.name);
    char *description = ig_copy_text(memory, r->desc.description ? r->desc.description : "");
    r->desc.name = name;
    r->desc.description = description;
    return name && description ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "arch_register: a name");
}

static ig_status fill_row(archs *all, const ig_arch_desc *desc, registered *r) {
    IG_TRY(take_table(desc, r));
    const ig_status unique = check_unique(all, r->desc.name);
    if (unique != IG_OK) r->desc.name = r->desc.description = NULL;
    IG_TRY(unique);
    IG_TRY(keep_strings(all->memory, r));
    r->arch = arch_of(&r->desc);
    if (!IG_GROW(all->memory, all->at, &all->room, all->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "arch_register: %zu architectures", all->count);
    return IG_OK;
}

ig_status ig_arch_register(ig_ctx *ctx, const ig_arch_desc *desc) {
    archs *all;
    if (!ctx || !desc) return IG_FAIL(IG_ERR_ARGUMENT, "arch_register: NULL");
    IG_TRY(archs_of(ctx, &all));
    registered *r = ig_alloc(all->memory, 1, sizeof *r);
    if (!r) return IG_FAIL(IG_ERR_MEMORY, "arch_register: an architecture");
    const ig_status status = fill_row(all, desc, r);
    if (status == IG_OK)
        all->at[all->count++] = r;
    else
        free_row(all->memory, r);
    return status;
}

/* ---- plugins ---- */

typedef const ig_arch_desc *entry_fn(size_t i);

/* A plugin must resolve the library's functions even if the library itself was loaded with
 * RTLD_LOCAL, as Python's ctypes does. */
static void show_own_symbols(void) {
    Dl_info info;
    if (dladdr(&key, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static ig_status open_library(const char *path, void **out, entry_fn **out_entry) {
    char resolved[PATH_MAX];
    if (!path) return IG_FAIL(IG_ERR_ARGUMENT, "arch_load: NULL");
    if (ig_plugin_file_check(path, resolved) != IG_OK)
        return IG_FAIL(IG_ERR_MODEL, "%s", ig_error_text());
    show_own_symbols();
    void *library = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    if (!library) return IG_FAIL(IG_ERR_DEPENDENCY, "%s", dlerror());
    union { /* C has no cast from an object pointer to a function pointer */
        void *symbol;
        entry_fn *call;
    } entry = {dlsym(library, "ig_arch_entry")};
    if (!entry.symbol) {
        dlclose(library);
        return IG_FAIL(IG_ERR_MODEL, "%s does not export ig_arch_entry()", resolved);
    }
    *out = library;
    *out_entry = entry.call;
    return IG_OK;
}

static ig_status check_count(const char *path, size_t count) {
    if (count == 0) return IG_FAIL(IG_ERR_MODEL, "%s has no architecture", path);
    if (count > PLUGIN_ARCHS)
        return IG_FAIL(IG_ERR_MODEL, "%s has more than %d architectures", path, PLUGIN_ARCHS);
    return IG_OK;
}

static ig_status register_all(ig_ctx *ctx, const char *path, entry_fn *entry) {
    const ig_arch_desc *desc;
    size_t count = 0;
    while (count <= PLUGIN_ARCHS && (desc = entry(count)) != NULL) {
        IG_TRY(ig_arch_register(ctx, desc));
        count++;
    }
    return check_count(path, count);
}

/* Removes those that were added since. */
static void forget(archs *all, size_t keep) {
    while (all->count > keep) free_row(all->memory, all->at[--all->count]);
}

ig_status ig_arch_load(ig_ctx *ctx, const char *path) {
    archs *all;
    void *library = NULL;
    entry_fn *entry = NULL;
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "arch_load: NULL");
    IG_TRY(archs_of(ctx, &all));
    if (!IG_GROW(all->memory, all->libraries, &all->libraries_room, all->n_libraries + 1))
        return IG_FAIL(IG_ERR_MEMORY, "arch_load: %s", path);
    IG_TRY(open_library(path, &library, &entry));
    const size_t before = all->count;
    const ig_status status = register_all(ctx, path, entry);
    if (status == IG_OK) {
        all->libraries[all->n_libraries++] = library;
    } else {
        forget(all, before);
        dlclose(library);
    }
    return status;
}

ig_status ig_arch_probe(const char *path) {
    void *library = NULL;
    entry_fn *entry = NULL;
    const ig_arch_desc *desc;
    size_t count = 0;
    ig_status status = open_library(path, &library, &entry);
    while (status == IG_OK && count <= PLUGIN_ARCHS && (desc = entry(count)) != NULL) {
        registered r = {0};
        status = take_table(desc, &r);
        count++;
    }
    if (status == IG_OK) status = check_count(path, count);
    if (library) dlclose(library);
    return status;
}
