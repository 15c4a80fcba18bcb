#!/usr/bin/env python3
"""check_convert.py INGOT: `ingot convert` against other readers and writers of the same formats.

Makes a small folder of every architecture with random weights (safetensors, one file or shards) and
a tokenizer that the `tokenizers` library trained, converts it, reads the result with the `gguf`
package and compares every tensor, and the tokens of some texts, with what they must be.

Run with the interpreter of tests/peers/venv transformers; tools/test --e2e does.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

EMBD, FF, HEADS, KV, LAYERS, CONTEXT, EXPERTS, EXPERT_FF = 64, 96, 4, 2, 2, 128, 4, 32
TEXTS = [
    "Hello, world!",
    " two  spaces and\ttabs\n\nand lines",
    "don't we'll 12345 67.8",
    "größer als Äpfel; 你好世界 🙂 end",
    "the cat sat on the mat, and the dog sat on the cat",
]
CORPUS = TEXTS * 20 + [f"number {i} of the cats and dogs that sat there" for i in range(200)]
rng = np.random.default_rng(7)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- Tokenizers ----


def byte_level():
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return t, {"bos_token": "<|endoftext|>", "eos_token": {"content": "<|im_end|>"}, "add_bos_token": False}


def pieces():
    """As SentencePiece's vocabularies are stored: characters, merges, and bytes to fall back on."""
    t = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=specials, limit_alphabet=60, max_token_length=8, show_progress=False
    )
    t.train_from_iterator([line.replace(" ", "▁") for line in CORPUS], trainer)
    data = json.loads(t.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if a["id"] < 3]
    # SentencePiece knows pieces, not pairs: every way to split a piece must be a merge.
    vocab = data["model"]["vocab"]
    order, seen = [], set()
    for merge in data["model"]["merges"]:
        whole = "".join(merge)
        if whole in seen:
            continue
        seen.add(whole)
        order += [[whole[:i], whole[i:]] for i in range(1, len(whole)) if whole[:i] in vocab and whole[i:] in vocab]
    data["model"]["merges"] = order
    t = tokenizers.Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t, {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def wordpiece():
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=specials, show_progress=False))
    names = ["pad", "unk", "cls", "sep", "mask"]
    return t, {f"{n}_token": s for n, s in zip(names, specials)}


# ---- Folders: config and tensors, with the layer's number as {i} ----

BASE = dict(
    hidden_size=EMBD, intermediate_size=FF, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=KV, max_position_embeddings=CONTEXT, rms_norm_eps=1e-6, rope_theta=1e4, hidden_act="silu",
)


