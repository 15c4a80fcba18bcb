#include "model/convert/convert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/convert/convert_parts.h"
#include "model/gguf/gguf_model.h"

static const convert_arch archs[] = {
    {"LlamaForCausalLM", "llama", IG_OF_LLAMA, "silu", .rotated = true, .interleaved = true},
    {"MistralForCausalLM", "llama", IG_OF_MISTRAL, "silu", .rotated = true, .interleaved = true},
    {"Qwen2ForCausalLM", "qwen2", IG_OF_QWEN2, "silu", .rotated = true},
    {"Qwen3ForCausalLM", "qwen3", IG_OF_QWEN3, "silu", .rotated = true},
    {"Qwen3MoeForCausalLM", "qwen3moe", IG_OF_QWEN3MOE, "silu", .rotated = true, .experts = true},
    {"Gemma3ForCausalLM", "gemma3", IG_OF_GEMMA3, "gelu_pytorch_tanh", .rotated = true,
     .norms_from_one = true, .gemma3 = true},
    {"Gemma3ForConditionalGeneration", "gemma3", IG_OF_GEMMA3, "gelu_pytorch_tanh",
     "language_model.", .rotated = true, .norms_from_one = true, .gemma3 = true},
    {"Phi3ForCausalLM", "phi3", IG_OF_PHI3, "silu", .rotated = true, .phi3 = true},
    {"GPT2LMHeadModel", "gpt2", IG_OF_GPT2, "gelu_new", "transformer.", .gpt2 = true},
    {"BertModel", "bert", IG_OF_BERT, "gelu", "bert.", .bert = true},
    {"BertForMaskedLM", "bert", IG_OF_BERT, "gelu", "bert.", .bert = true},
    {"llm", "llama", IG_OF_LLAMA, NULL, .rotated = true, .interleaved = true, .own = true},
    {"gpt", "gpt2", IG_OF_GPT2, NULL, .own = true},
};

void convert_say(const ig_conversion *c, const char *fmt, ...) {
    char text[512];
    if (!c->options.say) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->options.say(c->options.user, text);
}

ig_status convert_find_arch(ig_conversion *c) {
    const json_t *list = json_object_get(c->config, "architectures");
    const char *model = json_string_value(json_array_get(list, 0));
    for (size_t i = 0; model && i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].model, model) == 0 && archs[i].own == (c->checkpoint != NULL))
            c->arch = &archs[i];
    const json_t *text = json_object_get(c->config, "text_config");
    c->text = json_is_object(text) ? text : c->config;
    if (c->arch) return IG_OK;
    if (c->checkpoint)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %.64s cannot be converted; supported: llm, gpt", c->dir,
                       model ? model : "a checkpoint without an architecture");
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s/config.json: %.64s cannot be converted; supported: LlamaForCausalLM, "
                   "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, "
                   "Gemma3ForCausalLM, Phi3ForCausalLM, GPT2LMHeadModel, BertModel",
                   c->dir, model ? model : "a model without `architectures`");
}

/* The vocabulary size is the number of rows of the embedding. */
static ig_status count_tokens(ig_conversion *c) {
    for (size_t i = 0; i < c->n_views; i++)
        if (strcmp(c->views[i].name, "token_embd.weight") == 0 && c->views[i].shape.rank == 2)
            c->n_tokens = c->views[i].shape.dim[0];
    if (c->n_tokens > 0 && c->n_tokens < (1 << 24)) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: has no token embedding", c->dir);
}

static ig_status open_all(ig_conversion *c) {
    const bool is_own = !c->source && convert_is_file(c->dir);
    if (c->source)
        IG_TRY(convert_open_source(c));
    else if (is_own)
        IG_TRY(convert_open_own(c));
    else
        IG_TRY(ig_json_load(c->allocator, c->dir, "config.json", &c->config));
    IG_TRY(convert_find_arch(c));
    IG_TRY(convert_check_config(c));
    if (!c->own) IG_TRY(ig_safetensors_open_dir(c->allocator, c->dir, &c->tensors));
    IG_TRY(convert_map_tensors(c));
    IG_TRY(count_tokens(c));
    IG_TRY(convert_check_output(c));
    return convert_add_rotations(c);
}

