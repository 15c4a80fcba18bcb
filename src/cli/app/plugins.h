/*
 * plugins.h - a plugin that is new here is tried in a process of its own.
 *
 * What crashes or hangs when it is loaded does so there, and the reason is all
 * that comes of it.  A file that has passed is remembered by its name, size and
 * times, and not tried again until it changes.
 */
#ifndef IG_CLI_PLUGINS_H
#define IG_CLI_PLUGINS_H

#include <stdbool.h>

#include "cli/app/cli.h"

/* Calls fn in a child process and hands on what it says.  Where the child dies, or takes longer
 * than INGOT_PLUGIN_SECONDS (20) if that counts, IG_ERR_DEVICE says how. */
typedef ig_status ig_cli_child_fn(void *arg);
IG_MUST_CHECK ig_status ig_cli_in_child(ig_cli_child_fn *fn, void *arg, bool timed);

/* IG_ERR_DEPENDENCY: the system's linker could not load it. */
IG_MUST_CHECK ig_status ig_cli_try_plugin(ig_cli *cli, const char *path);

/* The same for ig_ctx_options.accept_plugin; `user` is the ig_cli. */
bool ig_cli_accept_plugin(void *user, const char *path);

#endif
