#include "backend/vulkan/spirv/float_controls.h"

/* SPIR-V words and instruction layout: see "Physical Layout" in the specification. */
enum {
    HEADER_VERSION = 1,
    HEADER_WORDS = 5,
    VERSION_1_4 = 0x00010400,
    OP_EXTENSION = 10,
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_DECORATE = 71,
    OP_F_ADD = 129,
    OP_F_SUB = 131,
    OP_F_MUL = 133,
    CAP_DENORM_PRESERVE = 4464,
    CAP_SIGNED_ZERO_INF_NAN_PRESERVE = 4466,
    MODE_DENORM_PRESERVE = 4459,
    MODE_SIGNED_ZERO_INF_NAN_PRESERVE = 4461,
    DECORATION_NO_CONTRACTION = 42,
};

/* Needed for these capabilities before SPIR-V 1.4. */
static const char extension[6 * sizeof(uint32_t)] = "SPV_KHR_float_controls";

typedef struct writer {
    const uint32_t *code;
    size_t count;
    uint32_t *out;
    size_t n;
} writer;

static uint32_t op_of(const uint32_t *at) { return *at & 0xffff; }
static size_t length_of(const uint32_t *at) { return *at >> 16; }

static void put(writer *w, uint32_t op, size_t count, const void *words) {
    w->out[w->n++] = (uint32_t)(count + 1) << 16 | op;
    memcpy(w->out + w->n, words, count * sizeof *w->out);
    w->n += count;
}

static bool is_arithmetic(const uint32_t *at) {
    return op_of(at) == OP_F_ADD || op_of(at) == OP_F_SUB || op_of(at) == OP_F_MUL;
}

/* Whether glslc has already decorated it: `precise` in GLSL. */
static bool is_exact(const writer *w, uint32_t id) {
    for (size_t i = HEADER_WORDS; i < w->count; i += length_of(&w->code[i]))
        if (op_of(&w->code[i]) == OP_DECORATE && w->code[i + 1] == id &&
            w->code[i + 2] == DECORATION_NO_CONTRACTION)
            return true;
    return false;
}

/* NoContraction: otherwise a driver may fuse multiply and add depending on the surrounding code,
 * and a fused step would differ from a separate one. */
static void put_exact(writer *w) {
    for (size_t i = HEADER_WORDS; i < w->count; i += length_of(&w->code[i])) {
        if (!is_arithmetic(&w->code[i])) continue;
        const uint32_t id = w->code[i + 2]; /* the result id follows the type */
        if (!is_exact(w, id)) put(w, OP_DECORATE, 2, (uint32_t[]){id, DECORATION_NO_CONTRACTION});
    }
}

/* Inserts a capability first, its extension, and an execution mode after the entry point. */
static void put_modes(writer *w, vk_module_asks asks, uint32_t entry) {
    if (asks.subnormals)
        put(w, OP_EXECUTION_MODE, 3, (uint32_t[]){entry, MODE_DENORM_PRESERVE, 32});
    if (asks.specials)
        put(w, OP_EXECUTION_MODE, 3, (uint32_t[]){entry, MODE_SIGNED_ZERO_INF_NAN_PRESERVE, 32});
}

size_t vk_module_room(const vk_shader_code *code) {
    enum { MODES = 2 * (2 + 4) + 1 + sizeof extension / sizeof(uint32_t), EXACT = 3 };
    const size_t count = code->bytes / sizeof *code->words;
    size_t room = count + MODES;
    for (size_t i = HEADER_WORDS; i < count; i += length_of(&code->words[i]))
        room += is_arithmetic(&code->words[i]) ? EXACT : 0;
    return room;
}

size_t vk_module_write(const vk_shader_code *code, vk_module_asks asks, uint32_t *out) {
    writer w = {code->words, code->bytes / sizeof *code->words, out, HEADER_WORDS};
    const bool extends = (asks.subnormals || asks.specials) && w.code[HEADER_VERSION] < VERSION_1_4;
    bool extended = !extends, exact = !asks.exact;
    memcpy(out, w.code, HEADER_WORDS * sizeof *out);
    if (asks.subnormals) put(&w, OP_CAPABILITY, 1, (uint32_t[]){CAP_DENORM_PRESERVE});
    if (asks.specials) put(&w, OP_CAPABILITY, 1, (uint32_t[]){CAP_SIGNED_ZERO_INF_NAN_PRESERVE});
    for (size_t i = HEADER_WORDS; i < w.count; i += length_of(&w.code[i])) {
        const uint32_t *at = &w.code[i];
        if (!extended && op_of(at) != OP_CAPABILITY) {
            put(&w, OP_EXTENSION, sizeof extension / sizeof *out, extension);
            extended = true;
        }
        if (!exact && op_of(at) == OP_DECORATE) {
            put_exact(&w);
            exact = true;
        }
        put(&w, op_of(at), length_of(at) - 1, at + 1);
        if (op_of(at) == OP_ENTRY_POINT) put_modes(&w, asks, at[2]);
    }
    return w.n;
}
