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
    │   └── StatementPredicateTypeInvalid  StatementPredicateTypeMismatch  StatementPredicateInvalid
    └── CommitmentError                      docs/formats/commitment.md
        └── CommitmentMalformed  CommitmentMismatch

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


class CommitmentError(VerificationError):
    """A commitment is malformed or opens to something else."""


class CommitmentMalformed(CommitmentError):
    """A commitment is not 64 lowercase hexadecimal digits."""


class CommitmentMismatch(CommitmentError):
    """The salt and content do not open this commitment."""


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
