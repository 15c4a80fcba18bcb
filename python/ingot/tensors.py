"""Tensor: an array on the device, with numpy's operators and gradients.

    x = ingot.tensor([[1.0, 2.0]])
    w = ingot.tensor([[3.0], [4.0]], requires_grad=True)
    (x @ w).sum().backward()
    w.grad.numpy()

Every op is a call of the library, which runs it at once, records it for the backward pass and, in the
mode "compiled", replays the whole step.  An op whose shapes do not fit raises ShapeError here, not
later.
"""
from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any, Iterator, Sequence, Union

from . import runtime
from ._library import ENUMS, lib, struct
from .context import Context
from .errors import error

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

Number = Union[int, float]
MODES = {"dynamic": "IG_MODE_DYNAMIC", "compiled": "IG_MODE_COMPILED", "auto": "IG_MODE_AUTO"}
# Dtypes that numpy has, by the library's names.
NUMPY_TYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "i32": "int32"}


def shape_of(dims: Sequence[int]) -> Any:
    if len(dims) > ENUMS["IG_MAX_RANK"]:
        raise error("IG_ERR_SHAPE",
                    f"shape {list(dims)}: {len(dims)} dimensions, at most {ENUMS['IG_MAX_RANK']}")
    made = struct("ig_shape")(rank=len(dims))
    for i, extent in enumerate(dims):
        made.dim[i] = extent
    return made


def desc_of(dtype: str, dims: Sequence[int]) -> Any:
    return struct("ig_desc")(dtype_number(dtype), shape_of(dims))


def dtype_number(name: str) -> int:
    found = ctypes.c_int32()
    if not lib.ig_dtype_find(name.encode(), ctypes.byref(found)):
        raise error("IG_ERR_ARGUMENT", f"dtype {name!r}: expected f32, f64, f16, bf16 or i32")
    return found.value


