#include "backend/vulkan/host/api.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char validation_layer[] = "VK_LAYER_KHRONOS_validation";

const char *vk_result_text(VkResult result) {
    switch (result) {
    case VK_SUCCESS: return "no error";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED: return "the driver could not be started";
    case VK_ERROR_DEVICE_LOST: return "the device was lost";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver is installed, or none that works";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "a feature is missing";
    case VK_ERROR_TOO_MANY_OBJECTS: return "too many objects";
    case VK_ERROR_INVALID_SHADER_NV: return "the driver rejects the shader";
    default: return "the driver failed";
    }
}

ig_status vk_result_status(VkResult result) {
    const bool memory =
        result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return result == VK_SUCCESS ? IG_OK : memory ? IG_ERR_MEMORY : IG_ERR_DEVICE;
}

ig_status vk_fail(const ig_host *host, VkResult result, const char *file, int line, const char *fmt,
                  ...) {
    char words[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    return host->fail(vk_result_status(result), file, line, "vulkan: %s: %s (%d)", words,
                      vk_result_text(result), (int)result);
}

/* A finding of the validation layer is a bug of the backend. */
static VKAPI_ATTR VkBool32 VKAPI_CALL report(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                             VkDebugUtilsMessageTypeFlagsEXT types,
                                             const VkDebugUtilsMessengerCallbackDataEXT *data,
                                             void *user) {
    const ig_host *host = user;
    (void)severity, (void)types;
    host->log(host, IG_LOG_WARNING, data->pMessage);
    return VK_FALSE;
}

/* The validation layer is used only if it is installed. */
static bool has_layer(const vk_api *api) {
    PFN_vkEnumerateInstanceLayerProperties list =
        (PFN_vkEnumerateInstanceLayerProperties)api->GetInstanceProcAddr(
            NULL, "vkEnumerateInstanceLayerProperties");
    enum { MOST = 64 };
    VkLayerProperties layers[MOST];
    uint32_t count = MOST;
    const VkResult result = list ? list(&count, layers) : VK_ERROR_INITIALIZATION_FAILED;
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) return false;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(layers[i].layerName, validation_layer) == 0) return true;
    return false;
}

static ig_status create_instance(const ig_host *host, vk_api *api) {
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)api->GetInstanceProcAddr(NULL, "vkCreateInstance");
    if (!create) return IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: the loader has no instances");

    const char *wanted = getenv("INGOT_VULKAN_VALIDATE");
    const bool validate = (wanted ? strcmp(wanted, "0") != 0 : INGOT_DEBUG) && has_layer(api);
    const char *const layers[] = {validation_layer};
    const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const VkDebugUtilsMessengerCreateInfoEXT messages = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = report,
        .pUserData = (void *)host};
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "ingot",
                                           .pEngineName = "ingot",
                                           .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application,
                                       .enabledLayerCount = validate,
                                       .ppEnabledLayerNames = layers,
                                       .enabledExtensionCount = validate,
                                       .ppEnabledExtensionNames = extensions};
    const VkResult result = create(&info, NULL, &api->instance);
    if (result != VK_SUCCESS) return VK_FAIL(host, result, "no instance");
    if (!validate) return IG_OK;
    PFN_vkCreateDebugUtilsMessengerEXT listen =
        (PFN_vkCreateDebugUtilsMessengerEXT)api->GetInstanceProcAddr(
            api->instance, "vkCreateDebugUtilsMessengerEXT");
    if (listen) (void)listen(api->instance, &messages, NULL, &api->messenger);
    return IG_OK;
}

static ig_status load_instance(const ig_host *host, vk_api *api) {
    bool all = true;
#define FETCH(name)                                                                \
    api->name = (PFN_vk##name)api->GetInstanceProcAddr(api->instance, "vk" #name); \
    all &= api->name != NULL;
    VK_INSTANCE_FUNCTIONS(FETCH)
#undef FETCH
    return all ? IG_OK
               : IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: the loader is older than Vulkan 1.1");
}

ig_status vk_api_load_device(const ig_host *host, vk_api *api, VkDevice device, bool is_new) {
    bool all = true;
#define FETCH(name)                                                       \
    api->name = (PFN_vk##name)api->GetDeviceProcAddr(device, "vk" #name); \
    all &= api->name != NULL;
    VK_DEVICE_FUNCTIONS(FETCH)
    if (is_new) {
        VK_NEW_FUNCTIONS(FETCH)
    }
#undef FETCH
    return all ? IG_OK
               : IG_HOST_FAIL(host, IG_ERR_DEVICE,
                              "vulkan: the driver lacks functions of its version");
}

ig_status vk_api_open(const ig_host *host, vk_api *out) {
    *out = (vk_api){.library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!out->library)
        return IG_HOST_FAIL(host, IG_ERR_DEVICE,
                            "vulkan: libvulkan.so.1 is not installed (Debian: libvulkan1, and a "
                            "driver such as mesa-vulkan-drivers)");
    void *entry = dlsym(out->library, "vkGetInstanceProcAddr");
    memcpy(&out->GetInstanceProcAddr, &entry, sizeof entry); /* an object to ISO C, not to POSIX */
    ig_status status =
        out->GetInstanceProcAddr
            ? create_instance(host, out)
            : IG_HOST_FAIL(host, IG_ERR_DEVICE, "vulkan: libvulkan.so.1 is no Vulkan loader");
    if (status == IG_OK) status = load_instance(host, out);
    if (status != IG_OK) vk_api_close(out);
    return status;
}

void vk_api_close(vk_api *api) {
    if (api->messenger && api->GetInstanceProcAddr) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy =
            (PFN_vkDestroyDebugUtilsMessengerEXT)api->GetInstanceProcAddr(
                api->instance, "vkDestroyDebugUtilsMessengerEXT");
        if (destroy) destroy(api->instance, api->messenger, NULL);
    }
    if (api->instance && api->DestroyInstance) api->DestroyInstance(api->instance, NULL);
    if (api->library) dlclose(api->library);
    *api = (vk_api){0};
}
