#!/usr/bin/env python3
"""check_container.py SOURCE WORK: builds the image of the Containerfile without a container engine.

Each stage starts as a copy of a Debian root that debootstrap makes.  COPY copies, ENV sets variables, and
RUN lines are executed in the root with chroot, in the order of the file.  Then the image's program serves
the bundled model as the image's user, who must not be root, and answers a completion.

WORK keeps the Debian root for the next run.  Needs root, debootstrap and the network of apt; skipped
(exit 77) without root or debootstrap.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

SOURCE, WORK = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEY = "a-key-of-the-test"


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, **options)
    if done.returncode != 0:
        print(done.stdout[-4000:])
        sys.exit(f"{shlex.join(map(str, command))}: exit {done.returncode}")
    return done.stdout


def debian_root():
    """The root that every stage starts from; apt in it is configured as on this machine."""
    root = WORK / "debian"
    if not (root / ".complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        run(["debootstrap", "--variant=minbase", "bookworm", root])
        (root / ".complete").touch()
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    for name in ("apt.conf.d", "sources.list.d"):
        shutil.copytree(f"/etc/apt/{name}", root / "etc/apt" / name, dirs_exist_ok=True)
    return root


def instructions():
    text = (SOURCE / "Containerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, rest = line.split(None, 1)
            yield word, rest


class Stage:
    def __init__(self, root):
        self.root = root
        self.folder, self.env, self.user, self.entry, self.command = "/", {}, "0:0", [], []

    def inside(self, path):
        return self.root / str(pathlib.PurePosixPath(self.folder) / path).lstrip("/")

    def chroot(self, words, user="0:0"):
        uid, gid = user.split(":")
        return ["chroot", f"--userspec={uid}:{gid}", str(self.root), "env", "-i", f"PATH={PATH}", "HOME=/root",
                *(f"{name}={value}" for name, value in self.env.items()), *words]

    def copy(self, words, stages):
        origin = SOURCE
        if words[0].startswith("--from="):
            origin = stages[words.pop(0).removeprefix("--from=")].root
        source, target = origin / words[0].lstrip("/"), self.inside(words[1])
        if origin is SOURCE and words[0] == ".":  # as .containerignore says: what git tracks or would
            ignored = (SOURCE / ".containerignore").read_text().split()
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True,
                            ignore=lambda folder, names: [n for n in names if n in ignored and folder == str(SOURCE)])
        elif source.is_dir():
            run(["cp", "-a", f"{source}/.", target])
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def build():
    stages, stage, base = {}, None, debian_root()
    for number, (word, rest) in enumerate(instructions()):
        print(f"{word} {rest}", flush=True)
        if word == "FROM":
            name = re.search(r"\bAS (\w+)", rest)
            root = WORK / f"stage{number}"
            shutil.rmtree(root, ignore_errors=True)
            run(["cp", "-a", "--reflink=auto", base, root])
            stage = stages[name[1] if name else ""] = Stage(root)
        elif word == "WORKDIR":
            stage.folder = rest
            stage.inside(".").mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            stage.copy(shlex.split(rest), stages)
        elif word == "ENV":
            stage.env.update([rest.split("=", 1)])
        elif word == "RUN":
            run(stage.chroot(["sh", "-c", f"cd {stage.folder} && {rest}"]))
        elif word == "USER":
            stage.user = rest
        elif word == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif word == "CMD":
            stage.command = json.loads(rest)
        elif word not in ("EXPOSE", "STOPSIGNAL"):
            sys.exit(f"check_container.py does not know {word}")
    return stage


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body and json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def serve(stage):
    if stage.user.split(":")[0] == "0": sys.exit("the image runs as root")
    shutil.copy(SOURCE / "models/stories.oam", stage.root / "srv/model.oam")
    stage.env["INGOT_API_KEY"] = KEY
    command = stage.entry + ["--host", "0.0.0.0", "--port", "0", "--model", "/srv/model.oam"]
    log = WORK / "serve.log"
    with open(log, "w") as out:
        server = subprocess.Popen(stage.chroot(command, stage.user), stdout=out, stderr=out)
    try:
        for _ in range(300):
            match = re.search(r"http://[^:\s]+:(\d+)", log.read_text())
            if match or server.poll() is not None: break
            time.sleep(0.1)
        if not match: sys.exit("the image's server did not start:\n" + log.read_text())
        for _ in range(300):
            try:
                ask(match[1], "/ready")
                break
            except OSError:
                time.sleep(0.1)
        reply = ask(match[1], "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8})
        assert reply["usage"]["completion_tokens"] == 8, reply
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
        assert re.search(r"^Uid:\s+10001\s+10001", status, re.M), status
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    assert code == 0, f"exit {code} after SIGTERM:\n{log.read_text()}"


if os.geteuid() != 0 or not shutil.which("debootstrap"):
    print("needs root and debootstrap")
    sys.exit(77)
WORK.mkdir(parents=True, exist_ok=True)
serve(build())
for stage_root in WORK.glob("stage*"):
    shutil.rmtree(stage_root, ignore_errors=True)
print("ok: the image was built, and serves as its own user")
