/* `ingot bench` and `ingot plan` as processes: what they print, draw and refuse. Times are not
 * asserted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checks.h"
#include "ingot/report.h"
#include "results.h"
#include "xml.h"

enum { PATH_BYTES = 256 };

static const char stories[] = PROJECT_DIR "/models/stories.oam";

typedef struct fixture {
    char dir[32];
} fixture;

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)
#define RUN_WITH(options, ...) \
    program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, options)
#define ENV(...) (&(program_options){.env = (const char *const[]){__VA_ARGS__, NULL}})

/* A small transformer: the same code as the large one, but fast. */
#define SMALL_GPT "-w", "gpt", "--d-model", "64", "--layers", "1", "-c", "16", "-b", "2"

static int64_t integer(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value)) fail_msg("no integer '%s'", key);
    return json_integer_value(value);
}

static double number(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static char *read_file(const char *path, size_t *out_bytes) {
    FILE *file = fopen(path, "re");
    if (!file) fail_msg("%s is not there", path);
    char *text = program_read_all(fileno(file), out_bytes);
    fclose(file);
    return text;
}

static void in_folder(const fixture *f, const char *name, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s/%s", f->dir, name);
}

/* A field of the run report, which every result also contains. */
static bool is_of_report(const char *key) {
    char text[2048], quoted[64];
    ig_report_json(NULL, text, sizeof text);
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    return strstr(text, quoted) != NULL;
}

/* Asserts exactly these keys, in any order. */
static void check_keys(const json_t *root, const char *const *keys) {
    size_t count = 0;
    for (; keys[count]; count++)
        if (!json_object_get(root, keys[count])) fail_msg("'%s' is missing", keys[count]);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value) {
        bool known = is_of_report(key);
        for (size_t i = 0; i < count; i++) known |= strcmp(key, keys[i]) == 0;
        if (!known) fail_msg("'%s' is not expected", key);
    }
}

/* Asserts that a spread is ordered and above 0. */
static void check_spread(const json_t *root, const char *key) {
    const json_t *spread = json_object_get(root, key);
    assert_true(number(spread, "min") > 0);
    assert_true(number(spread, "min") <= number(spread, "median"));
    assert_true(number(spread, "median") <= number(spread, "max"));
}

/* ---- train ---- */

static void train_prints_exactly_the_keys_that_are_promised(void **state) {
    (void)state;
    static const char *const keys[] = {"schema",
                                       "workload",
                                       "mode",
                                       "batch",
                                       "threads",
                                       "steps",
                                       "warmup",
                                       "final_loss",
                                       "us_per_step",
                                       "samples_per_s",
                                       "records",
                                       "replays",
                                       "dispatches",
                                       "device",
                                       "overhead_ns_per_op",
                                       "us_per_waited_step",
                                       "us_to_issue",
                                       "us_to_replay",
                                       "us_to_replay_after_wait",
                                       "us_per_batch",
                                       "us_of_runtime",
                                       "us_in_kernels",
                                       "samples_per_s_of_kernels",
                                       "peak_rss_bytes",
                                       "instruction_set",
                                       "allocations_per_step",
                                       NULL};
    json_t *root =
        json_of(RUN("bench", "train", "-q", "--json", "--workload", "char-mlp", "--mode",
                    "compiled", "--batch", "8", "--steps", "20", "--threads", "2", "--warmup", "5"),
                "ingot.bench.train.v1");
    check_keys(root, keys);
    assert_string_equal(json_string_value(json_object_get(root, "workload")), "char-mlp");
    assert_string_equal(json_string_value(json_object_get(root, "mode")), "compiled");
    assert_int_equal(integer(root, "batch"), 8);
    assert_int_equal(integer(root, "threads"), 2);
    assert_int_equal(integer(root, "steps"), 20);
    assert_int_equal(integer(root, "warmup"), 5);
    assert_true(number(root, "samples_per_s") > 0);
    assert_true(number(root, "overhead_ns_per_op") > 0);
    assert_true(integer(root, "dispatches") > 0);
    assert_true(integer(root, "peak_rss_bytes") > 1 << 20);
    json_decref(root);
}

