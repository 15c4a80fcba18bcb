/* Sums and maxima over the threads of a group, in an order that does not change. */
shared float pool[GROUP];

float group_sum(float x) {
    const uint t = thread();
    pool[t] = x;
    barrier();
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        if (t < half_) pool[t] += pool[t + half_];
        barrier();
    }
    const float sum = pool[0];
    barrier();
    return sum;
}

/* NaN is passed over. */
float group_max(float x) {
    const uint t = thread();
    pool[t] = x;
    barrier();
    for (uint half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        if (t < half_ && pool[t + half_] > pool[t]) pool[t] = pool[t + half_];
        barrier();
    }
    const float largest = pool[0];
    barrier();
    return largest;
}
