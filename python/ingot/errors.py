"""Exceptions: one class for each status of the library.

Every class derives from IngotError, and from the built-in exception that means the same, so that
`except ValueError` catches a wrong argument and `except MemoryError` a lack of memory.
"""
from __future__ import annotations

import re
from typing import Any


class IngotError(Exception):
    """A call of the library failed.

    status  the number of the library's ig_status
    where   the place in the library's source, or the function that failed
    why     the message, with the values that clashed
    """

    status = 0

    def __init__(self, status: int, where: str = "", why: str = "") -> None:
        Exception.__init__(self, status, where, why)
        self.status, self.where, self.why = status, where, why

    def __str__(self) -> str:
        return self.why

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.where, self.why)


class ArgumentError(IngotError, ValueError):
    """An argument is out of range, or unknown."""


class ShapeError(IngotError, ValueError):
    """Shapes or dtypes do not fit."""


class UnsupportedError(IngotError, NotImplementedError):
    """No device, or no part of this version, can do this."""


class OutOfMemoryError(IngotError, MemoryError):
    """Memory of the host or of the device ran out."""


class FileError(IngotError, OSError):
    """A file could not be read or written."""

    __str__ = IngotError.__str__


class FormatError(IngotError, ValueError):
    """A file is corrupt or has another format."""


class DeviceError(IngotError, RuntimeError):
    """A device is not there, or failed."""


class CancelledError(IngotError):
    """The call was cancelled."""


class SplitError(IngotError, RuntimeError):
    """A program has too many steps for its device."""


class StateError(IngotError, RuntimeError):
    """The call is not possible now."""


class NotFiniteError(IngotError, ArithmeticError):
    """A value is NaN or infinite."""


class ModelError(IngotError, LookupError):
    """There is no such architecture."""


class DependencyError(IngotError, ImportError):
    """A required library is missing."""


class LibraryError(DependencyError):
    """libingot.so is missing, or of another version than this package."""


class BusyError(IngotError, RuntimeError):
    """Too many requests wait already."""


# The rows of IG_STATUS_CODES in status.h.
BY_STATUS = {
    "IG_ERR_ARGUMENT": ArgumentError,
    "IG_ERR_SHAPE": ShapeError,
    "IG_ERR_UNSUPPORTED": UnsupportedError,
    "IG_ERR_MEMORY": OutOfMemoryError,
    "IG_ERR_IO": FileError,
    "IG_ERR_FORMAT": FormatError,
    "IG_ERR_DEVICE": DeviceError,
    "IG_ERR_CANCELLED": CancelledError,
    "IG_ERR_SPLIT": SplitError,
    "IG_ERR_STATE": StateError,
    "IG_ERR_NOT_FINITE": NotFiniteError,
    "IG_ERR_MODEL": ModelError,
    "IG_ERR_DEPENDENCY": DependencyError,
    "IG_ERR_BUSY": BusyError,
}


def error(name: str, why: str, where: str = "") -> IngotError:
    """The exception for a status by name, such as "IG_ERR_ARGUMENT"."""
    from ._abi import ENUMS
    return BY_STATUS[name](ENUMS[name], where, why)


def from_library(status: int, text: str, function: str) -> IngotError:
    """The exception for a status that the library returned, with its message."""
    from ._abi import ENUMS
    place = re.search(r" \((\w+\.\w+:\d+)\)$", text)
    why, where = (text[:place.start()], place[1]) if place else (text, function)
    for name, kind in BY_STATUS.items():
        if ENUMS[name] == status:
            return kind(status, where, why)
    return IngotError(status, where, why)
