#include "server/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_memory(ig_process_stats *out) {
    unsigned long long total, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return;
    if (fscanf(file, "%llu %llu", &total, &resident) == 2) {
        out->virtual_bytes = (double)total * (double)sysconf(_SC_PAGESIZE);
        out->resident_bytes = (double)resident * (double)sysconf(_SC_PAGESIZE);
    }
    fclose(file);
}

/* Newer kernels say the number as the folder's size; else the entries are counted. */
static double count_fds(void) {
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0) return (double)folder.st_size;
    DIR *dir = opendir("/proc/self/fd");
    double n = 0;
    if (!dir) return 0;
    for (const struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n - 1; /* the folder itself */
}

void ig_process_stats_read(ig_process_stats *out) {
    struct rusage usage;
    struct rlimit limit;
    *out = (ig_process_stats){.open_fds = count_fds()};
    read_memory(out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) out->max_fds = (double)limit.rlim_cur;
}
