/* ingot export - a checkpoint without what only training needs. */
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/checkpoint.h"
#include "ingot/model.h"

typedef struct export_options {
    const char *from, *to;
} export_options;

static ig_status file_bytes(const char *path, uint64_t *out) {
    ig_checkpoint *file;
    IG_TRY(ig_checkpoint_open(path, &file));
    *out = ig_checkpoint_file_bytes(file);
    ig_checkpoint_close(file);
    return IG_OK;
}

static ig_status export(ig_ctx *ctx, const export_options *o) {
    ig_adapter *adapter;
    IG_TRY(ig_adapter_load(ctx, o->from, &adapter));
    const ig_status status = ig_adapter_export(adapter, o->to);
    ig_adapter_destroy(adapter);
    return status;
}

static ig_status print_result(const ig_cli *cli, const export_options *o, uint64_t before) {
    uint64_t after;
    IG_TRY(file_bytes(o->to, &after));
    ig_run_wrote(cli, "model", o->to);
    if (cli->json)
        return ig_run_result(cli, json_pack("{s:s, s:o, s:I, s:o, s:I}", "schema",
                                            "ingot.export.v1", "from", ig_json_text(o->from),
                                            "from_bytes", (json_int_t)before, "to",
                                            ig_json_text(o->to), "to_bytes", (json_int_t)after));
    char name[256], large[IG_UNIT_TEXT_BYTES], small[IG_UNIT_TEXT_BYTES];
    printf("%s: %s of %s\n", ig_text_safe(o->to, name, sizeof name), ig_bytes_text(after, small),
           ig_bytes_text(before, large));
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const ig_ctx_options context = ig_cli_ctx_options(cli);
    const export_options *o = options;
    uint64_t before;
    ig_ctx *ctx;
    ig_run_model(cli, o->from);
    IG_TRY(file_bytes(o->from, &before)); /* which may be the file that is replaced */
    IG_TRY(ig_ctx_create(&context, &ctx));
    const ig_status status = export(ctx, o);
    ig_ctx_destroy(ctx);
    IG_TRY(status);
    return print_result(cli, o, before);
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "FROM", offsetof(export_options, from), .help = "a checkpoint of 'ingot train'",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "TO", offsetof(export_options, to), .help = "the file to write, or to replace",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE | OPT_OUTPUT},
    {0},
};

static const char *const examples[] = {
    "ingot export llm.oam story.oam",
    "A third of the bytes, to be given away and talked to.",
    NULL,
};

const ig_command cmd_export = {
    .name = "export",
    .summary = "write a checkpoint's weights alone",
    .about = "Writes the weights of a checkpoint into a file of their own, with the tokenizer and "
             "what the model is, but without the optimiser's state: a model to talk to. Training "
             "cannot go on from it.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(export_options),
    .run = run,
};
