#!/usr/bin/env python3
"""The same GGUF files in Ingot and in llama.cpp on the CPU, run alternately.

    bench/peers/gguf_llamacpp.py                     all types: about twenty minutes on two cores
    bench/peers/gguf_llamacpp.py Q4_0 Q8_0           only these
    bench/peers/gguf_llamacpp.py Q4_0 --quick        one short round, as a test
    bench/peers/gguf_llamacpp.py --isa avx512vnni    neither side uses tiles (AMX)

The files have the shape of Llama-3.2-1B and random weights, which do not affect speed. They are
created once, the F16 file by this script and the others from it by `ingot quantize`, and stored in
build/gguf-bench, together with llama-cpp-python from PyPI, compiled for this machine (--python
names another interpreter that has it).

All figures are end-to-end times, from token ids to logits in host memory, on both sides. Sampling
is excluded.

    decode      single tokens, from an empty context
    prefill     a prompt, with the logits of its last token
    8 at once   eight sequences decoded together; tokens of all of them
    start       from opening the file to the logits after a prompt of 8 tokens. The file is in the
                page cache, and as much memory was allocated and freed before: memory that a virtual
                machine returned takes its host a second or more to provide again. Python's start and
                imports are excluded
    resident    the process's memory (VmRSS) after decoding, and its peak

Each round runs each test once on either side, in a process of its own, and tests repeat inside it;
what is printed is the median over the rounds, and the ratio of the medians.
"""

import argparse
import ctypes
import datetime
import json
import mmap
import os
import random
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOME = os.path.join(ROOT, "build", "gguf-bench")

TYPES = {"Q4_0": "Q4_0", "Q4_K_M": "Q4_K_M", "Q8_0": "Q8_0", "Q6_K": "Q6_K", "Q5_K": "Q5_K_M", "F16": "F16"}
START_TOKENS = 8

# Builds only the library. gcc 12 does not know that LDTILECFG reads memory, and removes the stores of
# llama.cpp's AMX tile configuration: AMX would end in SIGILL.
CMAKE_ARGS = "-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'"

# Instruction sets for both sides, by the value of INGOT_ISA: everything, or everything but AMX.
ISAS = {
    "native": "-DGGML_NATIVE=ON",
    "avx512vnni": "-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_BMI2=ON",
}

# name, title, prompt tokens, generated tokens, sequences
TESTS = [
    ("tg", "decode", 0, 32, 1),
    ("pp128", "prefill 128", 128, 0, 1),
    ("pp512", "prefill 512", 512, 0, 1),
    ("rows8", "8 at once", 0, 16, 8),
]


# ---- the files ----


SHAPE = {"layers": 16, "width": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "context": 131072}


def tensors_of(vocabulary):
    """(name, shape with the innermost first), matrices and norms."""
    d, ff = SHAPE["width"], SHAPE["inner"]
    kv = d // SHAPE["heads"] * SHAPE["kv_heads"]
    yield "token_embd.weight", (d, vocabulary)
    for i in range(SHAPE["layers"]):
        for name, shape in (
            ("attn_norm", (d,)),
            ("attn_q", (d, d)),
            ("attn_k", (d, kv)),
            ("attn_v", (d, kv)),
            ("attn_output", (d, d)),
            ("ffn_norm", (d,)),
            ("ffn_gate", (d, ff)),
            ("ffn_up", (d, ff)),
            ("ffn_down", (ff, d)),
        ):
            yield f"blk.{i}.{name}.weight", shape
    yield "output_norm.weight", (d,)


def byte_tokens():
    """The GPT-2 characters of the 256 bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def keys_of(vocabulary):
    tokens = byte_tokens() + ["\u0120t"]
    tokens += [f"word{i}" for i in range(vocabulary - len(tokens))]
    return {
        "general.architecture": "llama",
        "general.name": "random weights",
        "llama.block_count": SHAPE["layers"],
        "llama.context_length": SHAPE["context"],
        "llama.embedding_length": SHAPE["width"],
        "llama.feed_forward_length": SHAPE["inner"],
        "llama.attention.head_count": SHAPE["heads"],
        "llama.attention.head_count_kv": SHAPE["kv_heads"],
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 500000.0,
        "llama.rope.dimension_count": SHAPE["width"] // SHAPE["heads"],
        "llama.vocab_size": vocabulary,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * vocabulary,
        "tokenizer.ggml.merges": ["\u0120 t"],
        "tokenizer.ggml.bos_token_id": vocabulary - 2,
        "tokenizer.ggml.eos_token_id": vocabulary - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def pack_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(value):
    """Type id and bytes of a GGUF value."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + pack_text(value)
    if isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(pack_text, value))


