/*
 * Matrices that a subgroup holds and multiplies together.  glslc knows these by the
 * name of an older extension; spirv/coopmat.c rewrites what it makes of them.
 */
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#pragma use_vulkan_memory_model

/* Three constants, so that the three types differ: see spirv/coopmat.c. */
layout(constant_id = VK_MATRIX_K_ID) const uint MATRIX_K = 16;
layout(constant_id = 8) const uint MATRIX_M = 16;
layout(constant_id = 10) const uint MATRIX_N = 16;

#define LEFT  fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_M, MATRIX_K>
#define RIGHT fcoopmatNV<16, gl_ScopeSubgroup, MATRIX_K, MATRIX_N>
#define SUMS  fcoopmatNV<32, gl_ScopeSubgroup, MATRIX_M, MATRIX_N>
#define LOAD_LEFT(m, from, at, pitch)  coopMatLoadNV(m, from, at, pitch, false)
#define LOAD_RIGHT(m, from, at, pitch) coopMatLoadNV(m, from, at, pitch, true)
#define STORE_SUMS(m, to, at, pitch)   coopMatStoreNV(m, to, at, pitch, false)
#define MULTIPLY(a, b, c)              coopMatMulAddNV(a, b, c)
