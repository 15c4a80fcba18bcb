/* seed_routes FOLDER - writes bodies of requests to begin fuzzing with: some that are complete,
 * and one for each field and body with values in and out of its range.  The first byte chooses the
 * route as fuzz_routes.c does; 20 more: the engine serves the request. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "server/fields.h"

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static const char *const seeds[] = {
    "\x14{" HI ",\"max_tokens\":3,\"temperature\":0}",
    "\x14{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"logprobs\":true,"
    "\"top_logprobs\":3,\"n\":2,\"return_token_ids\":true,\"timings_per_token\":true}",
    "\x1e{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
    "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":"
    "[{\"id\":\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
    "\"{\\\"x\\\":[1]}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"2\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],"
    "\"chat_template_kwargs\":{\"enable_thinking\":true},\"reasoning_effort\":\"low\"}",
    "\x1e{" HI ",\"return_progress\":true,\"stream\":true,\"reasoning_format\":\"deepseek\","
    "\"seed\":7,\"stop\":[\"a\",\"\\n\"],\"logit_bias\":{\"97\":5,\"b\":false}}",
    "\x15{\"prompt\":[\"once\",\"twice\"],\"echo\":true,\"logprobs\":2,\"max_tokens\":2,\"n\":2,"
    "\"logit_bias\":[[97,1.5],[\"x\",-1]],\"stop_token_ids\":[1]}",
    "\x15{\"prompt\":[[1,2,3],[4]],\"stream\":true,\"max_tokens\":0,\"mirostat\":2,"
    "\"report\":false,\"draft_ngram\":2,\"draft_max\":4,\"cache_salt\":\"s\"}",
    "\x15{\"prompt\":[[1,2,3],[]],\"stream\":true}", /* both reached the engine once */
    "\x15{\"prompt\":\"a\",\"mirostat\":1}",
    "\x16{\"input\":[\"a\",\"\",\"\\u00e9\"],\"dimensions\":8,\"encoding_format\":\"base64\"}",
    "\x16{\"input\":[1,2,3],\"encoding_format\":\"float\"}",
    "\x17{\"content\":\"a\\ud83d\\ude00b\",\"with_pieces\":true,\"add_special\":true}",
    "\x17{" HI ",\"continue_final_message\":true}",
    "\x18{\"tokens\":[1,97,255]}",
    "\x19{" HI ",\"add_generation_prompt\":false}",
    "\x1a{\"query\":\"q\",\"documents\":[\"a\",\"b\"],\"top_n\":1,\"return_documents\":true}",
    "\x1b{\"model\":\"org/tiny\"}",
    "\x1c{" HI ",\"messages\":[]}",
    "\x1d{\"prompt\":\"a\",\"suffix\":\"b\"}",
};

/* The rest of a body that has what it needs. */
static const char *const needed[IG_BODIES] = {HI,
                                              "\"prompt\":\"a\"",
                                              "\"input\":\"a\"",
                                              "\"content\":\"a\"",
                                              "\"tokens\":[97]",
                                              HI,
                                              "\"query\":\"q\",\"texts\":[\"a\"]",
                                              "\"model\":\"org/tiny\""};

static const char *const values[] = {"0",
                                     "-1",
                                     "1",
                                     "0.5",
                                     "1e309",
                                     "9223372036854775807",
                                     "-1e-320",
                                     "true",
                                     "null",
                                     "\"a\"",
                                     "\"\\ud83d\\ude00\"",
                                     "[]",
                                     "[[1]]",
                                     "[\"a\"]",
                                     "{\"a\":1}",
                                     "[1,2.5,null]"};

int main(int argc, char **argv) {
    size_t number = 0;
    if (argc != 2) return fprintf(stderr, "usage: seed_routes FOLDER\n") > 0 ? 2 : 1;
    for (; number < sizeof seeds / sizeof seeds[0]; number++)
        if (!seed_write(argv[1], number, seeds[number], strlen(seeds[number]))) return 1;
    for (int id = 0; id < IG_FIELD_COUNT; id++)
        for (int bit = 0; bit < IG_BODIES; bit++) {
            const ig_field *field = ig_field_row((ig_field_id)id);
            char text[512];
            if (!(field->bodies & 1u << bit)) continue;
            /* One value for each: the fuzzer exchanges them. */
            const char *value = values[number % (sizeof values / sizeof values[0])];
            const int bytes = snprintf(text, sizeof text, "%c{%s,\"%s\":%s}", 20 + bit, needed[bit],
                                       field->name, value);
            if (!seed_write(argv[1], number++, text, (size_t)bytes)) return 1;
        }
    return 0;
}
