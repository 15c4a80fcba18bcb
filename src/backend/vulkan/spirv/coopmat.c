#include "backend/vulkan/spirv/coopmat.h"

#include "backend/vulkan/shaders/params.h"

/* ---- whether a device has them ---- */

enum {
    TYPE_FEATURES = 1000506000, /* VkStructureType */
    TYPE_PROPERTIES = 1000506001,
    COMPONENT_FLOAT16 = 0, /* VkComponentTypeKHR */
    COMPONENT_FLOAT32 = 1,
    SCOPE_SUBGROUP = 3, /* VkScopeKHR */
    SIDE = 16,
    SUBGROUP = 32,
    MOST_KINDS = 64,
};

/* VkCooperativeMatrixPropertiesKHR */
typedef struct matrix_kind {
    VkStructureType type;
    void *next;
    uint32_t m, n, k;
    int32_t a, b, c, result; /* components */
    VkBool32 saturating;
    int32_t scope;
} matrix_kind;

typedef VkResult(VKAPI_PTR *list_kinds_fn)(VkPhysicalDevice, uint32_t *, matrix_kind *);

vk_matrices_features vk_matrices_wanted(void) {
    return (vk_matrices_features){.type = (VkStructureType)TYPE_FEATURES, .matrices = VK_TRUE};
}

static bool has_features(const vk_device *d) {
    vk_matrices_features own = {.type = (VkStructureType)TYPE_FEATURES};
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &own};
    VkPhysicalDeviceFeatures2 base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                      .pNext = &v12};
    d->api.GetPhysicalDeviceFeatures2(d->physical, &base);
    return own.matrices && v12.shaderFloat16 && v12.vulkanMemoryModel;
}

/* The layout of a matrix over threads is up to the driver, so the subgroup size must be fixed. */
static bool has_one_subgroup_size(const vk_device *d) {
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                     .pNext = &sizes};
    if (d->properties.apiVersion < VK_API_VERSION_1_3) return false;
    d->api.GetPhysicalDeviceProperties2(d->physical, &p);
    return sizes.minSubgroupSize == SUBGROUP && sizes.maxSubgroupSize == SUBGROUP;
}

static bool is_ours(const matrix_kind *k) {
    return k->m == SIDE && k->n == SIDE && k->k == SIDE && k->a == COMPONENT_FLOAT16 &&
           k->b == COMPONENT_FLOAT16 && k->c == COMPONENT_FLOAT32 &&
           k->result == COMPONENT_FLOAT32 && k->scope == SCOPE_SUBGROUP;
}

