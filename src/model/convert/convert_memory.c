#include "model/convert/convert_memory.h"

#include <string.h>

#include "base/json_parse.h"
#include "base/quant_blocks.h"
#include "format/quantize/quantize.h"
#include "model/convert/convert_parts.h"

/* ---- The source ---- */

static bool is_float(ig_dtype dtype) {
    return dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16;
}

static ig_status lend_tensor(const ig_conversion *c, const ig_named_tensor *t, ig_safetensor *out) {
    uint64_t n_bytes = 0;
    if (!t->name || !t->data)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: tensor %zu (%s) has no %s", c->dir,
                       (size_t)(t - c->source->tensors), t->name ? t->name : "?",
                       t->name ? "data" : "name");
    if (!ig_shape_valid(t->desc.shape) || !ig_desc_bytes(t->desc, &n_bytes))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: tensor %s has no valid shape", c->dir, t->name);
    *out = (ig_safetensor){.name = t->name,
                           .type = ig_dtype_name(t->desc.dtype),
                           .readable = is_float(t->desc.dtype),
                           .desc = t->desc,
                           .bytes = t->data,
                           .n_bytes = n_bytes};
    return IG_OK;
}

ig_status convert_open_source(ig_conversion *c) {
    const ig_model_source *s = c->source;
    if (!s->config || !s->tensors || s->n_tensors == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: has no %s", c->dir, s->config ? "tensors" : "config");
    IG_TRY(ig_json_parse(c->dir, "config.json", s->config, strlen(s->config), &c->config));
    c->own = ig_alloc(c->allocator, s->n_tensors, sizeof *c->own);
    if (!c->own)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", c->dir, s->n_tensors);
    for (; c->n_own < s->n_tensors; c->n_own++)
        IG_TRY(lend_tensor(c, &s->tensors[c->n_own], &c->own[c->n_own]));
    return IG_OK;
}

ig_status convert_source_documents(const ig_conversion *c, convert_documents *docs) {
    const ig_model_source *s = c->source;
    IG_TRY(ig_json_parse(c->dir, "tokenizer.json", s->tokenizer, strlen(s->tokenizer),
                         &docs->tokenizer));
    if (s->tokenizer_config)
        IG_TRY(ig_json_parse_reals(c->dir, "tokenizer_config.json", s->tokenizer_config,
                                   strlen(s->tokenizer_config), &docs->config));
    if (s->generation_config)
        IG_TRY(ig_json_parse(c->dir, "generation_config.json", s->generation_config,
                             strlen(s->generation_config), &docs->generation));
    return IG_OK;
}

/* ---- The file ---- */

/* The type that a file has for it, if its matrices are as the source's. */
static ig_dtype type_of(const convert_view *v) {
    ig_dtype dtype = v->n_pieces > 0 ? v->pieces[0]->desc.dtype : IG_F32;
    for (size_t i = 1; i < v->n_pieces; i++)
        if (v->pieces[i]->desc.dtype != dtype) dtype = IG_F32;
    const ig_recipe *recipe = ig_recipe_find(ig_dtype_name(dtype));
    const char *why;
    return ig_recipe_type(recipe, &(ig_recipe_model){0}, v->name, (ig_desc){IG_F32, v->shape},
                          &why);
}

/* The bytes of the file are those of the source. */
static bool is_in_place(const convert_view *v, ig_dtype dtype) {
    return v->n_pieces == 1 && v->order == ROWS_AS_THEY_ARE && v->add == 0 &&
           v->pieces[0]->desc.dtype == dtype &&
           (uintptr_t)v->pieces[0]->bytes % (dtype == IG_F32 ? 4 : 2) == 0;
}

static void write_elements(const ig_gguf_output *product, char *to) {
    enum { AT_ONCE = 4096 };
    float x[AT_ONCE];
    const int64_t count = ig_shape_count(product->desc.shape);
    for (int64_t i = 0; i < count; i += AT_ONCE) {
        const int64_t n = count - i < AT_ONCE ? count - i : AT_ONCE;
        convert_read_view(product, i, n, x);
        ig_quantize(product->desc.dtype, x, to + ig_bytes_of(product->desc.dtype, i), n);
    }
}

/* Elements of `bytes` bytes: [columns, rows] -> [rows, columns], in blocks that stay in the cache.
 */
static inline void transpose(const char *from, char *to, size_t rows, size_t columns,
                             const size_t bytes) {
    enum { BLOCK = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (size_t c0 = 0; c0 < columns; c0 += BLOCK)
            for (size_t r = r0; r < r0 + BLOCK && r < rows; r++)
                for (size_t c = c0; c < c0 + BLOCK && c < columns; c++)
                    memcpy(to + (r * columns + c) * bytes, from + (c * rows + r) * bytes, bytes);
}

static void copy_piece(const convert_view *v, const ig_safetensor *t, size_t rows, size_t columns,
                       char *to) {
    const size_t bytes = (size_t)ig_bytes_of(t->desc.dtype, 1), row_bytes = columns * bytes;
    if (v->order == TRANSPOSED && bytes == 2) {
        transpose(t->bytes, to, rows, columns, 2);
    } else if (v->order == TRANSPOSED) {
        transpose(t->bytes, to, rows, columns, 4);
    } else {
        for (size_t row = 0; row < rows; row++)
            memcpy(to + row * row_bytes,
                   (const char *)t->bytes + row_bytes * (size_t)convert_source_row(v, (int64_t)row),
                   row_bytes);
    }
}

/* In another order or from several tensors, without a change of an element; false: not so. */
static bool copy_pieces(const convert_view *v, ig_dtype dtype, char *to) {
    const size_t columns = v->shape.rank > 1 ? (size_t)v->shape.dim[v->shape.rank - 1] : 1;
    if (v->n_pieces == 0 || v->add != 0 || columns == 0) return false;
    for (size_t i = 0; i < v->n_pieces; i++)
        if (v->pieces[i]->desc.dtype != dtype) return false;
    const size_t rows = (size_t)ig_shape_count(v->shape) / columns / v->n_pieces;
    const size_t piece_bytes = rows * columns * (size_t)ig_bytes_of(dtype, 1);
    for (size_t i = 0; i < v->n_pieces; i++)
        copy_piece(v, v->pieces[i], rows, columns, to + i * piece_bytes);
    return true;
}

static ig_status place(const ig_conversion *c, size_t i, ig_memory_file *f) {
    const convert_view *v = &c->views[i];
    const ig_gguf_output *product = &c->products[i];
    uint64_t n_bytes = 0;
    if (is_in_place(v, product->desc.dtype)) {
        ig_gguf_set_bytes(f->file, i, v->pieces[0]->bytes);
        return IG_OK;
    }
    if (ig_desc_bytes(product->desc, &n_bytes))
        f->copies[i] = ig_alloc(f->allocator, (size_t)n_bytes, 1);
    if (!f->copies[i]) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", c->dir, v->name);
    if (v->computed)
        memcpy(f->copies[i], v->computed, (size_t)n_bytes);
    else if (!copy_pieces(v, product->desc.dtype, f->copies[i]))
        write_elements(product, f->copies[i]);
    f->copied_bytes += n_bytes;
    ig_gguf_set_bytes(f->file, i, f->copies[i]);
    return IG_OK;
}

static ig_status keep_head(ig_conversion *c, ig_gguf_writer *w, ig_memory_file *f) {
    uint64_t n_bytes;
    IG_TRY(convert_put_head(c, w));
    const void *head = ig_gguf_writer_head(w, &n_bytes);
    f->head = ig_alloc(f->allocator, (size_t)n_bytes, 1);
    if (!f->head) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its keys", c->dir);
    memcpy(f->head, head, (size_t)n_bytes);
    return ig_gguf_open_head(f->allocator, c->dir, f->head, n_bytes, &f->file);
}

ig_status ig_memory_file_make(ig_conversion *c, ig_memory_file *f) {
    ig_gguf_writer *w = NULL;
    *f = (ig_memory_file){.allocator = c->allocator, .n_copies = c->n_views};
    f->copies = ig_alloc(c->allocator, c->n_views, sizeof *f->copies);
    c->products = ig_alloc(c->allocator, c->n_views, sizeof *c->products);
    if (!f->copies || !c->products)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its tensors", c->dir);
    for (size_t i = 0; i < c->n_views; i++) {
        const convert_view *v = &c->views[i];
        c->products[i] =
            (ig_gguf_output){.name = v->name, .desc = {type_of(v), v->shape}, .source = v};
    }
    IG_TRY(ig_gguf_writer_create(c->allocator, c->dir, &w));
    ig_status status = keep_head(c, w, f);
    ig_gguf_writer_destroy(w);
    for (size_t i = 0; i < c->n_views && status == IG_OK; i++) status = place(c, i, f);
    return status;
}

void ig_memory_file_deinit(ig_memory_file *f) {
    ig_gguf_close(f->file);
    for (size_t i = 0; f->copies && i < f->n_copies; i++) ig_free(f->allocator, f->copies[i]);
    ig_free(f->allocator, (void *)f->copies);
    ig_free(f->allocator, f->head);
    *f = (ig_memory_file){0};
}
