/* Quantizing a generated model loses no more than llama.cpp loses, as tests/golden/record wrote
 * down. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "../unit/check.h"
#include "base/quant_blocks.h"
#include "format/gguf/gguf.h"
#include "format/quantize/quantize.h"
#include "format/quantize/recipe.h"
#include "model/synthetic/synthetic_models.h"

/* Squared error of a tensor, ours by theirs. */
static const double most_allowed = 1.02;

static json_t *read_recorded(const char *key) {
    json_error_t error;
    json_t *root = json_load_file(TEST_DATA_DIR "/data/quantize.json", 0, &error);
    if (!root) fail_msg("quantize.json: line %d: %s", error.line, error.text);
    json_t *found = json_incref(json_object_get(root, key));
    json_decref(root);
    assert_non_null(found);
    return found;
}

static ig_gguf *open_model(const char *name) {
    char path[128];
    ig_gguf *model = NULL;
    snprintf(path, sizeof path, "/tmp/ingot-quantize-%d.gguf", (int)getpid());
    must(model_save(name, IG_F32, path));
    must(ig_gguf_open(path, NULL, &model));
    unlink(path);
    return model;
}

static double error_of(const ig_gguf_tensor *exact, ig_dtype type) {
    const int64_t n = ig_shape_count(exact->desc.shape);
    void *blocks = malloc((size_t)ig_bytes_of(type, n));
    ig_quantize(type, exact->bytes, blocks, n);
    const double error = ig_quantize_error(type, exact->bytes, blocks, n);
    free(blocks);
    return error;
}

static void no_tensor_loses_more_than_llama_cpp_loses(void **state) {
    (void)state;
    json_t *types = read_recorded("errors"), *tensors, *theirs;
    const char *type, *name;
    ig_gguf *model = open_model("llama");
    assert_int_equal(json_object_size(types), 12);
    json_object_foreach(types, type, tensors) {
        double sum = 0, worst = 0;
        ig_dtype dtype;
        assert_true(ig_dtype_find(type, &dtype));
        json_object_foreach(tensors, name, theirs) {
            const ig_gguf_tensor *exact = ig_gguf_find_tensor(model, name);
            assert_non_null(exact);
            const double ratio = error_of(exact, dtype) / json_number_value(theirs);
            if (!(ratio <= most_allowed))
                fail_msg("%s as %s: %g of the squared error of llama.cpp", name, type, ratio);
            sum += ratio;
            worst = ratio > worst ? ratio : worst;
        }
        assert_true(json_object_size(tensors) > 0);
        print_message("%-6s  %.4f of llama.cpp's error, at most %.4f\n", type,
                      sum / (double)json_object_size(tensors), worst);
    }
    ig_gguf_close(model);
    json_decref(types);
}

static void a_mixture_gives_each_tensor_the_type_that_llama_cpp_gives_it(void **state) {
    (void)state;
    json_t *mixtures = read_recorded("mixtures"), *tensors, *theirs;
    const char *mixture, *name;
    ig_gguf *model = open_model("qwen3");
    const ig_recipe_model known = {.n_layers = 2, .heads_share = 4, .tied = true};
    json_object_foreach(mixtures, mixture, tensors) {
        assert_int_equal(json_object_size(tensors), ig_gguf_n_tensors(model));
        json_object_foreach(tensors, name, theirs) {
            const char *why, *want = json_string_value(theirs);
            const ig_desc desc = ig_gguf_find_tensor(model, name)->desc;
            const ig_dtype ours = ig_recipe_type(ig_recipe_find(mixture), &known, name, desc, &why);
            if (strcmp(ig_dtype_name(ours), want) != 0)
                fail_msg("%s of %s: %s, llama.cpp has %s", name, mixture, ig_dtype_name(ours),
                         want);
        }
    }
    ig_gguf_close(model);
    json_decref(mixtures);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixture_gives_each_tensor_the_type_that_llama_cpp_gives_it),
        cmocka_unit_test(no_tensor_loses_more_than_llama_cpp_loses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
