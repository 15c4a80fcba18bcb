/* Elements moved about: every axis, pieces of nothing, indices that repeat or point outside. */
#include "conformance/cases.h"

#define COPY(dtype)                                                                                \
    CASE(IG_OP_COPY, "an odd tail", IN(TYPED(dtype, 3, 37))),                                      \
        CASE(IG_OP_COPY, "a scalar", IN(OPERAND(DTYPE(dtype)))),                                   \
        CASE(IG_OP_COPY, "none", IN(TYPED(dtype, 4, 0))),                                          \
        CASE(IG_OP_COPY, "many, transposed",                                                       \
             IN(OPERAND(DTYPE(dtype), .layout = TRANSPOSED, SHAPE(300, 129)))),                    \
        CASE(IG_OP_COPY, "a batch, transposed",                                                    \
             IN(OPERAND(DTYPE(dtype), .layout = TRANSPOSED, SHAPE(3, 2, 80, 130)))),               \
        CASE(IG_OP_COPY, "a slice", IN(OPERAND(DTYPE(dtype), .layout = SLICED, SHAPE(5, 7, 19)))), \
        CASE(IG_OP_COPY, "every other one",                                                        \
             IN(OPERAND(DTYPE(dtype), .layout = STRIDED, SHAPE(9, 21)))),                          \
        CASE(IG_OP_COPY, "heads first",                                                            \
             IN(OPERAND(DTYPE(dtype), .layout = HEADS_FIRST, SHAPE(2, 5, 3, 8)))),                 \
        CASE(IG_OP_COPY, "six dimensions, the other way round",                                    \
             IN(OPERAND(DTYPE(dtype), .layout = COLUMN_MAJOR, SHAPE(2, 1, 3, 2, 1, 5)))),          \
        CASE(IG_OP_COPY, "one row for all", IN(OPERAND(DTYPE(dtype), .repeat = 1, SHAPE(5, 19)))), \
        CASE(IG_OP_COPY, "one column for all",                                                     \
             IN(OPERAND(DTYPE(dtype), .repeat = 2, SHAPE(5, 19)))),                                \
        CASE(IG_OP_COPY, "one for all", IN(OPERAND(DTYPE(dtype), .repeat = 3, SHAPE(5, 19))))

#define PAD(what, operand, before, after, axis) \
    CASE(IG_OP_PAD, what, IN(operand), ATTRS(ig_attrs_pad, before, after, axis, 0))
#define CONCAT(what, axis, ...) \
    CASE(IG_OP_CONCAT, what, IN(__VA_ARGS__), ATTRS(ig_attrs_axis, axis))
#define GATHER(what, axis, x, index) \
    CASE(IG_OP_GATHER, what, IN(x, index), ATTRS(ig_attrs_axis, axis))
#define SCATTER(what, axis, x, index, src) \
    CASE(IG_OP_SCATTER_ADD, what, IN(x, index, src), ATTRS(ig_attrs_axis, axis))
#define EMBEDDING(what, table, ids) CASE(IG_OP_EMBEDDING, what, IN(table, ids))
#define EMBEDDING_GRAD(what, rows, ids, dy) \
    CASE(IG_OP_EMBEDDING_GRAD, what, IN(ids, dy), ATTRS(ig_attrs_rows, rows))

/* Macro arguments that hold commas. */
#define INDEX_SCALAR OPERAND(DTYPE(IG_I32), BETWEEN(2, 2))
#define INDEX_SLICED OPERAND(DTYPE(IG_I32), BETWEEN(0, 6), .layout = SLICED, SHAPE(5, 9))
#define INDEX_ROW    OPERAND(DTYPE(IG_I32), BETWEEN(0, 6), .repeat = 2, SHAPE(9, 19))

