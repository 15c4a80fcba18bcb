/* Numbers to blocks and back; and the small models that are made of them. */
#include <math.h>
#include <stdlib.h>

#include "base/quant_blocks.h"
#include "base/random.h"
#include "check.h"
#include "format/gguf/gguf.h"
#include "format/quantize/quantize.h"
#include "format/quantize/recipe.h"
#include "ingot/blocks.h"
#include "model/synthetic/synthetic_models.h"

enum { N = 1024 };

/* Squared error by sum of squares, of numbers drawn evenly from -1 to 1.  A uniform grid of L
 * levels in that range has 1 / L^2; scales in few bits and the odd block cost some more. */
static const struct {
    ig_dtype type;
    double most;
} bounds[] = {
    {IG_F32, 0},       {IG_F16, 1e-7},    {IG_BF16, 1e-5},   {IG_Q4_0, 5e-3},
    {IG_Q4_1, 4.5e-3}, {IG_Q5_0, 1.2e-3}, {IG_Q5_1, 1.1e-3}, {IG_Q8_0, 2e-5},
    {IG_Q2_K, 8e-2},   {IG_Q3_K, 1.8e-2}, {IG_Q4_K, 4.7e-3}, {IG_Q5_K, 1.2e-3},
    {IG_Q6_K, 3e-4},   {IG_IQ4_NL, 6e-3}, {IG_IQ4_XS, 6e-3}, {IG_MXFP4, 1.5e-2},
};
enum { N_TYPES = sizeof bounds / sizeof *bounds };

static float drawn(uint64_t i) {
    const uint32_t seed[2] = {7, 7};
    return (float)(ig_random_bits(seed, 0, 0, i) >> 8) * 0x1p-23f - 1;
}

static void every_type_keeps_what_its_bits_can(void **state) {
    (void)state;
    float x[N];
    uint8_t blocks[N * sizeof(float)];
    double square = 0;
    for (int i = 0; i < N; i++) {
        x[i] = drawn((uint64_t)i);
        square += (double)x[i] * (double)x[i];
    }
    for (int t = 0; t < N_TYPES; t++) {
        assert_true(ig_quantize_can(bounds[t].type));
        ig_quantize(bounds[t].type, x, blocks, N);
        const double error = ig_quantize_error(bounds[t].type, x, blocks, N) / square;
        if (error > bounds[t].most)
            fail_msg("%s: %g of the squares is lost", ig_dtype_name(bounds[t].type), error);
    }
    assert_false(ig_quantize_can(IG_I32));
    assert_false(ig_quantize_can(IG_F64));
}

/* Blocks that have no middle or no spread: all of it can be kept, or nearly. */
static void odd_blocks_stay_finite_and_near(void **state) {
    (void)state;
    static const struct {
        const char *what;
        float first, others;
        double most; /* squared error by sum of squares */
    } rows[] = {
        {"zeros", 0, 0, 0},
        {"the same positive number", 3, 3, 0.02},
        {"the same negative number", -3, -3, 0.02},
        {"one number alone", 5, 0, 0.04},
        {"one negative number alone", -5, 0, 0.04},
        {"numbers too small for a scale", 1e-38f, 1e-39f, 1},
        {"large numbers", 50000, -50000, 0.04},
    };
    float x[N], back[N];
    uint8_t blocks[N * sizeof(float)];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double square = 0;
        for (int i = 0; i < N; i++) {
            x[i] = i % IG_BLOCK == 0 ? rows[r].first : rows[r].others;
            square += (double)x[i] * (double)x[i];
        }
        for (int t = 0; t < N_TYPES; t++) {
            const ig_dtype type = bounds[t].type;
            ig_quantize(type, x, blocks, N);
            ig_blocks_dequantize(type, blocks, back, N);
            for (int i = 0; i < N; i++) assert_true(isfinite(back[i]));
            const double error = ig_quantize_error(type, x, blocks, N);
            if (error > rows[r].most * square)
                fail_msg("%s of %s: squared error %g of %g", ig_dtype_name(type), rows[r].what,
                         error, square);
        }
    }
}

