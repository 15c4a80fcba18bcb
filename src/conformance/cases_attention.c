/*
 * Attention and its gradient: GQA; causal with as many keys as queries, more, and fewer; more keys
 * than a kernel's KV block. The same over a paged KV cache.
 */
#include "conformance/cases.h"

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e], all in the same layout */
#define SIDE(form, ...) OPERAND(.layout = form, SHAPE(__VA_ARGS__))
#define QKV(form, b, t, s, h, g, d, e) \
    SIDE(form, b, t, h, d), SIDE(form, b, s, g, d), SIDE(form, b, s, g, e)

#define ATTENTION(what, form, scale, causal, b, t, s, h, g, d, e)                     \
    CASE(IG_OP_ATTENTION, what, IN(QKV(form, b, t, s, h, g, d, e)),                   \
         ATTRS(ig_attrs_attention, scale, causal)),                                   \
        CASE(IG_OP_ATTENTION_GRAD, what,                                              \
             IN(QKV(form, b, t, s, h, g, d, e), REAL(b, t, h, e), REAL(b, t, h),      \
                SIDE(form, b, t, h, e)),                                              \
             ATTRS(ig_attrs_attention, scale, causal), .derived_by = IG_OP_ATTENTION, \
             .derived = 3)

/* The same in F16 and BF16; results and gradients are F32. */
#define HALF_SIDE(type, form, ...) OPERAND(DTYPE(type), .layout = form, SHAPE(__VA_ARGS__))
#define HALF_QKV(type, form, b, t, s, h, g, d, e)                         \
    HALF_SIDE(type, form, b, t, h, d), HALF_SIDE(type, form, b, s, g, d), \
        HALF_SIDE(type, form, b, s, g, e)
#define HALF_ATTENTION(type, form, causal, b, t, s, h, g, d, e)                                  \
    CASE(IG_OP_ATTENTION, "of " #type ", " #form, IN(HALF_QKV(type, form, b, t, s, h, g, d, e)), \
         ATTRS(ig_attrs_attention, 0, causal)),                                                  \
        CASE(IG_OP_ATTENTION_GRAD, "of " #type ", " #form,                                       \
             IN(HALF_QKV(type, form, b, t, s, h, g, d, e), TYPED(IG_F32, b, t, h, e),            \
                TYPED(IG_F32, b, t, h), TYPED(IG_F32, b, t, h, e)),                              \
             ATTRS(ig_attrs_attention, 0, causal), .derived_by = IG_OP_ATTENTION, .derived = 3)

/*
 * Over a paged KV cache. A setup is a page table of some sequences, and tokens with their sequence
 * and position, of which a case uses the first few:
 *
 *     SHORT   two sequences with pages out of order; the last page of the second is missing
 *     MIDDLE  seven pages: two KV spans of a kernel, the second one partial
 *     LONG    eleven pages, more than two spans; tokens of one sequence from 600 on, some visited
 *             twice, and a second sequence that ends after its sixth page
 *     BORDER  tokens before, at and after the boundaries of spans
 *     DEEP    tokens far into a sequence of 24 pages, and an early one; the other sequence ends
 *             early
 *     PROMPT  consecutive tokens across a page boundary
 */
enum { SHORT_PAGES = 5, SHORT_TEXTS = 2 };
static const double SHORT_table[] = {2, 0, 3, 1, 4, -1};
static const double SHORT_sequence[] = {0, 1, 0, 1, -1, 7, 0};
static const double SHORT_position[] = {0, 5, 63, 64, 3, 2, 130};

enum { MIDDLE_PAGES = 7, MIDDLE_TEXTS = 1 };
static const double MIDDLE_table[] = {3, 1, 4, 0, 5, 6, 2};
static const double MIDDLE_sequence[] = {0, 0, 0};
static const double MIDDLE_position[] = {440, 255, 256};