ALIGNMENT = 32


def pack_head(keys, tensors):
    head = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))]
    head += [pack_text(key) + pack_value(value) for key, value in keys.items()]
    offset = 0
    for name, shape in tensors:
        matrix = len(shape) == 2
        head.append(pack_text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        head.append(struct.pack("<IQ", 1 if matrix else 0, offset))
        size = shape[0] * shape[1] * 2 if matrix else shape[0] * 4
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    data = b"".join(head)
    return data + bytes(-len(data) % ALIGNMENT)


def write_f16(path, vocabulary):
    """Matrices are slices of one pool of random numbers; norms are ones."""
    chance = random.Random(1)
    pool = struct.pack(f"<{1 << 20}e", *(chance.gauss(0, 0.02) for _ in range(1 << 20)))
    tensors = list(tensors_of(vocabulary))
    with open(path + ".part", "wb") as file:
        file.write(pack_head(keys_of(vocabulary), tensors))
        for _, shape in tensors:
            if len(shape) == 1:
                file.write(struct.pack(f"<{shape[0]}f", *([1.0] * shape[0])))
                continue
            left = shape[0] * shape[1] * 2
            while left > 0:
                begin = 2 * chance.randrange(len(pool) // 4)
                piece = pool[begin : begin + min(left, len(pool) // 2)]
                file.write(piece)
                left -= len(piece)
    os.replace(path + ".part", path)


def make_model(args, kind):
    folder = os.path.join(args.cache, "models")
    os.makedirs(folder, exist_ok=True)
    source, path = (os.path.join(folder, f"{k}-{args.vocabulary}-{args.layers}.gguf") for k in ("F16", kind))
    if not os.path.exists(source):
        print(f"writing {source} ...", file=sys.stderr)
        write_f16(source, args.vocabulary)
    if not os.path.exists(path):
        print(f"quantizing to {path} ...", file=sys.stderr)
        subprocess.run([args.ingot, "quantize", source, path, TYPES[kind], "-q"], check=True, stdout=subprocess.DEVNULL)
    return path


# ---- llama.cpp, in a process of its own ----


def resident():
    """VmRSS and VmHWM of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return [int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM")]


class Llama:
    def __init__(self, path, threads, n_ctx, sequences):
        import llama_cpp

        self.api = api = llama_cpp
        self.callback = api.llama_log_callback(lambda level, text, data: None)
        api.llama_log_set(self.callback, None)
        self.began = time.perf_counter()
        api.llama_backend_init()
        options = api.llama_model_default_params()
        options.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(path.encode(), options)
        settings = api.llama_context_default_params()
        settings.n_ctx = n_ctx * sequences
        settings.n_batch = settings.n_ubatch = 512
        settings.n_seq_max = sequences
        settings.n_threads = settings.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, settings)
        if not self.model or not self.context:
            raise RuntimeError(f"llama.cpp does not take {path}")
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch = api.llama_batch_init(512, 0, 1)

    def forget(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def run(self, rows):
        """Rows of (token, position, sequence, needs logits); copies the requested logits."""
        api, batch = self.api, self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i] = token, position
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
            batch.logits[i] = wanted
        if api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        for i, row in enumerate(rows):
            if row[3]:
                ctypes.string_at(api.llama_get_logits_ith(self.context, i), 4 * self.vocabulary)

    def prompt(self, tokens):
        self.run([(token, i, 0, i == len(tokens) - 1) for i, token in enumerate(tokens)])

    def make(self, tokens, sequences):
        for i, token in enumerate(tokens):
            self.run([(token, i, s, True) for s in range(sequences)])


def peer_run(job):
    """Runs one test of llama.cpp and prints a JSON object."""
    n_prompt, n_made, rows, runs = (job[k] for k in ("prompt", "made", "rows", "runs"))
    llama = Llama(job["model"], job["threads"], max(n_prompt, n_made, START_TOKENS), rows)
    chance = random.Random(1)
    tokens = [chance.randrange(llama.vocabulary) for _ in range(max(n_prompt, n_made, START_TOKENS))]
    llama.prompt(tokens[:START_TOKENS])
    started = time.perf_counter() - llama.began
    rates = []
    for run in range(-1, runs):  # the first before the clock
        llama.forget()
        began = time.perf_counter()
        if n_prompt:
            llama.prompt(tokens[:n_prompt])
        else:
            llama.make(tokens[:n_made], rows)
        if run >= 0:
            rates.append((n_prompt or n_made * rows) / (time.perf_counter() - began))
    now, most = resident()
    print(json.dumps({"rate": statistics.mean(rates), "start_s": started, "rss": now, "peak": most}))


# ---- alternate runs ----


def leave_memory(size):
    """Allocates and frees memory, so that the host has backed it before the next program starts."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


def ask_json(command, **more):
    """`more`: additional environment variables."""
    surroundings = {**os.environ, **more}
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=surroundings).stdout)


def run_llama(args, path, test, runs):
    _, _, n_prompt, n_made, rows = test
    job = {"model": path, "threads": args.threads, "prompt": n_prompt, "made": n_made, "rows": rows, "runs": runs}
    return ask_json([args.python, os.path.abspath(__file__), "--peer-run", json.dumps(job)])


def run_ingot(args, path, test, runs):
    _, _, n_prompt, n_made, rows = test
    command = [args.ingot, "bench", "-m", path, "-p", str(n_prompt), "-n", str(n_made), "-r", str(runs)]
    command += ["-t", str(args.threads), "--parallel", str(rows), "--quiet", "--json"]
    row = ask_json(command, **({} if args.isa == "native" else {"INGOT_ISA": args.isa}))
    series = row["pp"] if n_prompt else row["tg"]
    return {
        "rate": series["tokens_per_s"],
        "start_s": row["start_ms"] / 1e3,
        "rss": row["rss_bytes"],
        "peak": row["peak_rss_bytes"],
        "share": series["ops" if n_prompt else "read_bytes"]["roof_share"],
        "isa": row["instruction_set"],
    }


def measure(args, kind):
    """Medians of one type: {"file_bytes", tests by name: {"ingot", "llama.cpp", "ratio"}, ...}."""
    path = make_model(args, kind)
    kept = {name: {"ingot": [], "llama.cpp": []} for name, *_ in TESTS}
    for number in range(args.rounds):
        for test in TESTS:
            runs = 1 if args.quick else 2 if test[0] == "pp512" else 3
            sides = [("ingot", run_ingot), ("llama.cpp", run_llama)]
            for side, run in sides if number % 2 == 0 else sides[::-1]:
                leave_memory(2 * os.path.getsize(path))
                kept[test[0]][side].append(run(args, path, test, runs))
            rates = "  ".join(f"{side} {rows[-1]['rate']:.1f}" for side, rows in kept[test[0]].items())
            print(f"  {kind} round {number + 1} {test[0]:6} {rates}", file=sys.stderr)
    return summary(path, kept)


def summary(path, kept):
    def median(test, side, key):
        return statistics.median(row[key] for row in kept[test][side])

    def both(test, key, turned=False):
        ours, theirs = median(test, "ingot", key), median(test, "llama.cpp", key)
        return {"ingot": ours, "llama.cpp": theirs, "ratio": theirs / ours if turned else ours / theirs}

    result = {"file_bytes": os.path.getsize(path), "isa": kept["tg"]["ingot"][0]["isa"]}
    result.update({name: both(name, "rate") for name, *_ in TESTS})
    result["share"] = {name: median(name, "ingot", "share") for name, *_ in TESTS}
    result["start_s"] = both("tg", "start_s", turned=True)
    result["rss"], result["peak"] = both("tg", "rss"), both("tg", "peak")
    return result


# ---- results ----


def table(results):
    """Rows of Markdown: tests by types, "ingot / llama.cpp (ratio)"."""
    kinds = list(results)
    rows = [["", *kinds], ["---", *["---:"] * len(kinds)]]

    def add(title, key, scale, form, ratio=True):
        cells = []
        for kind in kinds:
            row = results[kind][key]
            text = f"{row['ingot'] / scale:{form}} / {row['llama.cpp'] / scale:{form}}"
            cells.append(text + (f" (**{row['ratio']:.2f}x**)" if ratio else ""))
        rows.append([title, *cells])

    for name, title, *_ in TESTS:
        add(f"{title}, tokens/s", name, 1, ".1f")
    add("start, s", "start_s", 1, ".2f", ratio=False)
    add("resident, MB", "rss", 1e6, ".0f", ratio=False)
    add("at most, MB", "peak", 1e6, ".0f", ratio=False)
    rows.append(["the file, MB", *(f"{results[kind]['file_bytes'] / 1e6:.0f}" for kind in kinds)])
    for name, title, *_ in TESTS[:3]:
        roof = "bandwidth" if name == "tg" else "matmul roof"
        rows.append([f"{title}, of the {roof}", *(f"{results[kind]['share'][name]:.0%}" for kind in kinds)])
    return ["| " + " | ".join(row) + " |" for row in rows]


def versions(args):
    code = "import llama_cpp; print(llama_cpp.__version__)"
    theirs = subprocess.run([args.python, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    ours = subprocess.run([args.ingot, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[0]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "processor": names[0] if names else "unknown",
        "threads": args.threads,
        "ingot": ours,
        "llama-cpp-python": theirs,
        "vocabulary": args.vocabulary,
        "rounds": args.rounds,
        "date": datetime.date.today().isoformat(),
    }


def find_python(args):
    """An interpreter that has llama_cpp; makes a virtual environment if none is named."""
    if args.python:
        return args.python
    venv = os.path.join(args.cache, "venv" if args.isa == "native" else f"venv-{args.isa}")
    python = os.path.join(venv, "bin", "python")
    has = os.path.exists(python) and subprocess.run([python, "-c", "import llama_cpp"], stderr=subprocess.DEVNULL).returncode == 0
    if not has:
        print(f"compiling llama-cpp-python from PyPI for {venv}: some minutes ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        wanted = f"{CMAKE_ARGS} {ISAS[args.isa]}"
        surroundings = {**os.environ, "CMAKE_ARGS": wanted, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}
        command = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]  # a kept wheel may be for another machine
        command += ["--no-binary", "llama-cpp-python", "llama-cpp-python"]
        subprocess.run(command, check=True, env=surroundings)
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", metavar="TYPE", help=f"of {', '.join(TYPES)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--isa", choices=ISAS, default="native", help="what either side may use")
    parser.add_argument("--vocabulary", type=int, default=128256, help="tokens the files know; fewer make them smaller")
    parser.add_argument("--layers", type=int, default=SHAPE["layers"], help="of the model; fewer make the files smaller")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--ingot", default=os.path.join(ROOT, "build", "release", "bin", "ingot"))
    parser.add_argument("--python", help="an interpreter that has llama_cpp")
    parser.add_argument("--cache", default=HOME, help="where files and environment are kept")
    parser.add_argument("--peer-run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer_run:
        peer_run(json.loads(args.peer_run))
        return
    unknown = [kind for kind in args.types if kind not in TYPES]
    if unknown:
        parser.error(f"{unknown[0]}: must be one of {', '.join(TYPES)}")
    SHAPE["layers"] = args.layers
    args.rounds = 1 if args.quick else args.rounds
    args.python = find_python(args)
    results = {kind: measure(args, kind) for kind in args.types or TYPES}
    about = versions(args)
    if args.json:
        print(json.dumps({"schema": "ingot.bench.gguf.v1", **about, "types": results}))
        return
    print("\n".join(table(results)) + "\n")
    print(", ".join(f"{key} {value}" for key, value in about.items()) + ".")


if __name__ == "__main__":
    main()
