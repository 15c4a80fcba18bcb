/* `ingot inspect`, `ingot quantize` and `ingot convert`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <jansson.h>

#include "checks.h"
#include "cli/app/cli.h"
#include "directory.h"
#include "format/gguf/gguf.h"
#include "format/quantize/recipe.h"
#include "ingot/convert.h"
#include "model/synthetic/synthetic_models.h"
#include "program.h"

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static const char *make(void **state, const char *name, ig_dtype type, char *path) {
    directory_path(state, "model.gguf", path);
    if (model_save(name, type, path) != IG_OK) fail_msg("%s", ig_error_text());
    return path;
}

static json_t *run_json(program_result *result) {
    json_t *root = json_loads(result->out, 0, NULL);
    if (result->code != 0 || !root) fail_msg("exit code %d: %s", result->code, result->err);
    return root;
}

/* ---- inspect ---- */

static void inspect_shows_what_a_model_is_and_takes(void **state) {
    char path[PATH_BYTES];
    make(state, "llama", IG_Q4_K, path);
    program_result text = RUN("inspect", path, "--tensors");
    assert_int_equal(text.code, 0);
    assert_non_null(strstr(text.out, "GGUF version 3, llama, "));
    assert_non_null(strstr(text.out, "general.architecture"));
    assert_non_null(strstr(text.out, "320 of string: \"<unk>\", \"<s>\""));
    assert_non_null(strstr(text.out, "memory      about"));
    assert_non_null(strstr(text.out, ", KV cache 64.0 KiB (128 tokens, f16), activations "));
    assert_non_null(strstr(text.out, "blk.1.ffn_down.weight     q4_k  [256,512]"));

    program_result result = RUN("inspect", path, "--json", "--tensors");
    json_t *root = run_json(&result), *memory = json_object_get(root, "memory_estimate");
    assert_string_equal(json_string_value(json_object_get(root, "architecture")), "llama");
    /* 2 layers, 128 positions, 2 heads of 32 for keys and for values, 2 bytes each. */
    assert_int_equal(json_integer_value(json_object_get(memory, "kv_cache_f16")),
                     2 * 128 * 2 * 32 * 2 * 2);
    assert_int_equal(json_integer_value(json_object_get(memory, "kv_cache_tokens")), 128);
    assert_int_equal(json_integer_value(json_object_get(memory, "weights")),
                     json_integer_value(json_object_get(root, "weight_bytes")));
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), 21);
    json_decref(root);
    program_free(&result);
    program_free(&text);
}

static void inspect_refuses_a_damaged_model_with_3(void **state) {
    char path[PATH_BYTES];
    make(state, "llama", IG_Q8_0, path);
    assert_int_equal(truncate(path, 100000), 0);
    program_result result = RUN("inspect", path);
    assert_int_equal(result.code, 3);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "is cut off"));
    program_free(&result);
}

/* An unknown architecture is reported by two functions: two source locations. */
static void verbose_errors_have_their_place_in_the_source(void **state) {
    char path[PATH_BYTES];
    ig_gguf_writer *w = NULL;
    assert_int_equal(ig_gguf_writer_create(&ig_heap, "m", &w), IG_OK);
    ig_gguf_writer_text(w, "general.architecture", "alpaca (c:1) (a.b:2)");
    assert_int_equal(ig_gguf_writer_finish(w), IG_OK);
    uint64_t head_bytes;
    const void *head = ig_gguf_writer_head(w, &head_bytes);
    FILE *file = fopen(directory_path(state, "in.gguf", path), "wb");
    assert_int_equal(fwrite(head, (size_t)head_bytes, 1, file), 1);
    fclose(file);
    ig_gguf_writer_destroy(w);

    program_result plain = RUN("logits", "-p", "a", "-m", path);
    assert_non_null(strstr(plain.err, "unknown architecture alpaca (c:1) (a.b:2); known: llama"));
    assert_null(strstr(plain.err, ".c:"));
    program_free(&plain);
    program_result verbose = RUN("-v", "logits", "-p", "a", "-m", path);
    assert_non_null(strstr(verbose.err, " (factory.c:"));
    assert_non_null(strstr(verbose.err, " (gguf_model.c:"));
    program_free(&verbose);
}

/* ---- quantize ---- */

static ig_gguf *open_model(const char *path) {
    ig_gguf *gguf = NULL;
    if (ig_gguf_open(path, NULL, &gguf) != IG_OK) fail_msg("%s", ig_error_text());
    return gguf;
}

