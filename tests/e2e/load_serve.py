#!/usr/bin/env python3
"""`ingot serve` under load, for the long tier (tools/test --long): a million wrong requests, floods,
slow clients, 20,000 requests in a row, 10,000 idle connections, allocations that fail at random.

    python3 tests/e2e/load_serve.py PATH/ingot PATH/write_models [CASE]...

INGOT_LOAD=F in the environment does the fraction F of it.  Figures are printed; times are not
judged, but memory and replies are.  A case whose tool is not installed is skipped.
"""
import http.client
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serving import WAIT_S, Server

PROGRAM, WRITE_MODELS = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
LLAMA = os.path.join(FOLDER.name, "llama.q8_0.gguf")
LOAD = float(os.environ.get("INGOT_LOAD", "1"))
SEED = int(os.environ.get("INGOT_FUZZ_SEED", "1"))
IDLE_BYTES = 8192  # of a connection
EMPTY_BYTES = 20 << 20  # of a server without a model
# What may still grow in the second half of a long run, as the allocator's arenas do.
GROWTH_BYTES = 2 << 20


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(self.path)


class LoadedServer(Server):
    def keep(self, line):
        if not line.startswith("id="):  # a request: there are too many
            super().keep(line)


class UnixServer(LoadedServer):
    def connect(self):
        return UnixConnection(self.url.removeprefix("unix:"))


def serve(*options, kind=LoadedServer, program=PROGRAM, **more):
    return kind(program, "-t", "1", "--device", "cpu", "--drain-delay", "0", "--drain", "10",
                "-m", LLAMA, "-a", "tiny", "--max-connections-per-address", "0", *options, **more)


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed")


def times(n, least=1):
    return max(least, int(n * LOAD))


def rss(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) << 10


def greedy(prompt, count, **more):
    return {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, **more}


def say(words):
    print(words, flush=True)


class Pulse:
    """Asks for /health and the same completion all the time: the longest wait, and whether a reply
    ever differs."""

    def __init__(self, server):
        self.server = server
        self.expected = self.ask()
        self.worst_s = 0
        self.count = 0
        self.wrong = []
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def ask(self):
        status, _, text = self.server.ask("POST", "/v1/completions", greedy([5, 6, 7], 8))
        return status, json.loads(text).get("choices")

    def _run(self):
        while not self.ends.wait(0.05):
            began = time.monotonic()
            health = self.server.ask("GET", "/health")[0]
            self.worst_s = max(self.worst_s, time.monotonic() - began)
            self.count += 1
            if health != 200:
                self.wrong.append(health)
            got = self.ask()
            if got != self.expected and got[0] not in (429, 503):
                self.wrong.append(got)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ends.set()
        self.thread.join(WAIT_S)
        if kind is None:
            assert self.count > 0 and not self.wrong, self.wrong[:2]
        say(f"  /health: {self.count} times, the longest took {self.worst_s * 1e3:.0f} ms")


# ---- wrong requests ----

HELLO = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
BODIES = [
    ("/v1/completions", greedy([5, 6], 2)), ("/v1/completions", greedy("a b", 2, stream=True)),
    ("/v1/completions", {**greedy(["a", "b"], 1), "n": 2, "logprobs": 3, "echo": True}),
    ("/v1/completions", {**greedy("a", 2), "logit_bias": {"5": 3, "a": -1}, "stop": ["x"],
                         "stop_token_ids": [1], "seed": 3, "top_k": 4, "min_p": 0.1}),
    ("/v1/chat/completions", HELLO), ("/v1/chat/completions", {**HELLO, "stream": True}),
    ("/v1/chat/completions", {**HELLO, "tools": [{"type": "function", "function": {}}],
                              "chat_template_kwargs": {"a": 1}, "logprobs": True}),
    ("/v1/embeddings", {"input": ["a", "b"], "encoding_format": "base64", "dimensions": 4}),
    ("/tokenize", {"content": "a b", "with_pieces": True}), ("/detokenize", {"tokens": [5, 6]}),
    ("/apply-template", HELLO), ("/v1/completions/render", {"prompt": "a"}),
]
VALUES = [None, True, False, 0, -1, 1, 2 ** 31, -2 ** 63, 0.5, 1e300, "", "a", "\u00e9\ud83d", [], {},
          [1], ["a"], [[1]], [None], {"a": 1}, "x" * 300]


