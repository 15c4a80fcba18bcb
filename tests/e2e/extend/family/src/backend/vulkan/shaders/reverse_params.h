/* reverse_params.h - what reverse.comp is handed. */
#ifndef IG_BACKEND_VULKAN_SHADERS_REVERSE_PARAMS_H
#define IG_BACKEND_VULKAN_SHADERS_REVERSE_PARAMS_H

VK_STRUCT(vk_reverse_params) {
    uint count, n; /* elements, in all and of a row */
    float by;
};

#endif
