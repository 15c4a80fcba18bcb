#!/usr/bin/env python3
"""check_jinja.py RENDER_JINJA [FOLDER]...: what Python's jinja2 makes of the same templates.

Expressions and small templates, many of them put together at random, and all *.jinja files of the
folders, with conversations of several kinds, are rendered by jinja2 as Hugging Face's transformers
set it up, and by RENDER_JINJA (tests/peers/render_jinja.c). Fails where texts differ, and where one
refuses what the other renders. SEED in the environment draws other templates.

Run with the interpreter of tests/peers/venv transformers; tools/test --e2e does.
"""
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1783168200
# A template in each line, where U+23CE stands for a line break: the parts of the language one by one.
LANGUAGE = pathlib.Path(__file__).resolve().parents[1] / "golden/templates/language.txt"
RANDOM_TEMPLATES = 4000

VARIABLES = {
    "bos_token": "<s>", "eos_token": "</s>", "n": 7, "x": 2.5, "neg": -3, "yes": True, "no": False, "nil": None,
    "s": "Hello, World", "u": "h\u00e9llo \u4f60\u597d \U0001f600", "lines": "one\ntwo\n\n  three\n", "empty": "", "padded": "  a b \n",
    "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "mixed": [1, "a", None, True, 2.0, [1], {"k": "v"}],
    "d": {"b": 1, "a": [1, 2], "C": {"x": "y"}, "quote": "it's \"so\""}, "none_d": {},
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "Bob", "age": 25}, {"name": "cy", "age": None}],
}

