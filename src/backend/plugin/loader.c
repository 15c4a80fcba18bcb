#include "backend/plugin/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/plugin_file.h"
#include "base/sha256.h"

#ifndef INGOT_LIBDIR
#    define INGOT_LIBDIR "lib" /* next to bin/ */
#endif

/* ---- what a table must have ---- */

static bool is_name(const char *s) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    static const char *const taken[] = {"auto", "gpu", "npu"};
    if (!s || !*s || strlen(s) > 31 || strspn(s, allowed) != strlen(s)) return false;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(s, taken[i]) == 0) return false;
    return true;
}

static ig_status check_table(const ig_backend *b) {
    const int memory = !!b->buffer_alloc + !!b->buffer_free + !!b->write + !!b->read;
    if (!is_name(b->name))
        return IG_FAIL(IG_ERR_DEVICE, "its name is missing, reserved or has other characters than "
                                      "a-z, 0-9, - and _");
    if (!b->compile) return IG_FAIL(IG_ERR_DEVICE, "%s has no compile()", b->name);
    if (!b->open != !b->close)
        return IG_FAIL(IG_ERR_DEVICE, "%s has one of open() and close()", b->name);
    if (memory != 0 && memory != 4)
        return IG_FAIL(IG_ERR_DEVICE,
                       "%s has some of buffer_alloc(), buffer_free(), write() and read()", b->name);
    return IG_OK;
}

/* `given` is valid up to its struct_size: the first two fields say whether more may be read. */
static ig_status take_table(const ig_backend *given, ig_backend *out) {
    if (!given) return IG_FAIL(IG_ERR_DEVICE, "ig_backend_entry() gave NULL");
    if (given->abi != IG_BACKEND_ABI)
        return IG_FAIL(IG_ERR_DEVICE, "it is for ABI %u, %s than this one's, which is %d",
                       given->abi, given->abi < IG_BACKEND_ABI ? "older" : "newer", IG_BACKEND_ABI);
    if (given->struct_size < offsetof(ig_backend, compile) + sizeof given->compile)
        return IG_FAIL(IG_ERR_DEVICE, "its table has %u bytes and ends before compile()",
                       given->struct_size);
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->struct_size < sizeof *out ? given->struct_size : sizeof *out);
    out->struct_size = sizeof *out;
    if (!out->version) out->version = "";
    return check_table(out);
}

ig_status ig_plugin_open(const char *path, ig_plugin *out) {
    char resolved[PATH_MAX];
    IG_TRY(ig_plugin_file_check(path, resolved));
    void *library = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    if (!library) return IG_FAIL(IG_ERR_DEPENDENCY, "%s", dlerror());
    union { /* C has no cast from an object pointer to a function pointer */
        void *symbol;
        const ig_backend *(*call)(void);
    } entry = {dlsym(library, "ig_backend_entry")};
    ig_status status = IG_OK;
    if (!entry.symbol)
        status = IG_FAIL(IG_ERR_DEVICE, "%s does not export ig_backend_entry()", resolved);
    if (status == IG_OK) status = take_table(entry.call(), &out->backend);
    if (status == IG_OK)
        out->library = library;
    else
        dlclose(library);
    return status;
}

void ig_plugin_close(ig_plugin *plugin) {
    if (plugin->library) dlclose(plugin->library);
    plugin->library = NULL;
}

/* ---- where they are ---- */

static const char pin_mark[] = "#sha256="; /* path suffix: the file must have this hash */

/* Keeps the message without its source location ("(loader.c:41)"). */
static void keep_reason(ig_plugin *p) {
    snprintf(p->reason, sizeof p->reason, "%s", ig_error_text());
    char *place = strrchr(p->reason, '(');
    if (place && place > p->reason && strstr(place, ".c:")) place[-1] = '\0';
}

static bool is_listed(const ig_plugins *all, const char *path) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->at[i]->path, path) == 0) return true;
    return false;
}

static ig_status check_unique(const ig_plugins *all, const ig_plugin *p) {
    for (size_t i = 0; i < all->count; i++)
        if (!all->at[i]->reason[0] && strcmp(all->at[i]->backend.name, p->backend.name) == 0)
            return IG_FAIL(IG_ERR_DEVICE, "the name %s is taken by %s", p->backend.name,
                           all->at[i]->path);
    return IG_OK;
}

/* A library in a separate process needs no trial load. */
static ig_status load_isolated(const ig_plugins *all, ig_plugin *p) {
    p->isolated = ig_alloc(all->allocator, 1, sizeof *p->isolated);
    if (!p->isolated) return IG_FAIL(IG_ERR_MEMORY, "plugin %s", p->path);
    IG_TRY(ig_isolated_load(p->path, p->isolated, &p->backend));
    return check_unique(all, p);
}

