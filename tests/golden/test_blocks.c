/* Blocks of every type against what another implementation made of them: make_blocks.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/f16.h"
#include "base/quant_blocks.h"
#include "golden.h"
#include "ingot/blocks.h"

enum { MAX_ELEMENTS = 1024 };

static void check_type(const golden *g, ig_dtype dtype) {
    char name[GOLDEN_NAME_BYTES];
    snprintf(name, sizeof name, "%s.blocks", ig_dtype_name(dtype));
    const golden_record *blocks = golden_find(g, name);
    const golden_record *want = golden_find(g, ig_dtype_name(dtype));
    if (!blocks || !want) fail_msg("%s is not recorded", ig_dtype_name(dtype));
    assert_true(want->count <= MAX_ELEMENTS);

    /* At an odd address: files promise no alignment. */
    char moved[MAX_ELEMENTS * 4 + 1];
    float got[MAX_ELEMENTS];
    memcpy(moved + 1, blocks->elements, (size_t)blocks->count * 4);
    ig_blocks_dequantize(dtype, moved + 1, got, want->count);
    for (int64_t i = 0; i < want->count; i++)
        if (memcmp(&got[i], (const float *)want->elements + i, sizeof got[i]) != 0)
            fail_msg("%s: element %lld is %a, not %a", ig_dtype_name(dtype), (long long)i,
                     (double)got[i], (double)((const float *)want->elements)[i]);
}

static void every_type_decodes_to_the_recorded_bits(void **state) {
    (void)state;
    golden g;
    assert_true(golden_read(TEST_DATA_DIR "/data/blocks.bin", &g));
    for (int dtype = 0; dtype < IG_DTYPE_COUNT; dtype++)
        if (ig_blocks_can_dequantize((ig_dtype)dtype)) check_type(&g, (ig_dtype)dtype);
    golden_free(&g);
}

static void all_but_doubles_and_integers_can_be_decoded(void **state) {
    (void)state;
    for (int dtype = 0; dtype < IG_DTYPE_COUNT; dtype++)
        assert_int_equal(ig_blocks_can_dequantize((ig_dtype)dtype),
                         dtype != IG_F64 && dtype != IG_I32);
}

static void numbers_come_back_from_q8_0_within_half_a_step(void **state) {
    (void)state;
    float x[IG_BLOCK], y[IG_BLOCK], zeros[IG_BLOCK] = {0};
    ig_block_q8_0 b;
    for (int i = 0; i < IG_BLOCK; i++) x[i] = (float)(i * i % 37) - 17.5f;
    ig_blocks_quantize_q8_0(x, &b, IG_BLOCK);
    ig_blocks_dequantize(IG_Q8_0, &b, y, IG_BLOCK);
    /* Half a step of d, and what d itself lost as a half. */
    for (int i = 0; i < IG_BLOCK; i++) assert_true(x[i] - y[i] < 0.08f && y[i] - x[i] < 0.08f);

    ig_blocks_quantize_q8_0(zeros, &b, IG_BLOCK);
    ig_blocks_dequantize(IG_Q8_0, &b, y, IG_BLOCK);
    for (int i = 0; i < IG_BLOCK; i++) assert_true(y[i] == 0);

    x[7] = INFINITY;
    ig_blocks_quantize_q8_0(x, &b, IG_BLOCK);
    ig_blocks_dequantize(IG_Q8_0, &b, y, IG_BLOCK);
    for (int i = 0; i < IG_BLOCK; i++) assert_true(isnan(y[i]));
}

static void every_half_comes_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t half = (uint16_t)h;
        const bool nan16 = (h & 0x7fff) > 0x7c00, nan_b = (h & 0x7fff) > 0x7f80;
        if (!nan16) assert_int_equal(ig_f32_to_f16(ig_f16_to_f32(half)), half);
        if (!nan_b) assert_int_equal(ig_f32_to_bf16(ig_bf16_to_f32(half)), half);
        if (nan16) assert_true((ig_f32_to_f16(ig_f16_to_f32(half)) & 0x7fff) > 0x7c00);
        if (nan_b) assert_true((ig_f32_to_bf16(ig_bf16_to_f32(half)) & 0x7fff) > 0x7f80);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_decodes_to_the_recorded_bits),
        cmocka_unit_test(all_but_doubles_and_integers_can_be_decoded),
        cmocka_unit_test(numbers_come_back_from_q8_0_within_half_a_step),
        cmocka_unit_test(every_half_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
