"""Loads libingot.so and gives its functions their ctypes prototypes.

The tables of _abi.py are the only place that knows a signature.  The library is loaded at the first
use of `lib`, and a function gets its prototype at the first call, so importing the package costs
little.  A library whose version or struct sizes differ from the tables is refused with LibraryError.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from typing import Any, Callable, Iterator

from . import _abi
from .errors import LibraryError, from_library

ENUMS = _abi.ENUMS

SCALARS: dict[str, Any] = {
    "void": None, "bool": ctypes.c_bool, "char": ctypes.c_char, "i8": ctypes.c_int8,
    "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
    "size": ctypes.c_size_t, "f32": ctypes.c_float, "f64": ctypes.c_double,
    "str": ctypes.c_char_p, "ptr": ctypes.c_void_p, "status": ctypes.c_int32,
}
_structs: dict[str, Any] = {}


def type_of(text: str) -> Any:
    """The ctypes type of a type of the tables."""
    if text in SCALARS:
        return SCALARS[text]
    if text.startswith("fn:"):
        return ctypes.CFUNCTYPE(*map(type_of, text[3:].split(",")))
    if text.endswith("]"):
        element, _, count = text[:-1].partition("[")
        return type_of(element) * int(count)
    return struct(text)


def struct(name: str) -> Any:
    """The ctypes.Structure of a struct of the C API."""
    made = _structs.get(name)
    if made is None:
        fields = [field.rsplit(" ", 1) for field in _abi.STRUCTS[name].split(", ")]
        made = type(name, (ctypes.Structure,),
                    {"_fields_": [(field, type_of(kind)) for field, kind in fields]})
        _structs[name] = made
    return made


def callback(structure: str, field: str) -> Any:
    """The ctypes type of a function that a struct points to."""
    return dict(struct(structure)._fields_)[field]


def candidates() -> Iterator[str]:
    """Where the library may be: $INGOT_LIBRARY alone, or beside this package, in the build tree of a
    clone, and where the system's loader looks."""
    chosen = os.environ.get("INGOT_LIBRARY")
    if chosen:
        # The library looks for plugins beside itself, and knows its path only if that is absolute.
        yield os.path.abspath(chosen) if os.sep in chosen else chosen
        return
    package = pathlib.Path(__file__).resolve().parent
    yield str(package / "lib" / "libingot.so")
    clone = package.parent.parent
    if (clone / "include" / "ingot" / "ingot.h").exists():
        for preset in ("release", "debug", "clang"):
            yield str(clone / "build" / preset / "lib" / "libingot.so")
    yield "libingot.so." + _abi.VERSION.split(".")[0]


def _open() -> ctypes.CDLL:
    tried = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append(f"{path}: no such file")
            continue
        try:
            return ctypes.CDLL(path)
        except OSError as problem:
            tried.append(str(problem))
    raise LibraryError(ENUMS["IG_ERR_DEPENDENCY"], "libingot.so",
                       "libingot.so cannot be loaded: " + "; ".join(tried))


def _refuse(library: ctypes.CDLL, why: str) -> LibraryError:
    return LibraryError(ENUMS["IG_ERR_DEPENDENCY"], library._name,
                        f"{library._name} does not fit this package, {_abi.VERSION}: {why}")


def _check_abi(library: ctypes.CDLL) -> None:
    """The library must have this package's version, and structs of the same sizes."""
    try:
        version, size = library.ig_version, library.ig_struct_size
    except AttributeError:
        raise _refuse(library, "it has no ig_version() or no ig_struct_size()") from None
    version.restype, version.argtypes = ctypes.c_char_p, []
    size.restype, size.argtypes = ctypes.c_size_t, [ctypes.c_char_p]
    found = version().decode()
    if found.split(".")[:2] != _abi.VERSION.split(".")[:2]:
        raise _refuse(library, f"its version is {found}")
    for name in _abi.STRUCTS:
        ours, theirs = ctypes.sizeof(struct(name)), size(name.encode())
        if ours != theirs:
            raise _refuse(library, f"its {name} has {theirs} bytes instead of {ours}")


class Library:
    """The functions of libingot.so; those that return a status raise an IngotError instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._library: ctypes.CDLL | None = None

    def load(self) -> ctypes.CDLL:
        with self._lock:
            if self._library is None:
                library = _open()
                _check_abi(library)
                self._library = library
            return self._library

    @property
    def path(self) -> str:
        """The file that was loaded."""
        return self.load()._name

    def __getattr__(self, name: str) -> Any:
        row = _abi.FUNCTIONS.get(name)
        if row is None:
            raise AttributeError(f"the C API has no {name}")
        library = self.load()
        try:
            function = getattr(library, name)
        except AttributeError:
            raise _refuse(library, f"it has no {name}()") from None
        result, *arguments = row.split()
        function.restype = type_of(result)
        function.argtypes = [type_of(one) for one in arguments if one != "..."]
        if result == "status":
            function.errcheck = _raise_failure
        setattr(self, name, function)
        return function


lib: Any = Library()


def _raise_failure(status: int, function: Any, arguments: Any) -> int:
    if status != 0:
        raise from_library(status, (lib.ig_error_text() or b"").decode(errors="replace"),
                           function.__name__)
    return status


def text_of(function: Callable[..., int], *arguments: Any) -> str:
    """The text of a function that writes like snprintf: ask for the size, then for the text."""
    room = function(*arguments, None, 0) + 1
    while True:
        buffer = ctypes.create_string_buffer(room)
        needed = function(*arguments, buffer, room)
        if needed < room:
            return buffer.value.decode()
        room = needed + 1


def view_of(view: Any) -> bytes:
    """The bytes of an ig_string_view or ig_string."""
    return ctypes.string_at(view.bytes, view.n_bytes) if view.n_bytes else b""


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    """A string for the library, or None."""
    return None if text is None else os.fsencode(text)
