/* Chat templates of published models as jinja2 renders them (../shared/data/templates; skipped
 * where it is missing). */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "../unit/check.h"
#include "base/alloc.h"
#include "ingot/chat.h"
#include "shared.h"

enum { NOW = 1794960000, MESSAGES_MAX = 16 }; /* 2026-11-18 */

typedef struct counts {
    size_t rendered, refused;
} counts;

static json_t *load(const char *folder, const char *name) {
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fail_msg("%s: line %d: %s", path, error.line, error.text);
    return root;
}

/* BOS, EOS and what the case sets. */
static char *variables_of(const json_t *one) {
    json_t *all = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    json_t *vars = json_object_get(one, "vars");
    if (vars) json_object_update(all, vars);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static ig_status render(const ig_chat_template *chat, const json_t *one, ig_string *out) {
    ig_chat_message messages[MESSAGES_MAX] = {{0}};
    const json_t *list = json_object_get(one, "messages"), *tools = json_object_get(one, "tools");
    const size_t count = json_array_size(list);
    assert_in_range(count, 1, MESSAGES_MAX);
    for (size_t i = 0; i < count; i++)
        messages[i].extra = json_dumps(json_array_get(list, i), JSON_COMPACT);
    char *tools_text = tools ? json_dumps(tools, JSON_COMPACT) : NULL;
    char *variables = variables_of(one);
    const ig_chat_options how = {.tools = tools_text,
                                 .variables = variables,
                                 .no_reply =
                                     json_is_false(json_object_get(one, "add_generation_prompt")),
                                 .now = NOW};
    const ig_status status = ig_chat_render(chat, NULL, messages, count, &how, out);
    free(variables);
    free(tools_text);
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)messages[i].extra);
    return status;
}

/* `want` has "text", or "refused" with the reason: of exceptions that the template raises, in its
 * words. */
static void check_case(const ig_chat_template *chat, const char *name, const json_t *one,
                       const json_t *want, counts *n) {
    static const char raised[] = "TemplateError: ";
    ig_string text = {.allocator = &ig_heap};
    const ig_status status = render(chat, one, &text);
    const char *wanted = json_string_value(json_object_get(want, "text"));
    const char *refused = json_string_value(json_object_get(want, "refused"));
    if (wanted && status != IG_OK) fail_msg("%s: %s", name, ig_error_text());
    if (!wanted && status == IG_OK) fail_msg("%s: renders; jinja2: %s", name, refused);
    if (wanted && strcmp(text.bytes, wanted) != 0)
        fail_msg("%s renders\n%s\njinja2 renders\n%s", name, text.bytes, wanted);
    if (!wanted) assert_int_equal(status, IG_ERR_FORMAT);
    if (!wanted && strncmp(refused, raised, sizeof raised - 1) == 0 &&
        !strstr(ig_error_text(), refused + sizeof raised - 1))
        fail_msg("%s: '%s', not '%s'", name, ig_error_text(), refused);
    ++*(wanted ? &n->rendered : &n->refused);
    ig_string_deinit(&text);
}

static void check_template(const char *folder, const char *file, const json_t *cases, counts *n) {
    char path[1024], name[512];
    ig_chat_template *chat = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    must(ig_chat_template_open(path, NULL, &chat));
    snprintf(name, sizeof name, "%.*s.json", (int)(strlen(file) - strlen(".jinja")), file);
    json_t *wanted = load(folder, name), *want;
    const char *key;
    json_object_foreach(wanted, key, want) {
        const json_t *one = json_object_get(cases, key);
        assert_non_null(one);
        snprintf(name, sizeof name, "%s: %s", file, key);
        check_case(chat, name, one, want, n);
    }
    json_decref(wanted);
    ig_chat_template_destroy(chat);
}

static void templates_of_models_render_as_jinja2_renders_them(void **state) {
    (void)state;
    char folder[512];
    counts n = {0};
    snprintf(folder, sizeof folder, "%s/templates", shared_data());
    DIR *dir = opendir(folder);
    if (!dir) skip();
    json_t *cases = load(folder, "CASES.json");
    for (struct dirent *e; (e = readdir(dir));) {
        const char *ending = strrchr(e->d_name, '.');
        if (ending && strcmp(ending, ".jinja") == 0) check_template(folder, e->d_name, cases, &n);
    }
    closedir(dir);
    json_decref(cases);
    print_message("%zu conversations rendered, %zu refused\n", n.rendered, n.refused);
    assert_true(n.rendered > 200 && n.refused > 10);
}

int main(void) {
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_of_models_render_as_jinja2_renders_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
