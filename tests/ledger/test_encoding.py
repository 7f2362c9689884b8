"""One spelling a value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError, VerificationError
from expunge.ledger.encoding import (
    decode_base64,
    decode_decimal,
    decode_float,
    encode_base64,
    encode_float,
    is_sha256_hex,
)
from raising import raises_code


@given(st.binary(max_size=64))
def test_base64_round_trips(data: bytes) -> None:
    assert decode_base64(encode_base64(data)) == data


@given(st.text(max_size=12))
def test_base64_has_one_spelling(text: str) -> None:
    data = decode_base64(text)
    assert data is None or encode_base64(data) == text


@pytest.mark.parametrize("text", ["A", "AA", "AAA", "AB==", "AAB=", "AA==\n", " AA==", "AA--", "AA__", "AA==AA==", "é"])
def test_base64_in_another_spelling_is_refused(text: str) -> None:
    assert decode_base64(text) is None


@given(st.integers(0, 2**63 - 1))
def test_decimals_round_trip(number: int) -> None:
    assert decode_decimal(str(number)) == number


@pytest.mark.parametrize(
    "text", ["", "00", "01", "+1", "-1", " 1", "1 ", "1\n", "1_0", "0x1", "٣", str(2**63), "9" * 5000]
)
def test_decimals_in_another_spelling_are_refused(text: str) -> None:
    assert decode_decimal(text) is None


@given(st.floats(allow_nan=False))
def test_floats_round_trip_exactly(number: float) -> None:
    decoded = decode_float(encode_float(number))
    assert decoded == number
    assert math.copysign(1.0, decoded) == math.copysign(1.0, number)


@given(st.text(alphabet="0123456789abcdefxp+-.infNANI ", max_size=26))
def test_floats_have_one_spelling(text: str) -> None:
    try:
        number = decode_float(text)
    except VerificationError:
        return
    assert encode_float(number) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.0",
        "0x1p0",
        "0x1.0p+0",
        "0x1.0000000000000P+0",
        "0X1.0000000000000p+0",
        " 0x1.0000000000000p+0",
        "0x2.0000000000000p+0",
        "0x1.00000000000000p+0",
        "0x1.0000000000000p+0000",
        "+inf",
        "Infinity",
        "nan",
        "-nan",
        "0x1.0000000000000p+99999",
        "0x1." + "0" * 100_000 + "p+0",
    ],
)
def test_floats_in_another_spelling_are_refused(text: str) -> None:
    with raises_code("float-hex-invalid"):
        decode_float(text)


def test_known_floats() -> None:
    assert encode_float(1.0) == "0x1.0000000000000p+0"
    assert encode_float(-0.0) == "-0x0.0p+0"
    assert encode_float(math.inf) == "inf"
    assert encode_float(5e-324) == "0x0.0000000000001p-1022"


def test_nan_is_not_recorded() -> None:
    with pytest.raises(InputError):
        encode_float(math.nan)


@pytest.mark.parametrize("text", ["A" * 64, "a" * 63, "a" * 65, "g" * 64, "a" * 64 + "\n", None, 7])
def test_digests_are_lowercase_hexadecimal(text: object) -> None:
    assert not is_sha256_hex(text)
    assert is_sha256_hex("a" * 64)
