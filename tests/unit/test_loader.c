/*
 * Plugins: what is loaded from where, and what is wrong with those that are not.
 *
 * tests/plugins/plugin.c makes one for each thing that can be wrong.
 */
#include "backend/plugin/loader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "directory.h"
#include "ingot/device.h"
#include "unit/check.h"

/* ---- one library ---- */

static void a_library_that_cannot_be_used_says_why(void **state) {
    (void)state;
    static const struct {
        const char *path, *why;
    } rows[] = {
        {TEST_PLUGIN_DIR "/older.so", "it is for ABI 0, older than this one's, which is 1"},
        {TEST_PLUGIN_DIR "/newer.so", "it is for ABI 2, newer than this one's, which is 1"},
        {TEST_PLUGIN_DIR "/short.so", "its table has 16 bytes and ends before compile()"},
        {TEST_PLUGIN_DIR "/nameless.so", "its name is missing"},
        {TEST_PLUGIN_DIR "/reserved.so", "its name is missing, reserved"},
        {TEST_PLUGIN_DIR "/silent.so", "silent.so does not export ig_backend_entry()"},
        {TEST_PLUGIN_DIR "/half.so", "sound has some of buffer_alloc()"},
        {TEST_PLUGIN_DIR "/nowhere.so", "nowhere.so: No such file"},
        {TEST_PLUGIN_DIR, "is no regular file"},
        {"sound.so", "sound.so is not an absolute path"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_plugin p = {0};
        refused(ig_plugin_open(rows[i].path, &p), IG_ERR_DEVICE, rows[i].why);
        assert_null(p.library);
    }
}

static void a_sound_library_is_loaded(void **state) {
    (void)state;
    ig_plugin p = {0};
    must(ig_plugin_open(TEST_PLUGIN_DIR "/sound.so", &p));
    assert_string_equal(p.backend.name, "sound");
    assert_non_null(p.backend.compile);
    ig_plugin_close(&p);
    must(ig_plugin_probe(TEST_PLUGIN_DIR "/sound.so"));
    must(ig_plugin_probe(TEST_PLUGIN_DIR
                         "/absent.so")); /* without a device it is sound all the same */
}

/* Copies a library into the test's directory. */
static void plant(void **state, const char *from, const char *name, char path[PATH_BYTES]) {
    directory_path(state, name, path);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    assert_true(in && out);
    for (int c; (c = fgetc(in)) != EOF;) fputc(c, out);
    fclose(in);
    fclose(out);
    assert_int_equal(chmod(path, 0644), 0);
}

static void what_others_can_write_to_is_not_loaded(void **state) {
    char path[PATH_BYTES], link[PATH_BYTES];
    ig_plugin p = {0};
    plant(state, TEST_PLUGIN_DIR "/sound.so", "sound.so", path);
    must(ig_plugin_open(path, &p));
    ig_plugin_close(&p);

    assert_int_equal(chmod(path, 0664), 0);
    refused(ig_plugin_open(path, &p), IG_ERR_DEVICE, "can be written to by others (chmod go-w)");
    assert_int_equal(symlink(path, directory_path(state, "link.so", link)), 0);
    refused(ig_plugin_open(link, &p), IG_ERR_DEVICE, "sound.so can be written to by others");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(*state, 0777), 0);
    refused(ig_plugin_open(path, &p), IG_ERR_DEVICE, "can be written to by others");
    assert_int_equal(chmod(*state, 0700), 0);
}

static void what_belongs_to_another_user_is_not_loaded(void **state) {
    char path[PATH_BYTES];
    ig_plugin p = {0};
    plant(state, TEST_PLUGIN_DIR "/sound.so", "sound.so", path);
    if (chown(path, 12345, (gid_t)-1) != 0) skip(); /* only root can give a file away */
    refused(ig_plugin_open(path, &p), IG_ERR_DEVICE, "belongs to user 12345");
}

/* The examples of the standard, and lengths around a block's. */
static void sha256_is_what_the_standard_says(void **state) {
    (void)state;
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char digest[IG_SHA256_TEXT_BYTES];
    for (size_t i = 0; i < 3; i++) {
        ig_sha256(rows[i].text, strlen(rows[i].text), digest);
        assert_string_equal(digest, rows[i].digest);
    }
}

