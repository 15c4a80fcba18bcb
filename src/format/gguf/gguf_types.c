/* GGUF type numbers, and conversion of numbers of each type to int64_t or double. */
#include <math.h>

#include "format/gguf/gguf_layout.h"

size_t gguf_type_bytes(uint32_t type) {
    static const uint8_t bytes[GGUF_N_TYPES] = {
        [IG_GGUF_U8] = 1,  [IG_GGUF_I8] = 1,  [IG_GGUF_U16] = 2, [IG_GGUF_I16] = 2,
        [IG_GGUF_U32] = 4, [IG_GGUF_I32] = 4, [IG_GGUF_F32] = 4, [IG_GGUF_BOOL] = 1,
        [IG_GGUF_U64] = 8, [IG_GGUF_I64] = 8, [IG_GGUF_F64] = 8,
    };
    return type < GGUF_N_TYPES ? bytes[type] : 0;
}

const char *ig_gguf_type_name(ig_gguf_type type) {
    static const char *const names[GGUF_N_TYPES] = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                    "i32", "f32", "bool", "string", "array",
                                                    "u64", "i64", "f64"};
    return (unsigned)type < GGUF_N_TYPES ? names[type] : "unknown";
}

/* ---- Types of tensors ---- */

enum { FOREIGN = -1 }; /* known to the format, not supported by the runtime */

/* By number. Withdrawn and unassigned numbers have no name. */
static const struct {
    const char *name;
    int dtype;
} tensor_types[GGUF_N_TENSOR_TYPES] = {
    [0] = {"F32", IG_F32},        [1] = {"F16", IG_F16},       [2] = {"Q4_0", IG_Q4_0},
    [3] = {"Q4_1", IG_Q4_1},      [6] = {"Q5_0", IG_Q5_0},     [7] = {"Q5_1", IG_Q5_1},
    [8] = {"Q8_0", IG_Q8_0},      [9] = {"Q8_1", FOREIGN},     [10] = {"Q2_K", IG_Q2_K},
    [11] = {"Q3_K", IG_Q3_K},     [12] = {"Q4_K", IG_Q4_K},    [13] = {"Q5_K", IG_Q5_K},
    [14] = {"Q6_K", IG_Q6_K},     [15] = {"Q8_K", FOREIGN},    [16] = {"IQ2_XXS", FOREIGN},
    [17] = {"IQ2_XS", FOREIGN},   [18] = {"IQ3_XXS", FOREIGN}, [19] = {"IQ1_S", FOREIGN},
    [20] = {"IQ4_NL", IG_IQ4_NL}, [21] = {"IQ3_S", FOREIGN},   [22] = {"IQ2_S", FOREIGN},
    [23] = {"IQ4_XS", IG_IQ4_XS}, [24] = {"I8", FOREIGN},      [25] = {"I16", FOREIGN},
    [26] = {"I32", IG_I32},       [27] = {"I64", FOREIGN},     [28] = {"F64", IG_F64},
    [29] = {"IQ1_M", FOREIGN},    [30] = {"BF16", IG_BF16},    [34] = {"TQ1_0", FOREIGN},
    [35] = {"TQ2_0", FOREIGN},    [39] = {"MXFP4", IG_MXFP4},  [40] = {"NVFP4", FOREIGN},
    [41] = {"Q1_0", FOREIGN},     [42] = {"Q2_0", FOREIGN},
};

bool gguf_dtype(uint32_t number, ig_dtype *out, const char **name) {
    *name = number < GGUF_N_TENSOR_TYPES ? tensor_types[number].name : NULL;
    if (!*name || tensor_types[number].dtype == FOREIGN) return false;
    *out = (ig_dtype)tensor_types[number].dtype;
    return true;
}

uint32_t gguf_dtype_number(ig_dtype dtype) {
    uint32_t number = 0;
    while (!tensor_types[number].name || tensor_types[number].dtype != (int)dtype) number++;
    return number;
}

/* ---- Numbers ---- */

/* A number of the file, exact in one of the three. */
typedef struct number {
    enum { SIGNED, UNSIGNED, REAL } kind;
    int64_t i;
    uint64_t u;
    double r;
} number;

