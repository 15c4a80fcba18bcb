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
#include "base/utf8.h"
#include "cli/app/arch_plugin.h"
#include "cli/app/line.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"

const char *const model_caches[] = {"f16", "bf16", "f32", "q8_0", NULL};

#define OPTION(member) offsetof(model_options, member)

const ig_opt model_file_opts[] = {
    {OPT_TEXT, 'm', "model", OPTION(path), .help = "the model, a .gguf or .oam file",
     .default_help = "the bundled story model", .value = "FILE", .env = "INGOT_MODEL",
     .flags = OPT_FIRST | OPT_FILE},
    {0},
};

const ig_opt model_opts[] = {
    {OPT_INT, 't', "threads", OPTION(threads), .help = "compute threads; 0: one per processor",
     .value = "N", .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024,
     .flags = OPT_FIRST},
    {OPT_INT, 0, "threads-batch", OPTION(threads_batch),
     .help = "alias of --threads: prefill and decode share one thread pool",
     .default_help = "--threads", .value = "N", .alias = "tb", .initial = "0", .low = 0,
     .high = 1024},
    {OPT_TEXT, 0, "device", OPTION(device), .help = "device to run on", .value = "NAME",
     .alias = "backend dev", .env = "INGOT_DEVICE", .suggestion = ig_device_suggestion,
     .source = OPTION(device_source), .flags = OPT_FIRST},
    {OPT_TEXT, 0, "n-gpu-layers", OPTION(gpu_layers),
     .help =
         "0: run on the CPU; any other value: --device decides, because a model runs on one device",
     .value = "N", .alias = "ngl gpu-layers"},
    {OPT_INT, 'c', "ctx-size", OPTION(ctx_len),
     .help =
         "context length; 0: the model's own, reduced if the KV cache would not fit into memory",
     .value = "N", .initial = "0", .low = 0, .high = 1 << 24, .flags = OPT_FIRST},
    {OPT_INT, 0, "ubatch-size", OPTION(chunk), .help = "micro-batch: tokens per prefill chunk",
     .default_help = "128", .value = "N", .alias = "ub", .initial = "0", .low = 0, .high = 4096},
    {OPT_INT, 'b', "batch-size", OPTION(batch),
     .help = "alias of --ubatch-size, which overrides it", .default_help = "--ubatch-size",
     .value = "N", .initial = "0", .low = 0, .high = 1 << 24},
    {OPT_TEXT, 0, "kv", OPTION(cache), .help = "KV cache data type", .default_help = "f16",
     .value = "TYPE", .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-k", OPTION(cache_k), .help = "KV cache data type of the keys",
     .default_help = "--kv", .value = "TYPE", .alias = "ctk", .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-v", OPTION(cache_v), .help = "KV cache data type of the values",
     .default_help = "--kv", .value = "TYPE", .alias = "ctv", .choices = model_caches},
    IG_ARCH_PLUGIN_OPT(OPTION(plugin)),
    {OPT_TEXT, 0, "arch", OPTION(arch), .help = "fail unless the model has this architecture",
     .value = "NAME"},
    {OPT_TEXT, 0, "pre", OPTION(pre), .help = "pre-tokenizer, instead of the one in the file",
     .value = "NAME"},
    {OPT_FLAG, 0, "no-mmap", OPTION(no_mmap),
     .help = "read the file into memory instead of mapping it"},
    {OPT_FLAG, 0, "no-pack", OPTION(no_pack),
     .help = "do not repack weights: starts faster, runs slower"},
    {OPT_FLAG, 0, "mlock", OPTION(mlock),
     .help = "lock the weights in RAM, so that the system cannot page them out"},
    {0},
};

/* ---- the model ---- */

/* Finds the bundled model relative to the program's path, in the build tree and after
 * installation. */
ig_status model_find(const char *given, char out[PATH_MAX]) {
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
    return IG_FAIL(IG_ERR_ARGUMENT, "--model is required: the bundled model is not installed");
}

