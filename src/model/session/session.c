#include "model/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/f16.h"
#include "ingot/backend.h"
#include "ingot/grad.h"
#include "ingot/report.h"
#include "model/adapter.h"

/* ---- making ---- */

static ig_status make(ig_ctx *ctx, ig_dtype dtype, ig_shape shape, ig_tensor **out) {
    return ig_tensor_create(ctx, (ig_desc){dtype, shape}, out);
}

/* The KV cache type. head_dim must be a multiple of the block size. */
static ig_status cache_type(const char *name, int64_t width, ig_dtype *out) {
    if (!name) name = "f16";
    const bool is_known = ig_dtype_find(name, out) &&
                          (*out == IG_F16 || *out == IG_BF16 || *out == IG_F32 || *out == IG_Q8_0);
    if (!is_known)
        return IG_FAIL(IG_ERR_ARGUMENT, "cache type %s: there are f16, bf16, f32 and q8_0", name);
    if (*out == IG_Q8_0 && width % 32 != 0)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "cache type q8_0: head_dim %lld is not a multiple of the block of 32; use "
                       "f16",
                       (long long)width);
    return IG_OK;
}

static void add_class(ig_session *s, int64_t rows, int64_t picks) {
    s->buckets[s->n_buckets++] = (ig_bucket){.session = s, .rows = rows, .n_outputs = picks};
}

enum { ALL_WANTED = 16 };

/* The next bucket size worth a captured graph.  A ubatch between two sizes is padded: up to eight
 * tokens, and on a GPU, reading the weights takes longer than computing the padding. */
static int64_t next_size(int64_t rows, bool gpu) {
    if (gpu || rows < 8) return 2 * rows;
    return rows + (rows < 16 ? 2 : rows < 32 ? 8 : 16);
}

/*
 * Ascending: one token, small decode batches, prefill chunks. A prompt needs the logits of its last
 * token only, and beside a decode batch those of a few; buckets with logits for all tokens are
 * separate, except at sizes where that makes no difference.
 */
static void make_sizes(ig_session *s, int64_t chunk, bool gpu) {
    for (int64_t rows = 1; rows < chunk && rows <= 64; rows = next_size(rows, gpu)) {
        if (rows > ALL_WANTED) add_class(s, rows, 1);
        if (rows > ALL_WANTED) add_class(s, rows, ALL_WANTED);
        add_class(s, rows, rows);
    }
    add_class(s, chunk, 0);
    add_class(s, chunk, 1);
    if (chunk > ALL_WANTED) add_class(s, chunk, ALL_WANTED);
    add_class(s, chunk, chunk);
}

/* Parses "1,8,64" up to `most` into sorted unique numbers; returns the count. */
static int read_sizes(const char *list, int64_t most, int64_t *out, int room) {
    int count = 0;
    while (*list) {
        char *end;
        const int64_t size = strtoll(list, &end, 10);
        if (end == list) break;
        list = end + (*end == ',');
        int at = count;
        while (at > 0 && out[at - 1] > size) at--;
        const bool known = at > 0 && out[at - 1] == size;
        if (known || size < 1 || size > most) continue;
        if (count == room && at < count) continue;
        if (count == room) at = --count; /* keep the largest */
        memmove(out + at + 1, out + at, (size_t)(count - at) * sizeof *out);
        out[at] = size;
        count++;
    }
    return count;
}

/* Uses the batch sizes that the user listed, and no others, for devices that compile ahead. A
 * single output row counts as a size, too. */
static bool make_listed(ig_session *s, const char *list, int64_t most) {
    enum { SIZES = (IG_SESSION_BUCKETS - 3) / 2 + 1 };
    int64_t sizes[SIZES];
    int count = read_sizes(list, most, sizes, SIZES);
    if (count == 0) count = read_sizes(list, INT64_MAX, sizes, SIZES) > 0; /* the smallest */
    for (int i = 0; i < count; i++) {
        if (i + 1 == count) add_class(s, sizes[i], 0);
        if (sizes[i] > ALL_WANTED && sizes[0] == 1) add_class(s, sizes[i], 1);
        add_class(s, sizes[i], sizes[i]);
    }
    return count > 0;
}

