"""Every way in which a ledger artifact can fail, each with its own name.

The verification errors say *this artifact does not check out*; the key errors say *this file cannot be
used*, before anything was checked. Each check has a class of its own, so the name alone tells what is wrong.

::

    VerificationError
    ├── MerkleError                          docs/formats/merkle-log.md
    │   ├── TreeSizeOutOfRange  HashLengthInvalid  EmptyRootMismatch
    │   ├── InclusionIndexOutOfRange  InclusionPathLength  InclusionRootMismatch
    │   ├── ConsistencySizesReversed  ConsistencyPathLength  ConsistencyFork
    │   ├── ConsistencyOldRootMismatch  ConsistencyNewRootMismatch
    │   └── FrontierMalformed
    ├── NoteError                            docs/formats/checkpoint.md
    │   ├── NoteTooLarge  NoteNotUtf8  NoteControlCharacter  NoteUnterminated
    │   ├── NoteSeparatorMissing  NoteUnsigned  NoteTooManySignatures
    │   ├── NoteSignatureLineMalformed  NoteKeyNameInvalid  NoteSignatureEncodingInvalid
    │   └── NoteSignerUnknown  NoteSignatureInvalid
    ├── CheckpointError                      docs/formats/checkpoint.md
    │   ├── CheckpointLinesMissing  CheckpointOriginInvalid  CheckpointSizeInvalid
    │   ├── CheckpointRootInvalid  CheckpointExtensionInvalid  CheckpointOriginMismatch
    │   ├── CosignatureMalformed  CosignatureTimeInvalid  CosignatureFromFuture
    │   └── CosignatureInvalid  CosignatureQuorumMissed
    ├── LogProofError                        docs/formats/log-proof.md
    │   ├── LogProofTooLarge  LogProofNotUtf8  LogProofHeaderInvalid  LogProofExtraInvalid
    │   ├── LogProofIndexInvalid  LogProofOldSizeInvalid  LogProofHashInvalid
    │   └── LogProofTooManyHashes  LogProofUnterminated  LogProofOldSizeMismatch
    ├── CanonicalError                       docs/formats/envelope.md
    │   ├── JsonTooLarge  JsonTooManyValues  JsonNotUtf8  JsonTooDeep  JsonSyntaxInvalid  JsonDuplicateKey
    │   ├── JsonFloatForbidden  JsonIntegerOutOfRange  JsonNotCanonical
    │   └── FloatHexInvalid
    ├── EnvelopeError                        docs/formats/envelope.md
    │   ├── EnvelopeNotObject  EnvelopeFieldMissing  EnvelopeFieldUnknown  EnvelopePayloadInvalid
    │   ├── EnvelopePayloadTypeUnsupported  EnvelopeSignatureListInvalid  EnvelopeUnsigned
    │   ├── EnvelopeTooManySignatures  EnvelopeKeyIdInvalid  EnvelopeDuplicateKeyId
    │   ├── EnvelopeSignatureEncodingInvalid  EnvelopeSignerUnknown  EnvelopeSignatureInvalid
    │   └── EnvelopeThresholdMissed
    ├── StatementError                       docs/formats/envelope.md
    │   ├── StatementNotObject  StatementFieldMissing  StatementFieldUnknown  StatementTypeUnsupported
    │   ├── StatementSubjectInvalid  StatementSubjectDuplicate  StatementDigestInvalid
    │   ├── StatementPredicateTypeInvalid  StatementPredicateTypeMismatch  StatementPredicateInvalid
    │   └── StatementEventInvalid            docs/formats/store.md
    ├── CommitmentError                      docs/formats/commitment.md
    │   └── CommitmentMalformed  CommitmentMismatch
    ├── ReceiptError                         docs/formats/receipt.md
    │   ├── ReceiptFieldMissing  ReceiptFieldUnknown  ReceiptActionInvalid  ReceiptAttemptsInvalid
    │   ├── ReceiptCheckInvalid  ReceiptCommitmentsInvalid  ReceiptCoverageInvalid  ReceiptEditInvalid
    │   ├── ReceiptEntriesInvalid  ReceiptMemoryInvalid  ReceiptOutcomeInvalid  ReceiptProblemInvalid
    │   ├── ReceiptPruningInvalid  ReceiptReferenceInvalid  ReceiptRefusalInvalid  ReceiptSecondsInvalid
    │   ├── ReceiptSolverInvalid  ReceiptStateInvalid  ReceiptTimeInvalid  ReceiptTolerancesInvalid
    │   ├── ReceiptActionMismatch  ReceiptAttemptsMismatch  ReceiptCheckFailed  ReceiptEntriesMismatch
    │   └── ReceiptPruningMismatch  ReceiptRefusalMismatch  ReceiptStateMismatch  ReceiptSubjectMismatch
    ├── LogError                             docs/formats/receipt.md
    │   ├── LogSizeMismatch  LogRootMismatch  LogReceiptInvalid  LogCreationRepeated  LogStateBroken
    │   ├── LogEditOrder  LogEntriesBroken  LogProblemChanged  LogRestorationUnknown  LogErasureUndone
    │   └── LogMemoryDropped  LogEventMismatch
    └── EvidenceError                        docs/formats/evidence.md
        ├── EvidenceTooLarge  EvidenceContainerInvalid  EvidenceMemberMissing  EvidenceMemberUnknown
        ├── EvidenceMemberMismatch  EvidenceFormatUnsupported  EvidenceFieldMissing  EvidenceFieldUnknown
        ├── EvidenceFieldInvalid  EvidenceArrayMalformed  EvidenceArrayInvalid  EvidenceProblemMismatch
        ├── EvidenceSizeMismatch  EvidenceCommitmentMismatch  EvidenceCommitmentRepeated
        ├── EvidenceWeightsMismatch  EvidenceStateMismatch  EvidencePriorMissing  EvidencePriorMismatch
        ├── EvidencePriorDisclosed  EvidenceAddedMismatch  EvidenceRemovedMismatch  EvidenceCheckFailed
        ├── EvidenceCheckMismatch  EvidencePartitionMismatch  EvidenceInclusionMissing
        └── EvidenceReferenceMissing  EvidenceReferenceMismatch  EvidenceReadoutMismatch

    InputError
    ├── VerifierKeyMalformed  VerifierKeyUnsupported  VerifierKeyIdMismatch
    └── SigningKeyMalformed  SigningKeyWrongType  SigningKeyLocked  SigningKeyPassphraseWrong

    StoreError
    └── SigningKeyMissing  SigningKeyUnreadable  SigningKeyExposed  SigningKeyExists  SigningKeyUnwritable
"""

