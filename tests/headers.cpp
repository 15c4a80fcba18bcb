/* The public headers as C++ sees them: this file has only to compile. */
#include "ingot/abi.h"
#include "ingot/backend.h"
#include "ingot/conformance.h"
#include "ingot/ingot.h"
#include "ingot/testing.h"

static_assert(IG_SHAPE(4, 3).rank == 2 && IG_SHAPE(4, 3).dim[1] == 3, "IG_SHAPE");

static ig_status measure(int64_t rows, ig_desc *out) {
    if (rows < 0) return IG_FAIL(IG_ERR_ARGUMENT, "%d rows", int(rows));
    *out = {IG_F32, IG_SHAPE(rows, 3)};
    IG_TRY(IG_OK);
    return ig_op_find(IG_OP_ADD)->in_max == 2 ? IG_OK : IG_ERR_ARGUMENT;
}

/* Linkage and names: called from C, so that nothing here counts as unused. */
extern "C" ig_status headers_compile(ig_ctx *ctx, ig_tensor **out);
extern "C" ig_status headers_compile(ig_ctx *ctx, ig_tensor **out) {
    ig_desc desc = {};
    IG_TRY(measure(4, &desc));
    return ig_tensor_create(ctx, desc, out);
}
