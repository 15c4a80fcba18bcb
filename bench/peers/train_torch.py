#!/usr/bin/env python3
"""The same training in Ingot and in PyTorch eager on the CPU, run alternately.

    bench/peers/train_torch.py --workload char-mlp --batch 32 --steps 3000

Both start from the same weights and see the same batches: `ingot bench train --dump` writes them
to a file that PyTorch reads. Both include batch assembly in the time and read the loss only in the
last steps; the final loss is their mean. Each round runs Ingot once in each mode and PyTorch once,
each in a new process; prints medians over the rounds and the ratio of the medians. PyTorch runs
with one thread and with all, and the faster run counts: small steps do not benefit from its
threads.

PyTorch comes from PyPI into bench/.venv the first time (--python names another interpreter that
has it).  It is used as in its documentation: modules, F.scaled_dot_product_attention,
optim.AdamW.  --adamw fused or foreach selects another implementation.

Training is chaotic: a difference in the last bit makes any two programs diverge after a while, also
two of PyTorch's own optimizers. Therefore a short run comes first, in which the losses must agree
closely: the early loss.

Prints a table, then one JSON line for each of Ingot's modes.
"""

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VENV = os.path.join(ROOT, "bench", ".venv")
EARLY_STEPS = 300


# ---- the file that `ingot bench train --dump` writes ----


def read_dump(path):
    """The metadata, and the tensors by name (safetensors: length, JSON header, bytes)."""
    import torch

    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    kinds = {"F32": torch.float32, "I32": torch.int32}
    meta = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=kinds[entry["dtype"]], offset=begin, count=(end - begin) // 4)
        tensors[name] = flat.reshape(entry["shape"]).clone()
    return meta, tensors


# ---- the models, in the style of PyTorch's documentation ----


