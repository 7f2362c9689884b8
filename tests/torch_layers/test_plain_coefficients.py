"""The batched solve: the ridged problem's optimum, in the box, from keys that training really produces."""

from __future__ import annotations

from typing import Any

import daqp  # type: ignore[import-not-found]
import numpy as np
import pytest
import torch
from torch import Tensor

from expunge.errors import InputError
from expunge.torch.differentiable_ops import prefix_coefficients
from expunge.torch.ops.coefficients import plain_coefficients
from expunge.torch.ops.coefficients.plain_coefficients import gram_matrix

RIDGE = 1e-3
COUNTS = (12, 40, 64)


def sample(kind: str, seed: int = 0, count: int = 64, width: int = 16) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(count, width))
    if kind == "fresh":
        return 0.6 * noise
    if kind == "crowded":
        return 0.05 * noise
    if kind == "wide":
        return 3.0 * noise
    if kind == "planar":
        return 0.2 * rng.normal(size=(count, 2)) @ rng.normal(size=(2, width))
    if kind == "far":
        # What training makes: a tight cluster far from the origin with an outlier.
        keys = 3.0 + 0.025 * noise
        keys[count // 2] += 4.0
        return keys
    centres = 0.6 * rng.normal(size=(9, width))
    return centres[rng.integers(0, 9, count)] + {"clusters": 0.05, "duplicates": 0.0}[kind] * noise


KINDS = ("fresh", "crowded", "wide", "planar", "far", "clusters", "duplicates")


def optimum(gram: np.ndarray[Any, Any], cap: float) -> np.ndarray[Any, Any]:
    """An independent solver's answer to the ridged problem."""
    size = len(gram)
    quadratic = 2.0 * gram + RIDGE * np.eye(size)
    upper, lower = np.append(np.full(size, cap), 1.0), np.append(np.zeros(size), 1.0)
    sense = np.append(np.zeros(size), 5).astype(np.int32)
    found = daqp.solve(quadratic, -np.ones(size), np.ones((1, size)), upper, lower, sense)
    assert found[2] == 1
    return np.asarray(found[0])


@pytest.mark.parametrize("cap", [0.25, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_found_and_the_box_is_kept(kind: str, cap: float) -> None:
    keys = torch.from_numpy(sample(kind))[None]
    for dtype, tolerance in ((torch.float64, 1e-8), (torch.float32, None)):
        caps, sigmas = torch.tensor([cap], dtype=dtype), torch.tensor([2.0], dtype=dtype)
        gram = gram_matrix(keys.to(dtype), sigmas)
        solved = plain_coefficients.solve(gram, COUNTS, caps, RIDGE)
        alpha = solved.coefficients[0].double()
        assert (alpha >= 0.0).all()
        assert (alpha <= float(caps[0])).all()
        assert (solved.residual <= (1e-11 if dtype == torch.float64 else 2e-5)).all()
        for prefix, count in enumerate(COUNTS):
            assert (alpha[prefix, count:] == 0.0).all()
            assert alpha[prefix].sum().item() == pytest.approx(1.0, abs=plain_coefficients.TOLERANCE[dtype])
            if tolerance and kind != "duplicates":
                exact = gram_matrix(keys, sigmas.double())[0, :count, :count].numpy()
                np.testing.assert_allclose(alpha[prefix, :count].numpy(), optimum(exact, cap), rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_is_no_larger_than_the_papers(kind: str) -> None:
    keys = torch.from_numpy(sample(kind, seed=1)).float()[None]
    caps, sigmas = torch.tensor([0.25]), torch.tensor([2.0])
    gram = gram_matrix(keys, sigmas)
    solved = plain_coefficients.solve(gram, COUNTS, caps, RIDGE)
    theirs, their_offset = plain_coefficients.solve_paper(gram, COUNTS, caps, RIDGE)
    live = plain_coefficients.live_mask(COUNTS, 64, gram)
    residual = plain_coefficients.natural_residual(gram, live, theirs, their_offset, caps, RIDGE)
    assert solved.residual.max() <= max(residual.max().item(), 2e-5)


def test_the_papers_procedure_leaves_the_box_on_crowded_keys() -> None:
    """Why ours is not theirs: masks from unconverged iterates are wrong, and the linear solve follows them."""
    keys = torch.from_numpy(sample("far", count=192)).float()[None]
    gram = gram_matrix(keys, torch.tensor([2.0]))
    theirs, _ = plain_coefficients.solve_paper(gram, [192], torch.tensor([0.25]), RIDGE)
    ours = plain_coefficients.solve(gram, [192], torch.tensor([0.25]), RIDGE)
    assert theirs.min() < -0.1
    assert ours.coefficients.min() >= 0.0
    assert ours.residual.max() < 2e-5


def test_steps_are_measured_on_the_simplex() -> None:
    """Crowded keys have K ≈ 11ᵀ, along which nothing can move: what is left has far smaller curvature."""
    gram = gram_matrix(torch.from_numpy(sample("crowded"))[None], torch.tensor([2.0], dtype=torch.float64))
    live = plain_coefficients.live_mask([64], 64, gram)[None]
    problem = plain_coefficients.BatchedProblem(gram, live, torch.tensor([[[0.25]]], dtype=torch.float64), RIDGE)
    centring = torch.eye(64, dtype=torch.float64) - 1.0 / 64
    exact = torch.linalg.eigvalsh(centring @ (2.0 * gram[0]) @ centring).max().item() + RIDGE
    estimate = problem.curvature().item()
    assert exact <= estimate <= 1.3 * exact
    assert estimate < 0.01 * torch.linalg.eigvalsh(2.0 * gram[0]).max().item()


@pytest.mark.parametrize("kind", ["fresh", "clusters", "crowded"])
def test_gradients_match_autograd_through_the_papers_linear_solve(kind: str) -> None:
    """On the partition that both find, the implicit gradient equals autograd through the ridged system."""
    keys = torch.from_numpy(sample(kind, seed=2, count=24, width=4)).requires_grad_()
    cap, sigma = torch.tensor([0.2], dtype=torch.float64), torch.tensor([1.3], dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(1, 1, 2, 24, generator=generator, dtype=torch.float64)
    lift = torch.randn(1, 1, 2, generator=generator, dtype=torch.float64)
    alpha, offset = prefix_coefficients(keys[None, None], [14, 24], cap, sigma, ridge=RIDGE)
    ours = torch.autograd.grad((alpha * weights).sum() + (offset * lift).sum(), [keys, sigma])
    gram = gram_matrix(keys[None], sigma)
    theirs, their_offset = _solve_on(gram, alpha.detach()[0], cap)
    torch.testing.assert_close(theirs, alpha.detach()[0], rtol=0, atol=1e-9)
    wanted = torch.autograd.grad((theirs * weights[0]).sum() + (their_offset * lift[0]).sum(), [keys, sigma])
    for found, one in zip(ours, wanted, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-6, atol=1e-8)


def _solve_on(gram: Tensor, alpha: Tensor, cap: Tensor) -> tuple[Tensor, Tensor]:
    """The ridged linear system on the partition of given coefficients, for autograd."""
    values, offsets = [], []
    for row in alpha[0]:
        inside, upper = (row > 1e-9) & (row < cap - 1e-9), row >= cap - 1e-9
        size = int(inside.sum())
        system = torch.zeros(size + 1, size + 1, dtype=gram.dtype)
        system[0, 1:] = system[1:, 0] = 1.0
        block = torch.zeros_like(system)
        block[1:, 1:] = 2.0 * gram[0][inside][:, inside] + RIDGE * torch.eye(size, dtype=gram.dtype)
        pressed = 1.0 - 2.0 * cap * gram[0][inside][:, upper].sum(-1)
        right = torch.cat([1.0 - cap * upper.sum(), pressed])
        solution = torch.linalg.solve(system + block, right)
        values.append(torch.zeros_like(row).masked_scatter(inside, solution[1:]) + cap * upper)
        offsets.append(solution[0])
    return torch.stack(values)[None], torch.stack(offsets)[None]


def test_the_gradient_passes_finite_differences_end_to_end() -> None:
    keys = torch.from_numpy(sample("fresh", seed=3, count=10, width=3)).requires_grad_()
    cap, sigma = torch.tensor([0.3], dtype=torch.float64), torch.tensor([1.2], dtype=torch.float64, requires_grad=True)

    def both(moved: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
        return prefix_coefficients(moved[None, None], [6, 10], cap, width, ridge=RIDGE)

    assert torch.autograd.gradcheck(both, (keys, sigma))


def test_a_prefix_is_its_own_problem() -> None:
    keys = torch.from_numpy(sample("fresh")).float()[None, None]
    cap, sigma = torch.tensor([0.25]), torch.tensor([2.0])
    together, offsets = prefix_coefficients(keys, COUNTS, cap, sigma)
    for prefix, count in enumerate(COUNTS):
        alone, offset = prefix_coefficients(keys[:, :, :count], [count], cap, sigma)
        torch.testing.assert_close(together[..., prefix, :count], alone[..., 0, :], rtol=0, atol=2e-6)
        torch.testing.assert_close(offsets[..., prefix], offset[..., 0], rtol=0, atol=1e-5)


def test_too_few_keys_get_equal_weight_and_no_gradient() -> None:
    keys = torch.from_numpy(sample("fresh", count=6)).float()[None, None].requires_grad_()
    alpha, offset = prefix_coefficients(keys, [4, 6], torch.tensor([0.25]), torch.tensor([2.0]))
    assert alpha[0, 0, 0].tolist() == [0.25] * 4 + [0.0] * 2
    assert offset[0, 0, 0] == 0.0
    (pulled,) = torch.autograd.grad(alpha[0, 0, 0, 0], keys)
    assert (pulled == 0.0).all()


def test_closed_keys_weigh_nothing_and_pass_no_gradient() -> None:
    keys = torch.from_numpy(sample("fresh")).float()[None, None].requires_grad_()
    exact, _ = prefix_coefficients(keys, [64], torch.tensor([0.25]), torch.tensor([2.0]))
    alpha, _ = prefix_coefficients(keys, [64], torch.tensor([0.25]), torch.tensor([2.0]), closing=0.5)
    small = exact < 0.5 / 64
    assert (small & (exact > 0.0)).any()
    assert torch.equal(alpha, exact.masked_fill(small, 0.0))
    (pulled,) = torch.autograd.grad((alpha * small).sum(), keys)
    assert (pulled == 0.0).all()


@pytest.mark.parametrize("size", [1e-25, 1e25])
def test_extreme_cotangents_neither_vanish_nor_overflow(size: float) -> None:
    keys = torch.from_numpy(sample("fresh")).float()[None, None].requires_grad_()
    alpha, _ = prefix_coefficients(keys, [64], torch.tensor([0.25]), torch.tensor([2.0]))
    weights = torch.randn(alpha.shape, generator=torch.Generator().manual_seed(0))
    (usual,) = torch.autograd.grad(alpha, keys, weights, retain_graph=True)
    (extreme,) = torch.autograd.grad(alpha, keys, weights * size)
    torch.testing.assert_close(extreme / size, usual, rtol=1e-4, atol=1e-6)


def test_half_precision_keys_are_solved_in_single() -> None:
    keys = torch.from_numpy(sample("fresh")).to(torch.bfloat16)[None, None].requires_grad_()
    alpha, _ = prefix_coefficients(keys, [64], torch.tensor([0.25]), torch.tensor([2.0]))
    same, _ = prefix_coefficients(keys.float(), [64], torch.tensor([0.25]), torch.tensor([2.0]))
    assert alpha.dtype == torch.float32
    assert torch.equal(alpha, same)
    (pulled,) = torch.autograd.grad(alpha.square().sum(), keys)
    assert pulled.dtype == torch.bfloat16


@pytest.mark.parametrize("counts", [[], [0], [65]])
def test_impossible_prefixes_are_refused(counts: list[int]) -> None:
    with pytest.raises(InputError, match="prefix lengths"):
        prefix_coefficients(torch.randn(1, 1, 64, 4), counts, torch.tensor([0.25]), torch.tensor([2.0]))
