/* The program as users and scripts see it: what it prints where, and its exit codes. */
#include <dirent.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "checks.h"
#include "results.h"
#include "xml.h"

enum { PATH_BYTES = 256 };

/* A folder for the whole group, with a checkpoint of a few steps. */
typedef struct fixture {
    char dir[32], file[64];
} fixture;

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)
#define RUN_WITH(options, ...) \
    program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, options)
#define ENV(...) (&(program_options){.env = (const char *const[]){__VA_ARGS__, NULL}})

/* Asserts exit code 0 and a phrase on stdout, with nothing on stderr. Frees the result. */
static void check_output(program_result result, const char *words) {
    if (result.code != 0 || !strstr(result.out, words))
        fail_msg("exit %d, stdout '%s' (wanted '%s'), stderr '%s'", result.code, result.out, words,
                 result.err);
    assert_string_equal(result.err, "");
    program_free(&result);
}

static int64_t integer(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value)) fail_msg("no number '%s'", key);
    return json_integer_value(value);
}

static char *read_file(const char *path, size_t *out_bytes) {
    FILE *file = fopen(path, "re");
    if (!file) fail_msg("%s is not there", path);
    char *text = program_read_all(fileno(file), out_bytes);
    fclose(file);
    return text;
}

static void write_file(const char *path, const char *bytes, size_t n_bytes) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void in_folder(const fixture *f, const char *name, char out[PATH_BYTES]) {
    snprintf(out, PATH_BYTES, "%s/%s", f->dir, name);
}

/* ---- Help and version ---- */

static void without_a_command_it_says_how_it_is_used(void **state) {
    (void)state;
    check_error(program_run(INGOT_PROGRAM, (const char *const[]){NULL}, NULL), 2,
                "usage: ingot COMMAND");
}

static void help_lists_every_command_and_each_has_its_own(void **state) {
    (void)state;
    static const char *const names[] = {"demo", "bench",      "plan",    "inspect",
                                        "info", "completion", "version", "help"};
    check_output(RUN("--help"), "usage: ingot COMMAND");
    check_output(RUN("help"), "usage: ingot COMMAND");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "usage: ingot %s", names[i]);
        check_output(RUN("--help"), names[i]);
        check_output(RUN("help", names[i]), usage);
        check_output(RUN(names[i], "--help"), usage);
        check_output(RUN("--help", names[i]), usage);
        check_output(RUN(names[i], "-h"), "--help-all");
        check_output(RUN(names[i], "--help-all"), "Options of every command");
    }
}

static void help_fits_the_width_it_is_given(void **state) {
    (void)state;
    program_result result = RUN_WITH(ENV("COLUMNS=60"), "help", "demo");
    assert_int_equal(result.code, 0);
    for (char *line = strtok(result.out, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, "  ingot", 7) != 0 && strlen(line) > 60) fail_msg("too wide: %s", line);
    program_free(&result);
}

static bool lists(const json_t *list, const char *word) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), word) == 0) return true;
    return false;
}

static void version_names_compiler_and_instruction_sets(void **state) {
    (void)state;
    check_output(RUN("--version"), "ingot 0.");
    check_output(RUN("version"), "compiler");
    json_t *root = json_of(RUN("--version", "--json"), "ingot.version.v1");
    assert_true(json_string_length(json_object_get(root, "version")) > 0);
    assert_true(json_string_length(json_object_get(root, "compiler")) > 0);
    const json_t *sets = json_object_get(root, "instruction_sets");
    assert_string_equal(json_string_value(json_array_get(sets, 0)), "scalar");
    assert_true(lists(sets, json_string_value(json_object_get(root, "instruction_set"))));
    check_output(RUN("version"), "instruction sets: scalar");
    for (size_t i = 0; i < json_array_size(sets); i++) { /* each listed one runs */
        char variable[64];
        const char *name = json_string_value(json_array_get(sets, i));
        snprintf(variable, sizeof variable, "INGOT_ISA=%s", name);
        json_t *forced = json_of(RUN_WITH(ENV(variable), "version", "--json"), "ingot.version.v1");
        assert_string_equal(json_string_value(json_object_get(forced, "instruction_set")), name);
        assert_true(json_equal(sets, json_object_get(forced, "instruction_sets")));
        json_decref(forced);
    }
    json_decref(root);
}

