/*
 * Architectures that a program registers: by modules, by dispatches alone, and refused ones; and
 * the files of both.
 */
#include <stdio.h>

#include "cli/train/train_routes.h"
#include "ingot/arch.h"
#include "ingot/model.h"
#include "ingot/session.h"
#include "unit/meter.h"

const ig_arch_desc *production_llm_entry(size_t i); /* of examples/production_llm.c */

enum { BATCH = 2, ROWS = 12, TOKENS = BATCH * (ROWS + 1) };

static const ig_model_config small = {.d_model = 16, .n_layers = 1, .d_ff = 32, .ctx_len = 24};

/* ---- a model of modules: the next byte from this byte ---- */

static ig_status bigram_create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    ig_module **parts = calloc(2, sizeof(ig_module *));
    (void)ctx;
    *out = parts;
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, c->d_model, 0.02, &parts[0]));
    return ig_arch_linear(root, "head", c->d_model, c->vocabulary, true, &parts[1]);
}
static void bigram_destroy(ig_ctx *ctx, void *model) {
    (void)ctx;
    free(model);
}
static ig_tensor *bigram_hidden(void *model, const ig_ubatch *rows) {
    ig_tensor *h = ig_module_call(((ig_module **)model)[0], ig_ubatch_ids(rows));
    return ig_ubatch_outputs(rows, 0, h);
}
static ig_tensor *bigram_head(void *model, ig_tensor *h) {
    return ig_module_call(((ig_module **)model)[1], h);
}
static ig_status bigram_check(const ig_lm_config *c) {
    if (c->d_model % 2 == 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "bigram: d_model %lld is odd", (long long)c->d_model);
}

static ig_arch_desc bigram(void) {
    return (ig_arch_desc){.abi = IG_ARCH_ABI,
                          .struct_size = sizeof(ig_arch_desc),
                          .name = "bigram",
                          .description = "the next byte from this one",
                          .defaults = {.d_model = 16, .n_layers = 1, .ctx_len = 24},
                          .check = bigram_check,
                          .create = bigram_create,
                          .destroy = bigram_destroy,
                          .hidden = bigram_hidden,
                          .head = bigram_head};
}

/* ---- steps ---- */

static ig_ctx *make_ctx(void) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.seed = 3, .threads = 2}, &ctx));
    return ctx;
}

static double steps(ig_adapter *a, int from, int to, double *out_first) {
    int32_t tokens[TOKENS];
    double loss = 0;
    for (int step = from; step < to; step++) {
        for (int i = 0; i < TOKENS; i++) tokens[i] = 'a' + (i + step) % 5;
        must(ig_adapter_train(a, tokens, BATCH, ROWS, &(ig_train_options){.lr = 0.05}, &loss));
        if (step == from && out_first) *out_first = loss;
    }
    return loss;
}

static bool keep(void *user, const char *text, size_t bytes) {
    strncat(user, text, bytes);
    return true;
}

static void generate(ig_adapter *a, char *out, int tokens) {
    const ig_generate_options o = {.prompt = "abc",
                                   .prompt_bytes = 3,
                                   .max_tokens = tokens,
                                   .sampling = {.temperature = -1},
                                   .emit = keep,
                                   .user = out};
    out[0] = 0;
    must(ig_adapter_generate(a, &o, NULL));
}

