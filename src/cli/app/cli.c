/*
 * Shared by all commands: common options, exit codes, error messages.
 */
#include "cli/app/cli.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/app/output.h"
#include "cli/app/plugins.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "ingot/device.h"

enum { COMMANDS_MAX = 64 };

static const char *const precisions[] = {"f32", "f16", "fp16", "bf16", "int8", NULL};
static const char *const color_choices[] = {"auto", "always", "never", NULL};

const char *ig_device_suggestion(size_t i) { return i == 0 ? "auto" : ig_backend_name(i - 1); }

const ig_opt ig_common_opts[] = {
    {OPT_FLAG, 'h', "help", offsetof(ig_cli, help), .help = "print this help", .flags = OPT_FIRST},
    {OPT_FLAG, 0, "help-all", offsetof(ig_cli, help_all), .help = "print help with all options",
     .flags = OPT_FIRST},
    {OPT_FLAG, 0, "json", offsetof(ig_cli, json),
     .help = "print the result as one JSON object on stdout", .flags = OPT_FIRST},
    {OPT_FLAG, 'q', "quiet", offsetof(ig_cli, quiet), .help = "suppress progress and log messages",
     .flags = OPT_FIRST},
    {OPT_FLAG, 'v', "verbose", offsetof(ig_cli, verbose),
     .help = "print the library's log and the source line of errors", .flags = OPT_FIRST},
    {OPT_FLAG, 0, "strict", offsetof(ig_cli, strict),
     .help = "exit with 5 instead of falling back to another device or level"},
    {OPT_TEXT, 0, "report", offsetof(ig_cli, report),
     .help = "write the run report (JSON) to this file, also when the run fails", .value = "FILE",
     .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "cache-dir", offsetof(ig_cli, cache_dir),
     .help = "folder of the compile cache (default: $INGOT_CACHE_DIR, $RM_CACHE_DIR, \"cache_dir\" "
             "in config.json, ~/.cache/ingot)",
     .value = "DIR", .flags = OPT_DIR},
    {OPT_FLAG, 0, "no-cache", offsetof(ig_cli, no_cache),
     .help = "do not read or write the compile cache"},
    {OPT_FLAG, 0, "cache-weights", offsetof(ig_cli, cache_weights),
     .help = "store packed weights in the cache too: about the size of the model"},
    {OPT_INT, 0, "optimization-level", offsetof(ig_cli, optimization_level),
     .help = "optimization level of the device's compiler, 1 to 3; 0: its default", .value = "N",
     .initial = "0", .low = 0, .high = 3},
    {OPT_TEXT, 0, "precision", offsetof(ig_cli, precision),
     .help = "compute dtype of a device that compiles", .value = "TYPE", .choices = precisions,
     .flags = OPT_ONE_OF},
    {OPT_TEXT, 0, "batch-sizes", offsetof(ig_cli, batch_sizes),
     .help = "ubatch sizes to compile ahead of the first run, such as 1,8,64", .value = "LIST",
     .flags = OPT_NUMBERS},
    {OPT_FLAG, 0, "isolate-plugin", offsetof(ig_cli, isolate_plugins),
     .help = "run plugins in a child process: when one crashes, another device takes over"},
    {OPT_FLAG, 0, "unsafe-device", offsetof(ig_cli, unsafe_device),
     .help = "use the device of --device even if its self-test fails"},
    {OPT_BYTES, 0, "memory-limit", offsetof(ig_cli, memory_bytes),
     .help =
         "memory limit per device for tensors, plans and packed weights, such as 64M or 1.5GiB; "
         "0: none",
     .value = "BYTES", .initial = "0"},
    {OPT_CHOICE, 0, "color", offsetof(ig_cli, color),
     .help = "colored output; auto: on a terminal, unless NO_COLOR is set", .value = "WHEN",
     .choices = color_choices},
    {0},
};

const ig_opt ig_global_opts[] = {
    {OPT_FLAG, 0, "version", offsetof(ig_cli, version),
     .help = "print version, compiler and instruction sets", .flags = OPT_FIRST},
    {0},
};

/* ---- Exit codes ---- */

const ig_exit_row ig_exit_rows[] = {
    {0, "success"},
    {1, "the run failed"},
    {2, "wrong usage: an unknown command or option, or a value out of range"},
    {3, "a model or file is damaged or has an unexpected format"},
    {4, "out of memory"},
    {5, "the device is not available or cannot run the request"},
    {6, "I/O error: missing file, no permission, full disk"},
    {129, "stopped by SIGHUP (the terminal was closed)"},
    {130, "stopped by SIGINT (Ctrl-C)"},
    {141, "stdout was closed (SIGPIPE)"},
    {143, "stopped by SIGTERM"},
    {0, NULL},
};

/* One row for each status: the exit code, its name in reports, the words before the error's text,
 * and a hint for the user. */
