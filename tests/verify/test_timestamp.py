"""Time stamps by OpenSSL's authority, verified here and by OpenSSL, whole and with every byte changed."""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder, decode_timestamp_response

from cosigning import cosign_checkpoint
from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, sign_checkpoint
from expunge.ledger.signing import SigningKey
from expunge.verify.timestamp import read_roots, verify_timestamp
from witnessing.stamping_authority import make_authority, openssl, stamp

NOTE = sign_checkpoint(Checkpoint("ledger.example/icu-7", 8, b"\x07" * 32), SigningKey.from_seed(b"\x01" * 32))
HEAD = NOTE.to_bytes()


def query(text: bytes = NOTE.text, algorithm: HashAlgorithm = HashAlgorithm.SHA256, certificate: bool = True) -> bytes:
    made = TimestampRequestBuilder(data=text, hash_algorithm=algorithm, cert_req=certificate).build()
    return bytes(made.as_bytes())


def code_of(token: bytes, roots: tuple[x509.Certificate, ...], head: bytes = HEAD, now: datetime | None = None) -> str:
    with pytest.raises(VerificationError) as caught:
        verify_timestamp(head, token, roots, now=now)
    return caught.value.code


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_authority(tmp_path_factory.mktemp("tsa"), ("tsa", "both", "web"))


@pytest.fixture(scope="module")
def roots(authority: Path) -> tuple[x509.Certificate, ...]:
    return read_roots((authority / "root.pem").read_bytes())


@pytest.fixture(scope="module")
def token(authority: Path) -> bytes:
    return stamp(authority, query())


def test_a_stamp_dates_a_head(authority: Path, roots: tuple[x509.Certificate, ...], token: bytes) -> None:
    now = datetime.now(UTC)
    found = verify_timestamp(HEAD, token, roots, now=now)
    assert abs(found.time - now) < timedelta(seconds=60)
    assert (found.authority, found.policy) == ("CN=tsa", "1.2.3.4.1")
    # OpenSSL, given the note's text and nothing of ours, agrees.
    (authority / "head.text").write_bytes(NOTE.text)
    (authority / "head.tsr").write_bytes(token)
    openssl(authority, "ts", "-verify", "-data", "head.text", "-in", "head.tsr", "-CAfile", "root.pem")


def test_it_holds_for_every_cosigned_copy(roots: tuple[x509.Certificate, ...], token: bytes) -> None:
    cosigned = cosign_checkpoint(NOTE, "w.example", SigningKey.from_seed(b"\x02" * 32), 1_700_000_000)
    assert verify_timestamp(cosigned.to_bytes(), token, roots) == verify_timestamp(HEAD, token, roots)


def test_stamps_that_others_asked_for(authority: Path, roots: tuple[x509.Certificate, ...]) -> None:
    assert verify_timestamp(HEAD, stamp(authority, query(algorithm=HashAlgorithm.SHA512)), roots).serial


def test_what_is_refused(authority: Path, roots: tuple[x509.Certificate, ...], token: bytes, tmp_path: Path) -> None:
    other = sign_checkpoint(Checkpoint("ledger.example/icu-7", 9, b"\x07" * 32), SigningKey.from_seed(b"\x01" * 32))
    assert code_of(token, roots, other.to_bytes()) == "timestamp-imprint-mismatch"
    assert code_of(stamp(authority, query(certificate=False)), roots) == "timestamp-signer-ambiguous"
    strangers = read_roots((make_authority(tmp_path / "other") / "root.pem").read_bytes())
    assert code_of(token, strangers) == "timestamp-signer-untrusted"
    assert code_of(token, roots, now=datetime.now(UTC) - timedelta(seconds=400)) == "timestamp-from-future"
    for bad in (b"", b"\x30", token + b"\x00", token[:-1], bytes(70_000), HEAD):
        assert code_of(bad, roots) == "timestamp-malformed"
    with pytest.raises(InputError, match="root"):
        verify_timestamp(HEAD, token, ())
    with pytest.raises(InputError, match="PEM"):
        read_roots(b"no certificate")


def forged(folder: Path, token: bytes, kind: str, *others: str) -> bytes:
    """The same statement, signed with a certificate that `openssl ts` does not take, and others carried along."""
    (folder / "whole.tsr").write_bytes(token)
    openssl(folder, "ts", "-reply", "-in", "whole.tsr", "-token_out", "-out", "token.der")
    openssl(folder, "cms", "-verify", "-noverify", "-inform", "DER", "-in", "token.der", "-out", "stated.der")
    kept = "".join((folder / f"{name}.pem").read_text() for name in others)
    (folder / "others.pem").write_text(kept)
    words = ["-econtent_type", "1.2.840.113549.1.9.16.1.4", "-signer", f"{kind}.pem", "-inkey", f"{kind}.key"]
    words += ["-certfile", "others.pem"] if others else []
    shape = ("-sign", "-binary", "-nodetach", "-outform", "DER", "-in", "stated.der", "-out", "forged.der")
    openssl(folder, "cms", *shape, *words)
    body = b"\x30\x03\x02\x01\x00" + (folder / "forged.der").read_bytes()
    return b"\x30\x82" + len(body).to_bytes(2, "big") + body


