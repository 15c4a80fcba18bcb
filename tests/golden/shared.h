/* shared.h - where files lie that are not part of the tree: INGOT_SHARED_DATA, or ../shared/data.
 */
#ifndef IG_TESTS_GOLDEN_SHARED_H
#define IG_TESTS_GOLDEN_SHARED_H

#include <stdlib.h>

static inline const char *shared_data(void) {
    const char *folder = getenv("INGOT_SHARED_DATA");
    return folder ? folder : TEST_DATA_DIR "/../../../shared/data";
}

#endif
