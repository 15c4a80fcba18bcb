/*
 * Matmuls of `ingot bench ops`: alternates with OpenBLAS, which is loaded at run time, and with the
 * machine's own multiply-add rate, so that a slow moment affects all three alike. The ratio to
 * OpenBLAS is the median over the turns.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/bench/cmd_bench_ops.h"
#include "ingot/bench.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

static const double turn_seconds = 0.03; /* per turn and side */

/* ---- OpenBLAS ---- */

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 }; /* values of cblas.h */

typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct openblas {
    void *library;
    sgemm_fn *sgemm; /* NULL: OpenBLAS is not installed */
    void (*set_threads)(int n);
    char config[128];
} openblas;

static void *find_symbol(const openblas *b, const char *name) {
    return b->library ? dlsym(b->library, name) : NULL;
}

static void blas_close(openblas *b) {
    if (b->library) dlclose(b->library);
}

static void load(openblas *b) {
    *b = (openblas){.library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)};
    char *(*config)(void) = NULL;
    *(void **)&b->sgemm = find_symbol(b, "cblas_sgemm");
    *(void **)&b->set_threads = find_symbol(b, "openblas_set_num_threads");
    *(void **)&config = find_symbol(b, "openblas_get_config");
    if (!b->set_threads) b->sgemm = NULL;
    if (b->sgemm) ig_text_safe(config ? config() : "OpenBLAS", b->config, sizeof b->config);
    for (size_t end = strlen(b->config); end > 0 && b->config[end - 1] == ' ';)
        b->config[--end] = 0;
}

/* OpenBLAS runs its plainest kernels (Prescott) on processors newer than the library. Names its
 * best kernels here, because a peer must run at full speed. */
static void blas_open(openblas *b, const char *isa) {
    load(b);
    const bool avx512 = strncmp(isa, "avx512", 6) == 0;
    if (!strstr(b->config, "Prescott") || getenv("OPENBLAS_CORETYPE") || strcmp(isa, "scalar") == 0)
        return;
    blas_close(b);
    setenv("OPENBLAS_CORETYPE", avx512 ? "SkylakeX" : "Haswell", 1);
    load(b);
}

/* ---- One shape ---- */

static const struct {
    int m, k, n;
} shapes[] = {
    {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {64, 1024, 1024}, {8, 2048, 2048}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Ingot and OpenBLAS sum k products in FP32, in different orders. */
static const double most_difference = 1e-4; /* relative to the largest result */

typedef struct matmul_row {
    int m, k, n, threads;
    bench_spread ns, blas_ns;
    double ratio;        /* speedup over OpenBLAS; 0: not measured */
    double flops, share; /* FLOP/s, and as a share of the multiply-add roof */
} matmul_row;

typedef struct matmul_case {
    const bench_ops *bench;
    const openblas *blas;
    ig_ctx *ctx;
    ig_tensor *a, *b;
    float *values; /* a, b, and space for both results */
    float *ours, *theirs;
    matmul_row *row;
    int64_t reps;
    double *samples; /* [ours, theirs, roof, ratio][runs] */
} matmul_case;

static ig_status run_ours(const matmul_case *c, int64_t reps, float *out) {
    ig_status status = IG_OK;
    for (int64_t i = 0; i < reps && status == IG_OK; i++) {
        ig_scope_begin(c->ctx);
        ig_tensor *y = ig_matmul(c->a, c->b);
        status = out ? ig_tensor_read(y, out, (size_t)c->row->m * (size_t)c->row->n * sizeof *out)
                     : ig_eval(&y, 1);
        ig_scope_end(c->ctx);
    }
    return status;
}

static void run_theirs(const matmul_case *c, int64_t reps) {
    const matmul_row *r = c->row;
    const float *a = c->values, *b = a + (size_t)r->m * (size_t)r->k;
    for (int64_t i = 0; i < reps; i++)
        c->blas->sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, r->m, r->n, r->k, 1, a, r->k, b, r->n,
                       0, c->theirs, r->n);
}

/* OpenBLAS' threads spin for 2^26 clock ticks after a call and would slow down the next
 * measurement. */
static void let_threads_sleep(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
}

static ig_status compare(const matmul_case *c) {
    const size_t count = (size_t)c->row->m * (size_t)c->row->n;
    double largest = 0, most = 0;
    IG_TRY(run_ours(c, 1, c->ours));
    if (!c->blas->sgemm) return IG_OK;
    run_theirs(c, 1);
    let_threads_sleep();
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)c->theirs[i]));
        most = fmax(most, fabs((double)c->ours[i] - (double)c->theirs[i]));
    }
    if (most <= most_difference * largest) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "matmul %dx%dx%d: differs from OpenBLAS by %g; the limit is %g",
                   c->row->m, c->row->k, c->row->n, most, largest);
}

