/*
 * output.h - formatting of results: text, units, JSON, files.
 */
#ifndef IG_CLI_APP_OUTPUT_H
#define IG_CLI_APP_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "ingot/context.h"

enum { IG_UNIT_TEXT_BYTES = 32 };

/* "817 B", "40.8 KiB", "1.9 GiB" and "10,443".  They write to `out` and return it. */
const char *ig_bytes_text(uint64_t bytes, char out[IG_UNIT_TEXT_BYTES]);
const char *ig_count_text(uint64_t count, char out[IG_UNIT_TEXT_BYTES]);

/* Copies untrusted text: control characters, which could drive a terminal, and bytes that are not
 * UTF-8 become '?'.  Truncates.  Returns `out`. */
const char *ig_text_safe(const char *text, char *out, size_t out_bytes);

/* A number, or null if it is not finite, which JSON cannot express. */
json_t *ig_json_real(double value);
/* A string that went through ig_text_safe(). */
json_t *ig_json_text(const char *text);
/* 64 bits as a string of 16 hex digits: JSON readers lose numbers above 2^53. */
json_t *ig_json_hex(uint64_t value);

/* A count, or null if it is UINT64_MAX, which means "unknown" in the API. */
json_t *ig_json_count(uint64_t value);

/* The context's run report (NULL: an empty one); the caller owns the reference. */
IG_MUST_CHECK ig_status ig_json_report(const ig_ctx *ctx, json_t **out);

/* The plan of the newest recording, as in report.h; an error if there is none. */
IG_MUST_CHECK ig_status ig_json_plan(const ig_ctx *ctx, json_t **out);
/* The profile. */
IG_MUST_CHECK ig_status ig_json_profile(const ig_ctx *ctx, json_t **out);

/* Writes an object and a newline; false: out of memory or a write error. */
typedef enum ig_json_form { IG_JSON_INDENTED, IG_JSON_LINE } ig_json_form;
bool ig_json_write(FILE *to, const json_t *root, ig_json_form form);

/* Replaces a file atomically with the output of `print`. */
typedef void ig_print_fn(FILE *to, const void *what);
IG_MUST_CHECK ig_status ig_file_replace(const ig_allocator *a, const char *path, ig_print_fn *print,
                                        const void *what);

/* Creates the folder unless it exists; its parent must exist. */
IG_MUST_CHECK ig_status ig_dir_make(const char *path);

#endif
