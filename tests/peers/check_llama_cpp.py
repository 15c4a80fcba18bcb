#!/usr/bin/env python3
"""check_llama_cpp.py INGOT WRITE_MODELS [TYPE]...: what llama.cpp makes of the same files.

The small models of tests/models are written in several types, and as variants whose keys change how
they are computed; prompts are tokenized and run by llama.cpp and by Ingot. Prints the errors that
docs/parity.md shows, and fails where tokens differ or logits do.

Run with the interpreter of tests/peers/venv llama; tools/test --e2e does, one type at a time.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy

TYPES = ["f32", "f16", "q4_0", "q8_0", "iq4_nl", "mxfp4", "q4_k", "q6_k"]
TEXT = "the quick brown fox sat on the mat, and 12345 said: hello world! It's 7.5"
# Logits after each of these count: how far off a single prompt is, is random.
PROMPTS = [TEXT, "hello world and 7 foxes", "It's on the mat: a quick, brown 12345", "world! the the the sat said"]
TEXTS = [TEXT, "", " ", "   ", "\n\n", "a  b   c", " leading", "trailing ", "tab\there", "caf\u00e9 \u4f60\u597d \U0001f600",
         "</s><s>", "<|im_start|>user", "x" * 300, "1234567890" * 5, "'s't're", "\u00a0nbsp", "e\u0301"]

# Float weights differ by the order of sums, and by llama.cpp's table of GELU in F16; quantized
# ones are held to llama.cpp's own distance from the reference, with the room that golden files have.
FLOAT_ERROR, GELU_ERROR, HALF_ERROR, SHARE = 1e-5, 1e-3, 2e-3, 1.1
WITH_GELU = ("gemma", "gpt2", "gptneox", "phi2", "falcon", "starcoder2")

# A router that is nearly undecided goes another way by a rounding, which is no error: where weights are
# rounded, all experts are used.
USED = {"qwen3moe": "qwen3moe", "qwen2moe": "qwen2moe", "olmoe": "olmoe", "granitemoe": "granitemoe",
        "mixtral": "llama", "gpt-oss": "gpt-oss", "deepseek": "deepseek", "deepseek2": "deepseek2",
        "deepseek2-made": "deepseek2", "dots1": "dots1", "bailingmoe2": "bailingmoe2",
        "glm4moe": "glm4moe", "hunyuan-moe": "hunyuan-moe"}
EXPERTS = 4

# model, keys that are set, in what type of weights
VARIANTS = [
    ("llama", "linear", {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
    ("llama", "yarn", {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
                       "llama.rope.scaling.original_context_length": 32}),
    ("qwen2", "yarn", {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 2.0,
                       "qwen2.rope.scaling.original_context_length": 64}),
    ("phi3", "partial", {"phi3.rope.dimension_count": 16}),
    ("qwen3", "base", {"qwen3.rope.freq_base": 5000.0}),
    ("gemma3", "linear", {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}),
    ("gemma3", "window", {"gemma3.attention.sliding_window": 5}),
    ("qwen3moe", "one", {"qwen3moe.expert_used_count": 1}),
    ("gpt-oss", "window", {"gpt-oss.attention.sliding_window": 3}),
    ("deepseek2", "softmax", {"deepseek2.expert_gating_func": 1}),
    ("dots1", "softmax", {"dots1.expert_gating_func": 1, "dots1.expert_weights_scale": 1.0}),
    ("glm4moe", "one", {"glm4moe.expert_used_count": 1, "glm4moe.expert_weights_scale": 2.5}),
    ("llama", "aligned", {"general.alignment": 64}),
]


def quiet(level, text, user):
    pass


LOG = llama_cpp.llama_log_callback(quiet)


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{args}: {done.stderr}")
    return json.loads(done.stdout)


def write_variant(source, target, keys):
    """The same tensors with other keys."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch)
    if "general.alignment" in keys:
        writer.add_custom_alignment(keys["general.alignment"])
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or name in keys:
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub)
    for name, value in keys.items():
        if name == "general.alignment":
            continue
        kind = {str: gguf.GGUFValueType.STRING, float: gguf.GGUFValueType.FLOAT32,
                int: gguf.GGUFValueType.UINT32}[type(value)]
        writer.add_key_value(name, value, kind)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Peer:
    """llama.cpp with one file."""

    def __init__(self, path, embedding=False):
        self.model = llama_cpp.Llama(str(path), n_ctx=128, n_batch=128, n_ubatch=128, n_threads=1,
                                     type_k=0, type_v=0, verbose=False, embedding=embedding)

    def tokens(self, text, special):
        return self.model.tokenize(text.encode(), add_bos=special, special=special)

    def logits(self, tokens):
        self.model.reset()
        self.model.eval(tokens)
        row = llama_cpp.llama_get_logits_ith(self.model._ctx.ctx, -1)
        return numpy.ctypeslib.as_array(row, shape=(self.model.n_vocab(),)).copy()


