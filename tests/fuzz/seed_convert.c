/* seed_convert FOLDER - writes the texts of small folders to begin fuzzing with. */
#include <stdio.h>
#include <string.h>

#define SIZES                                                              \
    "\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2," \
    "\"intermediate_size\":16,\"max_position_embeddings\":64,\"vocab_size\":280"
#define BPE                                                                                   \
    "\"tokenizer\":{\"added_tokens\":[{\"id\":3,\"content\":\"<|end|>\",\"special\":true}],"  \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"}]}," \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}"

static const char *const seeds[] = {
    "{\"config\":{\"architectures\":[\"LlamaForCausalLM\"]," SIZES
    ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}," BPE
    ",\"tokenizer_config\":{\"eos_token\":{\"content\":\"<|end|>\"},\"add_bos_token\":true,"
    "\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"}]},"
    "\"generation\":{\"eos_token_id\":[3,2]}}",
    "{\"config\":{\"architectures\":[\"Qwen3MoeForCausalLM\"]," SIZES
    ",\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":8}," BPE "}",
    "{\"config\":{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{" SIZES
    ",\"sliding_window\":8,\"query_pre_attn_scalar\":4}}," BPE "}",
    "{\"config\":{\"architectures\":[\"Phi3ForCausalLM\"]," SIZES
    ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2],\"short_factor\":[1,1]},"
    "\"original_max_position_embeddings\":32}," BPE "}",
    "{\"config\":{\"architectures\":[\"BertModel\"]," SIZES ",\"type_vocab_size\":2},"
    "\"tokenizer\":{\"normalizer\":{\"lowercase\":true},\"model\":{\"type\":\"WordPiece\","
    "\"vocab\":{\"[CLS]\":0,\"a\":1,\"##b\":2}}},\"tokenizer_config\":{\"cls_token\":\"[CLS]\"}}",
};

/* A vocabulary with all bytes: too long to be written down. */
static void write_pieces(FILE *out) {
    fputs(
        "{\"config\":{\"architectures\":[\"MistralForCausalLM\"]," SIZES "},\"tokenizer\":{"
        "\"normalizer\":{\"type\":\"Prepend\"},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
        "\"unk_token\":\"<unk>\",\"merges\":[[\"a\",\"b\"]],\"vocab\":{\"<unk>\":256",
        out);
    for (int i = 0; i < 256; i++) fprintf(out, ",\"<0x%02X>\":%d", (unsigned)i, i);
    fputs(",\"a\":257,\"b\":258,\"ab\":259}}}}", out);
}

int main(int argc, char **argv) {
    const size_t count = sizeof seeds / sizeof *seeds;
    if (argc != 2) return fprintf(stderr, "usage: seed_convert FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i <= count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%zu", argv[1], i);
        FILE *out = fopen(path, "wb");
        if (!out) return perror(path), 1;
        if (i < count)
            fputs(seeds[i], out);
        else
            write_pieces(out);
        if (fclose(out) != 0) return perror(path), 1;
    }
    return 0;
}
