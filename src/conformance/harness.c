#include "conformance/harness.h"

#include <float.h>
#include <stdlib.h>

#include "backend/ref/ref.h"
#include "conformance/trial.h"

enum { THREADS = 3, WORDS_BYTES = 256 };

typedef struct session {
    conformance_subject *subjects;
    size_t count;
    ig_test_host oracle_host;
    ig_backend_device oracle;
    conformance_options options;
} session;

/* ---- the oracle ---- */

typedef struct answer {
    trial oracle;
    trial_result want;
    double least; /* smaller absolute errors are ignored */
} answer;

static ig_status ask_oracle(session *s, const trial *t, ig_dtype real, answer *out) {
    IG_TRY(trial_init_oracle(&out->oracle, t, real));
    out->least = s->options.least;
    const ig_status status =
        trial_run(&out->oracle, &ig_ref_backend, &s->oracle, GARBAGE_HUGE, RUN_ONCE, &out->want);
    if (status != IG_OK) trial_deinit(&out->oracle);
    return status;
}

static void answer_deinit(answer *a) {
    trial_result_deinit(&a->want);
    trial_deinit(&a->oracle);
}

/* Computes inputs that are results of another op: what attention saves for its gradient. */
static ig_status derive(session *s, const ig_case *c, ig_dtype real, trial *t) {
    const ig_case forward = {.op = c->derived_by, .attrs = c->attrs, .in = c->in, .n_in = 3};
    trial before;
    answer made;
    IG_TRY(trial_init(&before, &forward, real));
    const ig_status status = ask_oracle(s, &before, real, &made);
    trial_deinit(&before);
    IG_TRY(status);

    for (uint32_t k = 0; k < made.oracle.step.n_out; k++) {
        const ig_ref_view from = trial_view(&made.oracle.out[k], made.want.memory);
        const ig_ref_view to = trial_view(&t->in[c->derived + k], t->memory);
        const int64_t n = ig_shape_count(to.shape);
        for (int64_t i = 0; i < n; i++) ig_ref_put_any(&to, i, ig_ref_get_any(&from, i));
    }
    answer_deinit(&made);
    return IG_OK;
}

/* ---- comparing ---- */

static double rounded(double x, ig_dtype dtype) { return dtype == IG_F32 ? (double)(float)x : x; }

static bool close_enough(double got, double want, ig_dtype dtype, double epsilons, double least) {
    const double epsilon = dtype == IG_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (got == rounded(want, dtype)) return true;
    const bool real = dtype == IG_F32 || dtype == IG_F64;
    return real &&
           (fabs(got - want) <= epsilons * epsilon * (1 + fabs(want)) || fabs(got - want) < least);
}

/* Describes the first element that differs from the oracle; false: none does. */
static bool differs(const trial *t, const trial_result *got, const answer *a, char *words) {
    const double epsilons = case_tolerance_of(t->step.op).epsilons;
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const ig_ref_view y = trial_view(&t->out[k], got->memory);
        const ig_ref_view w = trial_view(&a->oracle.out[k], a->want.memory);
        const int64_t n = ig_shape_count(y.shape), block = trial_block(y.dtype);
        for (int64_t i = 0; i < n; i += block) {
            if (block > 1) { /* quantization is exactly specified: compare blocks bit for bit */
                if (memcmp(trial_at(&y, i), trial_at(&w, i), trial_block_bytes(y.dtype)) == 0)
                    continue;
                snprintf(words, WORDS_BYTES, "output %u: the block of element %lld differs", k,
                         (long long)i);
                return true;
            }
            const double g = ig_ref_get_any(&y, i), e = ig_ref_get_any(&w, i);
            if (close_enough(g, e, y.dtype, epsilons, a->least)) continue;
            snprintf(words, WORDS_BYTES, "output %u, element %lld: %.9g, want %.9g (within %g eps)",
                     k, (long long)i, g, e, epsilons);
            return true;
        }
    }
    return false;
}

/* Compares the elements of two runs of a trial bit for bit. */
static bool bits_differ(const trial *t, const trial_result *a, const trial_result *b, char *words) {
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const ig_ref_view x = trial_view(&t->out[k], a->memory);
        const ig_ref_view y = trial_view(&t->out[k], b->memory);
        const int64_t n = ig_shape_count(x.shape), block = trial_block(x.dtype);
        for (int64_t i = 0; i < n; i += block) {
            if (memcmp(trial_at(&x, i), trial_at(&y, i), trial_block_bytes(x.dtype)) == 0) continue;
            snprintf(words, WORDS_BYTES,
                     "output %u, element %lld: %.9g with 1 thread or the first time, %.9g with %d "
                     "or the second time: not written, or it depends on that",
                     k, (long long)i, ig_ref_get_any(&x, i), ig_ref_get_any(&y, i), THREADS);
            return true;
        }
    }
    return false;
}

