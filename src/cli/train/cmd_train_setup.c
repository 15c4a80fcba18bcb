/*
 * Setup before the first step: model, settings and data.
 *
 * A setting comes from the command line, else from the resumed checkpoint, else from the defaults
 * in the table below.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_parse.h"
#include "cli/app/arch_plugin.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "cli/train/cmd_train.h"
#include "ingot/checkpoint.h"
#include "ingot/report.h"

enum {
    SAMPLE_BYTES = 16 << 20, /* upper bound of the text that a tokenizer is trained on */
    DEFAULT_STEPS = 1000,
    WARMUP_MOST = 100,
};

/* ---- Settings ---- */

static const double computed = -1; /* a default computed from other settings */

/* Numeric settings: int64_t in both structs, or double. */
static const struct row {
    const char *key; /* in the checkpoint */
    size_t from, to; /* in train_options, in train_settings */
    bool real;
    double standard, low, high; /* default, and the range accepted from a file */
} rows[] = {
#define WHOLE(key, member, ...) \
    { key, offsetof(train_options, member), offsetof(train_settings, member), false, __VA_ARGS__ }
#define REAL(key, member, ...) \
    { key, offsetof(train_options, member), offsetof(train_settings, member), true, __VA_ARGS__ }
    WHOLE("batch", batch, 4, 1, 1e6),
    WHOLE("accumulate", accumulate, 1, 1, 1e6),
    WHOLE("warmup", warmup, computed, 0, 1e12),
    REAL("rate", rate, 3e-4, 1e-12, 1e3),
    REAL("min_rate", min_rate, computed, 0, 1e3),
    REAL("weight_decay", weight_decay, 0.01, 0, 100),
    REAL("clip", clip, 1, 0, 1e9),
    REAL("val_split", val_split, 0.05, 0, 0.9),
#undef WHOLE
#undef REAL
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* The option's value; NaN: not given. */
static double given(const train_options *o, const struct row *row) {
    const char *from = (const char *)o + row->from;
    if (row->real) return *(const double *)from;
    const int64_t value = *(const int64_t *)from;
    return value == IG_NOT_GIVEN ? NAN : (double)value;
}

static void put(train_settings *s, const struct row *row, double value) {
    char *to = (char *)s + row->to;
    if (row->real)
        *(double *)to = value;
    else
        *(int64_t *)to = (int64_t)value;
}

static double get(const train_settings *s, const struct row *row) {
    const char *from = (const char *)s + row->to;
    return row->real ? *(const double *)from : (double)*(const int64_t *)from;
}

/* A number from a file, or `standard` if it is missing or out of range. */
static double saved_number(const json_t *from, const char *key, double standard, double low,
                           double high) {
    const json_t *value = json_object_get(from, key);
    if (!json_is_number(value)) return standard;
    const double number = json_number_value(value);
    return number >= low && number <= high ? number : standard;
}

/* The option's choice, else the file's, else the default. */
static int64_t find_choice(int said, const json_t *saved, const char *key,
                           const char *const *choices, int usual) {
    if (said >= 0) return said;
    const char *name = json_string_value(json_object_get(saved, key));
    for (int i = 0; name && choices[i]; i++)
        if (strcmp(name, choices[i]) == 0) return i;
    return usual;
}

/* Sets the compute dtype: the option's, else the file's, else f32. */
static ig_status set_dtype(trainer *t, const json_t *saved) {
    const char *said = t->options->dtype;
    const char *kept = json_string_value(json_object_get(saved, "dtype"));
    ig_dtype dtype = IG_F32;
    if (said && !ig_dtype_find(said, &dtype))
        return IG_FAIL(IG_ERR_ARGUMENT, "--dtype '%s': must be f32 or bf16", said);
    if (!said && kept) (void)ig_dtype_find(kept, &dtype);
    t->settings.dtype = dtype;
    const ig_status status = ig_adapter_set_compute_dtype(t->adapter, dtype);
    char words[IG_ERROR_BYTES];
    return status == IG_OK ? IG_OK : IG_FAIL(status, "--dtype %s", ig_cli_error(t->cli, words));
}

/* "90", "90s", "5m", "2h" */
static ig_status parse_time(const char *text, double *out) {
    static const char units[] = "smhd";
    static const double seconds[] = {1, 60, 3600, 86400};
    char *end;
    const double count = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : units;
    if (end == text || !unit || (*end && end[1]) || !(count > 0 && count < 1e9))
        return IG_FAIL(IG_ERR_ARGUMENT, "--time '%s': expected a duration such as 90, 5m or 2h",
                       text);
    *out = count * seconds[unit - units];
    return IG_OK;
}

/* Resolves the length: one of steps, epochs and time; if none is given, the file's. */
static ig_status resolve_length(trainer *t, const json_t *saved) {
    const train_options *o = t->options;
    train_settings *s = &t->settings;
    const bool steps = o->steps != IG_NOT_GIVEN, epochs = !isnan(o->epochs), time = o->time != NULL;
    if (steps + epochs + time > 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "--steps, --epochs, --time: give only one of them");
    if (steps) s->steps = o->steps;
    if (epochs) s->epochs = o->epochs;
    if (time) {
        IG_TRY(parse_time(o->time, &s->seconds));
        s->seconds += t->seconds_before; /* counted from now */
    }
    if (steps || epochs || time) return IG_OK;
    s->steps = (int64_t)saved_number(saved, "steps", 0, 1, 1e12);
    s->epochs = saved_number(saved, "epochs", 0, 0, 1e9);
    s->seconds = saved_number(saved, "seconds", 0, 0, 1e12);
    if (s->steps == 0 && s->epochs == 0 && s->seconds == 0) s->steps = DEFAULT_STEPS;
    return IG_OK;
}

static ig_status resolve_settings(trainer *t, const json_t *saved) {
    train_settings *s = &t->settings;
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        const double said = given(t->options, row);
        const double kept = saved_number(saved, row->key, row->standard, row->low, row->high);
        put(s, row, isnan(said) ? kept : said);
    }
    s->schedule =
        find_choice(t->options->schedule, saved, "schedule", train_schedules, TRAIN_COSINE);
    IG_TRY(set_dtype(t, saved));
    if (s->min_rate == computed) s->min_rate = s->rate / 10;
    if (s->min_rate > s->rate)
        return IG_FAIL(IG_ERR_ARGUMENT, "--min-lr %g: is above --lr %g", s->min_rate, s->rate);
    const double decay = saved_number(saved, "weight_decay", s->weight_decay, 0, 100);
    if (t->options->resume && s->weight_decay != decay)
        return IG_FAIL(IG_ERR_ARGUMENT, "--weight-decay %g: cannot be changed; %s has %g",
                       s->weight_decay, t->options->resume, decay);
    return resolve_length(t, saved);
}