/* Those whose devices are present, or could be on another machine. */
static void version_names_the_backends_that_are_built_in(void **state) {
    (void)state;
    json_t *version = json_of(RUN("version", "--json"), "ingot.version.v1");
    json_t *devices = json_of(RUN("devices", "--json"), "ingot.devices.v1");
    const json_t *names = json_object_get(version, "backends"), *device;
    size_t i, found = 0;
    json_array_foreach(json_object_get(devices, "devices"), i, device) {
        const char *reason = json_string_value(json_object_get(device, "reason"));
        const char *name = json_string_value(json_object_get(device, "backend"));
        if (!json_is_null(json_object_get(device, "plugin"))) continue;
        assert_int_equal(lists(names, name), !reason || !strstr(reason, "this build has none"));
        found++;
    }
    assert_true(found >= json_array_size(names) && json_array_size(names) >= 3);
    check_output(RUN("version"), "backends: cpu");
    json_decref(devices);
    json_decref(version);
}

static void forced_instruction_set_is_the_one_in_use(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN_WITH(ENV("INGOT_ISA=scalar"), "version", "--json"), "ingot.version.v1");
    assert_string_equal(json_string_value(json_object_get(root, "instruction_set")), "scalar");
    json_decref(root);
}

static void help_is_there_for_programs_too(void **state) {
    (void)state;
    json_t *root = json_of(RUN("help", "--json"), "ingot.help.v1");
    assert_true(json_array_size(json_object_get(root, "commands")) >= 6);
    json_decref(root);
}

static void the_manual_page_has_every_command(void **state) {
    (void)state;
    json_t *root = json_of(RUN("help", "--json"), "ingot.help.v1");
    program_result result = RUN("help", "--man");
    assert_int_equal(result.code, 0);
    assert_int_equal(strncmp(result.out, ".TH INGOT 1", 11), 0);
    json_t *command;
    size_t i;
    json_array_foreach(json_object_get(root, "commands"), i, command) {
        const char *name = json_string_value(json_object_get(command, "name"));
        char heading[64];
        snprintf(heading, sizeof heading, "ingot %s", name);
        if (!strstr(result.out, heading)) fail_msg("the manual page lacks %s", name);
    }
    program_free(&result);
    json_decref(root);
}

/* ---- Wrong usage ---- */

static void an_unknown_command_gets_the_nearest_suggested(void **state) {
    (void)state;
    check_error(RUN("ispect"), 2, "'ispect': unknown command; did you mean inspect? Try 'ingot");
    check_error(RUN("frobnicate"), 2, "ingot: 'frobnicate': unknown command. Try 'ingot --help'.");
    check_error(RUN("help", "dmeo"), 2, "did you mean demo?");
}

static void an_unknown_option_gets_the_nearest_suggested(void **state) {
    (void)state;
    check_error(RUN("inspect", "--tensor", "f.oam"), 2,
                "ingot inspect: --tensor: no such option; did you mean --tensors? "
                "Try 'ingot inspect --help'.\n");
    check_error(RUN("--jsn"), 2, "ingot: --jsn: no such option; did you mean --json?");
}

static void a_wrong_value_is_reported_with_the_right_ones(void **state) {
    (void)state;
    check_error(RUN("demo", "--steps", "many"), 2, "--steps 'many': not an integer. Try");
    check_error(RUN("demo", "--steps=0"), 2, "--steps 0: must be from 1 to");
    check_error(RUN("demo", "--color=blue"), 2, "must be one of auto, always, never");
    check_error(RUN("demo", "--prompt", "Hello!"), 2, "only lowercase letters and spaces");
    check_error(RUN("inspect"), 2, "FILE is required: a checkpoint");
    check_error(RUN("inspect", "a", "b"), 2, "'b': unexpected argument");
    check_error(RUN("completion", "tcsh"), 2, "must be one of bash, zsh, fish");
}

static void an_unknown_device_is_refused(void **state) {
    (void)state;
    program_result result = RUN("info", "--device", "quantum:7");
    assert_true(result.code == 2 || result.code == 5);
    assert_non_null(strstr(result.err, "quantum"));
    program_free(&result);
}

