#!/usr/bin/env python3
"""`ingot bench serve` against a server made of the standard library: what it sends, counts and refuses.

    test_bench_serve.py PROGRAM

The server's tokens are words.  Times are not asserted.
"""
import hashlib
import http.server
import json
import os
import pathlib
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import xml.dom.minidom

PROGRAM = sys.argv[1]
KEY = "sk-test-7"


def tokens_of(text):
    return text.split()


def reply_of(prompt, count):
    """The pieces of the one true reply to a prompt."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return [f" t{digest[i % 32] * 7 + i}" for i in range(count)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.server.hangs_up:  # without saying so
            self.close_connection = True

    def do_GET(self):
        if self.path == "/health":
            self.reply(200, {"status": "ok"})
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": "fake-1"}]})
        else:
            self.reply(404, {"error": {"message": "no such route"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize" and self.server.has_tokenizer:
            self.reply(200, {"tokens": list(range(len(tokens_of(body["content"]))))})
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            self.generate(body)
        else:
            self.reply(404, {"error": {"message": "no such route"}})

    def generate(self, body):
        is_chat = "messages" in body
        prompt = body["messages"][0]["content"] if is_chat else body["prompt"]
        number = self.server.note(body, prompt, self.headers)
        behavior = self.server.behavior(number)
        if isinstance(behavior, int):
            self.reply(behavior, {"error": {"code": behavior, "message": "as asked"}})
        elif isinstance(behavior, bytes):
            self.wfile.write(behavior)
            self.close_connection = True
        else:
            self.stream(prompt, body["max_tokens"], is_chat, behavior)
        self.server.leave()

    def stream(self, prompt, count, is_chat, behavior):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = reply_of(prompt, count)
        if behavior == "wrong":
            pieces[1] = " WRONG"
        if behavior == "slow":
            time.sleep(3)
        if is_chat:
            self.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        for i, piece in enumerate(pieces):
            if behavior == "cut" and i == 1:
                self.close_connection = True
                return
            if behavior == "error" and i == 1:
                self.event({"error": {"code": 503, "message": "as asked"}})
                break
            if self.server.token_s:
                time.sleep(self.server.token_s)
            self.event({"choices": [{"delta": {"content": piece}} if is_chat else {"text": piece}]})
        else:
            usage = {"prompt_tokens": len(tokens_of(prompt)), "completion_tokens": count}
            usage["prompt_tokens_details"] = {"cached_tokens": 3}
            self.event({"choices": [], "usage": usage})
            self.chunks(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, value):
        self.chunks(b": ping\r\n\r\ndata: " + json.dumps(value).encode() + b"\r\n\r\n")

    def chunks(self, data):
        """Two chunks, cut in the middle."""
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            self.wfile.write(b"%x;name=value\r\n%s\r\n" % (len(piece), piece))


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    has_tokenizer, hangs_up, token_s = True, False, 0

    def __init__(self, address=("127.0.0.1", 0), handler=Handler):
        super().__init__(address, handler)
        self.lock = threading.Lock()
        self.bodies, self.prompts, self.keys = [], [], []
        self.running = self.most_running = 0
        self.behavior = lambda number: None
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server_address[1]

    def note(self, body, prompt, headers):
        with self.lock:
            self.bodies.append(body)
            self.prompts.append(prompt)
            self.keys.append(headers.get("Authorization"))
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            return len(self.prompts) - 1

    def leave(self):
        with self.lock:
            self.running -= 1

    def handle_error(self, request, client_address):
        pass  # a client that leaves

    def stop(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class UnixHandler(Handler):
    disable_nagle_algorithm = False


class UnixServer(Server):
    address_family = socket.AF_UNIX

    def __init__(self, path):
        super().__init__(path, UnixHandler)


def run(*words):
    return subprocess.run([PROGRAM, "bench", "serve", *words], capture_output=True, text=True, timeout=120)


class BenchServe(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *words, code=0, url=None):
        """Runs with few tokens; returns the JSON result."""
        sizes = ["--prompt-tokens", "20", "--max-tokens", "5"]
        done = run("--url", url or self.server.url, "-q", "--json", *sizes, *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.error = done.stderr
        return json.loads(done.stdout)

    def test_figures_count_what_was_sent_and_received(self):
        result = self.bench("--clients", "1,3", "--requests", "6")
        self.assertEqual(result["schema"], "ingot.bench.serve.v1")
        self.assertEqual(result["model"], "fake-1")
        self.assertEqual([row["clients"] for row in result["levels"]], [1, 3])
        for row in result["levels"]:
            self.assertEqual((row["requests"], row["succeeded"], row["errors"]), (6, 6, {}))
            self.assertEqual((row["prompt_tokens"], row["decoded_tokens"]), (6 * 20, 6 * 5))
            self.assertEqual(row["cached_tokens"], 6 * 3)
            for figure in ("ttft_ms", "itl_ms"):
                values = [row[figure][key] for key in ("p50", "p90", "p99", "max")]
                self.assertEqual(values, sorted(values))
                self.assertGreaterEqual(values[0], 0)
            self.assertEqual(row["stall_ms"], row["itl_ms"]["max"])
            self.assertGreater(row["tokens_per_s"], 0)
        self.assertLessEqual(self.server.most_running, 3)

    def test_prompts_are_unique_and_have_the_exact_number_of_tokens(self):
        self.bench("--clients", "2", "--requests", "8")
        self.assertEqual(len(self.server.prompts), 9)  # and one to warm up
        self.assertEqual(len(set(self.server.prompts)), 9)
        self.assertEqual({len(tokens_of(p)) for p in self.server.prompts}, {20})
        body = self.server.bodies[-1]
        self.assertEqual((body["stream"], body["temperature"], body["ignore_eos"]), (True, 0, True))
        self.assertEqual((body["max_tokens"], body["model"]), (5, "fake-1"))
        self.assertTrue(body["stream_options"]["include_usage"])

    def test_a_seed_names_the_prompts(self):
        sent = []
        for seed in ("5", "5", "6"):
            self.server.prompts.clear()
            self.bench("--clients", "1", "--requests", "3", "--seed", seed)
            sent.append(list(self.server.prompts))
        self.assertEqual(sent[0], sent[1])
        self.assertFalse(set(sent[0]) & set(sent[2]))

    def test_a_shared_prefix_begins_all_prompts(self):
        self.bench("--clients", "2", "--requests", "6", "--shared-prefix", "12")
        heads = {tuple(tokens_of(p)[:12]) for p in self.server.prompts}
        tails = {tuple(tokens_of(p)[12:]) for p in self.server.prompts}
        self.assertEqual((len(heads), len(tails)), (1, 7))

    def test_without_tokenize_prompts_are_approximate(self):
        self.server.has_tokenizer = False
        result = self.bench("--clients", "1", "--requests", "2")
        self.assertFalse(result["exact_prompt_tokens"])
        self.assertEqual({len(tokens_of(p)) for p in self.server.prompts}, {20})

    def test_check_passes_if_replies_are_equal(self):
        for words in ([], ["--chat"]):
            result = self.bench("--clients", "1,4", "--requests", "8", "--check", *words)
            self.assertEqual([row["compared"] for row in result["levels"]], [8, 8])
            self.assertEqual([row["different"] for row in result["levels"]], [0, 0])
        salts = {body.get("cache_salt") for body in self.server.bodies}
        self.assertEqual(salts, {None, "alone", "level 0", "level 1"})

    def test_check_fails_and_shows_the_first_difference(self):
        self.server.behavior = lambda number: "wrong" if number == 1 + 8 + 5 else None
        result = self.bench("--clients", "2", "--requests", "8", "--check", code=1)
        row = result["levels"][0]
        self.assertEqual((row["compared"], row["different"]), (8, 1))
        first = reply_of(self.server.prompts[14], 1)[0]
        self.assertIn("1 of 8 replies with 2 clients differ", self.error)
        self.assertIn(f"byte {len(first) + 1}: ", self.error)
        self.assertIn(f'"{first} WRONG', self.error)

    def test_errors_are_counted_by_code(self):
        kinds = {1: 429, 2: 429, 3: 500, 4: "cut", 5: "error"}
        self.server.behavior = kinds.get
        row = self.bench("--clients", "2", "--requests", "8")["levels"][0]
        self.assertEqual(row["errors"], {"429": 2, "500": 1, "503": 1, "closed": 1})
        self.assertEqual((row["succeeded"], row["decoded_tokens"]), (3, 15))

    def test_a_run_without_a_success_fails(self):
        self.server.behavior = lambda number: None if number == 0 else 503
        row = self.bench("--clients", "1", "--requests", "2", code=1)["levels"][0]
        self.assertEqual(row["errors"], {"503": 2})
        self.assertIn("no request succeeded with 1 clients: 503", self.error)

    def test_replies_that_are_no_http_are_errors(self):
        endless = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20000
        kinds = [b"SSH-2.0-x\r\n\r\n", endless, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
                 b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[\n\n"]
        self.server.behavior = lambda number: kinds[number - 1] if 1 <= number <= len(kinds) else None
        row = self.bench("--clients", "1", "--requests", "6")["levels"][0]
        self.assertEqual(row["errors"], {"malformed": 5})

    def test_a_server_that_does_not_reply_in_time_is_an_error(self):
        self.server.behavior = lambda number: "slow" if number == 1 else None
        row = self.bench("--clients", "1", "--requests", "2", "--timeout", "0.5")["levels"][0]
        self.assertEqual(row["errors"], {"timeout": 1})

    def test_a_kept_connection_that_was_closed_is_opened_again(self):
        self.server.hangs_up = True
        row = self.bench("--clients", "2", "--requests", "6")["levels"][0]
        self.assertEqual((row["succeeded"], row["errors"]), (6, {}))

    def test_requests_can_arrive_at_a_rate(self):
        result = self.bench("--clients", "4", "--requests", "6", "--rate", "100")
        self.assertEqual(result["rate"], 100)
        self.assertEqual(result["levels"][0]["succeeded"], 6)

    def test_a_duration_ends_a_level(self):
        self.server.token_s = 0.02
        row = self.bench("--clients", "1", "--requests", "10000", "--duration", "0.5")["levels"][0]
        self.assertEqual(row["requests"], row["succeeded"])
        self.assertLess(row["requests"], 10000)

    def test_a_long_prompt_is_sent_while_others_stream(self):
        self.server.token_s = 0.02
        row = self.bench("--clients", "2", "--requests", "4", "--stall-prompt", "100")["levels"][0]
        self.assertEqual(row["long_prompt"]["tokens"], 100)
        self.assertGreater(row["long_prompt"]["stall_ms"], 0)
        self.assertLessEqual(row["long_prompt"]["stall_ms"], row["stall_ms"])
        self.assertEqual(row["decoded_tokens"], 4 * 5)
        self.assertEqual(self.server.most_running, 3)

    def test_idle_connections_stay_open(self):
        result = self.bench("--idle", "60", "--pid", str(os.getpid()))
        counts = [result["idle"][key] for key in ("connections", "open", "failed")]
        self.assertEqual(counts, [60, 60, 0])
        self.assertGreater(result["idle"]["rss_bytes"]["after"], 0)
        self.assertEqual((result["levels"], self.server.prompts), ([], []))

    def test_a_key_is_sent_and_read_from_a_file(self):
        key = self.folder / "key"
        key.write_text(KEY + "\n")
        self.bench("--clients", "1", "--requests", "1", "--api-key-file", str(key))
        self.assertEqual(set(self.server.keys), {"Bearer " + KEY})
        key.write_text("two words\n")
        self.bench("--clients", "1", "--api-key-file", str(key), code=2)

    def test_a_unix_socket_is_an_address(self):
        path = str(self.folder / "socket")
        server = UnixServer(path)
        self.addCleanup(server.stop)
        row = self.bench("--clients", "2", "--requests", "4", url="unix:" + path)["levels"][0]
        self.assertEqual(row["succeeded"], 4)

    def test_the_picture_is_svg_and_the_table_has_a_row_per_level(self):
        path = self.folder / "load.svg"
        done = run("--url", self.server.url + "/", "--clients", "1,2", "--requests", "2", "-q", "--svg", str(path))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([row[:2] for row in rows[-2:]], [["1", "2"], ["2", "2"]])
        picture = xml.dom.minidom.parse(str(path))
        texts = [node.firstChild.data for node in picture.getElementsByTagName("text")]
        for label in ("Time to first token", "Inter-token latency", "worst stall", "clients"):
            self.assertIn(label, texts)

    def test_no_other_machine_is_an_address(self):
        for url in ("http://192.0.2.1:80", "http://example.com/", "http://[2001:db8::1]:80", "http://0.0.0.0:80",
                    "http://127.0.0.1.example.com", "http://127.0.0.1@192.0.2.1/", "http://128.0.0.1"):
            done = run("--url", url, "-q")
            self.assertEqual(done.returncode, 2, url)
            self.assertIn("load is sent to this machine only", done.stderr)
        for url in ("https://127.0.0.1/", "127.0.0.1:80", "http://127.0.0.1:0", "http://127.0.0.1:x", "http://[::1",
                    "unix:relative", "unix:/" + "x" * 200, "http://127.0.0.1/a b", "http://127.0.0.1/?q"):
            done = run("--url", url, "-q")
            self.assertEqual(done.returncode, 2, url)
            self.assertIn("--url", done.stderr)

    def test_wrong_options_are_usage_errors(self):
        for words, text in (([], "--url is required"), (["--url", self.server.url, "--clients", "0"], "--clients '0'"),
                            (["--url", self.server.url, "--shared-prefix", "200"], "--shared-prefix 200"),
                            (["--url", self.server.url, "--steps", "3"], "does not apply to 'bench serve'")):
            done = run(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        done = subprocess.run([PROGRAM, "bench", "ops", "--url", self.server.url], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--url: does not apply to 'bench ops'", done.stderr)

    def test_no_server_is_a_failure(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            done = run("--url", "http://127.0.0.1:%d" % unused.getsockname()[1], "-q")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the server does not reply (connect)", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
