/* Chat templates: what they render, who wrote each byte of it, and what ends them. */
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja/jinja.h"
#include "unit/meter.h"

static const char variables_json[] =
    "{\"n\":7,\"s\":\"Hi "
    "<b>\",\"u\":\"h\\u00e9\\u4f60\",\"list\":[3,1,2],\"yes\":true,\"nil\":null,"
    "\"d\":{\"b\":1,\"a\":[1,2.5],\"q\":\"it's\"},"
    "\"messages\":[{\"role\":\"user\",\"content\":\" Hi <s> \"},"
    "{\"role\":\"assistant\",\"content\":\"Yo\"}]}";

static ig_status render(const ig_allocator *a, const char *template, size_t n_bytes,
                        ig_jinja_text *out) {
    json_t *given = json_loads(variables_json, 0, NULL);
    const ig_jinja_variables variables = {.given = given, .bos = {"<s>", 3}, .eos = {"</s>", 4}};
    ig_jinja *jinja = NULL;
    out->allocator = a;
    ig_status status = ig_jinja_parse(a, template, n_bytes, &jinja);
    if (status == IG_OK) status = ig_jinja_render(jinja, &variables, out);
    ig_jinja_destroy(jinja);
    json_decref(given);
    return status;
}

static void gives(const char *template, const char *want) {
    ig_jinja_text text = {0};
    const ig_status status = render(&ig_heap, template, strlen(template), &text);
    if (status != IG_OK) fail_msg("%s: %s", template, ig_error_text());
    if (strcmp(text.bytes, want) != 0)
        fail_msg("%s: \"%s\", not \"%s\"", template, text.bytes, want);
    ig_jinja_text_deinit(&text);
}

/* The same with what was given in braces. */
static void marks(const char *template, const char *want) {
    ig_jinja_text text = {0};
    char got[1024] = "";
    size_t used = 0;
    must(render(&ig_heap, template, strlen(template), &text));
    for (size_t i = 0; i < text.n_spans; i++)
        used += (size_t)snprintf(got + used, sizeof got - used,
                                 text.spans[i].special ? "%.*s" : "{%.*s}",
                                 (int)text.spans[i].n_bytes, text.spans[i].bytes);
    if (strcmp(got, want) != 0) fail_msg("%s: \"%s\", not \"%s\"", template, got, want);
    ig_jinja_text_deinit(&text);
}

static void fails(const char *template, ig_status status, const char *words) {
    ig_jinja_text text = {0};
    refused(render(&ig_heap, template, strlen(template), &text), status, words);
    assert_null(text.bytes);
}

static void fails_to_parse(const char *template, const char *words) {
    fails(template, IG_ERR_FORMAT, words);
}

static void fails_to_render(const char *template, const char *words) {
    fails(template, IG_ERR_FORMAT, words);
}

/* ---- What is rendered ---- */

static void white_space_goes_as_with_trim_and_lstrip_blocks(void **state) {
    (void)state;
    gives("a\n  {% if yes %}\n b\n  {% endif %}\nc\n", "a\n b\nc");
    gives("a {%- if yes -%} b {%- endif -%} c", "abc");
    gives("a\n {%+ if yes +%}\n b{% endif %}", "a\n \n b");
    gives("a\n {# c #}\n{{ n }}\n b {#- c -#} d", "a\n7\n bd");
    gives("{{- n -}} x {{ n }}\n\n", "7x 7\n");
    gives("a\r\nb\rc", "a\nb\nc");
    gives("{% raw %}{{ n }}{% endraw %}\nb", "{{ n }}b");
    gives("", "");
}

static void expressions_are_python_s(void **state) {
    (void)state;
    gives("{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 1 / 2 }} {{ 2 ** 10 }}",
          "7 3 -4 2 0.5 1024");
    gives("{{ 'a' ~ 1 ~ none }} {{ 'a' 'b' }} {{ 'ab' * 2 }} {{ [1] + [2] }}",
          "a1None ab abab [1, 2]");
    gives("{{ 1 < 2 < 3 }} {{ 1 in list }} {{ 9 not in list }} {{ 'b' in d }}",
          "True True True True");
    gives("{{ 'a' if yes else 'b' }}{{ 'a' if nil }}{{ not yes or 3 }}", "a3");
    gives("{{ list[0] }}{{ list[-1] }}{{ list[1:] }}{{ list[::-1] }}{{ u[1] }}{{ u[-1] }}",
          "32[1, 2][2, 1, 3]\xC3\xA9\xE4\xBD\xA0");
    gives("{{ d.b }}{{ d['b'] }}{{ d.zz }}{{ d.get('zz', 4) }}{{ d.a.1 }}", "1142.5");
    gives("{{ n is odd }} {{ zz is defined }} {{ s is string }} {{ nil is not none }}",
          "True False True False");
    gives("{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 100.0 }}",
          "0.30000000000000004 1e+16 1e-05 100.0");
    gives("{{ d }} {{ (1,) }} {{ 'a\\n' ~ '\\u00e9' }}",
          "{'b': 1, 'a': [1, 2.5], 'q': \"it's\"} (1,) a\n\xC3\xA9");
    gives("{{ '%s-%03d' % ('a', 5) }} {{ '{} {x:>3}'.format(1, x=2) }}", "a-005 1   2");
}

