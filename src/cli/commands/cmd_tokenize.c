/*
 * ingot tokenize - shows the tokens of a text.
 *
 * Prints one line per token with its id and piece; --ids prints only the ids, on one line, for
 * other programs.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/loaded_model.h"
#include "ingot/tokenizer.h"

enum { TEXT_MOST = 256 << 20 };

typedef struct tokenize_options {
    const char *model, *pre, *prompt;
    bool ids, special;
} tokenize_options;

typedef struct tokenizing {
    ig_cli *cli;
    const tokenize_options *options;
    ig_tokenizer *tokenizer;
    model_text text;
    ig_tokens ids;
} tokenizing;

static ig_status encode(tokenizing *z) {
    const tokenize_options *o = z->options;
    IG_TRY(model_read_text(z->cli, o->prompt, o->prompt ? NULL : "-", TEXT_MOST, &z->text));
    const unsigned flags = o->special ? IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_PARSE_SPECIAL : 0;
    return ig_tokenize(z->tokenizer, z->text.bytes, z->text.n_bytes, flags, &z->ids);
}

/* ---- Results ---- */

/* Prints a piece in quotes, with escapes for invisible characters. */
static void print_piece(ig_string_view piece) {
    putchar('"');
    for (size_t at = 0, step; at < piece.n_bytes; at += step) {
        const unsigned char c = (unsigned char)piece.bytes[at];
        uint32_t point = 0;
        const bool whole =
            ig_utf8_next(piece.bytes + at, piece.n_bytes - at, &point, &step) == IG_UTF8_WHOLE;
        const char *escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        if (!whole) step = 1;
        if (escape)
            fputs(escape, stdout);
        else if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (!whole || point < ' ' || (point >= 0x7F && point < 0xA0))
            for (size_t i = 0; i < step; i++) printf("\\x%02x", (unsigned char)piece.bytes[at + i]);
        else
            fwrite(piece.bytes + at, 1, step, stdout);
    }
    puts("\"");
}

static void print_lines(const tokenizing *z) {
    for (size_t i = 0; i < z->ids.count; i++) {
        printf("%7d  ", z->ids.at[i]);
        print_piece(ig_tokenizer_piece(z->tokenizer, z->ids.at[i]));
    }
}

static void print_ids(const tokenizing *z) {
    for (size_t i = 0; i < z->ids.count; i++) printf("%s%d", i ? " " : "", z->ids.at[i]);
    putchar('\n');
}

/* A piece as a JSON string; invalid UTF-8 as an array of bytes. */
static json_t *piece_json(ig_string_view piece) {
    json_t *text = json_stringn(piece.bytes, piece.n_bytes);
    if (text) return text;
    json_t *bytes = json_array();
    for (size_t i = 0; i < piece.n_bytes; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece.bytes[i]));
    return bytes;
}

static ig_status print_json(const tokenizing *z) {
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < z->ids.count; i++) {
        json_array_append_new(ids, json_integer(z->ids.at[i]));
        json_array_append_new(pieces, piece_json(ig_tokenizer_piece(z->tokenizer, z->ids.at[i])));
    }
    return ig_run_result(z->cli,
                         json_pack("{s:s, s:o, s:s, s:i, s:I, s:o, s:o}", "schema",
                                   "ingot.tokenize.v1", "model", ig_json_text(z->options->model),
                                   "tokenizer", ig_tokenizer_name(z->tokenizer), "vocabulary",
                                   ig_tokenizer_vocab_size(z->tokenizer), "n_tokens",
                                   (json_int_t)z->ids.count, "tokens", ids, "pieces", pieces));
}

static ig_status print_result(const tokenizing *z) {
    if (z->cli->json) return print_json(z);
    if (z->options->ids)
        print_ids(z);
    else
        print_lines(z);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    tokenizing z = {.cli = cli, .options = options, .ids = {.allocator = &cli->allocator}};
    ig_run_model(cli, z.options->model);
    const ig_tokenizer_options how = {.pre_tokenizer = z.options->pre,
                                      .allocator = &cli->allocator};
    ig_status status = ig_tokenizer_open(z.options->model, &how, &z.tokenizer);
    if (status == IG_OK) status = encode(&z);
    if (status == IG_OK) status = print_result(&z);
    ig_tokens_deinit(&z.ids);
    ig_free(&cli->allocator, z.text.bytes);
    ig_tokenizer_destroy(z.tokenizer);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 'm', "model", offsetof(tokenize_options, model), .value = "FILE",
     .help = "the model, a .gguf or .oam file", .flags = OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 'p', "prompt", offsetof(tokenize_options, prompt), .value = "TEXT",
     .help = "the text (default: standard input)"},
    {OPT_FLAG, 0, "ids", offsetof(tokenize_options, ids),
     .help = "print only the ids, on one line"},
    {OPT_FLAG, 0, "special", offsetof(tokenize_options, special),
     .help = "parse special tokens, and add BOS and EOS as the model specifies"},
    {OPT_TEXT, 0, "pre", offsetof(tokenize_options, pre), .value = "NAME",
     .help = "pre-tokenizer to use instead of the file's"},
    {0},
};

static const char *const examples[] = {
    "ingot tokenize -m model.gguf -p 'Hello, world'",
    "Each token and its id.",
    "ingot tokenize -m model.gguf --ids < letter.txt",
    "Only the ids.",
    "ingot tokenize -m model.gguf --json < letter.txt | jq .n_tokens",
    "The number of tokens.",
    NULL,
};

const ig_command cmd_tokenize = {
    .name = "tokenize",
    .summary = "show the tokens of a text",
    .about = "Tokenizes a text and shows the id and the text of each token. The weights are not "
             "read.\n\n"
             "Without --special, special tokens in the text are not parsed, and BOS and EOS are "
             "not added.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(tokenize_options),
    .run = run,
};
