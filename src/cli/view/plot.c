/*
 * Curves as SVG.
 *
 *        left                                   right
 *     top +-- title ------------------- legend ---+
 *         |                                       |     y goes down in a picture, so the
 *         |            the curves                 |     largest value is at `top`
 *  bottom +---------------------------------------+
 *            x ticks, then the x label
 *
 * Colors are those of Okabe and Ito, which most color-blind people can tell
 * apart.  A series with more points than columns is drawn by the least and the
 * largest value of each column, so the picture stays small and spikes stay in.
 */
#include "cli/view/plot.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_WIDTH = 800, DEFAULT_HEIGHT = 450, COLORS = 7, TICK_BYTES = 32 };
enum { MARGIN_LEFT = 64, MARGIN_RIGHT = 24, MARGIN_TOP = 48, MARGIN_BOTTOM = 56 };
enum { X_TICKS = 10, Y_TICKS = 8, LEGEND_ROW = 20 };

static const char *const colors[COLORS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                           "#e69f00", "#56b4e9", "#000000"};

/* Maps data to pixels: pixel = at + scale * value, or scale * log(value). */
typedef struct axis {
    double low, high;
    double from, to; /* pixels of low and high */
    bool log;
} axis;

static double place(const axis *a, double value) {
    const double share = a->log ? (log(value) - log(a->low)) / (log(a->high) - log(a->low))
                                : (value - a->low) / (a->high - a->low);
    return a->from + share * (a->to - a->from);
}

/* Beyond these, differences and quotients of two values could overflow. */
static const double largest_drawn = 1e150, least_log_drawn = 1e-150;

static bool is_drawn(const ig_plot *plot, double x, double y) {
    if (!(fabs(x) <= largest_drawn && fabs(y) <= largest_drawn)) return false; /* NaN, too */
    if (plot->log_x && x < least_log_drawn) return false;
    return !plot->log_y || y >= least_log_drawn;
}

/* ---- Ticks ---- */

