/*
 * The models of a server: loaded once for all who wait, shared, unloaded for others and when idle,
 * pinned, and remembered with the reason when they fail.
 */
#include <stdatomic.h>
#include <sys/stat.h>

#include "directory.h"
#include "ingot/testing.h"
#include "server/models.h"
#include "unit/check.h"

enum { LONG_MS = 60000 };

/* ---- helpers ---- */

static ig_models_options defaults(void) {
    return (ig_models_options){.ctx = {.device = "cpu", .threads = 1},
                               .engine = {.n_sequences = 2, .kv_bytes = 1 << 20}};
}

static void add(ig_models *models, void **state, const char *file, const char *names, bool pinned) {
    char path[PATH_BYTES];
    directory_path(state, file, path);
    must(ig_synthetic_model_write("llama", IG_Q8_0, path));
    must(ig_models_add(models,
                       &(ig_models_entry){.path = path, .names = names, .is_pinned = pinned}));
}

static ig_models *open_models(void **state, const ig_models_options *options) {
    ig_models *models = NULL;
    must(ig_models_create(options, &models));
    add(models, state, "a.gguf", NULL, false);
    add(models, state, "b.gguf", "b,second", false);
    return models;
}

/* Loads a model and holds it. */
static ig_served *hold(ig_models *models, const char *name) {
    ig_served *served = NULL;
    for (int i = 0; i < 3; i++) {
        const ig_served_state state = ig_models_acquire(models, name, true, NULL, &served);
        if (state == IG_SERVED_READY) return served;
        assert_int_equal(state, IG_SERVED_LOADING);
        assert_true(ig_models_settle(models, LONG_MS));
    }
    fail_msg("%s is not ready", name);
    return NULL;
}

static ig_served_state state_of(ig_models *models, const char *name) {
    ig_models_row row;
    return ig_models_find(models, name, &row) ? row.state : IG_SERVED_UNKNOWN;
}

static void count_call(void *user) { atomic_fetch_add((atomic_int *)user, 1); }

/* Waits for a change that the loader thread makes by itself. */
static void wait_until(ig_models *models, const char *name, ig_served_state state) {
    for (int i = 0; i < LONG_MS && state_of(models, name) != state; i++) usleep(1000);
    assert_int_equal(state_of(models, name), state);
}

/* ---- loading ---- */

static void requests_that_wait_share_one_load(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    atomic_int n_calls = 0;
    ig_models_waiter first = {.notify = count_call, .user = &n_calls}, second = first;
    ig_served *one = NULL, *two = NULL;
    assert_int_equal(ig_models_acquire(models, "a", false, NULL, &one), IG_SERVED_UNLOADED);
    assert_int_equal(ig_models_acquire(models, "a", true, &first, &one), IG_SERVED_LOADING);
    assert_int_equal(ig_models_acquire(models, "a", true, &second, &one), IG_SERVED_LOADING);
    assert_true(ig_models_settle(models, LONG_MS));
    assert_int_equal(n_calls, 2);
    assert_false(first.is_listed);
    assert_int_equal(ig_models_acquire(models, "a", true, &first, &one), IG_SERVED_READY);
    assert_int_equal(ig_models_acquire(models, "a", true, &second, &two), IG_SERVED_READY);
    assert_ptr_equal(one, two);
    assert_string_equal(one->id, "a");
    assert_string_equal(one->device, "cpu:0");
    assert_string_equal(one->quantization, "Q8_0");
    assert_true(one->can_generate);
    assert_string_equal(ig_chat_template_name(one->chat), "chatml"); /* the file has none */
    assert_string_equal(one->chat_text, "chatml");
    assert_string_equal(one->chat_error, "");
    assert_int_equal(one->ctx_train, 128);
    assert_int_equal(one->n_vocab, 320);
    ig_models_row row;
    assert_true(ig_models_list(models, 0, &row));
    assert_int_equal(row.n_held, 2);
    assert_true(row.bytes > row.kv_bytes && row.kv_bytes > 0);
    ig_models_release(models, one);
    ig_models_release(models, two);
    ig_models_destroy(models);
}

static void the_template_of_a_file_is_shown_as_text(void **state) {
    static const char jinja[] = "{{ messages[0].content }}";
    ig_models_options options = defaults();
    char path[PATH_BYTES];
    directory_path(state, "t.jinja", path);
    FILE *file = fopen(path, "w");
    fputs(jinja, file);
    fclose(file);
    options.chat_template = path;
    ig_models *models = open_models(state, &options);
    ig_served *served = hold(models, "a");
    assert_true(ig_chat_template_is_jinja(served->chat));
    assert_string_equal(served->chat_text, jinja);
    ig_models_release(models, served);
    ig_models_destroy(models);
}

