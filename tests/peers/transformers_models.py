#!/usr/bin/env python3
"""Compares Ingot with transformers on small models with random weights, architecture by architecture.

    $(tests/peers/venv transformers) tests/peers/transformers_models.py build/release/bin/ingot

Each model is made by transformers from a config, written as GGUF by the gguf package with names and
orders as converters use them, and run by both: transformers in F64, Ingot on its CPU kernels with
caches of F32.  Printed is the norm-wise error of the logits behind the last token, or of the
embedding, as a Markdown table; the exit code says whether all are within the bound.  The last
column is of the same model saved by transformers as safetensors and converted by 'ingot convert'.
"""

import json
import math
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
import tokenizers
import transformers as tf
from tokenizers import Tokenizer

BOUND = 1e-5  # sums of F32 against sums of F64, through a few layers
BYTE_BOUND = 4e-2  # with blocks, activations are rounded to eight bits
VOCABULARY = 300
LENGTH = 150  # more than two pages, and more than the windows


tf.logging.set_verbosity_error()
tf.logging.disable_progress_bar()


def permute(weight, heads):
    """Rows of q and k as llama files have them: NeoX's pairs of a head become neighbors."""
    out, width = weight.shape
    return weight.reshape(heads, 2, out // heads // 2, width).swapaxes(1, 2).reshape(out, width)


def byte_tokens():
    """A vocabulary without merges; what the tokens say plays no part where ids are given."""
    spelled = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in spelled]
    tokens = [chr(b) for b in spelled] + [chr(256 + i) for i in range(len(rest))]
    return tokens + [f"[{i}]" for i in range(VOCABULARY - len(tokens))]


class Writer:
    def __init__(self, path, arch, config, **more):
        self.w = gguf.GGUFWriter(path, arch)
        self.arch = arch
        sizes = {
            "context_length": config.max_position_embeddings,
            "embedding_length": config.hidden_size,
            "block_count": config.num_hidden_layers,
            "feed_forward_length": config.intermediate_size,
            "attention.head_count": config.num_attention_heads,
            "attention.head_count_kv": getattr(config, "num_key_value_heads", None),
        } | more
        for name, value in sizes.items():
            if isinstance(value, float):
                self.w.add_float32(f"{arch}.{name}", value)
            elif isinstance(value, str):
                self.w.add_string(f"{arch}.{name}", value)
            elif value is not None:
                self.w.add_uint32(f"{arch}.{name}", value)

    def bytes_vocabulary(self):
        self.w.add_tokenizer_model("gpt2")
        self.w.add_tokenizer_pre("gpt-2")
        self.w.add_token_list(byte_tokens())
        self.w.add_token_types([1] * VOCABULARY)
        self.w.add_token_merges([])

    def words_vocabulary(self):
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + ["\u2581" + w for w in WORDS]
        tokens += [f"[unused{i}]" for i in range(VOCABULARY - len(tokens))]
        self.w.add_tokenizer_model("bert")
        self.w.add_token_list(tokens)
        self.w.add_token_types([3] * 5 + [1] * (VOCABULARY - 5))
        for name, i in (("unknown", 1), ("cls", 2), ("seperator", 3), ("padding", 0), ("mask", 4)):
            self.w.add_uint32(f"tokenizer.ggml.{name}_token_id", i)
        self.w.add_uint32("tokenizer.ggml.bos_token_id", 2)
        self.w.add_uint32("tokenizer.ggml.eos_token_id", 3)

    def tensor(self, name, value, kind=None):
        numbers = np.ascontiguousarray(value.detach().float().numpy())
        if kind is None:
            self.w.add_tensor(name, numbers)
        else:
            blocks = gguf.quants.quantize(numbers, kind)
            self.w.add_tensor(name, blocks, raw_dtype=kind)

    def close(self):
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()


WORDS = ["the", "fish", "swims", "in", "a", "deep", "blue", "sea", "and", "sings"]

LAYER = {  # of most decoders
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
}
GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def decoder_tensors(model, writer, config, renames=LAYER, change=lambda name, w: w, kind=None):
    tied = config.tie_word_embeddings
    for name, value in model.state_dict().items():
        path, end = name.rsplit(".", 1)
        if path.startswith("model.layers."):
            number, part = path[len("model.layers.") :].split(".", 1)
            if part.startswith("mlp.experts") or part not in renames:
                continue
            target = f"blk.{number}.{renames[part]}"
        elif path in TOP and not (tied and path == "lm_head"):
            target = TOP[path]
        else:
            continue
        stored = kind if value.dim() == 2 else None
        writer.tensor(f"{target}.{end}", change(target, value), stored)


