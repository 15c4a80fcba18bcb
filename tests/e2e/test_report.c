/*
 * The run report: every command writes it, with --json and with --report, after success and
 * failure, and all reports have the same shape.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- The shape ---- */

enum {
    NUL = 1 << 0,
    TEXT = 1 << 1,
    WHOLE = 1 << 2,
    REAL = 1 << 3,
    OBJECT = 1 << 4,
    LIST = 1 << 5,
    TRUTH = 1 << 6,
    NUMBER = WHOLE | REAL,
};

static unsigned kind_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL: return NUL;
    case JSON_STRING: return TEXT;
    case JSON_INTEGER: return WHOLE;
    case JSON_REAL: return REAL;
    case JSON_OBJECT: return OBJECT;
    case JSON_ARRAY: return LIST;
    default: return TRUTH;
    }
}

typedef struct rule {
    const char *name; /* NULL at the end */
    unsigned kinds;
} rule;

static void check_shape(const char *where, const json_t *object, const rule *rules) {
    assert_true(json_is_object(object));
    for (const rule *r = rules; r->name; r++) {
        const json_t *value = json_object_get(object, r->name);
        if (!value) fail_msg("%s: %s is missing", where, r->name);
        if (!(kind_of(value) & r->kinds)) fail_msg("%s: %s is of another kind", where, r->name);
    }
}

static void check_each(const char *where, const json_t *list, const rule *rules) {
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) check_shape(where, item, rules);
}

static const rule report_rules[] = {
    {"schema_version", TEXT},
    {"run_id", TEXT},
    {"task", TEXT},
    {"model", NUL | TEXT},
    {"backend", NUL | TEXT},
    {"job_id", NUL | TEXT},
    {"trace_id", NUL | TEXT},
    {"worker_id", NUL | TEXT},
    {"enqueued_at_ms", WHOLE},
    {"queue_wait_ms", NUMBER},
    {"execution_mode", NUL | TEXT},
    {"timings", OBJECT},
    {"memory", NUL | OBJECT},
    {"backend_timeline", LIST},
    {"config_resolved", OBJECT},
    {"artifacts", LIST},
    {"error", NUL | OBJECT},
    {"latent_stats", NUL | OBJECT},
    {"cache_hits", OBJECT},
    {"device_placement", OBJECT},
    {"batch_size", NUL | WHOLE},
    {"batch_group_id", NUL | TEXT},
    {"stream_events", LIST},
    {"fallbacks", LIST},
    {NULL, 0},
};
static const rule memory_rules[] = {{"allocated_bytes", WHOLE},
                                    {"peak_bytes", WHOLE},
                                    {"packed_bytes", WHOLE},
                                    {"available_bytes", WHOLE | NUL},
                                    {NULL, 0}};
static const rule stats_rules[] = {
    {"mean", NUMBER}, {"std", NUMBER}, {"p50", NUMBER}, {"p95", NUMBER}, {NULL, 0}};
static const rule error_rules[] = {
    {"name", TEXT}, {"message", TEXT}, {"exit_code", WHOLE}, {"hint", TEXT}, {NULL, 0}};
static const rule entry_rules[] = {
    {"module", TEXT}, {"device", TEXT}, {"attempts", LIST}, {NULL, 0}};
static const rule attempt_rules[] = {
    {"level", TEXT}, {"ok", TRUTH}, {"reason", TEXT}, {"selected", TRUTH}, {NULL, 0}};
static const rule fallback_rules[] = {{"op", TEXT},      {"from", TEXT},  {"to", TEXT},
                                      {"reason", TEXT},  {"runs", WHOLE}, {"bytes_moved", WHOLE},
                                      {"ms_lost", REAL}, {NULL, 0}};
static const rule artifact_rules[] = {{"kind", TEXT}, {"path", TEXT}, {NULL, 0}};
static const rule event_rules[] = {{"event", TEXT}, {"at_ms", NUMBER}, {NULL, 0}};
static const rule hit_rules[] = {{"compile", WHOLE}, {"prefix", WHOLE}, {NULL, 0}};

