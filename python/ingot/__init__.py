"""Ingot: language models, embeddings and training on CPU, GPU and NPU.

    import ingot
    model = ingot.Model("model.gguf")
    print(model.generate("Once upon a time", max_tokens=40))

    llm = ingot.LLM("model.gguf")                     # many prompts: continuous batching
    for output in llm.generate(["A", "B"], ingot.SamplingParams(temperature=0)):
        print(output.outputs[0].text)

docs/python.md describes everything.  Importing this package loads neither the library nor numpy; the
first use of a name does what it needs.
"""
from __future__ import annotations

from ._abi import VERSION as __version__

TYPE_CHECKING = False  # as in typing, whose import would take half of ours

# Where each name comes from.
_HOMES = {
    "runtime": "Device Runtime devices disable explain init patches prepare report shutdown "
               "switch_device unhook",
    "errors": "ArgumentError BusyError CancelledError DependencyError DeviceError FileError FormatError "
              "IngotError LibraryError ModelError NotFiniteError OutOfMemoryError ShapeError SplitError "
              "StateError UnsupportedError",
    "model": "Model",
    "text": "ChatTemplate Tokenizer",
    "session": "Session",
    "llm": "CompletionOutput EmbeddingRequestOutput LLM Logprob RequestOutput",
    "sampling": "SamplingParams",
    "tensors": "Tensor mode no_grad scope step_end tensor",
}
_MODULES = ("nn", "optim", "ops")
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

# Written out for type checkers; a test compares it with the table above.
__all__ = [
    "__version__", "nn", "optim", "ops", "ArgumentError", "BusyError", "CancelledError",
    "ChatTemplate", "CompletionOutput", "DependencyError", "Device", "DeviceError",
    "EmbeddingRequestOutput", "FileError", "FormatError", "IngotError", "LLM", "LibraryError",
    "Logprob", "Model", "ModelError", "NotFiniteError", "OutOfMemoryError", "RequestOutput",
    "Runtime", "SamplingParams", "Session", "ShapeError", "SplitError", "StateError", "Tensor",
    "Tokenizer", "UnsupportedError", "devices", "disable", "explain", "init", "mode", "no_grad",
    "patches", "prepare", "report", "scope", "shutdown", "step_end", "switch_device", "tensor",
    "unhook",
]


def __getattr__(name: str) -> object:
    import importlib
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{home}", __name__)
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from . import nn, ops, optim
    from .errors import (ArgumentError, BusyError, CancelledError, DependencyError, DeviceError,
                         FileError, FormatError, IngotError, LibraryError, ModelError, NotFiniteError,
                         OutOfMemoryError, ShapeError, SplitError, StateError, UnsupportedError)
    from .llm import CompletionOutput, EmbeddingRequestOutput, LLM, Logprob, RequestOutput
    from .model import Model
    from .text import ChatTemplate, Tokenizer
    from .runtime import (Device, Runtime, devices, disable, explain, init, patches, prepare, report,
                          shutdown, switch_device, unhook)
    from .sampling import SamplingParams
    from .session import Session
    from .tensors import Tensor, mode, no_grad, scope, step_end, tensor