# Written out: what is easily got wrong.
TEMPLATES = [
    "{{ 1 }}{{ 1.0 }}{{ 1e16 }}{{ 1e-5 }}{{ 0.1 + 0.2 }}{{ 1/3 }}{{ 2**10 }}{{ -7 // 2 }}{{ -7 % 3 }}{{ 7.5 // 2 }}{{ 2**-1 }}",
    "{{ True }}{{ false }}{{ None }}{{ none }}{{ undefined_thing }}|{{ [1, 'a', none, true, 1.5] }}{{ {'a': 1, 'b': [1]} }}{{ (1,) }}{{ () }}",
    "{{ d }}{{ mixed }}{{ [s, u, lines, d.quote, 'a\\\\b', \"it's\", 'say \"x\"'] }}",
    "{% if yes %}\n  A\n{% else %}\n  B\n{% endif %}\nC\n",
    "  {% if yes %}A{% endif %}\n  {{ n }}  \n  {#- c -#}  \n x {%+ if yes +%} y {% endif %}\n\n{%- if yes -%}  z  {%- endif -%}  \n end\n\n",
    "a\n   {# comment #}\n b {# more #} c\n{#- x #}\n\n d {{- n -}} e {{ n }}\nf",
    "{% raw %}{{ x }} {% if %}{% endraw %}\n{%- raw -%}  {{ y }}  {%- endraw -%}\n z",
    "line\r\nother\rthird\n",
    "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}{% for i in list if i > 1 %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}{% for i in list if i > 9 %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in u %}{{ c }}.{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for a in list %}{% for b in list %}{% if b == a %}{% break %}{% endif %}{{ a }}{{ b }} {{ loop.depth }};{% endfor %}{% endfor %}",
    "{% set a = 1 %}{% for i in list %}{% set a = a + i %}{{ a }} {% endfor %}{{ a }}",
    "{% set ns = namespace(a=1, b='x') %}{% for i in list %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}{% set t = 1, %}{{ t }}",
    "{% set t %}a{{ n }}b{% endset %}{{ t }}{{ t|length }}{% set u2 | upper | trim %} abc {% endset %}[{{ u2 }}]",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=1, a=2) }}{{ m() }}{{ m(1)|upper }}",
    "{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * fact(k - 1)|int }}{% endif %}{% endmacro %}{{ fact(6) }}",
    "{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{% set g = 2 %}{{ m() }}{{ g }}",
    "{% macro box(t) %}[{{ t }}:{{ caller() }}]{% endmacro %}{% call box('a') %}in{{ n }}{% endcall %}",
    "{% macro each(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) each(list) %}<{{ i }}>{% endcall %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} aaa {% endfilter %}",
    "{% generation %}a{{ n }}{% endgeneration %}\nb",
    "{{ 'a' if yes else 'b' }}{{ 'a' if no }}{{ 'a' if no else 'b' if no else 'c' }}{{ ('a' if no) is defined }}",
    "{{ 'a' ~ 1 ~ none ~ [1] ~ undefined_thing }}{{ 1 ~ 2 + 3 }}{{ 'a' 'b' \"c\" }}",
    "{{ 1 in list }}{{ 9 not in list }}{{ 'el' in s }}{{ 'b' in d }}{{ 'zz' in d }}{{ not 1 in list }}{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 == true }}",
    "{{ list[0] }}{{ list[-1] }}{{ list[9] }}{{ list[1:] }}{{ list[:-1] }}{{ list[::-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ u[1] }}{{ u[-1] }}{{ u[2:7:2] }}{{ s[:-100] }}{{ s[100:] }}{{ list[::2] }}{{ s[-3:] }}",
    "{{ d.b }}{{ d['b'] }}{{ d.zz }}{{ d['zz'] }}{{ d.C.x }}{{ d.a.0 }}{{ d.get('b') }}{{ d.get('zz') }}{{ d.get('zz', 'q') }}{{ d.items is defined }}{{ d['items'] is defined }}",
    "{{ -n }}{{ +n }}{{ -n|abs }}{{ (-n)|abs }}{{ not yes }}{{ not not yes }}{{ -x }}{{ 2 - -2 }}",
    "{{ mixed|tojson }}{{ d|tojson }}{{ u|tojson }}{{ 'a\\n\\t\"\\\\/<>&\\u0001'|tojson }}{{ d|tojson(indent=2) }}{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ d|tojson(separators=(',', ':')) }}",
    "{{ d|tojson(sort_keys=true) }}{{ u|tojson(ensure_ascii=true) }}{{ {1: 2, none: 3, true: 4}|tojson }}{{ 1e20|tojson }}{{ [1.0, 0.1]|tojson }}{{ d|tojson(ensure_ascii=False, indent=4) }}",
    "{{ '{\"a\": [1, 2.5, \"x\", null, true]}'|from_json }}{{ ('[\"a\"]'|from_json)[0] }}",
    "{{ padded|trim }}|{{ padded.strip() }}|{{ padded.lstrip() }}|{{ padded.rstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xyaxy'|trim('xy') }}|{{ '\u00e9a\u00e9'.strip('\u00e9') }}|{{ '\u3000a'.strip() }}",
    "{{ s.split(', ') }}{{ s.split('o', 1) }}{{ padded.split() }}{{ ' a  b c '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ lines.splitlines() }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a,b'.partition(',') }}{{ 'ab'.rpartition(',') }}",
    "{{ s.startswith('He') }}{{ s.endswith(('x', 'ld')) }}{{ s.replace('l', 'L') }}{{ s.replace('l', 'L', 1) }}{{ 'ab'.replace('', '-') }}{{ s|replace('o', '0') }}{{ s.upper() }}{{ s.lower() }}{{ u.upper() }}",
    "{{ 'hello wORLD-foo (bar)'|title }}{{ 'hello wORLD'.title() }}{{ 'hELLO'|capitalize }}{{ \"they're\".title() }}{{ 'a'.isdigit() }}{{ '12'.isdigit() }}{{ 'ab'.isalpha() }}{{ 'AB'.isupper() }}{{ 'Ab'.islower() }}{{ ' '.isspace() }}",
    "{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}{{ s.count('l') }}{{ u.find('\u597d') }}{{ ', '.join(words) }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'abc'.removesuffix('x') }}",
    "{{ list|sort }}{{ list|sort(reverse=true) }}{{ words|sort }}{{ words|sort(case_sensitive=true) }}{{ people|map(attribute='name')|list }}{{ people|sort(attribute='name')|map(attribute='name')|join(',') }}",
    "{{ d|dictsort }}{{ {'b': 1, 'A': 2}|dictsort(true) }}{{ {'b': 1, 'a': 2}|dictsort(by='value') }}{{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}{{ d|items|list }}",
    "{{ list|first }}{{ list|last }}{{ []|first }}{{ s|first }}{{ s|last }}{{ list|length }}{{ d|length }}{{ u|length }}{{ list|sum }}{{ people|map(attribute='age')|select|sum }}{{ list|min }}{{ list|max }}{{ list|reverse|list }}{{ s|reverse }}",
    "{{ people|selectattr('age')|map(attribute='name')|list }}{{ people|rejectattr('age', 'none')|list|length }}{{ people|selectattr('age', 'gt', 26)|list if false else '' }}{{ people|selectattr('name', 'equalto', 'Bob')|first }}",
    "{{ people|selectattr('tags', 'defined')|list|length }}{{ list|select('odd')|list }}{{ list|reject('odd')|list }}{{ words|map('upper')|list }}{{ list|map('string')|join('+') }}{{ [1, 1, 2]|unique|list }}{{ words|unique|list }}",
    "{{ people|map(attribute='tags.0', default='-')|list }}{{ people|join('|', attribute='name') }}{{ [1, 2]|join }}{{ list|join(', ') }}{{ 'abc'|join('-') }}{{ 'abc'|list }}{{ d|list }}",
    "{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, first=true, blank=true) }}|{{ 'a\\nb'|indent('--') }}|{{ ''|indent }}|{{ 'a\\n'|indent }}",
    "{{ '42'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 3.9|int }}{{ '3.9'|int }}{{ -3.9|int }}{{ '2.5'|float }}{{ 'x'|float }}{{ 2|float }}{{ ' 7 '|int }}{{ none|int }}{{ true|int }}",
    "{{ 2.567|round(2) }}{{ 2.5|round }}{{ 3.5|round }}{{ 2.1|round(method='ceil') }}{{ 2.9|round(0, 'floor') }}{{ 42|round }}{{ 2.675|round(2) }}",
    "{{ undefined_thing|default('q') }}{{ empty|default('q') }}{{ empty|default('q', true) }}{{ none|default('q') }}{{ undefined_thing|d }}{{ d.zz|default(n) }}{{ no|default('z', boolean=true) }}",
    "{{ '%s is %d' % ('a', 3) }}{{ '%05.1f|%-5s|%5s|%x|%%' % (2.25, 'ab', 'cd', 255) }}{{ '%s' % 'x' }}{{ '%s' % [1] }}{{ '%(a)s-%(b)d' % {'a': 1, 'b': 2} }}{{ '%r' % 'a' }}{{ '%s %s'|format('a', 1) }}{{ '%+d % d' % (1, 2) }}",
    "{{ '{} {}'.format(1, 'a') }}{{ '{1} {0}'.format(1, 2) }}{{ '{a}{b}'.format(a=1, b=2) }}{{ '{{}}'.format() }}{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 'q') }}{{ '{:5}|{:5}'.format(1, 'a') }}",
    "{{ n is number }}{{ s is string }}{{ d is mapping }}{{ list is sequence }}{{ list is iterable }}{{ n is iterable }}{{ yes is boolean }}{{ nil is none }}{{ nil is not none }}{{ n is odd }}{{ n is even }}{{ n is divisibleby 7 }}{{ n is divisibleby(2) }}{{ yes is true }}{{ 1 is true }}{{ no is false }}{{ n is integer }}{{ x is float }}{{ s is upper }}{{ 'a' is lower }}{{ n is eq 7 }}{{ n is in [7] }}{{ n is sameas n }}{{ d.zz is undefined }}{{ s is mapping }}{{ s is sequence }}{{ range is callable }}",
    "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ range(3)|list }}{{ range(1, 10, 3)|list }}{{ range(5, 0, -2)|list }}{{ range(0)|list }}{{ strftime_now('%d %b %Y') }}{{ strftime_now('%Y-%m-%d %H:%M') }}",
    "{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l }}{{ l.pop(0) }}{{ l }}{% set e = {'a': 1} %}{{ e.pop('a') }}{{ e.pop('z', 9) }}{{ e }}{% set _ = e.update({'q': 1}) %}{{ e }}{{ e.setdefault('q', 2) }}{{ e.setdefault('r', 3) }}{{ e.keys()|list }}{{ e.values()|list }}",
    "{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' * 3 }}{{ [0] * 2 }}{{ 'a' + 'b' }}{{ 1 + 2.5 }}{{ true + 1 }}{{ 5 / 2 }}{{ 4 / 2 }}{{ 5 // 2 }}{{ 5.0 % 3 }}{{ 7 % -3 }}",
    "{{ [1, 2] == [1, 2] }}{{ {'a': 1} == {'a': 1.0} }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ none == undefined_thing }}{{ undefined_thing == other_thing }}{{ 'a' == 1 }}{{ (1, 2) == [1, 2] }}",
    "{{ yes and n }}{{ no or s }}{{ no and n }}{{ empty or nil }}{{ yes or 1/0 }}{{ not empty and n }}",
    "{{ '\\x41\\u00e9\\101\\q\\'' }}{{ \"a\\\nb\" }}{{ '\\U0001F600' }}",
    "{{ 1_000 }}{{ 1.5e3 }}{{ 12.0 }}{{ 100000000000000000.0 }}{{ 123456789.123 }}{{ 1e15 }}{{ 5e-324 }}{{ 0.0001 }}{{ 0.00001 }}",
    "{{ s | safe }}{{ n | string ~ 'a' }}{{ s|e }}{{ '<a&b>'|escape }}",
    "{% if a is defined and a %}x{% elif n > 5 and not (n > 10) %}y{% else %}z{% endif %}",
    "{{ {'a': {'b': {}}} }}{{ {} }}{{ {'x': 1}['x'] }}{{ [[1], [2]][1][0] }}{{ {'a': 1,} }}{{ [1,] }}",
    "{%- for m in people -%}\n  {%- if loop.first %}\n first\n  {%- endif %}\n{{ m.name }}\n{%- endfor %}\n",
    # what is refused
    "{{ undefined_thing.x }}", "{{ undefined_thing + 1 }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}", "{{ none + 'a' }}", "{{ raise_exception('no') }}", "{{ x.y.z }}",
    "{% if %}", "{% for x %}{% endfor %}", "{{ }}", "{{ 1 +}}", "{% endif %}", "{% if yes %}", "{{ 'abc }}", "{{ (1 }}", "{{ [1 }}", "{{ 1 | }}", "{{ 1 | nofilter }}",
    "{{ 1 is notest }}", "{% unknown %}", "{{ nofunction() }}", "{{ n() }}", "{{ 1 < 'a' }}", "{{ n|length }}", "{% for i in n %}{% endfor %}", "{% set d.x = 1 %}",
    "{% set a, b = [1, 2, 3] %}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{# open", "{{ 'a' in n }}", "{{ undefined_thing|tojson }}",
    "{{ 1 in 'abc' }}", "{{ [1][{}] }}{{ {[1]: 2} }}", "{% break %}", "{{ list.nomethod() }}", "{{ d.zz.y }}", "{{ ns.x }}",
]

