#!/usr/bin/env python3
"""OpenAI's routes of `ingot serve` over HTTP: every field at and beyond its limits, as openapi.json has
them; streams; clients that leave; replies under load.

    python3 tests/e2e/test_openai.py PATH/ingot
"""
import json
import re
import subprocess
import sys
import threading
import unittest

from serving import WAIT_S, Server

PROGRAM = sys.argv[1]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "Once upon a time"}]
BODIES = {  # what makes a request complete, by the name of its schema
    "ChatCompletionRequest": (CHAT, {"messages": HI, "max_tokens": 1}),
    "CompletionRequest": (TEXT, {"prompt": "Once", "max_tokens": 1}),
    "EmbeddingRequest": ("/v1/embeddings", {"input": "Once"}),
    "TokenizeRequest": ("/tokenize", {"content": "Once"}),
    "DetokenizeRequest": ("/detokenize", {"tokens": [1]}),
    "ApplyTemplateRequest": ("/apply-template", {"messages": HI}),
}
SAMPLES = {"boolean": True, "integer": 3, "number": 0.25, "string": "1", "array": [[]],
           "object": {"a": []}}


def beyond(schema):
    """JSON texts that a field must refuse."""
    types = {part["type"]: part for part in schema.get("anyOf", [schema])}
    for name, sample in SAMPLES.items():
        fits = name in types or (name == "integer" and "number" in types)
        if not fits:
            yield json.dumps(sample)
    for name, part in types.items():
        if name in ("integer", "number") and part["maximum"] < 2 ** 62:
            yield str(part["minimum"] - 1)
            yield str(part["maximum"] + 1)
        if name == "string" and len(types) == 1 and 0 < part.get("maxLength", 0) < 10 ** 5:
            yield json.dumps("x" * (part["maxLength"] + 1))
        if name == "array" and 0 < part.get("maxItems", 0) < 10 ** 4:
            yield json.dumps(["a"] * (part["maxItems"] + 1))


def with_field(body, name, text):
    """The body as JSON, with a field whose value is this text."""
    rest = json.dumps({key: value for key, value in body.items() if key != name})
    return rest[:-1] + (", " if len(rest) > 2 else "") + f'"{name}": {text}}}'


def metric(server, name, label=""):
    """The first sample of a name with this label."""
    for line in server.ask("GET", "/metrics")[2].splitlines():
        if re.match(name + r"\b", line) and label in line:
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no sample of {name}")


def events(text):
    """The JSON of each event, and whether [DONE] is the last."""
    parts = [part for part in text.split("\n\n") if part and not part.startswith(":")]
    data = [re.fullmatch(r"data: (.*)", part, re.S)[1] for part in parts]
    return [json.loads(part) for part in data if part != "[DONE]"], data[-1] == "[DONE]"


class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "-t", "1", "--device", "cpu", "--drain-delay", "0",
                            "--chat-template", "chatml").ready()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop() == 0, cls.server.log()

    def send(self, path, text):
        """(status, JSON) of a body that is sent as it is."""
        connection = self.server.connect()
        try:
            connection.request("POST", path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def test_every_field_is_checked(self):
        text = subprocess.run([PROGRAM, "serve", "--openapi"], check=True, timeout=WAIT_S,
                              capture_output=True, text=True).stdout
        schemas = json.loads(text)["components"]["schemas"]
        n = 0
        for name, (path, body) in BODIES.items():
            for field, schema in schemas[name]["properties"].items():
                for value in beyond(schema):
                    n += 1
                    with self.subTest(path=path, field=field, value=value[:40]):
                        status, reply = self.send(path, with_field(body, field, value))
                        self.assertEqual(status, 400, reply)
                        self.assertTrue(reply["error"]["param"].startswith(field), reply)
                        self.assertIn(field, reply["error"]["message"])
                for value in "NaN", "1e309", "-Infinity":
                    status, reply = self.send(path, with_field(body, field, value))
                    self.assertEqual(status, 400, reply)
                if field not in body:
                    with self.subTest(path=path, field=field, value="null"):
                        status, reply = self.send(path, with_field(body, field, "null"))
                        self.assertEqual(status, 200, reply)
        self.assertGreater(n, 300)

    def test_bodies_that_are_no_requests(self):
        for text in ('{"a": 1, "a": 2}', "[]", "{", "", '{"a": "\\ud800"}', "nul",
                     '{"a":' * 65 + "1" + "}" * 65):
            status, reply = self.send(CHAT, text)
            self.assertEqual((status, reply["error"]["type"]), (400, "invalid_request_error"))

    def test_a_stream_is_the_whole_reply_in_pieces(self):
        body = {"messages": HI, "max_tokens": 24, "seed": 3}
        status, whole = self.server.post(CHAT, body)
        self.assertEqual(status, 200, whole)
        status, headers, text = self.server.ask("POST", CHAT, {**body, "stream": True})
        self.assertEqual(headers["Content-Type"].split(";")[0], "text/event-stream")
        self.assertEqual(headers["Cache-Control"], "no-cache")
        self.assertEqual(headers["X-Accel-Buffering"], "no")
        chunks, is_done = events(text)
        self.assertTrue(is_done)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        self.assertEqual(deltas[0], {"role": "assistant", "content": None})
        self.assertEqual(deltas[-1], {})
        self.assertEqual("".join(delta["content"] for delta in deltas[1:-1]),
                         whole["choices"][0]["message"]["content"])

    def test_a_client_that_leaves_cancels(self):
        before = metric(self.server, "ingot_requests_cancelled_total", 'state="decode"')
        connection = self.server.connect()
        body = {"prompt": "Once", "max_tokens": 400, "stream": True, "ignore_eos": True,
                "n": 8}
        connection.request("POST", TEXT, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        reply.fp.readline()
        reply.close()
        connection.close()
        self.server.until(lambda: metric(self.server, "ingot_requests_running") == 0)
        after = metric(self.server, "ingot_requests_cancelled_total", 'state="decode"')
        self.assertEqual(after - before, 1)

    def test_replies_under_load_are_those_of_an_idle_server(self):
        bodies = [{"prompt": f"{word} was", "max_tokens": 20, "seed": i, "n": 1 + i % 2,
                   "logprobs": 1}
                  for i, word in enumerate(("One", "The cat", "Lily", "He", "A dog", "Tom") * 3)]
        alone = [self.server.post(TEXT, body)[1]["choices"] for body in bodies]
        together = [None] * len(bodies)

        def ask(i):
            together[i] = self.server.post(TEXT, bodies[i])[1]["choices"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        self.assertEqual(together, alone)


if __name__ == "__main__":
    sys.exit(not unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful())
