/* GGUF models: every command that takes one, and what is refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/synthetic/synthetic_models.h"
#include "results.h"

static char dir[32], model[64], chat_model[64], bert[64], text_file[64], cache[64], changed[64];
enum { MOST_BYTES = 1 << 22 };

#define RUN(...) program_run(INGOT_PROGRAM, (const char *const[]){__VA_ARGS__, NULL}, NULL)

static int set_up(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ingot-models-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(model, sizeof model, "%s/llama.gguf", dir);
    snprintf(chat_model, sizeof chat_model, "%s/qwen2.gguf", dir);
    snprintf(bert, sizeof bert, "%s/bert.gguf", dir);
    snprintf(text_file, sizeof text_file, "%s/text.txt", dir);
    snprintf(cache, sizeof cache, "%s/cache.state", dir);
    snprintf(changed, sizeof changed, "%s/changed.gguf", dir);
    FILE *file = fopen(text_file, "we");
    for (int i = 0; file && i < 60; i++) fprintf(file, "line %d of a text about %d fish\n", i, i);
    if (!file || fclose(file) != 0) return -1;
    return model_save("llama", IG_Q4_K, model) != IG_OK ||
           model_save("qwen2", IG_F16, chat_model) != IG_OK ||
           model_save("bert", IG_F16, bert) != IG_OK;
}

static int tear_down(void **state) {
    (void)state;
    const char *const files[] = {model, chat_model, bert, text_file, cache};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) unlink(files[i]);
    return rmdir(dir);
}

static char *read_whole(const char *path, size_t *out_bytes) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char *bytes = program_read_all(fd, out_bytes);
    close(fd);
    return bytes;
}

/* Copies the chat model with this template as its first key. Keys and tensors move by a multiple
 * of 64 bytes, so offsets stay valid. */
static void save_with_template(const char *text, const char *path) {
    static const char key[] = "tokenizer.chat_template";
    enum { HEADER = 24, COUNT = 16, ADDED = 512 }; /* COUNT: offset of the number of keys */
    char added[ADDED];
    const uint64_t key_bytes = sizeof key - 1, n_bytes = ADDED - 8 - key_bytes - 4 - 8;
    const uint32_t kind = 8; /* a string */
    size_t bytes = 0;
    char *file = read_whole(chat_model, &bytes), *at = added;
    file[COUNT]++;
    at = mempcpy(at, &key_bytes, 8);
    at = mempcpy(at, key, key_bytes);
    at = mempcpy(at, &kind, 4);
    at = mempcpy(at, &n_bytes, 8);
    memset(at, ' ', n_bytes);
    memcpy(mempcpy(at, text, strlen(text)), "{#", 2); /* a comment fills the rest */
    memcpy(at + n_bytes - 2, "#}", 2);
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    assert_int_equal(fwrite(file, 1, HEADER, to), HEADER);
    assert_int_equal(fwrite(added, 1, ADDED, to), ADDED);
    assert_int_equal(fwrite(file + HEADER, 1, bytes - HEADER, to), bytes - HEADER);
    assert_int_equal(fclose(to), 0);
    free(file);
}

static void check_error(program_result result, int code, const char *words) {
    if (result.code != code || !strstr(result.err, words))
        fail_msg("exit %d (wanted %d), stderr '%s' (wanted '%s')", result.code, code, result.err,
                 words);
    program_free(&result);
}

/* ---- commands ---- */

static void generation_reports_tokens_text_timings_and_memory(void **state) {
    (void)state;
    json_t *root = json_of(RUN("generate", "-m", model, "-p", "Hello fish", "-n", "8", "--temp",
                               "0", "--ignore-eos", "--logprobs", "2", "--json"),
                           "ingot.generate.v1");
    assert_int_equal(json_array_size(json_object_get(root, "tokens")), 8);
    assert_true(json_is_string(json_object_get(root, "text")));
    assert_true(real_at(root, "timings", "prefill_ms") > 0);
    assert_true(real_at(root, "timings", "decode_ms") > 0);
    assert_true(real_at(root, "memory", "peak_bytes") > 0);
    const json_t *logprobs = json_object_get(root, "logprobs");
    assert_int_equal(json_array_size(logprobs), 8);
    for (size_t i = 0; i < 8; i++) { /* greedy takes the most likely one */
        const json_t *one = json_array_get(logprobs, i);
        const json_t *best = json_array_get(json_object_get(one, "top"), 0);
        assert_int_equal(json_integer_value(json_object_get(one, "token")),
                         json_integer_value(json_object_get(best, "token")));
    }
    json_decref(root);
}