# Put together at random.
ATOMS = ["n", "x", "neg", "yes", "no", "nil", "s", "u", "empty", "padded", "lines", "list", "words", "mixed", "d", "people", "nope", "1", "0", "2.5", "'ab'", "''", "[1, 2]", "{'a': 1}",
         "(1, 'b')", "'a,b,c'", "-1", "[]", "d.a", "d.C", "people[0]", "d['quote']", "list[1]", "100"]
FILTERS = ["length", "trim", "string", "upper", "lower", "default('z')", "default('z', true)", "join(',')", "join", "list", "first", "last", "replace('a', 'bb')", "tojson", "tojson(indent=1)",
           "indent(2)", "sort", "unique|list", "sum", "abs", "int", "float", "round", "round(1)", "title", "capitalize", "reverse|list", "map('string')|list", "select|list", "reject('none')|list",
           "map(attribute='name')|list", "selectattr('age')|list", "items|list", "dictsort", "min", "max", "count", "safe"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "boolean", "number", "true", "false", "odd", "even", "integer", "float", "divisibleby(3)", "in [1, 2]", "eq 1"]
METHODS = [".split()", ".split(',')", ".strip()", ".lstrip('a')", ".upper()", ".get('a')", ".get('zz', 3)", ".items()|list", ".keys()|list", ".startswith('a')", ".endswith('c')", ".replace('l', '')", ".a", ".name",
           "[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[::2]", "['a']", "[1:3]", "[n]", ".title()", ".count('a')", ".find('b')"]
