/* cmd_bench_ops.h - the two parts of `ingot bench ops`: matmuls, and all other ops. */
#ifndef IG_CLI_BENCH_CMD_BENCH_OPS_H
#define IG_CLI_BENCH_CMD_BENCH_OPS_H

#include "cli/bench/cmd_bench.h"

typedef struct bench_ops {
    ig_cli *cli;
    int runs;
    bench_device device;
} bench_ops;

/* Measures, then prints a table; if `root` is not NULL, adds "openblas", "matmul" and
 * "geometric_mean_ratio" to it instead. */
IG_MUST_CHECK ig_status bench_matmul(const bench_ops *bench, json_t *root);

#endif
