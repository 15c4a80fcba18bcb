#include "plan/compile_progress.h"

void ig_progress_begin(ig_progress *p, uint64_t steps) {
    if (!p) return;
    if (p->steps != steps) p->reported = 0; /* continue the progress of the earlier attempt */
    p->steps = steps;
}

void ig_progress_part(ig_progress *p, ig_progress_event event, uint64_t first, uint64_t count) {
    if (!p) return;
    p->event = event;
    p->first = first;
    p->count = count;
}

bool ig_progress_tell(ig_progress *p, uint64_t done, uint64_t total) {
    if (total > 0 && p->steps > 0) {
        const double part = (double)(done < total ? done : total) / (double)total;
        const double whole =
            ((double)p->first + part * (double)p->count) / (double)p->steps * IG_PROGRESS_WHOLE;
        if (whole > (double)p->reported) p->reported = (uint64_t)whole;
        if (p->reported >= IG_PROGRESS_WHOLE)
            p->reported = IG_PROGRESS_WHOLE - 1; /* the last unit is reported at the end */
        if (p->tell) p->tell(p->user, p->event, p->reported, IG_PROGRESS_WHOLE);
    }
    return !(p->cancel && p->cancel(p->user));
}

void ig_progress_end(ig_progress *p, uint64_t from_cache, uint64_t to_cache) {
    if (!p) return;
    if (p->tell && p->reported > 0)
        p->tell(p->user, p->event, IG_PROGRESS_WHOLE, IG_PROGRESS_WHOLE);
    if (p->tell && from_cache > 0)
        p->tell(p->user, IG_PROGRESS_PROGRAMS_CACHED, from_cache, from_cache);
    if (p->tell && to_cache > 0) p->tell(p->user, IG_PROGRESS_PROGRAMS_STORED, to_cache, to_cache);
    p->reported = p->steps = 0;
}