static ig_status load(loaded_model *m, const ig_ctx_options *ctx_options) {
    const model_options *o = m->options;
    const ig_model_options options = {
        .no_mmap = o->no_mmap, .mlock = o->mlock, .pre_tokenizer = o->pre, .no_pack = o->no_pack};
    m->kind = ig_file_kind_of(m->path);
    if (m->kind != IG_FILE_GGUF && (o->no_mmap || o->mlock || o->pre || o->no_pack))
        return IG_FAIL(IG_ERR_ARGUMENT, "--%s: applies only to GGUF files",
                       o->mlock     ? "mlock"
                       : o->no_pack ? "no-pack"
                       : o->no_mmap ? "no-mmap"
                                    : "pre");
    IG_TRY(ig_ctx_create(ctx_options, &m->ctx));
    IG_TRY(ig_cli_load_archs(m->cli, m->ctx, o->plugin));
    const double began = ig_clock_seconds();
    IG_TRY(ig_adapter_open(m->ctx, m->path, &options, &m->adapter));
    ig_run_stage(m->cli, "read", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}

ig_status model_unknown_arch(const char *arch) {
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; ig_arch_name(i) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", ig_arch_name(i));
    return IG_FAIL(IG_ERR_ARGUMENT, "--arch %.64s: unknown architecture; expected one of:%s", arch,
                   known);
}

static bool is_built_in(const char *arch) {
    for (size_t i = 0; ig_arch_name(i); i++)
        if (strcmp(ig_arch_name(i), arch) == 0) return true;
    return false;
}

/* Checks that --arch, in any spelling, matches the file. */
static ig_status check_arch(const loaded_model *m) {
    const char *wanted = m->options->arch, *has = ig_adapter_architecture(m->adapter);
    if (!wanted) return IG_OK;
    const char *known = ig_arch_resolve(m->ctx, wanted);
    if (strcmp(known ? known : wanted, has) == 0) return IG_OK;
    if (!known && !is_built_in(wanted)) return model_unknown_arch(wanted);
    return IG_FAIL(IG_ERR_ARGUMENT, "--arch %s: %s holds the architecture %s", wanted, m->path,
                   has);
}

ig_status model_device(const ig_cli *cli, const model_options *o, const char **out) {
    const char *layers = o->gpu_layers, *device = o->device;
    char *end;
    *out = device;
    if (!layers) return IG_OK;
    const bool word = strcmp(layers, "auto") == 0 || strcmp(layers, "all") == 0;
    const long long count = word ? 1 : strtoll(layers, &end, 10);
    if (!word && (end == layers || *end))
        return IG_FAIL(IG_ERR_ARGUMENT, "--n-gpu-layers '%s': expected an integer, 'auto' or 'all'",
                       layers);
    if (count != 0) {
        ig_cli_say(cli, "--n-gpu-layers %s: a model runs on one device, here --device %s", layers,
                   device ? device : "auto");
        return IG_OK;
    }
    if (device && strcmp(device, "ref") == 0) return IG_OK; /* ref is the CPU, too */
    const bool differs = device && strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0;
    if (differs && o->device_source != OPT_FROM_ENV) /* a variable yields to an option */
        return IG_FAIL(IG_ERR_ARGUMENT, "--n-gpu-layers 0, --device %s: contradict each other",
                       device);
    *out = "cpu";
    return IG_OK;
}

int model_threads(const model_options *o) {
    return (int)(o->threads > 0 ? o->threads : o->threads_batch);
}

static void say_threads(const ig_cli *cli, const model_options *o) {
    if (o->threads_batch <= 0 || o->threads_batch == model_threads(o)) return;
    ig_cli_say(cli,
               "--threads-batch %lld: prefill and decode share one thread pool; --threads is %d",
               (long long)o->threads_batch, model_threads(o));
}

ig_status loaded_model_open(ig_cli *cli, const model_options *o, loaded_model *out) {
    *out = (loaded_model){.cli = cli, .options = o};
    ig_ctx_options options = ig_cli_ctx_options(cli);
    if (cli->cache_weights && o->no_pack)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--cache-weights, --no-pack: only packed weights can be cached");
    IG_TRY(model_device(cli, o, &options.device));
    IG_TRY(model_find(o->path, out->path));
    ig_run_model(cli, out->path);
    struct stat file;
    if (stat(out->path, &file) == 0) ig_run_estimate(cli, (uint64_t)file.st_size); /* the weights */
    ig_run_batch(cli, 1);
    const double began = ig_clock_seconds();
    ig_signals_reading(out->path);
    options.threads = model_threads(o);
    say_threads(cli, o);
    IG_TRY(load(out, &options));
    IG_TRY(check_arch(out));
    IG_TRY(ig_ctx_synchronize(out->ctx)); /* loading includes transfers to the device */
    out->load_ms = (ig_clock_seconds() - began) * 1e3;
    ig_run_stage(cli, "load", out->load_ms);
    ig_run_event(cli, "load", 0);
    return IG_OK;
}

/* Size of the KV cache, for the report of a run that runs out of memory. */
static uint64_t cache_bytes(const loaded_model *m, const ig_session_options *o) {
    const ig_model_config c = ig_adapter_config(m->adapter);
    const double each = o->cache_type_k && strcmp(o->cache_type_k, "f32") == 0 ? sizeof(float) : 2;
    const double width = (double)(c.n_heads ? c.d_model / c.n_heads * c.n_kv_heads : 0);
    const double tokens = (double)o->ctx_len * (double)(o->n_sequences ? o->n_sequences : 1);
    return (uint64_t)(2 * width * (double)c.n_layers * tokens * each);
}

/* Creates the session that a command needs, with the options applied. */
static ig_status make_session(loaded_model *m, ig_session_options wanted) {
    const model_options *o = m->options;
    if (m->session) return IG_OK;
    const int64_t own = ig_adapter_config(m->adapter).ctx_len;
    if (wanted.ctx_len > own) wanted.ctx_len = own;
    if (o->ctx_len > 0) wanted.ctx_len = o->ctx_len;
    wanted.ubatch = o->chunk > 0 ? o->chunk : o->batch < 4096 ? o->batch : 4096;
    wanted.cache_type_k = o->cache_k ? o->cache_k : o->cache;
    wanted.cache_type_v = o->cache_v ? o->cache_v : o->cache;
    ig_run_estimate(m->cli, m->cli->run->estimate_bytes + cache_bytes(m, &wanted));
    IG_TRY(ig_session_create(m->adapter, &wanted, &m->session));
    const int64_t ctx_len = ig_session_ctx_len(m->session);
    char size[IG_UNIT_TEXT_BYTES];
    if (wanted.ctx_len == 0 && ctx_len < own)
        ig_cli_say(m->cli,
                   "context length reduced from the model's %lld to %lld: its KV cache takes %s of "
                   "the available memory (-c N sets it)",
                   (long long)own, (long long)ctx_len,
                   ig_bytes_text(ig_session_cache_bytes(m->session), size));
    return IG_OK;
}

ig_status model_session(loaded_model *m, int64_t ctx_len, int64_t sequences) {
    return make_session(m, (ig_session_options){.ctx_len = ctx_len, .n_sequences = sequences});
}

ig_status model_hidden_session(loaded_model *m) {
    return make_session(m, (ig_session_options){.hidden = true});
}

ig_status loaded_model_prefill(loaded_model *m, const ig_tokens *tokens, float *logits) {
    const double began = ig_clock_seconds();
    IG_TRY(ig_session_feed(m->session, 0, tokens->at, (int64_t)tokens->count, logits));
    IG_TRY(ig_ctx_synchronize(m->ctx));
    ig_run_stage(m->cli, "prefill", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}

/* Reports the session's plans and last hidden state before freeing them. */
void loaded_model_close(loaded_model *m) {
    if (m->session)
        ig_run_hidden(m->cli, ig_session_hidden(m->session), ig_adapter_config(m->adapter).d_model);
    if (m->ctx) ig_run_context(m->cli, m->ctx);
    ig_session_destroy(m->session);
    ig_adapter_destroy(m->adapter);
    ig_ctx_destroy(m->ctx);
    *m = (loaded_model){0};
}

/* ---- texts ---- */

enum { READ_BYTES = 1 << 16 };

/* Whether the file cannot be mapped, such as a pipe. */
bool model_text_streams(const char *path) {
    struct stat file;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &file) == 0 && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode);
}

