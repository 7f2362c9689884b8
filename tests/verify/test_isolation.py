"""Verification runs with no network, and loads nothing of what made the artifacts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .cases import LOGGER, ORIGIN, SIGNER, case, ledger

FORBIDDEN = tuple(
    f"expunge.{name}"
    for name in ("solver", "memory", "certificates", "attestation", "store", "ledger.merkle.tree", "service", "cli")
)

PROGRAM = """
import socket, sys

def refuse(*args, **kwargs):
    raise RuntimeError("a connection was tried")

for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
    setattr(socket, name, refuse)
import _socket
sys.modules["_socket"] = None

from pathlib import Path
from expunge.ledger.note import NoteKey
from expunge.ledger.signing import VerifyingKey
from expunge.verify import verify_consistency, verify_evidence, verify_inclusion, verify_ledger, verify_receipt

folder, signer, logger, origin = sys.argv[1:]
folder = Path(folder)
trusted = [VerifyingKey(bytes.fromhex(signer))]
log_keys = [NoteKey(origin, VerifyingKey(bytes.fromhex(logger)))]
envelopes = [path.read_bytes() for path in sorted(folder.glob("*.leaf"))]
receipts = [path.read_bytes() for path in sorted(folder.glob("*.receipt"))]
head = (folder / "head").read_bytes()
for envelope in receipts:
    verify_receipt(envelope, trusted)
verify_ledger(envelopes, head, trusted, log_keys, origin)
verify_inclusion((folder / "receipt").read_bytes(), (folder / "inclusion").read_bytes(), log_keys, origin)
verify_consistency((folder / "kept").read_bytes(), (folder / "extension").read_bytes(), log_keys, origin)
verify_evidence(folder / "bundle", trusted, log_keys=log_keys, origin=origin)
print("\\n".join(sys.modules))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder: Path = tmp_path_factory.mktemp("artifacts")
    whole, made = ledger(), case("ward-admitted")
    for number, envelope in enumerate(whole.envelopes):
        (folder / f"{number:03}.leaf").write_bytes(envelope)
    for receipt in whole.cases.values():
        (folder / f"{receipt.name}.receipt").write_bytes(receipt.envelope)
    for name, content in {
        "head": whole.heads[-1].to_bytes(),
        "kept": whole.heads[2].to_bytes(),
        "extension": whole.extension(3),
        "receipt": made.envelope,
        "inclusion": made.inclusion,
        "bundle": made.evidence,
    }.items():
        (folder / name).write_bytes(content)
    arguments = [str(folder), SIGNER.public.raw.hex(), LOGGER.public.raw.hex(), ORIGIN]
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *arguments], check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.slow
def test_it_verifies_without_a_network(modules: set[str]) -> None:
    assert "expunge.verify.evidence" in modules


def test_it_loads_nothing_that_made_the_artifacts(modules: set[str]) -> None:
    assert not {name for name in modules if name in FORBIDDEN or name.startswith(tuple(f"{f}." for f in FORBIDDEN))}
    assert not {"securesystemslib", "sklearn", "daqp", "proxsuite", "sqlalchemy", "torch"} & modules


def test_a_receipt_alone_needs_no_arrays() -> None:
    program = "import sys; from expunge.verify import verify_receipt; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    assert not {"numpy", "numba", "flint"} & set(run.stdout.split())
