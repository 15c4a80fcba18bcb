#!/usr/bin/env python3
"""check_nginx.py SOURCE INGOT: packaging/nginx/ingot.conf in front of a server.

nginx accepts the file, streams arrive event by event and not all at once, and the server takes the client's
address from the proxy.  Skipped (exit 77) without nginx.
"""
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SOURCE, INGOT = pathlib.Path(sys.argv[1]), sys.argv[2]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found: return found
        time.sleep(0.05)
    sys.exit("timeout")


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def configure(folder, port, upstream):
    text = (SOURCE / "packaging/nginx/ingot.conf").read_text()
    text, n = re.subn(r"server 127\.0\.0\.1:\d+;", f"server 127.0.0.1:{upstream};", text)
    text, m = re.subn(r"listen 127\.0\.0\.1:\d+;", f"listen 127.0.0.1:{port};", text)
    assert n == m == 1, "ingot.conf has another form"
    paths = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    file = pathlib.Path(folder, "nginx.conf")
    file.write_text(f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
                    f"events {{}}\nhttp {{ access_log off; {paths}\n{text}\n}}\n")
    return file


def stream(port):
    """The times at which events of a stream arrive."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"prompt": "Once upon a time", "max_tokens": 64, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    events = []
    for line in reply:
        if line.startswith(b"data: "): events.append((time.monotonic(), line[6:].strip()))
    assert events[-1][1] == b"[DONE]", events[-1]
    return events


def check(folder):
    upstream, port = free_port(), free_port()
    log = pathlib.Path(folder, "serve.log")
    with open(log, "w") as out:
        server = subprocess.Popen([INGOT, "serve", "--port", str(upstream), "--trusted-proxy", "127.0.0.1",
                                   "--model", SOURCE / "models/stories.oam"], stdout=out, stderr=out)
    proxy = None
    try:
        conf = configure(folder, port, upstream)
        subprocess.run(["nginx", "-t", "-c", conf, "-p", folder], check=True, timeout=60)
        proxy = subprocess.Popen(["nginx", "-c", conf, "-p", folder])
        wait_for(lambda: listens(port) and listens(upstream))
        events = stream(port)
        reads = len({when for when, _ in events})
        assert reads > 8, f"{len(events)} events arrived in {reads} pieces"
        print(f"ok: {len(events)} events in {reads} reads")
    finally:
        if proxy: stop(proxy)
        stop(server)
    assert server.returncode == 0, log.read_text()


if not shutil.which("nginx"):
    print("needs nginx")
    sys.exit(77)
with tempfile.TemporaryDirectory() as work:
    check(work)
