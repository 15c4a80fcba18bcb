#!/usr/bin/env python3
"""`ingot serve` over TLS: replies and streams, old versions, and certificates that change.

    python3 tests/e2e/test_serve_tls.py PATH/ingot STORIES.oam

openssl makes the certificates.
"""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import warnings

from serving import WAIT_S, Server

PROGRAM, STORIES = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
CERT, KEY = (os.path.join(FOLDER.name, name) for name in ("cert.pem", "key.pem"))
ASK = {"prompt": "Once upon a time", "max_tokens": 16, "temperature": 0, "ignore_eos": True}


def make_certificate():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", KEY, "-out", CERT],
                   check=True, capture_output=True, timeout=WAIT_S)


class TlsServer(Server):
    """What is asked goes over TLS, with the certificate of the file checked."""

    def context(self):
        return ssl.create_default_context(cafile=CERT)

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port(), timeout=WAIT_S,
                                           context=self.context())


def serve(*options):
    return TlsServer(PROGRAM, "-t", "1", "--device", "cpu", "--drain-delay", "0", "-m", STORIES,
                     "--ssl-cert-file", CERT, "--ssl-key-file", KEY, *options)


def served_certificate(port):
    """As DER, whatever signed it."""
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as plain:
        with context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_certificate()
        cls.server = serve().ready()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            assert cls.server.stop(signal.SIGTERM) == 0, cls.server.log()

    def test_the_log_names_https(self):
        self.assertTrue(self.server.url.startswith("https://"))

    def test_a_reply_and_a_stream_have_the_same_text(self):
        status, whole = self.server.post("/v1/completions", ASK)
        self.assertEqual(status, 200)
        status, headers, text = self.server.ask("POST", "/v1/completions", {**ASK, "stream": True})
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        self.assertEqual(events.pop(), "[DONE]")
        pieces = [json.loads(event)["choices"][0]["text"] for event in events]
        self.assertEqual("".join(pieces), whole["choices"][0]["text"])
        self.assertGreater(len(pieces), 8)

    def test_a_connection_serves_several_requests(self):
        connection = self.server.connect()
        for _ in range(5):
            connection.request("GET", "/v1/models")
            reply = connection.getresponse()
            self.assertEqual((reply.status, json.load(reply)["object"]), (200, "list"))
        connection.close()

    def test_a_large_body_arrives(self):
        body = {**ASK, "user": "x" * (1 << 20), "max_tokens": 1}
        self.assertEqual(self.server.post("/v1/completions", body)[0], 200)

    def test_old_versions_are_refused(self):
        context = ssl._create_unverified_context()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", self.server.port()), WAIT_S) as plain:
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(plain)
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_plain_http_gets_nothing(self):
        with socket.create_connection(("127.0.0.1", self.server.port()), WAIT_S) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                self.assertNotIn(b"200", plain.recv(1000))
            except ConnectionError:
                pass
        self.assertEqual(self.server.get("/health")[0], 200)


class Certificates(unittest.TestCase):
    def test_sighup_takes_a_new_one_and_keeps_the_old_one_if_it_is_wrong(self):
        make_certificate()
        with serve().ready() as server:
            first = served_certificate(server.port())
            make_certificate()
            server.send(signal.SIGHUP)
            server.until(lambda: served_certificate(server.port()) != first)
            second = served_certificate(server.port())
            self.assertEqual(server.post("/v1/completions", ASK)[0], 200)
            with open(CERT, "w") as file:
                file.write("no certificate\n")
            server.send(signal.SIGHUP)
            server.until(lambda: CERT in server.log())
            self.assertEqual(served_certificate(server.port()), second)
            self.assertEqual(server.stop(), 0)

    def test_a_wrong_one_ends_the_program(self):
        make_certificate()
        with open(KEY, "w") as file:
            file.write("no key\n")
        with serve() as server:
            self.assertNotEqual(server.wait(), 0)
            self.assertIn(KEY, server.log())

    def test_one_without_a_key_is_refused(self):
        make_certificate()
        with TlsServer(PROGRAM, "-m", STORIES, "--ssl-cert-file", CERT) as server:
            self.assertEqual(server.wait(), 2)
            self.assertIn("a key file", server.log())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
