"""The fused ops on a GPU, and the committed record of their last run.

Without a GPU only the record is checked: that it was green, and that what it says about speed is what we claim.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import gate

RECORD = Path(gate.__file__).parent / "results" / "gate.json"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@needs_gpu
@pytest.mark.parametrize("part", gate.CHECKS)
def test_the_checks_pass(part: str) -> None:
    rows = gate.PARTS[part]()
    assert rows
    assert [row for row in rows if not row["passed"]] == []


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
