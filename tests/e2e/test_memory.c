/*
 * Failing allocations: whichever one fails, a command ends with exit code 4 and says out of memory,
 * or continues without it and gives the same result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "directory.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- Files ---- */

static char dir[] = "/tmp/ingot-memory-XXXXXX";
static char model[PATH_BYTES], folder[PATH_BYTES], text[PATH_BYTES], checkpoint[PATH_BYTES],
    out[PATH_BYTES], gguf[PATH_BYTES];

static FILE *create(const char *parent, const char *name) {
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

static void save_text(const char *parent, const char *name, const char *content) {
    FILE *file = create(parent, name);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Writes a llama of one layer as a model hub folder; its weights are 0. */
static void save_folder(void) {
    static const struct {
        const char *name;
        int rows, columns; /* rows 0: a vector */
    } tensors[] = {
        {"embed_tokens", 6, 8},
        {"norm", 0, 8},
        {"layers.0.input_layernorm", 0, 8},
        {"layers.0.self_attn.q_proj", 8, 8},
        {"layers.0.self_attn.k_proj", 8, 8},
        {"layers.0.self_attn.v_proj", 8, 8},
        {"layers.0.self_attn.o_proj", 8, 8},
        {"layers.0.post_attention_layernorm", 0, 8},
        {"layers.0.mlp.gate_proj", 16, 8},
        {"layers.0.mlp.up_proj", 16, 8},
        {"layers.0.mlp.down_proj", 8, 16},
    };
    static const char zeros[1 << 16];
    char header[4096] = "{";
    size_t used = 1, end = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const int rows = tensors[i].rows, columns = tensors[i].columns;
        const size_t begin = end;
        char shape[32];
        snprintf(shape, sizeof shape, rows ? "%d,%d" : "%d", rows ? rows : columns, columns);
        end += 4 * (size_t)(rows ? rows * columns : columns);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"model.%s.weight\":{\"dtype\":\"F32\",\"shape\":[%s],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 i ? "," : "", tensors[i].name, shape, begin, end);
    }
    header[used++] = '}';
    const uint64_t length = used;
    assert_int_equal(mkdir(folder, 0777), 0);
    FILE *file = create(folder, "model.safetensors");
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, used, file);
    assert_int_equal(fwrite(zeros, 1, end, file), end);
    assert_int_equal(fclose(file), 0);
    save_text(folder, "config.json",
              "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":8,\"num_hidden_layers\":1,"
              "\"num_attention_heads\":2,\"intermediate_size\":16,\"max_position_embeddings\":64,"
              "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":true}");
    save_text(folder, "tokenizer.json",
              "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"model\":"
              "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3,\"c\":4,\"d\":5},"
              "\"merges\":[\"a b\",[\"ab\",\"a\"]]}}");
    save_text(folder, "tokenizer_config.json", "{\"model_max_length\":1e30,\"eos_token\":\"d\"}");
}

static void must_run(const char *const *args) {
    program_result result = program_run(INGOT_PROGRAM, args, &(program_options){0});
    if (result.code != 0) fail_msg("exit %d, %s", result.code, result.err);
    program_free(&result);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(folder, sizeof folder, "%s/folder", dir);
    snprintf(text, sizeof text, "%s/text", dir);
    snprintf(checkpoint, sizeof checkpoint, "%s/llm.oam", dir);
    snprintf(out, sizeof out, "%s/out.oam", dir);
    snprintf(gguf, sizeof gguf, "%s/out.gguf", dir);
    save_folder();
    FILE *file = create(dir, "text");
    for (int i = 0; i < 100; i++) fprintf(file, "The cat number %d sat on the mat.\n", i);
    assert_int_equal(fclose(file), 0);
    if (model_save("llama", IG_F32, model) != IG_OK) return -1;
    must_run(ARGS("train", "-q", "--arch", "llm", "--d-model", "16", "--layers", "1", "--heads",
                  "2", "--d-ff", "32", "--ctx", "16", "--batch", "2", "--steps", "2", "-t", "1",
                  "--data", text, "--out", checkpoint));
    return 0;
}

