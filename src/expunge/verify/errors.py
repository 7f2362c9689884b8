"""Every way in which a proof, or the archive of an audit, can fail to verify, each with its own name.

::

    VerificationError
    ├── ArchiveError                         docs/formats/audit-results.md
    │   ├── ArchiveManifestInvalid  ArchiveFormatUnsupported  ArchiveUnfinished
    │   ├── ArchiveFileMissing  ArchiveFileUnknown  ArchiveFileMismatch  ArchiveDigestMismatch
    │   ├── ArchiveTableInvalid  ArchiveRowsMissing  ArchiveArrayInvalid
    │   ├── ArchiveStateUnknown  ArchiveStateMismatch  ArchiveReferenceDependent
    │   ├── ArchiveComparisonMismatch  ArchiveProjectionMismatch  ArchiveReadingMismatch
    │   └── ArchiveAnswerMismatch  ArchiveNumberMismatch
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
    "ArchiveAnswerMismatch",
    "ArchiveArrayInvalid",
    "ArchiveComparisonMismatch",
    "ArchiveDigestMismatch",
    "ArchiveError",
    "ArchiveFileMismatch",
    "ArchiveFileMissing",
    "ArchiveFileUnknown",
    "ArchiveFormatUnsupported",
    "ArchiveManifestInvalid",
    "ArchiveNumberMismatch",
    "ArchiveProjectionMismatch",
    "ArchiveReadingMismatch",
    "ArchiveReferenceDependent",
    "ArchiveRowsMissing",
    "ArchiveStateMismatch",
    "ArchiveStateUnknown",
    "ArchiveTableInvalid",
    "ArchiveUnfinished",
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


class ArchiveError(VerificationError):
    """The archive of an audit is malformed, or says what its states do not."""


class ArchiveManifestInvalid(ArchiveError):
    """The manifest is not JSON, or lacks a field, or has one of the wrong type."""


class ArchiveFormatUnsupported(ArchiveError):
    """The format is not one that is spoken here."""


class ArchiveUnfinished(ArchiveError):
    """The audit was not run to its end."""


class ArchiveFileMissing(ArchiveError):
    """A file that the manifest lists is not there, or is no table and no unit."""


class ArchiveFileUnknown(ArchiveError):
    """There is a table or a unit of states that the manifest does not list."""


class ArchiveFileMismatch(ArchiveError):
    """A file is not the one that the manifest lists."""


class ArchiveDigestMismatch(ArchiveError):
    """The digest of the whole is not that of the files."""


class ArchiveTableInvalid(ArchiveError):
    """A table cannot be read, lacks a column, or has a cell that no check can use."""


class ArchiveRowsMissing(ArchiveError):
    """There are fewer or more rows than operations were scheduled, or none at all."""


class ArchiveArrayInvalid(ArchiveError):
    """An array is missing, has the wrong shape, or holds something that is not a finite number."""


class ArchiveStateUnknown(ArchiveError):
    """A row speaks of a state that is not kept."""


class ArchiveStateMismatch(ArchiveError):
    """The check of a state, recomputed from its keys, is not the one on record."""


class ArchiveReferenceDependent(ArchiveError):
    """A state is judged by the solver that it comes from."""


class ArchiveComparisonMismatch(ArchiveError):
    """A difference, recomputed from two states, is not the one on record."""


class ArchiveProjectionMismatch(ArchiveError):
    """A residual of a projection, recomputed, is not the one on record."""


class ArchiveReadingMismatch(ArchiveError):
    """A number read off a state is not the one on record."""


class ArchiveAnswerMismatch(ArchiveError):
    """A state answers otherwise than is on record."""


class ArchiveNumberMismatch(ArchiveError):
    """A reported number is not the statistic of the rows that it is said to be."""


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
