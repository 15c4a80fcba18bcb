#include "server/timers.h"

#include <math.h>
#include <pthread.h>

#include "base/clock.h"

struct ig_timers {
    const ig_allocator *allocator;
    pthread_mutex_t lock; /* held while notify() runs, so that dropping waits for it */
    pthread_cond_t changed;
    pthread_t thread;
    ig_timer *first; /* not sorted */
    bool is_stopping;
};

static void unlist(ig_timers *t, ig_timer *timer) {
    if (!timer->is_listed) return;
    if (timer->before)
        timer->before->next = timer->next;
    else
        t->first = timer->next;
    if (timer->next) timer->next->before = timer->before;
    timer->next = timer->before = NULL;
    timer->is_listed = false;
}

static void list(ig_timers *t, ig_timer *timer) {
    timer->before = NULL;
    timer->next = t->first;
    if (t->first) t->first->before = timer;
    t->first = timer;
    timer->is_listed = true;
}

/* Calls the timers whose time has come; returns when the next one's comes. */
static double call_due(ig_timers *t, double now) {
    double next_ms = INFINITY;
    for (ig_timer *timer = t->first, *next; timer; timer = next) {
        next = timer->next;
        if (timer->at_ms > now) {
            next_ms = fmin(next_ms, timer->at_ms);
            continue;
        }
        unlist(t, timer);
        timer->notify(timer->user);
    }
    return next_ms;
}

static void *run(void *arg) {
    ig_timers *t = arg;
    pthread_mutex_lock(&t->lock);
    while (!t->is_stopping) {
        const double at_ms = call_due(t, ig_clock_ms());
        if (isinf(at_ms)) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        const uint64_t ns = (uint64_t)(at_ms * 1e6);
        const struct timespec at = {.tv_sec = (time_t)(ns / 1000000000u),
                                    .tv_nsec = (long)(ns % 1000000000u)};
        pthread_cond_timedwait(&t->changed, &t->lock, &at);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void free_timers(ig_timers *t) {
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    ig_free(t->allocator, t);
}

ig_status ig_timers_create(const ig_allocator *allocator, ig_timers **out) {
    ig_timers *t = ig_alloc(allocator, 1, sizeof *t);
    pthread_condattr_t monotonic;
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "timers");
    t->allocator = allocator;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&t->thread, NULL, run, t) != 0) {
        free_timers(t);
        return IG_FAIL(IG_ERR_MEMORY, "timers: cannot create a thread");
    }
    *out = t;
    return IG_OK;
}

void ig_timers_destroy(ig_timers *t) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->is_stopping = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    free_timers(t);
}

void ig_timers_set(ig_timers *t, ig_timer *timer, double at_ms) {
    pthread_mutex_lock(&t->lock);
    unlist(t, timer);
    timer->at_ms = at_ms;
    list(t, timer);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void ig_timers_drop(ig_timers *t, ig_timer *timer) {
    pthread_mutex_lock(&t->lock);
    unlist(t, timer);
    pthread_mutex_unlock(&t->lock);
}