/* ---- Streams ---- */

/* Inputs stay as they are, by whichever name they are written to. */
static void an_output_replaces_no_input(void **state) {
    const fixture *f = *state;
    char text[PATH_BYTES], again[PATH_BYTES], link_name[PATH_BYTES], read[64] = "";
    in_folder(f, "words.txt", text);
    in_folder(f, "link.txt", link_name);
    in_folder(f, "./words.txt", again);
    FILE *file = fopen(text, "we");
    assert_non_null(file);
    fputs("some words to learn", file);
    fclose(file);
    assert_int_equal(symlink(text, link_name), 0);
    static const char words[] = "would replace the file that";
    check_error(RUN("train", text, "-o", text, "--steps", "1"), 2, words);
    check_error(RUN("train", text, "--plot", again, "--steps", "1"), 2, words);
    check_error(RUN("train", "-d", link_name, "--log", text, "--steps", "1"), 2, words);
    check_error(RUN("inspect", text, "--report", text), 2, words);
    check_error(RUN("inspect", text, "--report", link_name, "--no-such-option"), 2, "no-such");
    check_error(RUN("quantize", text, again, "Q8_0"), 2, words);
    check_error(RUN("export", text, text), 2, words);
    file = fopen(text, "re");
    assert_non_null(file);
    assert_non_null(fgets(read, sizeof read, file));
    fclose(file);
    assert_string_equal(read, "some words to learn");
}

static void a_closed_pipe_ends_it_quietly_with_141(void **state) {
    (void)state;
    for (int ignored = 0; ignored < 2; ignored++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        close(ends[0]);
        void (*before)(int) = signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
        program_result result = RUN_WITH(&(program_options){.out_fd = ends[1]}, "help");
        signal(SIGPIPE, before);
        close(ends[1]);
        assert_int_equal(result.code, 141);
        assert_string_equal(result.err, "");
        program_free(&result);
    }
}

static void a_full_disk_exits_with_6(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "we");
    if (!full) skip();
    program_result result = RUN_WITH(&(program_options){.out_fd = fileno(full)}, "help");
    fclose(full);
    assert_int_equal(result.code, 6);
    assert_non_null(strstr(result.err, "standard output: No space left on device"));
    program_free(&result);
}

