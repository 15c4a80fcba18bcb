#include "cli/app/term.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 80, LEAST_WIDTH = 20, MOST_WIDTH = 500 };

static const char *env(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

static bool wants_color(ig_color color, int fd) {
    if (color != IG_COLOR_AUTO) return color == IG_COLOR_ALWAYS;
    if (*env("NO_COLOR")) return false;
    if (*env("CLICOLOR_FORCE") && strcmp(env("CLICOLOR_FORCE"), "0") != 0) return true;
    return isatty(fd) && *env("TERM") && strcmp(env("TERM"), "dumb") != 0;
}

/* The first of these variables that is set names the encoding, as in "en_GB.UTF-8". */
static bool is_utf8(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = env(names[i]);
        if (*value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static int find_width(void) {
    struct winsize size;
    int width = 0;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = (int)strtol(env("COLUMNS"), NULL, 10);
    if (width <= 0) width = DEFAULT_WIDTH;
    return width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width;
}

ig_term ig_term_detect(ig_color color) {
    return (ig_term){
        .out_color = wants_color(color, STDOUT_FILENO),
        .err_color = wants_color(color, STDERR_FILENO),
        .live = isatty(STDERR_FILENO) && *env("TERM") && strcmp(env("TERM"), "dumb") != 0,
        .utf8 = is_utf8(),
        .width = find_width(),
    };
}

const char *ig_term_style(bool color, ig_style style) {
    static const char *const on[] = {
        [IG_BOLD] = "\033[1m",   [IG_DIM] = "\033[2m",   [IG_RED] = "\033[31m",
        [IG_GREEN] = "\033[32m", [IG_CYAN] = "\033[36m", [IG_PLAIN] = "\033[0m",
    };
    return color ? on[style] : "";
}
