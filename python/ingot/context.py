"""A context of the library with its lock, and Ctrl-C inside its calls.

The library lets one thread at a time use a context.  Every object of this package that belongs to one
holds `context.lock` around its calls, so threads may share the object.  Handles that the garbage
collector drops while another thread is inside a call wait in `dropped` until the next one.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import signal
import threading
from typing import Any, Callable, Iterator

from ._library import callback, encoded, lib, struct, text_of
from ._progress import Progress
from .errors import CancelledError, StateError, error

FLOWS = ("cpu direct", "gpu direct", "npu compile")  # by ig_device_class
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class Context:
    """One ig_ctx: a device with its threads, memory, plans and report."""

    def __init__(self, device: str | None = None, *, cache_dir: str | None = None,
                 compile_options: dict[str, Any] | None = None, threads: int | None = None,
                 seed: int = 0, strict: bool = False, verbose: bool = False,
                 progress: bool = False, memory_bytes: int = 0) -> None:
        self.lock = threading.RLock()
        self.dropped: collections.deque[tuple[Callable[[Any], None], Any]] = collections.deque()
        self.handle = ctypes.c_void_p()
        self._stop = False
        self.stop_asked: Callable[[], bool] | None = None  # of the call that holds the lock
        self._forks = _forks
        self._cancel = callback("ig_ctx_options", "cancel")(lambda user: self.stopping)
        if progress:
            self._progress = callback("ig_ctx_options", "progress")(Progress())
        options = struct("ig_ctx_options")(
            device=encoded(device), cache_dir=encoded(cache_dir), threads=threads or 0, seed=seed,
            strict=strict, verbose=verbose, cancel=self._cancel, memory_bytes=memory_bytes,
            compile=compile_options_of(compile_options))
        if progress:
            options.progress = self._progress
        lib.ig_ctx_create(ctypes.byref(options), ctypes.byref(self.handle))

    @property
    def forked(self) -> bool:
        """Whether this is a child process: the threads of the context are in its parent."""
        return self._forks != _forks

    def check(self) -> None:
        """Raises StateError if the context is closed, or of the parent process."""
        if self.forked:
            raise error("IG_ERR_STATE", "context: it was created before this process was forked")
        if not self.handle:
            raise error("IG_ERR_STATE", "context: it is closed")

    def __enter__(self) -> ctypes.c_void_p:
        """Holds the lock; the value is the handle."""
        if self._forks != _forks:
            self.check()  # before the lock, which a thread of the parent may hold
        self.lock.acquire()
        try:
            if not self.handle:
                self.check()
            if self.dropped:
                self.release_dropped()
        except BaseException:
            self.lock.release()
            raise
        return self.handle

    def __exit__(self, *exception: Any) -> None:
        self.lock.release()

    def release_dropped(self) -> None:
        while self.dropped:
            release, handle = self.dropped.popleft()
            release(handle)

    def drop(self, release: Callable[[Any], None], handle: Any) -> None:
        """Releases a handle now, or with the next call where another thread holds the lock."""
        if self.forked or not self.handle:
            return
        if not self.lock.acquire(blocking=False):
            self.dropped.append((release, handle))
            return
        try:
            release(handle)
        finally:
            self.lock.release()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[ctypes.c_void_p]:
        """As `with context`, for calls that take long: Ctrl-C ends them through the context's cancel().

        Python runs signal handlers between its own instructions, and an exception of a handler
        inside a callback from C would be lost.  So while such a call runs in the main thread, the
        handler only asks it to end, and the handler of the program runs after it.
        """
        with self as handle:
            previous = None
            if threading.current_thread() is threading.main_thread():
                previous = signal.getsignal(signal.SIGINT)
            if not callable(previous):
                yield handle
                return
            received: list[Any] = []

            def remember(number: int, frame: Any) -> None:
                received.append(frame)
                self._stop = True

            signal.signal(signal.SIGINT, remember)
            failure = None
            try:
                yield handle
            except CancelledError as problem:
                failure = problem
            finally:
                self._stop = False
                signal.signal(signal.SIGINT, previous)
                if received:
                    previous(signal.SIGINT, received[0])
            if failure is not None:
                raise failure

    @property
    def stopping(self) -> bool:
        """Whether the running call has been asked to end."""
        return self._stop or (self.stop_asked is not None and self.stop_asked())

    @property
    def device(self) -> str:
        """The device as resolved, such as "cpu:0"."""
        with self as handle:
            return str(lib.ig_ctx_device(handle).decode())

    def switch_device(self, device: str) -> None:
        """Moves everything of the context; a step that has begun ends, and its backward() with it."""
        with self as handle:
            try:
                lib.ig_switch_device(handle, encoded(device))
            except StateError:
                lib.ig_ctx_step_end(handle)
                lib.ig_switch_device(handle, encoded(device))

    def report(self) -> dict[str, Any]:
        """The library's run report: docs/telemetry.md has its fields."""
        with self as handle:
            made: dict[str, Any] = json.loads(text_of(lib.ig_report_json, handle))
            return {**made, "backend": lib.ig_ctx_device(handle).decode(),
                    "flow": FLOWS[lib.ig_ctx_device_class(handle)]}

    def close(self) -> None:
        """Destroys the context; everything that belongs to it must be closed before."""
        if self.forked:
            return
        with self.lock:
            if self.handle:
                self.release_dropped()
                lib.ig_ctx_destroy(self.handle)
                self.handle = ctypes.c_void_p()


def compile_options_of(given: dict[str, Any] | None) -> Any:
    """ig_compile_options from {"optimization_level": 3, "precision": "bf16", "batch_sizes": [1, 8]}."""
    given = dict(given or {})
    level = given.pop("optimization_level", 0)
    precision = given.pop("precision", None)
    sizes = given.pop("batch_sizes", given.pop("batch_size", None))
    if given:
        raise error("IG_ERR_ARGUMENT", f"compile_options: unknown option {next(iter(given))!r}; known "
                    "are optimization_level, precision and batch_sizes")
    if isinstance(sizes, int):
        sizes = [sizes]
    if sizes is not None and not isinstance(sizes, str):
        sizes = ",".join(str(size) for size in sizes)
    return struct("ig_compile_options")(optimization_level=level, precision=encoded(precision),
                                        batch_sizes=encoded(sizes))
