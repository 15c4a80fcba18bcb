#include "server/chat_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_parse.h"

enum { MAX_PARTS = 1024, MAX_ROLE_BYTES = 64 };

/* Messages as the template takes them.  Strings are the request's, or owned by `texts`. */
typedef struct conversation {
    const ig_served *served;
    ig_http_error *error;
    ig_chat_message *messages;
    size_t n_messages;
    json_t *texts;             /* an array of strings */
    json_t *tools, *variables; /* NULL: none */
    char **extras;             /* of jansson's memory; NULL: none */
    size_t n_extras;
} conversation;

static bool no_memory(conversation *c) { return ig_refuse(c->error, 503, NULL, "out of memory"); }

static bool refuse(conversation *c, size_t i, const char *member, const char *words) {
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]%s%s", i, member[0] ? "." : "", member);
    return ig_refuse(c->error, 400, param, "%s: %s", param, words);
}

/* Keeps a text until the conversation ends. */
static const char *keep(conversation *c, json_t *text) {
    return text && json_array_append_new(c->texts, text) == 0 ? json_string_value(text) : NULL;
}

/* ---- content ---- */

static bool add_part(conversation *c, size_t i, const json_t *part, ig_out *text) {
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *words = json_object_get(part, "text");
    char refusal[120];
    if (json_is_string(part)) words = part;
    if (type && strcmp(type, "text") != 0 && strcmp(type, "input_text") != 0 &&
        strcmp(type, "output_text") != 0) {
        snprintf(refusal, sizeof refusal,
                 "a part of type %.40s, but the model reads text parts alone", type);
        return refuse(c, i, "content", refusal);
    }
    if (!json_is_string(words)) return refuse(c, i, "content", "a part has no text");
    if (text->n_bytes > 0) ig_out_text(text, "\n\n");
    ig_out_raw(text, json_string_value(words), json_string_length(words));
    return true;
}

static bool join_parts(conversation *c, size_t i, const json_t *parts, ig_chat_message *m) {
    ig_out text = {0};
    size_t k;
    json_t *part;
    bool good = true;
    if (json_array_size(parts) > MAX_PARTS) return refuse(c, i, "content", "more than 1024 parts");
    json_array_foreach(parts, k, part) good = good && add_part(c, i, part, &text);
    if (good) {
        m->content = keep(c, json_stringn_nocheck(text.bytes ? text.bytes : "", text.n_bytes));
        m->n_bytes = text.n_bytes;
        if (!m->content || text.failed) good = no_memory(c);
    }
    ig_out_deinit(&text);
    return good;
}

static bool read_content(conversation *c, size_t i, const json_t *message, ig_chat_message *m) {
    const json_t *content = json_object_get(message, "content");
    const bool may_lack = strcmp(m->role, "assistant") == 0;
    m->content = "";
    if (json_is_string(content)) {
        m->content = json_string_value(content);
        m->n_bytes = json_string_length(content);
        return true;
    }
    if (json_is_array(content)) return join_parts(c, i, content, m);
    if ((!content || json_is_null(content)) && may_lack) return true;
    return refuse(c, i, "content", "must be a string or an array of text parts");
}

/* ---- other members ---- */

/* Templates print arguments as objects.  Those that are not JSON remain text. */
static bool parse_arguments(json_t *call) {
    json_t *function = json_object_get(call, "function");
    json_t *arguments = json_object_get(function, "arguments"), *parsed = NULL;
    if (!json_is_string(arguments)) return true;
    const ig_status status =
        ig_json_decode(IG_ERR_FORMAT, "request", "arguments", json_string_value(arguments),
                       json_string_length(arguments), JSON_REJECT_DUPLICATES, &parsed);
    if (status != IG_OK || !json_is_object(parsed)) {
        json_decref(parsed);
        return status != IG_ERR_MEMORY;
    }
    return json_object_set_new(function, "arguments", parsed) == 0;
}

static bool read_calls(conversation *c, size_t i, json_t *extra) {
    json_t *calls = json_object_get(extra, "tool_calls"), *call;
    size_t k;
    if (!calls || json_is_null(calls)) {
        json_object_del(extra, "tool_calls");
        return true;
    }
    if (!json_is_array(calls)) return refuse(c, i, "tool_calls", "must be an array");
    json_array_foreach(calls, k, call) {
        if (!json_is_object(call)) return refuse(c, i, "tool_calls", "must hold objects");
        if (!parse_arguments(call)) return no_memory(c);
    }
    return true;
}

/* Both names of thoughts are read; templates know the first. */
static void rename_thoughts(json_t *extra) {
    json_t *thoughts = json_object_get(extra, "reasoning");
    if (json_is_string(thoughts) && !json_object_get(extra, "reasoning_content"))
        json_object_set(extra, "reasoning_content", thoughts);
    json_object_del(extra, "reasoning");
}