/* ---- one case ---- */

typedef enum verdict { PASSED, REFUSED, FAILED } verdict;

static int64_t elements_of(const ig_step *step) {
    int64_t elements = 0;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        elements += ig_shape_count(ig_step_operand(step, i)->desc.shape);
    return elements;
}

static verdict failed(ig_status status, char *words) {
    snprintf(words, WORDS_BYTES, "%s: %s", ig_status_text(status), ig_error_text());
    return FAILED;
}

/* A run on a seat: the fill pattern of outputs and scratch, and how often the program runs. */
typedef struct attempt {
    int seat;
    trial_garbage garbage;
    trial_runs runs;
} attempt;

/* Runs an attempt and compares the result with the oracle. */
static verdict run_on(const conformance_subject *subject, attempt by, trial *t, const answer *a,
                      trial_result *got, char *words) {
    const ig_status status =
        trial_run(t, subject->backend, subject->seats[by.seat].device, by.garbage, by.runs, got);
    if (status == IG_ERR_UNSUPPORTED) return REFUSED;
    if (status != IG_OK) return failed(status, words);

    const int stray = trial_find_stray_write(t, got, by.garbage);
    if (stray >= 0)
        snprintf(words, WORDS_BYTES, "wrote outside of its outputs, in buffer %d", stray);
    if (stray < 0 && !differs(t, got, a, words)) return PASSED;
    trial_result_deinit(got);
    return FAILED;
}

/* Runs the case on both seats and compares their bits; with one device, the first and second run
 * of a program. */
static verdict run_seats(const conformance_subject *subject, trial *t, const answer *a,
                         const conformance_options *how, char *words) {
    const attempt first = how->one_device ? (attempt){1, GARBAGE_HUGE, RUN_ONCE}
                                          : (attempt){0, GARBAGE_HUGE, RUN_TWICE};
    const attempt second = {1, GARBAGE_HUGE_NEGATIVE, RUN_TWICE};
    trial_result alone, together;
    verdict v = run_on(subject, first, t, a, &alone, words);
    if (v != PASSED) return v;
    if (!how->once) v = run_on(subject, second, t, a, &together, words);
    if (!how->once && v == PASSED) {
        if (bits_differ(t, &alone, &together, words)) v = FAILED;
        trial_result_deinit(&together);
    }
    trial_result_deinit(&alone);
    return v;
}

static bool takes(const conformance_subject *subject, trial *t) {
    return trial_taken(t, subject->backend, subject->seats[0].device);
}

/* ---- counting ---- */

static void count(conformance_count *c, verdict v) {
    c->passed += v == PASSED;
    c->refused += v == REFUSED;
    c->failed += v == FAILED;
}

/* A case with a choice of dtype, and the dtype that it is reported under. */
typedef struct typed_case {
    const ig_case *c;
    ig_dtype real, reported;
} typed_case;

static void report(const session *s, conformance_subject *subject, typed_case typed, verdict v,
                   const char *words) {
    count(&subject->result.at[typed.c->op][typed.reported], v);
    count(&subject->result.all, v);
    if (v == FAILED && s->options.out)
        fprintf(s->options.out, "%s: FAIL %s %s, %s: %s\n", subject->name, ig_op_name(typed.c->op),
                ig_dtype_name(typed.reported), typed.c->what, words);
}

static void report_all(const session *s, typed_case typed, verdict v, const char *words) {
    for (size_t i = 0; i < s->count; i++) report(s, &s->subjects[i], typed, v, words);
}

static void run_subject(const session *s, conformance_subject *subject, typed_case typed, trial *t,
                        const answer *a) {
    char words[WORDS_BYTES] = "";
    const verdict v = takes(subject, t) ? run_seats(subject, t, a, &s->options, words) : REFUSED;
    if (v == PASSED)
        for (uint32_t i = 0; i < t->step.n_in + t->step.n_out; i++)
            subject->result.shown |= UINT64_C(1) << ig_step_operand(&t->step, i)->desc.dtype;
    report(s, subject, typed, v, words);
}

