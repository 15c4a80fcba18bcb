#include "cli/app/load_progress.h"

#include <string.h>
#include <unistd.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

/* A text that has begun stays: the bar gets a line of its own. */
static void begin(ig_cli *cli, const char *what, uint64_t total) {
    ig_compiling *c = &cli->compiling;
    c->meter = ig_meter_begin(&cli->term, cli->quiet, what, "", total);
    c->open = true;
    fflush(stdout);
    if (cli->term.live && !cli->quiet && !cli->json && isatty(STDOUT_FILENO)) fputc('\n', stderr);
}

void ig_compiling_tell(void *user, const char *what, uint64_t done, uint64_t total) {
    ig_cli *cli = user;
    ig_compiling *c = &cli->compiling;
    if (strcmp(what, "weights from the cache") == 0) {
        c->weights_from = done;
        return;
    }
    if (strcmp(what, "weights to the cache") == 0) {
        c->weights_to = done;
        return;
    }
    if (strcmp(what, "from the cache") == 0) {
        c->from_cache += done;
        ig_run_event(cli, "cache_hit", 0);
        return;
    }
    if (strcmp(what, "to the cache") == 0) {
        ig_run_event(cli, "cache_store", 0);
        return;
    }
    if (!c->open) begin(cli, what, total);
    if (done < total) {
        ig_meter_update(&c->meter, done, "");
        return;
    }
    ig_meter_end(&c->meter, done, "");
    c->open = false;
    if (strcmp(what, "compile") == 0) ig_run_event(cli, "compile", 0);
}

void ig_compiling_end(void *user) {
    ig_cli *cli = user;
    ig_compiling *c = &cli->compiling;
    if (c->open) ig_meter_end(&c->meter, 0, "stopped");
    c->open = false;
    if (c->from_cache > 0)
        ig_cli_say(cli, "compile: %llu programs from the cache", (unsigned long long)c->from_cache);
    char bytes[IG_UNIT_TEXT_BYTES];
    if (c->weights_from > 0)
        ig_cli_say(cli, "pack: %s of weights from the cache",
                   ig_bytes_text(c->weights_from, bytes));
    if (c->weights_to > 0)
        ig_cli_say(cli, "pack: %s of weights went to the cache",
                   ig_bytes_text(c->weights_to, bytes));
    c->from_cache = c->weights_from = c->weights_to = 0;
}