static const char *text(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

/* Three attempts, of which at most one is selected; the others have a reason. */
static void check_timeline(const char *where, const json_t *timeline) {
    static const char *const levels[] = {"compile", "kernel_override", "eager"};
    size_t i, k;
    json_t *entry, *attempt;
    check_each(where, timeline, entry_rules);
    json_array_foreach(timeline, i, entry) {
        const json_t *attempts = json_object_get(entry, "attempts");
        int selected = 0;
        assert_int_equal(json_array_size(attempts), 3);
        check_each(where, attempts, attempt_rules);
        json_array_foreach(attempts, k, attempt) {
            const bool chosen = json_is_true(json_object_get(attempt, "selected"));
            selected += chosen;
            assert_string_equal(text(attempt, "level"), levels[k]);
            if (chosen == !*text(attempt, "reason")) continue;
            fail_msg("%s: %s of %s has the reason '%s'", where, levels[k], text(entry, "module"),
                     text(attempt, "reason"));
        }
        assert_true(selected <= 1); /* none, if another device had to run it */
    }
}

static void check_numbers(const char *where, const json_t *object, unsigned kinds) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (!(kind_of(value) & kinds)) fail_msg("%s: %s is not a number", where, key);
        if (json_number_value(value) < 0) fail_msg("%s: %s is below 0", where, key);
    }
}

static void check_report(const char *where, const json_t *r) {
    const json_t *memory = json_object_get(r, "memory"), *error = json_object_get(r, "error");
    check_shape(where, r, report_rules);
    assert_string_equal(text(r, "schema_version"), "1.0.0");
    check_numbers(where, json_object_get(r, "timings"), NUMBER);
    assert_true(json_is_number(json_object_get(json_object_get(r, "timings"), "total_ms")));
    check_numbers(where, json_object_get(r, "device_placement"), WHOLE);
    check_shape(where, json_object_get(r, "cache_hits"), hit_rules);
    check_timeline(where, json_object_get(r, "backend_timeline"));
    check_each(where, json_object_get(r, "fallbacks"), fallback_rules);
    check_each(where, json_object_get(r, "artifacts"), artifact_rules);
    check_each(where, json_object_get(r, "stream_events"), event_rules);
    if (json_is_object(memory)) check_shape(where, memory, memory_rules);
    if (json_is_object(error)) check_shape(where, error, error_rules);
    if (json_is_object(json_object_get(r, "latent_stats")))
        check_shape(where, json_object_get(r, "latent_stats"), stats_rules);
    if (json_is_string(json_object_get(r, "backend")) && !json_is_object(memory))
        assert_string_equal(text(r, "task"), "plugin"); /* all other tasks have opened a device */
}

/* ---- Running ---- */

static json_t *parse(const char *where, const char *bytes) {
    json_error_t error;
    json_t *root = json_loads(bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: %s in '%s'", where, error.text, bytes);
    return root;
}

/* Every key of a report is documented in docs/telemetry.md with its path. The keys of two objects
 * are names: of options, and of devices. */
static void check_documented(const char *where, const char *page, const char *path,
                             const json_t *value) {
    char full[256], quoted[sizeof full + 16];
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(value, i, member) {
        snprintf(full, sizeof full, "%s[]", path);
        check_documented(where, page, full, member);
    }
    if (strcmp(path, "config_resolved.options") == 0 || strcmp(path, "device_placement") == 0)
        return;
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", key);
        snprintf(quoted, sizeof quoted, "| `%s` |", full);
        if (!strstr(page, quoted)) fail_msg("%s: %s is not in docs/telemetry.md", where, full);
        check_documented(where, page, full, member);
    }
}

static char *read_page(void) {
    const int fd = open(TEST_DATA_DIR "/../../docs/telemetry.md", O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("no docs/telemetry.md");
    char *page = program_read_all(fd, NULL);
    close(fd);
    return page;
}

/* Runs a command, given as words separated by spaces, in a folder with --json and --report; the
 * caller owns the file's report. */
static json_t *report_of(void **state, const char *words, int code, bool lines) {
    enum { MOST = 40 };
    char copy[1024], path[PATH_BYTES];
    const char *args[MOST] = {0};
    int count = 0;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word && count < MOST - 4; word = strtok(NULL, " "))
        args[count++] = word;
    args[count++] = "--json";
    args[count++] = "--report";
    args[count++] = directory_path(state, "report.json", path);
    unlink(path);
    program_result r = program_run(INGOT_PROGRAM, args, NULL);
    if (r.code != code) fail_msg("%s: exit %d, not %d: %s", words, r.code, code, r.err);
    const char *last = r.out;
    for (const char *at = r.out; lines && (at = strchr(at, '\n')) && at[1];) last = ++at;
    json_t *printed = parse(words, last);
    check_report(words, printed);
    json_error_t error;
    json_t *written = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!written) fail_msg("%s: %s: %s", words, path, error.text);
    check_report(words, written);
    char *page = read_page();
    check_documented(words, page, "", written);
    free(page);
    assert_string_equal(text(written, "run_id"), text(printed, "run_id"));
    assert_true(json_equal(json_object_get(written, "error"), json_object_get(printed, "error")));
    if (code == 0 && strncmp(words, "chat", 4) != 0)
        assert_non_null(json_object_get(printed, "schema")); /* the command's own fields */
    const json_t *failure = json_object_get(written, "error");
    if (code == 0) assert_true(json_is_null(failure));
    if (code != 0)
        assert_int_equal(json_integer_value(json_object_get(failure, "exit_code")), code);
    json_decref(printed);
    program_free(&r);
    return written;
}

