/* What everything else stands on: memory, the words of failures, numbers drawn by counting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"

/* ---- memory ---- */

/* An allocator that counts, hands out dirty memory, and gives no more than it has. */
typedef struct purse {
    int left, out;
    size_t last_bytes, last_alignment;
} purse;

static void *purse_alloc(void *user, size_t bytes, size_t alignment) {
    purse *p = user;
    p->last_bytes = bytes;
    p->last_alignment = alignment;
    if (p->left == 0) return NULL;
    p->left--;
    p->out++;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    return memory ? memset(memory, 0xa5, rounded) : NULL;
}

static void purse_free(void *user, void *p) {
    assert_non_null(p);
    ((purse *)user)->out--;
    free(p);
}

static bool is_zero(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (((const char *)p)[i] != 0) return false;
    return true;
}

static void memory_is_zeroed_and_aligned(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < 8 << 20; bytes += bytes < 300 ? 7 : bytes / 2 + 1) {
        char *p = ig_alloc(&ig_heap, bytes, 3);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % IG_ALIGNMENT, 0);
        assert_true(is_zero(p, bytes * 3));
        memset(p, 1, bytes * 3);
        ig_free(&ig_heap, p);
    }
}

static void memory_comes_from_the_allocator_that_is_given(void **state) {
    (void)state;
    purse own = {.left = 1};
    const ig_allocator a = {purse_alloc, purse_free, &own};
    char *p = ig_alloc(&a, 5, 6);
    assert_int_equal(own.last_bytes, 30);
    assert_int_equal(own.last_alignment, IG_ALIGNMENT);
    assert_true(is_zero(p, 30)); /* though the purse is dirty */
    assert_null(ig_alloc(&a, 5, 6));
    ig_free(&a, p);
    ig_free(&a, NULL); /* does not reach the allocator */
    assert_int_equal(own.out, 0);
}

static void nothing_is_something_to_free(void **state) {
    (void)state;
    void *p = ig_alloc(&ig_heap, 0, 8);
    assert_non_null(p);
    ig_free(&ig_heap, p);
}

static void a_product_that_overflows_gives_no_memory(void **state) {
    (void)state;
    purse own = {.left = 100};
    const ig_allocator a = {purse_alloc, purse_free, &own};
    assert_null(ig_alloc(&a, SIZE_MAX / 2, 3));
    assert_int_equal(own.left, 100); /* it was not even asked */
    assert_null(ig_alloc(&ig_heap, SIZE_MAX, 1));
    assert_null(ig_alloc(&ig_heap, SIZE_MAX - 8, 1));
}

static void large_pages_hold_what_was_there(void **state) {
    (void)state;
    const size_t bytes = ((size_t)5 << 20) + 100;
    unsigned char *p = ig_alloc(&ig_heap, bytes, 1);
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)(i % 251);
    ig_ask_large_pages(p, bytes);
    ig_ask_large_pages(p, 100);  /* too few for one, */
    ig_ask_large_pages(NULL, 0); /* and none at all */
    for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], i % 251);
    ig_free(&ig_heap, p);
}

static void a_text_is_copied_with_its_end(void **state) {
    (void)state;
    char *copy = ig_copy_text(&ig_heap, "embed.weight");
    assert_string_equal(copy, "embed.weight");
    ig_free(&ig_heap, copy);
    purse empty = {.left = 0};
    assert_null(ig_copy_text(&(ig_allocator){purse_alloc, purse_free, &empty}, "x"));
}