def decoder(head=EMBD // HEADS, bias=False, qk_norm=False, gemma=False, experts=False):
    q, kv, p = HEADS * head, KV * head, "model.layers.{i}."
    out = {
        p + "input_layernorm.weight": [EMBD], p + "post_attention_layernorm.weight": [EMBD],
        p + "self_attn.q_proj.weight": [q, EMBD], p + "self_attn.k_proj.weight": [kv, EMBD],
        p + "self_attn.v_proj.weight": [kv, EMBD], p + "self_attn.o_proj.weight": [EMBD, q],
    }
    if bias:
        out |= {p + f"self_attn.{n}_proj.bias": [q if n == "q" else kv] for n in "qkv"}
    if qk_norm:
        out |= {p + f"self_attn.{n}_norm.weight": [head] for n in "qk"}
    if gemma:
        out |= {p + f"{n}_feedforward_layernorm.weight": [EMBD] for n in ("pre", "post")}
    if experts:
        out[p + "mlp.gate.weight"] = [EXPERTS, EMBD]
        for e in range(EXPERTS):
            out[p + f"mlp.experts.{e}.gate_proj.weight"] = [EXPERT_FF, EMBD]
            out[p + f"mlp.experts.{e}.up_proj.weight"] = [EXPERT_FF, EMBD]
            out[p + f"mlp.experts.{e}.down_proj.weight"] = [EMBD, EXPERT_FF]
    else:
        out |= {p + "mlp.gate_proj.weight": [FF, EMBD], p + "mlp.up_proj.weight": [FF, EMBD],
                p + "mlp.down_proj.weight": [EMBD, FF]}
    return out


def phi3():
    p, head = "model.layers.{i}.", EMBD // HEADS
    return {
        p + "input_layernorm.weight": [EMBD], p + "post_attention_layernorm.weight": [EMBD],
        p + "self_attn.qkv_proj.weight": [(HEADS + 2 * KV) * head, EMBD],
        p + "self_attn.o_proj.weight": [EMBD, EMBD], p + "mlp.gate_up_proj.weight": [2 * FF, EMBD],
        p + "mlp.down_proj.weight": [EMBD, FF],
    }


def gpt2():
    p = "h.{i}."
    out = {p + "attn.bias": [1, 1, CONTEXT, CONTEXT]}
    for name, n_in, n_out in [("attn.c_attn", EMBD, 3 * EMBD), ("attn.c_proj", EMBD, EMBD),
                              ("mlp.c_fc", EMBD, 4 * EMBD), ("mlp.c_proj", 4 * EMBD, EMBD)]:
        out |= {p + name + ".weight": [n_in, n_out], p + name + ".bias": [n_out]}
    for name in ("ln_1", "ln_2"):
        out |= {p + name + ".weight": [EMBD], p + name + ".bias": [EMBD]}
    return out


def bert():
    p, out = "encoder.layer.{i}.", {}
    for name, n_in, n_out in [("attention.self.query", EMBD, EMBD), ("attention.self.key", EMBD, EMBD),
                              ("attention.self.value", EMBD, EMBD), ("attention.output.dense", EMBD, EMBD),
                              ("intermediate.dense", EMBD, FF), ("output.dense", FF, EMBD)]:
        out |= {p + name + ".weight": [n_out, n_in], p + name + ".bias": [n_out]}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        out |= {p + name + ".weight": [EMBD], p + name + ".bias": [EMBD]}
    return out


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
GPT2_CONFIG = dict(n_embd=EMBD, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT, layer_norm_epsilon=1e-5,
                   activation_function="gelu_new")
BERT_CONFIG = dict(BASE, hidden_act="gelu", layer_norm_eps=1e-12, type_vocab_size=2)
for key in ("num_key_value_heads", "rms_norm_eps", "rope_theta"):  # which a BertModel does not know
    del BERT_CONFIG[key]
MODEL = gguf.MODEL_ARCH
# name: class, gguf's number, config, tensors of a layer, others, tokenizer
FOLDERS = {
    "llama": ("LlamaForCausalLM", MODEL.LLAMA, dict(BASE, rope_scaling=LLAMA3), decoder(), "untied", pieces),
    "mistral": ("MistralForCausalLM", MODEL.LLAMA, dict(BASE, head_dim=32), decoder(32), "untied", pieces),
    "qwen2": ("Qwen2ForCausalLM", MODEL.QWEN2, dict(BASE, tie_word_embeddings=True), decoder(bias=True), "tied", byte_level),
    "qwen3": ("Qwen3ForCausalLM", MODEL.QWEN3, dict(BASE, head_dim=32), decoder(32, qk_norm=True), "untied", byte_level),
    "qwen3moe": ("Qwen3MoeForCausalLM", MODEL.QWEN3MOE,
                 dict(BASE, num_experts=EXPERTS, num_experts_per_tok=2, moe_intermediate_size=EXPERT_FF, norm_topk_prob=True),
                 decoder(qk_norm=True, experts=True), "untied", byte_level),
    "gemma3": ("Gemma3ForCausalLM", MODEL.GEMMA3,
               dict(BASE, head_dim=32, hidden_act=None, hidden_activation="gelu_pytorch_tanh", sliding_window=16,
                    query_pre_attn_scalar=32),
               decoder(32, qk_norm=True, gemma=True), "tied", pieces),
    "phi3": ("Phi3ForCausalLM", MODEL.PHI3, dict(BASE), phi3(), "untied", pieces),
    "gpt2": ("GPT2LMHeadModel", MODEL.GPT2, GPT2_CONFIG, gpt2(), "gpt2", byte_level),
    "bert": ("BertModel", MODEL.BERT, BERT_CONFIG, bert(), "bert", wordpiece),
}
OTHERS = {
    "untied": {"model.embed_tokens.weight": ["V", EMBD], "model.norm.weight": [EMBD], "lm_head.weight": ["V", EMBD]},
    "tied": {"model.embed_tokens.weight": ["V", EMBD], "model.norm.weight": [EMBD]},
    "gpt2": {"wte.weight": ["V", EMBD], "wpe.weight": [CONTEXT, EMBD], "ln_f.weight": [EMBD], "ln_f.bias": [EMBD]},
    "bert": {"embeddings.word_embeddings.weight": ["V", EMBD], "embeddings.position_embeddings.weight": [CONTEXT, EMBD],
             "embeddings.token_type_embeddings.weight": [2, EMBD], "embeddings.LayerNorm.weight": [EMBD],
             "embeddings.LayerNorm.bias": [EMBD], "pooler.dense.weight": [EMBD, EMBD], "pooler.dense.bias": [EMBD]},
}


def make(folder, name):
    """Writes the folder; returns its tensors and its tokenizer."""
    model, _, config, layer, others, tokenizer = FOLDERS[name]
    t, token_config = tokenizer()
    vocab = t.get_vocab_size() + 5  # the embedding is often a little larger
    shapes = dict(OTHERS[others])
    for i in range(LAYERS):
        shapes |= {n.format(i=i): s for n, s in layer.items()}
    tensors = {n: draw(*[vocab if d == "V" else d for d in s]) for n, s in shapes.items()}
    folder.mkdir()
    names = sorted(tensors)
    if name in ("llama", "qwen3moe"):
        half = len(names) // 2
        shards = {"model-00001-of-00002.safetensors": names[:half], "model-00002-of-00002.safetensors": names[half:]}
        weight_map = {n: shard for shard, ns in shards.items() for n in ns}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    else:
        shards = {"model.safetensors": names}
    for shard, ns in shards.items():
        save_file({n: tensors[n] for n in ns}, folder / shard, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(dict(config, architectures=[model], vocab_size=vocab)))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(token_config, chat_template="{{ messages }}")))
    t.save(str(folder / "tokenizer.json"))
    return tensors, t