class Tensor:
    """An array on the device."""

    __slots__ = ("_handle", "_context", "__weakref__")
    __array_priority__ = 1000  # numpy leaves operators with an array on the left to us

    def __init__(self, data: Any, dtype: str | None = None, requires_grad: bool = False) -> None:
        """A copy of a number, nested lists or an array; see ingot.tensor()."""
        context = runtime.current().tensors
        array, kind = host_array(data, dtype)
        handle = ctypes.c_void_p()
        with context as ctx:
            lib.ig_tensor_create(ctx, desc_of(kind, array.shape), ctypes.byref(handle))
        self._handle: Any = handle.value
        self._context: Context = context
        with context:
            lib.ig_tensor_write_as(self._handle, dtype_number(LOADED.get(kind, kind)),
                                   array.ctypes.data, array.nbytes) if kind != "i32" else \
                lib.ig_tensor_write(self._handle, array.ctypes.data, array.nbytes)
            if requires_grad:
                lib.ig_tensor_require_grad(self._handle)

    @classmethod
    def _own(cls, handle: int, context: Context) -> Tensor:
        """Wraps a handle whose reference the caller gives away."""
        made = cls.__new__(cls)
        made._handle, made._context = handle, context
        return made

    @classmethod
    def _lent(cls, handle: int, context: Context) -> Tensor:
        """Wraps a borrowed handle: takes a reference of its own."""
        return cls._own(lib.ig_tensor_retain(handle), context)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._context.drop(lib.ig_tensor_release, handle)

    # ---- what it is ----

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self._desc().shape
        return tuple(shape.dim[:shape.rank])

    @property
    def dtype(self) -> str:
        """"f32", "f64", "f16", "bf16" or "i32"."""
        return str(lib.ig_dtype_name(self._desc().dtype).decode())

    @property
    def ndim(self) -> int:
        return int(self._desc().shape.rank)

    @property
    def size(self) -> int:
        return int(lib.ig_shape_count(self._desc().shape))

    @property
    def T(self) -> Tensor:
        """The last two dimensions exchanged."""
        return self.transpose(-1, -2)

    @property
    def device(self) -> str:
        return self._context.device

    @property
    def name(self) -> str:
        """A parameter's path; "": none."""
        return str(lib.ig_tensor_name(self._handle).decode())

    def _desc(self) -> Any:
        self._context.check()
        return lib.ig_tensor_desc(self._handle)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.size > 1000:
            return f"Tensor({list(self.shape)}, {self.dtype}, device {self.device})"
        return f"Tensor({self.numpy()!r}, {self.dtype})"

    # ---- what it holds ----

    def numpy(self) -> Array:
        """A copy as an array; bf16 becomes float32."""
        from ._numpy import numpy as np
        kind = LOADED.get(self.dtype, self.dtype)
        out = np.empty(self.shape, NUMPY_TYPES[kind])
        with self._context:
            if kind == self.dtype:
                lib.ig_tensor_read(self._handle, out.ctypes.data, out.nbytes)
            else:
                lib.ig_tensor_read_as(self._handle, dtype_number(kind), out.ctypes.data, out.nbytes)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """A copy in host memory, for other libraries."""
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the CPU

    def item(self) -> float:
        """The only element, as a number."""
        out = ctypes.c_double()
        with self._context:
            lib.ig_tensor_item(self._handle, ctypes.byref(out))
        return int(out.value) if self.dtype == "i32" else out.value

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def write(self, data: Any) -> None:
        """Overwrites the tensor, which must not be the result of an op."""
        array, kind = host_array(data, self.dtype)
        if array.shape != self.shape:
            raise error("IG_ERR_SHAPE", f"write: {list(array.shape)} into {list(self.shape)}")
        with self._context:
            if kind == "i32":
                lib.ig_tensor_write(self._handle, array.ctypes.data, array.nbytes)
            else:
                lib.ig_tensor_write_as(self._handle, dtype_number(LOADED.get(kind, kind)),
                                       array.ctypes.data, array.nbytes)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    # ---- gradients ----

    def requires_grad_(self) -> Tensor:
        """Makes backward() compute a gradient of this tensor, which is no result of an op."""
        with self._context:
            lib.ig_tensor_require_grad(self._handle)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient; None: there is none."""
        with self._context:
            handle = lib.ig_tensor_grad(self._handle)
            return Tensor._lent(handle, self._context) if handle else None

    def zero_grad(self) -> None:
        with self._context:
            lib.ig_tensor_zero_grad(self._handle)

    def backward(self) -> None:
        """Adds the gradient of this scalar to every tensor that it depends on."""
        with self._context:
            lib.ig_backward(self._handle)

    # ---- operators ----

    def __add__(self, other: Any) -> Tensor:
        if isinstance(other, (int, float)):
            return call(self._context, lib.ig_scale, self, 1.0, float(other))
        return call(self._context, lib.ig_add, self, self._like(other))

    def __sub__(self, other: Any) -> Tensor:
        if isinstance(other, (int, float)):
            return call(self._context, lib.ig_scale, self, 1.0, -float(other))
        return call(self._context, lib.ig_sub, self, self._like(other))

    def __rsub__(self, other: Any) -> Tensor:
        if isinstance(other, (int, float)):
            return call(self._context, lib.ig_scale, self, -1.0, float(other))
        return call(self._context, lib.ig_sub, self._like(other), self)

    def __mul__(self, other: Any) -> Tensor:
        if isinstance(other, (int, float)):
            return call(self._context, lib.ig_scale, self, float(other), 0.0)
        return call(self._context, lib.ig_mul, self, self._like(other))

    def __truediv__(self, other: Any) -> Tensor:
        if isinstance(other, (int, float)):
            return call(self._context, lib.ig_scale, self, 1.0 / other, 0.0)
        return call(self._context, lib.ig_div, self, self._like(other))

    def __rtruediv__(self, other: Any) -> Tensor:
        return call(self._context, lib.ig_div, self._like(other), self)

    def __matmul__(self, other: Any) -> Tensor:
        return call(self._context, lib.ig_matmul, self, self._like(other))

    def __rmatmul__(self, other: Any) -> Tensor:
        return call(self._context, lib.ig_matmul, self._like(other), self)

    def __neg__(self) -> Tensor:
        return call(self._context, lib.ig_neg, self)

    def __pow__(self, power: Number) -> Tensor:
        if power == 2:
            return self * self
        if power == 0.5:
            return self.sqrt()
        return (self.log() * float(power)).exp()

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        """1 where elements are equal, else 0, as in numpy."""
        return call(self._context, lib.ig_equal, self, self._like(other))

    __radd__, __rmul__ = __add__, __mul__
    __hash__ = object.__hash__

    def _like(self, other: Any) -> Tensor:
        """The other operand as a tensor of this dtype."""
        return other if isinstance(other, Tensor) else Tensor(other, self.dtype)

    def __getitem__(self, key: Any) -> Tensor:
        """Integers and slices with step 1, which are views."""
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = keys[:at] + (slice(None),) * (self.ndim - len(keys) + 1) + keys[at + 1:]
        made, axis = self, 0
        for one in keys:
            if axis >= made.ndim:
                raise IndexError(f"{len(keys)} indices for {list(self.shape)}")
            made = made._take(one, axis)
            axis += isinstance(one, slice)
        return made

    def _take(self, key: Any, axis: int) -> Tensor:
        extent = self.shape[axis]
        if isinstance(key, slice):
            begin, end, step = key.indices(extent)
            if step != 1:
                raise error("IG_ERR_UNSUPPORTED", f"slice with step {step}: expected 1")
            return call(self._context, lib.ig_slice, self, axis, begin, max(begin, end))
        index = int(key) + extent if int(key) < 0 else int(key)
        if not 0 <= index < extent:
            raise IndexError(f"index {int(key)} of {list(self.shape)}, dimension {axis}")
        row = call(self._context, lib.ig_slice, self, axis, index, index + 1)
        return row.reshape(self.shape[:axis] + self.shape[axis + 1:])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # ---- ops as methods ----

    def reshape(self, *shape: Any) -> Tensor:
        """Another shape; one extent may be -1."""
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return call(self._context, lib.ig_reshape, self, shape_of(dims))

    def transpose(self, a: int, b: int) -> Tensor:
        return call(self._context, lib.ig_transpose, self, a, b)

    def permute(self, *axes: int) -> Tensor:
        return call(self._context, lib.ig_permute, self, (ctypes.c_int * len(axes))(*axes), len(axes))

    def broadcast_to(self, *shape: Any) -> Tensor:
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return call(self._context, lib.ig_broadcast, self, shape_of(dims))

    def astype(self, dtype: str) -> Tensor:
        return call(self._context, lib.ig_cast, self, dtype_number(dtype))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduced(lib.ig_sum, self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduced(lib.ig_mean, self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduced(lib.ig_max, self, axis, keepdims)

    def argmax(self, axis: int = -1) -> Tensor:
        """The index of the first largest element along an axis, i32."""
        return call(self._context, lib.ig_argmax, self, axis)

    def softmax(self, axis: int = -1) -> Tensor:
        return call(self._context, lib.ig_softmax, self, axis)

    def log_softmax(self, axis: int = -1) -> Tensor:
        return call(self._context, lib.ig_log_softmax, self, axis)

    def exp(self) -> Tensor:
        return call(self._context, lib.ig_exp, self)

    def log(self) -> Tensor:
        return call(self._context, lib.ig_log, self)

    def sqrt(self) -> Tensor:
        return call(self._context, lib.ig_sqrt, self)

    def tanh(self) -> Tensor:
        return call(self._context, lib.ig_tanh, self)

    def sigmoid(self) -> Tensor:
        return call(self._context, lib.ig_sigmoid, self)

    def relu(self) -> Tensor:
        return call(self._context, lib.ig_relu, self)

    def silu(self) -> Tensor:
        return call(self._context, lib.ig_silu, self)

    def gelu(self, tanh: bool = False) -> Tensor:
        """The exact form, or GPT-2's approximation by tanh."""
        return call(self._context, lib.ig_gelu, self, int(tanh))


