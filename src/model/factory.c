/* The architectures, one row each. */
#include <ctype.h>
#include <stdio.h>

#include "ingot/model.h"
#include "model/arch/arch.h"

extern const ig_arch ig_arch_llm, ig_arch_gpt, ig_arch_tinyllm, ig_arch_llama, ig_arch_internlm2,
    ig_arch_ernie4_5, ig_arch_exaone, ig_arch_exaone4, ig_arch_smollm3, ig_arch_arcee,
    ig_arch_granite, ig_arch_granitemoe, ig_arch_minicpm, ig_arch_qwen2, ig_arch_qwen2moe,
    ig_arch_qwen3, ig_arch_qwen3moe, ig_arch_gemma, ig_arch_gemma2, ig_arch_gemma3, ig_arch_olmo2,
    ig_arch_olmoe, ig_arch_phi2, ig_arch_phi3, ig_arch_glm4, ig_arch_stablelm, ig_arch_orion,
    ig_arch_nemotron, ig_arch_command_r, ig_arch_cohere2, ig_arch_falcon, ig_arch_gpt2,
    ig_arch_gptneox, ig_arch_starcoder2, ig_arch_gpt_oss, ig_arch_deepseek, ig_arch_deepseek2,
    ig_arch_dots1, ig_arch_bailingmoe2, ig_arch_glm4moe, ig_arch_seed_oss, ig_arch_hunyuan_dense,
    ig_arch_hunyuan_moe, ig_arch_bert;

static const ig_arch *const archs[] = {
    &ig_arch_llm,        &ig_arch_gpt,       &ig_arch_tinyllm, /* trained */
    &ig_arch_llama,      &ig_arch_internlm2, &ig_arch_ernie4_5,      &ig_arch_exaone,
    &ig_arch_exaone4,    &ig_arch_smollm3,   &ig_arch_arcee,         &ig_arch_granite,
    &ig_arch_granitemoe, &ig_arch_minicpm,   &ig_arch_qwen2,         &ig_arch_qwen2moe,
    &ig_arch_qwen3,      &ig_arch_qwen3moe,  &ig_arch_gemma,         &ig_arch_gemma2,
    &ig_arch_gemma3,     &ig_arch_olmo2,     &ig_arch_olmoe,         &ig_arch_phi2,
    &ig_arch_phi3,       &ig_arch_glm4,      &ig_arch_stablelm,      &ig_arch_orion,
    &ig_arch_nemotron,   &ig_arch_command_r, &ig_arch_cohere2,       &ig_arch_falcon,
    &ig_arch_gpt2,       &ig_arch_gptneox,   &ig_arch_starcoder2,    &ig_arch_gpt_oss,
    &ig_arch_deepseek,   &ig_arch_deepseek2, &ig_arch_dots1,         &ig_arch_bailingmoe2,
    &ig_arch_glm4moe,    &ig_arch_seed_oss,  &ig_arch_hunyuan_dense, &ig_arch_hunyuan_moe,
    &ig_arch_bert,
};
enum { ARCHS = sizeof archs / sizeof archs[0] };

const char *ig_arch_name(size_t i) { return i < ARCHS ? archs[i]->name : NULL; }
const char *ig_arch_description(size_t i) { return i < ARCHS ? archs[i]->description : NULL; }

bool ig_arch_is_trained(size_t i) { return i < ARCHS && archs[i]->create; }

/* "OaTinyLlm", "tiny-llm" and "tinyllm" are one. */
static bool same(const char *written, const char *name) {
    if (tolower((unsigned char)written[0]) == 'o' && tolower((unsigned char)written[1]) == 'a')
        written += 2;
    for (;; written++, name++) {
        while (*written == '-' || *written == '_') written++;
        while (*name == '-' || *name == '_') name++;
        if (tolower((unsigned char)*written) != *name) return false;
        if (!*name) return true;
    }
}

/* One of those that are trained, or of those that are read. */
static bool is_of(const ig_arch *arch, ig_arch_kind kind) {
    return (arch->create != NULL) == (kind == IG_ARCH_TRAINED);
}

const ig_arch *ig_arch_find(const char *name, ig_arch_kind kind) {
    char known[512] = "";
    size_t used = 0;
    for (size_t i = 0; name && i < ARCHS; i++)
        if (is_of(archs[i], kind) && same(name, archs[i]->name)) return archs[i];
    for (size_t i = 0; i < ARCHS && used < sizeof known; i++)
        if (is_of(archs[i], kind))
            used += (size_t)snprintf(known + used, sizeof known - used, " %s", archs[i]->name);
    (void)IG_FAIL(IG_ERR_MODEL, "there is no architecture %.64s; there are:%s",
                  name ? name : "(NULL)", known);
    return NULL;
}

const char *ig_arch_resolve(const char *name) {
    const ig_arch *arch = ig_arch_find(name, IG_ARCH_TRAINED);
    return arch ? arch->name : NULL;
}