from __future__ import annotations

from expunge.errors import InputError, StoreError, VerificationError

__all__ = [
    "CanonicalError",
    "CheckpointError",
    "CheckpointExtensionInvalid",
    "CheckpointLinesMissing",
    "CheckpointOriginInvalid",
    "CheckpointOriginMismatch",
    "CheckpointRootInvalid",
    "CheckpointSizeInvalid",
    "CommitmentError",
    "CommitmentMalformed",
    "CommitmentMismatch",
    "ConsistencyFork",
    "ConsistencyNewRootMismatch",
    "ConsistencyOldRootMismatch",
    "ConsistencyPathLength",
    "ConsistencySizesReversed",
    "CosignatureFromFuture",
    "CosignatureInvalid",
    "CosignatureMalformed",
    "CosignatureQuorumMissed",
    "CosignatureTimeInvalid",
    "EmptyRootMismatch",
    "EnvelopeDuplicateKeyId",
    "EnvelopeError",
    "EnvelopeFieldMissing",
    "EnvelopeFieldUnknown",
    "EnvelopeKeyIdInvalid",
    "EnvelopeNotObject",
    "EnvelopePayloadInvalid",
    "EnvelopePayloadTypeUnsupported",
    "EnvelopeSignatureEncodingInvalid",
    "EnvelopeSignatureInvalid",
    "EnvelopeSignatureListInvalid",
    "EnvelopeSignerUnknown",
    "EnvelopeThresholdMissed",
    "EnvelopeTooManySignatures",
    "EnvelopeUnsigned",
    "EvidenceAddedMismatch",
    "EvidenceArrayInvalid",
    "EvidenceArrayMalformed",
    "EvidenceCheckFailed",
    "EvidenceCheckMismatch",
    "EvidenceCommitmentMismatch",
    "EvidenceCommitmentRepeated",
    "EvidenceContainerInvalid",
    "EvidenceError",
    "EvidenceFieldInvalid",
    "EvidenceFieldMissing",
    "EvidenceFieldUnknown",
    "EvidenceFormatUnsupported",
    "EvidenceInclusionMissing",
    "EvidenceMemberMismatch",
    "EvidenceMemberMissing",
    "EvidenceMemberUnknown",
    "EvidencePartitionMismatch",
    "EvidencePriorDisclosed",
    "EvidencePriorMismatch",
    "EvidencePriorMissing",
    "EvidenceProblemMismatch",
    "EvidenceReadoutMismatch",
    "EvidenceReferenceMismatch",
    "EvidenceReferenceMissing",
    "EvidenceRemovedMismatch",
    "EvidenceSizeMismatch",
    "EvidenceStateMismatch",
    "EvidenceTooLarge",
    "EvidenceWeightsMismatch",
    "FloatHexInvalid",
    "FrontierMalformed",
    "HashLengthInvalid",
    "InclusionIndexOutOfRange",
    "InclusionPathLength",
    "InclusionRootMismatch",
    "JsonDuplicateKey",
    "JsonFloatForbidden",
    "JsonIntegerOutOfRange",
    "JsonNotCanonical",
    "JsonNotUtf8",
    "JsonSyntaxInvalid",
    "JsonTooDeep",
    "JsonTooLarge",
    "JsonTooManyValues",
    "LogCreationRepeated",
    "LogEditOrder",
    "LogEntriesBroken",
    "LogErasureUndone",
    "LogError",
    "LogEventMismatch",
    "LogMemoryDropped",
    "LogProblemChanged",
    "LogProofError",
    "LogProofExtraInvalid",
    "LogProofHashInvalid",
    "LogProofHeaderInvalid",
    "LogProofIndexInvalid",
    "LogProofNotUtf8",
    "LogProofOldSizeInvalid",
    "LogProofOldSizeMismatch",
    "LogProofTooLarge",
    "LogProofTooManyHashes",
    "LogProofUnterminated",
    "LogReceiptInvalid",
    "LogRestorationUnknown",
    "LogRootMismatch",
    "LogSizeMismatch",
    "LogStateBroken",
    "MerkleError",
    "NoteControlCharacter",
    "NoteError",
    "NoteKeyNameInvalid",
    "NoteNotUtf8",
    "NoteSeparatorMissing",
    "NoteSignatureEncodingInvalid",
    "NoteSignatureInvalid",
    "NoteSignatureLineMalformed",
    "NoteSignerUnknown",
    "NoteTooLarge",
    "NoteTooManySignatures",
    "NoteUnsigned",
    "NoteUnterminated",
    "ReceiptActionInvalid",
    "ReceiptActionMismatch",
    "ReceiptAttemptsInvalid",
    "ReceiptAttemptsMismatch",
    "ReceiptCheckFailed",
    "ReceiptCheckInvalid",
    "ReceiptCommitmentsInvalid",
    "ReceiptCoverageInvalid",
    "ReceiptEditInvalid",
    "ReceiptEntriesInvalid",
    "ReceiptEntriesMismatch",
    "ReceiptError",
    "ReceiptFieldMissing",
    "ReceiptFieldUnknown",
    "ReceiptMemoryInvalid",
    "ReceiptOutcomeInvalid",
    "ReceiptProblemInvalid",
    "ReceiptPruningInvalid",
    "ReceiptPruningMismatch",
    "ReceiptReferenceInvalid",
    "ReceiptRefusalInvalid",
    "ReceiptRefusalMismatch",
    "ReceiptSecondsInvalid",
    "ReceiptSolverInvalid",
    "ReceiptStateInvalid",
    "ReceiptStateMismatch",
    "ReceiptSubjectMismatch",
    "ReceiptTimeInvalid",
    "ReceiptTolerancesInvalid",
    "SigningKeyExists",
    "SigningKeyExposed",
    "SigningKeyLocked",
    "SigningKeyMalformed",
    "SigningKeyMissing",
    "SigningKeyPassphraseWrong",
    "SigningKeyUnreadable",
    "SigningKeyUnwritable",
    "SigningKeyWrongType",
    "StatementDigestInvalid",
    "StatementError",
    "StatementEventInvalid",
    "StatementFieldMissing",
    "StatementFieldUnknown",
    "StatementNotObject",
    "StatementPredicateInvalid",
    "StatementPredicateTypeInvalid",
    "StatementPredicateTypeMismatch",
    "StatementSubjectDuplicate",
    "StatementSubjectInvalid",
    "StatementTypeUnsupported",
    "TreeSizeOutOfRange",
    "VerifierKeyIdMismatch",
    "VerifierKeyMalformed",
    "VerifierKeyUnsupported",
]


