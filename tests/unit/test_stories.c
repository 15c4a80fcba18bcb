/* The corpus of our own: the same for a seed, never twice the same story, and English to look at.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/train/stories.h"
#include "unit/check.h"

enum { SIZE = 1 << 20, ROOM = SIZE + IG_STORY_BYTES };

/* Stories in memory; stops after `limit` of them, if that is not 0. */
typedef struct corpus {
    char *text;
    size_t bytes, count, limit;
} corpus;

static ig_status put(void *user, const char *story, size_t n_bytes) {
    corpus *c = user;
    if (c->limit != 0 && c->count == c->limit) return IG_ERR_CANCELLED;
    assert_true(c->bytes + n_bytes <= ROOM);
    memcpy(c->text + c->bytes, story, n_bytes);
    c->bytes += n_bytes;
    c->count++;
    return IG_OK;
}

static corpus tell(uint64_t seed, uint64_t bytes) {
    corpus c = {.text = calloc(ROOM + 1, 1)};
    must(ig_stories_write(seed, bytes, put, &c));
    return c;
}

static void equal_seeds_give_equal_bytes_and_others_do_not(void **state) {
    (void)state;
    corpus a = tell(7, SIZE), b = tell(7, SIZE), c = tell(8, SIZE),
           d = tell(7 + (1ull << 32), SIZE);
    assert_int_equal(a.bytes, b.bytes);
    assert_memory_equal(a.text, b.text, a.bytes);
    assert_memory_not_equal(a.text, c.text, 100);
    assert_memory_not_equal(a.text, d.text, 100);
    free(a.text);
    free(b.text);
    free(c.text);
    free(d.text);
}

static void the_last_story_is_complete(void **state) {
    (void)state;
    for (uint64_t bytes = 0; bytes < 3000; bytes += 77) {
        corpus c = tell(1, bytes);
        assert_true(c.bytes >= bytes && c.bytes < bytes + IG_STORY_BYTES);
        if (bytes > 0) assert_string_equal(c.text + c.bytes - 2, "\n\n");
        free(c.text);
    }
}

static void a_story_can_be_told_alone(void **state) {
    (void)state;
    corpus c = tell(3, 5000);
    size_t at = 0;
    for (uint32_t i = 0; at < c.bytes; i++) {
        char story[IG_STORY_BYTES];
        const size_t bytes = ig_story(3, i, story);
        assert_int_equal(strlen(story), bytes);
        assert_memory_equal(c.text + at, story, bytes);
        at += bytes;
    }
    free(c.text);
}

static void who_takes_the_stories_can_end_it(void **state) {
    (void)state;
    corpus c = {.text = calloc(ROOM + 1, 1), .limit = 3};
    assert_int_equal(ig_stories_write(1, SIZE, put, &c), IG_ERR_CANCELLED);
    assert_int_equal(c.count, 3);
    free(c.text);
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void no_two_stories_are_alike(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    assert_true(ig_stories_count() > 1000000);
    char *text = malloc((size_t)COUNT * IG_STORY_BYTES), **all = malloc(COUNT * sizeof *all);
    const uint32_t step = ig_stories_count() / COUNT; /* from the first to the last */
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i] = text + (size_t)i * IG_STORY_BYTES;
        ig_story(0, i % 2 ? i : i * step, all[i]);
    }
    qsort(all, COUNT, sizeof *all, compare);
    for (size_t i = 1; i < COUNT; i++)
        if (strcmp(all[i - 1], all[i]) == 0) fail_msg("twice: %s", all[i]);
    free(all);
    free(text);
}

/* ---- English ---- */

static void check_story(const char *story) {
    const size_t bytes = strlen(story);
    int quotes = 0, sentences = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (!strchr(" .,!?'\"\n", story[i]) && !isalpha((unsigned char)story[i]))
            fail_msg("'%c' in %s", story[i], story);
        if (story[i] == ' ' && strchr(" .,!?\n", story[i + 1])) fail_msg("a gap in %s", story);
        const bool stop = strchr(".!?", story[i]) != NULL;
        if (stop && !strchr(" \"\n", story[i + 1])) fail_msg("no gap in %s", story);
        if (strncmp(story + i, ". ", 2) == 0 && story[i + 2] != '"' &&
            !isupper((unsigned char)story[i + 2]))
            fail_msg("a small letter begins a sentence in %s", story);
        quotes += story[i] == '"';
        sentences += stop;
    }
    if (quotes % 2 != 0) fail_msg("a quote is open in %s", story);
    if (sentences < 3 || sentences > 10) fail_msg("%d sentences in %s", sentences, story);
    if (!isupper((unsigned char)story[0])) fail_msg("a small letter begins %s", story);
    if (!strchr(".!?\"", story[bytes - 3])) fail_msg("no end of %s", story);
}

static void stories_look_like_english(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        char story[IG_STORY_BYTES];
        ig_story(11, i, story);
        check_story(story);
    }
}

/* Few enough for a small model, enough to be worth reading. */
static void a_corpus_has_some_hundred_words(void **state) {
    (void)state;
    enum { FEWEST = 400, MOST = 800 };
    corpus c = tell(0, SIZE);
    const char **words = malloc(SIZE / 2 * sizeof *words);
    size_t count = 0, different = 0;
    for (char *w = strtok(c.text, " .,!?\"\n"); w; w = strtok(NULL, " .,!?\"\n")) {
        *w = (char)tolower((unsigned char)*w);
        words[count++] = w;
    }
    qsort(words, count, sizeof *words, compare);
    for (size_t i = 0; i < count; i++) different += i == 0 || strcmp(words[i - 1], words[i]) != 0;
    assert_in_range(different, FEWEST, MOST);
    free(words);
    free(c.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_seeds_give_equal_bytes_and_others_do_not),
        cmocka_unit_test(the_last_story_is_complete),
        cmocka_unit_test(a_story_can_be_told_alone),
        cmocka_unit_test(who_takes_the_stories_can_end_it),
        cmocka_unit_test(no_two_stories_are_alike),
        cmocka_unit_test(stories_look_like_english),
        cmocka_unit_test(a_corpus_has_some_hundred_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