SIGNS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in", "not in"]


def expression(rng, depth):
    kind = rng.randrange(9) if depth > 0 else 0
    if kind <= 1:
        return rng.choice(ATOMS)
    inner = expression(rng, depth - 1)
    if kind == 2:
        return f"({inner})|{rng.choice(FILTERS)}"
    if kind == 3:
        return f"({inner}) is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if kind == 4:
        return f"({inner}){rng.choice(METHODS)}"
    if kind == 5:
        return f"({inner} if {expression(rng, depth - 1)} else {expression(rng, depth - 1)})"
    if kind == 6:
        return f"not {inner}"
    if kind == 7:
        return f"[{inner}, {expression(rng, depth - 1)}]"
    return f"({inner} {rng.choice(SIGNS)} {expression(rng, depth - 1)})"


def statements(rng, depth):
    parts = []
    for _ in range(rng.randrange(1, 5)):
        tag = rng.choice(["{%", "{%-", "{%+"]), rng.choice(["%}", "-%}", "+%}"])
        body = statements(rng, depth - 1) if depth > 0 else "t"
        parts.append(rng.choice(["a", " ", "\n", "  \n ", "\t", "x\n\n", ""]))
        kind = rng.randrange(11)
        if kind == 0:
            parts.append("{{" + rng.choice(["", "-"]) + " " + expression(rng, 2) + " " + rng.choice(["", "-"]) + "}}")
        elif kind == 1:
            parts.append(f"{tag[0]} if {expression(rng, 1)} {tag[1]}{body}{tag[0]} else {tag[1]}e{tag[0]} endif {tag[1]}")
        elif kind == 2:
            parts.append(f"{tag[0]} for i in {rng.choice(['list', 'words', 'd', 's', 'people', '[]', 'nope'])} {tag[1]}{body}{{{{ loop.index }}}}{tag[0]} endfor {tag[1]}")
        elif kind == 3:
            parts.append(f"{tag[0]} set v = {expression(rng, 2)} {tag[1]}{{{{ v }}}}")
        elif kind == 4:
            parts.append(rng.choice(["{#", "{#-"]) + " c " + rng.choice(["#}", "-#}"]))
        elif kind == 5:
            parts.append(f"{tag[0]} set w {tag[1]}{body}{tag[0]} endset {tag[1]}[{{{{ w }}}}]")
        elif kind == 6:
            default, given = expression(rng, 1), rng.choice(["", "1", "b=2", "1, 2", "b=n, a=s", "1, 2, 3"])
            parts.append(f"{tag[0]} macro m(a, b={default}) {tag[1]}<{{{{ a }}}}{{{{ b }}}}{body}>{tag[0]} endmacro {tag[1]}{{{{ m({given}) }}}}")
        elif kind == 7:
            jump = rng.choice(["break", "continue"])
            parts.append(f"{tag[0]} for a in words {tag[1]}{tag[0]} if {expression(rng, 1)} {tag[1]}{body}{tag[0]} {jump} {tag[1]}{tag[0]} endif {tag[1]}{{{{ a }}}}{tag[0]} endfor {tag[1]}")
        elif kind == 8:
            parts.append(f"{tag[0]} set ns = namespace(a=1) {tag[1]}{tag[0]} for i in list if {expression(rng, 1)} {tag[1]}{tag[0]} set ns.a = ns.a + i {tag[1]}{body}{tag[0]} endfor {tag[1]}{{{{ ns.a }}}}")
        elif kind == 9:
            parts.append(f"{tag[0]} filter {rng.choice(['upper', 'trim', 'indent(2)', 'tojson'])} {tag[1]}{body}{tag[0]} endfilter {tag[1]}")
        elif kind == 10:
            form = rng.choice(["'%s|%5s|%-4s|'", "'%d %s %r'", "'%.2f %s %s'", "'%s'", "'%%'", "'{}{}{}'", "'{0}{2}'", "'{:>6}{:5}'"])
            values = ", ".join(expression(rng, 1) for _ in range(3))
            parts.append("{{ " + (f"{form} % ({values})" if "%" in form else f"{form}.format({values})") + " }}")
    return "".join(parts)


TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Tells the \"weather\" & more.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Which city", "enum": ["Bern", "Z\u00fcrich"]}, "days": {"type": "integer", "default": 1},
                                     "where": {"type": "array", "items": {"type": "number"}}, "opts": {"type": "object", "properties": {"deep": {"type": "boolean"}}}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "stop", "description": "Stops.", "parameters": {"type": "object", "properties": {}}}}]
SYSTEM = {"role": "system", "content": "Be brief.\nBe kind. "}
USER = {"role": "user", "content": " Hi! <|im_end|> \u4f60\u597d\n"}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}
AGAIN = {"role": "user", "content": "Bye"}


def call(arguments, number="call12345"):
    return {"role": "assistant", "content": "", "tool_calls": [{"id": number, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}]}


CALL = call({"city": "Bern", "days": 2, "where": [1.5, 2], "opts": {"deep": True, "none": None}})
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": "{\"sun\": true}"}
CONVERSATIONS = {
    "one": ([USER], {}),
    "system": ([SYSTEM, USER], {}),
    "turns": ([USER, ANSWER, AGAIN], {}),
    "system turns": ([SYSTEM, USER, ANSWER, AGAIN], {}),
    "whole": ([SYSTEM, USER, ANSWER], {"add_generation_prompt": False}),
    "thinking": ([USER, ANSWER, AGAIN], {"enable_thinking": True}),
    "not thinking": ([USER, ANSWER, AGAIN], {"enable_thinking": False}),
    "reasoning": ([USER, {"role": "assistant", "content": "Hello.", "reasoning_content": "hm"}, AGAIN], {}),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " there"}]}], {}),
    "tools": ([USER], {"tools": TOOLS}),
    "system tools": ([SYSTEM, USER], {"tools": TOOLS}),
    "called": ([USER, CALL, RESULT], {"tools": TOOLS}),
    "called text": ([USER, call("{\"city\": \"Bern\"}"), RESULT], {"tools": TOOLS}),
    "called turns": ([SYSTEM, USER, CALL, RESULT, ANSWER, AGAIN, CALL, RESULT], {"tools": TOOLS}),
    "null content": ([USER, {**CALL, "content": None}, RESULT], {"tools": TOOLS}),
}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.If(jinja2.nodes.Const(True), body, [], [], lineno=line)


