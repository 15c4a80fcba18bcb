"""A running `ingot serve` for tests: started on a free port, ended by its own process."""
import http.client
import json
import os
import signal
import subprocess
import threading
import time

WAIT_S = 60  # for anything that ends by itself: only a hanging server takes so long


class Server:
    """The program with these options; waits until it listens, or has ended."""

    def __init__(self, program, *options, port="0", env=None, pass_fds=(), stdin=None):
        place = ["--port", port] if port is not None else []
        self.lines = []
        self.url = None
        self.listens = threading.Event()
        self.process = subprocess.Popen(
            [program, "serve", *place, *options], stderr=subprocess.PIPE, stdin=stdin,
            stdout=subprocess.PIPE, text=True, pass_fds=pass_fds,
            env={**os.environ, **(env or {})})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.listens.wait(WAIT_S), self.log()

    def _read(self):
        for line in self.process.stderr:
            self.keep(line.rstrip("\n"))
            if line.startswith("listening on "):
                self.url = line.split()[2]
                self.listens.set()
        self.listens.set()

    def keep(self, line):
        """Takes a line of the log."""
        self.lines.append(line)

    def log(self):
        return "\n".join(self.lines)

    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port(), timeout=WAIT_S)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, text) of one request on a connection of its own."""
        connection = self.connect()
        try:
            data = None if body is None else json.dumps(body)
            kind = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, data, {**kind, **(headers or {})})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode()
        finally:
            connection.close()

    def get(self, path, **more):
        """(status, JSON) of a GET."""
        status, _, text = self.ask("GET", path, **more)
        return status, json.loads(text)

    def post(self, path, body, **more):
        status, _, text = self.ask("POST", path, body, **more)
        return status, json.loads(text)

    def until(self, what):
        """Waits until what() is true; the value."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            value = what()
            if value:
                return value
            time.sleep(0.01)
        raise AssertionError(f"not within {WAIT_S} s\n{self.log()}")

    def ready(self):
        self.until(lambda: self.ask("GET", "/ready")[0] == 200)
        return self

    def send(self, number):
        self.process.send_signal(number)

    def wait(self):
        """The exit code."""
        code = self.process.wait(WAIT_S)
        self.reader.join(WAIT_S)
        return code

    def stop(self, number=signal.SIGINT):
        self.send(number)
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
