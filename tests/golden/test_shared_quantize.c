/*
 * Quantizing loses no more than llama.cpp does: the weights of ../shared/data (skipped where they
 * are missing), F32 in one file and quantized by it in the others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/check.h"
#include "format/gguf/gguf.h"
#include "format/quantize/quantize.h"
#include "format/quantize/recipe.h"
#include "shared.h"

/* Squared error of a tensor, ours by theirs. */
static const double most_allowed = 1.02;

static ig_gguf *open_shared(const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s", shared_data(), file);
    if (access(path, R_OK) != 0) skip();
    ig_gguf *gguf = NULL;
    must(ig_gguf_open(path, NULL, &gguf));
    return gguf;
}

/* Returns the ratio of the two errors. */
static double compare(const ig_gguf_tensor *exact, const ig_gguf_tensor *theirs) {
    const ig_dtype type = theirs->desc.dtype;
    const int64_t n = ig_shape_count(exact->desc.shape);
    void *ours = malloc((size_t)theirs->n_bytes);
    ig_quantize(type, exact->bytes, ours, n);
    const double our_error = ig_quantize_error(type, exact->bytes, ours, n);
    const double their_error = ig_quantize_error(type, exact->bytes, theirs->bytes, n);
    free(ours);
    const double ratio = our_error / their_error;
    if (ratio > most_allowed)
        fail_msg("%s as %s: squared error %g, llama.cpp has %g", exact->name, ig_dtype_name(type),
                 our_error, their_error);
    return ratio;
}

static void no_tensor_loses_more_than_llama_cpp_loses(void **state) {
    (void)state;
    static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",   "Q2_K",
                                        "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"};
    ig_gguf *exact = open_shared("llama.f32.gguf");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char file[64];
        snprintf(file, sizeof file, "llama.%s.gguf", types[t]);
        ig_gguf *theirs = open_shared(file);
        double sum = 0, worst = 0;
        int count = 0;
        for (size_t i = 0; i < ig_gguf_n_tensors(theirs); i++) {
            const ig_gguf_tensor *tensor = ig_gguf_tensor_at(theirs, i);
            if (tensor->desc.shape.rank < 2 || tensor->desc.dtype == IG_F32) continue;
            const double ratio = compare(ig_gguf_find_tensor(exact, tensor->name), tensor);
            sum += ratio;
            worst = ratio > worst ? ratio : worst;
            count++;
        }
        assert_true(count > 0);
        print_message("%-6s  %.4f of llama.cpp's error, at most %.4f\n", types[t], sum / count,
                      worst);
        ig_gguf_close(theirs);
    }
    ig_gguf_close(exact);
}

/* A mixture is what people know by its name. */
static void a_mixture_gives_each_tensor_the_type_that_llama_cpp_gives_it(void **state) {
    (void)state;
    ig_gguf *theirs = open_shared("qwen3.Q4_K_M.gguf");
    const ig_recipe_model model = {.n_layers = 2, .heads_share = 4};
    for (size_t i = 0; i < ig_gguf_n_tensors(theirs); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(theirs, i);
        const ig_desc exact = {IG_F32, t->desc.shape};
        const char *why;
        const ig_dtype ours =
            ig_recipe_type(ig_recipe_find("Q4_K_M"), &model, t->name, exact, &why);
        if (ours != t->desc.dtype)
            fail_msg("%s: %s, llama.cpp has %s", t->name, ig_dtype_name(ours),
                     ig_dtype_name(t->desc.dtype));
    }
    ig_gguf_close(theirs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixture_gives_each_tensor_the_type_that_llama_cpp_gives_it),
        cmocka_unit_test(no_tensor_loses_more_than_llama_cpp_loses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
