/*
 * ingot template - prints the prompt that a chat template makes of messages.
 *
 * Nothing is loaded but the template and, of a model, its tokenizer, which has the names of BOS and
 * EOS. The messages reach the template as they stand in the file: members of theirs that Ingot does
 * not know too.
 */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json_parse.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/loaded_model.h"
#include "ingot/chat.h"

enum { FILE_MOST = 64 << 20 };

typedef struct template_options {
    const char *model, *file, *messages, *tools, *now;
    ig_texts vars;
    bool no_generation_prompt;
} template_options;

typedef struct templating {
    ig_cli *cli;
    const template_options *options;
    ig_chat_template *chat;
    ig_tokenizer *tokenizer; /* NULL: there is no model */
    json_t *messages, *tools, *variables;
    bool no_reply;
    int64_t now;
    ig_string prompt;
} templating;

/* ---- Files ---- */

static const char *file_name(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static ig_status read_json(ig_cli *cli, const char *path, const char *what, json_t **out) {
    model_text text = {0};
    ig_status status = model_read_text(cli, NULL, path, FILE_MOST, &text);
    if (status == IG_OK)
        status = ig_json_decode(IG_ERR_FORMAT, file_name(path), what, text.bytes, text.n_bytes,
                                JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, out);
    ig_free(&cli->allocator, text.bytes);
    return status;
}

static ig_status wrong_member(const char *path, const char *name, const char *wanted) {
    return IG_FAIL(IG_ERR_FORMAT, "%s: '%.64s' is not %s", file_name(path), name, wanted);
}

/* "tools" and "documents" may be null, which is the same as none. */
static ig_status take_member(templating *t, const char *path, const char *name, json_t *value) {
    if (strcmp(name, "messages") == 0) {
        t->messages = json_incref(value);
    } else if (strcmp(name, "tools") == 0) {
        if (!json_is_array(value) && !json_is_null(value))
            return wrong_member(path, name, "an array");
        if (!t->tools && json_is_array(value)) t->tools = json_incref(value);
    } else if (strcmp(name, "documents") == 0) {
        (void)json_object_set(t->variables, name, value);
    } else if (strcmp(name, "add_generation_prompt") == 0) {
        if (!json_is_boolean(value)) return wrong_member(path, name, "true or false");
        t->no_reply = t->no_reply || json_is_false(value);
    } else if (strcmp(name, "variables") == 0 || strcmp(name, "vars") == 0 ||
               strcmp(name, "chat_template_kwargs") == 0) {
        if (!json_is_object(value)) return wrong_member(path, name, "an object");
        (void)json_object_update_missing(t->variables, value);
    } else {
        return wrong_member(path, name,
                            "one of messages, tools, documents, add_generation_prompt, variables");
    }
    return IG_OK;
}

static ig_status check_messages(const templating *t, const char *path) {
    if (!json_is_array(t->messages))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the messages are not an array", file_name(path));
    for (size_t i = 0; i < json_array_size(t->messages); i++)
        if (!json_is_object(json_array_get(t->messages, i)))
            return IG_FAIL(IG_ERR_FORMAT, "%s: message %zu is not an object", file_name(path), i);
    return IG_OK;
}

/* An array of messages, or an object with them and what else a template is given. */
static ig_status read_messages(templating *t) {
    const char *path = t->options->messages, *name;
    json_t *root = NULL, *value;
    ig_status status = IG_OK;
    IG_TRY(read_json(t->cli, path, "the conversation", &root));
    if (json_is_array(root)) t->messages = json_incref(root);
    json_object_foreach(root, name, value) {
        if (status == IG_OK) status = take_member(t, path, name, value);
    }
    json_decref(root);
    return status == IG_OK ? check_messages(t, path) : status;
}

static ig_status read_tools(templating *t) {
    const char *path = t->options->tools;
    if (!path) return IG_OK;
    if (strcmp(path, "-") == 0 && strcmp(t->options->messages, "-") == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "--messages -, --tools -: only one can be standard input");
    IG_TRY(read_json(t->cli, path, "the tools", &t->tools));
    if (json_is_array(t->tools)) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: the tools are not an array", file_name(path));
}

/* ---- Options ---- */

/* NAME=VALUE; the value is JSON or, where it is not, a string. */
static ig_status take_variable(templating *t, const char *text) {
    const char *sign = strchr(text, '=');
    if (!sign || sign == text)
        return IG_FAIL(IG_ERR_ARGUMENT, "--var '%.64s': must be NAME=VALUE", text);
    json_t *value = NULL;
    const size_t n_bytes = strlen(sign + 1);
    const ig_status parsed =
        ig_json_decode(IG_ERR_FORMAT, "--var", "the value", sign + 1, n_bytes,
                       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &value);
    if (parsed == IG_ERR_MEMORY) return parsed;
    if (parsed != IG_OK) value = json_stringn(sign + 1, n_bytes);
    char name[128];
    if (!value || (size_t)(sign - text) >= sizeof name) {
        json_decref(value);
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--var '%.64s': the name is longer than %zu bytes, or the "
                       "value is not UTF-8",
                       text, sizeof name - 1);
    }
    memcpy(name, text, (size_t)(sign - text));
    name[sign - text] = 0;
    (void)json_object_set_new(t->variables, name, value);
    return IG_OK;
}

