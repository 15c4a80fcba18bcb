/*
 * Multi-head latent attention (MLA; DeepSeek-AI, 2024). Each token is projected to a latent c of
 * kv_lora_rank numbers, normalized, and one short RoPE key shared by all heads:
 *
 *     score of head h  =  q_h . (K_h c) + rope(q_h) . rope key
 *                      =  (K_h^T q_h) . c + ...
 *
 * so the cache needs only c and the RoPE key, once for all heads: K_h is absorbed into the queries
 * and V_h into the output. Older files store K and V in one matrix that cannot be absorbed; there,
 * keys and values are expanded per head and cached.
 */
#include "model/gguf/decoder.h"

/* Columns [begin, end) of the last dimension. */
static ig_tensor *columns(ig_tensor *x, int64_t begin, int64_t end) {
    return ig_slice(x, -1, begin, end);
}

static ig_tensor *queries(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const ig_hparams *h = m->hparams;
    if (l->q_a) {
        ig_tensor *low = ig_rms_norm(ig_lm_linear(x, l->q_a, NULL), l->q_a_norm, h->norm_eps);
        return ig_split_heads(ig_lm_linear(low, l->q_b, NULL), h->size.n_heads);
    }
    return ig_split_heads(ig_lm_linear(x, l->q, NULL), h->size.n_heads);
}

/* x [1, t, h, in] by a matrix per head, [h, out, in] -> [1, t, h, out]. Heads are handled as
 * experts of a grouped matmul. */
static ig_tensor *by_heads(const ig_lm *m, ig_tensor *x, ig_tensor *weight) {
    const ig_shape s = ig_tensor_desc(x).shape;
    const int64_t t = s.dim[0] * s.dim[1], h = s.dim[2];
    ig_tensor *heads = ig_broadcast(m->head_numbers, IG_SHAPE(t, h));
    const ig_groups groups = ig_group_rows(ig_reshape(heads, IG_SHAPE(t * h, 1)), h);
    ig_tensor *rows = ig_embedding(ig_reshape(x, IG_SHAPE(t * h, s.dim[3])), groups.rows);
    ig_tensor *y = ig_matmul_grouped(rows, weight, groups.offsets);
    y = ig_embedding(y, ig_reshape(groups.inverse, IG_SHAPE(t * h)));
    return ig_reshape(y, IG_SHAPE(s.dim[0], s.dim[1], h, -1));
}

ig_tensor *ig_lm_attend_mla(const ig_lm *m, int64_t i, const ig_ubatch *rows, ig_tensor *x) {
    const ig_hparams *h = m->hparams;
    const ig_lm_layer *l = &m->layers[i];
    const int64_t rank = h->kv_lora_rank, turned = h->rope.rotary_dims,
                  still = h->qk_head_dim - turned;
    const int64_t heads = h->size.n_heads, width = still + h->v_head_dim;
    const ig_attend_options options = {.scale = h->attention_scale};
    ig_tensor *q = queries(m, l, x);
    ig_tensor *q_rope = ig_lm_rope(m, rows, &h->rope, columns(q, still, h->qk_head_dim));
    ig_tensor *row = ig_lm_linear(x, l->kv_a, NULL);
    ig_tensor *key = ig_split_heads(columns(row, rank, rank + turned), 1);
    ig_tensor *k_rope = ig_lm_rope(m, rows, &h->rope, key);
    ig_tensor *latent = ig_rms_norm(columns(row, 0, rank), l->kv_a_norm, h->norm_eps);
    if (l->kv_b) {
        ig_tensor *both = ig_split_heads(ig_lm_linear(latent, l->kv_b, NULL), heads);
        const ig_shape s = ig_tensor_desc(both).shape;
        ig_tensor *shared = ig_broadcast(k_rope, IG_SHAPE(s.dim[0], s.dim[1], heads, turned));
        ig_tensor *k = ig_concat((ig_tensor *[]){columns(both, 0, still), shared}, 2, -1);
        q = ig_concat((ig_tensor *[]){columns(q, 0, still), q_rope}, 2, -1);
        return ig_ubatch_attend_with(rows, i, q, k, columns(both, still, width), options);
    }
    ig_tensor *v = ig_split_heads(latent, 1);
    ig_tensor *k = ig_concat((ig_tensor *[]){v, k_rope}, 2, -1);
    q = ig_concat((ig_tensor *[]){by_heads(m, columns(q, 0, still), l->k_b), q_rope}, 2, -1);
    ig_tensor *found = ig_ubatch_attend_with(rows, i, q, k, v, options);
    ig_tensor *y = by_heads(m, ig_split_heads(found, heads), l->v_b);
    const ig_shape s = ig_tensor_desc(y).shape;
    return ig_reshape(y, IG_SHAPE(s.dim[0], s.dim[1], s.dim[2] * s.dim[3]));
}
