#!/usr/bin/env python3
"""`ingot serve` under attack: hostile requests, clients that vanish, floods, failing devices, memory
and disks.  Meanwhile another client's replies stay what they are on an idle server.

    python3 tests/e2e/test_serve_faults.py PATH/ingot PATH/write_models PLUGINS
"""
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import WAIT_S, Server

PROGRAM, WRITE_MODELS, PLUGINS = sys.argv[1:4]
FOLDER = tempfile.TemporaryDirectory()
LLAMA = os.path.join(FOLDER.name, "llama.q8_0.gguf")
FAR = os.path.join(PLUGINS, "far", "far.so")
PAUSE_S = 0.2  # between two rounds of the client that compares
ENDED = (OSError, http.client.HTTPException)  # a connection, before the end of a reply


def value(text, sample):
    """Of a line of /metrics; 0: there is none."""
    for line in text.splitlines():
        if line.rsplit(" ", 1)[0] == sample:
            return float(line.rsplit(" ", 1)[1])
    return 0


def metric(server, sample):
    return value(server.ask("GET", "/metrics")[2], sample)


def serve(*options, device="cpu", **more):
    return Server(PROGRAM, "-t", "1", "--device", device, "--drain-delay", "0", "--drain", "5",
                  "-m", LLAMA, "-a", "tiny", *options, **more)


def slow(microseconds, *options):
    """A server each of whose steps takes so long."""
    return serve("--no-cache", "--no-warmup", *options, device="far", env={
        "INGOT_PLUGIN_PATH": FAR, "FAR_DELAY_US": str(microseconds)})


def greedy(tokens, count, **more):
    return {"prompt": tokens, "max_tokens": count, "temperature": 0, "ignore_eos": True, **more}


def text_of(status, reply):
    """The texts of a reply, whole or streamed."""
    assert status == 200, (status, reply)
    if not reply.startswith("data: "):
        return [choice["text"] for choice in json.loads(reply)["choices"]]
    texts, events = {}, reply.strip().split("\n\n")
    assert events[-1] == "data: [DONE]", reply[-300:]
    for event in events[:-1]:
        if event.startswith(":"):
            continue
        for choice in json.loads(event[6:])["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return [texts[i] for i in sorted(texts)]


class Neighbor:
    """A client that asks the same things over and over, and compares the replies with those that it
    got at first, from an idle server."""

    def __init__(self, server):
        self.server = server
        self.requests = [greedy([5, 6, 7], 12), greedy([5, 6, 7], 12, stream=True),
                         greedy(list(range(5, 85)), 6), greedy([9], 8, n=2, stream=True)]
        self.expected = [self.ask(request) for request in self.requests]
        self.wrong = []
        self.count = 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def ask(self, request):
        status, _, reply = self.server.ask("POST", "/v1/completions", request)
        return text_of(status, reply)

    def _run(self):
        while not self.ends.is_set():
            for request, expected in zip(self.requests, self.expected):
                try:
                    got = self.ask(request)
                except (AssertionError, ValueError, *ENDED) as error:
                    got = repr(error)
                if got != expected:
                    self.wrong.append((request, expected, got))
                self.count += 1
            self.ends.wait(PAUSE_S)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.server.until(lambda: self.count > len(self.requests))
        self.ends.set()
        self.thread.join(WAIT_S)
        if kind is None:
            assert not self.wrong, self.wrong[0]


def raw(server, data, shut=False, timeout=WAIT_S, pause=None):
    """What a connection gets for these bytes until the server closes it."""
    with socket.create_connection(("127.0.0.1", server.port()), timeout) as client:
        client.settimeout(timeout)
        try:
            for piece in [data] if pause is None else pause(data):
                client.sendall(piece)
            if shut:
                client.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has replied before all was sent
        received = b""
        try:
            while True:
                more = client.recv(65536)
                if not more:
                    return received
                received += more
        except ConnectionResetError:
            return received


def status_of(reply):
    """Of the first line; 0: there is no reply."""
    match = re.match(rb"HTTP/1\.1 (\d+) ", reply)
    return int(match.group(1)) if match else 0


def head(*lines, method="POST", path="/v1/completions"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost",
                        "Content-Type: application/json", *lines, "", ""]).encode()


