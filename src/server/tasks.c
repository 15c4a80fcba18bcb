#include "server/tasks.h"

#include <pthread.h>

#include "server/operations_reply.h"
#include "server/server_run.h"

enum { MOST_WAITING = 64 };

struct ig_tasks {
    const ig_allocator *allocator;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread, is_stopping;
    ig_task *first, **end; /* the queue */
    int n_waiting;
};

/* ---- tasks ---- */

ig_task *ig_task_create(ig_server *server, ig_exchange *x, const ig_task_type *type) {
    const ig_allocator *a = ig_server_allocator(server);
    ig_task *task = ig_alloc(a, 1, type->bytes);
    if (!task) {
        ig_operation_refuse(x, 503, NULL, "out of memory");
        return NULL;
    }
    task->type = type;
    task->server = server;
    task->allocator = task->out.allocator = a;
    task->tasks = ig_server_tasks(server);
    return task;
}

static void destroy(ig_task *task) {
    ig_out_deinit(&task->out);
    ig_free(task->allocator, task);
}

/* Gives up a use; the last one frees the task. */
static void release(ig_task *task) {
    ig_tasks *tasks = task->tasks;
    pthread_mutex_lock(&tasks->lock);
    const bool is_last = --task->n_users == 0;
    pthread_mutex_unlock(&tasks->lock);
    if (is_last) destroy(task);
}

/* ---- the thread ---- */

static ig_task *take(ig_tasks *tasks) {
    pthread_mutex_lock(&tasks->lock);
    while (!tasks->first && !tasks->is_stopping) pthread_cond_wait(&tasks->wake, &tasks->lock);
    ig_task *task = tasks->is_stopping ? NULL : tasks->first;
    if (task) {
        tasks->first = task->next;
        if (!tasks->first) tasks->end = &tasks->first;
        tasks->n_waiting--;
    }
    pthread_mutex_unlock(&tasks->lock);
    return task;
}

static void run(ig_task *task) {
    const ig_status status = task->type->run(task);
    if (status != IG_OK) ig_refuse_failure(&task->error, status);
    pthread_mutex_lock(&task->tasks->lock);
    task->is_done = true;
    if (task->x) ig_exchange_wake(task->x);
    pthread_mutex_unlock(&task->tasks->lock);
    release(task);
}

static void *run_all(void *user) {
    for (ig_task *task; (task = take(user));) run(task);
    return NULL;
}

/* ---- the exchange's calls ---- */

static void advance(void *user, ig_exchange *x) {
    ig_task *task = user;
    pthread_mutex_lock(&task->tasks->lock);
    const bool is_done = task->is_done;
    pthread_mutex_unlock(&task->tasks->lock);
    if (!is_done) return;
    if (task->error.code)
        ig_http_error_reply(&task->error, x);
    else
        ig_operation_reply(x, 200, &task->out);
}

static void close_task(void *user) {
    ig_task *task = user;
    pthread_mutex_lock(&task->tasks->lock);
    task->x = NULL;
    pthread_mutex_unlock(&task->tasks->lock);
    release(task);
}

void ig_task_begin(ig_task *task, ig_exchange *x) {
    ig_tasks *tasks = task->tasks;
    pthread_mutex_lock(&tasks->lock);
    const bool has_room = tasks->n_waiting < MOST_WAITING;
    if (has_room) {
        task->x = x;
        task->n_users = 2;
        *tasks->end = task;
        tasks->end = &task->next;
        tasks->n_waiting++;
        pthread_cond_signal(&tasks->wake);
    }
    pthread_mutex_unlock(&tasks->lock);
    if (has_room) {
        ig_exchange_defer(x, &(ig_exchange_source){advance, close_task, task});
        return;
    }
    ig_operation_refuse(x, 503, NULL, "too many requests of this kind are waiting");
    destroy(task);
}

/* ---- create and destroy ---- */

ig_status ig_tasks_create(const ig_allocator *a, ig_tasks **out) {
    ig_tasks *tasks = ig_alloc(a, 1, sizeof *tasks);
    if (!tasks) return IG_FAIL(IG_ERR_MEMORY, "tasks");
    tasks->allocator = a;
    tasks->end = &tasks->first;
    pthread_mutex_init(&tasks->lock, NULL);
    pthread_cond_init(&tasks->wake, NULL);
    if (pthread_create(&tasks->thread, NULL, run_all, tasks) != 0) {
        ig_tasks_destroy(tasks);
        return IG_FAIL(IG_ERR_MEMORY, "tasks: cannot create a thread");
    }
    tasks->has_thread = true;
    *out = tasks;
    return IG_OK;
}

void ig_tasks_destroy(ig_tasks *tasks) {
    if (!tasks) return;
    pthread_mutex_lock(&tasks->lock);
    tasks->is_stopping = true;
    pthread_cond_signal(&tasks->wake);
    pthread_mutex_unlock(&tasks->lock);
    if (tasks->has_thread) pthread_join(tasks->thread, NULL);
    for (ig_task *task = tasks->first, *next; task; task = next) {
        next = task->next;
        destroy(task); /* its exchange has ended */
    }
    pthread_cond_destroy(&tasks->wake);
    pthread_mutex_destroy(&tasks->lock);
    ig_free(tasks->allocator, tasks);
}
