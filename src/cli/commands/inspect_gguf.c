/* ingot inspect of a GGUF model: its keys, the dtypes of its weights, its memory. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quant_blocks.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/cmd_inspect.h"
#include "ingot/gguf.h"
#include "ingot/session.h"

enum { VALUE_BYTES = 200, KEY_BYTES = 160, SHOWN_ELEMENTS = 8, FULL_ELEMENTS = 16 };

/* ---- What the model is ---- */

typedef struct shape_of_model {
    char arch[64];
    int64_t context, layers, embedding, heads, feed_forward, tokens, experts;
    int64_t kv_values; /* KV cache elements per position, over all layers */
    bool causal;       /* false: no KV cache */
} shape_of_model;

static int64_t arch_int(const ig_gguf *gguf, const shape_of_model *m, const char *name,
                        int64_t absent) {
    char key[KEY_BYTES];
    int64_t x;
    snprintf(key, sizeof key, "%s.%s", m->arch, name);
    return ig_gguf_int(gguf, key, &x) && x >= 0 && x <= INT32_MAX ? x : absent;
}

/* The sum of KV heads over all layers: the key holds one number for all, or one per layer. */
static int64_t kv_heads(const ig_gguf *gguf, const shape_of_model *m) {
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", m->arch);
    const ig_gguf_value *value = ig_gguf_find(gguf, key);
    if (!value || value->type != IG_GGUF_ARRAY || !value->packed)
        return m->layers * arch_int(gguf, m, "attention.head_count_kv", m->heads);
    int64_t sum = 0;
    for (uint64_t i = 0; i < value->count && i < (uint64_t)m->layers; i++) {
        const int64_t heads = ig_gguf_int_at(value, i);
        sum += heads > 0 && heads <= INT32_MAX ? heads : 0;
    }
    return sum;
}

static shape_of_model shape_of(const ig_gguf *gguf) {
    shape_of_model m = {.causal = true};
    ig_string_view arch;
    char key[KEY_BYTES];
    if (ig_gguf_string(gguf, "general.architecture", &arch) && arch.n_bytes < sizeof m.arch)
        memcpy(m.arch, arch.bytes, (size_t)arch.n_bytes);
    m.context = arch_int(gguf, &m, "context_length", 0);
    m.layers = arch_int(gguf, &m, "block_count", 0);
    m.embedding = arch_int(gguf, &m, "embedding_length", 0);
    m.heads = arch_int(gguf, &m, "attention.head_count", 0);
    m.feed_forward = arch_int(gguf, &m, "feed_forward_length", 0);
    m.experts = arch_int(gguf, &m, "expert_count", 0);
    const int64_t head = m.heads > 0 ? m.embedding / m.heads : 0;
    const int64_t key_length = arch_int(gguf, &m, "attention.key_length", head);
    const int64_t value_length = arch_int(gguf, &m, "attention.value_length", head);
    snprintf(key, sizeof key, "%s.attention.causal", m.arch);
    if (!ig_gguf_bool(gguf, key, &m.causal)) m.causal = true;
    if (__builtin_mul_overflow(kv_heads(gguf, &m), key_length + value_length, &m.kv_values))
        m.kv_values = 0;
    const ig_gguf_value *tokens = ig_gguf_find(gguf, "tokenizer.ggml.tokens");
    m.tokens = tokens ? (int64_t)tokens->count : 0;
    return m;
}

/* ---- What it is made of ---- */

typedef struct totals {
    uint64_t elements, bytes;
    uint64_t count_of[IG_DTYPE_COUNT], bytes_of[IG_DTYPE_COUNT];
} totals;

static totals add_up(const ig_gguf *gguf) {
    totals t = {0};
    for (size_t i = 0; i < ig_gguf_n_tensors(gguf); i++) {
        const ig_gguf_tensor *tensor = ig_gguf_tensor_at(gguf, i);
        t.elements += (uint64_t)ig_shape_count(tensor->desc.shape);
        t.bytes += tensor->n_bytes;
        t.count_of[tensor->desc.dtype]++;
        t.bytes_of[tensor->desc.dtype] += tensor->n_bytes;
    }
    return t;
}

/* Estimated memory with default options: the weights as stored, an F16 KV cache, and for one
 * ubatch the widest activations in F32 plus one row of logits. */
typedef struct memory {
    int64_t positions; /* of the KV cache: the context length */
    uint64_t cache;
    uint64_t weights, activations;
} memory;

