/* ref.h - the reference backend: every op in plain loops, for F32 and F64. */
#ifndef IG_BACKEND_REF_REF_H
#define IG_BACKEND_REF_REF_H

#include "ingot/backend.h"

extern const ig_backend ig_ref_backend;

#endif
