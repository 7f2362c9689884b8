"""Every error code: the class that carries it, what it means, and what callers outside Python are told.

An error's class says what kind of thing went wrong; its ``code`` says which case. Codes are stable: HTTP problem types,
``--json`` output, the page and the formats' documentation name errors by them. ``docs/reference/errors.md`` is written
from this table, and a test holds it and the ``raise`` statements together.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODES", "DEFECT", "OUTSIDE", "Outside", "outside_of"]


@dataclass(frozen=True)
class Outside:
    """What a caller outside Python is told: an HTTP status, and an exit code of the command line.

    Exit codes: 1 verification failed, 2 usage, 3 refused, 4 store, 70 a defect in expunge itself.
    """

    status: int
    exit: int


# By code; an error whose code is not listed takes the entry of its class, or of the nearest class above it.
OUTSIDE: dict[str, Outside] = {
    "verification-error": Outside(422, 1),
    "input-error": Outside(422, 2),
    "missing-extra": Outside(501, 2),
    "refused": Outside(409, 3),
    "solve-error": Outside(422, 3),
    "store-error": Outside(503, 4),
    "busy": Outside(503, 4),
    "conflict": Outside(409, 4),
    "stale": Outside(412, 4),
    "malformed": Outside(400, 2),
    "unauthenticated": Outside(401, 2),
    "forbidden": Outside(403, 2),
    "not-found": Outside(404, 2),
    "method-not-allowed": Outside(405, 2),
    "taken": Outside(409, 2),
    "too-large": Outside(413, 2),
    "unsupported-media-type": Outside(415, 2),
    "damaged": Outside(500, 1),
}

DEFECT = Outside(500, 70)


def outside_of(problem: BaseException) -> Outside:
    """Status and exit code of an error; those of a defect for an exception that is not an ExpungeError."""
    ancestry = (getattr(kind, "default_code", None) for kind in type(problem).__mro__)
    return next((OUTSIDE[code] for code in (getattr(problem, "code", None), *ancestry) if code in OUTSIDE), DEFECT)


# By subject: code → (class, meaning).
CODES: dict[str, dict[str, tuple[str, str]]] = {
    "Every package": {
        "expunge-error": ("ExpungeError", "An error that expunge raised on purpose."),
        "input-error": ("InputError", "The arguments are unusable. Raised before anything is touched."),
        "refused": ("Refused", "An edit that was not applied. The memory is bit for bit what it was before the call."),
        "admission-refused": ("AdmissionRefused", "An admission that was not applied."),
        "deletion-refused": ("DeletionRefused", "A deletion that was not applied."),
        "solve-error": ("SolveError", "A solver stopped without an acceptable state."),
        "ties-unresolved": ("SolveError", "A tie on the path of an edit could not be resolved."),
        "verification-error": ("VerificationError", "An artifact does not say what it should, or was altered."),
        "store-error": ("StoreError", "A file or a database could not be read or written."),
        "conflict": (
            "Conflict",
            "The stored state, or an earlier request under the same idempotency key, is not the expected one.",
        ),
        "stale": (
            "Stale",
            "The stored state is not the expected one: another writer has edited the memory. Nothing was done.",
        ),
        "busy": ("Busy", "Another writer held the lock for longer than the timeout. Nothing was done; try again."),
        "missing-extra": ("MissingExtra", "An optional dependency is missing; the message names the extra to install."),
        "unusable": ("InputError", "A body or a parameter does not have the form that is asked for."),
    },
    "The Merkle tree (docs/formats/merkle-log.md)": {
        "tree-size-out-of-range": ("VerificationError", "A tree size is negative or above 2^63 - 1."),
        "hash-length-invalid": ("VerificationError", "A hash is not 32 bytes long."),
        "empty-root-mismatch": (
            "VerificationError",
            "A tree of size 0 is claimed with a root other than the hash of nothing.",
        ),
        "inclusion-index-out-of-range": ("VerificationError", "The leaf index is not below the tree size."),
        "inclusion-path-length": (
            "VerificationError",
            "The inclusion path has more or fewer hashes than this index and size need.",
        ),
        "inclusion-root-mismatch": ("VerificationError", "The leaf and its path lead to another root."),
        "consistency-sizes-reversed": (
            "VerificationError",
            "The older head is larger than the newer: the log was truncated.",
        ),
        "consistency-path-length": (
            "VerificationError",
            "The consistency path has more or fewer hashes than these sizes need.",
        ),
        "consistency-fork": (
            "VerificationError",
            "Two heads of one size have different roots: the log shows two histories.",
        ),
        "consistency-old-root-mismatch": (
            "VerificationError",
            "The path does not lead to the older root: history was rewritten.",
        ),
        "consistency-new-root-mismatch": (
            "VerificationError",
            "The path leads to the older root but not to the newer one.",
        ),
        "frontier-malformed": (
            "VerificationError",
            "Stored frontier bytes are not a size and its matching number of hashes.",
        ),
    },
    "Signed notes and verifier keys (docs/formats/checkpoint.md)": {
        "note-too-large": ("VerificationError", "The note exceeds the size limit."),
        "note-not-utf8": ("VerificationError", "The note is not valid UTF-8."),
        "note-control-character": ("VerificationError", "The note has an ASCII control character other than newline."),
        "note-unterminated": ("VerificationError", "The note does not end in a newline."),
        "note-separator-missing": ("VerificationError", "No empty line separates text from signatures."),
        "note-unsigned": ("VerificationError", "No signature line follows the separator."),
        "note-too-many-signatures": ("VerificationError", "The note has more signature lines than the limit."),
        "note-signature-line-malformed": (
            "VerificationError",
            "A signature line is not: em dash, space, name, space, base64.",
        ),
        "note-key-name-invalid": ("VerificationError", "A key name is empty or has a space or a plus."),
        "note-signature-encoding-invalid": (
            "VerificationError",
            "A signature is not canonical base64 of a 4-byte key id and at least one byte.",
        ),
        "note-signer-unknown": ("VerificationError", "No signature line is from a trusted key."),
        "note-signature-invalid": (
            "VerificationError",
            "A line that names a trusted key carries a signature that the key did not make.",
        ),
        "verifier-key-malformed": (
            "InputError",
            "A verifier key is not name, plus, 8 hexadecimal digits, plus, base64.",
        ),
        "verifier-key-unsupported": ("InputError", "A verifier key is of a signature type that is not spoken here."),
        "verifier-key-id-mismatch": ("InputError", "A verifier key's id does not follow from its name and public key."),
    },
    "Checkpoints and cosignatures (docs/formats/checkpoint.md)": {
        "checkpoint-lines-missing": ("VerificationError", "The note text has fewer than three lines."),
        "checkpoint-origin-invalid": ("VerificationError", "The origin line is empty."),
        "checkpoint-size-invalid": ("VerificationError", "The size line is not a canonical decimal up to 2^63 - 1."),
        "checkpoint-root-invalid": ("VerificationError", "The root line is not canonical base64 of 32 bytes."),
        "checkpoint-extension-invalid": (
            "VerificationError",
            "An extension line is empty, or there are too many of them.",
        ),
        "checkpoint-origin-mismatch": ("VerificationError", "The checkpoint belongs to another log."),
        "cosignature-malformed": (
            "VerificationError",
            "A witness's line is not an 8-byte time and a 64-byte signature.",
        ),
        "cosignature-time-invalid": ("VerificationError", "A cosignature's time exceeds 2^63 - 1."),
        "cosignature-from-future": (
            "VerificationError",
            "A cosignature's time is later than now, beyond the allowed skew.",
        ),
        "cosignature-invalid": (
            "VerificationError",
            "A line that names a trusted witness carries a cosignature that it did not make.",
        ),
        "cosignature-quorum-missed": (
            "VerificationError",
            "Fewer trusted witnesses cosigned than the policy asks for.",
        ),
    },
    "Proofs of the log (docs/formats/log-proof.md)": {
        "log-proof-too-large": ("VerificationError", "The proof exceeds the size limit."),
        "log-proof-not-utf8": ("VerificationError", "The proof is not valid UTF-8."),
        "log-proof-header-invalid": ("VerificationError", "The first line does not name a known proof format."),
        "log-proof-extra-invalid": ("VerificationError", "The extra line is not canonical base64."),
        "log-proof-index-invalid": ("VerificationError", "The index line is missing or not a canonical decimal."),
        "log-proof-old-size-invalid": ("VerificationError", "The old-size line is missing or not a canonical decimal."),
        "log-proof-hash-invalid": ("VerificationError", "A path line is not canonical base64 of 32 bytes."),
        "log-proof-too-many-hashes": ("VerificationError", "There are more path lines than any tree can need."),
        "log-proof-unterminated": ("VerificationError", "No empty line ends the path, so no checkpoint follows."),
        "log-proof-old-size-mismatch": (
            "VerificationError",
            "The proof starts from another size than the head that was kept.",
        ),
    },
    "Canonical JSON (docs/formats/envelope.md)": {
        "json-too-large": ("VerificationError", "The JSON text exceeds the size limit."),
        "json-too-many-values": ("VerificationError", "The JSON text has more values than the limit."),
        "json-not-utf8": ("VerificationError", "The JSON text is not valid UTF-8."),
        "json-too-deep": ("VerificationError", "Arrays and objects nest deeper than the limit."),
        "json-syntax-invalid": ("VerificationError", "The text is not JSON."),
        "json-duplicate-key": ("VerificationError", "An object has the same key twice."),
        "json-float-forbidden": (
            "VerificationError",
            "A number has a fraction or an exponent, or is NaN or an infinity; floats travel as hex.",
        ),
        "json-integer-out-of-range": ("VerificationError", "An integer is outside ±(2^53 - 1)."),
        "json-not-canonical": ("VerificationError", "The text is JSON, but not the RFC 8785 bytes of its own value."),
        "float-hex-invalid": (
            "VerificationError",
            "A float is not in the one form that ``float.hex`` writes, or is NaN.",
        ),
    },
    "Envelopes (docs/formats/envelope.md)": {
        "envelope-not-object": ("VerificationError", "The envelope is not a JSON object."),
        "envelope-field-missing": ("VerificationError", "The envelope, or one of its signatures, lacks a field."),
        "envelope-field-unknown": (
            "VerificationError",
            "The envelope, or one of its signatures, has a field that the format does not know.",
        ),
        "envelope-payload-invalid": (
            "VerificationError",
            "The payload is not canonical base64, or exceeds the size limit.",
        ),
        "envelope-payload-type-unsupported": ("VerificationError", "The payload type is not in-toto JSON."),
        "envelope-signature-list-invalid": ("VerificationError", "The signatures are not a list of objects."),
        "envelope-unsigned": ("VerificationError", "The list of signatures is empty."),
        "envelope-too-many-signatures": ("VerificationError", "There are more signatures than the limit."),
        "envelope-key-id-invalid": ("VerificationError", "A key id is not 64 lowercase hexadecimal digits."),
        "envelope-duplicate-key-id": ("VerificationError", "Two signatures name the same key."),
        "envelope-signature-encoding-invalid": (
            "VerificationError",
            "A signature is not canonical base64 of 64 bytes.",
        ),
        "envelope-signer-unknown": ("VerificationError", "No signature names a trusted key."),
        "envelope-signature-invalid": (
            "VerificationError",
            "A signature that names a trusted key was not made by it over this payload.",
        ),
        "envelope-threshold-missed": ("VerificationError", "Trusted keys signed, but fewer than the policy asks for."),
    },
    "Statements (docs/formats/envelope.md, docs/formats/store.md)": {
        "statement-not-object": ("VerificationError", "The payload is not a JSON object."),
        "statement-field-missing": ("VerificationError", "The statement, or one of its subjects, lacks a field."),
        "statement-field-unknown": (
            "VerificationError",
            "The statement, or one of its subjects, has a field that the format does not know.",
        ),
        "statement-type-unsupported": ("VerificationError", "``_type`` is not in-toto Statement v1."),
        "statement-subject-invalid": (
            "VerificationError",
            "``subject`` is not a non-empty list of objects with a non-empty name.",
        ),
        "statement-subject-duplicate": ("VerificationError", "Two subjects have the same name."),
        "statement-digest-invalid": (
            "VerificationError",
            "A subject's digest is not exactly one SHA-256 in lowercase hexadecimal.",
        ),
        "statement-predicate-type-invalid": ("VerificationError", "``predicateType`` is not a URI."),
        "statement-predicate-type-mismatch": (
            "VerificationError",
            "The predicate is of another type than the one expected.",
        ),
        "statement-predicate-invalid": ("VerificationError", "``predicate`` is not a JSON object."),
        "statement-event-invalid": ("VerificationError", "The predicate is not an event of a store."),
    },
    "Commitments (docs/formats/commitment.md)": {
        "commitment-malformed": ("VerificationError", "A commitment is not 64 lowercase hexadecimal digits."),
        "commitment-mismatch": ("VerificationError", "The salt and content do not open this commitment."),
    },
    "Receipts (docs/formats/receipt.md)": {
        "receipt-error": ("VerificationError", "A predicate is not a receipt, or contradicts itself."),
        "receipt-field-missing": ("VerificationError", "The receipt, or an object in it, lacks a field."),
        "receipt-field-unknown": (
            "VerificationError",
            "The receipt, or an object in it, has a field that the format does not know.",
        ),
        "receipt-action-invalid": ("VerificationError", "The action is none that the format knows."),
        "receipt-attempts-invalid": (
            "VerificationError",
            "The attempts are not a list of paths, each with either residuals or the class of an error.",
        ),
        "receipt-check-invalid": (
            "VerificationError",
            "The check is not three residuals, each a power of two from 2^-40, the tolerance, or inf.",
        ),
        "receipt-commitments-invalid": (
            "VerificationError",
            "A list of commitments is not ascending hexadecimal digests with a count that fits.",
        ),
        "receipt-coverage-invalid": (
            "VerificationError",
            "What is covered, or not covered, is not what this outcome entails.",
        ),
        "receipt-edit-invalid": ("VerificationError", "The edit number is not a whole number."),
        "receipt-entries-invalid": (
            "VerificationError",
            "The numbers of entries before and after are not whole numbers.",
        ),
        "receipt-memory-invalid": ("VerificationError", "The memory is not named by a UUID in its canonical spelling."),
        "receipt-outcome-invalid": ("VerificationError", "The outcome is none that the format knows."),
        "receipt-problem-invalid": (
            "VerificationError",
            "Cap, width, dimension or initial size are not numbers in range.",
        ),
        "receipt-pruning-invalid": ("VerificationError", "The pruning is neither null nor a mode and a count."),
        "receipt-reference-invalid": (
            "VerificationError",
            "The reference is neither null nor a backend with its residual and readout difference.",
        ),
        "receipt-refusal-invalid": (
            "VerificationError",
            "The refusal is neither null nor a known reason with its numbers.",
        ),
        "receipt-seconds-invalid": ("VerificationError", "The duration is not a number of seconds."),
        "receipt-solver-invalid": ("VerificationError", "The solver is not a name and a version."),
        "receipt-state-invalid": ("VerificationError", "A state is not named by a digest in lowercase hexadecimal."),
        "receipt-time-invalid": ("VerificationError", "The time is not a second of UTC in RFC 3339 form."),
        "receipt-tolerances-invalid": (
            "VerificationError",
            "The tolerances are not those of this version of the format.",
        ),
        "receipt-action-mismatch": ("VerificationError", "The outcome cannot come of the action."),
        "receipt-attempts-mismatch": ("VerificationError", "The attempts do not lead to the outcome and the check."),
        "receipt-check-failed": (
            "VerificationError",
            "The stated residuals exceed the tolerance that published states are held to.",
        ),
        "receipt-entries-mismatch": (
            "VerificationError",
            "The entries before, what was applied, and the entries after do not add up.",
        ),
        "receipt-pruning-mismatch": (
            "VerificationError",
            "The details of a pruning are missing, or there are some without a pruning.",
        ),
        "receipt-refusal-mismatch": (
            "VerificationError",
            "The reason of a refusal is missing, or there is one without a refusal.",
        ),
        "receipt-state-mismatch": (
            "VerificationError",
            "The state changed where the outcome says that it did not, or the other way round.",
        ),
        "receipt-subject-mismatch": (
            "VerificationError",
            "The subjects of the statement are not the states of the receipt.",
        ),
    },
    "The ledger replayed (docs/formats/receipt.md)": {
        "log-size-mismatch": ("VerificationError", "There are more or fewer receipts than the checkpoint has leaves."),
        "log-root-mismatch": ("VerificationError", "The receipts lead to another root than the checkpoint's."),
        "log-receipt-invalid": (
            "VerificationError",
            "A receipt in the log does not verify; the cause has the name of what is wrong.",
        ),
        "log-creation-repeated": ("VerificationError", "A memory is created although the log already knows it."),
        "log-state-broken": (
            "VerificationError",
            "A receipt does not start from the state that the one before it left.",
        ),
        "log-edit-order": ("VerificationError", "The edit numbers of a memory do not rise."),
        "log-entries-broken": (
            "VerificationError",
            "A receipt does not start from the number of entries that the one before it left.",
        ),
        "log-problem-changed": ("VerificationError", "Cap, width or dimension of a memory changed without a rebuild."),
        "log-restoration-unknown": (
            "VerificationError",
            "A memory was restored to a state that the log has never seen.",
        ),
        "log-erasure-undone": (
            "VerificationError",
            "An erased entry is back: named again, or restored from a backup and not erased again.",
        ),
        "log-memory-dropped": ("VerificationError", "A receipt or an event is about a memory that was dropped before."),
        "log-event-mismatch": (
            "VerificationError",
            "An event of the store names a state, entries or a receipt that the log does not have.",
        ),
    },
    "Evidence bundles (docs/formats/evidence.md)": {
        "evidence-too-large": ("VerificationError", "The bundle exceeds the size limit."),
        "evidence-container-invalid": (
            "VerificationError",
            "The file is not a ZIP archive in the one form that bundles have.",
        ),
        "evidence-member-missing": ("VerificationError", "A file that the bundle needs is not in it."),
        "evidence-member-unknown": ("VerificationError", "The bundle holds a file that the format does not know."),
        "evidence-member-mismatch": (
            "VerificationError",
            "A file is not the one that the manifest lists by its digest.",
        ),
        "evidence-format-unsupported": (
            "VerificationError",
            "The manifest is not one of a format that is spoken here.",
        ),
        "evidence-field-missing": ("VerificationError", "The manifest, or an object in it, lacks a field."),
        "evidence-field-unknown": (
            "VerificationError",
            "The manifest, or an object in it, has a field that the format does not know.",
        ),
        "evidence-field-invalid": (
            "VerificationError",
            "A field of the manifest has the wrong type, range or spelling.",
        ),
        "evidence-array-malformed": (
            "VerificationError",
            "An array does not have the header or the length that the manifest calls for.",
        ),
        "evidence-array-invalid": ("VerificationError", "An array holds a number that is not finite or too large."),
        "evidence-problem-mismatch": ("VerificationError", "Cap, width or dimension are not those of the receipt."),
        "evidence-size-mismatch": (
            "VerificationError",
            "The number of entries is not the one that the receipt states.",
        ),
        "evidence-commitment-mismatch": (
            "VerificationError",
            "A key, a value or a blind does not open the commitment in its row.",
        ),
        "evidence-commitment-repeated": ("VerificationError", "Two rows have the same commitment."),
        "evidence-weights-mismatch": (
            "VerificationError",
            "Offset, coefficients and blinds do not have the stated digest.",
        ),
        "evidence-state-mismatch": (
            "VerificationError",
            "The state after the edit does not have the digest that the receipt states.",
        ),
        "evidence-prior-missing": (
            "VerificationError",
            "The receipt tells of a state before the edit that the bundle does not show.",
        ),
        "evidence-prior-mismatch": (
            "VerificationError",
            "The state before the edit does not have the digest that the receipt states.",
        ),
        "evidence-prior-disclosed": (
            "VerificationError",
            "The bundle shows coefficients from which the key of a removed entry can be derived.",
        ),
        "evidence-added-mismatch": (
            "VerificationError",
            "Entries were added that the receipt does not name, or the other way round.",
        ),
        "evidence-removed-mismatch": (
            "VerificationError",
            "Entries were removed that the receipt does not name, or the other way round.",
        ),
        "evidence-check-failed": ("VerificationError", "The state is not optimal within the published tolerance."),
        "evidence-check-mismatch": (
            "VerificationError",
            "The recomputed residuals are not those that the receipt states.",
        ),
        "evidence-partition-mismatch": (
            "VerificationError",
            "The proof is of another partition than that of the coefficients.",
        ),
        "evidence-inclusion-missing": (
            "VerificationError",
            "The bundle has no inclusion proof, and the caller asks for one.",
        ),
        "evidence-reference-missing": (
            "VerificationError",
            "The receipt states a reference that the bundle does not have, or the other way round.",
        ),
        "evidence-reference-mismatch": (
            "VerificationError",
            "The reference is by another backend, or has another residual, than the receipt states.",
        ),
        "evidence-readout-mismatch": (
            "VerificationError",
            "The readouts of state and reference differ by another amount than the receipt states.",
        ),
    },
    "Proofs of a partition (docs/formats/proof.md)": {
        "proof-too-large": ("VerificationError", "The file exceeds the size limit."),
        "proof-not-json": ("VerificationError", "The file is not a JSON object in UTF-8."),
        "proof-format-unsupported": ("VerificationError", "The format is not one that is spoken here."),
        "proof-field-missing": ("VerificationError", "A field is missing."),
        "proof-field-unknown": ("VerificationError", "There is a field that the format does not know."),
        "proof-field-invalid": ("VerificationError", "A field has the wrong type, range or spelling."),
        "proof-contradictory": ("VerificationError", "The outcome and the rest of the file do not agree."),
        "proof-not-canonical": ("VerificationError", "The bytes are not the one spelling of what they say."),
        "proof-not-proved": ("VerificationError", "The file records an attempt that proved nothing."),
        "proof-size-mismatch": ("VerificationError", "The proof is about another number of keys."),
        "proof-digest-mismatch": (
            "VerificationError",
            "The proof is about other keys, another cap, another width or another partition.",
        ),
        "proof-copies-split": ("VerificationError", "Identical keys are in different groups."),
        "proof-witness-missing": ("VerificationError", "There is a margin, and no coefficients to check it by."),
        "proof-witness-length": (
            "VerificationError",
            "The witness does not have one coefficient for each distinct margin key.",
        ),
        "proof-witness-mass": ("VerificationError", "The witness and the bound keys do not sum to exactly 1."),
        "proof-mass-unproved": (
            "VerificationError",
            "With an empty margin, the caps of the bound keys do not sum to exactly 1.",
        ),
        "proof-condition-unproved": (
            "VerificationError",
            "The kernel matrix of the margin was not shown to be invertible.",
        ),
        "proof-coefficient-unproved": (
            "VerificationError",
            "A margin coefficient was not shown to lie strictly inside its box.",
        ),
        "proof-slack-unproved": ("VerificationError", "A slack was not shown to have its sign."),
    },
    "Results of an audit (docs/formats/audit-results.md)": {
        "archive-manifest-invalid": (
            "VerificationError",
            "The manifest is not JSON, or lacks a field, or has one of the wrong type.",
        ),
        "archive-format-unsupported": ("VerificationError", "The format is not one that is spoken here."),
        "archive-unfinished": ("VerificationError", "The audit was not run to its end."),
        "archive-file-missing": (
            "VerificationError",
            "A file that the manifest lists is not there, or is no table and no unit.",
        ),
        "archive-file-unknown": (
            "VerificationError",
            "There is a table or a unit of states that the manifest does not list.",
        ),
        "archive-file-mismatch": ("VerificationError", "A file is not the one that the manifest lists."),
        "archive-digest-mismatch": ("VerificationError", "The digest of the whole is not that of the files."),
        "archive-table-invalid": (
            "VerificationError",
            "A table cannot be read, lacks a column, or has a cell that no check can use.",
        ),
        "archive-rows-missing": (
            "VerificationError",
            "There are fewer or more rows than operations were scheduled, or none at all.",
        ),
        "archive-array-invalid": (
            "VerificationError",
            "An array is missing, has the wrong shape, or holds something that is not a finite number.",
        ),
        "archive-state-unknown": ("VerificationError", "A row speaks of a state that is not kept."),
        "archive-state-mismatch": (
            "VerificationError",
            "The check of a state, recomputed from its keys, is not the one on record.",
        ),
        "archive-reference-dependent": ("VerificationError", "A state is judged by the solver that it comes from."),
        "archive-comparison-mismatch": (
            "VerificationError",
            "A difference, recomputed from two states, is not the one on record.",
        ),
        "archive-projection-mismatch": (
            "VerificationError",
            "A residual of a projection, recomputed, is not the one on record.",
        ),
        "archive-reading-mismatch": ("VerificationError", "A number read off a state is not the one on record."),
        "archive-answer-mismatch": ("VerificationError", "A state answers otherwise than is on record."),
        "archive-number-mismatch": (
            "VerificationError",
            "A reported number is not the statistic of the rows that it is said to be.",
        ),
    },
    "Signing keys (docs/formats/signing-key.md)": {
        "signing-key-malformed": ("InputError", "A key file does not hold a PEM key of the expected kind."),
        "signing-key-wrong-type": ("InputError", "A key file holds a key, but not an Ed25519 one."),
        "signing-key-locked": ("InputError", "A signing key is encrypted and no passphrase was given."),
        "signing-key-passphrase-wrong": ("InputError", "The passphrase does not open the key, or the key has none."),
        "signing-key-missing": ("StoreError", "There is no file at the path of a key."),
        "signing-key-unreadable": ("StoreError", "A key file exists but cannot be read, or is not an ordinary file."),
        "signing-key-exposed": ("StoreError", "A signing-key file is owned or readable by somebody else."),
        "signing-key-exists": ("StoreError", "Saving would overwrite a file."),
        "signing-key-unwritable": ("StoreError", "A key file cannot be written."),
    },
    "The service": {
        "malformed": ("InputError", "The body is not JSON."),
        "unauthenticated": ("InputError", "There is no token, or it is unknown, expired or revoked."),
        "forbidden": ("InputError", "The token does not reach this far."),
        "not-found": ("InputError", "There is no such thing here."),
        "method-not-allowed": ("InputError", "The resource does not know this method."),
        "taken": ("InputError", "The name is in use."),
        "too-large": ("InputError", "The body exceeds the limit."),
        "unsupported-media-type": ("InputError", "The body is not declared as JSON."),
        "damaged": ("StoreError", "What is stored does not check out."),
    },
}
