"""The fused ops on a GPU, and the committed record of their last run.

Without a GPU only the record is checked: that it was green, and that what it says about speed is what we claim.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import gate
from expunge.torch.differentiable_ops import prefix_coefficients

RECORD = Path(gate.__file__).parent / "results" / "gate.json"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@needs_gpu
@pytest.mark.parametrize("part", gate.CHECKS)
def test_the_checks_pass(part: str) -> None:
    # With this seed some problems have a key on the border of the partition; the record's seed has none.
    torch.manual_seed(1)
    rows = gate.PARTS[part]()
    assert rows
    assert [row for row in rows if not row["passed"]] == []


@needs_gpu
@pytest.mark.parametrize("length", [192, 512])
def test_collapsed_keys_have_finite_gradients(length: int) -> None:
    """Margins of a few keys, on which the first step of conjugate gradients takes all of the residual."""
    torch.manual_seed(0)
    counts = range(64, length, 64)
    for spread in (0.01, 0.03, 0.1):
        keys = (10.0 + spread * torch.randn(16, 6, length, 64, device="cuda")).bfloat16().requires_grad_()
        caps, widths = torch.tensor([0.25], device="cuda"), torch.tensor([2.0], device="cuda")
        alpha, _ = prefix_coefficients(keys, counts, caps, widths)
        for scale in (1e-20, 1e-9, 1.0, 1e18):
            (pulled,) = torch.autograd.grad(alpha, keys, scale * torch.randn_like(alpha), retain_graph=True)
            assert torch.isfinite(pulled).all()


@needs_gpu
def test_a_step_can_be_captured() -> None:
    torch.manual_seed(0)
    model = gate.ByteModel(gate.ATTENTION["gate"]).cuda()
    text = torch.randint(0, 256, (4, 257), device="cuda")

    def step() -> None:
        model.zero_grad()
        model(text).backward()

    step()
    wanted = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    replay = gate.captured(step)
    replay()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_last_run_was_green_and_fast_enough() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["machine"]["gpu"]
    for part in gate.CHECKS:
        assert record[part]
        assert all(row["passed"] for row in record[part]), part
    assert len(record["coefficients"]) == len(gate.COEFFICIENT_CASES)
    for row in record["steps"]:
        assert row["gate / softmax graph"] <= 1.5, row
        # At batch 16 PyTorch's own launches are most of a step, and vary from run to run.
        assert row["gate / softmax eager"] <= 1.5 or row["batch"] == 16, row
    assert [row["length"] for row in record["contexts"]] == list(gate.CONTEXTS)
