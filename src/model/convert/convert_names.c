/*
 * Maps tensor names by a table of patterns. '#' matches a layer index, '@' an expert index.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/quant_blocks.h"
#include "model/convert/convert_parts.h"

enum { NAME_BYTES = 64, MAX_NUMBER = 99999 };

/* ---- The table ---- */

typedef enum family { DECODER, GEMMA, GPT2, BERT, OWN } family;

typedef struct name_row {
    family family;
    const char *from; /* without the suffix ".weight" or ".bias" */
    const char *to;   /* the same; NULL: left out */
} name_row;

static const name_row rows[] = {
    {DECODER, "model.embed_tokens", "token_embd"},
    {DECODER, "model.norm", "output_norm"},
    {DECODER, "lm_head", "output"},
    {DECODER, "model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {DECODER, "model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {DECODER, "model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {DECODER, "model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {DECODER, "model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {DECODER, "model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {DECODER, "model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {DECODER, "model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {DECODER, "model.layers.#.self_attn.rotary_emb.inv_freq", NULL},
    {DECODER, "model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {DECODER, "model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {DECODER, "model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {DECODER, "model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
    {DECODER, "model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {DECODER, "model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
    {DECODER, "model.layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps"},
    {DECODER, "model.layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps"},
    {DECODER, "model.layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps"},

    /* Patterns that differ in gemma; the others are as above. */
    {GEMMA, "model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {GEMMA, "model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {GEMMA, "model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},

    {GPT2, "wte", "token_embd"},
    {GPT2, "wpe", "position_embd"},
    {GPT2, "ln_f", "output_norm"},
    {GPT2, "lm_head", "output"},
    {GPT2, "h.#.ln_1", "blk.#.attn_norm"},
    {GPT2, "h.#.attn.c_attn", "blk.#.attn_qkv"},
    {GPT2, "h.#.attn.c_proj", "blk.#.attn_output"},
    {GPT2, "h.#.attn", NULL}, /* .bias: the causal mask */
    {GPT2, "h.#.attn.masked_bias", NULL},
    {GPT2, "h.#.ln_2", "blk.#.ffn_norm"},
    {GPT2, "h.#.mlp.c_fc", "blk.#.ffn_up"},
    {GPT2, "h.#.mlp.c_proj", "blk.#.ffn_down"},

    {BERT, "embeddings.word_embeddings", "token_embd"},
    {BERT, "embeddings.position_embeddings", "position_embd"},
    {BERT, "embeddings.token_type_embeddings", "token_types"},
    {BERT, "embeddings.LayerNorm", "token_embd_norm"},
    {BERT, "embeddings.position_ids", NULL},
    {BERT, "pooler.dense", NULL},
    {BERT, "encoder.layer.#.attention.self.query", "blk.#.attn_q"},
    {BERT, "encoder.layer.#.attention.self.key", "blk.#.attn_k"},
    {BERT, "encoder.layer.#.attention.self.value", "blk.#.attn_v"},
    {BERT, "encoder.layer.#.attention.output.dense", "blk.#.attn_output"},
    {BERT, "encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm"},
    {BERT, "encoder.layer.#.intermediate.dense", "blk.#.ffn_up"},
    {BERT, "encoder.layer.#.output.dense", "blk.#.ffn_down"},
    {BERT, "encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm"},

    {OWN, "embed", "token_embd"},
    {OWN, "positions", "position_embd"},
    {OWN, "norm", "output_norm"},
    {OWN, "head", "output"},
    {OWN, "layers.#.attn_norm", "blk.#.attn_norm"},
    {OWN, "layers.#.q", "blk.#.attn_q"},
    {OWN, "layers.#.k", "blk.#.attn_k"},
    {OWN, "layers.#.v", "blk.#.attn_v"},
    {OWN, "layers.#.qkv", "blk.#.attn_qkv"},
    {OWN, "layers.#.o", "blk.#.attn_output"},
    {OWN, "layers.#.ffn_norm", "blk.#.ffn_norm"},
    {OWN, "layers.#.gate", "blk.#.ffn_gate"},
    {OWN, "layers.#.up", "blk.#.ffn_up"},
    {OWN, "layers.#.down", "blk.#.ffn_down"},
};

/* Prefixes of tensors outside the language model, which are left out. */
static const char *const left_out[] = {"vision_tower.", "multi_modal_projector.", "cls.",
                                       "model.vision_tower.", "model.multi_modal_projector."};

/* ---- Matching ---- */

typedef struct match {
    const name_row *row;
    int layer, expert; /* expert -1: none */
    const char *tail;  /* ".weight", ".bias" or "" */
} match;

/* Parses an integer without sign or leading zeros; returns its end, or NULL. */
static const char *take_number(const char *p, int *out) {
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return NULL;
    for (*out = 0; *p >= '0' && *p <= '9'; p++)
        if ((*out = *out * 10 + (*p - '0')) > MAX_NUMBER) return NULL;
    return p;
}

static bool matches(const char *pattern, const char *name, match *m) {
    m->layer = 0;
    m->expert = -1;
    for (; *pattern; pattern++) {
        if (*pattern == '#' || *pattern == '@') {
            name = take_number(name, *pattern == '#' ? &m->layer : &m->expert);
            if (!name) return false;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    m->tail = name;
    return strcmp(name, ".weight") == 0 || strcmp(name, ".bias") == 0 || *name == 0;
}

static bool find_in(family f, const char *name, match *m) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        m->row = &rows[i];
        if (rows[i].family == f && matches(rows[i].from, name, m)) return true;
    }
    return false;
}

static bool find_row(const convert_arch *arch, const char *name, match *m) {
    if (arch->own) return find_in(OWN, name, m);
    if (arch->gpt2) return find_in(GPT2, name, m);
    if (arch->bert) return find_in(BERT, name, m);
    return (arch->gemma3 && find_in(GEMMA, name, m)) || find_in(DECODER, name, m);
}

/* Expands "blk.#.attn_q" with a layer index to "blk.3.attn_q.weight". */
static bool target_name(const match *m, char out[NAME_BYTES]) {
    const char *hash = strchr(m->row->to, '#');
    const int n = hash ? snprintf(out, NAME_BYTES, "%.*s%d%s%s", (int)(hash - m->row->to),
                                  m->row->to, m->layer, hash + 1, m->tail)
                       : snprintf(out, NAME_BYTES, "%s%s", m->row->to, m->tail);
    return n > 0 && n < NAME_BYTES;
}

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

/* ---- Names of the source ---- */

/* A row that the architecture has: phi3's gate and up are one matrix. */
static bool is_row_of(const convert_arch *arch, const name_row *row, family f) {
    static const char split[] = "model.layers.#.mlp.up_proj";
    return row->family == f && row->to && !(arch->phi3 && strcmp(row->from, split) == 0);
}

static bool find_source_row(const convert_arch *arch, family f, const char *name, match *m) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        m->row = &rows[i];
        if (is_row_of(arch, m->row, f) && matches(m->row->to, name, m)) return true;
    }
    return false;
}

/* The optional prefix, if the source uses it. */
static const char *used_prefix(const ig_conversion *c, const name_row *row) {
    const char *prefix = c->arch->prefix;
    if (!prefix || strcmp(row->from, "lm_head") == 0) return "";
    for (size_t i = 0; i < c->n_own; i++)
        if (begins(c->own[i].name, prefix)) return prefix;
    return "";
}

const char *ig_conversion_source_name(const void *conversion, const char *name, char *out,
                                      size_t room) {
    const ig_conversion *c = conversion;
    match m;
    const family f = c->arch->gpt2 ? GPT2 : c->arch->bert ? BERT : DECODER;
    if (!(c->arch->gemma3 && find_source_row(c->arch, GEMMA, name, &m)) &&
        !find_source_row(c->arch, f, name, &m))
        return name;
    const char *prefix = used_prefix(c, m.row), *hash = strchr(m.row->from, '#');
    const int before = hash ? (int)(hash - m.row->from) : (int)strlen(m.row->from);
    char layer[16] = "";
    if (hash) snprintf(layer, sizeof layer, "%d", m.layer);
    const int n = snprintf(out, room, "%s%.*s%s%s%s", prefix, before, m.row->from, layer,
                           hash ? hash + 1 : "", m.tail);
    return n > 0 && (size_t)n < room ? out : name;
}

/* ---- Views ---- */

static convert_view *add_view(ig_conversion *c, const char *name, size_t n_pieces) {
    if (!IG_GROW(c->allocator, c->views, &c->view_capacity, c->n_views + 1)) return NULL;
    const ig_safetensor **pieces = ig_alloc(c->allocator, n_pieces, sizeof(*pieces));
    if (!pieces) return NULL;
    convert_view *v = &c->views[c->n_views++];
    snprintf(v->name, sizeof v->name, "%s", name);
    v->pieces = pieces;
    v->n_pieces = n_pieces;
    return v;
}

ig_status convert_add_computed(ig_conversion *c, const char *name, float *numbers, int64_t n) {
    convert_view *v = numbers ? add_view(c, name, 0) : NULL;
    if (!v) {
        ig_free(c->allocator, numbers);
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", c->dir, name);
    }
    v->computed = numbers;
    v->shape = IG_SHAPE(n);
    return IG_OK;
}

/* Searches from the end: the experts' views are the most recent. */
static convert_view *find_view(const ig_conversion *c, const char *name) {
    for (size_t i = c->n_views; i-- > 0;)
        if (strcmp(c->views[i].name, name) == 0) return &c->views[i];
    return NULL;
}

/* Chooses how the elements are reordered or changed. */
static void set_order(const ig_conversion *c, const match *m, const ig_safetensor *t,
                      convert_view *v) {
    const bool is_weight = strcmp(m->tail, ".weight") == 0;
    const bool is_q =
        strstr(m->row->to, ".attn_q") && !strstr(m->row->to, "_norm") && !strstr(m->row->to, "qkv");
    const bool is_k = strstr(m->row->to, ".attn_k") && !strstr(m->row->to, "_norm");
    v->shape = t->desc.shape;
    if (c->arch->interleaved && (is_q || is_k)) {
        v->order = ROWS_INTERLEAVED;
        v->head_rows = t->desc.shape.dim[0] / (is_q ? c->heads : c->kv_heads);
    }
    if (c->arch->norms_from_one && is_weight && strstr(m->row->to, "norm")) v->add = 1;
    const bool is_matrix = t->desc.shape.rank == 2 && strstr(m->row->to, "blk.");
    if (c->arch->gpt2 && is_matrix) {
        v->order = TRANSPOSED;
        v->shape = IG_SHAPE(t->desc.shape.dim[1], t->desc.shape.dim[0]);
    }
}

static ig_status check_order(const ig_conversion *c, const ig_safetensor *t,
                             const convert_view *v) {
    const int64_t heads = v->head_rows > 0 ? t->desc.shape.dim[0] / v->head_rows : 1;
    if (v->order != ROWS_INTERLEAVED ||
        (t->desc.shape.rank > 0 && v->head_rows > 0 && v->head_rows % 2 == 0 &&
         heads * v->head_rows == t->desc.shape.dim[0]))
        return IG_OK;
    char shape[IG_SHAPE_TEXT_BYTES];
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s: %s: %s is not made of %lld heads with an even number of rows", c->dir,
                   t->name, ig_shape_text(t->desc.shape, shape), (long long)c->heads);
}

static ig_status add_tensor(ig_conversion *c, const match *m, const ig_safetensor *t) {
    char name[NAME_BYTES];
    if (!target_name(m, name) || t->desc.shape.rank == 0 || t->desc.shape.rank > 3)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: its name or shape cannot be written", c->dir,
                       t->name);
    convert_view *v = add_view(c, name, 1);
    if (!v) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", c->dir, t->name);
    v->pieces[0] = t;
    set_order(c, m, t, v);
    return check_order(c, t, v);
}

/* Adds an expert to the file's stacked tensor [experts, rows, columns]. */
static ig_status add_expert(ig_conversion *c, const match *m, const ig_safetensor *t) {
    char name[NAME_BYTES];
    if (!target_name(m, name) || t->desc.shape.rank != 2 || m->expert >= c->n_experts)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: is not a matrix of one of %lld experts", c->dir,
                       t->name, (long long)c->n_experts);
    convert_view *v = find_view(c, name);
    if (!v) v = add_view(c, name, (size_t)c->n_experts);
    if (!v) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %s", c->dir, t->name);
    const ig_shape shape = IG_SHAPE(c->n_experts, t->desc.shape.dim[0], t->desc.shape.dim[1]);
    if (v->shape.rank != 0 && !ig_shape_equal(v->shape, shape))
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s: its shape differs from that of the experts before it", c->dir,
                       t->name);
    v->shape = shape;
    v->pieces[m->expert] = t;
    return IG_OK;
}

static ig_status map_tensor(ig_conversion *c, const ig_safetensor *t, bool tied) {
    const char *name = t->name;
    if (c->arch->prefix && begins(name, c->arch->prefix)) name += strlen(c->arch->prefix);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (begins(name, left_out[i])) return IG_OK;
    match m;
    if (!find_row(c->arch, name, &m))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: is not a known tensor of %s", c->dir, t->name,
                       c->arch->model);
    if (!m.row->to || (tied && strcmp(m.row->to, "output") == 0)) return IG_OK;
    if (!t->readable || !ig_blocks_can_dequantize(t->desc.dtype))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: is of type %s; only F32, F16 and BF16 are converted",
                       c->dir, t->name, t->type);
    return m.expert >= 0 ? add_expert(c, &m, t) : add_tensor(c, &m, t);
}

/* Whether the embedding is tied to the output head. */
static bool is_tied(const ig_conversion *c) {
    const json_t *tie = json_object_get(c->text, "tie_word_embeddings");
    return tie ? json_is_true(tie) : c->arch->gemma3 || c->arch->gpt2;
}

ig_status convert_check_output(const ig_conversion *c) {
    if (c->arch->bert || is_tied(c) || find_view(c, "output.weight")) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s: %s.weight is missing, and tie_word_embeddings does not say that the "
                   "embedding is taken for it",
                   c->dir, c->arch->own ? "head" : "lm_head");
}