static void train_counts_tokens_where_every_position_is_predicted(void **state) {
    (void)state;
    json_t *root = json_of(RUN("bench", "train", "-q", "--json", SMALL_GPT, "-n", "6"),
                           "ingot.bench.train.v1");
    const double ratio = number(root, "tokens_per_s") / number(root, "samples_per_s");
    assert_true(ratio > 15.99 && ratio < 16.01); /* --ctx 16 */
    json_decref(root);
}

/* Asserts the recorder's counts over N steps, and equal losses to the last digit. */
static void the_modes_record_as_they_promise_and_end_in_one_loss(void **state) {
    (void)state;
    static const struct {
        const char *mode, *threads;
        int64_t records, replays;
    } cases[] = {{"dynamic", "1", 0, 0},
                 {"dynamic", "2", 0, 0},
                 {"compiled", "1", 1, 19},
                 {"compiled", "2", 1, 19},
                 {"auto", "2", 1, 17}};
    static const char *const workloads[] = {"char-mlp", "tinyllm"};
    for (size_t w = 0; w < 2; w++) {
        double loss = 0;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            json_t *root =
                json_of(RUN("bench", "train", "-q", "--json", "-w", workloads[w], "-b", "4", "-n",
                            "20", "--mode", cases[i].mode, "-t", cases[i].threads),
                        "ingot.bench.train.v1");
            assert_int_equal(integer(root, "records"), cases[i].records);
            assert_int_equal(integer(root, "replays"), cases[i].replays);
            if (i == 0) loss = number(root, "final_loss");
            assert_true(number(root, "final_loss") == loss);
            json_decref(root);
        }
    }
}

static void replays_of_a_training_step_allocate_nothing(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN("bench", "train", "-q", "--json", "-n", "50"), "ingot.bench.train.v1");
    assert_true(number(root, "allocations_per_step") == 0);
    json_decref(root);
}

static void train_for_people_names_what_was_measured(void **state) {
    (void)state;
    program_result result = RUN("bench", "train", "-n", "8");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "char-mlp, compiled, batch 32"));
    assert_non_null(strstr(result.out, "samples/s"));
    assert_non_null(strstr(result.err, "8/8 steps"));
    program_free(&result);
}

static void wrong_words_of_bench_are_2_and_say_what_would_be_right(void **state) {
    (void)state;
    check_error(RUN("bench"), 2, "WHAT is required");
    check_error(RUN("bench", "rain"), 2, "expected one of train, overhead, roofline, ops");
    check_error(RUN("bench", "train", "-w", "resnet"), 2,
                "'resnet': unknown workload; expected one of char-mlp, tinyllm, gpt");
    check_error(RUN("bench", "train", "--mode", "fast"), 2,
                "must be one of dynamic, compiled, auto");
    check_error(RUN("bench", "train", "-n", "10", "--warmup", "10"), 2, "leaves none to measure");
    check_error(RUN("bench", "train", "--layers", "3"), 2, "char-mlp has a fixed value of 1");
    check_error(RUN("bench", "train", "-w", "gpt", "--d-model", "100"), 2,
                "must be a multiple of 64");
    check_error(RUN("bench", "train", "-w", "gpt", "--layers", "99"), 2, "gpt has at most 64");
    check_error(RUN("bench", "train", "-w", "tinyllm", "-c", "100000"), 2, "the text has only");
    check_error(RUN("bench", "train", "--runs", "2"), 2, "--runs: does not apply to 'bench train'");
    check_error(RUN("bench", "roofline", "-w", "gpt"), 2, "does not apply to 'bench roofline'");
    check_error(RUN("bench", "ops", "--op", "convolve"), 2, "must be one of matmul, add");
    check_error(RUN("plan", "-w", "resnet"), 2, "expected one of char-mlp, tinyllm, gpt");
    check_error(RUN("bench", "train", "--device", "tpu"), 5, "device tpu");
}

/* ---- dump ---- */

static uint64_t little_endian(const char *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | (unsigned char)bytes[i];
    return value;
}

