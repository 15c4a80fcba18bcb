#!/usr/bin/env python3
"""make_archs.py WRITE_MODELS: makes data/archs.bin, what llama.cpp says to the small models.

test_archs.c makes the same models (tests/models) with weights in F32 and must come to the same
logits.  The file is part of the tree, so nobody needs llama.cpp to run the tests.  To make it anew:

    python3 -m venv /tmp/llama && /tmp/llama/bin/pip install llama-cpp-python numpy
    /tmp/llama/bin/python tests/golden/make_archs.py build/release/tests/write_models

A record (see make_torch.py) is all logits behind 70 tokens, with keys and values in F32.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy

LENGTH = 70
HERE = os.path.dirname(os.path.abspath(__file__))
LOG = llama_cpp.llama_log_callback(lambda level, text, user: None)


def logits(path):
    model = llama_cpp.Llama(str(path), n_ctx=128, n_batch=128, n_ubatch=128, n_threads=1, type_k=0, type_v=0,
                            verbose=False)
    n = model.n_vocab()
    model.eval([(i * 37 + i * i) % n for i in range(LENGTH)])
    row = llama_cpp.llama_get_logits_ith(model._ctx.ctx, -1)
    return numpy.ctypeslib.as_array(row, shape=(n,)).astype("<f4")


def main():
    llama_cpp.llama_log_set(LOG, ctypes.c_void_p(0))
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(HERE, "data", "archs.bin"), "wb") as out:
        subprocess.run([sys.argv[1], folder, "f32"], check=True)
        for path in sorted(pathlib.Path(folder).glob("*.gguf")):
            name = path.name.split(".")[0]
            if name == "bert":  # it makes no text
                continue
            row = logits(path)
            out.write(f"{name} f32 {len(row)}\n".encode() + row.tobytes())
            print(name, row[:4])


if __name__ == "__main__":
    main()
