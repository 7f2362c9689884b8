"""What an edit of a stored memory returns: its record, and where its signed form lies in the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from expunge.errors import AdmissionRefused, DeletionRefused, Refused
from expunge.memory.receipt import EditRecord, Receipt, RefusalReason

__all__ = ["SignedReceipt", "receipt_from_json", "refusal_from_json", "refusal_to_json"]

_REFUSALS: dict[str, type[Refused]] = {cls.__name__: cls for cls in (AdmissionRefused, DeletionRefused, Refused)}


@dataclass(frozen=True, kw_only=True)
class SignedReceipt(EditRecord):
    """The record of an edit that is durable, and leaf ``index`` of the store's ledger: the signed ``envelope``.

    ``memory`` is the memory's UUID and ``edit`` its edit number, as the envelope has them. ``waiting`` is None, or the
    reason why the database's files still hold the secrets that the edit erased; it is part of the answer and not of
    the signed envelope, because it ends. ``measured`` is the receipt with residuals, paths and times; it is kept
    nowhere, so a repeated answer does not have it.
    """

    index: int
    memory: str
    edit: int
    envelope: bytes = field(repr=False)
    waiting: str | None = field(default=None, compare=False)
    measured: Receipt | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, receipt: Receipt, *, index: int, memory: str, edit: int, envelope: bytes) -> SignedReceipt:
        """The receipt with its place in the ledger."""
        known = {item.name: getattr(receipt, item.name) for item in fields(EditRecord)}
        known["outcome"] = receipt.recorded_outcome
        known["refusal"] = None if receipt.refusal is None else receipt.refusal.recorded()
        return cls(**known, index=index, memory=memory, edit=edit, envelope=envelope, measured=receipt)

    def to_json(self) -> dict[str, Any]:
        """The record with its place in the ledger; the envelope is left out."""
        place = {"index": self.index, "memory": self.memory, "edit": self.edit}
        return super().to_json() | place | {"waiting": self.waiting}


def receipt_from_json(document: dict[str, Any], envelope: bytes, waiting: str | None = None) -> SignedReceipt:
    """The receipt whose `to_json` was kept, its envelope from the ledger, and what the files hold now."""
    return SignedReceipt(
        **document
        | {
            "applied": tuple(document["applied"]),
            "does_not_cover": tuple(document["does_not_cover"]),
            "refusal": None if document["refusal"] is None else RefusalReason(**document["refusal"]),
            "waiting": waiting,
        },
        envelope=envelope,
    )


def refusal_to_json(problem: Refused) -> dict[str, Any]:
    """What was raised, without its receipt."""
    return {"class": type(problem).__name__, "reason": problem.reason}


def refusal_from_json(document: dict[str, Any], receipt: SignedReceipt) -> Refused:
    """What `refusal_to_json` was given, to be raised again."""
    return _REFUSALS[document["class"]](document["reason"], receipt=receipt)