def expected(name, tensors):
    """The file's tensors by name, from gguf's own map of names and the known rules of order."""
    arch = FOLDERS[name][1]
    names = gguf.get_tensor_name_map(arch, LAYERS)
    out, experts = {}, {}
    for n, x in tensors.items():
        if n.endswith(".attn.bias") or n.startswith("pooler."):
            continue
        if ".experts." in n:
            layer, kind = n.split(".")[2], n.split(".")[-2].split("_")[0]
            experts.setdefault((layer, kind), {})[int(n.split(".experts.")[1].split(".")[0])] = x
            continue
        if arch == MODEL.LLAMA and (".q_proj" in n or ".k_proj" in n):
            heads = HEADS if ".q_proj" in n else KV
            x = x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        if arch == MODEL.GEMMA3 and n.endswith("norm.weight"):
            x = x + 1
        if arch == MODEL.GPT2 and n.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            x = x.T
        target = names.get_name(n, try_suffixes=(".weight", ".bias"))
        assert target, n
        out[target] = x
    for (layer, kind), of in experts.items():
        out[f"blk.{layer}.ffn_{kind}_exps.weight"] = np.stack([of[e] for e in range(EXPERTS)])
    if "rope_scaling" in FOLDERS[name][2]:
        out["rope_freqs.weight"] = llama3_factors()
    return out


def llama3_factors():
    n = EMBD // HEADS
    freq = 1e4 ** (-np.arange(0, n, 2) / n)
    wave, s = 2 * np.pi / freq, LLAMA3
    low = s["original_max_position_embeddings"] / s["low_freq_factor"]
    high = s["original_max_position_embeddings"] / s["high_freq_factor"]
    ramp = (s["original_max_position_embeddings"] / wave - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    middle = 1 / ((1 - ramp) / s["factor"] + ramp)
    return np.where(wave < high, 1, np.where(wave > low, s["factor"], middle)).astype(np.float32)


def check_tensors(name, path, tensors):
    want, got = expected(name, tensors), {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert set(want) == set(got), (set(want) - set(got), set(got) - set(want))
    for n, x in want.items():
        y = gguf.dequantize(got[n].data, got[n].tensor_type).reshape(tuple(reversed(got[n].shape.tolist())))
        assert x.shape == y.shape, (n, x.shape, y.shape)
        exact = n == "rope_freqs.weight"
        assert np.allclose(x, y, rtol=1e-6 if exact else 0, atol=0), n
    return len(want)


def check_tokens(ingot, path, t, name):
    equal = 0
    for text in TEXTS:
        run = subprocess.run([ingot, "tokenize", "-m", path, "--ids"], input=text.encode(), capture_output=True)
        assert run.returncode == 0, run.stderr
        got = [int(i) for i in run.stdout.decode().replace(",", " ").replace("[", " ").replace("]", " ").split()]
        want = t.encode(text, add_special_tokens=False).ids
        if got == want:
            equal += 1
        else:
            print(f"  {name}: {text!r}\n    here {got}\n    there {want}")
    return equal


def main():
    ingot, failures = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as tmp:
        for name in FOLDERS:
            folder, path = pathlib.Path(tmp) / name, str(pathlib.Path(tmp) / (name + ".gguf"))
            tensors, t = make(folder, name)
            run = subprocess.run([ingot, "convert", "-q", str(folder), path, "--type", "F32"], capture_output=True, text=True)
            if run.returncode:
                print(f"{name}: {run.stderr}")
                failures += 1
                continue
            count = check_tensors(name, path, tensors)
            equal = check_tokens(ingot, path, t, name)
            failures += equal < len(TEXTS)
            print(f"{name:9} {count:3} tensors equal, {equal} of {len(TEXTS)} texts tokenized the same")
    sys.exit(failures > 0)


main()
