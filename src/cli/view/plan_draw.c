/*
 * Pictures of plans: dot for Graphviz, and SVG.
 *
 *     level 0   [ embedding ]  [ fill ]         a box is a chain: steps that one thread
 *     - - - - - - - - | - - - - - \ - - - -     takes a chunk through without waiting
 *     level 1   [ matmul ]         \            dashes are barriers
 *     - - - - - - - - | - - - - - - \ - - -     lines are values that a later chain reads
 *     level 2   [ tanh   ]           |
 *               [ mul    ]           |
 *
 * Chains of several steps and fused steps have a thick frame; the name of a fused step joins its
 * ops with "+".
 *
 * Within a level, chains are ordered by the mean position of the chains they read from.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/view/plan_view.h"

/* Pixels. */
enum {
    BOX_WIDTH = 204,
    LINE_HEIGHT = 17,
    BOX_PADDING = 5,
    BOX_GAP = 18,
    LEVEL_GAP = 40,
    LEFT = 74,
    RIGHT = 24,
    TOP = 96,
    LEGEND_WIDTH = 180,
    OP_CHARS = 20,   /* of an op's name, */
    LINE_CHARS = 27, /* and of a whole line in a box */
};

/* The Okabe-Ito colors, lightened: text on them stays readable. */
static const char *const fills[PLAN_CLASSES] = {
    [PLAN_CONTRACT] = "#cfe3f5", [PLAN_ELEMENT] = "#cdeadd", [PLAN_REDUCE] = "#f8e3bd",
    [PLAN_UPDATE] = "#f2d3e2",   [PLAN_MOVE] = "#e4e4e4",
};
static const char *const strokes[PLAN_CLASSES] = {
    [PLAN_CONTRACT] = "#0072b2", [PLAN_ELEMENT] = "#009e73", [PLAN_REDUCE] = "#e69f00",
    [PLAN_UPDATE] = "#cc79a7",   [PLAN_MOVE] = "#777777",
};

/* ---- dot ---- */

/* Writes the contents of a double-quoted string, with '\' and '"' escaped. */
static void put_dot(FILE *to, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
    }
}

static void put_dot_chain(FILE *to, const plan_view *v, uint32_t chain) {
    const plan_chain *c = &v->chains[chain];
    fprintf(to, "    c%u [fillcolor=\"%s\", %slabel=\"", chain, fills[v->steps[c->first].class],
            plan_chain_ops(v, chain) > 1 ? "penwidth=2.5, " : "");
    if (plan_chain_ops(v, chain) > 1) fprintf(to, "fused, %u ops\\l", plan_chain_ops(v, chain));
    for (uint32_t i = c->first; i < c->first + c->count; i++) {
        put_dot(to, v->steps[i].op);
        fputc(' ', to);
        put_dot(to, v->steps[i].result);
        fputs("\\l", to); /* ends a line, left-aligned */
    }
    fputs("\"];\n", to);
}

void plan_dot_print(FILE *to, const plan_view *v, const char *title) {
    fputs("digraph plan {\n  label=\"", to);
    put_dot(to, title);
    fputs("\";\n  labelloc=t; rankdir=TB; fontname=\"sans-serif\";\n"
          "  node [shape=box, style=\"rounded,filled\", fontname=\"monospace\", fontsize=10];\n"
          "  edge [color=\"#888888\", arrowsize=0.6];\n",
          to);
    for (uint32_t level = 0; level < v->n_levels; level++) {
        fprintf(to, "  { rank=same;\n    l%u [shape=plaintext, style=\"\", label=\"level %u\"];\n",
                level, level);
        for (uint32_t i = 0; i < v->n_chains; i++)
            if (v->chains[i].level == level) put_dot_chain(to, v, i);
        fputs("  }\n", to);
        if (level > 0)
            fprintf(to, "  l%u -> l%u [style=dashed, arrowhead=none, color=\"#bbbbbb\"];\n",
                    level - 1, level);
    }
    for (uint32_t i = 0; i < v->n_edges; i++)
        fprintf(to, "  c%u -> c%u;\n", v->edges[i].from, v->edges[i].to);
    fputs("}\n", to);
}

/* ---- Layout ---- */

typedef struct box {
    uint32_t chain;
    double wanted; /* mean position of the chains it reads from */
    double x, y, height;
} box;

struct plan_layout {
    box *boxes;      /* indexed by chain */
    uint32_t *order; /* chains, by level and then from left to right */
    double *level_y; /* the top of each level */
    double width, height;
};

/* The weighted mean position of the chains that it reads from; `standing` if it reads none. */
static double wanted_x(const plan_view *v, const plan_layout *l, uint32_t chain, double standing) {
    double sum = 0, count = 0;
    for (uint32_t i = 0; i < v->n_edges; i++) {
        if (v->edges[i].to != chain) continue;
        const double near = v->chains[v->edges[i].from].level + 1 == v->chains[chain].level ? 4 : 1;
        sum += near * (l->boxes[v->edges[i].from].x + BOX_WIDTH / 2.0);
        count += near;
    }
    return count > 0 ? sum / count : standing;
}

