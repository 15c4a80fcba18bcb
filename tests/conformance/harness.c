#include "harness.h"

#include <float.h>
#include <stdlib.h>

#include "backend/ref/ref.h"
#include "trial.h"

enum { THREADS = 3, MAX_SEATS = 2, WORDS_BYTES = 256 };

/* The backend as one team of threads sees it. */
typedef struct seat {
    test_host host;
    ig_backend_device plain, *device;
} seat;

typedef struct session {
    const ig_backend *backend;
    seat seats[MAX_SEATS]; /* one thread, three threads */
    test_host oracle_host;
    ig_backend_device oracle;
    conformance_options options;
    conformance *result;
} session;

/* ---- the oracle ---- */

typedef struct answer {
    trial oracle;
    trial_result want;
} answer;

static ig_status ask_oracle(session *s, const trial *t, ig_dtype real, answer *out) {
    IG_TRY(trial_init_oracle(&out->oracle, t, real));
    const ig_status status =
        trial_run(&out->oracle, &ig_ref_backend, &s->oracle, GARBAGE_HUGE, RUN_ONCE, &out->want);
    if (status != IG_OK) trial_deinit(&out->oracle);
    return status;
}

static void answer_deinit(answer *a) {
    trial_result_deinit(&a->want);
    trial_deinit(&a->oracle);
}

/* Inputs that are results of another op: what attention left for its gradient. */
static ig_status derive(session *s, const ig_case *c, ig_dtype real, trial *t) {
    ig_case forward = {.op = c->derived_by, .attrs = c->attrs};
    trial before;
    answer made;
    memcpy(forward.in, c->in, 3 * sizeof *c->in);
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

/* Says which element of which output is not what the oracle has; false: there is none. */
static bool differs(const trial *t, const trial_result *got, const answer *a, double least,
                    char *words) {
    const double epsilons = case_tolerance_of(t->step.op).epsilons;
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const ig_ref_view y = trial_view(&t->out[k], got->memory);
        const ig_ref_view w = trial_view(&a->oracle.out[k], a->want.memory);
        const int64_t n = ig_shape_count(y.shape), block = trial_block(y.dtype);
        for (int64_t i = 0; i < n; i += block) {
            if (block > 1) { /* blocks are stored by a rule that leaves no choice */
                if (memcmp(trial_at(&y, i), trial_at(&w, i), trial_block_bytes(y.dtype)) == 0)
                    continue;
                snprintf(words, WORDS_BYTES, "output %u: the block of element %lld differs", k,
                         (long long)i);
                return true;
            }
            const double g = ig_ref_get_any(&y, i), e = ig_ref_get_any(&w, i);
            if (close_enough(g, e, y.dtype, epsilons, least)) continue;
            snprintf(words, WORDS_BYTES, "output %u, element %lld: %.9g, want %.9g (within %g eps)",
                     k, (long long)i, g, e, epsilons);
            return true;
        }
    }
    return false;
}

/* The elements of two runs of the same trial, bit for bit. */
static bool bits_differ(const trial *t, const trial_result *a, const trial_result *b, char *words) {
    for (uint32_t k = 0; k < t->step.n_out; k++) {
        const ig_ref_view x = trial_view(&t->out[k], a->memory);
        const ig_ref_view y = trial_view(&t->out[k], b->memory);
        const int64_t n = ig_shape_count(x.shape), block = trial_block(x.dtype);
        for (int64_t i = 0; i < n; i += block) {
            if (memcmp(trial_at(&x, i), trial_at(&y, i), trial_block_bytes(x.dtype)) == 0) continue;
            snprintf(words, WORDS_BYTES,
                     "output %u, element %lld: %.9g with 1 thread, %.9g with %d: not written, or "
                     "it depends on the threads",
                     k, (long long)i, ig_ref_get_any(&x, i), ig_ref_get_any(&y, i), THREADS);
            return true;
        }
    }
    return false;
}

/* ---- one case ---- */

typedef enum verdict { PASSED, REFUSED, FAILED, LEFT_OUT } verdict;

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

/* One run of a seat, compared with the oracle. */
static verdict run_on(session *s, seat *at, trial *t, trial_garbage garbage, const answer *a,
                      trial_result *got, char *words) {
    const ig_status status = trial_run(t, s->backend, at->device, garbage, RUN_TWICE, got);
    if (status == IG_ERR_UNSUPPORTED) return REFUSED;
    if (status != IG_OK) return failed(status, words);

    const int stray = trial_find_stray_write(t, got, garbage);
    if (stray >= 0)
        snprintf(words, WORDS_BYTES, "wrote outside of its outputs, in buffer %d", stray);
    if (stray < 0 && !differs(t, got, a, s->options.least, words)) return PASSED;
    trial_result_deinit(got);
    return FAILED;
}

static verdict run_seats(session *s, trial *t, const answer *a, char *words) {
    trial_result alone, together;
    verdict v = run_on(s, &s->seats[0], t, GARBAGE_HUGE, a, &alone, words);
    if (v != PASSED) return v;
    v = run_on(s, &s->seats[1], t, GARBAGE_HUGE_NEGATIVE, a, &together, words);
    if (v == PASSED) {
        if (bits_differ(t, &alone, &together, words)) v = FAILED;
        trial_result_deinit(&together);
    }
    trial_result_deinit(&alone);
    return v;
}