static void dump_holds_weights_text_and_starts(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "job.safetensors", path);
    json_decref(json_of(RUN("bench", "train", "-q", "--json", "-b", "4", "-n", "6", "--dump", path),
                        "ingot.bench.train.v1"));
    size_t n_bytes;
    char *bytes = read_file(path, &n_bytes);
    assert_true(n_bytes > 8);
    const uint64_t length = little_endian(bytes);
    assert_true(length % 8 == 0 && 8 + length < n_bytes);
    json_t *header = json_loadb(bytes + 8, length, 0, NULL);
    assert_non_null(header);

    const json_t *meta = json_object_get(header, "__metadata__");
    assert_string_equal(json_string_value(json_object_get(meta, "workload")), "char-mlp");
    assert_non_null(json_object_get(header, "init.fc1.weight"));
    const json_t *starts = json_object_get(header, "starts");
    const json_t *shape = json_object_get(starts, "shape");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), 6);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), 4);

    const json_t *text = json_object_get(header, "text");
    const int64_t symbols = json_integer_value(json_array_get(json_object_get(text, "shape"), 0));
    const json_t *offsets = json_object_get(starts, "data_offsets");
    const int64_t begin = json_integer_value(json_array_get(offsets, 0));
    const int64_t end = json_integer_value(json_array_get(offsets, 1));
    assert_int_equal(end, (int64_t)(n_bytes - 8 - length)); /* the last tensor ends the file */
    assert_int_equal(end - begin, 6 * 4 * 4);
    for (int64_t at = begin; at < end; at += 4) {
        int32_t start;
        memcpy(&start, bytes + 8 + length + at, 4);
        assert_true(start >= 0 && start + 8 < symbols); /* a window and its target */
    }
    json_decref(header);
    free(bytes);
}

static void dump_into_a_missing_folder_is_6(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "no/such/file", path);
    check_error(RUN("bench", "train", "-q", "-n", "6", "--dump", path), 6, "no/such/file");
    check_error(RUN("plan", "-q", "--svg", path), 6, "no/such/file");
}

/* Whether `ingot devices` lists it as available: there may be no Vulkan driver. */
static bool has_device(const char *name) {
    json_t *root = json_of(RUN("devices", "--json"), "ingot.devices.v1");
    size_t i;
    const json_t *row;
    bool found = false;
    json_array_foreach(json_object_get(root, "devices"), i, row) found |=
        strcmp(json_string_value(json_object_get(row, "name")), name) == 0 &&
        json_is_true(json_object_get(row, "available"));
    json_decref(root);
    return found;
}

/* Devices other than the processor; simnpu is built with the tests. */
static const char *const others[] = {"simnpu", "vulkan"};

static void bench_train_names_another_device(const char *device) {
    char name[32], words[64];
    snprintf(name, sizeof name, "%s:0", device);
    if (!has_device(name)) return;
    json_t *root =
        json_of(RUN("bench", "train", "-q", "--json", "--steps", "20", "--device", device),
                "ingot.bench.train.v1");
    assert_string_equal(json_string_value(json_object_get(root, "device")), name);
    assert_string_equal(json_string_value(json_object_get(root, "backend")), name);
    assert_true(integer(json_object_get(root, "device_placement"), name) > 0);
    json_decref(root);
    program_result result = RUN("bench", "train", "-q", "--steps", "20", "--device", device);
    snprintf(words, sizeof words, " threads, %s", name);
    if (result.code != 0 || !strstr(result.out, words)) fail_msg("%s%s", result.out, result.err);
    program_free(&result);
}

/* Rooflines of the processor do not apply to another device: none is printed. */
static void bench_model_has_no_rooflines_for(const char *device) {
    char name[32];
    snprintf(name, sizeof name, "%s:0", device);
    if (!has_device(name)) return;
    json_t *root = json_of(RUN("bench", "-q", "--json", "-m", stories, "-p", "8", "-n", "4", "-r",
                               "1", "--device", device),
                           "ingot.bench.model.v1");
    static const char *const stages[] = {"pp", "tg"}, *const rates[] = {"read_bytes", "ops"};
    assert_string_equal(json_string_value(json_object_get(root, "device")), name);
    for (size_t i = 0; i < 4; i++) {
        const json_t *stage = json_object_get(root, stages[i / 2]);
        const json_t *rate = json_object_get(stage, rates[i % 2]);
        assert_true(number(rate, "per_s") > 0);
        assert_true(json_is_null(json_object_get(rate, "roof_per_s")));
        assert_true(json_is_null(json_object_get(rate, "roof_share")));
    }
    json_decref(root);
    program_result result =
        RUN("bench", "-q", "-m", stories, "-p", "8", "-n", "4", "-r", "1", "--device", device);
    if (result.code != 0 || !strstr(result.out, "no roofline for ") ||
        strstr(result.out, "GB/s read"))
        fail_msg("%s%s", result.out, result.err);
    program_free(&result);
}

