"""Forgetting the strings that the JSON parser keeps.

The protocol's package reads messages over HTTP with pydantic's parser, which keeps strings of up to 63 bytes for the
next time it meets them: texts, ids and subjects of notes among them, however long ago these were erased. It offers no
way to empty this cache, so that it is filled with other strings. Each takes the place of one, at random.
"""

from __future__ import annotations

import secrets

__all__ = ["forget_parsed_strings"]

# The cache has 16,384 places: of so many strings, each leaves a given place as it is with a probability of e^-18.
_STRINGS = 300_000
_LETTERS = 12


def forget_parsed_strings() -> None:
    """Let the parser forget every string that it has read; it takes about 60 ms."""
    from pydantic_core import from_json

    letters = secrets.token_hex(_STRINGS * _LETTERS // 2)
    strings = (letters[start : start + _LETTERS] for start in range(0, len(letters), _LETTERS))
    from_json('["' + '","'.join(strings) + '"]', cache_strings="all")
