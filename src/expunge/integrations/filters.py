"""Whether a value has what a filter asks for: ``{"field": value}``, with operators that begin with ``$``.

Filters nest as values do. The operators are ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt`` and ``$lte``, as LangGraph's
stores have them. The four that compare sizes do not match a value that is missing or no number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from expunge.errors import InputError

__all__ = ["check_filter", "matches"]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value has what a filter asks for; InputError (a ValueError) for an operator that there is not."""
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_compares(value, word, bound) for word, bound in wanted.items())
        return isinstance(value, Mapping) and all(matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(map(matches, value, wanted))
    return bool(value == wanted)


def check_filter(wanted: Any) -> None:
    """Raise InputError for a filter that no value can be held against: found out before anything is searched."""
    if not isinstance(wanted, Mapping):
        raise InputError(f"a filter is a mapping of fields to values, not {wanted!r:.80}")
    for word, part in wanted.items():
        if _has_operators(wanted):
            _require_operator(str(word))
        elif isinstance(part, Mapping):
            check_filter(part)


def _has_operators(wanted: Mapping[Any, Any]) -> bool:
    return any(str(word).startswith("$") for word in wanted)


def _compares(value: Any, word: str, bound: Any) -> bool:
    _require_operator(word)
    if word in ("$eq", "$ne"):
        return bool(value == bound) == (word == "$eq")
    try:
        return _OPERATORS[word](float(value), float(cast(Any, bound)))
    except (TypeError, ValueError, OverflowError):
        # An integer may be larger than any float.
        return False


def _require_operator(word: str) -> None:
    if word not in ("$eq", "$ne", *_OPERATORS):
        known = ", ".join(("$eq", "$ne", *_OPERATORS))
        raise InputError(f"Unsupported operator: {word}; a filter has {known}")
