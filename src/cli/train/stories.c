/*
 * Story generator.
 *
 * A story's index determines its plot, hero, friend, place and thing. A Feistel network permutes
 * the indices, so no two stories of a seed have the same five. Everything else is drawn from the
 * story's own RNG stream, so each story can be generated alone.
 */
#include "cli/train/stories.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/random.h"
#include "base/text_out.h"
#include "cli/train/stories_plots.h"

enum {
    COUNT =
        IG_STORY_PLOTS * IG_STORY_NAMES * (IG_STORY_NAMES - 1) * IG_STORY_PLACES * IG_STORY_THINGS,
    HALF_BITS = 11, /* of the permuted indices */
    ROUNDS = 4,
};
static_assert(COUNT <= 1 << 2 * HALF_BITS, "the shuffle takes every story");

enum { STREAM_WORDS, STREAM_SHUFFLE }; /* RNG streams */

/* Fixed within a story: the plots write {hero}, {he} and so on. */
enum { HERO, HE, HIM, HIS, FRIEND, FHE, FHIM, FHIS, KIN, SPECIES, AT, THING, BROKE, A, DRAWN };
enum { COLOR = DRAWN, BAKE, SKILL, LOAD, CAST }; /* drawn from the phrase of that name */
static const char *const cast_names[CAST] = {
    [HERO] = "hero", [HE] = "he",       [HIM] = "him",     [HIS] = "his",     [FRIEND] = "friend",
    [FHE] = "fhe",   [FHIM] = "fhim",   [FHIS] = "fhis",   [KIN] = "kin",     [SPECIES] = "species",
    [AT] = "at",     [THING] = "thing", [BROKE] = "broke", [COLOR] = "color", [A] = "a",
    [BAKE] = "bake", [SKILL] = "skill", [LOAD] = "load",
};

typedef struct span {
    const char *text;
    size_t bytes;
} span;

typedef struct teller {
    uint32_t seed[2];
    uint32_t index, draws;
    span cast[CAST];
    bool capital; /* capitalize the next letter */
    ig_text out;
} teller;

static span span_of(const char *text) { return (span){text, strlen(text)}; }

static bool is_text(span s, const char *text) {
    return s.bytes == strlen(text) && memcmp(s.text, text, s.bytes) == 0;
}

/* ---- Chance ---- */

/* A random number below `count`. */
static uint32_t draw(teller *t, uint32_t count) {
    const uint32_t bits = ig_random_bits(t->seed, t->index, STREAM_WORDS, t->draws++);
    return (uint32_t)((uint64_t)bits * count >> 32);
}

/* Permutes the numbers below COUNT. Results beyond COUNT are permuted again (cycle walking). */
static uint32_t shuffle(const uint32_t seed[2], uint32_t number) {
    const uint32_t mask = (1u << HALF_BITS) - 1;
    do {
        uint32_t left = number >> HALF_BITS, right = number & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            const uint32_t mixed =
                left ^ (ig_random_bits(seed, round, STREAM_SHUFFLE, right) & mask);
            left = right;
            right = mixed;
        }
        number = left << HALF_BITS | right;
    } while (number >= COUNT);
    return number;
}

/* Picks one of "a|b[c|d]|e", splitting at each | outside brackets. */
static span choose(teller *t, span all) {
    uint32_t count = 1;
    int depth = 0;
    for (size_t i = 0; i < all.bytes; i++) {
        depth += (all.text[i] == '[') - (all.text[i] == ']');
        count += depth == 0 && all.text[i] == '|';
    }
    uint32_t skip = draw(t, count);
    size_t from = 0, to = 0;
    for (; to < all.bytes; to++) {
        depth += (all.text[to] == '[') - (all.text[to] == ']');
        if (depth > 0 || all.text[to] != '|') continue;
        if (skip-- == 0) break;
        from = to + 1;
    }
    return (span){all.text + from, to - from};
}

/* ---- Telling ---- */

static span find_phrase(span name) {
    const ig_story_phrase *p = ig_story_phrases;
    while (p->name && !is_text(name, p->name)) p++;
    assert(p->name);
    return span_of(p->choices);
}

static void tell_plain(teller *t, span s) {
    if (s.bytes == 0) return;
    const int first = t->capital ? toupper((unsigned char)s.text[0]) : s.text[0];
    t->capital = false;
    ig_text_add(&t->out, "%c%.*s", first, (int)s.bytes - 1, s.text + 1);
}

static void tell(teller *t, span s);