/* "Z", "+02" or "-05:30" after a time, as seconds; false: something else stands there. */
static bool parse_zone(const char *text, bool *is_utc, int64_t *seconds) {
    int hours = 0, minutes = 0, used = 0;
    *is_utc = *text != 0;
    *seconds = 0;
    if (!*text || strcmp(text, "Z") == 0) return true;
    if (*text != '+' && *text != '-') return false;
    if (sscanf(text + 1, "%2d%n:%2d%n", &hours, &used, &minutes, &used) < 1) return false;
    *seconds = (*text == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return text[1 + used] == 0;
}

/* 2026-11-18, 2026-11-18T12:30, 2026-11-18 12:30:00+01:00; without a zone it is local time. */
static bool parse_date(const char *text, int64_t *out) {
    struct tm date = {.tm_isdst = -1};
    bool is_utc;
    int64_t zone;
    const char *end = strptime(text, "%Y-%m-%d", &date);
    if (end && (*end == 'T' || *end == ' ')) {
        const char *minutes = strptime(end + 1, "%H:%M", &date);
        end = minutes && *minutes == ':' ? strptime(minutes + 1, "%S", &date) : minutes;
    }
    if (!end || !parse_zone(end, &is_utc, &zone)) return false;
    *out = is_utc ? (int64_t)timegm(&date) - zone : (int64_t)mktime(&date);
    return true;
}

static ig_status parse_now(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    const long long seconds = strtoll(text, &end, 10);
    *out = seconds;
    const bool is_number = isdigit((unsigned char)*text) && *end == 0 && errno == 0;
    if ((!is_number && !parse_date(text, out)) || *out <= 0)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--now '%.64s': must be a date after 1970 such as 2026-11-18 or "
                       "2026-11-18T12:30:00Z, or seconds since 1970",
                       text);
    return IG_OK;
}

static ig_status take_options(templating *t) {
    const template_options *o = t->options;
    if (!o->model && !o->file)
        return IG_FAIL(IG_ERR_ARGUMENT, "no template: needs --template-file or --model");
    t->no_reply = o->no_generation_prompt;
    if (o->now) IG_TRY(parse_now(o->now, &t->now));
    for (int i = 0; i < o->vars.count; i++) IG_TRY(take_variable(t, o->vars.at[i]));
    return IG_OK;
}

/* ---- The prompt ---- */

/* The JSON of a value that the program built or read; the caller frees it. */
static ig_status dump(const json_t *value, char **out) {
    *out = json_dumps(value, JSON_COMPACT);
    return *out ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "template: no memory for the messages");
}

static ig_status render_messages(templating *t, ig_chat_message *messages, size_t count) {
    ig_status status = IG_OK;
    char *tools = NULL, *variables = NULL;
    for (size_t i = 0; i < count && status == IG_OK; i++) {
        char *text = NULL;
        status = dump(json_array_get(t->messages, i), &text);
        messages[i].extra = text;
    }
    if (status == IG_OK && t->tools) status = dump(t->tools, &tools);
    if (status == IG_OK) status = dump(t->variables, &variables);
    const ig_chat_options how = {
        .tools = tools, .variables = variables, .no_reply = t->no_reply, .now = t->now};
    if (status == IG_OK)
        status = ig_chat_render(t->chat, t->tokenizer, messages, count, &how, &t->prompt);
    free(variables);
    free(tools);
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)messages[i].extra);
    return status;
}

static ig_status render(templating *t) {
    const size_t count = json_array_size(t->messages);
    ig_chat_message *messages = ig_alloc(&t->cli->allocator, count + 1, sizeof *messages);
    if (!messages) return IG_FAIL(IG_ERR_MEMORY, "template: no memory for %zu messages", count);
    const ig_status status = render_messages(t, messages, count);
    ig_free(&t->cli->allocator, messages);
    return status;
}

