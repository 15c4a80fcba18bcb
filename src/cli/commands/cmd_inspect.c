/* ingot inspect FILE - shows the contents of a checkpoint or model. */
#include <assert.h>
#include <string.h>

#include "base/json_parse.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "cli/commands/cmd_inspect.h"
#include "ingot/checkpoint.h"
#include "ingot/model.h"

/* Sums over the tensors of one role. */
typedef struct total {
    uint64_t tensors, elements, bytes;
} total;

enum { ROLES = 2, VALUE_BYTES = 200 };

static const char *const role_names[ROLES] = {
    [IG_ROLE_WEIGHT] = "weight", [IG_ROLE_OPTIMIZER] = "optimizer"};

static void add_up(const ig_checkpoint *file, total out[ROLES]) {
    memset(out, 0, ROLES * sizeof *out);
    for (size_t i = 0; i < ig_checkpoint_count(file); i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
        out[t.role].tensors++;
        out[t.role].elements += (uint64_t)ig_shape_count(t.desc.shape);
        out[t.role].bytes += t.n_bytes;
    }
}

/* ---- For people ---- */

/* A value as one line: strings without quotes, the rest as JSON. */
static void value_text(const json_t *value, char out[VALUE_BYTES]) {
    if (json_is_string(value)) {
        ig_text_safe(json_string_value(value), out, VALUE_BYTES);
        return;
    }
    char text[VALUE_BYTES];
    const size_t bytes = json_dumpb(value, text, sizeof text - 1,
                                    JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (bytes == 0 || bytes >= sizeof text) {
        snprintf(out, VALUE_BYTES, "(%zu bytes of JSON)", bytes);
        return;
    }
    text[bytes] = 0;
    ig_text_safe(text, out, VALUE_BYTES);
}

/* The keys and values of a JSON object under a heading; nothing for an empty one. */
static ig_status print_object(const ig_cli *cli, const char *heading, const char *text) {
    const unsigned long before = ig_json_failures();
    if (!*text) return IG_OK;
    json_t *object = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, heading, "it", text, strlen(text), 0, &object));

    int widest = 0;
    const char *key;
    json_t *value;
    char name[INSPECT_CELL_BYTES], words[VALUE_BYTES];
    json_object_foreach(object, key, value) {
        const int columns = (int)strlen(ig_text_safe(key, name, sizeof name));
        if (columns > widest) widest = columns;
    }
    if (json_object_size(object) > 0)
        printf("\n%s%s%s\n", ig_term_style(cli->term.out_color, IG_BOLD), heading,
               ig_term_style(cli->term.out_color, IG_PLAIN));
    json_object_foreach(object, key, value) {
        value_text(value, words);
        printf("  %-*s  %s\n", widest, ig_text_safe(key, name, sizeof name), words);
    }
    json_decref(object);
    if (ig_json_failures() != before)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to print it", heading);
    return IG_OK;
}

enum { NAME, ROLE, TYPE, SHAPE, ELEMENTS, BYTES, OFFSET, CHECKSUM, COLUMNS };

static const inspect_column columns[COLUMNS] = {
    [NAME] = {"name", -1},    [ROLE] = {"role", -1},         [TYPE] = {"type", -1},
    [SHAPE] = {"shape", -1},  [ELEMENTS] = {"elements", 1},  [BYTES] = {"size", 1},
    [OFFSET] = {"offset", 1}, [CHECKSUM] = {"checksum", -1},
};

static void row_cells(const void *file, size_t i, inspect_cell *cells) {
    const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
    ig_text_safe(t.name, cells[NAME], INSPECT_CELL_BYTES);
    snprintf(cells[ROLE], INSPECT_CELL_BYTES, "%s", role_names[t.role]);
    snprintf(cells[TYPE], INSPECT_CELL_BYTES, "%s", ig_dtype_name(t.desc.dtype));
    ig_shape_text(t.desc.shape, cells[SHAPE]);
    ig_count_text((uint64_t)ig_shape_count(t.desc.shape), cells[ELEMENTS]);
    ig_bytes_text(t.n_bytes, cells[BYTES]);
    snprintf(cells[OFFSET], INSPECT_CELL_BYTES, "%llu", (unsigned long long)t.offset);
    snprintf(cells[CHECKSUM], INSPECT_CELL_BYTES, "%016llx", (unsigned long long)t.checksum);
}

static_assert((int)INSPECT_CELL_BYTES >= (int)IG_SHAPE_TEXT_BYTES &&
                  (int)INSPECT_CELL_BYTES >= (int)IG_UNIT_TEXT_BYTES,
              "a cell has room for what others write into it");