def make_models():
    import torch
    import torch.nn.functional as F
    from torch import nn

    class CharMlp(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.embed = nn.Embedding(27, config["width"])
            self.fc1 = nn.Linear(config["window"] * config["width"], config["hidden"])
            self.fc2 = nn.Linear(config["hidden"], 27)

        def forward(self, ids):
            return self.fc2(torch.tanh(self.fc1(self.embed(ids).flatten(1))))

        def start(self, init):
            self.load_state_dict(init)

    class TinyBlock(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.norm = nn.RMSNorm(width, eps=1e-5)
            self.up = nn.Linear(width, inner)
            self.down = nn.Linear(inner, width)

        def forward(self, h):
            return h + self.down(F.silu(self.up(self.norm(h))))

    class TinyLlm(nn.Module):
        def __init__(self, config):
            super().__init__()
            width = config["d_model"]
            self.embed = nn.Embedding(config["vocabulary"], width)
            self.blocks = nn.Sequential(
                *(TinyBlock(width, config["d_ff"]) for _ in range(config["layers"]))
            )
            self.head = nn.Linear(width, config["vocabulary"])

        def forward(self, ids):
            return self.head(self.blocks(self.embed(ids)))

        def start(self, init):
            self.load_state_dict(
                {("blocks." + k if k[0].isdigit() else k): v for k, v in init.items()}
            )

    class GptBlock(nn.Module):
        def __init__(self, config):
            super().__init__()
            d = config["d_model"]
            self.heads = config["heads"]
            self.ln1 = nn.LayerNorm(d, eps=1e-5)
            self.qkv = nn.Linear(d, 3 * d)  # one matmul for all three, as most write it
            self.proj = nn.Linear(d, d)
            self.ln2 = nn.LayerNorm(d, eps=1e-5)
            self.up = nn.Linear(d, config["d_ff"])
            self.down = nn.Linear(config["d_ff"], d)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = self.qkv(self.ln1(x)).split(d, dim=2)
            q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
            return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.tokens = nn.Embedding(config["vocabulary"], config["d_model"])
            self.positions = nn.Parameter(torch.empty(config["ctx"], config["d_model"]))
            self.blocks = nn.Sequential(*(GptBlock(config) for _ in range(config["layers"])))
            self.ln = nn.LayerNorm(config["d_model"], eps=1e-5)

        def forward(self, ids):
            x = self.ln(self.blocks(self.tokens(ids) + self.positions))
            return F.linear(x, self.tokens.weight)

        def start(self, init):
            state = {"tokens.weight": init["tokens"], "positions": init["positions"]}
            for key in ("ln.weight", "ln.bias"):
                state[key] = init[key]
            for i in range(len(self.blocks)):
                for kind in ("weight", "bias"):
                    parts = [init[f"{i}.{name}.{kind}"] for name in ("q", "k", "v")]
                    state[f"blocks.{i}.qkv.{kind}"] = torch.cat(parts)
                    for name in ("ln1", "proj", "ln2", "up", "down"):
                        state[f"blocks.{i}.{name}.{kind}"] = init[f"{i}.{name}.{kind}"]
            self.load_state_dict(state)

    return {"char-mlp": CharMlp, "tinyllm": TinyLlm, "gpt": Gpt}


# ---- one run of PyTorch, in a process of its own ----


def peak_rss():
    """Peak bytes of this program; getrusage() would include what ran before exec."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def final_steps(steps):
    """Number of losses that `ingot bench train` averages."""
    return max(1, min(steps // 10, 100))


def work(args):
    import time

    import torch
    import torch.nn.functional as F

    rss_import = peak_rss()
    torch.set_num_threads(args.threads)
    meta, tensors = read_dump(args.dump)
    config = json.loads(meta["config"])
    numbers = json.loads(meta["optimizer"])
    init = {k[len("init.") :]: v for k, v in tensors.items() if k.startswith("init.")}
    model = make_models()[meta["workload"]](config)
    model.start(init)
    del init
    how = {"default": {}, "fused": {"fused": True}, "foreach": {"foreach": True}}[args.adamw]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=numbers["rate"], weight_decay=numbers["decay"], **how
    )

    length = config.get("window") or config["ctx"]
    last = meta["workload"] == "char-mlp"  # predicts the symbol after the window alone
    starts = tensors["starts"].long()
    windows = tensors["text"].long().unfold(0, length + 1, 1)  # [places, length + 1], a view
    del tensors

    losses = []
    for step in range(args.steps):
        if step == args.warmup:
            began = time.perf_counter()
        sample = windows[starts[step]]
        ids, targets = sample[:, :-1], sample[:, -1] if last else sample[:, 1:]
        optimizer.zero_grad()
        logits = model(ids)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        optimizer.step()
        if step >= args.steps - final_steps(args.steps):
            losses.append(loss.item())
    seconds = time.perf_counter() - began
    batch = starts.shape[1]
    result = {
        "samples_per_s": batch * (args.steps - args.warmup) / seconds,
        "us_per_step": seconds * 1e6 / (args.steps - args.warmup),
        "final_loss": statistics.mean(losses),
        "batch": batch,
        "threads": args.threads,
        "length": length,
        "peak_rss_bytes": peak_rss(),
        "import_rss_bytes": rss_import,
        "version": torch.__version__,
    }
    print(json.dumps(result))


# ---- the rounds ----


def find_python(args):
    """An interpreter that has torch; makes bench/.venv if none is named."""
    if args.python:
        return args.python
    python = os.path.join(VENV, "bin", "python")
    if not os.path.exists(python):
        print(f"making {VENV} with torch from PyPI ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    return python


def sizes_of(args):
    out = []
    for name in ("batch", "d_model", "layers", "ctx"):
        value = getattr(args, name)
        if value is not None:
            out += ["--" + name.replace("_", "-"), str(value)]
    return out


def run_ingot(args, mode, extra=()):
    command = [args.ingot, "bench", "train", "--workload", args.workload, "--mode", mode]
    command += ["--steps", str(args.steps), "--warmup", str(args.warmup)]
    command += ["--threads", str(args.threads), "-q", "--json"] + sizes_of(args) + list(extra)
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run_torch(args, python, dump, threads):
    command = [python, os.path.abspath(__file__), "--worker", "--dump", dump]
    for name in ("steps", "warmup", "adamw"):
        command += ["--" + name, str(getattr(args, name))]
    command += ["--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def early_losses(args, python, mode, dump):
    """Final losses of a short run of each."""
    short = argparse.Namespace(**{**vars(args), "steps": min(args.steps, EARLY_STEPS)})
    short.warmup = min(args.warmup, short.steps // 2)
    return run_ingot(short, mode)["final_loss"], run_torch(short, python, dump, 1)["final_loss"]


def compare(args, mode, ours, theirs, early):
    tokens = theirs[0]["length"] if args.workload != "char-mlp" else None
    row = {
        "bench": "train_torch",
        "workload": args.workload,
        "mode": mode,
        "batch": theirs[0]["batch"],
        "threads": args.threads,
        "steps": args.steps,
        "rounds": args.rounds,
        "ingot_samples_per_s": median(ours, "samples_per_s"),
        "torch_samples_per_s": median(theirs, "samples_per_s"),
        "ingot_us_per_step": median(ours, "us_per_step"),
        "torch_us_per_step": median(theirs, "us_per_step"),
        "ingot_us_all": sorted(run["us_per_step"] for run in ours),
        "torch_us_all": sorted(run["us_per_step"] for run in theirs),
        "ingot_loss": ours[0]["final_loss"],
        "torch_loss": median(theirs, "final_loss"),
        "ingot_early_loss": early[0],
        "torch_early_loss": early[1],
        "ingot_peak_rss_bytes": max(run["peak_rss_bytes"] for run in ours),
        "torch_peak_rss_bytes": max(run["peak_rss_bytes"] for run in theirs),
        "torch_import_rss_bytes": max(run["import_rss_bytes"] for run in theirs),
        "torch_version": theirs[0]["version"],
        "torch_threads": theirs[0]["threads"],
        "torch_adamw": args.adamw,
        "instruction_set": ours[0]["instruction_set"],
        "overhead_ns_per_op": median(ours, "overhead_ns_per_op"),
    }
    row["ratio"] = row["ingot_samples_per_s"] / row["torch_samples_per_s"]
    row["loss_difference"] = abs(row["ingot_loss"] - row["torch_loss"])
    row["early_loss_difference"] = abs(early[0] - early[1])
    if tokens:
        row["ingot_tokens_per_s"] = row["ingot_samples_per_s"] * tokens
        row["torch_tokens_per_s"] = row["torch_samples_per_s"] * tokens
    if len({run["final_loss"] for run in ours}) != 1:
        sys.exit(f"{args.workload}, {mode}: the final loss differs from run to run")
    return row


def print_table(rows):
    first = rows[0]
    mib = lambda n: f"{n / 2**20:,.0f} MiB"
    print(
        f"{first['workload']}, batch {first['batch']}, {first['threads']} threads, {first['steps']}"
        f" steps, medians of {first['rounds']} alternate rounds; PyTorch {first['torch_version']},"
        f" AdamW {first['torch_adamw']}, {first['torch_threads']} threads\n"
    )
    head = f"{'':<16}{'samples/s':>12}{'us per step':>12}{'ratio':>8}{'final loss':>13}"
    print(head + f"{'difference':>12}{'peak RSS':>12}")
    print(
        f"{'PyTorch eager':<16}{first['torch_samples_per_s']:>12,.0f}"
        f"{first['torch_us_per_step']:>12,.1f}{'1.00':>8}{first['torch_loss']:>13.6f}{'':>12}"
        f"{mib(first['torch_peak_rss_bytes']):>12}"
        f"  ({mib(first['torch_import_rss_bytes'])} of it the import)"
    )
    for row in rows:
        print(
            f"{'Ingot ' + row['mode']:<16}{row['ingot_samples_per_s']:>12,.0f}"
            f"{row['ingot_us_per_step']:>12,.1f}{row['ratio']:>8.2f}{row['ingot_loss']:>13.6f}"
            f"{row['loss_difference']:>12.2g}{mib(row['ingot_peak_rss_bytes']):>12}"
        )
    print(
        f"\nafter {min(first['steps'], EARLY_STEPS)} steps: loss {first['ingot_early_loss']:.6f}, PyTorch"
        f" {first['torch_early_loss']:.6f}, difference {first['early_loss_difference']:.2g}\n"
    )


def drive(args):
    python = find_python(args)
    modes = args.modes.split(",")
    torch_threads = sorted({1, args.threads}) if args.torch_threads is None else [args.torch_threads]
    ours, theirs = {mode: [] for mode in modes}, {threads: [] for threads in torch_threads}
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "job.safetensors")
        run_ingot(args, modes[0], ["--dump", dump])
        early = early_losses(args, python, modes[0], dump)
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            for mode in modes:
                ours[mode].append(run_ingot(args, mode))
            for threads in torch_threads:
                theirs[threads].append(run_torch(args, python, dump, threads))
    best = max(theirs.values(), key=lambda runs: median(runs, "samples_per_s"))
    rows = [compare(args, mode, ours[mode], best, early) for mode in modes]
    print_table(rows)
    for row in rows:
        print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", default="char-mlp", help="char-mlp, tinyllm or gpt")
    parser.add_argument("--modes", default="dynamic,compiled", help="of Ingot, with commas between")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--d-model", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--ctx", type=int)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--warmup", type=int, help="steps before the clock starts; default: a tenth")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--torch-threads", type=int, help="of PyTorch; default: both 1 and all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--adamw", default="default", choices=("default", "foreach", "fused"))
    parser.add_argument("--ingot", default=os.path.join(ROOT, "build", "release", "bin", "ingot"))
    parser.add_argument("--python", help="an interpreter that has torch")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dump", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.warmup is None:
        args.warmup = max(args.steps // 10, 4)
    if args.worker:
        work(args)
    else:
        drive(args)


if __name__ == "__main__":
    main()
