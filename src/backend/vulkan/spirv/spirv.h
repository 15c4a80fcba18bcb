/*
 * spirv.h - writes SPIR-V.
 *
 * A writer starts from a module that glslc has made and gives one of its functions
 * a new body, which may call the others: the mathematics stay written once, in GLSL.
 *
 *     module | header | annotations + | types, constants + | functions, one body anew |
 *
 * Nothing is allocated before spv_finish(); what does not fit makes that fail.
 */
#ifndef IG_BACKEND_VULKAN_SPIRV_H
#define IG_BACKEND_VULKAN_SPIRV_H

#include "backend/vulkan/shaders/shaders.h"

typedef uint32_t spv_id; /* 0: none */

enum { SPV_MAX_ARGS = 4, SPV_MAX_VARIABLES = 16 };

typedef struct spv_section {
    uint32_t words[2048];
    uint32_t count;
} spv_section;

/* An argument goes by way of a variable; calls take turns with them. */
typedef struct spv_variable {
    spv_id type, id;
    uint32_t place; /* among the arguments */
} spv_variable;

typedef struct spv_writer {
    const vk_shader_code *base;
    spv_id bound;    /* the first id that nobody has */
    spv_id function; /* the one that is written */
    spv_section annotations, globals, locals, body;
    spv_variable variables[SPV_MAX_VARIABLES];
    uint32_t n_variables;
    const char *failed; /* why it cannot be written; NULL: nothing is wrong */
} spv_writer;

/* Functions are named as glslc names them up to their parameters: "exp_of(". */
void spv_begin(spv_writer *w, const vk_shader_code *base, const char *function);

/* The value of the function's parameter number `place`. */
spv_id spv_parameter(spv_writer *w, uint32_t place);
spv_id spv_uint(spv_writer *w, uint32_t value);
spv_id spv_call(spv_writer *w, const char *function, const spv_id *args, uint32_t count);

/* Of two floats, to be rounded by itself and not with what comes before or after. */
typedef enum spv_arithmetic { SPV_ADD = 129, SPV_SUB = 131 } spv_arithmetic;
spv_id spv_exact(spv_writer *w, spv_arithmetic op, spv_id a, spv_id b);

/* The module, in memory of the host that the caller frees. */
IG_MUST_CHECK ig_status spv_finish(spv_writer *w, const ig_host *host, uint32_t **words,
                                   size_t *count);

#endif
