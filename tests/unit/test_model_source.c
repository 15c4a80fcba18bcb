/* Models in memory: equal to the file that ig_convert() makes of the same tensors, bit for bit. */
#include <stdlib.h>

#include "check.h"
#include "directory.h"
#include "hub.h"
#include "ingot/convert.h"
#include "ingot/engine.h"
#include "ingot/session.h"
#include "unit/meter.h"

enum { N_TOKENS = 100 };

static int32_t token_at(int i) { return i * 7 % HUB_VOCABULARY; }

/* Logits of every token, or of an encoder the embedding of a text. */
static float *results(ig_model *model, size_t *out_count) {
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &ctx));
    must(ig_adapter_from_model(ctx, model, &adapter));
    const bool decodes = ig_adapter_can_generate(adapter);
    *out_count = decodes ? (size_t)N_TOKENS * HUB_VOCABULARY : HUB_D_MODEL;
    float *out = malloc(*out_count * sizeof *out);
    if (!decodes) {
        must(ig_adapter_embed(adapter, "the cats sat", 12, IG_POOL_DEFAULT, out, NULL));
    } else {
        ig_session_token tokens[N_TOKENS];
        for (int i = 0; i < N_TOKENS; i++)
            tokens[i] =
                (ig_session_token){.id = token_at(i), .logits = out + (size_t)i * HUB_VOCABULARY};
        must(ig_session_create(adapter, NULL, &session));
        must(ig_session_run(session, tokens, N_TOKENS));
        ig_session_destroy(session);
    }
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    return out;
}

static ig_model *of_file(void **state, const hub_model *m, ig_dtype dtype) {
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    char path[PATH_BYTES], piece[PATH_BYTES];
    ig_model *model = NULL;
    hub_model_save(m, *state);
    directory_path(state, "model.gguf", path);
    must(ig_convert(*state, path, &(ig_convert_options){.type = ig_dtype_name(dtype)}, NULL));
    must(ig_model_load(path, NULL, &model));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(directory_path(state, files[i], piece));
    return model;
}

static void compare(void **state, const char *name, ig_dtype dtype) {
    hub_model *m = hub_model_create(name, dtype);
    ig_model *file = of_file(state, m, dtype), *memory = NULL;
    size_t n_file, n_memory;
    float *of_the_file = results(file, &n_file);
    must(ig_model_create(&m->source, NULL, &memory));
    float *of_the_memory = results(memory, &n_memory);
    assert_int_equal(n_file, n_memory);
    if (memcmp(of_the_file, of_the_memory, n_file * sizeof *of_the_file) != 0)
        fail_msg("%s of %s differs from its file", name, ig_dtype_name(dtype));
    assert_int_equal(m->n_released, 0);
    ig_model_release(memory);
    assert_int_equal(m->n_released, 1);
    ig_model_release(file);
    free(of_the_memory);
    free(of_the_file);
    hub_model_destroy(m);
}

static void every_architecture_equals_its_file(void **state) {
    static const ig_dtype dtypes[] = {IG_F32, IG_BF16, IG_F16};
    const char *name;
    for (size_t i = 0; (name = hub_name(i)) != NULL; i++)
        for (size_t d = 0; d < 3; d++) compare(state, name, dtypes[d]);
}

/* Only what a file has in another order is copied. */
static void weights_stay_where_they_are(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t copied; /* bytes of F32 */
    } rows[] = {
        {"qwen3", 0},
        {"phi3", 0},
        {"bert", 0},
        {"llama", (uint64_t)4 * 2 * 64 * (64 + 32)}, /* q and k of two layers */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hub_model *m = hub_model_create(rows[i].name, IG_F32);
        ig_model *model = NULL;
        must(ig_model_create(&m->source, NULL, &model));
        assert_int_equal(ig_model_copied_bytes(model), rows[i].copied);
        ig_model_release(model);
        hub_model_destroy(m);
    }
}

