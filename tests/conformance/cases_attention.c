/*
 * Attention and its gradients: grouped heads, causal rows when there are as many
 * keys, more, and fewer than rows; more keys than a block of a kernel has.
 */
#include "cases.h"

/* q [b, t, h, d], k [b, s, g, d], v [b, s, g, e], all laid out alike */
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

/* The same in halves; results and gradients are F32. */
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

/* Pages in disorder, two sequences; the last row of the second table lies nowhere. */
static const double table[] = {2, 0, 3, 1, 4, -1};
static const double sequence[] = {0, 1, 0, 1, -1, 7, 0};
static const double position[] = {0, 5, 63, 64, 3, 2, 130};
#define PAGED(what, scale, r, h, g, d, e)                         \
    CASE(IG_OP_ATTENTION_PAGED, what,                             \
         IN(REAL(r, h, d), REAL(5, 64, g, d), REAL(5, 64, g, e),  \
            OPERAND(DTYPE(IG_I32), NUMBERS(table), SHAPE(2, 3)),  \
            OPERAND(DTYPE(IG_I32), NUMBERS(sequence), SHAPE(r)),  \
            OPERAND(DTYPE(IG_I32), NUMBERS(position), SHAPE(r))), \
         ATTRS(ig_attrs_paged, scale, 1, 0, 0))

