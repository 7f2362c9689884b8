"""What an edit of a stored memory returns: its record, and where its signed form lies in the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from expunge.errors import AdmissionRefused, DeletionRefused, Refused
from expunge.memory.receipt import EditRecord, Receipt, RefusalReason
from expunge.preprocessing.outdated import OutdatedChoice, outdated_text

if TYPE_CHECKING:
    from expunge.store.erasure_summary import JointErasure

__all__ = ["SignedReceipt", "receipt_from_json", "refusal_from_json", "refusal_to_json"]

_REFUSALS: dict[str, type[Refused]] = {cls.__name__: cls for cls in (AdmissionRefused, DeletionRefused, Refused)}


@dataclass(frozen=True, kw_only=True)
class SignedReceipt(EditRecord):
    """The record of an edit that is durable, and leaf ``index`` of the store's ledger: the signed ``envelope``.

    ``memory`` is the memory's UUID and ``edit`` its edit number, as the envelope has them. ``waiting`` is None, or the
    reason why the database's files still hold the secrets that the edit erased; it is part of the answer and not of
    the signed envelope, because it ends. So is ``outdated``, of a deletion: the numbers that were chosen from entries,
    such as a width, and would be others chosen from those that remain; None of a memory of more than 3,000 entries, of
    which `outdated` is to be asked. The envelope outlives these, so it does not have it, and no kept answer has it.
    ``elsewhere`` has what was erased in other memories, because it was made from these entries; the ledger has a
    summary of it. ``measured`` is the receipt with residuals, paths and times; it is kept nowhere, so a repeated answer
    does not have it.
    """

    index: int
    memory: str
    edit: int
    envelope: bytes = field(repr=False)
    waiting: str | None = field(default=None, compare=False)
    outdated: tuple[OutdatedChoice, ...] | None = field(default=(), compare=False)
    elsewhere: JointErasure | None = field(default=None, compare=False)
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
        elsewhere = None if self.elsewhere is None else self.elsewhere.to_json()
        outdated = None if self.outdated is None else list(self.outdated)
        now = {"waiting": self.waiting, "outdated": outdated, "elsewhere": elsewhere}
        return super().to_json() | place | now

    def _technical(self) -> tuple[tuple[str, str], ...]:
        return (
            *super()._technical(),
            ("ledger", f"leaf {self.index}, edit {self.edit} of memory {self.memory}"),
            ("still in files", self.waiting or ""),
            ("elsewhere", "" if self.elsewhere is None else self.elsewhere.sentence),
            ("outdated", outdated_text(self.outdated)),
        )


def receipt_from_json(
    document: dict[str, Any],
    envelope: bytes,
    waiting: str | None = None,
    outdated: tuple[OutdatedChoice, ...] | None = (),
) -> SignedReceipt:
    """The receipt whose `to_json` was kept, its envelope from the ledger, and what the files hold now."""
    refusal = document["refusal"]
    return SignedReceipt(
        **document
        | {
            "applied": tuple(document["applied"]),
            "does_not_cover": tuple(document["does_not_cover"]),
            "refusal": None if refusal is None else RefusalReason(**refusal | {"holds": tuple(refusal["holds"])}),
            "waiting": waiting,
            "outdated": outdated,
            "elsewhere": None,
        },
        envelope=envelope,
    )


def refusal_to_json(problem: Refused) -> dict[str, Any]:
    """What was raised, without its receipt."""
    return {"class": type(problem).__name__, "reason": problem.reason}


def refusal_from_json(document: dict[str, Any], receipt: SignedReceipt) -> Refused:
    """What `refusal_to_json` was given, to be raised again."""
    return _REFUSALS[document["class"]](document["reason"], receipt=receipt)