/* Bytes of keys and values of one token. */
static uint64_t token_bytes(const ig_session *s) {
    const ig_lm_config *c = &s->config;
    const ig_desc k = {s->cache_type_k, IG_SHAPE(c->n_kv_heads, ig_lm_key_width(c))};
    const ig_desc v = {s->cache_type_v, IG_SHAPE(c->n_kv_heads, ig_lm_value_width(c))};
    uint64_t k_bytes = 0, v_bytes = 0;
    (void)ig_desc_bytes(k, &k_bytes);
    (void)ig_desc_bytes(v, &v_bytes);
    return s->arch->has_cache ? (uint64_t)c->n_layers * (k_bytes + v_bytes) : 0;
}

/* The model's own context length, or, where its KV cache would take more than the pool, or without
 * a size of the pool than three quarters of the memory that is available, complete pages that do
 * not.  Pages of host memory that no token has reached take none, so the length costs a short text
 * nothing. */
static int64_t default_ctx_len(const ig_session *s, int64_t sequences, uint64_t pool) {
    const int64_t own = s->config.ctx_len;
    const uint64_t available = ig_report_memory(s->ctx).available_bytes, each = token_bytes(s);
    const uint64_t sharing = pool ? 1 : (uint64_t)sequences, per_token = each * sharing;
    const uint64_t room = pool ? pool : available / 4 * 3;
    const uint64_t most = INT32_MAX / IG_PAGE_TOKENS / sharing * IG_PAGE_TOKENS;
    uint64_t fitting = (uint64_t)own < most ? (uint64_t)own : most;
    if (room != 0 && per_token != 0 && room / per_token < fitting) fitting = room / per_token;
    if (fitting >= (uint64_t)own) return own;
    fitting -= fitting % IG_PAGE_TOKENS;
    if (fitting < IG_SESSION_CTX_LEAST) fitting = IG_SESSION_CTX_LEAST;
    return (int64_t)fitting < own ? (int64_t)fitting : own;
}

/* Options, with defaults resolved. */
static ig_status resolve(ig_session *s, const ig_session_options *o, int64_t *out_sequences) {
    enum { MOST_SEQUENCES = 4096, MOST_CHUNK = 4096 };
    ig_lm_config *c = &s->config;
    const bool gpu = ig_ctx_device_class(s->ctx) == IG_DEVICE_GPU;
    const int64_t most = gpu ? IG_SESSION_UBATCH_GPU : IG_SESSION_UBATCH_DEFAULT;
    const int64_t chunk = o->ubatch ? o->ubatch : most;
    *out_sequences = o->n_sequences ? o->n_sequences : 1;
    IG_TRY(cache_type(o->cache_type_k, ig_lm_key_width(c), &s->cache_type_k));
    IG_TRY(cache_type(o->cache_type_v, ig_lm_value_width(c), &s->cache_type_v));
    if (*out_sequences < 1 || *out_sequences > MOST_SEQUENCES)
        return IG_FAIL(IG_ERR_ARGUMENT, "%lld sequences: 1 to %d", (long long)*out_sequences,
                       MOST_SEQUENCES);
    const int64_t ctx_len =
        o->ctx_len ? o->ctx_len : default_ctx_len(s, *out_sequences, o->kv_bytes);
    if (ctx_len < 1 || ctx_len > c->ctx_len)
        return IG_FAIL(IG_ERR_ARGUMENT, "a context of %lld: the model was made for 1 to %lld",
                       (long long)ctx_len, (long long)c->ctx_len);
    if (chunk < 1 || chunk > MOST_CHUNK)
        return IG_FAIL(IG_ERR_ARGUMENT, "chunks of %lld rows: 1 to %d", (long long)chunk,
                       MOST_CHUNK);
    c->ctx_len = ctx_len;
    const bool listed = ig_ctx_device_class(s->ctx) == IG_DEVICE_NPU;
    if (!listed ||
        !make_listed(s, ig_ctx_batch_sizes(s->ctx), o->ubatch ? o->ubatch : (int64_t)MOST_CHUNK))
        make_sizes(s, chunk, gpu);
    return IG_OK;
}