/* F32 rows with a cache of another type, and with what else there is. */
#define CACHED(what, k_type, v_type, r, h, g, d, e, ...)                                    \
    CASE(IG_OP_ATTENTION_PAGED, what,                                                       \
         IN(TYPED(IG_F32, r, h, d), TYPED(k_type, 5, 64, g, d), TYPED(v_type, 5, 64, g, e), \
            OPERAND(DTYPE(IG_I32), NUMBERS(table), SHAPE(2, 3)),                            \
            OPERAND(DTYPE(IG_I32), NUMBERS(sequence), SHAPE(r)),                            \
            OPERAND(DTYPE(IG_I32), NUMBERS(position), SHAPE(r))),                           \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

/* Two rows far into a sequence of 24 pages, one before them; the other sequence ends early. */
static const double deep_table[] = {5,  3,  0,  1,  2,  4,  9,  8,  7,  6,  10, 11, 12, 13, 14, 15,
                                    23, 22, 21, 20, 19, 18, 17, 16, 1,  2,  3,  4,  5,  6,  7,  8,
                                    9,  10, 11, 12, 13, -1, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
static const double deep_sequence[] = {0, 0, 0, 1};
static const double deep_position[] = {1535, 700, 3, 1500};
#define DEEP(what, type, ...)                                                                \
    CASE(IG_OP_ATTENTION_PAGED, what,                                                        \
         IN(TYPED(IG_F32, 4, 2, 16), TYPED(type, 24, 64, 1, 16), TYPED(type, 24, 64, 1, 16), \
            OPERAND(DTYPE(IG_I32), NUMBERS(deep_table), SHAPE(2, 24)),                       \
            OPERAND(DTYPE(IG_I32), NUMBERS(deep_sequence), SHAPE(4)),                        \
            OPERAND(DTYPE(IG_I32), NUMBERS(deep_position), SHAPE(4))),                       \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

/* Eleven pages, more than two spans of a kernel; rows of one text from 600 on, some seen twice, and
 * a second text that breaks off behind its sixth page. */
static const double long_table[] = {3, 1, 4, 0, 5, 9, 2,  6, 8, 7, 10,
                                    2, 0, 5, 7, 1, 9, -1, 6, 3, 4, 8};
static const double long_sequence[] = {0, 0, 0, 0, 1, 1, 0, 1, 0, -1};
static const double long_position[] = {600, 601, 602, 603, 255, 256, 703, 700, 0, 5};
#define LONG(what, type, r, h, g, d, e, ...)                                              \
    CASE(IG_OP_ATTENTION_PAGED, what,                                                     \
         IN(TYPED(IG_F32, r, h, d), TYPED(type, 11, 64, g, d), TYPED(type, 11, 64, g, e), \
            OPERAND(DTYPE(IG_I32), NUMBERS(long_table), SHAPE(2, 11)),                    \
            OPERAND(DTYPE(IG_I32), NUMBERS(long_sequence), SHAPE(r)),                     \
            OPERAND(DTYPE(IG_I32), NUMBERS(long_position), SHAPE(r))),                    \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

/* Seven pages: two spans of a kernel, the second of which is not whole. */
static const double middle_table[] = {3, 1, 4, 0, 5, 6, 2};
static const double middle_sequence[] = {0, 0, 0};
static const double middle_position[] = {440, 255, 256};
#define MIDDLE(what, type, ...)                                                            \
    CASE(IG_OP_ATTENTION_PAGED, what,                                                      \
         IN(TYPED(IG_F32, 3, 4, 16), TYPED(type, 7, 64, 2, 16), TYPED(type, 7, 64, 2, 16), \
            OPERAND(DTYPE(IG_I32), NUMBERS(middle_table), SHAPE(1, 7)),                    \
            OPERAND(DTYPE(IG_I32), NUMBERS(middle_sequence), SHAPE(3)),                    \
            OPERAND(DTYPE(IG_I32), NUMBERS(middle_position), SHAPE(3))),                   \
         ATTRS(ig_attrs_paged, .causal = 1, __VA_ARGS__))

static const ig_case cases[] = {
    MIDDLE("seven pages", IG_F32, .window = 0),
    MIDDLE("seven pages of halves", IG_F16, .window = 200),
    HALF_ATTENTION(IG_BF16, PACKED, 1, 2, 7, 7, 4, 2, 8, 8),
    HALF_ATTENTION(IG_BF16, HEADS_FIRST, 1, 1, 70, 130, 2, 1, 17, 9),
    HALF_ATTENTION(IG_BF16, PACKED, 0, 1, 3, 66, 2, 2, 130, 140),
    HALF_ATTENTION(IG_F16, PACKED, 1, 1, 65, 65, 2, 2, 16, 33),
    LONG("long texts", IG_F32, 10, 4, 2, 8, 12, .window = 0),
    LONG("long texts in halves", IG_F16, 10, 4, 2, 24, 20, .window = 300),
    LONG("long texts in blocks", IG_Q8_0, 10, 3, 1, 32, 64, .softcap = 3),
    LONG("one row of a long text", IG_F16, 1, 8, 2, 64, 64, .window = 0),
    LONG("a prompt in halves", IG_F16, 80, 4, 2, 64, 64, .window = 0),
    LONG("a prompt in floats, heads in threes", IG_F32, 70, 6, 2, 24, 40, .window = 300),
    LONG("a prompt in blocks", IG_Q8_0, 70, 3, 1, 32, 64, .softcap = 3),
    LONG("a prompt in brain halves", IG_BF16, 65, 2, 2, 16, 8, .window = 40),
    LONG("a prompt of wide heads", IG_F16, 66, 4, 2, 96, 80, .window = 0),
    LONG("a prompt of the widest heads", IG_F16, 66, 2, 1, 128, 128, .window = 0),
    LONG("long texts, a head of keys each", IG_F32, 10, 32, 32, 5, 7, .window = 70),
    CACHED("a window", IG_F32, IG_F32, 7, 4, 2, 8, 8, .window = 5),
    CACHED("a window of more than a page", IG_F32, IG_F32, 7, 4, 2, 8, 8, .window = 70),
    CACHED("a window of one", IG_F32, IG_F32, 7, 2, 2, 8, 8, .window = 1),
    CACHED("capped scores", IG_F32, IG_F32, 7, 4, 2, 8, 8, .softcap = 0.75f),
    CACHED("halves", IG_F16, IG_F16, 7, 6, 2, 20, 12, .window = 0),
    CACHED("brain halves", IG_BF16, IG_BF16, 7, 6, 2, 16, 16, .window = 40),
    CACHED("blocks", IG_Q8_0, IG_Q8_0, 7, 6, 2, 64, 32, .window = 0),
    CACHED("blocks, more heads than walk together", IG_Q8_0, IG_Q8_0, 3, 19, 1, 32, 32,
           .window = 0),
    CACHED("keys in halves, values in blocks", IG_F16, IG_Q8_0, 7, 4, 2, 40, 32, .window = 9),
    CACHED("keys in floats, values in halves", IG_F32, IG_F16, 7, 4, 2, 40, 8, .softcap = 2),
    CACHED("keys in blocks, values in floats", IG_Q8_0, IG_F32, 7, 4, 4, 32, 5, .window = 0),
    DEEP("many pages", IG_F32, .window = 0),
    DEEP("many pages, a window over several", IG_F16, .window = 900),
    PAGED("rows of two sequences", 0, 7, 2, 2, 8, 8),
    PAGED("grouped heads, odd widths", 0, 7, 6, 2, 7, 11),
    PAGED("one row, a scale of its own", 0.25f, 1, 4, 1, 16, 16),
    PAGED("many rows", 0, 49, 3, 1, 5, 5),
    PAGED("no rows", 0, 0, 2, 1, 8, 8),
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

const case_table cases_attention = CASE_TABLE(cases);