/* Computes the number of steps and what depends on it, once the data is known. */
static ig_status resolve_total(trainer *t) {
    train_settings *s = &t->settings;
    const double windows = (double)ig_data_windows(t->data);
    t->total = s->steps;
    if (s->epochs > 0)
        t->total = (int64_t)ceil(s->epochs * windows / (double)(s->batch * s->accumulate));
    if (t->total < 1) t->total = 1;
    if (s->warmup < 0) {
        const int64_t tenth = s->seconds > 0 ? WARMUP_MOST : t->total / 10;
        s->warmup = tenth < WARMUP_MOST ? tenth : WARMUP_MOST;
    }
    const bool over = s->seconds > 0 ? t->seconds_before >= s->seconds : t->step >= t->total;
    if (over)
        return IG_FAIL(
            IG_ERR_ARGUMENT,
            "%s: has finished its %lld steps; extend it with --steps, --epochs or --time",
            t->options->resume, (long long)t->step);
    return IG_OK;
}

/* ---- Progress, as it is saved ---- */

static json_t *settings_json(const train_settings *s) {
    json_t *all = json_object();
    for (size_t i = 0; i < ROWS; i++) {
        const double value = get(s, &rows[i]);
        json_object_set_new(all, rows[i].key,
                            rows[i].real ? json_real(value) : json_integer((json_int_t)value));
    }
    json_object_set_new(all, "schedule", json_string(train_schedules[s->schedule]));
    json_object_set_new(all, "dtype", json_string(ig_dtype_name(s->dtype)));
    if (s->steps > 0) json_object_set_new(all, "steps", json_integer(s->steps));
    if (s->epochs > 0) json_object_set_new(all, "epochs", json_real(s->epochs));
    if (s->seconds > 0) json_object_set_new(all, "seconds", json_real(s->seconds));
    return all;
}

