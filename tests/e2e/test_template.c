/* `ingot template`. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checks.h"
#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"
#include "results.h"

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static const char conversation[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<reply>{% endif %}";

static const char *write_file(void **state, const char *name, const char *text, char *path) {
    FILE *f = fopen(directory_path(state, name, path), "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void prints(program_result result, const char *out) {
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    assert_string_equal(result.out, out);
    program_free(&result);
}

static void messages_become_the_prompt(void **state) {
    char file[PATH_BYTES], messages[PATH_BYTES], tools[PATH_BYTES];
    write_file(state, "t.jinja", conversation, file);
    write_file(state, "m.json", "[{\"role\": \"user\", \"content\": \"Hi\"}]", messages);
    write_file(state, "tools.json", "[{\"name\": \"look\"}]", tools);
    prints(RUN("template", "--template-file", file, "--messages", messages), "<user>Hi<reply>");
    prints(RUN("template", "--template-file", file, "--messages", messages, "--tools", tools,
               "--no-generation-prompt"),
           "<user>Hi[{\"name\": \"look\"}]");
}

static void an_object_has_more_than_messages(void **state) {
    char file[PATH_BYTES], messages[PATH_BYTES];
    write_file(state, "t.jinja",
               "{{ messages | tojson }}{{ tools }}{{ a }}{{ b }}{{ add_generation_prompt }}", file);
    write_file(state, "m.json",
               "{\"messages\": [{\"content\": null, \"x\": [1.0], \"role\": \"user\"}],"
               " \"tools\": null, \"vars\": {\"a\": 1, \"b\": true},"
               " \"add_generation_prompt\": false}",
               messages);
    prints(RUN("template", "--template-file", file, "--messages", messages, "--var", "a=2"),
           "[{\"content\": null, \"x\": [1.0], \"role\": \"user\"}]None2TrueFalse");
}

static void variables_are_json_or_strings(void **state) {
    char file[PATH_BYTES], messages[PATH_BYTES];
    write_file(state, "t.jinja", "{{ [a, b, c, bos_token] }}{{ strftime_now('%Y-%m-%d %H:%M') }}",
               file);
    write_file(state, "m.json", "[]", messages);
    prints(RUN("template", "--template-file", file, "--messages", messages, "--var", "a=[1]",
               "--var", "b=false", "--var", "c=a=b", "--var", "bos_token=<s>", "--now",
               "2026-11-18T01:30:00+02:00"),
           "[[1], False, 'a=b', '<s>']2026-11-17 23:30");
    prints(RUN("template", "--template-file", file, "--messages", messages, "--now", "1783168200"),
           "[Undefined, Undefined, Undefined, '']2026-07-04 12:30");
    prints(RUN("template", "--template-file", file, "--messages", messages, "--now", "2026-11-18"),
           "[Undefined, Undefined, Undefined, '']2026-11-18 00:00");
}

static void a_model_has_the_template_and_its_tokens(void **state) {
    char file[PATH_BYTES], model[PATH_BYTES], in[PATH_BYTES];
    write_file(state, "t.jinja", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", file);
    write_file(state, "m.json", "[{\"role\": \"user\", \"content\": \"Hi\"}]", in);
    if (model_save("llama", IG_F32, directory_path(state, "a.gguf", model)) != IG_OK)
        fail_msg("cannot write the model");
    const char *const args[] = {"template",   "-m", model, "--template-file", file, "--json",
                                "--messages", "-",  NULL};
    const int fd = open(in, O_RDONLY);
    json_t *root = json_of(program_run(INGOT_PROGRAM, args, &(program_options){.in_fd = fd}),
                           "ingot.template.v1");
    close(fd);
    assert_string_equal(json_string_value(json_object_get(root, "prompt")), "<s>Hi</s>");
    json_decref(root);
}

static void a_template_that_refuses_is_exit_code_3_with_its_words(void **state) {
    char file[PATH_BYTES], messages[PATH_BYTES];
    write_file(state, "m.json", "[{\"role\": \"user\", \"content\": \"Hi\"}]", messages);
    write_file(state, "t.jinja", "a\n{{ raise_exception('Roles must alternate: ' ~ 100 ~ '%s') }}",
               file);
    check_error(RUN("template", "--template-file", file, "--messages", messages), 3,
                "line 2: Roles must alternate: 100%s");
    write_file(state, "t.jinja", "a\n\n{{ x.y.z }}", file);
    check_error(RUN("template", "--template-file", file, "--messages", messages), 3, "line 3: 'x'");
    write_file(state, "t.jinja", "a\n{% if %}", file);
    check_error(RUN("template", "--template-file", file, "--messages", messages), 3, "line 2: %}");
}

static void wrong_input_is_refused(void **state) {
    char file[PATH_BYTES], messages[PATH_BYTES];
    write_file(state, "t.jinja", conversation, file);
    write_file(state, "m.json", "[]", messages);
#define WITH(...) RUN("template", "--template-file", file, "--messages", messages, __VA_ARGS__)
    check_error(RUN("template", "--messages", messages), 2, "needs --template-file or --model");
    check_error(RUN("template", "--template-file", file), 2, "--messages");
    check_error(WITH("--var", "x"), 2, "must be NAME=VALUE");
    check_error(WITH("--now", "tomorrow"), 2, "must be a date");
    check_error(WITH("--tools", messages, "--now", "2026-11-18T25"), 2, "must be a date");
#undef WITH
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"[1]", "message 0 is not an object"},
        {"{\"messages\": {}}", "the messages are not an array"},
        {"{\"messages\": [], \"tools\": 1}", "'tools' is not an array"},
        {"{\"messages\": [], \"model\": \"x\"}", "'model' is not one of messages"},
        {"{\"messages\": [], \"add_generation_prompt\": 1}", "is not true or false"},
        {"[", "the conversation is not JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(state, "m.json", rows[i].text, messages);
        check_error(RUN("template", "--template-file", file, "--messages", messages), 3,
                    rows[i].words);
    }
    check_error(RUN("template", "--template-file", file, "--messages", "/nowhere"), 6, "/nowhere");
}

int main(void) {
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(messages_become_the_prompt),
        IN_DIRECTORY(an_object_has_more_than_messages),
        IN_DIRECTORY(variables_are_json_or_strings),
        IN_DIRECTORY(a_model_has_the_template_and_its_tokens),
        IN_DIRECTORY(a_template_that_refuses_is_exit_code_3_with_its_words),
        IN_DIRECTORY(wrong_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
