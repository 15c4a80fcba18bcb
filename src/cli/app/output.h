/*
 * output.h - what results look like: texts, units, JSON, files.
 */
#ifndef IG_CLI_OUTPUT_H
#define IG_CLI_OUTPUT_H

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

/* Copies text that came from outside: control characters, which could steer a terminal, and
 * bytes that are no UTF-8 become '?'.  Cuts what does not fit.  Returns `out`. */
const char *ig_text_safe(const char *text, char *out, size_t out_bytes);

/* A number, or null where it is not finite: JSON has no word for that. */
json_t *ig_json_real(double value);
/* A string, as ig_text_safe() leaves it. */
json_t *ig_json_text(const char *text);
/* 64 bits as a string of 16 hex digits: JSON readers lose numbers above 2^53. */
json_t *ig_json_hex(uint64_t value);

/* A count, or null where it is UINT64_MAX, the API's word for "not known". */
json_t *ig_json_count(uint64_t value);

/* The context's run report, of NULL an empty one; the caller drops the reference. */
IG_MUST_CHECK ig_status ig_json_report(const ig_ctx *ctx, json_t **out);

/* The plan of the newest recording, as report.h describes it; an error where there is none. */
IG_MUST_CHECK ig_status ig_json_plan(const ig_ctx *ctx, json_t **out);
/* What was profiled. */
IG_MUST_CHECK ig_status ig_json_profile(const ig_ctx *ctx, json_t **out);

/* Writes an object and ends the line; false: it could not be. */
typedef enum ig_json_form { IG_JSON_INDENTED, IG_JSON_LINE } ig_json_form;
bool ig_json_write(FILE *to, const json_t *root, ig_json_form form);

/* Replaces a file, whole or not at all, by what `print` writes. */
typedef void ig_print_fn(FILE *to, const void *what);
IG_MUST_CHECK ig_status ig_file_replace(const ig_allocator *a, const char *path, ig_print_fn *print,
                                        const void *what);

/* Makes the folder unless it is there already; its parent must be. */
IG_MUST_CHECK ig_status ig_dir_make(const char *path);

#endif
