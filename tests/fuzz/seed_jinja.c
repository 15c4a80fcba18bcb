/* seed_jinja FOLDER - writes chat templates to begin fuzzing with. */
#include <stdio.h>
#include <string.h>

#include "seed.h"

static const char *const seeds[] = {
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}{% endif %}",
    "{%- macro m(a, b=2, c='x') -%}{{ a }}{{ b|upper }}{%- endmacro -%}{{ m(1, c=s) }}"
    "{% call(i) m(3) %}{{ i }}{% endcall %}",
    "{% set ns = namespace(a=1) %}{% for i in list if i > 1 %}{% set ns.a = ns.a + i %}{{ "
    "loop.last "
    "}}{{ loop.previtem }}{% if i %}{% continue %}{% else %}{% break %}{% endif %}{% else %}e{% "
    "endfor %}{{ ns.a }}",
    "{{ messages[1:]|map(attribute='role')|list }}{{ messages|selectattr('content')|first }}{{ "
    "messages|tojson(indent=2) }}{{ s.split(',', 1)[::-1] }}{{ s % n }}{{ s.format(n) }}",
    "{# c -#}{% raw %}{{ x }}{% endraw %}{%+ set t | trim %} {{ 1.5e3 // -2 }} {% endset %}{{ t }}",
    "{{ 'a' if n is divisibleby 7 and not list is mapping else [1, {'k': (1, 2)}]|string ~ none }}",
    "{% filter indent(2, true) %}a\nb{% endfilter %}{{ list|sort(reverse=true)|join(', ') }}{{ "
    "'%05.1f|%-5s|%(a)s' % (2.25, s) }}{{ '{:>5}|{0!r}'.format(s) }}",
    "{{ s.strip('a').replace('b', 'cc').rsplit(',', 1) }}{{ range(1, 9, 2)|sum }}{{ "
    "messages[2].tool_calls[0].function.arguments|dictsort }}{{ '[1, \"x\"]'|from_json }}{{ "
    "strftime_now('%Y') }}",
    "{% for i in [[1, [2]], 3] recursive %}{% if i is iterable %}{{ loop(i) }}{% else %}{{ i }}{{ "
    "loop.depth }}{% endif %}{% endfor %}{% with a = 1, b = n %}{{ a }}{% endwith %}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{{ caller() }}{% endmacro %}{% call m(1, 2, x=3) %}"
    "{{ m.name }}{% endcall %}{% autoescape true %}{{ s ~ '<' }}{% endautoescape %}",
    "{{ ('<%s>'|safe) % s + '<' }}{{ list|map('string')|list }}{{ range(9)[::-2] }}{{ "
    "messages[2].items()|list }}{{ list|slice(2)|list }}{{ list|batch(2, 0)|list }}{{ "
    "messages|groupby('role') }}{{ list|select|first }}",
    "{{ '{:>{}}|{0[0]:,.2f}'.format(s, 5) }}{{ '{:#x}'.format(n) }}{{ '%*.3f|%c|%a' % (8, 1.5, 65, "
    "s) }}{{ s.rsplit(none, 1) }}{{ s.center(9, '*') }}{{ s.find('b', -3) }}{{ 0x1F }}",
    "{% set c = cycler(1, 2) %}{{ c.next() }}{% set j = joiner() %}{{ j() }}{{ j() }}{% set a, (b, "
    "c) = 1, (2, 3) %}{% block x %}{{ a }}{% endblock %}{{ s|truncate(2, true, '') }}{{ "
    "s|urlencode }}{{ '1_0'|int(0, 16) }}{{ 1250|round(-2) }}",
};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_jinja FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        if (!seed_write(argv[1], i, seeds[i], strlen(seeds[i]))) return 1;
    return 0;
}