static void color_is_for_those_who_ask(void **state) {
    (void)state;
    static const struct {
        const char *env, *option;
        bool colored;
    } cases[] = {
        {"TERM=xterm", "--color=auto", false}, /* not a terminal */
        {"TERM=xterm", "--color=always", true},     {"TERM=dumb", "--color=always", true},
        {"NO_COLOR=1", "--color=always", true},     {"NO_COLOR=1", "--color=auto", false},
        {"CLICOLOR_FORCE=1", "--color=auto", true}, {"CLICOLOR_FORCE=1", "--color=never", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_result result = RUN_WITH(ENV(cases[i].env), "help", cases[i].option);
        assert_int_equal(result.code, 0);
        assert_true(cases[i].colored == (strchr(result.out, '\033') != NULL));
        program_free(&result);
    }
}

static void called_by_a_commands_name_it_is_that_command(void **state) {
    const fixture *f = *state;
    char link[PATH_BYTES];
    in_folder(f, "inspect", link);
    assert_int_equal(symlink(INGOT_PROGRAM, link), 0);
    program_result result = program_run(link, (const char *const[]){"--help", NULL}, NULL);
    check_output(result, "usage: ingot inspect");
    check_output(program_run(link, (const char *const[]){f->file, NULL}, NULL), "10,443");
    unlink(link);
}

/* ---- completion ---- */

/* Runs a script with the shell, if installed, and returns its output. */
static bool shell(const char *name, const char *script, char *out, size_t out_bytes) {
    char command[4096];
    snprintf(command, sizeof command, "command -v %s >/dev/null && %s -c '%s'", name, name, script);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t got = fread(out, 1, out_bytes - 1, pipe);
    out[got] = 0;
    return pclose(pipe) == 0;
}

static void completion_scripts_are_accepted_by_their_shells(void **state) {
    const fixture *f = *state;
    static const char *const names[] = {"bash", "zsh", "fish"};
    for (int i = 0; i < 3; i++) {
        program_result result = RUN("completion", names[i]);
        assert_int_equal(result.code, 0);
        char path[PATH_BYTES], command[2 * PATH_BYTES];
        in_folder(f, "completion", path);
        write_file(path, result.out, strlen(result.out));
        program_free(&result);
        snprintf(command, sizeof command, "! command -v %s >/dev/null || %s -n %s", names[i],
                 names[i], path);
        assert_int_equal(system(command), 0);
        unlink(path);
    }
    json_decref(json_of(RUN("completion", "bash", "--json"), "ingot.completion.v1"));
}

static void bash_completes_commands_options_and_values(void **state) {
    (void)state;
    static const struct {
        const char *words, *wanted;
    } cases[] = {{"ingot ins", "inspect"},
                 {"ingot inspect --te", "--tensors"},
                 {"ingot demo --color al", "always"},
                 {"ingot completion z", "zsh"},
                 {"ingot help ver", "version"},
                 {"ingot demo --ste", "--steps"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char script[1024], out[256];
        snprintf(script, sizeof script,
                 "source <(%s completion bash); COMP_WORDS=(%s); "
                 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ingot; echo \"${COMPREPLY[*]}\"",
                 INGOT_PROGRAM, cases[i].words);
        if (!shell("bash", script, out, sizeof out)) skip();
        out[strcspn(out, "\n")] = 0;
        assert_string_equal(out, cases[i].wanted);
    }
}

/* ---- inspect ---- */

static void inspect_shows_parameters_config_and_tensors(void **state) {
    const fixture *f = *state;
    check_output(RUN("inspect", f->file), "10,443 in 5 tensors, 40.8 KiB");
    check_output(RUN("inspect", f->file), "char-mlp");
    check_output(RUN("inspect", f->file, "--tensors"), "fc1.weight");
    check_output(RUN("inspect", f->file, "--verify"), "all match");
}

static void inspect_json_holds_the_same(void **state) {
    const fixture *f = *state;
    json_t *root =
        json_of(RUN("inspect", "--json", "--verify", "--tensors", f->file), "ingot.inspect.v1");
    assert_int_equal(integer(root, "parameters"), 10443);
    assert_int_equal(integer(root, "weight_bytes"), 4 * 10443);
    assert_int_equal(integer(root, "optimizer_bytes"), 8 * 10443);
    assert_true(json_is_true(json_object_get(root, "verified")));
    struct stat info;
    assert_int_equal(stat(f->file, &info), 0);
    assert_int_equal(integer(root, "file_bytes"), info.st_size);
    const json_t *tensors = json_object_get(root, "tensors");
    assert_int_equal(json_array_size(tensors), 15);
    const json_t *config = json_object_get(root, "config");
    assert_string_equal(json_string_value(json_object_get(config, "workload")), "char-mlp");
    json_decref(root);
}

static void inspect_refuses_what_is_no_checkpoint(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "notes.txt", path);
    static const char text[] = "These are not the bytes of a checkpoint.\n";
    write_file(path, text, sizeof text - 1);
    program_result result = RUN("inspect", path);
    assert_int_equal(result.code, 3);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "notes.txt"));
    assert_true(strchr(result.err, '\n') == result.err + strlen(result.err) - 1); /* one line */
    program_free(&result);
    write_file(path, "", 0);
    check_error(RUN("inspect", path), 3, "notes.txt");
    unlink(path);
    check_error(RUN("inspect", path), 6, "No such file or directory");
    result = RUN("inspect", f->dir);
    assert_true(result.code == 3 || result.code == 6);
    program_free(&result);
}

static void inspect_refuses_every_truncation(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "cut.oam", path);
    size_t n_bytes;
    char *bytes = read_file(f->file, &n_bytes);
    for (size_t n = 0; n < n_bytes; n += n < 64 ? 9 : n_bytes / 23) {
        write_file(path, bytes, n);
        program_result result = RUN("inspect", path);
        if (result.code != 3) fail_msg("%zu of %zu bytes: exit %d", n, n_bytes, result.code);
        program_free(&result);
    }
    free(bytes);
    unlink(path);
}

