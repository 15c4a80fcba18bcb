/* Chat templates: Jinja text, or one of the built-in formats, that renders messages. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json_parse.h"
#include "ingot/chat.h"
#include "text/chat/chat_formats.h"
#include "text/jinja/jinja.h"

struct ig_chat_template {
    const ig_allocator *allocator;
    ig_jinja *jinja;              /* NULL: the format is used */
    const ig_chat_format *format; /* beside Jinja text: the one that it resembles, or NULL */
};

/* A rendered conversation: spans of the template and of the messages. */
typedef struct rendered {
    ig_jinja_text jinja;
    ig_chat_prompt prompt;
    const ig_text_span *spans;
    size_t n_spans;
} rendered;

static void rendered_deinit(rendered *r) {
    ig_jinja_text_deinit(&r->jinja);
    ig_chat_prompt_deinit(&r->prompt);
}

/* The name of a special token; "" where there is none. */
static ig_string_view name_of(const ig_tokenizer *t, ig_special which) {
    const int32_t id = t ? ig_tokenizer_special(t, which) : -1;
    return id >= 0 ? ig_tokenizer_piece(t, id) : (ig_string_view){"", 0};
}

/* ---- Making one ---- */

const char *ig_chat_builtin_name(size_t i) {
    const ig_chat_format *format = ig_chat_format_at(i);
    return format ? ig_chat_format_name(format) : NULL;
}

const char *ig_chat_detect(const char *text, size_t n_bytes) {
    const ig_chat_format *format = ig_chat_format_detect(text, n_bytes);
    return format ? ig_chat_format_name(format) : NULL;
}

static ig_status create(const ig_allocator *a, ig_chat_template **out) {
    ig_chat_template *chat = ig_alloc(a, 1, sizeof *chat);
    if (!chat) return IG_FAIL(IG_ERR_MEMORY, "chat template: no memory");
    chat->allocator = a;
    *out = chat;
    return IG_OK;
}