/* The weight is read in place: unpacked, a change of it is a change of the results. */
static void a_weight_is_read_at_its_address(void **state) {
    (void)state;
    hub_model *m = hub_model_create("qwen3", IG_F32);
    const ig_model_options options = {.no_pack = true};
    ig_model *model = NULL;
    size_t count;
    must(ig_model_create(&m->source, &options, &model));
    float *before = results(model, &count);
    float *gain = (float *)(uintptr_t)hub_model_find(m, "model.norm.weight")->data;
    for (int i = 0; i < HUB_D_MODEL; i++) gain[i] *= 2;
    float *after = results(model, &count);
    for (size_t i = 0; i < count; i++) assert_true(after[i] == 2 * before[i]);
    free(before);
    free(after);
    ig_model_release(model);
    hub_model_destroy(m);
}

static void a_context_keeps_the_tensors(void **state) {
    (void)state;
    hub_model *m = hub_model_create("llama", IG_BF16);
    ig_model *model = NULL;
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    must(ig_model_create(&m->source, NULL, &model));
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_from_model(ctx, model, &adapter));
    ig_model_release(model);
    assert_int_equal(m->n_released, 0);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    assert_int_equal(m->n_released, 1);
    hub_model_destroy(m);
}

static int n_tokens_seen;
static void see(void *user, int32_t id, const float *logits) {
    (void)user;
    assert_true(id >= 0 && logits);
    n_tokens_seen++;
}

static void a_model_without_a_tokenizer_takes_token_ids(void **state) {
    (void)state;
    hub_model *m = hub_model_create("llama", IG_F32);
    ig_model *model = NULL;
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_engine *engine = NULL;
    float embedding[HUB_D_MODEL];
    ig_generated made;
    m->source.tokenizer = NULL;
    must(ig_model_create(&m->source, NULL, &model));
    must(ig_ctx_create(NULL, &ctx));
    must(ig_adapter_from_model(ctx, model, &adapter));
    assert_null(ig_adapter_tokenizer(adapter));
    const int32_t prompt[] = {1, 2, 3};
    ig_generate_options options = {.prompt_tokens = prompt,
                                   .n_prompt_tokens = 3,
                                   .max_tokens = 5,
                                   .sampling = {.temperature = -1},
                                   .token = see};
    n_tokens_seen = 0;
    must(ig_adapter_generate(adapter, &options, &made));
    assert_int_equal(n_tokens_seen, 5);
    assert_int_equal(made.finish, IG_FINISH_LENGTH);
    options = (ig_generate_options){.prompt = "ab", .prompt_bytes = 2};
    refused(ig_adapter_generate(adapter, &options, &made), IG_ERR_ARGUMENT, "no tokenizer");
    refused(ig_adapter_embed(adapter, "ab", 2, IG_POOL_MEAN, embedding, NULL), IG_ERR_ARGUMENT,
            "no tokenizer");
    refused(ig_engine_create(adapter, NULL, &engine), IG_ERR_ARGUMENT, "no tokenizer");
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    ig_model_release(model);
    hub_model_destroy(m);
}

/* ---- Refusals ---- */

static void fails(const hub_model *m, ig_status status, const char *words) {
    ig_model *model = NULL;
    refused(ig_model_create(&m->source, NULL, &model), status, words);
    assert_null(model);
    assert_int_equal(m->n_released, 0);
}

