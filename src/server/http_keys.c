/*
 * http_keys.c - keys: read from files and the environment, kept as digests.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "server/http_internal.h"

enum { KEY_FILE_BYTES = 1 << 20, KEY_BYTES = 512 };

static void digest_with(const char *prefix, const char *key, size_t n_bytes,
                        char out[DIGEST_BYTES]) {
    char text[KEY_BYTES + 16];
    const size_t n_prefix = strlen(prefix);
    memcpy(text, prefix, n_prefix);
    memcpy(text + n_prefix, key, n_bytes);
    ig_sha256(text, n_prefix + n_bytes, out);
}

static bool is_name(const char *text, size_t n) {
    if (!n || n >= sizeof((http_key *)0)->name) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i])) return false;
    return true;
}

static ig_status add_key(http_keys *keys, const char *source, int line, const char *text, size_t n,
                         bool is_admin, bool is_shared) {
    const char *colon = memchr(text, ':', n);
    const size_t n_name = colon ? (size_t)(colon - text) : 0;
    const bool has_name = colon && is_name(text, n_name);
    const char *key = has_name ? colon + 1 : text;
    const size_t n_key = has_name ? n - n_name - 1 : n;
    if (!n_key || n_key > KEY_BYTES)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s, key %d: it has %zu bytes; keys have 1 to %d", source,
                       line, n_key, KEY_BYTES);
    for (size_t i = 0; i < n_key; i++)
        if (key[i] <= ' ' || key[i] > '~')
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "%s, key %d: keys are of printable ASCII without spaces", source, line);
    if (!IG_GROW(keys->allocator, keys->at, &keys->room, keys->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu keys", source, keys->count + 1);
    http_key *out = &keys->at[keys->count++];
    *out = (http_key){.is_admin = is_admin};
    if (has_name)
        memcpy(out->name, text, n_name);
    else
        snprintf(out->name, sizeof out->name, "%s%zu", is_admin ? "admin" : "key", keys->count);
    digest_with("", key, n_key, out->digest);
    digest_with("salt ", is_shared ? "" : key, is_shared ? 0 : n_key, out->salt);
    char party[DIGEST_BYTES];
    digest_with("party ", key, n_key, party);
    for (int i = 0; i < 16; i++) /* 64 bits of it */
        out->party =
            out->party << 4 | (uint64_t)(party[i] <= '9' ? party[i] - '0' : party[i] - 'a' + 10);
    return IG_OK;
}

static ig_status add_text(http_keys *keys, const char *source, const char *text, bool is_admin,
                          bool is_shared) {
    int line = 0;
    while (*text) {
        const size_t n_line = strcspn(text, "\n,");
        size_t n = strcspn(text, "\n,#");
        const char *begin = text;
        text += text[n] == '#' ? strcspn(text, "\n") : n_line; /* a comment ends with its line */
        if (*text) text++;
        while (n && isspace((unsigned char)*begin)) begin++, n--;
        while (n && isspace((unsigned char)begin[n - 1])) n--;
        line++;
        if (n) IG_TRY(add_key(keys, source, line, begin, n, is_admin, is_shared));
    }
    return IG_OK;
}

/* Who else can read the file knows the keys. */
static ig_status read_file(const ig_allocator *a, const char *path, char **out) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return IG_FAIL(IG_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    struct stat info;
    ig_status status = IG_OK;
    char *text = NULL;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        status = IG_FAIL(IG_ERR_IO, "%s: is not a file", path);
    else if (info.st_mode & 077)
        status =
            IG_FAIL(IG_ERR_IO, "%s: its mode is %04o, so others can read the keys: chmod 600 %s",
                    path, (unsigned)info.st_mode & 07777, path);
    else if (info.st_size >= KEY_FILE_BYTES)
        status = IG_FAIL(IG_ERR_IO, "%s: %lld bytes are too many for keys", path,
                         (long long)info.st_size);
    else if (!(text = ig_alloc(a, (size_t)info.st_size + 1, 1)))
        status = IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read it", path);
    for (size_t n = 0; status == IG_OK && n < (size_t)info.st_size;) {
        const ssize_t got = read(fd, text + n, (size_t)info.st_size - n);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            if (got < 0) status = IG_FAIL(IG_ERR_IO, "%s: %s", path, strerror(errno));
            break;
        }
        if (got > 0) n += (size_t)got;
    }
    close(fd);
    if (status == IG_OK)
        *out = text;
    else
        ig_free(a, text);
    return status;
}

static ig_status add_file(http_keys *keys, const char *path, bool is_admin, bool is_shared) {
    char *text = NULL;
    const size_t before = keys->count;
    IG_TRY(read_file(keys->allocator, path, &text));
    ig_status status = add_text(keys, path, text, is_admin, is_shared);
    explicit_bzero(text, strlen(text));
    ig_free(keys->allocator, text);
    if (status == IG_OK && keys->count == before)
        status = IG_FAIL(IG_ERR_ARGUMENT, "%s: there is no key in it", path);
    return status;
}

ig_status http_keys_load(const ig_http_options *options, http_keys **out) {
    http_keys *keys = ig_alloc(options->allocator, 1, sizeof *keys);
    if (!keys) return IG_FAIL(IG_ERR_MEMORY, "http: no memory for keys");
    keys->allocator = options->allocator;
    atomic_init(&keys->n_users, 1);
    const bool is_shared = options->share_prefix_cache;
    ig_status status = IG_OK;
    if (options->api_key_file) status = add_file(keys, options->api_key_file, false, is_shared);
    if (status == IG_OK && options->api_keys)
        status = add_text(keys, "INGOT_API_KEY", options->api_keys, false, is_shared);
    if (status == IG_OK && options->admin_key_file)
        status = add_file(keys, options->admin_key_file, true, is_shared);
    if (status == IG_OK)
        *out = keys;
    else
        http_keys_release(keys);
    return status;
}

void http_keys_release(http_keys *keys) {
    if (!keys || atomic_fetch_sub(&keys->n_users, 1) > 1) return;
    const ig_allocator *a = keys->allocator;
    ig_free(a, keys->at);
    ig_free(a, keys);
}

const http_key *http_keys_find(const http_keys *keys, const char *key, size_t n_bytes) {
    char digest[DIGEST_BYTES];
    if (n_bytes > KEY_BYTES) return NULL;
    ig_sha256(key, n_bytes, digest);
    size_t found = 0; /* its number, from 1 */
    for (size_t i = 0; i < keys->count; i++) {
        unsigned differs = 0;
        for (int j = 0; j < DIGEST_BYTES; j++)
            differs |= (unsigned)(digest[j] ^ keys->at[i].digest[j]);
        const size_t mask = (size_t)0 - (size_t)(differs == 0);
        found = (found & ~mask) | ((i + 1) & mask);
    }
    return found ? &keys->at[found - 1] : NULL;
}
