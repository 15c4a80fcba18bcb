/* Every architecture of the table through the interface that applications see. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingot/model.h"
#include "ingot/report.h"
#include "model/adapter.h"

enum { BATCH = 4, ROWS = 24, STEPS = 30 };

static const char text[] =
    "one fish two fish red fish blue fish old fish new fish this one has a star ";
static const double same_row = 1e-4; /* sums of a few hundred products, cut into other rows */

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static ig_ctx *make_ctx(int threads) {
    ig_ctx *ctx = NULL;
    OK(ig_ctx_create(&(ig_ctx_options){.seed = 4, .threads = threads}, &ctx));
    return ctx;
}

/* Where the device computes with plain loops of ref, on one thread: minutes that would show what
 * the processor's own run shows. */
static bool is_far(void) {
    const char *device = getenv("INGOT_DEVICE");
    return device && strcmp(device, "far") == 0;
}

static ig_adapter *make(ig_ctx *ctx, const char *arch) {
    const ig_model_config config = {
        .d_model = 32, .n_layers = 2, .n_heads = 4, .d_ff = 64, .ctx_len = 160};
    ig_adapter *a = NULL;
    OK(ig_adapter_create(ctx, arch, &config, &a));
    return a;
}

static void fill(int32_t *tokens, int step) {
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i <= ROWS; i++)
            tokens[b * (ROWS + 1) + i] =
                (unsigned char)text[(step * 11 + b * 17 + i) % (int)(sizeof text - 1)];
}

static double train(ig_adapter *a, int from, int to, double *losses) {
    int32_t tokens[BATCH * (ROWS + 1)];
    double loss = 0;
    for (int step = from; step < to; step++) {
        fill(tokens, step);
        const ig_train_options options = {.lr = 3e-3, .clip_norm = 1};
        OK(ig_adapter_train(a, tokens, BATCH, ROWS, &options, &loss));
        if (losses) losses[step] = loss;
    }
    return loss;
}

static void every_architecture_learns_and_all_modes_are_bit_exact(void **state) {
    (void)state;
    for (size_t i = 0; ig_arch_is_trainable(i); i++) {
        double losses[3][STEPS];
        for (int mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
            ig_ctx *ctx = make_ctx(1 + mode);
            ig_adapter *a = make(ctx, ig_arch_name(i));
            OK(ig_mode_set(ctx, (ig_mode)mode));
            train(a, 0, STEPS, losses[mode]);
            ig_adapter_destroy(a);
            ig_ctx_destroy(ctx);
        }
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_memory_equal(losses[0], losses[2], sizeof losses[0]);
        assert_true(losses[0][STEPS - 1] < 0.75 * losses[0][0]);
    }
}

static void training_resumes_from_a_file_as_if_it_had_not_stopped(void **state) {
    (void)state;
    for (size_t i = 0; ig_arch_is_trainable(i); i++) {
        char path[] = "/tmp/ingot-adapter-XXXXXX";
        double straight[STEPS], resumed[STEPS];
        assert_true(mkstemp(path) >= 0);
        ig_ctx *ctx = make_ctx(1);
        ig_adapter *a = make(ctx, ig_arch_name(i));
        train(a, 0, STEPS, straight);
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);

        ctx = make_ctx(2);
        a = make(ctx, ig_arch_name(i));
        train(a, 0, 12, resumed);
        OK(ig_adapter_save(a, path, "{\"epoch\":3}"));
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);

        ctx = make_ctx(1);
        OK(ig_adapter_load(ctx, path, &a));
        assert_string_equal(ig_adapter_architecture(a), ig_arch_name(i));
        assert_string_equal(ig_adapter_progress(a), "{\"epoch\":3}");
        assert_int_equal(ig_adapter_steps(a), 12);
        train(a, 12, STEPS, resumed);
        assert_memory_equal(straight, resumed, sizeof straight);
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);
        remove(path);
    }
}

/* Generating needs neither gradients nor moments; a model saved again has them all the same. */
static void an_optimizer_stays_in_its_file_until_a_training_step(void **state) {
    (void)state;
    char path[] = "/tmp/ingot-adapter-XXXXXX", again[] = "/tmp/ingot-again-XXXXXX";
    assert_true(mkstemp(path) >= 0 && mkstemp(again) >= 0);
    double losses[STEPS];
    ig_ctx *ctx = make_ctx(1);
    ig_adapter *a = make(ctx, "llm");
    train(a, 0, 12, losses);
    OK(ig_adapter_save(a, path, NULL));
    const double straight = train(a, 12, 14, losses);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);

    ctx = make_ctx(1);
    OK(ig_adapter_load(ctx, path, &a));
    assert_null(a->optimizer);
    assert_int_equal(ig_report_memory(ctx).allocated_bytes, 0); /* weights lie in the file */
    assert_int_equal(ig_adapter_steps(a), 12);
    OK(ig_adapter_save(a, again, NULL));
    assert_int_equal(ig_adapter_steps(a), 12);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);

    ctx = make_ctx(1);
    OK(ig_adapter_load(ctx, again, &a));
    assert_true(train(a, 12, 14, losses) == straight);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
    remove(again);
    remove(path);
}

