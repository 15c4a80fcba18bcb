#include "plan/compile_progress.h"

void ig_progress_begin(ig_progress *p, uint64_t steps) {
    if (!p) return;
    if (p->steps != steps) p->told = 0; /* the same plan, made anew for another device, goes on */
    p->steps = steps;
}

void ig_progress_part(ig_progress *p, const char *what, uint64_t first, uint64_t count) {
    if (!p) return;
    p->what = what;
    p->first = first;
    p->count = count;
}

bool ig_progress_tell(ig_progress *p, uint64_t done, uint64_t total) {
    if (total > 0 && p->steps > 0) {
        const double part = (double)(done < total ? done : total) / (double)total;
        const double whole =
            ((double)p->first + part * (double)p->count) / (double)p->steps * IG_PROGRESS_WHOLE;
        if (whole > (double)p->told) p->told = (uint64_t)whole;
        if (p->told >= IG_PROGRESS_WHOLE) p->told = IG_PROGRESS_WHOLE - 1; /* that is for the end */
        if (p->tell) p->tell(p->user, p->what, p->told, IG_PROGRESS_WHOLE);
    }
    return !(p->cancel && p->cancel(p->user));
}

void ig_progress_end(ig_progress *p, uint64_t from_cache, uint64_t to_cache) {
    if (!p) return;
    if (p->tell && p->told > 0) p->tell(p->user, p->what, IG_PROGRESS_WHOLE, IG_PROGRESS_WHOLE);
    if (p->tell && from_cache > 0) p->tell(p->user, "from the cache", from_cache, from_cache);
    if (p->tell && to_cache > 0) p->tell(p->user, "to the cache", to_cache, to_cache);
    p->told = p->steps = 0;
}
