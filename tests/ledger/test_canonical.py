"""RFC 8785 JSON: what is accepted is exactly what is written."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from expunge.errors import InputError
from expunge.ledger.encoding import MAX_DEPTH, MAX_INTEGER, Json, dump_canonical, parse_canonical
from raising import raises_code

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


ASCII = st.text(st.characters(max_codepoint=127), max_size=8)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | ASCII | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ASCII | TEXTS, inner, max_size=4),
        max_leaves=20,
    )
)
def test_the_bytes_are_those_of_an_implementation_of_rfc_8785(value: Any) -> None:
    assert dump_canonical(value) == rfc8785.dumps(value)


@given(VALUES)
def test_any_other_layout_is_refused(value: Any) -> None:
    data = dump_canonical(value)
    for other in (b" " + data, data + b"\n", json.dumps(value, indent=1).encode()):
        if other != data:
            with raises_code("json-not-canonical"):
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
        (b"", "json-syntax-invalid"),
        (b"{", "json-syntax-invalid"),
        (b"[1,]", "json-syntax-invalid"),
        (b"{'a':1}", "json-syntax-invalid"),
        (b'{"a":1}{"a":1}', "json-syntax-invalid"),
        (b'"\x01"', "json-syntax-invalid"),
        (b"\xef\xbb\xbf{}", "json-syntax-invalid"),
        (b"\xff", "json-not-utf8"),
        (b'"\xed\xa0\x80"', "json-not-utf8"),
        ('{"a":1}'.encode("utf-16"), "json-not-utf8"),
        (b'{"a":1,"a":1}', "json-duplicate-key"),
        (b'{"a":{"b":1,"b":2}}', "json-duplicate-key"),
        (b'{"a":1,"\\u0061":2}', "json-duplicate-key"),
        (b"1.5", "json-float-forbidden"),
        (b"1.0", "json-float-forbidden"),
        (b"1e3", "json-float-forbidden"),
        (b"NaN", "json-float-forbidden"),
        (b"-Infinity", "json-float-forbidden"),
        (b"9007199254740992", "json-integer-out-of-range"),
        (b"-9007199254740992", "json-integer-out-of-range"),
        (b"9" * 5000, "json-integer-out-of-range"),
        (b"-0", "json-not-canonical"),
        (b"[1, 2]", "json-not-canonical"),
        (b'{"b":1,"a":2}', "json-not-canonical"),
        (b'"\\u0061"', "json-not-canonical"),
        (b'"\\/"', "json-not-canonical"),
        (b'"\\u001F"', "json-not-canonical"),
        (b'"\\ud800"', "json-not-canonical"),
        (b'{"\\udfff":1}', "json-not-canonical"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "json-too-deep"),
        (b'{"a":' * (MAX_DEPTH + 1), "json-too-deep"),
        (b"[" * 100_000, "json-too-deep"),
        (b" " * (LIMIT + 1), "json-too-large"),
        (b"[" + b"1," * 200_000 + b"1]", "json-too-many-values"),
        (b"[" + b"{}," * 100_000 + b"{}]", "json-too-many-values"),
    ],
)
def test_each_fault_has_its_name(data: bytes, error: str) -> None:
    with raises_code(error):
        parse_canonical(data, limit=LIMIT)


def test_brackets_inside_strings_do_not_nest() -> None:
    value = ["[" * 100, '"' * 100, "\\" * 99 + "{"]
    assert thaw(parse_canonical(dump_canonical(value), limit=LIMIT)) == value


def test_as_many_values_as_the_limit_are_read() -> None:
    data = b"[" + b",".join([b"1"] * 9) + b"]"
    parse_canonical(data, limit=LIMIT, max_values=10)
    with raises_code("json-too-many-values"):
        parse_canonical(data, limit=LIMIT, max_values=9)


def test_nesting_up_to_the_limit_is_read() -> None:
    data = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert dump_canonical(parse_canonical(data, limit=LIMIT)) == data


@pytest.mark.parametrize("data", [b'"' + b'\\"' * 500_000, b'"' * 999_999, b"\\" * 1_000_000, b'["' + b"\\" * 900_001])
def test_hostile_strings_take_linear_time(data: bytes) -> None:
    begin = time.perf_counter()
    with raises_code("json-*", "float-hex-*"):
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
