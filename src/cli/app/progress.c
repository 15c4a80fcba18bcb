#include "cli/app/progress.h"

#include <string.h>

static const double live_every = 0.05, plain_every = 5; /* seconds between two updates */

enum { BAR_MOST = 30, BAR_LEAST = 8, PART_BYTES = 160 };

ig_meter ig_meter_begin(const ig_term *term, bool quiet, const char *what, const char *unit,
                        uint64_t total) {
    return (ig_meter){
        .to = quiet ? NULL : stderr,
        .term = *term,
        .what = what,
        .unit = unit,
        .total = total,
        .began = ig_clock_seconds(),
        .drawn = -plain_every, /* long ago: the first update draws */
    };
}

/* "0:07", "12:30", "3:02:10" */
static void time_text(double seconds, char *out, size_t out_bytes) {
    const unsigned long long all = (unsigned long long)(seconds + 0.5);
    const unsigned long long hours = all / 3600, minutes = all / 60 % 60, rest = all % 60;
    if (hours)
        snprintf(out, out_bytes, "%llu:%02llu:%02llu", hours, minutes, rest);
    else
        snprintf(out, out_bytes, "%llu:%02llu", minutes, rest);
}

/* "150/300 steps  412 steps/s  0:01 left" */
static void numbers_text(const ig_meter *meter, uint64_t done, double seconds, char *out,
                         size_t out_bytes) {
    char rate[48] = "", left[48] = "";
    if (done > meter->before && seconds > 0) {
        const double per_second = (double)(done - meter->before) / seconds;
        snprintf(rate, sizeof rate, "  %.*f %s/s", per_second < 10 ? 1 : 0, per_second,
                 meter->unit);
        char time[24];
        const bool over = done >= meter->total;
        time_text(over ? seconds : (double)(meter->total - done) / per_second, time, sizeof time);
        snprintf(left, sizeof left, "  %s %s", time, over ? "in all" : "left");
    }
    const double percent = 100 * (double)done / (double)meter->total;
    if (!*meter->unit) /* no unit: only a percentage */
        snprintf(out, out_bytes, "%3.0f%%%s", percent, left);
    else
        snprintf(out, out_bytes, "%3.0f%%  %llu/%llu %s%s%s", percent, (unsigned long long)done,
                 (unsigned long long)meter->total, meter->unit, rate, left);
}

/* A bar of `cells` columns and a space; empty if there is no room. */
static void bar_text(const ig_meter *meter, uint64_t done, int cells, char *out, size_t out_bytes) {
    *out = 0;
    if (cells < BAR_LEAST) return;
    if (cells > BAR_MOST) cells = BAR_MOST;
    const bool color = meter->term.err_color, utf8 = meter->term.utf8;
    const int full = (int)((double)cells * (double)done / (double)meter->total);
    const char *done_cell = utf8 ? "━" : "#", *open_cell = utf8 ? (color ? "━" : "─") : ".";
    size_t used = 0;
    const char *const styles[] = {ig_term_style(color, IG_GREEN), ig_term_style(color, IG_DIM)};
    for (int i = 0; i < cells; i++) {
        const char *style = i == 0 ? styles[i >= full] : i == full ? styles[1] : "";
        const char *off = i == full && i > 0 ? ig_term_style(color, IG_PLAIN) : "";
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s%s", off, style,
                                 i < full ? done_cell : open_cell);
    }
    snprintf(out + used, out_bytes - used, "%s  ", ig_term_style(color, IG_PLAIN));
}

const char *ig_meter_text(const ig_meter *meter, uint64_t done, double seconds, const char *note,
                          char out[IG_METER_LINE_BYTES]) {
    if (done > meter->total) done = meter->total;
    char numbers[PART_BYTES], bar[2 * PART_BYTES] = "";
    numbers_text(meter, done, seconds, numbers, sizeof numbers);
    const char *gap = *note ? "  " : "";
    if (!meter->term.live) {
        snprintf(out, IG_METER_LINE_BYTES, "%s: %s%s%s", meter->what,
                 numbers + strspn(numbers, " "), gap, note);
        return out;
    }
    /* The last column stays free: some terminals wrap after writing to it. */
    const int room = meter->term.width - 1;
    const int text = (int)(strlen(meter->what) + 2 + strlen(numbers) + strlen(gap) + strlen(note));
    bar_text(meter, done, room - text - 2, bar, sizeof bar);
    if (*bar || text <= room)
        snprintf(out, IG_METER_LINE_BYTES, "%s  %s%s%s%s", meter->what, bar, numbers, gap, note);
    else
        snprintf(out, IG_METER_LINE_BYTES, "%.*s", room, numbers + strspn(numbers, " "));
    return out;
}

static void draw(ig_meter *meter, uint64_t done, double now, const char *note) {
    char line[IG_METER_LINE_BYTES];
    ig_meter_text(meter, done, now - meter->began, note, line);
    if (meter->term.live)
        fprintf(meter->to, "\r\033[K%s", line);
    else
        fprintf(meter->to, "%s\n", line);
    fflush(meter->to);
    meter->line_open = meter->term.live;
    meter->drawn = now;
}

void ig_meter_update(ig_meter *meter, uint64_t done, const char *note) {
    if (!meter->to) return;
    const double now = ig_clock_seconds();
    const double every = meter->term.live ? live_every : plain_every;
    if (meter->eager > 0)
        meter->eager--;
    else if (now - meter->drawn < every)
        return;
    draw(meter, done, now, note);
}

void ig_meter_end(ig_meter *meter, uint64_t done, const char *note) {
    if (!meter->to) return;
    draw(meter, done, ig_clock_seconds(), note);
    if (meter->line_open) fputc('\n', meter->to);
    fflush(meter->to);
    meter->line_open = false;
}
