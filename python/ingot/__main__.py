"""python -m ingot [--device D] [--report F] [--strict] [--trace] (script.py | -m mod | -c code) args

Runs a program as python does, with sys.argv, sys.path, exit status and tracebacks as usual, and with
these options as defaults of ingot.init().
"""
from __future__ import annotations

import os
import runpy
import sys

VALUES = {"--device": "INGOT_DEVICE", "--report": "INGOT_REPORT", "--cache-dir": "INGOT_CACHE_DIR"}
FLAGS = {"--strict": "INGOT_STRICT", "--trace": "INGOT_TRACE"}
USAGE = ("usage: python -m ingot [--device D] [--report FILE] [--cache-dir DIR] [--strict] [--trace]\n"
         "                       (script.py | -m module | -c code) [argument ...]")


def refuse(text: str) -> None:
    print(f"ingot: {text}\n{USAGE}", file=sys.stderr)
    sys.exit(2)


def take_options(words: list[str]) -> list[str]:
    """Puts our options into the environment; what remains is the program."""
    while words and words[0].startswith("--"):
        name, equals, value = words[0].partition("=")
        if name == "--help":
            print(USAGE)
            sys.exit(0)
        if name in FLAGS and not equals:
            os.environ[FLAGS[name]] = "1"
            words = words[1:]
        elif name in VALUES and (equals or len(words) > 1):
            os.environ[VALUES[name]] = value if equals else words[1]
            words = words[1:] if equals else words[2:]
        else:
            refuse(f"{words[0]}: unknown option, or one without its value")
    return words


def main() -> None:
    words = take_options(sys.argv[1:])
    if not words or (words[0] in ("-m", "-c") and len(words) < 2):
        refuse("no program to run")
    from . import runtime
    runtime.current()  # the report at exit, whatever the program does
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        exec(compile(words[1], "<string>", "exec"), main_namespace())
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        run_script(words[0])


def main_namespace() -> dict[str, object]:
    """The namespace of a fresh __main__."""
    import types
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    vars(module)["__builtins__"] = __builtins__
    return vars(module)


def run_script(path: str) -> None:
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as problem:
        refuse(f"can't open file {path!r}: {problem.strerror}")
    names = main_namespace()
    names["__file__"] = path
    exec(compile(source, path, "exec"), names)


def program() -> None:
    """The command `ingot` of the wheel: the program that is inside."""
    import pathlib
    path = pathlib.Path(__file__).resolve().parent / "bin" / "ingot"
    if not path.exists():
        sys.exit(f"ingot: {path} is missing: this package was not installed from a wheel")
    os.execv(path, [str(path), *sys.argv[1:]])


if __name__ == "__main__":
    main()
