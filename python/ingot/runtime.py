"""init(), switch_device(), report() and the rest of what concerns the whole process.

One Runtime holds the settings, the context of tensors and modules, and the models that are open.  It
is made at the first use; init() makes another one.  A setting comes from the argument, else from the
library's own order: INGOT_DEVICE, RM_DEVICE, config.json.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple, TypeVar

from . import _abi
from ._library import lib, struct
from .context import Context
from .errors import IngotError, error

if TYPE_CHECKING:
    from .model import Adapter

HOOKS = ("transformers", "torch", "diffusers")
ENGINES = ("auto", "ingot", "vllm", "torch")
T = TypeVar("T")


class Device(NamedTuple):
    """A device of this machine, or one that is not available, with the reason."""

    name: str
    backend: str
    version: str
    available: bool
    reason: str
    description: str
    memory_bytes: int


def _flag(given: bool | None, variable: str) -> bool:
    return bool(given) if given is not None else os.environ.get(variable, "") not in ("", "0")


def trace(text: str) -> None:
    """Writes a decision to stderr if INGOT_TRACE is 1."""
    if os.environ.get("INGOT_TRACE", "") not in ("", "0"):
        print(f"ingot: {text}", file=sys.stderr)


class Runtime:
    """The settings of init(), and what was opened with them."""

    def __init__(self, device: str | None = None, cache_dir: str | None = None,
                 compile_options: dict[str, Any] | None = None, verbose: bool | None = None,
                 inference_engine: str | None = None, engine_options: dict[str, Any] | None = None,
                 *, strict: bool | None = None, report: str | None = None,
                 threads: int | None = None, seed: int = 0) -> None:
        self.requested = device
        self.engine = inference_engine or "auto"
        self.engine_options = dict(engine_options or {})
        self.report_path = report or os.environ.get("INGOT_REPORT")
        self.settings: dict[str, Any] = {
            "cache_dir": cache_dir, "compile_options": compile_options, "threads": threads,
            "strict": _flag(strict, "INGOT_STRICT"), "verbose": bool(verbose),
            "progress": sys.stderr.isatty() if verbose is None else verbose}
        self.seed = seed
        self.opened: "weakref.WeakSet[Adapter]" = weakref.WeakSet()
        self._tensors: Context | None = None
        self._lock = threading.Lock()
        self.pid = os.getpid()

    def new_context(self, device: str | None = None, **changes: Any) -> Context:
        """A context with the settings of init(), on its device unless another one is named."""
        return Context(device or self.requested, **{**self.settings, "seed": self.seed, **changes})

    @property
    def tensors(self) -> Context:
        """The context of tensors and modules, made at the first use."""
        with self._lock:
            if self._tensors is None:
                self._tensors = self.new_context()
                trace(f"tensors run on {self._tensors.device}")
            return self._tensors

    @property
    def device(self) -> str:
        """The device as resolved, such as "cpu:0"."""
        return self.tensors.device

    def report(self) -> dict[str, Any]:
        """What ran where; see ingot.report()."""
        parts = [(one.name, one.report()) for one in sorted(self.opened, key=lambda one: one.name)]
        if self._tensors is not None:
            parts.insert(0, ("tensors", self._tensors.report()))
        return {
            "schema_version": "1.0.0",
            "version": _abi.VERSION,
            "versions": {"python": sys.version.split()[0], "ingot": _abi.VERSION,
                         "library": lib.path, **_versions("numpy", "torch", "transformers")},
            "requested_device": self.requested,
            "inference_engine": "torch" if self.engine == "torch" else "ingot",
            "engine_options": self.engine_options,
            "patches": patches(),
            "backend_timeline": [{"module": entry.get("module") or name, "part": name, **entry}
                                 for name, part in parts
                                 for entry in part.get("backend_timeline") or []],
            "fallbacks": [{"part": name, **entry}
                          for name, part in parts for entry in part.get("fallbacks") or []],
            "parts": [{"name": name, **part} for name, part in parts],
        }

    def close(self) -> None:
        """Closes the models that are open, newest settings or not."""
        for one in list(self.opened):
            one.close()


def _versions(*names: str) -> dict[str, str]:
    """Versions of modules that the program has imported."""
    return {name: str(getattr(sys.modules[name], "__version__", "unknown"))
            for name in names if name in sys.modules}


_runtime: Runtime | None = None
_retired: list[Runtime] = []
_making = threading.RLock()


def _after_fork() -> None:
    """Another lock, since a thread of the parent may hold the old one."""
    global _making
    _making = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def current() -> Runtime:
    """The runtime of this process, with default settings unless init() was called."""
    global _runtime
    with _making:
        if _runtime is None or _runtime.pid != os.getpid():
            _runtime = Runtime()
        return _runtime


def init(device: str | None = None, cache_dir: str | None = None,
         compile_options: dict[str, Any] | None = None, verbose: bool | None = None,
         inference_engine: str | None = None, engine_options: dict[str, Any] | None = None, *,
         strict: bool | None = None, report: str | None = None, threads: int | None = None,
         seed: int = 0, hooks: Iterable[str] | None = None) -> Runtime:
    """Chooses the device and the options of everything that is made afterwards.

    device            "auto", "cpu", "gpu:0", "npu", ...; None: INGOT_DEVICE, else RM_DEVICE, else the
                      user's config.json, else "auto"
    cache_dir         folder of the compile cache
    compile_options   {"optimization_level", "precision", "batch_sizes"}, for devices that compile;
                      "batch_size" means the same
    verbose           log to stderr, and show the progress of compilation there; None: only that, on
                      a terminal
    inference_engine  "auto" and "ingot"; "vllm" means the same; "torch": no hooks
    engine_options    defaults of LLM: {"dtype", "tensor_parallel_size", "gpu_memory_utilization"}
    strict            a fallback to another device is an error; None: INGOT_STRICT
    report            file for the report at exit; None: INGOT_REPORT
    threads           threads of the CPU; None: as many as the process may use
    seed              of random weights and dropout
    hooks             libraries whose models run on Ingot.  This version has no hooks, so a name here
                      is an UnsupportedError; None: those that there are

    Called again, it replaces these settings; tensors and models that exist stay where they are.
    """
    global _runtime
    if inference_engine is not None and inference_engine not in ENGINES:
        raise error("IG_ERR_ARGUMENT", f"init: inference_engine {inference_engine!r}: expected one of "
                    + ", ".join(ENGINES))
    check_hooks(hooks)
    check_engine_options(engine_options or {})
    made = Runtime(device, cache_dir, compile_options, verbose, inference_engine, engine_options,
                   strict=strict, report=report, threads=threads, seed=seed)
    made.tensors  # a device that is not there fails here, not later
    with _making:
        if _runtime is not None:
            _retired.append(_runtime)
        _runtime = made
    return made


def check_hooks(hooks: Iterable[str] | None) -> None:
    for name in hooks or ():
        if name not in HOOKS:
            raise error("IG_ERR_ARGUMENT",
                        f"init: hooks {name!r}: expected " + ", ".join(HOOKS))
        raise error("IG_ERR_UNSUPPORTED", f"init: this version does not run models of {name}; "
                    "ingot.Model, ingot.LLM and ingot.nn do not need it")


def check_engine_options(options: dict[str, Any]) -> None:
    """Refuses what has no effect."""
    for name, value in options.items():
        if name == "tensor_parallel_size":
            if value != 1:
                raise error("IG_ERR_UNSUPPORTED", f"tensor_parallel_size {value}: a model runs on one "
                            "device; expected 1")
        elif name == "dtype":
            if value not in ("auto", None):
                raise error("IG_ERR_UNSUPPORTED", f"dtype {value!r}: weights keep the type of their "
                            "file; expected \"auto\".  `ingot quantize` and `ingot convert` change it")
        elif name == "gpu_memory_utilization":
            if not 0 < value <= 1:
                raise error("IG_ERR_ARGUMENT",
                            f"gpu_memory_utilization {value}: expected a share above 0 and up to 1")
        else:
            raise error("IG_ERR_ARGUMENT", f"engine_options: unknown option {name!r}; known are dtype, "
                        "tensor_parallel_size and gpu_memory_utilization")


def switch_device(device: str) -> None:
    """Moves tensors, modules and open models to another device.

    A step that has begun ends: backward() of its results is no longer possible.  On failure everything
    is where it was.
    """
    runtime = current()
    parts: list[Any] = [runtime.tensors, *runtime.opened]
    moved: list[tuple[Any, str]] = []
    try:
        for part in parts:
            before = part.device
            part.switch_device(device)
            moved.append((part, before))
    except IngotError:
        for part, before in reversed(moved):
            part.switch_device(before)
        raise
    runtime.requested = device
    trace(f"switched to {runtime.device}")


def devices() -> list[Device]:
    """The devices of this machine, those of plugins included, also unavailable ones."""
    found: list[Device] = []
    failures: list[BaseException] = []

    def add(user: Any, entry: Any) -> None:
        try:
            row = ctypes.cast(entry, ctypes.POINTER(struct("ig_device_entry"))).contents
            text = [(getattr(row, name) or b"").decode() for name in ("name", "backend", "version",
                                                                      "reason")]
            found.append(Device(text[0], text[1], text[2], row.available, text[3],
                                row.info.name.decode(errors="replace"), row.info.memory_bytes))
        except BaseException as problem:  # it would be lost in C
            failures.append(problem)

    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(add)
    lib.ig_devices_each(None, ctypes.cast(function, ctypes.c_void_p), None)
    if failures:
        raise failures[0]
    return found


def report() -> dict[str, Any]:
    """What ran where, and why.

    "parts" has the library's report of each context (docs/telemetry.md): that of tensors and modules,
    and one for each open model.  "backend_timeline" and "fallbacks" are those of all parts.
    """
    return current().report()


def explain() -> str:
    """Prints the report as a table, and returns it."""
    from ._explain import table
    text = table(report())
    print(text)
    return text


def patches() -> list[str]:
    """What the hooks have replaced in other libraries.  This version replaces nothing."""
    return []


def unhook() -> None:
    """Restores everything that hooks have replaced."""


def prepare(module: T, example: Any = None) -> T:
    """Makes a module of PyTorch run on Ingot: not in this version."""
    raise error("IG_ERR_UNSUPPORTED", f"prepare: this version does not run modules of PyTorch, such as "
                f"{type(module).__name__}; ingot.nn has modules of its own")


@contextlib.contextmanager
def disable() -> Iterator[None]:
    """Inside, calls of other libraries go to these libraries alone, as they do without hooks."""
    yield


def shutdown() -> None:
    """Closes all open models.  What is used afterwards begins with defaults."""
    global _runtime
    with _making:
        ended, _runtime = [*_retired, *([_runtime] if _runtime else [])], None
        _retired.clear()
    for one in ended:
        if one.pid == os.getpid():
            one.close()


@atexit.register
def _at_exit() -> None:
    """Writes the report, also after an exception, and ends the threads of engines."""
    runtime = _runtime
    path = runtime.report_path if runtime else os.environ.get("INGOT_REPORT")
    if path and (runtime is None or runtime.pid == os.getpid()):
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(current().report(), file, indent=1)
                file.write("\n")
        except (OSError, IngotError) as problem:
            print(f"ingot: the report was not written: {problem}", file=sys.stderr)
    shutdown()