static void verify_finds_a_flipped_bit_in_the_data(void **state) {
    const fixture *f = *state;
    char path[PATH_BYTES];
    in_folder(f, "flipped.oam", path);
    json_t *root = json_of(RUN("inspect", "--json", "--tensors", f->file), "ingot.inspect.v1");
    const json_t *tensors = json_object_get(root, "tensors");
    size_t n_bytes;
    char *bytes = read_file(f->file, &n_bytes);
    for (size_t i = 0; i < json_array_size(tensors); i += 4) {
        const size_t at = (size_t)integer(json_array_get(tensors, i), "offset");
        assert_true(at < n_bytes);
        bytes[at] ^= 1;
        write_file(path, bytes, n_bytes);
        bytes[at] ^= 1;
        program_result result = RUN("inspect", "--verify", path);
        assert_int_equal(result.code, 3);
        assert_string_equal(result.out, "");
        program_free(&result);
    }
    free(bytes);
    json_decref(root);
    unlink(path);
}

/* ---- info ---- */

static void info_shows_the_engine_in_its_three_roles(void **state) {
    (void)state;
    program_result result = RUN("info");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "dispatch"));
    assert_non_null(strstr(result.out, "pipeline cache"));
    assert_non_null(strstr(result.out, "memory"));
    program_free(&result);

    json_t *root = json_of(RUN("info", "--json", "--device", "cpu"), "ingot.info.v1");
    const json_t *dispatch = json_object_get(root, "dispatch");
    assert_true(integer(dispatch, "ops") > 0);
    assert_int_equal(integer(dispatch, "submits"), integer(dispatch, "ops"));
    const json_t *cache = json_object_get(root, "pipeline_cache");
    assert_true(integer(cache, "programs") > 0);
    assert_true(integer(cache, "hits") > 0 && integer(cache, "misses") > 0);
    const json_t *memory = json_object_get(root, "memory");
    assert_true(integer(memory, "allocated_bytes") > 0);
    assert_true(integer(memory, "peak_bytes") >= integer(memory, "allocated_bytes"));
    assert_non_null(json_object_get(memory, "available_bytes"));
    assert_true(json_is_object(json_object_get(root, "config_resolved")));
    json_decref(root);
}

/* ---- demo ---- */

static void demo_trains_draws_saves_reloads_and_predicts(void **state) {
    const fixture *f = *state;
    char dir[PATH_BYTES], path[2 * PATH_BYTES];
    in_folder(f, "demo", dir);
    json_t *root =
        json_of(RUN("demo", "-q", "--steps", "20", "--out", dir, "--json"), "ingot.demo.v1");
    assert_int_equal(integer(root, "steps"), 20);
    assert_int_equal(integer(root, "parameters"), 10443);
    const json_t *loss = json_object_get(root, "loss");
    assert_true(json_number_value(json_object_get(loss, "last")) <
                json_number_value(json_object_get(loss, "first")));
    assert_true(json_is_true(json_object_get(json_object_get(root, "reload"), "equal")));
    assert_int_equal(json_array_size(json_object_get(root, "texts")), 3);
    const json_t *counters = json_object_get(root, "counters");
    assert_int_equal(integer(counters, "submits"), integer(counters, "ops"));
    json_decref(root);

    snprintf(path, sizeof path, "%s/loss.svg", dir);
    char *svg = read_file(path, NULL);
    assert_true(xml_is_well_formed(svg));
    assert_non_null(strstr(svg, "<svg "));
    free(svg);
    snprintf(path, sizeof path, "%s/text.oam", dir);
    check_output(RUN("inspect", "--verify", path), "all match");
}

static void demo_trains_in_three_modes_and_they_agree(void **state) {
    const fixture *f = *state;
    static const struct {
        const char *mode;
        int64_t records, replays;
    } wanted[] = {{"dynamic", 0, 0}, {"compiled", 1, 29}, {"auto", 1, 27}};
    json_t *root =
        json_of(RUN("demo", "-q", "--steps", "30", "--out", f->dir, "--json"), "ingot.demo.v1");
    assert_true(json_is_true(json_object_get(root, "modes_bit_equal")));
    const json_t *modes = json_object_get(root, "modes"), *mode;
    const double last = json_number_value(json_object_get(json_object_get(root, "loss"), "last"));
    size_t i;
    assert_int_equal(json_array_size(modes), 3);
    json_array_foreach(modes, i, mode) {
        assert_string_equal(json_string_value(json_object_get(mode, "mode")), wanted[i].mode);
        assert_int_equal(integer(mode, "records"), wanted[i].records);
        assert_int_equal(integer(mode, "replays"), wanted[i].replays);
        assert_true(integer(mode, "dispatches") > 0);
        assert_true(json_number_value(json_object_get(mode, "last_loss")) == last);
        assert_true(json_number_value(json_object_get(mode, "overhead_ns_per_step")) > 0);
    }
    json_decref(root);
    check_output(RUN("demo", "-q", "--steps", "5", "--out", f->dir),
                 "All 5 losses are bit-equal in the three modes");
}

