"""Every way in which a proof can fail to verify, each with its own name.

::

    VerificationError
    └── ProofError                           docs/formats/proof.md
        ├── ProofTooLarge  ProofNotJson  ProofFormatUnsupported  ProofFieldMissing  ProofFieldUnknown
        ├── ProofFieldInvalid  ProofContradictory  ProofNotCanonical
        ├── ProofNotProved  ProofSizeMismatch  ProofDigestMismatch  ProofCopiesSplit
        ├── ProofWitnessMissing  ProofWitnessLength  ProofWitnessMass
        └── ProofMassUnproved  ProofConditionUnproved  ProofCoefficientUnproved  ProofSlackUnproved
"""

# Like Refused and MissingExtra, these names say what is wrong; the group they belong to is the Error.

from __future__ import annotations

from expunge.errors import VerificationError

__all__ = [
    "ProofCoefficientUnproved",
    "ProofConditionUnproved",
    "ProofContradictory",
    "ProofCopiesSplit",
    "ProofDigestMismatch",
    "ProofError",
    "ProofFieldInvalid",
    "ProofFieldMissing",
    "ProofFieldUnknown",
    "ProofFormatUnsupported",
    "ProofMassUnproved",
    "ProofNotCanonical",
    "ProofNotJson",
    "ProofNotProved",
    "ProofSizeMismatch",
    "ProofSlackUnproved",
    "ProofTooLarge",
    "ProofWitnessLength",
    "ProofWitnessMass",
    "ProofWitnessMissing",
]


class ProofError(VerificationError):
    """A proof of a partition is malformed or does not hold."""


class ProofTooLarge(ProofError):
    """The file exceeds the size limit."""


class ProofNotJson(ProofError):
    """The file is not a JSON object in UTF-8."""


class ProofFormatUnsupported(ProofError):
    """The format is not one that is spoken here."""


class ProofFieldMissing(ProofError):
    """A field is missing."""


class ProofFieldUnknown(ProofError):
    """There is a field that the format does not know."""


class ProofFieldInvalid(ProofError):
    """A field has the wrong type, range or spelling."""


class ProofContradictory(ProofError):
    """The outcome and the rest of the file do not agree."""


class ProofNotCanonical(ProofError):
    """The bytes are not the one spelling of what they say."""


class ProofNotProved(ProofError):
    """The file records an attempt that proved nothing."""


class ProofSizeMismatch(ProofError):
    """The proof is about another number of keys."""


class ProofDigestMismatch(ProofError):
    """The proof is about other keys, another cap, another width or another partition."""


class ProofCopiesSplit(ProofError):
    """Identical keys are in different groups."""


class ProofWitnessMissing(ProofError):
    """There is a margin, and no coefficients to check it by."""


class ProofWitnessLength(ProofError):
    """The witness does not have one coefficient for each distinct margin key."""


class ProofWitnessMass(ProofError):
    """The witness and the bound keys do not sum to exactly 1."""


class ProofMassUnproved(ProofError):
    """With an empty margin, the caps of the bound keys do not sum to exactly 1."""


class ProofConditionUnproved(ProofError):
    """The kernel matrix of the margin was not shown to be invertible."""


class ProofCoefficientUnproved(ProofError):
    """A margin coefficient was not shown to lie strictly inside its box."""


class ProofSlackUnproved(ProofError):
    """A slack was not shown to have its sign."""
