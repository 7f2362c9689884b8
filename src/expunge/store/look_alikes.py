"""Subjects that differ only by what is often a slip, so that an erasure does not pass over one of them.

Two subjects look alike where their folded forms are equal, or where these differ by one slip in a long name:

- *Folded*: Unicode compatibility form (NFKC), case folded; accents, invisible characters and leading zeros of numbers
  are left out; punctuation and blanks of any kind and number count as one blank, and as none at the ends.
- *One slip*: one character is missing, added or another, or two neighbours changed places. Both forms have the same
  first character, the same numbers, and at least eight characters besides digits and blanks: neither ``patient-17``
  and ``patient-18`` nor ``jsmith@x.org`` and ``ksmith@x.org`` look alike.

A look-alike is offered and never taken for the subject itself.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["folded", "look_alike"]

_LONG = 8
# Combining classes from here on are marks above, below and around a letter. Lower ones are parts of letters, such as
# vowel signs, whose absence makes another name.
_ACCENTS = 200
_NUMBER = re.compile(r"\d+")


def folded(subject: str) -> str:
    """A subject without what two spellings of one name differ in; empty where nothing else is left."""
    # Folding the case can compose letters again, and decompose them further.
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", subject).casefold())
    kept = []
    for character in letters:
        category = unicodedata.category(character)
        if category == "Cf" or unicodedata.combining(character) >= _ACCENTS:
            continue
        kept.append(" " if category[0] in "PZ" or category == "Cc" else character)
    words = unicodedata.normalize("NFC", " ".join("".join(kept).split()))
    return _NUMBER.sub(lambda number: number.group().lstrip("0") or "0", words)


def look_alike(one: str, other: str) -> bool:
    """Whether two folded subjects look alike."""
    if one == other:
        return bool(one)
    if one[:1] != other[:1] or abs(len(one) - len(other)) > 1 or _NUMBER.findall(one) != _NUMBER.findall(other):
        return False
    return min(_letters(one), _letters(other)) >= _LONG and _one_slip(one, other)


def _letters(text: str) -> int:
    return sum(not character.isdigit() and character != " " for character in text)


def _one_slip(one: str, other: str) -> bool:
    """Whether two different texts, of lengths at most one apart, differ by one character or one change of places."""
    if len(one) > len(other):
        one, other = other, one
    start = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    swapped = one[start : start + 2][::-1] == other[start : start + 2]
    return one[start + 1 :] == other[start + 1 :] or (swapped and one[start + 2 :] == other[start + 2 :])
