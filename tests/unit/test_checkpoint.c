/* Checkpoints: training goes on where it stopped, and what does not fit changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "directory.h"
#include "ingot/ingot.h"

#define OK(call)                                                            \
    do {                                                                    \
        const ig_status ok_status = (call);                                 \
        if (ok_status != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

#define REFUSED(code, words, call)                                                  \
    do {                                                                            \
        const ig_status refused_status = (call);                                    \
        if (refused_status != (code) || !strstr(ig_error_text(), words))            \
            fail_msg("%s: %d \"%s\"", #call, (int)refused_status, ig_error_text()); \
    } while (0)

static const char *file_in(void **state, char *out) {
    return directory_path(state, "model.oam", out);
}

/* ---- A small network with dropout: ids [b, 4] -> [b, 4, 6] -> [b, 24] -> [b, 10] -> [b, 7] ----
 */

enum {
    SYMBOLS = 7,
    WINDOW = 4,
    WIDTH = 6,
    FLAT = WINDOW * WIDTH,
    HIDDEN = 10,
    BATCH = 5,
    HALF = 10
};

typedef struct net {
    ig_ctx *ctx;
    ig_module *model, *embed, *fc1, *drop, *fc2;
    ig_optimizer *opt;
} net;

typedef struct net_options {
    uint64_t seed;
    int64_t hidden; /* 0: HIDDEN */
    bool sgd, no_bias;
    ig_allocator allocator;
} net_options;

static ig_tensor *forward(ig_module *module, ig_tensor *ids) {
    const net *n = ig_module_data(module);
    ig_tensor *x = ig_module_call(n->embed, ids);
    x = ig_reshape(x, IG_SHAPE(-1, FLAT));
    x = ig_tanh(ig_module_call(n->fc1, x));
    return ig_module_call(n->fc2, ig_module_call(n->drop, x));
}

static void net_create(net *n, net_options o) {
    const int64_t hidden = o.hidden ? o.hidden : HIDDEN;
    const ig_linear_options linear = {.no_bias = o.no_bias};
    OK(ig_ctx_create(&(ig_ctx_options){.seed = o.seed, .threads = 1, .allocator = o.allocator},
                     &n->ctx));
    OK(ig_module_create(n->ctx, forward, n, &n->model));
    OK(ig_embedding_create(n->ctx, SYMBOLS, WIDTH, &n->embed));
    OK(ig_linear_create(n->ctx, FLAT, hidden, NULL, &n->fc1));
    OK(ig_dropout_create(n->ctx, 0.3, &n->drop));
    OK(ig_linear_create(n->ctx, hidden, SYMBOLS, &linear, &n->fc2));
    OK(ig_module_add(n->model, "embed", n->embed));
    OK(ig_module_add(n->model, "fc1", n->fc1));
    OK(ig_module_add(n->model, "drop", n->drop));
    OK(ig_module_add(n->model, "fc2", n->fc2));
    if (o.sgd)
        OK(ig_sgd_create(n->model, &(ig_sgd_options){.lr = 0.05, .momentum = 0.9}, &n->opt));
    else
        OK(ig_adamw_create(n->model, &(ig_adamw_options){.lr = 0.01, .beta2 = 0.99}, &n->opt));
}

static void net_destroy(net *n) {
    ig_optimizer_destroy(n->opt);
    ig_module_destroy(n->model);
    ig_ctx_destroy(n->ctx);
}

/* One step on a batch that depends on `i` alone; the loss. */
static float train(const net *n, int i) {
    int32_t ids[BATCH * WINDOW], next[BATCH];
    for (int k = 0; k < BATCH * WINDOW; k++) ids[k] = (i * 31 + k * k + k / 3) % SYMBOLS;
    for (size_t k = 0; k < BATCH; k++)
        next[k] = (ids[k * WINDOW] + ids[k * WINDOW + WINDOW - 1]) % SYMBOLS;
    ig_tensor *x, *y;
    OK(ig_tensor_create_from(n->ctx, (ig_desc){IG_I32, IG_SHAPE(BATCH, WINDOW)}, ids, &x));
    OK(ig_tensor_create_from(n->ctx, (ig_desc){IG_I32, IG_SHAPE(BATCH)}, next, &y));

    float value;
    ig_optimizer_zero_grad(n->opt);
    ig_tensor *loss = ig_cross_entropy(ig_module_call(n->model, x), y);
    OK(ig_tensor_read(loss, &value, sizeof value));
    OK(ig_backward(loss));
    OK(ig_optimizer_step(n->opt));
    ig_tensor_release(x);
    ig_tensor_release(y);
    return value;
}

