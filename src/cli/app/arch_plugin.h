/*
 * arch_plugin.h - architectures from a plugin: the option --plugin.
 *
 * The library is first loaded in a child process: a crash, exit or hang there becomes an error
 * message.
 */
#ifndef IG_CLI_APP_ARCH_PLUGIN_H
#define IG_CLI_APP_ARCH_PLUGIN_H

#include "cli/app/cli.h"

/* The option's row, for a command's table: `offset` is that of a const char *. */
#define IG_ARCH_PLUGIN_OPT(offset_of_path)                                          \
    {                                                                               \
        OPT_TEXT, 0, "plugin", offset_of_path,                                      \
            .help = "load architectures from this shared library", .value = "FILE", \
            .flags = OPT_FILE                                                       \
    }

/* Registers the plugin's architectures with the context.  NULL: no plugin, nothing to do. */
IG_MUST_CHECK ig_status ig_cli_load_archs(ig_cli *cli, ig_ctx *ctx, const char *path);

#endif