static uint64_t cache_bytes(const shape_of_model *m, int64_t positions) {
    uint64_t values;
    if (__builtin_mul_overflow((uint64_t)m->kv_values, (uint64_t)positions, &values)) return 0;
    return values < UINT64_MAX / 2 ? 2 * values : 0;
}

static memory estimate(const shape_of_model *m, const totals *t) {
    memory e = {.weights = t->bytes};
    if (m->causal) {
        e.positions = m->context;
        e.cache = cache_bytes(m, e.positions);
    }
    const uint64_t widest = (uint64_t)(4 * m->embedding + 2 * m->feed_forward);
    e.activations = 4 * (IG_SESSION_UBATCH_DEFAULT * widest + (uint64_t)m->tokens);
    return e;
}

/* ---- Values as text and as JSON ---- */

/* A string of the file, safe for terminals; truncates. */
static const char *safe(ig_string_view text, char *out, size_t out_bytes) {
    char raw[VALUE_BYTES];
    size_t n = text.n_bytes < sizeof raw - 1 ? (size_t)text.n_bytes : sizeof raw - 1;
    for (size_t i = 0; i < n; i++) raw[i] = text.bytes[i] ? text.bytes[i] : '?';
    raw[n] = 0;
    return ig_text_safe(raw, out, out_bytes);
}

static bool is_real(ig_gguf_type type) { return type == IG_GGUF_F32 || type == IG_GGUF_F64; }

/* Formats element i of a value; returns the bytes written to `out`. */
static size_t element_text(const ig_gguf_value *v, uint64_t i, char *out, size_t out_bytes) {
    const ig_gguf_type type = v->type == IG_GGUF_ARRAY ? v->elements : v->type;
    char text[VALUE_BYTES];
    const char *quote = v->type == IG_GGUF_ARRAY ? "\"" : "";
    int n;
    if (v->texts)
        n = snprintf(out, out_bytes, "%s%s%s", quote, safe(v->texts[i], text, sizeof text), quote);
    else if (type == IG_GGUF_BOOL)
        n = snprintf(out, out_bytes, "%s", ig_gguf_int_at(v, i) ? "true" : "false");
    else if (is_real(type))
        n = snprintf(out, out_bytes, "%.9g", ig_gguf_real_at(v, i));
    else
        n = snprintf(out, out_bytes, "%" PRId64, ig_gguf_int_at(v, i));
    return n < 0 ? 0 : (size_t)n < out_bytes ? (size_t)n : out_bytes - 1;
}

/* "3, -2, 1", or the first elements of many. */
static void value_text(const ig_gguf_value *v, char out[VALUE_BYTES]) {
    size_t at = 0;
    *out = 0;
    if (v->type == IG_GGUF_ARRAY)
        at += (size_t)snprintf(out, VALUE_BYTES, "%" PRIu64 " of %s: ", v->count,
                               ig_gguf_type_name(v->elements));
    for (uint64_t i = 0; i < v->count && i < SHOWN_ELEMENTS && at + 1 < VALUE_BYTES; i++) {
        if (i > 0) at += (size_t)snprintf(out + at, VALUE_BYTES - at, ", ");
        if (at < VALUE_BYTES) at += element_text(v, i, out + at, VALUE_BYTES - at);
    }
    if (v->count > SHOWN_ELEMENTS && at + 6 < VALUE_BYTES) snprintf(out + at, 6, ", ...");
}

/* A string of any length, sanitized. */
static json_t *text_json(ig_string_view text) {
    char *raw = ig_alloc(&ig_heap, (size_t)text.n_bytes + 1, 1);
    char *out = ig_alloc(&ig_heap, (size_t)text.n_bytes + 1, 1);
    json_t *json = NULL;
    if (raw && out) {
        for (uint64_t i = 0; i < text.n_bytes; i++) raw[i] = text.bytes[i] ? text.bytes[i] : '?';
        json = json_string(ig_text_safe(raw, out, (size_t)text.n_bytes + 1));
    }
    ig_free(&ig_heap, out);
    ig_free(&ig_heap, raw);
    return json;
}

static json_t *element_json(const ig_gguf_value *v, uint64_t i) {
    const ig_gguf_type type = v->type == IG_GGUF_ARRAY ? v->elements : v->type;
    if (v->texts) return text_json(v->texts[i]);
    if (type == IG_GGUF_BOOL) return json_boolean(ig_gguf_int_at(v, i));
    if (is_real(type)) return ig_json_real(ig_gguf_real_at(v, i));
    return json_integer(ig_gguf_int_at(v, i));
}

