"""A store that signed with an ECDSA key first, and with an Ed25519 key now: old and new receipts verify on the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, expect

from expunge.ledger.event import KeyUse
from expunge.ledger.signing import SigningKey, save_signing_key
from expunge.ledger.verifying_key import KeyAlgorithm, VerifyingKey
from expunge.store import open as open_store
from service.frontend.browser import ORIGIN, RunningService, serving, visiting


@dataclass(frozen=True)
class CurveKey:
    """A signer with ECDSA over P-256, as key services have."""

    private: EllipticCurvePrivateKey = field(default_factory=lambda: generate_private_key(SECP256R1()))

    @property
    def public(self) -> VerifyingKey:
        """The public half."""
        raw = self.private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return VerifyingKey(raw, KeyAlgorithm.ECDSA_P256)

    def sign(self, message: bytes) -> bytes:
        """DER."""
        return self.private.sign(message, ECDSA(SHA256()))


@dataclass(frozen=True)
class Rotated:
    """The running service, and what it would have handed out before the rotation."""

    service: RunningService
    old: str
    proof: str
    last: int


@pytest.fixture(scope="module")
def rotated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotated]:
    folder = tmp_path_factory.mktemp("rotated")
    url = f"sqlite:///{folder / 'page.db'}"
    curve, heads, new = CurveKey(), SigningKey.generate(), SigningKey.generate()
    uses: tuple[KeyUse, KeyUse] = ("receipts", "heads")
    with open_store(url, curve, head_key=heads, origin=ORIGIN) as store:
        store.create("ward", [[0.0], [1.0]], [1.0, 2.0], sigma=1.0, nu=0.5)
        old, proof = next(iter(store.receipts())).envelope.decode(), store.inclusion(0).to_bytes().decode()
        for use in uses:
            store.add_key(new.public, use)
    with open_store(url, new) as store:
        for use, key in zip(uses, (curve.public, heads.public), strict=True):
            store.revoke_key(key, use, "rotated")
        store["ward"].admit([2.0], [3.0])
        last = store.size - 1
    save_signing_key(new, folder / "new.pem")
    with serving(folder, with_memories=False, key=folder / "new.pem") as service:
        yield Rotated(service, old, proof, last)


def test_the_service_names_every_key(rotated: Rotated) -> None:
    store = rotated.service.store
    found = rotated.service.call("GET", "/v1")["keys"]
    assert [(one["use"], one["revoked"]) for one in found] == [
        *(("receipts", True), ("heads", True)),
        *(("receipts", False), ("heads", False)),
    ]
    given = {use: [one["key"] for one in found if one["use"] == use] for use in ("receipts", "heads")}
    assert given["receipts"] == [key.to_pem().decode() for key in store.public_keys]
    assert given["heads"] == [key.to_text() for key in store.log_keys]


def test_the_service_verifies_a_proof_from_before(rotated: Rotated) -> None:
    body = {"envelope": rotated.old, "inclusion": rotated.proof}
    assert rotated.service.call("POST", "/v1/verify/receipt", body)["inclusion"]


def test_old_and_new_receipts_verify_in_the_ledger(window: Browser, rotated: Rotated) -> None:
    with visiting(window, rotated.service) as visit:
        for index in (0, rotated.last):
            visit.go(f"#/ledger/{index}")
            expect(visit.page.locator(".verdict.passed")).to_contain_text("and in the log")
        visit.check_traffic()


def test_files_from_before_and_after_verify_with_the_keys_of_the_store(
    window: Browser, rotated: Rotated, tmp_path: Path
) -> None:
    leaf = rotated.service.call("GET", f"/v1/receipts/{rotated.last}")
    texts = {
        "old": (rotated.old, rotated.proof),
        "new": (leaf["envelope"], leaf["inclusion"]["text"]),
    }
    for name, (envelope, proof) in texts.items():
        (tmp_path / f"{name}.json").write_text(envelope, encoding="utf-8")
        (tmp_path / f"{name}.tlog-proof").write_text(proof, encoding="utf-8")
    with visiting(window, rotated.service) as visit:
        visit.go("#/verify")
        visit.page.get_by_role("button", name="Use this store's keys").click()
        visit.page.locator("#verifier-files").set_input_files(sorted(tmp_path.iterdir()))
        expect(visit.page.locator(".verdict.passed")).to_have_count(2)
        visit.page.get_by_label("Trusted keys").fill(leaf["log_key"])
        visit.page.get_by_role("button", name="Verify", exact=True).click()
        failed = visit.page.get_by_role("region", name="old.json").locator(".verdict.failed")
        expect(failed).to_contain_text("envelope-signer-unknown")
        visit.check_traffic()


def test_a_head_under_a_revoked_key_is_not_taken(window: Browser, rotated: Rotated) -> None:
    """Whoever stole a revoked key of heads cannot show a receipt in a ledger of their own."""
    with visiting(window, rotated.service) as visit:
        visit.page.route(
            "**/v1/receipts/0",
            lambda route: route.fulfill(
                json=(found := route.fetch().json()) | {"inclusion": found["inclusion"] | {"text": rotated.proof}}
            ),
        )
        visit.go("#/ledger/0")
        expect(visit.page.locator(".verdict.failed")).to_contain_text("note-signer-unknown")
        visit.check_traffic()
