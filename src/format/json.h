/* json.h - JSON and text from files of others: bounded, failures told with the file's name. */
#ifndef IG_FORMAT_JSON_H
#define IG_FORMAT_JSON_H

#include <jansson.h>

#include "base/alloc.h"

/* Parses an object; `what` is for messages: "the header".  The caller drops the reference. */
IG_MUST_CHECK ig_status ig_json_parse(const char *file, const char *what, const void *bytes,
                                      size_t n_bytes, json_t **out);

/* The object that a file of a folder holds. */
IG_MUST_CHECK ig_status ig_json_load(const ig_allocator *a, const char *dir, const char *name,
                                     json_t **out);

/* The bytes of a file of a folder with a 0 behind them; the caller frees them. */
IG_MUST_CHECK ig_status ig_json_load_text(const ig_allocator *a, const char *dir, const char *name,
                                          char **out);

/* Whether the folder has a file of that name. */
bool ig_json_exists(const char *dir, const char *name);

/* "dir/name"; the caller frees it; NULL: no memory. */
char *ig_json_path(const ig_allocator *a, const char *dir, const char *name);

#endif