/* The tokens that a command line generates, as text. */
static char *tokens_of(const char *option, const char *value) {
    json_t *root = json_of(RUN("generate", "-m", model, "-p", "Hello fish", "-n", "12", "--temp",
                               "0", "--ignore-eos", "--json", option, value),
                           "ingot.generate.v1");
    char *text = json_dumps(json_object_get(root, "tokens"), JSON_COMPACT);
    json_decref(root);
    return text;
}

static void the_text_does_not_depend_on_how_it_is_computed(void **state) {
    (void)state;
    static const char *const ways[][2] = {
        {"-t", "2"},  {"-t", "3"},         {"-ub", "1"},  {"-ub", "5"},
        {"-c", "64"}, {"--device", "cpu"}, {"-b", "128"}, {"--no-mmap", "--quiet"}};
    char *want = tokens_of("-t", "1");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char *got = tokens_of(ways[i][0], ways[i][1]);
        if (strcmp(got, want) != 0) fail_msg("%s %s: %s", ways[i][0], ways[i][1], got);
        free(got);
    }
    free(want);
}

static void reading_a_file_into_memory_says_how_far_it_is(void **state) {
    (void)state;
    program_result r = RUN("generate", "-m", model, "-p", "a", "-n", "1", "--no-mmap");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "load: 100%"));
    program_free(&r);
    r = RUN("generate", "-m", model, "-p", "a", "-n", "1"); /* mapped data is read later */
    assert_null(strstr(r.err, "load:"));
    program_free(&r);
}

static void the_report_says_what_came_before_the_first_submit(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN("generate", "-m", model, "-p", "a", "-n", "1", "--json"), "ingot.generate.v1");
    const json_t *timings = json_object_get(root, "timings");
    static const char *const parts[] = {"read_ms", "plan_ms", "pack_ms", "compile_ms"};
    const double first = json_number_value(json_object_get(timings, "first_submit_ms"));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_true(json_is_real(json_object_get(timings, parts[i])));
        assert_true(json_number_value(json_object_get(timings, parts[i])) <= first);
    }
    assert_true(first <= json_number_value(json_object_get(timings, "total_ms")));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(root, "counters"), "programs")), 0);
    json_decref(root);
}

static void a_cached_prompt_continues_as_before(void **state) {
    (void)state;
    char *want = tokens_of("-t", "1");
    for (int i = 0; i < 3; i++) { /* created, then used */
        char *got = tokens_of("--prompt-cache", cache);
        assert_string_equal(got, want);
        free(got);
    }
    free(want);
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "-n", "1", "--prompt-cache", cache), 2,
                "another model");
}

/* Copies a model with some bytes after a word changed. */
static void save_changed(const char *from, const char *word, size_t behind, const void *bytes,
                         size_t n_bytes, const char *to) {
    size_t size = 0;
    char *all = malloc(MOST_BYTES);
    FILE *file = fopen(from, "rbe");
    assert_non_null(all);
    assert_non_null(file);
    size = fread(all, 1, MOST_BYTES, file);
    assert_true(size > n_bytes && size < MOST_BYTES);
    fclose(file);
    char *at = word ? memmem(all, size, word, strlen(word)) : all + size - n_bytes;
    assert_non_null(at);
    memcpy(at + (word ? strlen(word) : 0) + behind, bytes, n_bytes);
    file = fopen(to, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(all, 1, size, file), size);
    fclose(file);
    free(all);
}

