/* sha256.h - SHA-256 (FIPS 180-4), for digests pinned in a config. */
#ifndef IG_BASE_SHA256_H
#define IG_BASE_SHA256_H

#include <stddef.h>

enum { IG_SHA256_TEXT_BYTES = 65 }; /* 64 hex digits and a 0 */

void ig_sha256(const void *bytes, size_t count, char out[IG_SHA256_TEXT_BYTES]);

#endif