static ig_status make_layers(ig_session *s) {
    const ig_lm_config *c = &s->config;
    const int64_t rows = (int64_t)s->pages.n_pages * IG_PAGE_TOKENS;
    if (!s->arch->has_cache) return IG_OK;
    s->layers = ig_alloc(ig_ctx_allocator(s->ctx), (size_t)c->n_layers, sizeof *s->layers);
    if (!s->layers) return IG_FAIL(IG_ERR_MEMORY, "session: %lld layers", (long long)c->n_layers);
    const ig_shape k = IG_SHAPE(rows, c->n_kv_heads, ig_lm_key_width(c));
    const ig_shape v = IG_SHAPE(rows, c->n_kv_heads, ig_lm_value_width(c));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(make(s->ctx, s->cache_type_k, k, &s->layers[i].k));
        IG_TRY(make(s->ctx, s->cache_type_v, v, &s->layers[i].v));
    }
    return IG_OK;
}

/* Pages of the pool: what all sequences can fill, or what fits into `bytes`, but at least what one
 * sequence can fill. */
static int64_t pool_pages(const ig_session *s, int64_t sequences, int64_t each, uint64_t bytes) {
    const uint64_t per_page = token_bytes(s) * IG_PAGE_TOKENS;
    const uint64_t all = (uint64_t)(sequences * each);
    uint64_t pages = bytes == 0 || per_page == 0 ? all : bytes / per_page;
    if (pages < (uint64_t)each) pages = (uint64_t)each;
    return (int64_t)(pages < all ? pages : all);
}

static ig_status make_cache(ig_session *s, int64_t sequences, uint64_t bytes) {
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    const int64_t each = (s->config.ctx_len + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS;
    const int64_t n_pages = pool_pages(s, sequences, each, bytes);
    if (n_pages > INT32_MAX / IG_PAGE_TOKENS)
        return IG_FAIL(IG_ERR_MEMORY, "session: %lld sequences of %lld tokens",
                       (long long)sequences, (long long)s->config.ctx_len);
    IG_TRY(make(s->ctx, IG_I32, IG_SHAPE(sequences, each), &s->page_table));
    int32_t *table = ig_tensor_map(s->page_table);
    if (!table)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "session: the device's memory is not the host's");
    IG_TRY(ig_pages_init(&s->pages, memory, table, (int32_t)sequences, (int32_t)each,
                         (int32_t)n_pages));
    s->tokens = ig_alloc(memory, (size_t)(sequences * s->config.ctx_len), sizeof *s->tokens);
    s->before = ig_alloc(memory, (size_t)sequences, sizeof *s->before);
    if (!s->tokens || !s->before)
        return IG_FAIL(IG_ERR_MEMORY, "session: %lld sequences", (long long)sequences);
    return make_layers(s);
}

static ig_status make_tensors(ig_bucket *c) {
    ig_ctx *ctx = c->session->ctx;
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(1, c->rows), &c->ids));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->rows), &c->positions));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->rows), &c->token_seq));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->rows), &c->token_pos));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->rows), &c->store_at));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->n_outputs), &c->outputs));
    IG_TRY(make(ctx, IG_I32, IG_SHAPE(c->n_outputs), &c->output_seq));
    return make(ctx, IG_I32, IG_SHAPE(c->n_outputs), &c->output_pos);
}

static void drop_class(ig_bucket *c) {
    ig_tensor **all[] = {&c->ids,     &c->positions,  &c->token_seq,  &c->token_pos, &c->store_at,
                         &c->outputs, &c->output_seq, &c->output_pos, &c->out,       &c->hidden};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ig_tensor_release(*all[i]);
        *all[i] = NULL;
    }
    ig_captured_destroy(c->work);
    c->work = NULL;
}

static ig_status make_class(ig_bucket *c) {
    if (c->ids) return IG_OK;
    const ig_status status = make_tensors(c);
    if (status != IG_OK) drop_class(c);
    return status;
}