/* All parameters, one after the other; the caller frees. */
static void *params(const ig_module *model, size_t *out_bytes) {
    size_t used = 0;
    char *all = malloc(1 << 20);
    for (size_t i = 0; i < ig_module_param_count(model); i++) {
        ig_tensor *tensor = ig_module_param(model, i).tensor;
        uint64_t bytes = 0;
        assert_true(ig_desc_bytes(ig_tensor_desc(tensor), &bytes));
        OK(ig_tensor_read(tensor, all + used, (size_t)bytes));
        used += (size_t)bytes;
    }
    *out_bytes = used;
    return all;
}

static void assert_params_equal(const ig_module *a, const ig_module *b) {
    size_t a_bytes, b_bytes;
    void *pa = params(a, &a_bytes), *pb = params(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(pa, pb, a_bytes);
    free(pa);
    free(pb);
}

/* ---- Going on ---- */

static void goes_on_bit_for_bit(void **state, bool sgd) {
    char path[PATH_BYTES];
    file_in(state, path);
    float straight[2 * HALF], stopped[2 * HALF];
    net a = {0}, b = {0}, c = {0};
    net_create(&a, (net_options){.seed = 5, .sgd = sgd});
    for (int i = 0; i < 2 * HALF; i++) {
        if (i == 7) ig_optimizer_set_lr(a.opt, 1.0 / 3.0);
        straight[i] = train(&a, i);
    }

    net_create(&b, (net_options){.seed = 5, .sgd = sgd});
    for (int i = 0; i < HALF; i++) {
        if (i == 7) ig_optimizer_set_lr(b.opt, 1.0 / 3.0);
        stopped[i] = train(&b, i);
    }
    OK(ig_checkpoint_save(path, b.model, &(ig_checkpoint_options){.optimizer = b.opt}));
    net_destroy(&b);

    net_create(&c, (net_options){.seed = 5, .sgd = sgd});
    OK(ig_checkpoint_load(path, c.model, c.opt));
    assert_int_equal(ig_optimizer_steps(c.opt), HALF);
    assert_int_equal(ig_ctx_step_count(c.ctx), HALF);
    assert_true(ig_optimizer_lr(c.opt) == 1.0 / 3.0);
    for (int i = HALF; i < 2 * HALF; i++) stopped[i] = train(&c, i);

    assert_memory_equal(stopped, straight, sizeof straight);
    assert_params_equal(c.model, a.model);
    assert_true(straight[2 * HALF - 1] != straight[0]);
    net_destroy(&c);
    net_destroy(&a);
}

static void adamw_goes_on_bit_for_bit_after_a_reload(void **state) {
    goes_on_bit_for_bit(state, false);
}

static void sgd_goes_on_bit_for_bit_after_a_reload(void **state) {
    goes_on_bit_for_bit(state, true);
}

static void saving_changes_nothing_in_the_training_that_goes_on(void **state) {
    char path[PATH_BYTES];
    net a = {0}, b = {0};
    net_create(&a, (net_options){.seed = 5});
    net_create(&b, (net_options){.seed = 5});
    for (int i = 0; i < 6; i++) {
        const float loss = train(&a, i);
        assert_true(train(&b, i) == loss);
        OK(ig_checkpoint_save(file_in(state, path), b.model,
                              &(ig_checkpoint_options){.optimizer = b.opt}));
    }
    assert_params_equal(a.model, b.model);
    net_destroy(&b);
    net_destroy(&a);
}

static void adopted_weights_train_on_in_memory_and_leave_the_file_alone(void **state) {
    char path[PATH_BYTES];
    net a = {0}, b = {0};
    net_create(&a, (net_options){.seed = 5});
    for (int i = 0; i < HALF; i++) train(&a, i);
    OK(ig_checkpoint_save(file_in(state, path), a.model,
                          &(ig_checkpoint_options){.optimizer = a.opt}));

    net_create(&b, (net_options){.seed = 5});
    ig_checkpoint *file;
    OK(ig_checkpoint_open(path, &file));
    OK(ig_checkpoint_adopt(file, b.model));
    const void *bytes = ig_checkpoint_get(file, 0).bytes;
    assert_ptr_equal(ig_tensor_map(ig_module_param(b.model, 0).tensor), bytes);
    assert_params_equal(a.model, b.model);
    assert_int_equal(ig_ctx_step_count(b.ctx), 0);
    OK(ig_checkpoint_load_optimizer(file, b.opt));
    assert_int_equal(ig_ctx_step_count(b.ctx), HALF);
    ig_checkpoint_close(file); /* the parameters keep what they lie in */
    for (int i = HALF; i < 2 * HALF; i++) assert_true(train(&a, i) == train(&b, i));
    assert_params_equal(a.model, b.model);
    net_destroy(&b);
    net_destroy(&a);

    OK(ig_checkpoint_open(path, &file));
    OK(ig_checkpoint_verify(file));
    ig_checkpoint_close(file);
}

/* ---- What is in the file ---- */

static void the_file_tells_what_it_holds(void **state) {
    char path[PATH_BYTES];
    net n = {0};
    net_create(&n, (net_options){.seed = 9});
    train(&n, 0);
    OK(ig_checkpoint_save(file_in(state, path), n.model,
                          &(ig_checkpoint_options){.optimizer = n.opt,
                                                   .config = "{\"model\": \"small\"}",
                                                   .progress = "{\"epoch\":1}"}));
    ig_checkpoint *file;
    OK(ig_checkpoint_open(path, &file));
    OK(ig_checkpoint_verify(file));
    assert_int_equal(ig_checkpoint_version(file), 1);
    assert_string_equal(ig_checkpoint_config(file), "{\"model\": \"small\"}");
    assert_string_equal(ig_checkpoint_progress(file), "{\"epoch\":1}");
    const char text[] = "{\"kind\":\"adamw\",\"steps\":1,\"rate\":0.01,"
                        "\"beta1\":0.90000000000000002,\"beta2\":0.98999999999999999,\"eps\":1e-";
    assert_memory_equal(ig_checkpoint_optimizer(file), text, sizeof text - 1);
    assert_int_equal(ig_checkpoint_seed(file), 9);
    assert_int_equal(ig_checkpoint_step(file), 1);

    const size_t n_params = ig_module_param_count(n.model);
    assert_int_equal(ig_checkpoint_count(file), 3 * n_params);
    for (size_t i = 0; i < n_params; i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(file, i);
        assert_string_equal(t.name, ig_module_param(n.model, i).path);
        assert_int_equal(t.role, IG_ROLE_WEIGHT);
    }
    const ig_checkpoint_tensor mean = ig_checkpoint_get(file, n_params);
    assert_string_equal(mean.name, "embed.weight#mean");
    assert_int_equal(mean.role, IG_ROLE_OPTIMIZER);
    assert_string_equal(ig_checkpoint_get(file, 3 * n_params).name, "");
    ig_checkpoint_close(file);
    net_destroy(&n);
}

static void without_options_the_weights_go_alone(void **state) {
    char path[PATH_BYTES];
    net a = {0}, b = {0};
    net_create(&a, (net_options){.seed = 1});
    net_create(&b, (net_options){.seed = 2}); /* Weights alone do not ask for the seed. */
    train(&a, 0);
    OK(ig_checkpoint_save(file_in(state, path), a.model, NULL));
    OK(ig_checkpoint_load(path, b.model, NULL));
    assert_params_equal(a.model, b.model);
    assert_int_equal(ig_ctx_step_count(b.ctx), 0);

    ig_checkpoint *file;
    OK(ig_checkpoint_open(path, &file));
    assert_string_equal(ig_checkpoint_config(file), "{}");
    assert_string_equal(ig_checkpoint_progress(file), "{}");
    assert_string_equal(ig_checkpoint_optimizer(file), "");
    assert_int_equal(ig_checkpoint_count(file), ig_module_param_count(a.model));
    ig_checkpoint_close(file);
    net_destroy(&b);
    net_destroy(&a);
}

/* A module with a parameter of every dtype that can be one, an empty one and a scalar. */
static const ig_dtype reals[] = {IG_F32, IG_F16, IG_BF16, IG_F64};

static void odd_module(ig_ctx *ctx, ig_module **out) {
    ig_tensor *t;
    OK(ig_module_create(ctx, NULL, NULL, out));
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        OK(ig_module_add_param(*out, ig_dtype_name(reals[i]), (ig_desc){reals[i], IG_SHAPE(3, 7)},
                               &t));
    OK(ig_module_add_param(*out, "empty", (ig_desc){IG_F32, IG_SHAPE(2, 0, 3)}, &t));
    OK(ig_module_add_param(*out, "scalar", (ig_desc){IG_F32, {0}}, &t));
}

static void every_dtype_comes_back_with_nan_and_infinity_as_they_were(void **state) {
    char path[PATH_BYTES];
    ig_ctx *ctx;
    ig_module *a, *b;
    OK(ig_ctx_create(NULL, &ctx));
    odd_module(ctx, &a);
    odd_module(ctx, &b);
    uint8_t bits[3 * 7 * 8];
    for (size_t i = 0; i < sizeof bits; i++) bits[i] = (uint8_t)(0xff - i % 5); /* NaNs, mostly */
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        ig_tensor *t = ig_module_param(a, i).tensor;
        uint64_t bytes;
        assert_true(ig_desc_bytes(ig_tensor_desc(t), &bytes));
        OK(ig_tensor_write(t, bits, (size_t)bytes));
    }
    const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-45f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        OK(ig_tensor_write(ig_module_find(a, "scalar"), &odd[i], sizeof odd[i]));
        OK(ig_checkpoint_save(file_in(state, path), a, NULL));
        OK(ig_checkpoint_load(path, b, NULL));
        assert_params_equal(a, b);
    }
    ig_module_destroy(b);
    ig_module_destroy(a);
    ig_ctx_destroy(ctx);
}