/* Two passes: the first finds the column widths, the second prints. */
void inspect_print_table(const ig_cli *cli, const inspect_table *table) {
    inspect_cell cells[INSPECT_MAX_COLUMNS];
    int widths[INSPECT_MAX_COLUMNS];
    const int count = table->n_columns;
    for (int c = 0; c < count; c++) widths[c] = (int)strlen(table->columns[c].title);
    for (size_t i = 0; i < table->n_rows; i++) {
        table->cells(table->file, i, cells);
        for (int c = 0; c < count; c++)
            if ((int)strlen(cells[c]) > widths[c]) widths[c] = (int)strlen(cells[c]);
    }
    printf("\n%s", ig_term_style(cli->term.out_color, IG_BOLD));
    for (int c = 0; c < count; c++)
        printf("%s%*s", c ? "  " : "", table->columns[c].side * widths[c], table->columns[c].title);
    printf("%s\n", ig_term_style(cli->term.out_color, IG_PLAIN));
    for (size_t i = 0; i < table->n_rows && !ferror(stdout); i++) {
        table->cells(table->file, i, cells);
        for (int c = 0; c < count; c++)
            printf("%s%*s", c ? "  " : "", table->columns[c].side * widths[c], cells[c]);
        putchar('\n');
    }
}

/* The number of training steps. The file stores the context's count, for its random numbers; that
 * includes steps of validations. */
static ig_status training_steps(const char *path, const ig_checkpoint *file, uint64_t *out) {
    const char *const texts[] = {ig_checkpoint_optimizer(file), ig_checkpoint_progress(file)};
    *out = ig_checkpoint_step(file);
    for (int i = 1; i >= 0; i--) { /* the optimizer's count is more accurate */
        json_t *object = NULL;
        if (!*texts[i]) continue;
        IG_TRY(ig_json_decode(IG_ERR_FORMAT, path, "its progress", texts[i], strlen(texts[i]), 0,
                              &object));
        const json_t *said = json_object_get(object, "steps");
        if (json_is_integer(said) && json_integer_value(said) >= 0)
            *out = (uint64_t)json_integer_value(said);
        json_decref(object);
    }
    return IG_OK;
}

static ig_status print_summary(const ig_cli *cli, const inspect_options *o,
                               const ig_checkpoint *file) {
    total totals[ROLES];
    add_up(file, totals);
    const total *weights = &totals[IG_ROLE_WEIGHT], *moments = &totals[IG_ROLE_OPTIMIZER];
    char path[512], size[IG_UNIT_TEXT_BYTES], count[IG_UNIT_TEXT_BYTES];
    uint64_t steps;
    IG_TRY(training_steps(o->path, file, &steps));
    printf("%s%s%s: .oam checkpoint, version %u, %s\n\n",
           ig_term_style(cli->term.out_color, IG_BOLD), ig_text_safe(o->path, path, sizeof path),
           ig_term_style(cli->term.out_color, IG_PLAIN), ig_checkpoint_version(file),
           ig_bytes_text(ig_checkpoint_file_bytes(file), size));
    printf("  parameters  %s in %llu tensors, %s\n", ig_count_text(weights->elements, count),
           (unsigned long long)weights->tensors, ig_bytes_text(weights->bytes, size));
    if (moments->tensors > 0)
        printf("  optimizer   %llu tensors, %s\n", (unsigned long long)moments->tensors,
               ig_bytes_text(moments->bytes, size));
    else
        puts("  optimizer   none: training cannot resume from this file");
    printf("  steps       %s", ig_count_text(steps, count));
    if (steps < ig_checkpoint_step(file))
        printf(" of training, %s with validation", ig_count_text(ig_checkpoint_step(file), count));
    putchar('\n');
    printf("  checksums   %s\n", o->verify ? "all match" : "not compared (--verify does)");

    IG_TRY(print_object(cli, "config", ig_checkpoint_config(file)));
    IG_TRY(print_object(cli, "progress", ig_checkpoint_progress(file)));
    IG_TRY(print_object(cli, "optimizer", ig_checkpoint_optimizer(file)));
    if (o->tensors) {
        const inspect_table table = {columns, COLUMNS, ig_checkpoint_count(file), row_cells, file};
        inspect_print_table(cli, &table);
    }
    return IG_OK;
}

/* ---- For programs ---- */