static void a_model_has_several_names(void **state) {
    ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_models_row row;
    assert_true(ig_models_find(models, "second", &row));
    assert_string_equal(row.id, "b");
    assert_string_equal(row.aliases[0], "second");
    assert_true(ig_models_find(models, NULL, &row));
    assert_string_equal(row.id, "a");
    assert_false(ig_models_find(models, "gpt-3.5-turbo", &row));
    char path[PATH_BYTES];
    directory_path(state, "a.gguf", path);
    refused(ig_models_add(models, &(ig_models_entry){.path = path, .names = "x,second"}),
            IG_ERR_ARGUMENT, "'second'");
    ig_models_destroy(models);
}

static void the_only_model_has_every_name_unless_strict(void **state) {
    for (int strict = 0; strict < 2; strict++) {
        ig_models_options options = defaults();
        options.is_strict = strict;
        ig_models *models = NULL;
        ig_models_row row;
        must(ig_models_create(&options, &models));
        add(models, state, "a.gguf", NULL, false);
        assert_int_equal(ig_models_find(models, "gpt-3.5-turbo", &row), !strict);
        ig_models_destroy(models);
    }
}

static void a_file_that_is_no_model_is_refused_when_it_is_added(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = NULL;
    char path[PATH_BYTES];
    must(ig_models_create(&options, &models));
    directory_path(state, "bad.gguf", path);
    FILE *file = fopen(path, "w");
    fputs("GGUF, but not really", file);
    fclose(file);
    refused(ig_models_add(models, &(ig_models_entry){.path = path}), IG_ERR_FORMAT, "bad.gguf");
    directory_path(state, "none.gguf", path);
    refused(ig_models_add(models, &(ig_models_entry){.path = path}), IG_ERR_IO, "none.gguf");
    ig_models_destroy(models);
}

static void a_failed_load_keeps_its_reason(void **state) {
    ig_models_options options = defaults();
    options.arch = "qwen3";
    ig_models *models = open_models(state, &options);
    ig_models_waiter waiter = {0};
    ig_served *served = NULL;
    ig_models_row row;
    must(ig_models_load(models, "a"));
    assert_true(ig_models_settle(models, LONG_MS));
    assert_int_equal(ig_models_acquire(models, "a", true, &waiter, &served), IG_SERVED_FAILED);
    assert_non_null(strstr(ig_error_text(), "holds the architecture llama"));
    assert_true(ig_models_list(models, 0, &row));
    assert_int_equal(row.status, IG_ERR_ARGUMENT);
    assert_non_null(strstr(row.error, "holds the architecture llama"));
    assert_null(strstr(row.error, ".c:")); /* clients see it */
    assert_int_equal(state_of(models, "b"), IG_SERVED_UNLOADED);
    must(ig_models_unload(models, "a")); /* forgets it */
    assert_int_equal(state_of(models, "a"), IG_SERVED_UNLOADED);
    ig_models_destroy(models);
}

/* ---- room ---- */

/* The bytes that one of the models takes. */
static uint64_t measure(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_models_row row;
    ig_models_release(models, hold(models, "a"));
    assert_true(ig_models_list(models, 0, &row));
    ig_models_destroy(models);
    return row.bytes;
}

static void the_model_that_was_idle_longest_makes_room(void **state) {
    ig_models_options options = defaults();
    options.bytes = measure(state) * 5 / 2;
    ig_models *models = open_models(state, &options);
    add(models, state, "c.gguf", NULL, false);
    ig_models_release(models, hold(models, "a"));
    ig_models_release(models, hold(models, "b"));
    ig_models_release(models, hold(models, "a"));
    ig_models_release(models, hold(models, "c"));
    assert_int_equal(state_of(models, "a"), IG_SERVED_READY);
    assert_int_equal(state_of(models, "b"), IG_SERVED_UNLOADED);
    assert_int_equal(state_of(models, "c"), IG_SERVED_READY);
    ig_models_destroy(models);
}

static void a_model_in_use_is_waited_for(void **state) {
    ig_models_options options = defaults();
    options.bytes = measure(state) * 3 / 2;
    ig_models *models = open_models(state, &options);
    ig_served *a = hold(models, "a"), *b = NULL;
    assert_int_equal(ig_models_acquire(models, "b", true, NULL, &b), IG_SERVED_LOADING);
    assert_false(ig_models_settle(models, 200));
    assert_int_equal(state_of(models, "a"), IG_SERVED_READY);
    ig_models_release(models, a);
    ig_models_release(models, hold(models, "b"));
    assert_int_equal(state_of(models, "a"), IG_SERVED_UNLOADED);
    ig_models_destroy(models);
}

