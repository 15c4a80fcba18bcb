/*
 * params.h - what dispatches hand their shaders, for C and GLSL alike.
 *
 * All fields are words, so both see one layout.  Extents and strides count
 * elements; a stride is 0 where a dimension repeats.
 *
 * The first VK_HEAD_WORDS come with the dispatch as well, where they are read sooner: a struct
 * may begin with a head of its own, which its shader names as HEAD.
 */
#ifndef IG_BACKEND_VULKAN_SHADERS_PARAMS_H
#define IG_BACKEND_VULKAN_SHADERS_PARAMS_H

#ifdef VK_GLSL
#    define VK_STRUCT(name) struct name
#else
#    include <sys/types.h> /* uint */
#    define VK_STRUCT(name)       \
        typedef struct name name; \
        struct name
#endif

#define VK_RANK       6
#define VK_OPERANDS   4
#define VK_HEAD_WORDS 12

/* Of shaders whose memory is bound: see bound.glsl. */
#define VK_WINDOWS         14  /* bindings that show operands, of at most 8 */
#define VK_BINDINGS        16  /* those, params, and words from slots */
#define VK_BINDING_BYTES   256 /* what bindings begin at multiples of, on any device */
#define VK_CONSTANT_SPLIT  30
#define VK_CONSTANT_WINDOW 31

/* Several operands of one shape, walked together; counted row by row. */
VK_STRUCT(vk_loop) {
    uint n, rank; /* elements, dimensions: at least 1 */
    uint dim[VK_RANK];
    uint stride[VK_OPERANDS][VK_RANK];
};

/* One operand: where element i lies, counted row by row. */
VK_STRUCT(vk_places) {
    uint rank; /* at least 1 */
    uint dim[VK_RANK];
    uint stride[VK_RANK];
};

VK_STRUCT(vk_elementwise_params) {
    vk_loop loop;
    float scale, shift;
};

/* What a dispatch does for a run of steps, element by element: see chain.c. */
#define VK_CHAIN_STEPS 8
#define VK_CHAIN_REFS  8
VK_STRUCT(vk_chain_params) {
    uint n, rank;
    uint dim[VK_RANK];
    uint stride[VK_CHAIN_REFS][VK_RANK];
    float scale[VK_CHAIN_STEPS], shift[VK_CHAIN_STEPS]; /* of steps that scale */
};

/* copy: src, dst.  fill: dst.  gather: index, x without its axis, out. */
VK_STRUCT(vk_move_params) {
    vk_loop loop;
    uint value[2];            /* of fill: the bits */
    uint axis_stride, extent; /* of what is indexed */
};

/* scatter_add: x, out, index without its axis, the coordinate along the axis. */
VK_STRUCT(vk_scatter_params) {
    vk_loop loop;
    vk_loop source; /* the same elements, of src alone */
    uint count, index_stride, source_stride;
};

VK_STRUCT(vk_embedding_grad_params) {
    uint rows, width, count; /* of the table; ids */
    uint column_stride;      /* of dy */
    vk_places ids, dy;       /* dy: its rows */
};

VK_STRUCT(vk_reduce_params) {
    uint outputs, count;     /* results, and elements that become one */
    uint parts, part;        /* each result is the sum of this many splits of `part` elements */
    float divisor;           /* of a mean */
    vk_places kept, reduced; /* of x */
    vk_places other;         /* of y, all of it */
};

VK_STRUCT(vk_softmax_params) {
    uint rows, n, column_stride;
    vk_places x, targets, slope; /* x: its rows */
};

VK_STRUCT(vk_norm_params) {
    uint rows, n;
    float eps;
    uint x_stride, dy_stride, w_stride, b_stride; /* along a row */
    vk_places x, dy;                              /* rows */
};

VK_STRUCT(vk_matmul_head) {
    uint m, n, k, batches;
    uint a_row, a_k, b_column, b_k, bias_stride;
    uint offset_stride, grouped; /* of a product for experts: of the offsets; rows in all */
    float eps;                   /* of an rms_norm before it */
};

VK_STRUCT(vk_matmul_params) {
    vk_matmul_head head;
    vk_places a, b; /* matrices of a batch */
};

/* Rows split into F16 pairs: see matmul_splitk.comp. */
VK_STRUCT(vk_split_head) {
    uint rows, k, depth; /* depth: k, rounded up to whole slices */
    uint stride, k_stride;
};
#define VK_SLICE       64
#define VK_MATRIX_K_ID 4  /* of the constant that the matrices of both sides share */
#define VK_PARTS_ID    11 /* of the constant that says how many share out k */

