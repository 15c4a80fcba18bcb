#!/usr/bin/env python3
"""`ingot serve` as operators see it: health, metrics, models, signals, systemd, exit codes.

    python3 tests/e2e/test_serve.py PATH/ingot PATH/write_models STORIES.oam PLUGINS
"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import WAIT_S, Server

PROGRAM, WRITE_MODELS, STORIES, PLUGINS = sys.argv[1:5]
FOLDER = tempfile.TemporaryDirectory()
LLAMA = os.path.join(FOLDER.name, "llama.q8_0.gguf")
QWEN = os.path.join(FOLDER.name, "qwen3.q8_0.gguf")
SMALL = ("-t", "1", "--device", "cpu", "--drain-delay", "0")


def serve(*options, **more):
    return Server(PROGRAM, *SMALL, *options, **more)


def value(text, sample):
    """Of a line of /metrics; None: there is none."""
    for line in text.splitlines():
        if line.rsplit(" ", 1)[0] == sample:
            return float(line.rsplit(" ", 1)[1])
    return None


class Operations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve("-m", LLAMA, "-a", "tiny,gpt-4", "--slots", "--no-webui", "-kvu",
                           "--slot-save-path", FOLDER.name).ready()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop(signal.SIGTERM) == 0, cls.server.log()

    def wait_until_idle(self):
        """Until the last step is counted, which may be after its reply."""
        self.server.until(lambda: value(self.server.ask("GET", "/metrics")[2],
                                        'ingot_requests_running{model="tiny"}') == 0)
        self.server.until(lambda: not any(slot["is_processing"]
                                          for slot in self.server.get("/slots")[1]))

    def test_public_routes(self):
        for path in "/health", "/v1/health", "/ping":
            self.assertEqual(self.server.get(path), (200, {"status": "ok"}))
        self.assertEqual(self.server.get("/ready"), (200, {"status": "ready"}))
        status, version = self.server.get("/version")
        self.assertEqual(status, 200)
        self.assertRegex(version["version"], r"^\d+\.\d+")

    def test_log_prints_the_sizes(self):
        self.assertIn("tiny: cpu:0, context 128 of 128 tokens, KV cache pool ", self.server.log())

    def test_models_have_names_and_sizes(self):
        status, models = self.server.get("/v1/models")
        self.assertEqual(status, 200)
        (model,) = models["data"]
        self.assertEqual((model["id"], model["aliases"]), ("tiny", ["gpt-4"]))
        self.assertEqual(model["status"]["value"], "loaded")
        self.assertEqual(model["meta"]["n_vocab"], 320)
        self.assertEqual(model["meta"]["size"], os.path.getsize(LLAMA))
        self.assertGreater(model["meta"]["memory"], model["meta"]["size"])
        self.assertEqual(models["models"][0]["details"], {"quantization_level": "Q8_0"})
        self.assertEqual(self.server.get("/v1/models/gpt-4"), (200, model))

    def test_metrics_count_requests(self):
        before = self.server.ask("GET", "/metrics")
        self.assertEqual(before[0], 200)
        self.assertEqual(before[1]["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        status, _ = self.server.post("/v1/completions", {"prompt": [5, 6, 7], "max_tokens": 4,
                                                         "ignore_eos": True})
        self.assertEqual(status, 200)
        for sample, more in (('ingot_prompt_tokens_total{model="tiny"}', 3),
                             ('ingot_generation_tokens_total{model="tiny"}', 4),
                             ('ingot_requests_total{route="/v1/completions",code="200"}', 1)):
            # A step is counted when it has ended, and its last event may be read before.
            self.server.until(lambda: value(self.server.ask("GET", "/metrics")[2], sample) ==
                              (value(before[2], sample) or 0) + more)
        self.assertEqual(value(before[2], 'vllm:num_requests_waiting{model_name="tiny"}'), 0)

    def test_openmetrics_if_accepted(self):
        status, headers, text = self.server.ask(
            "GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("application/openmetrics-text"))
        self.assertTrue(text.endswith("# EOF\n"))

    def test_props(self):
        status, props = self.server.get("/props")
        self.assertEqual(status, 200)
        self.assertEqual(props["model_alias"], "tiny")
        self.assertEqual(props["default_generation_settings"]["n_ctx"], 128)
        params = props["default_generation_settings"]["params"]
        self.assertEqual((params["top_k"], params["n_predict"]), (40, -1))
        self.assertEqual(props["total_slots"], 32)
        self.assertFalse(props["is_sleeping"])
        self.assertNotIn("chat_template_error", props)

    def test_chats_without_a_template_use_chatml(self):
        self.assertIn("tiny: the file has no chat template, chats use chatml", self.server.log())
        self.assertEqual(self.server.get("/props")[1]["chat_template"], "chatml")
        messages = [{"role": "user", "content": "a"}]
        self.assertEqual(self.server.post("/apply-template", {"messages": messages}),
                         (200, {"prompt": "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"}))
        status, reply = self.server.post("/v1/chat/completions",
                                         {"messages": messages, "max_tokens": 2})
        self.assertEqual(status, 200, reply)
        self.wait_until_idle()

    def test_slots_show_no_text(self):
        status, slots = self.server.get("/slots")
        self.assertEqual((status, len(slots)), (200, 32))
        self.assertEqual(set(slots[0]), {"id", "model", "n_ctx", "is_processing"})

    def test_slots_show_how_far_they_are(self):
        thread = threading.Thread(target=self.server.post, args=(
            "/v1/completions", {"prompt": [5], "max_tokens": 120, "n": 32, "ignore_eos": True}))
        thread.start()
        slot = self.server.until(lambda: not thread.is_alive() or next(
            (s for s in self.server.get("/slots")[1] if s["is_processing"]), None))
        thread.join(WAIT_S)
        if slot is not True:  # else it was faster than the question
            self.assertEqual(slot["n_prompt_tokens"], 1)
            self.assertEqual(slot["next_token"][0]["n_decoded"], slot["n_decoded"])
        self.wait_until_idle()

    def test_slots_are_saved_and_restored(self):
        self.assertEqual(self.server.post("/slots/0?action=dance", {})[0], 400)
        self.assertEqual(self.server.post("/slots/zero?action=erase", {})[0], 404)
        for name in "../x", "", ".x", None:
            self.assertEqual(self.server.post("/slots/0?action=save", {"filename": name})[0], 400)
        prompt = {"prompt": [5 + i % 90 for i in range(80)], "max_tokens": 1, "ignore_eos": True}
        self.assertEqual(self.server.post("/v1/completions", prompt)[0], 200)
        saved = self.server.until(lambda: next(
            (reply for reply in (self.server.post(f"/slots/{i}?action=save", {"filename": "kv"})[1]
                                 for i in range(32)) if reply.get("n_saved", 0) >= 64), None))
        self.assertTrue(os.path.exists(os.path.join(FOLDER.name, "kv")))
        slot = f"/slots/{saved['id_slot']}"
        status, erased = self.server.post(f"{slot}?action=erase", {})
        self.assertEqual((status, erased["n_erased"] >= 64), (200, True))
        status, restored = self.server.post(f"{slot}?action=restore", {"filename": "kv"})
        self.assertEqual((status, restored["n_restored"]), (200, saved["n_saved"]))
        usage = self.server.post("/v1/completions", prompt)[1]["usage"]
        self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], 64)

    def test_report_has_the_timeline(self):
        status, reports = self.server.get("/v1/report")
        self.assertEqual(status, 200)
        (report,) = reports["data"]
        self.assertEqual(report["id"], "tiny")
        attempts = report["report"]["backend_timeline"][0]["attempts"]
        self.assertEqual([a["level"] for a in attempts], ["compile", "kernel_override", "eager"])
        self.assertEqual(self.server.get("/v1/report?model=gpt-4")[0], 200)

    def test_cancel_of_an_unknown_request(self):
        self.assertEqual(self.server.ask("DELETE", "/v1/requests/unknown")[0], 404)

    def test_cancel_of_a_request(self):
        done = []

        def ask():
            done.append(self.server.ask(
                "POST", "/v1/completions",
                {"prompt": [5], "max_tokens": 120, "n": 32, "ignore_eos": True},
                {"X-Request-Id": "mine"}))

        thread = threading.Thread(target=ask)
        thread.start()
        cancelled = self.server.until(
            lambda: done or self.server.ask("DELETE", "/v1/requests/mine")[0] == 200)
        thread.join(WAIT_S)
        if cancelled is True:  # else it was faster than the cancellation
            self.assertEqual(done[0][0], 499)
        self.wait_until_idle()


class Drafts(unittest.TestCase):
    def test_drafts_of_the_server_change_no_reply(self):
        ask = {"prompt": "Once", "max_tokens": 180, "temperature": 0, "ignore_eos": True}
        texts, drafted = [], []

        def count(server, name):
            return value(server.ask("GET", "/metrics")[2], f'ingot_{name}_total{{model="stories"}}')

        for options in (), ("--draft-ngram", "3"):
            with serve("-m", STORIES, *options).ready() as server:
                for n, more in enumerate(({}, {"draft_ngram": 0})):
                    status, reply = server.post("/v1/completions", {**ask, **more})
                    texts.append(reply["choices"][0]["text"])
                    server.until(lambda: count(server, "generation_tokens") == 180 * (n + 1))
                    drafted.append(count(server, "spec_draft_tokens"))
                self.assertEqual(server.stop(), 0)
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(drafted[:2], [0, 0])
        self.assertGreater(drafted[2], 0)
        self.assertEqual(drafted[3], drafted[2])


class PrefixCacheFile(unittest.TestCase):
    def test_a_restarted_server_finds_the_prefixes(self):
        path = os.path.join(FOLDER.name, "prefixes")
        ask = {"prompt": [5 + i % 90 for i in range(80)], "max_tokens": 1, "ignore_eos": True}
        for number, cached in (signal.SIGTERM, 0), (signal.SIGINT, 64):
            with serve("-m", LLAMA, "--prefix-cache-file", path).ready() as server:
                usage = server.post("/v1/completions", ask)[1]["usage"]
                self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], cached)
                self.assertEqual(server.stop(number), 0)
                self.assertNotIn("not stored", server.log())
                self.assertTrue(os.path.exists(path))


class Traces(unittest.TestCase):
    def test_a_span_per_request(self):
        path = os.path.join(FOLDER.name, "spans.jsonl")
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with serve("-m", LLAMA, "-a", "tiny", "--trace-file", path).ready() as server:
            self.assertEqual(server.post("/v1/completions", {"prompt": [5, 6], "max_tokens": 2,
                                                             "ignore_eos": True},
                                         headers={"traceparent": parent})[0], 200)
            self.assertEqual(server.ask("GET", "/nothing")[0], 404)
            os.rename(path, path + ".1")
            server.send(signal.SIGHUP)
            server.until(lambda: os.path.exists(path))
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.stop(), 0)
        spans = []
        for name in path + ".1", path:
            with open(name) as file:
                for line in file:
                    (scope,) = json.loads(line)["resourceSpans"][0]["scopeSpans"]
                    spans += scope["spans"]
        self.assertEqual(spans[-1]["name"], "GET /health")
        (span,) = (s for s in spans if s["name"] == "POST /v1/completions")
        self.assertEqual(span["traceId"], parent.split("-")[1])
        self.assertEqual(span["parentSpanId"], parent.split("-")[2])
        self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        values = {a["key"]: a["value"] for a in span["attributes"]}
        self.assertEqual(values["http.response.status_code"], {"intValue": "200"})
        self.assertEqual(values["gen_ai.operation.name"], {"stringValue": "text_completion"})
        self.assertEqual(values["gen_ai.response.model"], {"stringValue": "tiny"})
        self.assertEqual(values["gen_ai.usage.input_tokens"], {"intValue": "2"})
        self.assertEqual(values["gen_ai.usage.output_tokens"], {"intValue": "2"})
        self.assertEqual(values["gen_ai.response.finish_reasons"],
                         {"arrayValue": {"values": [{"stringValue": "length"}]}})


class SeveralModels(unittest.TestCase):
    def test_load_unload_and_pin(self):
        with serve("-m", f"one={LLAMA}", "-m", f"two={STORIES}", "--pin", "one").ready() as server:
            status, loaded = server.get("/v1/models")
            self.assertEqual([m["id"] for m in loaded["data"]], ["one", "two"])
            self.assertEqual([m["pinned"] for m in loaded["data"]], [True, False])
            self.assertEqual(server.post("/models/unload", {"model": "one"})[0], 400)
            self.assertEqual(server.post("/models/unload", {"model": "unknown"})[0], 404)
            self.assertEqual(server.post("/models/unload", {})[0], 400)
            status, reply = server.post("/models/unload", {"model": "two"})
            self.assertEqual((status, reply["success"]), (200, True))
            self.assertIn(reply["status"], ("unloading", "unloaded"))
            server.until(lambda: server.get("/v1/models/two")[1]["status"]["value"] == "unloaded")
            # Looking does not load it again; asking does.
            self.assertTrue(server.get("/props?model=two")[1]["is_sleeping"])
            self.assertEqual(server.get("/v1/models/two")[1]["status"]["value"], "unloaded")
            status, reply = server.post("/v1/completions",
                                        {"model": "two", "prompt": "Once", "max_tokens": 3})
            self.assertEqual((status, reply["model"]), (200, "two"))
            self.assertEqual(server.post("/models/load", {"model": "two"})[0], 200)
            self.assertEqual(server.post("/v1/completions", {"model": "x", "prompt": "a"})[0], 404)
            self.assertEqual(server.stop(), 0)

    def test_folder_and_sighup(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(LLAMA, os.path.join(folder, "a.gguf"))
            os.symlink(LLAMA, os.path.join(folder, "pinned.gguf"))
            with serve("--models-dir", folder, "--idle-unload", "0.2", "--pin",
                       "pinned").ready() as server:
                ids = lambda: [m["id"] for m in server.get("/v1/models")[1]["data"]]
                state = lambda: server.get("/v1/models/a")[1]["status"]["value"]
                self.assertEqual((ids(), state()), (["a", "pinned"], "unloaded"))
                self.assertEqual([m["pinned"] for m in server.get("/v1/models")[1]["data"]],
                                 [False, True])
                self.assertEqual(server.post("/models/unload", {"model": "pinned"})[0], 400)
                self.assertEqual(server.post("/v1/completions",
                                             {"model": "a", "prompt": [5], "max_tokens": 1})[0],
                                 200)
                server.until(lambda: state() == "unloaded")
                os.symlink(QWEN, os.path.join(folder, "b.gguf"))
                server.send(signal.SIGHUP)
                server.until(lambda: ids() == ["a", "b", "pinned"])
                os.remove(os.path.join(folder, "b.gguf"))
                self.assertEqual(server.post("/reload", {})[0], 200)
                self.assertEqual(ids(), ["a", "pinned"])
                self.assertEqual(server.stop(), 0)


class Keys(unittest.TestCase):
    def test_levels_and_reload(self):
        keys, admins = os.path.join(FOLDER.name, "keys"), os.path.join(FOLDER.name, "admins")
        for path, text in (keys, "alice:first-key\n"), (admins, "root:admin-key\n"):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(text)
        with serve("-m", LLAMA, "--api-key-file", keys, "--admin-key-file", admins) as server:
            status = lambda method, path, key, body=None: server.ask(
                method, path, body, {"Authorization": f"Bearer {key}"})[0]
            server.ready()
            for path in "/health", "/ready", "/version":
                self.assertEqual(server.ask("GET", path)[0], 200)
            for path in "/metrics", "/props", "/slots", "/v1/models", "/v1/report":
                self.assertEqual(server.ask("GET", path)[0], 401, path)
                self.assertEqual(status("GET", path, "wrong"), 401, path)
            self.assertEqual(status("GET", "/metrics", "first-key"), 200)
            load = {"model": "llama.q8_0"}
            self.assertEqual(status("POST", "/models/load", "first-key", load), 403)
            self.assertEqual(status("POST", "/models/load", "admin-key", load), 200)
            self.assertEqual(status("POST", "/reload", "first-key", {}), 403)
            with open(keys, "w") as file:
                file.write("alice:second-key\n")
            server.send(signal.SIGHUP)
            server.until(lambda: status("GET", "/metrics", "second-key") == 200)
            self.assertEqual(status("GET", "/metrics", "first-key"), 401)
            rejected = 'ingot_rejected_total{reason="key"}'
            text = server.ask("GET", "/metrics", headers={"X-Api-Key": "second-key"})[2]
            self.assertGreaterEqual(value(text, rejected), 11)
            self.assertEqual(server.stop(), 0)
        self.assertNotIn("first-key", server.log())
        self.assertIn("key=alice", server.log())

    def test_public_metrics(self):
        with serve("-m", LLAMA, "--metrics-public", env={"INGOT_API_KEY": "k"}).ready() as server:
            self.assertEqual(server.ask("GET", "/metrics")[0], 200)
            self.assertEqual(server.ask("GET", "/props")[0], 401)
            self.assertEqual(server.stop(), 0)


class Devices(unittest.TestCase):
    def test_another_device_takes_over_from_a_plugin_that_dies(self):
        env = {"INGOT_PLUGIN_PATH": os.path.join(PLUGINS, "dies.so")}
        ask = {"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        with serve("-m", LLAMA).ready() as server:
            wanted = server.post("/v1/completions", ask)[1]["choices"]
            self.assertEqual(server.stop(), 0)
        with Server(PROGRAM, "-t", "1", "-m", LLAMA, "--device", "dies", "--isolate-plugin",
                    "--drain-delay", "0", env=env).ready() as server:
            self.assertEqual(server.get("/props")[1]["device"], "dies:0")
            self.assertEqual(server.post("/v1/completions", ask)[1]["choices"], wanted)
            (report,) = server.get("/v1/report")[1]["data"]
            self.assertEqual({f["to"] for f in report["report"]["fallbacks"]}, {"cpu:0"})
            self.assertIn("died of signal 6", report["report"]["fallbacks"][0]["reason"])
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.stop(), 0)


class ExitCodes(unittest.TestCase):
    def fails(self, code, words, *options, **more):
        with serve(*options, **more) as server:
            self.assertEqual(server.wait(), code, server.log())
            self.assertIn(words, server.log())
            return server

    def test_bad_model_ends_before_it_listens(self):
        bad = os.path.join(FOLDER.name, "bad.gguf")
        with open(bad, "wb") as file:
            file.write(b"GGUF but not really")
        self.assertIsNone(self.fails(3, "bad.gguf", "-m", bad).url)
        self.assertIsNone(self.fails(6, "none.gguf", "-m", bad.replace("bad", "none")).url)
        self.assertIsNone(self.fails(2, "qwen3", "-m", LLAMA, "--arch", "qwen3").url)

    def test_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.fails(2, f"127.0.0.1 port {port} is taken", "-m", LLAMA, port=port)

    def test_wrong_options(self):
        self.fails(2, "--api-key-file", "--api-key", "secret")
        self.fails(2, "--temp: sampling is set by requests", "--temp", "0.5")
        self.fails(2, "--models-bytes", "--models-max", "4")
        self.fails(2, "NAME=FILE", "-m", LLAMA, "-m", QWEN, "-a", "x")
        self.fails(2, "--insecure", "-m", LLAMA, "--host", "0.0.0.0")
        self.fails(6, "/nonexistent", "--models-dir", "/nonexistent")
        self.fails(2, "--pin: no model is named 'none'", "-m", LLAMA, "--pin", "llama.q8_0,none")

    def test_json_events_and_report(self):
        path = os.path.join(FOLDER.name, "report.json")
        with serve("-m", LLAMA, "--json", "--report", path).ready() as server:
            self.assertEqual(server.stop(signal.SIGTERM), 0)
            events = [json.loads(line) for line in server.process.stdout]
        self.assertEqual([e.get("event") for e in events], ["listening", "ready", None])
        self.assertEqual(events[0]["address"], server.url)
        self.assertEqual((events[2]["task"], events[2]["backend"]), ("serve", "cpu:0"))
        with open(path) as file:
            self.assertEqual(json.load(file)["config_resolved"]["options"]["drain"], 30)

    def test_openapi_needs_no_model(self):
        text = subprocess.run([PROGRAM, "serve", "--openapi"], check=True, timeout=WAIT_S,
                              capture_output=True).stdout
        self.assertIn("/health", json.loads(text)["paths"])


class Signals(unittest.TestCase):
    def stream(self, server, n):
        """A connection on which a stream of n choices of 100 tokens has begun."""
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": [5], "max_tokens": 100, "n": n, "stream": True, "ignore_eos": True}),
            {"Content-Type": "application/json"})
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        reply.readline()
        return connection, reply

    def test_sigterm_drains(self):
        with Server(PROGRAM, "-t", "1", "-m", LLAMA, "--drain-delay", "1").ready() as server:
            connection, reply = self.stream(server, 1)
            server.send(signal.SIGTERM)
            server.until(lambda: server.ask("GET", "/ready")[0] == 503)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            # Requests that come in the delay are served.
            self.assertEqual(server.post("/v1/completions", {"prompt": [5], "max_tokens": 1})[0],
                             200)
            text = reply.read().decode()
            connection.close()
            self.assertTrue(text.rstrip().endswith("data: [DONE]"), text[-200:])
            self.assertEqual(server.wait(), 0)

    def test_second_sigterm_ends_at_once(self):
        with Server(PROGRAM, "-t", "1", "-m", LLAMA, "--drain-delay", "600").ready() as server:
            server.send(signal.SIGTERM)
            server.until(lambda: server.ask("GET", "/ready")[0] == 503)
            server.send(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)

    def test_sigint_ends_streams_with_an_error(self):
        with serve("-m", STORIES, "-np", "1", "--drain", "600").ready() as server:
            connection, reply = self.stream(server, 128)
            server.send(signal.SIGINT)
            text = reply.read().decode()
            connection.close()
            self.assertNotIn("[DONE]", text)
            error = json.loads(text.rstrip().splitlines()[-1][len("data: "):])["error"]
            self.assertEqual((error["message"], error["type"], error["code"]),
                             ("the server is shutting down", "unavailable_error", 503))
            self.assertEqual(server.wait(), 0)

    def test_loading_takes_long(self):
        # The device's plugin hangs, which is found out after some seconds.
        plugin = os.path.join(PLUGINS, "hangs.so")
        for number, code in (None, 5), (signal.SIGTERM, 0):
            with Server(PROGRAM, "-m", LLAMA, "--device", "hangs", "--drain-delay", "0",
                        env={"INGOT_PLUGIN_PATH": plugin, "INGOT_PLUGIN_SECONDS": "3"}) as server:
                for path in "/health", "/ready":
                    status, reply = server.get(path)
                    self.assertEqual((status, reply["error"]["message"]), (503, "Loading model"))
                self.assertEqual(reply["loading"], [{"id": "llama.q8_0", "progress": 0}])
                status, models = server.get("/v1/models")
                self.assertEqual(models["data"][0]["status"]["value"], "loading")
                self.assertEqual(server.post("/v1/completions", {"prompt": "a"})[0], 503)
                if number:
                    server.send(number)
                self.assertEqual(server.wait(), code, server.log())


class Systemd(unittest.TestCase):
    def test_notifications(self):
        path = os.path.join(FOLDER.name, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
            inbox.bind(path)
            inbox.settimeout(WAIT_S)
            env = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"}
            with serve("-m", LLAMA, env=env) as server:
                seen = []
                while seen.count("WATCHDOG=1") < 2:
                    seen.append(inbox.recv(4096).decode())
                self.assertLess(seen.index("READY=1"), seen.index("WATCHDOG=1"))
                self.assertTrue(seen[0].startswith("STATUS="))
                server.send(signal.SIGTERM)
                while inbox.recv(4096) != b"STOPPING=1":
                    pass
                self.assertEqual(server.wait(), 0)

    def test_socket_activation(self):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            port = listening.getsockname()[1]
            # The number must be 3, and LISTEN_PID that of the server: a shell arranges both.
            start = f'exec 3<&{listening.fileno()}; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'
            arguments = ["sh", "-c", start, "sh", PROGRAM, "serve", *SMALL, "-m", LLAMA]
            process = subprocess.Popen(arguments, pass_fds=[listening.fileno()],
                                       stderr=subprocess.PIPE, text=True)
            try:
                for line in process.stderr:
                    if line.startswith("listening on "):
                        self.assertTrue(line.split()[2].endswith(f":{port}"), line)
                    if line == "ready\n":
                        break
                with socket.create_connection(("127.0.0.1", port), WAIT_S) as client:
                    client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Connection: close\r\n\r\n")
                    self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 200"))
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(WAIT_S), 0)
            finally:
                process.kill()
                process.wait()
                process.stderr.close()


if __name__ == "__main__":
    for kind in "llama", "qwen3":
        subprocess.run([WRITE_MODELS, FOLDER.name, "q8_0", kind], check=True, timeout=WAIT_S)
    result = unittest.main(argv=sys.argv[:1] + sys.argv[5:], exit=False).result
    FOLDER.cleanup()
    sys.exit(not result.wasSuccessful())