static void a_load_that_unknown_waits_for_any_more_does_not_begin(void **state) {
    ig_models_options options = defaults();
    options.bytes = measure(state) * 3 / 2;
    ig_models *models = open_models(state, &options);
    ig_served *a = hold(models, "a"), *b = NULL;
    atomic_int n_calls = 0;
    ig_models_waiter waiter = {.notify = count_call, .user = &n_calls};
    assert_int_equal(ig_models_acquire(models, "b", true, &waiter, &b), IG_SERVED_LOADING);
    ig_models_drop_waiter(models, &waiter);
    assert_int_equal(state_of(models, "b"), IG_SERVED_UNLOADED);
    assert_true(ig_models_settle(models, LONG_MS));
    ig_models_release(models, a);
    assert_int_equal(n_calls, 0);
    ig_models_destroy(models);
}

static void a_pinned_model_never_makes_room(void **state) {
    ig_models_options options = defaults();
    options.bytes = measure(state) * 3 / 2;
    ig_models *models = NULL;
    ig_served *served = NULL;
    must(ig_models_create(&options, &models));
    add(models, state, "a.gguf", NULL, true);
    add(models, state, "b.gguf", NULL, false);
    ig_models_release(models, hold(models, "a"));
    assert_int_equal(ig_models_acquire(models, "b", true, NULL, &served), IG_SERVED_LOADING);
    assert_true(ig_models_settle(models, LONG_MS));
    assert_int_equal(ig_models_acquire(models, "b", true, NULL, &served), IG_SERVED_FAILED);
    assert_non_null(strstr(ig_error_text(), "pinned models have"));
    assert_int_equal(state_of(models, "a"), IG_SERVED_READY);
    refused(ig_models_unload(models, "a"), IG_ERR_ARGUMENT, "a is pinned");
    ig_models_destroy(models);
}

static void a_busy_load_gives_up_in_time(void **state) {
    ig_models_options options = defaults();
    options.bytes = measure(state) * 3 / 2;
    options.room_timeout_s = 0.1;
    ig_models *models = open_models(state, &options);
    ig_served *a = hold(models, "a"), *b = NULL;
    assert_int_equal(ig_models_acquire(models, "b", true, NULL, &b), IG_SERVED_LOADING);
    assert_true(ig_models_settle(models, LONG_MS));
    assert_int_equal(ig_models_acquire(models, "b", true, NULL, &b), IG_SERVED_FAILED);
    assert_non_null(strstr(ig_error_text(), "other models are in use"));
    ig_models_release(models, a);
    ig_models_destroy(models);
}

/* ---- unloading ---- */

static void a_model_that_is_held_is_unloaded_after_its_release(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_served *held = hold(models, "a"), *other = NULL;
    must(ig_models_unload(models, "a"));
    ig_engine_stats stats;
    ig_engine_get_stats(held->engine, &stats); /* still there */
    assert_int_equal(ig_models_acquire(models, "a", false, NULL, &other), IG_SERVED_UNLOADED);
    ig_models_release(models, held);
    wait_until(models, "a", IG_SERVED_UNLOADED);
    ig_models_release(models, hold(models, "a")); /* and again */
    refused(ig_models_unload(models, "unknown"), IG_ERR_ARGUMENT, "'unknown'");
    ig_models_destroy(models);
}

static void a_request_for_a_model_on_its_way_out_loads_it_again(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_served *held = hold(models, "a"), *other = NULL;
    must(ig_models_unload(models, "a"));
    assert_int_equal(ig_models_acquire(models, "a", true, NULL, &other), IG_SERVED_LOADING);
    ig_models_release(models, held);
    assert_true(ig_models_settle(models, LONG_MS));
    assert_int_equal(ig_models_acquire(models, "a", true, NULL, &other), IG_SERVED_READY);
    ig_models_release(models, other);
    ig_models_destroy(models);
}

static void an_idle_model_is_unloaded_and_a_look_does_not_wake_it(void **state) {
    ig_models_options options = defaults();
    options.idle_unload_s = 0.05;
    ig_models *models = open_models(state, &options);
    ig_served *held = hold(models, "a");
    usleep(100000);
    assert_int_equal(state_of(models, "a"), IG_SERVED_READY);
    ig_models_release(models, held);
    for (int i = 0; i < LONG_MS && state_of(models, "a") == IG_SERVED_READY; i++) {
        ig_models_end_peek(models, ig_models_peek(models, "a"));
        usleep(1000);
    }
    wait_until(models, "a", IG_SERVED_UNLOADED);
    assert_null(ig_models_peek(models, "a"));
    ig_models_destroy(models);
}

/* ---- counters ---- */

static void run_tokens(const ig_served *served, int64_t n) {
    const ig_request request = {
        .tokens = (const int32_t[]){5, 6, 7}, .n_tokens = 3, .max_tokens = n, .ignore_eos = true};
    ig_job *job = NULL;
    ig_job_event event = {.type = IG_JOB_EVENT_PROGRESS};
    must(ig_engine_submit(served->engine, &request, &job));
    while (event.type != IG_JOB_EVENT_DONE) {
        assert_true(ig_job_wait(job, -1));
        while (ig_job_poll(job, &event)) {
        }
    }
    assert_int_equal(event.status, IG_OK);
    ig_job_release(job);
}

