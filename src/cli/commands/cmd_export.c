/* ingot export IN OUT - an alias of convert; and how convert writes checkpoints. */
#include "cli/commands/cmd_convert.h"

#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/checkpoint.h"
#include "ingot/model.h"

static ig_status file_bytes(const char *path, uint64_t *out) {
    ig_checkpoint *file;
    IG_TRY(ig_checkpoint_open(path, &file));
    *out = ig_checkpoint_file_bytes(file);
    ig_checkpoint_close(file);
    return IG_OK;
}

static ig_status export(ig_ctx *ctx, const convert_options *o) {
    ig_adapter *adapter;
    IG_TRY(ig_adapter_load(ctx, o->in, &adapter));
    const ig_status status = ig_adapter_export(adapter, o->out);
    ig_adapter_destroy(adapter);
    return status;
}

static ig_status print_result(const ig_cli *cli, const convert_options *o, uint64_t before) {
    uint64_t after;
    IG_TRY(file_bytes(o->out, &after));
    ig_run_wrote(cli, "model", o->out);
    if (cli->json)
        return ig_run_result(cli, json_pack("{s:s, s:o, s:I, s:o, s:I}", "schema",
                                            "ingot.export.v1", "from", ig_json_text(o->in),
                                            "from_bytes", (json_int_t)before, "to",
                                            ig_json_text(o->out), "to_bytes", (json_int_t)after));
    char name[256], large[IG_UNIT_TEXT_BYTES], small[IG_UNIT_TEXT_BYTES];
    printf("%s: %s of %s\n", ig_text_safe(o->out, name, sizeof name), ig_bytes_text(after, small),
           ig_bytes_text(before, large));
    return IG_OK;
}

ig_status convert_to_checkpoint(ig_cli *cli, const convert_options *o) {
    const ig_ctx_options context = ig_cli_ctx_options(cli);
    uint64_t before;
    ig_ctx *ctx;
    ig_run_model(cli, o->in);
    IG_TRY(file_bytes(o->in, &before)); /* it may be the file that is replaced */
    IG_TRY(ig_ctx_create(&context, &ctx));
    const ig_status status = export(ctx, o);
    ig_ctx_destroy(ctx);
    IG_TRY(status);
    return print_result(cli, o, before);
}

static const char *const examples[] = {
    "ingot export llm.oam story.oam",
    "A third of the bytes: the model without its training state.",
    "ingot export llm.oam llm.gguf",
    "A GGUF file, for other programs.",
    NULL,
};

const ig_command cmd_export = {
    .name = "export",
    .summary = "the same as convert",
    .about = "Another name of 'ingot convert': OUT.oam gets a checkpoint's weights and tokenizer "
             "without the optimizer state, so training cannot resume from it; OUT.gguf becomes a "
             "GGUF file.",
    .examples = examples,
    .opts = convert_opts,
    .options_bytes = sizeof(convert_options),
    .cancels = true,
    .run = convert_run,
};