static void every_type_makes_a_model_that_says_what_it_is(void **state) {
    char in[PATH_BYTES], out[PATH_BYTES];
    make(state, "qwen3", IG_F16, in);
    directory_path(state, "out.gguf", out);
    for (size_t i = 0; ig_recipe_at(i); i++) {
        const ig_recipe *recipe = ig_recipe_at(i);
        program_result result = RUN("quantize", "-q", "--json", in, out, recipe->name);
        json_t *root = run_json(&result);
        const bool is_coarse = recipe->dtype == IG_Q2_K || recipe->dtype == IG_Q3_K;
        const double most = is_coarse ? 0.1 : 0.02;
        assert_true(json_real_value(json_object_get(root, "relative_squared_error")) < most);
        json_decref(root);
        program_free(&result);

        ig_gguf *gguf = open_model(out);
        int64_t type = -1, version = -1;
        assert_true(ig_gguf_int(gguf, "general.file_type", &type));
        assert_true(ig_gguf_int(gguf, "general.quantization_version", &version));
        assert_int_equal(type, recipe->file_type);
        assert_int_equal(version, 2);
        assert_int_equal(ig_gguf_find_tensor(gguf, "blk.0.attn_k.weight")->desc.dtype,
                         recipe->dtype);
        assert_int_equal(ig_gguf_find_tensor(gguf, "blk.0.attn_k_norm.weight")->desc.dtype, IG_F32);
        assert_non_null(ig_gguf_find(gguf, "tokenizer.ggml.merges"));
        ig_gguf_close(gguf);
    }
    assert_int_equal(directory_count(state), 2);
}

static void any_number_of_threads_writes_the_same_bytes(void **state) {
    char in[PATH_BYTES], one[PATH_BYTES], four[PATH_BYTES];
    make(state, "llama", IG_F32, in);
    program_result a =
        RUN("quantize", "-q", "-t", "1", in, directory_path(state, "1", one), "Q4_K_M");
    program_result b =
        RUN("quantize", "-q", "-t", "4", in, directory_path(state, "4", four), "q4_k");
    assert_int_equal(a.code, 0);
    assert_int_equal(b.code, 0);
    assert_non_null(strstr(a.out, ": Q4_K_M, "));
    program_result same = program_run("/usr/bin/cmp", (const char *const[]){one, four, NULL}, NULL);
    assert_int_equal(same.code, 0);
    program_free(&same);
    program_free(&a);
    program_free(&b);
}

static void rows_that_are_no_whole_blocks_get_another_type_and_that_is_said(void **state) {
    char in[PATH_BYTES], out[PATH_BYTES];
    ig_gguf_writer *w = NULL;
    assert_int_equal(ig_gguf_writer_create(&ig_heap, "m", &w), IG_OK);
    ig_gguf_writer_tensor(w, "blk.0.attn_q.weight", (ig_desc){IG_F32, {2, {3, 96}}});
    ig_gguf_writer_tensor(w, "blk.0.attn_k.weight", (ig_desc){IG_F32, {2, {3, 30}}});
    assert_int_equal(ig_gguf_writer_finish(w), IG_OK);
    const size_t size = (size_t)ig_gguf_writer_file_bytes(w);
    uint64_t head_bytes;
    const void *head = ig_gguf_writer_head(w, &head_bytes);
    FILE *file = fopen(directory_path(state, "in.gguf", in), "wb");
    assert_int_equal(fwrite(head, (size_t)head_bytes, 1, file), 1);
    assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
    fclose(file);
    ig_gguf_writer_destroy(w);

    program_result result = RUN("quantize", in, directory_path(state, "out.gguf", out), "Q4_K_M");
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "blk.0.attn_q.weight: becomes q5_0, because its rows"));
    assert_non_null(strstr(result.err, "blk.0.attn_k.weight: becomes f16, because its rows"));
    program_free(&result);
}