static const char *model_in(void **state, const char *name, char path[PATH_BYTES]) {
    if (model_save(name, IG_F32, directory_path(state, "m.gguf", path)) != IG_OK)
        fail_msg("%s", ig_error_text());
    return path;
}

/* ---- Tests ---- */

/* Replaces "@" by the folder. */
static const char *in_folder(void **state, const char *words, char *out, size_t room) {
    size_t used = 0;
    for (const char *at = words; *at && used + PATH_BYTES < room; at++)
        used += (size_t)snprintf(out + used, room - used, *at == '@' ? "%s" : "%.1s",
                                 *at == '@' ? (const char *)*state : at);
    return out;
}

static void every_command_reports_in_one_shape(void **state) {
    static const struct {
        const char *words;
        const char *artifact; /* the first; NULL: none */
        bool model, device;   /* whether the report names them */
    } rows[] = {
        {"stories --bytes 20K", NULL, false, false},
        {"train -q -d @/t.txt --steps 4 --d-model 16 --layers 1 --heads 2 --d-ff 32 --ctx 16"
         " --out @/a.oam --plot @/a.svg --log @/a.log",
         "log", true, true},
        {"generate -m @/a.oam -p once -n 4", NULL, true, true},
        {"generate -m @/m.gguf -p the -n 4 --prompt-cache @/p", "prompt_cache", true, true},
        {"logits -m @/m.gguf -p the", NULL, true, true},
        {"perplexity -m @/m.gguf -f @/t.txt --chunks 1 -c 32", NULL, true, true},
        {"embed -m @/m.gguf -p the", NULL, true, true},
        {"tokenize -m @/m.gguf -p the", NULL, true, false},
        {"parity -m @/m.gguf --devices ref,cpu", NULL, true, true},
        {"inspect @/m.gguf", NULL, true, false},
        {"inspect @/a.oam", NULL, true, false},
        {"quantize @/m.gguf @/q.gguf Q8_0", "model", true, false},
        {"export @/a.oam @/e.oam", "model", true, true},
        {"plan --svg @/p.svg", "svg", true, true},
        {"demo -q --steps 5 --out @", "plot", true, true},
        {"bench train -q --steps 6", NULL, true, true},
        {"bench model -m @/m.gguf -p 8 -n 4 --runs 1", NULL, true, true},
        {"devices", NULL, false, false},
        {"archs", NULL, false, false},
        {"info", NULL, false, true},
        {"cache stats", NULL, false, false},
        {"plugin check " EXAMPLE_PLUGIN " --op add", NULL, false, false},
        {"completion bash", NULL, false, false},
        {"version", NULL, false, false},
        {"help", NULL, false, false},
    };
    char path[PATH_BYTES], words[4096], make[2 * PATH_BYTES];
    model_in(state, "llama", path);
    snprintf(make, sizeof make, "%s stories -q --bytes 20K >%s", INGOT_PROGRAM,
             directory_path(state, "t.txt", path));
    assert_int_equal(system(make), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        in_folder(state, rows[i].words, words, sizeof words);
        json_t *r = report_of(state, words, 0, false);
        const size_t task = strcspn(words, " ");
        assert_memory_equal(text(r, "task"), words, task);
        assert_int_equal(json_is_string(json_object_get(r, "model")), rows[i].model);
        if (rows[i].device) {
            assert_true(json_is_string(json_object_get(r, "backend")));
            assert_true(json_is_object(json_object_get(r, "memory")));
        }
        const json_t *artifact = json_array_get(json_object_get(r, "artifacts"), 0);
        if (rows[i].artifact)
            assert_string_equal(text(artifact, "kind"), rows[i].artifact);
        else
            assert_null(artifact);
        json_decref(r);
    }
}