/* The oracle is slow: it runs once, and only if a backend supports the case. */
static void run_trial(session *s, typed_case typed, trial *t) {
    answer a;
    bool wanted = false;
    for (size_t i = 0; i < s->count; i++) wanted |= takes(&s->subjects[i], t);
    if (!wanted) {
        report_all(s, typed, REFUSED, "");
        return;
    }
    ig_status status = typed.c->derived > 0 ? derive(s, typed.c, typed.real, t) : IG_OK;
    if (status == IG_OK) status = ask_oracle(s, t, typed.real, &a);
    if (status != IG_OK) {
        char words[WORDS_BYTES];
        report_all(s, typed, failed(status, words), words);
        return;
    }
    for (size_t i = 0; i < s->count; i++) run_subject(s, &s->subjects[i], typed, t, &a);
    answer_deinit(&a);
}

static void run_typed(session *s, typed_case typed) {
    trial t;
    const ig_status status = trial_init(&t, typed.c, typed.real);
    if (status != IG_OK) {
        char words[WORDS_BYTES];
        report_all(s, typed, failed(status, words), words);
        return;
    }
    const bool left_out =
        s->options.most_elements > 0 && elements_of(&t.step) > s->options.most_elements;
    if (!left_out) run_trial(s, typed, &t);
    trial_deinit(&t);
}

/* ---- all of them ---- */

/* A case with real operands runs in F32 and F64; others have fixed dtypes. */
static void run_cases(session *s, const case_table *table) {
    for (const ig_case *c = table->cases; c < table->cases + table->count; c++) {
        if (s->options.op && strcmp(s->options.op, ig_op_name(c->op)) != 0) continue;
        bool real = false;
        for (uint32_t i = 0; i < c->n_in; i++) real |= c->in[i].type == 0;
        if (real) {
            run_typed(s, (typed_case){c, IG_F32, IG_F32});
            run_typed(s, (typed_case){c, IG_F64, IG_F64});
        } else {
            const ig_attrs_fill *fill = c->attrs; /* the only op without inputs */
            const ig_dtype own = c->n_in > 0 ? (ig_dtype)(c->in[0].type - 1) : fill->dtype;
            run_typed(s, (typed_case){c, IG_DTYPE_COUNT, own});
        }
    }
}

static void print(const conformance_subject *subject, FILE *out) {
    for (int op = 0; op < IG_OP_COUNT; op++)
        for (int dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
            const conformance_count c = subject->result.at[op][dtype];
            if (c.passed + c.refused + c.failed == 0) continue;
            fprintf(out, "%s: %s %-18s %-5s %u passed, %u refused, %u failed\n", subject->name,
                    c.failed   ? "FAIL"
                    : c.passed ? "PASS"
                               : "none",
                    ig_op_name((uint32_t)op), ig_dtype_name((ig_dtype)dtype), c.passed, c.refused,
                    c.failed);
        }
}

static void close_seat(conformance_subject *subject, conformance_seat *at) {
    trial_close(subject->backend, &at->plain, at->device);
    subject->result.leaked += at->host.live;
    subject->result.warnings += at->host.warnings;
    ig_test_host_deinit(&at->host);
}

ig_status conformance_open(conformance_subject *subject, const char *name,
                           const ig_backend *backend) {
    const uint32_t threads[CONFORMANCE_SEATS] = {1, THREADS};
    *subject = (conformance_subject){.name = name, .backend = backend};
    for (int i = 0; i < CONFORMANCE_SEATS; i++) {
        conformance_seat *at = &subject->seats[i];
        ig_test_host_init(&at->host, threads[i]);
        const ig_status status = trial_open(backend, &at->host, &at->plain, &at->device);
        if (status == IG_OK) continue;
        ig_test_host_deinit(&at->host);
        while (i-- > 0) close_seat(subject, &subject->seats[i]);
        return status;
    }
    ig_device_info info = {.struct_size = sizeof info};
    if (backend->info) backend->info(subject->seats[0].device, &info);
    subject->result.claimed = info.dtypes;
    return IG_OK;
}

void conformance_run_all(conformance_subject *subjects, size_t count, conformance_options options) {
    session s = {.subjects = subjects, .count = count, .options = options};
    ig_test_host_init(&s.oracle_host, 1);
    s.oracle.host = &s.oracle_host.base;
    for (const case_table *const *table = case_tables; *table; table++) run_cases(&s, *table);
    ig_test_host_deinit(&s.oracle_host);
    for (conformance_subject *subject = subjects; subject < subjects + count; subject++) {
        if (options.out) print(subject, options.out);
        for (int i = 0; i < CONFORMANCE_SEATS; i++) close_seat(subject, &subject->seats[i]);
    }
}

ig_status conformance_run(const ig_backend *backend, conformance_options options,
                          conformance *result) {
    conformance_subject subject;
    IG_TRY(conformance_open(&subject, backend->name, backend));
    conformance_run_all(&subject, 1, options);
    *result = subject.result;
    return IG_OK;
}
