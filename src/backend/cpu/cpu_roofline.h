/*
 * cpu_roofline.h - loops that do one thing as fast as the machine can.
 *
 * One set for each instruction set, compiled with its kernels: what they reach is
 * what a kernel of that set could reach at most.
 */
#ifndef IG_BACKEND_CPU_CPU_ROOFLINE_H
#define IG_BACKEND_CPU_CPU_ROOFLINE_H

#include "backend/cpu/cpu.h"

enum { IG_READ_STREAMS = 8, IG_LINE_BYTES = 64 };

typedef struct ig_cpu_roofline {
    /* Reads `bytes`, a multiple of a line, from each of the streams, which lie `stride` apart. */
    void (*read)(const char *p, uint64_t stride, uint64_t bytes, int32_t *sink);
    /* Multiply-adds of floats, and of bytes into 32 bits, in registers alone. */
    void (*fma)(uint64_t rounds, float *sink);
    void (*dot)(uint64_t rounds, int32_t *sink);
    uint32_t fma_ops, dot_ops; /* multiplications and additions of one round */
} ig_cpu_roofline;

enum { IG_SINK_BYTES = 64 }; /* of the sink that the results of the loops go to */

/* Of a set that is available. */
const ig_cpu_roofline *ig_cpu_roofline_of(ig_isa isa);

#endif
