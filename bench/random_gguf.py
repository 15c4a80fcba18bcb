#!/usr/bin/env python3
"""Writes a GGUF file of a Llama shape with random weights, for benchmarks.

    bench/random_gguf.py 1b.gguf --shape 1b --type f16

Needs only Python and writes about as fast as the disk: all matrices are slices of one run of random
bytes, in which only the scales are corrected.
"""

import argparse
import os
import struct

# d_model, d_ff, layers, heads, KV heads, vocabulary, separate output matrix
SHAPES = {
    "tiny": (256, 512, 2, 8, 2, 320, False),
    "1b": (2048, 8192, 16, 32, 8, 128256, False),
    "8b": (4096, 14336, 32, 32, 8, 128256, True),
}
# type id in the file, elements and bytes per block, and offsets of its 16-bit scales
TYPES = {
    "f32": (0, 1, 4, []),
    "f16": (1, 1, 2, []),
    "q4_0": (2, 32, 18, [0]),
    "q8_0": (8, 32, 34, [0]),
    "q4_k": (12, 256, 144, [0, 2]),
    "q6_k": (14, 256, 210, [208]),
    "bf16": (30, 1, 2, []),
}
ALIGNMENT = 32
SCALE = 0x1400  # F16: 2^-10
RUN_BLOCKS = 1 << 18  # of the random run; scaled to a multiple of every alignment


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    """A key of the file's header: 4 uint32, 6 float32, 8 string; (9, kind) an array."""
    one = {4: lambda v: struct.pack("<I", v), 6: lambda v: struct.pack("<f", v), 8: text}
    if isinstance(kind, tuple):
        inner = kind[1]
        body = struct.pack("<IIQ", 9, inner, len(value)) + b"".join(one[inner](v) for v in value)
        return text(name) + body
    return text(name) + struct.pack("<I", kind) + one[kind](value)


def random_run(kind):
    """Random blocks: floats of magnitude near 2^-7; all blocks have the same scales."""
    _, _, size, scales = TYPES[kind]
    run = bytearray(os.urandom(RUN_BLOCKS * size))
    if kind in ("f16", "bf16", "f32"):
        high = {"f16": 0x1C, "bf16": 0x3C, "f32": 0x3C}[kind]
        table = bytes(high | (b & 0x80) for b in range(256))
        run[size - 1 :: size] = run[size - 1 :: size].translate(table)
    for at in scales:
        run[at::size] = bytes([SCALE & 255]) * RUN_BLOCKS
        run[at + 1 :: size] = bytes([SCALE >> 8]) * RUN_BLOCKS
    return run


def tensors_of(shape, kind):
    """Yields name, extents with the innermost first, and type."""
    width, ff, layers, heads, kv_heads, vocabulary, has_output = SHAPES[shape]
    kv = width // heads * kv_heads
    yield "token_embd.weight", (width, vocabulary), kind
    yield "output_norm.weight", (width,), "f32"
    if has_output:
        yield "output.weight", (width, vocabulary), kind
    for i in range(layers):
        for name, extents in (
            ("attn_q", (width, width)),
            ("attn_k", (width, kv)),
            ("attn_v", (width, kv)),
            ("attn_output", (width, width)),
            ("ffn_gate", (width, ff)),
            ("ffn_up", (width, ff)),
            ("ffn_down", (ff, width)),
        ):
            yield f"blk.{i}.{name}.weight", extents, kind
        yield f"blk.{i}.attn_norm.weight", (width,), "f32"
        yield f"blk.{i}.ffn_norm.weight", (width,), "f32"


def tokens_of(vocabulary):
    """The 256 bytes as GPT-2 writes them, so that any text has tokens; then made-up words."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    single = [chr(b if b in plain else next(others)) for b in range(256)]
    return single + [f"t{i}" for i in range(vocabulary - len(single))]


def keys_of(shape):
    width, ff, layers, heads, kv_heads, vocabulary, _ = SHAPES[shape]
    return [
        key("general.architecture", 8, "llama"),
        key("general.name", 8, f"random {shape}"),
        key("llama.block_count", 4, layers),
        key("llama.context_length", 4, 32768),
        key("llama.embedding_length", 4, width),
        key("llama.feed_forward_length", 4, ff),
        key("llama.attention.head_count", 4, heads),
        key("llama.attention.head_count_kv", 4, kv_heads),
        key("llama.attention.layer_norm_rms_epsilon", 6, 1e-5),
        key("llama.rope.dimension_count", 4, width // heads),
        key("llama.rope.freq_base", 6, 500000.0),
        key("llama.vocab_size", 4, vocabulary),
        key("tokenizer.ggml.model", 8, "gpt2"),
        key("tokenizer.ggml.pre", 8, "llama-bpe"),
        key("tokenizer.ggml.tokens", (9, 8), tokens_of(vocabulary)),
        key("tokenizer.ggml.merges", (9, 8), ["t h"]),
        key("tokenizer.ggml.bos_token_id", 4, vocabulary - 2),
        key("tokenizer.ggml.eos_token_id", 4, vocabulary - 1),
    ]


def bytes_of(extents, kind):
    _, block, size, _ = TYPES[kind]
    count = 1
    for extent in extents:
        count *= extent
    return count // block * size


def write(path, shape, kind):
    tensors = list(tensors_of(shape, kind))
    keys = keys_of(shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    offset = 0
    for name, extents, type_ in tensors:
        head += text(name) + struct.pack("<I", len(extents))
        head += struct.pack(f"<{len(extents)}Q", *extents)
        head += struct.pack("<IQ", TYPES[type_][0], offset)
        offset += -(-bytes_of(extents, type_) // ALIGNMENT) * ALIGNMENT
    runs = {name: random_run(name) for name in {kind, "f32"}}
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for _, extents, type_ in tensors:
            left = size = bytes_of(extents, type_)
            while left > 0:
                file.write(memoryview(runs[type_])[:left])
                left -= min(left, len(runs[type_]))
            file.write(bytes(-size % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--shape", choices=SHAPES, default="1b")
    parser.add_argument("--type", choices=TYPES, default="f16")
    options = parser.parse_args()
    write(options.path, options.shape, options.type)


if __name__ == "__main__":
    main()
