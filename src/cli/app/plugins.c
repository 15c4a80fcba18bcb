#include "cli/app/plugins.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/user_dirs.h"
#include "ingot/device.h"
#include "ingot/report.h"

enum { SECONDS = 20, WORDS_BYTES = 400 };

/* ---- Plugins that passed ---- */

/* The marker's name is a hash of the plugin's path, inode, size, times and Ingot's version. */
static bool marker_of(ig_cli *cli, const char *path, char out[PATH_MAX]) {
    const ig_ctx_options options = ig_cli_ctx_options(cli);
    char folder[PATH_MAX], seen[PATH_MAX + 256];
    struct stat s;
    if (ig_cache_dir(&options, folder, sizeof folder) != IG_OK || stat(path, &s) != 0) return false;
    const int bytes = snprintf(seen, sizeof seen, "%s %lld %lld %lld %lld.%09ld %lld.%09ld %s",
                               path, (long long)s.st_dev, (long long)s.st_ino, (long long)s.st_size,
                               (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec,
                               (long long)s.st_ctim.tv_sec, s.st_ctim.tv_nsec, ig_version());
    const XXH128_hash_t hash = XXH3_128bits(seen, (size_t)bytes);
    const int length = snprintf(out, PATH_MAX, "%s/plugins/%016llx%016llx", folder,
                                (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    return length > 0 && length < PATH_MAX;
}

static void remember(char marker[PATH_MAX]) {
    char *slash = strrchr(marker, '/');
    *slash = '\0';
    const ig_status status = ig_dir_make_private(marker);
    *slash = '/';
    if (status != IG_OK) return; /* it will be tried again */
    const int fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
}

/* ---- children ---- */

static int seconds_to_wait(void) {
    const char *said = getenv("INGOT_PLUGIN_SECONDS");
    const long seconds = said ? strtol(said, NULL, 10) : 0;
    return seconds > 0 && seconds < 100000 ? (int)seconds : SECONDS;
}

static const char done[] = "\1"; /* written by a child that succeeded, instead of an error */

/* Runs in the child: the error text goes to `out`. */
static _Noreturn void run_child(ig_cli_child_fn *fn, void *arg, bool timed, int out) {
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    if (timed) alarm((unsigned)seconds_to_wait());
    const ig_status status = fn(arg);
    fflush(stdout);
    if (status == IG_OK) {
        (void)!write(out, done, sizeof done - 1);
        _exit(0);
    }
    char words[WORDS_BYTES];
    snprintf(words, sizeof words, "%s", ig_error_text());
    char *place = strrchr(words, '(');
    if (place && place > words && strstr(place, ".c:")) place[-1] = '\0';
    (void)!write(out, words, strlen(words));
    _exit((int)status);
}

/* A plugin may exit with any code, including 0; only with an error text is it one of our statuses.
 */
static ig_status verdict(int how, const char *words) {
    if (WIFEXITED(how) && strcmp(words, done) == 0) return IG_OK;
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM)
        return IG_FAIL(IG_ERR_DEVICE, "it took longer than %d s to load", seconds_to_wait());
    if (WIFSIGNALED(how))
        return IG_FAIL(IG_ERR_DEVICE, "it died of signal %d (%s) in a child process", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
    const int told = WEXITSTATUS(how);
    if (words[0])
        return IG_FAIL(told < IG_STATUS_COUNT ? (ig_status)told : IG_ERR_DEVICE, "%s", words);
    return IG_FAIL(IG_ERR_DEVICE, "it exited in the child process that loaded it");
}

ig_status ig_cli_in_child(ig_cli_child_fn *fn, void *arg, bool timed) {
    int ends[2], how = 0;
    char words[WORDS_BYTES + 1] = "";
    if (pipe2(ends, O_CLOEXEC) != 0) return IG_FAIL(IG_ERR_IO, "no pipe to a child process");
    fflush(stdout); /* or both processes would write it */
    const pid_t child = fork();
    if (child == 0) run_child(fn, arg, timed, ends[1]);
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; child > 0 && used < WORDS_BYTES; used += (size_t)got)
        if ((got = read(ends[0], words + used, WORDS_BYTES - used)) <= 0) break;
    close(ends[0]);
    while (child > 0 && waitpid(child, &how, 0) < 0) continue;
    if (child < 0) return IG_FAIL(IG_ERR_IO, "no child process to try it in");
    return verdict(how, words);
}

/* ---- trying ---- */

void ig_cli_discard_output(void) {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; nowhere >= 0 && fd <= STDERR_FILENO; fd++) dup2(nowhere, fd);
}

static ig_status probe(void *path) {
    ig_cli_discard_output();
    return ig_plugin_probe(path);
}

ig_status ig_cli_try_plugin(ig_cli *cli, const char *path) {
    char marker[PATH_MAX];
    const bool can_remember = marker_of(cli, path, marker);
    if (can_remember && access(marker, F_OK) == 0) return IG_OK;
    IG_TRY(ig_cli_in_child(probe, (void *)(uintptr_t)path, true));
    if (can_remember) remember(marker);
    return IG_OK;
}

bool ig_cli_accept_plugin(void *user, const char *path) {
    return ig_cli_try_plugin(user, path) == IG_OK;
}
