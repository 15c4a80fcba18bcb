/*
 * A plugin that calls the library without linking it: the program or libingot.so that loads it
 * exports the functions.  Its device is never available, and the reason is what they returned.
 */
#include <ingot/backend.h>
#include <ingot/ingot.h>

static bool is_available(const ig_host *host) {
    (void)host->fail(IG_ERR_DEVICE, NULL, 0, "calls: %s, %s", ig_arch_name(0),
                     ig_status_text(IG_ERR_SHAPE));
    return false;
}

static ig_status compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                         ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)steps, (void)count, (void)saved, (void)progress, (void)out;
    return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED, "calls: runs nothing");
}

__attribute__((visibility("default"))) const ig_backend *ig_backend_entry(void) {
    static const ig_backend backend = {.abi = IG_BACKEND_ABI,
                                       .struct_size = sizeof(ig_backend),
                                       .name = "calls",
                                       .version = "1",
                                       .is_available = is_available,
                                       .compile = compile};
    return &backend;
}
