/* `ingot embed`: options have their usual meaning, or a warning says that they have no effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "checks.h"
#include "model/synthetic/synthetic_models.h"
#include "results.h"

static char dir[32], model[64], bert[64];

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ingot-embed-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/llama.gguf", dir);
    snprintf(bert, sizeof bert, "%s/bert.gguf", dir);
    return model_save("llama", IG_Q4_K, model) != IG_OK ||
           model_save("bert", IG_F16, bert) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    unlink(model);
    unlink(bert);
    return rmdir(dir);
}

static json_t *vector_of(const char *option, const char *value) {
    json_t *root = json_of(RUN("embed", "-m", model, "-p", "Hello", "--json", option, value),
                           "ingot.embed.v1");
    json_t *data = json_incref(json_object_get(root, "data"));
    json_decref(root);
    return data;
}

static void a_text_that_is_longer_than_the_context_is_refused(void **state) {
    (void)state;
    check_error(RUN("embed", "-m", model, "-p", "Hello", "-c", "2"), 2,
                "tokens, but the context is 2");
    check_error(RUN("embed", "-m", bert, "-p", "Hello", "-c", "2"), 2,
                "tokens, but the context is 2");
    check_error(RUN("embed", "-m", bert, "-p", "a", "-c", "129"), 2, "made for 1 to 128");
}

static void a_vector_depends_on_the_cache_and_not_on_the_pieces(void **state) {
    (void)state;
    json_t *usual = vector_of("-ub", "0"), *pieces = vector_of("-ub", "2");
    json_t *rounded = vector_of("--kv", "q8_0");
    assert_true(json_equal(usual, pieces));
    assert_false(json_equal(usual, rounded));
    json_decref(usual);
    json_decref(pieces);
    json_decref(rounded);
}

static void options_that_change_nothing_for_bert_are_named(void **state) {
    (void)state;
    program_result r = RUN("embed", "-m", bert, "-p", "a", "-ub", "4", "--kv", "f32", "--no-pack");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "--ubatch-size: no effect, because bert is an encoder"));
    assert_non_null(strstr(r.err, "--kv: no effect"));
    assert_non_null(strstr(r.err, "--no-pack: no effect"));
    program_free(&r);
    r = RUN("embed", "-m", model, "-p", "a", "-ub", "4", "--kv", "f32", "--no-pack");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.err, "no effect"));
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_is_longer_than_the_context_is_refused),
        cmocka_unit_test(a_vector_depends_on_the_cache_and_not_on_the_pieces),
        cmocka_unit_test(options_that_change_nothing_for_bert_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