static void sort_by_wanted(uint32_t *order, uint32_t count, const box *boxes) {
    for (uint32_t i = 1; i < count; i++) /* few, and nearly sorted */
        for (uint32_t j = i; j > 0; j--) {
            if (boxes[order[j - 1]].wanted <= boxes[order[j]].wanted) break;
            const uint32_t swapped = order[j];
            order[j] = order[j - 1], order[j - 1] = swapped;
        }
}

static double height_of(const plan_chain *c) { return c->count * LINE_HEIGHT + 2.0 * BOX_PADDING; }

/* Places chains [first, first + count) of the order side by side. */
static double place_level(const plan_view *v, plan_layout *l, uint32_t first, uint32_t count,
                          double y) {
    uint32_t *order = l->order + first;
    for (uint32_t i = 0; i < count; i++)
        l->boxes[order[i]].wanted =
            wanted_x(v, l, order[i], LEFT + i * (double)(BOX_WIDTH + BOX_GAP));
    sort_by_wanted(order, count, l->boxes);
    double highest = 0;
    for (uint32_t i = 0; i < count; i++) {
        box *b = &l->boxes[order[i]];
        b->x = LEFT + i * (double)(BOX_WIDTH + BOX_GAP);
        b->y = y;
        b->height = height_of(&v->chains[order[i]]);
        if (b->height > highest) highest = b->height;
        if (b->x + BOX_WIDTH + RIGHT > l->width) l->width = b->x + BOX_WIDTH + RIGHT;
    }
    return highest;
}

static void lay_out(const plan_view *v, plan_layout *l) {
    double y = TOP;
    uint32_t placed = 0;
    l->width = LEFT + (PLAN_CLASSES + 0.9) * LEGEND_WIDTH;
    for (uint32_t level = 0; level < v->n_levels; level++) {
        const uint32_t first = placed;
        for (uint32_t i = 0; i < v->n_chains; i++)
            if (v->chains[i].level == level) l->order[placed++] = i;
        l->level_y[level] = y;
        y += place_level(v, l, first, placed - first, y) + LEVEL_GAP;
    }
    l->height = y;
}

plan_layout *plan_layout_create(const plan_view *v) {
    const ig_allocator *a = v->allocator;
    plan_layout *l = ig_alloc(a, 1, sizeof *l);
    if (!l) return NULL;
    l->boxes = ig_alloc(a, v->n_chains, sizeof *l->boxes);
    l->order = ig_alloc(a, v->n_chains, sizeof *l->order);
    l->level_y = ig_alloc(a, v->n_levels, sizeof *l->level_y);
    if (l->boxes && l->order && l->level_y) {
        lay_out(v, l);
        return l;
    }
    plan_layout_destroy(v, l);
    return NULL;
}

void plan_layout_destroy(const plan_view *v, plan_layout *l) {
    if (!l) return;
    ig_free(v->allocator, l->level_y);
    ig_free(v->allocator, l->order);
    ig_free(v->allocator, l->boxes);
    ig_free(v->allocator, l);
}

/* ---- SVG ---- */

static void put_xml(FILE *to, const char *text) {
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

static void put_label(FILE *to, const char *class, double x, double y, const char *text) {
    fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    put_xml(to, text);
    fputs("</text>\n", to);
}

static void put_head(FILE *to, const plan_view *v, const plan_layout *l, const char *title) {
    char summary[256], arena[IG_UNIT_TEXT_BYTES], live[IG_UNIT_TEXT_BYTES], sum[IG_UNIT_TEXT_BYTES];
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\">\n",
            l->width, l->height, l->width, l->height);
    fputs("<style>text{font:11px ui-monospace,monospace;fill:#222}"
          ".title{font:bold 16px sans-serif}.note{font:12px sans-serif;fill:#555}"
          ".level{font:11px sans-serif;fill:#777}.edge{fill:none;stroke:#555;stroke-width:1}"
          ".fused{fill:none;stroke:#222;stroke-width:2.5}.far{stroke:#999;stroke-opacity:.35}."
          "barrier{stroke:#d55e00;stroke-opacity:.6;"
          "stroke-dasharray:5 4}.rest{stroke:#ccc}.shape{fill:#666}</style>\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
          to);
    put_label(to, "title", 16, 28, title);
    snprintf(summary, sizeof summary,
             "%u steps in %u chains on %u levels, %llu barriers; arena %s, peak live %s, %s "
             "without reuse",
             v->n_steps, v->n_chains, v->n_levels, (unsigned long long)v->barriers,
             ig_bytes_text(v->arena_bytes, arena), ig_bytes_text(v->live_bytes, live),
             ig_bytes_text(v->sum_bytes, sum));
    put_label(to, "note", 16, 48, summary);
    for (int i = 0; i < PLAN_CLASSES; i++) {
        const double x = 16 + i * (double)LEGEND_WIDTH;
        fprintf(to,
                "<rect x=\"%.1f\" y=\"62\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\" "
                "stroke=\"%s\"/>\n",
                x, fills[i], strokes[i]);
        put_label(to, "note", x + 18, 72, plan_class_names[i]);
    }
    const double x = 16 + PLAN_CLASSES * (double)LEGEND_WIDTH;
    fprintf(to, "<line class=\"barrier\" x1=\"%.1f\" y1=\"68\" x2=\"%.1f\" y2=\"68\"/>\n", x,
            x + 28);
    put_label(to, "note", x + 34, 72, "barrier");
    fprintf(to, "<rect class=\"fused\" x=\"%.1f\" y=\"62\" width=\"12\" height=\"12\" rx=\"2\"/>\n",
            x + 96);
    put_label(to, "note", x + 114, 72, "fused");
}