static void a_tensor_of_another_shape_is_named_with_the_shape_it_must_have(void **state) {
    (void)state;
    static const struct {
        const char *model, *tensor, *words;
    } rows[] = {
        {"qwen3", "model.layers.1.self_attn.k_proj.weight",
         "model.layers.1.self_attn.k_proj.weight is [31,64]; [32,64] is needed"},
        {"gemma3", "model.layers.0.pre_feedforward_layernorm.weight",
         "model.layers.0.pre_feedforward_layernorm.weight is [63]; [64] is needed"},
        {"phi3", "model.layers.1.mlp.gate_up_proj.weight",
         "model.layers.1.mlp.gate_up_proj.weight is [191,64]; [192,64] is needed"},
        {"gpt2", "transformer.h.1.mlp.c_fc.bias",
         "transformer.h.1.mlp.c_fc.bias is [95]; [96] is needed"},
        {"bert", "encoder.layer.0.output.LayerNorm.bias",
         "encoder.layer.0.output.LayerNorm.bias is [63]; [64] is needed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hub_model *m = hub_model_create(rows[i].model, IG_F32);
        hub_model_find(m, rows[i].tensor)->desc.shape.dim[0]--;
        fails(m, IG_ERR_FORMAT, rows[i].words);
        hub_model_destroy(m);
    }
}

static void a_missing_or_unknown_tensor_is_named(void **state) {
    (void)state;
    hub_model *m = hub_model_create("qwen3", IG_F32);
    ig_named_tensor *t = hub_model_find(m, "model.layers.0.mlp.down_proj.weight");
    const ig_named_tensor kept = *t;
    *t = m->tensors[m->source.n_tensors - 1];
    m->source.n_tensors--;
    fails(m, IG_ERR_FORMAT, "model.layers.0.mlp.down_proj.weight is missing");
    m->source.n_tensors++;
    m->tensors[m->source.n_tensors - 1] = *t;
    *t = kept;
    t->name = "model.layers.0.mlp.extra.weight";
    fails(m, IG_ERR_FORMAT, "model.layers.0.mlp.extra.weight: is not a known tensor");
    t->name = kept.name;
    t->desc.dtype = IG_I32;
    fails(m, IG_ERR_FORMAT, "is of type i32; only F32, F16 and BF16");
    t->desc.dtype = IG_F32;
    t->data = NULL;
    fails(m, IG_ERR_ARGUMENT, "has no data");
    *t = kept;
    hub_model_destroy(m);
}

static void a_config_is_checked_as_that_of_a_folder(void **state) {
    (void)state;
    hub_model *m = hub_model_create("llama", IG_F32);
    ig_model *model = NULL;
    m->source.name = "mine";
    m->source.config = "{";
    fails(m, IG_ERR_FORMAT, "mine: config.json is not JSON");
    m->source.config = "{\"architectures\":[\"Other\"]}";
    fails(m, IG_ERR_FORMAT, "mine/config.json: Other");
    m->config[strlen(m->config) - 1] = 0;
    strcat(m->config, ",\"surprise\":1}");
    m->source.config = m->config;
    fails(m, IG_ERR_FORMAT, "surprise: unknown key");
    m->source.config = NULL;
    fails(m, IG_ERR_ARGUMENT, "no config");
    refused(ig_model_create(NULL, NULL, &model), IG_ERR_ARGUMENT, "NULL");
    refused(ig_model_create(&m->source, &(ig_model_options){.mlock = true}, &model),
            IG_ERR_ARGUMENT, "mlock");
    hub_model_destroy(m);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    hub_model *m = hub_model_create("llama", IG_F32);
    meter memory = {0};
    int n_made = 0;
    memory.failed = true;
    for (uint64_t n = 1; memory.failed; n++) {
        memory = (meter){.fail_at = n};
        const ig_model_options options = {.allocator = meter_allocator(&memory)};
        ig_model *model = NULL;
        const ig_status status = ig_model_create(&m->source, &options, &model);
        n_made += status == IG_OK; /* also without the memory for PCRE2's compiled patterns */
        assert_true(status == IG_OK || (status == IG_ERR_MEMORY && memory.failed));
        ig_model_release(model);
        assert_int_equal(memory.held, 0);
        assert_int_equal(m->n_released, n_made);
        assert_true(n < 600);
    }
    assert_true(memory.asked > 60);
    hub_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(every_architecture_equals_its_file),
        cmocka_unit_test(weights_stay_where_they_are),
        cmocka_unit_test(a_weight_is_read_at_its_address),
        cmocka_unit_test(a_context_keeps_the_tensors),
        cmocka_unit_test(a_model_without_a_tokenizer_takes_token_ids),
        cmocka_unit_test(a_tensor_of_another_shape_is_named_with_the_shape_it_must_have),
        cmocka_unit_test(a_missing_or_unknown_tensor_is_named),
        cmocka_unit_test(a_config_is_checked_as_that_of_a_folder),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