/* The smallest of 1, 2, 5 times a power of ten with at most `most` steps in the span. */
static double round_step(double span, int most) {
    const double raw = span / most, power = pow(10, floor(log10(raw)));
    static const double nice[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (nice[i] * power >= raw * (1 - 1e-12)) return nice[i] * power;
    return 10 * power;
}

int ig_plot_ticks(double low, double high, int most, double out[IG_TICKS_MAX]) {
    if (most > IG_TICKS_MAX - 1) most = IG_TICKS_MAX - 1;
    const double step = round_step(high - low, most);
    const double first = ceil(low / step - 1e-9), last = floor(high / step + 1e-9);
    int count = 0;
    while (count < IG_TICKS_MAX && first + count <= last) {
        out[count] = (first + count) * step;
        count++;
    }
    return count;
}

/* `factors` times powers of ten in [low, high]; stops one after `most`. */
static int count_decades(double low, double high, const double *factors, int n_factors,
                         double out[IG_TICKS_MAX]) {
    int count = 0;
    for (int power = (int)floor(log10(low)); power <= (int)ceil(log10(high)); power++)
        for (int i = 0; i < n_factors; i++) {
            const double value = factors[i] * pow(10, power);
            if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
            if (count == IG_TICKS_MAX) return count + 1;
            out[count++] = value;
        }
    return count;
}

int ig_plot_log_ticks(double low, double high, int most, double out[IG_TICKS_MAX]) {
    static const double factors[] = {1, 2, 5};
    if (most > IG_TICKS_MAX) most = IG_TICKS_MAX;
    int count = count_decades(low, high, factors, 3, out);
    if (count < 3) return ig_plot_ticks(low, high, most, out); /* less than a decade */
    if (count > most) count = count_decades(low, high, factors, 1, out);
    if (count <= most) return count;
    /* Many decades: take every n-th. */
    const int from = (int)floor(log10(low)), to = (int)floor(log10(high) + 1e-9);
    const int every = 1 + (to - from) / most;
    count = 0;
    for (int power = from; power <= to && count < most; power += every)
        if (pow(10, power) >= low * (1 - 1e-9)) out[count++] = pow(10, power);
    return count;
}

/* Enough digits to tell neighboring ticks apart; on a log scale, as few as each tick needs. */
static void tick_text(const axis *a, const double *ticks, int count, int i, char out[TICK_BYTES]) {
    const double value = fabs(ticks[i]) < 1e-300 ? 0 : ticks[i];
    double step = count > 1 ? fabs(ticks[1] - ticks[0]) : fabs(value);
    for (int j = 2; j < count; j++) step = fmin(step, fabs(ticks[j] - ticks[j - 1]));
    const double largest = fmax(fabs(ticks[0]), fabs(ticks[count - 1]));
    if (largest >= 1e6 || (largest > 0 && largest < 1e-3) || step <= 0 || a->log) {
        snprintf(out, TICK_BYTES, "%.3g", value);
        return;
    }
    int digits = (int)ceil(-log10(step) - 1e-9);
    digits = digits < 0 ? 0 : digits > 9 ? 9 : digits;
    snprintf(out, TICK_BYTES, "%.*f", digits, value);
}

/* ---- Ranges ---- */

static void find_range(const ig_plot *plot, axis *x, axis *y) {
    *x = (axis){.low = INFINITY, .high = -INFINITY, .log = plot->log_x};
    *y = (axis){.low = INFINITY, .high = -INFINITY, .log = plot->log_y};
    for (size_t s = 0; s < plot->n_series; s++)
        for (size_t i = 0; i < plot->series[s].count; i++) {
            const double px = plot->series[s].x[i], py = plot->series[s].y[i];
            if (!is_drawn(plot, px, py)) continue;
            x->low = fmin(x->low, px), x->high = fmax(x->high, px);
            y->low = fmin(y->low, py), y->high = fmax(y->high, py);
        }
    if (!(x->low <= x->high)) /* no data */
        *x = (axis){.low = plot->log_x ? 0.1 : 0, .high = 1, .log = x->log};
    if (!(y->low <= y->high)) *y = (axis){.low = plot->log_y ? 0.1 : 0, .high = 1, .log = y->log};
}

/* Adds a margin above and below, so that curves do not touch the frame. */
static void widen(axis *a, double share) {
    if (a->log) {
        const double factor = a->high > a->low ? exp(share * (log(a->high) - log(a->low))) : 2;
        a->low /= factor, a->high *= factor;
        return;
    }
    const bool from_zero = a->low >= 0 && a->low <= 0.35 * a->high; /* include zero if it is near */
    double room = share * (a->high - a->low);
    if (!(room > 0)) room = fabs(a->high) > 0 ? 0.1 * fabs(a->high) : 1;
    a->low = from_zero ? 0 : a->low - room, a->high += room;
}

/* ---- Drawing ---- */

static void put_text(FILE *to, const char *text) {
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&')
            fputs("&amp;", to);
        else if (c == '<')
            fputs("&lt;", to);
        else if (c == '>')
            fputs("&gt;", to);
        else if (c == '"')
            fputs("&quot;", to);
        else
            fputc(c < 0x20 ? ' ' : c, to);
    }
}

static void put_label(FILE *to, const char *attributes, double x, double y, const char *text) {
    fprintf(to, "<text %s x=\"%.1f\" y=\"%.1f\">", attributes, x, y);
    put_text(to, text);
    fputs("</text>\n", to);
}

static void put_line(FILE *to, const char *class, double x0, double y0, double x1, double y1) {
    fprintf(to, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x0,
            y0, x1, y1);
}

/* The points of the first series, but for those that would be too near to the tick before. */
static int point_ticks(const ig_plot *plot, const axis *x, double out[IG_TICKS_MAX]) {
    enum { NEAREST = 24 };
    int count = 0;
    for (size_t i = 0; plot->n_series > 0 && i < plot->series[0].count; i++) {
        const double value = plot->series[0].x[i];
        if (count == IG_TICKS_MAX || !is_drawn(plot, value, 1)) continue;
        if (count > 0 && fabs(place(x, value) - place(x, out[count - 1])) < NEAREST) continue;
        out[count++] = value;
    }
    return count;
}

