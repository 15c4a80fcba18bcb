#include "cli/commands/parity.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/report_file.h"
#include "format/gguf/gguf.h"
#include "ingot/grad.h"
#include "model/synthetic/synthetic_models.h"

enum { SEED = 1 }; /* of random weights: the same on every device, in every run */

/* ---- The model ---- */

/* An architecture that is trained here, as small as it can show something. */
static ig_status create_trained(const parity_job *job, opened_model *m) {
    const ig_model_config config = {
        .d_model = 64, .n_layers = 2, .n_heads = 4, .d_ff = 128, .ctx_len = 128};
    ig_ctx_options options = ig_cli_ctx_options(job->cli);
    options.device = m->options->device;
    options.threads = model_threads(m->options);
    options.seed = SEED;
    IG_TRY(ig_ctx_create(&options, &m->ctx));
    IG_TRY(ig_adapter_create(m->ctx, job->arch, &config, &m->adapter));
    return ig_adapter_freeze(m->adapter);
}

static ig_status put_bytes(int fd, const model_bytes *made) {
    const char *at = made->bytes;
    for (size_t left = made->size; left > 0;) {
        const ssize_t put = write(fd, at, left);
        if (put <= 0) return IG_FAIL(IG_ERR_MEMORY, "parity: no memory for %zu bytes", made->size);
        at += put;
        left -= (size_t)put;
    }
    return IG_OK;
}

/* One that is read from files: a file in memory, which has a path as long as it is open. */
static ig_status open_random(const parity_job *job, model_options *options, opened_model *m) {
    model_bytes made;
    char path[64];
    IG_TRY(model_make(job->arch, IG_F32, &made));
    const int fd = memfd_create("parity", MFD_CLOEXEC);
    ig_status status = fd >= 0 ? put_bytes(fd, &made)
                               : IG_FAIL(IG_ERR_MEMORY, "parity: no file in memory to be had");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    options->path = path;
    if (status == IG_OK) status = model_open(job->cli, options, m);
    if (fd >= 0) close(fd); /* what is mapped stays */
    options->path = NULL;   /* the model has a copy */
    free(made.bytes);
    return status;
}

static ig_status unknown_arch(const char *arch) {
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; ig_arch_name(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", ig_arch_name(i));
    return IG_FAIL(IG_ERR_MODEL, "there is no architecture %.64s; there are:%s", arch, known);
}

static ig_status open_model(const parity_job *job, model_options *options, opened_model *m) {
    if (!job->arch) return model_open(job->cli, options, m);
    *m = (opened_model){.cli = job->cli, .options = options};
    const bool is_trained = ig_arch_resolve(job->arch) != NULL;
    if (!is_trained && !model_is_known(job->arch)) return unknown_arch(job->arch);
    const ig_status status = is_trained ? create_trained(job, m) : open_random(job, options, m);
    ig_run_model(job->cli, job->arch);
    return status;
}

/* Whether kernels may round what goes in: those that multiply blocks do. */
static bool has_blocks(const opened_model *m) {
    ig_gguf *file = NULL;
    bool found = false;
    if (!*m->path || ig_gguf_open_file(&m->cli->allocator, m->path, &file) != IG_OK) return false;
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++)
        found |= ig_gguf_tensor_at(file, i)->desc.dtype >= IG_Q4_0;
    ig_gguf_close(file);
    return found;
}

/* ---- Running ---- */

static int32_t likeliest(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static ig_status make_room(const parity_job *job, const opened_model *m, parity_run *r) {
    const ig_allocator *a = &job->cli->allocator;
    const bool speaks = ig_adapter_makes_text(m->adapter);
    r->d_model = ig_adapter_config(m->adapter).d_model;
    r->width = speaks ? ig_adapter_vocabulary(m->adapter) : r->d_model;
    r->n_rows = speaks ? 1 + job->n_tokens : 1;
    r->logits = ig_alloc(a, (size_t)(r->n_rows * r->width), sizeof *r->logits);
    r->tokens = ig_alloc(a, (size_t)r->n_rows, sizeof *r->tokens);
    r->hidden = ig_alloc(a, (size_t)r->d_model, sizeof *r->hidden);
    if (r->logits && r->tokens && r->hidden) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "parity: no memory for logits");
}

static ig_status speak(opened_model *m, model_tokens prompt, parity_run *r) {
    IG_TRY(ig_session_truncate(m->session, 0, 0));
    IG_TRY(model_feed(m, prompt, r->logits));
    const float *hidden = ig_session_hidden(m->session);
    if (!hidden) return IG_FAIL(IG_ERR_STATE, "parity: %s shows no hidden state", r->name);
    memcpy(r->hidden, hidden, (size_t)r->d_model * sizeof *hidden);
    for (int64_t i = 0; i + 1 < r->n_rows; i++) {
        r->tokens[i] = likeliest(r->logits + i * r->width, r->width);
        IG_TRY(ig_session_feed(m->session, 0, &r->tokens[i], 1, r->logits + (i + 1) * r->width));
    }
    return IG_OK;
}

/* A model that makes no text: its embedding stands for logits and hidden state.  Twice: the first
 * time ops run one by one and are recorded, the second time the device runs what it made of the
 * whole. */
static ig_status embed_twice(const parity_job *job, opened_model *m, parity_run *r) {
    IG_TRY(ig_mode_set(m->ctx, IG_MODE_COMPILED));
    for (int i = 0; i < 2; i++)
        IG_TRY(ig_adapter_embed(m->adapter, job->text.bytes, job->text.n_bytes, IG_POOL_AS_FILE,
                                r->logits, &r->n_prompt));
    memcpy(r->hidden, r->logits, (size_t)r->d_model * sizeof *r->hidden);
    return IG_OK;
}

static ig_status work(const parity_job *job, opened_model *m, parity_run *r) {
    model_tokens prompt = {0};
    IG_TRY(make_room(job, m, r));
    r->blocks = has_blocks(m);
    if (!ig_adapter_makes_text(m->adapter)) return embed_twice(job, m, r);
    ig_status status = model_encode(m, job->text, &prompt);
    if (status == IG_OK && prompt.count == 0)
        status = IG_FAIL(IG_ERR_ARGUMENT, "the prompt has no tokens");
    r->n_prompt = (int64_t)prompt.count;
    if (status == IG_OK) status = model_session(m, r->n_prompt + r->n_rows - 1, 1);
    if (status == IG_OK) status = speak(m, prompt, r);
    ig_free(&job->cli->allocator, prompt.at);
    return status;
}

ig_status parity_run_on(const parity_job *job, parity_run *r) {
    model_options options = job->model;
    opened_model m = {0};
    options.device = r->name;
    if (!options.cache) options.cache = "f32"; /* its rounding would hide the device's */
    ig_status status = open_model(job, &options, &m);
    if (status == IG_OK) status = work(job, &m, r);
    model_close(&m);
    return status;
}

void parity_run_release(const ig_cli *cli, parity_run *r) {
    ig_free(&cli->allocator, r->logits);
    ig_free(&cli->allocator, r->tokens);
    ig_free(&cli->allocator, r->hidden);
    *r = (parity_run){0};
}