static void what_cannot_be_quantized_is_refused_and_nothing_is_left(void **state) {
    char in[PATH_BYTES], out[PATH_BYTES];
    make(state, "llama", IG_F32, in);
    directory_path(state, "out.gguf", out);
    program_result type = RUN("quantize", in, out, "Q9");
    assert_int_equal(type.code, 2);
    assert_non_null(strstr(type.err, "TYPE 'Q9': unknown weight type"));
    program_free(&type);

    ig_gguf *gguf = open_model(in);
    const ig_gguf_tensor *t = ig_gguf_find_tensor(gguf, "blk.1.ffn_up.weight");
    FILE *file = fopen(in, "r+b");
    /* The tensors are contiguous up to the end of the file. */
    const ig_gguf_tensor *last = ig_gguf_tensor_at(gguf, ig_gguf_n_tensors(gguf) - 1);
    const long from_end = (const char *)last->bytes + last->n_bytes - (const char *)t->bytes;
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    assert_int_equal(fwrite(&(float){1.0f / 0.0f}, sizeof(float), 1, file), 1);
    fclose(file);
    ig_gguf_close(gguf);
    program_result infinite = RUN("quantize", "-q", in, out, "Q8_0");
    assert_int_equal(infinite.code, 3);
    assert_non_null(strstr(infinite.err, "blk.1.ffn_up.weight: has NaN or Inf, which q8_0 cannot"));
    program_free(&infinite);
    assert_int_equal(directory_count(state), 1);
}

/* Completions list the recipes' types. */
static void the_choices_of_types_are_the_recipes(void **state) {
    (void)state;
    const ig_opt *const tables[] = {cmd_quantize.opts, cmd_convert.opts};
    for (int table = 0; table < 2; table++) {
        size_t i = 0;
        for (ig_opt_walk w = ig_opts_first(tables[table]); w.opt; w = ig_opts_next(w))
            for (const char *name;
                 w.opt->suggestion == ig_weight_type_name && (name = ig_weight_type_name(i)); i++)
                assert_string_equal(name, ig_recipe_at(i)->name);
        assert_null(ig_recipe_at(i));
    }
}

/* ---- what is no file ---- */

static void a_pipe_is_refused_as_a_model_without_waiting(void **state) {
    char path[PATH_BYTES];
    const char *const commands[][6] = {
        {"generate", "-m", path, "-p", "hi"},
        {"logits", "-m", path, "-p", "hi"},
        {"embed", "-m", path, "-p", "hi"},
        {"tokenize", "-m", path, "-p", "hi"},
        {"chat", "-m", path},
        {"inspect", path},
        {"export", path, "out.oam"},
        {"quantize", path, "out.gguf", "Q8_0"},
    };
    assert_int_equal(mkfifo(directory_path(state, "pipe", path), 0600), 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        check_error(program_run(INGOT_PROGRAM, commands[i], NULL), 6, "is not a regular file");
}

/* ---- convert ---- */

static void a_folder_that_is_no_model_is_refused(void **state) {
    char out[PATH_BYTES], config[PATH_BYTES];
    directory_path(state, "out.gguf", out);
    program_result missing = RUN("convert", *state, out);
    assert_int_equal(missing.code, 6);
    assert_non_null(strstr(missing.err, "config.json: cannot open it"));
    program_free(&missing);
    check_error(RUN("convert", "absent.oam", out), 6, "absent.oam: No such file");

    FILE *file = fopen(directory_path(state, "config.json", config), "wb");
    fputs("{\"architectures\":[\"EvilForCausalLM\"],\"auto_map\":{\"AutoModel\":\"x.py\"}}", file);
    fclose(file);
    program_result unknown = RUN("convert", *state, out);
    assert_int_equal(unknown.code, 3);
    assert_non_null(strstr(unknown.err, "EvilForCausalLM cannot be converted; supported: Llama"));
    program_free(&unknown);

    program_result type = RUN("convert", *state, out, "--type", "Q9");
    assert_int_equal(type.code, 2);
    program_free(&type);

    program_result other = RUN("convert", *state, directory_path(state, "out.onnx", out));
    assert_int_equal(other.code, 2);
    assert_non_null(strstr(other.err, "name it .gguf"));
    program_free(&other);
    assert_int_equal(directory_count(state), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(inspect_shows_what_a_model_is_and_takes),
        IN_DIRECTORY(inspect_refuses_a_damaged_model_with_3),
        IN_DIRECTORY(verbose_errors_have_their_place_in_the_source),
        IN_DIRECTORY(every_type_makes_a_model_that_says_what_it_is),
        IN_DIRECTORY(any_number_of_threads_writes_the_same_bytes),
        IN_DIRECTORY(rows_that_are_no_whole_blocks_get_another_type_and_that_is_said),
        IN_DIRECTORY(what_cannot_be_quantized_is_refused_and_nothing_is_left),
        cmocka_unit_test(the_choices_of_types_are_the_recipes),
        IN_DIRECTORY(a_pipe_is_refused_as_a_model_without_waiting),
        IN_DIRECTORY(a_folder_that_is_no_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
