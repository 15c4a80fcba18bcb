"""What the tests share: models made here, and programs run in a process of their own."""
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORIES = str(ROOT / "models" / "stories.oam")
WAIT_S = 120  # for anything that ends by itself: only a hanging program takes so long

sys.path.insert(0, str(ROOT / "python"))

import ingot  # noqa: E402
from ingot._library import lib  # noqa: E402

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
_folder = tempfile.TemporaryDirectory()


@functools.lru_cache(maxsize=None)
def synthetic(name):
    """The path of a synthetic GGUF model in F32."""
    path = os.path.join(_folder.name, f"{name}.gguf")
    lib.ig_synthetic_model_write(name.encode(), 0, path.encode())
    return path


def python(*words, env=None, **options):
    """Runs this interpreter with the package on its path."""
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=WAIT_S,
                          env={**os.environ, "PYTHONPATH": path, **(env or {})}, **options)


def program(code, *words, env=None):
    """Runs code, which must succeed; returns what it prints."""
    done = python("-c", code, *words, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