static ig_status open_template(templating *t) {
    const template_options *o = t->options;
    if (o->model) ig_run_model(t->cli, o->model);
    const ig_tokenizer_options how = {.allocator = &t->cli->allocator};
    IG_TRY(ig_chat_template_open(o->file ? o->file : o->model, &t->cli->allocator, &t->chat));
    return o->model ? ig_tokenizer_open(o->model, &how, &t->tokenizer) : IG_OK;
}

static ig_status print_prompt(const templating *t) {
    if (!t->cli->json) {
        fwrite(t->prompt.bytes, 1, t->prompt.n_bytes, stdout);
        return IG_OK;
    }
    json_t *prompt = json_stringn(t->prompt.bytes, t->prompt.n_bytes);
    if (!prompt) return IG_FAIL(IG_ERR_FORMAT, "the prompt is not UTF-8");
    return ig_run_result(t->cli,
                         json_pack("{s:s, s:o}", "schema", "ingot.template.v1", "prompt", prompt));
}

static ig_status run(ig_cli *cli, const void *options) {
    const unsigned long failures = ig_json_failures();
    templating t = {.cli = cli,
                    .options = options,
                    .variables = json_object(),
                    .prompt = {.allocator = &cli->allocator}};
    ig_status status = take_options(&t);
    if (status == IG_OK) status = open_template(&t);
    if (status == IG_OK) status = read_tools(&t);
    if (status == IG_OK) status = read_messages(&t);
    if (status == IG_OK && ig_json_failures() != failures)
        status = IG_FAIL(IG_ERR_MEMORY, "template: no memory for the messages");
    if (status == IG_OK) status = render(&t);
    if (status == IG_OK) status = print_prompt(&t);
    ig_string_deinit(&t.prompt);
    json_decref(t.variables);
    json_decref(t.tools);
    json_decref(t.messages);
    ig_tokenizer_destroy(t.tokenizer);
    ig_chat_template_destroy(t.chat);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "template-file", offsetof(template_options, file), .value = "FILE",
     .help = "the template: a file with Jinja text (default: the model's)", .flags = OPT_FILE,
     .alias = "chat-template-file"},
    {OPT_TEXT, 'm', "model", offsetof(template_options, model), .value = "FILE",
     .help = "the model: its template, and the names of BOS and EOS", .flags = OPT_FILE},
    {OPT_TEXT, 0, "messages", offsetof(template_options, messages), .value = "FILE",
     .help = "a JSON array of messages, or an object with it as \"messages\" (-: standard input)",
     .flags = OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "tools", offsetof(template_options, tools), .value = "FILE",
     .help = "a JSON array of tool definitions (-: standard input)", .flags = OPT_FILE},
    {OPT_TEXT, 0, "var", offsetof(template_options, vars), .value = "NAME=VALUE",
     .help = "a variable of the template: JSON, or else a string", .flags = OPT_REPEAT},
    {OPT_TEXT, 0, "now", offsetof(template_options, now), .value = "DATE",
     .help = "the date and time for templates that print it, as ISO 8601 or seconds since 1970 "
             "(default: the current time)"},
    {OPT_FLAG, 0, "no-generation-prompt", offsetof(template_options, no_generation_prompt),
     .help = "end with the last message, not with the beginning of the answer"},
    {0},
};

static const char *const examples[] = {
    "ingot template -m model.gguf --messages chat.json",
    "The prompt that `ingot chat` would make of these messages.",
    "ingot template --template-file t.jinja --messages chat.json --tools tools.json --var "
    "bos_token='<s>'",
    "A template without its model, with tools.",
    "echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | ingot template -m model.gguf "
    "--messages - --var enable_thinking=false",
    "Messages from standard input, and a variable of the template.",
    "ingot template -m model.gguf --messages chat.json --json | jq -r .prompt",
    "The prompt as JSON.",
    NULL,
};

const ig_command cmd_template = {
    .name = "template",
    .summary = "show the prompt of a chat template",
    .about = "Prints the prompt that a chat template makes of messages, byte by byte, with nothing "
             "after it. The weights are not read.\n\n"
             "The messages are a JSON array as in the OpenAI API, or an object with the members "
             "messages, tools, documents, add_generation_prompt and variables. --tools and --var "
             "come before what the object has.\n\n"
             "Templates are rendered as by Hugging Face transformers. Where a template refuses "
             "the messages, its words are the error, and the exit code is 3.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(template_options),
    .run = run,
};
