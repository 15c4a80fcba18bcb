/*
 * The patterns, and the names that model files have for them.
 *
 * They are written as their makers published them (tokenizer.json, or the tokenizer's
 * source), so that ig_pre_name_of() knows them again; where Oniguruma and PCRE2
 * read a pattern differently, the note at the row says what was changed.
 */
#include "text/tokenizer/pretokenizer.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DIGIT        "\\p{N}"

/* GPT-4's and its many children: they differ in how many digits make a word. */
#define GPT4(digits)                                                                         \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" \
                 "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* GPT-4o's: capitals begin a word, small letters go on. */
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(capitals, small, ending)                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" capitals "*" small "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" capitals \
    "+" small "*" ending "|"
#define GPT4O(ending, digits)      \
    CASED(CAPITALS, SMALL, ending) \
    digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Kimi's keeps Han apart.  It was published with an intersection of classes, CAPITALS&&[^\p{Han}],
 * which PCRE2 does not have; the same sets, by what is not in them.  Its \p{Han} is wider, too. */
#define CAPITALS_NOT_HAN "[^\\p{C}\\p{Z}\\p{P}\\p{S}\\p{N}\\p{Ll}\\p{sc:Han}]"
#define SMALL_NOT_HAN    "[^\\p{C}\\p{Z}\\p{P}\\p{S}\\p{N}\\p{Lu}\\p{Lt}\\p{sc:Han}]"

#define DEEPSEEK_CJK  "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define DEEPSEEK3_CJK "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define DEEPSEEK3_WORDS                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{" \
    "L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

/* Letters of scripts with capitals, as DeepSeek-LLM lists them. */
#define DEEPSEEK_LETTERS                                                                       \
    "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295" \
    "-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-"      \
    "\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"     \
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-"    \
    "\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-"      \
    "\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-"     \
    "\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-"      \
    "\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e" \
    "\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-"      \
    "\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"     \
    "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"          \
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-"     \
    "\U0001e943]+"

const char ig_pre_byte_level[] = GPT2, ig_pre_single_digits[] = DIGIT;

/* Rows with equal patterns differ in their other columns; ig_pre_name_of() returns the first. */
const ig_pre ig_pre_rows[] = {
    {"gpt-2",
     "phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat "
     "a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling",
     .patterns = {GPT2}},
    {"llama-bpe", "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {GPT4("\\p{N}{1,3}")}, .ignores_merges = true, .adds_bos = true},
    {"dbrx", "smaug-bpe chatglm-bpe glm4", .patterns = {GPT4("\\p{N}{1,3}")}},
    {"qwen2", "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
     .patterns = {GPT4(DIGIT)}},
    {"qwen35", NULL,
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r"
                  "\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"starcoder", "refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = {DIGIT, GPT2}},
    {"gpt-4o", "llama4 kanana2 talkie minimax-m2",
     .patterns = {GPT4O(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {"granite-embed-multi-97m", NULL, .patterns = {GPT4O(CONTRACTIONS "?", "\\p{N}{1,3}")},
     .ignores_merges = true},
    {"tekken", NULL, .patterns = {GPT4O("", DIGIT)}, .ignores_merges = true, .adds_bos = true},
    {"deepseek-llm", NULL,
     .patterns = {"[\\r\\n]", DEEPSEEK_LETTERS,
                  "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-"
                  "\u3002]+",
                  "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}},
    {"deepseek-coder", NULL,
     .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, DIGIT}},
    {"deepseek-v3", "hunyuan-dense joyai-llm hy_v4",
     .patterns = {"\\p{N}{1,3}", DEEPSEEK3_CJK,
                  DEEPSEEK3_WORDS "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"spark2_5", NULL,
     .patterns = {"\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_WORDS "|[\\r\\n]|\\s+(?!\\S)|\\s+",
                  DIGIT}},
    {"falcon", NULL, .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", NULL,
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"bloom", "poro-chat gpt3-finnish", .patterns = {BLOOM}},
    {"viking", NULL, .patterns = {BLOOM, DIGIT}},
    {"chameleon", NULL,
     .patterns = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )",
                  DIGIT, "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     .adds_bos = true},
    {"tiny_aya", "cohere2moe",
     .patterns = {"\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O(CONTRACTIONS "?", "\\p{N}{1,3}")}},
    {"superbpe", NULL, .patterns = {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"bailingmoe", "bailingmoe2 llada-moe",
     .patterns = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
                  "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
                  "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder", NULL,
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|"
                  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"exaone-moe", NULL,
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?"
                  "[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"minicpm5", NULL, .patterns = {"\\p{N}{1,3}", GPT4("\\p{N}+")}, .ignores_merges = true},
    {"laguna", NULL, .patterns = {"[^\\n]+|[\\n]+", GPT4(DIGIT)}},
    {"youtu", NULL,
     .patterns = {"[\uac00-\ud7a3\u3131-\u318e]+|["
                  "\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
                  "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" DEEPSEEK3_CJK,
                  GPT4O(CONTRACTIONS "?", DIGIT)},
     .ignores_merges = true},
    {"jais-2", NULL,
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                  "\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|"
                  "\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|"
                  "\\s{1}"}},
    {"ufakzeka", NULL,
     .patterns =
         {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
          "\\s+(?!\\S)|\\s+"}},
    {"kimi-k2", NULL,
     .patterns = {"[\\p{sc:Han}]+|" CASED(
         CAPITALS_NOT_HAN, SMALL_NOT_HAN,
         CONTRACTIONS
         "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.name = NULL},
};