LOADED = {"bf16": "f32"}  # what crosses the border as another type: numpy has no bf16


def host_array(data: Any, dtype: str | None) -> tuple[Any, str]:
    """Data as a contiguous array, and the dtype of the tensor that it becomes."""
    from ._numpy import numpy as np
    array = np.asarray(data)
    if dtype is None:
        dtype = {"float64": "f64" if isinstance(data, np.ndarray) else "f32", "float16": "f16",
                 "float32": "f32", "bool": "f32"}.get(array.dtype.name, "i32")
        if dtype == "i32" and array.dtype.kind not in "iu":
            raise error("IG_ERR_ARGUMENT", f"tensor: dtype {array.dtype} is not supported; expected "
                        "floats, integers or bool")
    kind = LOADED.get(dtype, dtype)
    if kind not in NUMPY_TYPES:
        dtype_number(kind)  # an unknown name
        raise error("IG_ERR_ARGUMENT", f"tensor: dtype {dtype!r}: expected f32, f64, f16, bf16 or i32")
    if kind == "i32" and array.size and array.dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        if low < -(1 << 31) or high >= 1 << 31:
            raise error("IG_ERR_ARGUMENT", f"tensor: {low if low < 0 else high} does not fit i32")
    return np.ascontiguousarray(array, NUMPY_TYPES[kind]).reshape(array.shape), dtype


