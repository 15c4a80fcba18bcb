/*
 * ingot cache - lists, verifies and prunes the compile cache.
 */
#include <jansson.h>
#include <string.h>

#include "base/cache_folder.h"
#include "base/digests.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

typedef struct cache_options {
    const char *action, *key;
    uint64_t max_bytes;
} cache_options;

typedef struct cache {
    ig_cli *cli;
    const cache_options *options;
    char folder[PATH_MAX]; /* of the compiled programs */
    char digests[PATH_MAX + 16];
    ig_cache_entry_info *list; /* least recently used first */
    size_t count;
} cache;

/* ---- inputs: "name=value" lines ---- */

/* The "name=value" lines of an entry or of one of its parts. */
typedef struct lines {
    const char *at;
    size_t bytes;
} lines;

/* The value of line `name`; false and "": there is no such line. */
static bool find_value(lines l, const char *name, char *out, size_t bytes) {
    const size_t length = strlen(name);
    const char *at = l.at, *end = l.at + l.bytes;
    out[0] = '\0';
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) break;
        if ((size_t)(stop - at) > length && memcmp(at, name, length) == 0 && at[length] == '=') {
            const size_t value = (size_t)(stop - at) - length - 1;
            snprintf(out, bytes, "%.*s", (int)(value < bytes ? value : bytes - 1), at + length + 1);
            return true;
        }
        at = stop + 1;
    }
    return false;
}

static const char *value_of(lines l, const char *name, char *out, size_t bytes) {
    (void)find_value(l, name, out, bytes);
    return out;
}

/* All input names; programs and packed weights each use some of them. */
static const char *const input_names[] = {
    "abi",       "layout",       "packed_bytes", "backend", "version", "architecture",
    "n_steps",   "weight_bytes", "steps",        "dtypes",  "weights", "optimization_level",
    "precision", "batch_sizes",  "rows",         "shapes",  "places"};
enum { INPUTS = sizeof input_names / sizeof input_names[0], VALUE_BYTES = 256 };

static lines inputs_of(const ig_cache_entry *e) { return (lines){e->inputs, e->inputs_bytes}; }

/* Input i of an entry, or of its newest part; false: it has none. */
static bool input_of(const ig_cache_entry *e, int i, char out[VALUE_BYTES]) {
    if (find_value(inputs_of(e), input_names[i], out, VALUE_BYTES)) return true;
    if (e->n_parts == 0) return false;
    const ig_cache_entry_part part = ig_cache_entry_part_at(e, e->n_parts - 1);
    return find_value((lines){part.inputs, part.inputs_bytes}, input_names[i], out, VALUE_BYTES);
}

static bool same_input(const ig_cache_entry *a, const ig_cache_entry *b, int i) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    return input_of(a, i, x) == input_of(b, i, y) && strcmp(x, y) == 0;
}

/* "1,8,64": the batch sizes for which the entry has programs. */
static const char *batches_of(const ig_cache_entry *e, char out[VALUE_BYTES]) {
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < e->n_parts && used + 24 < VALUE_BYTES; i++) {
        const ig_cache_entry_part part = ig_cache_entry_part_at(e, i);
        char rows[24];
        value_of((lines){part.inputs, part.inputs_bytes}, "rows", rows, sizeof rows);
        used += (size_t)snprintf(out + used, VALUE_BYTES - used, "%s%s", used ? "," : "", rows);
    }
    return out;
}

/* ---- actions ---- */

static double share(uint64_t found, uint64_t made) {
    return found + made > 0 ? (double)found / (double)(found + made) : 0;
}

static ig_status stats(const cache *c) {
    uint64_t bytes = 0;
    char text[IG_UNIT_TEXT_BYTES];
    const ig_cache_entry_counts n = ig_cache_entries_counts(c->folder);
    const double rate = share(n.hits, n.misses);
    const double weights_rate = share(n.weights_found, n.weights_packed);
    for (size_t i = 0; i < c->count; i++) bytes += c->list[i].bytes;
    if (c->cli->json)
        return ig_run_result(
            c->cli,
            json_pack("{s:s, s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:{s:I, s:I, s:f}}",
                      "schema", "ingot.cache.v1", "folder", c->folder, "entries",
                      (json_int_t)c->count, "bytes", ig_json_count(bytes), "hits",
                      (json_int_t)n.hits, "misses", (json_int_t)n.misses, "damaged",
                      (json_int_t)n.damaged, "stored", (json_int_t)n.stored, "hit_rate", rate,
                      "compile_ms", (double)n.compile_ns / 1e6, "weights", "hits",
                      (json_int_t)n.weights_found, "misses", (json_int_t)n.weights_packed,
                      "hit_rate", weights_rate));
    printf("%s: %zu entries, %s\n", c->folder, c->count, ig_bytes_text(bytes, text));
    printf("%llu hits, %llu misses compiled in %.3f s, %llu damaged: hit rate %.1f %%\n",
           (unsigned long long)n.hits, (unsigned long long)n.misses, (double)n.compile_ns / 1e9,
           (unsigned long long)n.damaged, 100 * rate);
    printf("packed weights: %llu hits, %llu misses: hit rate %.1f %%\n",
           (unsigned long long)n.weights_found, (unsigned long long)n.weights_packed,
           100 * weights_rate);
    return IG_OK;
}