static void put_grid(FILE *to, const ig_plot *plot, const axis *x, const axis *y) {
    double ticks[IG_TICKS_MAX];
    char text[TICK_BYTES];
    int count = y->log ? ig_plot_log_ticks(y->low, y->high, Y_TICKS, ticks)
                       : ig_plot_ticks(y->low, y->high, Y_TICKS, ticks);
    for (int i = 0; i < count; i++) {
        const double at = place(y, ticks[i]);
        put_line(to, "grid", x->from, at, x->to, at);
        tick_text(y, ticks, count, i, text);
        put_label(to, "class=\"tick\" text-anchor=\"end\"", x->from - 8, at + 4, text);
    }
    count =
        plot->log_x ? point_ticks(plot, x, ticks) : ig_plot_ticks(x->low, x->high, X_TICKS, ticks);
    for (int i = 0; i < count; i++) {
        const double at = place(x, ticks[i]);
        put_line(to, "axis", at, y->from, at, y->from + 5);
        tick_text(x, ticks, count, i, text);
        put_label(to, "class=\"tick\" text-anchor=\"middle\"", at, y->from + 20, text);
    }
    put_line(to, "axis", x->from, y->from, x->to, y->from);
}

/* Draws a polyline; `down` while a line is open. */
typedef struct pen {
    FILE *to;
    bool down;
} pen;

static void draw_to(pen *p, double x, double y) {
    fprintf(p->to, "%c%.1f %.1f", p->down ? 'L' : 'M', x, y);
    p->down = true;
}

/* Minimum and maximum of one pixel column, in data order. */
typedef struct column {
    double x, low, high;
    size_t low_at, high_at, count;
} column;

static void draw_column(pen *p, const column *c) {
    if (c->count == 0) return;
    const bool low_first = c->low_at < c->high_at;
    draw_to(p, c->x, low_first ? c->low : c->high);
    if (c->count > 1) draw_to(p, c->x, low_first ? c->high : c->low);
}

static void put_curve(FILE *to, const ig_plot *plot, const ig_series *s, const axis *x,
                      const axis *y) {
    pen p = {to, false};
    column c = {0};
    const bool thin_out = (double)s->count > 2 * (x->to - x->from);
    for (size_t i = 0; i < s->count; i++) {
        if (!is_drawn(plot, s->x[i], s->y[i])) {
            draw_column(&p, &c);
            c.count = 0;
            p.down = false;
            continue;
        }
        double px = place(x, s->x[i]);
        const double py = place(y, s->y[i]);
        if (thin_out) px = floor(px);
        if (c.count > 0 && (!thin_out || px != c.x)) {
            draw_column(&p, &c);
            c.count = 0;
        }
        if (c.count == 0) c = (column){.x = px, .low = py, .high = py, .low_at = i, .high_at = i};
        if (py < c.low) c.low = py, c.low_at = i;
        if (py > c.high) c.high = py, c.high_at = i;
        c.count++;
    }
    draw_column(&p, &c);
}

/* Draws all points as dots, or those that are isolated: a line would not show them. */
static void put_points(FILE *to, const ig_plot *plot, const ig_series *s, const axis *x,
                       const axis *y, const char *color) {
    for (size_t i = 0; i < s->count; i++) {
        const bool before = i > 0 && is_drawn(plot, s->x[i - 1], s->y[i - 1]);
        const bool after = i + 1 < s->count && is_drawn(plot, s->x[i + 1], s->y[i + 1]);
        if (((before || after) && !s->dots) || !is_drawn(plot, s->x[i], s->y[i])) continue;
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", place(x, s->x[i]),
                place(y, s->y[i]), color);
    }
}

/* Faint series share the color of the next normal one. */
static const char *color_of(const ig_plot *plot, size_t series) {
    size_t number = 0;
    for (size_t s = 0; s < series; s++) number += !plot->series[s].faint;
    return colors[number % COLORS];
}

static void put_series(FILE *to, const ig_plot *plot, const axis *x, const axis *y) {
    for (size_t s = 0; s < plot->n_series; s++) {
        const ig_series *series = &plot->series[s];
        const char *color = color_of(plot, s);
        fprintf(to, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s d=\"", color,
                series->faint ? "1" : "2.2", series->faint ? " stroke-opacity=\"0.35\"" : "");
        put_curve(to, plot, series, x, y);
        fputs("\"/>\n", to);
        put_points(to, plot, series, x, y, color);
    }
}

