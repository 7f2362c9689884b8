"""Bad input, as a table: each line is refused with an InputError that says what is wrong, and touches nothing.

Never a foreign exception, never a warning (the suite turns warnings into errors), never a silent repair.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agreement import assert_sound, raised_by, snapshot
from expunge import InputError, Memory
from expunge.memory.entries import decode_payload, encode_payload

N, D, DV = 12, 3, 2
KEYS = np.random.default_rng(0).standard_normal((N, D))
VALUES = np.random.default_rng(1).standard_normal((N, DV))
IDS = [f"entry-{row}" for row in range(N)]


def changed(array: np.ndarray[Any, Any], value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    copy = array.astype(dtype or array.dtype)
    copy[4, 1] = value
    return copy


class Unfriendly:
    """Looks like a number until it is used as one."""

    def __float__(self) -> float:
        raise TypeError("not today")

    def __repr__(self) -> str:
        return "Unfriendly()"


# What is not an array of real numbers, whatever it is passed as.
BAD_ARRAYS: dict[str, tuple[Callable[[np.ndarray[Any, Any]], Any], str]] = {
    "nan": (lambda a: changed(a, np.nan), "finite"),
    "inf": (lambda a: changed(a, np.inf), "finite"),
    "minus-inf": (lambda a: changed(a, -np.inf), "finite"),
    "too-large": (lambda a: changed(a, 1e151), "1e150"),
    "longdouble-overflow": (lambda a: changed(a, np.longdouble("1e400"), np.longdouble), "finite|1e150"),
    "masked": (lambda a: np.ma.masked_greater(a, 0.0), "masked"),
    "masked-rows": (lambda a: [np.ma.masked_greater(row, 0.0) for row in a], "masked"),
    "object": (lambda a: a.astype(object), "real numbers"),
    "complex": (lambda a: a.astype(complex), "real numbers"),
    "bool": (lambda a: a > 0, "real numbers"),
    "strings": (lambda a: a.astype(str), "real numbers"),
    "bytes": (lambda a: a.astype(bytes), "real numbers"),
    "dates": (lambda a: np.zeros(a.shape, dtype="datetime64[s]"), "real numbers"),
    "structured": (lambda a: np.zeros(a.shape, dtype=[("x", float)]), "real numbers"),
    "huge-ints": (lambda a: [[10**400] * a.shape[1]] * a.shape[0], "real numbers"),
    "ints-beyond-64-bits": (lambda a: [[2**64] * a.shape[1]] * a.shape[0], "real numbers"),
    "nones": (lambda a: [[None] * a.shape[1]] * a.shape[0], "real numbers"),
    "ragged": (lambda a: [[1.0] * (1 + row % 2) for row in range(len(a))], "rectangular|dimension|real"),
    "ragged-deep": (lambda a: [[1.0], [[2.0]]], "rectangular|dimension|real"),
    "three-dimensions": (lambda a: a[:, :, None], "dimension|coordinates"),
    "a-string": (lambda a: "keys", "real numbers"),
    "a-dict": (lambda a: {0: 1.0}, "real numbers"),
    "none": (lambda a: None, "real numbers"),
    "a-class": (lambda a: Unfriendly, "real numbers"),
    "empty": (lambda a: [], "empty|dimension|real|coordinates"),
    "empty-rows": (lambda a: np.empty((0, a.shape[1])), "empty|row"),
    "empty-columns": (lambda a: np.empty((a.shape[0], 0)), "empty|coordinates"),
    "zero-dimensional": (lambda a: np.array(1.0), "dimension|coordinates|one row"),
    "generator": (lambda a: (row for row in a), "real numbers"),
    # More rows than addresses: nothing could hold a copy.
    "overflowing-shape": (lambda a: np.broadcast_to(np.float64(0), (2**45, a.shape[1])), "rows|large|memory|one"),
}

BAD_NUMBERS: dict[str, Any] = {
    "zero": 0.0,
    "negative": -1.0,
    "nan": np.nan,
    "inf": np.inf,
    "huge": 10**400,
    "tiny": 1e-320,
    "none": None,
    "string": "1",
    "bytes": b"1",
    "bool": True,
    "numpy-bool": np.True_,
    "complex": 1 + 0j,
    "list": [0.5],
    "array": np.array([0.5]),
    "arrays": np.array([0.5, 0.5]),
    "unfriendly": Unfriendly(),
}

# None leaves nu and cap to their defaults.
NUMBERS = {label: x for label, x in BAD_NUMBERS.items() if x is not None}

BAD_IDS: dict[str, Any] = {
    "int": 3,
    "none": None,
    "bytes": b"x",
    "empty": "",
    "float": 1.5,
    "list": ["x"],
    "surrogate": "x\ud800",
    "bool": True,
}


def fit(**change: Any) -> Memory:
    given: dict[str, Any] = {"keys": KEYS, "values": VALUES, "sigma": 2.0, "nu": 0.5, "ids": IDS, **change}
    return Memory.fit(given.pop("keys"), given.pop("values"), **given)


def fitting(**change: Any) -> Callable[[Memory], Any]:
    return lambda _: fit(**change)


def admit(memory: Memory, **change: Any) -> Any:
    given: dict[str, Any] = {"key": KEYS[0] + 0.1, "value": VALUES[0], **change}
    return memory.admit(given.pop("key"), given.pop("value"), **given)


def admitting(**change: Any) -> Callable[[Memory], Any]:
    return lambda memory: admit(memory, **change)


def endless() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


def deep(levels: int = 100_000) -> Any:
    nested: Any = 0
    for _ in range(levels):
        nested = [nested]
    return nested


def case(label: str, act: Callable[[Memory], Any], match: str) -> Any:
    return pytest.param(act, match, id=label)


def refuse(act: Callable[[Memory], Any], match: str) -> None:
    """The act raises InputError, says what it should, and the memory is bit for bit what it was."""
    memory = fit(subjects=["s"] * N, payloads=[{"row": row} for row in range(N)])
    before = snapshot(memory)
    problem = raised_by(lambda: act(memory))
    assert isinstance(problem, InputError), f"not refused: {problem!r}"
    assert isinstance(problem, ValueError)
    assert re.search(match, str(problem)), f"{str(problem)!r} does not say {match!r}"
    assert snapshot(memory) == before
    # And it still works.
    memory.admit(KEYS[0] + 1.0, VALUES[0], id="later")
    memory.delete("entry-3")
    assert_sound(memory)


def bad_arrays(what: str, give: Callable[[Memory, Any], Any], array: np.ndarray[Any, Any]) -> list[Any]:
    def giving(make: Callable[[np.ndarray[Any, Any]], Any]) -> Callable[[Memory], Any]:
        return lambda memory: give(memory, make(array))

    return [case(f"{what}-{label}", giving(make), match) for label, (make, match) in BAD_ARRAYS.items()]


@pytest.mark.parametrize(
    ("act", "match"),
    [
        *bad_arrays("keys", lambda _, bad: fit(keys=bad), KEYS),
        *bad_arrays("values", lambda _, bad: fit(values=bad), VALUES),
        case("keys-vector", fitting(keys=KEYS[:, 0]), "two dimensions"),
        case("values-too-few", fitting(values=VALUES[:-1]), "one row per key: 12, not 11"),
        case("values-too-many", fitting(values=np.vstack([VALUES, VALUES])), "one row per key: 12, not 24"),
        *(case(f"sigma-{label}", fitting(sigma=x), "sigma") for label, x in BAD_NUMBERS.items() if label != "bool"),
        case("sigma-bool", fitting(sigma=True), "sigma must be a number"),
        case("sigma-too-wide", fitting(sigma=1e151), "sigma"),
        *(case(f"nu-{label}", fitting(nu=x), "nu") for label, x in NUMBERS.items() if label != "tiny"),
        case("nu-above-one", fitting(nu=1.0000001), r"nu must lie in \(0, 1\]"),
        *(case(f"cap-{label}", fitting(nu=None, cap=x), "cap") for label, x in NUMBERS.items()),
        case("cap-above-one", fitting(nu=None, cap=1.5), "cap must lie between"),
        case("cap-too-small", fitting(nu=None, cap=1 / 13), "at least 13 keys or a cap of at least"),
        case("nu-and-cap", fitting(cap=0.5), "exactly one of nu"),
        *(case(f"ids-{label}", fitting(ids=[*IDS[:-1], x]), "id must be") for label, x in BAD_IDS.items()),
        case("ids-twice", fitting(ids=["a"] * N), "unique; 'a' is not"),
        case("ids-too-few", fitting(ids=IDS[:-1]), "one item per key: 12, not 11"),
        case("ids-one-string", fitting(ids="abcdefghijkl"), "not a string"),
        case("ids-number", fitting(ids=12), "ids"),
        case("subjects-too-many", fitting(subjects=["s"] * 13), "one item per key: 12, not 13"),
        case("subjects-number", fitting(subjects=[1] * N), "subject must be"),
        case("subjects-empty", fitting(subjects=[""] * N), "subject must be"),
        case("subjects-surrogate", fitting(subjects=["\udfff"] * N), "subject must be valid Unicode"),
        case("subjects-one-string", fitting(subjects="abcdefghijkl"), "not a string"),
        case("payloads-too-few", fitting(payloads=[1]), "one item per key: 12, not 1"),
        case("payloads-set", fitting(payloads=[{1}] * N), "bytes or JSON"),
        case("payloads-bytes", fitting(payloads=b"abcdefghijkl"), "not a string|not bytes"),
    ],
)
def test_fit(act: Callable[[Memory], Any], match: str) -> None:
    refuse(act, match)


@pytest.mark.parametrize(
    ("act", "match"),
    [
        *bad_arrays("key", lambda memory, bad: admit(memory, key=bad), KEYS),
        *bad_arrays("value", lambda memory, bad: admit(memory, value=bad), VALUES),
        case("key-nan", admitting(key=[0.0, np.nan, 0.0]), "finite"),
        case("key-wrong-dimension", admitting(key=[0.0, 1.0]), "coordinates|shape"),
        case("key-wrong-width", admitting(key=[[0.0, 1.0]]), "must have 3 coordinates"),
        case("key-two", admitting(key=KEYS[:2]), "one key"),
        case("key-complex", admitting(key=[0.0, 1j, 0.0]), "real numbers"),
        case("key-bools", admitting(key=[True, False, True]), "real numbers"),
        case("value-wrong-width", admitting(value=[1.0]), "coordinates"),
        case("value-two", admitting(value=VALUES[:2]), "one value"),
        case("value-inf", admitting(value=[np.inf, 0.0]), "finite"),
        case("value-string", admitting(value=["1", "2"]), "real numbers"),
        *(case(f"id-{label}", admitting(id=x), "id must be") for label, x in BAD_IDS.items() if label != "none"),
        case("id-taken", admitting(id="entry-5"), "'entry-5' is taken"),
        case("subject-number", admitting(subject=7), "subject must be"),
        case("subject-empty", admitting(subject=""), "subject must be"),
        case("subject-surrogate", admitting(subject="\ud83d"), "valid Unicode"),
        case("payload-object", admitting(payload=object()), "bytes or JSON"),
        case("payload-array", admitting(payload=KEYS), "bytes or JSON"),
        case("payload-nan", admitting(payload=[1.0, float("nan")]), "bytes or JSON"),
        case("payload-inf", admitting(payload={"x": float("inf")}), "bytes or JSON"),
        case("payload-surrogate", admitting(payload="\ud800"), "bytes or JSON"),
        case("payload-keys", admitting(payload={(1, 2): 3}), "bytes or JSON"),
        case("payload-endless", admitting(payload=endless()), "64 levels"),
        case("payload-deep", admitting(payload=deep()), "64 levels"),
        case("payload-65", admitting(payload=deep(65)), "64 levels"),
        case("payload-object-65", admitting(payload={"a": (deep(63),)}), "64 levels"),
    ],
)
def test_admit(act: Callable[[Memory], Any], match: str) -> None:
    refuse(act, match)


@pytest.mark.parametrize("payload", [deep(64), {"a": deep(63)}])
def test_a_payload_as_deep_as_it_may_be(payload: Any) -> None:
    assert decode_payload(encode_payload(payload)) == payload


@pytest.mark.parametrize(
    ("act", "match"),
    [
        case("unknown", lambda memory: memory.delete("nobody"), "no entry has id 'nobody'; nothing was deleted"),
        case("one-unknown", lambda memory: memory.delete(["entry-1", "nobody"]), "'nobody'; nothing was deleted"),
        case("twice", lambda memory: memory.delete(["entry-1", "entry-1"]), "listed twice; nothing was deleted"),
        case("unknown-subject", lambda memory: memory.delete(subject="t"), "subject 't'; nothing was deleted"),
        case("nothing", lambda memory: memory.delete(), "exactly one"),
        case("both", lambda memory: memory.delete("entry-1", subject="s"), "exactly one"),
        case("number", lambda memory: memory.delete(3), "ids"),  # type: ignore[arg-type]
        case("numbers", lambda memory: memory.delete([3]), "id must be"),  # type: ignore[list-item]
        case("bytes", lambda memory: memory.delete(b"entry-1"), "id must be|not bytes"),  # type: ignore[arg-type]
        case("nested", lambda memory: memory.delete([["entry-1"]]), "id must be"),  # type: ignore[list-item]
        case("none-inside", lambda memory: memory.delete(["entry-1", None]), "id must be"),  # type: ignore[list-item]
        case("empty-string", lambda memory: memory.delete(""), "id must be"),
        case("surrogate", lambda memory: memory.delete("\ud800"), "valid Unicode"),
        case("row-number-array", lambda memory: memory.delete(np.arange(2)), "id must be"),
        case("subject-number", lambda memory: memory.delete(subject=1), "subject must be"),  # type: ignore[arg-type]
        case("subject-empty", lambda memory: memory.delete(subject=""), "subject must be"),
        case("subject-list", lambda memory: memory.delete(subject=["s"]), "subject must be"),  # type: ignore[arg-type]
        case("payload-of-nobody", lambda memory: memory.payload("nobody"), "no entry has id 'nobody'"),
        case("payload-of-a-number", lambda memory: memory.payload(3), "id must be"),  # type: ignore[arg-type]
    ],
)
def test_delete_and_payload(act: Callable[[Memory], Any], match: str) -> None:
    refuse(act, match)


def searching(k: Any) -> Callable[[Memory], Any]:
    return lambda memory: memory.search(KEYS[0], k=k)


@pytest.mark.parametrize(
    ("act", "match"),
    [
        *bad_arrays("read", lambda memory, bad: memory.read(bad), KEYS),
        *bad_arrays("score", lambda memory, bad: memory.score(bad), KEYS),
        *bad_arrays("search", lambda memory, bad: memory.search(bad), KEYS[:5]),
        case("read-wrong-dimension", lambda memory: memory.read(np.zeros((2, 4))), "must have 3 coordinates"),
        case("score-wrong-dimension", lambda memory: memory.score(np.zeros((2, 2))), "must have 3 coordinates"),
        case("search-two", lambda memory: memory.search(KEYS[:2]), "one query"),
        *(case(f"search-k-{k!r}", searching(k), "k must be a positive number") for k in (0, -1, 1.5, "3", None, True)),
    ],
)
def test_read_score_and_search(act: Callable[[Memory], Any], match: str) -> None:
    refuse(act, match)


@pytest.mark.parametrize("path", [3, None, b"x", "nul\0byte", ["x"]])
def test_a_path_that_is_none(path: Any) -> None:
    memory = fit()
    before = snapshot(memory)
    for act in (lambda: memory.save(path), lambda: Memory.load(path)):
        assert raised_by(act) is not None
    assert snapshot(memory) == before


def test_read_only_and_foreign_layouts_are_welcome() -> None:
    frozen = KEYS.copy()
    frozen.flags.writeable = False
    expected = fit().coefficients.tolist()
    wide = np.repeat(KEYS, 2, axis=1)[:, ::2]
    big_endian = KEYS.astype(">f8")
    for keys in (
        frozen,
        np.asfortranarray(KEYS),
        wide,
        big_endian,
        KEYS.tolist(),
        KEYS[::-1][::-1],
    ):
        memory = fit(keys=keys)
        assert memory.coefficients.tolist() == expected
    memory = fit()
    point = KEYS[2] + 0.5
    point.flags.writeable = False
    memory.admit(point, VALUES[0])
    assert memory.read(point).shape == (1, DV)