static void drop_nulls(json_t *object) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(object, next, key, value) {
        if (json_is_null(value)) json_object_del(object, key);
    }
}

static bool read_extra(conversation *c, size_t i, const json_t *message, ig_chat_message *m) {
    json_t *extra = json_deep_copy(message);
    bool good = extra != NULL || no_memory(c);
    if (good) {
        json_object_del(extra, "role");
        json_object_del(extra, "content");
        drop_nulls(extra);
        rename_thoughts(extra);
        if (!ig_chat_template_is_jinja(c->served->chat)) {
            json_object_del(extra, "name"); /* built-in templates write none */
            json_object_del(extra, "reasoning_content");
        }
        good = read_calls(c, i, extra);
    }
    if (good && json_object_size(extra) > 0) {
        char *text = json_dumps(extra, JSON_COMPACT);
        c->extras[c->n_extras++] = text;
        m->extra = text;
        good = text || no_memory(c);
    }
    json_decref(extra);
    return good;
}

static bool read_message(conversation *c, size_t i, const json_t *message) {
    ig_chat_message *m = &c->messages[i];
    const json_t *role = json_object_get(message, "role");
    if (!json_is_object(message)) return refuse(c, i, "", "must be an object");
    if (!json_is_string(role) || json_string_length(role) == 0 ||
        json_string_length(role) > MAX_ROLE_BYTES)
        return refuse(c, i, "role", "must be system, developer, user, assistant or tool");
    m->role = json_string_value(role);
    if (strcmp(m->role, "developer") == 0) m->role = "system";
    return read_content(c, i, message, m) && read_extra(c, i, message, m);
}

static bool read_messages(conversation *c, const ig_fields *f) {
    const json_t *list = f->at[IG_FIELD_MESSAGES];
    const ig_allocator *a = NULL;
    const size_t n = json_array_size(list);
    if (n == 0)
        return ig_refuse(c->error, 400, "messages", "messages: at least one message is needed");
    c->messages = ig_alloc(a, n, sizeof *c->messages);
    c->extras = ig_alloc(a, n, sizeof *c->extras);
    c->texts = json_array();
    if (!c->messages || !c->extras || !c->texts) return no_memory(c);
    c->n_messages = n;
    for (size_t i = 0; i < n; i++)
        if (!read_message(c, i, json_array_get(list, i))) return false;
    return true;
}

/* ---- tools and variables ---- */

static bool read_tools(conversation *c, const ig_fields *f) {
    json_t *choice = f->at[IG_FIELD_TOOL_CHOICE], *tools = f->at[IG_FIELD_TOOLS], *tool;
    const char *name = json_string_value(choice);
    size_t i;
    if (choice && (!name || (strcmp(name, "auto") != 0 && strcmp(name, "none") != 0))) {
        ig_refuse(c->error, 400, "tool_choice",
                  "tool_choice: must be auto or none, forcing a call is not supported yet");
        c->error->type = "not_supported_error";
        return false;
    }
    json_array_foreach(tools, i, tool) {
        if (!json_is_object(tool))
            return ig_refuse(c->error, 400, "tools", "tools[%zu]: must be an object", i);
    }
    if (json_array_size(tools) > 0 && !(name && strcmp(name, "none") == 0)) c->tools = tools;
    return true;
}

static bool read_variables(conversation *c, const ig_fields *f) {
    const char *effort = ig_fields_text(f, IG_FIELD_REASONING_EFFORT);
    json_t *given = f->at[IG_FIELD_CHAT_TEMPLATE_KWARGS];
    const bool takes_effort = effort && ig_chat_template_is_jinja(c->served->chat);
    if (json_object_size(given) == 0 && !takes_effort) return true;
    c->variables = given ? json_copy(given) : json_object();
    if (!c->variables) return no_memory(c);
    if (!takes_effort) return true;
    int failed = 0;
    if (strcmp(effort, "none") == 0)
        failed |= json_object_set_new(c->variables, "enable_thinking", json_false());
    else
        failed |= json_object_set_new(c->variables, "reasoning_effort", json_string(effort));
    return failed == 0 || no_memory(c);
}

/* ---- rendering ---- */

/* Several system messages as one that leads, for templates that refuse others. */
static bool join_system(conversation *c) {
    ig_out text = {0};
    size_t n_system = 0, n = 0;
    ig_chat_message system = {.role = "system"};
    for (size_t i = 0; i < c->n_messages; i++) {
        const ig_chat_message *m = &c->messages[i];
        if (strcmp(m->role, "system") != 0) continue;
        if (n_system++ > 0) ig_out_text(&text, "\n\n");
        ig_out_raw(&text, m->content, m->n_bytes);
    }
    if (n_system > 0 && !text.failed) {
        system.content = keep(c, json_stringn_nocheck(text.bytes ? text.bytes : "", text.n_bytes));
        system.n_bytes = text.n_bytes;
    }
    ig_out_deinit(&text);
    if (!system.content) return false;
    for (size_t i = c->n_messages; i-- > 0;) /* the others move to the end, in order */
        if (strcmp(c->messages[i].role, "system") != 0)
            c->messages[c->n_messages - 1 - n++] = c->messages[i];
    memmove(c->messages + 1, c->messages + c->n_messages - n, n * sizeof *c->messages);
    c->messages[0] = system;
    c->n_messages = n + 1;
    return true;
}

