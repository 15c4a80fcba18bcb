/*
 * The CPU backend: the functions that backend.h asks for.
 *
 * Memory is the host's: a buffer is its address.  exec/compile.c makes programs, exec/run.c runs
 * them on the host's team of threads.
 */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <unistd.h>

#include "backend/cpu/exec/cpu_program.h"
#include "base/quant_blocks.h"

/* ---- questions about a step ---- */

static bool cpu_can_run(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    return ig_cpu_find(device, step, &setup) != NULL;
}

static uint64_t cpu_scratch_bytes(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    return ig_cpu_find(device, step, &setup) ? setup.scratch_bytes : 0;
}

static bool cpu_can_chunk_rows(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    const ig_cpu_entry *entry = ig_cpu_find(device, step, &setup);
    return entry && entry->split == BY_ROW;
}

/* ---- the device ---- */

static ig_status cpu_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    ig_isa isa;
    if (index > 0) return IG_HOST_FAIL(host, IG_ERR_DEVICE, "cpu:%u: there is only cpu:0", index);
    IG_TRY(ig_isa_choose(host, &isa));
    cpu_device *device = host->alloc(host, 1, sizeof *device);
    if (!device) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "cpu: device");
    device->base.host = host;
    device->isa = isa;
    device->lists = ig_isa_lists(isa);
    *out = &device->base;
    return IG_OK;
}

static void cpu_close(ig_backend_device *device) { device->host->free(device->host, device); }

/* Whether a kernel computes with its elements.  A dtype that kernels only move, fill or cast is
 * not one that the device has; a table of blocks is dequantized, others are copied. */
static bool computes(const ig_cpu_entry *e) {
    static const uint32_t moves[] = {IG_OP_CAST,   IG_OP_COPY,   IG_OP_FILL,       IG_OP_PAD,
                                     IG_OP_CONCAT, IG_OP_GATHER, IG_OP_STORE_ROWS, IG_OP_ASSIGN};
    if (e->op == IG_OP_EMBEDDING) return ig_dtype_block(e->dtype) > 1;
    size_t i = 0;
    while (i < sizeof moves / sizeof moves[0] && moves[i] != e->op) i++;
    return i == sizeof moves / sizeof moves[0];
}

static void cpu_info(const ig_backend_device *device, ig_device_info *out) {
    const cpu_device *cpu = (const cpu_device *)device;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    ig_device_info info = {.flags = IG_NEVER_FAILS | IG_EARLY_SCRATCH,
                           .struct_size = out->struct_size,
                           .device_class = IG_DEVICE_CPU,
                           .alignment = IG_CPU_ALIGNMENT};
    if (pages > 0 && page_bytes > 0) info.memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    for (const ig_cpu_entry *const *list = cpu->lists; *list; list++)
        for (const ig_cpu_entry *e = *list; e->run; e++)
            if (computes(e)) info.dtypes |= UINT64_C(1) << e->dtype;
    snprintf(info.name, sizeof info.name, "CPU with %s", ig_cpu_isa_name(cpu->isa));
    snprintf(info.architecture, sizeof info.architecture, "%s", ig_cpu_isa_name(cpu->isa));
    memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
}

const ig_backend ig_cpu_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "cpu",
    .version = "1",
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .can_run = cpu_can_run,
    .scratch_bytes = cpu_scratch_bytes,
    .compile = ig_cpu_compile,
    .can_chunk_rows = cpu_can_chunk_rows,
};