static void tell_name(teller *t, span name) {
    char small[16];
    assert(name.bytes > 0 && name.bytes < sizeof small);
    memcpy(small, name.text, name.bytes);
    if (isupper((unsigned char)small[0])) {
        small[0] = (char)tolower((unsigned char)small[0]);
        t->capital = true;
    }
    const span plain = {small, name.bytes};
    for (int i = 0; i < CAST; i++) {
        if (!is_text(plain, cast_names[i])) continue;
        tell_plain(t, t->cast[i]);
        return;
    }
    tell(t, choose(t, find_phrase(plain)));
}

/* The text up to the matching closing bracket. */
static span inside_brackets(span s) {
    int depth = 0;
    size_t i = 0;
    do {
        assert(i < s.bytes);
        depth += (s.text[i] == '[') - (s.text[i] == ']');
        i++;
    } while (depth > 0);
    return (span){s.text + 1, i - 2};
}

static void tell(teller *t, span s) {
    for (size_t i = 0; i < s.bytes;) {
        const span rest = {s.text + i, s.bytes - i};
        if (rest.text[0] == '[') {
            const span all = inside_brackets(rest);
            tell(t, choose(t, all));
            i += all.bytes + 2;
        } else if (rest.text[0] == '{') {
            const span name = {rest.text + 1, strcspn(rest.text + 1, "}")};
            tell_name(t, name);
            i += name.bytes + 2;
        } else {
            const size_t plain = strcspn(rest.text, "[{");
            const size_t bytes = plain < rest.bytes ? plain : rest.bytes;
            tell_plain(t, (span){rest.text, bytes});
            i += bytes;
        }
    }
}

/* ---- Who and what ---- */

static void put_person(teller *t, const ig_story_name *person, int name, int he) {
    static const char *const pronouns[2][3] = {{"he", "him", "his"}, {"she", "her", "her"}};
    t->cast[name] = span_of(person->name);
    for (int i = 0; i < 3; i++) t->cast[he + i] = span_of(pronouns[person->female][i]);
}

static span draw_phrase(teller *t, const char *name) {
    return choose(t, find_phrase(span_of(name)));
}

/* Splits the index and fills the cast; returns the plot. */
static const char *gather(teller *t, uint32_t number) {
    uint32_t digits[5];
    const uint32_t bases[5] = {IG_STORY_PLOTS, IG_STORY_NAMES, IG_STORY_NAMES - 1, IG_STORY_PLACES,
                               IG_STORY_THINGS};
    for (int i = 0; i < 5; i++, number /= bases[i - 1]) digits[i] = number % bases[i];

    const ig_story_name *hero = &ig_story_names[digits[1]];
    const ig_story_name *other = &ig_story_names[digits[2] + (digits[2] >= digits[1])];
    const ig_story_thing *thing = &ig_story_things[digits[4]];
    put_person(t, hero, HERO, HE);
    put_person(t, other, FRIEND, FHE);
    t->cast[AT] = span_of(ig_story_places[digits[3]]);
    t->cast[THING] = span_of(thing->name);
    t->cast[BROKE] = span_of(thing->broke);

    const bool child = draw(t, 3) == 0;
    t->cast[SPECIES] = child ? span_of(hero->female ? "girl" : "boy") : draw_phrase(t, "animal");
    t->cast[KIN] = draw_phrase(t, other->female ? "woman" : "man");
    for (int i = DRAWN; i < CAST; i++) t->cast[i] = draw_phrase(t, cast_names[i]);
    t->cast[A] = span_of(strchr("aeiou", t->cast[COLOR].text[0]) ? "an" : "a");
    return ig_story_plots[digits[0]];
}

uint32_t ig_stories_count(void) { return COUNT; }

size_t ig_story(uint64_t seed, uint32_t index, char out[IG_STORY_BYTES]) {
    teller t = {.seed = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                .index = index,
                .out = ig_text_begin(out, IG_STORY_BYTES)};
    tell(&t, span_of(gather(&t, shuffle(t.seed, index))));
    ig_text_add(&t.out, "\n\n");
    assert(t.out.used < IG_STORY_BYTES);
    return t.out.used;
}

ig_status ig_stories_write(uint64_t seed, uint64_t n_bytes,
                           ig_status (*put)(void *user, const char *story, size_t n_bytes),
                           void *user) {
    char story[IG_STORY_BYTES];
    uint64_t written = 0;
    for (uint32_t i = 0; written < n_bytes; i++) {
        if (i == COUNT)
            return IG_FAIL(IG_ERR_ARGUMENT, "stories: a seed has %llu bytes, not %llu",
                           (unsigned long long)written, (unsigned long long)n_bytes);
        const size_t bytes = ig_story(seed, i, story);
        IG_TRY(put(user, story, bytes));
        written += bytes;
    }
    return IG_OK;
}
