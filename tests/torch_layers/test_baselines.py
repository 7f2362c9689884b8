"""The layers to compare with, each against its recurrence."""

from __future__ import annotations

import pytest
import torch

from expunge.errors import InputError
from expunge.torch import SupportVectorAttention
from expunge.torch.baselines import DeltaNetAttention, LinearAttention, SoftmaxAttention


def context(length: int = 37) -> torch.Tensor:
    return torch.randn(2, length, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("window", [None, 7])
def test_fused_and_unfused_softmax_agree(window: int | None) -> None:
    torch.manual_seed(0)
    one = SoftmaxAttention(16, 2, window=window).double()
    plain = one(context())
    one.fused = True
    torch.testing.assert_close(one(context()), plain)


def test_a_window_hides_what_is_before_it() -> None:
    torch.manual_seed(0)
    one, x = SoftmaxAttention(16, 2, window=5).double(), context()
    changed = x.clone()
    changed[:, :10] += 1.0
    torch.testing.assert_close(one(changed)[:, 14:], one(x)[:, 14:])
    assert not torch.allclose(one(changed)[:, 13], one(x)[:, 13])


def test_linear_attention_is_its_recurrence() -> None:
    torch.manual_seed(0)
    one, x = LinearAttention(16, 2, chunk=8).double(), context()
    q, k, v = one.split(x)
    q, k = torch.nn.functional.elu(q) + 1.0, torch.nn.functional.elu(k) + 1.0
    state, total = torch.zeros(2, 2, 8, 8, dtype=x.dtype), torch.zeros(2, 2, 8, dtype=x.dtype)
    out = []
    for i in range(x.shape[1]):
        state = state + k[:, :, i, :, None] * v[:, :, i, None, :]
        total = total + k[:, :, i]
        above = (q[:, :, i, None, :] @ state)[:, :, 0]
        out.append(above / (q[:, :, i] * total).sum(-1, keepdim=True))
    torch.testing.assert_close(one(x), one.merge(torch.stack(out, dim=2)))


def test_deltanet_is_its_recurrence() -> None:
    torch.manual_seed(0)
    one, x = DeltaNetAttention(16, 2, chunk=8).double(), context()
    q, k, v = one.split(x)
    q, k = torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    beta = torch.sigmoid(one.beta(x)).transpose(1, 2)
    state = torch.zeros(2, 2, 8, 8, dtype=x.dtype)
    out = []
    for i in range(x.shape[1]):
        key = k[:, :, i, :, None]
        known = (state * key).sum(2)
        state = state + key * (beta[:, :, i, None] * (v[:, :, i] - known))[:, :, None, :]
        out.append((q[:, :, i, None, :] @ state)[:, :, 0])
    # The chunk's triangular solve is done in single precision.
    torch.testing.assert_close(one(x), one.merge(torch.stack(out, dim=2)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "kind", [SoftmaxAttention, LinearAttention, DeltaNetAttention], ids=["softmax", "linear", "deltanet"]
)
@pytest.mark.parametrize("place", [11, 16, 30])
def test_the_future_is_not_seen_however_loud(kind: type[torch.nn.Module], place: int) -> None:
    torch.manual_seed(0)
    one, x = kind(16, 2), context().float()
    if kind is not SoftmaxAttention:
        one.chunk = 8  # type: ignore[assignment]
    loud = torch.cat([x[:, :place], 1e5 * x[:, place:]], dim=1)
    torch.testing.assert_close(one(loud)[:, :place], one(x)[:, :place], rtol=0, atol=1e-6)


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(InputError, match="at least one key"):
        SoftmaxAttention(16, 2, window=0)
    with pytest.raises(InputError, match="multiple of heads"):
        LinearAttention(15, 2)
    for kind in (LinearAttention, DeltaNetAttention):
        with pytest.raises(InputError, match="chunk must be positive"):
            kind(16, 2, chunk=0)


@pytest.mark.parametrize("shape", [(3, 16), (1, 3, 15), (1, 0, 16)])
@pytest.mark.parametrize("kind", [SoftmaxAttention, LinearAttention, DeltaNetAttention, SupportVectorAttention])
def test_contexts_of_another_shape_are_refused(kind: type[torch.nn.Module], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="x must be"):
        kind(16, 2)(torch.zeros(shape))


def test_linear_attention_in_half_precision_goes_on_in_a_long_context() -> None:
    torch.manual_seed(0)
    layer, x = LinearAttention(64, 2), torch.randn(1, 4096, 64)
    with torch.no_grad():
        wanted, found = layer(x), layer.half()(x.half()).float()
    assert float((found - wanted).norm() / wanted.norm()) < 0.01


def test_a_zero_token_in_half_precision_is_a_number_to_delta_net() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 24, 16).half()
    x[0, 12] = 0
    assert DeltaNetAttention(16, 2, chunk=8).half()(x).isfinite().all()


def test_delta_net_keeps_double_precision() -> None:
    torch.manual_seed(0)
    layer = DeltaNetAttention(6, 2, chunk=4).double()
    x = torch.randn(1, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
