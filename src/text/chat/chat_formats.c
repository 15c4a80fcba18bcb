#include "text/chat/chat_formats.h"

#include <string.h>

#include "base/utf8.h"

enum { SYSTEM, USER, ASSISTANT, ROLES };
static const char *const role_names[ROLES] = {"system", "user", "assistant"};

struct ig_chat_format {
    const char *name;
    const char *begin[ROLES], *end[ROLES]; /* around a message */
    const char *first_user;                /* replaces begin[USER] in the first message; or NULL */
    const char
        *user_after_system; /* replaces begin[USER] directly after a system message; or NULL */
    const char *reply;      /* generation prompt: begins the assistant's answer */
    const char *turn_end;
    bool eos[ROLES];           /* EOS stands between content and end */
    bool trims;                /* strips white space around contents, */
    bool trims_answers;        /* or only around the assistant's */
    bool system_in_first_user; /* the system message is part of the first user message */
    const char *marks[2];      /* a template of this format contains both, */
    const char *lacks;         /* and not this one; or NULL */
    const char *mark;          /* alternatively it contains this one; or NULL */
};

/*
 * Detection takes the first row whose marks a template contains, so rows with more marks come
 * first. Templates are programs, so "\
 * " here matches the escape in their source.
 */
static const ig_chat_format formats[] = {
    {
        .name = "phi4",
        .begin = {"<|im_start|>system<|im_sep|>", "<|im_start|>user<|im_sep|>",
                  "<|im_start|>assistant<|im_sep|>"},
        .end = {"<|im_end|>", "<|im_end|>", "<|im_end|>"},
        .reply = "<|im_start|>assistant<|im_sep|>",
        .turn_end = "<|im_end|>",
        .marks = {"<|im_start|>", "<|im_sep|>"},
    },
    {
        .name = "chatml",
        .begin = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
        .end = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
        .reply = "<|im_start|>assistant\n",
        .turn_end = "<|im_end|>",
        .marks = {"<|im_start|>", "<|im_end|>"},
    },
    {
        .name = "llama3",
        .begin = {"<|start_header_id|>system<|end_header_id|>\n\n",
                  "<|start_header_id|>user<|end_header_id|>\n\n",
                  "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        .end = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
        .reply = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .turn_end = "<|eot_id|>",
        .trims = true,
        .marks = {"<|start_header_id|>", "<|end_header_id|>"},
    },
    {
        .name = "gemma",
        .begin = {"<start_of_turn>user\n", "<start_of_turn>user\n", "<start_of_turn>model\n"},
        .end = {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"},
        .user_after_system = "",
        .reply = "<start_of_turn>model\n",
        .turn_end = "<end_of_turn>",
        .trims = true,
        .system_in_first_user = true,
        .marks = {"<start_of_turn>", ""},
    },
    {
        .name = "phi3",
        .begin = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
        .end = {"<|end|>\n", "<|end|>\n", "<|end|>\n"},
        .reply = "<|assistant|>\n",
        .turn_end = "<|end|>",
        .marks = {"<|assistant|>", "<|end|>"},
    },
    {
        .name = "zephyr",
        .begin = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
        .end = {"\n", "\n", "\n"},
        .eos = {true, true, true},
        .reply = "<|assistant|>\n",
        .turn_end = "</s>",
        .marks = {"'<|user|>\\n' + message['content'] + eos_token", "<|assistant|>"},
    },
    {
        .name = "deepseek",
        .begin = {"", "<｜User｜>", "<｜Assistant｜>"},
        .end = {"", "", ""},
        .eos = {[ASSISTANT] = true},
        .reply = "<｜Assistant｜>",
        .turn_end = "<｜end▁of▁sentence｜>",
        .marks = {"<｜User｜>", "<｜Assistant｜>"},
        .lacks = "<｜Assistant｜><", /* its answers begin with <think> or </think> */
    },
    {
        .name = "llama2",
        .begin = {"[INST] <<SYS>>\n", "<s>[INST] ", " "},
        .end = {"\n<</SYS>>\n\n", " [/INST]", " </s>"},
        .first_user = "[INST] ", /* its first <s> is BOS */
        .user_after_system = "",
        .reply = "",
        .turn_end = "</s>",
        .trims = true,
        .system_in_first_user = true,
        .marks = {"[INST]", "<<SYS>>"},
        .mark = "bos_token + '[INST]",
    },
    {
        .name = "mistral-v7",
        .begin = {"[SYSTEM_PROMPT] ", "[INST] ", " "},
        .end = {"[/SYSTEM_PROMPT]", "[/INST]", ""},
        .eos = {[ASSISTANT] = true},
        .reply = "",
        .turn_end = "</s>",
        .trims_answers = true,
        .marks = {"[SYSTEM_PROMPT] ", "[INST] "},
    },
    {
        .name = "mistral-v7-tekken",
        .begin = {"[SYSTEM_PROMPT]", "[INST]", ""},
        .end = {"[/SYSTEM_PROMPT]", "[/INST]", ""},
        .eos = {[ASSISTANT] = true},
        .reply = "",
        .turn_end = "</s>",
        .marks = {"[SYSTEM_PROMPT]", "[INST]"},
    },
    {
        .name = "mistral-v1",
        .begin = {"[INST] ", "[INST] ", " "},
        .end = {"\n\n", " [/INST]", ""},
        .user_after_system = "",
        .eos = {[ASSISTANT] = true},
        .reply = "",
        .turn_end = "</s>",
        .trims_answers = true,
        .system_in_first_user = true,
        .marks = {"[INST] ", " [/INST]"},
    },
    {
        .name = "mistral-v3",
        .begin = {"[INST] ", "[INST] ", " "},
        .end = {"\n\n", "[/INST]", ""},
        .user_after_system = "",
        .eos = {[ASSISTANT] = true},
        .reply = "",
        .turn_end = "</s>",
        .trims_answers = true,
        .system_in_first_user = true,
        .marks = {"[INST] ", "[/INST]"},
    },
    {
        .name = "mistral-v3-tekken",
        .begin = {"[INST]", "[INST]", ""},
        .end = {"\n\n", "[/INST]", ""},
        .user_after_system = "",
        .eos = {[ASSISTANT] = true},
        .reply = "",
        .turn_end = "</s>",
        .system_in_first_user = true,
        .marks = {"[INST]", "[/INST]"},
    },
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- Which one ---- */

const ig_chat_format *ig_chat_format_at(size_t i) { return i < FORMATS ? &formats[i] : NULL; }

const char *ig_chat_format_name(const ig_chat_format *format) { return format->name; }

const char *ig_chat_format_turn_end(const ig_chat_format *format) { return format->turn_end; }

const ig_chat_format *ig_chat_format_find(const char *name) {
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

static bool has(const char *text, size_t n_bytes, const char *mark) {
    return mark && memmem(text, n_bytes, mark, strlen(mark));
}

const ig_chat_format *ig_chat_format_detect(const char *text, size_t n_bytes) {
    for (size_t i = 0; i < FORMATS; i++) {
        const ig_chat_format *f = &formats[i];
        if (has(text, n_bytes, f->mark)) return f;
        if (has(text, n_bytes, f->marks[0]) && has(text, n_bytes, f->marks[1]) &&
            !has(text, n_bytes, f->lacks))
            return f;
    }
    return NULL;
}

/* ---- Writing ---- */

void ig_chat_prompt_deinit(ig_chat_prompt *p) {
    if (p->allocator) ig_free(p->allocator, p->spans);
    *p = (ig_chat_prompt){.allocator = p->allocator, .eos = p->eos};
}

static ig_status put(ig_chat_prompt *p, const char *bytes, size_t n_bytes, bool special) {
    if (n_bytes == 0) return IG_OK;
    if (!IG_GROW(p->allocator, p->spans, &p->room, p->n_spans + 1))
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu spans", p->n_spans + 1);
    p->spans[p->n_spans++] = (ig_text_span){bytes, n_bytes, special};
    return IG_OK;
}

static ig_status put_content(const ig_chat_message *m, bool trims, ig_chat_prompt *out) {
    const char *begin = m->content, *end = begin + m->n_bytes;
    while (trims && begin < end && ig_is_space(*begin)) begin++;
    while (trims && begin < end && ig_is_space(end[-1])) end--;
    return put(out, begin, (size_t)(end - begin), false);
}

/* The index of a role; -1: unknown. */
static int role_of(const ig_chat_message *m) {
    for (int role = 0; role < ROLES; role++)
        if (m->role && strcmp(m->role, role_names[role]) == 0) return role;
    return -1;
}

static ig_status check(const ig_chat_format *f, const ig_chat_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int role = role_of(&messages[i]);
        if (role < 0)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "chat: message %zu is of '%.32s', not of system, user or assistant", i,
                           messages[i].role ? messages[i].role : "");
        if (role != SYSTEM || !f->system_in_first_user) continue;
        if (i > 0 || n == 1 || role_of(&messages[1]) != USER)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "chat: message %zu is of the system: in format %s only the first may "
                           "be, before one of the user",
                           i, f->name);
    }
    return IG_OK;
}

/* The text that begins message i. */
static const char *begin_of(const ig_chat_format *f, const ig_chat_message *messages, size_t i) {
    const int role = role_of(&messages[i]);
    if (role == USER && i == 0 && f->first_user) return f->first_user;
    if (role == USER && i > 0 && f->user_after_system && role_of(&messages[i - 1]) == SYSTEM)
        return f->user_after_system;
    return f->begin[role];
}

static ig_status put_eos(ig_chat_prompt *out) {
    const ig_string_view eos = out->eos.n_bytes > 0 ? out->eos : (ig_string_view){"</s>", 4};
    return put(out, eos.bytes, eos.n_bytes, true);
}

ig_status ig_chat_format_write(const ig_chat_format *f, const ig_chat_message *messages,
                               size_t n_messages, ig_chat_turn_suffix ending, ig_chat_prompt *out) {
    IG_TRY(check(f, messages, n_messages));
    for (size_t i = 0; i < n_messages; i++) {
        const int role = role_of(&messages[i]);
        const char *begin = begin_of(f, messages, i), *end = f->end[role];
        const bool trims = f->trims || (f->trims_answers && role == ASSISTANT);
        IG_TRY(put(out, begin, strlen(begin), true));
        IG_TRY(put_content(&messages[i], trims, out));
        if (f->eos[role]) IG_TRY(put_eos(out));
        IG_TRY(put(out, end, strlen(end), true));
    }
    return ending == IG_CHAT_REPLY ? put(out, f->reply, strlen(f->reply), true) : IG_OK;
}