static ig_status make_width(ig_session *s, const ig_session_options *o) {
    const int64_t d = s->adapter->config.d_model, layers = s->adapter->config.n_layers;
    s->width = s->hidden ? d : s->adapter->config.vocabulary;
    if (!o->hidden_layers) return IG_OK;
    if (!s->adapter->source)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: hidden states of layers are those of models of files, or in memory",
                       s->arch->name);
    s->states = ig_alloc(ig_ctx_allocator(s->ctx), (size_t)layers + 2, sizeof(*s->states));
    if (!s->states) return IG_FAIL(IG_ERR_MEMORY, "session: %lld layers", (long long)layers);
    s->width = (layers + 1) * d + (s->hidden ? 0 : s->width);
    return IG_OK;
}

bool ig_session_returns_logits(const ig_session *s) { return !s->hidden && !s->states; }

ig_status ig_session_create(ig_adapter *a, const ig_session_options *options, ig_session **out) {
    static const ig_session_options defaults;
    int64_t sequences = 1;
    if (!a || !out) return IG_FAIL(IG_ERR_ARGUMENT, "session_create: NULL");
    if (!options) options = &defaults;
    if (options->hidden && !a->arch->hidden)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: is defined by dispatches: it has no hidden states",
                       a->arch->name);
    if (!ig_adapter_can_generate(a) && !options->hidden)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s makes no text: 'ingot embed' is what it is for",
                       a->arch->name);
    ig_session *s = ig_alloc(ig_ctx_allocator(a->ctx), 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "session");
    s->adapter = a;
    s->ctx = a->ctx;
    s->arch = a->arch;
    s->config = a->config;
    s->model = a->model;
    s->hidden = options->hidden;
    ig_status status = make_width(s, options);
    if (status == IG_OK) status = resolve(s, options, &sequences);
    if (status == IG_OK) status = make_cache(s, sequences, options->kv_bytes);
    if (status == IG_OK && !s->arch->hidden) status = ig_session_recompute_init(s);
    if (status == IG_OK)
        *out = s;
    else
        ig_session_destroy(s);
    return status;
}

void ig_session_destroy(ig_session *s) {
    if (!s) return;
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    for (int i = 0; i < s->n_buckets; i++) drop_class(&s->buckets[i]);
    ig_production_run_destroy(s->recompute);
    for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
        ig_tensor_release(s->layers[i].k);
        ig_tensor_release(s->layers[i].v);
    }
    ig_pages_deinit(&s->pages, memory);
    ig_tensor_release(s->page_table);
    ig_free(memory, s->layers);
    ig_free(memory, (void *)s->states);
    ig_free(memory, s->tokens);
    ig_free(memory, s->positions);
    ig_free(memory, s->before);
    ig_free(memory, s);
}

/* ---- sequences ---- */

int64_t ig_session_ctx_len(const ig_session *s) { return s->config.ctx_len; }
int64_t ig_session_ubatch(const ig_session *s) { return s->buckets[s->n_buckets - 1].rows; }
int64_t ig_session_width(const ig_session *s) { return s->width; }
int64_t ig_session_sequences(const ig_session *s) { return s->pages.n_sequences; }

uint64_t ig_session_cache_bytes(const ig_session *s) {
    uint64_t all = 0, k = 0, v = 0;
    for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
        (void)ig_desc_bytes(ig_tensor_desc(s->layers[i].k), &k);
        (void)ig_desc_bytes(ig_tensor_desc(s->layers[i].v), &v);
        all += k + v;
    }
    return all;
}

static bool is_sequence(const ig_session *s, int32_t sequence) {
    return sequence >= 0 && sequence < s->pages.n_sequences;
}

ig_status ig_session_check(const ig_session *s, int32_t sequence) {
    if (is_sequence(s, sequence)) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "session: sequence %d; there are %d", sequence,
                   s->pages.n_sequences);
}

int64_t ig_session_length(const ig_session *s, int32_t sequence) {
    return is_sequence(s, sequence) ? s->pages.length[sequence] : 0;
}

const int32_t *ig_session_tokens(const ig_session *s, int32_t sequence) {
    return is_sequence(s, sequence) ? s->tokens + sequence * s->config.ctx_len : NULL;
}

ig_status ig_session_truncate(ig_session *s, int32_t sequence, int64_t length) {
    IG_TRY(ig_session_check(s, sequence));
    if (length < 0 || length > s->pages.length[sequence])
        return IG_FAIL(IG_ERR_ARGUMENT, "session: %lld tokens to keep of %lld", (long long)length,
                       (long long)s->pages.length[sequence]);
    ig_pages_truncate(&s->pages, sequence, length);
    return IG_OK;
}