class MerkleError(VerificationError):
    """A hash-tree proof does not hold."""


class TreeSizeOutOfRange(MerkleError):
    """A tree size is negative or above 2^63 - 1."""


class HashLengthInvalid(MerkleError):
    """A hash is not 32 bytes long."""


class EmptyRootMismatch(MerkleError):
    """A tree of size 0 is claimed with a root other than the hash of nothing."""


class InclusionIndexOutOfRange(MerkleError):
    """The leaf index is not below the tree size."""


class InclusionPathLength(MerkleError):
    """The inclusion path has more or fewer hashes than this index and size need."""


class InclusionRootMismatch(MerkleError):
    """The leaf and its path lead to another root."""


class ConsistencySizesReversed(MerkleError):
    """The older head is larger than the newer: the log was truncated."""


class ConsistencyPathLength(MerkleError):
    """The consistency path has more or fewer hashes than these sizes need."""


class ConsistencyFork(MerkleError):
    """Two heads of one size have different roots: the log shows two histories."""


class ConsistencyOldRootMismatch(MerkleError):
    """The path does not lead to the older root: history was rewritten."""


class ConsistencyNewRootMismatch(MerkleError):
    """The path leads to the older root but not to the newer one."""


class FrontierMalformed(MerkleError):
    """Stored frontier bytes are not a size and its matching number of hashes."""


