/* Model files: detects the format of a path and opens it for inference. */
#include <sys/stat.h>

#include "base/file.h"
#include "format/gguf/gguf_layout.h"
#include "format/oam/oam_layout.h"
#include "ingot/model.h"

ig_file_kind ig_file_kind_of(const char *path) {
    struct stat file;
    if (!path || stat(path, &file) != 0) return IG_FILE_OTHER;
    if (S_ISDIR(file.st_mode)) return IG_FILE_FOLDER;
    if (ig_file_begins(path, GGUF_MAGIC, sizeof GGUF_MAGIC - 1)) return IG_FILE_GGUF;
    return ig_file_begins(path, OAM_MAGIC, sizeof OAM_MAGIC - 1) ? IG_FILE_OAM : IG_FILE_OTHER;
}

static void show(void *user, ig_progress_event event, uint64_t done, uint64_t total) {
    (void)ig_ctx_progress(user, event, done, total);
}

static bool is_cancelled(void *user) { return !ig_ctx_progress(user, IG_PROGRESS_LOAD, 0, 0); }

static ig_status open_gguf(ig_ctx *ctx, const char *path, ig_model_options options,
                           ig_adapter **out) {
    ig_model *model = NULL;
    if (!options.progress && !options.cancel) {
        options.progress = show;
        options.cancel = is_cancelled;
        options.user = ctx;
    }
    IG_TRY(ig_model_load(path, &options, &model));
    const ig_status status = ig_adapter_from_model(ctx, model, out);
    ig_model_release(model); /* the adapter holds a reference */
    return status;
}

ig_status ig_adapter_open(ig_ctx *ctx, const char *path, const ig_model_options *options,
                          ig_adapter **out) {
    static const ig_model_options defaults;
    if (!ctx || !path || !out) return IG_FAIL(IG_ERR_ARGUMENT, "adapter_open: NULL");
    const ig_model_options *o = options ? options : &defaults;
    if (ig_file_kind_of(path) == IG_FILE_GGUF) return open_gguf(ctx, path, *o, out);
    if (o->no_mmap || o->mlock || o->pre_tokenizer || o->no_pack)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "%s: no_mmap, mlock, pre_tokenizer and no_pack apply to GGUF files alone",
                       path);
    ig_adapter *adapter = NULL;
    IG_TRY(ig_adapter_load(ctx, path, &adapter));
    const ig_status status = ig_adapter_freeze(adapter);
    if (status == IG_OK)
        *out = adapter;
    else
        ig_adapter_destroy(adapter);
    return status;
}