/* The published figure for this network, learning rate, number of steps and batch. */
static const double published_loss = 0.897;

static void demo_learns_at_least_as_well_as_published(void **state) {
    const fixture *f = *state;
    json_t *root = json_of(RUN("demo", "-q", "--out", f->dir, "--json"), "ingot.demo.v1");
    assert_int_equal(integer(root, "steps"), 300);
    assert_int_equal(integer(root, "batch"), 32);
    const json_t *loss = json_object_get(root, "loss");
    assert_true(json_number_value(json_object_get(loss, "mean_last_20")) <= published_loss);
    json_decref(root);
}

static void demo_gives_equal_bits_for_equal_seeds_only(void **state) {
    const fixture *f = *state;
    static const char *const seeds[] = {"7", "7", "8"}, *const threads[] = {"1", "2", "1"};
    double last[3];
    char dir[PATH_BYTES];
    in_folder(f, "seeds", dir);
    for (int i = 0; i < 3; i++) {
        json_t *root = json_of(
            RUN("demo", "-q", "-n5", "--seed", seeds[i], "-t", threads[i], "--out", dir, "--json"),
            "ingot.demo.v1");
        last[i] = json_number_value(json_object_get(json_object_get(root, "loss"), "last"));
        json_decref(root);
    }
    assert_true(last[0] == last[1]);
    assert_true(last[0] != last[2]);
}

static void demo_prints_plain_lines_where_there_is_no_terminal(void **state) {
    const fixture *f = *state;
    program_result result =
        RUN("demo", "--steps", "3", "--out", f->dir, "--prompt", "the hill", "-p", "a");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "train: 33%  1/3 steps"));
    assert_non_null(strstr(result.err, "train: 100%  3/3 steps"));
    assert_null(strchr(result.err, '\r'));
    assert_null(strchr(result.err, '\033'));
    assert_non_null(strstr(result.out, "  the hill"));
    assert_non_null(strstr(result.out, "bit-equal"));
    program_free(&result);
    result = RUN("demo", "--steps", "3", "--out", f->dir, "--quiet");
    assert_string_equal(result.err, "");
    program_free(&result);
}

static void demo_draws_a_bar_on_a_terminal(void **state) {
    const fixture *f = *state;
    static const char *const terms[] = {"TERM=xterm", "TERM=dumb"};
    for (int dumb = 0; dumb < 2; dumb++) {
        int master, slave;
        if (openpty(&master, &slave, NULL, NULL, &(struct winsize){.ws_row = 24, .ws_col = 100}))
            skip();
        const program_options options = {
            .env = (const char *const[]){terms[dumb], "NO_COLOR=1", "LC_ALL=C", NULL},
            .err_fd = slave};
        program_result result = RUN_WITH(&options, "demo", "--steps", "3", "--out", f->dir);
        assert_int_equal(result.code, 0);
        close(slave);
        char *seen = program_read_all(master, NULL);
        close(master);
        assert_true((strstr(seen, "\r\033[K") != NULL) == !dumb);
        assert_true((strstr(seen, "##########") != NULL) == !dumb);
        assert_null(strstr(seen, "\033[3")); /* no color */
        assert_non_null(strstr(seen, "3/3 steps"));
        free(seen);
        program_free(&result);
    }
}

static void demo_says_what_it_would_write_and_writes_nothing(void **state) {
    const fixture *f = *state;
    char dir[PATH_BYTES];
    in_folder(f, "never", dir);
    check_output(RUN("demo", "--dry-run", "--out", dir), "never/text.oam");
    json_decref(json_of(RUN("demo", "--dry-run", "--json", "--out", dir), "ingot.demo.v1"));
    assert_int_not_equal(access(dir, F_OK), 0);
}