/* What is on the grid of a type already is kept as it is. */
static void blocks_decoded_and_encoded_again_lose_nothing(void **state) {
    (void)state;
    float x[N], again[N];
    uint8_t blocks[N * sizeof(float)];
    for (int t = 0; t < N_TYPES; t++) {
        const ig_dtype type = bounds[t].type;
        for (int i = 0; i < N; i++) x[i] = drawn((uint64_t)i);
        ig_quantize(type, x, blocks, N);
        ig_blocks_dequantize(type, blocks, again, N);
        double square = 0;
        for (int i = 0; i < N; i++) square += (double)again[i] * (double)again[i];
        ig_quantize(type, again, blocks, N);
        const double lost = ig_quantize_error(type, again, blocks, N) / square;
        if (lost > bounds[t].most / 20) fail_msg("%s: %g is lost", ig_dtype_name(type), lost);
    }
}

static void every_small_model_is_a_gguf_file_of_its_architecture(void **state) {
    (void)state;
    static const ig_dtype types[] = {IG_F32, IG_Q4_K, IG_Q8_0};
    for (size_t i = 0; model_name(i); i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            model_bytes file = {0};
            ig_gguf *gguf = NULL;
            must(model_make(model_name(i), types[t], &file));
            must(ig_gguf_parse(&ig_heap, model_name(i), file.bytes, file.size, &gguf));
            ig_string_view arch;
            assert_true(ig_gguf_string(gguf, "general.architecture", &arch));
            assert_int_equal(ig_gguf_find(gguf, "tokenizer.ggml.tokens")->count, 320);
            assert_int_equal(ig_gguf_find_tensor(gguf, "token_embd.weight")->desc.dtype, types[t]);
            ig_gguf_close(gguf);
            free(file.bytes);
        }
    model_bytes none = {0};
    refused(model_make("llama5", IG_F32, &none), IG_ERR_ARGUMENT, "llama5: no such model");
}