static void counters_outlive_the_engine_and_skip_warm_ups(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_engine_stats stats;
    for (int load = 1; load <= 2; load++) {
        ig_served *held = hold(models, "a");
        run_tokens(held, 4);
        ig_models_release(models, held);
        must(ig_models_unload(models, "a"));
        wait_until(models, "a", IG_SERVED_UNLOADED);
        assert_true(ig_models_stats(models, 0, &stats));
        assert_int_equal(stats.n_submitted, load);
        assert_int_equal(stats.n_prompt_tokens, 3 * load);
        assert_int_equal(stats.n_generated, 4 * load);
        assert_int_equal(stats.n_pages, 0);
    }
    ig_models_destroy(models);
}

static void cancelling_ends_all_jobs(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = open_models(state, &options);
    ig_served *held = hold(models, "a");
    const ig_request request = {
        .tokens = (const int32_t[]){5}, .n_tokens = 1, .max_tokens = 100, .ignore_eos = true};
    ig_job *job = NULL;
    ig_job_event event = {.type = IG_JOB_EVENT_PROGRESS};
    ig_models_cancel(models);
    must(ig_engine_submit(held->engine, &request, &job));
    while (event.type != IG_JOB_EVENT_DONE) {
        assert_true(ig_job_wait(job, -1));
        while (ig_job_poll(job, &event)) {
        }
    }
    assert_int_equal(event.status, IG_ERR_CANCELLED);
    ig_job_release(job);
    ig_models_release(models, held);
    ig_models_destroy(models);
}

/* ---- folders ---- */

static void a_folder_is_listed_and_read_again(void **state) {
    const ig_models_options options = defaults();
    ig_models *models = NULL;
    ig_models_row row;
    char path[PATH_BYTES], folder[PATH_BYTES];
    must(ig_models_create(&options, &models));
    snprintf(folder, sizeof folder, "%s/", (const char *)*state);
    must(ig_synthetic_model_write("llama", IG_Q8_0, directory_path(state, "z.gguf", path)));
    must(ig_synthetic_model_write("qwen3", IG_Q8_0, directory_path(state, "q.gguf", path)));
    fclose(fopen(directory_path(state, "bad.gguf", path), "w"));
    fclose(fopen(directory_path(state, "notes.txt", path), "w"));
    must(ig_models_add_folder(models, folder));
    assert_true(ig_models_list(models, 0, &row));
    assert_string_equal(row.id, "q");
    assert_true(ig_models_list(models, 1, &row));
    assert_string_equal(row.id, "z");
    assert_false(ig_models_list(models, 2, &row));
    unlink(directory_path(state, "q.gguf", path));
    must(ig_synthetic_model_write("llama", IG_Q8_0, directory_path(state, "b.gguf", path)));
    must(ig_models_add_folder(models, folder));
    assert_true(ig_models_list(models, 0, &row));
    assert_string_equal(row.id, "b");
    assert_true(ig_models_list(models, 1, &row));
    assert_string_equal(row.id, "z");
    assert_false(ig_models_list(models, 2, &row));
    refused(ig_models_add_folder(models, "/nonexistent/models"), IG_ERR_IO, "/nonexistent/models");
    ig_models_destroy(models);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(requests_that_wait_share_one_load),
        IN_DIRECTORY(the_template_of_a_file_is_shown_as_text),
        IN_DIRECTORY(a_model_has_several_names),
        IN_DIRECTORY(the_only_model_has_every_name_unless_strict),
        IN_DIRECTORY(a_file_that_is_no_model_is_refused_when_it_is_added),
        IN_DIRECTORY(a_failed_load_keeps_its_reason),
        IN_DIRECTORY(the_model_that_was_idle_longest_makes_room),
        IN_DIRECTORY(a_model_in_use_is_waited_for),
        IN_DIRECTORY(a_load_that_unknown_waits_for_any_more_does_not_begin),
        IN_DIRECTORY(a_pinned_model_never_makes_room),
        IN_DIRECTORY(a_busy_load_gives_up_in_time),
        IN_DIRECTORY(a_model_that_is_held_is_unloaded_after_its_release),
        IN_DIRECTORY(a_request_for_a_model_on_its_way_out_loads_it_again),
        IN_DIRECTORY(an_idle_model_is_unloaded_and_a_look_does_not_wake_it),
        IN_DIRECTORY(counters_outlive_the_engine_and_skip_warm_ups),
        IN_DIRECTORY(cancelling_ends_all_jobs),
        IN_DIRECTORY(a_folder_is_listed_and_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
