from __future__ import annotations

import copy

import numpy as np
import pytest

from expunge import InputError, Memory
from expunge.selection import SupportStream


def test_a_stream_selects_what_a_fresh_fit_would() -> None:
    rng = np.random.default_rng(0)
    keys = 1.5 * rng.standard_normal((120, 4))
    keys[70:80] = keys[10:20]  # some arrive twice
    stream = SupportStream(keys[:60], sigma=2.0, nu=0.3)
    cap = stream.memory.cap
    for step in range(60):
        chosen = stream.step(keys[60 + step])
        window = keys[step + 1 : step + 61]
        fresh = Memory.fit(window, np.zeros(60), sigma=2.0, cap=cap)
        assert chosen == tuple((np.flatnonzero(fresh.coefficients) + step + 1).tolist())
        assert len(stream) == 60
    assert stream.selected == chosen
    assert stream.memory.check().worst < 1e-12


def test_a_bad_key_leaves_the_stream_as_it_was() -> None:
    stream = SupportStream(np.random.default_rng(1).standard_normal((20, 3)), sigma=2.0, nu=0.5)
    before = stream.selected, stream.memory.digest
    with pytest.raises(InputError, match="finite"):
        stream.step([np.nan, 0.0, 0.0])
    assert (stream.selected, stream.memory.digest) == before
    stream.step([0.0, 0.0, 0.0])
    assert len(stream) == 20


def test_a_stream_of_no_keys_is_refused() -> None:
    with pytest.raises(InputError, match="keys"):
        SupportStream(5, sigma=2.0, nu=0.5)


def test_a_copy_goes_its_own_way() -> None:
    keys = np.random.default_rng(2).standard_normal((30, 3))
    stream = SupportStream(keys[:20], sigma=2.0, nu=0.5)
    twin, selected = copy.copy(stream), stream.selected
    chosen = [stream.step(key) for key in keys[20:]]
    assert twin.selected == selected
    assert [twin.step(key) for key in keys[20:]] == chosen