bool vk_matrices_offered(const vk_device *d) {
    enum { SHARED_BYTES = 48 << 10 }; /* for the largest tiles */
    matrix_kind kinds[MOST_KINDS];
    uint32_t count = MOST_KINDS;
    const PFN_vkVoidFunction found = d->api.GetInstanceProcAddr(
        d->api.instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (!found || !has_features(d) || !has_one_subgroup_size(d)) return false;
    if (d->properties.limits.maxComputeSharedMemorySize < SHARED_BYTES) return false;
    for (int i = 0; i < MOST_KINDS; i++)
        kinds[i] = (matrix_kind){.type = (VkStructureType)TYPE_PROPERTIES};
    if (((list_kinds_fn)found)(d->physical, &count, kinds) < 0) return false;
    for (uint32_t i = 0; i < count; i++)
        if (is_ours(&kinds[i])) return true;
    return false;
}

/* ---- shaders ---- */

/* Opcodes and enumerants of SPIR-V, SPV_NV_cooperative_matrix and SPV_KHR_cooperative_matrix. */
enum {
    HEADER_WORDS = 5,
    BOUND = 3, /* header word with the id bound */
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT = 43,
    OP_DECORATE = 71,
    DECORATION_SPEC_ID = 1,
    NV_TYPE = 5358,
    NV_LOAD = 5359,
    NV_STORE = 5360,
    NV_MULTIPLY = 5361,
    NV_CAPABILITY = 5357,
    KHR_TYPE = 4456,
    KHR_LOAD = 4457,
    KHR_STORE = 4458,
    KHR_MULTIPLY = 4459,
    KHR_CAPABILITY = 6022,
    ADDED_CONSTANTS = 3, /* 0, 1 and 2: the use of a matrix; 0 and 1 also its layout */
    LEFT = 0,
    RIGHT = 1,
    SUMS = 2,
    CONSTANT_WORDS = 4,
};

typedef struct rewriting {
    uint32_t *out;
    size_t n;
    uint32_t first_constant; /* id of constant 0; those of 1 and 2 follow */
    uint32_t k;              /* id of the constant with VK_MATRIX_K_ID */
    uint32_t by_columns;     /* id of `true` */
    uint32_t integer;        /* id of the type of small constants */
    bool has_constants;
} rewriting;

static void put(rewriting *r, uint32_t word) { r->out[r->n++] = word; }

static void copy(rewriting *r, const uint32_t *from, size_t count) {
    memcpy(r->out + r->n, from, count * sizeof *from);
    r->n += count;
}

/* Records ids that later instructions need; in[0] is the instruction. */
static void note(rewriting *r, const uint32_t *in) {
    switch (in[0] & 0xffff) {
    case OP_DECORATE:
        if (in[2] == DECORATION_SPEC_ID && in[3] == VK_MATRIX_K_ID) r->k = in[1];
        break;
    case OP_CONSTANT_TRUE: r->by_columns = in[2]; break;
    default: break;
    }
}

/* The KHR type states the use of a matrix: the left side has k columns, the right side k rows. The
 * constants for it are inserted before the first type, with the integer type of its scope. */
static void rewrite_type(rewriting *r, const uint32_t *in) {
    for (uint32_t i = 0; i < ADDED_CONSTANTS && !r->has_constants; i++) {
        put(r, CONSTANT_WORDS << 16 | OP_CONSTANT);
        put(r, r->integer);
        put(r, r->first_constant + i);
        put(r, i);
    }
    r->has_constants = true;
    const uint32_t use = in[5] == r->k ? LEFT : in[4] == r->k ? RIGHT : SUMS;
    put(r, 7 << 16 | KHR_TYPE);
    copy(r, in + 1, 5);
    put(r, r->first_constant + use);
}

/* The NV instruction has the stride, then a column-major flag; the KHR one has a layout, then the
 * stride. `at`: the index of the two operands. */
static void rewrite_access(rewriting *r, const uint32_t *in, uint32_t op, size_t at) {
    const size_t words = in[0] >> 16;
    put(r, (in[0] & 0xffff0000u) | op);
    copy(r, in + 1, at - 1);
    put(r, r->first_constant + (in[at + 1] == r->by_columns));
    put(r, in[at]);
    copy(r, in + at + 2, words - at - 2);
}

static void rewrite_extension(rewriting *r, const uint32_t *in) {
    static const char before[] = "SPV_NV_cooperative_matrix";
    static const char now[28] =
        "SPV_KHR_cooperative_matrix"; /* same number of words as the old name */
    copy(r, in, in[0] >> 16);
    if (strcmp((const char *)(in + 1), before) == 0)
        memcpy(r->out + r->n - sizeof now / sizeof *in, now, sizeof now);
}

static void rewrite_one(rewriting *r, const uint32_t *in) {
    switch (in[0] & 0xffff) {
    case OP_CAPABILITY:
        put(r, in[0]);
        put(r, in[1] == NV_CAPABILITY ? KHR_CAPABILITY : in[1]);
        return;
    case OP_EXTENSION: rewrite_extension(r, in); return;
    case NV_TYPE: rewrite_type(r, in); return;
    case NV_LOAD: rewrite_access(r, in, KHR_LOAD, 4); return;
    case NV_STORE: rewrite_access(r, in, KHR_STORE, 3); return;
    case NV_MULTIPLY:
        put(r, (in[0] & 0xffff0000u) | KHR_MULTIPLY);
        copy(r, in + 1, (in[0] >> 16) - 1);
        return;
    default: copy(r, in, in[0] >> 16);
    }
}

size_t vk_matrices_room(size_t count) {
    enum { MOST_TYPES = 64 };
    return count + ADDED_CONSTANTS * CONSTANT_WORDS + MOST_TYPES;
}

/* The type of the constant that is the scope of the first matrix type. */
static uint32_t find_integer(const uint32_t *words, size_t count) {
    uint32_t scope = 0;
    for (size_t i = HEADER_WORDS; i < count && !scope; i += words[i] >> 16)
        if ((words[i] & 0xffff) == NV_TYPE) scope = words[i + 3];
    for (size_t i = HEADER_WORDS; i < count; i += words[i] >> 16)
        if ((words[i] & 0xffff) == OP_CONSTANT && words[i + 2] == scope) return words[i + 1];
    return 0;
}

size_t vk_matrices_rewrite(const uint32_t *words, size_t count, uint32_t *out) {
    rewriting r = {
        .out = out, .first_constant = words[BOUND], .integer = find_integer(words, count)};
    for (size_t i = HEADER_WORDS; i < count; i += words[i] >> 16) note(&r, words + i);
    copy(&r, words, HEADER_WORDS);
    out[BOUND] += ADDED_CONSTANTS;
    for (size_t i = HEADER_WORDS; i < count; i += words[i] >> 16) rewrite_one(&r, words + i);
    return r.n;
}
