"""Point-in-time certificates: what they state, and on what evidence."""

from __future__ import annotations

import numpy as np
import pytest

from expunge import DecrementCertificate, InputError, Memory, ReserveCertificate
from expunge.certificates.certificate import DOES_NOT_COVER


def a_memory() -> Memory:
    keys = np.random.default_rng(5).standard_normal((50, 3))
    return Memory.fit(keys, np.arange(50.0), sigma=1.5, nu=0.3)


def test_a_reserve_certificate_is_proved_and_changes_nothing() -> None:
    memory = a_memory()
    for row in memory.partition.reserve.tolist():
        certificate = memory.certificate(memory.ids[row])
        assert isinstance(certificate, ReserveCertificate)
        assert certificate.proved
        assert certificate.slack > 0.0
        assert certificate.readout_change == 0.0
        assert certificate.does_not_cover == DOES_NOT_COVER


def test_a_decrement_certificate_states_its_evidence() -> None:
    memory = a_memory()
    for row in (*memory.partition.margin[:3].tolist(), *memory.partition.bound[:3].tolist()):
        certificate = memory.certificate(memory.ids[row])
        assert isinstance(certificate, DecrementCertificate)
        assert certificate.unique
        assert certificate.coefficient == memory.coefficients[row]
        assert certificate.nearest > 0.0
        assert certificate.smallest_eigenvalue > 0.0
        assert "a refit at another cap" in certificate.does_not_cover


def test_duplicates_are_not_called_unique() -> None:
    keys = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    memory = Memory.fit(keys, np.zeros(4), sigma=1.0, cap=0.5)
    certificate = memory.certificate("2")
    assert isinstance(certificate, DecrementCertificate)
    assert certificate.duplicates == 1
    assert not certificate.unique


def test_an_unknown_entry_has_no_certificate() -> None:
    with pytest.raises(InputError, match="no entry has id"):
        a_memory().certificate("nobody")


def test_a_slack_does_not_depend_on_the_order_of_the_entries() -> None:
    memory = a_memory()
    order = np.random.default_rng(6).permutation(50)
    other = Memory.fit(memory.keys[order], memory.values[order], sigma=1.5, nu=0.3, ids=[memory.ids[i] for i in order])
    for row in memory.partition.reserve.tolist():
        one, two = (held.certificate(memory.ids[row]) for held in (memory, other))
        assert isinstance(one, ReserveCertificate)
        assert isinstance(two, ReserveCertificate)
        assert one.slack.hex() == two.slack.hex()
