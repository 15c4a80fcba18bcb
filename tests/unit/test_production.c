/*
 * The three routes of llm and gpt: the same losses and the same files, and the production route
 * without an allocation in any step, the first one included.
 */
#include <stdio.h>

#include "cli/train/train_routes.h"
#include "ingot/arch.h"
#include "ingot/checkpoint.h"
#include "unit/meter.h"

enum { BATCH = 3, ROWS = 17, STEPS = 50, TOKENS = BATCH * (ROWS + 1) };

static const char *const archs[] = {"llm", "gpt"};
static const ig_train_options options = {.lr = 3e-3, .clip_norm = 1};

static ig_model_config config_of(const char *arch) {
    const bool grouped = strcmp(arch, "llm") == 0;
    return (ig_model_config){.d_model = 32,
                             .n_layers = 2,
                             .n_heads = 4,
                             .n_kv_heads = grouped ? 2 : 0,
                             .d_ff = 48,
                             .ctx_len = 32};
}

typedef struct trained {
    meter m;
    ig_ctx *ctx;
    ig_adapter *adapter;
} trained;

static void open_ctx_of(trained *t, int threads) {
    *t = (trained){0};
    const ig_ctx_options o = {
        .seed = 11, .threads = threads, .device = "cpu", .allocator = meter_allocator(&t->m)};
    must(ig_ctx_create(&o, &t->ctx));
}

static void begin(trained *t, const char *arch, train_route route) {
    const ig_model_config config = config_of(arch);
    open_ctx_of(t, 1 + (int)route);
    must(ig_adapter_create(t->ctx, arch, &config, &t->adapter));
    must(train_route_begin(t->ctx, t->adapter, route, BATCH, ROWS, &options));
}

static void end(trained *t) {
    ig_adapter_destroy(t->adapter);
    ig_ctx_destroy(t->ctx);
    assert_int_equal(t->m.held, 0);
}

static void fill(int32_t *tokens, int step) {
    for (int i = 0; i < TOKENS; i++) tokens[i] = (step * 5 + i * i) % 97;
}

static void train(trained *t, int from, int to, double *losses) {
    int32_t tokens[TOKENS];
    for (int step = from; step < to; step++) {
        fill(tokens, step);
        must(ig_adapter_train(t->adapter, tokens, BATCH, ROWS, &options, &losses[step]));
    }
}

static void losses_are_bit_exact_by_all_routes(void **state) {
    (void)state;
    for (int a = 0; a < 2; a++) {
        double losses[TRAIN_ROUTES][STEPS];
        for (int route = TRAIN_EASY; route < TRAIN_ROUTES; route++) {
            trained t;
            begin(&t, archs[a], (train_route)route);
            train(&t, 0, STEPS, losses[route]);
            assert_int_equal(ig_adapter_steps(t.adapter), STEPS);
            assert_int_equal(ig_ctx_step_count(t.ctx), STEPS);
            assert_int_equal(ig_report_counters(t.ctx).steps, STEPS);
            end(&t);
        }
        assert_memory_equal(losses[TRAIN_EASY], losses[TRAIN_REPLAY], sizeof losses[0]);
        assert_memory_equal(losses[TRAIN_EASY], losses[TRAIN_PRODUCTION], sizeof losses[0]);
        assert_true(losses[0][STEPS - 1] < losses[0][0] - 0.5);
    }
}

/* Init has planned everything: not even the first step allocates. */
static void no_step_of_production_allocates(void **state) {
    (void)state;
    for (int a = 0; a < 2; a++) {
        trained t;
        double losses[STEPS];
        begin(&t, archs[a], TRAIN_PRODUCTION);
        const meter before = t.m;
        const ig_counters c = ig_report_counters(t.ctx);
        for (int step = 0; step < STEPS; step++) {
            train(&t, step, step + 1, losses);
            if (t.m.asked != before.asked)
                fail_msg("%s: step %d allocates %d times", archs[a], step,
                         (int)(t.m.asked - before.asked));
        }
        const ig_counters after = ig_report_counters(t.ctx);
        assert_int_equal(t.m.held, before.held);
        assert_int_equal(after.waits - c.waits, 4 * STEPS); /* forward, backward, clip, update */
        assert_int_equal(after.submits - c.submits, 4 * STEPS);
        assert_true(after.dispatches - c.dispatches > 60 * STEPS);
        end(&t);
    }
}

/* A step by one route, a file, and the next steps by another route: as one run by one of them. */
static void training_resumes_by_another_route_bit_exactly(void **state) {
    (void)state;
    enum { CUT = 7, ALL = 20 };
    for (int a = 0; a < 2; a++) {
        char path[] = "/tmp/ingot-production-XXXXXX";
        double straight[ALL], resumed[ALL];
        trained t;
        assert_true(mkstemp(path) >= 0);
        begin(&t, archs[a], TRAIN_PRODUCTION);
        train(&t, 0, ALL, straight);
        end(&t);
        for (int first = TRAIN_EASY; first < TRAIN_ROUTES; first++) {
            const train_route second = (train_route)((first + 2) % TRAIN_ROUTES);
            begin(&t, archs[a], (train_route)first);
            train(&t, 0, CUT, resumed);
            must(ig_adapter_save(t.adapter, path, NULL));
            end(&t);
            open_ctx_of(&t, 2);
            must(ig_adapter_load(t.ctx, path, &t.adapter));
            must(train_route_begin(t.ctx, t.adapter, second, BATCH, ROWS, &options));
            train(&t, CUT, ALL, resumed);
            end(&t);
            assert_memory_equal(straight, resumed, sizeof straight);
        }
        remove(path);
    }
}

