/*
 * operations.h - handlers of operational routes: health, metrics, props, slots, models, requests.
 */
#ifndef IG_SERVER_OPERATIONS_H
#define IG_SERVER_OPERATIONS_H

#include "server/server.h"

typedef void ig_operation(ig_server *server, ig_exchange *x);

ig_operation ig_operation_health;  /* GET /health, /v1/health, /ping: public */
ig_operation ig_operation_ready;   /* GET /ready: public */
ig_operation ig_operation_version; /* GET /version: public */
ig_operation ig_operation_metrics; /* GET /metrics */
ig_operation ig_operation_props;   /* GET /props?model= */
ig_operation ig_operation_slots;   /* GET /slots?model=&fail_on_no_slot= */
ig_operation ig_operation_slot;    /* POST /slots/{id}?action=save, restore or erase: admin */
ig_operation ig_operation_report;  /* GET /v1/report?model= */
ig_operation ig_operation_load;    /* POST /models/load {"model"}: admin */
ig_operation ig_operation_unload;  /* POST /models/unload {"model"}: admin */
ig_operation ig_operation_reload;  /* POST /reload: keys, certificates, folders: admin */
ig_operation ig_operation_cancel;  /* DELETE /v1/requests/{id} */

/* ---- active requests ---- */

/* A request in progress, which can be cancelled; the caller's memory until it is removed. */
typedef struct ig_active {
    struct ig_active *next;
    const char *id;             /* of the exchange */
    uint64_t party;             /* who may cancel it, besides admins */
    void (*cancel)(void *user); /* any thread; must not remove it */
    void *user;
} ig_active;

void ig_server_add_active(ig_server *server, ig_active *active);
void ig_server_remove_active(ig_server *server, ig_active *active); /* not added: a no-op */

#endif
