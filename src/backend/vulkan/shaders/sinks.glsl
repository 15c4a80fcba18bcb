/*
 * sinks.glsl - a head of attention may have a sink: a score that counts, but has no values.  `PAGED`
 * are the parameters.
 */

/* What a result is divided by: the sum of e^(score - largest), and the sink's.  0: nothing was seen. */
float sum_with_sink(uint head, float largest, float sum) {
    if (PAGED.has_sinks == 0 || sum == 0) return sum;
    return sum + exp_of(FLOAT(7, head * PAGED.sink) - largest);
}
