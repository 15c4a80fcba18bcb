/*
 * ingot bench ops - single ops: their time and how it compares.
 *
 * Each op is called as in Dynamic mode, repeatedly on the same operands, so a figure includes one
 * call of the runtime. Operands are [rows, 1024]: with 4 rows they fit the L1 cache, with 128 the
 * L2, with 16384 none. Bytes count each operand once. cmd_bench_matmul.c has the matmuls.
 */
#include "cli/bench/cmd_bench_ops.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

enum { RUNS = 9, COLUMNS = 1024, HEADS = 8, TABLE_ROWS = 1024, CLASSES = COLUMNS };

static const double turn_seconds = 0.02;        /* per turn and op */
static const int64_t sizes[] = {4, 128, 16384}; /* rows */
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Operands for all ops; x, y and z are [rows, 1024]. */
typedef struct operands {
    ig_ctx *ctx;
    int64_t rows;
    ig_tensor *x, *y, *z, *u; /* z and u are written by updates */
    ig_tensor *w, *b;         /* [1024] */
    ig_tensor *table;         /* [1024, 1024] */
    ig_tensor *ids;           /* [rows], i32 */
    uint32_t lr_slot, step_slot;
} operands;

/* ---- The ops ---- */

static ig_tensor *op_add(const operands *o) { return ig_add(o->x, o->y); }
static ig_tensor *op_mul_row(const operands *o) { return ig_mul(o->x, o->w); }
static ig_tensor *op_scale(const operands *o) { return ig_scale(o->x, 2, 1); }
static ig_tensor *op_exp(const operands *o) { return ig_exp(o->x); }
static ig_tensor *op_tanh(const operands *o) { return ig_tanh(o->x); }
static ig_tensor *op_gelu(const operands *o) { return ig_gelu(o->x, IG_GELU_TANH); }
static ig_tensor *op_silu(const operands *o) { return ig_silu(o->x); }
static ig_tensor *op_cast(const operands *o) { return ig_cast(o->x, IG_BF16); }
static ig_tensor *op_dropout(const operands *o) { return ig_dropout(o->x, 0.1); }
static ig_tensor *op_sum(const operands *o) { return ig_sum(o->x, NULL, 0, IG_DROP_DIM); }
static ig_tensor *op_sum_rows(const operands *o) {
    return ig_sum(o->x, (int[]){0}, 1, IG_DROP_DIM);
}
static ig_tensor *op_argmax(const operands *o) { return ig_argmax(o->x, -1); }
static ig_tensor *op_softmax(const operands *o) { return ig_softmax(o->x, -1); }
static ig_tensor *op_cross_entropy(const operands *o) { return ig_cross_entropy(o->x, o->ids); }
static ig_tensor *op_rms_norm(const operands *o) { return ig_rms_norm(o->x, o->w, 1e-5f); }
static ig_tensor *op_layer_norm(const operands *o) {
    return ig_layer_norm(o->x, o->w, o->b, 1e-5f);
}
static ig_tensor *op_transpose(const operands *o) { return ig_copy(ig_transpose(o->x, 0, 1)); }
static ig_tensor *op_embedding(const operands *o) { return ig_embedding(o->table, o->ids); }

/* An update has no result of its own: returns what it wrote. */
static ig_tensor *op_accumulate(const operands *o) {
    return ig_accumulate(o->z, o->x) == IG_OK ? o->z : NULL;
}
static ig_tensor *op_adamw(const operands *o) {
    const ig_attrs_adamw attrs = {.beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .eps = 1e-8f,
                                  .lr_slot = o->lr_slot,
                                  .step_slot = o->step_slot};
    return ig_adamw(o->z, o->x, o->y, o->u, attrs) == IG_OK ? o->z : NULL;
}

