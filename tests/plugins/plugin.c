/*
 * Plugins with one thing wrong each, for the tests.  PLUGIN is what:
 *
 *   SOUND     nothing: a name, and a compile() that takes nothing
 *   OLDER     an ABI that is no more
 *   NEWER     an ABI that is not yet
 *   SHORT     a table that ends before compile()
 *   NAMELESS  no name
 *   RESERVED  the name of a class of devices
 *   TAKEN     the name of what is built in
 *   SILENT    no entry
 *   ABSENT    not available, and it says why
 *   CRASHES   dies when it is loaded
 *   HALF      memory of its own that can be written to but not read
 *   HANGS     never ends when it is loaded
 *   DIES      dies when it is asked for a program
 *   LARGER    a table of a later day, with more at its end
 *   LIES      takes every step and computes nothing
 *   EXITS     ends the process when it is loaded, with exit code 0
 */
#include <ingot/backend.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SOUND,
    OLDER,
    NEWER,
    SHORT,
    NAMELESS,
    RESERVED,
    TAKEN,
    SILENT,
    ABSENT,
    CRASHES,
    HALF,
    HANGS,
    DIES,
    LARGER,
    LIES,
    EXITS
};

__attribute__((constructor)) static void leave(void) {
    if (PLUGIN == EXITS) exit(0);
}

static ig_status compute_nothing(ig_backend_program *program, ig_backend_buffer *const *buffers,
                                 uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)program, (void)buffers, (void)n_buffers, (void)slots, (void)n_slots;
    return IG_OK;
}

static ig_status compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                         ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    static ig_backend_program nothing = {.submit = compute_nothing};
    (void)steps, (void)count, (void)saved, (void)progress;
    if (PLUGIN == DIES) abort();
    if (PLUGIN == LIES) {
        *out = &nothing;
        return IG_OK;
    }
    return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED, "sound: takes nothing");
}

static bool is_absent(const ig_host *host) {
    (void)host->fail(IG_ERR_DEVICE, NULL, 0, "the driver of absent is not installed");
    return false;
}

static ig_status alloc(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out) {
    (void)bytes, (void)out;
    return IG_HOST_FAIL(device->host, IG_ERR_MEMORY, "half: none");
}

#if PLUGIN == 7
const ig_backend *another_name(void);
#    define ig_backend_entry another_name
__attribute__((visibility("default")))
#endif
const ig_backend *
ig_backend_entry(void) {
    static ig_backend backend = {IG_BACKEND_ABI, sizeof backend, .name = "sound", .version = "1",
                                 .compile = compile};
    switch (PLUGIN) {
    case OLDER: backend.abi = IG_BACKEND_ABI - 1; break;
    case NEWER: backend.abi = IG_BACKEND_ABI + 1; break;
    case SHORT: backend.struct_size = 16; break;
    case NAMELESS: backend.name = NULL; break;
    case RESERVED: backend.name = "gpu"; break;
    case TAKEN: backend.name = "cpu"; break;
    case ABSENT: backend.name = "absent", backend.is_available = is_absent; break;
    case CRASHES: abort();
    case HALF: backend.buffer_alloc = alloc; break;
    case HANGS:
        for (;;) sleep(1000);
    case DIES: backend.name = "dies"; break;
    case LIES: backend.name = "lies"; break;
    case LARGER: backend.name = "larger", backend.struct_size += 64; break;
    default: break;
    }
    return &backend;
}
