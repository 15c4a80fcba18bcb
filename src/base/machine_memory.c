#include "base/machine_memory.h"

#include <stdio.h>
#include <unistd.h>

/* Without page cache, which is available, too. */
static uint64_t unused(void) {
    const long pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : UINT64_MAX;
}

/* /proc may be hidden, as by systemd's ProcSubset=pid. */
static uint64_t of_system(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return unused();
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(file);
    return kib > 0 ? (uint64_t)kib << 10 : unused();
}

/* The limit of the process's cgroup. */
static uint64_t of_group(void) {
    unsigned long long bytes = 0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (!file) return UINT64_MAX;
    const int numbers = fscanf(file, "%llu", &bytes); /* "max": no limit */
    fclose(file);
    return numbers == 1 ? bytes : UINT64_MAX;
}

uint64_t ig_memory_available(void) {
    const uint64_t system = of_system(), group = of_group();
    return system < group ? system : group;
}
