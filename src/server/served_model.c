#include "server/served_model.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "ingot/checkpoint.h"
#include "ingot/gguf.h"
#include "ingot/report.h"
#include "server/http_error.h"

/* ---- what the file says ---- */

static ig_status check_gguf(const char *path, uint64_t *out_bytes) {
    ig_gguf *file = NULL;
    IG_TRY(ig_gguf_open(path, NULL, &file));
    *out_bytes = ig_gguf_file_bytes(file);
    ig_gguf_close(file);
    return IG_OK;
}

static ig_status check_oam(const char *path) {
    ig_checkpoint *file = NULL;
    IG_TRY(ig_checkpoint_open(path, &file));
    ig_checkpoint_close(file);
    return IG_OK;
}

ig_status ig_served_model_check(const char *path, uint64_t *out_bytes, int64_t *out_created) {
    struct stat file;
    if (stat(path, &file) != 0) return IG_FAIL(IG_ERR_IO, "%s: %s", path, strerror(errno));
    uint64_t n_bytes = (uint64_t)file.st_size;
    switch (ig_file_kind_of(path)) {
    case IG_FILE_GGUF: IG_TRY(check_gguf(path, &n_bytes)); break;
    case IG_FILE_OAM: IG_TRY(check_oam(path)); break;
    case IG_FILE_FOLDER:
        return IG_FAIL(IG_ERR_FORMAT, "%s: a folder; 'ingot convert' makes a .gguf file of it",
                       path);
    case IG_FILE_OTHER:
        return IG_FAIL(IG_ERR_FORMAT, "%s: is neither an .oam nor a .gguf file", path);
    }
    *out_bytes = n_bytes;
    *out_created = (int64_t)file.st_mtime;
    return IG_OK;
}

/* The names of the values of general.file_type. */
static const struct {
    int64_t number;
    const char *name;
} file_types[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},   {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},   {38, "MXFP4"},
};

static const char *file_type_name(int64_t number) {
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
        if (file_types[i].number == number) return file_types[i].name;
    return NULL;
}

/* The dtype that most bytes of the weights have. */
static const char *usual_dtype(const ig_gguf *file) {
    uint64_t bytes[IG_DTYPE_COUNT] = {0};
    ig_dtype most = IG_F32;
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
        bytes[t->desc.dtype] += t->n_bytes;
        if (bytes[t->desc.dtype] > bytes[most]) most = t->desc.dtype;
    }
    return ig_dtype_name(most);
}

static void set_quantization(ig_served_model *m, const char *name) {
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof m->quantization; n++)
        m->quantization[n] = (char)toupper((unsigned char)name[n]);
    m->quantization[n] = 0;
}

static void read_quantization(ig_served_model *m, const ig_gguf *file) {
    int64_t number;
    const char *name = NULL;
    if (ig_gguf_int(file, "general.file_type", &number)) name = file_type_name(number);
    if (!name) name = usual_dtype(file);
    set_quantization(m, name);
}

/* How the model's authors sample from it: general.sampling.*.  In ig_sampling 0 is the default and
 * "off" is below 0, or 1 for the penalty. */
static void read_sampling(ig_sampling *s, const ig_gguf *file) {
    double x;
    int64_t n;
    if (ig_gguf_real(file, "general.sampling.temp", &x)) s->temperature = x > 0 ? x : -1;
    if (ig_gguf_real(file, "general.sampling.top_p", &x)) s->top_p = x < 1 ? x : -1;
    if (ig_gguf_real(file, "general.sampling.min_p", &x)) s->min_p = x > 0 ? x : -1;
    if (ig_gguf_int(file, "general.sampling.top_k", &n)) s->top_k = n > 0 ? (int)n : -1;
    if (ig_gguf_real(file, "general.sampling.penalty_repeat", &x)) s->repeat_penalty = x;
    if (ig_gguf_int(file, "general.sampling.penalty_last_n", &n)) s->repeat_last_n = (int)n;
    if (ig_gguf_int(file, "general.sampling.mirostat", &n)) s->mirostat = n == 2 ? 2 : 0;
    if (ig_gguf_real(file, "general.sampling.mirostat_tau", &x)) s->mirostat_tau = x;
    if (ig_gguf_real(file, "general.sampling.mirostat_eta", &x)) s->mirostat_eta = x;
}