static void another_device_is_named_and_has_no_rooflines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        bench_train_names_another_device(others[i]);
        bench_model_has_no_rooflines_for(others[i]);
    }
    json_t *root = json_of(RUN("bench", "-q", "--json", "-m", stories, "-p", "8", "-n", "4", "-r",
                               "1", "--device", "cpu"),
                           "ingot.bench.model.v1");
    const json_t *rate = json_object_get(json_object_get(root, "pp"), "read_bytes");
    assert_true(number(rate, "roof_per_s") > 0);
    json_decref(root);
}

/* Overhead is measured on another device, which the report must not name. */
static void the_report_names_the_device_that_trained(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN("bench", "train", "-q", "--json", "--steps", "20", "--device", "ref"),
                "ingot.bench.train.v1");
    size_t i;
    const json_t *entry;
    assert_string_equal(json_string_value(json_object_get(root, "device")), "ref:0");
    assert_string_equal(json_string_value(json_object_get(root, "backend")), "ref:0");
    json_array_foreach(json_object_get(root, "backend_timeline"), i, entry)
        assert_string_equal(json_string_value(json_object_get(entry, "device")), "ref:0");
    json_decref(root);
}

/* ---- overhead, roofline, ops ---- */

/* Differences of times may come out negative, but no cost may. */
static void check_cost(const json_t *root, const char *key) {
    static const char *const of[] = {"median", "min"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *ns = json_object_get(json_object_get(root, key), of[i]);
        assert_non_null(ns);
        if (!json_is_null(ns)) assert_true(json_number_value(ns) > 0);
    }
}

static void overhead_has_all_costs(void **state) {
    (void)state;
    static const char *const keys[] = {
        "schema",    "machine",    "instruction_set", "threads",   "runs", "cursor_ns",
        "launch_ns", "barrier_ns", "team_ns",         "submit_ns", NULL};
    json_t *root = json_of(RUN("bench", "overhead", "-q", "--json", "-r", "1", "-t", "2"),
                           "ingot.bench.overhead.v1");
    check_keys(root, keys);
    assert_true(number(json_object_get(root, "barrier_ns"), "median") > 0);
    check_cost(root, "cursor_ns");
    check_cost(root, "launch_ns");
    check_cost(root, "submit_ns");
    json_decref(root);
    root = json_of(RUN("bench", "overhead", "-q", "--json", "-r", "1", "-t", "1"),
                   "ingot.bench.overhead.v1");
    assert_true(json_is_null(json_object_get(root, "barrier_ns"))); /* one thread has no barrier */
    json_decref(root);
}

static void routes_learn_the_same_with_ever_fewer_submits(void **state) {
    (void)state;
    json_t *root = json_of(RUN("bench", "routes", "-q", "--json", "-r", "2", "--d-model", "32",
                               "--layers", "1", "-c", "16", "-b", "2"),
                           "ingot.bench.routes.v1");
    static const char *const names[] = {"easy", "replay", "production"};
    json_int_t submits[3], waits[3], allocations[3];
    double losses[3];
    const json_t *list = json_object_get(root, "routes");
    assert_int_equal(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *row = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(row, "route")), names[i]);
        assert_true(json_number_value(json_object_get(row, "tokens_per_s")) > 0);
        submits[i] = json_integer_value(json_object_get(row, "submits"));
        waits[i] = json_integer_value(json_object_get(row, "waits"));
        losses[i] = json_number_value(json_object_get(row, "loss"));
        allocations[i] = json_integer_value(json_object_get(row, "allocations"));
    }
    assert_true(submits[0] > 50);
    assert_int_equal(submits[1], 2); /* the update waits for the loss, to check it for NaN */
    assert_int_equal(submits[2], 3); /* forward, backward, update */
    assert_int_equal(waits[2], 3);
    assert_int_equal(allocations[1] + allocations[2], 0);
    assert_true(losses[0] == losses[1] && losses[0] == losses[2]);
    json_decref(root);
    check_error(RUN("bench", "routes", "--mode", "auto"), 2, "does not apply to 'bench routes'");
}

