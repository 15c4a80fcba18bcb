#include "cli/commands/parity.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/report_file.h"
#include "cli/commands/parity_tolerance.h"
#include "ingot/gguf.h"
#include "ingot/grad.h"
#include "ingot/testing.h"

enum { SEED = 1 }; /* of random weights: the same on every device and in every run */

/* ---- The model ---- */

/* Creates a trainable architecture at its smallest useful size. */
static ig_status create_trained(const parity_job *job, loaded_model *m) {
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

static ig_status put_bytes(int fd, const ig_string *made) {
    const char *at = made->bytes;
    for (size_t left = made->n_bytes; left > 0;) {
        const ssize_t put = write(fd, at, left);
        if (put <= 0)
            return IG_FAIL(IG_ERR_MEMORY, "parity: no memory for %zu bytes", made->n_bytes);
        at += put;
        left -= (size_t)put;
    }
    return IG_OK;
}

/* Creates an architecture that is loaded from files: writes a file in memory, which has a path
 * while it is open. */
static ig_status open_random(const parity_job *job, model_options *options, loaded_model *m) {
    ig_string made = {.allocator = &job->cli->allocator};
    char path[64];
    IG_TRY(ig_synthetic_model_create(job->arch, IG_F32, &made));
    const int fd = memfd_create("parity", MFD_CLOEXEC);
    ig_status status = fd >= 0 ? put_bytes(fd, &made)
                               : IG_FAIL(IG_ERR_MEMORY, "parity: cannot create a memory file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    options->path = path;
    if (status == IG_OK) status = loaded_model_open(job->cli, options, m);
    if (fd >= 0) close(fd); /* the mapping stays valid */
    options->path = NULL;   /* the model has copied it */
    ig_string_deinit(&made);
    return status;
}

static bool is_synthetic(const char *arch) {
    for (size_t i = 0; ig_synthetic_model_name(i); i++)
        if (strcmp(ig_synthetic_model_name(i), arch) == 0) return true;
    return false;
}

static ig_status open_model(const parity_job *job, model_options *options, loaded_model *m) {
    if (!job->arch) return loaded_model_open(job->cli, options, m);
    *m = (loaded_model){.cli = job->cli, .options = options};
    const bool is_trained = ig_arch_resolve(NULL, job->arch) != NULL;
    if (!is_trained && !is_synthetic(job->arch)) return model_unknown_arch(job->arch);
    const ig_status status = is_trained ? create_trained(job, m) : open_random(job, options, m);
    ig_run_model(job->cli, job->arch);
    return status;
}

/* Properties of the weights that set the tolerance: kernels on quantized weights may quantize
 * activations, and then a router may choose another expert. */
static void look_at_weights(const loaded_model *m, parity_run *r) {
    ig_gguf *file = NULL;
    if (!*m->path ||
        ig_gguf_open(m->path, &(ig_gguf_options){.allocator = &m->cli->allocator}, &file) != IG_OK)
        return;
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++) {
        const ig_gguf_tensor *t = ig_gguf_tensor_at(file, i);
        if (parity_is_coarser(t->desc.dtype, r->coarsest)) r->coarsest = t->desc.dtype;
        r->routed |= strstr(t->name, "_exps.") != NULL;
    }
    ig_gguf_close(file);
}

/* ---- Running ---- */

static int32_t argmax(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static ig_status make_room(const parity_job *job, const loaded_model *m, parity_run *r) {
    const ig_allocator *a = &job->cli->allocator;
    const bool speaks = ig_adapter_can_generate(m->adapter);
    r->d_model = ig_adapter_config(m->adapter).d_model;
    r->width = speaks ? ig_adapter_vocab_size(m->adapter) : r->d_model;
    r->n_rows = speaks ? 1 + job->n_tokens : 1;
    r->logits = ig_alloc(a, (size_t)(r->n_rows * r->width), sizeof *r->logits);
    r->tokens = ig_alloc(a, (size_t)r->n_rows, sizeof *r->tokens);
    r->hidden = ig_alloc(a, (size_t)r->d_model, sizeof *r->hidden);
    if (r->logits && r->tokens && r->hidden) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "parity: no memory for logits");
}

static ig_status speak(loaded_model *m, const ig_tokens *prompt, parity_run *r) {
    IG_TRY(ig_session_truncate(m->session, 0, 0));
    IG_TRY(loaded_model_prefill(m, prompt, r->logits));
    const float *hidden = ig_session_hidden(m->session);
    if (!hidden)
        return IG_FAIL(IG_ERR_STATE, "parity: %s does not expose its hidden state", r->name);
    memcpy(r->hidden, hidden, (size_t)r->d_model * sizeof *hidden);
    for (int64_t i = 0; i + 1 < r->n_rows; i++) {
        r->tokens[i] = argmax(r->logits + i * r->width, r->width);
        IG_TRY(ig_session_feed(m->session, 0, &r->tokens[i], 1, r->logits + (i + 1) * r->width));
    }
    return IG_OK;
}

/* Runs an encoder: its embedding stands for logits and hidden state. Twice: the first run executes
 * and records op by op, the second one runs the compiled plan. */
static ig_status embed_twice(const parity_job *job, loaded_model *m, parity_run *r) {
    IG_TRY(ig_mode_set(m->ctx, IG_MODE_COMPILED));
    for (int i = 0; i < 2; i++)
        IG_TRY(ig_adapter_embed(m->adapter, job->text.bytes, job->text.n_bytes, IG_POOL_DEFAULT,
                                r->logits, &r->n_prompt));
    memcpy(r->hidden, r->logits, (size_t)r->d_model * sizeof *r->hidden);
    return IG_OK;
}

static ig_status work(const parity_job *job, loaded_model *m, parity_run *r) {
    ig_tokens prompt = {0};
    IG_TRY(make_room(job, m, r));
    look_at_weights(m, r);
    if (!ig_adapter_can_generate(m->adapter)) return embed_twice(job, m, r);
    ig_status status = model_tokenize(m, job->text, &prompt);
    if (status == IG_OK && prompt.count == 0)
        status = IG_FAIL(IG_ERR_ARGUMENT, "the prompt has no tokens");
    r->n_prompt = (int64_t)prompt.count;
    if (status == IG_OK) status = model_session(m, r->n_prompt + r->n_rows - 1, 1);
    if (status == IG_OK && r->n_prompt + r->n_rows - 1 > ig_session_ctx_len(m->session))
        status = IG_FAIL(IG_ERR_ARGUMENT,
                         "--prompt, --n-predict: %lld and %lld tokens, but the context is %lld",
                         (long long)r->n_prompt, (long long)r->n_rows - 1,
                         (long long)ig_session_ctx_len(m->session));
    if (status == IG_OK) status = speak(m, &prompt, r);
    ig_tokens_deinit(&prompt);
    return status;
}

ig_status parity_run_on(const parity_job *job, parity_run *r) {
    model_options options = job->model;
    loaded_model m = {0};
    options.device = r->name;
    options.device_source = OPT_FROM_ARGV;     /* which --n-gpu-layers 0 must not replace */
    if (!options.cache) options.cache = "f32"; /* F16 would hide differences between devices */
    ig_status status = open_model(job, &options, &m);
    if (status == IG_OK) status = work(job, &m, r);
    loaded_model_close(&m);
    return status;
}

void parity_run_release(const ig_cli *cli, parity_run *r) {
    ig_free(&cli->allocator, r->logits);
    ig_free(&cli->allocator, r->tokens);
    ig_free(&cli->allocator, r->hidden);
    *r = (parity_run){0};
}