static const struct outcome {
    int exit_code;
    const char *name;
    const char *first, *next; /* "" for nothing; a NULL `next` points to the command's --help */
} outcomes[IG_STATUS_COUNT] = {
    [IG_OK] = {0, "", "", ""},
    [IG_ERR_ARGUMENT] = {2, "InvalidArgument", "", NULL},
    [IG_ERR_SHAPE] = {1, "RunFailed", "", ""},
    [IG_ERR_UNSUPPORTED] = {5, "BackendUnavailable", "", "Try --device cpu."},
    [IG_ERR_MEMORY] = {4, "InsufficientMemory",
                       "out of memory: ", "Free some memory, or request less."},
    [IG_ERR_IO] = {6, "InputOutput", "", "Check the path, its permissions and the free space."},
    [IG_ERR_FORMAT] = {3, "WeightFormat", "", ""},
    [IG_ERR_DEVICE] = {5, "BackendUnavailable", "", "'ingot devices' lists what this machine has."},
    [IG_ERR_CANCELLED] = {130, "Cancelled", "", ""},
    [IG_ERR_SPLIT] = {1, "RunFailed", "", ""},
    [IG_ERR_STATE] = {1, "RunFailed", "", ""},
    [IG_ERR_NOT_FINITE] = {1, "RunFailed", "", ""},
    [IG_ERR_MODEL] = {3, "ModelNotRegistered", "", "'ingot archs' lists the known ones."},
    [IG_ERR_DEPENDENCY] = {5, "DependencyUnavailable", "", "Install what is missing."},
    [IG_ERR_BUSY] = {1, "Busy", "", "Try again later."},
};

const char *ig_error_name(ig_status status) {
    return (unsigned)status < IG_STATUS_COUNT ? outcomes[status].name : "RunFailed";
}

const char *ig_error_hint(ig_status status) {
    const char *next = (unsigned)status < IG_STATUS_COUNT ? outcomes[status].next : "";
    return next ? next : "See the command's --help.";
}

int ig_exit_code(ig_status status) {
    if ((unsigned)status >= IG_STATUS_COUNT) return 1;
    const int signal = ig_signals_caught();
    if (status == IG_ERR_CANCELLED && signal) return 128 + signal;
    if (status == IG_ERR_CANCELLED && ferror(stdout)) return 128 + SIGPIPE;
    return outcomes[status].exit_code;
}

/* The end of " (place.c:41)"; NULL: `at` is not such a source location. */
static const char *end_of_place(const char *at) {
    const char *c = at + 2;
    while (isalnum((unsigned char)*c) || *c == '_') c++;
    if (c == at + 2 || (strncmp(c, ".c:", 3) != 0 && strncmp(c, ".h:", 3) != 0)) return NULL;
    if (!isdigit((unsigned char)c[3])) return NULL;
    for (c += 3; isdigit((unsigned char)*c);) c++;
    return *c == ')' ? c + 1 : NULL;
}

/* Removes source locations, which only -v shows. A message that quotes another one has several. */
static void cut_places(char *text) {
    for (char *at = text; (at = strstr(at, " (")) != NULL;) {
        const char *end = end_of_place(at);
        if (end)
            memmove(at, end, strlen(end) + 1);
        else
            at++;
    }
}

const char *ig_cli_error(const ig_cli *cli, char out[IG_ERROR_BYTES]) {
    ig_text_safe(ig_error_text(), out, IG_ERROR_BYTES);
    if (!cli->verbose) cut_places(out);
    return out;
}

const char *ig_cli_outcome(const ig_cli *cli, ig_status status, char out[IG_ERROR_BYTES]) {
    static const char stopped[] = "stopped", after[] = ": stopped";
    ig_cli_error(cli, out);
    if (!*out) snprintf(out, IG_ERROR_BYTES, "%s", ig_status_text(status));
    if (status != IG_ERR_CANCELLED || strncmp(out, stopped, sizeof stopped - 1) == 0) return out;
    const char *at = strstr(out, after);
    if (at)
        memmove(out, at + 2, strlen(at + 2) + 1);
    else
        memcpy(out, stopped, sizeof stopped);
    return out;
}

static bool has_device_option(const ig_command *command) {
    for (ig_opt_walk w = ig_opts_first(command->opts); w.opt; w = ig_opts_next(w))
        if (strcmp(w.opt->name, "device") == 0) return true;
    return false;
}

/* Without a device nothing would use them. An opened device checks them itself. */
static ig_status check_compile_options(const ig_cli *cli) {
    if (has_device_option(cli->command)) return IG_OK;
    if (cli->precision)
        return IG_FAIL(IG_ERR_ARGUMENT, "--precision %s: 'ingot %s' does not compile anything",
                       cli->precision, cli->command->name);
    if (cli->optimization_level)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--optimization-level %lld: 'ingot %s' does not compile anything",
                       (long long)cli->optimization_level, cli->command->name);
    return IG_OK;
}

ig_status ig_cli_check(const ig_cli *cli) {
    if (cli->cache_weights && cli->no_cache)
        return IG_FAIL(IG_ERR_ARGUMENT, "--cache-weights, --no-cache: contradict each other");
    return check_compile_options(cli);
}

