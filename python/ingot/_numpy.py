"""numpy, imported at the first call that takes or returns an array."""
from __future__ import annotations

try:
    import numpy
except ImportError as problem:
    raise ImportError("ingot needs numpy for arrays: pip install numpy") from problem

__all__ = ["numpy"]