/* Eight bits of each factor, and sums of F32: about a hundredth of what is learned. */
static const double bf16_share = 0.02;

static void in_bf16_it_learns_nearly_the_same(void **state) {
    (void)state;
    if (is_far()) skip();
    for (size_t i = 0; ig_arch_is_trainable(i); i++) {
        double losses[4][STEPS];
        for (int run = 0; run < 4; run++) { /* f32, then bf16 in each mode */
            ig_ctx *ctx = make_ctx(1 + run % 2);
            ig_adapter *a = make(ctx, ig_arch_name(i));
            OK(ig_adapter_set_compute_dtype(a, run == 0 ? IG_F32 : IG_BF16));
            OK(ig_mode_set(ctx, run == 0 ? IG_MODE_COMPILED : (ig_mode)(run - 1)));
            train(a, 0, STEPS, losses[run]);
            ig_adapter_destroy(a);
            ig_ctx_destroy(ctx);
        }
        assert_memory_equal(losses[1], losses[2], sizeof losses[1]);
        assert_memory_equal(losses[1], losses[3], sizeof losses[1]);
        const double learned = losses[0][0] - losses[0][STEPS - 1];
        const double apart = losses[1][STEPS - 1] - losses[0][STEPS - 1];
        assert_true(apart != 0 && fabs(apart) < bf16_share * learned);
    }
}

/* A weight that overflows in the middle of the model: the op is named, and nothing is learned. */
static void numbers_that_are_not_finite_are_traced_to_their_op(void **state) {
    (void)state;
    int32_t tokens[BATCH * (ROWS + 1)];
    for (int mode = IG_MODE_DYNAMIC; mode <= IG_MODE_COMPILED; mode++) {
        ig_ctx *ctx = make_ctx(1);
        ig_adapter *a = make(ctx, "llm");
        OK(ig_mode_set(ctx, (ig_mode)mode));
        train(a, 0, 5, NULL);
        float *up = ig_tensor_map(ig_module_find(a->root, "layers.1.up.weight"));
        const float kept = up[0];
        up[0] = 3e38f;
        double loss = -1;
        fill(tokens, 5);
        assert_int_equal(ig_adapter_train(a, tokens, BATCH, ROWS, NULL, &loss), IG_ERR_NOT_FINITE);
        assert_non_null(strstr(ig_error_text(), "matmul with layers.1.up.weight -> [4,24,64]"));
        assert_true(loss == -1);
        assert_int_equal(ig_adapter_steps(a), 5);
        up[0] = kept;
        train(a, 5, 8, NULL); /* as if nothing had been */
        up[0] = NAN;
        assert_int_equal(ig_adapter_evaluate(a, tokens, BATCH, ROWS, &loss), IG_ERR_NOT_FINITE);
        assert_non_null(strstr(ig_error_text(), "adamw, broke layers.1.up.weight"));
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);
    }
}

typedef struct heard {
    char text[512];
    size_t bytes;
    int32_t ids[512];
    size_t n_ids;
} heard;

static bool hear(void *user, const char *piece, size_t bytes) {
    heard *h = user;
    assert_true(h->bytes + bytes < sizeof h->text);
    memcpy(h->text + h->bytes, piece, bytes);
    h->bytes += bytes;
    return true;
}

static void note_id(void *user, int32_t id, const float *logits) {
    assert_non_null(logits);
    heard *h = user;
    h->ids[h->n_ids++] = id;
}

static ig_generated greedy(ig_adapter *a, const char *prompt, int64_t count, heard *h) {
    const ig_generate_options options = {.prompt = prompt,
                                         .prompt_bytes = strlen(prompt),
                                         .max_tokens = count,
                                         .sampling = {.temperature = -1},
                                         .emit = hear,
                                         .token = note_id,
                                         .user = h};
    ig_generated out;
    memset(h, 0, sizeof *h);
    OK(ig_adapter_generate(a, &options, &out));
    return out;
}

