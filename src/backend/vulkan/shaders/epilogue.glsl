/* What becomes of a sum that a product has made: bias, activation, and a step that takes it
 * further.  Each is rounded by itself, as steps are.  The memory is that of matmul.c. */
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool HAS_BIAS = false;
layout(constant_id = 9) const uint AFTER = 0;

/* Which elements of k belong to this part, of `parts`: whole slices of `depth`. */
uvec2 part_of_k(uint part, uint parts, uint depth) {
    const uint slices = (head.k + depth - 1) / depth, each = (slices + parts - 1) / parts * depth;
    return uvec2(min(part * each, head.k), min(part * each + each, head.k));
}

void finish(uint at, uint column, float e) {
    precise float y = e;
    if (HAS_BIAS) y = y + FLOAT(2, column * head.bias_stride);
    y = activation_of(ACTIVATION, y);
    if (AFTER == VK_RESIDUAL) y = y + FLOAT(4, at);
    SET_FLOAT(3, at, y);
    if (AFTER == VK_SUM) y = y + FLOAT(4, at);
    if (AFTER == VK_PRODUCT) y = y * FLOAT(4, at);
    if (AFTER == VK_SUM || AFTER == VK_PRODUCT) SET_FLOAT(5, at, y);
}