/* Long arrays, mostly vocabularies, are only counted. */
static json_t *value_json(const ig_gguf_value *v) {
    if (v->type != IG_GGUF_ARRAY) return element_json(v, 0);
    if (v->count > FULL_ELEMENTS)
        return json_pack("{s:s, s:I}", "array_of", ig_gguf_type_name(v->elements), "count",
                         (json_int_t)v->count);
    json_t *list = json_array();
    for (uint64_t i = 0; i < v->count; i++) json_array_append_new(list, element_json(v, i));
    return list;
}

/* ---- For people ---- */

static void print_keys(const ig_cli *cli, const ig_gguf *gguf) {
    char key[KEY_BYTES], value[VALUE_BYTES];
    int widest = 0;
    for (size_t i = 0; i < ig_gguf_n_values(gguf); i++) {
        const int columns = (int)strlen(safe(ig_gguf_value_at(gguf, i)->key, key, sizeof key));
        if (columns > widest) widest = columns;
    }
    printf("\n%skeys%s\n", ig_term_style(cli->term.out_color, IG_BOLD),
           ig_term_style(cli->term.out_color, IG_PLAIN));
    for (size_t i = 0; i < ig_gguf_n_values(gguf) && !ferror(stdout); i++) {
        const ig_gguf_value *v = ig_gguf_value_at(gguf, i);
        value_text(v, value);
        printf("  %-*s  %s\n", widest, safe(v->key, key, sizeof key), value);
    }
}

static void print_types(const totals *t) {
    char size[IG_UNIT_TEXT_BYTES];
    const char *between = "";
    printf("  types       ");
    for (int type = 0; type < IG_DTYPE_COUNT; type++) {
        if (t->count_of[type] == 0) continue;
        printf("%s%s %" PRIu64 " (%s)", between, ig_dtype_name((ig_dtype)type), t->count_of[type],
               ig_bytes_text(t->bytes_of[type], size));
        between = ", ";
    }
    putchar('\n');
}

static void print_memory(const memory *e) {
    char all[IG_UNIT_TEXT_BYTES], weights[IG_UNIT_TEXT_BYTES], cache[IG_UNIT_TEXT_BYTES],
        rest[IG_UNIT_TEXT_BYTES];
    printf("  memory      about %s: weights %s, KV cache %s (%" PRId64 " tokens, f16",
           ig_bytes_text(e->weights + e->cache + e->activations, all),
           ig_bytes_text(e->weights, weights), ig_bytes_text(e->cache, cache), e->positions);
    printf("), activations %s (micro-batch of %d tokens)\n", ig_bytes_text(e->activations, rest),
           (int)IG_SESSION_UBATCH_DEFAULT);
}

static const inspect_column columns[] = {{"name", -1},    {"type", -1}, {"shape", -1},
                                         {"elements", 1}, {"size", 1},  {"part", 1}};

static void row_cells(const void *file, size_t i, inspect_cell *cells) {
    const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
    ig_text_safe(t->name, cells[0], INSPECT_CELL_BYTES);
    snprintf(cells[1], INSPECT_CELL_BYTES, "%s", ig_dtype_name(t->desc.dtype));
    ig_shape_text(t->desc.shape, cells[2]);
    ig_count_text((uint64_t)ig_shape_count(t->desc.shape), cells[3]);
    ig_bytes_text(t->n_bytes, cells[4]);
    snprintf(cells[5], INSPECT_CELL_BYTES, "%u", t->part + 1);
}

static ig_status print_summary(const ig_cli *cli, const inspect_options *o, const ig_gguf *gguf) {
    const totals t = add_up(gguf);
    const shape_of_model m = shape_of(gguf);
    const memory e = estimate(&m, &t);
    char path[512], size[IG_UNIT_TEXT_BYTES], count[IG_UNIT_TEXT_BYTES], arch[64];
    printf("%s%s%s: GGUF version %u, %s, %s", ig_term_style(cli->term.out_color, IG_BOLD),
           ig_text_safe(o->path, path, sizeof path), ig_term_style(cli->term.out_color, IG_PLAIN),
           ig_gguf_version(gguf), *m.arch ? ig_text_safe(m.arch, arch, sizeof arch) : "no model",
           ig_bytes_text(ig_gguf_file_bytes(gguf), size));
    if (ig_gguf_n_parts(gguf) > 1) printf(" in %zu parts", ig_gguf_n_parts(gguf));
    printf("\n\n  parameters  %s in %zu tensors, %s", ig_count_text(t.elements, count),
           ig_gguf_n_tensors(gguf), ig_bytes_text(t.bytes, size));
    if (t.elements > 0) printf(" (%.2f bits per weight)", 8 * (double)t.bytes / (double)t.elements);
    putchar('\n');
    if (ig_gguf_n_tensors(gguf) > 0) print_types(&t);
    printf("  tokens      %s\n", ig_count_text((uint64_t)m.tokens, count));
    if (m.context > 0) printf("  context     %s\n", ig_count_text((uint64_t)m.context, count));
    if (ig_gguf_n_tensors(gguf) > 0) print_memory(&e);
    print_keys(cli, gguf);
    if (o->tensors) {
        const inspect_table table = {columns, sizeof columns / sizeof *columns,
                                     ig_gguf_n_tensors(gguf), row_cells, gguf};
        inspect_print_table(cli, &table);
    }
    return IG_OK;
}

