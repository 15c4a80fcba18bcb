#version 460
/* Along the last dimension: softmax, its logarithm, and the loss on top of it.  A group takes a
 * row; exponentials are taken around its largest element, so that none overflows. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "workgroup_reduce.glsl"

layout(constant_id = 1) const uint FORM = 0;

PARAMS(vk_softmax_params)

void main() {
    const uint n = params.n, stride = params.column_stride;
    FOR_EACH_GROUP(row, params.rows) {
        const uint x = place_of(params.x, row);
        float largest = -INFINITE, sum = 0;
        for (uint j = thread(); j < n; j += GROUP) {
            const float e = FLOAT(0, x + j * stride);
            if (e > largest) largest = e;
        }
        largest = group_max(largest);
        for (uint j = thread(); j < n; j += GROUP)
            sum += exp_of(FLOAT(0, x + j * stride) - largest);
        sum = group_sum(sum);

        int target = 0;
        float slope = 0;
        if (FORM == VK_CROSS_ENTROPY || FORM == VK_CROSS_ENTROPY_GRAD) {
            target = INT(1, place_of(params.targets, row));
            if (target < 0 || target >= int(n)) target = -1;
        }
        if (FORM == VK_CROSS_ENTROPY) {
            if (thread() == 0)
                SET_FLOAT(3, row,
                          target < 0 ? NOT_A_NUMBER
                                     : log_of(sum) - (FLOAT(0, x + target * stride) - largest));
            continue;
        }
        if (FORM == VK_CROSS_ENTROPY_GRAD)
            slope = target < 0 ? NOT_A_NUMBER : FLOAT(2, place_of(params.slope, row));
        const float log_sum = log_of(sum);
        for (uint j = thread(); j < n; j += GROUP) {
            const float e = FLOAT(0, x + j * stride) - largest;
            float y = e - log_sum;
            if (FORM != VK_LOG_SOFTMAX) y = exp_of(e) / sum;
            if (FORM == VK_CROSS_ENTROPY_GRAD) y = (y - (int(j) == target ? 1 : 0)) * slope;
            SET_FLOAT(3, row * n + j, y);
        }
    }
}
