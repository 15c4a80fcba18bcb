#!/usr/bin/env python3
"""check_python.py LIBRARY: the Python package with numpy beside it.

Runs tests/python with pytest, where only the lack of a device may skip one, type-checks the package, and parses it as
the oldest and the newest Python that it is for.
"""
import ast
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSIONS = ((3, 9), (3, 13))


def run(*words):
    env = {**os.environ, "INGOT_LIBRARY": sys.argv[1], "MYPYPATH": "python"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(f"python -m {' '.join(words)}: exit code {done.returncode}")
    return done.stdout


for path in (ROOT / "python").rglob("*.py"):
    for version in VERSIONS:
        ast.parse(path.read_text(), str(path), feature_version=version)
said = run("pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/python")
skipped = [line for line in said.splitlines() if line.startswith("SKIPPED") and "device" not in line]
if skipped or not re.search(r"[1-9]\d* passed", said):
    sys.exit("every test of tests/python must run here")
run("mypy", "--strict", "--cache-dir", os.devnull, "python/ingot", "python/rm_abstract")