class NoteError(VerificationError):
    """A signed note is malformed or not signed as required."""


class NoteTooLarge(NoteError):
    """The note exceeds the size limit."""


class NoteNotUtf8(NoteError):
    """The note is not valid UTF-8."""


class NoteControlCharacter(NoteError):
    """The note has an ASCII control character other than newline."""


class NoteUnterminated(NoteError):
    """The note does not end in a newline."""


class NoteSeparatorMissing(NoteError):
    """No empty line separates text from signatures."""


class NoteUnsigned(NoteError):
    """No signature line follows the separator."""


class NoteTooManySignatures(NoteError):
    """The note has more signature lines than the limit."""


class NoteSignatureLineMalformed(NoteError):
    """A signature line is not: em dash, space, name, space, base64."""


class NoteKeyNameInvalid(NoteError):
    """A key name is empty or has a space or a plus."""


class NoteSignatureEncodingInvalid(NoteError):
    """A signature is not canonical base64 of a 4-byte key id and at least one byte."""


class NoteSignerUnknown(NoteError):
    """No signature line is from a trusted key."""


class NoteSignatureInvalid(NoteError):
    """A line that names a trusted key carries a signature that the key did not make."""


class CheckpointError(VerificationError):
    """A checkpoint, or a cosignature on one, does not check out."""


