/*
 * Sums and maxima over the threads of a group, or of a team, which is a part of it: in an order
 * that does not change.  A team is a subgroup; where subgroups do not add, it is 32 threads that
 * meet in shared memory, and then all threads of a group must come along.
 */
shared float pool[GROUP];

#ifdef BOUND
const uint TEAM_SIZE = 32;
#    define TEAMS     (GROUP / TEAM_SIZE)
#    define TEAM      (gl_LocalInvocationID.x / TEAM_SIZE)
#    define TEAM_LANE (gl_LocalInvocationID.x % TEAM_SIZE)

/* Of every `width` threads, a power of two: in pairs. */
float sum_over(uint width, float x) {
    const uint t = thread(), lane = t % width;
    pool[t] = x;
    barrier();
    for (uint half_ = width / 2; half_ > 0; half_ /= 2) {
        if (lane < half_) pool[t] += pool[t + half_];
        barrier();
    }
    const float sum = pool[t - lane];
    barrier();
    return sum;
}

float team_sum(float x) { return sum_over(TEAM_SIZE, x); }
float group_sum(float x) { return sum_over(GROUP, x); }

/* NaN is passed over. */
float group_max(float x) {
    const uint t = thread();
    pool[t] = is_nan(x) ? -INFINITE : x;
    barrier();
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        if (t < half_) pool[t] = max(pool[t], pool[t + half_]);
        barrier();
    }
    const float largest = pool[0];
    barrier();
    return largest;
}
#else
#    extension GL_KHR_shader_subgroup_basic : require
#    extension GL_KHR_shader_subgroup_arithmetic : require
#    define TEAM_SIZE gl_SubgroupSize
#    define TEAMS     gl_NumSubgroups
#    define TEAM      gl_SubgroupID
#    define TEAM_LANE gl_SubgroupInvocationID

float team_sum(float x) { return subgroupAdd(x); }

/* First over each team, then over what each has left. */
float group_sum(float x) {
    x = team_sum(x);
    if (TEAMS == 1) return x;
    if (subgroupElect()) pool[TEAM] = x;
    barrier();
    float sum = 0;
    for (uint i = 0; i < TEAMS; i++) sum += pool[i];
    barrier();
    return sum;
}

/* NaN is passed over. */
float group_max(float x) {
    x = subgroupMax(is_nan(x) ? -INFINITE : x);
    if (TEAMS == 1) return x;
    if (subgroupElect()) pool[TEAM] = x;
    barrier();
    float largest = -INFINITE;
    for (uint i = 0; i < TEAMS; i++) largest = max(largest, pool[i]);
    barrier();
    return largest;
}
#endif