/* ---- Another model ---- */

static void two_params(ig_ctx *ctx, const char *first, ig_desc desc, const char *second,
                       ig_module **out) {
    ig_tensor *t;
    OK(ig_module_create(ctx, NULL, NULL, out));
    OK(ig_module_add_param(*out, first, desc, &t));
    OK(ig_module_add_param(*out, second, (ig_desc){IG_F32, IG_SHAPE(2)}, &t));
}

static void what_does_not_fit_is_named_with_both_sides(void **state) {
    char path[PATH_BYTES];
    ig_ctx *ctx;
    ig_module *a, *shape, *dtype, *name;
    OK(ig_ctx_create(NULL, &ctx));
    two_params(ctx, "w", (ig_desc){IG_F32, IG_SHAPE(64, 128)}, "b", &a);
    two_params(ctx, "w", (ig_desc){IG_F32, IG_SHAPE(64, 256)}, "b", &shape);
    two_params(ctx, "w", (ig_desc){IG_F16, IG_SHAPE(64, 128)}, "b", &dtype);
    two_params(ctx, "w", (ig_desc){IG_F32, IG_SHAPE(64, 128)}, "bias", &name);
    OK(ig_checkpoint_save(file_in(state, path), a, NULL));
    REFUSED(IG_ERR_SHAPE, "w: file has [64,128] f32, model has [64,256] f32",
            ig_checkpoint_load(path, shape, NULL));
    REFUSED(IG_ERR_SHAPE, "w: file has [64,128] f32, model has [64,128] f16",
            ig_checkpoint_load(path, dtype, NULL));
    REFUSED(IG_ERR_SHAPE,
            "bias: file has none, model has [2] f32; b: file has [2] f32, model has none",
            ig_checkpoint_load(path, name, NULL));
    ig_module_destroy(name);
    ig_module_destroy(dtype);
    ig_module_destroy(shape);
    ig_module_destroy(a);
    ig_ctx_destroy(ctx);
}

