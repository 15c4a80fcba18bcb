/*
 * spirv.h - generates SPIR-V.
 *
 * A writer starts from a module of glslc and replaces the body of one function, which may call the
 * others: the math stays written once, in GLSL.
 *
 *     module | header | annotations | types, constants + | functions, one replaced |
 *
 * Nothing is allocated before spv_finish(), which fails if the code does not fit.
 */
#ifndef IG_BACKEND_VULKAN_SPIRV_SPIRV_H
#define IG_BACKEND_VULKAN_SPIRV_SPIRV_H

#include "backend/vulkan/shaders/shaders.h"

typedef uint32_t spv_id; /* 0: none */

enum { SPV_MAX_ARGS = 4, SPV_MAX_VARIABLES = 16 };

typedef struct spv_section {
    uint32_t words[2048];
    uint32_t count;
} spv_section;

/* Arguments are passed through variables, which calls share. */
typedef struct spv_variable {
    spv_id type, id;
    uint32_t place; /* parameter index */
} spv_variable;

typedef struct spv_writer {
    const vk_shader_code *base;
    spv_id bound;    /* the first unused id */
    spv_id function; /* the function being written */
    spv_section globals, locals, body;
    spv_variable variables[SPV_MAX_VARIABLES];
    uint32_t n_variables;
    const char *failed; /* the reason for failure; NULL: none */
} spv_writer;

/* Functions are found by the name glslc gives them, up to the parameters: "exp_of(". */
void spv_begin(spv_writer *w, const vk_shader_code *base, const char *function);

/* The value of parameter `place`. */
spv_id spv_parameter(spv_writer *w, uint32_t place);
spv_id spv_uint(spv_writer *w, uint32_t value);
spv_id spv_call(spv_writer *w, const char *function, const spv_id *args, uint32_t count);

/* The module, in memory of the host that the caller frees. */
IG_MUST_CHECK ig_status spv_finish(spv_writer *w, const ig_host *host, uint32_t **words,
                                   size_t *count);

#endif