static void statements_keep_python_s_scopes(void **state) {
    (void)state;
    gives("{% for i in list if i > 1 %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}"
          "{% else %}none{% endfor %}",
          "13,22");
    gives("{% for i in [] %}x{% else %}none{% endfor %}", "none");
    gives("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}"
          "{% break %}{% endif %}{{ i }}{% endfor %}",
          "02");
    gives("{% set a = 1 %}{% for i in list %}{% set a = i %}{% endfor %}{{ a }}", "1");
    gives("{% set ns = namespace(a=0) %}{% for i in list %}{% set ns.a = ns.a + i %}{% endfor %}"
          "{{ ns.a }}",
          "6");
    gives("{% set a, b = 1, 2 %}{{ b }}{% set t | upper %}x{{ a }}y{% endset %}{{ t }}", "2X1Y");
    gives(
        "{% macro m(a, b='q') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}{{ m() }}",
        "[1q][32][q]");
    gives("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ x }}{{ n }}{% endcall "
          "%}",
          "<17>");
    gives(
        "{% set ns = namespace(m=none) %}{% for i in list %}{% if i == 1 %}"
        "{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endif %}{% endfor %}{{ ns.m() }}",
        "1"); /* it keeps the turn that it was made in */
    gives("{% for i in list %}{{ x }}{% set x = i %}{{ x }}{% endfor %}", "312");
    gives("{% filter upper %}a{{ s }}{% endfilter %}{% generation %}g{% endgeneration %}",
          "AHI <B>g");
}

static void filters_and_methods_are_jinja_s(void **state) {
    (void)state;
    gives("{{ d|tojson }}", "{\"b\": 1, \"a\": [1, 2.5], \"q\": \"it's\"}");
    gives("{{ [1]|tojson(indent=2) }}{{ u|tojson }}{{ '<\\n'|tojson }}",
          "[\n  1\n]\"h\xC3\xA9\xE4\xBD\xA0\"\"<\\n\"");
    gives("{{ list|sort|join(',') }} {{ list|length }} {{ u|length }} {{ list|first }}",
          "1,2,3 3 3 3");
    gives("{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list }}",
          "[' Hi <s> ']");
    gives("{{ 'x'|default('y') }}{{ zz|default('y') }}{{ ''|default('z', true) }}", "xyz");
    gives("{{ 'a,b'.split(',') }}{{ '  a '.strip() }}{{ 'abc'.replace('b', '') }}",
          "['a', 'b']aac");
    gives("{{ 'a\\nb'|indent(2) }}{{ '3'|int + 1 }}{{ 2.5|round }}{{ 'hi you'|title }}",
          "a\n  b42.0Hi You");
    gives("{{ d|dictsort|first }}{{ list|map('string')|first }}", "('a', [1, 2.5])3");
    gives("{{ ('{\"k\": \"v\"}'|from_json).k }}", "v");
    gives("{{ strftime_now('%Y') }}", "1970");
}

static void texts_that_grow_leave_what_they_were(void **state) {
    (void)state;
    gives("{% set a = s + 'x' %}{% set b = a + 'y' %}{% set c = a + 'z' %}{% set d = b ~ b ~ n %}"
          "{{ a }}|{{ b }}|{{ c }}|{{ d }}|{{ a ~ (a ~ 'q') ~ 'r' }}",
          "Hi <b>x|Hi <b>xy|Hi <b>xz|Hi <b>xyHi <b>xy7|Hi <b>xHi <b>xqr");
    marks("{% set a = 'x' + 'y' %}{% set b = a + s %}{{ a }}|{{ b }}", "xy|xy{Hi <b>}");
    /* Copies of all turns would be more than there may be. */
    gives("{% set ns = namespace(s='', t='') %}{% for i in range(20000) %}"
          "{% set ns.s = ns.s + 'abcdefgh' %}{% set ns.t = ns.t ~ s ~ '!' %}{% endfor %}"
          "{{ ns.s|length }} {{ ns.t|length }}",
          "160000 140000");
}

/* ---- Who wrote it ---- */

