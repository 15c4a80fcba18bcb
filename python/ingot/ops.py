"""Ops that are no methods of Tensor, with the C API's names."""
from __future__ import annotations

import ctypes
from typing import Any, Sequence

from . import runtime
from ._library import lib, struct
from .errors import error
from .tensors import Tensor, call, desc_of


def full(shape: Sequence[int], value: float, dtype: str = "f32") -> Tensor:
    """A tensor filled with a value."""
    context = runtime.current().tensors
    with context as ctx:
        return call(context, lib.ig_full, ctx, desc_of(dtype, shape), value)


def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    if not tensors:
        raise error("IG_ERR_ARGUMENT", "concat: no tensors")
    array = (ctypes.c_void_p * len(tensors))(*[one._handle for one in tensors])
    return call(tensors[0]._context, lib.ig_concat, array, len(tensors), axis)


def embedding(table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table [v, d] by ids [...] (i32): [..., d]."""
    return call(table._context, lib.ig_embedding, table, ids)


def gather(x: Tensor, index: Tensor, axis: int) -> Tensor:
    return call(x._context, lib.ig_gather, x, index, axis)


def pad(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """Adds zeros along an axis."""
    return call(x._context, lib.ig_pad, x, axis, before, after)


def dropout(x: Tensor, p: float) -> Tensor:
    """Zeroes a share p of the elements and divides the others by 1 - p."""
    return call(x._context, lib.ig_dropout, x, p)


def cross_entropy(logits: Tensor, targets: Any) -> Tensor:
    """The mean over all rows of logits [..., n], with targets [...] (i32)."""
    return call(logits._context, lib.ig_cross_entropy, logits, _ids(targets))


def mse(got: Tensor, want: Any) -> Tensor:
    """The mean squared error."""
    return call(got._context, lib.ig_mse, got, got._like(want))


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    return call(x._context, lib.ig_rms_norm, x, weight, eps)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    return call(x._context, lib.ig_layer_norm, x, weight, bias, eps)


def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float = 0.0,
              causal: bool = False) -> Tensor:
    """q [b, t, h, d], k [b, s, g, d], v [b, s, g, e] -> [b, t, h, e]; scale 0: 1 / sqrt(d)."""
    return call(q._context, lib.ig_attention, q, k, v,
                struct("ig_attention_options")(scale=scale, causal=causal))


def rope(x: Tensor, positions: Any, *, freq_base: float = 10000.0, freq_scale: float = 1.0,
         rotary_dims: int = 0, neox: bool = True) -> Tensor:
    """Rotary position embedding of x [..., t, h, d] at positions [t] (i32)."""
    return call(x._context, lib.ig_rope, x, _ids(positions), struct("ig_rope_options")(
        freq_base=freq_base, freq_scale=freq_scale, rotary_dims=rotary_dims, type=int(neox)))


def _ids(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else Tensor(values, "i32")
