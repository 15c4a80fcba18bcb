/*
 * Converts between float dtypes when the caller reads or writes a tensor. The host converts, so
 * every device accepts whatever dtype the caller has.
 */
#include "base/f16.h"
#include "runtime/tensor.h"

typedef struct converter {
    double (*load)(const void *at, int64_t i);
    void (*store)(void *at, int64_t i, double x);
} converter;

static double load_f32(const void *at, int64_t i) { return ((const float *)at)[i]; }
static double load_f64(const void *at, int64_t i) { return ((const double *)at)[i]; }
static double load_f16(const void *at, int64_t i) {
    return ig_f16_to_f32(((const uint16_t *)at)[i]);
}
static double load_bf16(const void *at, int64_t i) {
    return ig_bf16_to_f32(((const uint16_t *)at)[i]);
}

static void store_f32(void *at, int64_t i, double x) { ((float *)at)[i] = (float)x; }
static void store_f64(void *at, int64_t i, double x) { ((double *)at)[i] = x; }
static void store_f16(void *at, int64_t i, double x) {
    ((uint16_t *)at)[i] = ig_f32_to_f16((float)x);
}
static void store_bf16(void *at, int64_t i, double x) {
    ((uint16_t *)at)[i] = ig_f32_to_bf16((float)x);
}

static const converter converters[IG_DTYPE_COUNT] = {[IG_F32] = {load_f32, store_f32},
                                                     [IG_F64] = {load_f64, store_f64},
                                                     [IG_F16] = {load_f16, store_f16},
                                                     [IG_BF16] = {load_bf16, store_bf16}};

static bool is_float(ig_dtype dtype) {
    return (uint32_t)dtype < IG_DTYPE_COUNT && converters[dtype].load;
}

/* Both dtypes are floats, and `bytes` is the size of the tensor's elements in the other one. */
static ig_status check(const ig_tensor *t, ig_dtype dtype, size_t bytes, const char *what) {
    const ig_desc own = ig_tensor_desc(t);
    uint64_t needed = 0;
    char shape[IG_SHAPE_TEXT_BYTES];
    if (!is_float(own.dtype) || !is_float(dtype))
        return IG_FAIL(IG_ERR_UNSUPPORTED,
                       "%s: cannot convert between %s and %s: both must be floats", what,
                       ig_dtype_name(own.dtype), ig_dtype_name(dtype));
    (void)ig_desc_bytes((ig_desc){dtype, own.shape}, &needed);
    if (bytes == needed) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "%s: %zu bytes; %s of %s takes %llu", what, bytes,
                   ig_shape_text(own.shape, shape), ig_dtype_name(dtype),
                   (unsigned long long)needed);
}

/* Allocates a buffer for the tensor's elements in its own dtype, packed. */
static ig_status reserve(const ig_tensor *t, const char *what, void **out, uint64_t *out_bytes) {
    (void)ig_desc_bytes(ig_tensor_desc(t), out_bytes);
    *out = ig_alloc(ig_ctx_allocator(t->ctx), *out_bytes, 1);
    if (*out) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "%s: %llu bytes", what, (unsigned long long)*out_bytes);
}

static void convert(ig_dtype to, void *dst, ig_dtype from, const void *src, int64_t count) {
    for (int64_t i = 0; i < count; i++) converters[to].store(dst, i, converters[from].load(src, i));
}

ig_status ig_tensor_write_as(ig_tensor *tensor, ig_dtype dtype, const void *src, size_t src_bytes) {
    const ig_desc own = ig_tensor_desc(tensor);
    void *packed = NULL;
    uint64_t bytes = 0;
    if (!tensor || !tensor->storage || own.dtype == dtype)
        return ig_tensor_write(tensor, src, src_bytes);
    IG_TRY(check(tensor, dtype, src_bytes, "write_as"));
    if (!src && src_bytes) return IG_FAIL(IG_ERR_ARGUMENT, "write_as: the memory is NULL");
    IG_TRY(reserve(tensor, "write_as", &packed, &bytes));
    convert(own.dtype, packed, dtype, src, ig_shape_count(own.shape));
    const ig_status status = ig_tensor_write(tensor, packed, bytes);
    ig_free(ig_ctx_allocator(tensor->ctx), packed);
    return status;
}

ig_status ig_tensor_read_as(ig_tensor *tensor, ig_dtype dtype, void *dst, size_t dst_bytes) {
    const ig_desc own = ig_tensor_desc(tensor);
    void *packed = NULL;
    uint64_t bytes = 0;
    if (!tensor || !tensor->storage || own.dtype == dtype)
        return ig_tensor_read(tensor, dst, dst_bytes);
    IG_TRY(check(tensor, dtype, dst_bytes, "read_as"));
    if (!dst && dst_bytes) return IG_FAIL(IG_ERR_ARGUMENT, "read_as: the memory is NULL");
    IG_TRY(reserve(tensor, "read_as", &packed, &bytes));
    const ig_status status = ig_tensor_read(tensor, packed, bytes);
    if (status == IG_OK) convert(dtype, dst, own.dtype, packed, ig_shape_count(own.shape));
    ig_free(ig_ctx_allocator(tensor->ctx), packed);
    return status;
}