static void the_time_for_plans_is_reported_apart_and_comes_once(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx(1);
    ig_adapter *a = make(ctx, ig_arch_name(0));
    heard h;
    const ig_generated first = greedy(a, "red fish", 4, &h), again = greedy(a, "red fish", 4, &h);
    assert_true(first.prefill_plan_ms > 0 && first.prefill_plan_ms < first.prefill_ms);
    assert_true(first.decode_plan_ms > 0 && first.decode_plan_ms < first.decode_ms);
    assert_true(again.prefill_plan_ms == 0);
    assert_true(again.decode_plan_ms == 0);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

static void greedy_text_is_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    if (is_far()) skip();
    for (size_t i = 0; ig_arch_is_trainable(i); i++) {
        heard first = {0};
        for (int threads = 1; threads <= 3; threads++) {
            ig_ctx *ctx = make_ctx(threads);
            ig_adapter *a = make(ctx, ig_arch_name(i));
            heard h;
            train(a, 0, STEPS, NULL);
            const ig_generated out = greedy(a, "red fish", 40, &h);
            assert_int_equal(out.n_prompt_tokens, 8);
            assert_int_equal(out.n_generated, 40);
            assert_int_equal(h.n_ids, 40);
            if (threads == 1) first = h;
            assert_memory_equal(first.ids, h.ids, sizeof h.ids);
            ig_adapter_destroy(a);
            ig_ctx_destroy(ctx);
        }
    }
}

/* The logits behind the last of `count` tokens, without a cache. */
static void whole_text(ig_adapter *a, const int32_t *tokens, int64_t count, float *out) {
    ig_tensor *ids, *positions;
    OK(ig_tensor_create_from(a->ctx, (ig_desc){IG_I32, IG_SHAPE(1, count)}, tokens, &ids));
    OK(ig_tensor_create(a->ctx, (ig_desc){IG_I32, IG_SHAPE(count)}, &positions));
    int32_t *p = ig_tensor_map(positions);
    for (int64_t i = 0; i < count; i++) p[i] = (int32_t)i;
    const ig_ubatch rows = {.ids = ids, .positions = positions};
    ig_scope_begin(a->ctx);
    ig_no_grad_begin(a->ctx);
    ig_tensor *logits = a->arch->head(a->model, a->arch->hidden(a->model, &rows));
    ig_tensor *last = ig_slice(logits, 1, count - 1, count);
    OK(ig_tensor_read(last, out, (size_t)a->config.vocabulary * sizeof *out));
    ig_no_grad_end(a->ctx);
    ig_scope_end(a->ctx);
    ig_tensor_release(ids);
    ig_tensor_release(positions);
}

static void a_cache_of_pages_gives_what_the_whole_text_gives(void **state) {
    (void)state;
    enum { LENGTH = 150 }; /* more than two pages */
    const ig_session_options exact = {.cache_type_k = "f32", .cache_type_v = "f32"};
    for (size_t i = 0; ig_arch_is_trainable(i); i++) {
        ig_ctx *ctx = make_ctx(1);
        ig_adapter *a = make(ctx, ig_arch_name(i));
        ig_session *s = NULL;
        int32_t tokens[LENGTH];
        float want[256], got[256], again[256];
        train(a, 0, 5, NULL);
        for (int k = 0; k < LENGTH; k++)
            tokens[k] = (unsigned char)text[k % (int)(sizeof text - 1)];
        OK(ig_session_create(a, &exact, &s));
        const int64_t cuts[] = {1, 64, 70, 128, LENGTH};
        for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
            OK(ig_session_truncate(s, 0, 0));
            OK(ig_session_feed(s, 0, tokens, cuts[c], got)); /* in chunks */
            whole_text(a, tokens, cuts[c], want);
            for (int k = 0; k < 256; k++)
                assert_true(fabs((double)got[k] - (double)want[k]) <=
                            same_row * (1 + fabs((double)want[k])));
            OK(ig_session_truncate(s, 0, 0));
            for (int64_t k = 0; k < cuts[c]; k++) OK(ig_session_feed(s, 0, tokens + k, 1, again));
            assert_memory_equal(got, again, sizeof got); /* and one by one: the same bits */
        }
        ig_session_destroy(s);
        ig_adapter_destroy(a);
        ig_ctx_destroy(ctx);
    }
}

