/* json.h - JSON and text from third-party files: bounded, and errors name the file. */
#ifndef IG_FORMAT_JSON_H
#define IG_FORMAT_JSON_H

#include <jansson.h>

#include "base/alloc.h"

/* Parses an object; `what` is for messages, such as "the header". The caller owns the reference. */
IG_MUST_CHECK ig_status ig_json_parse(const char *file, const char *what, const void *bytes,
                                      size_t n_bytes, json_t **out);

/* The same, with integers parsed as reals: some writers put 1e30 as an integer, for "no limit". */
IG_MUST_CHECK ig_status ig_json_parse_reals(const char *file, const char *what, const void *bytes,
                                            size_t n_bytes, json_t **out);

/* Parses a file of a folder. */
IG_MUST_CHECK ig_status ig_json_load(const ig_allocator *a, const char *dir, const char *name,
                                     json_t **out);

/* The same, with integers parsed as reals. */
IG_MUST_CHECK ig_status ig_json_load_reals(const ig_allocator *a, const char *dir, const char *name,
                                           json_t **out);

/* The bytes of a file in a folder, with a trailing 0; the caller frees them. */
IG_MUST_CHECK ig_status ig_json_load_text(const ig_allocator *a, const char *dir, const char *name,
                                          char **out);

/* Whether the folder has a file of that name. */
bool ig_json_exists(const char *dir, const char *name);

/* "dir/name"; the caller frees it; NULL: out of memory. */
char *ig_json_path(const ig_allocator *a, const char *dir, const char *name);

#endif