def draw(model):
    """Gains away from 1 and biases away from 0, so that one forgotten shows."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in model.parameters():
            spread = 0.2 if p.dim() == 1 else 0.5 / math.sqrt(p.shape[-1])
            p.add_(spread * torch.randn(p.shape, generator=generator))
    return model.double().eval()


SIZES = dict(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
)


QWEN_ROPE = {"rope_theta": 1e6, "rope_type": "default"}


def rms(config):
    return {"attention.layer_norm_rms_epsilon": float(config.rms_norm_eps)}


def heads(config):
    return {"attention.key_length": config.head_dim, "attention.value_length": config.head_dim}


# ---- one function for each model: makes it, writes it, gives it back ----


def llama(path, scaling=None):
    rope = {"rope_theta": 500000.0, "rope_type": "default"} if not scaling else scaling
    config = tf.LlamaConfig(**SIZES, rope_parameters=rope)
    model = draw(tf.LlamaForCausalLM(config))
    w = Writer(path, "llama", config, **rms(config), **{"rope.freq_base": 500000.0})
    n, g = config.num_attention_heads, config.num_key_value_heads
    w.bytes_vocabulary()
    if scaling:
        w.tensor("rope_freqs.weight", llama3_factors(config, scaling))
    turn = {"attn_q": n, "attn_k": g}

    def change(name, value):
        of = turn.get(name.split(".")[-1])
        return torch.from_numpy(permute(value.numpy(), of)) if of else value

    decoder_tensors(model, w, config, change=change)
    w.close()
    return model


def llama3(path):
    return llama(
        path,
        {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    )


def llama3_factors(config, s):
    """How much slower each pair rotates, as the Llama 3.1 converter writes it."""
    width = config.hidden_size // config.num_attention_heads
    factors = []
    for i in range(0, width, 2):
        freq = s["rope_theta"] ** (-i / width)
        wave = 2 * math.pi / freq
        old = s["original_max_position_embeddings"]
        low, high = old / s["low_freq_factor"], old / s["high_freq_factor"]
        if wave < high:
            factors.append(1.0)
        elif wave > low:
            factors.append(s["factor"])
        else:
            smooth = (old / wave - s["low_freq_factor"]) / (
                s["high_freq_factor"] - s["low_freq_factor"]
            )
            factors.append(1 / ((1 - smooth) / s["factor"] + smooth))
    return torch.tensor(factors)


def qwen2(path, scaling=None):
    rope = scaling or {"rope_theta": 1000000.0, "rope_type": "default"}
    config = tf.Qwen2Config(**SIZES, tie_word_embeddings=True, rope_parameters=rope)
    model = draw(tf.Qwen2ForCausalLM(config))
    more = {}
    if scaling:
        more = {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": scaling["factor"],
            "rope.scaling.original_context_length": scaling["original_max_position_embeddings"],
        }
    w = Writer(path, "qwen2", config, **rms(config), **{"rope.freq_base": 1000000.0}, **more)
    w.bytes_vocabulary()
    decoder_tensors(model, w, config)
    w.close()
    return model


def qwen2_yarn(path):
    return qwen2(
        path,
        {
            "rope_type": "yarn",
            "rope_theta": 1000000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    )


def qwen3(path):
    config = tf.Qwen3Config(**SIZES, head_dim=32, rope_parameters=QWEN_ROPE)
    model = draw(tf.Qwen3ForCausalLM(config))
    w = Writer(path, "qwen3", config, **rms(config), **heads(config), **{"rope.freq_base": 1e6})
    w.bytes_vocabulary()
    decoder_tensors(model, w, config)
    w.close()
    return model


def qwen3_mxfp4(path):
    """The weights that blocks of MXFP4 stand for, as the gguf package decodes them."""
    config = tf.Qwen3Config(**SIZES, head_dim=32, rope_parameters=QWEN_ROPE)
    model = draw(tf.Qwen3ForCausalLM(config))
    kind = gguf.GGMLQuantizationType.MXFP4
    w = Writer(path, "qwen3", config, **rms(config), **heads(config), **{"rope.freq_base": 1e6})
    w.bytes_vocabulary()
    decoder_tensors(model, w, config, kind=kind)
    w.close()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                blocks = gguf.quants.quantize(p.float().numpy(), kind)
                p.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind)))
    return model


def qwen3moe(path):
    config = tf.Qwen3MoeConfig(
        **SIZES,
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=32,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        rope_parameters=QWEN_ROPE,
    )
    model = draw(tf.Qwen3MoeForCausalLM(config))
    model.set_experts_implementation("eager")  # the grouped one knows no F64
    w = Writer(
        path,
        "qwen3moe",
        config,
        **rms(config),
        **heads(config),
        **{
            "rope.freq_base": 1e6,
            "expert_count": 8,
            "expert_used_count": 3,
            "expert_feed_forward_length": 32,
        },
    )
    w.bytes_vocabulary()
    decoder_tensors(model, w, config)
    for i, layer in enumerate(model.model.layers):
        experts = layer.mlp.experts
        gate, up = experts.gate_up_proj.chunk(2, dim=1)  # [experts, 2 ff, d]
        w.tensor(f"blk.{i}.ffn_gate_exps.weight", gate)
        w.tensor(f"blk.{i}.ffn_up_exps.weight", up)
        w.tensor(f"blk.{i}.ffn_down_exps.weight", experts.down_proj)
    w.close()
    return model


def gemma3(path):
    sizes = SIZES | dict(num_hidden_layers=7)
    config = tf.Gemma3TextConfig(
        **sizes,
        head_dim=32,
        sliding_window=32,
        query_pre_attn_scalar=32,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    )
    model = draw(tf.Gemma3ForCausalLM(config))
    w = Writer(
        path,
        "gemma3",
        config,
        **rms(config),
        **heads(config),
        **{
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "attention.sliding_window": 32,
        },
    )
    w.bytes_vocabulary()
    decoder_tensors(
        model,
        w,
        config,
        renames=LAYER | GEMMA,
        change=lambda name, v: v + 1 if name.endswith("norm") else v,
    )
    w.close()
    return model


def phi3(path, original=4096, window=None):
    turns = SIZES["hidden_size"] // SIZES["num_attention_heads"] // 2
    long = [1.0 + 0.5 * i for i in range(turns)]
    short = [1.0 + 0.1 * i for i in range(turns)]
    sizes = SIZES | dict(num_key_value_heads=4)
    config = tf.Phi3Config(
        **sizes,
        pad_token_id=0,
        sliding_window=window,
        original_max_position_embeddings=original,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "long_factor": long,
            "short_factor": short,
            "original_max_position_embeddings": original,
        },
    )
    model = draw(tf.Phi3ForCausalLM(config))
    factor = config.max_position_embeddings / original
    gain = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    w = Writer(
        path,
        "phi3",
        config,
        **rms(config),
        **{
            "rope.freq_base": 10000.0,
            "rope.scaling.original_context_length": original,
            "rope.scaling.attn_factor": gain,
            "attention.sliding_window": window,
        },
    )
    w.bytes_vocabulary()
    w.tensor("rope_factors_long.weight", torch.tensor(long))
    w.tensor("rope_factors_short.weight", torch.tensor(short))
    decoder_tensors(model, w, config)
    w.close()
    return model


def phi3_long(path):
    return phi3(path, original=128)


def phi3_window(path):
    return phi3(path, window=40)


def gpt2(path):
    config = tf.GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=64, n_layer=3, n_head=4, n_inner=96
    )
    model = draw(tf.GPT2LMHeadModel(config))
    w = Writer(
        path,
        "gpt2",
        type(
            "sizes",
            (),
            dict(
                max_position_embeddings=256,
                hidden_size=64,
                num_hidden_layers=3,
                intermediate_size=96,
                num_attention_heads=4,
            ),
        ),
        **{"attention.layer_norm_epsilon": float(config.layer_norm_epsilon)},
    )
    w.bytes_vocabulary()
    names = {
        "ln_1": "attn_norm",
        "attn.c_attn": "attn_qkv",
        "attn.c_proj": "attn_output",
        "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up",
        "mlp.c_proj": "ffn_down",
    }
    w.tensor("token_embd.weight", model.transformer.wte.weight)
    w.tensor("position_embd.weight", model.transformer.wpe.weight)
    w.tensor("output_norm.weight", model.transformer.ln_f.weight)
    w.tensor("output_norm.bias", model.transformer.ln_f.bias)
    for i, layer in enumerate(model.transformer.h):
        for name, target in names.items():
            part = layer.get_submodule(name)
            weight = part.weight if name.startswith("ln") else part.weight.T
            w.tensor(f"blk.{i}.{target}.weight", weight)
            w.tensor(f"blk.{i}.{target}.bias", part.bias)
    w.close()
    return model


def bert(path):
    config = tf.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=128,
    )
    model = draw(tf.BertModel(config, add_pooling_layer=False))
    w = Writer(
        path,
        "bert",
        config,
        **{"attention.layer_norm_epsilon": float(config.layer_norm_eps), "pooling_type": 1},
    )
    w.words_vocabulary()
    names = {
        "attention.self.query": "attn_q",
        "attention.self.key": "attn_k",
        "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output",
        "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm",
    }
    e = model.embeddings
    w.tensor("token_embd.weight", e.word_embeddings.weight)
    w.tensor("position_embd.weight", e.position_embeddings.weight)
    w.tensor("token_types.weight", e.token_type_embeddings.weight)
    w.tensor("token_embd_norm.weight", e.LayerNorm.weight)
    w.tensor("token_embd_norm.bias", e.LayerNorm.bias)
    for i, layer in enumerate(model.encoder.layer):
        for name, target in names.items():
            part = layer.get_submodule(name)
            w.tensor(f"blk.{i}.{target}.weight", part.weight)
            w.tensor(f"blk.{i}.{target}.bias", part.bias)
    w.close()
    return model


# ---- as a hub has it ----


def save_tokenizer(folder, words):
    if words:
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS
        names += [f"[unused{i}]" for i in range(VOCABULARY - len(names))]
        vocabulary = {name: i for i, name in enumerate(names)}
        t = Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
        t.normalizer = tokenizers.normalizers.BertNormalizer()
        t.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        t.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        t.add_special_tokens(names[:5])
        special = ("pad", "unk", "cls", "sep", "mask")
        with open(f"{folder}/tokenizer_config.json", "w", encoding="utf-8") as file:
            json.dump({f"{kind}_token": f"[{kind.upper()}]" for kind in special}, file)
    else:
        vocabulary = {name: i for i, name in enumerate(byte_tokens())}
        t = Tokenizer(tokenizers.models.BPE(vocabulary, []))
        t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = tokenizers.decoders.ByteLevel()
    t.save(f"{folder}/tokenizer.json")


def convert(program, model, folder, words):
    model.float().save_pretrained(folder)
    model.double()
    save_tokenizer(folder, words)
    out = f"{folder}/model.gguf"
    ask(program, "convert", folder, out, "--type", "F32", "--json")
    return out


# ---- comparing ----


def ask(program, *args):
    done = subprocess.run([program, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: {done.stderr}")
    return json.loads(done.stdout)


def logits_of(program, path, model):
    ids = [(i * 37 + i * i) % VOCABULARY for i in range(LENGTH)]
    got = ask(program, "logits", "-m", path, "--ids", " ".join(map(str, ids)), "--kv", "f32",
              "-c", "256", "--json")
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits[0, -1]
    return np.array(got["logits"]), want.numpy()


def embedding_of(program, path, model):
    text = "the fish sings and the deep blue sea swims in the fish"
    ids = [2] + [5 + WORDS.index(word) for word in text.split()] + [3]
    got = ask(program, "embed", "-m", path, "-p", text, "--json")
    if got["data"][0]["tokens"] != len(ids):
        sys.exit(f"bert: {got['data'][0]['tokens']} tokens, not {len(ids)}")
    with torch.no_grad():
        hidden = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
    return np.array(got["data"][0]["embedding"]), (hidden / hidden.norm()).numpy()


def distance(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


MODELS = [llama, llama3, qwen2, qwen2_yarn, qwen3, qwen3_mxfp4, qwen3moe, gemma3, phi3, phi3_long,
          phi3_window, gpt2, bert]


def main():
    program = sys.argv[1]
    good = True
    print(f"transformers {tf.__version__}, torch {torch.__version__.split('+')[0]}\n")
    print("| model | error | cosine | converted |\n|---|---|---|---|")
    for make in MODELS:
        of = embedding_of if make is bert else logits_of
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(1)
            model = make(f"{folder}/made.gguf")
            got, want = of(program, f"{folder}/made.gguf", model)
            converted = "-"
            if make is not qwen3_mxfp4:  # safetensors have no such type
                path = convert(program, model, folder, make is bert)
                again, _ = of(program, path, model)
                good = good and distance(again, want) <= BOUND
                converted = f"{distance(again, want):.2e}"
        error = distance(got, want)
        cosine = got @ want / np.linalg.norm(got) / np.linalg.norm(want)
        good = good and error <= (BYTE_BOUND if make is qwen3_mxfp4 else BOUND)
        print(f"| {make.__name__} | {error:.2e} | {cosine:.12f} | {converted} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