static json_t *tensor_json(const ig_checkpoint_tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->desc.shape.rank; d++)
        json_array_append_new(shape, json_integer(t->desc.shape.dim[d]));
    return json_pack("{s:o, s:s, s:s, s:o, s:I, s:I, s:I, s:o}", "name", ig_json_text(t->name),
                     "role", role_names[t->role], "dtype", ig_dtype_name(t->desc.dtype), "shape",
                     shape, "elements", (json_int_t)ig_shape_count(t->desc.shape), "bytes",
                     (json_int_t)t->n_bytes, "offset", (json_int_t)t->offset, "checksum",
                     ig_json_hex(t->checksum));
}

static json_t *tensors_json(const ig_checkpoint *file) {
    json_t *list = json_array();
    for (size_t i = 0; i < ig_checkpoint_count(file); i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
        if (json_array_append_new(list, tensor_json(&t)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *object_json(const char *text) {
    json_t *object = NULL; /* NULL: out of memory, since the file was checked */
    if (!*text) return json_null();
    (void)!ig_json_decode(IG_ERR_FORMAT, "checkpoint", "it", text, strlen(text), 0, &object);
    return object;
}

static ig_status print_json(const ig_cli *cli, const inspect_options *o,
                            const ig_checkpoint *file) {
    total totals[ROLES];
    add_up(file, totals);
    const total *weights = &totals[IG_ROLE_WEIGHT], *moments = &totals[IG_ROLE_OPTIMIZER];
    uint64_t steps;
    IG_TRY(training_steps(o->path, file, &steps));
    json_t *root = json_pack(
        "{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "schema",
        "ingot.inspect.v1", "file", ig_json_text(o->path), "version",
        (json_int_t)ig_checkpoint_version(file), "file_bytes",
        (json_int_t)ig_checkpoint_file_bytes(file), "steps", (json_int_t)steps, "context_steps",
        (json_int_t)ig_checkpoint_step(file), "parameters", (json_int_t)weights->elements,
        "weight_tensors", (json_int_t)weights->tensors, "weight_bytes", (json_int_t)weights->bytes,
        "optimizer_tensors", (json_int_t)moments->tensors, "optimizer_bytes",
        (json_int_t)moments->bytes, "verified", o->verify ? json_true() : json_null(), "config",
        object_json(ig_checkpoint_config(file)), "progress",
        object_json(ig_checkpoint_progress(file)), "optimizer",
        object_json(ig_checkpoint_optimizer(file)));
    if (root && o->tensors && json_object_set_new(root, "tensors", tensors_json(file)) != 0) {
        json_decref(root);
        root = NULL;
    }
    return ig_run_result(cli, root);
}

static ig_status inspect_checkpoint(ig_cli *cli, const inspect_options *o) {
    ig_checkpoint *file;
    IG_TRY(ig_checkpoint_open(o->path, &file));
    ig_status status = o->verify ? ig_checkpoint_verify(file) : IG_OK;
    if (status == IG_OK)
        status = cli->json ? print_json(cli, o, file) : print_summary(cli, o, file);
    ig_checkpoint_close(file);
    return status;
}

static ig_status run(ig_cli *cli, const void *options) {
    const inspect_options *o = options;
    ig_signals_reading(o->path);
    ig_run_model(cli, o->path);
    return ig_file_kind_of(o->path) == IG_FILE_GGUF ? inspect_gguf(cli, o)
                                                    : inspect_checkpoint(cli, o);
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "FILE", offsetof(inspect_options, path),
     .help = "a checkpoint, an .oam file, or a GGUF model",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_FLAG, 0, "tensors", offsetof(inspect_options, tensors),
     .help = "list every tensor with its type, shape, size and offset"},
    {OPT_FLAG, 0, "verify", offsetof(inspect_options, verify),
     .help = "read every byte and compare the checksums (checkpoints only: GGUF has none)"},
    {0},
};

static const char *const examples[] = {
    "ingot inspect text.oam",
    "Parameters, optimizer and training progress.",
    "ingot inspect text.oam --tensors --verify",
    "All tensors, after comparing their checksums.",
    "ingot inspect model.gguf",
    "Hyperparameters of a model, and the memory it needs to run.",
    "ingot inspect text.oam --json | jq .parameters",
    "One field of the result.",
    NULL,
};

const ig_command cmd_inspect = {
    .name = "inspect",
    .summary = "show the contents of a checkpoint or GGUF file",
    .about = "Shows the contents of an .oam checkpoint: parameters, optimizer state, training "
             "progress and metadata. For a GGUF model: its keys, weight types, and an estimate of "
             "the memory it needs to run.\n\nThe structure of the file is always checked. --verify "
             "also reads all data of a checkpoint and compares checksums.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(inspect_options),
    .run = run,
};
