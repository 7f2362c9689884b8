"""Case and actor of an edit: the texts and salts that open what its leaf of the ledger commits to.

A leaf has commitments (``docs/formats/receipt.md``, *Case and actor*). The texts and the salts are a row of
``expunge_cases``, encrypted under a secret of its own, whose number follows from the commitments: the row is found from
a leaf, and names no leaf, no entry and no subject. The leaves of one erasure of a subject share the row, and so the
salts. Once the row and its secret are erased, nobody can open the commitments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from expunge.errors import InputError, VerificationError
from expunge.ledger.certificate.contents import MAX_TEXT, Revealed, What, is_text
from expunge.ledger.commitment import new_salts
from expunge.ledger.encoding import Json
from expunge.ledger.event import actor_commitment, case_commitment
from expunge.ledger.receipt_format import RequestStated
from expunge.ledger.statement import Statement
from expunge.store.backends.database import CheckedConnection, Database
from expunge.store.backends.tables import cases, leaves, secrets
from expunge.store.encryption import decrypt, encrypt, new_secret
from expunge.store.ledger_tables import asked_number, read_leaf

__all__ = [
    "Case",
    "case_of_leaf",
    "cases_of_leaves",
    "erase_cases",
    "leaf_time",
    "read_cases",
    "write_case",
    "write_cases",
]

# Numbers in one query: always as many, so that it is compiled once.
_AT_ONCE = 16
_LEAVES_AT_ONCE = 500
_PLACES = [f"number{place}" for place in range(_AT_ONCE)]
_THERE = select(cases.c.number).where(
    cases.c.number.in_([bindparam(name, type_=cases.c.number.type) for name in _PLACES])
)
_INSERT_CASES = insert(cases)


@dataclass(frozen=True)
class Case:
    """The ``case`` that an edit was made for and the ``actor`` who asked, with the salts that open the commitments.

    ``leaves`` are those of the ledger that commit to them.
    """

    case: str | None
    actor: str | None
    case_salt: bytes | None = field(repr=False)
    actor_salt: bytes | None = field(repr=False)
    leaves: tuple[int, ...] = ()

    @classmethod
    def of(cls, case: str | None, actor: str | None) -> Case | None:
        """Texts under fresh salts; None where there is neither. InputError where a text cannot be kept."""
        for what, text in (("case", case), ("actor", actor)):
            if text is not None and not (isinstance(text, str) and is_text(text)):
                raise InputError(f"{what} has 1 to {MAX_TEXT} printable characters, not {text!r:.80}")
        if case is None and actor is None:
            return None
        return cls(case, actor, None if case is None else new_salts(1), None if actor is None else new_salts(1))

    @property
    def commitments(self) -> tuple[str | None, str | None]:
        """Commitment to the case, and to the actor."""
        case = None if self.case is None or self.case_salt is None else case_commitment(self.case_salt, self.case)
        actor = None
        if self.actor is not None and self.actor_salt is not None:
            actor = actor_commitment(self.actor_salt, self.actor)
        return case, actor

    @property
    def revealed(self) -> dict[What, Revealed]:
        """Texts and salts, as a certificate document shows them."""
        found: dict[What, Revealed] = {}
        if self.case is not None and self.case_salt is not None:
            found["case"] = Revealed(self.case, self.case_salt)
        if self.actor is not None and self.actor_salt is not None:
            found["actor"] = Revealed(self.actor, self.actor_salt)
        return found

    @property
    def number(self) -> int | None:
        """The number of its row."""
        return asked_number(self.stated())

    def stated(self) -> RequestStated:
        """A new request with these commitments, for one leaf."""
        return RequestStated.new(*self.commitments)

    def to_json(self) -> dict[str, Any]:
        """Texts, salts in hexadecimal digits, leaves."""
        salts = {"case_salt": _hex(self.case_salt), "actor_salt": _hex(self.actor_salt)}
        return {"case": self.case, "actor": self.actor, **salts, "leaves": list(self.leaves)}


def write_case(database: Database, connection: CheckedConnection, asked: Case | None) -> None:
    """Write the row of a case, if it is not there yet, in the transaction of the leaf that commits to it."""
    write_cases(database, connection, [asked])


def write_cases(database: Database, connection: CheckedConnection, asked: Iterable[Case | None]) -> None:
    """Write the rows of cases that are not there yet."""
    new = {number: one for one in asked if one is not None and (number := one.number) is not None}
    numbers = [*new]
    for start in range(0, len(numbers), _AT_ONCE):
        part = numbers[start : start + _AT_ONCE]
        part += [part[-1]] * (_AT_ONCE - len(part))
        for number in connection.values(_THERE, dict(zip(_PLACES, part, strict=True))):
            del new[number]
    if not new:
        return
    secret_of = {number: new_secret() for number in new}
    database.insert_secrets(connection, secret_of)
    rows = []
    for number, one in new.items():
        content = one.to_json()
        del content["leaves"]
        sealed = encrypt(secret_of[number], "case", json.dumps(content).encode())
        rows.append({"number": number, "content": sealed})
    connection.execute(_INSERT_CASES, rows if len(rows) > 1 else rows[0])


def read_cases(connection: CheckedConnection, number: int | None = None) -> dict[int, Case]:
    """Cases by the number of their row, one or all, with their leaves."""
    wanted = select(cases.c.number, cases.c.content, secrets.c.secret).join(secrets, secrets.c.number == cases.c.number)
    listed = select(leaves.c.number, leaves.c.asked).where(leaves.c.asked.is_not(None)).order_by(leaves.c.number)
    if number is not None:
        wanted, listed = wanted.where(cases.c.number == number), listed.where(leaves.c.asked == number)
    found = {row.number: _case(row) for row in connection.rows(wanted)}
    leaves_of: dict[int, list[int]] = {}
    for row in connection.rows(listed) if found else ():
        leaves_of.setdefault(row.asked, []).append(row.number)
    return {at: replace(case, leaves=tuple(leaves_of.get(at, ()))) for at, case in found.items()}


def case_of_leaf(connection: CheckedConnection, index: int) -> Case | None:
    """The case of one leaf; None where it has none, and where that was erased."""
    number = asked_number(read_leaf(connection, index).statement)
    return None if number is None else read_cases(connection, number).get(number)


def cases_of_leaves(connection: CheckedConnection, indices: Sequence[int]) -> dict[int, Case]:
    """The cases of some leaves, by the leaf; of each without the other leaves that it has."""
    wanted = (
        select(leaves.c.number.label("leaf"), cases.c.number, cases.c.content, secrets.c.secret)
        .join(cases, cases.c.number == leaves.c.asked)
        .join(secrets, secrets.c.number == cases.c.number)
    )
    found = {}
    for start in range(0, len(indices), _LEAVES_AT_ONCE):
        part = indices[start : start + _LEAVES_AT_ONCE]
        for row in connection.rows(wanted.where(leaves.c.number.in_(part))):
            found[row.leaf] = replace(_case(row), leaves=(row.leaf,))
    return found


def erase_cases(
    database: Database,
    connection: CheckedConnection,
    *,
    leaf: int | None,
    case: str | None,
    before: datetime | None,
) -> int:
    """Delete the cases of a leaf, of a text, or whose newest leaf is older; their secrets are destroyed."""
    number = None if leaf is None else asked_number(read_leaf(connection, leaf).statement)
    if leaf is not None and number is None:
        return 0
    found = read_cases(connection, number)
    gone = [at for at, kept in found.items() if case is None or kept.case == case]
    if before is not None:
        gone = [at for at in gone if leaf_time(read_leaf(connection, found[at].leaves[-1]).statement) < before]
    return delete_cases(database, connection, gone)


def delete_cases(database: Database, connection: CheckedConnection, numbers: Iterable[int]) -> int:
    """Delete the rows of cases, and destroy their secrets; return how many there were."""
    gone = list(numbers)
    for number in gone:
        connection.execute(delete(cases).where(cases.c.number == number))
    database.destroy_secrets(connection, gone)
    return len(gone)


def leaf_time(statement: Statement) -> datetime:
    """When a leaf was signed, by the signer's clock."""
    return datetime.fromisoformat(str(statement.predicate["time"]))


def _case(row: Any) -> Case:
    try:
        content: dict[str, Json] = json.loads(decrypt(row.secret, "case", row.content))
        salts = [None if content[name] is None else bytes.fromhex(str(content[name])) for name in _SALTS]
        texts = [None if content[name] is None else str(content[name]) for name in ("case", "actor")]
        case = Case(texts[0], texts[1], salts[0], salts[1])
        if case.number != row.number:
            raise ValueError("it opens no leaf")
    except (ValueError, KeyError, TypeError, InputError) as problem:
        raise VerificationError(f"a stored case was altered ({problem})") from None
    return case


_SALTS = ("case_salt", "actor_salt")


def _hex(salt: bytes | None) -> str | None:
    return None if salt is None else salt.hex()