ig_status ig_session_fork(ig_session *s, int32_t from, int32_t to) {
    IG_TRY(ig_session_check(s, from));
    IG_TRY(ig_session_check(s, to));
    if (from == to) return IG_OK;
    ig_pages_truncate(&s->pages, to, 0);
    ig_pages_share(&s->pages, from, to);
    memcpy(s->tokens + to * s->config.ctx_len, s->tokens + from * s->config.ctx_len,
           (size_t)s->config.ctx_len * sizeof *s->tokens);
    if (s->positions)
        memcpy(s->positions + to * s->config.ctx_len, s->positions + from * s->config.ctx_len,
               (size_t)s->config.ctx_len * sizeof *s->positions);
    return IG_OK;
}

/* ---- positions ---- */

int32_t ig_session_next_position(const ig_session *s, int32_t sequence) {
    const int64_t length = s->pages.length[sequence];
    if (!s->positions || length == 0) return (int32_t)length;
    return s->positions[sequence * s->config.ctx_len + length - 1] + 1;
}

bool ig_session_counts(const ig_session *s, int32_t sequence) {
    const int32_t *positions = s->positions ? s->positions + sequence * s->config.ctx_len : NULL;
    for (int64_t i = 0; positions && i < s->pages.length[sequence]; i++)
        if (positions[i] != i) return false;
    return true;
}

/* From the first token with a position of its own on, positions are kept. */
static ig_status keep_positions(ig_session *s) {
    const int64_t n = s->pages.n_sequences, ctx_len = s->config.ctx_len;
    if (s->positions) return IG_OK;
    s->positions = ig_alloc(ig_ctx_allocator(s->ctx), (size_t)(n * ctx_len), sizeof *s->positions);
    if (!s->positions) return IG_FAIL(IG_ERR_MEMORY, "session: %lld sequences", (long long)n);
    for (int64_t i = 0; i < n * ctx_len; i++) s->positions[i] = (int32_t)(i % ctx_len);
    return IG_OK;
}

static void copy_page(const ig_session *s, ig_tensor *cache, int32_t from, int32_t to) {
    uint64_t bytes = 0;
    (void)ig_desc_bytes(ig_tensor_desc(cache), &bytes);
    bytes /= (uint64_t)s->pages.n_pages;
    char *all = ig_tensor_map(cache);
    memcpy(all + bytes * (uint64_t)to, all + bytes * (uint64_t)from, bytes);
}

ig_status ig_session_append(ig_session *s, int32_t sequence, int32_t token, int32_t *out_row) {
    int32_t from;
    const int64_t at = sequence * s->config.ctx_len + s->pages.length[sequence];
    s->tokens[at] = token;
    if (s->positions) s->positions[at] = ig_session_next_position(s, sequence);
    IG_TRY(ig_pages_append(&s->pages, sequence, out_row, &from));
    for (int64_t i = 0; from >= 0 && s->layers && i < s->config.n_layers; i++) {
        copy_page(s, s->layers[i].k, from, *out_row / IG_PAGE_TOKENS);
        copy_page(s, s->layers[i].v, from, *out_row / IG_PAGE_TOKENS);
    }
    return IG_OK;
}

int32_t ig_session_page(const ig_session *s, int32_t sequence, int64_t i) {
    return s->pages.table[(int64_t)sequence * s->pages.per_sequence + i];
}

void ig_session_attach(ig_session *s, int32_t sequence, int32_t page, const int32_t *tokens,
                       int64_t count) {
    memcpy(s->tokens + sequence * s->config.ctx_len + s->pages.length[sequence], tokens,
           (size_t)count * sizeof *tokens);
    for (int64_t i = s->pages.length[sequence], k = 0; s->positions && k < count; i++, k++)
        s->positions[sequence * s->config.ctx_len + i] = (int32_t)i;
    ig_pages_attach(&s->pages, sequence, page, count);
}

