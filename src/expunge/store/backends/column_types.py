"""Values as they come out of the database: of the kind that their column holds, or a VerificationError.

SQLite keeps whatever kind of value it is given, in any column; somebody who writes to the file can leave text where
bytes belong, or nothing at all where the schema once said NOT NULL. A driver hands these on as they are, and Python
would take them for something: ``bytes(5)`` is five zeros. Here they are found out as they are read, in every query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, LargeBinary, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from expunge.errors import VerificationError

__all__ = ["Bytes", "Number", "SmallNumber", "Words"]

_NAMES = {bytes: "bytes", memoryview: "bytes", str: "text", int: "a whole number", float: "a fraction"}


class _Cell(TypeDecorator[Any]):
    """One column's values; ``place`` names it, ``optional`` lets it be empty."""

    cache_ok = True
    impl: TypeEngine[Any] | type[TypeEngine[Any]] = LargeBinary
    kinds: tuple[type, ...] = ()

    def __init__(self, place: str, *, optional: bool = False) -> None:
        super().__init__()
        self.place = place
        self.optional = optional

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Check the kind of what the driver returned."""
        kinds, optional = self.kinds, self.optional

        def checked(value: Any) -> Any:
            if type(value) in kinds:
                return value
            if value is None and optional:
                return None
            raise VerificationError(self._complaint(value))

        return checked

    def _complaint(self, value: Any) -> str:
        found = "nothing" if value is None else _NAMES.get(type(value), type(value).__name__)
        return f"expunge_{self.place} holds {found} where {_NAMES[self.kinds[0]]} should be: it was altered"


class Bytes(_Cell):
    """A string of bytes."""

    cache_ok = True
    impl = LargeBinary
    kinds = (bytes,)


class Words(_Cell):
    """Text."""

    cache_ok = True
    impl = Text
    kinds = (str,)


class Number(_Cell):
    """A whole number of 64 bits, that of a row where ``key`` says so."""

    cache_ok = True
    impl = BigInteger
    kinds = (int,)

    def __init__(self, place: str, *, optional: bool = False, key: bool = False) -> None:
        super().__init__(place, optional=optional)
        self.key = key

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite keeps a row number of its own unless the key is called INTEGER."""
        named = self.key and dialect.name == "sqlite"
        return dialect.type_descriptor(Integer() if named else BigInteger())


class SmallNumber(_Cell):
    """A whole number."""

    cache_ok = True
    impl = Integer
    kinds = (int,)