static void a_nan_weight_is_named(void **state) {
    (void)state;
    const uint32_t nan = UINT32_MAX; /* one F32, or two F16 */
    save_changed(chat_model, NULL, 0, &nan, sizeof nan, changed);
    check_error(RUN("generate", "-m", changed, "-p", "a", "-n", "2", "-q"), 3, "tensor ");
    check_error(RUN("logits", "-m", changed, "-p", "a"), 3, "has NaN or Inf");
    check_error(RUN("perplexity", "-m", changed, "-f", text_file, "-c", "32"), 3, "has NaN or Inf");
    check_error(RUN("parity", "-m", changed, "-p", "a"), 3, "has NaN or Inf");
    save_changed(bert, NULL, 0, &nan, sizeof nan, changed);
    check_error(RUN("embed", "-m", changed, "-p", "a"), 3, "hidden states are not finite: tensor ");
    unlink(changed);
}

static void a_prompt_that_was_kept_is_of_the_same_keys(void **state) {
    (void)state;
    const float base = 500;
    program_result r =
        RUN("generate", "-m", model, "-p", "a b", "-n", "1", "--prompt-cache", cache, "-q");
    assert_int_equal(r.code, 0);
    program_free(&r);
    save_changed(model, "llama.rope.freq_base", sizeof(uint32_t), &base, sizeof base, changed);
    check_error(
        RUN("generate", "-m", changed, "-p", "a b", "-n", "1", "--prompt-cache", cache, "-q"), 2,
        "another model");
    unlink(changed);
    unlink(cache);
}

static void a_profile_and_speculation_are_part_of_the_result(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN("generate", "-m", model, "-p", "Hello Hello Hello", "-n", "20", "--temp", "0",
                    "--ignore-eos", "--profile", "--draft-ngram", "1", "--json"),
                "ingot.generate.v1");
    const json_t *speculation = json_object_get(root, "speculation");
    assert_int_equal(json_integer_value(json_object_get(speculation, "ngram")), 1);
    assert_true(json_integer_value(json_object_get(speculation, "accepted")) <=
                json_integer_value(json_object_get(speculation, "drafted")));
    const json_t *profile = json_object_get(json_object_get(root, "profile"), "tokens"), *kind;
    double share = 0;
    size_t i;
    json_array_foreach(json_object_get(profile, "kinds"), i, kind) {
        assert_true(json_number_value(json_object_get(kind, "bytes")) > 0);
        share += json_number_value(json_object_get(kind, "share"));
    }
    assert_true(i > 3);
    assert_true(share > 0 && share < 1.01);
    json_decref(root);
}

/* FLOP of attention during prefill. */
static double attention_ops(const char *prompt, json_int_t *tokens) {
    json_t *root =
        json_of(RUN("generate", "-m", model, "-p", prompt, "-n", "1", "--profile", "--json"),
                "ingot.generate.v1");
    const json_t *profile = json_object_get(json_object_get(root, "profile"), "prompt"), *kind;
    double ops = 0;
    size_t i;
    json_array_foreach(json_object_get(profile, "kinds"), i, kind) {
        const char *name = json_string_value(json_object_get(kind, "name"));
        if (strcmp(name, "attention_paged") != 0) continue;
        ops += json_number_value(json_object_get(kind, "op_per_s")) *
               json_number_value(json_object_get(kind, "ms")) / 1e3;
    }
    *tokens = json_integer_value(json_object_get(profile, "tokens"));
    json_decref(root);
    return ops;
}

static void attention_counts_every_position_that_is_seen(void **state) {
    (void)state;
    char longer[97];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    json_int_t few, many;
    const double few_ops = attention_ops("xxxxxxx", &few), ops = attention_ops(longer, &many);
    if (many < 8 * few) fail_msg("%lld and %lld tokens", (long long)few, (long long)many);
    assert_true(few_ops > 0);
    const double times = (double)many / (double)few;
    /* One of their layers attends only to the token itself. */
    if (ops < 0.5 * times * times * few_ops) fail_msg("%g and %g", few_ops, ops);
}

static void logits_come_with_their_tokens(void **state) {
    (void)state;
    json_t *root = json_of(RUN("logits", "-m", model, "-p", "Hello", "--json"), "ingot.logits.v1");
    assert_true(json_array_size(json_object_get(root, "tokens")) > 1);
    assert_int_equal(json_array_size(json_object_get(root, "logits")), 320);
    json_decref(root);
    root = json_of(RUN("logits", "-m", model, "--ids", "5 7,9", "--json"), "ingot.logits.v1");
    assert_int_equal(json_array_size(json_object_get(root, "tokens")), 3);
    json_decref(root);
}