ig_status convert_map_tensors(ig_conversion *c) {
    const bool tied = is_tied(c);
    const size_t count = c->own ? c->n_own : ig_safetensors_count(c->tensors);
    for (size_t i = 0; i < count; i++)
        IG_TRY(map_tensor(c, c->own ? &c->own[i] : ig_safetensors_at(c->tensors, i), tied));
    for (size_t i = 0; i < c->n_views; i++)
        for (size_t p = 0; p < c->views[i].n_pieces; p++)
            if (!c->views[i].pieces[p])
                return IG_FAIL(IG_ERR_FORMAT, "%s: %s: expert %zu of %lld is missing", c->dir,
                               c->views[i].name, p, (long long)c->n_experts);
    return IG_OK;
}

/* ---- Elements ---- */

/* The source row of the file's row `row`. The folder has NeoX order (i and i + n/2 are a pair),
 * the file has interleaved order (i and i + 1). */
int64_t convert_source_row(const convert_view *v, int64_t row) {
    if (v->order != ROWS_INTERLEAVED) return row;
    const int64_t in_head = row % v->head_rows;
    return row - in_head + in_head % 2 * (v->head_rows / 2) + in_head / 2;
}

static void read_at(const ig_safetensor *t, int64_t at, int64_t n, float *out) {
    ig_blocks_dequantize(t->desc.dtype, (const char *)t->bytes + ig_bytes_of(t->desc.dtype, at),
                         out, n);
}