static const struct op_row {
    const char *name;
    ig_tensor *(*call)(const operands *o);
    double bytes; /* per element of x: read and written */
} ops[] = {
    {"add", op_add, 12},
    {"mul_row", op_mul_row, 8},
    {"scale", op_scale, 8},
    {"exp", op_exp, 8},
    {"tanh", op_tanh, 8},
    {"gelu", op_gelu, 8},
    {"silu", op_silu, 8},
    {"cast_bf16", op_cast, 6},
    {"dropout", op_dropout, 8},
    {"sum", op_sum, 4},
    {"sum_rows", op_sum_rows, 4},
    {"argmax", op_argmax, 4},
    {"softmax", op_softmax, 8},
    {"cross_entropy", op_cross_entropy, 4},
    {"rms_norm", op_rms_norm, 8},
    {"layer_norm", op_layer_norm, 8},
    {"transpose", op_transpose, 8},
    {"embedding", op_embedding, 8},
    {"accumulate", op_accumulate, 12},
    {"adamw", op_adamw, 28},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- Operands ---- */

static ig_status create(operands *o, ig_shape shape, ig_tensor **out) {
    IG_TRY(ig_tensor_create(o->ctx, (ig_desc){IG_F32, shape}, out));
    return ig_tensor_fill_uniform(*out, 0.25, 1);
}

static ig_status create_ids(operands *o, const ig_allocator *a) {
    int32_t *ids = ig_alloc(a, (size_t)o->rows, sizeof *ids);
    if (!ids) return IG_FAIL(IG_ERR_MEMORY, "ops: no memory for %lld ids", (long long)o->rows);
    for (int64_t i = 0; i < o->rows; i++) ids[i] = (int32_t)(i * 37 % CLASSES);
    const ig_desc desc = {IG_I32, IG_SHAPE(o->rows)};
    const ig_status status = ig_tensor_create_from(o->ctx, desc, ids, &o->ids);
    ig_free(a, ids);
    return status;
}

static ig_status open_operands(operands *o, const ig_allocator *a) {
    const ig_shape all = IG_SHAPE(o->rows, COLUMNS);
    ig_no_grad_begin(o->ctx);
    IG_TRY(ig_slot_create(o->ctx, &o->lr_slot));
    IG_TRY(ig_slot_create(o->ctx, &o->step_slot));
    ig_slot_set_real(o->ctx, o->lr_slot, 1e-6);
    ig_slot_set_count(o->ctx, o->step_slot, 1);
    IG_TRY(create(o, all, &o->x));
    IG_TRY(create(o, all, &o->y));
    IG_TRY(create(o, all, &o->z));
    IG_TRY(create(o, all, &o->u));
    IG_TRY(create(o, IG_SHAPE(COLUMNS), &o->w));
    IG_TRY(create(o, IG_SHAPE(COLUMNS), &o->b));
    IG_TRY(create(o, IG_SHAPE(TABLE_ROWS, COLUMNS), &o->table));
    return create_ids(o, a);
}

static void close_operands(operands *o) {
    ig_tensor *const all[] = {o->ids, o->table, o->b, o->w, o->u, o->z, o->y, o->x};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ig_tensor_release(all[i]);
    ig_ctx_destroy(o->ctx);
}

/* ---- Measuring ---- */

static ig_status call(const struct op_row *op, const operands *o, int64_t reps) {
    ig_status status = IG_OK;
    for (int64_t i = 0; i < reps && status == IG_OK; i++) {
        ig_scope_begin(o->ctx);
        ig_tensor *y = op->call(o);
        status = y ? ig_eval(&y, 1) : IG_FAIL(IG_ERR_STATE, "ops: %s failed", op->name);
        ig_scope_end(o->ctx);
    }
    return status;
}

static ig_status measure(const bench_ops *b, const struct op_row *op, const operands *o,
                         double *samples, bench_spread *out) {
    IG_TRY(call(op, o, 2)); /* compiles it and loads the operands into the cache */
    double began = ig_clock_seconds();
    IG_TRY(call(op, o, 2));
    const double seconds = (ig_clock_seconds() - began) / 2;
    const int64_t reps = seconds < turn_seconds ? (int64_t)(turn_seconds / seconds) + 1 : 1;
    for (int run = 0; run < b->runs; run++) {
        if (ig_cli_cancelled(b->cli)) return IG_FAIL(IG_ERR_CANCELLED, "ops: stopped");
        began = ig_clock_seconds();
        IG_TRY(call(op, o, reps));
        samples[run] = (ig_clock_seconds() - began) * 1e9 / (double)reps;
    }
    *out = bench_spread_of(samples, (size_t)b->runs);
    return IG_OK;
}

typedef struct op_times {
    bench_spread ns[OPS][SIZES];
    bool wanted[OPS];
} op_times;

static ig_status measure_size(const bench_ops *b, op_times *times, int size, double *samples,
                              ig_meter *meter) {
    operands o = {.rows = sizes[size]};
    ig_status status = bench_context(b->cli, "cpu", b->device.threads, &o.ctx);
    if (status == IG_OK) status = open_operands(&o, &b->cli->allocator);
    for (int i = 0; i < OPS && status == IG_OK; i++) {
        if (!times->wanted[i]) continue;
        status = measure(b, &ops[i], &o, samples, &times->ns[i][size]);
        ig_meter_update(meter, (uint64_t)(size * OPS + i + 1), ops[i].name);
    }
    close_operands(&o);
    return status;
}

static ig_status measure_all(const bench_ops *b, op_times *times) {
    double *samples = ig_alloc(&b->cli->allocator, (size_t)b->runs, sizeof *samples);
    if (!samples) return IG_FAIL(IG_ERR_MEMORY, "ops: no memory for %d runs", b->runs);
    ig_meter meter = ig_meter_begin(&b->cli->term, b->cli->quiet, "ops", "ops", SIZES * OPS);
    ig_status status = IG_OK;
    for (int size = 0; size < SIZES && status == IG_OK; size++)
        status = measure_size(b, times, size, samples, &meter);
    if (status == IG_OK)
        ig_meter_end(&meter, SIZES * OPS, "");
    else if (meter.line_open)
        fputc('\n', stderr);
    ig_free(&b->cli->allocator, samples);
    return status;
}

/* ---- Results ---- */

static double bytes_per_second(const op_times *times, int op, int size) {
    return ops[op].bytes * (double)sizes[size] * COLUMNS / times->ns[op][size].median * 1e9;
}

static void print_table(const op_times *times, int64_t threads) {
    printf("ops on [rows, %d], F32, %lld threads: us per call and GB/s\n\n  %-14s", COLUMNS,
           (long long)threads, "");
    for (int size = 0; size < SIZES; size++)
        printf("  %10lld rows  %7s", (long long)sizes[size], "");
    putchar('\n');
    for (int op = 0; op < OPS; op++) {
        if (!times->wanted[op]) continue;
        printf("  %-14s", ops[op].name);
        for (int size = 0; size < SIZES; size++)
            printf("  %12.2f %8.1f ", times->ns[op][size].median / 1e3,
                   bytes_per_second(times, op, size) / 1e9);
        putchar('\n');
    }
}

static void add_json(json_t *root, const op_times *times, int64_t threads) {
    json_t *list = json_array();
    for (int op = 0; op < OPS; op++)
        for (int size = 0; size < SIZES && times->wanted[op]; size++)
            json_array_append_new(
                list, json_pack("{s:s, s:I, s:i, s:I, s:o, s:o}", "op", ops[op].name, "rows",
                                (json_int_t)sizes[size], "columns", COLUMNS, "threads",
                                (json_int_t)threads, "ns", bench_spread_json(times->ns[op][size]),
                                "bytes_per_s", ig_json_real(bytes_per_second(times, op, size))));
    json_object_set_new(root, "ops", list);
}

/* ---- The subject ---- */

/* Marks the chosen ops; `out_matmul`: whether matmuls are among them. */
static ig_status choose(const char *name, op_times *times, bool *out_matmul) {
    bool known = *out_matmul = !name || strcmp(name, "matmul") == 0;
    char list[256] = "matmul";
    for (int i = 0; i < OPS; i++) {
        times->wanted[i] = !name || strcmp(name, ops[i].name) == 0;
        known |= times->wanted[i];
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, ", %s", ops[i].name);
    }
    return known ? IG_OK : IG_FAIL(IG_ERR_ARGUMENT, "--op '%s': must be one of %s", name, list);
}