static void demo_into_a_place_that_is_no_folder_is_6(void **state) {
    const fixture *f = *state;
    char deep[PATH_BYTES];
    check_error(RUN("demo", "-n1", "--out", f->file), 6, "is not a folder");
    in_folder(f, "no/such/place", deep);
    check_error(RUN("demo", "-n1", "--out", deep), 6, "No such file or directory");
}

/* Starts a long run and sends the signal at its first progress line. */
static int stop_with(const char *const *args, int number, char *said, size_t said_bytes) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = program_start(INGOT_PROGRAM, args, &(program_options){.err_fd = ends[1]});
    close(ends[1]);
    const ssize_t first = read(ends[0], said, said_bytes - 1); /* the first progress line */
    assert_true(first > 0);
    assert_int_equal(kill(pid, number), 0);
    const int code = program_wait(pid);
    const ssize_t more = read(ends[0], said, said_bytes - 1);
    said[more > 0 ? more : 0] = 0;
    close(ends[0]);
    return code;
}

static void stopped_in_the_middle_it_ends_with_130_or_143(void **state) {
    const fixture *f = *state;
    const char *const args[] = {"demo", "--steps", "9999999", "--out", f->dir, NULL};
    char said[1024];
    assert_int_equal(stop_with(args, SIGINT, said, sizeof said), 130);
    assert_non_null(strstr(said, "nothing was saved"));
    assert_int_equal(stop_with(args, SIGTERM, said, sizeof said), 143);
}

static void whatever_notices_it_the_word_is_stopped(void **state) {
    const fixture *f = *state;
    char text[PATH_BYTES], make[2 * PATH_BYTES], said[1024];
    in_folder(f, "long.txt", text);
    snprintf(make, sizeof make, "%s stories -q --bytes 3M >%s", INGOT_PROGRAM, text);
    assert_int_equal(system(make), 0);
    const char *const args[] = {"perplexity", "-f", text, NULL};
    assert_int_equal(stop_with(args, SIGTERM, said, sizeof said), 143);
    if (!strstr(said, "ingot perplexity: stopped.\n")) fail_msg("'%s'", said);
}

/* ---- Help ---- */

static int count_options(const char *text) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, "\n  ")) != NULL; at++)
        count +=
            strncmp(at + 3, "    --", 6) == 0 || (at[3] == '-' && strncmp(at + 5, ", --", 4) == 0);
    return count;
}

static void help_shows_twelve_options_and_help_all_the_rest(void **state) {
    static const char *const commands[] = {"train",   "generate", "chat",  "bench",
                                           "plan",    "logits",   "embed", "parity",
                                           "devices", "convert",  "serve"};
    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        program_result brief = RUN(commands[i], "--help"), all = RUN(commands[i], "--help-all");
        assert_int_equal(brief.code, 0);
        assert_int_equal(all.code, 0);
        const int first = count_options(brief.out);
        if (first > 12 || first >= count_options(all.out))
            fail_msg("%s: %d of %d", commands[i], first, count_options(all.out));
        assert_non_null(strstr(brief.out, "--help-all"));
        assert_non_null(strstr(all.out, "--memory-limit"));
        program_free(&brief);
        program_free(&all);
    }
    check_output(RUN("train", "--help"), "--steps");
    check_output(RUN("train", "--help-all"), "--weight-decay");
    check_output(RUN("generate", "--help"), "--temp");
    check_output(RUN("generate", "--help-all"), "--mirostat-lr");
    check_output(RUN("--help-all"), "--isolate-plugin");
}

/* ---- Memory ---- */