ig_status ig_session_fake_length(ig_session *s, int32_t sequence, int64_t length) {
    IG_TRY(ig_session_check(s, sequence));
    const int64_t full = s->pages.length[sequence];
    if (full < IG_PAGE_TOKENS || full % IG_PAGE_TOKENS != 0 || length > s->config.ctx_len)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "session: %lld tokens cannot become %lld; the context has %lld",
                       (long long)full, (long long)length, (long long)s->config.ctx_len);
    const int32_t *pages = s->pages.table + (int64_t)sequence * s->pages.per_sequence;
    const int32_t *tokens = ig_session_tokens(s, sequence);
    for (int64_t at = full; at < length; at++) {
        int32_t row;
        IG_TRY(ig_session_append(s, sequence, tokens[at % IG_PAGE_TOKENS], &row));
        if (at % IG_PAGE_TOKENS != 0) continue;
        for (int64_t i = 0; s->layers && i < s->config.n_layers; i++) {
            copy_page(s, s->layers[i].k, pages[0], row / IG_PAGE_TOKENS);
            copy_page(s, s->layers[i].v, pages[0], row / IG_PAGE_TOKENS);
        }
    }
    return IG_OK;
}

/* ---- running ---- */

/* Whether the last layer drops rows without outputs. If all rows may have outputs, the gather
 * would be an extra step per token. */
static bool leaves_out(const ig_bucket *c) { return c->n_outputs > 0 && c->n_outputs < c->rows; }

/* The states of the layers, of the output rows, before the final ones and the logits. */
static ig_tensor *with_states(const ig_bucket *c, ig_tensor *hidden, ig_tensor *out) {
    ig_session *s = c->session;
    for (int64_t i = 0; i < s->config.n_layers; i++)
        s->states[i] = ig_embedding(ig_reshape(s->states[i], IG_SHAPE(c->rows, -1)), c->outputs);
    return ig_session_output(s, hidden, out);
}

/* The captured graph: token ids in, logits or hidden states of the output rows out. */
static ig_status forward(void *arg) {
    ig_bucket *c = arg;
    ig_session *s = c->session;
    const ig_ubatch rows = {.ids = c->ids,
                            .positions = c->positions,
                            .ctx_len = s->config.ctx_len,
                            .layers = s->layers,
                            .page_table = s->page_table,
                            .token_seq = c->token_seq,
                            .token_pos = c->token_pos,
                            .store_at = c->store_at,
                            .outputs = leaves_out(c) ? c->outputs : NULL,
                            .output_seq = c->output_seq,
                            .output_pos = c->output_pos,
                            .last_layer = s->config.n_layers - 1,
                            .states = s->states};
    ig_no_grad_begin(s->ctx);
    ig_tensor *hidden = ig_reshape(s->arch->hidden(s->model, &rows),
                                   IG_SHAPE(leaves_out(c) ? c->n_outputs : c->rows, -1));
    if (c->n_outputs == c->rows) hidden = ig_embedding(hidden, c->outputs); /* output rows first */
    ig_tensor *out = c->n_outputs > 0 && !s->hidden ? s->arch->head(s->model, hidden) : hidden;
    if (c->n_outputs > 0 && s->states) out = with_states(c, hidden, out);
    ig_no_grad_end(s->ctx);
    IG_TRY(ig_eval(&out, 1));            /* reports the first failure with its message */
    if (c->n_outputs == 0) return IG_OK; /* only the KV cache is updated */
    ig_tensor_release(c->hidden);
    ig_tensor_release(c->out);
    c->hidden = ig_tensor_retain(hidden);
    c->out = ig_tensor_retain(out);
    return IG_OK;
}

/* The destination of a token's result: logits or hidden state. */
static float *room_of(const ig_session_token *row) { return row->logits; }

static ig_status find_position(const ig_session *s, const ig_session_token *row, int32_t *out) {
    const int64_t limit = s->adapter->config.ctx_len;
    *out = row->has_position ? row->position : ig_session_next_position(s, row->sequence);
    if (*out >= 0 && *out < limit) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "position %d: the model was made for 0 to %lld", *out,
                   (long long)limit - 1);
}