class CheckpointLinesMissing(CheckpointError):
    """The note text has fewer than three lines."""


class CheckpointOriginInvalid(CheckpointError):
    """The origin line is empty."""


class CheckpointSizeInvalid(CheckpointError):
    """The size line is not a canonical decimal up to 2^63 - 1."""


class CheckpointRootInvalid(CheckpointError):
    """The root line is not canonical base64 of 32 bytes."""


class CheckpointExtensionInvalid(CheckpointError):
    """An extension line is empty, or there are too many of them."""


class CheckpointOriginMismatch(CheckpointError):
    """The checkpoint belongs to another log."""


class CosignatureMalformed(CheckpointError):
    """A witness's line is not an 8-byte time and a 64-byte signature."""


class CosignatureTimeInvalid(CheckpointError):
    """A cosignature's time exceeds 2^63 - 1."""


class CosignatureFromFuture(CheckpointError):
    """A cosignature's time is later than now, beyond the allowed skew."""


class CosignatureInvalid(CheckpointError):
    """A line that names a trusted witness carries a cosignature that it did not make."""


class CosignatureQuorumMissed(CheckpointError):
    """Fewer trusted witnesses cosigned than the policy asks for."""


class LogProofError(VerificationError):
    """A carried inclusion or extension proof is malformed."""


class LogProofTooLarge(LogProofError):
    """The proof exceeds the size limit."""


class LogProofNotUtf8(LogProofError):
    """The proof is not valid UTF-8."""


class LogProofHeaderInvalid(LogProofError):
    """The first line does not name a known proof format."""


class LogProofExtraInvalid(LogProofError):
    """The extra line is not canonical base64."""


class LogProofIndexInvalid(LogProofError):
    """The index line is missing or not a canonical decimal."""


class LogProofOldSizeInvalid(LogProofError):
    """The old-size line is missing or not a canonical decimal."""


class LogProofHashInvalid(LogProofError):
    """A path line is not canonical base64 of 32 bytes."""


class LogProofTooManyHashes(LogProofError):
    """There are more path lines than any tree can need."""


class LogProofUnterminated(LogProofError):
    """No empty line ends the path, so no checkpoint follows."""


class LogProofOldSizeMismatch(LogProofError):
    """The proof starts from another size than the head that was kept."""


class CanonicalError(VerificationError):
    """Bytes that should be canonical JSON, or a canonical float, are not."""


class JsonTooLarge(CanonicalError):
    """The JSON text exceeds the size limit."""


class JsonTooManyValues(CanonicalError):
    """The JSON text has more values than the limit."""


class JsonNotUtf8(CanonicalError):
    """The JSON text is not valid UTF-8."""


class JsonTooDeep(CanonicalError):
    """Arrays and objects nest deeper than the limit."""


class JsonSyntaxInvalid(CanonicalError):
    """The text is not JSON."""


class JsonDuplicateKey(CanonicalError):
    """An object has the same key twice."""


class JsonFloatForbidden(CanonicalError):
    """A number has a fraction or an exponent, or is NaN or an infinity; floats travel as hex."""


class JsonIntegerOutOfRange(CanonicalError):
    """An integer is outside ±(2^53 - 1)."""


class JsonNotCanonical(CanonicalError):
    """The text is JSON, but not the RFC 8785 bytes of its own value."""


class FloatHexInvalid(CanonicalError):
    """A float is not in the one form that ``float.hex`` writes, or is NaN."""


class EnvelopeError(VerificationError):
    """A DSSE envelope is malformed or not signed as required."""


class EnvelopeNotObject(EnvelopeError):
    """The envelope is not a JSON object."""


class EnvelopeFieldMissing(EnvelopeError):
    """The envelope, or one of its signatures, lacks a field."""


class EnvelopeFieldUnknown(EnvelopeError):
    """The envelope, or one of its signatures, has a field that the format does not know."""