/* The file was checked when it was loaded; values that cannot be used are left out. */
static ig_status read_gguf(ig_served_model *m) {
    ig_gguf *file = NULL;
    IG_TRY(ig_gguf_open(m->served.path, NULL, &file));
    m->served.file_bytes = ig_gguf_file_bytes(file);
    read_quantization(m, file);
    read_sampling(&m->served.sampling, file);
    ig_gguf_close(file);
    if (ig_sampling_check(&m->served.sampling, m->served.n_vocab) != IG_OK)
        m->served.sampling = (ig_sampling){0};
    return IG_OK;
}

static ig_status read_file(ig_served_model *m) {
    struct stat file;
    if (stat(m->served.path, &file) != 0)
        return IG_FAIL(IG_ERR_IO, "%s: %s", m->served.path, strerror(errno));
    m->served.created = (int64_t)file.st_mtime;
    m->served.file_bytes = (uint64_t)file.st_size;
    set_quantization(m, ig_dtype_name(IG_F32)); /* of .oam files */
    if (ig_file_kind_of(m->served.path) == IG_FILE_GGUF) IG_TRY(read_gguf(m));
    m->served.quantization = m->quantization;
    return IG_OK;
}

/* ---- its chat template ---- */

static bool is_builtin(const char *name) {
    for (size_t i = 0; ig_chat_builtin_name(i); i++)
        if (strcmp(name, ig_chat_builtin_name(i)) == 0) return true;
    return false;
}

static ig_status open_template(ig_served_model *m, const char *wanted) {
    if (wanted && is_builtin(wanted)) {
        IG_TRY(ig_chat_template_builtin(wanted, m->allocator, &m->chat));
    } else {
        IG_TRY(ig_chat_template_open(wanted ? wanted : m->served.path, m->allocator, &m->chat));
    }
    return ig_chat_template_check(m->chat, m->served.tokenizer, NULL);
}

static char *copy_bytes(const ig_allocator *a, const char *bytes, size_t n_bytes) {
    char *text = ig_alloc(a, n_bytes + 1, 1);
    if (text && n_bytes > 0) memcpy(text, bytes, n_bytes);
    return text;
}

/* The file was read before; if it is gone since, its text is unknown. */
static char *file_text(const ig_allocator *a, const char *path) {
    ig_file_map map;
    if (ig_file_map_open(path, &map) != IG_OK) return ig_copy_text(a, "");
    char *text = copy_bytes(a, map.bytes, (size_t)map.size);
    ig_file_map_close(&map);
    return text;
}

/* The Jinja text of a template, or the name of a built-in one. */
static char *template_text(const ig_served_model *m, const char *wanted) {
    ig_string_view own = {"", 0};
    if (!m->chat) return ig_copy_text(m->allocator, "");
    if (!wanted && ig_adapter_chat_template(m->adapter, &own))
        return copy_bytes(m->allocator, own.bytes, own.n_bytes);
    const char *name = ig_chat_template_name(m->chat);
    if (!name && wanted) return file_text(m->allocator, wanted);
    return ig_copy_text(m->allocator, name ? name : "");
}

/* The template of a model that has none, as in llama-server. */
static const char fallback[] = "chatml";

static const char *choose_template(const ig_served_model *m, const ig_models_options *o) {
    char text[320];
    ig_string_view own;
    if (o->chat_template || ig_adapter_chat_template(m->adapter, &own)) return o->chat_template;
    snprintf(text, sizeof text,
             "%.200s: the file has no chat template, chats use %s; --chat-template sets another",
             m->served.id, fallback);
    if (m->served.can_generate && o->ctx.log) o->ctx.log(o->ctx.user, IG_LOG_WARNING, text);
    return fallback;
}

