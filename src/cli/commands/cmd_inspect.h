/* cmd_inspect.h - shared by cmd_inspect.c and inspect_gguf.c. */
#ifndef IG_CLI_COMMANDS_CMD_INSPECT_H
#define IG_CLI_COMMANDS_CMD_INSPECT_H

#include "cli/app/cli.h"

typedef struct inspect_options {
    const char *path;
    bool tensors, verify;
} inspect_options;

/* ---- Tables ---- */

enum { INSPECT_CELL_BYTES = 160, INSPECT_MAX_COLUMNS = 8 };
typedef char inspect_cell[INSPECT_CELL_BYTES];

typedef struct inspect_column {
    const char *title;
    int side; /* alignment: -1 left, for text; 1 right, for numbers */
} inspect_column;

typedef struct inspect_table {
    const inspect_column *columns;
    int n_columns;
    size_t n_rows;
    void (*cells)(const void *file, size_t row, inspect_cell *out);
    const void *file;
} inspect_table;

void inspect_print_table(const ig_cli *cli, const inspect_table *table);

ig_status inspect_gguf(ig_cli *cli, const inspect_options *options);

#endif
