"""The trainable gate: coefficients of a one-class support-vector fit as a differentiable layer (paper, App. B).

Needs the extra ``torch``. The batched path needs nothing else; the maintained path uses the fp64 solver of `Memory`.
"""

from __future__ import annotations

from importlib.util import find_spec

from expunge.errors import MissingExtra

if find_spec("torch") is None:
    raise MissingExtra("expunge.torch needs PyTorch: pip install 'expunge[torch]'")

from expunge.torch.attention import SupportVectorAttention
from expunge.torch.gate import SupportVectorGate

__all__ = ["SupportVectorAttention", "SupportVectorGate"]