/* A barrier precedes every level but the first, unless the plan has fewer barriers. */
static void put_levels(FILE *to, const plan_view *v, const plan_layout *l) {
    const bool all = v->barriers + v->regions >= v->n_levels;
    for (uint32_t level = 0; level < v->n_levels; level++) {
        char name[32];
        snprintf(name, sizeof name, "level %u", level);
        put_label(to, "level", 16, l->level_y[level] + LINE_HEIGHT, name);
        if (level == 0) continue;
        const double y = l->level_y[level] - LEVEL_GAP / 2.0;
        fprintf(to, "<line class=\"%s\" x1=\"16\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                all ? "barrier" : "rest", y, l->width - 16, y);
    }
}

static void put_edge(FILE *to, const plan_view *v, const plan_layout *l, plan_edge e) {
    const box *a = &l->boxes[e.from], *b = &l->boxes[e.to];
    const bool far = v->chains[e.to].level > v->chains[e.from].level + 1;
    const double x0 = a->x + BOX_WIDTH / 2.0, y0 = a->y + a->height;
    const double x1 = b->x + BOX_WIDTH / 2.0, y1 = b->y;
    const double bend = far ? LEVEL_GAP : (y1 - y0) / 2;
    fprintf(to, "<path class=\"edge%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n",
            far ? " far" : "", x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1);
}

/* The tooltip of a step. */
static void put_tip(FILE *to, const plan_step *s, uint32_t index) {
    char bytes[IG_UNIT_TEXT_BYTES], flop[IG_UNIT_TEXT_BYTES];
    fprintf(to, "<title>step %u: ", index);
    put_xml(to, s->op);
    fputs(" -&gt; ", to);
    put_xml(to, s->result);
    fprintf(to, ", %s, %s FLOP", ig_bytes_text(s->bytes, bytes), ig_count_text(s->flop, flop));
    if (s->ns > 0) fprintf(to, ", %.2f us", s->ns / 1e3);
    fputs("</title>", to);
}

/* Writes beside the op: its time, or the shape of its result if that fits. */
static void put_beside(FILE *to, const plan_view *v, const plan_step *s, size_t room) {
    const char *shape = strchr(s->result, '[');
    if (v->timed)
        fprintf(to, "%.1f us", s->ns / 1e3);
    else
        put_xml(to, shape && strlen(shape) <= room ? shape : "");
}

static void put_step(FILE *to, const plan_view *v, uint32_t index, const box *b, double y) {
    const plan_step *s = &v->steps[index];
    char op[OP_CHARS + 1];
    snprintf(op, sizeof op, "%s", s->op);
    fputs("<g>", to);
    put_tip(to, s, index);
    fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"%s\"/>", b->x + 3, y,
            BOX_WIDTH - 6, LINE_HEIGHT - 1, fills[s->class]);
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\">", b->x + 8, y + 12);
    put_xml(to, op);
    fprintf(to, "</text><text class=\"shape\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">",
            b->x + BOX_WIDTH - 8, y + 12);
    put_beside(to, v, s, LINE_CHARS - strlen(op));
    fputs("</text></g>\n", to);
}

static void put_box(FILE *to, const plan_view *v, const plan_layout *l, uint32_t chain) {
    const plan_chain *c = &v->chains[chain];
    const box *b = &l->boxes[chain];
    fprintf(to,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"5\" fill=\"%s\" "
            "stroke=\"%s\"/>\n",
            b->x, b->y, BOX_WIDTH, b->height, fills[v->steps[c->first].class],
            strokes[v->steps[c->first].class]);
    for (uint32_t i = 0; i < c->count; i++)
        put_step(to, v, c->first + i, b, b->y + BOX_PADDING + i * (double)LINE_HEIGHT);
    if (plan_chain_ops(v, chain) == 1) return;
    fprintf(to,
            "<rect class=\"fused\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" rx=\"5\">"
            "<title>fused: one thread runs all %u ops on each chunk</title></rect>\n",
            b->x, b->y, BOX_WIDTH, b->height, plan_chain_ops(v, chain));
}

void plan_svg_print(FILE *to, const plan_view *v, const plan_layout *l, const char *title) {
    put_head(to, v, l, title);
    put_levels(to, v, l);
    for (uint32_t i = 0; i < v->n_edges; i++) put_edge(to, v, l, v->edges[i]);
    for (uint32_t i = 0; i < v->n_chains; i++) put_box(to, v, l, i);
    fputs("</svg>\n", to);
}