char *train_progress_text(const trainer *t) {
    const ig_data_cursor c = ig_data_tell(t->data);
    json_t *root =
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I}, s:o, s:o}", "steps",
                  (json_int_t)t->step, "tokens", (json_int_t)t->tokens_seen, "seconds",
                  ig_json_real(train_seconds(t)), "loss", ig_json_real(t->loss), "val_loss",
                  ig_json_real(t->val_loss), "bits_per_byte", ig_json_real(t->bits_per_byte),
                  "data", "epoch", (json_int_t)c.epoch, "window", (json_int_t)c.window, "bytes",
                  (json_int_t)c.bytes, "stride", (json_int_t)c.stride, "settings",
                  settings_json(&t->settings), "history", train_history_json(t));
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    return text;
}

static uint64_t saved_count(const json_t *from, const char *key) {
    const json_t *value = json_object_get(from, key);
    const json_int_t count = json_is_integer(value) ? json_integer_value(value) : -1;
    return count >= 0 ? (uint64_t)count : UINT64_MAX;
}

static void restore_place(trainer *t, const json_t *progress) {
    const json_t *data = json_object_get(progress, "data");
    const ig_data_cursor cursor = {.epoch = saved_count(data, "epoch"),
                                   .window = saved_count(data, "window"),
                                   .bytes = saved_count(data, "bytes"),
                                   .stride = saved_count(data, "stride")};
    if (!ig_data_seek(t->data, cursor))
        ig_cli_say(t->cli,
                   "the text differs from the one %s was trained on; reading it from the beginning",
                   t->options->resume);
}

/* ---- The model ---- */

static int64_t size_or_default(int64_t said) { return said == IG_NOT_GIVEN ? 0 : said; }

static ig_status create_model(trainer *t) {
    const train_options *o = t->options;
    ig_model_config config = {
        .d_model = size_or_default(o->d_model),
        .n_layers = size_or_default(o->layers),
        .n_heads = size_or_default(o->heads),
        .n_kv_heads = size_or_default(o->kv_heads),
        .d_ff = size_or_default(o->d_ff),
        .ctx_len = size_or_default(o->ctx),
        .tokenizer = o->tokenizer,
    };
    if (o->tokenizer && strcmp(o->tokenizer, "byte") != 0) {
        ig_string_view sample;
        IG_TRY(ig_data_sample(t->data, SAMPLE_BYTES, &sample));
        char bytes[IG_UNIT_TEXT_BYTES];
        ig_cli_say(t->cli, "training the tokenizer on %s of text",
                   ig_bytes_text(sample.n_bytes, bytes));
        config.sample = sample.bytes;
        config.sample_bytes = sample.n_bytes;
    }
    return ig_adapter_create(t->ctx, o->arch ? o->arch : ig_arch_name(0), &config, &t->adapter);
}

