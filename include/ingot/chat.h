/*
 * chat.h - chat templates: a conversation as the prompt that a model was trained to answer.
 *
 *     ig_chat_template *chat;
 *     ig_chat_template_open("model.gguf", NULL, &chat)
 *     const ig_chat_message messages[] = {{.role = "user", .content = "Hi", .n_bytes = 2}};
 *     ig_tokens tokens = {0};
 *     ig_chat_tokenize(chat, tokenizer, messages, 1, NULL, &tokens)
 *     ig_chat_template_destroy(chat)
 *
 * A template is Jinja text from a model's file, or one of the built-in ones.  Only text
 * of the template can be a control token; text of messages cannot, so a user cannot end a
 * turn or speak in another role.  A Jinja template reaches nothing but its variables, and
 * its memory and steps are limited, so templates need not be trusted.
 *
 * A template is immutable: any number of threads may use it.
 */
#ifndef INGOT_CHAT_H
#define INGOT_CHAT_H

#include "ingot/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_chat_template ig_chat_template;

/* The built-in templates by name: "chatml", "llama3", ...; NULL: there are no more.  Static. */
IG_API const char *ig_chat_builtin_name(size_t i);

/* The built-in template that writes what this Jinja text writes, by the markers in it; static.
 * NULL: none does. */
IG_API const char *ig_chat_detect(const char *text, size_t n_bytes);

/* A built-in template; an unknown name is IG_ERR_ARGUMENT with the list of names.  The allocator,
 * which must outlive the template, may be NULL: malloc's.  The caller owns the template. */
IG_API IG_MUST_CHECK ig_status ig_chat_template_builtin(const char *name,
                                                        const ig_allocator *allocator,
                                                        ig_chat_template **out);
/* Parses Jinja text, which is copied.  IG_ERR_FORMAT says what is wrong in which line.  The caller
 * owns the template. */
IG_API IG_MUST_CHECK ig_status ig_chat_template_parse(const char *text, size_t n_bytes,
                                                      const ig_allocator *allocator,
                                                      ig_chat_template **out);
/* The template of a .gguf file, of a Hugging Face model folder, or a file with Jinja text.
 * IG_ERR_FORMAT: the model has none.  The caller owns the template. */
IG_API IG_MUST_CHECK ig_status ig_chat_template_open(const char *path,
                                                     const ig_allocator *allocator,
                                                     ig_chat_template **out);
IG_API void ig_chat_template_destroy(ig_chat_template *chat); /* NULL is a no-op */

/* Whether it is Jinja text; else it is built in. */
IG_API bool ig_chat_template_is_jinja(const ig_chat_template *chat);
/* The built-in template that it is or, of Jinja text, that it resembles; NULL: none.  Static. */
IG_API const char *ig_chat_template_name(const ig_chat_template *chat);
/* What ends a turn of the assistant, for models without a token for it: a stop string.  NULL: not
 * known.  Static. */
IG_API const char *ig_chat_template_turn_end(const ig_chat_template *chat);

/* The Jinja text in the model's file, borrowed from the adapter; false: it has none. */
IG_API bool ig_adapter_chat_template(const ig_adapter *adapter, ig_string_view *out);

/* A message; all is borrowed during the call. */
typedef struct ig_chat_message {
    const char *role;    /* "system", "user", "assistant"; of Jinja templates any, such as "tool".
                            NULL: `extra` is the whole message, with role and content in it */
    const char *content; /* NULL: none */
    size_t n_bytes;      /* of the content */
    const char *extra;   /* further members as a JSON object, such as {"tool_calls": [...]}; for
                            Jinja templates; NULL: none */
} ig_chat_message;

typedef struct ig_chat_options {
    const char *tools;     /* definitions as a JSON array, for Jinja templates; NULL: none */
    const char *variables; /* further variables as a JSON object, for Jinja templates, such as
                              {"enable_thinking": false}; NULL: none */
    bool no_reply;         /* end with the last message, not with the beginning of the answer */
    int64_t now;           /* for templates that print the date: seconds since 1970; 0: now */
} ig_chat_options;

/* Appends the tokens of a conversation to `out`, up to where the assistant's answer begins, with
 * BOS where the tokenizer's file says so and the template has not written it.  NULL options: all
 * defaults.  IG_ERR_ARGUMENT: a role, or JSON, that is wrong; IG_ERR_FORMAT: the template fails, or
 * raises an exception.  `out` is then as before. */
IG_API IG_MUST_CHECK ig_status ig_chat_tokenize(const ig_chat_template *chat,
                                                const ig_tokenizer *tokenizer,
                                                const ig_chat_message *messages, size_t n_messages,
                                                const ig_chat_options *options, ig_tokens *out);

/* The same as text, appended to `out`.  The tokenizer gives the names of BOS and EOS; NULL: "" and
 * "</s>".  Text of messages is not escaped, so this is for people to read: tokenizing it lets
 * messages contain control tokens. */
IG_API IG_MUST_CHECK ig_status ig_chat_render(const ig_chat_template *chat,
                                              const ig_tokenizer *tokenizer,
                                              const ig_chat_message *messages, size_t n_messages,
                                              const ig_chat_options *options, ig_string *out);

/* Renders a conversation of a system message, unless NULL, and one of the user: IG_ERR_FORMAT if
 * the template fails or leaves the user's words out, as a template for something else does. */
IG_API IG_MUST_CHECK ig_status ig_chat_template_check(const ig_chat_template *chat,
                                                      const ig_tokenizer *tokenizer,
                                                      const char *system);

#ifdef __cplusplus
}
#endif
#endif