BODY = json.dumps(greedy([5], 2)).encode()
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)

# Each is refused, and its connection ends: (name, bytes, statuses; 0: no reply).
MALFORMED = [
    ("length and chunks", head("Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n" +
     HIDDEN, {400}),
    ("two lengths", head("Content-Length: 0", f"Content-Length: {len(HIDDEN)}") + HIDDEN, {400}),
    ("signed length", head("Content-Length: +5") + b"{\"a\":" + HIDDEN, {400}),
    ("negative length", head("Content-Length: -1") + HIDDEN, {400}),
    ("length in hex", head("Content-Length: 0x2") + b"{}" + HIDDEN, {400}),
    ("list of lengths", head("Content-Length: 2, 2") + b"{}" + HIDDEN, {400}),
    ("length above 64 bits", head("Content-Length: 18446744073709551618") + b"{}", {400, 413}),
    ("unknown encoding", head("Transfer-Encoding: gzip, chunked") + CHUNK + b"0\r\n\r\n", {400}),
    ("odd encoding", head("Transfer-Encoding: xchunked") + CHUNK + b"0\r\n\r\n", {400}),
    ("space before the colon", head("Content-Length : 2") + b"{}" + HIDDEN, {400}),
    ("folded header", head("X-A: b", " c: d", "Content-Length: 2") + b"{}", {400}),
    ("control character", head("X-A: b\x01c", "Content-Length: 2") + b"{}", {400}),
    ("NUL in a header", head("X-A: b\x00c", "Content-Length: 2") + b"{}", {400}),
    ("no host", b"GET /health HTTP/1.1\r\n\r\n", {400}),
    ("two hosts", head("Host: evil", method="GET", path="/health"), {400}),
    ("another host", b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
     {403}),
    ("no path", b"GET\r\n\r\n", {0, 400}),
    ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), {0, 400, 408}),
    ("another version", b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", {0, 400, 505}),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {0, 400, 505}),
    ("bad chunk size", head("Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n", {0, 400}),
    ("empty chunk size", head("Transfer-Encoding: chunked") + b"\r\n{}\r\n0\r\n\r\n", {0, 400}),
    ("signed chunk size", head("Transfer-Encoding: chunked") + b"-2\r\n{}\r\n0\r\n\r\n", {0, 400}),
    ("huge chunk size", head("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\n{}\r\n",
     {0, 400, 413}),
    ("chunk longer than its size", head("Transfer-Encoding: chunked") + b"1\r\n{}\r\n0\r\n\r\n" +
     HIDDEN, {0, 400}),
    ("huge header", head("X-A: " + "a" * 100000, "Content-Length: 2") + b"{}", {400, 431}),
    ("many headers", head(*(f"X-{i}: y" for i in range(20000)), "Content-Length: 2") + b"{}",
     {400, 431}),
    ("huge URL", b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 414}),
    ("long URL", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close"
     b"\r\n\r\n", {414}),
    ("huge body", head("Content-Length: 100000000") + b"{" * 1000, {413}),
    ("body above the limit in chunks", head("Transfer-Encoding: chunked") +
     b"10000\r\n" + b" " * 65536 + b"\r\n" + b"10000\r\n" + b" " * 65536 + b"\r\n", {413}),
    ("another type", head("Content-Length: 2").replace(b"application/json", b"text/plain") +
     b"{}", {415}),
]
MAX_BODY = 100000

NESTED = "[" * 64 + "]" * 64
BODIES = [  # (body, status)
    (b"", 400), (b"null", 400), (b"[]", 400), (b"1", 400), (b"\"prompt\"", 400), (b"{", 400),
    (b"{}", 400), (b"{\"prompt\":\"a\"} x", 400), (b"{\"prompt\":\"a\",}", 400),
    (b"\xef\xbb\xbf{\"prompt\":\"a\"}", 400), (b"{'prompt':'a'}", 400),
    (b"{\"prompt\":\"a\\ud800\"}", 400), (b"{\"prompt\":\"\xff\xfe\"}", 400),
    (b"{\"prompt\":\"\xc0\xaf\"}", 400), (b"{\"prompt\":\"\xed\xa0\x80\"}", 400),
    (b"{\"prompt\":\"a\x00b\"}", 400), (b"{\"prompt\":\"a\\u0000b\"}", 200),
    (b"{\"prompt\":\"a\",\"prompt\":\"b\"}", 400),
    (b"{\"prompt\":\"a\",\"x\":{\"y\":1,\"y\":2}}", 400),
    (b"{\"prompt\":\"a\",\"temperature\":NaN}", 400),
    (b"{\"prompt\":\"a\",\"temperature\":1e309}", 400),
    (b"{\"prompt\":\"a\",\"temperature\":-Infinity}", 400),
    (b"{\"prompt\":\"a\",\"seed\":99999999999999999999}", 400),
    (b"{\"prompt\":\"a\",\"max_tokens\":1.5}", 400), (b"{\"prompt\":\"a\",\"n\":129}", 400),
    (b"{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":128}", 400),
    (json.dumps({"prompt": ["a"] * 257}).encode(), 400), (b"{\"prompt\":[]}", 400),
    (b"{\"prompt\":[[]]}", 400), (b"{\"prompt\":\"a\",\"mirostat\":1}", 400), (b"{\"prompt\":[[5],[]],\"stream\":true}", 400), (b"{\"prompt\":[-1]}", 400), (b"{\"prompt\":[4294967301]}", 400),
    (b"{\"prompt\":[1.5]}", 400), (b"{\"prompt\":[1,[2]]}", 400), (b"{\"prompt\":{}}", 400),
    (f"{{\"prompt\":\"a\",\"x\":{NESTED}}}".encode(), 400), (b"[" * 50000, 400),
    (b"{\"a\":" * 9000, 400), (b"{\"prompt\":\"a\",\"best_of\":2}", 400),
    (json.dumps({"prompt": [5] * 128}).encode(), 400),  # the context
    (json.dumps({"prompt": [5] * 20000}).encode(), 400),
    (b"{\"prompt\":\"a\",\"logit_bias\":{\"5\":101}}", 400),
    (b"{\"prompt\":\"a\",\"logit_bias\":[[5]]}", 400),
    (b"{\"prompt\":\"a\",\"logit_bias\":{\"999999\":1}}", 400),
    (json.dumps({"prompt": "a", "logit_bias": {"a b " * 20000: 1}}).encode(), 400),
    (json.dumps({"prompt": "a", "stop": ["x"] * 17}).encode(), 400),
    (json.dumps({"prompt": "a", "stop": "x" * 257}).encode(), 400),
    (b"{\"prompt\":\"a\",\"grammar\":\"root ::= %llguidance\"}", 400),
    (json.dumps({"prompt": "a", "user": "\u00e9" * 15000, "max_tokens": 1}).encode(), 200),
    (json.dumps({"prompt": "a", "max_tokens": 1, **{f"x{i}": i for i in range(4000)}}).encode(),
     200),
]


class Hostile(unittest.TestCase):
    """Requests that are wrong in every way, beside a neighbor."""

    @classmethod
    def setUpClass(cls):
        cls.server = serve("--header-timeout", "1", "--body-timeout", "1", "--idle-timeout", "1",
                           "--write-timeout", "1", "--max-body", str(MAX_BODY)).ready()
        cls.neighbor = Neighbor(cls.server)
        cls.neighbor.__enter__()

    @classmethod
    def tearDownClass(cls):
        with cls.server as server:
            cls.neighbor.__exit__(None)
            server.until(lambda: metric(server, 'ingot_requests_running{model="tiny"}') == 0)
            assert server.get("/health") == (200, {"status": "ok"})
            assert server.stop(signal.SIGTERM) == 0, server.log()

    def test_malformed_requests_are_refused(self):
        for name, data, statuses in MALFORMED:
            with self.subTest(name):
                reply = raw(self.server, data)
                self.assertIn(status_of(reply), statuses, reply[:300])
                # Whatever is in it is no request of its own.  (libmicrohttpd 0.9.75 writes the
                # header of some of its errors twice.)
                self.assertLessEqual(len(set(re.findall(rb"HTTP/1\.1 (\d+)", reply))), 1, reply)
        self.assertNotIn("/hidden", self.server.log())

    def test_all_bytes_one_by_one(self):
        data = head(f"Content-Length: {len(BODY)}", "Connection: close") + BODY
        reply = raw(self.server, data, pause=lambda d: [d[i:i + 1] for i in range(len(d))])
        self.assertEqual(status_of(reply), 200, reply)

    def test_requests_cut_at_any_byte(self):
        data = head(f"Content-Length: {len(BODY)}") + BODY
        for cut in range(0, len(data), 7):
            reply = raw(self.server, data[:cut], shut=True)
            self.assertIn(status_of(reply), {0, 400}, reply)

    def test_pipelined_requests_are_answered_in_order(self):
        one = head(f"Content-Length: {len(BODY)}") + BODY
        last = head(f"Content-Length: {len(BODY)}", "Connection: close") + BODY
        reply = raw(self.server, one * 9 + last)
        self.assertEqual(reply.count(b"HTTP/1.1 200 "), 10, reply[:300])

    def test_bodies(self):
        for body, status in BODIES:
            with self.subTest(body[:60]):
                connection = self.server.connect()
                connection.request("POST", "/v1/completions", body,
                                   {"Content-Type": "application/json"})
                reply = connection.getresponse()
                text = json.loads(reply.read())
                connection.close()
                self.assertEqual(reply.status, status, text)
                if status != 200:
                    self.assertTrue(text["error"]["message"])
                    self.assertNotRegex(text["error"]["message"], r"\.c:\d+")

    def test_the_log_is_text(self):
        for path in b"/\xff\xe5\x80", b"/%ff%0a%00", b"/a\"b\\c":
            raw(self.server, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n"
                b"Connection: close\r\n\r\n")
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertTrue(self.server.reader.is_alive())  # it decodes UTF-8

    def test_routes_and_methods(self):
        for method, path, status in (
                ("GET", "/nothing", 404), ("POST", "/v1/nothing", 404), ("GET", "/", 501),
                ("GET", "/../../etc/passwd", 404), ("GET", "/v1/models/%00", 404),
                ("GET", "/%2e%2e/%2e%2e", 404), ("GET", "//health", 404),
                ("GET", "/v1/completions", 405), ("PUT", "/v1/completions", 405),
                ("DELETE", "/health", 405), ("POST", "/v1/models", 405),
                ("BREW", "/nothing", 404), ("POST", "/v1/responses", 501)):
            with self.subTest(f"{method} {path}"):
                got, headers, text = self.server.ask(method, path, {} if method != "GET" else None)
                self.assertEqual(got, status, text)
                self.assertEqual(json.loads(text)["error"]["code"], status)
                self.assertEqual("Allow" in headers, status == 405)

    def test_every_field_has_its_limits(self):
        text = subprocess.run([PROGRAM, "serve", "--openapi"], check=True, timeout=WAIT_S,
                              capture_output=True).stdout
        schemas = json.loads(text)["components"]["schemas"]
        hello = {"messages": [{"role": "user", "content": "a"}]}
        needed = {"ChatCompletionRequest": ("/v1/chat/completions", {**hello, "max_tokens": 1}),
                  "CompletionRequest": ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
                  "EmbeddingRequest": ("/v1/embeddings", {"input": "a"}),
                  "TokenizeRequest": ("/tokenize", {"content": "a"}),
                  "DetokenizeRequest": ("/detokenize", {"tokens": [5]}),
                  "ApplyTemplateRequest": ("/apply-template", hello)}
        count = 0
        for name, (path, body) in needed.items():
            for field, schema in schemas[name]["properties"].items():
                for bad in wrong_values(schema):
                    with self.subTest(name=name, field=field, value=str(bad)[:40]):
                        status, reply = self.server.post(path, {**body, field: bad})
                        self.assertEqual(status, 400, reply)
                        self.assertEqual(reply["error"]["param"], field)
                        count += 1
        self.assertGreater(count, 400)

    def test_slow_clients_end_and_wait_for_nobody(self):
        data = head(f"Content-Length: {len(BODY)}") + BODY
        clients = []
        for cut in 0, 1, 20, len(data) - len(BODY), len(data) - 1:
            client = socket.create_connection(("127.0.0.1", self.server.port()), WAIT_S)
            client.sendall(data[:cut])
            clients.append((cut, client))
        for cut, client in clients:
            with client:
                reply = client.recv(65536)
                self.assertEqual(status_of(reply), 408 if cut else 0, (cut, reply))

    def test_half_closed_connections_are_answered(self):
        # A client that sends no more counts as gone, unless its reply is already there.
        reply = raw(self.server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", shut=True)
        self.assertIn(status_of(reply), {0, 200})

    def test_a_reader_that_never_reads_is_dropped(self):
        stalled = 'ingot_rejected_total{reason="stalled"}'
        before = metric(self.server, stalled)
        body = json.dumps(greedy([5], 100, n=128, stream=True, logprobs=20)).encode()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.server.port()))
            client.sendall(head(f"Content-Length: {len(body)}") + body)
            self.server.until(lambda: metric(self.server, stalled) > before)
        self.server.until(lambda: metric(self.server, 'ingot_connections{state="sending"}') <= 1)

    def test_resets_in_a_storm(self):
        body = json.dumps(greedy([5], 100, stream=True)).encode()
        request = head(f"Content-Length: {len(body)}") + body
        for i in range(100):
            client = socket.create_connection(("127.0.0.1", self.server.port()), WAIT_S)
            client.sendall(request[:len(request) * (i % 10 + 1) // 10])
            if i % 10 == 9:
                client.recv(1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        self.server.until(lambda: metric(self.server, 'ingot_requests_running{model="tiny"}') <= 4)


def wrong_values(schema):
    """Values that a schema refuses: of other types, and beyond its limits."""
    forms = schema.get("anyOf", [schema])
    types = {form.get("type") for form in forms}
    if None in types:  # refused or any
        return []
    samples = {"boolean": True, "integer": 1, "number": 1.5, "string": "x", "array": [1],
               "object": {"x": 1}}
    wrong = [sample for kind, sample in samples.items()
             if kind not in types and not (kind == "integer" and "number" in types)]
    for form in forms:
        if "minimum" in form:
            wrong += [form["minimum"] - 1] if abs(form["minimum"]) < 2 ** 62 else []
        if "maximum" in form:
            wrong += [form["maximum"] + 1] if form["maximum"] < 2 ** 62 else []
        if form.get("maxLength", 2 ** 30) < 10000:
            wrong.append("x" * (form["maxLength"] + 1))
        if form.get("maxItems", 2 ** 30) < 10000:
            wrong.append([0] * (form["maxItems"] + 1))
        if form.get("maxProperties", 2 ** 30) < 10000:
            wrong.append({str(i): 0 for i in range(form["maxProperties"] + 1)})
    return wrong


class Vanishing(unittest.TestCase):
    """Clients that leave in each state: their pages and places are free again."""

    def leave(self, server, body, state):
        """Clients ask and leave until one is cancelled in this state."""
        sample = f'ingot_requests_cancelled_total{{model="tiny",state="{state}"}}'
        before = metric(server, sample)
        data = json.dumps(body).encode()
        request = head(f"Content-Length: {len(data)}") + data

        def try_once():
            with socket.create_connection(("127.0.0.1", server.port()), WAIT_S) as client:
                client.sendall(request)
                if state == "waiting":
                    server.until(lambda: metric(
                        server, 'ingot_requests_waiting{model="tiny"}') > 0)
                else:
                    server.until(lambda: any(s.get("is_processing") for s in
                                             server.get("/slots")[1]))
                if state == "decode" and body.get("stream"):
                    client.recv(4096)
            server.until(lambda: metric(server, 'ingot_requests_waiting{model="tiny"}') == 0)
            return metric(server, sample) > before

        server.until(try_once)

    def test_in_prefill_and_decode(self):
        with slow(2000, "-np", "2", "-b", "8", "--slots", "--no-prefix-cache").ready() as server:
            neighbor = Neighbor(server)
            long_prompt = [5 + i % 90 for i in range(120)]
            with neighbor:
                self.leave(server, greedy(long_prompt, 4), "prefill")
                self.leave(server, greedy([5], 100, stream=True), "decode")
                self.leave(server, greedy([5], 100), "decode")
            server.until(lambda: metric(server, 'ingot_requests_running{model="tiny"}') == 0)
            self.assertEqual(metric(server, 'ingot_kv_cache_usage_ratio{model="tiny"}'), 0)
            self.assertEqual(server.stop(signal.SIGTERM), 0)

    def test_in_the_queue(self):
        with slow(2000, "-np", "1").ready() as server:
            done = []
            running = threading.Thread(target=lambda: done.append(
                server.ask("POST", "/v1/completions", greedy([5, 6], 120))))
            alone = text_of(*server.ask("POST", "/v1/completions", greedy([5, 6], 120))[::2])
            running.start()
            self.leave(server, greedy([7], 10), "waiting")
            running.join(WAIT_S)
            self.assertEqual(text_of(*done[0][::2]), alone)
            self.assertEqual(server.stop(signal.SIGTERM), 0)


class Overload(unittest.TestCase):
    def test_a_full_queue_is_429_with_retry_after(self):
        with slow(2000, "-np", "1", "--queue", "2").ready() as server:
            alone = text_of(*server.ask("POST", "/v1/completions", greedy([5, 6], 60))[::2])
            replies = []
            threads = [threading.Thread(target=lambda: replies.append(server.ask(
                "POST", "/v1/completions", greedy([5, 6], 60)))) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT_S)
            refused = [r for r in replies if r[0] == 429]
            served = [r for r in replies if r[0] == 200]
            self.assertEqual(len(refused) + len(served), 12)
            self.assertGreater(len(refused), 0)
            self.assertGreaterEqual(len(served), 1)
            for _, headers, text in refused:
                self.assertGreaterEqual(int(headers["Retry-After"]), 1)
                self.assertEqual(json.loads(text)["error"]["type"], "rate_limit_error")
            for status, _, text in served:
                self.assertEqual(text_of(status, text), alone)
            self.assertEqual(metric(
                server, 'ingot_rejected_total{model="tiny",reason="queue_full"}') or metric(
                server, 'ingot_rejected_total{reason="queue_full",model="tiny"}'), len(refused))
            self.assertEqual(server.stop(signal.SIGTERM), 0)

    def test_replies_are_the_same_when_pages_run_out(self):
        requests = [greedy([5 + i, 6, 7], 120) for i in range(8)]
        with serve("--kv-size", "128KiB").ready() as server:
            alone = [text_of(*server.ask("POST", "/v1/completions", r)[::2]) for r in requests]
            got = [None] * len(requests)

            def ask(i):
                got[i] = server.ask("POST", "/v1/completions", requests[i])

            preempted = 'ingot_preemptions_total{model="tiny"}'

            def all_at_once():
                threads = [threading.Thread(target=ask, args=[i]) for i in range(len(requests))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(WAIT_S)
                for (status, _, reply), expected in zip(got, alone):
                    self.assertEqual(text_of(status, reply), expected)
                return metric(server, preempted) > 0

            server.until(all_at_once)
            self.assertEqual(server.stop(signal.SIGTERM), 0)

    def test_connections_above_the_limit(self):
        with serve("--max-connections-per-address", "8").ready() as server:
            clients = [socket.create_connection(("127.0.0.1", server.port()), WAIT_S)
                       for _ in range(30)]
            self.assertTrue(all(c.fileno() >= 0 for c in clients))
            ended = 0
            for client in clients[8:]:
                try:
                    ended += client.recv(4096)[:12] in (b"", b"HTTP/1.1 503", b"HTTP/1.1 429")
                except ConnectionResetError:
                    ended += 1
            self.assertEqual(ended, 22)
            for client in clients:
                client.close()
            server.until(lambda: server.get("/health")[0] == 200)
            self.assertEqual(server.stop(signal.SIGTERM), 0)


class Devices(unittest.TestCase):
    """The device fails in the middle of a reply."""

    def start(self, *options, how="later"):
        return serve("--no-cache", "--no-warmup", *options, device="far", env={
            "INGOT_PLUGIN_PATH": FAR, "FAR_FAILS": how}).ready()

    def attempts(self, server):
        (report,) = server.get("/v1/report")[1]["data"]
        return [a for segment in report["report"]["backend_timeline"] for a in segment["attempts"]]

    def test_replies_continue_elsewhere(self):
        with self.start() as server:
            for stream in True, False:  # the first one begins on the device that fails
                status, _, text = server.ask("POST", "/v1/completions", greedy(
                    [5, 6, 7], 40, stream=stream, return_token_ids=True))
                self.assertTrue(text_of(status, text)[0])
                lists = re.findall(r'"token_ids":\[([^]]*)\]', text.replace('prompt_token_ids', ''))
                self.assertEqual(sum(len(ids.split(",")) for ids in lists if ids), 40)
            self.assertTrue(any("caught fire" in a["reason"] for a in self.attempts(server)))
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.stop(signal.SIGTERM), 0)

    def test_without_another_device_replies_end_with_an_error(self):
        with self.start("--strict") as server:
            status, _, text = server.ask("POST", "/v1/completions",
                                         greedy([5, 6, 7], 40, stream=True))
            events = text.strip().split("\n\n")
            self.assertEqual(status, 200)
            self.assertGreater(len(events), 1)
            self.assertNotIn("[DONE]", text)
            error = json.loads(events[-1][6:])["error"]
            self.assertIn("far", error["message"])
            self.assertNotRegex(error["message"], r"\.c:\d+")
            status, reply = server.post("/v1/completions", greedy([5], 4))
            self.assertEqual((status, reply["error"]["type"]), (500, "server_error"))
            self.assertTrue(any("caught fire" in a["reason"] for a in self.attempts(server)))
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.post("/tokenize", {"content": "a"})[0], 200)
            self.assertEqual(server.stop(signal.SIGTERM), 0)

    def test_numbers_that_are_not_finite(self):
        with self.start(how="nan") as server:
            status, reply = server.post("/v1/completions", greedy([5, 6, 7], 40))
            self.assertEqual(status, 500)
            self.assertIn("not finite", reply["error"]["message"])
            self.assertEqual(server.stop(signal.SIGTERM), 0)


class Memory(unittest.TestCase):
    """One allocation fails, the Nth: some request is refused, and the next one is served."""

    def run_once(self, n):
        """Exit code of a short life in which allocation n fails; whether n was reached."""
        with serve("--no-warmup", "-np", "2", "-b", "64",
                   env={"INGOT_TEST_FAIL_ALLOC": str(n)}) as server:
            try:
                server.until(lambda: server.process.poll() is not None or
                             server.url and server.ask("GET", "/ready")[0] == 200)
                if server.process.poll() is None:
                    self.ask_some(server)
                    server.send(signal.SIGTERM)
            except (*ENDED, json.JSONDecodeError) as error:
                server.process.poll()
                raise AssertionError(f"allocation {n}: {error!r}\n{server.log()}") from error
            code = server.wait()
            return code, server.log()

    def ask_some(self, server):
        for method, path, body in (
                ("POST", "/v1/completions", greedy([5, 6, 7], 3)),
                ("POST", "/v1/completions", greedy([5], 3, stream=True, logprobs=1)),
                ("POST", "/v1/chat/completions",
                 {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}),
                ("POST", "/v1/embeddings", {"input": "a"}),
                ("POST", "/tokenize", {"content": "a"}), ("GET", "/metrics", None),
                ("GET", "/props", None), ("GET", "/v1/models", None)):
            try:
                status, _, text = server.ask(method, path, body)
            except ENDED as error:
                # The reply could not be made: the connection ends, and the server goes on.
                if server.process.poll() is not None:
                    raise AssertionError(server.log()) from error
                continue
            self.assertIn(status, {200, 400, 500, 501, 503}, text)
            if status == 400:
                self.assertNotIn("allocation", text)
        # One allocation alone fails: of two requests, one is served.
        replies = []
        for _ in range(2):
            try:
                replies.append(server.ask("POST", "/v1/completions", greedy([5, 6, 7], 3)))
            except ENDED as error:
                replies.append((0, {}, repr(error)))
        self.assertIn(200, [status for status, _, _ in replies], replies)

    def test_any_allocation_may_fail(self):
        # INGOT_ALLOC_STEP=1 (tools/test --long): each one.
        step = int(os.environ.get("INGOT_ALLOC_STEP", "29"))
        n, is_reached = 1, True
        while is_reached:
            code, log = self.run_once(n)
            self.assertIn(code, {0, 4}, f"allocation {n}: exit {code}\n{log}")
            is_reached = f"allocation {n} (" in log
            n += step
        self.assertGreater(n, 300)


class Disks(unittest.TestCase):
    def test_a_full_disk_for_the_prefix_cache(self):
        # The server is in a namespace of its own, with a disk of 64 KiB.
        folder = os.path.join(FOLDER.name, "small")
        wrapper = os.path.join(FOLDER.name, "on_small_disk")
        os.mkdir(folder)
        with open(wrapper, "w") as file:
            file.write("#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=64k none "
                       f"{folder} && exec \"$@\"' sh {PROGRAM} \"$@\"\n")
        os.chmod(wrapper, 0o755)
        if subprocess.run([wrapper, "version"], capture_output=True, timeout=WAIT_S).returncode:
            self.skipTest("there are no user namespaces")
        with Server(wrapper, "-t", "1", "--device", "cpu", "--drain-delay", "0", "-m", LLAMA,
                    "--prefix-cache-file", os.path.join(folder, "cache")).ready() as server:
            for i in range(6):
                prompt = [5 + i] + [5 + k % 90 for k in range(110)]
                self.assertEqual(server.post("/v1/completions", greedy(prompt, 4))[0], 200)
            self.assertEqual(server.stop(signal.SIGTERM), 0)
            self.assertRegex(server.log(), "warning: prefix cache: not stored: .*No space left")

    def test_a_prefix_cache_that_is_no_file(self):
        with serve("--prefix-cache-file", "/dev/full").ready() as server:
            self.assertEqual(server.post("/v1/completions", greedy([5], 4))[0], 200)
            self.assertEqual(server.stop(signal.SIGTERM), 0)
            self.assertIn("warning: prefix cache: not stored: /dev/full", server.log())


if __name__ == "__main__":
    subprocess.run([WRITE_MODELS, FOLDER.name, "q8_0", "llama"], check=True, timeout=WAIT_S)
    result = unittest.main(argv=sys.argv[:1] + sys.argv[4:], exit=False, verbosity=2).result
    FOLDER.cleanup()
    sys.exit(not result.wasSuccessful())