/* Options must match the resumed file. */
static ig_status check_same(const trainer *t) {
    const train_options *o = t->options;
    const ig_model_config c = ig_adapter_config(t->adapter);
    const char *arch = ig_adapter_architecture(t->adapter);
    /* check_arch() has verified the name. */
    const char *said = o->arch ? ig_arch_resolve(t->ctx, o->arch) : arch;
    if (strcmp(said, arch) != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "--arch %s: %s holds the architecture %s", o->arch,
                       o->resume, arch);
    const struct {
        const char *option;
        int64_t said, has;
    } sizes[] = {{"d-model", o->d_model, c.d_model},
                 {"layers", o->layers, c.n_layers},
                 {"heads", o->heads, c.n_heads},
                 {"kv-heads", o->kv_heads, c.n_kv_heads},
                 {"d-ff", o->d_ff, c.d_ff},
                 {"ctx", o->ctx, c.ctx_len},
                 {"seed", o->seed, (int64_t)ig_ctx_seed(t->ctx)}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].said != IG_NOT_GIVEN && sizes[i].said != sizes[i].has)
            return IG_FAIL(IG_ERR_ARGUMENT, "--%s %lld: cannot be changed; %s has %lld",
                           sizes[i].option, (long long)sizes[i].said, o->resume,
                           (long long)sizes[i].has);
    if (o->tokenizer && strcmp(o->tokenizer, c.tokenizer) != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "--tokenizer %s: cannot be changed; %s has %s",
                       o->tokenizer, o->resume, c.tokenizer);
    return IG_OK;
}

/* An unknown --arch is a usage error, unlike an unknown architecture in a file. */
static ig_status check_arch(const trainer *t) {
    const char *arch = t->options->arch;
    char words[512];
    if (!arch || ig_arch_resolve(t->ctx, arch)) return IG_OK;
    snprintf(words, sizeof words, "%s", ig_error_text());
    return IG_FAIL(IG_ERR_ARGUMENT, "--arch: %s", words);
}

static ig_status create_context(trainer *t, uint64_t seed) {
    ig_ctx_options options = ig_cli_ctx_options(t->cli);
    options.device = t->options->device;
    options.threads = (int)t->options->threads;
    options.seed = seed;
    options.cancel = NULL; /* Ctrl-C waits for the end of a step: half an update is never saved */
    IG_TRY(ig_ctx_create(&options, &t->ctx));
    IG_TRY(ig_cli_load_archs(t->cli, t->ctx, t->options->plugin));
    IG_TRY(check_arch(t));
    return ig_mode_set(t->ctx, (ig_mode)t->options->mode);
}

/* Resuming needs the seed of the file. */
static ig_status load_model(trainer *t) {
    const char *path = t->options->resume;
    ig_checkpoint *file;
    ig_signals_reading(path);
    IG_TRY(ig_checkpoint_open(path, &file));
    const uint64_t seed = ig_checkpoint_seed(file);
    const bool trained = *ig_checkpoint_optimizer(file) != 0;
    ig_checkpoint_close(file);
    if (!trained)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has no optimizer state: training cannot continue", path);
    IG_TRY(create_context(t, seed));
    IG_TRY(ig_adapter_load(t->ctx, path, &t->adapter));
    return check_same(t);
}

static ig_status make_model(trainer *t) {
    const train_options *o = t->options;
    ig_run_model(t->cli, o->resume ? o->resume : o->arch ? o->arch : ig_arch_name(0));
    if (t->options->resume) return load_model(t);
    const int64_t seed = t->options->seed;
    IG_TRY(create_context(t, seed == IG_NOT_GIVEN ? 0 : (uint64_t)seed));
    return create_model(t);
}

/* ---- The route ---- */

static bool agrees(int mode, train_route route) {
    return mode == IG_MODE_AUTO || route == TRAIN_PRODUCTION ||
           (mode == IG_MODE_DYNAMIC) == (route == TRAIN_EASY);
}

