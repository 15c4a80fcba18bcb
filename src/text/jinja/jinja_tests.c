/* Tests: what stands behind `is`. */
#include <string.h>

#include "text/jinja/jinja_strings.h"

static ig_status says(bool truth, jinja_value *out) {
    *out = jinja_bool(truth);
    return IG_OK;
}

static ig_status test_defined(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind != JINJA_V_UNDEFINED, out);
}

static ig_status test_undefined(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_UNDEFINED, out);
}

static ig_status test_none(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_NONE, out);
}

static ig_status test_string(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_STRING, out);
}

static ig_status test_mapping(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_DICT, out);
}

static bool has_elements(jinja_value v) {
    return v.kind == JINJA_V_STRING || v.kind == JINJA_V_DICT || v.kind == JINJA_V_UNDEFINED ||
           jinja_is_list(v);
}

static ig_status test_iterable(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(has_elements(call->self) || call->self.kind == JINJA_V_LOOP ||
                    call->self.kind == JINJA_V_SERIES,
                out);
}

static ig_status test_sequence(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(has_elements(call->self) ||
                    (call->self.kind == JINJA_V_SERIES && call->self.series->kind == JINJA_RANGE),
                out);
}

static ig_status test_escaped(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(jinja_is_markup(call->self), out);
}

/* Whether there is a filter, or a test, of this name. */
static ig_status is_function(const jinja_call *call, bool is_filter, jinja_value *out) {
    const jinja_value v = call->self;
    if (v.kind != JINJA_V_STRING) return says(false, out);
    const jinja_name name = {v.string->bytes, v.string->n_bytes};
    return says(is_filter ? jinja_find_filter(name) : jinja_find(jinja_tests, name), out);
}

static ig_status test_filter(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return is_function(call, true, out);
}

static ig_status test_test(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return is_function(call, false, out);
}

static ig_status test_boolean(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_BOOL, out);
}

static ig_status test_number(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(jinja_is_number(call->self), out);
}

static ig_status test_integer(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_INTEGER, out);
}

static ig_status test_float(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_REAL, out);
}

static ig_status test_true(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_BOOL && call->self.integer, out);
}

static ig_status test_false(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_BOOL && !call->self.integer, out);
}

static ig_status test_callable(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    return says(call->self.kind == JINJA_V_MACRO || call->self.kind == JINJA_V_FUNCTION ||
                    call->self.kind == JINJA_V_LOOP || call->self.kind == JINJA_V_JOINER ||
                    call->self.kind == JINJA_V_UNDEFINED, /* calling it is what fails */
                out);
}

/* Whether dividing by `by` leaves `rest`. */
static ig_status leaves(jinja_run *run, const jinja_call *call, jinja_value by, int64_t rest,
                        jinja_value *out) {
    jinja_value left;
    bool same;
    IG_TRY(jinja_binary(run, '%', call->self, by, &left));
    IG_TRY(jinja_equal(run, left, jinja_integer(rest), 0, &same));
    return says(same, out);
}

static ig_status test_odd(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return leaves(run, call, jinja_integer(2), 1, out);
}

static ig_status test_even(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return leaves(run, call, jinja_integer(2), 0, out);
}

static ig_status test_divisibleby(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return leaves(run, call, call->bound[0], 0, out);
}

static ig_status is_case(jinja_run *run, const jinja_call *call, jinja_case to, jinja_value *out) {
    const jinja_string *s;
    jinja_value changed, other;
    bool same, differs;
    IG_TRY(jinja_to_string(run, call->self, &s));
    IG_TRY(jinja_change_case(run, s, to, false, &changed));
    IG_TRY(jinja_change_case(run, s, to == JINJA_UPPER ? JINJA_LOWER : JINJA_UPPER, false, &other));
    IG_TRY(jinja_equal(run, (jinja_value){.kind = JINJA_V_STRING, .string = s}, changed, 0, &same));
    IG_TRY(jinja_equal(run, changed, other, 0, &differs));
    return says(same && !differs, out);
}

static ig_status test_upper(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return is_case(run, call, JINJA_UPPER, out);
}

static ig_status test_lower(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return is_case(run, call, JINJA_LOWER, out);
}

static ig_status test_sameas(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_value a = call->self, b = call->bound[0];
    bool same = a.kind == b.kind;
    if (same && (jinja_is_list(a) || a.kind == JINJA_V_DICT)) return says(a.list == b.list, out);
    if (same) IG_TRY(jinja_equal(run, a, b, 0, &same));
    return says(same, out);
}

/* ---- Comparisons by name ---- */

static ig_status compare(jinja_run *run, const jinja_call *call, int sign, jinja_value *out) {
    bool holds;
    IG_TRY(jinja_compare(run, sign, call->self, call->bound[0], &holds));
    return says(holds, out);
}

static ig_status test_eq(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, JINJA_SIGN_OF('=', '='), out);
}

static ig_status test_ne(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, JINJA_SIGN_OF('!', '='), out);
}

static ig_status test_lt(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, '<', out);
}

static ig_status test_le(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, JINJA_SIGN_OF('<', '='), out);
}

static ig_status test_gt(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, '>', out);
}

static ig_status test_ge(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, JINJA_SIGN_OF('>', '='), out);
}

static ig_status test_in(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return compare(run, call, 'i', out);
}

const jinja_function jinja_tests[] = {
    {"defined", "", test_defined},
    {"undefined", "", test_undefined},
    {"none", "", test_none},
    {"string", "", test_string},
    {"mapping", "", test_mapping},
    {"iterable", "", test_iterable},
    {"sequence", "", test_sequence},
    {"boolean", "", test_boolean},
    {"number", "", test_number},
    {"integer", "", test_integer},
    {"float", "", test_float},
    {"true", "", test_true},
    {"false", "", test_false},
    {"callable", "", test_callable},
    {"escaped", "", test_escaped},
    {"filter", "", test_filter},
    {"test", "", test_test},
    {"odd", "", test_odd},
    {"even", "", test_even},
    {"divisibleby", "num", test_divisibleby},
    {"upper", "", test_upper},
    {"lower", "", test_lower},
    {"sameas", "other", test_sameas},
    {"eq", "b", test_eq},
    {"equalto", "b", test_eq},
    {"==", "b", test_eq},
    {"ne", "b", test_ne},
    {"!=", "b", test_ne},
    {"lt", "b", test_lt},
    {"lessthan", "b", test_lt},
    {"<", "b", test_lt},
    {"le", "b", test_le},
    {"<=", "b", test_le},
    {"gt", "b", test_gt},
    {"greaterthan", "b", test_gt},
    {">", "b", test_gt},
    {"ge", "b", test_ge},
    {">=", "b", test_ge},
    {"in", "seq", test_in},
    {0},
};
