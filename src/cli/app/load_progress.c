#include "cli/app/load_progress.h"

#include <unistd.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

/* The bar gets its own line, so that generated text stays. */
static void begin(ig_cli *cli, const char *what, uint64_t total) {
    ig_load_progress *c = &cli->compiling;
    c->meter = ig_meter_begin(&cli->term, cli->quiet, what, "", total);
    c->open = true;
    fflush(stdout);
    if (cli->term.live && !cli->quiet && !cli->json && isatty(STDOUT_FILENO)) fputc('\n', stderr);
}

static void update_meter(ig_cli *cli, ig_progress_event event, uint64_t done, uint64_t total) {
    ig_load_progress *c = &cli->compiling;
    if (!c->open) begin(cli, ig_progress_name(event), total);
    if (done < total) {
        ig_meter_update(&c->meter, done, "");
        return;
    }
    ig_meter_end(&c->meter, done, "");
    c->open = false;
}

void ig_load_progress_update(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    ig_cli *cli = user;
    ig_load_progress *c = &cli->compiling;
    switch (event) {
    case IG_PROGRESS_LOAD:
    case IG_PROGRESS_PACK: update_meter(cli, event, done, total); break;
    case IG_PROGRESS_COMPILE:
        update_meter(cli, event, done, total);
        if (done >= total) ig_run_event(cli, "compile", 0);
        break;
    case IG_PROGRESS_PROGRAMS_CACHED:
        c->from_cache += done;
        ig_run_event(cli, "cache_hit", 0);
        break;
    case IG_PROGRESS_PROGRAMS_STORED: ig_run_event(cli, "cache_store", 0); break;
    case IG_PROGRESS_WEIGHTS_CACHED: c->weights_from = done; break;
    case IG_PROGRESS_WEIGHTS_STORED: c->weights_to = done; break;
    }
}

void ig_load_progress_end(void *user) {
    ig_cli *cli = user;
    ig_load_progress *c = &cli->compiling;
    if (c->open) ig_meter_end(&c->meter, 0, "stopped");
    c->open = false;
    if (c->from_cache > 0)
        ig_cli_say(cli, "compile: programs from the cache: %llu",
                   (unsigned long long)c->from_cache);
    char bytes[IG_UNIT_TEXT_BYTES];
    if (c->weights_from > 0)
        ig_cli_say(cli, "pack: %s of weights from the cache",
                   ig_bytes_text(c->weights_from, bytes));
    if (c->weights_to > 0)
        ig_cli_say(cli, "pack: %s of weights stored in the cache",
                   ig_bytes_text(c->weights_to, bytes));
    c->from_cache = c->weights_from = c->weights_to = 0;
}