static void a_pinned_plugin_is_that_file_and_no_other(void **state) {
    char path[PATH_BYTES], digest[IG_SHA256_TEXT_BYTES], places[2 * PATH_BYTES];
    ig_file_map map;
    plant(state, TEST_PLUGIN_DIR "/sound.so", "sound.so", path);
    must(ig_file_map_open(path, &map));
    ig_sha256(map.bytes, map.size, digest);
    ig_file_map_close(&map);
    unsetenv("INGOT_PLUGIN_PATH");
    for (int other = 0; other < 2; other++) {
        ig_plugins all = {0};
        digest[5] = other ? (digest[5] == '0' ? '1' : '0') : digest[5];
        snprintf(places, sizeof places, "%s#sha256=%s", path, digest);
        must(ig_plugins_load(&all, &ig_heap, (ig_plugin_places){.paths = places}));
        assert_string_equal(all.at[0]->path, path);
        if (other)
            assert_non_null(strstr(all.at[0]->reason, "its SHA-256 is "));
        else
            assert_string_equal(all.at[0]->reason, "");
        ig_plugins_deinit(&all);
    }
}

/* ---- many ---- */

static bool turns_down(void *user, const char *path) {
    const char *which = user;
    if (!strstr(path, which)) return true;
    (void)IG_FAIL(IG_ERR_DEVICE, "I do not like %s", which);
    return false;
}

static const ig_plugin *find(const ig_plugins *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strstr(all->at[i]->path, name)) return all->at[i];
    fail_msg("%s is not listed", name);
    return NULL;
}

static void a_bad_plugin_does_not_keep_the_others_from_working(void **state) {
    char path[PATH_BYTES];
    static const char *const names[] = {"sound.so", "older.so", "absent.so", "silent.so"};
    for (size_t i = 0; i < 4; i++) {
        char from[PATH_BYTES];
        snprintf(from, sizeof from, TEST_PLUGIN_DIR "/%s", names[i]);
        plant(state, from, names[i], path);
    }
    plant(state, TEST_PLUGIN_DIR "/sound.so", "zz-again.so", path);
    plant(state, TEST_PLUGIN_DIR "/sound.so", "a-text.txt", path);
    unsetenv("INGOT_PLUGIN_PATH");
    ig_plugins all = {0};
    char places[2 * PATH_BYTES];
    snprintf(places, sizeof places, "%s:relative.so", (const char *)*state);
    must(ig_plugins_load(
        &all, &ig_heap,
        (ig_plugin_places){places, turns_down, (void *)(uintptr_t) "silent", false}));
    assert_int_equal(all.count, 6);
    assert_string_equal(find(&all, "/sound.so")->reason, "");
    assert_string_equal(find(&all, "/absent.so")->reason, "");
    assert_non_null(strstr(find(&all, "/older.so")->reason, "older than this one's"));
    assert_string_equal(find(&all, "/silent.so")->reason, "I do not like silent");
    assert_non_null(strstr(find(&all, "/zz-again.so")->reason, "the name sound is taken by /"));
    assert_string_equal(find(&all, "relative.so")->reason, "relative.so is not an absolute path");
    ig_plugins_deinit(&all);
}

static void the_environment_names_folders_and_libraries(void **state) {
    (void)state;
    ig_plugins all = {0};
    setenv("INGOT_PLUGIN_PATH", TEST_PLUGIN_DIR "/sound.so::" TEST_PLUGIN_DIR "/sound.so:/nowhere",
           1);
    must(ig_plugins_load(&all, &ig_heap, (ig_plugin_places){0}));
    assert_int_equal(all.count, 2); /* the same file once, and what is not there with its reason */
    assert_string_equal(all.at[0]->reason, "");
    assert_string_equal(all.at[1]->reason, "/nowhere: No such file or directory");
    ig_plugins_deinit(&all);
    unsetenv("INGOT_PLUGIN_PATH");
}

/* ---- contexts ---- */

