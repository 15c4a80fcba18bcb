#include "cli/commands/loaded_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/app/line.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "model/gguf/gguf_model.h"
#include "base/utf8.h"

const char *const model_caches[] = {"f16", "f32", "q8_0", NULL};

static const char device_variable[] = "INGOT_DEVICE";

#define OPTION(member) offsetof(model_options, member)

const ig_opt model_opts[] = {
    {OPT_TEXT, 'm', "model", OPTION(path),
     .help = "the model, a .gguf or .oam file; without it, a small one that tells stories",
     .value = "FILE", .env = "INGOT_MODEL", .flags = OPT_FILE},
    {OPT_INT, 't', "threads", OPTION(threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_INT, 0, "threads-batch", OPTION(threads_batch),
     .help = "the same, where --threads has no number: prompts have no threads of their own",
     .value = "N", .alias = "tb", .initial = "0", .low = 0, .high = 1024},
    {OPT_TEXT, 0, "device", OPTION(device), .help = "where to compute", .value = "NAME",
     .alias = "backend dev", .env = device_variable, .choices = ig_devices},
    {OPT_TEXT, 0, "n-gpu-layers", OPTION(gpu_layers),
     .help =
         "0: compute on the CPU; any other number, auto or all: as --device says, since a model "
         "runs whole on one device",
     .value = "N", .alias = "ngl gpu-layers"},
    {OPT_INT, 'c', "ctx-size", OPTION(ctx_len),
     .help = "tokens that a text may have; 0: the model's own, but at most 4096", .value = "N",
     .initial = "0", .low = 0, .high = 1 << 24},
    {OPT_INT, 0, "ubatch-size", OPTION(chunk),
     .help = "rows that go through the model at once; 0: 128", .value = "N", .alias = "ub",
     .initial = "0", .low = 0, .high = 4096},
    {OPT_INT, 'b', "batch-size", OPTION(batch), .help = "the same, unless -ub says otherwise",
     .value = "N", .initial = "0", .low = 0, .high = 1 << 24},
    {OPT_TEXT, 0, "kv", OPTION(cache), .help = "what keys and values are kept as; f16 if not said",
     .value = "TYPE", .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-k", OPTION(cache_k), .help = "the same for keys", .value = "TYPE",
     .alias = "ctk", .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-v", OPTION(cache_v), .help = "the same for values", .value = "TYPE",
     .alias = "ctv", .choices = model_caches},
    {OPT_TEXT, 0, "pre", OPTION(pre),
     .help = "how text is split before it becomes tokens, instead of what the file says",
     .value = "NAME"},
    {OPT_FLAG, 0, "no-mmap", OPTION(no_mmap),
     .help = "read the file into memory instead of mapping it"},
    {OPT_FLAG, 0, "no-pack", OPTION(no_pack),
     .help = "read weights as they lie in the file: starts at once, then runs slower"},
    {OPT_FLAG, 0, "mlock", OPTION(mlock),
     .help = "keep the weights in memory: the system may not page them out"},
    {0},
};

/* ---- the model ---- */

/* The model that comes with the program lies where it does from the program's own place, in the
 * build tree and wherever that was installed. */
static ig_status find_model(const char *given, char out[PATH_MAX]) {
    if (given) {
        if (snprintf(out, PATH_MAX, "%s", given) < PATH_MAX) return IG_OK;
        return IG_FAIL(IG_ERR_ARGUMENT, "--model: a name of %zu bytes", strlen(given));
    }
    static const char file[] = "/" INGOT_DATA_FROM_BIN "/stories.oam";
    const ssize_t bytes = readlink("/proc/self/exe", out, PATH_MAX);
    char *slash = bytes > 0 ? memrchr(out, '/', (size_t)bytes) : NULL;
    if (slash && (size_t)(slash - out) + sizeof file <= PATH_MAX) {
        memcpy(slash, file, sizeof file);
        if (access(out, R_OK) == 0) return IG_OK;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "--model: is missing, and so is the one that comes with ingot");
}

/* Reads the file: its keys, its vocabulary, and whether its weights are what they have to be. */
static ig_status read_file(opened_model *m, const ig_model_options *options, ig_model **out) {
    const double began = ig_clock_seconds();
    const ig_status status = ig_model_load(m->path, options, out);
    if (status != IG_OK) ig_compiling_end(m->cli); /* there is no context that would */
    IG_TRY(status);
    ig_run_stage(m->cli, "read", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}

static ig_status load(opened_model *m, ig_ctx_options *ctx_options) {
    const model_options *o = m->options;
    const ig_model_options options = {.no_map = o->no_mmap,
                                      .lock = o->mlock,
                                      .pre = o->pre,
                                      .no_pack = o->no_pack,
                                      .progress = ctx_options->progress,
                                      .cancel = ctx_options->cancel,
                                      .user = ctx_options->user};
    if (!ig_model_is_gguf(m->path)) {
        if (o->no_mmap || o->mlock || o->pre || o->no_pack)
            return IG_FAIL(IG_ERR_ARGUMENT, "--%s: means something to GGUF files alone",
                           o->mlock     ? "mlock"
                           : o->no_pack ? "no-pack"
                           : o->no_mmap ? "no-mmap"
                                        : "pre");
        IG_TRY(ig_ctx_create(ctx_options, &m->ctx));
        IG_TRY(ig_adapter_load(m->ctx, m->path, &m->adapter));
        return ig_adapter_freeze(m->adapter);
    }
    ig_model *model = NULL;
    IG_TRY(read_file(m, &options, &model));
    ig_status status = ig_ctx_create(ctx_options, &m->ctx);
    if (status == IG_OK) status = ig_adapter_from_model(m->ctx, model, &m->adapter);
    ig_model_release(model);
    return status;
}

/* The device that --device and --n-gpu-layers agree on; NULL: neither says. */
static ig_status choose_device(const ig_cli *cli, const model_options *o, const char **out) {
    const char *layers = o->gpu_layers, *device = o->device;
    char *end;
    *out = device;
    if (!layers) return IG_OK;
    const bool word = strcmp(layers, "auto") == 0 || strcmp(layers, "all") == 0;
    const long long count = word ? 1 : strtoll(layers, &end, 10);
    if (!word && (end == layers || *end))
        return IG_FAIL(IG_ERR_ARGUMENT, "--n-gpu-layers '%s': a whole number, auto or all", layers);
    if (count != 0) {
        ig_cli_say(cli, "--n-gpu-layers %s: a model runs whole on one device, here --device %s",
                   layers, device ? device : "auto");
        return IG_OK;
    }
    if (device && strcmp(device, "ref") == 0) return IG_OK; /* that one is the CPU, too */
    const bool differs = device && strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0;
    /* Texts are lent, so the variable's is known by its place: it is weaker than an option. */
    if (differs && device != getenv(device_variable))
        return IG_FAIL(IG_ERR_ARGUMENT, "--n-gpu-layers 0, --device %s: one says the CPU", device);
    *out = "cpu";
    return IG_OK;
}

int model_threads(const model_options *o) {
    return (int)(o->threads > 0 ? o->threads : o->threads_batch);
}

static void say_threads(const ig_cli *cli, const model_options *o) {
    if (o->threads_batch <= 0 || o->threads_batch == model_threads(o)) return;
    ig_cli_say(cli, "--threads-batch %lld: prompts have no threads of their own, here --threads %d",
               (long long)o->threads_batch, model_threads(o));
}

ig_status model_open(ig_cli *cli, const model_options *o, opened_model *out) {
    *out = (opened_model){.cli = cli, .options = o};
    ig_ctx_options options = ig_cli_ctx_options(cli);
    if (cli->cache_weights && o->no_pack)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--cache-weights, --no-pack: it is packed weights that are kept");
    IG_TRY(choose_device(cli, o, &options.device));
    IG_TRY(find_model(o->path, out->path));
    ig_run_model(cli, out->path);
    struct stat file;
    if (stat(out->path, &file) == 0) ig_run_estimate(cli, (uint64_t)file.st_size); /* the weights */
    ig_run_batch(cli, 1);
    const double began = ig_clock_seconds();
    ig_signals_reading(out->path);
    options.threads = model_threads(o);
    say_threads(cli, o);
    IG_TRY(load(out, &options));
    out->load_ms = (ig_clock_seconds() - began) * 1e3;
    ig_run_stage(cli, "load", out->load_ms);
    ig_run_event(cli, "load", 0);
    return IG_OK;
}

/* What keys and values take, for the report of a run that runs out of memory. */
static uint64_t cache_bytes(const opened_model *m, const ig_session_options *o) {
    const ig_model_config c = ig_adapter_config(m->adapter);
    const double each = o->cache_k && strcmp(o->cache_k, "f32") == 0 ? sizeof(float) : 2;
    const double width = (double)(c.n_heads ? c.d_model / c.n_heads * c.n_kv_heads : 0);
    const double tokens = (double)o->ctx_len * (double)(o->sequences ? o->sequences : 1);
    return (uint64_t)(2 * width * (double)c.n_layers * tokens * each);
}

/* Makes the session that a command wants, and the options say the rest of. */
static ig_status make_session(opened_model *m, ig_session_options wanted) {
    const model_options *o = m->options;
    if (m->session) return IG_OK;
    const int64_t own = ig_adapter_config(m->adapter).ctx_len;
    if (wanted.ctx_len > own) wanted.ctx_len = own;
    if (o->ctx_len > 0) wanted.ctx_len = o->ctx_len;
    wanted.chunk = o->chunk > 0 ? o->chunk : o->batch < 4096 ? o->batch : 4096;
    wanted.cache_k = o->cache_k ? o->cache_k : o->cache;
    wanted.cache_v = o->cache_v ? o->cache_v : o->cache;
    ig_run_estimate(m->cli, m->cli->run->estimate_bytes + cache_bytes(m, &wanted));
    return ig_session_create(m->adapter, &wanted, &m->session);
}

ig_status model_session(opened_model *m, int64_t ctx_len, int64_t sequences) {
    return make_session(m, (ig_session_options){.ctx_len = ctx_len, .sequences = sequences});
}

ig_status model_hidden_session(opened_model *m) {
    return make_session(m, (ig_session_options){.hidden = true});
}

ig_status model_feed(opened_model *m, model_tokens tokens, float *logits) {
    const double began = ig_clock_seconds();
    IG_TRY(ig_session_feed(m->session, 0, tokens.at, (int64_t)tokens.count, logits));
    ig_run_stage(m->cli, "prefill", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}

/* Plans of the session and its last hidden state belong to the report. */
void model_close(opened_model *m) {
    if (m->session)
        ig_run_hidden(m->cli, ig_session_hidden(m->session), ig_adapter_config(m->adapter).d_model);
    if (m->ctx) ig_run_context(m->cli, m->ctx);
    ig_session_destroy(m->session);
    ig_adapter_destroy(m->adapter);
    ig_ctx_destroy(m->ctx);
    *m = (opened_model){0};
}

/* ---- texts ---- */

enum { TEXT_MOST = 1 << 30, READ_BYTES = 1 << 16 };

/* A pipe has no bytes to map. */
bool model_text_streams(const char *path) {
    struct stat file;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &file) == 0 && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode);
}

/* A signal ends it, also while nobody writes. */
static ig_status read_all(ig_cli *cli, int fd, const char *name, size_t most, model_text *out) {
    size_t room = 0;
    for (;;) {
        if (out->n_bytes > most)
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: a text of more than %zu MiB", name, most >> 20);
        if (!IG_GROW(&cli->allocator, out->bytes, &room, out->n_bytes + READ_BYTES))
            return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the text", name);
        IG_TRY(ig_wait_input(fd, name));
        const ssize_t got = read(fd, out->bytes + out->n_bytes, READ_BYTES);
        if (got == 0) return IG_OK;
        if (got > 0) out->n_bytes += (size_t)got;
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return IG_FAIL(IG_ERR_IO, "%s: %s", name, strerror(errno));
    }
}

ig_status model_read_stream(ig_cli *cli, const char *path, size_t most, model_text *out) {
    if (strcmp(path, "-") == 0) return read_all(cli, STDIN_FILENO, "standard input", most, out);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return IG_FAIL(IG_ERR_IO, "%s: %s", path, strerror(errno));
    const ig_status status = read_all(cli, fd, path, most, out);
    close(fd);
    return status;
}

static ig_status copy(ig_cli *cli, const void *bytes, size_t n_bytes, model_text *out) {
    out->bytes = ig_alloc(&cli->allocator, n_bytes + 1, 1);
    if (!out->bytes) return IG_FAIL(IG_ERR_MEMORY, "a text of %zu bytes", n_bytes);
    if (n_bytes > 0) memcpy(out->bytes, bytes, n_bytes);
    out->n_bytes = n_bytes;
    return IG_OK;
}

ig_status model_read_text(ig_cli *cli, const char *prompt, const char *path, model_text *out) {
    if (!prompt == !path)
        return IG_FAIL(IG_ERR_ARGUMENT, prompt ? "--prompt, --file: one text is enough"
                                               : "--prompt: is missing; --file reads it");
    if (prompt) return copy(cli, prompt, strlen(prompt), out);
    if (model_text_streams(path)) return model_read_stream(cli, path, TEXT_MOST, out);
    ig_file_map map;
    IG_TRY(ig_file_map_open(path, &map));
    const ig_status status = copy(cli, map.bytes, (size_t)map.size, out);
    ig_file_map_close(&map);
    return status;
}

ig_status model_check_text(const opened_model *m, model_text text) {
    if (!ig_model_is_gguf(m->path)) return IG_OK;
    for (size_t at = 0, step; at < text.n_bytes; at += step) {
        uint32_t point;
        if (ig_utf8_next(text.bytes + at, text.n_bytes - at, &point, &step) != IG_UTF8_WHOLE)
            return IG_FAIL(IG_ERR_ARGUMENT, "the text is not UTF-8: byte %zu of %zu is 0x%02x",
                           at + 1, text.n_bytes, (unsigned char)text.bytes[at]);
    }
    return IG_OK;
}

ig_status model_encode(const opened_model *m, model_text text, model_tokens *out) {
    const ig_allocator *a = &m->cli->allocator;
    const double began = ig_clock_seconds();
    size_t count = 0;
    IG_TRY(model_check_text(m, text));
    IG_TRY(ig_adapter_encode_prompt(m->adapter, text.bytes, text.n_bytes, NULL, 0, &count));
    out->at = ig_alloc(a, count, sizeof *out->at);
    if (!out->at) return IG_FAIL(IG_ERR_MEMORY, "a text of %zu tokens", count);
    IG_TRY(ig_adapter_encode_prompt(m->adapter, text.bytes, text.n_bytes, out->at, count,
                                    &out->count));
    ig_run_stage(m->cli, "tokenize", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}