static void generation_tells_its_stages_its_steps_and_its_last_state(void **state) {
    static const char *const stages[] = {"load_ms",       "tokenize_ms",   "prefill_ms",
                                         "decode_ms",     "detokenize_ms", "compile_ms",
                                         "first_token_ms"};
    char path[PATH_BYTES], words[1024];
    snprintf(words, sizeof words, "generate -m %s -p the -n 6 --temp 0 --device cpu",
             model_in(state, "llama", path));
    json_t *r = report_of(state, words, 0, false);
    const json_t *timings = json_object_get(r, "timings");
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (!json_is_number(json_object_get(timings, stages[i])))
            fail_msg("%s is missing", stages[i]);
    double sum = 0;
    for (size_t i = 0; i < 4; i++) sum += json_number_value(json_object_get(timings, stages[i]));
    assert_true(sum <= json_number_value(json_object_get(timings, "total_ms")));
    assert_true(json_is_object(json_object_get(r, "latent_stats")));
    assert_true(json_number_value(json_object_get(json_object_get(r, "latent_stats"), "std")) > 0);
    const json_t *steps = json_object_get(json_object_get(r, "device_placement"), "cpu:0");
    assert_true(json_integer_value(steps) > 40); /* those of the session, not only of single ops */
    assert_int_equal(json_integer_value(json_object_get(r, "batch_size")), 1);
    assert_string_equal(text(r, "flow"), "cpu direct");
    assert_string_equal(text(r, "execution_mode"), "compiled"); /* sessions use captures */
    assert_true(json_equal(json_object_get(json_object_get(r, "recordings"), "count"),
                           json_object_get(json_object_get(r, "counters"), "records")));
    const json_t *options = json_object_get(json_object_get(r, "config_resolved"), "options");
    assert_int_equal(json_integer_value(json_object_get(options, "n-predict")), 6);
    assert_true(json_is_null(json_object_get(options, "chat-template")));
    static const char *const events[] = {"load", "prefill", "first_token", "decode"};
    const json_t *list = json_object_get(r, "stream_events");
    assert_int_equal(json_array_size(list), 4);
    double before = 0;
    for (size_t i = 0; i < 4; i++) {
        const json_t *event = json_array_get(list, i);
        const double at = json_number_value(json_object_get(event, "at_ms"));
        assert_string_equal(text(event, "event"), events[i]);
        assert_true(at >= before);
        before = at;
    }
    json_decref(r);
}

static void what_is_taken_and_what_is_left_is_the_limit(void **state) {
    enum { LIMIT = 6 << 20 };
    char path[PATH_BYTES], words[1024];
    assert_int_equal(model_save("llama", IG_Q4_K, directory_path(state, "q.gguf", path)), IG_OK);
    snprintf(words, sizeof words, "logits -m %s -p the --device cpu --memory-limit 6M", path);
    json_t *r = report_of(state, words, 0, false), *memory = json_object_get(r, "memory");
    const json_int_t packed = json_integer_value(json_object_get(memory, "packed_bytes"));
    assert_true(packed > 0);
    assert_int_equal(json_integer_value(json_object_get(memory, "allocated_bytes")) + packed +
                         json_integer_value(json_object_get(memory, "available_bytes")),
                     LIMIT);
    json_decref(r);
}

static void a_prompt_that_was_read_before_is_a_hit(void **state) {
    char path[PATH_BYTES], words[2048];
    model_in(state, "llama", path);
    snprintf(words, sizeof words,
             "generate -m %s -p the-world-and-the-world -n 2 --temp 0 --prompt-cache %s/p", path,
             (const char *)*state);
    for (int warm = 0; warm < 2; warm++) {
        json_t *r = report_of(state, words, 0, false);
        const json_t *hits = json_object_get(json_object_get(r, "cache_hits"), "prefix");
        assert_int_equal(json_integer_value(hits) > 4, warm);
        json_decref(r);
    }
}