/* A signal ends it, also while waiting for input. */
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

ig_status model_read_text(ig_cli *cli, const char *prompt, const char *path, size_t most,
                          model_text *out) {
    if (!prompt == !path)
        return IG_FAIL(IG_ERR_ARGUMENT, prompt ? "--prompt, --file: give only one of them"
                                               : "--prompt is required, or --file");
    if (prompt) return copy(cli, prompt, strlen(prompt), out);
    if (model_text_streams(path)) return model_read_stream(cli, path, most, out);
    ig_file_map map;
    IG_TRY(ig_file_map_open(path, &map));
    const ig_status status = copy(cli, map.bytes, (size_t)map.size, out);
    ig_file_map_close(&map);
    return status;
}

ig_status model_check_text(const loaded_model *m, model_text text) {
    if (m->kind != IG_FILE_GGUF) return IG_OK;
    for (size_t at = 0, step; at < text.n_bytes; at += step) {
        uint32_t point;
        if (ig_utf8_next(text.bytes + at, text.n_bytes - at, &point, &step) != IG_UTF8_WHOLE)
            return IG_FAIL(IG_ERR_ARGUMENT, "the text is not UTF-8: byte %zu of %zu is 0x%02x",
                           at + 1, text.n_bytes, (unsigned char)text.bytes[at]);
    }
    return IG_OK;
}

ig_status model_tokenize(const loaded_model *m, model_text text, ig_tokens *out) {
    const double began = ig_clock_seconds();
    out->allocator = &m->cli->allocator;
    IG_TRY(model_check_text(m, text));
    IG_TRY(ig_tokenize(ig_adapter_tokenizer(m->adapter), text.bytes, text.n_bytes,
                       IG_TOKENIZE_PROMPT, out));
    ig_run_stage(m->cli, "tokenize", (ig_clock_seconds() - began) * 1e3);
    return IG_OK;
}
