/* All tables of cases, and lookup of an op's tolerance. */
#include "conformance/cases.h"

const case_table *const case_tables[] = {
#define AT(table) &table,
    CASE_TABLES(AT)
#undef AT
        NULL,
};

case_tolerance case_tolerance_of(uint32_t op) {
    for (const case_table *const *t = case_tables; *t; t++)
        for (size_t i = 0; i < (*t)->n_tolerances; i++)
            if ((*t)->tolerances[i].op == op) return (*t)->tolerances[i];
    return (case_tolerance){.op = op};
}
