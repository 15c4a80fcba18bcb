/* Folders of models: --models-dir. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/http_error.h"
#include "server/models_list.h"

enum { DEPTH = 1 }; /* folders inside the folder */

static bool has_end(const char *name, const char *end) {
    const size_t n_name = strlen(name), n_end = strlen(end);
    return n_name > n_end && strcmp(name + n_name - n_end, end) == 0;
}

/* Part 2 and so on of a split model: "NAME-00002-of-00003.gguf". */
static bool is_later_part(const char *name) {
    const char *of = strstr(name, "-of-");
    return of && of - name >= 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
}

/* "folder/name" or "name", without extension and number of parts; false: too long. */
static bool name_model(const char *prefix, const char *file, char *out, size_t room) {
    const int n = snprintf(out, room, "%s%s%s", prefix, *prefix ? "/" : "", file);
    if (n < 0 || (size_t)n >= room || strchr(out, ',')) return false;
    char *end = strrchr(out, '.');
    if (end) *end = 0;
    char *part = strstr(out, "-00001-of-");
    if (part && strlen(part) == strlen("-00001-of-00002")) *part = 0;
    return true;
}

static ig_model_entry *find_path(const ig_models *models, const char *path) {
    for (size_t i = 0; i < models->n_entries; i++)
        if (strcmp(models->entries[i]->path, path) == 0) return models->entries[i];
    return NULL;
}

static void log_skipped(const ig_models *models, const char *path) {
    char text[512], words[256];
    const ig_ctx_options *ctx = &models->options.ctx;
    ig_error_words(words, sizeof words);
    snprintf(text, sizeof text, "%.200s is not served: %s", path, words);
    if (ctx->log) ctx->log(ctx->user, IG_LOG_WARNING, text);
}

/* A file that is no model is no reason to serve none. */
static ig_status add_file(ig_models *models, const char *path, const char *prefix,
                          const char *file) {
    char name[PATH_MAX];
    if ((!has_end(file, ".gguf") && !has_end(file, ".oam")) || is_later_part(file)) return IG_OK;
    ig_models_lock(models);
    ig_model_entry *known = find_path(models, path);
    if (known) known->is_gone = false;
    ig_models_unlock(models);
    if (known || !name_model(prefix, file, name, sizeof name)) return IG_OK;
    const ig_models_entry entry = {.path = path, .names = name};
    const ig_status status = ig_models_put(models, &entry, true);
    if (status == IG_ERR_MEMORY) return status;
    if (status != IG_OK) log_skipped(models, path);
    return IG_OK;
}

static ig_status add_all(ig_models *models, const char *path, const char *prefix, int depth) {
    DIR *dir = opendir(path);
    if (!dir) return IG_FAIL(IG_ERR_IO, "--models-dir %s: %s", path, strerror(errno));
    ig_status status = IG_OK;
    for (const struct dirent *e; status == IG_OK && (e = readdir(dir));) {
        char inside[PATH_MAX];
        struct stat file;
        if (e->d_name[0] == '.') continue;
        const int n = snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (n < 0 || (size_t)n >= sizeof inside || stat(inside, &file) != 0) continue;
        if (S_ISREG(file.st_mode))
            status = add_file(models, inside, prefix, e->d_name);
        else if (S_ISDIR(file.st_mode) && depth < DEPTH)
            status = add_all(models, inside, e->d_name, depth + 1);
    }
    closedir(dir);
    return status;
}

/* Files of the folder that are gone. */
static void mark_gone(ig_models *models, const char *folder) {
    struct stat file;
    const size_t n = strlen(folder);
    ig_models_lock(models);
    for (size_t i = 0; i < models->n_entries; i++) {
        ig_model_entry *e = models->entries[i];
        if (e->is_of_folder && strncmp(e->path, folder, n) == 0 && e->path[n] == '/')
            e->is_gone = stat(e->path, &file) != 0;
    }
    ig_models_unlock(models);
}

ig_status ig_models_add_folder(ig_models *models, const char *path) {
    char folder[PATH_MAX];
    size_t n = (size_t)snprintf(folder, sizeof folder, "%s", path);
    if (n >= sizeof folder)
        return IG_FAIL(IG_ERR_ARGUMENT, "--models-dir: a name of %zu bytes", strlen(path));
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    mark_gone(models, folder);
    return add_all(models, folder, "", 0);
}