/* Chooses the number of calls that fill a turn. */
static ig_status choose_reps(matmul_case *c) {
    const double began = ig_clock_seconds();
    IG_TRY(run_ours(c, 3, NULL));
    const double seconds = (ig_clock_seconds() - began) / 3;
    c->reps = seconds < turn_seconds ? (int64_t)(turn_seconds / seconds) + 1 : 1;
    return IG_OK;
}

static ig_status take_turn(matmul_case *c, int run) {
    const int runs = c->bench->runs;
    const ig_roofline_options roof = {
        .threads = c->row->threads, .seconds = turn_seconds, .allocator = c->bench->cli->allocator};
    double *ns = c->samples, *blas_ns = ns + runs, *peak = blas_ns + runs, *ratio = peak + runs;
    double began = ig_clock_seconds();
    IG_TRY(run_ours(c, c->reps, NULL));
    ns[run] = (ig_clock_seconds() - began) * 1e9 / (double)c->reps;
    if (c->blas->sgemm) {
        began = ig_clock_seconds();
        run_theirs(c, c->reps);
        blas_ns[run] = (ig_clock_seconds() - began) * 1e9 / (double)c->reps;
        ratio[run] = blas_ns[run] / ns[run];
        let_threads_sleep();
    }
    return ig_roofline_measure(IG_ROOF_FMA_F32, &roof, &peak[run]);
}

static ig_status measure_matmul(matmul_case *c) {
    matmul_row *r = c->row;
    const int runs = c->bench->runs;
    const double flop = 2.0 * r->m * r->n * r->k;
    if (c->blas->sgemm) c->blas->set_threads(r->threads);
    IG_TRY(compare(c));
    IG_TRY(choose_reps(c));
    for (int run = 0; run < runs; run++) {
        if (ig_cli_cancelled(c->bench->cli)) return IG_FAIL(IG_ERR_CANCELLED, "ops: stopped");
        IG_TRY(take_turn(c, run));
    }
    r->ns = bench_spread_of(c->samples, (size_t)runs);
    r->blas_ns = bench_spread_of(c->samples + runs, (size_t)runs);
    const double peak = bench_spread_of(c->samples + 2 * runs, (size_t)runs).median;
    if (c->blas->sgemm) r->ratio = bench_spread_of(c->samples + 3 * runs, (size_t)runs).median;
    r->flops = flop / r->ns.median * 1e9;
    r->share = r->flops / peak;
    return IG_OK;
}

static ig_status open_case(matmul_case *c) {
    const matmul_row *r = c->row;
    const size_t m = (size_t)r->m, k = (size_t)r->k, n = (size_t)r->n;
    const ig_allocator *a = &c->bench->cli->allocator;
    c->values = ig_alloc(a, m * k + k * n + 2 * m * n, sizeof *c->values);
    c->samples = ig_alloc(a, (size_t)c->bench->runs, 4 * sizeof *c->samples);
    if (!c->values || !c->samples)
        return IG_FAIL(IG_ERR_MEMORY, "matmul %dx%dx%d: no memory", r->m, r->k, r->n);
    c->ours = c->values + m * k + k * n, c->theirs = c->ours + m * n;
    IG_TRY(bench_context(c->bench->cli, "cpu", r->threads, &c->ctx));
    ig_no_grad_begin(c->ctx);
    IG_TRY(ig_tensor_create(c->ctx, (ig_desc){IG_F32, IG_SHAPE(r->m, r->k)}, &c->a));
    IG_TRY(ig_tensor_create(c->ctx, (ig_desc){IG_F32, IG_SHAPE(r->k, r->n)}, &c->b));
    IG_TRY(ig_tensor_fill_normal(c->a, 0, 1));
    IG_TRY(ig_tensor_fill_normal(c->b, 0, 1));
    IG_TRY(ig_tensor_read(c->a, c->values, m * k * sizeof *c->values));
    return ig_tensor_read(c->b, c->values + m * k, k * n * sizeof *c->values);
}

