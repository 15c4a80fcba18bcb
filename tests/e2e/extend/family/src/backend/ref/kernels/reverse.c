/* Rows backwards, times a number. */
#include "backend/ref/real.h"

static void reverse(const ig_ref_launch *l) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < n; j++)
            put(&l->out[0], row * n + j,
                (double)l->attrs.reverse.by * get(&l->in[0], row * n + n - 1 - j));
}

const ig_ref_entry IG_REF_LIST(reverse)[] = {
    {IG_OP_REVERSE, IG_REF_DTYPE, "r", "r", reverse},
    {0},
};
