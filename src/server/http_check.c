/*
 * http_check.c - what a request's header may say: before its body is read, and before a handler
 * sees it.
 *
 * libmicrohttpd accepts more than RFC 9112 allows: a length beside chunks, several lengths, names
 * with spaces, a CR alone.  A proxy in front may read such a request in another way, and then the
 * two disagree about where the next one begins (request smuggling): so it is 400 here, and the
 * connection ends.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_internal.h"

/* ---- syntax ---- */

typedef struct fields {
    int n_lengths, n_encodings, n_hosts, n_keys;
    uintptr_t end;   /* of the last value */
    const char *bad; /* what is wrong; NULL: nothing */
} fields;

static bool is_token(const char *text) {
    if (!*text) return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text)) return false;
    return true;
}

/* Whether a field is one line that ends with CR LF.  libmicrohttpd puts 0 in place of the colon, CR
 * and LF, and joins the second line of a folded field to the name, which it moves; a LF alone ends
 * a line, and a 0 in a line hides the rest of it. */
static bool is_line(const char *name, const char *value) {
    const uintptr_t colon = (uintptr_t)name + strlen(name), begin = (uintptr_t)value;
    if (begin <= colon || begin - colon > 64) return false;
    for (const char *c = name + strlen(name) + 1; c < value; c++)
        if (*c != ' ' && *c != '\t') return false;
    return value[strlen(value) + 1] == 0;
}