static void roofline_has_a_row_for_each_thread_count(void **state) {
    (void)state;
    json_t *root = json_of(RUN("bench", "roofline", "-q", "--json", "-r", "1", "-t", "3"),
                           "ingot.bench.roofline.v1");
    static const int64_t threads[] = {1, 2, 3};
    const json_t *rows = json_object_get(root, "rows"), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 3);
    json_array_foreach(rows, i, row) {
        assert_int_equal(integer(row, "threads"), threads[i]);
        check_spread(row, "read_bytes_per_s");
        check_spread(row, "fma_flop_per_s");
        check_spread(row, "int8_op_per_s");
    }
    json_decref(root);
    root = json_of(RUN_WITH(ENV("INGOT_ISA=scalar"), "bench", "roofline", "-q", "--json", "-r", "1",
                            "-t", "1"),
                   "ingot.bench.roofline.v1");
    assert_string_equal(json_string_value(json_object_get(root, "instruction_set")), "scalar");
    json_decref(root);
}

static void ops_can_be_measured_one_by_one(void **state) {
    (void)state;
    static const char *const names[] = {"add", "layer_norm", "cross_entropy", "adamw"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *root = json_of(RUN("bench", "ops", "-q", "--json", "-r", "1", "--op", names[i]),
                               "ingot.bench.ops.v1");
        const json_t *ops = json_object_get(root, "ops"), *op;
        size_t j;
        assert_int_equal(json_array_size(ops), 3); /* sizes */
        json_array_foreach(ops, j, op) {
            assert_string_equal(json_string_value(json_object_get(op, "op")), names[i]);
            check_spread(op, "ns");
        }
        json_decref(root);
    }
}

/* ---- plan ---- */

static void plan_shows_levels_chains_barriers_and_memory(void **state) {
    (void)state;
    program_result result = RUN("plan", "-q", "-b", "4");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "levels"));
    assert_non_null(strstr(result.out, "barriers"));
    assert_non_null(strstr(result.out, "arena"));
    assert_non_null(strstr(result.out, "embedding_grad"));
    program_free(&result);

    json_t *root = json_of(RUN("plan", "-q", "--json", SMALL_GPT), "ingot.plan.v1");
    const json_t *plan = json_object_get(root, "plan");
    assert_true(integer(plan, "levels") > 3);
    assert_int_equal(integer(plan, "barriers"), integer(plan, "levels") - 1);
    assert_true(json_array_size(json_object_get(plan, "steps")) >= (size_t)integer(plan, "levels"));
    assert_true(number(root, "arena_fill") >= 1);
    assert_true(integer(plan, "arena_bytes") <= integer(plan, "sum_bytes"));
    assert_true(json_is_null(json_object_get(root, "profile")));
    json_decref(root);
}

static void plan_draws_itself_twice(void **state) {
    const fixture *f = *state;
    char svg_path[PATH_BYTES], dot_path[PATH_BYTES];
    in_folder(f, "plan.svg", svg_path);
    in_folder(f, "plan.dot", dot_path);
    json_t *root =
        json_of(RUN("plan", "-q", "--json", SMALL_GPT, "--svg", svg_path, "--dot", dot_path),
                "ingot.plan.v1");
    const size_t levels = (size_t)integer(json_object_get(root, "plan"), "levels");
    json_decref(root);
    char *svg = read_file(svg_path, NULL), *dot = read_file(dot_path, NULL), name[32];
    assert_true(xml_is_well_formed(svg));
    assert_non_null(strstr(svg, "attention_grad"));
    snprintf(name, sizeof name, ">level %zu<", levels - 1); /* down to the last level */
    assert_non_null(strstr(svg, name));
    assert_true(strncmp(dot, "digraph plan {", 14) == 0);
    assert_non_null(strstr(dot, "c0 -> c"));
    assert_string_equal(dot + strlen(dot) - 2, "}\n");
    free(svg);
    free(dot);
}

