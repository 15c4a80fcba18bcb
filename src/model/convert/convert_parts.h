/* convert_parts.h - shared by the files of the conversion. */
#ifndef IG_MODEL_CONVERT_CONVERT_PARTS_H
#define IG_MODEL_CONVERT_CONVERT_PARTS_H

#include "format/json.h"
#include "format/safetensors.h"
#include "ingot/checkpoint.h"
#include "model/convert/convert.h"
#include "model/convert/convert_memory.h"

typedef struct convert_arch convert_arch;

/* Families of config files: one family has the same keys with the same meaning. */
enum {
    IG_OF_LLAMA = 1 << 0,
    IG_OF_MISTRAL = 1 << 1,
    IG_OF_QWEN2 = 1 << 2,
    IG_OF_QWEN3 = 1 << 3,
    IG_OF_QWEN3MOE = 1 << 4,
    IG_OF_GEMMA3 = 1 << 5,
    IG_OF_PHI3 = 1 << 6,
    IG_OF_GPT2 = 1 << 7,
    IG_OF_BERT = 1 << 8,
};

/* The sliding window of a model. */
typedef struct convert_window {
    int64_t size;   /* tokens; 0: off */
    int64_t period; /* gemma3: layers i with (i + 1) % period == 0 have full attention */
} convert_window;

/* A tensor of the output file, assembled from the folder's tensors. */
typedef struct convert_view {
    char name[64]; /* name in the output */
    ig_shape shape;
    const ig_safetensor **pieces; /* one, or one per expert, all of the same shape */
    size_t n_pieces;
    enum { ROWS_AS_THEY_ARE, ROWS_INTERLEAVED, TRANSPOSED } order;
    int64_t head_rows; /* of ROWS_INTERLEAVED: rows per head */
    float add;         /* added to each element */
    float *computed;   /* computed elements, owned; then there are no pieces */
} convert_view;

struct ig_conversion {
    const ig_allocator *allocator;
    const char *dir; /* or the path of the checkpoint; borrowed */
    ig_conversion_options options;
    const ig_model_source *source; /* a model in memory instead of a folder; borrowed */
    json_t *config;                /* config.json */
    const json_t *text;            /* the config of the language model, inside `config` */
    const convert_arch *arch;
    int64_t heads, kv_heads, head_size, n_experts, n_tokens;
    convert_window window;
    ig_safetensors *tensors;
    ig_checkpoint *checkpoint; /* a .oam instead of a folder */
    ig_safetensor *own;        /* tensors of a checkpoint or of a source; else NULL */
    size_t n_own;
    convert_view *views;
    size_t n_views, view_capacity;
    ig_gguf_output *products;
};

/* A row of the table of architectures. */
struct convert_arch {
    const char *model;   /* name in config.json's `architectures` */
    const char *name;    /* name in GGUF */
    int family;          /* one of IG_OF_* */
    const char *act;     /* the required hidden_act; NULL: any */
    const char *prefix;  /* optional prefix of tensor names */
    bool rotated;        /* RoPE and RMSNorm */
    bool interleaved;    /* rows of q and k are permuted for interleaved RoPE */
    bool norms_from_one; /* stored norm weights are w - 1 */
    bool gpt2, bert, gemma3, phi3, experts;
    bool own; /* a .oam checkpoint: Ingot's tensor names, no transposes */
};

void convert_say(const ig_conversion *c, const char *fmt, ...) IG_PRINTF(2, 3);

/* config: an integer or a float under the first of up to two names that is present. */
int64_t convert_int(const ig_conversion *c, const char *name, const char *other, int64_t absent);
double convert_real(const ig_conversion *c, const char *name, const char *other, double absent);

/* convert.c: finds the architecture by the config's `architectures`, and the language model's
 * config. */
IG_MUST_CHECK ig_status convert_find_arch(ig_conversion *c);

/* Ends the header: keys, tokenizer, and the tensors that `products` describes. */
IG_MUST_CHECK ig_status convert_put_head(ig_conversion *c, ig_gguf_writer *w);

/* convert_memory.c: a model in memory instead of a folder. */
IG_MUST_CHECK ig_status convert_open_source(ig_conversion *c);

/* convert_oam.c: a .oam checkpoint instead of a folder. */
bool convert_is_file(const char *path);
IG_MUST_CHECK ig_status convert_open_own(ig_conversion *c);
/* The checkpoint's tokenizer as tokenizer.json; release `*out` even on failure. */
IG_MUST_CHECK ig_status convert_own_tokenizer(const ig_conversion *c, json_t **out);

/* convert_names.c */
IG_MUST_CHECK ig_status convert_map_tensors(ig_conversion *c);
/* Checks that the output head exists, unless the config ties it to the embedding. */
IG_MUST_CHECK ig_status convert_check_output(const ig_conversion *c);
/* Adds a tensor of n computed values; takes ownership of them, even on failure. */
IG_MUST_CHECK ig_status convert_add_computed(ig_conversion *c, const char *name, float *numbers,
                                             int64_t n);
/* The source's row of the file's row. */
int64_t convert_source_row(const convert_view *v, int64_t row);
void convert_read_view(const ig_gguf_output *product, int64_t first, int64_t n, float *out);

/* convert_tokenizer.c */
IG_MUST_CHECK ig_status convert_put_tokenizer(const ig_conversion *c, ig_gguf_writer *w);

/* The same with parsed documents; all but the first may be NULL. */
typedef struct convert_documents {
    json_t *tokenizer, *config, *generation;
} convert_documents;
/* convert_memory.c: of a source, which has a tokenizer.  Release them even on failure. */
IG_MUST_CHECK ig_status convert_source_documents(const ig_conversion *c, convert_documents *docs);
IG_MUST_CHECK ig_status convert_put_vocabulary(const ig_conversion *c,
                                               const convert_documents *docs, ig_gguf_writer *w);

/* convert_config.c */
/* Checks that every key of the config is read, harmless, or refused by name. */
IG_MUST_CHECK ig_status convert_check_known(const ig_conversion *c);
IG_MUST_CHECK ig_status convert_find_window(const ig_conversion *c, convert_window *out);

/* convert_keys.c */
/* Fails with an error about a config key. */
ig_status convert_refuse(const ig_conversion *c, const char *key, const char *why);
IG_MUST_CHECK ig_status convert_check_config(ig_conversion *c);
IG_MUST_CHECK ig_status convert_put_keys(ig_conversion *c, ig_gguf_writer *w);
IG_MUST_CHECK ig_status convert_add_rotations(ig_conversion *c);

#endif