static void every_byte_knows_who_wrote_it(void **state) {
    (void)state;
    marks("{{ bos_token }}<u>{{ messages[0].content }}</u>{{ eos_token }}",
          "<s><u>{ Hi <s> }</u></s>");
    marks("{{ '<' ~ s ~ '>' }}", "<{Hi <b>}>");
    marks("{{ ('<' + s + '>')[1:-2] }}", "{Hi <b}");
    marks("{{ messages[0].content|trim|upper }}!", "{HI <S>}!");
    marks("{{ s.replace('Hi', '<s>') }}", "<s>{ <b>}");
    marks("{{ (s ~ ',x').split(',')|join('+') }}", "{Hi <b>}+x");
    marks("{{ {'k': s}|tojson }}", "{\"k\": {\"Hi <b>\"}}");
    marks("{{ messages[1]|tojson }}", "{{\"role\": }\"assistant\"{, \"content\": \"Yo\"}}");
    marks("{{ '%s|%d' % (s, n) }}{{ '[{}]'.format(s) }}", "{Hi <b>}|{7}[{Hi <b>}]");
    marks("{% set t %}a{{ s }}{% endset %}{{ t[:3] }}", "a{Hi}");
    marks("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(s) }}", "<{Hi <b>}>");
    marks("{% for m in messages %}{{ m.role }}:{% endfor %}", "user:assistant:");
    marks("{{ '<|' + messages[0].role + '|>' }}", "<|user|>");
    marks("{% if messages[0].role == 'user' %}<|user|>{% endif %}{{ n }}", "<|user|>{7}");
    marks("{{ s|list|reverse|join }}", "{>b< iH}");
    marks("{{ 'a' if s }}{{ zz }}", "a");
}

/* ---- What is refused ---- */

static void what_is_wrong_is_said_with_its_line(void **state) {
    (void)state;
    fails_to_parse("a\nb{% if yes %}\n", "line 2: what begins here has no endif");
    fails_to_parse("\n{% include 'x' %}", "line 2: tag 'include' is not known");
    fails_to_parse("{{ 1 + }}", "line 1: }} stands where it cannot");
    fails_to_parse("{{ a b }}", "'b' stands where it cannot");
    fails_to_parse("{{ 'a }}", "a string has no end");
    fails_to_parse("{{ a", "{{ has no end");
    fails_to_parse("{# a", "a comment has no end");
    fails_to_parse("{{ a ! b }}", "a character stands where none can: 0x21");
    fails_to_parse("{{ ] }}", "']' closes nothing");
    fails_to_parse("{% break %}", "need a loop");
    fails_to_parse("{{ 99999999999999999999 }}", "more than 64 bits hold");
    fails_to_render("\n\n{{ s|foo }}", "chat template, line 3: filter 'foo' is not known");
    fails_to_render("{{ s is foo }}", "test 'foo' is not known");
    fails_to_render("{{ foo() }}", "'foo' is undefined");
    fails_to_render("{{ foo.bar }}", "'foo' is undefined");
    fails_to_render("{{ d.foo.bar }}", "'foo' is undefined");
    fails_to_render("{{ 1 + 'a' }}", "a number + a string cannot be computed");
    fails_to_render("{{ 1 / 0 }}", "division by zero");
    fails_to_render("{{ 9223372036854775807 + 1 }}", "integer overflow");
    fails_to_render("{{ (-9223372036854775807 - 1) // -1 }}", "integer overflow");
    fails_to_render("{{ raise_exception('roles must ' ~ 'alternate') }}",
                    "line 1: roles must alternate");
    fails_to_render("{{ s|trim(1, 2) }}", "trim: 2 arguments");
    fails_to_render("{{ s|trim(foo=1) }}", "trim: argument 'foo' is not known");
    fails_to_render("{% set d.x = 1 %}", "only a namespace can be written to");
    fails_to_render("{% set a, b = [1] %}", "1 values for 2 names");
    fails_to_render("{% for i in 3 %}{% endfor %}", "a number has no elements");
    fails_to_render("{{ {[]: 1} }}", "a list cannot be a key");
    fails_to_render("\n{{ list.append(1) }}",
                    "line 2: 'append' is not allowed: templates cannot change values");
    fails_to_render("{{ list|map('string')|tojson }}", "tojson: a generator cannot be JSON");
    fails_to_render("{{ raise_exception('a' ~ '\u00e9' * 300) }}", "a\xC3\xA9");
    fails_to_render("\n{{ '[1,'|from_json }}",
                    "chat template, line 2: from_json: the text is not JSON");
}

static char *repeated(const char *before, const char *part, size_t times, const char *behind) {
    const size_t n = strlen(part);
    char *text = calloc(strlen(before) + times * n + strlen(behind) + 1, 1);
    char *at = stpcpy(text, before);
    for (size_t i = 0; i < times; i++) at = stpcpy(at, part);
    strcpy(at, behind);
    return text;
}

