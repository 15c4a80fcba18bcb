"""Modules: layers, and trees of them.

    class Net(ingot.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = ingot.nn.Linear(2, 16)
            self.down = ingot.nn.Linear(16, 1)

        def forward(self, x):
            return self.down(self.up(x).tanh())

A module that is an attribute of another one belongs to it, under the attribute's name.  Parameters
are found by path, as "up.weight", in parameters() and in checkpoints.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Iterator

from . import runtime
from ._library import encoded, lib, struct
from .context import Context
from .errors import error
from .tensors import Tensor, call, desc_of, dtype_number, host_array


class Parameter:
    """The value of a parameter: assigned to an attribute of a module, it becomes a Tensor there."""

    def __init__(self, data: Any, dtype: str = "f32") -> None:
        self.array, self.dtype = host_array(data, dtype)


class Parameters(list):  # type: ignore[type-arg]
    """The parameters of a module, which optimizers need to know."""

    def __init__(self, module: Module) -> None:
        super().__init__(tensor for _, tensor in module.named_parameters())
        self.module = module


class Module:
    """A part of a model with parameters, other modules, and forward()."""

    _context: Context
    _handle: ctypes.c_void_p
    _children: dict[str, Module]
    _parent: Module | None

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        context = runtime.current().tensors
        with context as ctx:
            self._create(ctx, handle)
        vars(self).update(_context=context, _handle=handle, _children={}, _parent=None)

    def _create(self, ctx: Any, out: Any) -> None:
        lib.ig_module_create(ctx, None, None, ctypes.byref(out))

    def __del__(self) -> None:
        """The root of a tree destroys all of it."""
        if vars(self).get("_handle") and self._parent is None:
            self._context.drop(lib.ig_module_destroy, self._handle)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self.add_module(name, value)
        elif isinstance(value, Parameter):
            self._add_parameter(name, value)
        else:
            object.__setattr__(self, name, value)

    def add_module(self, name: str, child: Module) -> None:
        """Makes another module a part of this one."""
        if "_handle" not in vars(self):
            raise error("IG_ERR_STATE", f"{type(self).__name__}: call super().__init__() first")
        with self._context:
            lib.ig_module_add(self._handle, encoded(name), child._handle)
        vars(child)["_parent"] = self
        self._children[name] = child
        object.__setattr__(self, name, child)

    def _add_parameter(self, name: str, value: Parameter) -> None:
        handle = ctypes.c_void_p()
        with self._context:
            lib.ig_module_add_param(self._handle, encoded(name),
                                    desc_of(value.dtype, value.array.shape), ctypes.byref(handle))
            tensor = Tensor._lent(handle.value or 0, self._context)
        tensor.write(value.array)
        object.__setattr__(self, name, tensor)

    # ---- calling ----

    def forward(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.forward(*arguments, **named)

    # ---- parameters ----

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and parameters, those of the modules inside included."""
        with self._context:
            rows = [lib.ig_module_param(self._handle, i)
                    for i in range(lib.ig_module_param_count(self._handle))]
            found = [(row.path.decode(), Tensor._lent(row.tensor, self._context)) for row in rows]
        return iter(found)

    def parameters(self) -> Parameters:
        return Parameters(self)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return iter(self._children.items())

    def state_dict(self) -> dict[str, Any]:
        """Copies of all parameters, as arrays by path."""
        return {path: tensor.numpy() for path, tensor in self.named_parameters()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Overwrites all parameters; nothing may be missing or left over."""
        mine = dict(self.named_parameters())
        if mine.keys() != state.keys():
            differ = sorted(mine.keys() ^ state.keys())
            raise error("IG_ERR_ARGUMENT", "load_state_dict: missing or unknown: " + ", ".join(differ))
        for path, tensor in mine.items():
            tensor.write(state[path])

    @property
    def size(self) -> int:
        """The number of elements of all parameters."""
        return int(lib.ig_module_element_count(self._handle))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters to an .oam file."""
        with self._context:
            lib.ig_checkpoint_save(encoded(path), self._handle, None)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads all parameters from an .oam file that has the same ones."""
        with self._context:
            lib.ig_checkpoint_load(encoded(path), self._handle, None)

    # ---- modes ----

    def train(self, training: bool = True) -> Module:
        """Training, the default, or evaluation: for dropout."""
        with self._context:
            lib.ig_module_set_training(self._handle, training)
        return self

    def eval(self) -> Module:
        return self.train(False)

    @property
    def training(self) -> bool:
        return bool(lib.ig_module_training(self._handle))

    def compute_dtype(self, dtype: str) -> Module:
        """The dtype that linear layers compute in, "f32" or "bf16"; parameters stay as they are."""
        with self._context:
            lib.ig_module_set_compute_dtype(self._handle, dtype_number(dtype))
        return self

    def __repr__(self) -> str:
        inside = "".join(f"\n  {name}: " + repr(child).replace("\n", "\n  ")
                         for name, child in self._children.items())
        return f"{type(self).__name__}({inside}\n)" if inside else f"{type(self).__name__}()"


class _Layer(Module):
    """A layer of the library: its forward pass is one call."""

    def __init__(self, create: Any, *arguments: Any) -> None:
        self._maker = (create, arguments)
        super().__init__()
        for path, tensor in self.named_parameters():
            object.__setattr__(self, path, tensor)

    def _create(self, ctx: Any, out: Any) -> None:
        create, arguments = self._maker
        create(ctx, *arguments, ctypes.byref(out))

    def forward(self, x: Tensor) -> Tensor:
        return call(self._context, lib.ig_module_call, self._handle, x)


class Linear(_Layer):
    """x [..., n_in] -> [..., n_out]; weight [n_out, n_in], bias [n_out]."""

    weight: Tensor
    bias: Tensor

    def __init__(self, n_in: int, n_out: int, bias: bool = True) -> None:
        options = struct("ig_linear_options")(no_bias=not bias)
        super().__init__(lib.ig_linear_create, n_in, n_out, ctypes.byref(options))


class Embedding(_Layer):
    """ids [...] (i32) -> [..., width]; weight [count, width]."""

    weight: Tensor

    def __init__(self, count: int, width: int) -> None:
        super().__init__(lib.ig_embedding_create, count, width)

    def forward(self, ids: Any) -> Tensor:
        return super().forward(ids if isinstance(ids, Tensor) else Tensor(ids, "i32"))


class RMSNorm(_Layer):
    """weight [width]."""

    weight: Tensor

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__(lib.ig_rms_norm_create, width, eps)


class LayerNorm(_Layer):
    """weight and bias [width]."""

    weight: Tensor
    bias: Tensor

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__(lib.ig_layer_norm_create, width, eps)


class Dropout(_Layer):
    """Zeroes a share p of the elements while training."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(lib.ig_dropout_create, p)


class Sequential(Module):
    """Calls modules, or functions of a tensor, in order."""

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self._steps = list(steps)
        for i, step in enumerate(steps):
            if isinstance(step, Module):
                self.add_module(str(i), step)

    def forward(self, x: Any) -> Any:
        for step in self._steps:
            x = step(x)
        return x

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, i: int) -> Any:
        return self._steps[i]


class ModuleList(Sequential):
    """Modules by number, which the module around them calls."""

    def forward(self, x: Any) -> Any:
        raise error("IG_ERR_STATE", "ModuleList: call its modules")
