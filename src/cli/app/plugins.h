/*
 * plugins.h - a plugin that is new to this machine is first loaded in a child process.
 *
 * A plugin that crashes or hangs while it loads does so in the child and becomes a
 * reason.  A file that passed is remembered by its name, size and times, and is not
 * tried again until it changes.
 */
#ifndef IG_CLI_APP_PLUGINS_H
#define IG_CLI_APP_PLUGINS_H

#include <stdbool.h>

#include "cli/app/cli.h"

/* Calls fn in a child process and returns its status and error text.  If the child dies, or if
 * `timed` and it takes longer than INGOT_PLUGIN_SECONDS (20), the status is IG_ERR_DEVICE. */
typedef ig_status ig_cli_child_fn(void *arg);
IG_MUST_CHECK ig_status ig_cli_in_child(ig_cli_child_fn *fn, void *arg, bool timed);

/* In a child: standard input, output and error are /dev/null from now on. */
void ig_cli_discard_output(void);

/* IG_ERR_DEPENDENCY: the system's linker could not load it. */
IG_MUST_CHECK ig_status ig_cli_try_plugin(ig_cli *cli, const char *path);

/* The same for ig_ctx_options.accept_plugin; `user` is the ig_cli. */
bool ig_cli_accept_plugin(void *user, const char *path);

#endif
