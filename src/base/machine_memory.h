/* memory.h - how much memory the machine can still give. */
#ifndef IG_BASE_MEMORY_H
#define IG_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that can be had without swapping: what the system says, or what the limit of the process's
 * group allows, whichever is less.  UINT64_MAX: nobody tells. */
uint64_t ig_memory_available(void);

#endif
