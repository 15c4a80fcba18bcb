#!/usr/bin/env python3
"""Makes a wheel with tools/wheel and one with `pip install .`, and uses each as a user would.

Both go into a fresh virtual environment, outside of the tree: the package, the library, the program
and simnpu must be found there, and the libraries of the manylinux wheel inside it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WHEELS = ROOT / "build" / "peers" / "wheels"
USE = """
import ingot, numpy
from ingot._library import lib
assert ingot.__file__.startswith(ENV) and lib.path.startswith(ENV), (ingot.__file__, lib.path)
names = [one.name for one in ingot.devices() if one.available]
assert "cpu:0" in names and "simnpu:0" in names, names
model = ingot.Model(STORIES, device="cpu")
print(model.generate("Once upon a time", max_tokens=8, temperature=0))
assert (ingot.tensor([1.0, 2.0]) + 1).numpy().tolist() == [2.0, 3.0]
"""


def run(*words, cwd=ROOT):
    env = {name: value for name, value in os.environ.items() if name not in ("INGOT_LIBRARY",
                                                                             "PYTHONPATH")}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check_contents(path):
    """The tag, the record, and what a wheel must have."""
    assert re.fullmatch(r"ingot-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", path.name), path.name
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        listed = [line.split(",")[0] for line in wheel.read(record).decode().splitlines()]
    assert sorted(listed) == sorted(names), set(listed) ^ set(names)
    for name in ("ingot/py.typed", "ingot/lib/libingot.so", "ingot/bin/ingot",
                 "ingot/lib/ingot/plugins/simnpu.so", "ingot/share/ingot/stories.oam"):
        assert name in names, name
    assert any("licenses/LICENSE" in name for name in names), names


def check_use(env, folder, grafted):
    """The package and the program of the environment, from another folder."""
    stories = ROOT / "models" / "stories.oam"
    code = f"ENV, STORIES = {str(env)!r}, {str(stories)!r}\n{USE}"
    print(run(env / "bin" / "python", "-c", code, cwd=folder), end="")
    said = run(env / "bin" / "ingot", "generate", "-p", "Once upon a time", "-n", "12", "--temp", "0",
               cwd=folder)
    assert ", a kind boy named Leo" in said, said
    assert "simnpu:0" in run(env / "bin" / "ingot", "devices", cwd=folder)
    if grafted:
        library = next(env.glob("lib/python*/site-packages/ingot/bin/ingot"))
        outside = [line for line in run("ldd", library).splitlines() if "=> /" in line
                   and str(env) not in line and not re.search(r"\blib(c|m|dl|rt|pthread)\.so", line)]
        assert not outside, outside


def main():
    wheel = pathlib.Path(run(ROOT / "tools" / "wheel", WHEELS).split()[-1])
    check_contents(wheel)
    print(run(sys.executable, "-m", "twine", "check", "--strict", wheel), end="")
    with tempfile.TemporaryDirectory() as folder:
        env = pathlib.Path(folder).resolve() / "env"
        run(sys.executable, "-m", "venv", env)
        pip = [env / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run(*pip, wheel)
        check_use(env, folder, grafted=True)
        run(*pip, "--force-reinstall", "--no-deps", ROOT)
        check_use(env, folder, grafted=False)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


main()