static ig_status unknown(const char *name) {
    char names[256] = "";
    for (size_t i = 0, used = 0; ig_chat_builtin_name(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 ig_chat_builtin_name(i));
    return IG_FAIL(IG_ERR_ARGUMENT, "chat template '%.64s': must be one of %s", name, names);
}

ig_status ig_chat_template_builtin(const char *name, const ig_allocator *a,
                                   ig_chat_template **out) {
    if (!name || !out) return IG_FAIL(IG_ERR_ARGUMENT, "chat_template_builtin: NULL");
    const ig_chat_format *format = ig_chat_format_find(name);
    if (!format) return unknown(name);
    IG_TRY(create(a ? a : &ig_heap, out));
    (*out)->format = format;
    return IG_OK;
}

ig_status ig_chat_template_parse(const char *text, size_t n_bytes, const ig_allocator *a,
                                 ig_chat_template **out) {
    if (!text || !out) return IG_FAIL(IG_ERR_ARGUMENT, "chat_template_parse: NULL");
    ig_chat_template *chat = NULL;
    IG_TRY(create(a ? a : &ig_heap, &chat));
    const ig_status status = ig_jinja_parse(chat->allocator, text, n_bytes, &chat->jinja);
    chat->format = ig_chat_format_detect(text, n_bytes);
    if (status == IG_OK)
        *out = chat;
    else
        ig_chat_template_destroy(chat);
    return status;
}

void ig_chat_template_destroy(ig_chat_template *chat) {
    if (!chat) return;
    ig_jinja_destroy(chat->jinja);
    ig_free(chat->allocator, chat);
}

bool ig_chat_template_is_jinja(const ig_chat_template *chat) { return chat->jinja != NULL; }

const char *ig_chat_template_name(const ig_chat_template *chat) {
    return chat->format ? ig_chat_format_name(chat->format) : NULL;
}

const char *ig_chat_template_turn_end(const ig_chat_template *chat) {
    return chat->format ? ig_chat_format_turn_end(chat->format) : NULL;
}

/* ---- Variables, as Hugging Face's templates are given them ---- */

static ig_status parse_json(const char *what, const char *text, bool array, json_t **out) {
    IG_TRY(ig_json_decode(IG_ERR_ARGUMENT, "chat", what, text, strlen(text),
                          JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, out));
    if (array ? json_is_array(*out) : json_is_object(*out)) return IG_OK;
    json_decref(*out);
    *out = NULL;
    return IG_FAIL(IG_ERR_ARGUMENT, "chat: %s is not a JSON %s", what, array ? "array" : "object");
}

/* A message whose members are all in `extra`, in its order. */
static ig_status add_whole_message(json_t *list, const ig_chat_message *m) {
    json_t *one = NULL;
    if (!m->extra) return IG_FAIL(IG_ERR_ARGUMENT, "chat: a message has no role");
    IG_TRY(parse_json("a message", m->extra, false, &one));
    return json_array_append_new(list, one) != 0
               ? IG_FAIL(IG_ERR_MEMORY, "chat: no memory for a message")
               : IG_OK;
}

static ig_status add_message(json_t *list, const ig_chat_message *m) {
    if (!m->role) return add_whole_message(list, m);
    json_t *one = json_object(), *extra = NULL;
    if (json_array_append_new(list, one) != 0 ||
        json_object_set_new(one, "role", json_string_nocheck(m->role)) != 0 ||
        json_object_set_new(
            one, "content",
            json_stringn_nocheck(m->content ? m->content : "", m->content ? m->n_bytes : 0)) != 0)
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for a message of %zu bytes", m->n_bytes);
    if (!m->extra) return IG_OK;
    IG_TRY(parse_json("extra of a message", m->extra, false, &extra));
    const int failed = json_object_update_missing(one, extra);
    json_decref(extra);
    return failed ? IG_FAIL(IG_ERR_MEMORY, "chat: no memory for a message") : IG_OK;
}

static ig_status add_options(json_t *all, const ig_chat_options *o) {
    json_t *tools = NULL, *more = NULL;
    if (o->tools) IG_TRY(parse_json("tools", o->tools, true, &tools));
    int failed = json_object_set_new(all, "tools", tools ? tools : json_null());
    if (o->variables) IG_TRY(parse_json("variables", o->variables, false, &more));
    failed |= more && json_object_update_missing(all, more);
    json_decref(more);
    failed |= json_object_set_new(all, "documents", json_null());
    failed |= json_object_set_new(all, "add_generation_prompt", json_boolean(!o->no_reply));
    return failed ? IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the variables") : IG_OK;
}

static ig_status add_variables(json_t *all, const ig_chat_message *messages, size_t n_messages,
                               const ig_chat_options *o) {
    json_t *list = json_array();
    if (json_object_set_new(all, "messages", list) != 0)
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu messages", n_messages);
    for (size_t i = 0; i < n_messages; i++) IG_TRY(add_message(list, &messages[i]));
    return add_options(all, o);
}

/* ---- Rendering ---- */

static ig_status render_jinja(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                              const ig_chat_message *messages, size_t n_messages,
                              const ig_chat_options *o, rendered *out) {
    const unsigned long before = ig_json_failures();
    json_t *given = json_object();
    if (!given) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu messages", n_messages);
    ig_status status = add_variables(given, messages, n_messages, o);
    const ig_jinja_variables variables = {.given = given,
                                          .bos = name_of(tokenizer, IG_SPECIAL_BOS),
                                          .eos = name_of(tokenizer, IG_SPECIAL_EOS),
                                          .now = o->now ? o->now : (int64_t)time(NULL)};
    if (status == IG_OK && ig_json_failures() != before)
        status = IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu messages", n_messages);
    if (status == IG_OK) status = ig_jinja_render(chat->jinja, &variables, &out->jinja);
    json_decref(given);
    out->spans = out->jinja.spans;
    out->n_spans = out->jinja.n_spans;
    return status;
}

static ig_status render_format(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                               const ig_chat_message *messages, size_t n_messages,
                               const ig_chat_options *o, rendered *out) {
    if (o->tools || o->variables)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "chat: the built-in template %s takes no tools and no variables; a Jinja "
                       "template does",
                       ig_chat_format_name(chat->format));
    for (size_t i = 0; i < n_messages; i++)
        if (messages[i].extra)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "chat: message %zu has extra members, which the built-in template %s "
                           "does not take; a Jinja template does",
                           i, ig_chat_format_name(chat->format));
    out->prompt.eos = name_of(tokenizer, IG_SPECIAL_EOS);
    const ig_status status =
        ig_chat_format_write(chat->format, messages, n_messages,
                             o->no_reply ? IG_CHAT_WHOLE : IG_CHAT_REPLY, &out->prompt);
    out->spans = out->prompt.spans;
    out->n_spans = out->prompt.n_spans;
    return status;
}