/* Loading into `n` fails, changes nothing, and training goes on. */
static void assert_refused(const char *path, net *n, bool with_optimizer, ig_status code,
                           const char *words) {
    size_t bytes, bytes_after;
    void *before = params(n->model, &bytes);
    const int64_t steps = ig_optimizer_steps(n->opt);
    const uint64_t step = ig_ctx_step_count(n->ctx);
    REFUSED(code, words, ig_checkpoint_load(path, n->model, with_optimizer ? n->opt : NULL));
    void *after = params(n->model, &bytes_after);
    assert_int_equal(bytes, bytes_after);
    assert_memory_equal(before, after, bytes);
    assert_int_equal(ig_optimizer_steps(n->opt), steps);
    assert_int_equal(ig_ctx_step_count(n->ctx), step);
    train(n, 0);
    free(before);
    free(after);
}

static void another_model_is_refused_and_left_as_it_was(void **state) {
    char path[PATH_BYTES];
    net a = {0}, wide = {0}, bare = {0};
    net_create(&a, (net_options){0});
    net_create(&wide, (net_options){.hidden = HIDDEN + 1});
    net_create(&bare, (net_options){.no_bias = true});
    train(&a, 0);
    OK(ig_checkpoint_save(file_in(state, path), a.model,
                          &(ig_checkpoint_options){.optimizer = a.opt}));
    assert_refused(path, &wide, false, IG_ERR_SHAPE,
                   "fc1.weight: file has [10,24] f32, model has [11,24] f32; fc1.bias: file has "
                   "[10] f32, model has [11] f32; fc2.weight: file has [7,10] f32, model has "
                   "[7,11] f32 (");
    assert_refused(path, &wide, true, IG_ERR_SHAPE, "; and 6 more"); /* 3 more moments of each */
    assert_refused(path, &bare, false, IG_ERR_SHAPE, "fc2.bias: file has [7] f32, model has none");
    assert_refused(path, &bare, true, IG_ERR_SHAPE, "fc2.bias#variance");
    net_destroy(&bare);
    net_destroy(&wide);
    net_destroy(&a);
}