static void bench_perplexity_parity_embed_and_plan_take_a_model(void **state) {
    (void)state;
    json_t *root =
        json_of(RUN("bench", "-m", model, "-p", "20", "-n", "6", "-r", "2", "-t", "1", "--parallel",
                    "1,3", "--n-depth", "0,90", "--draft-ngram", "1", "--json"),
                "ingot.bench.model.v1");
    assert_int_equal(real_at(root, "pp", "tokens"), 20);
    assert_true(real_at(root, "pp", "tokens_per_s") > 0);
    assert_true(real_at(json_object_get(root, "pp"), "ops", "roof_share") > 0);
    assert_true(real_at(root, "spec", "drafted") >= real_at(root, "spec", "accepted"));
    assert_null(json_object_get(json_object_get(root, "spec"), "read_bytes")); /* unknown */
    assert_true(real_at(root, "tg", "tokens_per_s") > 0);
    const json_t *tests = json_object_get(root, "tests");
    assert_int_equal(json_array_size(tests), 4);
    const json_t *last = json_array_get(tests, 3);
    assert_int_equal(json_integer_value(json_object_get(last, "sequences")), 3);
    assert_int_equal(json_integer_value(json_object_get(last, "depth")), 90);
    assert_true(json_number_value(json_object_get(last, "deviation")) >= 0);
    assert_true(real_at(last, "read_bytes", "roof_share") > 0);
    assert_true(real_at(last, "token_ms", "p99") >= real_at(last, "token_ms", "p50"));
    json_decref(root);
    /* As long as the context length: generated tokens count, too. */
    char most[16];
    snprintf(most, sizeof most, "%d", MODEL_CONTEXT);
    root = json_of(
        RUN("bench", "-m", model, "-p", "0", "-n", "6", "-r", "1", "-t", "1", "-d", most, "--json"),
        "ingot.bench.model.v1");
    assert_int_equal(real_at(root, "tg", "depth"), MODEL_CONTEXT - 6);
    json_decref(root);
    root = json_of(RUN("perplexity", "-m", model, "-f", text_file, "-c", "64", "--json"),
                   "ingot.perplexity.v1");
    assert_true(json_number_value(json_object_get(root, "perplexity")) > 1);
    assert_true(json_integer_value(json_object_get(root, "chunks")) > 1);
    json_decref(root);
    root = json_of(RUN("parity", "-m", chat_model, "--devices", "ref,cpu", "--json"),
                   "ingot.parity.v1");
    const json_t *pair = json_array_get(json_object_get(root, "pairs"), 0);
    assert_true(json_number_value(json_object_get(pair, "error")) <= 1e-5);
    assert_true(json_number_value(json_object_get(pair, "cosine")) > 0.9999);
    json_decref(root);
    root =
        json_of(RUN("embed", "-m", bert, "-f", text_file, "--lines", "--json"), "ingot.embed.v1");
    assert_int_equal(json_array_size(json_object_get(root, "data")), 60);
    json_decref(root);
    root = json_of(RUN("plan", "-m", model, "--json"), "ingot.plan.v1");
    assert_true(json_array_size(json_object_get(json_object_get(root, "plan"), "steps")) > 10);
    json_decref(root);
}

static void chunks_too_short_to_predict_anything_are_refused(void **state) {
    (void)state;
    program_result short_ones = RUN("perplexity", "-m", model, "-f", text_file, "-c", "2");
    assert_int_equal(short_ones.code, 2);
    assert_non_null(
        strstr(short_ones.err, "chunks of 2 tokens have nothing to predict; at least 3"));
    program_free(&short_ones);
    json_t *root = json_of(RUN("perplexity", "-m", model, "-f", text_file, "-c", "3", "--json"),
                           "ingot.perplexity.v1");
    assert_true(json_number_value(json_object_get(root, "perplexity")) > 1);
    json_decref(root);
}

/* ---- chat ---- */