static void a_small_model_is_the_same_every_time(void **state) {
    (void)state;
    model_bytes a = {0}, b = {0};
    must(model_make("qwen3moe", IG_Q5_K, &a));
    must(model_make("qwen3moe", IG_Q5_K, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
    free(a.bytes);
    free(b.bytes);
}

/* As llama.cpp mixes them; golden.quantize has a file of its own making. */
static void mixtures_give_tensors_the_types_that_their_names_promise(void **state) {
    (void)state;
    static const ig_recipe_model plain = {.n_layers = 32, .heads_share = 1},
                                 shared = {.n_layers = 32, .heads_share = 4},
                                 tied = {.n_layers = 32, .tied = true},
                                 mixtral = {.n_layers = 32, .heads_share = 4, .n_experts = 8},
                                 large = {.n_layers = 80, .heads_share = 8};
    static const struct {
        const char *recipe;
        const ig_recipe_model *model;
        const char *tensor;
        ig_dtype want;
    } cases[] = {
        {"Q4_0", &plain, "blk.0.attn_v.weight", IG_Q4_0},
        {"Q4_0", &plain, "output.weight", IG_Q6_K},
        {"Q4_0", &plain, "token_embd.weight", IG_Q4_0},
        {"Q4_0", &tied, "token_embd.weight", IG_Q6_K},
        {"Q8_0", &plain, "output.weight", IG_Q8_0},
        {"Q4_0", &plain, "blk.0.ffn_gate_inp.weight", IG_F32},
        {"Q4_0", &mixtral, "blk.9.attn_k.weight", IG_Q8_0},
        {"Q4_K_M", &mixtral, "blk.9.attn_output.weight", IG_Q5_K},
        {"Q3_K_L", &mixtral, "blk.9.attn_output.weight", IG_Q3_K},
        {"Q2_K", &plain, "blk.9.attn_v.weight", IG_Q3_K},
        {"Q2_K", &shared, "blk.9.attn_v.weight", IG_Q4_K},
        {"Q2_K", &large, "blk.9.attn_v.weight", IG_Q5_K},
        {"Q2_K", &plain, "blk.9.ffn_down.weight", IG_Q3_K},
        {"Q2_K", &plain, "blk.9.attn_output.weight", IG_Q3_K},
        {"Q2_K", &plain, "blk.9.attn_q.weight", IG_Q2_K},
        {"Q2_K_S", &plain, "blk.3.ffn_down.weight", IG_Q4_K},
        {"Q2_K_S", &plain, "blk.4.ffn_down.weight", IG_Q2_K},
        {"Q3_K_S", &plain, "blk.0.attn_v.weight", IG_Q3_K},
        {"Q3_K_M", &plain, "blk.1.attn_v.weight", IG_Q5_K},
        {"Q3_K_M", &plain, "blk.2.attn_v.weight", IG_Q4_K},
        {"Q3_K_M", &plain, "blk.1.ffn_down.weight", IG_Q5_K},
        {"Q3_K_M", &plain, "blk.2.ffn_down.weight", IG_Q4_K},
        {"Q3_K_M", &plain, "blk.2.attn_qkv.weight", IG_Q4_K},
        {"Q3_K_L", &plain, "blk.2.attn_output.weight", IG_Q5_K},
        {"Q4_K_S", &plain, "blk.3.attn_v.weight", IG_Q5_K},
        {"Q4_K_S", &plain, "blk.4.attn_v.weight", IG_Q4_K},
        {"Q4_K_S", &plain, "blk.3.ffn_down.weight", IG_Q5_K},
        {"Q4_K_M", &plain, "blk.3.attn_v.weight", IG_Q6_K},
        {"Q4_K_M", &plain, "blk.5.ffn_down.weight", IG_Q4_K},
        {"Q4_K_M", &plain, "blk.6.ffn_down.weight", IG_Q6_K},
        {"Q4_K_M", &plain, "blk.31.ffn_down.weight", IG_Q6_K},
        {"Q4_K_M", &plain, "blk.2.attn_qkv.weight", IG_Q5_K},
        {"Q4_K_M", &large, "blk.11.attn_v.weight", IG_Q5_K},
        {"Q5_K_S", &plain, "blk.0.attn_v.weight", IG_Q5_K},
        {"Q5_K_M", &plain, "blk.0.attn_v.weight", IG_Q6_K},
        {"IQ4_XS", &plain, "blk.9.attn_v.weight", IG_IQ4_XS},
        {"IQ4_XS", &shared, "blk.9.attn_v.weight", IG_Q5_K},
        {"IQ4_NL", &plain, "blk.3.ffn_down.weight", IG_Q5_K},
        {"MXFP4_MOE", &plain, "blk.3.ffn_down_exps.weight", IG_MXFP4},
        {"MXFP4_MOE", &plain, "blk.3.attn_q.weight", IG_Q8_0},
        {"MXFP4", &plain, "blk.3.attn_q.weight", IG_MXFP4},
        {"F16", &plain, "output.weight", IG_F16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why;
        const ig_desc desc = {IG_F32, IG_SHAPE(512, 512)};
        const ig_dtype got = ig_recipe_type(ig_recipe_find(cases[i].recipe), cases[i].model,
                                            cases[i].tensor, desc, &why);
        if (got != cases[i].want)
            fail_msg("%s: %s becomes %s, not %s", cases[i].recipe, cases[i].tensor,
                     ig_dtype_name(got), ig_dtype_name(cases[i].want));
    }
}

static void recipes_are_found_by_the_names_that_others_give_them(void **state) {
    (void)state;
    static const struct {
        const char *name, *means; /* NULL: nothing */
    } cases[] = {{"Q3_K", "Q3_K_M"}, {"q4_k", "Q4_K_M"},   {"Q5_K", "Q5_K_M"}, {"Q6_K", "Q6_K"},
                 {"15", "Q4_K_M"},   {"38", "MXFP4_MOE"},  {"0", "F32"},       {"4", NULL},
                 {"", NULL},         {"-1", NULL},         {"15x", NULL},      {"Q8_K", NULL},
                 {" 15", NULL},      {"4294967311", NULL}, {"Q4", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ig_recipe *found = ig_recipe_find(cases[i].name);
        if (!found != !cases[i].means || (found && strcmp(found->name, cases[i].means) != 0))
            fail_msg("'%s' is %s, not %s", cases[i].name, found ? found->name : "none",
                     cases[i].means ? cases[i].means : "none");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_keeps_what_its_bits_can),
        cmocka_unit_test(odd_blocks_stay_finite_and_near),
        cmocka_unit_test(blocks_decoded_and_encoded_again_lose_nothing),
        cmocka_unit_test(every_small_model_is_a_gguf_file_of_its_architecture),
        cmocka_unit_test(a_small_model_is_the_same_every_time),
        cmocka_unit_test(mixtures_give_tensors_the_types_that_their_names_promise),
        cmocka_unit_test(recipes_are_found_by_the_names_that_others_give_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
