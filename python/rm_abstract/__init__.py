"""Ingot under the name rm_abstract, for scripts that are written for that.

    import rm_abstract
    rm_abstract.init(device="npu:0")        # or RM_DEVICE and RM_CACHE_DIR
    rm_abstract.switch_device("cpu")

Every name of ingot is here.  init() shows the progress of compilation, as verbose=True does there.
"""
from __future__ import annotations

import sys
from typing import Any

import ingot


def init(device: str | None = None, cache_dir: str | None = None,
         compile_options: dict[str, Any] | None = None, verbose: bool = True,
         inference_engine: str | None = None, engine_options: dict[str, Any] | None = None,
         **options: Any) -> ingot.Runtime:
    """See ingot.init()."""
    runtime = ingot.init(device, cache_dir, compile_options, verbose, inference_engine,
                         engine_options, **options)
    print(f"rm_abstract: ingot {ingot.__version__} on {runtime.device}"
          + ("" if ingot.patches() else ", and models of transformers in PyTorch"), file=sys.stderr)
    return runtime


def __getattr__(name: str) -> Any:
    return getattr(ingot, name)