class EnvelopePayloadInvalid(EnvelopeError):
    """The payload is not canonical base64, or exceeds the size limit."""


class EnvelopePayloadTypeUnsupported(EnvelopeError):
    """The payload type is not in-toto JSON."""


class EnvelopeSignatureListInvalid(EnvelopeError):
    """The signatures are not a list of objects."""


class EnvelopeUnsigned(EnvelopeError):
    """The list of signatures is empty."""


class EnvelopeTooManySignatures(EnvelopeError):
    """There are more signatures than the limit."""


class EnvelopeKeyIdInvalid(EnvelopeError):
    """A key id is not 64 lowercase hexadecimal digits."""


class EnvelopeDuplicateKeyId(EnvelopeError):
    """Two signatures name the same key."""


class EnvelopeSignatureEncodingInvalid(EnvelopeError):
    """A signature is not canonical base64 of 64 bytes."""


class EnvelopeSignerUnknown(EnvelopeError):
    """No signature names a trusted key."""


class EnvelopeSignatureInvalid(EnvelopeError):
    """A signature that names a trusted key was not made by it over this payload."""


class EnvelopeThresholdMissed(EnvelopeError):
    """Trusted keys signed, but fewer than the policy asks for."""


class StatementError(VerificationError):
    """A signed payload is not the in-toto statement that it should be."""


class StatementNotObject(StatementError):
    """The payload is not a JSON object."""


class StatementFieldMissing(StatementError):
    """The statement, or one of its subjects, lacks a field."""


class StatementFieldUnknown(StatementError):
    """The statement, or one of its subjects, has a field that the format does not know."""


class StatementTypeUnsupported(StatementError):
    """``_type`` is not in-toto Statement v1."""


class StatementSubjectInvalid(StatementError):
    """``subject`` is not a non-empty list of objects with a non-empty name."""


class StatementSubjectDuplicate(StatementError):
    """Two subjects have the same name."""


class StatementDigestInvalid(StatementError):
    """A subject's digest is not exactly one SHA-256 in lowercase hexadecimal."""


class StatementPredicateTypeInvalid(StatementError):
    """``predicateType`` is not a URI."""


class StatementPredicateTypeMismatch(StatementError):
    """The predicate is of another type than the one expected."""


class StatementPredicateInvalid(StatementError):
    """``predicate`` is not a JSON object."""


class StatementEventInvalid(StatementError):
    """The predicate is not an event of a store."""


class CommitmentError(VerificationError):
    """A commitment is malformed or opens to something else."""


class CommitmentMalformed(CommitmentError):
    """A commitment is not 64 lowercase hexadecimal digits."""


class CommitmentMismatch(CommitmentError):
    """The salt and content do not open this commitment."""


class ReceiptError(VerificationError):
    """A predicate is not a receipt, or contradicts itself."""


class ReceiptFieldMissing(ReceiptError):
    """The receipt, or an object in it, lacks a field."""


class ReceiptFieldUnknown(ReceiptError):
    """The receipt, or an object in it, has a field that the format does not know."""


class ReceiptActionInvalid(ReceiptError):
    """The action is none that the format knows."""


class ReceiptAttemptsInvalid(ReceiptError):
    """The attempts are not a list of paths, each with either residuals or the class of an error."""


class ReceiptCheckInvalid(ReceiptError):
    """The check is not three residuals, each a power of two from 2^-40, the tolerance, or inf."""


class ReceiptCommitmentsInvalid(ReceiptError):
    """A list of commitments is not ascending hexadecimal digests with a count that fits."""


class ReceiptCoverageInvalid(ReceiptError):
    """What is covered, or not covered, is not what this outcome entails."""


class ReceiptEditInvalid(ReceiptError):
    """The edit number is not a whole number."""


class ReceiptEntriesInvalid(ReceiptError):
    """The numbers of entries before and after are not whole numbers."""


