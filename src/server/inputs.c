#include "server/inputs.h"

#include <stdio.h>

/* An array with an id is one input. */
static bool has_ids(const json_t *value) {
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_is_integer(json_array_get(value, i))) return true;
    return false;
}

size_t ig_inputs_count(const json_t *value) {
    return json_is_array(value) && !has_ids(value) ? json_array_size(value) : 1;
}

const json_t *ig_inputs_at(const json_t *value, size_t i) {
    return json_is_array(value) && !has_ids(value) ? json_array_get(value, i) : value;
}

static bool refuse(ig_work *w, const char *field, size_t i) {
    char param[64];
    snprintf(param, sizeof param, "%s[%zu]", field, i);
    return ig_refuse(&w->error, 400, param,
                     "%s: must be a string or an array of token ids below %lld", param,
                     (long long)w->served->n_vocab);
}

/* Text between ids is part of a text. */
static bool add(ig_work *w, const char *field, size_t i, const json_t *part, unsigned flags,
                ig_tokens *out) {
    ig_status status = IG_OK;
    if (json_is_string(part)) {
        status = ig_tokenize(w->served->tokenizer, json_string_value(part),
                             json_string_length(part), flags, out);
    } else {
        const json_int_t id = json_is_integer(part) ? json_integer_value(part) : -1;
        if (id < 0 || id >= w->served->n_vocab) return refuse(w, field, i);
        status = ig_tokens_add(out, (int32_t)id);
    }
    return status == IG_OK || ig_refuse(&w->error, 503, NULL, "out of memory");
}

bool ig_input_tokenize(ig_work *w, const char *field, size_t i, const json_t *input, unsigned flags,
                       ig_tokens *out) {
    const unsigned between = (flags & ~(unsigned)IG_TOKENIZE_ADD_SPECIAL) | IG_TOKENIZE_CONTINUES;
    if (json_is_string(input)) return add(w, field, i, input, flags, out);
    if (!json_is_array(input)) return refuse(w, field, i);
    for (size_t k = 0; k < json_array_size(input); k++) {
        const bool is_first = out->count == 0;
        if (!add(w, field, i, json_array_get(input, k), is_first ? flags : between, out))
            return false;
    }
    return true;
}
