"""Optimizers of the parameters of a module.

    optimizer = ingot.optim.AdamW(model.parameters(), lr=3e-4)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
from __future__ import annotations

import ctypes
from typing import Any

from ._library import lib, struct
from .errors import error
from .nn import Module, Parameters
from .tensors import Tensor, wrapped


class Optimizer:
    """What AdamW and SGD have in common; it keeps its module alive."""

    def __init__(self, parameters: Module | Parameters, create: Any, options: Any, lr: float) -> None:
        module = getattr(parameters, "module", parameters)
        if not isinstance(module, Module):
            raise error("IG_ERR_ARGUMENT", "optimizer: expected a module or its parameters(), got "
                        + type(parameters).__name__)
        self.module, self._context = module, module._context
        self._handle = ctypes.c_void_p()
        with self._context:
            create(module._handle, ctypes.byref(options), ctypes.byref(self._handle))
            lib.ig_optimizer_set_lr(self._handle, lr)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._context.drop(lib.ig_optimizer_destroy, self._handle)

    def step(self) -> None:
        """Updates every parameter that has a gradient, and ends the step."""
        with self._context:
            lib.ig_optimizer_step(self._handle)

    def zero_grad(self) -> None:
        with self._context:
            lib.ig_optimizer_zero_grad(self._handle)

    def clip_grad_norm(self, limit: float) -> Tensor:
        """Scales all gradients down if their global norm exceeds the limit; returns the norm."""
        with self._context:
            return wrapped(self._context, lib.ig_optimizer_clip_grad_norm(self._handle, limit))

    @property
    def lr(self) -> float:
        """The learning rate."""
        return float(lib.ig_optimizer_lr(self._handle))

    @lr.setter
    def lr(self, value: float) -> None:
        with self._context:
            lib.ig_optimizer_set_lr(self._handle, value)

    @property
    def steps(self) -> int:
        """Completed steps."""
        return int(lib.ig_optimizer_steps(self._handle))


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, parameters: Module | Parameters, lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01) -> None:
        options = struct("ig_adamw_options")(lr=lr, beta1=betas[0], beta2=betas[1], eps=eps,
                                             weight_decay=weight_decay or -1)
        super().__init__(parameters, lib.ig_adamw_create, options, lr)


class SGD(Optimizer):
    """Stochastic gradient descent."""

    def __init__(self, parameters: Module | Parameters, lr: float = 1e-2, momentum: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False) -> None:
        options = struct("ig_sgd_options")(lr=lr, momentum=momentum, weight_decay=weight_decay,
                                           nesterov=nesterov)
        super().__init__(parameters, lib.ig_sgd_create, options, lr)
