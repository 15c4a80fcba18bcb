/*
 * user_dirs.h - the user's folders for settings and caches.
 *
 * As in the XDG base directory specification: a variable that is not an absolute path counts as
 * unset.
 */
#ifndef IG_BASE_USER_DIRS_H
#define IG_BASE_USER_DIRS_H

#include <limits.h>
#include <stdbool.h>

#include "ingot/status.h"

/* $XDG_CONFIG_HOME/ingot/NAME, else ~/.config/ingot/NAME. false: neither is set. */
bool ig_dir_config(const char *name, char out[PATH_MAX]);

/* `asked` if it is a path, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot. false: none is set. */
bool ig_dir_cache(const char *asked, char out[PATH_MAX]);

/* Creates the folder and its parents, private to the user. IG_ERR_IO: it cannot be created,
 * belongs to another user, or is writable by others. */
IG_MUST_CHECK ig_status ig_dir_make_private(const char *path);

#endif
