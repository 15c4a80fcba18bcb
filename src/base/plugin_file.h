/* plugin_file.h - whether a shared library may be loaded: its path, its owner, who may write it. */
#ifndef IG_BASE_PLUGIN_FILE_H
#define IG_BASE_PLUGIN_FILE_H

#include <limits.h>

#include "ingot/status.h"

/* The path is absolute; library and folder belong to root or this user and are writable by no one
 * else.  `resolved` is the path without links: the file that was checked, to be loaded.
 * IG_ERR_DEVICE: it may not be loaded, and the thread's error says why. */
IG_MUST_CHECK ig_status ig_plugin_file_check(const char *path, char resolved[PATH_MAX]);

#endif