/* ---- For programs ---- */

static json_t *tensor_json(const ig_gguf_tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->desc.shape.rank; d++)
        json_array_append_new(shape, json_integer(t->desc.shape.dim[d]));
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:i}", "name", ig_json_text(t->name), "dtype",
                     ig_dtype_name(t->desc.dtype), "shape", shape, "elements",
                     (json_int_t)ig_shape_count(t->desc.shape), "bytes", (json_int_t)t->n_bytes,
                     "part", (int)t->part + 1);
}

static json_t *keys_json(const ig_gguf *gguf) {
    json_t *keys = json_object();
    char key[KEY_BYTES];
    for (size_t i = 0; i < ig_gguf_n_values(gguf); i++) {
        const ig_gguf_value *v = ig_gguf_value_at(gguf, i);
        json_object_set_new(keys, safe(v->key, key, sizeof key), value_json(v));
    }
    return keys;
}

static json_t *types_json(const totals *t) {
    json_t *types = json_object();
    for (int type = 0; type < IG_DTYPE_COUNT; type++)
        if (t->count_of[type] > 0)
            json_object_set_new(types, ig_dtype_name((ig_dtype)type),
                                json_pack("{s:I, s:I}", "tensors", (json_int_t)t->count_of[type],
                                          "bytes", (json_int_t)t->bytes_of[type]));
    return types;
}

static ig_status print_json(const ig_cli *cli, const inspect_options *o, const ig_gguf *gguf) {
    const totals t = add_up(gguf);
    const shape_of_model m = shape_of(gguf);
    const memory e = estimate(&m, &t);
    json_t *root = json_pack(
        "{s:s, s:o, s:s, s:i, s:I, s:i, s:o, s:I, s:i, s:I, s:o, s:I, s:I, s:{s:I, s:I, s:I, s:I}, "
        "s:o}",
        "schema", "ingot.inspect.v1", "file", ig_json_text(o->path), "format", "gguf", "version",
        (int)ig_gguf_version(gguf), "file_bytes", (json_int_t)ig_gguf_file_bytes(gguf), "parts",
        (int)ig_gguf_n_parts(gguf), "architecture", *m.arch ? ig_json_text(m.arch) : json_null(),
        "parameters", (json_int_t)t.elements, "weight_tensors", (int)ig_gguf_n_tensors(gguf),
        "weight_bytes", (json_int_t)t.bytes, "types", types_json(&t), "tokens",
        (json_int_t)m.tokens, "context", (json_int_t)m.context, "memory_estimate", "weights",
        (json_int_t)e.weights, "kv_cache_f16", (json_int_t)e.cache, "kv_cache_tokens",
        (json_int_t)e.positions, "activations", (json_int_t)e.activations, "keys", keys_json(gguf));
    if (root && o->tensors) {
        json_t *list = json_array();
        for (size_t i = 0; i < ig_gguf_n_tensors(gguf); i++)
            json_array_append_new(list, tensor_json(ig_gguf_tensor_at(gguf, i)));
        json_object_set_new(root, "tensors", list);
    }
    return ig_run_result(cli, root);
}

ig_status inspect_gguf(ig_cli *cli, const inspect_options *o) {
    if (o->verify)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: is a GGUF file, which has no checksums to verify",
                       o->path);
    ig_gguf *gguf = NULL;
    IG_TRY(ig_gguf_open(o->path, &(ig_gguf_options){.allocator = &cli->allocator}, &gguf));
    const ig_status status = cli->json ? print_json(cli, o, gguf) : print_summary(cli, o, gguf);
    ig_gguf_close(gguf);
    return status;
}
