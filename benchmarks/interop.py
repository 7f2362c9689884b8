"""Have software that we did not write read what we write, and write the record that docs/interop.md quotes.

    python benchmarks/interop.py       # make interop, which installs Go where it is missing

A log of a thousand leaves is made: signed statements, one of them beyond 65,535 bytes. Every leaf, every older tree and
a number of heads are then checked by each program, and so is what keys in a SoftHSM token sign. Each also gets altered
artefacts, all of which it must refuse: a program that accepts everything proves nothing.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import pytest
import rfc3161_client
import scitt_cose
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError as EnvelopeRefused
from securesystemslib.signer._key import SSlibKey
from tlog_scales import signing, tlog

from expunge.ledger.checkpoint import Checkpoint, Witness, sign_checkpoint
from expunge.ledger.cose import cose_statement
from expunge.ledger.envelope import sign_statement
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import InclusionProof
from expunge.ledger.merkle.tiles import write_tiles
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signer_uri import open_signer
from expunge.ledger.signing import SigningKey
from expunge.ledger.statement import Statement, Subject
from record import describe, write_result
from softhsm import HEADS as HEADS_URI
from softhsm import RECEIPTS as RECEIPTS_URI
from softhsm import make_token
from witnessing.stamping_authority import make_authority, openssl, stamp

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "results" / "interop.json"
LEAVES = 1000
HEADS = 20
ORIGIN = "ledger.example/icu-7"
KEY = SigningKey.from_seed(b"\x01" * 32)
LOG_KEY = NoteKey(ORIGIN, KEY.public)
WITNESS = Witness("witness.example/w1", SigningKey.from_seed(b"\x02" * 32))
TIME = 1_700_000_000


class Log:
    """A thousand signed leaves, their tree, and heads of it."""

    def __init__(self) -> None:
        self.leaves = [sign_statement(self.statement(number), KEY).to_bytes() for number in range(LEAVES)]
        self.tree = HashTree(map(leaf_hash, self.leaves))

    def head(self, size: int = LEAVES) -> SignedNote:
        """The signed head at a size."""
        return sign_checkpoint(Checkpoint(ORIGIN, size, self.tree.root(size)), KEY)

    def cose(self, index: int) -> bytes:
        """A leaf as a COSE message."""
        proof = InclusionProof(index, self.tree.inclusion_path(index, LEAVES), self.head())
        return cose_statement(self.leaves[index], proof, KEY)

    @staticmethod
    def statement(number: int) -> Statement:
        """The statement of a leaf."""
        names = [f"{entry:064x}" for entry in range(2000 if number == 700 else 3)]
        return Statement((Subject("icu-7", f"{number:064x}"),), "urn:example:leaf", {"n": number, "entries": names})


def refused(check: Callable[[], object], *kinds: type[Exception]) -> int:
    """One, if the check raises or says no."""
    try:
        return int(check() is False)
    except kinds:
        return 1


def openssl_version() -> str:
    """The first two words that it says."""
    told = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True)  # noqa: S607
    return " ".join(told.stdout.split()[:2])


def go_reads_tiles(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """Go's checksum database client: note, tiles, record proofs and tree proofs."""
    go = shutil.which("go")
    if go is None:
        yield {"artefact": "tiles", "software": "golang.org/x/mod/sumdb", "result": "not run: Go is not installed"}
        return
    program = folder / "read_tiles"
    source = ROOT / "tests" / "interop" / "read_tiles.go"
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(folder / "cache")}
    subprocess.run([go, "build", "-o", program, source], cwd=folder, env=environment, check=True)  # noqa: S603
    tiles = folder / "tiles"
    write_tiles(tiles, log.head(), lambda start: iter(log.leaves[start:]))

    def read(key: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, tiles, key], capture_output=True, text=True, check=False)  # noqa: S603

    found = json.loads(read(LOG_KEY.to_text()).stdout)
    altered = refused(lambda: read(NoteKey(ORIGIN, WITNESS.key.public).to_text()).returncode == 0)
    for path in sorted(path for path in tiles.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
        altered += refused(lambda: read(LOG_KEY.to_text()).returncode == 0)
        path.write_bytes(whole)
    files = sum(path.is_file() for path in tiles.rglob("*"))
    built = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout.split()[2]  # noqa: S603
    shared = {"software": "golang.org/x/mod/sumdb (tlog, note)", "version": f"Debian, {built}"}
    yield {"artefact": "tiles: record proofs", **shared, "accepted": found["records"], "of": LEAVES}
    yield {"artefact": "tiles: tree proofs", **shared, "accepted": found["trees"], "of": LEAVES}
    yield {"artefact": "tiles: each file or the key altered", **shared, "refused": altered, "of": files + 1}


def scales_checks_proofs(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """tlog-scales: every inclusion and consistency proof, heads and cosignatures."""
    root, inclusions, consistencies, altered = log.tree.root(), 0, 0, 0
    for index, leaf in enumerate(log.leaves):
        proof = tlog.InclusionProof(index, LEAVES, list(log.tree.inclusion_path(index)))
        proof.check(leaf_hash(leaf), root)
        inclusions += 1
        altered += refused(partial(proof.check, leaf_hash(b"x"), root), tlog.InclusionProofInvalid)
    for size in range(1, LEAVES + 1):
        path = list(log.tree.consistency_path(size))
        tlog.ConsistencyProof(size, LEAVES, path).check(log.tree.root(size), root)
        consistencies += 1
    heads = 0
    for size in range(LEAVES - HEADS + 1, LEAVES + 1):
        note = log.head(size)
        signed = note.with_signature(WITNESS.cosignature(note.text, TIME)).to_bytes().decode()
        other = tlog.Checkpoint.from_text(signed.replace(f"\n{size}\n", f"\n{size + 1}\n"))
        for key in (LOG_KEY, WITNESS.verifier):
            vkey = signing.Vkey.from_string(key.to_text())
            tlog.Checkpoint.from_text(signed).verify(vkey)
            heads += 1
            altered += refused(partial(other.verify, vkey), InvalidSignature)
    shared = {"software": "tlog-scales", "version": version("tlog-scales")}
    yield {"artefact": "inclusion proofs", **shared, "accepted": inclusions, "of": LEAVES}
    yield {"artefact": "consistency proofs", **shared, "accepted": consistencies, "of": LEAVES}
    yield {"artefact": "heads and Ed25519 cosignatures", **shared, "accepted": heads, "of": 2 * HEADS}
    yield {
        "artefact": "proofs of another leaf, heads of another size",
        **shared,
        "refused": altered,
        "of": LEAVES + 2 * HEADS,
    }


def cose_libraries_check_receipts(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """scitt-cose: messages and receipts of all leaves. cwt: messages, and receipts over the root."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cwt import COSE, COSEKey

    pem, root = KEY.public.to_pem(), log.tree.root()
    key = COSEKey.from_pem(pem, kid=KEY.public.key_id.encode())
    messages = receipts = plain = altered = 0
    for index, leaf in enumerate(log.leaves):
        data = log.cose(index)
        parsed = scitt_cose.parse_signed_statement(data, public_key_pem=pem)
        messages += parsed["signature_verified"] is True and parsed["payload"] == leaf
        (receipt,) = scitt_cose.extract_receipts(data)
        found = scitt_cose.verify_receipt(receipt, leaf_entry_hex=leaf.hex(), log_public_key_pem=pem)
        receipts += found.ok and found.root == root.hex()
        other = log.leaves[index - 1].hex()
        altered += not scitt_cose.verify_receipt(receipt, leaf_entry_hex=other, log_public_key_pem=pem).ok
        plain += COSE.new().decode(data, key) == leaf and COSE.new().decode(receipt, key, detached_payload=root) == root
    scitt = {"software": "scitt-cose", "version": version("scitt-cose")}
    yield {"artefact": "COSE messages of leaves", **scitt, "accepted": messages, "of": LEAVES}
    yield {"artefact": "COSE Receipts (RFC 9942)", **scitt, "accepted": receipts, "of": LEAVES}
    yield {"artefact": "COSE Receipts, for another leaf", **scitt, "refused": altered, "of": LEAVES}
    shared = {"software": "cwt", "version": version("cwt")}
    yield {"artefact": "COSE messages and receipts' signatures", **shared, "accepted": plain, "of": LEAVES}


def openssl_checks_stamps(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """OpenSSL: stamps that our requests got, from its own authority, over the texts of heads."""
    authority = make_authority(folder / "tsa")
    verify = ("ts", "-verify", "-in", "head.tsr", "-CAfile", "root.pem", "-data")
    accepted = altered = 0
    for size in range(LEAVES - HEADS + 1, LEAVES + 1):
        text = log.head(size).text
        algorithm = rfc3161_client.HashAlgorithm.SHA256
        query = rfc3161_client.TimestampRequestBuilder(data=text, hash_algorithm=algorithm).build().as_bytes()
        (authority / "head.tsr").write_bytes(stamp(authority, query))
        (authority / "head.text").write_bytes(text)
        (authority / "other.text").write_bytes(text.replace(b"\n", b"\n\n", 1))
        openssl(authority, *verify, "head.text")
        accepted += 1
        altered += refused(lambda: openssl(authority, *verify, "other.text"), subprocess.CalledProcessError)
    shared = {"software": "openssl ts", "version": openssl_version()}
    yield {"artefact": "time stamps on heads (RFC 3161)", **shared, "accepted": accepted, "of": HEADS}
    yield {"artefact": "time stamps, of another head", **shared, "refused": altered, "of": HEADS}


def other_libraries_check_envelopes(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """securesystemslib, and the verifier of sigstore that npm brings along: the envelopes of all leaves."""
    envelopes = [json.loads(leaf) for leaf in log.leaves]
    altered = [{**one, "payload": _altered(one["payload"])} for one in envelopes]
    theirs = SSlibKey.from_crypto(load_pem_public_key(KEY.public.to_pem()), keyid=KEY.public.key_id)

    def verify(document: dict[str, Any]) -> bool:
        # It takes the document apart.
        return bool(Envelope.from_dict(deepcopy(document)).verify([theirs], 1))

    shared = {"software": "securesystemslib", "version": version("securesystemslib")}
    count = sum(map(verify, envelopes))
    yield {"artefact": "leaves (DSSE, Ed25519)", **shared, "accepted": count, "of": LEAVES}
    count = sum(refused(partial(verify, one), EnvelopeRefused) for one in altered)
    yield {"artefact": "leaves, one bit altered", **shared, "refused": count, "of": LEAVES}
    yield {
        "artefact": "leaves (DSSE, Ed25519)",
        "software": "go-securesystemslib/dsse, sigstore-go, cosign",
        "result": "not run: Debian has no package of them",
    }
    npm = shutil.which("npm")
    if npm is None:
        software = "@sigstore/verify (JavaScript)"
        yield {"artefact": "leaves (DSSE, Ed25519)", "software": software, "result": "not run: npm is not installed"}
        return
    found = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=True)  # noqa: S603
    script = ROOT / "tests" / "interop" / "verify_bundles.js"
    program = ["node", str(script), f"{found.stdout.strip()}/npm/node_modules"]

    def verified(documents: list[dict[str, Any]]) -> dict[str, Any]:
        content = json.dumps({"pem": KEY.public.to_pem().decode(), "envelopes": documents})
        done = subprocess.run(program, input=content, text=True, capture_output=True, check=True)  # noqa: S603
        return dict(json.loads(done.stdout))

    taken, wrong = verified(envelopes), verified(altered)
    shared = {"software": "@sigstore/verify (JavaScript)", "version": taken["version"]}
    yield {"artefact": "leaves (DSSE, Ed25519)", **shared, "accepted": taken["verified"], "of": LEAVES}
    yield {"artefact": "leaves, one bit altered", **shared, "refused": LEAVES - wrong["verified"], "of": LEAVES}


def _altered(payload: str) -> str:
    data = bytearray(base64.b64decode(payload))
    data[-3] ^= 1
    return base64.b64encode(data).decode()


def openssl_checks_a_token(log: Log, folder: Path) -> Iterator[dict[str, Any]]:
    """SoftHSM signs, P-256 for receipts and Ed25519 for heads; OpenSSL verifies with the public keys."""
    library = shutil.which("softhsm2-util")
    if library is None:
        yield {"artefact": "a key in a token", "software": "SoftHSM", "result": "not run: SoftHSM is not installed"}
        return
    with pytest.MonkeyPatch.context() as patch:
        make_token(folder, patch)
        receipts, heads = open_signer(RECEIPTS_URI), open_signer(HEADS_URI)
        envelopes = [sign_statement(log.statement(number), receipts) for number in range(HEADS)]
        notes = [sign_checkpoint(Checkpoint(ORIGIN, size, log.tree.root(size)), heads) for size in range(1, 1 + HEADS)]
    for name, key in (("receipts", receipts), ("heads", heads)):
        (folder / f"{name}.pem").write_bytes(key.public.to_pem())
    ecdsa = ("dgst", "-sha256", "-verify", "receipts.pem", "-signature", "signature", "message")
    eddsa = ("pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "heads.pem", "-sigfile", "signature", "-in", "message")
    # The message is DSSE's encoding of type and payload, written out by the specification.
    signed = [
        (b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(one.payload), one.payload), one.signatures[0].signature)
        for one in envelopes
    ]
    noted = [(note.text, note.signatures[0].signature) for note in notes]
    shared = {"software": "openssl", "version": openssl_version()}
    for what, words, pairs in (("receipts (P-256)", ecdsa, signed), ("heads (Ed25519)", eddsa, noted)):
        accepted = altered = 0
        for message, signature in pairs:
            (folder / "signature").write_bytes(signature)
            (folder / "message").write_bytes(message)
            openssl(folder, *words)
            accepted += 1
            (folder / "message").write_bytes(message + b" ")
            altered += refused(partial(openssl, folder, *words), subprocess.CalledProcessError)
        count = len(pairs)
        yield {"artefact": f"{what} from a SoftHSM token", **shared, "accepted": accepted, "of": count}
        yield {"artefact": f"{what} from a SoftHSM token, altered", **shared, "refused": altered, "of": count}


CHECKS = (
    go_reads_tiles,
    scales_checks_proofs,
    cose_libraries_check_receipts,
    openssl_checks_stamps,
    other_libraries_check_envelopes,
    openssl_checks_a_token,
)


def main() -> None:
    """Run every check, print a line for each result, write the record; exit 1 if anything is not as it should be."""
    log, rows = Log(), []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as made:
        for check in CHECKS:
            folder = Path(made) / check.__name__
            folder.mkdir()
            for row in check(log, folder):
                rows.append(row)
                count = row.get("accepted", row.get("refused"))
                word = "accepted" if "accepted" in row else "refused"
                told = row["result"] if "result" in row else f"{word} {count} of {row['of']}"
                print(f"{row['artefact']}: {row['software']} {row.get('version', '')}: {told}")
    write_result(OUT, {"machine": describe(), "seconds": round(time.perf_counter() - started, 1), "rows": rows})
    if any(row.get("accepted", row.get("refused")) != row.get("of") for row in rows):
        raise SystemExit("not everything is as it should be")


if __name__ == "__main__":
    main()
