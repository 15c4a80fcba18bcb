/*
 * The harness itself: each of these backends is the reference with one fault,
 * and the suite must notice it.  Only exp is run, to be quick.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "base/alloc.h"
#include "conformance/cases.h"
#include "conformance/harness.h"

typedef enum fault {
    NO_FAULT,
    WRITES_BEHIND_THE_OUTPUT,
    LEAVES_AN_ELEMENT_OUT,
    DEPENDS_ON_THE_THREADS,
    CHANGES_AN_INPUT,
    IS_A_LITTLE_WRONG,
    WEARS_OUT,
    LEAKS,
} fault;

typedef struct faulty_program {
    ig_backend_program base, *inner;
    const ig_host *host;
    fault fault;
    ig_operand in, out;
    int runs;
} faulty_program;

static char *at(ig_backend_buffer *const *buffers, const ig_operand *o) {
    return (char *)buffers[o->buffer] + o->offset;
}

static size_t bytes_of(const ig_operand *o) {
    uint64_t bytes = 0;
    return ig_desc_bytes(o->desc, &bytes) ? (size_t)bytes : 0;
}

static void count_threads(void *task, uint32_t thread, uint32_t threads) {
    if (thread == 0) *(uint32_t *)task = threads;
}

/* Does what is wrong, after the reference has computed `bytes` bytes at `y`, 4 or more. */
static void spoil(const faulty_program *p, char *x, char *y, size_t bytes) {
    uint32_t threads = 0;
    p->host->team(p->host, count_threads, &threads);
    if (p->fault == WRITES_BEHIND_THE_OUTPUT) y[bytes] = 0;
    if (p->fault == DEPENDS_ON_THE_THREADS && threads > 1) y[0] ^= 1; /* the last bit */
    if (p->fault == CHANGES_AN_INPUT) x[0] ^= 1;
    if (p->fault == IS_A_LITTLE_WRONG) y[1] ^= 2;
    if (p->fault == WEARS_OUT && p->runs > 1) y[bytes - 1] ^= 1;
}

static ig_status submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                        uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    faulty_program *p = (faulty_program *)program;
    char *y = at(buffers, &p->out), last[4] = {0};
    const size_t bytes = bytes_of(&p->out);
    p->runs++;
    if (bytes > 0) memcpy(last, y + bytes - sizeof last, sizeof last);
    IG_TRY(p->inner->submit(p->inner, buffers, n_buffers, slots, n_slots));
    if (bytes == 0) return IG_OK;
    if (p->fault == LEAVES_AN_ELEMENT_OUT) memcpy(y + bytes - sizeof last, last, sizeof last);
    spoil(p, at(buffers, &p->in), y, bytes);
    return IG_OK;
}

static void destroy(ig_backend_program *program) {
    faulty_program *p = (faulty_program *)program;
    p->inner->destroy(p->inner);
    if (p->fault == LEAKS)
        ig_free(&ig_heap, p); /* behind the host's back, which takes it for lost */
    else
        p->host->free(p->host, p);
}

static ig_status compile_with(fault which, ig_backend_device *device, const ig_step *steps,
                              ig_backend_program **out) {
    const ig_host *host = device->host;
    faulty_program *p = host->alloc(host, 1, sizeof *p);
    assert_non_null(p);
    *p = (faulty_program){{submit, destroy}, NULL, host, which, steps->in[0], steps->out[0], 0};
    assert_int_equal(ig_ref_backend.compile(device, steps, 1, (ig_blob){0}, NULL, &p->inner),
                     IG_OK);
    *out = &p->base;
    return IG_OK;
}

/* A backend's compile() does not learn which backend it is: each fault has one of its own. */
#define COMPILE(name, which)                                                                \
    static ig_status name(ig_backend_device *device, const ig_step *steps, uint32_t count,  \
                          ig_blob saved, ig_progress *progress, ig_backend_program **out) { \
        (void)count, (void)saved, (void)progress;                                           \
        return compile_with(which, device, steps, out);                                     \
    }
COMPILE(compile_well, NO_FAULT)
COMPILE(compile_behind, WRITES_BEHIND_THE_OUTPUT)
COMPILE(compile_element, LEAVES_AN_ELEMENT_OUT)
COMPILE(compile_threads, DEPENDS_ON_THE_THREADS)
COMPILE(compile_input, CHANGES_AN_INPUT)
COMPILE(compile_wrong, IS_A_LITTLE_WRONG)
COMPILE(compile_wears, WEARS_OUT)
COMPILE(compile_leaks, LEAKS)

static ig_status compile_never(ig_backend_device *device, const ig_step *steps, uint32_t count,
                               ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)device, (void)steps, (void)count, (void)saved, (void)progress, (void)out;
    return IG_FAIL(IG_ERR_UNSUPPORTED, "never");
}

static conformance run(ig_compile_fn *compile,
                       bool (*can_run)(const ig_backend_device *, const ig_step *)) {
    ig_backend backend = ig_ref_backend;
    conformance c;
    backend.compile = compile;
    backend.can_run = can_run;
    assert_int_equal(conformance_run(&backend, (conformance_options){.op = "exp"}, &c), IG_OK);
    return c;
}

static void a_sound_backend_passes(void **state) {
    (void)state;
    const conformance c = run(compile_well, ig_ref_backend.can_run);
    assert_true(c.all.passed > 0);
    assert_int_equal(c.all.failed, 0);
    assert_int_equal(c.leaked, 0);
}

static void each_fault_fails(void **state) {
    (void)state;
    ig_compile_fn *const faulty[] = {compile_behind, compile_element, compile_threads,
                                     compile_input,  compile_wrong,   compile_wears};
    for (size_t i = 0; i < COUNT(faulty); i++) {
        const conformance c = run(faulty[i], ig_ref_backend.can_run);
        if (c.all.failed == 0) fail_msg("fault %d was not noticed", (int)i + 1);
    }
}

static void a_leak_is_counted(void **state) {
    (void)state;
    assert_true(run(compile_leaks, ig_ref_backend.can_run).leaked > 0);
}

static void can_run_must_not_promise_what_compile_refuses(void **state) {
    (void)state;
    const conformance c = run(compile_never, ig_ref_backend.can_run);
    assert_int_equal(c.all.passed, 0);
    assert_true(c.all.failed > 0);
}

static void without_can_run_compile_may_refuse(void **state) {
    (void)state;
    const conformance c = run(compile_never, NULL);
    assert_int_equal(c.all.failed, 0);
    assert_true(c.all.refused > 0);
}

static void a_dtype_that_is_claimed_but_not_shown_is_seen(void **state) {
    (void)state;
    const conformance c = run(compile_well, ig_ref_backend.can_run); /* exp is not for F16 */
    assert_true(c.claimed & ~c.shown & UINT64_C(1) << IG_F16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_backend_passes),
        cmocka_unit_test(each_fault_fails),
        cmocka_unit_test(a_leak_is_counted),
        cmocka_unit_test(can_run_must_not_promise_what_compile_refuses),
        cmocka_unit_test(without_can_run_compile_may_refuse),
        cmocka_unit_test(a_dtype_that_is_claimed_but_not_shown_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
