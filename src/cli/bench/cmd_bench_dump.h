/*
 * cmd_bench_dump.h - dumps a training job to a file, so that another program can run it.
 *
 * The file is in the safetensors format: eight bytes with the length of a JSON header, the header,
 * then the tensors' bytes. It contains
 *
 *     init.PATH  f32            each parameter before the first step
 *     text       i32 [n]        the symbols; all samples are windows of them
 *     starts     i32 [steps, batch]   the start of each sample in the text
 *
 * and, as __metadata__, the workload's name, its config and the optimizer's hyperparameters (both
 * JSON).
 */
#ifndef IG_CLI_BENCH_CMD_BENCH_DUMP_H
#define IG_CLI_BENCH_CMD_BENCH_DUMP_H

#include "cli/bench/cmd_bench.h"

IG_MUST_CHECK ig_status bench_dump(ig_cli *cli, const bench_options *o,
                                   const ig_workload_type *type, int64_t steps);

#endif
