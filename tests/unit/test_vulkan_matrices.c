/*
 * Shaders for units that multiply matrices, as glslc leaves them and as drivers get
 * them: nothing of the older extension is left, and each matrix is used for what it is.
 * No device is needed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/vulkan/shaders/shaders.h"
#include "backend/vulkan/spirv/coopmat.h"

/* Of SPIR-V; see its registry. */
enum {
    HEADER_WORDS = 5,
    BOUND = 3,
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_CONSTANT = 43,
    KHR_TYPE = 4456,
    KHR_LOAD = 4457,
    KHR_STORE = 4458,
    KHR_MULTIPLY = 4459,
    KHR_CAPABILITY = 6022,
    FIRST_OF_NV = 5357,
    LAST_OF_NV = 5362,
    LEFT = 0,
    RIGHT = 1,
    SUMS = 2,
};

typedef struct module {
    uint32_t *words;
    size_t count;
} module;

static module rewritten(void) {
    const vk_shader_code *code = &vk_shaders[VK_SHADER_matmul_coopmat];
    const size_t count = code->bytes / sizeof(uint32_t);
    module m = {.words = malloc(vk_matrices_room(count) * sizeof(uint32_t))};
    assert_non_null(m.words);
    m.count = vk_matrices_rewrite(code->words, count, m.words);
    assert_true(m.count <= vk_matrices_room(count));
    return m;
}

static const uint32_t *next(const module *m, const uint32_t *at) {
    at = at ? at + (at[0] >> 16) : m->words + HEADER_WORDS;
    return at < m->words + m->count ? at : NULL;
}

/* The value of a constant; UINT32_MAX: there is none with this id. */
static uint32_t constant(const module *m, uint32_t id) {
    for (const uint32_t *at = NULL; (at = next(m, at));)
        if ((at[0] & 0xffff) == OP_CONSTANT && at[2] == id) return at[3];
    return UINT32_MAX;
}

/* What matrices of a type are for. */
static uint32_t use_of(const module *m, uint32_t type) {
    for (const uint32_t *at = NULL; (at = next(m, at));)
        if ((at[0] & 0xffff) == KHR_TYPE && at[1] == type) return constant(m, at[6]);
    return UINT32_MAX;
}

static void nothing_of_the_older_extension_is_left(void **state) {
    (void)state;
    module m = rewritten();
    bool asked = false, extended = false;
    const uint32_t *end = m.words + HEADER_WORDS;
    for (const uint32_t *at = NULL; (at = next(&m, at)); end = at + (at[0] >> 16)) {
        const uint32_t op = at[0] & 0xffff;
        assert_true(op < FIRST_OF_NV || op > LAST_OF_NV);
        if (op == OP_CAPABILITY) assert_int_not_equal(at[1], FIRST_OF_NV);
        asked |= op == OP_CAPABILITY && at[1] == KHR_CAPABILITY;
        extended |=
            op == OP_EXTENSION && strcmp((const char *)(at + 1), "SPV_KHR_cooperative_matrix") == 0;
    }
    assert_ptr_equal(end, m.words + m.count); /* instructions follow each other without a gap */
    assert_true(asked);
    assert_true(extended);
    free(m.words);
}

static void a_matrix_is_used_for_what_it_is(void **state) {
    (void)state;
    module m = rewritten();
    bool seen[3] = {false};
    int products = 0;
    for (const uint32_t *at = NULL; (at = next(&m, at));) {
        const uint32_t op = at[0] & 0xffff;
        if (op == KHR_TYPE) {
            assert_int_equal(at[0] >> 16, 7);
            assert_true(constant(&m, at[6]) <= SUMS);
            seen[constant(&m, at[6])] = true;
        }
        if (op == KHR_LOAD) /* the left side lies in rows, the right side in columns */
            assert_int_equal(constant(&m, at[4]), use_of(&m, at[1]) == RIGHT);
        if (op == KHR_STORE) assert_int_equal(constant(&m, at[3]), 0);
        if (op != KHR_MULTIPLY) continue;
        assert_int_equal(use_of(&m, at[1]), SUMS);
        products++;
    }
    assert_true(seen[LEFT] && seen[RIGHT] && seen[SUMS]);
    assert_true(products >= 3); /* of the parts of both sides */
    free(m.words);
}

static void new_ids_are_below_the_bound(void **state) {
    (void)state;
    module m = rewritten();
    for (const uint32_t *at = NULL; (at = next(&m, at));)
        if ((at[0] & 0xffff) == OP_CONSTANT) assert_true(at[2] < m.words[BOUND]);
    free(m.words);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_older_extension_is_left),
        cmocka_unit_test(a_matrix_is_used_for_what_it_is),
        cmocka_unit_test(new_ids_are_below_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