/* Deinit `out` also after an error. */
static ig_status render(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                        const ig_chat_message *messages, size_t n_messages,
                        const ig_chat_options *options, rendered *out) {
    static const ig_chat_options defaults;
    const ig_chat_options *o = options ? options : &defaults;
    *out = (rendered){.jinja = {.allocator = chat->allocator},
                      .prompt = {.allocator = chat->allocator}};
    return chat->jinja ? render_jinja(chat, tokenizer, messages, n_messages, o, out)
                       : render_format(chat, tokenizer, messages, n_messages, o, out);
}

/* Whether the template has written BOS itself. */
static bool begins_with_bos(const ig_tokenizer *tokenizer, const rendered *r) {
    const ig_string_view bos = name_of(tokenizer, IG_SPECIAL_BOS);
    return r->jinja.bytes && bos.n_bytes > 0 && r->n_spans > 0 && r->spans[0].special &&
           r->spans[0].n_bytes >= bos.n_bytes &&
           memcmp(r->spans[0].bytes, bos.bytes, bos.n_bytes) == 0;
}

ig_status ig_chat_tokenize(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                           const ig_chat_message *messages, size_t n_messages,
                           const ig_chat_options *options, ig_tokens *out) {
    if (!chat || !tokenizer || !out || (!messages && n_messages > 0))
        return IG_FAIL(IG_ERR_ARGUMENT, "chat_tokenize: NULL");
    rendered r;
    ig_status status = render(chat, tokenizer, messages, n_messages, options, &r);
    if (status == IG_OK) {
        const unsigned bos = begins_with_bos(tokenizer, &r) ? 0 : IG_TOKENIZE_ADD_SPECIAL;
        status = ig_tokenize_spans(tokenizer, r.spans, r.n_spans, bos | IG_TOKENIZE_NO_EOS, out);
    }
    rendered_deinit(&r);
    return status;
}

static ig_status append(const rendered *r, ig_string *out) {
    size_t n_bytes = out->n_bytes;
    for (size_t i = 0; i < r->n_spans; i++) n_bytes += r->spans[i].n_bytes;
    if (!IG_GROW(out->allocator, out->bytes, &out->room, n_bytes + 1))
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu bytes", n_bytes);
    for (size_t i = 0; i < r->n_spans; i++) {
        memcpy(out->bytes + out->n_bytes, r->spans[i].bytes, r->spans[i].n_bytes);
        out->n_bytes += r->spans[i].n_bytes;
    }
    out->bytes[out->n_bytes] = 0;
    return IG_OK;
}

ig_status ig_chat_render(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                         const ig_chat_message *messages, size_t n_messages,
                         const ig_chat_options *options, ig_string *out) {
    if (!chat || !out || (!messages && n_messages > 0))
        return IG_FAIL(IG_ERR_ARGUMENT, "chat_render: NULL");
    rendered r;
    ig_status status = render(chat, tokenizer, messages, n_messages, options, &r);
    if (status == IG_OK) status = append(&r, out);
    rendered_deinit(&r);
    return status;
}

ig_status ig_chat_template_check(const ig_chat_template *chat, const ig_tokenizer *tokenizer,
                                 const char *system) {
    static const char word[] = "Hello";
    const ig_chat_message messages[] = {
        {.role = "system", .content = system, .n_bytes = system ? strlen(system) : 0},
        {.role = "user", .content = word, .n_bytes = sizeof word - 1},
    };
    const size_t first = system ? 0 : 1;
    ig_string text = {.allocator = chat->allocator};
    IG_TRY(ig_chat_render(chat, tokenizer, messages + first, 2 - first, NULL, &text));
    const bool shows = memmem(text.bytes, text.n_bytes, word, sizeof word - 1);
    ig_string_deinit(&text);
    return shows ? IG_OK : IG_FAIL(IG_ERR_FORMAT, "chat template: leaves out what the user says");
}