static number get_number(const ig_gguf_value *value, uint64_t i) {
    const ig_gguf_type type = value->type == IG_GGUF_ARRAY ? value->elements : value->type;
    const size_t bytes = gguf_type_bytes(type);
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)value->packed + i * bytes, bytes);

    float f32;
    double f64;
    const uint32_t low = (uint32_t)bits;
    memcpy(&f32, &low, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    switch (type) {
    case IG_GGUF_I8: return (number){SIGNED, .i = (int8_t)bits};
    case IG_GGUF_I16: return (number){SIGNED, .i = (int16_t)bits};
    case IG_GGUF_I32: return (number){SIGNED, .i = (int32_t)bits};
    case IG_GGUF_I64: return (number){SIGNED, .i = (int64_t)bits};
    case IG_GGUF_F32: return (number){REAL, .r = f32};
    case IG_GGUF_F64: return (number){REAL, .r = f64};
    case IG_GGUF_BOOL: return (number){UNSIGNED, .u = bits != 0};
    default: return (number){UNSIGNED, .u = bits};
    }
}

static double number_real(const number *n) {
    return n->kind == REAL ? n->r : n->kind == SIGNED ? (double)n->i : (double)n->u;
}

/* False: out of range, and `*out` is the nearest value. */
static bool number_int(const number *n, int64_t *out) {
    if (n->kind == REAL) {
        const double limit = 9223372036854775808.0; /* 2^63 */
        if (!(n->r >= -limit && n->r < limit)) {    /* also catches NaN */
            *out = n->r >= limit ? INT64_MAX : n->r < -limit ? INT64_MIN : 0;
            return false;
        }
        *out = (int64_t)n->r;
        return (double)*out == n->r;
    }
    *out = n->kind == SIGNED ? n->i : n->u > INT64_MAX ? INT64_MAX : (int64_t)n->u;
    return n->kind == SIGNED || n->u <= INT64_MAX;
}

int64_t ig_gguf_int_at(const ig_gguf_value *value, uint64_t i) {
    if (!value->packed || i >= value->count) return 0;
    const number n = get_number(value, i);
    int64_t x;
    number_int(&n, &x);
    return x;
}

double ig_gguf_real_at(const ig_gguf_value *value, uint64_t i) {
    if (!value->packed || i >= value->count) return 0;
    const number n = get_number(value, i);
    return number_real(&n);
}

/* A scalar number by key; NULL: none. */
static const ig_gguf_value *find_number(const ig_gguf *gguf, const char *key) {
    const ig_gguf_value *value = ig_gguf_find(gguf, key);
    return value && value->packed && value->type != IG_GGUF_ARRAY ? value : NULL;
}

bool ig_gguf_int(const ig_gguf *gguf, const char *key, int64_t *out) {
    const ig_gguf_value *value = find_number(gguf, key);
    if (!value) return false;
    const number n = get_number(value, 0);
    int64_t x;
    if (!number_int(&n, &x)) return false;
    *out = x;
    return true;
}

bool ig_gguf_real(const ig_gguf *gguf, const char *key, double *out) {
    const ig_gguf_value *value = find_number(gguf, key);
    if (!value) return false;
    const number n = get_number(value, 0);
    const double x = number_real(&n);
    int64_t back;
    const number there = {REAL, .r = x};
    if (n.kind != REAL && !(number_int(&there, &back) && back == ig_gguf_int_at(value, 0)))
        return false;
    *out = x;
    return true;
}

bool ig_gguf_bool(const ig_gguf *gguf, const char *key, bool *out) {
    int64_t x;
    if (!ig_gguf_int(gguf, key, &x) || x < 0 || x > 1) return false;
    *out = x == 1;
    return true;
}

bool ig_gguf_string(const ig_gguf *gguf, const char *key, ig_string_view *out) {
    const ig_gguf_value *value = ig_gguf_find(gguf, key);
    if (!value || value->type != IG_GGUF_STRING) return false;
    *out = value->texts[0];
    return true;
}
