/* convert_parts.h - what the files of a conversion share. */
#ifndef IG_MODEL_CONVERT_PARTS_H
#define IG_MODEL_CONVERT_PARTS_H

#include "format/json.h"
#include "format/safetensors.h"
#include "ingot/checkpoint.h"
#include "model/convert/convert.h"

typedef struct convert_arch convert_arch;

/* A tensor of the file as it is put together from the folder's. */
typedef struct convert_view {
    char name[64]; /* in the file */
    ig_shape shape;
    const ig_safetensor **pieces; /* one, or one for each expert, all alike */
    size_t n_pieces;
    enum { ROWS_AS_THEY_ARE, ROWS_INTERLEAVED, TRANSPOSED } order;
    int64_t head_rows; /* of ROWS_INTERLEAVED: rows of a head */
    float add;         /* to each element */
    float *computed;   /* the elements themselves, owned; no pieces then */
} convert_view;

struct ig_conversion {
    const ig_allocator *allocator;
    const char *dir; /* or the checkpoint; lent */
    ig_convert_options options;
    json_t *config;     /* config.json */
    const json_t *text; /* of it: the part that tells of the language model */
    const convert_arch *arch;
    int64_t heads, kv_heads, head_size, n_experts, n_tokens;
    ig_safetensors *tensors;
    ig_checkpoint *checkpoint; /* instead of a folder; and its tensors */
    ig_safetensor *own;
    size_t n_own;
    convert_view *views;
    size_t n_views, view_capacity;
    ig_product *products;
};

/* A row of the table of architectures. */
struct convert_arch {
    const char *model;   /* as config.json calls it in `architectures` */
    const char *name;    /* as GGUF calls it */
    const char *act;     /* hidden_act, or NULL: not looked at */
    const char *prefix;  /* that tensors may have or not */
    bool rotated;        /* positions by rotation, and root-mean-square norms */
    bool interleaved;    /* rows of q and k are reordered for rotation of neighbours */
    bool norms_from_one; /* stored gains are what is added to 1 */
    bool gpt2, bert, gemma3, phi3, experts;
    bool own; /* trained here: names of tensors are ours, and matrices lie as they shall */
};

void convert_say(const ig_conversion *c, const char *fmt, ...) IG_PRINTF(2, 3);

/* config: an integer or a number under the first of up to two names that is there. */
int64_t convert_int(const ig_conversion *c, const char *name, const char *other, int64_t absent);
double convert_real(const ig_conversion *c, const char *name, const char *other, double absent);

/* convert.c: by the config's `architectures`; and the part of it that matters. */
IG_MUST_CHECK ig_status convert_find_arch(ig_conversion *c);

/* convert_own.c: a checkpoint of ours instead of a folder. */
bool convert_is_file(const char *path);
IG_MUST_CHECK ig_status convert_open_own(ig_conversion *c);
/* Its tokenizer as a tokenizer.json; `*out` is to be released in any case. */
IG_MUST_CHECK ig_status convert_own_tokenizer(const ig_conversion *c, json_t **out);

/* convert_names.c */
IG_MUST_CHECK ig_status convert_map_tensors(ig_conversion *c);
/* The output's weights are there, unless the config says that they are the embedding's. */
IG_MUST_CHECK ig_status convert_check_output(const ig_conversion *c);
/* A tensor of n computed numbers, which are taken over, whatever happens. */
IG_MUST_CHECK ig_status convert_add_computed(ig_conversion *c, const char *name, float *numbers,
                                             int64_t n);
void convert_read_view(const ig_product *product, int64_t first, int64_t n, float *out);

/* convert_tokenizer.c */
IG_MUST_CHECK ig_status convert_put_tokenizer(const ig_conversion *c, ig_gguf_writer *w);

/* The same of files that have been read; all but the first may be NULL. */
typedef struct convert_documents {
    json_t *tokenizer, *config, *generation;
} convert_documents;
IG_MUST_CHECK ig_status convert_put_vocabulary(const ig_conversion *c,
                                               const convert_documents *docs, ig_gguf_writer *w);

/* convert_keys.c */
IG_MUST_CHECK ig_status convert_check_config(ig_conversion *c);
IG_MUST_CHECK ig_status convert_put_keys(ig_conversion *c, ig_gguf_writer *w);
IG_MUST_CHECK ig_status convert_add_rotations(ig_conversion *c);

#endif