enum { LONG_PAGES = 11, LONG_TEXTS = 2 };
static const double LONG_table[] = {3, 1, 4, 0, 5, 9, 2,  6, 8, 7, 10,
                                    2, 0, 5, 7, 1, 9, -1, 6, 3, 4, 8};
static const double LONG_sequence[] = {0, 0, 0, 0, 1, 1, 0, 1, 0, -1};
static const double LONG_position[] = {600, 601, 602, 603, 255, 256, 703, 700, 0, 5};

enum { BORDER_PAGES = 9, BORDER_TEXTS = 1 };
static const double BORDER_table[] = {8, 1, 4, 0, 5, 6, 2, 7, 3};
static const double BORDER_sequence[] = {0, 0, 0, 0, 0, 0, 0, 0};
static const double BORDER_position[] = {575, 512, 511, 510, 257, 256, 255, 254};

enum { DEEP_PAGES = 24, DEEP_TEXTS = 2 };
static const double DEEP_table[] = {5,  3,  0,  1,  2,  4,  9,  8,  7,  6,  10, 11, 12, 13, 14, 15,
                                    23, 22, 21, 20, 19, 18, 17, 16, 1,  2,  3,  4,  5,  6,  7,  8,
                                    9,  10, 11, 12, 13, -1, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
static const double DEEP_sequence[] = {0, 0, 0, 1};
static const double DEEP_position[] = {1535, 700, 3, 1500};

enum { PROMPT_PAGES = 2, PROMPT_TEXTS = 1 };
static const double PROMPT_table[] = {1, 0};
static const double PROMPT_sequence[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const double PROMPT_position[] = {56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67};

/* Rows of 8 and of 5 values for the 64 positions of a page. Only tokens that attend to a NaN or
 * Inf may be affected by it. */
static const double odd_eights[64 * 8] = {[3] = 2,
                                          [57 * 8 + 1] = -3,
                                          [60 * 8] = (double)INFINITY,
                                          [61 * 8 + 5] = (double)NAN,
                                          [62 * 8 + 7] = -(double)INFINITY};
static const double odd_fives[64 * 5] = {[3] = 2,
                                         [57 * 5 + 1] = -3,
                                         [60 * 5] = (double)INFINITY,
                                         [61 * 5 + 4] = (double)NAN,
                                         [62 * 5 + 2] = -(double)INFINITY};

/* Over keys and values from these lists. */
#define ODD(what, r, h, keys, values, width, ...)                         \
    OVER(what, PROMPT, r, TYPED(IG_F32, r, h, width),                     \
         OPERAND(DTYPE(IG_F32), keys, SHAPE(PROMPT_PAGES, 64, 1, width)), \
         OPERAND(DTYPE(IG_F32), values, SHAPE(PROMPT_PAGES, 64, 1, width)), __VA_ARGS__)

#define LIST(array, ...) OPERAND(DTYPE(IG_I32), NUMBERS(array), SHAPE(__VA_ARGS__))
#define OVER(what, text, r, q, k, v, ...)                                                  \
    CASE(IG_OP_ATTENTION_PAGED, what,                                                      \
         IN(q, k, v, LIST(text##_table, text##_TEXTS, COUNT(text##_table) / text##_TEXTS), \
            LIST(text##_sequence, r), LIST(text##_position, r)),                           \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

/* r tokens with h heads, over g KV heads with head widths d (keys) and e (values); then options. */
#define PAGED(what, text, r, h, g, d, e, ...)                                                      \
    OVER(what, text, r, REAL(r, h, d), REAL(text##_PAGES, 64, g, d), REAL(text##_PAGES, 64, g, e), \
         __VA_ARGS__)
/* The same with F32 queries and a KV cache of other dtypes. */
#define CACHED(what, text, k_type, v_type, r, h, g, d, e, ...)                         \
    OVER(what, text, r, TYPED(IG_F32, r, h, d), TYPED(k_type, text##_PAGES, 64, g, d), \
         TYPED(v_type, text##_PAGES, 64, g, e), __VA_ARGS__)

/* The same with a sink per head, some of which outweigh all keys. */
#define SUNK(what, text, k_type, v_type, r, h, g, d, e, ...)                      \
    CASE(IG_OP_ATTENTION_PAGED, what,                                             \
         IN(TYPED(IG_F32, r, h, d), TYPED(k_type, text##_PAGES, 64, g, d),        \
            TYPED(v_type, text##_PAGES, 64, g, e),                                \
            LIST(text##_table, text##_TEXTS, COUNT(text##_table) / text##_TEXTS), \
            LIST(text##_sequence, r), LIST(text##_position, r),                   \
            OPERAND(DTYPE(IG_F32), BETWEEN(-8, 8), SHAPE(h))),                    \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

static const ig_case cases[] = {
    HALF_ATTENTION(IG_BF16, PACKED, 1, 2, 7, 7, 4, 2, 8, 8),
    HALF_ATTENTION(IG_BF16, HEADS_FIRST, 1, 1, 70, 130, 2, 1, 17, 9),
    HALF_ATTENTION(IG_BF16, PACKED, 0, 1, 3, 66, 2, 2, 130, 140),
    HALF_ATTENTION(IG_F16, PACKED, 1, 1, 65, 65, 2, 2, 16, 33),
    CACHED("seven pages", MIDDLE, IG_F32, IG_F32, 3, 4, 2, 16, 16, .window = 0),
    CACHED("seven pages of f16", MIDDLE, IG_F16, IG_F16, 3, 4, 2, 16, 16, .window = 200),
    CACHED("long texts", LONG, IG_F32, IG_F32, 10, 4, 2, 8, 12, .window = 0),
    CACHED("long contexts in f16", LONG, IG_F16, IG_F16, 10, 4, 2, 24, 20, .window = 300),
    CACHED("long texts in blocks", LONG, IG_Q8_0, IG_Q8_0, 10, 3, 1, 32, 64, .softcap = 3),
    CACHED("one row of a long text", LONG, IG_F16, IG_F16, 1, 8, 2, 64, 64, .window = 0),
    CACHED("long texts, a head of keys each", LONG, IG_F32, IG_F32, 10, 32, 32, 5, 7, .window = 70),
    CACHED("a prompt in f16", LONG, IG_F16, IG_F16, 80, 4, 2, 64, 64, .window = 0),
    CACHED("a prompt in floats, heads in threes", LONG, IG_F32, IG_F32, 70, 6, 2, 24, 40,
           .window = 300),
    CACHED("a prompt of wide heads", LONG, IG_F16, IG_F16, 66, 4, 2, 96, 80, .window = 0),
    CACHED("a prompt of the widest heads", LONG, IG_F16, IG_F16, 66, 2, 1, 128, 128, .window = 0),
    CACHED("a prompt in blocks", LONG, IG_Q8_0, IG_Q8_0, 70, 3, 1, 32, 64, .softcap = 3),
    CACHED("a prompt in bf16", LONG, IG_BF16, IG_BF16, 65, 2, 2, 16, 8, .window = 40),
    ODD("values that are not finite, a prompt", 12, 8, BETWEEN(-2, 2), NUMBERS(odd_eights), 8,
        .window = 0),
    ODD("values that are not finite, a prompt with a window", 12, 8, BETWEEN(-2, 2),
        NUMBERS(odd_eights), 8, .window = 3),
    ODD("values that are not finite", 12, 2, BETWEEN(-2, 2), NUMBERS(odd_eights), 8, .window = 3),
    ODD("values that are not finite, odd widths", 12, 2, BETWEEN(-2, 2), NUMBERS(odd_fives), 5,
        .window = 3),
    ODD("keys that are not finite, a prompt", 12, 8, NUMBERS(odd_eights), BETWEEN(-2, 2), 8,
        .window = 0),
    ODD("keys that are not finite", 12, 2, NUMBERS(odd_eights), BETWEEN(-2, 2), 8, .window = 3),
    ODD("keys that are not finite, odd widths", 12, 2, NUMBERS(odd_fives), BETWEEN(-2, 2), 5,
        .window = 3),
    CACHED("heads of 40, one for each of keys", BORDER, IG_F16, IG_F16, 8, 3, 3, 40, 40,
           .window = 0),
    CACHED("heads of 80, two for each of keys", BORDER, IG_F16, IG_F16, 8, 4, 2, 80, 80,
           .window = 300),
    CACHED("heads of 96, three for each of keys", BORDER, IG_Q8_0, IG_Q8_0, 8, 6, 2, 96, 96,
           .window = 0),
    CACHED("heads of 128, four for each of keys", BORDER, IG_Q8_0, IG_F16, 8, 8, 2, 128, 128,
           .window = 257),
    CACHED("heads of 256, five for one of keys", BORDER, IG_F16, IG_F16, 4, 5, 1, 256, 256,
           .scale = 0.0625f),
    CACHED("heads of 64, six for one of keys", BORDER, IG_Q8_0, IG_Q8_0, 8, 6, 1, 64, 64,
           .window = 0),
    CACHED("heads of 280 in f16", BORDER, IG_F16, IG_F16, 8, 2, 1, 280, 16, .window = 0),
    CACHED("heads of 288 in blocks", BORDER, IG_Q8_0, IG_Q8_0, 2, 2, 1, 288, 32, .window = 0),
    CACHED("heads of 72, seven for one of keys", BORDER, IG_BF16, IG_BF16, 8, 7, 1, 72, 40,
           .window = 0),
    CACHED("heads of 64, eight for one of keys", BORDER, IG_F32, IG_F32, 8, 8, 1, 64, 64,
           .softcap = 20),
    CACHED("one row, eight heads for each of keys", BORDER, IG_F16, IG_F16, 1, 16, 2, 64, 64,
           .window = 0),
    CACHED("a scale below 0", BORDER, IG_F16, IG_F16, 2, 2, 1, 16, 16, .scale = -0.5f),
    CACHED("a window", SHORT, IG_F32, IG_F32, 7, 4, 2, 8, 8, .window = 5),
    CACHED("a window of more than a page", SHORT, IG_F32, IG_F32, 7, 4, 2, 8, 8, .window = 70),
    CACHED("a window of one", SHORT, IG_F32, IG_F32, 7, 2, 2, 8, 8, .window = 1),
    CACHED("capped scores", SHORT, IG_F32, IG_F32, 7, 4, 2, 8, 8, .softcap = 0.75f),
    CACHED("f16", SHORT, IG_F16, IG_F16, 7, 6, 2, 20, 12, .window = 0),
    CACHED("bf16", SHORT, IG_BF16, IG_BF16, 7, 6, 2, 16, 16, .window = 40),
    CACHED("blocks", SHORT, IG_Q8_0, IG_Q8_0, 7, 6, 2, 64, 32, .window = 0),
    CACHED("blocks, more heads than walk together", SHORT, IG_Q8_0, IG_Q8_0, 3, 67, 1, 32, 32,
           .window = 0),
    CACHED("f16 keys, q8_0 values", SHORT, IG_F16, IG_Q8_0, 7, 4, 2, 40, 32, .window = 9),
    CACHED("f32 keys, f16 values", SHORT, IG_F32, IG_F16, 7, 4, 2, 40, 8, .softcap = 2),
    CACHED("keys in blocks, values in floats", SHORT, IG_Q8_0, IG_F32, 7, 4, 4, 32, 5, .window = 0),
    CACHED("many pages", DEEP, IG_F32, IG_F32, 4, 2, 1, 16, 16, .window = 0),
    CACHED("many pages, a window over several", DEEP, IG_F16, IG_F16, 4, 2, 1, 16, 16,
           .window = 900),
    SUNK("sinks", SHORT, IG_F32, IG_F32, 7, 4, 2, 8, 8, .window = 0),
    SUNK("sinks, a window and a cap", SHORT, IG_F16, IG_F16, 7, 6, 2, 20, 12, .window = 5,
         .softcap = 2),
    SUNK("sinks, one row of a long text", LONG, IG_F16, IG_F16, 1, 8, 2, 64, 64, .window = 0),
    SUNK("sinks, a prompt in f16", LONG, IG_F16, IG_F16, 80, 4, 2, 64, 64, .window = 0),
    SUNK("sinks, a prompt in blocks", LONG, IG_Q8_0, IG_Q8_0, 70, 3, 1, 32, 64, .window = 128),
    SUNK("sinks, many pages in blocks", DEEP, IG_Q8_0, IG_Q8_0, 4, 8, 1, 64, 64, .window = 0),
    PAGED("rows of two sequences", SHORT, 7, 2, 2, 8, 8, .window = 0),
    PAGED("grouped heads, odd widths", SHORT, 7, 6, 2, 7, 11, .window = 0),
    PAGED("one row, a scale of its own", SHORT, 1, 4, 1, 16, 16, .scale = 0.25f),
    PAGED("many rows", SHORT, 49, 3, 1, 5, 5, .window = 0),
    PAGED("no rows", SHORT, 0, 2, 1, 8, 8, .window = 0),
    ATTENTION("one of each", PACKED, 0, 0, 1, 1, 1, 1, 1, 1, 1),
    ATTENTION("all see all", PACKED, 0, 0, 2, 5, 7, 2, 2, 8, 8),
    ATTENTION("causal", PACKED, 0, 1, 2, 7, 7, 2, 2, 8, 8),
    ATTENTION("causal, more keys", PACKED, 0, 1, 2, 3, 9, 2, 2, 8, 8),
    ATTENTION("causal, one row", PACKED, 0, 1, 1, 1, 33, 2, 1, 16, 16),
    ATTENTION("causal, rows that see no key", PACKED, 0, 1, 2, 7, 4, 2, 2, 8, 8),
    ATTENTION("grouped heads", PACKED, 0, 0, 2, 5, 7, 6, 2, 8, 8),
    ATTENTION("grouped heads, causal", PACKED, 0, 1, 2, 9, 9, 4, 1, 8, 8),
    ATTENTION("odd widths", PACKED, 0, 1, 1, 5, 9, 2, 1, 7, 11),
    ATTENTION("a scale of its own", PACKED, 0.5f, 0, 1, 5, 7, 2, 2, 8, 8),
    ATTENTION("more keys than a block", PACKED, 0, 1, 1, 20, 130, 2, 1, 8, 8),
    ATTENTION("many rows", PACKED, 0, 1, 1, 70, 70, 2, 2, 8, 4),
    ATTENTION("no keys", PACKED, 0, 0, 2, 3, 0, 2, 2, 8, 8),
    ATTENTION("no rows", PACKED, 0, 1, 2, 0, 3, 2, 2, 8, 8),
    ATTENTION("no batch", PACKED, 0, 1, 0, 3, 3, 2, 2, 8, 8),
    ATTENTION("values of nothing", PACKED, 0, 0, 1, 3, 3, 2, 2, 8, 0),
    ATTENTION("heads first", HEADS_FIRST, 0, 1, 2, 5, 7, 4, 2, 8, 8),
    ATTENTION("slices", SLICED, 0, 1, 2, 5, 7, 2, 1, 8, 8),
    ATTENTION("every other one", STRIDED, 0, 0, 2, 5, 7, 2, 1, 7, 9),
    ATTENTION("transposed", TRANSPOSED, 0, 0, 2, 5, 7, 2, 1, 7, 9),

    CASE(IG_OP_ATTENTION, "without the log-sum-exp", IN(QKV(PACKED, 2, 9, 9, 4, 2, 8, 8)),
         ATTRS(ig_attrs_attention, 0, 1), .n_out = 1),
    CASE(IG_OP_ATTENTION, "sharp",
         IN(RANGE(-30, 30, 1, 5, 2, 8), RANGE(-30, 30, 1, 7, 2, 8), REAL(1, 7, 2, 8)),
         ATTRS(ig_attrs_attention, 0, 0)),
    CASE(IG_OP_ATTENTION, "one key and one value for all",
         IN(REAL(2, 5, 2, 8), REPEATED(3, 2, 7, 2, 8), REPEATED(15, 2, 7, 2, 8)),
         ATTRS(ig_attrs_attention, 0, 1)),
    CASE(IG_OP_ATTENTION_GRAD, "one slope for all",
         IN(QKV(PACKED, 1, 5, 7, 2, 1, 8, 8), REAL(1, 5, 2, 8), REAL(1, 5, 2),
            REPEATED(15, 1, 5, 2, 8)),
         ATTRS(ig_attrs_attention, 0, 1), .derived_by = IG_OP_ATTENTION, .derived = 3),
};

/* ---- tolerances ---- */

static const char shares[] = "scores are sums, their exponentials are summed up again";
static const case_tolerance tolerances[] = {
    {IG_OP_ATTENTION, 64, shares},
    {IG_OP_ATTENTION_PAGED, 64, shares},
    {IG_OP_ATTENTION_GRAD, 128, shares},
};

/* ---- gradients ---- */

#define P(i) in->p[i]

static ig_tensor *grad_attention(const grad_inputs *in) {
    return ig_attention(P(0), P(1), P(2), (ig_attention_options){0});
}
static ig_tensor *grad_attention_causal(const grad_inputs *in) {
    return ig_attention(P(0), P(1), P(2), (ig_attention_options){.causal = true, .scale = 0.7f});
}
static ig_tensor *
grad_attention_of_views(const grad_inputs *in) { /* [b, h, t, d], the layout of other frameworks */
    return ig_attention(ig_transpose(P(0), 1, 2), ig_transpose(P(1), 1, 2),
                        ig_transpose(P(2), 1, 2), (ig_attention_options){.causal = true});
}
static ig_tensor *grad_attention_to_itself(const grad_inputs *in) {
    return ig_attention(P(0), P(0), P(0), (ig_attention_options){.causal = true});
}

static const grad_case grads[] = {
    GRAD(IG_OP_ATTENTION, "all see all", grad_attention, PARAM(2, 3, 2, 4), PARAM(2, 5, 2, 4),
         PARAM(2, 5, 2, 3)),
    GRAD(IG_OP_ATTENTION, "grouped, causal", grad_attention_causal, PARAM(1, 4, 4, 3),
         PARAM(1, 4, 2, 3), PARAM(1, 4, 2, 3)),
    GRAD(IG_OP_ATTENTION, "grouped, causal, more keys", grad_attention_causal, PARAM(2, 2, 4, 3),
         PARAM(2, 5, 2, 3), PARAM(2, 5, 2, 2)),
    GRAD(IG_OP_ATTENTION, "causal, rows that see no key", grad_attention_causal, PARAM(1, 4, 2, 3),
         PARAM(1, 2, 1, 3), PARAM(1, 2, 1, 3)),
    GRAD(IG_OP_ATTENTION, "of views", grad_attention_of_views, PARAM(1, 4, 3, 2), PARAM(1, 2, 3, 2),
         PARAM(1, 2, 3, 2)),
    GRAD(IG_OP_ATTENTION, "to itself", grad_attention_to_itself, PARAM(1, 4, 2, 3)),
};

const case_table cases_attention = {CASES(cases), TOLERANCES(tolerances), GRADS(grads)};
