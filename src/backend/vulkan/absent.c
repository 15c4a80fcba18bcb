/* Replaces the Vulkan backend in a build without it: it is listed with the reason why it is
 * unavailable. */
#include "ingot/backend.h"

extern const ig_backend ig_vulkan_backend;

static bool is_available(const ig_host *host) {
    (void)IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: this build has none: %s", INGOT_NO_VULKAN);
    return false;
}

static uint32_t count(const ig_host *host) {
    (void)host;
    return 0;
}

static ig_status compile(ig_backend_device *device, const ig_step *steps, uint32_t steps_count,
                         ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)steps, (void)steps_count, (void)saved, (void)progress, (void)out;
    return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "vulkan: this build has none: %s",
                        INGOT_NO_VULKAN);
}

const ig_backend ig_vulkan_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "vulkan",
    .version = "", /* not built in */
    .is_available = is_available,
    .count = count,
    .compile = compile,
};