static void a_context_runs_on_a_plugin_and_falls_back_where_that_has_no_kernel(void **state) {
    (void)state;
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "plain", .plugins = EXAMPLE_PLUGIN}, &ctx));
    assert_string_equal(ig_ctx_device(ctx), "plain:0");
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3);
    HOLDS(ig_add(x, x), 2, 4, 6);
    HOLDS(ig_neg(x), -1, -2, -3); /* the CPU's */
    char report[8192];
    assert_true(ig_report_json(ctx, report, sizeof report) < sizeof report);
    assert_non_null(strstr(report, "\"op\":\"neg\",\"from\":\"plain:0\",\"to\":\"cpu:0\""));
    assert_null(strstr(report, "\"op\":\"add\",\"from\""));
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void a_device_that_is_not_there_is_an_error_that_lists_what_is(void **state) {
    (void)state;
    ig_ctx *ctx = NULL;
    refused(ig_ctx_create(&(ig_ctx_options){.device = "vulcan", .plugins = EXAMPLE_PLUGIN}, &ctx),
            IG_ERR_DEVICE, "device vulcan: no such device; known: auto cpu vulkan ref null");
    assert_non_null(strstr(ig_error_text(), " plain")); /* behind those that were built in */
    refused(ig_ctx_create(&(ig_ctx_options){.device = "npu:1"}, &ctx), IG_ERR_DEVICE,
            "device npu:1: no such device; known: auto cpu vulkan ref null");
    refused(
        ig_ctx_create(
            &(ig_ctx_options){.device = "absent", .plugins = TEST_PLUGIN_DIR "/absent.so"}, &ctx),
        IG_ERR_DEVICE, "device absent: the driver of absent is not installed");
}

static void what_is_asked_for_beats_the_environment_which_beats_the_config(void **state) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/ingot", (const char *)*state);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/ingot/config.json", (const char *)*state);
    static const struct {
        const char *asked, *ingot, *rm, *config, *is;
    } rows[] = {
        {NULL, NULL, NULL, NULL, "cpu:0"},
        {NULL, NULL, NULL, "{\"device\": \"ref\"}", "ref:0"},
        {NULL, NULL, "cpu", "{\"device\": \"ref\"}", "cpu:0"},
        {NULL, "ref", "null", "{\"device\": \"cpu\"}", "ref:0"},
        {"cpu", "ref", "null", "{\"device\": \"ref\"}", "cpu:0"},
        {NULL, NULL, NULL, "{\"device\": \"plain\", \"plugins\": [\"" EXAMPLE_PLUGIN "\"]}",
         "plain:0"},
        {NULL, NULL, NULL, "{\"device\": 3}", "device: is not a string"},
        {NULL, NULL, NULL, "{", "config.json: it is not JSON: expected a key (line 1, "},
        {NULL, NULL, NULL, "{\"plugins\": [\"here.so\"]}",
         "plugins: entry 1 is not an absolute path"},
    };
    setenv("XDG_CONFIG_HOME", *state, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].ingot) setenv("INGOT_DEVICE", rows[i].ingot, 1);
        if (rows[i].rm) setenv("RM_DEVICE", rows[i].rm, 1);
        FILE *f = rows[i].config ? fopen(path, "w") : NULL;
        if (f) fputs(rows[i].config, f), fclose(f);
        ig_ctx *ctx = NULL;
        const ig_ctx_options options = {.device = rows[i].asked};
        if (strstr(rows[i].is, ":0"))
            must(ig_ctx_create(&options, &ctx));
        else
            refused(ig_ctx_create(&options, &ctx), IG_ERR_FORMAT, rows[i].is);
        if (ctx) assert_string_equal(ig_ctx_device(ctx), rows[i].is);
        ig_ctx_destroy(ctx);
        unlink(path);
        unsetenv("INGOT_DEVICE");
        unsetenv("RM_DEVICE");
    }
    unsetenv("XDG_CONFIG_HOME");
    snprintf(path, sizeof path, "%s/ingot", (const char *)*state);
    assert_int_equal(rmdir(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_cannot_be_used_says_why),
        cmocka_unit_test(a_sound_library_is_loaded),
        cmocka_unit_test(sha256_is_what_the_standard_says),
        IN_DIRECTORY(a_pinned_plugin_is_that_file_and_no_other),
        IN_DIRECTORY(what_others_can_write_to_is_not_loaded),
        IN_DIRECTORY(what_belongs_to_another_user_is_not_loaded),
        IN_DIRECTORY(a_bad_plugin_does_not_keep_the_others_from_working),
        cmocka_unit_test(the_environment_names_folders_and_libraries),
        cmocka_unit_test(a_context_runs_on_a_plugin_and_falls_back_where_that_has_no_kernel),
        cmocka_unit_test(a_device_that_is_not_there_is_an_error_that_lists_what_is),
        IN_DIRECTORY(what_is_asked_for_beats_the_environment_which_beats_the_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
