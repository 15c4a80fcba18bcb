/* Thoughts and answers: whatever pieces a text comes in, it is split in the same way. */
#include <string.h>

#include "server/reasoning.h"
#include "unit/check.h"

typedef struct sample {
    const char *prompt_end, *reply, *thoughts, *answer;
} sample;

static const sample samples[] = {
    {"", "<think>\nLet me see.\n</think>\n\nFour.", "Let me see.", "Four."},
    {"", "  \n<think>a</think>b", "a", "b"},
    {"", "<think></think>b", "", "b"},
    {"", "<think>\n\n</think>\n\nb <think> c", "", "b <think> c"},
    {"", "plain <think>no</think>", "", "plain <think>no</think>"},
    {"", "<thin", "", "<thin"},
    {"", "<thing> is </think>", "", "<thing> is </think>"},
    {"", " \n ", "", " \n "},
    {"", "", "", ""},
    {"", "<think>a < b </ thin </think </thinking </think>c", "a < b </ thin </think </thinking",
     "c"},
    {"", "<think>a\n\n b </thi", "a\n\n b </thi", ""},
    {"", "<think>never ends  ", "never ends  ", ""},
    {"", "<think>\xc3\xa4\xe2\x82\xac</think>\xc3\xb6", "\xc3\xa4\xe2\x82\xac", "\xc3\xb6"},
    {"", "<think><</think>x", "<", "x"},
    {"", "[THINK]m[/THINK]n", "m", "n"},
    {"", "<seed:think>m</seed:think>n", "m", "n"},
    {"", "<thinking>m</think>o</thinking>n", "m</think>o", "n"},
    {"", "<|channel>thought\nm<channel|>n", "m", "n"},
    {"<|im_start|>assistant\n<think>\n", "a\n</think>\n\nb", "a", "b"},
    {"<|im_start|>assistant\n<think>", "\n a", "a", ""},
    {"<think>\n\n</think>\n\n", "b", "", "b"},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static void assert_text(const ig_out *got, const char *want, const char *reply) {
    if (got->n_bytes != strlen(want) ||
        (got->n_bytes > 0 && memcmp(got->bytes, want, got->n_bytes) != 0))
        fail_msg("'%.*s', not '%s', of '%s'", (int)got->n_bytes, got->bytes ? got->bytes : "", want,
                 reply);
}

/* Cuts a reply before each byte whose bit is set; the bits repeat. */
static void split(const sample *s, unsigned cuts, unsigned period) {
    ig_out thoughts = {0}, answer = {0};
    ig_reasoning r = ig_reasoning_begin(s->prompt_end, strlen(s->prompt_end));
    const size_t n = strlen(s->reply);
    for (size_t from = 0, to = 0; from < n; from = to) {
        to++;
        while (to < n && !(cuts >> to % period & 1)) to++;
        ig_reasoning_feed(&r, s->reply + from, to - from, &thoughts, &answer);
    }
    ig_reasoning_end(&r, &thoughts, &answer);
    assert_text(&thoughts, s->thoughts, s->reply);
    assert_text(&answer, s->answer, s->reply);
    ig_out_deinit(&thoughts);
    ig_out_deinit(&answer);
}

static void every_cut_gives_the_same_thoughts_and_answer(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        split(&samples[i], 0, 1); /* in one piece */
        for (unsigned at = 0; at < 31; at++) split(&samples[i], 1u << at, 31);
        for (unsigned cuts = 0; cuts < 1u << 12; cuts++) split(&samples[i], cuts, 12);
    }
}

/* Blanks are held back as the beginning of an end tag, but not without limit. */
static void many_blanks_are_kept(void **state) {
    char text[400];
    const size_t blanks = 200;
    (void)state;
    memcpy(text, "<think>a", 8);
    memset(text + 8, ' ', blanks);
    memcpy(text + 8 + blanks, "b</think>c", 11);
    char thoughts[300] = "a";
    memset(thoughts + 1, ' ', blanks);
    strcpy(thoughts + 1 + blanks, "b");
    const sample s = {"", text, thoughts, "c"};
    split(&s, 0, 1);
    split(&s, ~0u, 1);
    memset(text, ' ', blanks);
    strcpy(text + blanks, "x");
    const sample plain = {"", text, "", text};
    split(&plain, 0, 1);
    split(&plain, ~0u, 1);
}

static void without_a_format_all_is_the_answer(void **state) {
    ig_out thoughts = {0}, answer = {0};
    ig_reasoning r = ig_reasoning_none();
    (void)state;
    ig_reasoning_feed(&r, "<think>a</think>b", 17, &thoughts, &answer);
    ig_reasoning_end(&r, &thoughts, &answer);
    assert_text(&answer, "<think>a</think>b", "");
    assert_text(&thoughts, "", "");
    ig_out_deinit(&answer);
}

static void names_of_tags_are_known(void **state) {
    (void)state;
    assert_true(ig_reasoning_is_tag("<think>", 7));
    assert_true(ig_reasoning_is_tag("[/THINK]", 8));
    assert_true(ig_reasoning_is_tag("<|channel>", 10));
    assert_true(ig_reasoning_is_tag("<channel|>", 10));
    assert_false(ig_reasoning_is_tag("<", 1));
    assert_false(ig_reasoning_is_tag("<|im_end|>", 10));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_same_thoughts_and_answer),
        cmocka_unit_test(many_blanks_are_kept),
        cmocka_unit_test(without_a_format_all_is_the_answer),
        cmocka_unit_test(names_of_tags_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
