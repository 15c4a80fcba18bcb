/*
 * ingot COMMAND [OPTION...] - find the command, fill in its options, run it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/app/alloc_fault.h"
#include "cli/app/cli.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"

static const ig_command *const commands[] = {
#define IG_COMMAND(name) &cmd_##name,
#include "cli/commands.def"
    NULL,
};

/* A file opened while 0, 1 or 2 is free would get that number, and our output. The placeholders
 * can be neither read nor written, so using a closed stream is still an error. */
static void occupy_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

static int unknown_command(ig_cli *cli, const char *name) {
    const char *near = ig_command_suggest(cli, name);
    if (near)
        return ig_cli_fail(
            cli, IG_FAIL(IG_ERR_ARGUMENT, "'%s': unknown command; did you mean %s?", name, near));
    return ig_cli_fail(cli, IG_FAIL(IG_ERR_ARGUMENT, "'%s': unknown command", name));
}

static int run_command(ig_cli *cli, int argc, char **argv) {
    _Alignas(max_align_t) unsigned char options[IG_OPTIONS_BYTES] = {0};
    const ig_command *command = cli->command;
    const ig_opt_set sets[] = {
        {command->opts, options}, {ig_common_opts, cli}, {ig_llama_opts, cli}};

    ig_status status = ig_opts_parse(sets, 3, argc, argv, NULL);
    cli->term = ig_term_detect((ig_color)cli->color);
    if (status == IG_OK && (cli->help || cli->help_all)) {
        ig_help_print(cli, command, stdout, cli->term.out_color);
        return 0;
    }
    if (status == IG_OK) status = ig_opts_check(sets, 2);
    if (status == IG_OK) status = ig_cli_check(cli);
    if (status == IG_OK) {
        if (command->cancels) ig_signals_catch();
        status = command->run(cli, options);
    }
    return ig_run_finish(cli, options, status, status == IG_OK ? 0 : ig_cli_fail(cli, status));
}

/* Parses the program's own options, up to the command's name. */
static int run_program(ig_cli *cli, int argc, char **argv) {
    const ig_opt_set sets[] = {{ig_common_opts, cli}, {ig_global_opts, cli}, {ig_llama_opts, cli}};
    int used = 0;
    const ig_status status = ig_opts_parse(sets, 3, argc, argv, &used);
    cli->term = ig_term_detect((ig_color)cli->color);
    if (status != IG_OK) return ig_run_finish(cli, NULL, status, ig_cli_fail(cli, status));

    if (cli->help_all && !cli->version && used == argc) {
        ig_help_print(cli, NULL, stdout, cli->term.out_color);
        return 0;
    }
    if (cli->version || cli->help) {
        cli->command = cli->version ? &cmd_version : &cmd_help;
        cli->help = false;
        return run_command(cli, argc - used, argv + used);
    }
    if (used == argc) {
        ig_help_print(cli, NULL, stderr, cli->term.err_color);
        return ig_exit_code(IG_ERR_ARGUMENT);
    }
    cli->command = ig_command_find(cli, argv[used]);
    if (!cli->command)
        return ig_run_finish(cli, NULL, IG_ERR_ARGUMENT, unknown_command(cli, argv[used]));
    return run_command(cli, argc - used - 1, argv + used + 1);
}

typedef struct arguments {
    int argc;
    char **argv;
    int code;
} arguments;

static int run_all(int argc, char **argv) {
    ig_signals_guard_files();
    ig_alloc_fault fault;
    ig_run report;
    const ig_allocator allocator = ig_alloc_fault_init(&fault); /* before JSON is used */
    ig_run_begin(&report);
    ig_cli cli = {.commands = commands, .allocator = allocator, .fault = &fault, .run = &report};

    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *called = slash ? slash + 1 : argc > 0 ? argv[0] : "ingot";
    cli.command = ig_command_find(&cli, called); /* a symlink with a command's name */
    const int skip = argc > 0;
    const int code = cli.command ? run_command(&cli, argc - skip, argv + skip)
                                 : run_program(&cli, argc - skip, argv + skip);
    return ig_cli_finish(&cli, code);
}

static void *run_in_thread(void *user) {
    arguments *a = user;
    a->code = run_all(a->argc, a->argv);
    return NULL;
}

/* Kernels run on this thread, too, and need more stack than a low limit (ulimit -s 256) gives; in
 * that case the program runs in a thread with a normal stack. That thread receives the signals. */
static bool run_with_stack(arguments *a) {
    enum { LEAST = 2 << 20, USUAL = 8 << 20 };
    struct rlimit limit;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST) return false;
    if (pthread_attr_init(&attributes) != 0) return false;
    const bool created = pthread_attr_setstacksize(&attributes, USUAL) == 0 &&
                         pthread_create(&thread, &attributes, run_in_thread, a) == 0;
    pthread_attr_destroy(&attributes);
    if (!created) return false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_join(thread, NULL);
    return true;
}

int main(int argc, char **argv) {
    arguments a = {argc, argv, 0};
    occupy_closed_streams();
    ig_signals_ignore_writes();
    if (!run_with_stack(&a)) a.code = run_all(argc, argv);
    return a.code;
}