/* A pinned file must have exactly this hash. */
static ig_status check_pin(const char *path, const char *pin) {
    ig_file_map map;
    char digest[IG_SHA256_TEXT_BYTES];
    if (!*pin) return IG_OK;
    if (ig_file_map_open(path, &map) != IG_OK) return IG_FAIL(IG_ERR_DEVICE, "%s", ig_error_text());
    ig_sha256(map.bytes, map.size, digest);
    ig_file_map_close(&map);
    if (strcasecmp(digest, pin) == 0) return IG_OK;
    return IG_FAIL(IG_ERR_DEVICE, "its SHA-256 is %s, and %.70s was asked for", digest, pin);
}

static ig_status load(const ig_plugins *all, ig_plugin_places places, ig_plugin *p,
                      const char *pin) {
    IG_TRY(check_pin(p->path, pin));
    if (places.isolate) return load_isolated(all, p);
    if (places.accept && p->path[0] == '/') {
        (void)IG_FAIL(IG_ERR_DEVICE, "it was turned down");
        if (!places.accept(places.user, p->path)) return IG_ERR_DEVICE;
    }
    IG_TRY(ig_plugin_open(p->path, p));
    return check_unique(all, p);
}

static ig_status add_file(ig_plugins *all, ig_plugin_places places, const char *path,
                          const char *pin) {
    if (is_listed(all, path)) return IG_OK;
    ig_plugin *p = ig_alloc(all->allocator, 1, sizeof *p);
    if (p) p->path = ig_copy_text(all->allocator, path);
    if (!p || !p->path || !IG_GROW(all->allocator, all->at, &all->room, all->count + 1)) {
        if (p) ig_free(all->allocator, p->path);
        ig_free(all->allocator, p);
        return IG_FAIL(IG_ERR_MEMORY, "plugin %s", path);
    }
    if (load(all, places, p, pin) != IG_OK) {
        keep_reason(p);
        ig_plugin_close(p);
    }
    all->at[all->count++] = p;
    return IG_OK;
}

static int is_library(const struct dirent *entry) {
    const size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0;
}

/* Adds a folder's libraries in order of name. A missing folder has none. */
static ig_status add_folder(ig_plugins *all, ig_plugin_places places, const char *folder) {
    struct dirent **entries = NULL;
    ig_status status = IG_OK;
    const int count = scandir(folder, &entries, is_library, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (status == IG_OK && length > 0 && (size_t)length < sizeof path)
            status = add_file(all, places, path, "");
        free(entries[i]);
    }
    free((void *)entries);
    return status;
}

/* "/a/folder:/b/one.so:/c/two.so#sha256=9f86d0..." */
static ig_status add_paths(ig_plugins *all, ig_plugin_places places, const char *paths) {
    for (const char *at = paths; at && *at;) {
        const size_t length = strcspn(at, ":");
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%.*s", (int)(length < PATH_MAX ? length : PATH_MAX - 1), at);
        struct stat info;
        char *mark = strstr(path, pin_mark);
        const char *pin = mark ? mark + sizeof pin_mark - 1 : "";
        if (mark) *mark = '\0';
        const bool folder = path[0] == '/' && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
        if (folder)
            IG_TRY(add_folder(all, places, path));
        else if (path[0])
            IG_TRY(add_file(all, places, path, pin)); /* reports what is wrong with it */
        at += length + (at[length] == ':');
    }
    return IG_OK;
}

/* PREFIX/lib/ingot/plugins, relative to the library or program that contains this code. */
static ig_status add_installed(ig_plugins *all, ig_plugin_places places) {
    char own[PATH_MAX], folder[PATH_MAX + 64];
    Dl_info info;
    static const char here;
    if (!dladdr(&here, &info) || !info.dli_fname) return IG_OK;
    if (!realpath(info.dli_fname[0] == '/' ? info.dli_fname : "/proc/self/exe", own)) return IG_OK;
    char *slash = strrchr(own, '/');
    if (!slash) return IG_OK;
    *slash = '\0';
    slash = strrchr(own, '/');
    const bool program = slash && strcmp(slash, "/bin") == 0;
    if (program) *slash = '\0';
    snprintf(folder, sizeof folder, "%s%s/ingot/plugins", own, program ? "/" INGOT_LIBDIR : "");
    return add_folder(all, places, folder);
}

ig_status ig_plugins_load(ig_plugins *plugins, const ig_allocator *allocator,
                          ig_plugin_places places) {
    plugins->allocator = allocator;
    IG_TRY(add_paths(plugins, places, places.paths));
    IG_TRY(add_paths(plugins, places, getenv("INGOT_PLUGIN_PATH")));
    return add_installed(plugins, places);
}

void ig_plugins_deinit(ig_plugins *plugins) {
    for (size_t i = 0; i < plugins->count; i++) {
        ig_plugin_close(plugins->at[i]);
        ig_free(plugins->allocator, plugins->at[i]->isolated);
        ig_free(plugins->allocator, plugins->at[i]->path);
        ig_free(plugins->allocator, plugins->at[i]);
    }
    if (plugins->allocator) ig_free(plugins->allocator, (void *)plugins->at);
    *plugins = (ig_plugins){0};
}
