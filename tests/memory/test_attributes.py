"""Attributes of entries: what they may be, that they are kept with the payload, and that they go with the entry."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge import Conflict, InputError, Memory
from expunge.memory.attributes import Attributes, Source, check_sources, decode_attributes
from expunge.memory.entries import decode_payload, encode_payload

LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
KEYS = np.random.default_rng(5).standard_normal((12, 3))
NAMES = [f"e{row}" for row in range(12)]


def notes(**options: Any) -> Memory:
    return Memory.fit(KEYS, KEYS, sigma=1.5, nu=0.3, ids=NAMES, **options)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
sources: st.SearchStrategy[Source] = st.one_of(texts, st.tuples(texts, texts))
ends = st.none() | st.datetimes(timezones=st.just(UTC)).map(lambda end: end.replace(microsecond=0))


@given(ends, st.lists(sources, max_size=4), st.none() | st.binary() | texts)
def test_attributes_and_payload_come_back(end: datetime | None, made_from: list[Source], payload: Any) -> None:
    attributes = Attributes(end, check_sources(made_from))
    encoded = encode_payload(payload, attributes)
    assert decode_payload(encoded) == payload
    assert decode_attributes(encoded) == attributes
    assert set(attributes.derived_from) == set(made_from)
    if end is None and not made_from:
        assert encoded == encode_payload(payload)


def test_an_entry_without_attributes_is_encoded_as_before() -> None:
    assert encode_payload("note", Attributes()) == b'j"note"'
    assert encode_payload(None, Attributes()) is None


def test_there_is_one_form() -> None:
    encoded = encode_payload(b"x", Attributes(LATER, ("a", "b"))) or b""
    for before, after in ((b'["a","b"]', b'["b","a"]'), (b'"expires"', b'"expired"'), (b'["a","b"]', b'["a", "b"]')):
        other = encoded.replace(before, after)
        other = other[:1] + (len(other) - 1 - 4 - 2).to_bytes(4, "big") + other[5:]
        with pytest.raises(ValueError, match=r"canonical form|other names|cut off|Expecting|Extra data|Invalid"):
            decode_attributes(other)
    with pytest.raises(ValueError, match=r"canonical form|other names|cut off|Expecting|Extra data|Invalid"):
        decode_attributes(encoded[:20])


def test_fit_admit_and_admit_many_keep_attributes() -> None:
    memory = notes(expires=[LATER, *[None] * 11], derived_from=[(), ["e0"], *[()] * 10], payloads=NAMES)
    memory.admit(KEYS[0] + 1, KEYS[0], id="f", payload="text", expires=LATER, derived_from=["e3", "e1", "e3"])
    memory.admit_many(KEYS[:2] + 2, KEYS[:2], ids=["g", "h"], derived_from=[(), ["g", "f"]])
    assert memory.attributes("e0") == Attributes(LATER)
    assert memory.attributes("e1") == Attributes(None, ("e0",))
    assert memory.attributes("e2") == Attributes()
    assert memory.attributes("f") == Attributes(LATER, ("e1", "e3"))
    assert memory.attributes("h") == Attributes(None, ("f", "g"))
    assert memory.payload("f") == "text"
    assert memory.payload("h") is None


def test_attributes_are_committed_to_and_survive_a_copy_a_file_a_compaction_and_the_archive(tmp_path: Path) -> None:
    plain, memory = notes(), notes(expires=[LATER] * 12, derived_from=[[], *[["e0"]] * 11])
    assert plain.digest != memory.digest
    memory.prune("archive")
    memory.save(tmp_path / "m.memory")
    for other in (copy.deepcopy(memory), Memory.load(tmp_path / "m.memory")):
        assert other.digest == memory.digest
        assert all(other.attributes(name) == memory.attributes(name) for name in NAMES)
        assert other.version.entries.derived == memory.version.entries.derived
    assert sorted(memory.due(LATER)) == sorted(NAMES)
    assert memory.due(LATER - timedelta(seconds=1)) == []


def test_an_end_is_in_whole_seconds_of_utc() -> None:
    memory = notes()
    local = LATER.astimezone(timezone(timedelta(hours=5))) + timedelta(microseconds=7)
    memory.admit(KEYS[0] + 1, KEYS[0], id="f", expires=local)
    assert memory.attributes("f").expires == LATER
    assert memory.attributes("f").expires.tzinfo is UTC  # type: ignore[union-attr]


def test_a_forgotten_entry_has_no_attributes_so_none_that_has_any_is_forgotten() -> None:
    keys = np.random.default_rng(6).standard_normal((60, 2))
    plain = Memory.fit(keys, keys, sigma=1.5, nu=0.1)
    zeros = set(plain.prune("forget").applied)
    ending = set(sorted(zeros)[::2])
    ends = [LATER if str(row) in ending else None for row in range(60)]
    memory = Memory.fit(keys, keys, sigma=1.5, nu=0.1, expires=ends)
    assert set(memory.prune("forget").applied) == zeros - ending != set()


def admitting(**options: Any) -> Callable[[Memory], Any]:
    return lambda memory: memory.admit(KEYS[0] + 1, KEYS[0], id="f", **options)


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (admitting(expires=LATER.replace(tzinfo=None)), "input-error"),
        (admitting(expires="2030-01-01"), "input-error"),
        (admitting(expires=datetime.now(UTC)), "expires-past"),
        (admitting(derived_from="e0"), "input-error"),
        (admitting(derived_from=[7]), "input-error"),
        (admitting(derived_from=[""]), "input-error"),
        (admitting(derived_from=["\ud800"]), "input-error"),
        (admitting(derived_from=[("a", "b", "c")]), "input-error"),
        (admitting(derived_from=["nobody"]), "source-unknown"),
        (admitting(derived_from=["f"]), "source-unknown"),
        (admitting(derived_from=[("other", "e0")]), "source-elsewhere"),
        (lambda m: m.admit_many(KEYS + 1, KEYS, ids=[f"g{n}" for n in range(12)], expires=[LATER]), "input-error"),
        (
            lambda m: m.admit_many(KEYS[:2] + 1, KEYS[:2], ids=["g", "h"], derived_from=[["h"], []]),
            "source-unknown",
        ),
    ],
)
def test_what_is_refused(act: Callable[[Memory], Any], code: str) -> None:
    memory = notes()
    before = memory.digest, memory.version
    with pytest.raises(InputError) as problem:
        act(memory)
    assert problem.value.code == code
    assert (memory.digest, memory.version) == before


def test_a_fit_takes_no_source_that_stands_later() -> None:
    with pytest.raises(InputError) as problem:
        notes(derived_from=[["e1"], *[()] * 11])
    assert problem.value.code == "source-unknown"


def test_nothing_is_left_of_attributes_when_their_entry_is_gone() -> None:
    memory = notes(expires=[LATER] * 12, derived_from=[[], *[["e0"]] * 11])
    memory.delete(NAMES[1:5])
    entries = memory.version.entries
    kept = {memory.version.slot(name) for name in NAMES if name not in NAMES[1:5]}
    assert set(entries.attributes) == kept
    assert entries.derived["e0"] <= kept


def family() -> Memory:
    """e1 is made from e0, e2 from e1, e4 from e3 and e0."""
    made_from = [[], ["e0"], ["e1"], [], ["e3", "e0"], *[[]] * 7]
    return notes(derived_from=made_from)


def test_a_deletion_takes_what_was_made_from_its_entries() -> None:
    memory = family()
    assert memory.version.made_from(["e0"]) == {"e1": ("e0",), "e2": ("e1",), "e4": ("e0",)}
    assert set(memory.delete("e0").applied) == {"e0", "e1", "e2", "e4"}
    assert set(memory.ids) == {"e3", *NAMES[5:]}
    assert memory.version.entries.derived == {}
    twin = notes()
    twin.delete(["e0", "e1", "e2", "e4"])
    assert memory.coefficients.tobytes() == twin.coefficients.tobytes()


def test_of_archived_entries_and_by_subject_too() -> None:
    memory = notes(derived_from=[[], *[["e0"]] * 11], subjects=["ann", *[None] * 11])
    memory.prune("archive")
    receipt = memory.delete(subject="ann")
    assert receipt.outcome == "emptied"
    assert set(receipt.applied) == set(NAMES)


def test_a_deletion_is_refused_or_leaves_what_was_made_where_it_is_told_to() -> None:
    memory = family()
    before = memory.digest
    with pytest.raises(Conflict) as problem:
        memory.delete(["e0", "e1"], derived="refuse")
    assert problem.value.code == "derived-entries"
    assert memory.digest == before
    assert memory.delete(["e2"], derived="refuse").applied == ("e2",)
    assert memory.delete(["e3"], derived="keep").applied == ("e3",)
    # The new entry is not what the old one was, and e4 was made from that.
    with pytest.raises(InputError) as again:
        memory.admit(KEYS[3], KEYS[3], id="e3")
    assert again.value.code == "source-erased"
    memory.delete("e4")
    memory.admit(KEYS[3], KEYS[3], id="e3")
