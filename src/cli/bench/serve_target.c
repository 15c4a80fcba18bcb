#include "cli/bench/serve_target.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_parse.h"
#include "cli/app/output.h"

char *serve_json_text(const ig_allocator *a, json_t *root) {
    const size_t bytes = root ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    char *text = bytes > 0 ? ig_alloc(a, bytes + 1, 1) : NULL;
    if (text) json_dumpb(root, text, bytes, JSON_COMPACT);
    json_decref(root);
    return text;
}

uint64_t serve_rss(int64_t pid) {
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %llu kB", &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

/* ---- One request ---- */

static bool asks_to_stop(void *user) { return ig_cli_cancelled(user); }

ig_status serve_target_ask(const serve_target *t, const char *method, const char *path,
                           json_t *body, ig_http_result *out, json_t **out_json) {
    const ig_allocator *a = &t->cli->allocator;
    char *text = NULL;
    if (body && !(text = serve_json_text(a, body)))
        return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for a request");
    const ig_http_request request = {
        .method = method, .path = path, .body = text, .timeout_s = t->options->timeout};
    ig_http_result result;
    const ig_status status = ig_http_client_ask(t->asker, &request, asks_to_stop, t->cli, &result);
    ig_free(a, text);
    IG_TRY(status);
    json_t *json = NULL;
    if (result.body_bytes > 0 && result.code == 200) {
        const ig_status read = ig_json_decode(IG_ERR_FORMAT, path, "the reply", result.body,
                                              result.body_bytes, 0, &json);
        if (read == IG_ERR_MEMORY) return read;
    }
    *out = result;
    *out_json = json;
    return IG_OK;
}

/* ---- The server ---- */

static ig_status read_key(const char *path, char out[SERVE_KEY_BYTES]) {
    ig_file_map map = {0};
    IG_TRY(ig_file_map_open(path, &map));
    const char *bytes = map.bytes;
    size_t length = 0;
    while (length < map.size && bytes[length] > ' ' && bytes[length] <= '~') length++;
    const bool ends = length == map.size || bytes[length] == '\n' || bytes[length] == '\r';
    const bool fits = length > 0 && length < SERVE_KEY_BYTES && ends;
    if (fits) memcpy(out, bytes, length), out[length] = 0;
    ig_file_map_close(&map);
    if (fits) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT,
                   "--api-key-file %s: the first line must be a key of 1 to %d printable "
                   "characters without spaces",
                   path, SERVE_KEY_BYTES - 1);
}

/* Takes the first model of GET /v1/models. */
static ig_status find_model(serve_target *t, const char *named) {
    ig_http_result result;
    json_t *json = NULL;
    IG_TRY(serve_target_ask(t, "GET", "/v1/models", NULL, &result, &json));
    const json_t *first = json_array_get(json_object_get(json, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    snprintf(t->model, sizeof t->model, "%s", named ? named : id ? id : "");
    json_decref(json);
    if (result.outcome != IG_HTTP_REPLIED)
        return IG_FAIL(IG_ERR_STATE, "%s: the server does not reply (%s)", t->options->url,
                       ig_http_outcome_names[result.outcome]);
    if (result.code == 401 || result.code == 403)
        return IG_FAIL(IG_ERR_STATE, "%s: the server wants a key: give --api-key-file",
                       t->options->url);
    return IG_OK;
}

static ig_status find_tokenizer(serve_target *t) {
    ig_http_result result;
    json_t *json = NULL;
    json_t *body = json_pack("{s:s, s:s}", "content", "one two", "model", t->model);
    IG_TRY(serve_target_ask(t, "POST", "/tokenize", body, &result, &json));
    t->has_tokenizer = json_is_array(json_object_get(json, "tokens"));
    json_decref(json);
    return IG_OK;
}

ig_status serve_target_open(ig_cli *cli, const bench_serve_options *options, const char *model,
                            uint64_t seed, serve_target *out) {
    *out = (serve_target){.cli = cli, .options = options, .seed = seed};
    if (!options->url) return IG_FAIL(IG_ERR_ARGUMENT, "--url is required");
    IG_TRY(ig_local_url_parse(options->url, &out->url));
    if (options->key_file) IG_TRY(read_key(options->key_file, out->key));
    IG_TRY(serve_target_client(out, 1, &out->asker));
    IG_TRY(find_model(out, model));
    return find_tokenizer(out);
}

void serve_target_close(serve_target *t) { ig_http_client_destroy(t->asker); }

ig_status serve_target_client(const serve_target *t, int n_connections, ig_http_client **out) {
    return ig_http_client_create(&t->cli->allocator, &t->url, *t->key ? t->key : NULL,
                                 n_connections, out);
}