def error(got, want):
    return float(numpy.linalg.norm(got - want) / numpy.linalg.norm(want))


def check_tokens(ingot, path, peer):
    for text in TEXTS:
        for special in (False, True):
            args = [ingot, "tokenize", "-m", path, "--json", "-p", text] + (["--special"] if special else [])
            ours = run(*args)["tokens"]
            theirs = peer.tokens(text, special)
            if ours != theirs:
                raise SystemExit(f"{path.name}: {text!r} (special: {special}): {ours}, llama.cpp has {theirs}")


def check_logits(ingot, path, peer, name, kind):
    def ours(device, text):
        return run(ingot, "logits", "-m", path, "-p", text, "--json", "--kv", "f32", "--device", device)
    cpu, ref, theirs = [], [], []
    for text in PROMPTS:
        got = ours("cpu", text)
        cpu.append(got["logits"])
        ref.append(ours("ref", text)["logits"])
        theirs.append(peer.logits(got["tokens"]))
    cpu, ref, theirs = (numpy.array(rows) for rows in (cpu, ref, theirs))
    of_ours, of_theirs, apart = error(cpu, ref), error(theirs, ref), error(cpu, theirs)
    print(f"| {name} | {kind} | {of_ours:.2e} | {of_theirs:.2e} | {apart:.2e} |", flush=True)
    if kind == "f32":
        good = apart <= (GELU_ERROR if name.startswith(WITH_GELU) else FLOAT_ERROR)
    elif kind == "f16":
        good = of_theirs <= HALF_ERROR
    else:
        good = of_ours <= SHARE * of_theirs
    if not good:
        raise SystemExit(f"{path.name}: too far apart")


def all_experts(name):
    """The keys that let every row go to all of them."""
    keys = {USED[name] + ".expert_used_count": EXPERTS}
    if name == "deepseek2":
        keys["deepseek2.expert_group_count"] = 1
    return keys


def check_embedding(ingot, path, kind):
    theirs = numpy.array(Peer(path, embedding=True).model.embed(TEXT, normalize=True))
    ours = numpy.array(run(ingot, "embed", "-m", path, "-p", TEXT, "--json")["data"][0]["embedding"])
    print(f"| bert | {kind} | | | {error(ours, theirs):.2e} |", flush=True)
    if error(ours, theirs) > 1e-2:
        raise SystemExit(f"{path.name}: too far apart")


def main():
    ingot, write_models = sys.argv[1:3]
    llama_cpp.llama_log_set(LOG, ctypes.c_void_p(0))
    print(f"llama-cpp-python {llama_cpp.__version__}\n")
    print("| model | type | ours to ref | llama.cpp to ref | ours to llama.cpp |\n|---|---|---|---|---|")
    kinds = sys.argv[3:] or TYPES
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for kind in kinds:
            subprocess.run([write_models, folder, kind], check=True)
            for path in sorted(folder.glob(f"*.{kind}.gguf")):
                name = path.name.split(".")[0]
                if name == "bert":
                    check_embedding(ingot, path, kind)
                    continue
                if name in USED and kind not in ("f32", "f16"):
                    source, path = path, folder / f"{name}.{kind}.all"
                    write_variant(source, path, all_experts(name))
                peer = Peer(path)
                if kind == "f32":
                    check_tokens(ingot, path, peer)
                check_logits(ingot, path, peer, name, kind)
        for name, what, keys in VARIANTS if "f32" in kinds else ():
            path = folder / f"{name}-{what}.gguf"
            write_variant(folder / f"{name}.f32.gguf", path, keys)
            check_logits(ingot, path, Peer(path), f"{name}, {what}", "f32")


if __name__ == "__main__":
    main()
