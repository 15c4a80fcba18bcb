#include "cli/workload.h"

#include <stdio.h>
#include <string.h>

ig_status ig_workload_find(const char *name, const ig_workload_type **out) {
    char names[256] = "";
    size_t used = 0;
    for (const ig_workload_type *const *type = ig_workload_types; *type; type++) {
        if (strcmp((*type)->name, name) == 0) {
            *out = *type;
            return IG_OK;
        }
        const int wrote =
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*type)->name);
        if (wrote > 0 && used + (size_t)wrote < sizeof names) used += (size_t)wrote;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "'%s': no such workload; there are %s", name, names);
}

const ig_workload_type *const ig_workload_types[] = {&ig_workload_char_mlp, NULL};