static void failures_have_names(void **state) {
    static const struct {
        const char *words;
        int code;
        const char *name;
    } rows[] = {
        {"generate -m @/m.gguf", 2, "InvalidArgument"},
        {"generate -m @/m.gguf -p a --temp warm", 2, "InvalidArgument"},
        {"generate -m @/bad.gguf -p a", 3, "WeightFormat"},
        {"generate -m @/other.gguf -p a", 3, "ModelNotRegistered"},
        {"train -q -d @/m.gguf --arch parrot --steps 1", 2, "InvalidArgument"},
        {"generate -m @/m.gguf -p a --device vulcan", 5, "BackendUnavailable"},
        {"generate -m @/none.gguf -p a", 6, "InputOutput"},
        {"plugin check @/hollow.so", 5, "DependencyUnavailable"},
    };
    char path[PATH_BYTES], words[4096];
    FILE *bad = fopen(directory_path(state, "bad.gguf", path), "w");
    fputs("GGUF and nothing else", bad);
    fclose(bad);
    model_bytes made;
    assert_int_equal(model_make("llama", IG_F32, &made), IG_OK);
    char *arch = memmem(made.bytes, made.size, "llama", 5);
    arch[1] = 'h'; /* another architecture */
    FILE *other = fopen(directory_path(state, "other.gguf", path), "w");
    assert_int_equal(fwrite(made.bytes, 1, made.size, other), made.size);
    fclose(other);
    free(made.bytes);
    char build[4 * PATH_BYTES];
    snprintf(build, sizeof build, "cp %s %s/hollow.so && printf X >%s/hollow.so", EXAMPLE_PLUGIN,
             (const char *)*state, (const char *)*state);
    assert_int_equal(system(build), 0);
    model_in(state, "llama", path);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        in_folder(state, rows[i].words, words, sizeof words);
        json_t *r = report_of(state, words, rows[i].code, false);
        assert_string_equal(text(json_object_get(r, "error"), "name"), rows[i].name);
        json_decref(r);
    }
}

/* Fails every allocation once: if that ends the run, the report says so. */
static void out_of_memory_is_reported_with_what_there_is(void **state) {
    char path[PATH_BYTES], report[PATH_BYTES], fail[64];
    model_in(state, "llama", path);
    directory_path(state, "report.json", report);
    int seen = 0;
    for (int n = 20; n <= 400; n += 20) {
        snprintf(fail, sizeof fail, "INGOT_TEST_FAIL_ALLOC=%d", n);
        const char *const generate[] = {"generate", "-m", path,       "-p",   "a",
                                        "-n",       "2",  "--report", report, NULL};
        const char *const demo[] = {"demo", "--steps", "2", "-q", "--report", report, NULL};
        program_result r = program_run(INGOT_PROGRAM, n % 40 ? generate : demo,
                                       &(program_options){.env = ARGS(fail)});
        json_error_t why;
        json_t *root = r.code == 4 ? json_load_file(report, 0, &why) : NULL;
        if (root) {
            const json_t *error = json_object_get(root, "error");
            check_report("out of memory", root);
            assert_string_equal(text(error, "name"), "InsufficientMemory");
            assert_true(json_integer_value(json_object_get(error, "estimate")) > 0);
            assert_true(json_integer_value(json_object_get(error, "available")) > 0);
            assert_true(*text(error, "hint"));
            json_decref(root);
            seen++;
        }
        program_free(&r);
        unlink(report);
    }
    assert_true(seen > 3);
}

static void a_run_that_was_stopped_reports_how_far_it_came(void **state) {
    static const int signals[] = {SIGINT, SIGTERM};
    char data[PATH_BYTES], report[PATH_BYTES], out[PATH_BYTES], log[PATH_BYTES], make[2048];
    snprintf(make, sizeof make, "%s stories -q --bytes 20K >%s", INGOT_PROGRAM,
             directory_path(state, "t.txt", data));
    assert_int_equal(system(make), 0);
    directory_path(state, "report.json", report);
    directory_path(state, "a.oam", out);
    directory_path(state, "a.log", log);
    for (int i = 0; i < 2; i++) {
        unlink(log);
        const pid_t pid =
            program_start(INGOT_PROGRAM,
                          ARGS("train", "-q", "-d", data, "--steps", "1000000", "--d-model", "16",
                               "--layers", "1", "--heads", "2", "--ctx", "16", "--out", out,
                               "--log", log, "--report", report),
                          NULL);
        for (int wait = 0; wait < 2000 && access(log, F_OK) != 0; wait++) usleep(10000);
        usleep(200000);
        kill(pid, signals[i]);
        assert_int_equal(program_wait(pid), 128 + signals[i]);
        json_error_t why;
        json_t *root = json_load_file(report, 0, &why);
        if (!root) fail_msg("%s", why.text);
        check_report("stopped", root);
        assert_string_equal(text(json_object_get(root, "error"), "name"), "Cancelled");
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(root, "error"), "exit_code")),
            128 + signals[i]);
        assert_true(json_integer_value(json_object_get(json_object_get(root, "counters"), "ops")) >
                    0);
        assert_int_equal(json_array_size(json_object_get(root, "artifacts")), 2);
        json_decref(root);
    }
}