static enum MHD_Result look_at_field(void *user, enum MHD_ValueKind kind, const char *name,
                                     const char *value) {
    fields *f = user;
    (void)kind;
    if (!value || !is_line(name, value)) f->bad = "a header is not one line that ends with CR LF";
    if (!is_token(name)) f->bad = "a header name is not a token";
    for (const char *c = value ? value : ""; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
            f->bad = "a header value has a control character";
    if (value) f->end = (uintptr_t)value + strlen(value);
    f->n_lengths += !strcasecmp(name, "Content-Length");
    f->n_encodings += !strcasecmp(name, "Transfer-Encoding");
    f->n_hosts += !strcasecmp(name, "Host");
    f->n_keys += !strcasecmp(name, "Authorization");
    return MHD_YES;
}

/* libmicrohttpd takes a field without a name for the end of the header. */
static bool ends_early(const ig_exchange *x, const fields *f) {
    return f->end && (uintptr_t)x->request.method + x->n_header != f->end + strlen("\r\n\r\n");
}

static const char *wrong_syntax(const ig_exchange *x) {
    const char *encoding = ig_exchange_header(x, "Transfer-Encoding");
    const char *length = ig_exchange_header(x, "Content-Length");
    fields f = {0};
    MHD_get_connection_values(x->mhd, MHD_HEADER_KIND, look_at_field, &f);
    if (f.bad) return f.bad;
    if (ends_early(x, &f)) return "a header has no name";
    if (!is_token(x->request.method)) return "the method is not a token";
    if (x->request.path[0] != '/' && strcmp(x->request.path, "*") != 0)
        return "the path must begin with '/'";
    if (f.n_lengths > 1) return "there are several Content-Length headers";
    if (f.n_encodings > 1) return "there are several Transfer-Encoding headers";
    if (f.n_lengths && f.n_encodings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (encoding && (x->is_old || strcasecmp(encoding, "chunked") != 0))
        return "Transfer-Encoding may be chunked, with HTTP/1.1";
    if (length && length[strspn(length, "0123456789")]) return "Content-Length is not a number";
    if (f.n_hosts > 1) return "there are several Host headers";
    if (!f.n_hosts && !x->is_old) return "there is no Host header";
    if (f.n_keys > 1) return "there are several Authorization headers";
    return NULL;
}

/* ---- sizes ---- */

static bool has_body(const ig_exchange *x) {
    const char *length = ig_exchange_header(x, "Content-Length");
    return ig_exchange_header(x, "Transfer-Encoding") || (length && length[strspn(length, "0")]);
}

static bool check_sizes(ig_exchange *x) {
    const ig_http_options *o = &x->http->options;
    char message[160];
    if (x->is_url_long) {
        snprintf(message, sizeof message, "the URL has more than %zu bytes", o->max_url_bytes);
        http_exchange_refuse(x, IG_HTTP_REJECT_URL, 414, message);
        return false;
    }
    if (x->n_header > o->max_header_bytes) {
        snprintf(message, sizeof message, "the header has %zu bytes; %zu are the most", x->n_header,
                 o->max_header_bytes);
        http_exchange_refuse(x, IG_HTTP_REJECT_HEADER, 431, message);
        return false;
    }
    const char *length = ig_exchange_header(x, "Content-Length");
    if (!length) return true;
    const char *digits = length + strspn(length, "0");
    unsigned long long n = 0;
    if (strlen(digits) < 19) sscanf(digits, "%llu", &n);
    if (strlen(digits) < 19 && n <= o->max_body_bytes) return true;
    snprintf(message, sizeof message, "the body has %.24s bytes; %zu are the most", digits,
             o->max_body_bytes);
    http_exchange_refuse(x, IG_HTTP_REJECT_BODY, 413, message);
    return false;
}

/* ---- who asks ---- */

static uint64_t hash_of(const http_address *address) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (int i = 0; i < 16; i++) hash = (hash ^ address->bytes[i]) * 0x100000001b3u;
    return hash ^ address->is_unix;
}

/* The client of a trusted proxy is the last address in X-Forwarded-For that is not a trusted proxy
 * itself: what stands before it may be invented. */
static http_address client_of(const ig_exchange *x) {
    http_address client = x->connection->address;
    const char *list = ig_exchange_header(x, "X-Forwarded-For");
    size_t n = list ? strlen(list) : 0;
    while (n && http_is_trusted(x->http, &client)) {
        char text[ADDRESS_BYTES];
        size_t begin = n;
        while (begin && list[begin - 1] != ',') begin--;
        const char *at = list + begin;
        size_t length = n - begin;
        while (length && strchr(" \t", *at)) at++, length--;
        while (length && strchr(" \t", at[length - 1])) length--;
        http_address next;
        if (length >= sizeof text) break;
        memcpy(text, at, length);
        text[length] = 0;
        if (!http_address_parse(text, &next) || next.is_unix) break;
        client = next;
        n = begin ? begin - 1 : 0;
    }
    return client;
}

static const char *given_key(const ig_exchange *x) {
    const char *value = ig_exchange_header(x, "Authorization");
    if (value && !strncasecmp(value, "Bearer ", 7)) {
        value += 7;
        return value + strspn(value, " ");
    }
    return ig_exchange_header(x, "X-Api-Key");
}

static bool check_key(ig_exchange *x, bool is_public) {
    ig_http *http = x->http;
    const http_address client = client_of(x);
    http_address_print(&client, x->client);
    x->request.party = hash_of(&client);
    pthread_mutex_lock(&http->lock);
    http_keys *keys = http->keys;
    atomic_fetch_add(&keys->n_users, 1);
    pthread_mutex_unlock(&http->lock);
    x->keys = keys;
    if (!keys->count) {
        x->request.admin = true;
        return true;
    }
    const char *given = given_key(x);
    const http_key *key = given ? http_keys_find(keys, given, strlen(given)) : NULL;
    if (key) {
        x->request.key_name = key->name;
        x->request.admin = key->is_admin;
        x->request.party = key->party;
        x->request.salt = key->salt;
        x->request.salt_bytes = DIGEST_BYTES - 1;
        return true;
    }
    if (is_public) return true;
    ig_exchange_add_header(x, "WWW-Authenticate", "Bearer");
    http_exchange_refuse(x, IG_HTTP_REJECT_KEY, 401, "a valid API key is required");
    return false;
}

/* ---- from where: a page in a browser must not reach a server on its user's machine ---- */

/* The host of "host:port" or "[address]:port"; false: it is neither. */
static bool host_name(const char *value, char *out, size_t room) {
    const bool is_bracketed = value[0] == '[';
    const char *begin = value + is_bracketed;
    const size_t n = strcspn(begin, is_bracketed ? "]" : ":");
    const char *rest = begin + n;
    if (is_bracketed && *rest++ != ']') return false;
    if (*rest == ':') rest += 1 + strspn(rest + 1, "0123456789");
    if (*rest || !n || n >= room) return false;
    memcpy(out, begin, n);
    out[n] = 0;
    return true;
}

static bool is_own_name(const char *name) {
    char own[256] = "";
    return !gethostname(own, sizeof own - 1) && *own && !strcasecmp(name, own);
}

/* A name that an attacker gave to this machine is refused; an address cannot be given away. */
static bool is_known_host(const ig_exchange *x) {
    const ig_http_options *o = &x->http->options;
    const char *value = ig_exchange_header(x, "Host");
    char name[256];
    http_address address, local;
    if (x->connection->address.is_unix || !value) return true;
    if (!host_name(value, name, sizeof name)) return false;
    for (size_t i = 0; i < o->n_host_names; i++)
        if (!strcmp(o->host_names[i], "*") || !strcasecmp(o->host_names[i], name)) return true;
    if (!strcasecmp(name, "localhost") || (!o->n_sockets && !strcasecmp(name, o->host)) ||
        is_own_name(name))
        return true;
    if (!http_address_parse(name, &address)) return false;
    if (http_address_is_loopback(&address)) return true;
    struct sockaddr_storage bound = {0};
    socklen_t n = sizeof bound;
    if (getsockname(x->connection->fd, (struct sockaddr *)&bound, &n)) return false;
    http_address_from_socket(&bound, &local);
    return http_address_is_equal(&address, &local);
}

/* True: the page may read the reply. */
static bool allow_origin(ig_exchange *x) {
    const ig_http_options *o = &x->http->options;
    const char *origin = ig_exchange_header(x, "Origin");
    if (o->n_cors_origins) ig_exchange_add_header(x, "Vary", "Origin");
    for (size_t i = 0; origin && i < o->n_cors_origins; i++)
        if (!strcmp(o->cors_origins[i], origin)) {
            ig_exchange_add_header(x, "Access-Control-Allow-Origin", origin);
            ig_exchange_add_header(x, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
            return true;
        }
    return false;
}

static void answer_options(ig_exchange *x, bool is_allowed) {
    const bool is_preflight =
        ig_exchange_header(x, "Origin") && ig_exchange_header(x, "Access-Control-Request-Method");
    if (is_preflight && !is_allowed) {
        http_exchange_refuse(x, IG_HTTP_REJECT_ORIGIN, 403,
                             "this origin is not allowed: see --cors-origin");
        return;
    }
    if (is_preflight) {
        ig_exchange_add_header(x, "Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE");
        ig_exchange_add_header(x, "Access-Control-Allow-Headers",
                               "Authorization, Content-Type, X-Api-Key, X-Request-Id, "
                               "anthropic-version, anthropic-beta, traceparent, tracestate");
        ig_exchange_add_header(x, "Access-Control-Max-Age", "600");
    }
    ig_exchange_add_header(x, "Allow", "GET, HEAD, POST, DELETE, OPTIONS");
    ig_exchange_reply(x, 204, NULL, NULL, 0);
}

/* A page can send other types without asking first. */
static bool is_json(const ig_exchange *x) {
    static const char json[] = "application/json";
    const char *type = ig_exchange_header(x, "Content-Type");
    if (!type || strncasecmp(type, json, sizeof json - 1) != 0) return false;
    const char *rest = type + sizeof json - 1;
    rest += strspn(rest, " \t");
    return !*rest || *rest == ';';
}

/* ---- request id and trace context ---- */

static void random_hex(char *out, size_t n_digits) {
    uint8_t bytes[16] = {0};
    if (getrandom(bytes, n_digits / 2, 0) != (ssize_t)(n_digits / 2)) {
        const uint64_t now = ig_clock_ns();
        memcpy(bytes, &now, sizeof now);
    }
    for (size_t i = 0; i < n_digits; i++)
        out[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
    out[n_digits] = 0;
}

/* "00-<32 hex digits>-<16>-<2>", where neither id is 0; later versions may have more fields. */
static bool is_traceparent(const char *text) {
    static const char form[] = "vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff";
    bool has_trace = false, has_span = false;
    for (size_t i = 0; i < sizeof form - 1; i++) {
        const char c = text[i];
        if (form[i] == '-' ? c != '-' : !c || !strchr("0123456789abcdef", c)) return false;
        has_trace |= form[i] == 't' && c != '0';
        has_span |= form[i] == 's' && c != '0';
    }
    const char rest = text[sizeof form - 1];
    if (!strncmp(text, "ff", 2) || (!strncmp(text, "00", 2) && rest)) return false;
    return has_trace && has_span && (!rest || rest == '-');
}

void http_trace(ig_exchange *x) {
    const char *id = ig_exchange_header(x, "X-Request-Id");
    const char *parent = ig_exchange_header(x, "traceparent");
    bool is_printable = id && *id && strlen(id) < ID_BYTES;
    for (const char *c = id; is_printable && *c; c++) is_printable = *c > ' ' && *c <= '~';
    if (is_printable)
        memcpy(x->id, id, strlen(id) + 1);
    else
        random_hex(x->id, 32);
    char trace[33], span[17];
    const char *flags = "00";
    random_hex(span, 16);
    if (parent && is_traceparent(parent)) {
        memcpy(trace, parent + 3, 32);
        trace[32] = 0;
        memcpy(x->parent_span, parent + 36, 16);
        flags = parent + 53;
    } else {
        random_hex(trace, 32);
    }
    snprintf(x->traceparent, sizeof x->traceparent, "00-%s-%s-%.2s", trace, span, flags);
}

/* ---- all of it ---- */

static bool strip_prefix(ig_exchange *x) {
    const char *prefix = x->http->options.api_prefix;
    const size_t n = prefix ? strlen(prefix) : 0;
    if (!n) return true;
    const char *path = x->request.path;
    if (strncmp(path, prefix, n) != 0 || (path[n] && path[n] != '/')) return false;
    x->request.path = path[n] ? path + n : "/";
    return true;
}

bool http_check(ig_exchange *x) {
    const ig_http_options *o = &x->http->options;
    http_trace(x);
    const char *wrong = wrong_syntax(x);
    if (wrong) {
        ig_exchange_add_header(x, "Connection", "close");
        http_exchange_refuse(x, IG_HTTP_REJECT_MALFORMED, 400, wrong);
        return false;
    }
    const bool is_inside = strip_prefix(x);
    const char *method = x->request.method;
    const bool is_public = is_inside && o->is_public && o->is_public(method, x->request.path);
    const bool is_origin_allowed = allow_origin(x);
    if (!is_public && !is_known_host(x)) {
        http_exchange_refuse(x, IG_HTTP_REJECT_HOST, 403,
                             "this Host is not served here: see --host-name");
        return false;
    }
    if (!strcmp(method, "OPTIONS")) {
        http_address_print(&x->connection->address, x->client);
        answer_options(x, is_origin_allowed);
        return false;
    }
    if (!check_key(x, is_public)) return false;
    if (!is_inside) {
        http_exchange_fail(x, 404, "there is nothing outside the API prefix");
        return false;
    }
    const char *expect = ig_exchange_header(x, "Expect");
    if (expect && strcasecmp(expect, "100-continue") != 0) {
        http_exchange_refuse(x, IG_HTTP_REJECT_EXPECT, 417, "only 100-continue can be expected");
        return false;
    }
    if (!check_sizes(x)) return false;
    if (has_body(x) && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && !is_json(x)) {
        http_exchange_refuse(x, IG_HTTP_REJECT_CONTENT_TYPE, 415,
                             "Content-Type must be application/json");
        return false;
    }
    return true;
}
