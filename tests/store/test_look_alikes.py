"""Which subjects look alike, and which must not."""

from __future__ import annotations

import unicodedata

import pytest

from expunge.store.look_alikes import folded, look_alike

ALIKE = (
    ("José", unicodedata.normalize("NFD", "José"), "Unicode form"),
    ("José", "jose", "accent and case"),
    ("Ann Lee", "ann  lee", "case and blanks"),
    ("Ann Lee", " Ann\u00a0Lee\t", "blanks around, and one that does not break"),
    ("Ann Lee", "Ann\u200b Lee", "a character that nobody sees"),
    ("ＡＮＮ Lee", "Ann Lee", "full width"),
    ("Straße", "STRASSE", "case folding"),
    ("İnci", "inci", "a dotted capital"),
    ("patient-017", "patient-17", "leading zeros"),
    ("patient 17", "Patient_17", "punctuation"),
    ("O’Brien, K.", "O'Brien K", "typographic quotes"),
    ("007", "7", "a number alone"),
    ("Anna Miller", "Anna Müller", "one letter besides an accent"),
    ("Katherine", "Katharine", "one letter"),
    ("Margaret", "Margarte", "two letters changed places"),
    ("Jonathon Smith", "Jonathn Smith", "a letter is missing"),
    ("maryann lee", "mary ann lee", "a blank is missing"),
)
DIFFERENT = (
    ("patient-17", "patient-18", "other numbers"),
    ("patient-17", "patient-7", "other numbers"),
    ("patient-1-1", "patient-11", "other numbers"),
    ("patient-17", "17", "a number is not the name"),
    ("Ann Lee", "Ann Lea", "one letter of a short name"),
    ("Jan", "Jana", "a short name"),
    ("jsmith@example.org", "ksmith@example.org", "another initial"),
    ("Margaret", "Margeart", "two slips"),
    ("Margaret Lee", "Lee Margaret", "another order"),
    ("---", "...", "nothing is left to compare"),
    ("कमल", "कमला", "a vowel sign is no accent"),
    ("5f3a9c", "5f3b9c", "identifiers of letters and digits"),
)


@pytest.mark.parametrize(("one", "other", "how"), ALIKE, ids=[how for *_, how in ALIKE])
def test_these_look_alike(one: str, other: str, how: str) -> None:
    assert one != other
    assert look_alike(folded(one), folded(other))
    assert look_alike(folded(other), folded(one))


@pytest.mark.parametrize(("one", "other", "how"), DIFFERENT, ids=[f"{one}|{other}" for one, other, _ in DIFFERENT])
def test_these_do_not(one: str, other: str, how: str) -> None:
    assert not look_alike(folded(one), folded(other))
    assert not look_alike(folded(other), folded(one))


def test_folding_is_done_once() -> None:
    """Folded again, nothing changes: of any assigned character, alone and between letters."""
    for code in range(0x3000):
        for text in (chr(code), f"a{chr(code)}b"):
            assert folded(folded(text)) == folded(text), hex(code)


def test_a_number_of_any_length_is_compared() -> None:
    assert folded("0" * 10_000 + "7") == "7"
    assert look_alike(folded("id " + "9" * 5000), folded("ID-" + "9" * 5000))