static int tear_down(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* ---- The sweep ---- */

/* Fails each of the first 40 allocations, then one of every `step`; stdout of a run that succeeds
 * must be `want`; NULL: not compared, since it contains times. */
static void sweep(const char *const *args, int step, const char *want) {
    char expected[64];
    int failed = 0;
    snprintf(expected, sizeof expected, "ingot %s: out of memory: ", args[0]);
    for (int n = 1;; n += n < 40 ? 1 : step) {
        char variable[64];
        snprintf(variable, sizeof variable, "INGOT_TEST_FAIL_ALLOC=%d", n);
        program_result r =
            program_run(INGOT_PROGRAM, args, &(program_options){.env = ARGS(variable)});
        const bool reached = strstr(r.err, "fails on purpose") != NULL;
        if (r.code != 0 && (r.code != 4 || !strstr(r.err, expected)))
            fail_msg("%s, allocation %d: exit %d, %s", args[0], n, r.code, r.err);
        if (r.code == 0 && want && strcmp(r.out, want) != 0)
            fail_msg("%s, allocation %d: exit 0 and another result: %s", args[0], n, r.out);
        failed += r.code == 4;
        program_free(&r);
        if (!reached) break;
    }
    assert_true(failed > 10);
}

static void compare_and_sweep(const char *const *args, int step) {
    program_result right = program_run(INGOT_PROGRAM, args, &(program_options){0});
    if (right.code != 0) fail_msg("exit %d, %s", right.code, right.err);
    sweep(args, step, right.out);
    program_free(&right);
}

static void generate_says_out_of_memory(void **state) {
    (void)state;
    compare_and_sweep(
        ARGS("generate", "-q", "-m", model, "-p", "the", "-n", "3", "-t", "1", "--temp", "0"), 7);
    compare_and_sweep(
        ARGS("generate", "-q", "-m", checkpoint, "-p", "the", "-n", "3", "-t", "1", "--temp", "0"),
        11);
}

static void convert_says_out_of_memory(void **state) {
    (void)state;
    compare_and_sweep(ARGS("convert", "-q", folder, gguf), 7);
    compare_and_sweep(ARGS("convert", "-q", checkpoint, gguf), 17);
}

static void train_says_out_of_memory(void **state) {
    (void)state;
    sweep(ARGS("train", "-q", "--arch", "llm", "--d-model", "16", "--layers", "1", "--heads", "2",
               "--d-ff", "32", "--ctx", "16", "--batch", "2", "--steps", "2", "-t", "1", "--data",
               text, "--out", out),
          23, NULL);
    sweep(ARGS("train", "-q", "--resume", checkpoint, "--data", text, "--steps", "3", "-t", "1",
               "--out", out),
          23, NULL);
}

static void inspect_says_out_of_memory(void **state) {
    (void)state;
    compare_and_sweep(ARGS("inspect", checkpoint), 5);
    compare_and_sweep(ARGS("inspect", model), 1);
}

static void quantize_says_out_of_memory(void **state) {
    (void)state;
    compare_and_sweep(ARGS("quantize", "-q", model, gguf, "Q4_K_M", "-t", "1"), 5);
    compare_and_sweep(ARGS("quantize", "-q", model, gguf, "Q8_0", "-t", "2", "--verbose"), 7);
}

static void plan_says_out_of_memory(void **state) {
    (void)state;
    compare_and_sweep(ARGS("plan", "-q", "-b", "4", "-t", "1"), 7);
}

/* A report with missing fields is not printed as complete. */
static void a_report_is_complete_or_an_error(void **state) {
    const char *const args[] = {"inspect", checkpoint, "--json", NULL};
    int failed = 0;
    (void)state;
    for (int n = 200;; n += 3) {
        char variable[64];
        snprintf(variable, sizeof variable, "INGOT_TEST_FAIL_ALLOC=%d", n);
        program_result r =
            program_run(INGOT_PROGRAM, args, &(program_options){.env = ARGS(variable)});
        const bool reached = strstr(r.err, "fails on purpose") != NULL;
        const char *const fields[] = {"\"run_id\"",   "\"config_resolved\"", "\"timings\"",
                                      "\"total_ms\"", "\"steps\"",           "\"verify\""};
        for (size_t i = 0; r.code == 0 && i < sizeof fields / sizeof *fields; i++)
            if (!strstr(r.out, fields[i])) fail_msg("allocation %d: no %s", n, fields[i]);
        if (r.code != 0) assert_int_equal(r.code, 4);
        failed += r.code == 4;
        program_free(&r);
        if (!reached) break;
    }
    assert_true(failed > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_says_out_of_memory),
        cmocka_unit_test(convert_says_out_of_memory),
        cmocka_unit_test(train_says_out_of_memory),
        cmocka_unit_test(inspect_says_out_of_memory),
        cmocka_unit_test(quantize_says_out_of_memory),
        cmocka_unit_test(plan_says_out_of_memory),
        cmocka_unit_test(a_report_is_complete_or_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
