/* seed_request FOLDER - writes bodies of requests, and replies with thoughts, to begin with. */
#include <stdio.h>
#include <string.h>

#include "seed.h"

static const char *const bodies[] = {
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":["
    "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":"
    "\"developer\",\"content\":\"T\"}],\"temperature\":0.5,\"stop\":[\"x\"],\"n\":2}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
    "null,\"reasoning\":\"r\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
    "\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":"
    "\"1\",\"content\":\"2\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
    "\"tool_choice\":\"auto\",\"chat_template_kwargs\":{\"enable_thinking\":false}}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
    "\"b\"}],\"continue_final_message\":true}",
    "{\"prompt\":[\"a\",[1,2]],\"max_tokens\":3,\"logprobs\":2,\"echo\":true,\"logit_bias\":"
    "{\"5\":1.5,\"a\":false},\"seed\":-1}",
    "{\"input\":[\"a\",\"b\"],\"encoding_format\":\"base64\",\"dimensions\":8}",
    "<think>\na </ b\n</think>\n\nc",
    "[THINK]a[/THINK]b",
};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_request FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (!seed_write(argv[1], i, bodies[i], strlen(bodies[i]))) return 1;
    return 0;
}
