"""Whatever the bytes, verification answers with nothing or with an error of ours."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import dump_canonical
from expunge.ledger.envelope import open_statement
from expunge.ledger.receipt_format import PREDICATE_TYPE
from expunge.ledger.receipt_parsing import parse_predicate
from expunge.ledger.statement import Statement, parse_statement
from expunge.verify import verify_consistency, verify_evidence, verify_inclusion, verify_ledger, verify_receipt
from expunge.verify.evidence_format import parse_bundle

from .alter import document, forge, leaves, members, packed, put, restated
from .cases import LOG_KEYS, ORIGIN, TRUSTED, case, ledger

MADE = case("ward-admitted")
HEAD = ledger().heads[-1].to_bytes()

PARSERS: dict[str, Callable[[bytes], object]] = {
    "receipt": lambda data: verify_receipt(data, TRUSTED),
    "predicate": lambda data: parse_predicate(parse_statement(data)),
    "bundle": parse_bundle,
    "evidence": lambda data: verify_evidence(data, TRUSTED),
    "inclusion": lambda data: verify_inclusion(MADE.envelope, data, LOG_KEYS, ORIGIN),
    "consistency": lambda data: verify_consistency(HEAD, data, LOG_KEYS, ORIGIN),
    "kept head": lambda data: verify_consistency(data, ledger().extension(3), LOG_KEYS, ORIGIN),
    "log": lambda data: verify_ledger([data], HEAD, TRUSTED, LOG_KEYS, ORIGIN),
    "head": lambda data: verify_ledger([], data, TRUSTED, LOG_KEYS, ORIGIN),
}
every_parser = pytest.mark.parametrize("name", PARSERS)


def survive(parse: Callable[[], object]) -> None:
    with contextlib.suppress(VerificationError, InputError):
        parse()


def samples() -> Iterator[bytes]:
    yield MADE.evidence
    yield case("ward-decrement").evidence
    yield MADE.envelope
    yield MADE.statement.to_bytes()
    yield MADE.inclusion
    yield ledger().extension(3)
    yield HEAD


SAMPLES = list(samples())


@every_parser
@given(st.binary(max_size=300))
@settings(max_examples=30)
def test_random_bytes(name: str, data: bytes) -> None:
    survive(lambda: PARSERS[name](data))


@every_parser
def test_truncated_and_damaged_samples(name: str) -> None:
    source = random.Random(name)
    for sample in SAMPLES:
        for _ in range(40):
            data = bytearray(sample[: source.randrange(len(sample) + 1)] if source.random() < 0.4 else sample)
            for _ in range(source.randrange(4)):
                if data:
                    at = source.randrange(len(data))
                    data[at : at + source.randrange(3)] = source.randbytes(source.randrange(3))
            survive(partial(PARSERS[name], bytes(data)))


@every_parser
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b"9" * 1_000_000,
        b"\xff" * 100_000,
        b"A" * 7_000_000,
        b"PK\x03\x04" * 100_000,
        b"PK\x05\x06" + bytes(18),
        b'{"\\ud800":"\\udfff"}',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_hostile_bytes(name: str, data: bytes) -> None:
    survive(lambda: PARSERS[name](data))


def test_every_cut_of_a_bundle_is_noticed() -> None:
    data = case("example-created").evidence
    for end in range(0, len(data), 7):
        with pytest.raises(VerificationError):
            verify_evidence(data[:end], TRUSTED)


def test_every_flipped_byte_of_a_bundle_is_noticed() -> None:
    """All over the file: no byte of a bundle is without a meaning."""
    data = case("example-created").evidence
    source = random.Random(1)
    for at in range(len(data)):
        altered = data[:at] + bytes([data[at] ^ (1 << source.randrange(8))]) + data[at + 1 :]
        with pytest.raises(VerificationError):
            verify_evidence(altered, TRUSTED, log_keys=LOG_KEYS, origin=ORIGIN)


def test_every_flipped_byte_of_a_receipt_is_noticed() -> None:
    """A leaf has one spelling. As an envelope of DSSE it may have others, which say the same."""
    data = case("example-created").envelope
    stated = verify_receipt(data, TRUSTED)
    for at in range(len(data)):
        for mask in (1, 128):
            flipped = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
            with pytest.raises(VerificationError):
                open_statement(flipped, TRUSTED)
            with contextlib.suppress(VerificationError):
                assert verify_receipt(flipped, TRUSTED) == stated


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**53 - 1) | st.text(max_size=6) | st.floats().map(float.hex),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [path for path, _ in leaves(document(MADE))]


@given(st.sampled_from(FIELDS), JSON)
@settings(max_examples=150)
def test_anything_in_any_field_of_a_receipt(path: Any, value: Any) -> None:
    with contextlib.suppress(VerificationError, InputError):
        verify_receipt(forge(MADE, put(document(MADE), path, value)), TRUSTED)


@given(st.dictionaries(st.sampled_from(sorted(document(MADE))), JSON, max_size=20))
@settings(max_examples=100)
def test_anything_for_a_predicate(predicate: Any) -> None:
    with contextlib.suppress(VerificationError, InputError):
        parse_predicate(Statement(MADE.statement.subjects, PREDICATE_TYPE, document(MADE) | predicate))


MANIFEST = json.loads(members(MADE.evidence)["manifest.json"])


@given(st.sampled_from([path for path, _ in leaves(MANIFEST)]), JSON)
@settings(max_examples=100)
def test_anything_in_any_field_of_a_manifest(path: Any, value: Any) -> None:
    with contextlib.suppress(VerificationError, InputError):
        verify_evidence(restated(MADE.evidence, path, value), TRUSTED)


def test_a_manifest_that_promises_the_world() -> None:
    """Sizes are believed only as far as there are bytes for them."""
    for size in (10**8, 2**53 - 1):
        for field in ("entries", "dimension", "width"):
            with pytest.raises(VerificationError):
                verify_evidence(restated(MADE.evidence, ("after", field), size), TRUSTED)


def test_a_manifest_that_is_deep_or_large() -> None:
    contents = members(MADE.evidence)
    for manifest in (b'{"a":' * 500 + b"1" + b"}" * 500, dump_canonical({"format": "x" * 70_000})):
        with pytest.raises(VerificationError):
            verify_evidence(packed(contents | {"manifest.json": manifest}), TRUSTED)
