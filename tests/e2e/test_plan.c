/* `ingot plan` on models: names of steps, their costs, and shares of the roofline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/synthetic/synthetic_models.h"
#include "results.h"

static char dir[32], model[64];

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ingot-plan-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/llama.gguf", dir);
    return model_save("llama", IG_Q4_K, model) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    unlink(model);
    return rmdir(dir);
}

/* The first step of the plan with this op, or NULL. */
static const json_t *step_called(const json_t *root, const char *op) {
    const json_t *step;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(root, "plan"), "steps"), i,
                       step) if (strcmp(json_string_value(json_object_get(step, "op")), op) ==
                                 0) return step;
    return NULL;
}

static void a_plan_names_what_is_fused_into_matmuls(void **state) {
    (void)state;
    json_t *root = json_of(RUN("plan", "-m", model, "--json"), "ingot.plan.v1");
    assert_non_null(step_called(root, "matmul"));
    assert_non_null(step_called(root, "matmul+silu")); /* the gate */
    assert_non_null(step_called(root, "matmul+add"));  /* the residual */
    assert_null(step_called(root, "silu"));
    json_decref(root);
}

/* Whether all matmuls of a file's plan are compared with the int8 roof. */
static bool counts_in_bytes(const char *path) {
    json_t *root = json_of(RUN("plan", "-m", path, "--profile", "--json"), "ingot.plan.v1");
    const json_t *profile = json_object_get(root, "profile"), *step;
    size_t i, bytes = 0, all = 0;
    json_array_foreach(json_object_get(profile, "steps"), i, step) {
        if (strncmp(json_string_value(json_object_get(step, "op")), "matmul", 6) != 0) continue;
        all++;
        bytes += strcmp(json_string_value(json_object_get(step, "arithmetic")), "int8") == 0;
    }
    assert_true(all > 0 && (bytes == 0 || bytes == all));
    assert_true(real_at(root, "profile", "int8_op_per_s") > 0);
    json_decref(root);
    return bytes > 0;
}

/* FP32 matmuls are compared with the FP32 roof, quantized ones with the higher int8 roof. */
static void products_are_compared_with_the_rate_of_their_own_kind(void **state) {
    (void)state;
    char blocks[96], floats[96];
    snprintf(blocks, sizeof blocks, "%s/blocks.gguf", dir);
    snprintf(floats, sizeof floats, "%s/floats.gguf", dir);
    assert_int_equal(model_save("llama", IG_Q8_0, blocks), IG_OK);
    assert_int_equal(model_save("llama", IG_F16, floats), IG_OK);
    assert_true(counts_in_bytes(blocks));
    assert_false(counts_in_bytes(floats));
    program_result text = RUN("bench", "-m", floats, "-p", "8", "-n", "2", "-r", "1");
    assert_non_null(strstr(text.out, "GFLOP/s of F32"));
    assert_null(strstr(text.out, "of int8"));
    program_free(&text);
    text = RUN("bench", "-m", blocks, "-p", "8", "-n", "2", "-r", "1", "--no-pack");
    assert_null(strstr(text.out, "GFLOP/s of F32"));
    assert_non_null(strstr(text.out, "of int8"));
    program_free(&text);
    unlink(blocks);
    unlink(floats);
}

/* Rows that fill the context, so that each step attends to the same number of positions: 1 + 2 +
 * ... */