static program_result chat_with(const char *lines, const char *option, const char *value) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], lines, strlen(lines)), (ssize_t)strlen(lines));
    close(ends[1]);
    const program_options options = {.in_fd = ends[0]};
    program_result result =
        program_run(INGOT_PROGRAM,
                    (const char *const[]){"chat", "-m", chat_model, "-n", "6", "--temp", "0",
                                          "--ignore-eos", "--json", option, value, NULL},
                    &options);
    close(ends[0]);
    return result;
}

/* The texts of all answers; the last line is the report. */
static size_t answers_of(program_result result, char *out[4]) {
    size_t n = 0;
    if (result.code != 0) fail_msg("exit %d: %s", result.code, result.err);
    for (char *line = strtok(result.out, "\n"); line && n < 4; line = strtok(NULL, "\n")) {
        json_t *root = json_loads(line, 0, NULL);
        assert_non_null(root);
        const char *text = json_string_value(json_object_get(root, "text"));
        if (text) out[n++] = strdup(text);
        json_decref(root);
    }
    program_free(&result);
    return n;
}

static void a_conversation_remembers_until_it_is_reset(void **state) {
    (void)state;
    char *turns[4], *lines[4];
    assert_int_equal(
        answers_of(chat_with("hi\nhi\n/reset\nhi\n", "--chat-template", "chatml"), turns), 3);
    assert_string_equal(turns[0], turns[2]);
    assert_string_not_equal(turns[0], turns[1]); /* it remembers the earlier turn */
    assert_int_equal(answers_of(chat_with("hi\nhi\n", "--chat-template", "none"), lines), 2);
    assert_string_equal(lines[0], lines[1]); /* each line is continued by itself */
    assert_string_not_equal(lines[0], turns[0]);
    for (int i = 0; i < 3; i++) free(turns[i]);
    for (int i = 0; i < 2; i++) free(lines[i]);
    check_error(chat_with("hi\n", "--chat-template", "latin"), 2, "--chat-template 'latin'");
    check_error(chat_with("a \xff\n", "--chat-template", "chatml"), 2, "byte 3 of 3 is 0xff");
}

/* Runs `ingot chat` on a file with empty input. */
static program_result chat_banner(const char *path, const char *option, const char *value) {
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const program_result result = program_run(
        INGOT_PROGRAM, (const char *const[]){"chat", "-m", path, "-n", "2", option, value, NULL},
        &(program_options){.in_fd = in});
    close(in);
    return result;
}

static void a_template_that_is_not_known_is_said_to_be(void **state) {
    (void)state;
    char path[80];
    snprintf(path, sizeof path, "%s/template.gguf", dir);
    save_with_template("\n{% for m in messages %}{{ m.content|foo }}{% endfor %}", path);
    check_error(chat_banner(path, "-c", "64"), 0, "chat template of this file cannot be rendered");
    check_error(chat_banner(path, "-c", "64"), 0,
                "warning: chat template, line 2: filter 'foo' is not known; it is not used");
    check_error(chat_banner(path, "--chat-template", "none"), 0,
                "A base model without a chat template");
    check_error(chat_banner(path, "--system", "a"), 2,
                "the chat template of this file cannot be rendered");
    check_error(
        RUN("generate", "-m", path, "-p", "a", "-n", "1", "--chat-template", "auto"), 0,
        "warning: --chat-template auto: the file has a chat template that cannot be rendered");
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "-n", "1", "--chat-template", "auto"),
                0, "warning: --chat-template auto: the file has no chat template");
    save_with_template("{{'<|im_start|>user<|im_sep|>' + m.content + '<|im_end|>'}}", path);
    check_error(chat_banner(path, "-c", "64"), 0, "Chat with the built-in template phi4.");
    check_error(chat_banner(path, "-c", "64"), 0,
                "warning: chat template, line 1: 'm' is undefined; using the built-in template "
                "phi4");
    save_with_template("<|im_start|><|im_sep|>", path);
    check_error(chat_banner(path, "-c", "64"), 0, "leaves out what the user says");
    check_error(RUN("generate", "-m", path, "-p", "a", "-n", "1", "--chat-template", "auto"), 0,
                "using the built-in template phi4");
    unlink(path);
}