static ig_status run_case(const bench_ops *bench, const openblas *blas, matmul_row *row) {
    const ig_allocator *a = &bench->cli->allocator;
    matmul_case c = {.bench = bench, .blas = blas, .row = row};
    ig_status status = open_case(&c);
    if (status == IG_OK) status = measure_matmul(&c);
    ig_tensor_release(c.b);
    ig_tensor_release(c.a);
    ig_ctx_destroy(c.ctx);
    ig_free(a, c.samples);
    ig_free(a, c.values);
    return status;
}

/* ---- All ---- */

static void print_table(const matmul_row *rows, int count, const openblas *blas, double mean) {
    printf("matmul, F32, compared with %s\n\n",
           blas->sgemm ? blas->config : "nothing (OpenBLAS is not installed)");
    printf("  %-16s %7s %12s %10s %12s %8s %8s\n", "m x k x n", "threads", "us", "GFLOP/s",
           "OpenBLAS us", "ratio", "of FMA");
    for (const matmul_row *r = rows; r < rows + count; r++) {
        char shape[40], theirs[24] = "-", ratio[24] = "-";
        snprintf(shape, sizeof shape, "%dx%dx%d", r->m, r->k, r->n);
        if (blas->sgemm) {
            snprintf(theirs, sizeof theirs, "%.1f", r->blas_ns.median / 1e3);
            snprintf(ratio, sizeof ratio, "%.2f", r->ratio);
        }
        printf("  %-16s %7d %12.1f %10.1f %12s %8s %6.0f %%\n", shape, r->threads,
               r->ns.median / 1e3, r->flops / 1e9, theirs, ratio, 100 * r->share);
    }
    if (blas->sgemm) printf("\n  geometric mean of the ratios: %.2f\n", mean);
}

static json_t *row_json(const matmul_row *r, const openblas *blas) {
    json_t *entry =
        json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "m", r->m, "k", r->k, "n", r->n, "threads",
                  r->threads, "ns", bench_spread_json(r->ns), "flop_per_s", ig_json_real(r->flops),
                  "share_of_fma", ig_json_real(r->share));
    json_object_set_new(entry, "openblas_ns",
                        blas->sgemm ? bench_spread_json(r->blas_ns) : json_null());
    json_object_set_new(entry, "ratio", blas->sgemm ? ig_json_real(r->ratio) : json_null());
    return entry;
}

static void add_json(json_t *root, const matmul_row *rows, int count, const openblas *blas,
                     double mean) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, row_json(&rows[i], blas));
    json_object_set_new(root, "openblas", blas->sgemm ? json_string(blas->config) : json_null());
    json_object_set_new(root, "matmul", list);
    json_object_set_new(root, "geometric_mean_ratio",
                        blas->sgemm ? ig_json_real(mean) : json_null());
}

/* Measures with one thread and with all. */
static ig_status measure_all(const bench_ops *b, const openblas *blas, matmul_row *rows,
                             int *count) {
    const int threads[] = {1, (int)b->device.threads};
    const int most = threads[1] > 1 ? 2 : 1;
    ig_meter meter =
        ig_meter_begin(&b->cli->term, b->cli->quiet, "matmul", "shapes", (uint64_t)(most * SHAPES));
    for (int t = 0; t < most; t++)
        for (int s = 0; s < SHAPES; s++) {
            matmul_row *row = &rows[(*count)++];
            *row = (matmul_row){shapes[s].m, shapes[s].k, shapes[s].n, .threads = threads[t]};
            const ig_status status = run_case(b, blas, row);
            if (status != IG_OK && meter.line_open) fputc('\n', stderr);
            IG_TRY(status);
            ig_meter_update(&meter, (uint64_t)*count, "");
        }
    ig_meter_end(&meter, (uint64_t)*count, "");
    return IG_OK;
}

ig_status bench_matmul(const bench_ops *b, json_t *root) {
    matmul_row rows[2 * SHAPES];
    int count = 0;
    openblas theirs;
    blas_open(&theirs, b->device.isa);
    const ig_status status = measure_all(b, &theirs, rows, &count);
    if (status == IG_OK) {
        double logs = 0;
        for (int i = 0; i < count; i++) logs += theirs.sgemm ? log(rows[i].ratio) / count : 0;
        if (root)
            add_json(root, rows, count, &theirs, exp(logs));
        else
            print_table(rows, count, &theirs, exp(logs));
    }
    blas_close(&theirs);
    return status;
}
