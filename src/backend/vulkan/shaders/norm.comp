#version 460
/*
 * Normalizations along the last dimension n, and their gradients by x.  Both are
 *     y = w xhat + b,   xhat = (x - mean) r
 * where rms_norm has mean 0 and r = 1 / sqrt(mean(x^2) + eps), and layer_norm has
 * the row's mean and r = 1 / sqrt(variance + eps).  With g = w dy the gradient is
 *     dx = r (g - xhat mean(g xhat) - mean(g))        without the last term for rms_norm
 * A group takes a row.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "workgroup_reduce.glsl"

layout(constant_id = 1) const bool CENTRED = false;
layout(constant_id = 2) const bool GRADIENT = false;
layout(constant_id = 3) const bool HAS_W = false;
layout(constant_id = 4) const bool HAS_B = false;

PARAMS(vk_norm_params)

void main() {
    const uint n = params.n, x_stride = params.x_stride;
    const float count = float(n);
    FOR_EACH_GROUP(row, params.rows) {
        const uint x = place_of(params.x, row), dy = place_of(params.dy, row);
        float mean = 0, squares = 0;
        if (CENTRED) {
            for (uint j = thread(); j < n; j += GROUP) mean += FLOAT(0, x + j * x_stride);
            mean = group_sum(mean) / count;
        }
        for (uint j = thread(); j < n; j += GROUP) {
            const float e = FLOAT(0, x + j * x_stride) - mean;
            squares += e * e;
        }
        const float r = 1 / sqrt(group_sum(squares) / count + params.eps);
        float mean_g = 0, mean_gx = 0;
        if (GRADIENT) {
            for (uint j = thread(); j < n; j += GROUP) {
                float g = FLOAT(3, dy + j * params.dy_stride);
                if (HAS_W) g *= FLOAT(1, j * params.w_stride);
                mean_g += g;
                mean_gx += g * ((FLOAT(0, x + j * x_stride) - mean) * r);
            }
            mean_gx = group_sum(mean_gx) / count;
            mean_g = CENTRED ? group_sum(mean_g) / count : 0;
        }
        for (uint j = thread(); j < n; j += GROUP) {
            const float xhat = (FLOAT(0, x + j * x_stride) - mean) * r;
            const float w = HAS_W ? FLOAT(1, j * params.w_stride) : 1;
            float y = w * xhat;
            if (HAS_B) y += FLOAT(2, j * params.b_stride);
            if (GRADIENT)
                y = r * (FLOAT(3, dy + j * params.dy_stride) * w - xhat * mean_gx - mean_g);
            SET_FLOAT(4, row * n + j, y);
        }
    }
}