/* Trains, saves, loads in a context that knows the architecture, and continues. */
static void live(const ig_arch_desc *desc, ig_model_config config) {
    char path[] = "/tmp/ingot-arch-XXXXXX", text[64], again[64];
    double first = 0;
    ig_adapter *a = NULL;
    assert_true(mkstemp(path) >= 0);
    ig_ctx *ctx = make_ctx();
    must(ig_arch_register(ctx, desc));
    must(ig_adapter_create(ctx, desc->name, &config, &a));
    assert_string_equal(ig_adapter_architecture(a), desc->name);
    assert_true(steps(a, 0, 60, &first) < 0.5 * first);
    generate(a, text, 10);
    must(ig_adapter_save(a, path, NULL));
    const double straight = steps(a, 60, 64, NULL);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);

    ctx = make_ctx();
    char want[160];
    snprintf(want, sizeof want, "unknown architecture %s; known: llm gpt tinyllm", desc->name);
    refused(ig_adapter_load(ctx, path, &a), IG_ERR_MODEL, want);
    refused(ig_adapter_load(ctx, path, &a), IG_ERR_MODEL, "load that with --plugin FILE");
    must(ig_arch_register(ctx, desc));
    must(ig_adapter_load(ctx, path, &a));
    assert_int_equal(ig_adapter_steps(a), 60);
    generate(a, again, 10);
    assert_string_equal(text, again);
    assert_true(steps(a, 60, 64, NULL) == straight);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
    remove(path);
}

static void a_model_of_modules_lives_like_a_built_in_one(void **state) {
    (void)state;
    const ig_arch_desc desc = bigram();
    live(&desc, small);
}

/* No hidden() and no head(): sessions run forward() over the text so far. */
static void a_model_of_dispatches_alone_lives_too(void **state) {
    (void)state;
    ig_arch_desc desc = *production_llm_entry(0);
    desc.name = "by_hand";
    live(&desc, small);
}