static void profile_times_each_step_of_the_plan(void **state) {
    (void)state;
    json_t *root = json_of(RUN("plan", "-q", "--json", "--profile", "-b", "4"), "ingot.plan.v1");
    const json_t *profile = json_object_get(root, "profile"), *step;
    const json_t *steps = json_object_get(profile, "steps");
    size_t i, timed = 0;
    assert_int_equal(json_array_size(steps),
                     json_array_size(json_object_get(json_object_get(root, "plan"), "steps")));
    json_array_foreach(steps, i, step) timed += number(step, "ns") > 0;
    assert_int_equal(timed, json_array_size(steps));
    assert_true(number(profile, "fma_flop_per_s") > 0);
    json_decref(root);
    program_result result = RUN("plan", "-q", "--profile", "-b", "4");
    assert_non_null(strstr(result.out, "GFLOP/s"));
    program_free(&result);
}

static void trace_has_lanes_and_events_that_viewers_read(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "trace.json", path);
    json_decref(json_of(RUN("plan", "-q", "--json", "--trace", path), "ingot.plan.v1"));
    size_t n_bytes, i, spans = 0, names = 0;
    char *text = read_file(path, &n_bytes);
    json_t *root = json_loadb(text, n_bytes, 0, NULL);
    assert_non_null(root);
    const json_t *events = json_object_get(root, "traceEvents"), *event;
    json_array_foreach(events, i, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        names += strcmp(kind, "M") == 0;
        if (strcmp(kind, "X") != 0) continue;
        spans++;
        assert_true(number(event, "ts") >= 0 && number(event, "dur") >= 0);
        assert_true(json_string_length(json_object_get(event, "name")) > 0);
        assert_true(integer(event, "tid") >= 0);
    }
    assert_true(spans > 20);
    assert_true(names >= 2); /* the program and at least one thread */
    json_decref(root);
    free(text);
}

/* ---- Memory ---- */

/* Fails every n-th allocation: the command ends with 4, or succeeds without the memory. */
static void a_failing_allocation_of_plan_ends_with_4_and_nothing_worse(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "memory.svg", path);
    int failed = 0;
    for (int n = 1;; n += n < 20 ? 1 : n / 6) {
        char variable[64];
        snprintf(variable, sizeof variable, "INGOT_TEST_FAIL_ALLOC=%d", n);
        program_result result = RUN_WITH(ENV(variable), "plan", "-q", "-b", "4", "--svg", path);
        if (result.code != 0 && result.code != 4)
            fail_msg("allocation %d: exit %d, %s", n, result.code, result.err);
        const bool reached = strstr(result.err, "fails on purpose") != NULL;
        failed += result.code != 0;
        program_free(&result);
        if (!reached) break;
    }
    assert_true(failed > 10);
}

/* ---- */

static int set_up(void **state) {
    static fixture f = {"/tmp/ingot-bench-XXXXXX"};
    if (!mkdtemp(f.dir)) return -1;
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    const fixture *f = *state;
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_prints_exactly_the_keys_that_are_promised),
        cmocka_unit_test(train_counts_tokens_where_every_position_is_predicted),
        cmocka_unit_test(the_modes_record_as_they_promise_and_end_in_one_loss),
        cmocka_unit_test(replays_of_a_training_step_allocate_nothing),
        cmocka_unit_test(train_for_people_names_what_was_measured),
        cmocka_unit_test(wrong_words_of_bench_are_2_and_say_what_would_be_right),
        cmocka_unit_test(dump_holds_weights_text_and_starts),
        cmocka_unit_test(dump_into_a_missing_folder_is_6),
        cmocka_unit_test(overhead_has_all_costs),
        cmocka_unit_test(routes_learn_the_same_with_ever_fewer_submits),
        cmocka_unit_test(the_report_names_the_device_that_trained),
        cmocka_unit_test(another_device_is_named_and_has_no_rooflines),
        cmocka_unit_test(roofline_has_a_row_for_each_thread_count),
        cmocka_unit_test(ops_can_be_measured_one_by_one),
        cmocka_unit_test(plan_shows_levels_chains_barriers_and_memory),
        cmocka_unit_test(plan_draws_itself_twice),
        cmocka_unit_test(profile_times_each_step_of_the_plan),
        cmocka_unit_test(trace_has_lanes_and_events_that_viewers_read),
        cmocka_unit_test(a_failing_allocation_of_plan_ends_with_4_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
