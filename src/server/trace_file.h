/*
 * trace_file.h - appends a span for each exchange to a file, as JSON lines of OpenTelemetry (OTLP).
 *
 * Attributes follow the semantic conventions of HTTP and gen_ai.  Prompts, replies and keys are not
 * recorded.
 */
#ifndef IG_SERVER_TRACE_FILE_H
#define IG_SERVER_TRACE_FILE_H

#include "server/http.h"

typedef struct ig_trace_file ig_trace_file;

/* Opens the file for appending.  The path is borrowed.  The caller owns the trace file. */
IG_MUST_CHECK ig_status ig_trace_file_open(const ig_allocator *a, const char *path,
                                           ig_trace_file **out);
void ig_trace_file_close(ig_trace_file *trace); /* NULL is a no-op */
/* Opens the path again, after the file was renamed by log rotation.  On failure the old file stays.
 */
IG_MUST_CHECK ig_status ig_trace_file_reopen(ig_trace_file *trace);

/* Appends the span of an exchange that has ended with this code.  Any thread.  False: it could not
 * be written. */
bool ig_trace_file_add(ig_trace_file *trace, const ig_exchange *x, int code);

#endif
