#include "server/http_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool ig_refuse(ig_http_error *e, int code, const char *param, const char *fmt, ...) {
    va_list args;
    *e = (ig_http_error){.code = code};
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    return false;
}

/* The bytes of a source line such as " (file.c:123)" at the beginning of the text; 0: none. */
static size_t source_line_bytes(const char *text) {
    if (strncmp(text, " (", 2) != 0) return 0;
    size_t n = 2 + strspn(text + 2, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (strncmp(text + n, ".c:", 3) != 0 && strncmp(text + n, ".h:", 3) != 0) return 0;
    const size_t digits = strspn(text + n + 3, "0123456789");
    n += 3 + digits;
    return digits > 0 && text[n] == ')' ? n + 1 : 0;
}

void ig_error_words_of(const char *text, char *out, size_t room) {
    size_t n = 0;
    while (*text && n + 1 < room) {
        const size_t place = source_line_bytes(text);
        text += place;
        if (place == 0) out[n++] = *text++;
    }
    out[n] = '\0';
}

void ig_error_words(char *out, size_t room) { ig_error_words_of(ig_error_text(), out, room); }

static int code_of(ig_status status) {
    switch (status) {
    case IG_ERR_ARGUMENT: return 400;
    case IG_ERR_MEMORY:
    case IG_ERR_BUSY:
    case IG_ERR_CANCELLED: return 503;
    case IG_ERR_UNSUPPORTED: return 501;
    default: return 500;
    }
}

bool ig_refuse_failure(ig_http_error *e, ig_status status) {
    char words[sizeof e->message];
    ig_error_words(words, sizeof words);
    return ig_refuse(e, code_of(status), NULL, "%s", words);
}

static const char *type_of(int code) {
    static const struct {
        int code;
        const char *type;
    } rows[] = {{401, "authentication_error"}, {403, "permission_error"},
                {404, "not_found_error"},      {429, "rate_limit_error"},
                {500, "server_error"},         {501, "not_supported_error"},
                {503, "unavailable_error"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code) return rows[i].type;
    return code < 500 ? "invalid_request_error" : "server_error";
}

void ig_http_error_write(const ig_http_error *e, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_out_open(out, "error", '{');
    ig_out_string(out, "message", e->message);
    ig_out_string(out, "type", e->type ? e->type : type_of(e->code));
    ig_out_string(out, "param", e->param[0] ? e->param : NULL);
    if (e->reason)
        ig_out_string(out, "code", e->reason);
    else
        ig_out_int(out, "code", e->code);
    if (e->n_ctx > 0) {
        ig_out_int(out, "n_prompt_tokens", e->n_prompt_tokens);
        ig_out_int(out, "n_ctx", e->n_ctx);
    }
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

void ig_http_error_reply(const ig_http_error *e, ig_exchange *x) {
    static const char no_memory[] =
        "{\"error\":{\"message\":\"out of memory\",\"type\":\"unavailable_error\",\"param\":null,"
        "\"code\":503}}";
    ig_out out = {0};
    char seconds[16];
    ig_http_error_write(e, &out);
    if (e->retry_after_s > 0) {
        snprintf(seconds, sizeof seconds, "%d", e->retry_after_s);
        ig_exchange_add_header(x, "Retry-After", seconds);
    }
    if (out.failed)
        ig_exchange_reply(x, 503, "application/json", no_memory, sizeof no_memory - 1);
    else
        ig_exchange_reply(x, e->code, "application/json", out.bytes, out.n_bytes);
    ig_out_deinit(&out);
}
