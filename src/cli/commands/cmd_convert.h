/* cmd_convert.h - convert and export are one command with two names. */
#ifndef IG_CLI_COMMANDS_CMD_CONVERT_H
#define IG_CLI_COMMANDS_CMD_CONVERT_H

#include "cli/app/cli.h"

typedef struct convert_options {
    const char *in, *out, *type, *pre;
    int64_t threads;
} convert_options;

extern const ig_opt convert_opts[];
IG_MUST_CHECK ig_status convert_run(ig_cli *cli, const void *options);

/* Implemented in cmd_export.c: writes a checkpoint's weights to another one, without training
 * state. */
IG_MUST_CHECK ig_status convert_to_checkpoint(ig_cli *cli, const convert_options *options);

#endif