class ReceiptMemoryInvalid(ReceiptError):
    """The memory is not named by a UUID in its canonical spelling."""


class ReceiptOutcomeInvalid(ReceiptError):
    """The outcome is none that the format knows."""


class ReceiptProblemInvalid(ReceiptError):
    """Cap, width, dimension or initial size are not numbers in range."""


class ReceiptPruningInvalid(ReceiptError):
    """The pruning is neither null nor a mode and a count."""


class ReceiptReferenceInvalid(ReceiptError):
    """The reference is neither null nor a backend with its residual and readout difference."""


class ReceiptRefusalInvalid(ReceiptError):
    """The refusal is neither null nor a known reason with its numbers."""


class ReceiptSecondsInvalid(ReceiptError):
    """The duration is not a number of seconds."""


class ReceiptSolverInvalid(ReceiptError):
    """The solver is not a name and a version."""


class ReceiptStateInvalid(ReceiptError):
    """A state is not named by a digest in lowercase hexadecimal."""


class ReceiptTimeInvalid(ReceiptError):
    """The time is not a second of UTC in RFC 3339 form."""


class ReceiptTolerancesInvalid(ReceiptError):
    """The tolerances are not those of this version of the format."""


class ReceiptActionMismatch(ReceiptError):
    """The outcome cannot come of the action."""


class ReceiptAttemptsMismatch(ReceiptError):
    """The attempts do not lead to the outcome and the check."""


class ReceiptCheckFailed(ReceiptError):
    """The stated residuals exceed the tolerance that published states are held to."""


class ReceiptEntriesMismatch(ReceiptError):
    """The entries before, what was applied, and the entries after do not add up."""


class ReceiptPruningMismatch(ReceiptError):
    """The details of a pruning are missing, or there are some without a pruning."""


class ReceiptRefusalMismatch(ReceiptError):
    """The reason of a refusal is missing, or there is one without a refusal."""


class ReceiptStateMismatch(ReceiptError):
    """The state changed where the outcome says that it did not, or the other way round."""


class ReceiptSubjectMismatch(ReceiptError):
    """The subjects of the statement are not the states of the receipt."""


class LogError(VerificationError):
    """The receipts of a log do not make up one history."""


class LogSizeMismatch(LogError):
    """There are more or fewer receipts than the checkpoint has leaves."""


class LogRootMismatch(LogError):
    """The receipts lead to another root than the checkpoint's."""


class LogReceiptInvalid(LogError):
    """A receipt in the log does not verify; the cause has the name of what is wrong."""


class LogCreationRepeated(LogError):
    """A memory is created although the log already knows it."""


class LogStateBroken(LogError):
    """A receipt does not start from the state that the one before it left."""


class LogEditOrder(LogError):
    """The edit numbers of a memory do not rise."""


class LogEntriesBroken(LogError):
    """A receipt does not start from the number of entries that the one before it left."""


class LogProblemChanged(LogError):
    """Cap, width or dimension of a memory changed without a rebuild."""


class LogRestorationUnknown(LogError):
    """A memory was restored to a state that the log has never seen."""


class LogErasureUndone(LogError):
    """An erased entry is back: named again, or restored from a backup and not erased again."""


class LogMemoryDropped(LogError):
    """A receipt or an event is about a memory that was dropped before."""


class LogEventMismatch(LogError):
    """An event of the store names a state, entries or a receipt that the log does not have."""


class EvidenceError(VerificationError):
    """An evidence bundle is malformed, or does not bear out its receipt."""


class EvidenceTooLarge(EvidenceError):
    """The bundle exceeds the size limit."""


class EvidenceContainerInvalid(EvidenceError):
    """The file is not a ZIP archive in the one form that bundles have."""


class EvidenceMemberMissing(EvidenceError):
    """A file that the bundle needs is not in it."""


class EvidenceMemberUnknown(EvidenceError):
    """The bundle holds a file that the format does not know."""


class EvidenceMemberMismatch(EvidenceError):
    """A file is not the one that the manifest lists by its digest."""


