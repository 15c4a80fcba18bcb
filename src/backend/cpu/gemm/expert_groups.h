/* expert_groups.h - rows that are grouped by expert: x [s, k], w [e, ...], offsets [e + 1] -> [s,
 * n]. */
#ifndef IG_BACKEND_CPU_GEMM_EXPERT_GROUPS_H
#define IG_BACKEND_CPU_GEMM_EXPERT_GROUPS_H

#include "backend/cpu/strided.h"

typedef struct grouped {
    int64_t rows, n, k, experts;
    ig_dtype dtype; /* of w */
} grouped;

/* All but n, which depends on how w lies. */
static inline grouped grouped_of(const ig_step *step) {
    return (grouped){.rows = step->in[0].desc.shape.dim[0],
                     .k = last_dim(&step->in[0]),
                     .experts = last_dim(&step->in[2]) - 1,
                     .dtype = step->in[1].desc.dtype};
}

static inline bool grouped_is_transposed(const ig_step *step) {
    ig_attrs_grouped a;
    ig_step_attrs(step, &a, sizeof a);
    return a.transpose_w;
}

static inline bool inputs_are_packed(const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in; i++)
        if (!ig_operand_is_packed(&step->in[i])) return false;
    return true;
}

static inline int64_t grouped_begin(const grouped *p, const int32_t *offsets) {
    return offsets[0] < 0 ? 0 : min_i64(offsets[0], p->rows);
}

/* Where the rows of expert i end, which begin where those before it end: ranges that go back count
 * as empty, those beyond the end are cut. */
static inline int64_t grouped_end(const grouped *p, const int32_t *offsets, int64_t i,
                                  int64_t begin) {
    const int64_t end = min_i64(offsets[i + 1], p->rows);
    return end < begin ? begin : end;
}

static inline void clear_rows(float *y, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) memset(y + r * stride, 0, (size_t)columns * sizeof *y);
}

#endif
