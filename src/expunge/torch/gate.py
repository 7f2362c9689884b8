"""The gate as a layer: keys in, coefficients out, with a gradient (paper, §3.1 and App. B).

Two paths to the same coefficients. `maintained` fits each problem in fp64 with the audited solver and pulls gradients
through its stored inverse: exact, one problem at a time. `batched` solves many problems at once in fp32 with a small
ridge: what training uses, fused on a GPU. Neither has a second derivative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from expunge.errors import InputError
from expunge.torch.differentiable_ops import OPS, full_precision, prefix_coefficients, prefix_lengths
from expunge.torch.maintained_coefficients import maintained_coefficients
from expunge.torch.ops.coefficients.plain_coefficients import gram_matrix, natural_residual, solve_paper

__all__ = ["SupportVectorGate", "fewest_gated", "real_number", "unit_keys", "whole_number"]

SolvePath = Literal["maintained", "batched"]
Solver = Literal["exact", "paper"]

# How far n·C may be from 1 and count as 1.
FULL = 1e-6


def fewest_gated(cap: float) -> int:
    """⌈1/C⌉ + 2: the fewest keys that the causal layer gates (paper, App. B)."""
    return math.ceil((1.0 / cap) * (1.0 - 1e-6)) + 2


class SupportVectorGate(nn.Module):
    """Coefficients α of the one-class fit of keys (..., n, d) → (..., n).

    `cap` and `sigma` are numbers, or one per head when `heads` is given and keys are (..., heads, n, d). With
    `learn_sigma` or `learn_cap` their logarithms are parameters. `normalize` puts keys on the unit sphere first. On the
    batched path coefficients below `closing`/n are closed: exactly zero, and nothing flows back through them; keys that
    are not finite give coefficients that are not numbers there, and are refused on the maintained path.
    `solver="paper"` runs the paper's batched procedure instead of ours, to compare with.
    """

    def __init__(
        self,
        cap: float | Sequence[float] = 0.25,
        sigma: float | Sequence[float] = 2.0,
        path: SolvePath = "batched",
        *,
        heads: int | None = None,
        ridge: float = 1e-3,
        closing: float = 0.0,
        normalize: bool = False,
        learn_sigma: bool = False,
        learn_cap: bool = False,
        solver: Solver = "exact",
        op: str = "auto",
    ) -> None:
        super().__init__()
        if path not in ("maintained", "batched"):
            raise InputError(f'path must be "maintained" or "batched", not {path!r}')
        if solver not in ("exact", "paper") or (solver == "paper" and path == "maintained"):
            raise InputError(f'solver must be "exact", or "paper" on the batched path, not {solver!r}')
        if op not in OPS:
            raise InputError(f"op must be one of {', '.join(OPS)}, not {op!r}")
        if heads is not None:
            heads = whole_number(heads, "heads")
        if not 0.0 < real_number(ridge, "ridge") < math.inf:
            raise InputError(f"ridge must be a positive number, not {ridge!r}: it keeps the fp32 solve well posed")
        caps, widths = _per_head(cap, heads, "cap"), _per_head(sigma, heads, "sigma")
        if max(caps) > 1.0:
            raise InputError(f"cap must lie in (0, 1], not {cap!r}: it limits one key's share of a unit mass")
        if not 0.0 <= real_number(closing, "closing") < 1.0:
            raise InputError(f"closing must lie in [0, 1), not {closing!r}: the mean coefficient is 1/n")
        self.path, self.solver, self.op, self.ridge, self.normalize = path, solver, op, float(ridge), normalize
        self.closing = float(closing)
        self.heads, self.learn_cap = heads, learn_cap
        self.least = max(math.ceil((1.0 / one) * (1.0 - 1e-6)) for one in caps)
        self._caps, self._widths = caps, widths
        self.log_sigma = _learned(widths) if learn_sigma else None
        self.log_cap = _learned(caps) if learn_cap else None
        # Fixed numbers on each device and in each precision, made once: a copy to a device is a launch.
        self._fixed: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def extra_repr(self) -> str:
        """Show settings in the module's repr."""

        def shown(learned: nn.Parameter | None, first: list[float]) -> list[float]:
            # A layer on the meta device has no numbers of its own yet.
            return first if learned is None or learned.is_meta else learned.exp().tolist()

        caps = [min(1.0, cap) for cap in shown(self.log_cap, self._caps)]
        widths = shown(self.log_sigma, self._widths)
        return f"path={self.path!r}, cap={caps}, sigma={widths}, ridge={self.ridge:g}"

    def sigma(self, like: Tensor) -> Tensor:
        """Widths, one per head or one for all, beside `like`: fp64 if that is, else fp32."""
        if self.log_sigma is not None:
            return self.log_sigma.exp().to(_working(like))
        return self._numbers("sigma", self._widths, like)

    def cap(self, like: Tensor) -> Tensor:
        """Caps, one per head or one for all, never above 1, beside `like`."""
        if self.log_cap is not None:
            return self.log_cap.exp().clamp(max=1.0).to(_working(like))
        return self._numbers("cap", self._caps, like)

    def _numbers(self, name: str, numbers: list[float], like: Tensor) -> Tensor:
        place = (name, _working(like), like.device)
        if place not in self._fixed:
            # A tensor of inference mode could not be trained with later.
            with torch.inference_mode(False):
                self._fixed[place] = torch.tensor(numbers, dtype=place[1], device=place[2])
        return self._fixed[place]

    def forward(self, keys: Tensor, return_offset: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Coefficients (..., n) of keys (..., n, d); with `return_offset` also ρ (...)."""
        lead, count = self._require_keys(keys)
        self._require_feasible(count)
        shaped = self._shaped(keys)
        alpha, offset = self._solve(shaped, [count])
        if not return_offset:
            return alpha.reshape(*lead, count)
        return alpha.reshape(*lead, count), self._offsets_of_all(shaped, [count], alpha, offset).reshape(lead)

    def prefixes(self, keys: Tensor, counts: Sequence[int], *, even: bool = False) -> Tensor:
        """Coefficients of every prefix: keys (..., T, d) → (..., len(counts), T), zero beyond each prefix.

        With `even`, a head whose cap a prefix is too short for has 1/n there, instead of being refused.
        """
        lead, length = self._require_keys(keys)
        lengths = prefix_lengths(counts, length)
        if not even:
            self._require_feasible(min(lengths))
        return self._solve(self._shaped(keys), lengths)[0].reshape(*lead, len(lengths), length)

    @torch.no_grad()
    def residual(self, keys: Tensor, counts: Sequence[int] | None = None) -> Tensor:
        """How far what the solve returns is from the optimum: (..., len(counts)), or (...) for all keys.

        The largest |α − clip(α − slack, 0, C)| of each problem, measured in fp64 before small coefficients are closed.
        A problem that ran out of iterations shows here.
        """
        lead, length = self._require_keys(keys)
        lengths = prefix_lengths([length] if counts is None else counts, length)
        self._require_feasible(min(lengths))
        shaped = self._shaped(keys)
        alpha, offset = self._solve(shaped, lengths, closing=0.0)
        offset = self._offsets_of_all(shaped, lengths, alpha, offset)
        alpha, offset = (part.flatten(0, 1).double() for part in (alpha, offset))
        flat = shaped.flatten(0, 1).double()
        # The numbers that the solve had, in its precision.
        like = flat if self.path == "maintained" else shaped
        each = (self.sigma(like), self.cap(like))
        sigma, cap = (numbers.to(flat).repeat(flat.shape[0] // numbers.numel()) for numbers in each)
        live = torch.arange(length, device=flat.device) < torch.tensor(lengths, device=flat.device)[:, None]
        ridge = self.ridge if self.path == "batched" else 0.0
        found = natural_residual(gram_matrix(flat, sigma, min(lengths)), live.to(flat), alpha, offset, cap, ridge)
        return found.reshape(*lead, len(lengths)) if counts is not None else found.reshape(lead)

    def score(self, points: Tensor, keys: Tensor) -> Tensor:
        """Gate score s(x) = 2Σακ(x, x_i) − ρ at points (..., m, d) → (..., m); inside is from 1 − 2ρ, not from 0."""
        alpha, offset = self(keys, return_offset=True)
        kernel = self._exponents(points, keys, alpha.dtype).exp()
        return torch.as_tensor(2.0 * (kernel * alpha[..., None, :]).sum(-1) - offset[..., None])

    def read(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Normalized readout Σακv / Σακ at queries (..., m, d) with values (..., n, dv) → (..., m, dv)."""
        if values.ndim < 2 or values.shape[-2] != keys.shape[-2]:
            raise InputError(f"values must be (..., {keys.shape[-2]}, dv), one for each key, not {tuple(values.shape)}")
        _require_broadcast(values.shape[:-2], keys.shape[:-2], "values")
        alpha = self(keys)
        exponents = self._exponents(queries, keys, alpha.dtype)
        # The paper's solver may leave the box, and then a coefficient is negative.
        seen = (alpha != 0.0)[..., None, :]
        # The nearest active key is the unit: a query far from all would otherwise read 0/0.
        nearest = exponents.detach().masked_fill(~seen, -torch.inf).amax(-1, keepdim=True)
        weights = torch.where(seen, exponents - nearest, -torch.inf).exp() * alpha[..., None, :]
        with full_precision(keys):
            return torch.as_tensor((weights @ values.to(alpha.dtype)) / weights.sum(-1, keepdim=True))

    def _solve(self, keys: Tensor, counts: Sequence[int], *, closing: float | None = None) -> tuple[Tensor, Tensor]:
        """Coefficients (B, h, b, T) and offsets (B, h, b) of keys (B, h, T, d)."""
        if self.path == "maintained":
            return self._maintained(keys, counts)
        cap, sigma = self.cap(keys), self.sigma(keys)
        if self.solver == "exact":
            limit = self.closing if closing is None else closing
            return prefix_coefficients(keys, counts, cap, sigma, ridge=self.ridge, closing=limit, op=self.op)
        flat = keys.flatten(0, 1).to(_working(keys))
        repeats = flat.shape[0] // cap.numel()
        with full_precision(keys):
            gram = gram_matrix(flat, sigma.repeat(repeats), min(counts))
            alpha, offset = solve_paper(gram, counts, cap.repeat(repeats), self.ridge)
        shape = (*keys.shape[:2], len(counts), keys.shape[2])
        return alpha.reshape(shape), offset.reshape(shape[:3])

    def _offsets_of_all(self, keys: Tensor, counts: Sequence[int], alpha: Tensor, offset: Tensor) -> Tensor:
        """Offsets (B, h, b), those of empty margins included: all mass is at the cap, and the least t there is ρ."""
        if self.path == "maintained" or self.solver == "paper":
            return offset
        if not self.learn_cap and not any(abs(round(1.0 / cap) * cap - 1.0) <= FULL for cap in self._caps):
            return offset
        flat, sigma = keys.flatten(0, 1).to(offset.dtype), self.sigma(keys)
        with full_precision(keys):
            gram = gram_matrix(flat, sigma.repeat(flat.shape[0] // sigma.numel()), min(counts))
            # Where no key is between its bounds the coefficients stay when keys move a little.
            fixed = alpha.detach()
            cap = self.cap(keys)[:, None]
            held = fixed >= (1.0 - 2.0 * FULL) * cap[..., None]
            t = 1.0 - 2.0 * (fixed.flatten(0, 1) @ gram).reshape(fixed.shape) - self.ridge * fixed
        least = torch.where(held, t, torch.inf).amin(-1)
        return torch.where((held.sum(-1) * cap - 1.0).abs() <= FULL, least, offset)

    def _maintained(self, keys: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        flat = keys.flatten(0, 1).double()
        repeats = flat.shape[0] // len(self._caps)
        cap, sigma = self.cap(flat).repeat(repeats), self.sigma(flat).repeat(repeats)
        coefficients, offsets = [], []
        for count in counts:
            # A learned cap of 1/n may be a little less by rounding. Where nothing is feasible any cap will do.
            enough = cap * count >= 1.0 - FULL
            alpha, offset = maintained_coefficients(
                flat[:, :count], torch.where(enough, cap.clamp(min=1.0 / count), 1.0), sigma
            )
            alpha = torch.where(enough[:, None], alpha, 1.0 / count)
            coefficients.append(functional.pad(alpha, (0, keys.shape[2] - count)))
            offsets.append(torch.where(enough, offset, 0.0))
        shape = (*keys.shape[:2], len(counts), keys.shape[2])
        return torch.stack(coefficients, dim=1).reshape(shape), torch.stack(offsets, dim=1).reshape(shape[:3])

    def _require_feasible(self, count: int) -> None:
        if not self.learn_cap and count < self.least:
            raise InputError(f"a cap of {min(self._caps):g} needs at least {self.least} keys, not {count}")

    def _require_keys(self, keys: Tensor) -> tuple[torch.Size, int]:
        if not isinstance(keys, Tensor):
            raise InputError(f"keys must be a tensor, not {type(keys).__name__}")
        if keys.ndim < 2 or 0 in keys.shape or not keys.is_floating_point():
            raise InputError(f"keys must be floating point of shape (..., n, d), not {keys.dtype} {tuple(keys.shape)}")
        if self.heads is not None and (keys.ndim < 3 or keys.shape[-3] != self.heads):
            raise InputError(f"keys must be (..., {self.heads}, n, d) for {self.heads} heads, not {tuple(keys.shape)}")
        return keys.shape[:-2], keys.shape[-2]

    def _shaped(self, keys: Tensor) -> Tensor:
        """Keys as (B, h, T, d), normalized if the gate sees them so."""
        if self.normalize:
            keys = unit_keys(keys)
        return keys if keys.ndim == 4 else keys.reshape(-1, self.heads or 1, *keys.shape[-2:])

    def _exponents(self, points: Tensor, keys: Tensor, kind: torch.dtype) -> Tensor:
        """−‖x − x_i‖²/σ² of points (..., m, d) and keys (..., n, d) → (..., m, n), in the precision of the solve."""
        if points.ndim < 2 or points.shape[-1] != keys.shape[-1]:
            raise InputError(f"points must be (..., m, {keys.shape[-1]}), as wide as keys, not {tuple(points.shape)}")
        _require_broadcast(points.shape[:-2], keys.shape[:-2], "points")
        if self.normalize:
            points, keys = unit_keys(points), unit_keys(keys)
        points, keys = points.to(kind), keys.to(kind)
        distances = (points[..., :, None, :] - keys[..., None, :, :]).square().sum(-1)
        sigma = self.sigma(distances)
        return -distances / (sigma[:, None, None] if self.heads is not None else sigma) ** 2


def unit_keys(keys: Tensor) -> Tensor:
    """Keys on the unit sphere, in the precision of the solve: squares of half-precision numbers overflow early."""
    return functional.normalize(keys.to(_working(keys)), dim=-1)


def whole_number(number: object, name: str) -> int:
    """A whole number, or InputError."""
    try:
        return index(number)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, not {number!r}") from error


def real_number(number: object, name: str) -> float:
    """A number, or InputError."""
    try:
        return float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, not {number!r}") from error


def _require_broadcast(lead: torch.Size, keys: torch.Size, name: str) -> None:
    """Refuse tensors whose leading dimensions do not go with those of the keys."""
    try:
        torch.broadcast_shapes(lead, keys)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise InputError(
            f"the leading dimensions of {name}, {tuple(lead)}, do not fit {tuple(keys)} of keys"
        ) from error


def _per_head(number: float | Sequence[float], heads: int | None, name: str) -> list[float]:
    if heads is not None and heads < 1:
        raise InputError(f"heads must be positive, not {heads}")
    try:
        numbers = [float(one) for one in number] if isinstance(number, Sequence) else [float(number)] * (heads or 1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, or a list of one for each head, not {number!r}") from error
    if len(numbers) != (heads or 1):
        raise InputError(f"{name} must be one number, or one for each of the {heads or 1} heads, not {len(numbers)}")
    if not all(math.isfinite(one) and one > 0.0 for one in numbers):
        raise InputError(f"{name} must be positive, not {number!r}")
    return numbers


def _learned(numbers: list[float]) -> nn.Parameter:
    return nn.Parameter(torch.tensor([math.log(number) for number in numbers]))


def _working(like: Tensor) -> torch.dtype:
    return torch.float64 if like.dtype == torch.float64 else torch.float32