static void fails_repeated(const char *before, const char *part, size_t times, const char *behind,
                           ig_status status, const char *words) {
    char *text = repeated(before, part, times, behind);
    fails(text, status, words);
    free(text);
}

static void nothing_goes_on_for_ever(void **state) {
    (void)state;
    fails_to_render("{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}",
                    "takes more than 1000000 steps");
    fails_to_render("{{ range(1000000000)|list|length }}", "range: more than 100000 numbers");
    fails_to_render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                    "macro 'm': calls more than 64 deep");
    char *sum = repeated("{% macro m() %}{{ m()|int", " + 1", 200, " }}{% endmacro %}{{ m() }}");
    fails_to_render(sum, "blocks, expressions and calls more than 2048 deep");
    free(sum);
    fails_to_render("{{ 'a' * 5000000 }}", "a text becomes longer than 4 MB");
    fails_to_render("{% set a = 'abcdefgh' * 1000 %}{{ a * 1000 }}", "longer than 4 MB");
    fails_to_render("{% set ns = namespace(s='abcdefgh' * 10000) %}"
                    "{% for i in range(50) %}{% set x = ns.s * 50 %}{% endfor %}",
                    "needs more than 128 MB");
    fails_to_render("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
                    "values more than 64 deep");
    fails_to_render("{% set ns = namespace(a=[], b=[]) %}{% for i in range(99) %}"
                    "{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}",
                    "values more than 64 deep");
    fails_to_render("{% for i in [1] recursive %}{{ loop([i]) }}{% endfor %}",
                    "loop: calls more than 64 deep");
    fails_to_render("{{ 'a'.ljust(99999999) }}", "a text becomes longer than 4 MB");
    fails_to_render("{{ 'a'|center(99999999) }}", "a text becomes longer than 4 MB");
    fails_to_render("{{ list|slice(999999999)|list }}", "needs more than 128 MB");
    fails_to_render("{{ list|batch(999999999, 'x')|list }}", "needs more than 128 MB");
    fails_to_render("{{ '%*d' % (99999, 1) }}", "* needs an integer up to 1000");
    fails_to_render("{{ '{:99999}'.format(1) }}", "more than 1000 characters");
    char *open = repeated("{{ ", "[", 100, ""), *nested = repeated(open, "]", 100, " }}");
    fails_to_parse(nested, "more than 64 deep");
    free(nested);
    free(open);
    fails_repeated("{{ ", "not ", 100, "1 }}", IG_ERR_FORMAT, "more than 64 deep");
    fails_repeated("{{ ", "-", 100, "1 }}", IG_ERR_FORMAT, "more than 64 deep");
    fails_repeated("{{ 1", " if 1 else 1", 100, " }}", IG_ERR_FORMAT, "more than 64 deep");
    fails_repeated("", "{% if 1 %}", 100, "", IG_ERR_FORMAT, "more than 64 deep");
    fails_repeated("{{ 1", " + 1", 300, " }}", IG_ERR_FORMAT, "more than 256 parts in a row");
    fails_repeated("{{ a", ".a", 300, " }}", IG_ERR_FORMAT, "more than 256 parts in a row");
    fails_repeated("", "a", IG_JINJA_TEMPLATE_MAX + 1, "", IG_ERR_FORMAT, "more than 1048576");
}

static void a_lack_of_memory_is_an_error(void **state) {
    (void)state;
    static const char template[] =
        "{% macro m(a, b=1) %}{{ a }}{{ b }}{% endmacro %}{% for x in messages %}{{ "
        "m(x.content|trim) }}"
        "{{ x|tojson }}{% endfor %}{{ '%s' % s }}{{ list|sort|join(',') }}{{ 'a\\n' ~ s }}";
    ig_jinja_text text = {0};
    uint64_t fail_at = 0;
    for (ig_status status = IG_ERR_MEMORY; status != IG_OK;) {
        meter m = {.fail_at = ++fail_at};
        const ig_allocator a = meter_allocator(&m);
        status = render(&a, template, sizeof template - 1, &text);
        if (status != IG_OK) {
            assert_int_equal(status, IG_ERR_MEMORY);
            assert_non_null(strstr(ig_error_text(), "chat template"));
        } else {
            assert_false(m.failed);
            ig_jinja_text_deinit(&text);
        }
        assert_int_equal(m.held, 0);
    }
    assert_true(fail_at > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_goes_as_with_trim_and_lstrip_blocks),
        cmocka_unit_test(expressions_are_python_s),
        cmocka_unit_test(statements_keep_python_s_scopes),
        cmocka_unit_test(filters_and_methods_are_jinja_s),
        cmocka_unit_test(texts_that_grow_leave_what_they_were),
        cmocka_unit_test(every_byte_knows_who_wrote_it),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line),
        cmocka_unit_test(nothing_goes_on_for_ever),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
