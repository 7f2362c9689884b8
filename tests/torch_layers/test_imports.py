"""What `expunge.torch` needs: PyTorch, and nothing of the solver until the maintained path is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from expunge.errors import MissingExtra


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout  # noqa: S603


@pytest.mark.slow
def test_the_batched_path_loads_no_solver() -> None:
    code = """
import sys, torch
from expunge.torch import SupportVectorAttention
SupportVectorAttention(16, 2, chunk=8)(torch.randn(1, 20, 16)).sum().backward()
print([name for name in ("numba", "scipy", "sklearn", "daqp", "expunge.memory.memory") if name in sys.modules])
"""
    assert run(code).strip() == "[]"


def test_without_torch_the_extra_is_named() -> None:
    code = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name == "torch" else find(name, *rest))
try:
    import expunge.torch
except ImportError as problem:
    print(type(problem).__name__, problem)
"""
    assert run(code).startswith("MissingExtra expunge.torch needs PyTorch")


def test_without_triton_the_fused_op_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from expunge.torch import differentiable_ops

    monkeypatch.setattr(differentiable_ops, "find_spec", lambda name: None)
    assert not differentiable_ops.uses_triton("auto", torch.randn(2, 2))
    with pytest.raises(MissingExtra, match="Triton"):
        differentiable_ops.uses_triton("triton", torch.randn(2, 2))