class EvidenceFormatUnsupported(EvidenceError):
    """The manifest is not one of a format that is spoken here."""


class EvidenceFieldMissing(EvidenceError):
    """The manifest, or an object in it, lacks a field."""


class EvidenceFieldUnknown(EvidenceError):
    """The manifest, or an object in it, has a field that the format does not know."""


class EvidenceFieldInvalid(EvidenceError):
    """A field of the manifest has the wrong type, range or spelling."""


class EvidenceArrayMalformed(EvidenceError):
    """An array does not have the header or the length that the manifest calls for."""


class EvidenceArrayInvalid(EvidenceError):
    """An array holds a number that is not finite or too large."""


class EvidenceProblemMismatch(EvidenceError):
    """Cap, width or dimension are not those of the receipt."""


class EvidenceSizeMismatch(EvidenceError):
    """The number of entries is not the one that the receipt states."""


class EvidenceCommitmentMismatch(EvidenceError):
    """A key, a value or a blind does not open the commitment in its row."""


class EvidenceCommitmentRepeated(EvidenceError):
    """Two rows have the same commitment."""


class EvidenceWeightsMismatch(EvidenceError):
    """Offset, coefficients and blinds do not have the stated digest."""


class EvidenceStateMismatch(EvidenceError):
    """The state after the edit does not have the digest that the receipt states."""


class EvidencePriorMissing(EvidenceError):
    """The receipt tells of a state before the edit that the bundle does not show."""


class EvidencePriorMismatch(EvidenceError):
    """The state before the edit does not have the digest that the receipt states."""


class EvidencePriorDisclosed(EvidenceError):
    """The bundle shows coefficients from which the key of a removed entry can be derived."""


class EvidenceAddedMismatch(EvidenceError):
    """Entries were added that the receipt does not name, or the other way round."""


class EvidenceRemovedMismatch(EvidenceError):
    """Entries were removed that the receipt does not name, or the other way round."""


class EvidenceCheckFailed(EvidenceError):
    """The state is not optimal within the published tolerance."""


class EvidenceCheckMismatch(EvidenceError):
    """The recomputed residuals are not those that the receipt states."""


class EvidencePartitionMismatch(EvidenceError):
    """The proof is of another partition than that of the coefficients."""


class EvidenceInclusionMissing(EvidenceError):
    """The bundle has no inclusion proof, and the caller asks for one."""


class EvidenceReferenceMissing(EvidenceError):
    """The receipt states a reference that the bundle does not have, or the other way round."""


class EvidenceReferenceMismatch(EvidenceError):
    """The reference is by another backend, or has another residual, than the receipt states."""


class EvidenceReadoutMismatch(EvidenceError):
    """The readouts of state and reference differ by another amount than the receipt states."""


class VerifierKeyMalformed(InputError):
    """A verifier key is not name, plus, 8 hexadecimal digits, plus, base64."""


class VerifierKeyUnsupported(InputError):
    """A verifier key is of a signature type that is not spoken here."""


class VerifierKeyIdMismatch(InputError):
    """A verifier key's id does not follow from its name and public key."""


class SigningKeyMalformed(InputError):
    """A key file does not hold a PEM key of the expected kind."""


class SigningKeyWrongType(InputError):
    """A key file holds a key, but not an Ed25519 one."""


class SigningKeyLocked(InputError):
    """A signing key is encrypted and no passphrase was given."""


class SigningKeyPassphraseWrong(InputError):
    """The passphrase does not open the key, or the key has none."""


class SigningKeyMissing(StoreError):
    """There is no file at the path of a key."""


class SigningKeyUnreadable(StoreError):
    """A key file exists but cannot be read, or is not an ordinary file."""


class SigningKeyExposed(StoreError):
    """A signing-key file is owned or readable by somebody else."""


class SigningKeyExists(StoreError):
    """Saving would overwrite a file."""


class SigningKeyUnwritable(StoreError):
    """A key file cannot be written."""