static void a_profile_of_a_plan_counts_what_attention_computes(void **state) {
    (void)state;
    enum { ROWS = 32, SEEN = ROWS * (ROWS + 1) / 2 };
    json_t *root = json_of(RUN("plan", "-m", model, "--profile", "-b", "32", "-c", "32", "--json"),
                           "ingot.plan.v1");
    const json_t *steps = json_object_get(json_object_get(root, "plan"), "steps"), *timed;
    size_t i, found = 0;
    json_array_foreach(json_object_get(json_object_get(root, "profile"), "steps"), i, timed) {
        const char *op = json_string_value(json_object_get(timed, "op"));
        if (strcmp(op, "attention_paged") != 0) continue;
        const json_t *out = json_array_get(json_object_get(json_array_get(steps, i), "out"), 0);
        const json_t *shape = json_object_get(out, "shape"); /* [rows, heads, width] */
        const json_int_t width = json_integer_value(json_array_get(shape, 1)) *
                                 json_integer_value(json_array_get(shape, 2));
        assert_int_equal(json_integer_value(json_array_get(shape, 0)), ROWS);
        assert_int_equal(json_integer_value(json_object_get(timed, "flop")),
                         ROWS * width + 2 * SEEN * 2 * width); /* keys and values */
        assert_true(json_integer_value(json_object_get(timed, "bytes")) >
                    json_integer_value(json_object_get(json_array_get(steps, i), "bytes")));
        found++;
    }
    assert_true(found > 0);
    json_decref(root);
}

/* A row routed to two of four experts reads the weights of two: 256 by 256 in blocks of 34 bytes
 * per 32 numbers. */
static void a_plan_counts_the_experts_that_a_row_goes_to(void **state) {
    (void)state;
    enum { ROWS = 2, WIDTH = 256, MATRIX = WIDTH * WIDTH / 32 * 34, FLOATS = ROWS * WIDTH * 4 };
    enum { OFFSETS = (MODEL_EXPERTS + 1) * 4 };
    char path[] = "/tmp/ingot-experts-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(model_save("qwen3moe", IG_Q8_0, path), IG_OK);
    json_t *root = json_of(RUN("plan", "-m", path, "-b", "1", "--json"), "ingot.plan.v1");
    const json_t *step;
    size_t i, found = 0;
    json_array_foreach(json_object_get(json_object_get(root, "plan"), "steps"), i, step) {
        if (strcmp(json_string_value(json_object_get(step, "op")), "matmul_grouped") != 0) continue;
        assert_int_equal(json_integer_value(json_object_get(step, "flop")),
                         2 * ROWS * WIDTH * WIDTH);
        assert_int_equal(json_integer_value(json_object_get(step, "bytes")),
                         ROWS * MATRIX + 2 * FLOATS + OFFSETS);
        found++;
    }
    assert_int_equal(found, 2 * 3); /* gate, up and down in two layers */
    json_decref(root);
    unlink(path);
}

/* Only the CPU's rooflines are measured. */
static void a_profile_of_another_device_has_no_rooflines(void **state) {
    (void)state;
    const program_options with = {
        .env = (const char *const[]){"INGOT_PLUGIN_PATH=" SIMNPU_PLUGIN, NULL}};
    const char *args[] = {"plan", "--device", "simnpu", "--profile", "-q", "--json", NULL};
    json_t *root = json_of(program_run(INGOT_PROGRAM, args, &with), "ingot.plan.v1");
    const json_t *profile = json_object_get(root, "profile");
    assert_true(json_is_null(json_object_get(profile, "read_bytes_per_s")));
    const json_t *step = json_array_get(json_object_get(profile, "steps"), 0);
    assert_true(json_is_null(json_object_get(step, "roof_share_read")));
    json_decref(root);
    args[5] = NULL;
    program_result text = program_run(INGOT_PROGRAM, args, &with);
    if (text.code != 0 || !strstr(text.out, "no roofline for simnpu:0")) fail_msg("%s", text.out);
    assert_null(strstr(text.out, "GB/s read"));
    program_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_names_what_is_fused_into_matmuls),
        cmocka_unit_test(products_are_compared_with_the_rate_of_their_own_kind),
        cmocka_unit_test(a_profile_of_a_plan_counts_what_attention_computes),
        cmocka_unit_test(a_plan_counts_the_experts_that_a_row_goes_to),
        cmocka_unit_test(a_profile_of_another_device_has_no_rooflines),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
