#include "backend/vulkan/spirv/spirv.h"

/* Names as in the SPIR-V specification. */
enum {
    HEADER_WORDS = 5,
    HEADER_GENERATOR = 2,
    HEADER_BOUND = 3,
    OP_NAME = 5,
    OP_MEMBER_NAME = 6,
    OP_TYPE_VOID = 19,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_POINTER = 32,
    OP_TYPE_FUNCTION = 33,
    OP_CONSTANT = 43,
    OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55,
    OP_FUNCTION_END = 56,
    OP_FUNCTION_CALL = 57,
    OP_VARIABLE = 59,
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_LABEL = 248,
    OP_RETURN = 253,
    STORAGE_FUNCTION = 7,
};

/* ---- reading the module ---- */

static uint32_t op_of(const uint32_t *at) { return *at & 0xffff; }
static uint32_t length_of(const uint32_t *at) { return *at >> 16; }

static const uint32_t *begin_of(const spv_writer *w) { return w->base->words + HEADER_WORDS; }
static const uint32_t *end_of(const spv_writer *w) {
    return w->base->words + w->base->bytes / sizeof *w->base->words;
}

/* The first instruction from `at` on with this opcode and this operand; NULL: none. */
static const uint32_t *find(const spv_writer *w, const uint32_t *at, uint32_t op, uint32_t place,
                            uint32_t word) {
    for (; at < end_of(w); at += length_of(at))
        if (op_of(at) == op && (place == 0 || at[place] == word)) return at;
    return NULL;
}

static spv_id fail(spv_writer *w, const char *why) {
    if (!w->failed) w->failed = why;
    return 0;
}

/* The OpFunction of a function, by its name in GLSL. */
static const uint32_t *function_named(spv_writer *w, const char *name) {
    const size_t bytes = strlen(name);
    const uint32_t *at = begin_of(w);
    while ((at = find(w, at, OP_NAME, 0, 0))) {
        const size_t room = (length_of(at) - 2) * sizeof *at;
        if (room > bytes && memcmp(at + 2, name, bytes) == 0)
            return find(w, begin_of(w), OP_FUNCTION, 2, at[1]);
        at += length_of(at);
    }
    (void)fail(w, name);
    return NULL;
}

/* What a pointer points to. */
static spv_id pointee(const spv_writer *w, spv_id pointer) {
    const uint32_t *at = find(w, begin_of(w), OP_TYPE_POINTER, 1, pointer);
    return at && at[2] == STORAGE_FUNCTION ? at[3] : 0;
}

static spv_id type_of(const spv_writer *w, uint32_t op, uint32_t bits, uint32_t sign) {
    const uint32_t *at = begin_of(w);
    while ((at = find(w, at, op, 0, 0))) {
        if (at[2] == bits && (op != OP_TYPE_INT || at[3] == sign)) return at[1];
        at += length_of(at);
    }
    return 0;
}

/* ---- writing ---- */

static void put(spv_writer *w, spv_section *s, uint32_t op, uint32_t count, const uint32_t *words) {
    if (s->count + count + 1 > sizeof s->words / sizeof s->words[0]) {
        (void)fail(w, "too long");
        return;
    }
    s->words[s->count++] = (count + 1) << 16 | op;
    memcpy(s->words + s->count, words, count * sizeof *words);
    s->count += count;
}

#define PUT(w, section, op, ...)                                                    \
    put(w, &(w)->section, op, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), \
        (uint32_t[]){__VA_ARGS__})

void spv_begin(spv_writer *w, const vk_shader_code *base, const char *function) {
    w->base = base;
    w->bound = base->words[HEADER_BOUND];
    w->globals.count = w->locals.count = w->body.count = 0;
    w->n_variables = 0;
    w->failed = NULL;
    const uint32_t *at = function_named(w, function);
    w->function = at ? at[2] : 0;
}

spv_id spv_parameter(spv_writer *w, uint32_t place) {
    const uint32_t *at = find(w, begin_of(w), OP_FUNCTION, 2, w->function);
    for (uint32_t i = 0; at && i <= place; i++) {
        at += length_of(at);
        if (op_of(at) != OP_FUNCTION_PARAMETER) at = NULL;
    }
    const spv_id type = at ? pointee(w, at[1]) : 0;
    if (!type) return fail(w, "parameter");
    const spv_id value = w->bound++;
    PUT(w, body, OP_LOAD, type, value, at[2]);
    return value;
}

