/* ingot scratch - prints a word. */
#include "cli/app/cli.h"

static ig_status cmd_scratch_run(ig_cli *cli, const void *options) {
    (void)cli, (void)options;
    puts("scratched");
    return IG_OK;
}

static const ig_opt opts[] = {{0}};

const ig_command cmd_scratch = {
    .name = "scratch",
    .summary = "print a word",
    .about = "Prints a word.",
    .opts = opts,
    .run = cmd_scratch_run,
};
