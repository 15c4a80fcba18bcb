/*
 * Any bytes as a chat template, rendered with a conversation.
 *
 * What must hold: nothing crashes or goes on for ever; what is refused is refused
 * with words; spans are the whole text, one writer after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "text/jinja/jinja.h"

static const char variables_json[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
    "{\"role\":\"user\",\"content\":\" Hi <s> \\u4f60\\n\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","
    "\"arguments\":{\"x\":1.5,\"y\":[true,null,-3]}}}]}],"
    "\"add_generation_prompt\":true,\"n\":7,\"list\":[3,1,2],\"s\":\"a,b,%s,{}\"}";

static void check_spans(const ig_jinja_text *text) {
    size_t at = 0;
    for (size_t i = 0; i < text->n_spans; i++) {
        REQUIRE(text->spans[i].bytes == text->bytes + at && text->spans[i].n_bytes > 0);
        REQUIRE(i == 0 || text->spans[i].special != text->spans[i - 1].special);
        at += text->spans[i].n_bytes;
    }
    REQUIRE(at == text->n_bytes && at <= IG_JINJA_TEXT_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ig_jinja *jinja = NULL;
    const ig_status parsed = ig_jinja_parse(&ig_heap, (const char *)data, size, &jinja);
    REQUIRE(parsed == IG_OK || parsed == IG_ERR_FORMAT);
    if (parsed != IG_OK) return 0;

    json_t *given = json_loads(variables_json, 0, NULL);
    const ig_jinja_variables variables = {.given = given, .bos = {"<s>", 3}, .eos = {"</s>", 4}};
    ig_jinja_text text = {.allocator = &ig_heap};
    const ig_status rendered = ig_jinja_render(jinja, &variables, &text);
    REQUIRE(rendered == IG_OK || rendered == IG_ERR_FORMAT);
    if (rendered == IG_OK) check_spans(&text);
    ig_jinja_text_deinit(&text);
    json_decref(given);
    ig_jinja_destroy(jinja);
    return 0;
}