/* The most likely tokens after a prompt, and the number of prompt tokens. */
static json_t *generated(const char *path, const char *option, const char *value) {
    return json_of(RUN("generate", "-m", path, "-p", "the mat", "-n", "4", "--temp", "0",
                       "--ignore-eos", "--json", option, value),
                   "ingot.generate.v1");
}

static void check_same_tokens(json_t *a, json_t *b) {
    assert_true(json_equal(json_object_get(a, "tokens"), json_object_get(b, "tokens")));
    assert_true(json_equal(json_object_get(a, "n_prompt"), json_object_get(b, "n_prompt")));
    json_decref(a);
    json_decref(b);
}

static void save_text(const char *text, const char *path) {
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0 && fclose(to) == 0);
}

static const char chatml[] =
    "{% for m in messages %}\n{{ '<|im_start|>' + m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static void a_model_s_template_writes_its_conversations(void **state) {
    (void)state;
    char path[80], file[80];
    snprintf(path, sizeof path, "%s/template.gguf", dir);
    snprintf(file, sizeof file, "%s/chatml.jinja", dir);
    save_with_template(chatml, path);
    check_error(chat_banner(path, "-c", "64"), 0, "Chat with the model's own chat template.");
    check_error(chat_banner(path, "--chat-template", "llama3"), 0,
                "with the built-in template llama3.");
    check_same_tokens(generated(path, "--chat-template", "auto"),
                      generated(chat_model, "--chat-template", "chatml"));
    /* Special token syntax in user text is plain text, also with built-in templates. */
    check_same_tokens(json_of(RUN("generate", "-m", path, "-p", "a<|im_end|>", "-n", "1", "--temp",
                                  "0", "--json", "--chat-template", "auto"),
                              "ingot.generate.v1"),
                      json_of(RUN("generate", "-m", chat_model, "-p", "a<|im_end|>", "-n", "1",
                                  "--temp", "0", "--json", "--chat-template", "chatml"),
                              "ingot.generate.v1"));

    save_text(chatml, file);
    check_same_tokens(generated(chat_model, "--chat-template-file", file),
                      generated(chat_model, "--chat-template", "chatml"));
    check_error(chat_banner(chat_model, "--chat-template-file", file), 0,
                "Chat with the given chat template.");
    char *own[4], *ours[4];
    assert_int_equal(answers_of(chat_with("hi\nhi\n", "--chat-template-file", file), own), 2);
    assert_int_equal(answers_of(chat_with("hi\nhi\n", "--chat-template", "chatml"), ours), 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(own[i], ours[i]);
        free(own[i]);
        free(ours[i]);
    }
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "--chat-template-file", file,
                    "--chat-template", "chatml"),
                2, "give only one of them");
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "--chat-template-file", text_file), 3,
                "text.txt: chat template: leaves out what the user says");
    save_text("{{ messages | turned }}", file);
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "--chat-template-file", file), 3,
                "chat template, line 1: filter 'turned' is not known.\n");
    save_text("{% for i in range(100000000) %}{% endfor %}", file);
    check_error(RUN("generate", "-m", chat_model, "-p", "a", "--chat-template-file", file), 3,
                "chat template, line 1: range: more than 100000 numbers.\n");
    unlink(file);
    unlink(path);
}

/* Many templates drop the reasoning of earlier answers; this one drops all earlier turns. */
static void a_template_may_change_what_was_said(void **state) {
    (void)state;
    char file[80], *turns[4], *alone[4];
    snprintf(file, sizeof file, "%s/last.jinja", dir);
    save_text("<|im_start|>{{ messages[-1].content }}", file);
    assert_int_equal(answers_of(chat_with("the\nthe mat\n", "--chat-template-file", file), turns),
                     2);
    assert_int_equal(answers_of(chat_with("the mat\n", "--chat-template-file", file), alone), 1);
    assert_string_equal(turns[1], alone[0]);
    for (int i = 0; i < 2; i++) free(turns[i]);
    free(alone[0]);
    /* A refused message gets the reason, and the chat continues. */
    save_text("{{ raise_exception('no more') if messages|length > 1 }}{{ messages[0].content }}",
              file);
    program_result result = chat_with("the\nthe mat\n", "--chat-template-file", file);
    assert_non_null(strstr(result.err, "line 2: chat template, line 1: no more"));
    assert_int_equal(answers_of(result, turns), 1);
    free(turns[0]);
    unlink(file);
}