static ig_status measure_and_print(const bench_ops *b, op_times *times, bool matmul, json_t *root) {
    bool others = false;
    for (int i = 0; i < OPS; i++) others |= times->wanted[i];
    if (!root) bench_print_machine();
    if (!root) printf("%s; medians of %d rounds\n\n", b->device.isa, b->runs);
    if (matmul) IG_TRY(bench_matmul(b, root));
    if (!others) return IG_OK;
    IG_TRY(measure_all(b, times));
    if (root)
        add_json(root, times, b->device.threads);
    else
        print_table(times, b->device.threads);
    return IG_OK;
}

ig_status bench_ops_all(ig_cli *cli, const bench_options *o) {
    bench_ops b = {.cli = cli, .runs = o->runs > 0 ? (int)o->runs : RUNS};
    op_times times = {0};
    bool matmul;
    IG_TRY(choose(o->op, &times, &matmul));
    IG_TRY(bench_device_ask(cli, "cpu", o->threads, &b.device));
    if (!cli->json) return measure_and_print(&b, &times, matmul, NULL);
    json_t *root = json_pack("{s:s, s:o, s:s, s:i}", "schema", "ingot.bench.ops.v1", "machine",
                             bench_machine_json(), "instruction_set", b.device.isa, "runs", b.runs);
    const ig_status status = measure_and_print(&b, &times, matmul, root);
    if (status == IG_OK) return ig_run_result(cli, root);
    json_decref(root);
    return status;
}
