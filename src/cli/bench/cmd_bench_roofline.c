/*
 * ingot bench roofline - the peak rates of this machine.
 *
 * Read bandwidth, FP32 multiply-adds and int8 dot products, for one thread, two, four, and so on.
 * The three alternate, so that a slow moment of the machine shows in the spread of all three and
 * not in one.
 */
#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "ingot/bench.h"
#include "ingot/report.h"

enum {
    RUNS = 7,
    ROWS_MAX = 12,
    KINDS = IG_ROOF_DOT_INT8 + 1 /* the other roofs belong to bench overhead */
};

static const struct {
    const char *label, *key; /* in the table, in the JSON */
} kinds[] = {
    [IG_ROOF_READ] = {"read GB/s", "read_bytes_per_s"},
    [IG_ROOF_FMA_F32] = {"F32 GFLOP/s", "fma_flop_per_s"},
    [IG_ROOF_DOT_INT8] = {"int8 GOP/s", "int8_op_per_s"},
};

typedef struct row {
    int threads;
    bench_spread of[KINDS];
} row;

typedef struct table {
    ig_cli *cli;
    int runs, n_rows;
    row rows[ROWS_MAX];
    double *values; /* [KINDS, runs] */
    bench_device device;
} table;

/* 1, 2, 4 ... and the requested number. */
static void choose_rows(table *t, int64_t threads) {
    for (int64_t n = 1; n < threads && t->n_rows < ROWS_MAX - 1; n *= 2)
        t->rows[t->n_rows++].threads = (int)n;
    t->rows[t->n_rows++].threads = (int)threads;
}

static ig_status measure_row(const table *t, row *r, ig_meter *meter, uint64_t *done) {
    const ig_roofline_options options = {.threads = r->threads, .allocator = t->cli->allocator};
    for (int run = 0; run < t->runs; run++)
        for (int what = 0; what < KINDS; what++) {
            if (ig_cli_cancelled(t->cli))
                return IG_FAIL(IG_ERR_CANCELLED, "bench roofline: stopped");
            IG_TRY(
                ig_roofline_measure((ig_roofline)what, &options, &t->values[what * t->runs + run]));
            ig_meter_update(meter, ++*done, "");
        }
    for (int what = 0; what < KINDS; what++)
        r->of[what] = bench_spread_of(&t->values[what * t->runs], (size_t)t->runs);
    return IG_OK;
}

static ig_status measure(table *t) {
    const uint64_t total = (uint64_t)(t->n_rows * t->runs * KINDS);
    ig_meter meter = ig_meter_begin(&t->cli->term, t->cli->quiet, "roofline", "runs", total);
    uint64_t done = 0;
    ig_status status = IG_OK;
    for (int i = 0; i < t->n_rows && status == IG_OK; i++)
        status = measure_row(t, &t->rows[i], &meter, &done);
    if (status == IG_OK)
        ig_meter_end(&meter, done, "");
    else if (meter.line_open)
        fputc('\n', stderr);
    return status;
}

static void print_table(const table *t) {
    bench_print_machine();
    printf("%s; median (min to max) of %d runs\n\n  %-8s", t->device.isa, t->runs, "threads");
    for (int what = 0; what < KINDS; what++) printf(" %28s", kinds[what].label);
    putchar('\n');
    for (int i = 0; i < t->n_rows; i++) {
        printf("  %-8d", t->rows[i].threads);
        for (int what = 0; what < KINDS; what++) {
            const bench_spread s = t->rows[i].of[what];
            char text[64];
            snprintf(text, sizeof text, "%.1f (%.1f to %.1f)", s.median / 1e9, s.min / 1e9,
                     s.max / 1e9);
            printf(" %28s", text);
        }
        putchar('\n');
    }
}

static ig_status print_json(const table *t) {
    json_t *rows = json_array();
    for (int i = 0; i < t->n_rows; i++) {
        json_t *entry = json_pack("{s:i}", "threads", t->rows[i].threads);
        for (int what = 0; what < KINDS; what++)
            json_object_set_new(entry, kinds[what].key, bench_spread_json(t->rows[i].of[what]));
        json_array_append_new(rows, entry);
    }
    return ig_run_result(t->cli,
                         json_pack("{s:s, s:o, s:s, s:i, s:o}", "schema", "ingot.bench.roofline.v1",
                                   "machine", bench_machine_json(), "instruction_set",
                                   t->device.isa, "runs", t->runs, "rows", rows));
}

ig_status bench_roofline(ig_cli *cli, const bench_options *o) {
    table t = {.cli = cli, .runs = o->runs > 0 ? (int)o->runs : RUNS};
    IG_TRY(bench_device_ask(cli, "cpu", o->threads, &t.device));
    choose_rows(&t, t.device.threads);
    t.values = ig_alloc(&cli->allocator, (size_t)t.runs * KINDS, sizeof *t.values);
    if (!t.values) return IG_FAIL(IG_ERR_MEMORY, "bench roofline: no memory for %d runs", t.runs);
    ig_status status = measure(&t);
    if (status == IG_OK && cli->json)
        status = print_json(&t);
    else if (status == IG_OK)
        print_table(&t);
    ig_free(&cli->allocator, t.values);
    return status;
}
