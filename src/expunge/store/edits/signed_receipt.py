"""What an edit of a stored memory returns: the receipt, and where its signed form lies in the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from expunge.errors import AdmissionRefused, DeletionRefused, Refused
from expunge.memory.receipt import Receipt, RefusalReason
from expunge.problem.check import StateCheck
from expunge.solver.attempts import Attempt

__all__ = ["SignedReceipt", "receipt_from_json", "receipt_to_json", "refusal_from_json", "refusal_to_json"]

_REFUSALS: dict[str, type[Refused]] = {cls.__name__: cls for cls in (AdmissionRefused, DeletionRefused, Refused)}


@dataclass(frozen=True, kw_only=True)
class SignedReceipt(Receipt):
    """A receipt whose edit is durable, and leaf ``index`` of the store's ledger: the signed ``envelope``.

    ``memory`` is the memory's UUID and ``edit`` its edit number, as the envelope has them. ``waiting`` is None, or the
    reason why the database's files still hold the secrets that the edit erased; it is part of the answer and not of
    the signed envelope, because it ends.
    """

    index: int
    memory: str
    edit: int
    envelope: bytes = field(repr=False)
    waiting: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, receipt: Receipt, *, index: int, memory: str, edit: int, envelope: bytes) -> SignedReceipt:
        """With its place in the ledger."""
        known = {item.name: getattr(receipt, item.name) for item in fields(Receipt)}
        return cls(**known, index=index, memory=memory, edit=edit, envelope=envelope)

    def to_json(self) -> dict[str, Any]:
        """The receipt with its place in the ledger; the envelope is left out."""
        place = {"index": self.index, "memory": self.memory, "edit": self.edit}
        return super().to_json() | place | {"waiting": self.waiting}


def receipt_to_json(receipt: SignedReceipt) -> dict[str, Any]:
    """As JSON; left out are the envelope, which is in the ledger, and what the files hold at the moment."""
    passing = ("envelope", "waiting")
    plain = {item.name: getattr(receipt, item.name) for item in fields(receipt) if item.name not in passing}
    attempts = [vars(tried) | {"check": _check_to_json(tried.check)} for tried in receipt.attempts]
    refusal = None if receipt.refusal is None else vars(receipt.refusal)
    return plain | {"check": _check_to_json(receipt.check), "attempts": attempts, "refusal": refusal}


def receipt_from_json(document: dict[str, Any], envelope: bytes, waiting: str | None = None) -> SignedReceipt:
    """What `receipt_to_json` was given, with what the files hold now."""
    attempts = tuple(Attempt(**tried | {"check": _check_from_json(tried["check"])}) for tried in document["attempts"])
    return SignedReceipt(
        **document
        | {
            "applied": tuple(document["applied"]),
            "does_not_cover": tuple(document["does_not_cover"]),
            "check": StateCheck(**document["check"]),
            "attempts": attempts,
            "refusal": None if document["refusal"] is None else RefusalReason(**document["refusal"]),
        },
        envelope=envelope,
        waiting=waiting,
    )


def refusal_to_json(problem: Refused) -> dict[str, Any]:
    """What was raised, without its receipt."""
    return {"class": type(problem).__name__, "reason": problem.reason}


def refusal_from_json(document: dict[str, Any], receipt: Receipt) -> Refused:
    """What `refusal_to_json` was given, to be raised again."""
    return _REFUSALS[document["class"]](document["reason"], receipt=receipt)


def _check_to_json(check: StateCheck | None) -> dict[str, float] | None:
    return None if check is None else {item.name: getattr(check, item.name) for item in fields(check)}


def _check_from_json(document: dict[str, float] | None) -> StateCheck | None:
    return None if document is None else StateCheck(**document)