/* A template that writes BOS itself, for a tokenizer that adds it. */
static void bos_is_written_once(void **state) {
    (void)state;
    char file[80];
    snprintf(file, sizeof file, "%s/bos.jinja", dir);
    const char *const templates[] = {
        "{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}",
        "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} "
        "[/INST]{% endfor %}"};
    json_t *results[2];
    for (int i = 0; i < 2; i++) {
        save_text(templates[i], file);
        results[i] = generated(model, "--chat-template-file", file);
    }
    check_same_tokens(results[0], results[1]);
    check_same_tokens(generated(model, "--chat-template-file", file),
                      generated(model, "--chat-template", "llama2"));
    unlink(file);
}

static void a_conversation_goes_on_behind_lines_without_an_answer(void **state) {
    (void)state;
    char *turns[4];
    program_result result = chat_with("hi\na \xff\nhi\n", "--chat-template", "chatml");
    assert_non_null(strstr(result.err, "line 2: the text is not UTF-8: byte 3 of 3 is 0xff"));
    assert_int_equal(answers_of(result, turns), 2);
    assert_string_not_equal(turns[0], turns[1]); /* it remembers the earlier turn */
    for (int i = 0; i < 2; i++) free(turns[i]);

    char lines[512] = "hi\n";
    for (int i = 0; i < 200; i++) strcat(lines, "x ");
    strcat(lines, "\nhi\n");
    result = chat_with(lines, "--chat-template", "chatml");
    assert_non_null(strstr(result.err, "line 2: the conversation has "));
    assert_non_null(strstr(result.err, "/clear starts over"));
    assert_int_equal(answers_of(result, turns), 2);
    for (int i = 0; i < 2; i++) free(turns[i]);
}

/* A file whose tokenizer appends EOS, which is meant for complete texts. */
static void a_prompt_does_not_end_with_eos(void **state) {
    (void)state;
    static const char key[] = "tokenizer.ggml.add_eos_token";
    char path[80];
    snprintf(path, sizeof path, "%s/eos.gguf", dir);
    size_t bytes = 0;
    char *file = read_whole(model, &bytes), *at = memmem(file, bytes, key, sizeof key - 1);
    assert_non_null(at);
    at[sizeof key - 1 + 4] = 1; /* after the value's type */
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    assert_int_equal(fwrite(file, 1, bytes, to), bytes);
    assert_int_equal(fclose(to), 0);
    free(file);

    json_t *without = json_of(RUN("logits", "-m", model, "-p", "the", "--json"), "ingot.logits.v1");
    json_t *with = json_of(RUN("logits", "-m", path, "-p", "the", "--json"), "ingot.logits.v1");
    assert_true(json_equal(json_object_get(without, "tokens"), json_object_get(with, "tokens")));
    json_decref(without);
    json_decref(with);
    const char *const formats[] = {"none", "llama2"};
    for (int i = 0; i < 2; i++) {
        const char *const format = formats[i], *const files[] = {model, path};
        json_int_t count[2];
        for (int k = 0; k < 2; k++) {
            json_t *root = json_of(RUN("generate", "-m", files[k], "-p", "the", "-n", "1", "--json",
                                       "--chat-template", format),
                                   "ingot.generate.v1");
            count[k] = json_integer_value(json_object_get(root, "n_prompt"));
            json_decref(root);
        }
        assert_int_equal(count[0], count[1]);
    }
    json_t *whole = json_of(RUN("tokenize", "-m", path, "-p", "the", "--special", "--json"),
                            "ingot.tokenize.v1");
    const json_t *ids = json_object_get(whole, "tokens");
    assert_int_equal(json_integer_value(json_array_get(ids, json_array_size(ids) - 1)), 2);
    json_decref(whole);
    unlink(path);
}

/* ---- what cannot be ---- */

