"""The progress of compilation on stderr: a bar the first time, a line from the cache later."""
from __future__ import annotations

import sys
from typing import Any

from ._library import ENUMS

WIDTH = 24


class Progress:
    """Called by the library with each event of a context."""

    def __init__(self) -> None:
        self.percent = -1

    def __call__(self, user: Any, event: int, done: int, total: int) -> None:
        if event == ENUMS["IG_PROGRESS_PROGRAMS_CACHED"]:
            print(f"Loaded compiled programs from the cache: {done}", file=sys.stderr)
        elif event == ENUMS["IG_PROGRESS_COMPILE"] and total > 0:
            self.show(100 * done // total)

    def show(self, percent: int) -> None:
        """Writes over the line of the bar; a full one ends it."""
        if percent == self.percent:
            return
        filled = WIDTH * percent // 100
        bar = ("=" * filled + ">")[:WIDTH].ljust(WIDTH)
        end = "\n" if percent >= 100 else ""
        print(f"\rCompiling [{bar}] {percent:3}%", end=end, file=sys.stderr, flush=True)
        self.percent = -1 if percent >= 100 else percent
