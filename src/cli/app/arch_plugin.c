#include "cli/app/arch_plugin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/app/plugins.h"
#include "ingot/arch.h"

/* In the child. A plugin that calls exit() ends it before the answer is written. */
static ig_status probe(void *path) {
    ig_cli_discard_output();
    return ig_arch_probe(path);
}

ig_status ig_cli_load_archs(ig_cli *cli, ig_ctx *ctx, const char *path) {
    char resolved[PATH_MAX], words[IG_ERROR_BYTES];
    if (!path) return IG_OK;
    if (!realpath(path, resolved))
        return IG_FAIL(IG_ERR_IO, "--plugin %s: %s", path, strerror(errno));
    ig_status status = ig_cli_in_child(probe, resolved, true);
    if (status == IG_OK) status = ig_arch_load(ctx, resolved);
    if (status == IG_OK || status == IG_ERR_MEMORY) return status;
    return IG_FAIL(IG_ERR_MODEL, "--plugin %s: %s", path, ig_cli_error(cli, words));
}
