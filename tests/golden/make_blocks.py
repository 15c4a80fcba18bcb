#!/usr/bin/env python3
"""Records what the `gguf` package makes of blocks of random bits, for test_blocks.c.

    python3 -m venv env && env/bin/pip install gguf && env/bin/python make_blocks.py

Writes data/blocks.bin, in the form that golden.h reads: for each type its blocks, as words, and
the floats that they stand for.
"""

import pathlib

import gguf
import numpy

ELEMENTS = 512

# Where the F16 scales of a block lie: they are drawn so that they are finite.
SCALES = {
    "F32": [], "F16": [0], "BF16": [], "MXFP4": [],
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0],
}


def draw(rng, name, blocks, size):
    """Random bits; one scale in eight is so small that it has no leading one."""
    if name in ("F32", "BF16"):
        numbers = rng.standard_normal(blocks).astype(numpy.float32)
        raw = numbers.view(numpy.uint8).reshape(blocks, 4)
        return raw if name == "F32" else raw[:, 2:].copy()
    raw = rng.integers(0, 256, (blocks, size), dtype=numpy.uint8)
    for at in SCALES[name]:
        scale = rng.normal(0, 0.1, blocks).astype(numpy.float16)
        scale[::8] = scale[::8] * numpy.float16(1e-5)
        raw[:, at : at + 2] = scale.view(numpy.uint8).reshape(blocks, 2)
    if name == "MXFP4":
        raw[:, 0] = rng.choice([0, 1, 2, 3, 100, 126, 127, 128, 140], blocks)
    return raw


def main():
    rng = numpy.random.default_rng(5)
    path = pathlib.Path(__file__).parent / "data" / "blocks.bin"
    with path.open("wb") as out:
        for name in SCALES:
            kind = gguf.GGMLQuantizationType[name]
            block, size = gguf.GGML_QUANT_SIZES[kind]
            raw = draw(rng, name, ELEMENTS // block, size)
            floats = gguf.dequantize(raw.reshape(1, -1), kind).astype("<f4").reshape(-1)
            packed = raw.tobytes()
            packed += b"\0" * (-len(packed) % 4)
            out.write(f"{name.lower()}.blocks i32 {len(packed) // 4}\n".encode() + packed)
            out.write(f"{name.lower()} f32 {floats.size}\n".encode() + floats.tobytes())


main()
