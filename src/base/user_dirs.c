#include "base/user_dirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_absolute(const char *path) { return path && path[0] == '/'; }

static bool join(char out[PATH_MAX], const char *a, const char *b, const char *c) {
    const int length = snprintf(out, PATH_MAX, "%s%s%s", a, b, c);
    return length > 0 && length < PATH_MAX;
}

bool ig_dir_config(const char *name, char out[PATH_MAX]) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (is_absolute(config)) return join(out, config, "/ingot/", name);
    return is_absolute(home) && join(out, home, "/.config/ingot/", name);
}

bool ig_dir_cache(const char *asked, char out[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (asked && asked[0]) return join(out, asked, "", "");
    if (is_absolute(cache)) return join(out, cache, "/ingot", "");
    return is_absolute(home) && join(out, home, "/.cache/ingot", "");
}

static ig_status check_private(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return IG_FAIL(IG_ERR_IO, "%s: is no folder", path);
    if (info.st_uid != geteuid())
        return IG_FAIL(IG_ERR_IO, "%s: belongs to user %u", path, (unsigned)info.st_uid);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return IG_FAIL(IG_ERR_IO, "%s: others may write to it (chmod go-w)", path);
    return IG_OK;
}

ig_status ig_dir_make_private(const char *path) {
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1;; slash++) {
        const char was = *slash;
        if (was != '/' && was != '\0') continue;
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return IG_FAIL(IG_ERR_IO, "%s: cannot make the folder: %s", part, strerror(errno));
        *slash = was;
        if (was == '\0') return check_private(path);
    }
}