def change_json(rng, value):
    """The value with some part exchanged."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        copy = dict(value)
        if rng.random() < 0.1:
            copy[key + "x"] = copy.pop(key)
        elif key == "max_tokens":
            copy[key] = rng.choice([0, 1, 2, -2, "2", 1.5, None])
        else:
            copy[key] = change_json(rng, copy[key])
        copy.setdefault("max_tokens", 2)
        return copy
    if isinstance(value, list) and value and rng.random() < 0.7:
        i = rng.randrange(len(value))
        return value[:i] + [change_json(rng, value[i])] * rng.randrange(3) + value[i + 1:]
    return rng.choice(VALUES)


def change_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.choice([b"\r\n", b"\0", b"{", b"[", b"\"", b":", b"\xff", b"\n", b" "])
        elif kind == 2:
            del data[at:at + rng.randrange(1, 8)]
        else:
            data[at:at] = data[:rng.randrange(min(len(data), 64) + 1)]
    return bytes(data)


def request_bytes(rng, path, body):
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    if rng.random() < 0.2:
        half = len(body) // 2
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:half], body[half:]) if p)
        return lines.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    return (lines + f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def fuzz(path, seed, count, codes):
    """Sends wrong requests to a Unix socket; codes[status] counts the replies."""
    rng = random.Random(seed)
    connection = None
    counts = {}
    for _ in range(count):
        route, body = rng.choice(BODIES)
        body = json.dumps(change_json(rng, body)).encode()
        if rng.random() < 0.3:
            body = change_bytes(rng, body)
        data = request_bytes(rng, route, body)
        is_raw = rng.random() < 0.15
        if is_raw:
            data = change_bytes(rng, data)
        if connection is None:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(WAIT_S)
            connection.connect(path)
        try:
            connection.sendall(data)
            if is_raw:  # whatever it is, it ends
                connection.shutdown(socket.SHUT_WR)
                status = read_to_end(connection)
            elif rng.random() < 0.02:
                status = -1  # it leaves
            else:
                reply = http.client.HTTPResponse(connection)
                reply.begin()
                reply.read()
                status = reply.status
                if not reply.will_close:
                    counts[status] = counts.get(status, 0) + 1
                    continue
        except (ConnectionError, http.client.HTTPException):
            status = 0
        except TimeoutError:
            status = "stalled"
            say(f"  no reply within {WAIT_S} s: {data!r}")
        counts[status] = counts.get(status, 0) + 1
        connection.close()
        connection = None
    codes.put(counts)


def read_to_end(connection):
    data = b""
    while True:
        more = connection.recv(65536)
        if not more:
            break
        data += more
    match = re.match(rb"HTTP/1\.1 (\d+)", data)
    return int(match.group(1)) if match else 0


class Load(unittest.TestCase):
    def end(self, server):
        """The server still serves, has nothing left, and ends well."""
        self.assertEqual(server.get("/health"), (200, {"status": "ok"}))
        server.until(lambda: 'ingot_requests_running{model="tiny"} 0' in
                     server.ask("GET", "/metrics")[2])
        self.assertEqual(server.stop(signal.SIGTERM), 0, server.log()[-2000:])

    def test_wrong_requests(self):
        parts, processes = 10, 2
        count = times(1000000, 1000) // parts // processes
        path = os.path.join(FOLDER.name, "fuzz.sock")
        began, codes, sizes, total = time.monotonic(), multiprocessing.Queue(), [], {}
        with serve("--host", path, port=None, kind=UnixServer).ready() as server:
            with Pulse(server):
                for part in range(parts):
                    workers = [multiprocessing.Process(target=fuzz, args=(
                        path, SEED * 1000 + part * processes + i, count, codes))
                        for i in range(processes)]
                    for worker in workers:
                        worker.start()
                    for _ in workers:
                        for code, n in codes.get().items():
                            total[code] = total.get(code, 0) + n
                    for worker in workers:
                        worker.join()
                    self.assertIsNone(server.process.poll(), server.log()[-2000:])
                    sizes.append(rss(server))
            say(f"  {sum(total.values())} requests in {time.monotonic() - began:.0f} s: replies "
                f"{dict(sorted(total.items(), key=str))}, RSS {[size >> 10 for size in sizes]} KiB")
            self.assertEqual((total.get(500, 0), total.get("stalled", 0)), (0, 0))
            self.assertGreater(total[200], 0)
            self.assertGreater(total[400], 0)
            self.assertLess(sizes[-1] - sizes[len(sizes) // 2], GROWTH_BYTES)
            self.end(server)

    @needs("wrk")
    def test_wrk(self):
        script = os.path.join(FOLDER.name, "post.lua")
        with open(script, "w") as file:
            file.write('wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
                       f"wrk.body = [[{json.dumps(greedy([5, 6, 7], 8))}]]\n")
        seconds = times(20)
        with serve("--queue", "1024").ready() as server:
            with Pulse(server):
                self.run_wrk(server, script, seconds)
            self.end(server)

    def run_wrk(self, server, script, seconds):
        for path, options, clients in (("/health", [], 256),
                                       ("/v1/completions", ["-s", script], 128)):
            text = subprocess.run(
                ["wrk", "-t2", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s", "--latency",
                 *options, server.url + path], check=True, capture_output=True, text=True).stdout
            figures = re.findall(r"(?:Requests/sec|50%|99%):?\s+\S+", text)
            say(f"  {path}, {clients} clients: {', '.join(' '.join(f.split()) for f in figures)}")
            self.assertNotIn("Non-2xx", text)
            self.assertNotIn("Socket errors", text)

    @needs("slowhttptest")
    def test_slowhttptest(self):
        seconds = str(times(30, 5))
        limits = ("--header-timeout", "5", "--body-timeout", "5", "--write-timeout", "5",
                  "--idle-timeout", "5")
        with serve(*limits).ready() as server:
            with Pulse(server):
                for name, options in (("headers", ["-H"]), ("body", ["-B", "-s", "8192"]),
                                      ("range", ["-R"]),
                                      ("read", ["-X", "-w", "1", "-y", "8", "-z", "1"])):
                    path = "/v1/completions" if name == "body" else "/metrics"
                    text = subprocess.run(
                        ["slowhttptest", *options, "-c", "500", "-r", "100", "-i", "1", "-x", "24",
                         "-l", seconds, "-p", "5", "-u", server.url + path, "-t",
                         "POST" if name == "body" else "GET"], check=True, capture_output=True,
                        text=True).stdout
                    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
                    ended = re.findall(r"(?:Exit status|closed|connected|error):\s+.*", text)[-4:]
                    say(f"  {name}: {', '.join(' '.join(words.split()) for words in ended)}")
            server.until(lambda: server.ask("GET", "/metrics")[2].count(
                'ingot_connections{state="reading"} 0'))
            self.end(server)

    def test_memory_is_flat_over_many_requests(self):
        total, parts, sizes = times(20000, 400), 20, []
        requests = [greedy([5 + i % 90], 4 + i % 5, stream=i % 2 == 0, n=1 + i % 2)
                    for i in range(20)]
        with serve().ready() as server:
            connection = server.connect()
            for _ in range(parts):
                for i in range(total // parts):
                    connection.request("POST", "/v1/completions",
                                       json.dumps(requests[i % len(requests)]),
                                       {"Content-Type": "application/json"})
                    reply = connection.getresponse()
                    reply.read()
                    self.assertEqual(reply.status, 200)
                sizes.append(rss(server))
            connection.close()
            say(f"  {total} requests: RSS {[size >> 10 for size in sizes]} KiB")
            self.assertLess(sizes[-1] - sizes[parts // 4], 1 << 20)
            self.end(server)

    def test_idle_connections(self):
        count = times(10000, 100)
        need, hard = count + 2200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < need:
            self.skipTest(f"ulimit -n is {hard}, but {need} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
        clients = []
        with serve("--max-connections", str(count + 64), "--idle-timeout", "600").ready() as server:
            before = rss(server)
            try:
                for i in range(count):
                    clients.append(socket.create_connection(("127.0.0.1", server.port()), WAIT_S))
                    clients[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertTrue(clients[-1].recv(4096).startswith(b"HTTP/1.1 200"))
                    if i % 1000 == 999:  # a connection that was just used costs more for a second
                        time.sleep(1)
                time.sleep(4)
                each = (rss(server) - before) / count
                say(f"  {count} connections: {each:.0f} bytes each")
                self.assertLess(each, IDLE_BYTES)
                self.assertEqual(server.get("/health")[0], 200)
                self.assertIn(f'ingot_connections{{state="idle"}} {count}',
                              server.ask("GET", "/metrics")[2])
            finally:
                for client in clients:
                    client.close()
            self.end(server)

    def test_a_server_without_a_model_is_small(self):
        with tempfile.TemporaryDirectory() as empty:
            with Server(PROGRAM, "--models-dir", empty, "--drain-delay", "0").ready() as server:
                for path in "/health", "/metrics", "/v1/models", "/props", "/version":
                    server.ask("GET", path)
                say(f"  RSS {rss(server) >> 10} KiB")
                self.assertLess(rss(server), EMPTY_BYTES)
                self.assertEqual(server.stop(signal.SIGTERM), 0)

    @needs("fiu-run")
    def test_allocations_that_fail_at_random(self):
        """Also those of jansson and libmicrohttpd."""
        control, counts = os.path.join(FOLDER.name, "fiu"), {}
        wrapper = os.path.join(FOLDER.name, "fiu.sh")
        with open(wrapper, "w") as file:
            file.write(f'#!/bin/sh\nexec fiu-run -x -f {control} "{PROGRAM}" "$@"\n')
        os.chmod(wrapper, 0o755)
        # A connection for which libmicrohttpd has no memory ends with that time, or the next one.
        with serve("--header-timeout", "1", program=wrapper).ready() as server:
            for probability in 0.0005, 0.005, 0.05:
                self.fail_malloc(server, control, f"enable_random name=libc/mm/malloc,"
                                                  f"probability={probability}")
                for i in range(times(2000, 100)):
                    path, body = BODIES[i % len(BODIES)]
                    try:
                        status = server.ask("POST", path, body)[0]
                    except (OSError, http.client.HTTPException):
                        status = 0
                    counts[status] = counts.get(status, 0) + 1
                    self.assertIsNone(server.process.poll(), server.log()[-2000:])
                self.fail_malloc(server, control, "disable name=libc/mm/malloc")
                self.assertEqual(server.post("/v1/completions", greedy([5], 2))[0], 200)
            say(f"  replies {dict(sorted(counts.items()))}")
            self.assertGreater(counts[200], 0)
            self.assertGreater(len(counts), 1)
            self.end(server)

    def fail_malloc(self, server, control, command):
        subprocess.run(["fiu-ctrl", "-f", control, "-c", command, str(server.process.pid)],
                       check=True, timeout=WAIT_S)


if __name__ == "__main__":
    subprocess.run([WRITE_MODELS, FOLDER.name, "q8_0", "llama"], check=True, timeout=WAIT_S)
    names = [f"Load.test_{name}" for name in sys.argv[3:]]
    result = unittest.main(argv=sys.argv[:1] + names, exit=False, verbosity=2).result
    FOLDER.cleanup()
    is_skipped = len(result.skipped) == result.testsRun
    sys.exit(77 if is_skipped else not result.wasSuccessful())
