/*
 * Every case of every op: the reference in float against itself in double, then
 * the CPU backend with each instruction set that this machine has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "cases.h"
#include "harness.h"

extern const ig_backend ig_cpu_backend;

static const char *const isas[] = {"scalar", "avx2", "avx512", "avx512vnni", "amx", "amx-emulated"};

static bool is_step(int op) {
    return op != IG_OP_CUSTOM && !(ig_op_find((uint32_t)op)->traits & IG_VIEWS);
}

static void every_op_has_a_case_and_a_tolerance_with_a_reason(void **state) {
    (void)state;
    bool has_case[IG_OP_COUNT] = {false};
    for (const case_table *const *t = case_tables; *t; t++)
        for (size_t i = 0; i < (*t)->count; i++) has_case[(*t)->cases[i].op] = true;
    for (int op = 0; op < IG_OP_COUNT; op++) {
        if (!is_step(op)) continue;
        if (!has_case[op]) fail_msg("%s has no case", ig_op_name((uint32_t)op));
        if (!case_tolerance_of((uint32_t)op).reason)
            fail_msg("%s has no tolerance", ig_op_name((uint32_t)op));
    }
}

/* What has no real operand runs in i32 alone. */
static ig_dtype least_dtype(int op, ig_dtype everywhere) {
    return op == IG_OP_GROUP_ROWS ? IG_I32 : everywhere;
}

/* What holds for every backend of ours: nothing fails, nothing leaks, nothing is claimed that no
 * case has shown, and each op runs at least in the given dtype. */
static void check(const conformance *c, ig_dtype everywhere) {
    for (int op = 0; op < IG_OP_COUNT; op++) {
        const ig_dtype dtype = least_dtype(op, everywhere);
        if (is_step(op) && c->at[op][dtype].passed == 0)
            fail_msg("%s does not run in %s", ig_op_name((uint32_t)op), ig_dtype_name(dtype));
    }
    assert_int_equal(c->all.failed, 0);
    assert_int_equal(c->leaked, 0);
    assert_true(c->claimed != 0);
    assert_int_equal(c->claimed & ~c->shown, 0);
}

/* Cases of more elements may be left to others: those of large products take minutes under
 * sanitizers, which learn nothing from them that smaller ones do not show. */
static int64_t most_elements(void) {
    const char *most = getenv("CONFORMANCE_MOST");
    return most ? atoll(most) : 0;
}

static void reference_in_float_agrees_with_itself_in_double(void **state) {
    (void)state;
    if (getenv("INGOT_ISA")) skip(); /* it was run without */
    const conformance_options loudly = {.out = stdout, .most_elements = most_elements()};
    conformance c;
    assert_int_equal(conformance_run(&ig_ref_backend, loudly, &c), IG_OK);
    check(&c, IG_F32);
    check(&c, IG_F64);
    assert_int_equal(c.all.refused, 0);
}

/* Runs the CPU backend with one instruction set; false: this machine lacks it. */
static bool run_cpu(const char *isa, conformance *out) {
    const conformance_options loudly = {.out = stdout, .most_elements = most_elements()};
    setenv("INGOT_ISA", isa, 1);
    printf("cpu: %s\n", isa);
    const ig_status status = conformance_run(&ig_cpu_backend, loudly, out);
    if (status == IG_ERR_DEVICE)
        printf("cpu: %s skipped: %s\n", isa, ig_error_text());
    else
        assert_int_equal(status, IG_OK);
    return status == IG_OK;
}

/* Of a set that was asked for from outside, that one alone. */
static void cpu_agrees_with_the_reference_on_every_instruction_set(void **state) {
    (void)state;
    conformance results[COUNT(isas)];
    bool ran[COUNT(isas)] = {false};
    const char *asked = getenv("INGOT_ISA");
    for (size_t i = 0; i < COUNT(isas); i++)
        if (!asked || strcmp(asked, isas[i]) == 0) ran[i] = run_cpu(isas[i], &results[i]);
    for (size_t i = 0; i < COUNT(isas); i++)
        if (ran[i]) check(&results[i], IG_F32);
    if (!asked) unsetenv("INGOT_ISA");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case_and_a_tolerance_with_a_reason),
        cmocka_unit_test(reference_in_float_agrees_with_itself_in_double),
        cmocka_unit_test(cpu_agrees_with_the_reference_on_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
