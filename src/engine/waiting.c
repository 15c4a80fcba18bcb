/* The replies that wait: a list, and who is next. */
#include "base/clock.h"
#include "engine/scheduler.h"

enum { AGING_MS = 10000 }; /* waiting so long raises the priority by one */

void ig_waiting_add(ig_engine *e, ig_reply *r) {
    r->is_waiting = true;
    r->waiting_since_ms = ig_clock_ms();
    r->next_waiting = e->waiting;
    e->waiting = r;
    e->has_queue_changed = true;
}

void ig_waiting_remove(ig_engine *e, ig_reply *r) {
    for (ig_reply **at = &e->waiting; *at; at = &(*at)->next_waiting)
        if (*at == r) {
            *at = r->next_waiting;
            break;
        }
    r->is_waiting = false;
    e->has_queue_changed = true;
}

static uint64_t served(const ig_engine *e, uint64_t party) {
    for (int i = 0; i < IG_ENGINE_PARTIES; i++)
        if (e->parties[i].party == party) return e->parties[i].served;
    return 0;
}

/* Replaces the party that was served the longest time ago. */
void ig_waiting_note_served(ig_engine *e, const ig_reply *r) {
    const uint64_t party = r->job->request.party;
    int at = 0;
    for (int i = 0; i < IG_ENGINE_PARTIES; i++) {
        if (e->parties[i].party == party && e->parties[i].served > 0) {
            at = i;
            break;
        }
        if (e->parties[i].served < e->parties[at].served) at = i;
    }
    e->parties[at].party = party;
    e->parties[at].served = ++e->n_served;
}

static int64_t priority_of(const ig_reply *r, double now) {
    return r->job->request.priority + (int64_t)((now - r->job->submitted_ms) / AGING_MS);
}

static bool is_before(const ig_engine *e, const ig_reply *a, const ig_reply *b, double now) {
    const int64_t pa = priority_of(a, now), pb = priority_of(b, now);
    if (pa != pb) return pa > pb;
    if (a->job->request.party != b->job->request.party) {
        const uint64_t sa = served(e, a->job->request.party), sb = served(e, b->job->request.party);
        if (sa != sb) return sa < sb;
    }
    return a->arrival < b->arrival;
}

int64_t ig_waiting_position(const ig_engine *e, const ig_reply *r) {
    const double now = ig_clock_ms();
    const int64_t own = priority_of(r, now);
    int64_t ahead = 0;
    for (const ig_reply *o = e->waiting; o; o = o->next_waiting) {
        const int64_t priority = priority_of(o, now);
        ahead += o->choice == 0 && (priority > own || (priority == own && o->arrival < r->arrival));
    }
    return ahead;
}

/* Choices after the first wait until the prompt is computed. */
static bool can_start(const ig_reply *r) { return r->choice == 0 || r->job->is_prefilled; }

ig_reply *ig_waiting_next(const ig_engine *e, bool embedding) {
    const double now = ig_clock_ms();
    ig_reply *best = NULL;
    for (ig_reply *r = e->waiting; r; r = r->next_waiting) {
        if (r->job->request.embed != embedding || !can_start(r)) continue;
        if (!best || is_before(e, r, best, now)) best = r;
    }
    return best;
}