int ig_cli_fail(const ig_cli *cli, ig_status status) {
    const int code = ig_exit_code(status);
    if (status == IG_ERR_CANCELLED && ferror(stdout)) return code; /* finish() says why */
    char text[IG_ERROR_BYTES];
    ig_cli_outcome(cli, status, text);

    const char *name = cli->command ? cli->command->name : "";
    const char *gap = *name ? " " : "";
    const bool known = (unsigned)status < IG_STATUS_COUNT;
    const char *next = known ? outcomes[status].next : "";
    const char *first = known ? outcomes[status].first : "";
    char help[96];
    if (!next) {
        snprintf(help, sizeof help, "Try 'ingot%s%s --help'.", gap, name);
        next = help;
    }
    const size_t length = strlen(text);
    const char *stop = length && strchr(".?!", text[length - 1]) ? "" : ".";
    fprintf(stderr, "%singot%s%s:%s %s%s%s%s%s\n", ig_term_style(cli->term.err_color, IG_RED), gap,
            name, ig_term_style(cli->term.err_color, IG_PLAIN), first, text, stop, *next ? " " : "",
            next);
    return code;
}

/* Whether stdout is a pipe or socket whose reader has closed it. */
static bool reader_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

int ig_cli_finish(const ig_cli *cli, int code) {
    const bool failed_before = ferror(stdout);
    const bool flushed = fflush(stdout) == 0;
    const int why = cli->write_errno ? cli->write_errno : flushed ? EIO : errno;
    if (flushed && !failed_before) return code;
    if (why == EPIPE || reader_gone()) return 141;
    fprintf(stderr, "ingot%s%s: standard output: %s. %s\n", cli->command ? " " : "",
            cli->command ? cli->command->name : "", strerror(why), outcomes[IG_ERR_IO].next);
    return outcomes[IG_ERR_IO].exit_code;
}

/* ---- For commands ---- */

static void log_line(void *user, ig_log_level level, const char *text) {
    const ig_cli *cli = user;
    if (cli->quiet || (level < IG_LOG_WARNING && !cli->verbose)) return;
    char safe[8192]; /* one timeline entry per line */
    ig_text_safe(text, safe, sizeof safe);
    if (!cli->verbose) cut_places(safe);
    fprintf(stderr, "%s%s\n", level >= IG_LOG_WARNING ? "warning: " : "", safe);
}

static void close_context(void *user, const ig_ctx *ctx) {
    ig_load_progress_end(user);
    ig_run_context(user, ctx);
}

static bool asks_to_stop(void *user) { return ig_cli_cancelled(user); }

ig_ctx_options ig_cli_ctx_options(ig_cli *cli) {
    return (ig_ctx_options){.log = log_line,
                            .cancel = asks_to_stop,
                            .user = cli,
                            .allocator = cli->allocator,
                            .strict = cli->strict,
                            .progress = ig_load_progress_update,
                            .on_destroy = close_context,
                            .compile = {.optimization_level = (int)cli->optimization_level,
                                        .precision = cli->precision,
                                        .batch_sizes = cli->batch_sizes},
                            .cache_dir = cli->cache_dir,
                            .no_cache = cli->no_cache,
                            .cache_packed_weights = cli->cache_weights,
                            .accept_plugin = ig_cli_accept_plugin,
                            .isolate_plugins = cli->isolate_plugins,
                            .unsafe_device = cli->unsafe_device,
                            .memory_bytes = cli->memory_bytes};
}

bool ig_cli_cancelled(const ig_cli *cli) {
    (void)cli;
    return ig_signals_caught() != 0 || ferror(stdout);
}

void ig_cli_flush(ig_cli *cli) {
    const bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (failed && cli->write_errno == 0) cli->write_errno = errno;
}

void ig_cli_say(const ig_cli *cli, const char *fmt, ...) {
    if (cli->quiet) return;
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

const ig_command *ig_command_find(const ig_cli *cli, const char *name) {
    for (const ig_command *const *c = cli->commands; *c; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    return NULL;
}

const char *ig_command_suggest(const ig_cli *cli, const char *wrong) {
    const char *names[COMMANDS_MAX];
    int count = 0;
    for (const ig_command *const *c = cli->commands; *c && count < COMMANDS_MAX; c++)
        names[count++] = (*c)->name;
    return ig_nearest(wrong, names, count);
}

ig_status ig_cli_check_gguf_name(const char *out) {
    static const char *const others[] = {".onnx", ".safetensors", ".oam", ".pt", ".pth"};
    const char *end = strrchr(out, '.');
    for (size_t i = 0; end && i < sizeof others / sizeof others[0]; i++)
        if (strcmp(end, others[i]) == 0)
            return IG_FAIL(IG_ERR_ARGUMENT, "OUT %s: the output is a GGUF file; name it .gguf",
                           out);
    return IG_OK;
}
