#include "server/sd_notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool ig_sd_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (path[0] != '/' && path[0] != '@')) return false;
    const size_t n_bytes = strlen(path);
    if (n_bytes < 2 || n_bytes >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, path, n_bytes);
    if (path[0] == '@') address.sun_path[0] = 0; /* an abstract socket */
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const size_t size = offsetof(struct sockaddr_un, sun_path) + n_bytes;
    const size_t n_state = strlen(state);
    const ssize_t sent = sendto(fd, state, n_state, MSG_NOSIGNAL, (const struct sockaddr *)&address,
                                (socklen_t)size);
    close(fd);
    return sent == (ssize_t)n_state;
}

/* Whether a variable names this process, or none is named. */
static bool is_for_us(const char *variable) {
    const char *pid = getenv(variable);
    return !pid || strtol(pid, NULL, 10) == (long)getpid();
}

double ig_sd_watchdog_ms(void) {
    const char *usec = getenv("WATCHDOG_USEC");
    if (!usec || !is_for_us("WATCHDOG_PID")) return 0;
    const double ms = strtod(usec, NULL) * 1e-3;
    return ms > 0 ? ms : 0;
}

int ig_sd_listen_fds(void) {
    const char *count = getenv("LISTEN_FDS");
    if (!count || !getenv("LISTEN_PID") || !is_for_us("LISTEN_PID")) return 0;
    const long n = strtol(count, NULL, 10);
    return n > 0 && n < 64 ? (int)n : 0;
}
