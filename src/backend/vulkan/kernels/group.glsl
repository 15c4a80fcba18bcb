/* Sums and maxima over the threads of a group, in an order that does not change: first those of a
 * subgroup, then of all subgroups. */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared float pool[GROUP]; /* a number of each subgroup */

float group_sum(float x) {
    x = subgroupAdd(x);
    if (gl_NumSubgroups == 1) return x;
    if (subgroupElect()) pool[gl_SubgroupID] = x;
    barrier();
    float sum = 0;
    for (uint i = 0; i < gl_NumSubgroups; i++) sum += pool[i];
    barrier();
    return sum;
}

/* NaN is passed over. */
float group_max(float x) {
    x = subgroupMax(is_nan(x) ? -INFINITE : x);
    if (gl_NumSubgroups == 1) return x;
    if (subgroupElect()) pool[gl_SubgroupID] = x;
    barrier();
    float largest = -INFINITE;
    for (uint i = 0; i < gl_NumSubgroups; i++) largest = max(largest, pool[i]);
    barrier();
    return largest;
}