static verdict run_case(session *s, const ig_case *c, ig_dtype real, uint64_t *dtypes,
                        char *words) {
    trial t;
    answer a;
    ig_status status = trial_init(&t, c, real);
    if (status != IG_OK) return failed(status, words);
    if (s->options.most_elements > 0 && elements_of(&t.step) > s->options.most_elements) {
        trial_deinit(&t);
        return LEFT_OUT;
    }
    if (s->backend->can_run && !s->backend->can_run(s->seats[0].device, &t.step)) {
        trial_deinit(&t); /* without asking the oracle, which takes its time */
        return REFUSED;
    }
    if (c->derived > 0) status = derive(s, c, real, &t);
    if (status == IG_OK) status = ask_oracle(s, &t, real, &a);
    if (status != IG_OK) {
        trial_deinit(&t);
        return failed(status, words);
    }
    const verdict v = run_seats(s, &t, &a, words);
    for (uint32_t i = 0; i < t.step.n_in + t.step.n_out; i++)
        *dtypes |= UINT64_C(1) << ig_step_operand(&t.step, i)->desc.dtype;
    answer_deinit(&a);
    trial_deinit(&t);
    return v;
}

/* ---- all of them ---- */

static void count(conformance_count *c, verdict v) {
    c->passed += v == PASSED;
    c->refused += v == REFUSED;
    c->failed += v == FAILED;
}

static void run_and_count(session *s, const ig_case *c, ig_dtype real, ig_dtype reported) {
    char words[WORDS_BYTES] = "";
    uint64_t dtypes = 0;
    const verdict v = run_case(s, c, real, &dtypes, words);
    count(&s->result->at[c->op][reported], v);
    count(&s->result->all, v);
    if (v == PASSED) s->result->shown |= dtypes;
    if (v == FAILED && s->options.out)
        fprintf(s->options.out, "%s: FAIL %s %s, %s: %s\n", s->backend->name, ig_op_name(c->op),
                ig_dtype_name(reported), c->what, words);
}

/* A case with real operands runs for each real dtype; others have dtypes of their own. */
static void run_cases(session *s, const case_table *table) {
    for (const ig_case *c = table->cases; c < table->cases + table->count; c++) {
        if (s->options.op && strcmp(s->options.op, ig_op_name(c->op)) != 0) continue;
        bool real = false;
        for (int i = 0; i < CASE_MAX_IN; i++) real |= c->in[i].used && c->in[i].type == 0;
        if (real) {
            run_and_count(s, c, IG_F32, IG_F32);
            run_and_count(s, c, IG_F64, IG_F64);
        } else {
            const ig_attrs_fill *fill = c->attrs; /* the one op without an input */
            run_and_count(s, c, IG_DTYPE_COUNT,
                          (ig_dtype)(c->in[0].used ? c->in[0].type - 1 : fill->dtype));
        }
    }
}

static void print(const session *s) {
    for (int op = 0; op < IG_OP_COUNT; op++)
        for (int dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
            const conformance_count c = s->result->at[op][dtype];
            if (c.passed + c.refused + c.failed == 0) continue;
            fprintf(s->options.out, "%s: %s %-18s %-5s %u passed, %u refused, %u failed\n",
                    s->backend->name,
                    c.failed   ? "FAIL"
                    : c.passed ? "PASS"
                               : "none",
                    ig_op_name((uint32_t)op), ig_dtype_name((ig_dtype)dtype), c.passed, c.refused,
                    c.failed);
        }
}

static ig_status open_seats(session *s) {
    const uint32_t threads[MAX_SEATS] = {1, THREADS};
    for (int i = 0; i < MAX_SEATS; i++) {
        seat *at = &s->seats[i];
        host_init(&at->host, threads[i]);
        const ig_status status = trial_open(s->backend, &at->host, &at->plain, &at->device);
        if (status == IG_OK) continue;
        host_deinit(&at->host);
        if (i > 0) {
            trial_close(s->backend, &s->seats[0].plain, s->seats[0].device);
            host_deinit(&s->seats[0].host);
        }
        return status;
    }
    return IG_OK;
}

ig_status conformance_run(const ig_backend *backend, conformance_options options,
                          conformance *result) {
    memset(result, 0, sizeof *result);
    session s = {.backend = backend, .options = options, .result = result};
    IG_TRY(open_seats(&s));
    host_init(&s.oracle_host, 1);
    s.oracle.host = &s.oracle_host.base;

    ig_device_info info = {.struct_size = sizeof info};
    if (backend->info) backend->info(s.seats[0].device, &info);
    result->claimed = info.dtypes;
    for (const case_table *const *table = case_tables; *table; table++) run_cases(&s, *table);
    if (options.out) print(&s);

    for (int i = 0; i < MAX_SEATS; i++) {
        trial_close(backend, &s.seats[i].plain, s.seats[i].device);
        result->leaked += s.seats[i].host.live;
        result->warnings += s.seats[i].host.warnings;
        host_deinit(&s.seats[i].host);
    }
    host_deinit(&s.oracle_host);
    return IG_OK;
}
