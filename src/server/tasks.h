/*
 * tasks.h - requests that wait for a scheduler, on a thread of their own.
 *
 * A function of ig_engine_call() runs between two steps, and a step may take long while a device
 * compiles.  Handlers run on the HTTP threads, which must not wait for that.
 */
#ifndef IG_SERVER_TASKS_H
#define IG_SERVER_TASKS_H

#include "server/http_error.h"
#include "server/server.h"

typedef struct ig_tasks ig_tasks; /* a queue and its thread */

IG_MUST_CHECK ig_status ig_tasks_create(const ig_allocator *a, ig_tasks **out);
/* Drops what is queued and waits for what runs.  No exchange may be left.  NULL is a no-op. */
void ig_tasks_destroy(ig_tasks *tasks);

typedef struct ig_task ig_task;
typedef struct ig_task_type {
    size_t bytes; /* of the structure that begins with an ig_task */
    /* On the tasks' thread: computes `out`.  On failure the thread's error is the reply's. */
    ig_status (*run)(ig_task *task);
} ig_task_type;

struct ig_task {
    const ig_task_type *type;
    ig_server *server;
    const ig_allocator *allocator;
    ig_out out; /* the reply: JSON */
    /* Of tasks.c. */
    ig_task *next;
    ig_tasks *tasks;
    ig_exchange *x; /* NULL: it has ended.  Under the lock of the tasks */
    int n_users;    /* likewise: the exchange and the queue */
    bool is_done;   /* likewise */
    ig_http_error error;
};

/* Zeroed memory of the type; NULL: no memory, and the request was refused. */
ig_task *ig_task_create(ig_server *server, ig_exchange *x, const ig_task_type *type);
/* Runs the task, replies and frees it; 503 if too many wait. */
void ig_task_begin(ig_task *task, ig_exchange *x);

#endif
