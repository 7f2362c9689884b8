"""A PKCS#11 token in a folder, by SoftHSM, with a P-256 key for receipts and an Ed25519 key for heads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pkcs11
import pytest

LABEL, PIN = "ward", "1234"
RECEIPTS, HEADS = "hsm:1?label=ward", "hsm:2?label=ward"
LIBRARY = next(
    (path for path in map(Path, ("/usr/lib/softhsm/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so"))
     if path.exists()), None)  # fmt: skip
# The DER of the curves' object identifiers, 1.3.101.112 and 1.2.840.10045.3.1.7.
_ED25519, _P256 = bytes.fromhex("06032b6570"), bytes.fromhex("06082a8648ce3d030107")


def make_token(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A token with both keys, made inside it; the environment names it."""
    if LIBRARY is None:
        pytest.fail("SoftHSM is not installed: make softhsm")
    (folder / "tokens").mkdir()
    settings = folder / "softhsm2.conf"
    settings.write_text(f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n")
    patch.setenv("SOFTHSM2_CONF", str(settings))
    patch.setenv("PYKCS11LIB", str(LIBRARY))
    patch.setenv("EXPUNGE_PIN", PIN)
    made = ["softhsm2-util", "--init-token", "--free", "--label", LABEL, "--pin", PIN, "--so-pin", "5678"]
    subprocess.run(made, check=True, capture_output=True)  # noqa: S603 — constants
    library = pkcs11.lib(str(LIBRARY))
    # The library was perhaps loaded for another folder: it reads its settings and its slots once.
    library.reinitialize()
    with library.get_token(token_label=LABEL).open(rw=True, user_pin=PIN) as session:
        for number, kind, curve in ((1, pkcs11.KeyType.EC, _P256),
                                    (2, pkcs11.KeyType.EC_EDWARDS, _ED25519)):  # fmt: skip
            parameters = session.create_domain_parameters(kind, {pkcs11.Attribute.EC_PARAMS: curve}, local=True)
            parameters.generate_keypair(store=True, id=bytes([number]))
