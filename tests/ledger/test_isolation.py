"""Loading a half loads only that half."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    return set(run.stdout.split())


def test_expunge_loads_no_cryptography() -> None:
    modules = loaded_after("import expunge, expunge.ledger, expunge.error_codes")
    assert not {"cryptography", "securesystemslib", "rfc8785"} & modules


def test_the_verifier_of_trees_loads_nothing_of_the_writer() -> None:
    modules = loaded_after("import expunge.ledger.merkle.tree_proof")
    ours = {name for name in modules if name.startswith("expunge")}
    assert ours == {
        "expunge",
        "expunge.errors",
        "expunge.ledger",
        "expunge.ledger.merkle",
        "expunge.ledger.merkle.hashing",
        "expunge.ledger.merkle.tree_proof",
    }


@pytest.mark.parametrize("module", ["envelope", "merkle.proof_file", "commitment"])
def test_verification_needs_neither_writer_nor_solver(module: str) -> None:
    modules = loaded_after(f"import expunge.ledger.{module}")
    assert not {"expunge.ledger.merkle.tree", "securesystemslib", "numpy", "scipy", "numba", "sklearn"} & modules
    assert not {
        name for name in modules if name.startswith(("expunge.solver", "expunge.memory.memory", "expunge.store"))
    }
