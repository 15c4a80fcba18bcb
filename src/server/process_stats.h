/* process_stats.h - what the system says of this process. */
#ifndef IG_SERVER_PROCESS_STATS_H
#define IG_SERVER_PROCESS_STATS_H

/* 0: unknown. */
typedef struct ig_process_stats {
    double resident_bytes, virtual_bytes, cpu_seconds, open_fds, max_fds;
} ig_process_stats;

void ig_process_stats_read(ig_process_stats *out);

#endif
