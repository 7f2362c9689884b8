"""RFC 8785 JSON: what is accepted is exactly what is written."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.ledger.canonical import MAX_DEPTH, MAX_INTEGER, Json, dump_canonical, parse_canonical
from expunge.ledger.errors import (
    CanonicalError,
    JsonDuplicateKey,
    JsonFloatForbidden,
    JsonIntegerOutOfRange,
    JsonNotCanonical,
    JsonNotUtf8,
    JsonSyntaxInvalid,
    JsonTooDeep,
    JsonTooLarge,
    JsonTooManyValues,
)

LIMIT = 1 << 20
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def thaw(value: Json) -> Any:
    if isinstance(value, tuple):
        return [thaw(item) for item in value]
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    return value


@given(VALUES)
def test_values_round_trip(value: Any) -> None:
    data = dump_canonical(value)
    assert thaw(parse_canonical(data, limit=LIMIT)) == value
    assert dump_canonical(parse_canonical(data, limit=LIMIT)) == data


@given(VALUES)
def test_any_other_layout_is_refused(value: Any) -> None:
    data = dump_canonical(value)
    for other in (b" " + data, data + b"\n", json.dumps(value, indent=1).encode()):
        if other != data:
            with pytest.raises(JsonNotCanonical):
                parse_canonical(other, limit=LIMIT)


def test_the_sorting_example_of_rfc_8785() -> None:
    # §3.2.3: keys are sorted by UTF-16 code units, which puts a surrogate pair before U+FB33.
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    data = dump_canonical(dict.fromkeys(keys, 0))
    assert list(json.loads(data)) == ordered


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", JsonSyntaxInvalid),
        (b"{", JsonSyntaxInvalid),
        (b"[1,]", JsonSyntaxInvalid),
        (b"{'a':1}", JsonSyntaxInvalid),
        (b'{"a":1}{"a":1}', JsonSyntaxInvalid),
        (b'"\x01"', JsonSyntaxInvalid),
        (b"\xef\xbb\xbf{}", JsonSyntaxInvalid),
        (b"\xff", JsonNotUtf8),
        (b'"\xed\xa0\x80"', JsonNotUtf8),
        ('{"a":1}'.encode("utf-16"), JsonNotUtf8),
        (b'{"a":1,"a":1}', JsonDuplicateKey),
        (b'{"a":{"b":1,"b":2}}', JsonDuplicateKey),
        (b'{"a":1,"\\u0061":2}', JsonDuplicateKey),
        (b"1.5", JsonFloatForbidden),
        (b"1.0", JsonFloatForbidden),
        (b"1e3", JsonFloatForbidden),
        (b"NaN", JsonFloatForbidden),
        (b"-Infinity", JsonFloatForbidden),
        (b"9007199254740992", JsonIntegerOutOfRange),
        (b"-9007199254740992", JsonIntegerOutOfRange),
        (b"9" * 5000, JsonIntegerOutOfRange),
        (b"-0", JsonNotCanonical),
        (b"[1, 2]", JsonNotCanonical),
        (b'{"b":1,"a":2}', JsonNotCanonical),
        (b'"\\u0061"', JsonNotCanonical),
        (b'"\\/"', JsonNotCanonical),
        (b'"\\u001F"', JsonNotCanonical),
        (b'"\\ud800"', JsonNotCanonical),
        (b'{"\\udfff":1}', JsonNotCanonical),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), JsonTooDeep),
        (b'{"a":' * (MAX_DEPTH + 1), JsonTooDeep),
        (b"[" * 100_000, JsonTooDeep),
        (b" " * (LIMIT + 1), JsonTooLarge),
        (b"[" + b"1," * 200_000 + b"1]", JsonTooManyValues),
        (b"[" + b"{}," * 100_000 + b"{}]", JsonTooManyValues),
    ],
)
def test_each_fault_has_its_name(data: bytes, error: type[CanonicalError]) -> None:
    with pytest.raises(error) as caught:
        parse_canonical(data, limit=LIMIT)
    assert type(caught.value) is error


def test_brackets_inside_strings_do_not_nest() -> None:
    value = ["[" * 100, '"' * 100, "\\" * 99 + "{"]
    assert thaw(parse_canonical(dump_canonical(value), limit=LIMIT)) == value


def test_as_many_values_as_the_limit_are_read() -> None:
    data = b"[" + b",".join([b"1"] * 9) + b"]"
    parse_canonical(data, limit=LIMIT, max_values=10)
    with pytest.raises(JsonTooManyValues):
        parse_canonical(data, limit=LIMIT, max_values=9)


def test_nesting_up_to_the_limit_is_read() -> None:
    data = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert dump_canonical(parse_canonical(data, limit=LIMIT)) == data


@pytest.mark.parametrize("data", [b'"' + b'\\"' * 500_000, b'"' * 999_999, b"\\" * 1_000_000, b'["' + b"\\" * 900_001])
def test_hostile_strings_take_linear_time(data: bytes) -> None:
    begin = time.perf_counter()
    with pytest.raises(CanonicalError):
        parse_canonical(data, limit=LIMIT)
    assert time.perf_counter() - begin < 2.0


def deep(levels: int, *, keyed: bool = False) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = {"a": value} if keyed else [value]
    return value


@pytest.mark.parametrize("keyed", [True, False])
def test_nesting_up_to_the_limit_is_written(keyed: bool) -> None:
    parse_canonical(dump_canonical(deep(MAX_DEPTH, keyed=keyed)), limit=LIMIT)
    with pytest.raises(InputError):
        dump_canonical(deep(MAX_DEPTH + 1, keyed=keyed))


@pytest.mark.parametrize(
    "value",
    [
        [0] * 200_000,
        1.0,
        {"a": [0.5]},
        2**53,
        -(2**53),
        b"bytes",
        {1: 2},
        {"a": object()},
        "\ud800",
        {"\ud800": 1},
        {1, 2},
        deep(33),
        deep(5000),
    ],
)
def test_what_could_not_be_read_back_is_not_written(value: Any) -> None:
    with pytest.raises(InputError):
        dump_canonical(value)


def test_parsed_values_are_read_only() -> None:
    value: Any = parse_canonical(b'{"a":[{"b":1}]}', limit=LIMIT)
    with pytest.raises(TypeError):
        value["a"] = 1
    with pytest.raises(TypeError):
        value["a"][0]["b"] = 2