/* Evaluation and generation between steps use the modules, and change no loss. */
static void evaluation_and_samples_between_steps_change_nothing(void **state) {
    (void)state;
    double plain[10], mixed[10], loss;
    int32_t tokens[TOKENS];
    trained t;
    begin(&t, "llm", TRAIN_PRODUCTION);
    train(&t, 0, 10, plain);
    end(&t);
    begin(&t, "llm", TRAIN_PRODUCTION);
    fill(tokens, 1);
    for (int step = 0; step < 10; step++) {
        const ig_generate_options o = {.prompt = "a", .prompt_bytes = 1, .max_tokens = 4};
        train(&t, step, step + 1, mixed);
        must(ig_adapter_evaluate(t.adapter, tokens, BATCH - 1, ROWS, &loss));
        must(ig_adapter_generate(t.adapter, &o, NULL));
    }
    end(&t);
    assert_memory_equal(plain, mixed, sizeof plain);
}

static void what_the_route_cannot_do_is_refused(void **state) {
    (void)state;
    int32_t tokens[TOKENS];
    trained t;
    double loss = 0;
    fill(tokens, 0);
    begin(&t, "llm", TRAIN_PRODUCTION);
    const ig_train_options sums = {.n_accumulated = 2};
    refused(ig_adapter_train(t.adapter, tokens, BATCH, ROWS, &sums, &loss), IG_ERR_ARGUMENT,
            "the production route does not accumulate gradients");
    must(ig_adapter_train(t.adapter, tokens, BATCH - 1, ROWS, &options, &loss)); /* Init again */
    must(ig_adapter_set_compute_dtype(t.adapter, IG_BF16));
    refused(ig_adapter_train(t.adapter, tokens, BATCH, ROWS, &options, &loss), IG_ERR_ARGUMENT,
            "the production route computes in F32");
    end(&t);
    const ig_model_config config = config_of("tinyllm");
    open_ctx_of(&t, 1);
    must(ig_adapter_create(t.ctx, "tinyllm", &config, &t.adapter));
    refused(ig_adapter_use_production(t.adapter, NULL, BATCH, ROWS, NULL), IG_ERR_ARGUMENT,
            "tinyllm: has no production route");
    end(&t);
}

/* Nothing is updated, and the error names the op, as by the other routes. */
static void a_loss_that_is_not_finite_updates_nothing(void **state) {
    (void)state;
    int32_t tokens[TOKENS];
    const ig_train_options wild = {.lr = 1e30};
    trained t;
    double loss = 0;
    ig_status status = IG_OK;
    fill(tokens, 0);
    begin(&t, "llm", TRAIN_PRODUCTION);
    int64_t steps = 0;
    for (int i = 0; i < 10 && status == IG_OK; i++) {
        steps = ig_adapter_steps(t.adapter);
        status = ig_adapter_train(t.adapter, tokens, BATCH, ROWS, &wild, &loss);
    }
    assert_int_equal(status, IG_ERR_NOT_FINITE);
    assert_int_equal(ig_adapter_steps(t.adapter), steps);
    end(&t);
}

/* Whichever allocation of Init or of the first steps fails, it is an error and nothing leaks. */
static void init_survives_every_failing_allocation(void **state) {
    (void)state;
    const ig_model_config config = config_of("gpt");
    uint64_t first = 0, last = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t n = pass ? first : 0; n <= last; n += 1 + n % 5) {
            trained t;
            open_ctx_of(&t, 1);
            must(ig_adapter_create(t.ctx, "gpt", &config, &t.adapter));
            if (pass == 0) first = t.m.asked + 1;
            t.m.fail_at = n;
            const ig_status status =
                train_route_begin(t.ctx, t.adapter, TRAIN_PRODUCTION, BATCH, ROWS, &options);
            if (pass == 0) must(status);
            if (pass == 0) last = t.m.asked;
            if (pass == 1) assert_true(status == IG_ERR_MEMORY || status == IG_OK);
            t.m.fail_at = 0;
            end(&t);
            if (pass == 0) break;
        }
    }
    assert_true(last > first + 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_bit_exact_by_all_routes),
        cmocka_unit_test(no_step_of_production_allocates),
        cmocka_unit_test(training_resumes_by_another_route_bit_exactly),
        cmocka_unit_test(evaluation_and_samples_between_steps_change_nothing),
        cmocka_unit_test(what_the_route_cannot_do_is_refused),
        cmocka_unit_test(a_loss_that_is_not_finite_updates_nothing),
        cmocka_unit_test(init_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
