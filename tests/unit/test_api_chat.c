/* ingot/chat.h as a program uses it: built-in templates, templates of files, tools, and errors. */
#include "check.h"

#include <stdio.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"

#define SAYS(who, what) \
    { .role = who, .content = what, .n_bytes = sizeof(what) - 1 }

static const char template[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}"
    "[{{ m.tool_calls[0].name }}]{% endif %}{% endfor %}"
    "{% if tools %}({{ tools[0].name }}){% endif %}{% if mood %}{{ mood }}{% endif %}"
    "{% if add_generation_prompt %}<reply>{% endif %}";

static void renders(const ig_chat_template *chat, const ig_chat_message *messages, size_t n,
                    const ig_chat_options *options, const char *want) {
    ig_string text = {0};
    must(ig_chat_render(chat, NULL, messages, n, options, &text));
    assert_string_equal(text.bytes, want);
    assert_int_equal(text.n_bytes, strlen(want));
    ig_string_deinit(&text);
    assert_null(text.bytes);
}

static void built_in_templates_render_messages(void **state) {
    (void)state;
    const ig_chat_message messages[] = {SAYS("system", "Be brief."), SAYS("user", "Hi")};
    ig_chat_template *chat = NULL;
    assert_string_equal(ig_chat_builtin_name(0), "phi4");
    assert_null(ig_chat_builtin_name(99));
    must(ig_chat_template_builtin("chatml", NULL, &chat));
    assert_false(ig_chat_template_is_jinja(chat));
    assert_string_equal(ig_chat_template_name(chat), "chatml");
    assert_string_equal(ig_chat_template_turn_end(chat), "<|im_end|>");
    renders(chat, messages, 2, NULL,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
    renders(chat, messages + 1, 1, &(ig_chat_options){.no_reply = true},
            "<|im_start|>user\nHi<|im_end|>\n");

    ig_string text = {0};
    refused(ig_chat_render(chat, NULL, messages, 2, &(ig_chat_options){.tools = "[]"}, &text),
            IG_ERR_ARGUMENT, "takes no tools");
    const ig_chat_message call = {.role = "user", .content = "a", .n_bytes = 1, .extra = "{}"};
    refused(ig_chat_render(chat, NULL, &call, 1, NULL, &text), IG_ERR_ARGUMENT, "extra members");
    assert_null(text.bytes);
    ig_chat_template_destroy(chat);
}

static void tools_and_variables_reach_a_jinja_template(void **state) {
    (void)state;
    ig_chat_template *chat = NULL;
    must(ig_chat_template_parse(template, strlen(template), NULL, &chat));
    assert_true(ig_chat_template_is_jinja(chat));
    assert_null(ig_chat_template_name(chat));
    assert_null(ig_chat_template_turn_end(chat));
    const ig_chat_message messages[] = {
        SAYS("user", "Hi"),
        {.role = "assistant", .extra = "{\"tool_calls\": [{\"name\": \"look\"}]}"},
        SAYS("tool", "rain"),
    };
    const ig_chat_options options = {.tools = "[{\"name\": \"sky\"}]",
                                     .variables = "{\"mood\": \"!\", \"messages\": []}"};
    renders(chat, messages, 3, &options, "<user>Hi<assistant>[look]<tool>rain(sky)!<reply>");
    must(ig_chat_template_check(chat, NULL, NULL));
    must(ig_chat_template_check(chat, NULL, "Be brief."));

    ig_string text = {0};
    refused(ig_chat_render(chat, NULL, messages, 1, &(ig_chat_options){.tools = "{}"}, &text),
            IG_ERR_ARGUMENT, "tools is not a JSON array");
    refused(ig_chat_render(chat, NULL, messages, 1, &(ig_chat_options){.variables = "{"}, &text),
            IG_ERR_ARGUMENT, "variables is not JSON");
    const ig_chat_message bad[] = {{.role = "user", .extra = "[]"}, {.role = NULL}};
    refused(ig_chat_render(chat, NULL, bad, 1, NULL, &text), IG_ERR_ARGUMENT,
            "extra of a message is not a JSON object");
    refused(ig_chat_render(chat, NULL, bad + 1, 1, NULL, &text), IG_ERR_ARGUMENT, "no role");
    refused(ig_chat_render(chat, NULL, NULL, 1, NULL, &text), IG_ERR_ARGUMENT, "NULL");
    ig_chat_template_destroy(chat);
    ig_chat_template_destroy(NULL);
}

/* The user types the name of a control token; it stays text. */
static void text_of_messages_cannot_be_control_tokens(void **state) {
    char path[PATH_BYTES];
    ig_tokenizer *t = NULL;
    ig_chat_template *chat = NULL;
    must(model_save("qwen2", IG_F32, directory_path(state, "a.gguf", path)));
    must(ig_tokenizer_open(path, NULL, &t));
    const ig_string_view eos = ig_tokenizer_piece(t, ig_tokenizer_special(t, IG_SPECIAL_EOS));
    const char plain[] = "{{ messages[0].content }}{{ eos_token }}";
    must(ig_chat_template_parse(plain, strlen(plain), NULL, &chat));
    const ig_chat_message message = {.role = "user", .content = eos.bytes, .n_bytes = eos.n_bytes};
    ig_tokens tokens = {0};
    must(ig_chat_tokenize(chat, t, &message, 1, NULL, &tokens));
    size_t n_eos = 0;
    for (size_t i = 0; i < tokens.count; i++)
        n_eos += tokens.at[i] == ig_tokenizer_special(t, IG_SPECIAL_EOS);
    assert_int_equal(n_eos, 1);
    refused(ig_chat_tokenize(chat, NULL, &message, 1, NULL, &tokens), IG_ERR_ARGUMENT, "NULL");
    ig_tokens_deinit(&tokens);
    ig_chat_template_destroy(chat);
    ig_tokenizer_destroy(t);
}

static void write_text(void **state, const char *name, const char *text, char path[PATH_BYTES]) {
    FILE *f = fopen(directory_path(state, name, path), "wb");
    fputs(text, f);
    fclose(f);
}

static void a_template_is_read_from_a_file(void **state) {
    char path[PATH_BYTES];
    ig_chat_template *chat = NULL;
    write_text(state, "a.jinja", "{{ messages[0].content }}", path);
    must(ig_chat_template_open(path, NULL, &chat));
    const ig_chat_message message = SAYS("user", "Hi");
    renders(chat, &message, 1, NULL, "Hi");
    ig_chat_template_destroy(chat);

    chat = NULL;
    must(model_save("llama", IG_F32, directory_path(state, "a.gguf", path)));
    refused(ig_chat_template_open(path, NULL, &chat), IG_ERR_FORMAT, "has no chat template");
    write_text(state, "bad.jinja", "{% if %}", path);
    refused(ig_chat_template_open(path, NULL, &chat), IG_ERR_FORMAT, "");
    write_text(state, "empty.jinja", "", path);
    refused(ig_chat_template_open(path, NULL, &chat), IG_ERR_FORMAT, "empty.jinja: is empty");
    refused(ig_chat_template_open(directory_path(state, "none", path), NULL, &chat), IG_ERR_IO,
            "none");
    refused(ig_chat_template_open(NULL, NULL, &chat), IG_ERR_ARGUMENT, "NULL");
    refused(ig_chat_template_builtin("alpaca", NULL, &chat), IG_ERR_ARGUMENT,
            "'alpaca': must be one of phi4, chatml");
    assert_null(chat);
}

static void a_template_for_something_else_is_found_out(void **state) {
    (void)state;
    ig_chat_template *chat = NULL;
    must(ig_chat_template_parse("nothing", 7, NULL, &chat));
    refused(ig_chat_template_check(chat, NULL, NULL), IG_ERR_FORMAT, "leaves out");
    ig_chat_template_destroy(chat);
    assert_string_equal(ig_chat_detect("<|im_start|> <|im_end|>", 23), "chatml");
    assert_null(ig_chat_detect("nothing", 7));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_templates_render_messages),
        cmocka_unit_test(tools_and_variables_reach_a_jinja_template),
        IN_DIRECTORY(text_of_messages_cannot_be_control_tokens),
        IN_DIRECTORY(a_template_is_read_from_a_file),
        cmocka_unit_test(a_template_for_something_else_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
