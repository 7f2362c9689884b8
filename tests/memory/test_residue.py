"""After an erasure nothing in the process's own buffers gives the erased key back."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import AdmissionRefused, Memory
from expunge.problem.kernel import kernel_block
from expunge.solver.margin_factor import MarginFactor
from expunge.types import Matrix, Vector


def ward(seed: int) -> Memory:
    rng = np.random.default_rng(seed)
    return Memory.fit(rng.standard_normal((40, 3)), np.zeros((40, 1)), sigma=2.0, nu=0.4)


def gram_of(factor: MarginFactor) -> Matrix:
    """K over whatever a factor holds, with members or without."""
    upper = np.triu(factor.factor)
    return upper.T @ upper - 1.0


def holds(values: Matrix, kernels: Vector) -> bool:
    """Whether most of these kernel values stand somewhere in an array."""
    found = [bool(np.any(np.abs(values - kernel) < 1e-12)) for kernel in kernels if 1e-6 < kernel < 1.0 - 1e-6]
    return sum(found) > len(found) // 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("last", [False, True], ids=["any member", "the last to enter"])
def test_no_factor_keeps_the_kernel_values_of_an_erased_key(seed: int, last: bool) -> None:
    memory = ward(seed)
    members = memory.version.state.margin.members
    site = int(members[-1] if last else members[seed % members.size])
    row = int(np.flatnonzero(memory.version.sites == site)[0])
    others = memory.version.state.gram.keys[members[members != site]]
    kernels = kernel_block(memory.keys[row][None, :], others, memory.sigma)[0]
    assert holds(gram_of(memory.version.state.margin), kernels)
    memory.delete(memory.ids[row])
    for factor in (memory._spare, memory.version.state.margin):
        values = np.concatenate([gram_of(factor).ravel(), factor.factor.ravel() - 1.0])
        assert not holds(values, kernels)
    assert memory.attempts == ()


def test_a_reserve_entry_leaves_no_slack() -> None:
    memory = ward(1)
    row = int(memory.partition.reserve[0])
    site = int(memory.version.sites[row])
    memory.delete(memory.ids[row])
    assert memory.version.state.slack[site] == 0.0


def test_a_refused_admission_leaves_nothing_of_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ward(2)
    key = np.array([7.25, -3.5, 1.125])

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("deliberate")

    for name in ("path.admit", "backends.solve_reference"):
        monkeypatch.setattr(f"expunge.solver.{name}", fail)
    monkeypatch.setattr("expunge.memory.pending_edit.fit", fail)
    with pytest.raises(AdmissionRefused):
        memory.admit(key, [1.0], id="refused", subject="somebody", payload="secret")
    version = memory.version
    assert not np.any(np.all(version.state.gram.keys == key, axis=1))
    assert key.tobytes() not in version.site_of_key
    assert "refused" not in version.entries.ids
    assert "somebody" not in version.entries.subjects
