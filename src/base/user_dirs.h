/*
 * dirs.h - folders that belong to the user: where settings are, and what may be thrown away.
 *
 * As the XDG base directory specification has it: a variable that is not an
 * absolute path counts as not set.
 */
#ifndef IG_BASE_DIRS_H
#define IG_BASE_DIRS_H

#include <limits.h>
#include <stdbool.h>

#include "ingot/status.h"

/* $XDG_CONFIG_HOME/ingot/NAME, else ~/.config/ingot/NAME.  false: there is no such place. */
bool ig_dir_config(const char *name, char out[PATH_MAX]);

/* `asked` if it is a path, else $XDG_CACHE_HOME/ingot, else ~/.cache/ingot.  false: there is no
 * such place. */
bool ig_dir_cache(const char *asked, char out[PATH_MAX]);

/* Makes the folder and those above it, for the user alone.  IG_ERR_IO: it cannot be, or belongs to
 * somebody else, or others may write to it. */
IG_MUST_CHECK ig_status ig_dir_make_private(const char *path);

#endif
