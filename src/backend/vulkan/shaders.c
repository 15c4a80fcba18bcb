/* Each <family>.comp as glslc leaves it: a list of words in braces. */
#include "backend/vulkan/shaders.h"

static const uint32_t code_elementwise[] =
#include "backend/vulkan/shaders/elementwise.spv.h"
    ;
static const uint32_t code_chain[] =
#include "backend/vulkan/shaders/chain.spv.h"
    ;
static const uint32_t code_cast[] =
#include "backend/vulkan/shaders/cast.spv.h"
    ;
static const uint32_t code_move[] =
#include "backend/vulkan/shaders/move.spv.h"
    ;
static const uint32_t code_index[] =
#include "backend/vulkan/shaders/index.spv.h"
    ;
static const uint32_t code_reduce[] =
#include "backend/vulkan/shaders/reduce.spv.h"
    ;
static const uint32_t code_softmax[] =
#include "backend/vulkan/shaders/softmax.spv.h"
    ;
static const uint32_t code_norm[] =
#include "backend/vulkan/shaders/norm.spv.h"
    ;
static const uint32_t code_matmul[] =
#include "backend/vulkan/shaders/matmul.spv.h"
    ;
static const uint32_t code_matmul_wide[] =
#include "backend/vulkan/shaders/matmul_wide.spv.h"
    ;
static const uint32_t code_matmul_split[] =
#include "backend/vulkan/shaders/matmul_split.spv.h"
    ;
static const uint32_t code_matmul_matrix[] =
#include "backend/vulkan/shaders/matmul_matrix.spv.h"
    ;
static const uint32_t code_matmul_join[] =
#include "backend/vulkan/shaders/matmul_join.spv.h"
    ;
static const uint32_t code_matvec[] =
#include "backend/vulkan/shaders/matvec.spv.h"
    ;
static const uint32_t code_matmul_small[] =
#include "backend/vulkan/shaders/matmul_small.spv.h"
    ;
static const uint32_t code_rope[] =
#include "backend/vulkan/shaders/rope.spv.h"
    ;
static const uint32_t code_attention[] =
#include "backend/vulkan/shaders/attention.spv.h"
    ;
static const uint32_t code_attention_grad[] =
#include "backend/vulkan/shaders/attention_grad.spv.h"
    ;
static const uint32_t code_paged[] =
#include "backend/vulkan/shaders/paged.spv.h"
    ;
static const uint32_t code_paged_wide[] =
#include "backend/vulkan/shaders/paged_wide.spv.h"
    ;
static const uint32_t code_paged_tile[] =
#include "backend/vulkan/shaders/paged_tile.spv.h"
    ;
static const uint32_t code_moe[] =
#include "backend/vulkan/shaders/moe.spv.h"
    ;
static const uint32_t code_update[] =
#include "backend/vulkan/shaders/update.spv.h"
    ;
static const uint32_t code_random[] =
#include "backend/vulkan/shaders/random.spv.h"
    ;

const vk_shader_code vk_shaders[VK_SHADER_COUNT] = {
#define CODE(family) {#family, code_##family, sizeof code_##family},
    VK_SHADERS(CODE)
#undef CODE
};