static const ig_case cases[] = {
    COPY(IG_F32),
    COPY(IG_F16),
    COPY(IG_BF16),
    COPY(IG_F64),
    COPY(IG_I32),

    PAD("both sides of the last", REAL(5, 7), 2, 3, 1),
    PAD("both sides of the first", REAL(5, 7), 1, 2, 0),
    PAD("the middle", REAL(3, 4, 5), 0, 2, 1),
    PAD("before only", REAL(33), 5, 0, 0),
    PAD("by nothing", REAL(5, 7), 0, 0, 1),
    PAD("nothing, so all is zero", REAL(3, 0), 2, 1, 1),
    PAD("no rows", REAL(0, 3), 2, 1, 1),
    PAD("many", REAL(200, 129), 3, 60, 1),
    PAD("transposed", LAID(TRANSPOSED, 17, 33), 1, 1, 1),
    PAD("a slice", LAID(SLICED, 3, 5, 7), 1, 1, 2),
    PAD("one for all", REPEATED(3, 5, 7), 1, 1, 0),

    CONCAT("one", 0, REAL(5, 7)),
    CONCAT("two rows", 0, REAL(5, 7), REAL(3, 7)),
    CONCAT("columns, one of nothing", 1, REAL(5, 3), REAL(5, 0), REAL(5, 4)),
    CONCAT("the middle", 1, REAL(2, 3, 5), REAL(2, 1, 5), REAL(2, 4, 5), REAL(2, 2, 5)),
    CONCAT("nothing at all", 0, REAL(0, 4), REAL(0, 4)),
    CONCAT("no columns", 0, REAL(2, 0), REAL(3, 0)),
    CONCAT("vectors", 0, REAL(17), REAL(1), REAL(33)),
    CONCAT("many", 1, REAL(300, 65), REAL(300, 64)),
    CONCAT("every layout", 1, LAID(TRANSPOSED, 9, 5), LAID(SLICED, 9, 7), LAID(STRIDED, 9, 3),
           REPEATED(1, 9, 4), REPEATED(3, 9, 2)),

    GATHER("rows", 0, REAL(7, 5), INDEX(0, 6, 9, 5)),
    GATHER("columns", 1, REAL(5, 7), INDEX(0, 6, 5, 9)),
    GATHER("the middle", 1, REAL(3, 7, 5), INDEX(0, 6, 3, 2, 5)),
    GATHER("some from outside", 1, REAL(5, 7), INDEX(-2, 8, 5, 30)),
    GATHER("from nothing", 0, REAL(0, 5), INDEX(0, 2, 4, 5)),
    GATHER("nothing", 0, REAL(7, 5), INDEX(0, 6, 0, 5)),
    GATHER("many", 1, REAL(300, 129), INDEX(0, 128, 300, 100)),
    GATHER("from a transposed one", 1, LAID(TRANSPOSED, 5, 7), INDEX(0, 6, 5, 9)),
    GATHER("a slice of an index", 1, LAID(SLICED, 5, 7), INDEX_SLICED),
    GATHER("one index for a row", 0, REAL(7, 19), INDEX_ROW),

    SCATTER("rows", 0, REAL(7, 5), INDEX(0, 6, 9, 5), REAL(9, 5)),
    SCATTER("columns, many to one", 1, REAL(5, 3), INDEX(0, 2, 5, 40), REAL(5, 40)),
    SCATTER("the middle", 1, REAL(3, 7, 5), INDEX(0, 6, 3, 2, 5), REAL(3, 2, 5)),
    SCATTER("some to outside", 1, REAL(5, 7), INDEX(-2, 8, 5, 30), REAL(5, 30)),
    SCATTER("nothing", 0, REAL(7, 5), INDEX(0, 6, 0, 5), REAL(0, 5)),
    SCATTER("to nothing", 0, REAL(0, 5), INDEX(0, 6, 3, 5), REAL(3, 5)),
    SCATTER("many", 1, REAL(300, 129), INDEX(0, 128, 300, 100), REAL(300, 100)),
    SCATTER("to one for all", 0, REPEATED(3, 7, 5), INDEX(0, 6, 9, 5), LAID(SLICED, 9, 5)),
    SCATTER("a slice of an index", 1, LAID(TRANSPOSED, 5, 7), INDEX_SLICED, LAID(STRIDED, 5, 9)),
    SCATTER("one slope for all", 1, REAL(5, 7), INDEX(0, 6, 5, 9), REPEATED(3, 5, 9)),

    EMBEDDING("a list", REAL(11, 17), INDEX(0, 10, 9)),
    EMBEDDING("a batch", REAL(11, 17), INDEX(0, 10, 3, 5)),
    EMBEDDING("one id", REAL(11, 17), INDEX_SCALAR),
    EMBEDDING("some outside", REAL(11, 17), INDEX(-3, 13, 40)),
    EMBEDDING("no ids", REAL(11, 17), INDEX(0, 10, 0)),
    EMBEDDING("rows of nothing", REAL(11, 0), INDEX(0, 10, 4)),
    EMBEDDING("no table", REAL(0, 5), INDEX(0, 10, 4)),
    EMBEDDING("many", REAL(50, 129), INDEX(0, 49, 300)),
    EMBEDDING("a transposed table", LAID(TRANSPOSED, 11, 17), INDEX(0, 10, 3, 5)),
    EMBEDDING("slices", LAID(SLICED, 7, 17), INDEX_SLICED),
    EMBEDDING("a weight", WEIGHT(11, 17), INDEX(0, 10, 9)),

    EMBEDDING_GRAD("a list", 11, INDEX(0, 10, 9), REAL(9, 17)),
    EMBEDDING_GRAD("a batch, many to one", 3, INDEX(0, 2, 8, 5), REAL(8, 5, 17)),
    EMBEDDING_GRAD("one id", 5, INDEX_SCALAR, REAL(17)),
    EMBEDDING_GRAD("some outside", 11, INDEX(-3, 13, 40), REAL(40, 17)),
    EMBEDDING_GRAD("no ids", 4, INDEX(0, 3, 0), REAL(0, 17)),
    EMBEDDING_GRAD("rows of nothing", 4, INDEX(0, 3, 5), REAL(5, 0)),
    EMBEDDING_GRAD("no table", 0, INDEX(0, 3, 5), REAL(5, 3)),
    EMBEDDING_GRAD("in parts", 9, INDEX(-1, 9, 1100), RANGE(-0.25, 0.25, 1100, 17)),
    EMBEDDING_GRAD("many", 50, INDEX(0, 49, 300), REAL(300, 129)),
    EMBEDDING_GRAD("slices", 7, INDEX_SLICED, LAID(SLICED, 5, 9, 17)),
    EMBEDDING_GRAD("one slope for all", 11, INDEX(0, 10, 9), REPEATED(3, 9, 17)),
};

const case_table cases_move = CASE_TABLE(cases);
