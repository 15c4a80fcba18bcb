#include "server/reasoning.h"

#include <string.h>

#include "base/utf8.h"

typedef struct pair {
    const char *begin, *end;
} pair;

static const pair pairs[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"<thinking>", "</thinking>"},
    {"[THINK]", "[/THINK]"},
    {"<|channel>thought", "<channel|>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};
enum { PAIRS = sizeof pairs / sizeof pairs[0] };

ig_reasoning ig_reasoning_none(void) { return (ig_reasoning){.state = IG_REASONING_ANSWER}; }

ig_reasoning ig_reasoning_begin(const char *text, size_t n) {
    while (n > 0 && ig_is_space(text[n - 1])) n--;
    for (int i = 0; i < PAIRS; i++) {
        const size_t bytes = strlen(pairs[i].begin);
        if (n >= bytes && memcmp(text + n - bytes, pairs[i].begin, bytes) == 0)
            return (ig_reasoning){.state = IG_REASONING_LEADING, .tags = i};
    }
    return (ig_reasoning){0};
}

bool ig_reasoning_is_thinking(const ig_reasoning *r) {
    return r->state == IG_REASONING_LEADING || r->state == IG_REASONING_THOUGHTS;
}

bool ig_reasoning_is_tag(const char *bytes, size_t n) {
    for (int i = 0; i < PAIRS; i++) {
        const size_t begin = strlen(pairs[i].begin), end = strlen(pairs[i].end);
        if (n == end && memcmp(bytes, pairs[i].end, n) == 0) return true;
        /* "<|channel>" is a token, and "thought" is text. */
        if (n > 2 && n <= begin && memcmp(bytes, pairs[i].begin, n) == 0 &&
            (bytes[n - 1] == '>' || bytes[n - 1] == ']'))
            return true;
    }
    return false;
}

/* ---- states ---- */

static size_t leading_space(const ig_reasoning *r) {
    size_t n = 0;
    while (n < r->n_held && ig_is_space(r->held[n])) n++;
    return n;
}

static void take(ig_reasoning *r, size_t n, ig_out *to) {
    ig_out_raw(to, r->held, n);
    r->n_held -= n;
    memmove(r->held, r->held + n, r->n_held);
}

static void drop(ig_reasoning *r) { r->n_held = 0; }

/* Looks for a tag that begins thoughts after white space.  What cannot become one is the answer. */
static void start(ig_reasoning *r, ig_out *answer) {
    const size_t space = leading_space(r), n = r->n_held - space;
    bool may_become = n == 0;
    for (int i = 0; i < PAIRS && n > 0; i++) {
        const size_t bytes = strlen(pairs[i].begin);
        if (n > bytes || memcmp(r->held + space, pairs[i].begin, n) != 0) continue;
        may_become = true;
        if (n < bytes) continue;
        drop(r);
        r->tags = i;
        r->state = IG_REASONING_LEADING;
        return;
    }
    if (may_become && r->n_held < IG_REASONING_HELD) return;
    take(r, r->n_held, answer);
    r->state = IG_REASONING_ANSWER;
}

/* Looks for the end tag, with the white space before it.  What is held is always white space and
 * the beginning of the tag. */
static void think(ig_reasoning *r, ig_out *thoughts) {
    const char *end = pairs[r->tags].end;
    const size_t bytes = strlen(end);
    while (r->n_held > 0) {
        const size_t space = leading_space(r), n = r->n_held - space;
        if (n <= bytes && memcmp(r->held + space, end, n) == 0) {
            if (n == bytes) drop(r), r->state = IG_REASONING_GAP;
            if (r->n_held < IG_REASONING_HELD) return;
        }
        take(r, n == 0 ? 1 : space + 1, thoughts);
    }
}

static void step(ig_reasoning *r, ig_out *thoughts, ig_out *answer) {
    const bool is_space = ig_is_space(r->held[r->n_held - 1]);
    switch (r->state) {
    case IG_REASONING_START: start(r, answer); break;
    case IG_REASONING_LEADING:
        if (is_space) {
            drop(r);
            break;
        }
        r->state = IG_REASONING_THOUGHTS;
        think(r, thoughts);
        break;
    case IG_REASONING_THOUGHTS: think(r, thoughts); break;
    case IG_REASONING_GAP:
        if (is_space) {
            drop(r);
            break;
        }
        r->state = IG_REASONING_ANSWER;
        take(r, r->n_held, answer);
        break;
    case IG_REASONING_ANSWER: take(r, r->n_held, answer); break;
    }
}

void ig_reasoning_feed(ig_reasoning *r, const char *bytes, size_t n_bytes, ig_out *thoughts,
                       ig_out *answer) {
    for (size_t i = 0; i < n_bytes; i++) {
        if (r->state == IG_REASONING_ANSWER) {
            ig_out_raw(answer, bytes + i, n_bytes - i);
            return;
        }
        r->held[r->n_held++] = bytes[i];
        step(r, thoughts, answer);
    }
}

void ig_reasoning_end(ig_reasoning *r, ig_out *thoughts, ig_out *answer) {
    take(r, r->n_held, ig_reasoning_is_thinking(r) ? thoughts : answer);
}