static void another_optimizer_or_seed_is_refused(void **state) {
    char path[PATH_BYTES];
    net a = {0}, b = {0}, sgd = {0}, seeded = {0};
    net_create(&a, (net_options){.seed = 3});
    net_create(&b, (net_options){.seed = 3});
    net_create(&sgd, (net_options){.seed = 3, .sgd = true});
    net_create(&seeded, (net_options){.seed = 4});
    file_in(state, path);

    OK(ig_checkpoint_save(path, a.model, NULL));
    assert_refused(path, &b, true, IG_ERR_ARGUMENT, "has no state of an optimizer");
    OK(ig_checkpoint_save(path, a.model, &(ig_checkpoint_options){.optimizer = a.opt}));
    assert_refused(path, &sgd, true, IG_ERR_ARGUMENT, "in the file is adamw, not sgd");
    assert_refused(path, &seeded, true, IG_ERR_ARGUMENT, "with seed 3, this context has 4");
    REFUSED(IG_ERR_ARGUMENT, "another module's", ig_checkpoint_load(path, b.model, a.opt));
    REFUSED(IG_ERR_ARGUMENT, "another module's",
            ig_checkpoint_save(path, b.model, &(ig_checkpoint_options){.optimizer = a.opt}));
    OK(ig_checkpoint_load(path, b.model, b.opt));
    net_destroy(&seeded);
    net_destroy(&sgd);
    net_destroy(&b);
    net_destroy(&a);
}

/* ---- Bad files ---- */

/* Flips a bit of a byte of tensor `i` in the file. */
static void damage(const char *path, size_t i) {
    ig_checkpoint *file;
    OK(ig_checkpoint_open(path, &file));
    const long at = (long)ig_checkpoint_get(file, i).offset + 5;
    ig_checkpoint_close(file);
    FILE *f = fopen(path, "r+b");
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    fputc(byte ^ 0x10, f);
    fclose(f);
}

static void damaged_bytes_are_not_loaded(void **state) {
    char path[PATH_BYTES];
    net a = {0}, b = {0};
    net_create(&a, (net_options){0});
    net_create(&b, (net_options){0});
    train(&a, 0);
    const ig_checkpoint_options options = {.optimizer = a.opt};
    OK(ig_checkpoint_save(file_in(state, path), a.model, &options));
    const size_t n_params = ig_module_param_count(a.model);

    /* Damage to moments does not matter to who loads weights alone. */
    damage(path, n_params + 2);
    assert_refused(path, &b, true, IG_ERR_FORMAT, "DATA is damaged: fc1.weight#mean");
    OK(ig_checkpoint_load(path, b.model, NULL));
    assert_params_equal(a.model, b.model);
    damage(path, n_params - 1);
    assert_refused(path, &b, false, IG_ERR_FORMAT, "DATA is damaged: fc2.bias");

    assert_int_equal(truncate(path, 5000), 0);
    assert_refused(path, &b, false, IG_ERR_FORMAT, "model.oam: is cut off: 5000 bytes");
    assert_int_equal(truncate(path, 0), 0);
    assert_refused(path, &b, false, IG_ERR_FORMAT, "model.oam: has 0 bytes");
    assert_int_equal(unlink(path), 0);
    assert_refused(path, &b, false, IG_ERR_IO, strerror(ENOENT));
    net_destroy(&b);
    net_destroy(&a);
}

