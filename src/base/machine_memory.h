/* machine_memory.h - available memory of the machine. */
#ifndef IG_BASE_MACHINE_MEMORY_H
#define IG_BASE_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes available without swapping: the system's or the cgroup's limit, whichever is lower.
 * UINT64_MAX: unknown. */
uint64_t ig_memory_available(void);

#endif