static json_t *describe(const ig_cache_entry *e, const ig_cache_entry_info *info) {
    char value[VALUE_BYTES];
    json_t *row = json_pack("{s:s%, s:s, s:o, s:I, s:I, s:s}", "key", info->file, (size_t)32,
                            "file", info->file, "bytes", ig_json_count(info->bytes), "used_ns",
                            (json_int_t)info->used_ns, "programs", (json_int_t)e->n_parts, "rows",
                            batches_of(e, value));
    for (int i = 0; row && i < INPUTS; i++)
        if (find_value(inputs_of(e), input_names[i], value, sizeof value))
            json_object_set_new(row, input_names[i], ig_json_text(value));
    return row;
}

/* Prints a program, or weights in a packed layout. */
static void print_what(const ig_cache_entry *e) {
    char value[VALUE_BYTES];
    if (value_of(inputs_of(e), "layout", value, sizeof value)[0]) {
        printf("weights, %s", value);
        printf(", %s\n", value_of(inputs_of(e), "dtypes", value, sizeof value));
        return;
    }
    printf("%s", value_of(inputs_of(e), "backend", value, sizeof value));
    printf(", %s steps", value_of(inputs_of(e), "n_steps", value, sizeof value));
    printf(", batch sizes %s\n", batches_of(e, value));
}

static ig_status ls(const cache *c) {
    json_t *rows = json_array();
    char text[IG_UNIT_TEXT_BYTES];
    for (size_t i = c->count; i-- > 0;) { /* most recently used first */
        ig_cache_entry e;
        if (ig_cache_entry_look(c->folder, c->list[i].file, &e) != IG_OK) continue;
        if (c->cli->json) {
            json_array_append_new(rows, describe(&e, &c->list[i]));
        } else {
            printf("%s  %9s  ", c->list[i].file, ig_bytes_text(c->list[i].bytes, text));
            print_what(&e);
        }
        ig_cache_entry_close(&e);
    }
    if (c->cli->json)
        return ig_run_result(c->cli,
                             json_pack("{s:s, s:o}", "schema", "ingot.cache.v1", "entries", rows));
    json_decref(rows);
    return IG_OK;
}

/* Reads every entry and removes bad ones, as a run would. Checks recorded file digests against the
 * files. */
static ig_status verify(const cache *c) {
    size_t bad = 0;
    for (size_t i = 0; i < c->count; i++) {
        ig_cache_entry e;
        const ig_status status = ig_cache_entry_look(c->folder, c->list[i].file, &e);
        if (status == IG_OK) {
            ig_cache_entry_close(&e);
            continue;
        }
        bad++;
        (void)ig_cache_entry_remove(c->folder, c->list[i].file);
        if (!c->cli->json) printf("%s: damaged, removed\n", c->list[i].file);
    }
    const ig_digests_state files = ig_digests_verify(c->digests);
    if (c->cli->json)
        return ig_run_result(
            c->cli, json_pack("{s:s, s:I, s:I, s:{s:I, s:I, s:I}}", "schema", "ingot.cache.v1",
                              "sound", (json_int_t)(c->count - bad), "damaged", (json_int_t)bad,
                              "digests", "sound", (json_int_t)files.sound, "stale",
                              (json_int_t)files.stale, "wrong", (json_int_t)files.wrong));
    printf("%zu valid, %zu damaged\n", c->count - bad, bad);
    printf("file digests: %zu valid, %zu stale, %zu wrong\n", files.sound, files.stale,
           files.wrong);
    return IG_OK;
}

/* The entry that shares most inputs with this one. */
static ig_status find_nearest(const cache *c, const ig_cache_entry *of, const char *file,
                              ig_cache_entry *out, const char **out_file) {
    int best = -1;
    for (size_t i = c->count; i-- > 0;) {
        ig_cache_entry e;
        int same = 0;
        if (strcmp(c->list[i].file, file) == 0) continue;
        if (ig_cache_entry_look(c->folder, c->list[i].file, &e) != IG_OK) continue;
        for (int k = 0; k < INPUTS; k++) same += same_input(of, &e, k);
        if (same > best) {
            if (best >= 0) ig_cache_entry_close(out);
            *out = e;
            *out_file = c->list[i].file;
            best = same;
        } else {
            ig_cache_entry_close(&e);
        }
    }
    return best >= 0
               ? IG_OK
               : IG_FAIL(IG_ERR_ARGUMENT, "cache why: there is no other entry to compare with");
}