/* The requested route; else by grad mode, or the only one there is. */
static ig_status resolve_route(trainer *t) {
    const train_options *o = t->options;
    if (o->route >= 0 && !agrees(o->mode, (train_route)o->route))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--route %s, --mode %s: easy is dynamic, replay is compiled",
                       train_routes[o->route], train_modes[o->mode]);
    if (o->route >= 0)
        t->route = (train_route)o->route;
    else if (!ig_adapter_has_modules(t->adapter))
        t->route = TRAIN_PRODUCTION;
    else
        t->route = o->mode == IG_MODE_DYNAMIC ? TRAIN_EASY : TRAIN_REPLAY;
    if (o->trace && t->route != TRAIN_REPLAY)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--trace: draws one plan of a whole step, and the %s route has none; use "
                       "--route replay",
                       train_routes[t->route]);
    return IG_OK;
}

ig_train_options train_call_options(const trainer *t, bool last) {
    const train_settings *s = &t->settings;
    return (ig_train_options){.lr = t->rate_now,
                              .weight_decay = s->weight_decay > 0 ? s->weight_decay : -1,
                              .clip_norm = s->clip,
                              .accumulate = !last,
                              .n_accumulated = (int)s->accumulate};
}

/* Without --route, the grad mode from --mode is kept. */
static ig_status begin_route(trainer *t) {
    if (t->options->route < 0 && t->route != TRAIN_PRODUCTION) return IG_OK;
    t->rate_now = t->settings.rate;
    const ig_train_options options = train_call_options(t, true);
    return train_route_begin(t->ctx, t->adapter, t->route, t->settings.batch, t->ctx_len, &options);
}

/* ---- Memory and disk ---- */

/*
 * Estimates memory: 16 bytes per parameter for weight, gradient and two moments. Activations kept
 * for the backward pass, in floats per token: per layer 12 d_model + 5 d_ff, plus 3 x vocabulary
 * for logits; times 1.9 on the replay route, since a step is planned while the recorded step still
 * holds its memory.
 */
static ig_status estimate_memory(trainer *t) {
    const ig_model_config c = ig_adapter_config(t->adapter);
    const double parameters = (double)ig_adapter_param_count(t->adapter);
    const double layer = 12 * (double)c.d_model + 5 * (double)c.d_ff;
    const double times = t->route == TRAIN_REPLAY ? 1.9 : 1;
    const double token = (double)c.n_layers * layer + 3 * (double)ig_adapter_vocab_size(t->adapter);
    const double activations = 4 * times * token * (double)t->settings.batch * (double)t->ctx_len;
    t->estimate_bytes = (uint64_t)(16 * parameters + activations);
    ig_run_estimate(t->cli, t->estimate_bytes);
    ig_run_batch(t->cli, t->settings.batch);

    char count[IG_UNIT_TEXT_BYTES], all[IG_UNIT_TEXT_BYTES], state[IG_UNIT_TEXT_BYTES];
    ig_cli_say(t->cli, "%s: %s parameters; training takes about %s (%s for the parameters)",
               ig_adapter_architecture(t->adapter), ig_count_text((uint64_t)parameters, count),
               ig_bytes_text(t->estimate_bytes, all),
               ig_bytes_text((uint64_t)(16 * parameters), state));
    const uint64_t available = ig_report_memory(t->ctx).available_bytes;
    const double missing = 12 * parameters; /* the weights are allocated already */
    if (available > 0 && missing > (double)available)
        return IG_FAIL(IG_ERR_MEMORY,
                       "parameters, gradients and moments need %s, but %s are available; use fewer "
                       "--layers or a smaller --d-model",
                       ig_bytes_text((uint64_t)missing, state), ig_bytes_text(available, all));
    if (t->estimate_bytes > available)
        ig_cli_say(t->cli, "warning: only %s are available; a smaller --batch or --ctx needs less",
                   ig_bytes_text(available, all));
    return IG_OK;
}

