/* meter.h - an allocator that counts, and fails on demand. */
#ifndef TEST_METER_H
#define TEST_METER_H

#include <stdlib.h>

#include "unit/check.h"

typedef struct meter {
    uint64_t asked, held; /* allocations requested; not yet freed */
    uint64_t fail_at;     /* 1-based number of the allocation that fails; 0: none */
    bool fail_on;         /* fail all later ones, too */
    bool failed;
} meter;

static inline void *meter_alloc(void *user, size_t bytes, size_t alignment) {
    meter *m = user;
    m->asked++;
    if (m->fail_at && (m->asked == m->fail_at || (m->fail_on && m->asked > m->fail_at))) {
        m->failed = true;
        return NULL;
    }
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *p = aligned_alloc(alignment, rounded);
    assert_non_null(p);
    m->held++;
    return memset(p, 0xcd, rounded);
}

static inline void meter_free(void *user, void *p) {
    ((meter *)user)->held--;
    free(p);
}

static inline ig_allocator meter_allocator(meter *m) {
    return (ig_allocator){meter_alloc, meter_free, m};
}

#endif
