/*
 * generate.c - a model continues a text:  generate MODEL.gguf 'Once upon a time'
 *
 * All that an application needs: a context, a model in it, a prompt, and a place
 * for the text as it comes.
 */
#include <stdio.h>
#include <string.h>

#include <ingot/ingot.h>

static bool print(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes; /* false would end it */
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: generate MODEL.gguf TEXT\n");
        return argc > 1 ? 2 : 0;
    }
    ig_ctx *ctx = NULL;
    ig_adapter *model = NULL;
    const ig_generate_options options = {
        .prompt = argv[2], .prompt_bytes = strlen(argv[2]), .max_tokens = 64, .emit = print};
    ig_status status = ig_ctx_create(NULL, &ctx);
    if (status == IG_OK) status = ig_adapter_load(ctx, argv[1], &model);
    if (status == IG_OK) status = ig_adapter_generate(model, &options, NULL);
    if (status != IG_OK) fprintf(stderr, "generate: %s\n", ig_error_text());
    ig_adapter_destroy(model);
    ig_ctx_destroy(ctx);
    return status == IG_OK ? 0 : 1;
}