/* A model whose template is wrong serves everything but chats, unless that one was asked for. */
static ig_status find_template(ig_served_model *m, const ig_models_options *o) {
    const char *wanted = choose_template(m, o);
    const ig_status status = open_template(m, wanted);
    if (status == IG_ERR_MEMORY || (status != IG_OK && o->chat_template)) return status;
    char words[512] = "";
    if (status != IG_OK) ig_error_words(words, sizeof words);
    m->chat_error = ig_copy_text(m->allocator, words);
    if (status != IG_OK) {
        ig_chat_template_destroy(m->chat);
        m->chat = NULL;
    }
    m->chat_text = template_text(m, wanted);
    if (!m->chat_error || !m->chat_text) return IG_FAIL(IG_ERR_MEMORY, "models: a chat template");
    m->served.chat = m->chat;
    m->served.chat_error = m->chat_error;
    m->served.chat_text = m->chat_text;
    return IG_OK;
}

/* ---- loading ---- */

static ig_status check_arch(const ig_served_model *m, const char *wanted) {
    const char *has = ig_adapter_architecture(m->adapter);
    if (!wanted) return IG_OK;
    const char *known = ig_arch_resolve(m->ctx, wanted);
    if (strcmp(known ? known : wanted, has) == 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--arch %s: %s holds the architecture %s", wanted,
                   m->served.path, has);
}

static ig_status load(ig_served_model *m, const ig_models_options *o) {
    const bool gguf = ig_file_kind_of(m->served.path) == IG_FILE_GGUF;
    IG_TRY(ig_ctx_create(&o->ctx, &m->ctx));
    if (o->prepare) IG_TRY(o->prepare(o->ctx.user, m->ctx));
    IG_TRY(ig_adapter_open(m->ctx, m->served.path, gguf ? &o->model : NULL, &m->adapter));
    IG_TRY(check_arch(m, o->arch));
    return ig_ctx_synchronize(m->ctx);
}

static void set_sizes(ig_served_model *m) {
    ig_served *s = &m->served;
    const ig_model_config config = ig_adapter_config(m->adapter);
    s->adapter = m->adapter;
    s->ctx = m->ctx;
    s->device = ig_ctx_device(m->ctx);
    s->tokenizer = ig_adapter_tokenizer(m->adapter);
    s->ctx_train = config.ctx_len;
    s->d_model = config.d_model;
    s->n_params = ig_adapter_param_count(m->adapter);
    s->n_vocab = ig_adapter_vocab_size(m->adapter);
    s->can_generate = ig_adapter_can_generate(m->adapter);
}

/* ---- warm-up ---- */

/* Plans are made and weights are packed for the first token, which would otherwise wait for it. */
static ig_status run_token(ig_engine *engine, bool embed) {
    ig_job *job = NULL;
    ig_job_event event = {.type = IG_JOB_EVENT_PROGRESS};
    const ig_request request = {.tokens = (const int32_t[]){0},
                                .n_tokens = 1,
                                .max_tokens = 1,
                                .embed = embed,
                                .no_prefix_cache = true};
    ig_status status = IG_OK;
    IG_TRY(ig_engine_submit(engine, &request, &job));
    while (event.type != IG_JOB_EVENT_DONE) {
        ig_job_wait(job, -1);
        while (ig_job_poll(job, &event)) {
        }
    }
    if (event.status != IG_OK) status = IG_FAIL(event.status, "%s", event.error);
    ig_job_release(job);
    return status;
}

static ig_status measure(ig_adapter *adapter, void *user) {
    (void)adapter;
    ig_served_model *m = user;
    m->bytes = ig_report_memory(m->ctx).allocated_bytes;
    return IG_OK;
}

static ig_status warm_up(ig_served_model *m, const ig_models_options *o) {
    ig_engine *engine = m->served.engine;
    if (!o->no_warmup) IG_TRY(run_token(engine, !m->served.can_generate));
    IG_TRY(ig_engine_call(engine, measure, m));
    ig_engine_get_stats(engine, &m->warmup);
    const uint64_t kv_bytes = ig_engine_cache_bytes(engine);
    m->bytes = m->served.file_bytes + (m->bytes > kv_bytes ? m->bytes : kv_bytes);
    return IG_OK;
}