/* The reader of stdout has gone: the run stops, and the report has its exit code. */
static void a_closed_pipe_is_reported_as_what_it_is(void **state) {
    char path[PATH_BYTES], report[PATH_BYTES], command[6 * PATH_BYTES];
    model_in(state, "llama", path);
    directory_path(state, "report.json", report);
    snprintf(command, sizeof command,
             "(%s generate -m %s -p the -n 100 --ignore-eos --report %s; echo $? >%s/code) | true;"
             " test $(cat %s/code) = 141",
             INGOT_PROGRAM, path, report, (const char *)*state, (const char *)*state);
    assert_int_equal(system(command), 0);
    json_error_t why;
    json_t *root = json_load_file(report, 0, &why);
    if (!root) fail_msg("%s", why.text);
    check_report("closed pipe", root);
    const json_t *error = json_object_get(root, "error");
    assert_string_equal(text(error, "name"), "Cancelled");
    assert_int_equal(json_integer_value(json_object_get(error, "exit_code")), 141);
    json_decref(root);
}

static void chat_ends_its_lines_with_the_report(void **state) {
    char path[PATH_BYTES], command[4 * PATH_BYTES];
    model_in(state, "llama", path);
    snprintf(command, sizeof command,
             "printf 'the\\nand\\n' | %s chat -q -m %s -n 3 --json >%s/out.jsonl", INGOT_PROGRAM,
             path, (const char *)*state);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(directory_path(state, "out.jsonl", path), "r");
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    for (; getline(&line, &room, file) > 0; count++) {
        json_t *root = parse("chat", line);
        if (count < 2) assert_string_equal(text(root, "schema"), "ingot.chat.v1");
        if (count == 2) check_report("chat", root);
        json_decref(root);
    }
    assert_int_equal(count, 3);
    free(line);
    fclose(file);
}

static void parallel_runs_are_named_by_their_starter(void **state) {
    char report[PATH_BYTES];
    directory_path(state, "report.json", report);
    program_result r = program_run(
        INGOT_PROGRAM, ARGS("archs", "--report", report),
        &(program_options){.env = ARGS("INGOT_JOB_ID=j1", "INGOT_TRACE_ID=t2", "INGOT_WORKER_ID=w3",
                                       "INGOT_BATCH_GROUP_ID=b4")});
    assert_int_equal(r.code, 0);
    program_free(&r);
    json_error_t why;
    json_t *root = json_load_file(report, 0, &why);
    check_report("named", root);
    assert_string_equal(text(root, "job_id"), "j1");
    assert_string_equal(text(root, "trace_id"), "t2");
    assert_string_equal(text(root, "worker_id"), "w3");
    assert_string_equal(text(root, "batch_group_id"), "b4");
    json_decref(root);
}

static void an_unknown_command_is_reported_too(void **state) {
    (void)state;
    program_result r = program_run(INGOT_PROGRAM, ARGS("--json", "fly"), NULL);
    assert_int_equal(r.code, 2);
    json_t *root = parse("fly", r.out);
    check_report("fly", root);
    assert_string_equal(text(json_object_get(root, "error"), "name"), "InvalidArgument");
    json_decref(root);
    program_free(&r);
}

static void a_report_that_cannot_be_written_is_said(void **state) {
    (void)state;
    program_result r =
        program_run(INGOT_PROGRAM, ARGS("archs", "--report", "/no/such/folder/r.json"), NULL);
    assert_int_equal(r.code, 6);
    assert_non_null(strstr(r.err, "/no/such/folder/r.json"));
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(every_command_reports_in_one_shape),
        IN_DIRECTORY(generation_tells_its_stages_its_steps_and_its_last_state),
        IN_DIRECTORY(what_is_taken_and_what_is_left_is_the_limit),
        IN_DIRECTORY(a_prompt_that_was_read_before_is_a_hit),
        IN_DIRECTORY(failures_have_names),
        IN_DIRECTORY(out_of_memory_is_reported_with_what_there_is),
        IN_DIRECTORY(a_run_that_was_stopped_reports_how_far_it_came),
        IN_DIRECTORY(a_closed_pipe_is_reported_as_what_it_is),
        IN_DIRECTORY(chat_ends_its_lines_with_the_report),
        IN_DIRECTORY(parallel_runs_are_named_by_their_starter),
        cmocka_unit_test(an_unknown_command_is_reported_too),
        cmocka_unit_test(a_report_that_cannot_be_written_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