def call(context: Context, function: Any, *arguments: Any) -> Tensor:
    """Calls an op and wraps its result; an op that fails raises here."""
    with context:
        handle = function(*[one._handle if isinstance(one, Tensor) else one for one in arguments])
        return wrapped(context, handle)


def wrapped(context: Context, handle: int) -> Tensor:
    """The result of an op as a Tensor.  A poisoned one reports the failure when it is evaluated."""
    if lib.ig_tensor_is_poisoned(handle):
        lib.ig_eval((ctypes.c_void_p * 1)(handle), 1)
    return Tensor._lent(handle, context)


def reduced(function: Any, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    axes = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    return call(x._context, function, x, (ctypes.c_int * len(axes))(*axes), len(axes), int(keepdims))


def tensor(data: Any, dtype: str | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of a number, nested lists or an array.

    dtype: "f32", "f64", "f16", "bf16" or "i32".  None: an array's own, with int64 and others narrowed
    to i32; f32 for Python floats and for bool.
    """
    return Tensor(data, dtype, requires_grad)


# ---- the context of tensors ----

def mode(name: str | None = None) -> str:
    """Sets how steps run, and returns the mode: "dynamic": op by op; "compiled": the first step is
    recorded and later ones replay it; "auto": dynamic for three steps, then compiled."""
    with runtime.current().tensors as ctx:
        if name is not None:
            if name not in MODES:
                raise error("IG_ERR_ARGUMENT", f"mode {name!r}: expected " + ", ".join(MODES))
            lib.ig_mode_set(ctx, ENUMS[MODES[name]])
        now = lib.ig_mode_get(ctx)
    return next(key for key, value in MODES.items() if ENUMS[value] == now)


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Ops inside are not recorded for backward()."""
    context = runtime.current().tensors
    with context as ctx:
        lib.ig_no_grad_begin(ctx)
    try:
        yield
    finally:
        with context as ctx:
            lib.ig_no_grad_end(ctx)


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """At the end, memory of results that no Tensor refers to is free, and the step ends.

    An optimizer's step does the same.  Loops without one need a scope around their body.
    """
    context = runtime.current().tensors
    with context as ctx:
        lib.ig_scope_begin(ctx)
    try:
        yield
    finally:
        with context as ctx:
            lib.ig_scope_end(ctx)


def step_end() -> None:
    """Ends a step, as an optimizer's step does."""
    with runtime.current().tensors as ctx:
        lib.ig_ctx_step_end(ctx)