static void growing_keeps_what_is_there_and_zeroes_the_rest(void **state) {
    (void)state;
    purse own = {.left = 100};
    const ig_allocator a = {purse_alloc, purse_free, &own};
    int *items = NULL;
    size_t room = 0;
    for (size_t n = 1; n <= 1000; n++) {
        assert_true(IG_GROW(&a, items, &room, n));
        assert_true(room >= n);
        assert_true(is_zero(&items[n - 1], (room - n + 1) * sizeof *items));
        items[n - 1] = (int)n;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(items[i], i + 1);
    assert_int_equal(own.out, 1);
    assert_true(100 - own.left < 12); /* it doubles */
    ig_free(&a, items);
}

static void growing_that_fails_changes_nothing(void **state) {
    (void)state;
    purse own = {.left = 1};
    const ig_allocator a = {purse_alloc, purse_free, &own};
    int *items = NULL;
    size_t room = 0;
    assert_true(IG_GROW(&a, items, &room, 4));
    items[3] = 7;
    int *const before = items;
    const size_t room_before = room;
    assert_false(IG_GROW(&a, items, &room, room + 1));
    assert_false(IG_GROW(&a, items, &room, SIZE_MAX));
    assert_false(IG_GROW(&a, items, &room, SIZE_MAX / 2));
    assert_ptr_equal(items, before);
    assert_int_equal(room, room_before);
    assert_int_equal(items[3], 7);
    ig_free(&a, items);
}

/* ---- statuses ---- */

static void every_status_has_a_text_of_its_own(void **state) {
    (void)state;
    for (int i = 0; i < IG_STATUS_COUNT; i++) {
        assert_true(strlen(ig_status_text((ig_status)i)) > 1);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(ig_status_text((ig_status)i), ig_status_text((ig_status)j));
    }
    assert_string_equal(ig_status_text(IG_OK), "ok");
    assert_string_equal(ig_status_text(IG_STATUS_COUNT), "unknown status");
    assert_string_equal(ig_status_text((ig_status)-1), "unknown status");
}

static void a_failure_keeps_its_words_and_its_place(void **state) {
    (void)state;
    assert_int_equal(ig_fail(IG_ERR_IO, "some/where/file.c", 41, "open %s", "x"), IG_ERR_IO);
    assert_string_equal(ig_error_text(), "open x (file.c:41)");
    assert_int_equal(ig_fail(IG_ERR_MEMORY, "file.c", 7, "no room"), IG_ERR_MEMORY);
    assert_string_equal(ig_error_text(), "no room (file.c:7)");
}

static void a_failure_may_quote_the_one_before(void **state) {
    (void)state;
    (void)ig_fail(IG_ERR_IO, "a.c", 1, "inner");
    (void)ig_fail(IG_ERR_IO, NULL, 0, "outer: %s", ig_error_text());
    assert_string_equal(ig_error_text(), "outer: inner (a.c:1)");
}

static void words_that_are_too_long_are_cut_off(void **state) {
    (void)state;
    char long_words[2000];
    memset(long_words, 'x', sizeof long_words - 1);
    long_words[sizeof long_words - 1] = '\0';
    (void)ig_fail(IG_ERR_IO, "a.c", 1, "%s", long_words);
    assert_true(strlen(ig_error_text()) > 400 && strlen(ig_error_text()) < 600);
}

static void *fail_elsewhere(void *out) {
    *(bool *)out = ig_error_text()[0] == '\0'; /* another thread's words do not show */
    (void)IG_FAIL(IG_ERR_IO, "elsewhere");
    return NULL;
}

static void every_thread_has_its_own_last_failure(void **state) {
    (void)state;
    pthread_t thread;
    bool was_empty = false;
    (void)ig_fail(IG_ERR_IO, NULL, 0, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &was_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(was_empty);
    assert_string_equal(ig_error_text(), "here");
}

static ig_status try_twice(ig_status first, int *reached) {
    IG_TRY(first);
    ++*reached;
    return IG_ERR_STATE;
}

static void try_returns_at_the_first_failure(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(try_twice(IG_ERR_IO, &reached), IG_ERR_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(try_twice(IG_OK, &reached), IG_ERR_STATE);
    assert_int_equal(reached, 1);
}

/* ---- random numbers ---- */

/* The known answers that come with Salmon et al.'s Random123. */
static void philox_gives_the_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t key[2];
        ig_philox counter, want;
    } known[] = {
        {{0, 0}, {{0, 0, 0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{0xffffffff, 0xffffffff},
         {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{0xa4093822, 0x299f31d0},
         {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const ig_philox got = ig_philox_block(known[i].key[0], known[i].key[1], known[i].counter);
        assert_memory_equal(&got, &known[i].want, sizeof got);
    }
}

static void number_i_is_the_same_for_every_order_of_draws(void **state) {
    (void)state;
    const uint32_t seed[2] = {7, 9};
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(ig_random_bits(seed, 3, 5, i),
                         ig_random_block(seed, 3, 5, i / 4).word[i % 4]);
}

static void every_part_of_a_stream_s_name_matters(void **state) {
    (void)state;
    const uint32_t a[2] = {1, 0}, b[2] = {0, 1};
    const uint64_t far = UINT64_C(1) << 40;
    const uint32_t bits[] = {
        ig_random_bits(a, 0, 0, 0),   ig_random_bits(b, 0, 0, 0), ig_random_bits(a, 1, 0, 0),
        ig_random_bits(a, 0, 1, 0),   ig_random_bits(a, 0, 0, 1), ig_random_bits(a, far, 0, 0),
        ig_random_bits(a, 0, 0, far), ig_random_bits(a, 0, 0, 4),
    };
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        for (size_t j = 0; j < i; j++) assert_int_not_equal(bits[i], bits[j]);
}

static void a_share_p_of_the_numbers_lies_below_its_threshold(void **state) {
    (void)state;
    enum { DRAWN = 100000 };
    const uint32_t seed[2] = {11, 0};
    static const float shares[] = {0, 0.1f, 0.5f, 0.9f};
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
        int below = 0;
        for (uint64_t i = 0; i < DRAWN; i++)
            below += ig_random_bits(seed, 0, 0, i) < ig_random_threshold(shares[s]);
        /* Six standard deviations of the most uncertain share. */
        assert_float_equal((float)below / DRAWN, shares[s], 6 * 0.5f / 316);
    }
    assert_int_equal(ig_random_threshold(1), UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_comes_from_the_allocator_that_is_given),
        cmocka_unit_test(nothing_is_something_to_free),
        cmocka_unit_test(a_product_that_overflows_gives_no_memory),
        cmocka_unit_test(large_pages_hold_what_was_there),
        cmocka_unit_test(a_text_is_copied_with_its_end),
        cmocka_unit_test(growing_keeps_what_is_there_and_zeroes_the_rest),
        cmocka_unit_test(growing_that_fails_changes_nothing),
        cmocka_unit_test(every_status_has_a_text_of_its_own),
        cmocka_unit_test(a_failure_keeps_its_words_and_its_place),
        cmocka_unit_test(a_failure_may_quote_the_one_before),
        cmocka_unit_test(words_that_are_too_long_are_cut_off),
        cmocka_unit_test(every_thread_has_its_own_last_failure),
        cmocka_unit_test(try_returns_at_the_first_failure),
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(number_i_is_the_same_for_every_order_of_draws),
        cmocka_unit_test(every_part_of_a_stream_s_name_matters),
        cmocka_unit_test(a_share_p_of_the_numbers_lies_below_its_threshold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
