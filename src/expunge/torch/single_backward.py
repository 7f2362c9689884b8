"""A gradient that can be taken once: a second derivative through it is refused, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from expunge.errors import InputError

__all__ = ["refuse_second_derivative"]


class _WithoutDerivative(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *_sources: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise InputError(
            "the support-vector gate has no second derivative: its implicit gradient is piecewise smooth and is "
            "implemented once. Do not differentiate through it with create_graph=True"
        )


def refuse_second_derivative(gradients: Sequence[Tensor], sources: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients as they are; differentiating them with respect to their sources raises InputError."""
    if not torch.is_grad_enabled():
        return tuple(gradients)
    guard: Callable[..., Tensor] = _WithoutDerivative.apply
    return tuple(guard(gradient, *sources) for gradient in gradients)
