/*
 * Every case of every op: the reference in float against itself in double, then
 * the CPU backend with each instruction set that this machine has, then the other
 * backends of backends.def.  CONFORMANCE_OP: of this op alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "conformance/cases.h"
#include "conformance/harness.h"

#define IG_BACKEND(name) extern const ig_backend ig_##name##_backend;
#include "backend/backends.def"

static const char *const isas[] = {"scalar", "avx2", "avx512", "avx512vnni", "amx", "amx-emulated"};

static bool is_step(int op) {
    const char *only = getenv("CONFORMANCE_OP");
    if (only && strcmp(only, ig_op_name((uint32_t)op)) != 0) return false;
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
    if (!getenv("CONFORMANCE_OP")) assert_int_equal(c->claimed & ~c->shown, 0);
}

/* Cases of more elements may be left to others: those of large products take minutes under
 * sanitizers, which learn nothing from them that smaller ones do not show. */
static int64_t most_elements(void) {
    const char *most = getenv("CONFORMANCE_MOST");
    return most ? atoll(most) : 0;
}

enum { MOST_OTHERS = 16 };

/* The reference, the CPU backend with each instruction set, and other backends, through all cases
 * together. */
static struct {
    conformance_subject subjects[1 + COUNT(isas) + MOST_OTHERS];
    char names[1 + COUNT(isas)][32];
    size_t count;
} all;

/* A set that this machine lacks is left out, with a word. */
static void open_cpu(const char *isa) {
    char *name = all.names[all.count];
    snprintf(name, sizeof all.names[0], "cpu %s", isa);
    setenv("INGOT_ISA", isa, 1);
    const ig_status status = conformance_open(&all.subjects[all.count], name, &ig_cpu_backend);
    if (status == IG_ERR_DEVICE) {
        printf("%s skipped: %s\n", name, ig_error_text());
        return;
    }
    assert_int_equal(status, IG_OK);
    all.count++;
}

/* Vulkan has a test of its own, and null computes nothing. */
static bool is_other(const ig_backend *backend) {
    static const char *const known[] = {"cpu", "ref", "vulkan", "null"};
    for (size_t i = 0; i < COUNT(known); i++)
        if (strcmp(backend->name, known[i]) == 0) return false;
    return true;
}

static void open_others(void) {
    static const ig_backend *const backends[] = {
#define IG_BACKEND(name) &ig_##name##_backend,
#include "backend/backends.def"
    };
    for (size_t i = 0; i < COUNT(backends) && all.count < COUNT(all.subjects); i++) {
        if (!is_other(backends[i])) continue;
        const ig_status status =
            conformance_open(&all.subjects[all.count], backends[i]->name, backends[i]);
        if (status == IG_OK)
            all.count++;
        else
            printf("%s skipped: %s\n", backends[i]->name, ig_error_text());
    }
}

/* Of a set that was asked for from outside, that one alone: the reference was run without. */
static int run_all(void **state) {
    (void)state;
    const char *asked = getenv("INGOT_ISA");
    char only[32];
    snprintf(only, sizeof only, "%s", asked ? asked : "");
    if (!asked) {
        if (conformance_open(&all.subjects[0], "ref", &ig_ref_backend) != IG_OK) return 1;
        all.count++;
    }
    for (size_t i = 0; i < COUNT(isas); i++)
        if (!asked || strcmp(only, isas[i]) == 0) open_cpu(isas[i]);
    if (!asked) unsetenv("INGOT_ISA");
    if (!asked) open_others();
    conformance_run_all(all.subjects, all.count,
                        (conformance_options){.out = stdout,
                                              .op = getenv("CONFORMANCE_OP"),
                                              .most_elements = most_elements()});
    return 0;
}

static void reference_in_float_agrees_with_itself_in_double(void **state) {
    (void)state;
    const conformance *c = &all.subjects[0].result;
    if (all.subjects[0].backend != &ig_ref_backend) skip();
    check(c, IG_F32);
    check(c, IG_F64);
    assert_int_equal(c->all.refused, 0);
}

static void cpu_agrees_with_the_reference_on_every_instruction_set(void **state) {
    (void)state;
    size_t sets = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (all.subjects[i].backend != &ig_cpu_backend) continue;
        printf("%s\n", all.names[i]);
        check(&all.subjects[i].result, IG_F32);
        sets++;
    }
    if (sets == 0) skip(); /* a set was asked for that this machine lacks */
}

static void other_backends_agree_with_the_reference_in_what_they_run(void **state) {
    (void)state;
    for (size_t i = 0; i < all.count; i++) {
        const conformance *c = &all.subjects[i].result;
        if (!is_other(all.subjects[i].backend)) continue;
        assert_int_equal(c->all.failed, 0);
        assert_int_equal(c->leaked, 0);
        if (!getenv("CONFORMANCE_OP")) assert_true(c->all.passed > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_case_and_a_tolerance_with_a_reason),
        cmocka_unit_test(reference_in_float_agrees_with_itself_in_double),
        cmocka_unit_test(cpu_agrees_with_the_reference_on_every_instruction_set),
        cmocka_unit_test(other_backends_agree_with_the_reference_in_what_they_run),
    };
    return cmocka_run_group_tests(tests, run_all, NULL);
}