/* Checks early that the file can be written, not at the first save. */
static ig_status check_out(trainer *t) {
    const train_options *o = t->options;
    const char *name = o->out ? o->out : o->resume;
    const int bytes =
        name ? snprintf(t->out, sizeof t->out, "%s", name)
             : snprintf(t->out, sizeof t->out, "%s.oam", ig_adapter_architecture(t->adapter));
    if (bytes < 0 || (size_t)bytes >= sizeof t->out)
        return IG_FAIL(IG_ERR_ARGUMENT, "--out: a name of %d bytes", bytes);
    IG_TRY(train_lock(t));
    ig_file_map old;
    if (!o->resume && ig_file_map_open(t->out, &old) == IG_OK) {
        ig_file_map_close(&old);
        ig_cli_say(t->cli, "%s exists and will be replaced; use --resume to continue it", t->out);
    }
    ig_file_writer *writer;
    const uint64_t size = 12 * (uint64_t)ig_adapter_param_count(t->adapter);
    IG_TRY(ig_file_writer_create(&t->cli->allocator, t->out, size, &writer));
    ig_file_writer_destroy(writer);
    return IG_OK;
}

/* Checks early that the prompt fits, not at the first sample. */
static ig_status check_prompt(const trainer *t) {
    const char *prompt = t->options->prompt;
    ig_tokens tokens = {.allocator = &t->cli->allocator};
    if (!prompt) return IG_OK;
    IG_TRY(ig_tokenize(ig_adapter_tokenizer(t->adapter), prompt, strlen(prompt), 0, &tokens));
    const size_t count = tokens.count;
    ig_tokens_deinit(&tokens);
    if (count < (size_t)t->ctx_len) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--prompt: has %zu tokens, but the context is %lld", count,
                   (long long)t->ctx_len);
}

/* ---- All of it ---- */

static ig_status begin_data(trainer *t) {
    const ig_data_options options = {.tokenizer = ig_adapter_tokenizer(t->adapter),
                                     .ctx_len = t->ctx_len,
                                     .val_split = t->settings.val_split,
                                     .seed = ig_ctx_seed(t->ctx)};
    IG_TRY(ig_data_begin(t->data, &options));
    if (ig_data_val_windows(t->data) == 0 && options.val_split > 0)
        ig_cli_say(t->cli, "the text is too short to keep some of it for validation");
    const size_t row = (size_t)t->ctx_len + 1;
    t->tokens = ig_alloc(&t->cli->allocator, (size_t)t->settings.batch, row * sizeof *t->tokens);
    if (!t->tokens)
        return IG_FAIL(IG_ERR_MEMORY, "train: no memory for %lld windows of %zu tokens",
                       (long long)t->settings.batch, row);
    return IG_OK;
}

static ig_status setup_with(trainer *t, const json_t *progress) {
    t->step = t->first_step = ig_adapter_steps(t->adapter);
    t->ctx_len = ig_adapter_config(t->adapter).ctx_len;
    t->seconds_before = saved_number(progress, "seconds", 0, 0, 1e12);
    t->tokens_seen = t->tokens_before = (int64_t)saved_number(progress, "tokens", 0, 0, 1e18);
    IG_TRY(resolve_settings(t, json_object_get(progress, "settings")));
    IG_TRY(begin_data(t));
    if (t->options->resume) {
        restore_place(t, progress);
        IG_TRY(train_restore_history(t, progress));
    }
    IG_TRY(resolve_total(t));
    IG_TRY(check_prompt(t));
    IG_TRY(check_out(t));
    IG_TRY(resolve_route(t));
    IG_TRY(estimate_memory(t));
    return begin_route(t);
}

ig_status train_setup(trainer *t) {
    const ig_data_open_options options = {.allocator = &t->cli->allocator,
                                          .reading = ig_signals_reading};
    IG_TRY(ig_data_open(t->paths, t->n_paths, &options, &t->data));
    IG_TRY(make_model(t));
    const char *text = ig_adapter_progress(t->adapter);
    json_t *progress = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, t->options->resume ? t->options->resume : "train",
                          "its progress", text, strlen(text), 0, &progress));
    const ig_status status = setup_with(t, progress);
    json_decref(progress);
    return status;
}