VK_STRUCT(vk_rope_params) {
    uint rows, width, heads, pairs; /* a row is a head of a token */
    uint neighbors, inverse, factor_stride, column_stride;
    float magnitude;
    vk_places x, positions;
    /* then, for each pair, the part of a full turn that a position adds: 64 bits, low word first */
};

VK_STRUCT(vk_attention_params) {
    uint b, t, s, h, g;
    uint d, e, causal;
    float scale;
    uint q[4], k[4], v[4], out_[4], dout[4], lse[3]; /* strides of inputs */
};

VK_STRUCT(vk_paged_params) {
    uint rows, h, g, d, e;
    uint sequences, pages, n_pages; /* page table [sequences, pages], pages in all */
    uint window;                    /* positions that a row sees; 0: all */
    float scale, softcap;
    uint has_sinks;
    uint q[3], k[4], v[4];
    uint table[2], sequence, position, sink; /* strides */
};

VK_STRUCT(vk_store_params) {
    uint rows, n, width; /* rows that come, rows that are there */
    uint index_stride;
    vk_places from, to; /* elements */
};

/* route: logits.  group_rows: ids.  combine: places and weights are packed, y has strides. */
VK_STRUCT(vk_moe_params) {
    uint rows, experts, count; /* t, e and k */
    uint norm_topk;
    uint grouped, width; /* s and n of combine */
    vk_places x, places, weights;
};

VK_STRUCT(vk_update_params) {
    vk_loop loop;
    float limit;
};

VK_STRUCT(vk_random_params) {
    vk_loop loop;
    uint seed[2], ordinal, threshold;
    float keep; /* 1 / (1 - p); 0: all are dropped */
};

/* What elementwise.comp computes besides the functions of function.def, whose numbers are greater.
 */
#define VK_EQUAL_INT 0
#define VK_SCALE     1

/* Forms of the other shaders. */
#define VK_COPY 0
#define VK_FILL 1

#define VK_GATHER         0
#define VK_GATHER_DECODED 1
#define VK_SCATTER_ADD    2
#define VK_EMBEDDING_GRAD 3

#define VK_REDUCE_SUM     0
#define VK_REDUCE_MAX     1
#define VK_REDUCE_ARGMAX  2
#define VK_REDUCE_SQUARES 3 /* their sum */
#define VK_OF_X           0
#define VK_OF_DIFFERENCE  1
#define VK_FINISH_NOT     0
#define VK_FINISH_MEAN    1
#define VK_FINISH_ROOT    2

#define VK_SOFTMAX            0
#define VK_LOG_SOFTMAX        1
#define VK_CROSS_ENTROPY      2
#define VK_CROSS_ENTROPY_GRAD 3

#define VK_GRAD_OF_Q  0
#define VK_GRAD_OF_KV 1

#define VK_STORE_ROWS      0
#define VK_ATTENTION_PAGED 1

#define VK_NOT_GROUPED   0
#define VK_GROUPED_ROWS  1 /* each matrix of b has rows of a of its own */
#define VK_GROUPED_DEPTH 2 /* each result is a sum over rows of its own */

/* How a thread of matmul_wide.comp takes its eight elements of a slice of k: one by one, with
 * neighbors along k or across it, or by vectors where they lie evenly. */
#define VK_ALONG_K   0
#define VK_ACROSS_K  1
#define VK_BY_EIGHTS 2 /* along k */
#define VK_BY_FOURS  3 /* across k; floats */

/* Ops fused into a matmul: see program/fuse.h. */
#define VK_NOTHING  0
#define VK_PRODUCT  1 /* mul, before or after it */
#define VK_SUM      2 /* add, after it */
#define VK_RMS_NORM 3 /* before it */
#define VK_RESIDUAL 4 /* add, after it, as part of the step */

#define VK_ROUTE      0
#define VK_GROUP_ROWS 1
#define VK_COMBINE    2

#define VK_ACCUMULATE 0
#define VK_ADAMW      1
#define VK_SGD        2
#define VK_CLIP       3

/* ig_dtype; setup.h checks that they are the same. */
#define VK_F32    0
#define VK_F16    1
#define VK_BF16   2
#define VK_I32    4
#define VK_Q4_0   5
#define VK_Q4_1   6
#define VK_Q5_0   7
#define VK_Q5_1   8
#define VK_Q8_0   9
#define VK_Q2_K   10
#define VK_Q3_K   11
#define VK_Q4_K   12
#define VK_Q5_K   13
#define VK_Q6_K   14
#define VK_IQ4_NL 15
#define VK_IQ4_XS 16
#define VK_MXFP4  17

#endif