static void what_cannot_be_saved_leaves_the_old_file(void **state) {
    char path[PATH_BYTES], elsewhere[PATH_BYTES + 16];
    net n = {0};
    net_create(&n, (net_options){0});
    OK(ig_checkpoint_save(file_in(state, path), n.model,
                          &(ig_checkpoint_options){.progress = "{\"old\":1}"}));
    REFUSED(IG_ERR_ARGUMENT, "config is not JSON",
            ig_checkpoint_save(path, n.model, &(ig_checkpoint_options){.config = "hidden = 3"}));
    REFUSED(IG_ERR_ARGUMENT, "no path", ig_checkpoint_save(NULL, n.model, NULL));
    REFUSED(IG_ERR_ARGUMENT, "no module", ig_checkpoint_save(path, NULL, NULL));
    ig_optimizer_set_lr(n.opt, INFINITY);
    REFUSED(IG_ERR_ARGUMENT, "rate is inf",
            ig_checkpoint_save(path, n.model, &(ig_checkpoint_options){.optimizer = n.opt}));
    snprintf(elsewhere, sizeof elsewhere, "%s/no/model.oam", (const char *)*state);
    REFUSED(IG_ERR_IO, strerror(ENOENT), ig_checkpoint_save(elsewhere, n.model, NULL));

    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = 4096; /* as if the disk were full */
    setrlimit(RLIMIT_FSIZE, &limit);
    const ig_status status = ig_checkpoint_save(path, n.model, NULL);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(status, IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "bytes needed, the limit is 4096"));

    assert_int_equal(directory_count(state), 1);
    ig_checkpoint *file;
    OK(ig_checkpoint_open(path, &file));
    OK(ig_checkpoint_verify(file));
    assert_string_equal(ig_checkpoint_progress(file), "{\"old\":1}");
    ig_checkpoint_close(file);
    net_destroy(&n);
}

/* ---- Who waits ---- */

typedef struct watcher {
    uint64_t done, total, told;
    bool cancels;
} watcher;

static void watch(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    watcher *w = user;
    assert_int_equal(event, IG_PROGRESS_LOAD);
    assert_true(done > w->done && done <= total);
    *w = (watcher){done, total, w->told + 1, w->cancels};
}

static bool is_cancelled(void *user) { return ((watcher *)user)->cancels; }

static void reading_a_large_file_reports_progress_and_can_be_cancelled(void **state) {
    enum { TENSORS = 4, VALUES = 5 << 20 };
    char path[PATH_BYTES];
    watcher w = {0};
    ig_ctx *ctx;
    ig_module *module;
    ig_tensor *t;
    OK(ig_ctx_create(&(ig_ctx_options){.progress = watch, .cancel = is_cancelled, .user = &w},
                     &ctx));
    OK(ig_module_create(ctx, NULL, NULL, &module));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        OK(ig_module_add_param(module, name, (ig_desc){IG_F32, IG_SHAPE(VALUES)}, &t));
    }
    OK(ig_checkpoint_save(file_in(state, path), module, NULL));
    OK(ig_checkpoint_load(path, module, NULL));
    assert_int_equal(w.told, TENSORS);
    assert_int_equal(w.done, w.total);
    assert_int_equal(w.total, (uint64_t)TENSORS * VALUES * sizeof(float));
    w = (watcher){.cancels = true};
    REFUSED(IG_ERR_CANCELLED, "cancelled", ig_checkpoint_load(path, module, NULL));
    assert_int_equal(w.told, 1);
    ig_module_destroy(module);
    ig_ctx_destroy(ctx);
}

/* ---- Memory ---- */

typedef struct meter {
    int64_t left; /* allocations until one fails; below 0: never */
    size_t used, peak;
} meter;

enum { NOTE_BYTES = 4096 }; /* before each allocation, for its size; keeps every alignment */