/* The legend in the upper right corner, or in a row above it. Each entry is right-aligned, with the
 * mark at the far right: text widths are unknown here, so nothing can follow a text. In a row they
 * are estimated. */
static void put_legend(FILE *to, const ig_plot *plot, double right, double top) {
    enum { LETTER_WIDTH = 7, MARK_WIDTH = 64 };
    double at = plot->legend_above ? top - LEGEND_ROW : top + 18;
    for (size_t i = 0; i < plot->n_series; i++) {
        const size_t s =
            plot->legend_above ? plot->n_series - 1 - i : i; /* a row: from the right */
        const ig_series *series = &plot->series[s];
        if (!series->name) continue;
        fprintf(to,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"%s\"%s/>\n",
                right - 36, at - 4, right - 12, at - 4, color_of(plot, s),
                series->faint ? "1.5" : "2.5", series->faint ? " stroke-opacity=\"0.5\"" : "");
        put_label(to, "class=\"key\" text-anchor=\"end\"", right - 44, at, series->name);
        if (plot->legend_above)
            right -= MARK_WIDTH + LETTER_WIDTH * (double)strlen(series->name);
        else
            at += LEGEND_ROW;
    }
}

static void put_head(FILE *to, const char *title, int width, int height) {
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
            width, height, width, height);
    put_text(to, title ? title : "");
    fputs("</title>\n<style>\n"
          "text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; "
          "font-size: 13px; fill: #333 }\n"
          ".tick { font-size: 12px; fill: #666 }\n"
          ".title { font-size: 16px; font-weight: 600; fill: #111 }\n"
          ".key { paint-order: stroke; stroke: #fff; stroke-width: 3px }\n"
          ".grid { stroke: #e6e6e6 }\n"
          ".axis { stroke: #999 }\n"
          "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          to);
}

static int width_of(const ig_plot *plot) { return plot->width > 0 ? plot->width : DEFAULT_WIDTH; }

static int height_of(const ig_plot *plot) {
    return plot->height > 0 ? plot->height : DEFAULT_HEIGHT;
}

/* One plot, at the origin. */
static void put_plot(FILE *to, const ig_plot *plot) {
    const int width = width_of(plot), height = height_of(plot);
    axis x, y;
    find_range(plot, &x, &y);
    widen(&y, 0.05);
    if (!(x.high > x.low)) widen(&x, 0.05);
    x.from = MARGIN_LEFT, x.to = width - MARGIN_RIGHT;
    y.from = height - MARGIN_BOTTOM, y.to = MARGIN_TOP;

    if (plot->title) put_label(to, "class=\"title\"", x.from, MARGIN_TOP - 20, plot->title);
    put_grid(to, plot, &x, &y);
    put_series(to, plot, &x, &y);
    put_legend(to, plot, x.to, y.to);
    if (plot->x_label)
        put_label(to, "text-anchor=\"middle\"", (x.from + x.to) / 2, height - 14, plot->x_label);
    if (plot->y_label) {
        fprintf(to, "<g transform=\"translate(18 %.1f) rotate(-90)\">", (y.from + y.to) / 2);
        put_label(to, "text-anchor=\"middle\"", 0, 0, plot->y_label);
        fputs("</g>\n", to);
    }
}

void ig_plot_print(FILE *to, const ig_plot *plot) {
    put_head(to, plot->title, width_of(plot), height_of(plot));
    put_plot(to, plot);
    fputs("</svg>\n", to);
}

void ig_plots_print(FILE *to, const char *title, const ig_plot *plots, size_t count) {
    const int top = title ? MARGIN_TOP : 0;
    int width = DEFAULT_WIDTH, height = top;
    for (size_t i = 0; i < count; i++) {
        width = i == 0 || width_of(&plots[i]) > width ? width_of(&plots[i]) : width;
        height += height_of(&plots[i]);
    }
    put_head(to, title, width, height);
    if (title) put_label(to, "class=\"title\"", MARGIN_LEFT, MARGIN_TOP - 20, title);
    height = top;
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "<g transform=\"translate(0 %d)\">\n", height);
        put_plot(to, &plots[i]);
        fputs("</g>\n", to);
        height += height_of(&plots[i]);
    }
    fputs("</svg>\n", to);
}