static ig_status open_all(ig_served_model *m, const ig_models_options *o) {
    const double began = ig_clock_ms();
    ig_engine_options engine = o->engine;
    engine.log = o->ctx.log;
    engine.user = o->ctx.user;
    IG_TRY(load(m, o));
    set_sizes(m);
    IG_TRY(read_file(m));
    IG_TRY(find_template(m, o));
    IG_TRY(ig_engine_create(m->adapter, &engine, &m->served.engine));
    m->served.ctx_len = ig_engine_ctx_len(m->served.engine);
    IG_TRY(warm_up(m, o));
    m->served.load_ms = ig_clock_ms() - began;
    return IG_OK;
}

ig_status ig_served_model_open(const ig_models_options *options, const char *id, const char *path,
                               ig_served_model **out) {
    const ig_allocator *a = options->allocator;
    ig_served_model *m = ig_alloc(a, 1, sizeof *m);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "models: %s", id);
    m->allocator = a;
    m->served.id = id;
    m->served.path = path;
    const ig_status status = open_all(m, options);
    if (status == IG_OK)
        *out = m;
    else
        ig_served_model_close(m);
    return status;
}

void ig_served_model_close(ig_served_model *m) {
    if (!m) return;
    ig_engine_destroy(m->served.engine);
    ig_chat_template_destroy(m->chat);
    ig_adapter_destroy(m->adapter);
    ig_ctx_destroy(m->ctx);
    ig_free(m->allocator, m->chat_error);
    ig_free(m->allocator, m->chat_text);
    ig_free(m->allocator, m);
}

/* ---- statistics ---- */

static void add_count(uint64_t *sum, uint64_t x, int sign) { *sum += sign > 0 ? x : 0 - x; }

static void add_histogram(ig_histogram *sum, const ig_histogram *x, int sign) {
    for (int i = 0; i <= IG_HISTOGRAM_BUCKETS; i++) add_count(&sum->count[i], x->count[i], sign);
    sum->sum += sign * x->sum;
}

static void add_stats(ig_engine_stats *sum, const ig_engine_stats *x, int sign) {
    static const size_t counts[] = {
#define COUNT(member) offsetof(ig_engine_stats, member)
        COUNT(n_submitted),       COUNT(n_rejected_queue), COUNT(n_queue_timeouts),
        COUNT(n_failed),          COUNT(n_prompt_tokens),  COUNT(n_cached_tokens),
        COUNT(n_generated),       COUNT(n_cache_queries),  COUNT(n_cache_hits),
        COUNT(n_evicted_pages),   COUNT(n_preempted),      COUNT(n_drafted),
        COUNT(n_accepted),        COUNT(scheduling_ns),    COUNT(step_ns),
        COUNT(n_decode_sequences)
#undef COUNT
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        add_count((uint64_t *)((char *)sum + counts[i]),
                  *(const uint64_t *)((const char *)x + counts[i]), sign);
    for (int i = 0; i < 3; i++) add_count(&sum->n_finished[i], x->n_finished[i], sign);
    for (int i = 0; i < IG_JOB_STATES; i++)
        add_count(&sum->n_cancelled[i], x->n_cancelled[i], sign);
    for (int i = 0; i < IG_STEP_KINDS; i++) {
        add_count(&sum->n_steps[i], x->n_steps[i], sign);
        add_histogram(&sum->step[i], &x->step[i], sign);
        add_histogram(&sum->step_tokens[i], &x->step_tokens[i], sign);
    }
    add_histogram(&sum->first_token, &x->first_token, sign);
    add_histogram(&sum->inter_token, &x->inter_token, sign);
    add_histogram(&sum->queue, &x->queue, sign);
    add_histogram(&sum->prefill, &x->prefill, sign);
    add_histogram(&sum->decode, &x->decode, sign);
    add_histogram(&sum->request, &x->request, sign);
    add_histogram(&sum->prompt_tokens, &x->prompt_tokens, sign);
    add_histogram(&sum->generated_tokens, &x->generated_tokens, sign);
}

void ig_engine_stats_add(ig_engine_stats *sum, const ig_engine_stats *x) { add_stats(sum, x, 1); }

void ig_served_model_stats(const ig_served_model *m, ig_engine_stats *out) {
    ig_engine_get_stats(m->served.engine, out);
    add_stats(out, &m->warmup, -1);
}