static ig_status compare(const cache *c, const ig_cache_entry *e, const char *file,
                         const ig_cache_entry *near, const char *near_file) {
    json_t *inputs = json_object(), *differ = json_array();
    if (!c->cli->json)
        printf("%s\ninputs of its key, and how they differ from %s:\n", file, near_file);
    for (int i = 0; i < INPUTS; i++) {
        char x[VALUE_BYTES], y[VALUE_BYTES];
        const bool here = input_of(e, i, x), there = input_of(near, i, y);
        const bool other = strcmp(x, y) != 0;
        if (!here && !there) continue;
        json_object_set_new(inputs, input_names[i], ig_json_text(x));
        if (other) json_array_append_new(differ, json_string(input_names[i]));
        if (!c->cli->json)
            printf("%s %-18s %s%s%s\n", other ? "!" : " ", input_names[i], x,
                   other ? "   there: " : "", other ? y : "");
    }
    if (c->cli->json)
        return ig_run_result(c->cli,
                             json_pack("{s:s, s:s%, s:s%, s:o, s:o}", "schema", "ingot.cache.v1",
                                       "key", file, (size_t)32, "nearest", near_file, (size_t)32,
                                       "inputs", inputs, "differ", differ));
    json_decref(inputs);
    json_decref(differ);
    return IG_OK;
}

/* The most recently used file with this prefix; NULL `key`: of all. */
static const char *find_key(const cache *c, const char *key) {
    for (size_t i = c->count; i-- > 0;)
        if (!key || strncmp(c->list[i].file, key, strlen(key)) == 0) return c->list[i].file;
    return NULL;
}

static ig_status why(const cache *c) {
    const char *file = find_key(c, c->options->key), *near_file = NULL;
    if (!file)
        return IG_FAIL(IG_ERR_ARGUMENT, "cache why: no entry%s%s", c->options->key ? " " : "",
                       c->options->key ? c->options->key : "");
    ig_cache_entry e, near = {0};
    IG_TRY(ig_cache_entry_look(c->folder, file, &e));
    ig_status status = find_nearest(c, &e, file, &near, &near_file);
    if (status == IG_OK) status = compare(c, &e, file, &near, near_file);
    ig_cache_entry_close(&near);
    ig_cache_entry_close(&e);
    return status;
}

static ig_status remove_some(const cache *c, uint64_t most) {
    size_t removed = 0;
    IG_TRY(ig_cache_entries_prune(&c->cli->allocator, c->folder, most, &removed));
    ig_digests_prune(c->digests);
    if (c->cli->json)
        return ig_run_result(c->cli, json_pack("{s:s, s:I, s:I}", "schema", "ingot.cache.v1",
                                               "removed", (json_int_t)removed, "entries",
                                               (json_int_t)(c->count - removed)));
    printf("%zu removed, %zu left\n", removed, c->count - removed);
    return IG_OK;
}

static ig_status prune(const cache *c) { return remove_some(c, c->options->max_bytes); }
static ig_status clear(const cache *c) { return remove_some(c, 0); }

static const char *const actions[] = {"stats", "ls", "verify", "why", "prune", "clear", NULL};

static ig_status run(ig_cli *cli, const void *options) {
    static ig_status (*const functions[])(const cache *c) = {stats, ls, verify, why, prune, clear};
    cache c = {.cli = cli, .options = options};
    char top[PATH_MAX];
    size_t action = 0;
    while (actions[action] && strcmp(actions[action], c.options->action) != 0) action++;
    if (!actions[action])
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "ACTION '%s': expected stats, ls, verify, why, prune or clear",
                       c.options->action);
    const ig_ctx_options ctx_options = ig_cli_ctx_options(cli);
    IG_TRY(ig_cache_dir(&ctx_options, top, sizeof top));
    const int length = snprintf(c.folder, sizeof c.folder, "%s/programs", top);
    snprintf(c.digests, sizeof c.digests, "%s/digests", top);
    if (length < 0 || (size_t)length >= sizeof c.folder)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: too long", top);
    IG_TRY(ig_cache_entries_list(&cli->allocator, c.folder, &c.list, &c.count));
    const ig_status status = functions[action](&c);
    ig_free(&cli->allocator, c.list);
    return status;
}

#define OPTION(field) offsetof(cache_options, field)

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "ACTION", OPTION(action), .help = "stats, ls, verify, why, prune or clear",
     .choices = actions, .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_TEXT, 0, "KEY", OPTION(key),
     .help = "why: the entry to explain, or a prefix of its name (default: the last used)",
     .flags = OPT_POSITIONAL},
    {OPT_BYTES, 0, "max-bytes", OPTION(max_bytes), .help = "prune: total size to keep",
     .value = "BYTES", .initial = "1G"},
    {0},
};

static const char *const examples[] = {
    "ingot cache stats",
    "Number of entries, total size and hit rate.",
    "ingot cache why",
    "What the last used entry is for, and how its key differs from the most similar one.",
    NULL,
};

const ig_command cmd_cache = {
    .name = "cache",
    .summary = "manage the compile cache",
    .about =
        "The compile cache keeps compiled programs on disk, so that the next run does not compile "
        "them again. The key is a digest of steps, shapes, dtypes, memory layout, weights, "
        "options, and the device's backend, version and architecture. The programs of one model "
        "for several batch sizes are one entry.\n\nstats prints the number of entries and the hit "
        "rate, ls lists the entries, verify reads each and removes damaged ones, why prints the "
        "inputs of an entry's key and how they differ from the most similar entry, prune removes "
        "the least recently used entries, and clear removes all.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(cache_options),
    .run = run,
};
