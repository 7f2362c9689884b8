"""The trainable gate: coefficients of a one-class support-vector fit as a differentiable layer (paper, App. B).

It needs the extra ``torch`` and may import `expunge.problem`, `expunge.errors` and, for the maintained path and frozen
layers, `expunge.solver`, `expunge.certificates` and `expunge.memory`; nothing here imports store or service. Start at
`attention.SupportVectorAttention`, then `gate.SupportVectorGate`, then `differentiable_ops`.
"""

from __future__ import annotations

from importlib.util import find_spec

from expunge.errors import MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("expunge.torch needs PyTorch: pip install 'expunge[torch]'")

from expunge.torch.attention import SupportVectorAttention
from expunge.torch.gate import SupportVectorGate

__all__ = ["SupportVectorAttention", "SupportVectorGate"]