/* Reads elements column to column + n of a row of a piece; they must not go past its end. */
static void read_row(const convert_view *v, const ig_safetensor *t, int64_t row, int64_t column,
                     int64_t n, float *out) {
    const int32_t rank = v->shape.rank;
    const int64_t columns = rank > 1 ? v->shape.dim[rank - 1] : 1;
    if (v->order == TRANSPOSED) {
        const int64_t n_rows = v->shape.dim[0];
        for (int64_t i = 0; i < n; i++) read_at(t, (column + i) * n_rows + row, 1, out + i);
    } else {
        read_at(t, convert_source_row(v, row) * columns + column, n, out);
    }
    for (int64_t i = 0; i < n && v->add != 0; i++) out[i] += v->add;
}

void convert_read_view(const ig_gguf_output *product, int64_t first, int64_t n, float *out) {
    const convert_view *v = product->source;
    const int32_t rank = v->shape.rank;
    const int64_t columns = rank > 1 ? v->shape.dim[rank - 1] : 1;
    const int64_t piece = ig_shape_count(v->shape) / (int64_t)v->n_pieces;
    while (n > 0) {
        const int64_t in_piece = first % piece, column = in_piece % columns;
        const int64_t rest = columns - column, take = n < rest ? n : rest;
        read_row(v, v->pieces[first / piece], in_piece / columns, column, take, out);
        first += take;
        out += take;
        n -= take;
    }
}