def test_a_certificate_for_something_else_stamps_nothing(
    authority: Path, roots: tuple[x509.Certificate, ...], token: bytes
) -> None:
    assert verify_timestamp(HEAD, forged(authority, token, "tsa"), roots).authority == "CN=tsa"
    for kind in ("both", "web"):
        assert code_of(forged(authority, token, kind), roots) == "timestamp-signer-purpose"
        assert code_of(forged(authority, token, kind, "tsa"), roots) == "timestamp-signer-purpose"


def test_a_certificate_of_the_same_number_beside_the_signer(
    authority: Path, roots: tuple[x509.Certificate, ...], token: bytes
) -> None:
    """A key for web servers signs; a certificate of its issuer and number, made by nobody, says that it may stamp."""
    web = x509.load_pem_x509_certificate((authority / "web.pem").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateBuilder(web.issuer, web.subject, key.public_key(), web.serial_number)
    made = made.not_valid_before(web.not_valid_before_utc).not_valid_after(web.not_valid_after_utc)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    (authority / "claimed.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    assert code_of(forged(authority, token, "web", "claimed"), roots) == "timestamp-signer-ambiguous"


def test_an_expired_authority(tmp_path: Path) -> None:
    """What counts is the stamped time: the stamp of an authority whose certificate was not valid then is refused."""
    folder = make_authority(tmp_path / "tsa")
    dates = ("-not_before", "20200101000000Z", "-not_after", "20210101000000Z")
    openssl(folder, "req", "-new", "-key", "tsa.key", "-config", "ca.cnf", "-subj", "/CN=tsa", "-out", "a.csr")
    (folder / "index").touch()
    (folder / "db.cnf").write_text(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\n"
        "commonName=supplied\n"
    )
    words = ("-startdate", dates[1], "-enddate", dates[3], "-extfile", "ca.cnf", "-extensions", "tsa", "-batch")
    openssl(
        folder,
        "ca",
        "-config",
        "db.cnf",
        "-cert",
        "root.pem",
        "-keyfile",
        "root.key",
        "-in",
        "a.csr",
        "-out",
        "tsa.pem",
        *words,
    )
    roots = read_roots((folder / "root.pem").read_bytes())
    assert code_of(stamp(folder, query()), roots) == "timestamp-signer-untrusted"


def test_every_bit_of_what_is_stated_is_signed(roots: tuple[x509.Certificate, ...], token: bytes) -> None:
    """One bit of every byte is flipped. What passes is the CMS wrapping that no signature covers, and says the same."""
    stated = verify_timestamp(HEAD, token, roots)
    codes: Counter[str] = Counter()
    for place in range(len(token)):
        changed = bytearray(token)
        changed[place] ^= 1
        try:
            assert verify_timestamp(HEAD, bytes(changed), roots) == stated
            codes["passed"] += 1
        except VerificationError as refused:
            codes[refused.code] += 1
    assert all(code.startswith("timestamp-") for code in codes - Counter(passed=10))
    assert codes["passed"] <= 10
    assert codes["timestamp-imprint-mismatch"] == 32
    assert codes["timestamp-hash-unsupported"] >= 7
    assert codes["timestamp-not-granted"] == 1
    assert min(codes["timestamp-signature-invalid"], codes["timestamp-signer-untrusted"]) > 30


@pytest.mark.parametrize("field", ["policy", "serial", "time", "accuracy", "nonce", "name"])
def test_a_changed_field_is_not_signed(field: str, roots: tuple[x509.Certificate, ...], token: bytes) -> None:
    stated = decode_timestamp_response(token).tst_info
    written = {
        "policy": b"\x2a\x03\x04\x01",
        "serial": b"\x02\x01" + bytes([stated.serial_number]),
        "time": stated.gen_time.strftime("%Y%m%d%H%M%SZ").encode()[:6],
        "accuracy": b"\x30\x03\x02\x01\x01",
        "nonce": stated.nonce.to_bytes(9, "big").lstrip(b"\0"),
        "name": b"\x0c\x03tsa",
    }[field]
    # The policy stands before the imprint, everything else after it.
    imprint = token.index(stated.message_imprint.message)
    last = token.index(written, imprint - 60 if field == "policy" else imprint) + len(written) - 1
    changed = token[:last] + bytes([token[last] ^ 1]) + token[last + 1 :]
    assert decode_timestamp_response(changed).tst_info is not None
    assert code_of(changed, roots) == (
        "timestamp-signer-untrusted" if field == "time" else "timestamp-signature-invalid"
    )


def test_the_command_of_the_format_page(authority: Path, token: bytes, tmp_path: Path) -> None:
    """The page says how to get the stamped bytes out of a head's file without expunge."""
    (tmp_path / "head.txt").write_bytes(HEAD)
    cut = subprocess.run(
        ["sed", "-n", "/^$/q;p", "head.txt"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert cut.stdout == NOTE.text
