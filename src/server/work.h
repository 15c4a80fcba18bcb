/*
 * work.h - a request that needs a model, from its JSON to the end of its reply.
 *
 *     handler -> ig_work_begin()    parses and checks the body
 *       -> the model is loaded      the exchange is suspended meanwhile
 *       -> type.advance()           now, and whenever the exchange is woken, until it has replied
 *       -> type.close()             frees what the type owns
 */
#ifndef IG_SERVER_WORK_H
#define IG_SERVER_WORK_H

#include <stdatomic.h>

#include "server/fields.h"
#include "server/operations.h"
#include "server/route.h"

typedef struct ig_work ig_work;

typedef struct ig_work_type {
    size_t bytes;  /* of the structure that begins with an ig_work */
    unsigned body; /* IG_BODY_* */
    /* Checks the fields before the model is waited for; NULL: nothing to check.  False: w->error.
     */
    bool (*check)(ig_work *w);
    void (*advance)(ig_work *w);
    /* Ends the reply with w->error; NULL: ig_work_refuse(). */
    void (*fail)(ig_work *w);
    void (*close)(ig_work *w); /* NULL: nothing to free */
} ig_work_type;

struct ig_work {
    const ig_work_type *type;
    ig_server *server;
    ig_exchange *x;
    const ig_allocator *allocator;
    json_t *body;
    ig_fields fields; /* borrow from the body */
    ig_http_error error;
    ig_served *served; /* while advance() runs */
    ig_models_waiter waiter;
    atomic_bool is_loading;   /* the waiter has not been called yet */
    ig_active active;         /* DELETE /v1/requests/{id} finds it */
    atomic_bool is_cancelled; /* by that */
    bool has_replied;         /* advance() is not called any more */
};

void ig_work_begin(ig_server *server, ig_exchange *x, const ig_work_type *type);

/* Replies with w->error, or with a JSON object, which it clears. */
void ig_work_refuse(ig_work *w);
void ig_work_reply(ig_work *w, ig_out *out);

/* Fills in w->error for a job that was not taken; always false. */
bool ig_work_refuse_submit(ig_work *w, ig_status status);
/* The same for one that has failed: its last event. */
bool ig_work_refuse_job(ig_work *w, const ig_job_event *event);
/* Seconds until a place in the queue of the model's engine may be free. */
int ig_work_retry_after(const ig_work *w);

#endif
