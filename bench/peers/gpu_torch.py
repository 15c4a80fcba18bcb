#!/usr/bin/env python3
"""PyTorch and transformers on a CUDA device: the reference for `--device vulkan`.

    bench/peers/gpu_torch.py train     char-mlp of batch 32: eager, and replayed as a CUDA graph
    bench/peers/gpu_torch.py decode    a Llama of the 1B shape in bf16, batch 1, static cache

Needs an interpreter that has torch with CUDA and, to decode, transformers; run it
right before or after `ingot bench train` and `ingot bench -m` on the same device. Prints one JSON
line per figure; times are medians of wall times.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def say(**row):
    print(json.dumps(row), flush=True)


def seconds_of(function, runs, times):
    """Median seconds per call over `runs` runs, each of `times` calls without synchronization."""
    out = []
    for _ in range(runs):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            function()
        torch.cuda.synchronize()
        out.append((time.perf_counter() - began) / times)
    return statistics.median(out)


# ---- training ----


class CharMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(27, 16)
        self.fc1 = nn.Linear(8 * 16, 64)
        self.fc2 = nn.Linear(64, 27)

    def forward(self, ids):
        return self.fc2(torch.tanh(self.fc1(self.embed(ids).flatten(1))))


def train(batch=32):
    model = CharMlp().cuda()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.01, weight_decay=0.01, capturable=True
    )
    text = torch.randint(0, 27, (4096,)).pin_memory()
    ids, targets = torch.zeros(batch, 8, dtype=torch.long).cuda(), torch.zeros(batch).long().cuda()

    def assemble():
        starts = torch.randint(0, 4096 - 9, (batch,))
        windows = text.unfold(0, 9, 1)[starts]
        ids.copy_(windows[:, :-1], non_blocking=True)
        targets.copy_(windows[:, -1], non_blocking=True)

    def compute():
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(model(ids), targets).backward()
        optimizer.step()

    def eager():
        assemble()
        compute()

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(10):
            compute()
    torch.cuda.synchronize()
    say(bench="char-mlp", how="eager", us_per_step=seconds_of(eager, 5, 200) * 1e6)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compute()

    def replay():
        assemble()
        graph.replay()

    seconds_of(replay, 1, 200)
    say(bench="char-mlp", how="graph", us_per_step=seconds_of(replay, 5, 1000) * 1e6)
    say(bench="char-mlp", how="graph alone", us_per_step=seconds_of(graph.replay, 5, 1000) * 1e6)


# ---- decoding ----


def decode(tokens=128):
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    )
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(0, 128256, (1, 8)).cuda()

    def generate(**options):
        model.generate(
            prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, **options
        )

    for how, options in (("dynamic cache", {}), ("static cache", {"cache_implementation": "static"})):
        with torch.no_grad():
            for _ in range(3):
                generate(**options)
            seconds = seconds_of(lambda: generate(**options), 5, 1)
        say(
            bench="decode",
            how=how,
            tokens_per_s=tokens / seconds,
            transformers=transformers.__version__,
        )


if __name__ == "__main__":
    what = {"train": train, "decode": decode}.get(sys.argv[1] if len(sys.argv) == 2 else "")
    if not what:
        sys.exit(__doc__)
    say(torch=torch.__version__, device=torch.cuda.get_device_name())
    what()
