#include "base/plugin_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Owned by root or this user, and not writable by others. */
static ig_status check_owner(const char *path, bool folder) {
    struct stat info;
    if (stat(path, &info) != 0) return IG_FAIL(IG_ERR_DEVICE, "%s: %s", path, strerror(errno));
    if (folder ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
        return IG_FAIL(IG_ERR_DEVICE, "%s is no %s", path, folder ? "folder" : "regular file");
    if (info.st_uid != 0 && info.st_uid != geteuid())
        return IG_FAIL(IG_ERR_DEVICE, "%s belongs to user %u, who is neither root nor you", path,
                       (unsigned)info.st_uid);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return IG_FAIL(IG_ERR_DEVICE, "%s can be written to by others (chmod go-w)", path);
    return IG_OK;
}

/* Links are resolved first, so that the file that is checked is the one that is loaded. */
ig_status ig_plugin_file_check(const char *path, char resolved[PATH_MAX]) {
    if (path[0] != '/') return IG_FAIL(IG_ERR_DEVICE, "%s is not an absolute path", path);
    if (!realpath(path, resolved)) return IG_FAIL(IG_ERR_DEVICE, "%s: %s", path, strerror(errno));
    IG_TRY(check_owner(resolved, false));
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", resolved);
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0'; /* "/" itself stays */
    return check_owner(folder, true);
}