/* What it generates is what llm generates from the same weights through a KV cache. */
static void dispatches_generate_what_modules_generate(void **state) {
    (void)state;
    char texts[2][64];
    for (int hand = 0; hand < 2; hand++) {
        ig_ctx *ctx = make_ctx();
        ig_adapter *a = NULL;
        must(ig_arch_register(ctx, production_llm_entry(0)));
        must(ig_adapter_create(ctx, hand ? "production_llm" : "llm", &small, &a));
        assert_int_equal(ig_adapter_has_modules(a), !hand);
        steps(a, 0, 40, NULL);
        generate(a, texts[hand], 20);
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_true(strlen(texts[0]) >= 20);
}

static void a_model_of_dispatches_has_no_hidden_states(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx();
    ig_adapter *a = NULL;
    float out[16];
    must(ig_arch_register(ctx, production_llm_entry(0)));
    must(ig_adapter_create(ctx, "production_llm", &small, &a));
    refused(ig_adapter_embed(a, "ab", 2, IG_POOL_DEFAULT, out, NULL), IG_ERR_ARGUMENT,
            "production_llm: is defined by dispatches");
    refused(train_route_begin(ctx, a, TRAIN_REPLAY, BATCH, ROWS, NULL), IG_ERR_ARGUMENT,
            "--route replay: production_llm is defined by dispatches");
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

/* ---- errors inside a forward pass ---- */

/* Keys of one head more than the KV cache has; what attention returns is dropped. */
static ig_tensor *misfit_hidden(void *model, const ig_ubatch *rows) {
    ig_tensor *h = bigram_hidden(model, rows);
    ig_tensor *v = ig_split_heads(h, 2), *k = ig_concat((ig_tensor *[]){v, v}, 2, 2);
    (void)ig_ubatch_attend(rows, 0, v, k, v);
    return h;
}

static void keys_that_do_not_fit_the_cache_poison_the_pass(void **state) {
    (void)state;
    ig_arch_desc desc = bigram();
    desc.hidden = misfit_hidden;
    desc.has_cache = true;
    ig_ctx *ctx = make_ctx();
    ig_adapter *a = NULL;
    ig_session *session = NULL;
    float logits[256];
    ig_model_config config = small;
    config.n_heads = config.n_kv_heads = 2;
    must(ig_arch_register(ctx, &desc));
    must(ig_adapter_create(ctx, "bigram", &config, &a));
    must(ig_session_create(a, NULL, &session));
    for (int again = 0; again < 2; again++)
        refused(ig_session_feed(session, 0, (int32_t[]){'a'}, 1, logits), IG_ERR_SHAPE,
                "store_rows");
    ig_tensor *one = ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(1)}, 1); /* nothing is pending */
    must(ig_eval(&one, 1));
    ig_session_destroy(session);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

/* ---- names ---- */

static void names_belong_to_a_context_and_are_taken_once(void **state) {
    (void)state;
    ig_ctx *one = make_ctx(), *other = make_ctx();
    ig_arch_desc desc = bigram();
    char name[] = "bigram";
    desc.name = name;
    must(ig_arch_register(one, &desc));
    name[0] = 'x'; /* the context has a copy */
    assert_string_equal(ig_arch_resolve(one, "OaBigram"), "bigram");
    assert_null(ig_arch_resolve(other, "bigram"));
    assert_null(ig_arch_resolve(NULL, "bigram"));
    assert_string_equal(ig_arch_registered(one, 0)->name, "bigram");
    assert_null(ig_arch_registered(one, 1));
    assert_null(ig_arch_registered(other, 0));
    name[0] = 'b';
    refused(ig_arch_register(one, &desc), IG_ERR_MODEL, "an architecture bigram is registered");
    desc.name = "q-wen3"; /* also in another spelling */
    refused(ig_arch_register(one, &desc), IG_ERR_MODEL,
            "q-wen3 is that of a built-in architecture");
    refused(ig_adapter_create(one, "trigram", NULL, NULL), IG_ERR_ARGUMENT, "NULL");
    ig_adapter *a = NULL;
    refused(ig_adapter_create(one, "trigram", NULL, &a), IG_ERR_MODEL, "llm gpt tinyllm bigram");
    refused(ig_adapter_create(one, "bigram", &(ig_model_config){.d_model = 7}, &a), IG_ERR_ARGUMENT,
            "bigram: d_model 7 is odd");
    ig_ctx_destroy(one);
    ig_ctx_destroy(other);
}

/* ---- data attached to a context ---- */

static char order[8];
static void note(void *data) { strcat(order, data); }

static void attached_data_go_with_the_context_newest_first(void **state) {
    (void)state;
    static const char first, second, third;
    char a[] = "a", b[] = "b";
    ig_ctx *ctx = make_ctx();
    order[0] = 0;
    must(ig_ctx_attach(ctx, &first, a, note));
    must(ig_ctx_attach(ctx, &second, b, note));
    must(ig_ctx_attach(ctx, &third, a, NULL)); /* nothing to do in the end */
    assert_ptr_equal(ig_ctx_attached(ctx, &first), a);
    assert_ptr_equal(ig_ctx_attached(ctx, &second), b);
    assert_null(ig_ctx_attached(ctx, order));
    refused(ig_ctx_attach(ctx, &first, b, note), IG_ERR_STATE, "the key has data already");
    refused(ig_ctx_attach(ctx, NULL, b, note), IG_ERR_ARGUMENT, "NULL");
    assert_string_equal(order, "");
    ig_ctx_destroy(ctx);
    assert_string_equal(order, "ba");
}

/* ---- broken tables ---- */

static void broken_tables_are_refused_with_the_reason(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx();
    const ig_arch_desc good = bigram();
    ig_production half = *production_llm_entry(0)->production, older = half;
    half.backward = NULL;
    older.abi = 0;
    const struct {
        const char *words;
        ig_arch_desc desc;
    } rows[] = {
#define BROKEN(words_, ...)     \
    {words_, (__extension__({   \
         ig_arch_desc d = good; \
         __VA_ARGS__;           \
         d;                     \
     }))}
        BROKEN("its table is for ABI 0, older than this one's", d.abi = 0),
        BROKEN("its table is for ABI 9, newer than this one's", d.abi = 9),
        BROKEN("its table has 16 bytes", d.struct_size = 16),
        BROKEN("its name is missing", d.name = NULL),
        BROKEN("has other characters than a-z", d.name = "My Model"),
        BROKEN("bigram has no create()", d.create = NULL),
        BROKEN("bigram has no head()", d.head = NULL),
        BROKEN("bigram has no hidden()", d.hidden = NULL, d.head = NULL),
        BROKEN("defaults of d_model 0", d.defaults.d_model = 0),
        BROKEN("bigram has no production.backward()", d.production = &half),
        BROKEN("its production table is for ABI 0", d.production = &older),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        refused(ig_arch_register(ctx, &rows[i].desc), IG_ERR_MODEL, rows[i].words);
    assert_null(ig_arch_registered(ctx, 0));
    must(ig_arch_register(ctx, &good)); /* the name is still free */
    ig_ctx_destroy(ctx);
}

/* A table of an older day ends early: what it does not have is NULL. */
static void fields_beyond_struct_size_count_as_null(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx();
    ig_arch_desc desc = bigram();
    desc.struct_size = offsetof(ig_arch_desc, production);
    desc.production = (const ig_production *)(uintptr_t)1; /* not to be read */
    must(ig_arch_register(ctx, &desc));
    assert_null(ig_arch_registered(ctx, 0)->production);
    ig_ctx_destroy(ctx);
}

/* ---- plugins ---- */

#define PLUGIN(name) TEST_PLUGIN_DIR "/archs/" name ".so"

static void plugins_register_all_their_architectures_or_none(void **state) {
    (void)state;
    static const struct {
        const char *path, *words;
        ig_status status;
    } rows[] = {
        {PLUGIN("no_entry"), "does not export ig_arch_entry()", IG_ERR_MODEL},
        {PLUGIN("empty"), "has no architecture", IG_ERR_MODEL},
        {PLUGIN("endless"), "has more than 64 architectures", IG_ERR_MODEL},
        {PLUGIN("newer_abi"), "its table is for ABI 2, newer than this one's", IG_ERR_MODEL},
        {PLUGIN("half"), "half has no head()", IG_ERR_MODEL},
        {"/nowhere/model.so", "No such file or directory", IG_ERR_MODEL},
        {"model.so", "is not an absolute path", IG_ERR_MODEL},
    };
    ig_ctx *ctx = make_ctx();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refused(ig_arch_load(ctx, rows[i].path), rows[i].status, rows[i].words);
        refused(ig_arch_probe(rows[i].path), rows[i].status, rows[i].words);
        assert_null(ig_arch_registered(ctx, 0));
    }
    must(ig_arch_probe(PLUGIN("sound")));
    must(ig_arch_load(ctx, PLUGIN("sound")));
    assert_string_equal(ig_arch_registered(ctx, 0)->name, "sound");
    refused(ig_arch_load(ctx, PLUGIN("sound")), IG_ERR_MODEL, "sound is registered already");
    ig_ctx_destroy(ctx);
}

static void registering_survives_every_failing_allocation(void **state) {
    (void)state;
    const ig_arch_desc desc = bigram();
    uint64_t last = 1;
    for (uint64_t n = 0; n < last; n++) {
        meter m = {0};
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(&(ig_ctx_options){.allocator = meter_allocator(&m)}, &ctx));
        const uint64_t first = m.asked;
        m.fail_at = n ? first + n : 0;
        const ig_status status = ig_arch_register(ctx, &desc);
        if (n == 0) last = m.asked - first + 1;
        assert_int_equal(status, n == 0 ? IG_OK : IG_ERR_MEMORY);
        m.fail_at = 0;
        if (n > 0) must(ig_arch_register(ctx, &desc));
        ig_ctx_destroy(ctx);
        assert_int_equal(m.held, 0);
    }
    assert_true(last > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_modules_lives_like_a_built_in_one),
        cmocka_unit_test(a_model_of_dispatches_alone_lives_too),
        cmocka_unit_test(dispatches_generate_what_modules_generate),
        cmocka_unit_test(a_model_of_dispatches_has_no_hidden_states),
        cmocka_unit_test(keys_that_do_not_fit_the_cache_poison_the_pass),
        cmocka_unit_test(names_belong_to_a_context_and_are_taken_once),
        cmocka_unit_test(attached_data_go_with_the_context_newest_first),
        cmocka_unit_test(broken_tables_are_refused_with_the_reason),
        cmocka_unit_test(fields_beyond_struct_size_count_as_null),
        cmocka_unit_test(plugins_register_all_their_architectures_or_none),
        cmocka_unit_test(registering_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