/* Fills in n tokens; the rest is padding and belongs to no sequence. */
static ig_status fill(ig_session *s, const ig_bucket *c, const ig_session_token *rows, int64_t n) {
    int32_t *ids = ig_tensor_map(c->ids), *positions = ig_tensor_map(c->positions);
    int32_t *token_seq = ig_tensor_map(c->token_seq), *token_pos = ig_tensor_map(c->token_pos);
    int32_t *store_at = ig_tensor_map(c->store_at);
    int32_t *pick = ig_tensor_map(c->outputs), *pick_seq = ig_tensor_map(c->output_seq);
    int32_t *pick_pos = ig_tensor_map(c->output_pos);
    int64_t picked = 0;
    for (int64_t i = 0; i < c->n_outputs; i++) {
        pick[i] = pick_pos[i] = 0;
        pick_seq[i] = -1;
    }
    for (int64_t i = 0; i < c->rows; i++) {
        ids[i] = positions[i] = token_pos[i] = 0;
        token_seq[i] = store_at[i] = -1;
        if (i >= n) continue;
        ids[i] = rows[i].id;
        token_seq[i] = rows[i].sequence;
        token_pos[i] = (int32_t)s->pages.length[rows[i].sequence];
        IG_TRY(find_position(s, &rows[i], &positions[i]));
        IG_TRY(ig_session_append(s, rows[i].sequence, rows[i].id, &store_at[i]));
        if (rows[i].has_position)
            s->positions[rows[i].sequence * s->config.ctx_len + token_pos[i]] = positions[i];
        if (!room_of(&rows[i])) continue;
        pick[picked] = (int32_t)i;
        pick_seq[picked] = token_seq[i];
        pick_pos[picked++] = token_pos[i];
    }
    return IG_OK;
}

/* An exponent of ones, and one more of its last bit, carries into the sign.  One thread copies what
 * all have computed, so this has to be little more than copying: the baseline of x86-64 has no
 * instruction for the largest of some integers. */
bool ig_session_copy_finite(float *to, const float *from, size_t count) {
    uint32_t carries = 0;
    for (size_t i = 0; i < count; i++) {
        carries |= (ig_bits_of_float(from[i]) & 0x7fffffff) + 0x00800000;
        to[i] = from[i];
    }
    return carries >> 31 == 0;
}

/* Returns the results of each output row. */
static ig_status hand_out(const ig_bucket *c, const ig_session_token *rows, int64_t n) {
    const ig_session *s = c->session;
    const float *from = c->n_outputs > 0 ? ig_tensor_map(c->out) : NULL;
    if (!from && c->n_outputs > 0)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "session: the device's memory is not the host's");
    for (int64_t i = 0; i < n; i++) {
        if (!room_of(&rows[i])) continue;
        if (!ig_session_copy_finite(room_of(&rows[i]), from, (size_t)s->width))
            return ig_adapter_explain_rows(s->adapter,
                                           s->hidden ? "the hidden states" : "the logits");
        from += s->width;
    }
    return IG_OK;
}

/* Remembers where the hidden states of these rows are. */
static void note_handed(ig_session *s, const ig_bucket *c, const ig_session_token *rows,
                        int64_t n) {
    int64_t wanted = 0;
    for (int64_t i = 0; i < n; i++) wanted += room_of(&rows[i]) != NULL;
    if (wanted == 0 && c != s->last_outputs) return;
    s->last_outputs = wanted > 0 ? c : NULL; /* the previous ones have been overwritten */
    s->n_returned = wanted;
}

const float *ig_session_hidden(const ig_session *s) {
    const float *rows = s && s->last_outputs ? ig_tensor_map(s->last_outputs->hidden) : NULL;
    return rows ? rows + (s->n_returned - 1) * s->config.d_model : NULL;
}

/* The smallest bucket for the next tokens and their outputs. If padding would cost too much, or
 * none is large enough, the next smaller bucket takes the first of them. */
static ig_bucket *bucket_for(ig_session *s, const ig_session_token *rows, int64_t count) {
    enum { FEW = 32 }; /* tokens that cost little more than one: reading the weights dominates */
    enum { MANY = 8 }; /* N runs of the smaller bucket cost more than padding */
    ig_bucket *below = NULL;
    for (int i = 0; i < s->n_buckets; i++) {
        ig_bucket *c = &s->buckets[i];
        int64_t wanted = 0;
        for (int64_t k = 0; k < count && k < c->rows; k++) wanted += room_of(&rows[k]) != NULL;
        if (wanted > c->n_outputs) continue;
        const int64_t idle = c->rows - count;
        if (idle >= 0 && (c->rows <= FEW || 4 * idle <= c->rows || !below)) return c;
        if (idle >= 0) return MANY * below->rows < count ? c : below;
        if (!below || c->rows > below->rows) below = c;
    }
    return below;
}