def environment():
    def refuse(words):
        raise jinja2.exceptions.TemplateError(words)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.filters["from_json"] = json.loads
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)
    return made


def render(made, job):
    try:
        return {"text": made.from_string(job["template"]).render(**json.loads(json.dumps(job["variables"])))}
    except Exception as error:  # whatever Python refuses it with
        return {"error": f"{type(error).__name__}: {error}"}


def jobs(folders):
    for template in TEMPLATES + [line.replace("\u23ce", "\n") for line in LANGUAGE.read_text().split("\n") if line]:
        yield template, {"template": template, "variables": VARIABLES}
    rng = random.Random(int(os.environ.get("SEED", 1)))
    for _ in range(RANDOM_TEMPLATES):
        template = "{{ " + expression(rng, 3) + " }}" if rng.random() < 0.6 else statements(rng, 2)
        yield template, {"template": template, "variables": VARIABLES}
    for path in (p for folder in folders for p in sorted(pathlib.Path(folder).glob("*.jinja"))):
        for name, (messages, more) in CONVERSATIONS.items():
            variables = {"messages": messages, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **more}
            yield f"{path.name}: {name}", {"template": path.read_text(), "variables": variables}


# Values that print as an address have no text to compare, and jinja2 says nothing of
# slices of numbers if they are constants.
def incomparable(want, ours):
    hidden = (" at 0x", " AT 0X", "<built-in method")
    return any(word in want.get("text", "") for word in hidden) or ("text" in want and "has no slices" in ours.get("error", ""))


def main(program, *folders):
    os.environ["TZ"] = "UTC"
    time.tzset()
    made = environment()
    all_jobs = list(jobs(folders))
    lines = "".join(json.dumps(job) + "\n" for _, job in all_jobs)
    done = subprocess.run([program], input=lines.encode(), capture_output=True, check=True)
    got = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    counts = {"the same text": 0, "refused by both": 0, "not comparable": 0, "different": 0}
    files, bad = {}, {}
    for (name, job), ours in zip(all_jobs, got, strict=True):
        want = render(made, job)
        file = name.split(":")[0] if name.split(":")[0].endswith(".jinja") else None
        if file:
            files[file] = files.get(file, 0) + ("text" in want)
        if incomparable(want, ours):
            counts["not comparable"] += 1
        elif want == ours:
            counts["the same text"] += 1
        elif "error" in want and "error" in ours:
            counts["refused by both"] += 1
        else:
            counts["different"] += 1
            bad[file] = bad.get(file, 0) + 1
            print(f"--- {name}\n  jinja2: {str(want)[:600]}\n  ingot:  {str(ours)[:600]}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if files:
        agree = sum(file not in bad for file in files)
        print(f"{agree} of {len(files)} files agree, {sum(files.values())} conversations were rendered")
    return counts["different"] > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
