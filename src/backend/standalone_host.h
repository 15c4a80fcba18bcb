/* lone_host.h - a host without a context: no plan, no thread beside the caller's, no listener. */
#ifndef IG_BACKEND_LONE_HOST_H
#define IG_BACKEND_LONE_HOST_H

#include "ingot/backend.h"

/* For devices that are only looked at; a copy may be given more. */
extern const ig_host ig_lone_host;

#endif