static void stop_strings_end_the_text_before_them(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx(1);
    ig_adapter *a = make(ctx, "llm");
    heard h, whole;
    train(a, 0, 120, NULL);
    greedy(a, "one fish two", 30, &whole);
    assert_true(whole.bytes == 30);
    char stop[4] = {0};
    memcpy(stop, whole.text + 10, 3);
    const char *const stops[] = {"never said", stop};
    const ig_generate_options options = {.prompt = "one fish two",
                                         .prompt_bytes = 12,
                                         .max_tokens = 30,
                                         .sampling = {.temperature = -1},
                                         .stop = stops,
                                         .n_stop = 2,
                                         .emit = hear,
                                         .user = &h};
    ig_generated out;
    memset(&h, 0, sizeof h);
    OK(ig_adapter_generate(a, &options, &out));
    whole.text[whole.bytes] = '\0';
    const size_t end = (size_t)(strstr(whole.text, stop) - whole.text);
    assert_int_equal(out.finish, IG_FINISH_STOP);
    assert_int_equal(h.bytes, end);
    assert_memory_equal(h.text, whole.text, end);
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

static void assert_fails(ig_status status, ig_status want, const char *words) {
    assert_int_equal(status, want);
    if (!strstr(ig_error_text(), words)) fail_msg("%s", ig_error_text());
}

static void what_cannot_be_is_said_with_its_numbers(void **state) {
    (void)state;
    ig_ctx *ctx = make_ctx(1);
    ig_adapter *a = NULL;
    int32_t tokens[2 * 400] = {0};
    assert_fails(ig_adapter_create(ctx, "nothing", NULL, &a), IG_ERR_MODEL,
                 "unknown architecture nothing; known: llm gpt tinyllm");
    assert_fails(
        ig_adapter_create(ctx, "OaGpt", &(ig_model_config){.d_model = 100, .n_heads = 3}, &a),
        IG_ERR_ARGUMENT, "d_model 100 is not divisible by 3 heads");
    assert_fails(ig_adapter_create(ctx, "llm", &(ig_model_config){.n_layers = -1}, &a),
                 IG_ERR_ARGUMENT, "a size of -1");
    assert_fails(ig_adapter_create(ctx, "llm", &(ig_model_config){.tokenizer = "words"}, &a),
                 IG_ERR_ARGUMENT, "words");
    assert_null(a);
    a = make(ctx, "Oa-Tiny_LLM");
    assert_string_equal(ig_adapter_architecture(a), "tinyllm");
    assert_fails(ig_adapter_train(a, tokens, 2, 399, NULL, NULL), IG_ERR_ARGUMENT,
                 "rows of 399 tokens; the model's context is 160");
    char long_prompt[161];
    memset(long_prompt, 'x', sizeof long_prompt);
    assert_fails(ig_adapter_generate(
                     a, &(ig_generate_options){.prompt = long_prompt, .prompt_bytes = 160}, NULL),
                 IG_ERR_ARGUMENT,
                 "the prompt has 160 tokens, but the context is 160, of which 0 are taken");
    assert_fails(ig_adapter_load(ctx, "/nowhere/at/all.oam", &a), IG_ERR_IO, "/nowhere/at/all.oam");
    ig_adapter_destroy(a);
    ig_ctx_destroy(ctx);
}

static void accumulated_steps_equal_one_step_on_all_rows(void **state) {
    (void)state;
    ig_ctx *one = make_ctx(1), *many = make_ctx(1);
    ig_adapter *a = make(one, "llm"), *b = make(many, "llm");
    int32_t tokens[BATCH * (ROWS + 1)];
    double whole, part, sum = 0;
    for (int step = 0; step < 3; step++) {
        fill(tokens, step);
        OK(ig_adapter_train(a, tokens, BATCH, ROWS, &(ig_train_options){.lr = 1e-3}, &whole));
        sum = 0;
        for (int i = 0; i < 2; i++) {
            const ig_train_options options = {.lr = 1e-3, .accumulate = i == 0, .n_accumulated = 2};
            OK(ig_adapter_train(b, tokens + i * 2 * (ROWS + 1), 2, ROWS, &options, &part));
            sum += part / 2;
        }
        assert_true(fabs(sum - whole) < 1e-5 * whole); /* the same mean, summed in two parts */
    }
    assert_int_equal(ig_adapter_steps(a), 3);
    assert_int_equal(ig_adapter_steps(b), 3);
    ig_adapter_destroy(a);
    ig_adapter_destroy(b);
    ig_ctx_destroy(one);
    ig_ctx_destroy(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_learns_and_all_modes_are_bit_exact),
        cmocka_unit_test(training_resumes_from_a_file_as_if_it_had_not_stopped),
        cmocka_unit_test(an_optimizer_stays_in_its_file_until_a_training_step),
        cmocka_unit_test(numbers_that_are_not_finite_are_traced_to_their_op),
        cmocka_unit_test(in_bf16_it_learns_nearly_the_same),
        cmocka_unit_test(the_time_for_plans_is_reported_apart_and_comes_once),
        cmocka_unit_test(greedy_text_is_the_same_for_any_number_of_threads),
        cmocka_unit_test(a_cache_of_pages_gives_what_the_whole_text_gives),
        cmocka_unit_test(stop_strings_end_the_text_before_them),
        cmocka_unit_test(what_cannot_be_is_said_with_its_numbers),
        cmocka_unit_test(accumulated_steps_equal_one_step_on_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
