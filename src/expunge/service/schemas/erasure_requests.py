"""Bodies of requests about persons: erasing one, placing a hold, forgetting cases, certificates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from expunge.service.schemas.requests import RequestBody, Text, example

__all__ = ["CaseErasure", "CertificateRequest", "NewHold", "SubjectErasure"]


class SubjectErasure(RequestBody):
    """Whose entries to erase, in every memory, with what was made from them, and after how many seconds, if not now.

    `salt` is that of an earlier erasure of the subject: the answer then names the leaf of its summary.
    """

    model_config = example(subject="patient-1", after=259_200)

    subject: Text
    after: Annotated[int, Field(gt=0, le=366 * 86_400)] | None = None
    salt: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    derived: Literal["erase", "refuse"] = "erase"


class CaseErasure(RequestBody):
    """Which cases to erase: that of a leaf, those of a reference, or all without a leaf in the last days."""

    model_config = example(case="DSR-2026-114")

    leaf: Annotated[int, Field(ge=0)] | None = None
    case: Text | None = None
    older_than_days: Annotated[int, Field(ge=0, le=36_600)] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> CaseErasure:
        if sum(given is not None for given in (self.leaf, self.case, self.older_than_days)) != 1:
            raise ValueError("say leaf, case or older_than_days, and one of them")
        return self


class NewHold(RequestBody):
    """What must not be erased for the time being, and why."""

    model_config = example(subject="patient-1", reason="case 12/345")

    id: Text | None = None
    subject: Text | None = None
    reason: Annotated[str, Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _exactly_one(self) -> NewHold:
        if (self.id is None) == (self.subject is None):
            raise ValueError("a hold is on an id, or on a subject, and on exactly one of them")
        return self


class CertificateRequest(RequestBody):
    """What a certificate document shows beside its leaf, and in which format; else the one that `Accept` asks for.

    `salt` is what the erasure of `subject` returned. `head` is a signed head of this ledger, with its cosignatures;
    `timestamps` are answers of RFC 3161 authorities over it, in base64.
    """

    model_config = example(format="pdf", subject="patient-1", salt="5f" * 32)

    format: Literal["html", "pdf"] | None = None
    names: bool = False
    subject: Text | None = None
    salt: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    head: Text | None = None
    timestamps: list[Text] = Field(default_factory=list)

    @model_validator(mode="after")
    def _both_or_neither(self) -> CertificateRequest:
        if (self.subject is None) != (self.salt is None):
            raise ValueError("subject and salt go together")
        return self
