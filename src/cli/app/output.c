#include "cli/app/output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_parse.h"
#include "ingot/report.h"

enum { JSON_DIGITS = 9 }; /* enough to distinguish any two F32 values */

const char *ig_bytes_text(uint64_t bytes, char out[IG_UNIT_TEXT_BYTES]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, IG_UNIT_TEXT_BYTES, "%u B", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(out, IG_UNIT_TEXT_BYTES, "%.1f %s", value, units[unit]);
    return out;
}

const char *ig_count_text(uint64_t count, char out[IG_UNIT_TEXT_BYTES]) {
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *to = out;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return out;
}

/* Bytes of the UTF-8 character at `text`; 0: invalid. */
static size_t character_bytes(const unsigned char *text) {
    const size_t n = *text < 0x80 ? 1 : *text < 0xC2 ? 0 : *text < 0xE0 ? 2 : *text < 0xF0 ? 3 : 4;
    if (n == 0 || *text > 0xF4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    /* Longer than needed, a surrogate, beyond the last one, or a control character of two bytes. */
    if ((*text == 0xE0 && text[1] < 0xA0) || (*text == 0xED && text[1] > 0x9F)) return 0;
    if ((*text == 0xF0 && text[1] < 0x90) || (*text == 0xF4 && text[1] > 0x8F)) return 0;
    if (*text == 0xC2 && text[1] < 0xA0) return 0;
    return n;
}

const char *ig_text_safe(const char *text, char *out, size_t out_bytes) {
    const unsigned char *from = (const unsigned char *)text;
    size_t used = 0;
    while (*from) {
        size_t n = character_bytes(from);
        const bool bad = n == 0 || *from < 0x20 || *from == 0x7F;
        if (n == 0) n = 1;
        if (used + n >= out_bytes) break;
        if (bad)
            out[used++] = '?';
        else {
            memcpy(out + used, from, n);
            used += n;
        }
        from += n;
    }
    out[used] = 0;
    return out;
}

json_t *ig_json_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *ig_json_text(const char *text) {
    char safe[1024];
    return json_string(ig_text_safe(text, safe, sizeof safe));
}

json_t *ig_json_hex(uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    return json_string(text);
}

json_t *ig_json_count(uint64_t value) {
    return value == UINT64_MAX ? json_null() : json_integer((json_int_t)value);
}

/* Parses the output of an snprintf-like writer. */
typedef size_t text_fn(const ig_ctx *ctx, char *out, size_t out_bytes);

static ig_status parse_text(const ig_ctx *ctx, const char *what, text_fn *write, json_t **out) {
    const ig_allocator *a = ctx ? ig_ctx_allocator(ctx) : &ig_heap;
    const size_t bytes = write(ctx, NULL, 0) + 1;
    if (bytes == 1) return IG_FAIL(IG_ERR_STATE, "%s: there is none", what);
    char *text = ig_alloc(a, bytes, 1);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu bytes", what, bytes);
    write(ctx, text, bytes);
    const ig_status status = ig_json_decode(IG_ERR_STATE, "report", what, text, bytes - 1, 0, out);
    ig_free(a, text);
    return status;
}

static size_t write_plan(const ig_ctx *ctx, char *out, size_t out_bytes) {
    return ig_report_plan_json(ctx, 0, out, out_bytes);
}

ig_status ig_json_report(const ig_ctx *ctx, json_t **out) {
    return parse_text(ctx, "report", ig_report_json, out);
}

/* Without a recording: the recorder's reason; steps go on without one if memory runs out. */
static ig_status explain_no_plan(const ig_ctx *ctx) {
    json_t *report = NULL;
    IG_TRY(ig_json_report(ctx, &report));
    const json_t *recordings = json_object_get(report, "recordings");
    const char *reason = json_string_value(json_object_get(recordings, "reason"));
    const bool no_memory = json_is_true(json_object_get(recordings, "out_of_memory"));
    const ig_status status = IG_FAIL(no_memory ? IG_ERR_MEMORY : IG_ERR_STATE,
                                     "no step was recorded, so there is no "
                                     "plan: %s",
                                     reason && *reason ? reason : "no reason is known");
    json_decref(report);
    return status;
}

ig_status ig_json_plan(const ig_ctx *ctx, json_t **out) {
    if (write_plan(ctx, NULL, 0) == 0) return explain_no_plan(ctx);
    return parse_text(ctx, "plan of a recording", write_plan, out);
}

ig_status ig_json_profile(const ig_ctx *ctx, json_t **out) {
    return parse_text(ctx, "profile", ig_profile_json, out);
}

bool ig_json_write(FILE *to, const json_t *root, ig_json_form form) {
    const size_t how = form == IG_JSON_LINE ? JSON_COMPACT : JSON_INDENT(2);
    const bool whole = json_dumpf(root, to, how | JSON_REAL_PRECISION(JSON_DIGITS)) == 0;
    return fputc('\n', to) != EOF && whole;
}

static ig_status save_bytes(const ig_allocator *a, const char *path, const char *bytes,
                            size_t n_bytes) {
    ig_file_writer *writer;
    IG_TRY(ig_file_writer_create(a, path, n_bytes, &writer));
    ig_status status = ig_file_writer_write(writer, 0, bytes, n_bytes);
    if (status == IG_OK) status = ig_file_writer_commit(writer);
    ig_file_writer_destroy(writer);
    return status;
}

ig_status ig_file_replace(const ig_allocator *a, const char *path, ig_print_fn *print,
                          const void *what) {
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *memory = open_memstream(&text, &n_bytes);
    if (!memory) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its text", path);
    print(memory, what);
    const bool whole = !ferror(memory) && fflush(memory) == 0;
    const bool closed = fclose(memory) == 0;
    const ig_status status = whole && closed
                                 ? save_bytes(a, path, text, n_bytes)
                                 : IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its text", path);
    free(text);
    return status;
}

ig_status ig_dir_make(const char *path) {
    struct stat info;
    if (mkdir(path, 0777) == 0) return IG_OK;
    const int why = errno;
    if (why == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return IG_OK;
    return IG_FAIL(IG_ERR_IO, "%s: %s", path, why == EEXIST ? "is not a folder" : strerror(why));
}
