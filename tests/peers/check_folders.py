#!/usr/bin/env python3
"""check_folders.py INGOT: folders that transformers writes, converted and run, against transformers.

For every architecture a small model with random weights is made and saved by transformers, with a
tokenizer of its own; `ingot convert` makes a GGUF file of it, and `ingot logits` (`ingot embed` for
bert) must give what transformers computes, in F32, up to rounding.

Run with the interpreter of tests/peers/venv transformers; tools/test --e2e does.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

EMBD, FF, HEADS, KV, LAYERS, CONTEXT = 64, 96, 4, 2, 2, 128
TOKENS = 300
IDS = [5, 17, 42, 99, 3, 250, 17, 64, 128, 7, 7, 200, 31, 12, 90, 180, 2, 66, 33, 101]

# Norm-wise error of the logits in F32; the cache is F32 as well.
MOST = 1e-5

BASE = dict(hidden_size=EMBD, intermediate_size=FF, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            num_key_value_heads=KV, max_position_embeddings=CONTEXT, vocab_size=TOKENS, tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=16,
                long_factor=[1 + 0.5 * i for i in range(EMBD // HEADS // 2)],
                short_factor=[1 + 0.1 * i for i in range(EMBD // HEADS // 2)])
LOCAL = dict(full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
             sliding_attention=dict(rope_type="default", rope_theta=5e3))
T = transformers
MODELS = {
    "llama": (T.LlamaForCausalLM, lambda: T.LlamaConfig(**BASE)),
    "llama3": (T.LlamaForCausalLM, lambda: T.LlamaConfig(**BASE, rope_parameters=LLAMA3)),
    "llama-bias": (T.LlamaForCausalLM, lambda: T.LlamaConfig(**BASE, attention_bias=True)),
    "mistral": (T.MistralForCausalLM, lambda: T.MistralConfig(**BASE, head_dim=32, sliding_window=None)),
    "mistral-window": (T.MistralForCausalLM, lambda: T.MistralConfig(**BASE, head_dim=32, sliding_window=6)),
    "qwen3-window": (T.Qwen3ForCausalLM,
                     lambda: T.Qwen3Config(**BASE, head_dim=32, use_sliding_window=True, sliding_window=6,
                                           max_window_layers=0)),
    "qwen2": (T.Qwen2ForCausalLM, lambda: T.Qwen2Config(**dict(BASE, tie_word_embeddings=True))),
    "qwen3": (T.Qwen3ForCausalLM, lambda: T.Qwen3Config(**BASE, head_dim=32)),
    "qwen3moe": (T.Qwen3MoeForCausalLM,
                 lambda: T.Qwen3MoeConfig(**BASE, head_dim=32, num_experts=4, num_experts_per_tok=2,
                                          moe_intermediate_size=32, norm_topk_prob=True)),
    "gemma3": (T.Gemma3ForCausalLM,
               lambda: T.Gemma3TextConfig(**dict(BASE, num_hidden_layers=7, tie_word_embeddings=True), head_dim=32,
                                          sliding_window=8, query_pre_attn_scalar=32)),
    "gemma3-types": (T.Gemma3ForCausalLM,
                     lambda: T.Gemma3TextConfig(**dict(BASE, num_hidden_layers=4, tie_word_embeddings=True),
                                                head_dim=32, sliding_window=8, query_pre_attn_scalar=32,
                                                layer_types=["sliding_attention", "full_attention"] * 2)),
    "gemma3-full": (T.Gemma3ForCausalLM,
                    lambda: T.Gemma3TextConfig(**dict(BASE, tie_word_embeddings=True), head_dim=32,
                                               sliding_window=8, query_pre_attn_scalar=32,
                                               layer_types=["full_attention"] * LAYERS)),
    "gemma3-local": (T.Gemma3ForCausalLM,
                     lambda: T.Gemma3TextConfig(**dict(BASE, num_hidden_layers=7, tie_word_embeddings=True),
                                                head_dim=32, sliding_window=8, query_pre_attn_scalar=32,
                                                rope_parameters=LOCAL)),
    "phi3-window": (T.Phi3ForCausalLM,
                    lambda: T.Phi3Config(**dict(BASE, num_key_value_heads=HEADS), sliding_window=6)),
    "phi3": (T.Phi3ForCausalLM, lambda: T.Phi3Config(**dict(BASE, num_key_value_heads=HEADS))),
    "phi3-long": (T.Phi3ForCausalLM,
                  lambda: T.Phi3Config(**dict(BASE, num_key_value_heads=HEADS), original_max_position_embeddings=16,
                                       rope_parameters=LONGROPE)),
    "linear": (T.LlamaForCausalLM,
               lambda: T.LlamaConfig(**BASE, rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=4.0))),
    "yarn": (T.Qwen3ForCausalLM,
             lambda: T.Qwen3Config(**BASE, head_dim=32,
                                   rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0,
                                                        original_max_position_embeddings=32))),
    "yarn-factor": (T.Qwen3ForCausalLM,
                    lambda: T.Qwen3Config(**BASE, head_dim=32,
                                          rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0,
                                                               attention_factor=1.3, beta_fast=16.0, beta_slow=2.0,
                                                               original_max_position_embeddings=32))),
    "gpt2": (T.GPT2LMHeadModel,
             lambda: T.GPT2Config(n_embd=EMBD, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT, vocab_size=TOKENS)),
    "bert": (T.BertModel,
             lambda: T.BertConfig(**{k: v for k, v in BASE.items() if k not in ("num_key_value_heads",)})),
}


def tokenizer(bert):
    """A vocabulary is needed, but no text is tokenized here."""
    if bert:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(97 + i) for i in range(26)]
        words += ["##" + chr(97 + i) for i in range(26)]
        t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(lowercase=True)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return t, {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return t, {"add_bos_token": False}


def shake(model):
    """Gains of 1 and biases of 0 would hide what is left out."""
    torch.manual_seed(11)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p) if p.ndim == 1 else 0.05 * torch.randn_like(p))


def run(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def check(ingot, name, folder, path):
    kind, config = MODELS[name]
    torch.manual_seed(7)
    model = kind(config()).eval().float()
    shake(model)
    model.save_pretrained(folder)
    t, token_config = tokenizer(name == "bert")
    t.save(str(folder / "tokenizer.json"))
    token_config["model_max_length"] = int(1e30)  # as transformers writes it where there is no limit
    (folder / "tokenizer_config.json").write_text(json.dumps(token_config))
    run(ingot, "convert", "-q", str(folder), path, "--type", "F32")
    if name == "bert":
        text = "hello world of words"
        ids = [2] + t.encode(text, add_special_tokens=False).ids + [3]
        with torch.no_grad():
            want = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
        want = want / want.norm()
        got = torch.tensor(json.loads(run(ingot, "embed", "-q", "-m", path, "-p", text, "--json"))["data"][0]["embedding"])
        got = got / got.norm()
    else:
        with torch.no_grad():
            want = model(torch.tensor([IDS])).logits[0, -1]
        out = json.loads(run(ingot, "logits", "-q", "-m", path, "--ids", ",".join(map(str, IDS)), "--json",
                             "--kv", "f32"))
        got = torch.tensor(out["logits"])
    return ((got.double() - want.double()).norm() / want.double().norm()).item()


def main():
    bad = 0
    for name in MODELS:
        with tempfile.TemporaryDirectory() as tmp:
            folder = pathlib.Path(tmp) / name
            folder.mkdir()
            try:
                error = check(sys.argv[1], name, folder, str(pathlib.Path(tmp) / "m.gguf"))
                bad += not error <= MOST
                print(f"{name:14} {error:.1e}{'' if error <= MOST else '  TOO MUCH'}")
            except RuntimeError as failure:
                bad += 1
                print(f"{name:14} {failure}")
    sys.exit(bad > 0)


main()