static ig_status run_rows(ig_session *s, const ig_session_token *rows, int64_t count) {
    while (count > 0) {
        ig_bucket *c = bucket_for(s, rows, count);
        const int64_t n = count < c->rows ? count : c->rows;
        IG_TRY(make_class(c));
        IG_TRY(fill(s, c, rows, n));
        IG_TRY(c->work ? ig_captured_replay(c->work) : ig_capture(s->ctx, forward, c, &c->work));
        note_handed(s, c, rows, n);
        IG_TRY(hand_out(c, rows, n));
        rows += n;
        count -= n;
    }
    return IG_OK;
}

static ig_status prepare_positions(ig_session *s, const ig_session_token *rows, int64_t count) {
    bool any = false;
    for (int64_t i = 0; i < count && !any; i++) any = rows[i].has_position;
    if (any && s->recompute)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s is defined by dispatches: its tokens have no positions of their own",
                       s->arch->name);
    return any ? keep_positions(s) : IG_OK;
}

/* Counts the tokens of each sequence in s->before, then stores the current lengths there. */
static ig_status check_rows(const ig_session *s, const ig_session_token *rows, int64_t count) {
    memset(s->before, 0, (size_t)s->pages.n_sequences * sizeof *s->before);
    if (count < 1 || !rows) return IG_FAIL(IG_ERR_ARGUMENT, "session: no tokens");
    for (int64_t i = 0; i < count; i++) {
        IG_TRY(ig_session_check(s, rows[i].sequence));
        if (rows[i].id < 0 || rows[i].id >= s->config.vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "token %d is not below %lld", rows[i].id,
                           (long long)s->config.vocabulary);
        s->before[rows[i].sequence]++;
    }
    for (int32_t i = 0; i < s->pages.n_sequences; i++) {
        const int64_t taken = s->pages.length[i];
        if (s->before[i] > s->config.ctx_len - taken)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "%lld tokens do not fit: the context has %lld, of which %lld are taken",
                           (long long)s->before[i], (long long)s->config.ctx_len, (long long)taken);
        s->before[i] = taken;
    }
    return IG_OK;
}

ig_status ig_session_run(ig_session *s, const ig_session_token *rows, int64_t count) {
    if (!s) return IG_FAIL(IG_ERR_ARGUMENT, "session_run: NULL");
    if (!s->arch->head && !s->recompute)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s is an encoder: it cannot decode incrementally",
                       s->arch->name);
    IG_TRY(check_rows(s, rows, count));
    IG_TRY(prepare_positions(s, rows, count));
    const ig_status status =
        s->recompute ? ig_session_recompute(s, rows, count) : run_rows(s, rows, count);
    for (int32_t i = 0; status != IG_OK && i < s->pages.n_sequences; i++)
        ig_pages_truncate(&s->pages, i, s->before[i]);
    return status;
}

ig_status ig_session_feed(ig_session *s, int32_t sequence, const int32_t *tokens, int64_t count,
                          float *out) {
    if (!s || count < 1 || !tokens) return IG_FAIL(IG_ERR_ARGUMENT, "session: no tokens");
    const ig_allocator *memory = ig_ctx_allocator(s->ctx);
    ig_session_token one = {.sequence = sequence};
    ig_session_token *rows = count == 1 ? &one : ig_alloc(memory, (size_t)count, sizeof *rows);
    if (!rows) return IG_FAIL(IG_ERR_MEMORY, "session: %lld tokens", (long long)count);
    for (int64_t i = 0; i < count; i++)
        rows[i] = (ig_session_token){.sequence = sequence, .id = tokens[i]};
    rows[count - 1].logits = out;
    const ig_status status = ig_session_run(s, rows, count);
    if (rows != &one) ig_free(memory, rows);
    return status;
}