ig_status ig_conversion_open_source(const ig_allocator *a, const char *dir,
                                    const ig_model_source *source,
                                    const ig_conversion_options *options, ig_conversion **out) {
    ig_conversion *c = ig_alloc(a, 1, sizeof *c);
    if (!c) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", dir);
    c->allocator = a;
    c->dir = dir;
    c->source = source;
    c->options = *options;
    const ig_status status = open_all(c);
    if (status == IG_OK)
        *out = c;
    else
        ig_conversion_close(c);
    return status;
}

ig_status ig_conversion_open(const ig_allocator *a, const char *dir,
                             const ig_conversion_options *options, ig_conversion **out) {
    return ig_conversion_open_source(a, dir, NULL, options, out);
}

void ig_conversion_close(ig_conversion *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_views; i++) {
        ig_free(c->allocator, c->views[i].computed);
        ig_free(c->allocator, (void *)c->views[i].pieces);
    }
    ig_free(c->allocator, c->products);
    ig_free(c->allocator, c->views);
    ig_safetensors_close(c->tensors);
    ig_free(c->allocator, c->own);
    ig_checkpoint_close(c->checkpoint);
    json_decref(c->config);
    ig_free(c->allocator, c);
}

const char *ig_conversion_arch(const ig_conversion *c) { return c->arch->name; }
size_t ig_conversion_count(const ig_conversion *c) { return c->n_views; }
const ig_gguf_output *ig_conversion_output(const ig_conversion *c, size_t i) {
    return &c->products[i];
}

/* ---- Writing ---- */

static void choose_types(const ig_conversion *c, const ig_recipe *recipe) {
    bool tied = true;
    for (size_t i = 0; i < c->n_views; i++)
        tied = tied && strcmp(c->views[i].name, "output.weight") != 0;
    const ig_recipe_model model = {.n_layers = convert_int(c, "num_hidden_layers", "n_layer", 0),
                                   .tied = tied,
                                   .n_experts = c->n_experts,
                                   .heads_share = c->heads / c->kv_heads};
    for (size_t i = 0; i < c->n_views; i++) {
        const convert_view *v = &c->views[i];
        const ig_desc exact = {IG_F32, v->shape};
        const char *why = NULL;
        const ig_dtype type = ig_recipe_type(recipe, &model, v->name, exact, &why);
        c->products[i] = (ig_gguf_output){v->name, {type, v->shape}, convert_read_view, v, {0}};
        if (v->computed) {
            c->products[i].read = NULL;
            c->products[i].source = v->computed;
        }
        if (why) convert_say(c, "%s: becomes %s, because %s", v->name, ig_dtype_name(type), why);
    }
}

/* Validates the header as the loader would, before anything is written. */
static ig_status check_head(const ig_conversion *c, const ig_gguf_writer *w) {
    uint64_t n_bytes;
    const void *bytes = ig_gguf_writer_head(w, &n_bytes);
    ig_gguf *head = NULL;
    IG_TRY(ig_gguf_open_head(c->allocator, c->dir, bytes, n_bytes, &head));
    const ig_status status = ig_model_check(c->allocator, c->dir, head);
    ig_gguf_close(head);
    return status;
}

ig_status convert_put_head(ig_conversion *c, ig_gguf_writer *w) {
    IG_TRY(convert_put_keys(c, w));
    ig_gguf_writer_u32(w, "general.quantization_version", 2);
    IG_TRY(convert_put_tokenizer(c, w));
    return ig_gguf_announce(w, c->products, c->n_views);
}

static ig_status write_file(ig_conversion *c, const char *path, const ig_recipe *recipe,
                            const ig_produce_options *options, ig_gguf_writer *w,
                            ig_produced *results) {
    ig_gguf_writer_u32(w, "general.file_type", recipe->file_type);
    IG_TRY(convert_put_head(c, w));
    IG_TRY(check_head(c, w));
    return ig_gguf_produce(c->allocator, path, w, c->products, c->n_views, options, results);
}

ig_status ig_conversion_write(ig_conversion *c, const char *path, const ig_recipe *recipe,
                              const ig_produce_options *options, ig_produced *results) {
    if (!c->products) c->products = ig_alloc(c->allocator, c->n_views, sizeof *c->products);
    if (!c->products) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its tensors", c->dir);
    choose_types(c, recipe);
    ig_gguf_writer *w = NULL;
    IG_TRY(ig_gguf_writer_create(c->allocator, path, &w));
    const ig_status status = write_file(c, path, recipe, options, w, results);
    ig_gguf_writer_destroy(w);
    return status;
}