typedef struct rendering {
    ig_chat_options options;
    ig_tokens *tokens; /* NULL: as text */
    ig_out *text;
} rendering;

/* A message that is continued is left out. */
static ig_status render(const conversation *c, const rendering *r, bool continues) {
    const ig_served *s = c->served;
    const size_t n = c->n_messages - (continues ? 1 : 0);
    ig_string text = {0};
    if (r->tokens)
        return ig_chat_tokenize(s->chat, s->tokenizer, c->messages, n, &r->options, r->tokens);
    const ig_status status =
        ig_chat_render(s->chat, s->tokenizer, c->messages, n, &r->options, &text);
    if (status == IG_OK) ig_out_raw(r->text, text.bytes, text.n_bytes);
    ig_string_deinit(&text);
    return status;
}

static bool needs_joining(const conversation *c) {
    for (size_t i = 1; i < c->n_messages; i++)
        if (strcmp(c->messages[i].role, "system") == 0) return true;
    return false;
}

static bool render_all(conversation *c, const rendering *r, bool continues) {
    char words[sizeof c->error->message];
    ig_status status = render(c, r, continues);
    if ((status == IG_ERR_FORMAT || status == IG_ERR_ARGUMENT) && needs_joining(c) &&
        join_system(c))
        status = render(c, r, continues);
    if (status == IG_OK) return true;
    ig_error_words(words, sizeof words);
    return ig_refuse(c->error, status == IG_ERR_MEMORY ? 503 : 400, "messages", "%s", words);
}

/* The last message follows the beginning of a reply, and has no end. */
static bool append_last(conversation *c, const rendering *r) {
    const ig_chat_message *last = &c->messages[c->n_messages - 1];
    if (r->tokens)
        return ig_tokenize(c->served->tokenizer, last->content, last->n_bytes,
                           IG_TOKENIZE_CONTINUES, r->tokens) == IG_OK ||
               no_memory(c);
    ig_out_raw(r->text, last->content, last->n_bytes);
    return true;
}

static bool check_ending(conversation *c, const ig_fields *f, bool continues) {
    if (!continues) return true;
    if (ig_fields_given(f, IG_FIELD_ADD_GENERATION_PROMPT) &&
        ig_fields_bool(f, IG_FIELD_ADD_GENERATION_PROMPT))
        return ig_refuse(c->error, 400, "continue_final_message",
                         "continue_final_message and add_generation_prompt exclude each other");
    if (strcmp(c->messages[c->n_messages - 1].role, "assistant") != 0)
        return ig_refuse(c->error, 400, "continue_final_message",
                         "continue_final_message: the last message must be the assistant's");
    return true;
}

static bool prompt(conversation *c, const ig_fields *f, ig_tokens *tokens, ig_out *text) {
    rendering r = {.tokens = tokens, .text = text};
    const bool continues = ig_fields_bool(f, IG_FIELD_CONTINUE_FINAL_MESSAGE);
    char *tools = NULL, *variables = NULL;
    if (!read_messages(c, f) || !check_ending(c, f, continues) || !read_tools(c, f) ||
        !read_variables(c, f))
        return false;
    if (c->tools) tools = json_dumps(c->tools, JSON_COMPACT);
    if (c->variables) variables = json_dumps(c->variables, JSON_COMPACT);
    r.options = (ig_chat_options){.tools = tools,
                                  .variables = variables,
                                  .no_reply = !continues &&
                                              !ig_fields_bool(f, IG_FIELD_ADD_GENERATION_PROMPT)};
    const bool good = (!c->tools || tools || no_memory(c)) &&
                      (!c->variables || variables || no_memory(c)) &&
                      render_all(c, &r, continues) && (!continues || append_last(c, &r));
    free(tools);
    free(variables);
    return good;
}

bool ig_chat_prompt(const ig_served *served, const ig_fields *fields, ig_tokens *out_tokens,
                    ig_out *out_text, ig_http_error *error) {
    conversation c = {.served = served, .error = error};
    if (!served->chat)
        return ig_refuse(error, 400, "messages",
                         "the chat template of the model %.100s cannot be used: %.300s", served->id,
                         served->chat_error ? served->chat_error : "");
    const bool good = prompt(&c, fields, out_tokens, out_text);
    for (size_t i = 0; i < c.n_extras; i++) free(c.extras[i]);
    ig_free(NULL, c.extras);
    ig_free(NULL, c.messages);
    json_decref(c.texts);
    json_decref(c.variables);
    return good;
}