static void *meter_alloc(void *user, size_t bytes, size_t alignment) {
    meter *m = user;
    if (m->left == 0) return NULL;
    if (m->left > 0) m->left--;
    char *p = ig_heap.alloc(ig_heap.user, bytes + NOTE_BYTES, alignment);
    if (!p) return NULL;
    *(size_t *)(void *)p = bytes;
    m->used += bytes;
    if (m->used > m->peak) m->peak = m->used;
    return p + NOTE_BYTES;
}

static void meter_free(void *user, void *p) {
    char *begin = (char *)p - NOTE_BYTES;
    ((meter *)user)->used -= *(size_t *)(void *)begin;
    ig_heap.free(ig_heap.user, begin);
}

static void saving_does_not_need_the_model_twice(void **state) {
    enum { TENSORS = 16, BYTES_EACH = 256 << 10 };
    char path[PATH_BYTES];
    meter m = {.left = -1};
    ig_ctx *ctx;
    ig_module *module;
    ig_tensor *t;
    OK(ig_ctx_create(&(ig_ctx_options){.allocator = {meter_alloc, meter_free, &m}}, &ctx));
    OK(ig_module_create(ctx, NULL, NULL, &module));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        OK(ig_module_add_param(module, name, (ig_desc){IG_F32, IG_SHAPE(BYTES_EACH / 4)}, &t));
    }
    const size_t before = m.used;
    m.peak = before;
    OK(ig_checkpoint_save(file_in(state, path), module, NULL));
    assert_int_equal(m.used, before);
    assert_true(m.peak - before < (size_t)BYTES_EACH * 2);
    ig_module_destroy(module);
    ig_ctx_destroy(ctx);
    assert_int_equal(m.used, 0);
}

static void an_allocation_that_fails_leaves_file_and_module_as_they_were(void **state) {
    char path[PATH_BYTES];
    meter m = {.left = -1};
    net n = {0};
    net_create(&n, (net_options){.allocator = {meter_alloc, meter_free, &m}});
    train(&n, 0);
    const ig_checkpoint_options options = {.optimizer = n.opt, .progress = "{\"n\":1}"};
    OK(ig_checkpoint_save(file_in(state, path), n.model, &options));

    size_t bytes, bytes_after;
    void *before = params(n.model, &bytes);
    ig_status saved = IG_ERR_MEMORY, loaded = IG_ERR_MEMORY;
    for (int64_t i = 0; saved != IG_OK || loaded != IG_OK; i++) {
        assert_true(i < 1000);
        const size_t used = m.used;
        m.left = i;
        saved = ig_checkpoint_save(path, n.model, &options);
        m.left = i;
        loaded = ig_checkpoint_load(path, n.model, n.opt);
        m.left = -1;
        assert_true(saved == IG_OK || saved == IG_ERR_MEMORY);
        assert_true(loaded == IG_OK || loaded == IG_ERR_MEMORY);
        assert_int_equal(m.used, used);
        assert_int_equal(directory_count(state), 1);
        void *after = params(n.model, &bytes_after);
        assert_memory_equal(before, after, bytes);
        free(after);
    }
    free(before);
    net_destroy(&n);
    assert_int_equal(m.used, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(adamw_goes_on_bit_for_bit_after_a_reload),
        IN_DIRECTORY(sgd_goes_on_bit_for_bit_after_a_reload),
        IN_DIRECTORY(adopted_weights_train_on_in_memory_and_leave_the_file_alone),
        IN_DIRECTORY(saving_changes_nothing_in_the_training_that_goes_on),
        IN_DIRECTORY(the_file_tells_what_it_holds),
        IN_DIRECTORY(without_options_the_weights_go_alone),
        IN_DIRECTORY(every_dtype_comes_back_with_nan_and_infinity_as_they_were),
        IN_DIRECTORY(what_does_not_fit_is_named_with_both_sides),
        IN_DIRECTORY(another_model_is_refused_and_left_as_it_was),
        IN_DIRECTORY(another_optimizer_or_seed_is_refused),
        IN_DIRECTORY(damaged_bytes_are_not_loaded),
        IN_DIRECTORY(what_cannot_be_saved_leaves_the_old_file),
        IN_DIRECTORY(reading_a_large_file_reports_progress_and_can_be_cancelled),
        IN_DIRECTORY(saving_does_not_need_the_model_twice),
        IN_DIRECTORY(an_allocation_that_fails_leaves_file_and_module_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
