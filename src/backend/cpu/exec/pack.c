#include "backend/cpu/exec/pack.h"

#include <stdatomic.h>

/* Of all weights: columns in groups of sixteen, four bytes of k at a step (packed_read.h). */
static const char layout[] = "cpu.columns16.2";

typedef struct job {
    const ig_cpu_setup *setup;
    const char *weight;
    char *packed;
    int64_t end; /* of the groups that are packed now */
    _Atomic int64_t next;
} job;

static void work(void *task, uint32_t thread, uint32_t threads) {
    enum { AT_ONCE = 4 }; /* groups: some hundred kilobytes */
    job *j = task;
    const ig_cpu_pack *pack = &j->setup->pack;
    (void)thread, (void)threads;
    for (;;) {
        const int64_t begin = atomic_fetch_add_explicit(&j->next, AT_ONCE, memory_order_relaxed);
        if (begin >= j->end) return;
        const int64_t end = begin + AT_ONCE < j->end ? begin + AT_ONCE : j->end;
        pack->pack(j->setup->params, j->weight, j->packed, begin, end);
    }
}

/* The host may drop the pages of a contiguous weight that were packed. */
static void report_consumed(const ig_host *host, const ig_operand *w, int64_t groups, int64_t of) {
    uint64_t bytes;
    if (host->struct_size < offsetof(ig_host, pack_consumed) + sizeof host->pack_consumed ||
        !host->pack_consumed || !ig_operand_is_packed(w) || !ig_desc_bytes(w->desc, &bytes))
        return;
    host->pack_consumed(host, w, bytes / (uint64_t)of * (uint64_t)groups);
}

/* A slice at a time, so that little of the weight is in memory twice. */
static void pack_slices(const ig_host *host, const ig_operand *w, job *j) {
    enum { SLICE_BYTES = 1 << 24 };
    const ig_cpu_pack *pack = &j->setup->pack;
    const int64_t each = 1 + (int64_t)(SLICE_BYTES / pack->group_bytes);
    for (int64_t begin = 0; begin < pack->groups; begin = j->end) {
        j->end = begin + each < pack->groups ? begin + each : pack->groups;
        atomic_init(&j->next, begin);
        if (host->team)
            host->team(host, work, j);
        else
            work(j, 0, 1);
        report_consumed(host, w, j->end, pack->groups);
    }
}

uint64_t ig_cpu_pack_bytes(const ig_host *host, const ig_step *step, const ig_cpu_setup *setup) {
    const ig_cpu_pack *pack = &setup->pack;
    if (!pack->run || pack->groups == 0) return 0;
    if (host->struct_size < offsetof(ig_host, pack_end) + sizeof host->pack_end ||
        !host->pack_begin)
        return 0;
    const ig_operand *w = &step->in[pack->input];
    return w->kind == IG_KIND_WEIGHT && w->host ? (uint64_t)pack->groups * pack->group_bytes : 0;
}

ig_status ig_cpu_pack_weight(const ig_host *host, const ig_step *step, const ig_cpu_setup *setup,
                             ig_cpu_pack_progress *progress, const void **out) {
    const uint64_t bytes = ig_cpu_pack_bytes(host, step, setup);
    const ig_operand *w = &step->in[setup->pack.input];
    bool ready = true, proceed = true;
    *out = NULL;
    if (bytes == 0) return IG_OK;
    char *packed = host->pack_begin(host, w, layout, bytes, &ready);
    progress->done += bytes;
    if (packed && !ready) {
        job j = {.setup = setup, .weight = w->host, .packed = packed};
        pack_slices(host, w, &j);
        host->pack_end(host, w, true);
        proceed = host->progress(progress->progress, progress->done, progress->total);
    }
    *out = packed;
    return proceed ? IG_OK
                   : IG_HOST_FAIL(host, IG_ERR_CANCELLED, "cpu: packing weights was stopped");
}
