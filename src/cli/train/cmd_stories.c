/* ingot stories - prints generated English stories to train on. */
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/train/stories.h"

typedef struct stories_options {
    uint64_t bytes;
    int64_t seed;
} stories_options;

/* Output of stories: stdout, or a JSON array. */
typedef struct sink {
    ig_cli *cli;
    json_t *stories; /* NULL: stdout */
    uint64_t bytes, count;
} sink;

enum { EMPTY_LINE_BYTES = 2 }; /* at the end of each story */

static ig_status put(void *user, const char *story, size_t n_bytes) {
    sink *s = user;
    if (ig_cli_cancelled(s->cli))
        return IG_FAIL(IG_ERR_CANCELLED, "stopped after %llu stories",
                       (unsigned long long)s->count);
    s->bytes += n_bytes;
    s->count++;
    if (!s->stories) {
        fwrite(story, 1, n_bytes, stdout); /* errors are checked at the end of the program */
        return IG_OK;
    }
    json_t *text = json_stringn(story, n_bytes - EMPTY_LINE_BYTES);
    return json_array_append_new(s->stories, text) == 0
               ? IG_OK
               : IG_FAIL(IG_ERR_MEMORY, "no memory for story %llu", (unsigned long long)s->count);
}

static ig_status run_json(sink *s, const stories_options *o) {
    s->stories = json_array();
    if (!s->stories) return IG_FAIL(IG_ERR_MEMORY, "no memory for stories");
    const ig_status status = ig_stories_write((uint64_t)o->seed, o->bytes, put, s);
    if (status != IG_OK) {
        json_decref(s->stories);
        return status;
    }
    return ig_run_result(s->cli,
                         json_pack("{s:s, s:I, s:I, s:I, s:o}", "schema", "ingot.stories.v1",
                                   "seed", (json_int_t)o->seed, "bytes", (json_int_t)s->bytes,
                                   "count", (json_int_t)s->count, "stories", s->stories));
}

static ig_status run(ig_cli *cli, const void *options) {
    const stories_options *o = options;
    sink s = {.cli = cli};
    if (cli->json) return run_json(&s, o);
    IG_TRY(ig_stories_write((uint64_t)o->seed, o->bytes, put, &s));
    char count[IG_UNIT_TEXT_BYTES], bytes[IG_UNIT_TEXT_BYTES];
    ig_cli_say(cli, "stories: %s, %s", ig_count_text(s.count, count),
               ig_bytes_text(s.bytes, bytes));
    return IG_OK;
}

static const ig_opt opts[] = {
    {OPT_BYTES, 0, "bytes", offsetof(stories_options, bytes),
     .help = "total size; the last story is complete", .value = "SIZE", .initial = "1M", .low = 1,
     .high = 1 << 28},
    {OPT_INT, 's', "seed", offsetof(stories_options, seed),
     .help = "RNG seed; equal seeds give equal text", .value = "N", .initial = "0", .low = 0,
     .high = 9e18},
    {0},
};

static const char *const examples[] = {
    "ingot stories > stories.txt",
    "A megabyte to train on.",
    "ingot stories --bytes 2K --seed 7",
    "A few stories, to read.",
    NULL,
};

const ig_command cmd_stories = {
    .name = "stories",
    .summary = "print short stories to train a language model on",
    .about =
        "Prints synthetic short stories in English, generated from templates with a vocabulary "
        "of a few hundred words, so that a small model can learn to write them. An empty "
        "line ends each story. No two stories of a seed are equal.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(stories_options),
    .cancels = true,
    .run = run,
};