/* Fails each of the first allocations once, then later ones at growing intervals. */
static void a_failing_allocation_ends_with_4_and_nothing_worse(void **state) {
    const fixture *f = *state;
    char dir[PATH_BYTES];
    in_folder(f, "memory", dir);
    int failed = 0;
    for (int n = 1;; n += n < 120 ? 1 : n / 12) {
        char variable[64];
        snprintf(variable, sizeof variable, "INGOT_TEST_FAIL_ALLOC=%d", n);
        program_result result =
            RUN_WITH(ENV(variable), "demo", "-q", "-n2", "-p", "the rain", "--out", dir);
        if (result.code != 0 && result.code != 4)
            fail_msg("allocation %d: exit %d, %s", n, result.code, result.err);
        const bool reached = strstr(result.err, "fails on purpose") != NULL;
        if (result.code == 4) assert_non_null(strstr(result.err, "ingot demo: "));
        failed += result.code == 4;
        program_free(&result);
        if (!reached) break;
    }
    assert_true(failed > 50);
}

/* ---- */

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) {
        unlink(path);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char child[2 * PATH_BYTES];
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        remove_tree(child);
    }
    closedir(dir);
    rmdir(path);
}

static int set_up(void **state) {
    static fixture f; /* cmocka passes it to every test */
    strcpy(f.dir, "/tmp/ingot-cli-XXXXXX");
    if (!mkdtemp(f.dir)) return -1;
    snprintf(f.file, sizeof f.file, "%s/text.oam", f.dir);
    *state = &f;
    program_result result = RUN("demo", "-q", "--steps", "2", "--out", f.dir);
    const int code = result.code;
    if (code != 0) fprintf(stderr, "%s\n", result.err);
    program_free(&result);
    return code;
}

static int tear_down(void **state) {
    const fixture *f = *state;
    remove_tree(f->dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_command_it_says_how_it_is_used),
        cmocka_unit_test(help_lists_every_command_and_each_has_its_own),
        cmocka_unit_test(help_fits_the_width_it_is_given),
        cmocka_unit_test(help_is_there_for_programs_too),
        cmocka_unit_test(version_names_compiler_and_instruction_sets),
        cmocka_unit_test(version_names_the_backends_that_are_built_in),
        cmocka_unit_test(forced_instruction_set_is_the_one_in_use),
        cmocka_unit_test(the_manual_page_has_every_command),
        cmocka_unit_test(an_unknown_command_gets_the_nearest_suggested),
        cmocka_unit_test(an_unknown_option_gets_the_nearest_suggested),
        cmocka_unit_test(a_wrong_value_is_reported_with_the_right_ones),
        cmocka_unit_test(an_unknown_device_is_refused),
        cmocka_unit_test(an_output_replaces_no_input),
        cmocka_unit_test(a_closed_pipe_ends_it_quietly_with_141),
        cmocka_unit_test(a_full_disk_exits_with_6),
        cmocka_unit_test(color_is_for_those_who_ask),
        cmocka_unit_test(called_by_a_commands_name_it_is_that_command),
        cmocka_unit_test(completion_scripts_are_accepted_by_their_shells),
        cmocka_unit_test(bash_completes_commands_options_and_values),
        cmocka_unit_test(inspect_shows_parameters_config_and_tensors),
        cmocka_unit_test(inspect_json_holds_the_same),
        cmocka_unit_test(inspect_refuses_what_is_no_checkpoint),
        cmocka_unit_test(inspect_refuses_every_truncation),
        cmocka_unit_test(verify_finds_a_flipped_bit_in_the_data),
        cmocka_unit_test(info_shows_the_engine_in_its_three_roles),
        cmocka_unit_test(demo_trains_draws_saves_reloads_and_predicts),
        cmocka_unit_test(demo_trains_in_three_modes_and_they_agree),
        cmocka_unit_test(demo_learns_at_least_as_well_as_published),
        cmocka_unit_test(demo_gives_equal_bits_for_equal_seeds_only),
        cmocka_unit_test(demo_prints_plain_lines_where_there_is_no_terminal),
        cmocka_unit_test(demo_draws_a_bar_on_a_terminal),
        cmocka_unit_test(demo_says_what_it_would_write_and_writes_nothing),
        cmocka_unit_test(demo_into_a_place_that_is_no_folder_is_6),
        cmocka_unit_test(stopped_in_the_middle_it_ends_with_130_or_143),
        cmocka_unit_test(whatever_notices_it_the_word_is_stopped),
        cmocka_unit_test(help_shows_twelve_options_and_help_all_the_rest),
        cmocka_unit_test(a_failing_allocation_ends_with_4_and_nothing_worse),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