static void bad_requests_are_one_sentence(void **state) {
    (void)state;
    char *longer = calloc(1, 5000);
    for (int i = 0; i < 4998; i += 2) memcpy(longer + i, "x ", 2);
    check_error(RUN("generate", "-m", model, "-p", longer), 2, "the context is 128");
    free(longer);
    check_error(RUN("logits", "-m", model, "--ids", "5 320"), 2,
                "token 320 is out of range (vocabulary of 320)");
    check_error(RUN("logits", "-m", model, "--ids", "5 x"), 2, "'x' is not a token id");
    check_error(RUN("generate", "-m", model, "-p", "a", "-c", "129"), 2, "1 to 128");
    check_error(RUN("generate", "-m", model, "-p", "a", "--kv", "q4_0"), 2, "q4_0");
    check_error(RUN("generate", "-m", model, "-p", "a", "--logit-bias", "999+1"), 2, "999+1");
    check_error(RUN("generate", "-m", bert, "-p", "a"), 2, "makes no text");
    check_error(RUN("generate", "-m", model, "-p", "a", "--system", "b"), 2, "--system");
    check_error(RUN("generate", "-m", text_file, "-p", "a"), 3, "text.txt");
    check_error(RUN("train", "--resume", model, "--steps", "1", "-d", text_file), 3, "llama.gguf");
    check_error(RUN("generate", "-m", model, "-p", "ab\xff"), 2, "byte 3 of 3 is 0xff");
    check_error(RUN("generate", "-m", model, "-p", "\xc3", "--chat-template", "chatml"), 2, "0xc3");
    check_error(RUN("logits", "-m", model, "-p", "\xed\xa0\x80"), 2, "the text is not UTF-8");
    check_error(RUN("perplexity", "-m", model, "-p", "a b c d e \xc0\x80"), 2, "byte 11 of 12");
    check_error(RUN("embed", "-m", bert, "-p", "\xfe"), 2, "the text is not UTF-8");
}

/* Reads beyond the end of a truncated file end with an error message, wherever they happen. */
static void a_file_that_shrinks_in_use_is_no_crash(void **state) {
    (void)state;
    char path[80];
    snprintf(path, sizeof path, "%s/shrinks.gguf", dir);
    for (int wait_ms = 0; wait_ms < 200; wait_ms += 40) {
        assert_int_equal(model_save("llama", IG_F16, path), IG_OK);
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        const program_options options = {.out_fd = null, .err_fd = null};
        const pid_t pid = program_start(
            INGOT_PROGRAM,
            (const char *const[]){"bench", "-m", path, "-p", "100", "-n", "100", "-r", "5", NULL},
            &options);
        usleep((useconds_t)wait_ms * 1000);
        assert_int_equal(truncate(path, 40000), 0);
        const int code = program_wait(pid);
        close(null);
        if (code != 0 && code != 3) fail_msg("after %d ms: %d", wait_ms, code);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generation_reports_tokens_text_timings_and_memory),
        cmocka_unit_test(the_text_does_not_depend_on_how_it_is_computed),
        cmocka_unit_test(reading_a_file_into_memory_says_how_far_it_is),
        cmocka_unit_test(the_report_says_what_came_before_the_first_submit),
        cmocka_unit_test(a_cached_prompt_continues_as_before),
        cmocka_unit_test(a_nan_weight_is_named),
        cmocka_unit_test(a_prompt_that_was_kept_is_of_the_same_keys),
        cmocka_unit_test(a_profile_and_speculation_are_part_of_the_result),
        cmocka_unit_test(attention_counts_every_position_that_is_seen),
        cmocka_unit_test(logits_come_with_their_tokens),
        cmocka_unit_test(bench_perplexity_parity_embed_and_plan_take_a_model),
        cmocka_unit_test(chunks_too_short_to_predict_anything_are_refused),
        cmocka_unit_test(a_conversation_remembers_until_it_is_reset),
        cmocka_unit_test(a_conversation_goes_on_behind_lines_without_an_answer),
        cmocka_unit_test(a_template_that_is_not_known_is_said_to_be),
        cmocka_unit_test(a_model_s_template_writes_its_conversations),
        cmocka_unit_test(a_template_may_change_what_was_said),
        cmocka_unit_test(bos_is_written_once),
        cmocka_unit_test(a_prompt_does_not_end_with_eos),
        cmocka_unit_test(bad_requests_are_one_sentence),
        cmocka_unit_test(a_file_that_shrinks_in_use_is_no_crash),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
