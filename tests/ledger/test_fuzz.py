"""Whatever the bytes, every parser answers with a value or with an error of ours."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError, VerificationError
from expunge.ledger.checkpoint import parse_checkpoint
from expunge.ledger.encoding import decode_base64, decode_decimal, decode_float, parse_canonical
from expunge.ledger.envelope import open_statement, parse_envelope
from expunge.ledger.merkle.proof_file import parse_extension_proof, parse_inclusion_proof
from expunge.ledger.merkle.tree import Frontier
from expunge.ledger.note import NoteKey, parse_note
from expunge.ledger.signing import SigningKey, VerifyingKey
from expunge.ledger.statement import parse_statement

from .make_vectors import FOLDER, LOG_KEY


def text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "surrogateescape"))


PARSERS: dict[str, Callable[[bytes], object]] = {
    "canonical": lambda data: parse_canonical(data, limit=1 << 20),
    "statement": parse_statement,
    "envelope": parse_envelope,
    "open_statement": lambda data: open_statement(data, [LOG_KEY.public]),
    "note": parse_note,
    "checkpoint": parse_checkpoint,
    "inclusion": parse_inclusion_proof,
    "extension": parse_extension_proof,
    "frontier": Frontier.from_bytes,
    "vkey": text(NoteKey.from_text),
    "base64": text(decode_base64),
    "decimal": text(decode_decimal),
    "float": text(decode_float),
    "signing key": SigningKey.from_pem,
    "locked signing key": lambda data: SigningKey.from_pem(data, "secret"),
    "verifying key": VerifyingKey.from_pem,
}


def samples() -> Iterator[bytes]:
    for path in sorted(FOLDER.glob("*.json")):
        for value in json.loads(path.read_text()).values():
            if isinstance(value, str):
                yield value.encode()
    yield LOG_KEY.to_pem()
    yield LOG_KEY.to_pem("secret")
    yield bytes.fromhex(json.loads((FOLDER / "merkle-log.json").read_text())["frontier_of_7"])


SAMPLES = list(samples())


def survive(name: str, data: bytes) -> None:
    with contextlib.suppress(VerificationError, InputError):
        PARSERS[name](data)


every_parser = pytest.mark.parametrize("name", PARSERS)


@every_parser
@given(st.binary(max_size=300))
def test_random_bytes(name: str, data: bytes) -> None:
    survive(name, data)


@every_parser
@given(st.text(max_size=200))
def test_random_text(name: str, content: str) -> None:
    survive(name, content.encode("utf-8", "surrogatepass"))


@every_parser
def test_truncated_and_damaged_samples(name: str) -> None:
    source = random.Random(name)
    for sample in SAMPLES:
        for _ in range(30):
            data = bytearray(sample[: source.randrange(len(sample) + 1)] if source.random() < 0.4 else sample)
            for _ in range(source.randrange(4)):
                if data:
                    at = source.randrange(len(data))
                    data[at : at + source.randrange(3)] = source.randbytes(source.randrange(3))
            survive(name, bytes(data))


@every_parser
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\n" * 100_000,
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'"' * 100_000,
        b"9" * 1_000_000,
        b"-" * 1_000_000,
        b"\\" * 100_000,
        b"\xff" * 100_000,
        b"A" * 7_000_000,
        ("\u2014 a AAAAAAA=\n" * 100_000).encode(),
        b"c2sp.org/tlog-proof@v1\nindex 0\n" + b"A\n" * 200_000,
        b"0x" + b"f" * 1_000_000 + b"p+1",
        b'{"\\ud800":"\\udfff"}',
        b"[1e999999999]",
        "\ufeff{}".encode(),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_hostile_bytes(name: str, data: bytes) -> None:
    survive(name, data)