spv_id spv_uint(spv_writer *w, uint32_t value) {
    const spv_id type = type_of(w, OP_TYPE_INT, 32, 0), id = w->bound++;
    PUT(w, globals, OP_CONSTANT, type, id, value);
    return id;
}

static spv_id variable(spv_writer *w, spv_id type, uint32_t place) {
    for (uint32_t i = 0; i < w->n_variables; i++)
        if (w->variables[i].type == type && w->variables[i].place == place)
            return w->variables[i].id;
    if (w->n_variables == SPV_MAX_VARIABLES) return fail(w, "too many variables");
    const spv_id id = w->bound++;
    w->variables[w->n_variables++] = (spv_variable){type, id, place};
    PUT(w, locals, OP_VARIABLE, type, id, STORAGE_FUNCTION);
    return id;
}

spv_id spv_call(spv_writer *w, const char *function, const spv_id *args, uint32_t count) {
    const uint32_t *callee = function_named(w, function);
    const uint32_t *type = callee ? find(w, begin_of(w), OP_TYPE_FUNCTION, 1, callee[4]) : NULL;
    if (!type || length_of(type) != 3 + count || count > SPV_MAX_ARGS) return fail(w, function);
    uint32_t words[3 + SPV_MAX_ARGS] = {callee[1], w->bound++, callee[2]};
    for (uint32_t i = 0; i < count; i++) {
        if (!pointee(w, type[3 + i])) return fail(w, function);
        words[3 + i] = variable(w, type[3 + i], i);
        PUT(w, body, OP_STORE, words[3 + i], args[i]);
    }
    put(w, &w->body, OP_FUNCTION_CALL, 3 + count, words);
    return words[1];
}

/* ---- putting it together ---- */

static uint32_t *append(uint32_t *to, const uint32_t *words, size_t count) {
    memcpy(to, words, count * sizeof *to);
    return to + count;
}

/* Replaces the function up to its end: label, variables and body. */
static uint32_t *append_function(const spv_writer *w, uint32_t *to, const uint32_t **at) {
    while (op_of(*at) != OP_LABEL) {
        to = append(to, *at, length_of(*at));
        *at += length_of(*at);
    }
    to = append(to, *at, length_of(*at));
    to = append(to, w->locals.words, w->locals.count);
    to = append(to, w->body.words, w->body.count);
    *to++ = 1 << 16 | OP_RETURN;
    while (op_of(*at) != OP_FUNCTION_END) *at += length_of(*at);
    return to;
}

/* Debug names are dropped, because the old body is gone. Constants go before the functions. */
static uint32_t *assemble(const spv_writer *w, uint32_t *out) {
    uint32_t *to = append(out, w->base->words, HEADER_WORDS);
    bool in_functions = false;
    out[HEADER_GENERATOR] = 0; /* unregistered generator */
    out[HEADER_BOUND] = w->bound;
    for (const uint32_t *at = begin_of(w); at < end_of(w); at += length_of(at)) {
        if (op_of(at) == OP_NAME || op_of(at) == OP_MEMBER_NAME) continue;
        if (op_of(at) == OP_FUNCTION && !in_functions) {
            in_functions = true;
            to = append(to, w->globals.words, w->globals.count);
        }
        if (op_of(at) == OP_FUNCTION && at[2] == w->function) to = append_function(w, to, &at);
        to = append(to, at, length_of(at));
    }
    return to;
}

ig_status spv_finish(spv_writer *w, const ig_host *host, uint32_t **words, size_t *count) {
    if (w->failed)
        return IG_HOST_FAIL(host, IG_ERR_UNSUPPORTED, "vulkan: writing a shader from %s: %s",
                            w->base->name, w->failed);
    const size_t room =
        w->base->bytes / sizeof **words + w->globals.count + w->locals.count + w->body.count + 1;
    *words = host->alloc(host, room, sizeof **words);
    if (!*words) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: a shader of %zu words", room);
    *count = (size_t)(assemble(w, *words) - *words);
    return IG_OK;
}
