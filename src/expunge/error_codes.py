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


# By subject and class: code → meaning.
CODES: dict[str, dict[str, dict[str, str]]] = {
    "Every package": {
        "ExpungeError": {
            "expunge-error": "An error that expunge raised on purpose.",
        },
        "InputError": {
            "input-error": "The arguments are unusable. Raised before anything is touched.",
            "unusable": "A body or a parameter does not have the form that is asked for.",
        },
        "Refused": {
            "refused": "An edit that was not applied. The memory is bit for bit what it was before the call.",
        },
        "AdmissionRefused": {
            "admission-refused": "An admission that was not applied.",
        },
        "DeletionRefused": {
            "deletion-refused": "A deletion that was not applied.",
        },
        "SolveError": {
            "solve-error": "A solver stopped without an acceptable state.",
            "ties-unresolved": "A tie on the path of an edit could not be resolved.",
            "no-feasible-point": "The cap leaves no coefficients that sum to one.",
            "beyond-exact-limits": "Keys are so close together, for this width, that the exact weights cannot be told.",
        },
        "VerificationError": {
            "verification-error": "An artifact does not say what it should, or was altered.",
        },
        "StoreError": {
            "store-error": "A file or a database could not be read or written.",
        },
        "Conflict": {
            "conflict": "The stored state, or an earlier request under the same idempotency key, is not the expected one.",
        },
        "Stale": {
            "stale": "The stored state is not the expected one: another writer has edited the memory. Nothing was done.",
        },
        "Busy": {
            "busy": "Another writer held the lock for longer than the timeout. Nothing was done; try again.",
        },
        "MissingExtra": {
            "missing-extra": "An optional dependency is missing; the message names the extra to install.",
        },
    },
    "The Merkle tree (docs/formats/merkle-log.md)": {
        "VerificationError": {
            "tree-size-out-of-range": "A tree size is negative or above 2^63 - 1.",
            "hash-length-invalid": "A hash is not 32 bytes long.",
            "empty-root-mismatch": "A tree of size 0 is claimed with a root other than the hash of nothing.",
            "inclusion-index-out-of-range": "The leaf index is not below the tree size.",
            "inclusion-path-length": "The inclusion path has more or fewer hashes than this index and size need.",
            "inclusion-root-mismatch": "The leaf and its path lead to another root.",
            "consistency-sizes-reversed": "The older head is larger than the newer: the log was truncated.",
            "consistency-path-length": "The consistency path has more or fewer hashes than these sizes need.",
            "consistency-fork": "Two heads of one size have different roots: the log shows two histories.",
            "consistency-old-root-mismatch": "The path does not lead to the older root: history was rewritten.",
            "consistency-new-root-mismatch": "The path leads to the older root but not to the newer one.",
            "frontier-malformed": "Stored frontier bytes are not a size and its matching number of hashes.",
        },
    },
    "Signed notes and verifier keys (docs/formats/checkpoint.md)": {
        "VerificationError": {
            "note-too-large": "The note exceeds the size limit.",
            "note-not-utf8": "The note is not valid UTF-8.",
            "note-control-character": "The note has an ASCII control character other than newline.",
            "note-unterminated": "The note does not end in a newline.",
            "note-separator-missing": "No empty line separates text from signatures.",
            "note-unsigned": "No signature line follows the separator.",
            "note-too-many-signatures": "The note has more signature lines than the limit.",
            "note-signature-line-malformed": "A signature line is not: em dash, space, name, space, base64.",
            "note-key-name-invalid": "A key name is empty or has a space or a plus.",
            "note-signature-encoding-invalid": "A signature is not canonical base64 of a 4-byte key id and at least one byte.",
            "note-signer-unknown": "No signature line is from a trusted key.",
            "note-signature-invalid": "A line that names a trusted key carries a signature that the key did not make.",
        },
        "InputError": {
            "verifier-key-malformed": "A verifier key is not name, plus, 8 hexadecimal digits, plus, base64.",
            "verifier-key-unsupported": "A verifier key is of a signature type that is not spoken here.",
            "verifier-key-id-mismatch": "A verifier key's id does not follow from its name and public key.",
        },
    },
    "Checkpoints and cosignatures (docs/formats/checkpoint.md)": {
        "VerificationError": {
            "checkpoint-lines-missing": "The note text has fewer than three lines.",
            "checkpoint-origin-invalid": "The origin line is empty.",
            "checkpoint-size-invalid": "The size line is not a canonical decimal up to 2^63 - 1.",
            "checkpoint-root-invalid": "The root line is not canonical base64 of 32 bytes.",
            "checkpoint-extension-invalid": "An extension line is empty, or there are too many of them.",
            "checkpoint-origin-mismatch": "The checkpoint belongs to another log.",
            "cosignature-malformed": "A witness's line is not an 8-byte time and a 64-byte signature.",
            "cosignature-time-invalid": "A cosignature's time exceeds 2^63 - 1.",
            "cosignature-from-future": "A cosignature's time is later than now, beyond the allowed skew.",
            "cosignature-invalid": "A line that names a trusted witness carries a cosignature that it did not make.",
            "cosignature-quorum-missed": "Fewer trusted witnesses cosigned than the policy asks for.",
        },
    },
    "Proofs of the log (docs/formats/log-proof.md)": {
        "VerificationError": {
            "log-proof-too-large": "The proof exceeds the size limit.",
            "log-proof-not-utf8": "The proof is not valid UTF-8.",
            "log-proof-header-invalid": "The first line does not name a known proof format.",
            "log-proof-extra-invalid": "The extra line is not canonical base64.",
            "log-proof-index-invalid": "The index line is missing or not a canonical decimal.",
            "log-proof-old-size-invalid": "The old-size line is missing or not a canonical decimal.",
            "log-proof-hash-invalid": "A path line is not canonical base64 of 32 bytes.",
            "log-proof-too-many-hashes": "There are more path lines than any tree can need.",
            "log-proof-unterminated": "No empty line ends the path, so no checkpoint follows.",
            "log-proof-old-size-mismatch": "The proof starts from another size than the head that was kept.",
        },
    },
    "Canonical JSON (docs/formats/envelope.md)": {
        "VerificationError": {
            "json-too-large": "The JSON text exceeds the size limit.",
            "json-too-many-values": "The JSON text has more values than the limit.",
            "json-not-utf8": "The JSON text is not valid UTF-8.",
            "json-too-deep": "Arrays and objects nest deeper than the limit.",
            "json-syntax-invalid": "The text is not JSON.",
            "json-duplicate-key": "An object has the same key twice.",
            "json-float-forbidden": "A number has a fraction or an exponent, or is NaN or an infinity; floats travel as hex.",
            "json-integer-out-of-range": "An integer is outside ±(2^53 - 1).",
            "json-not-canonical": "The text is JSON, but not the RFC 8785 bytes of its own value.",
            "float-hex-invalid": "A float is not in the one form that ``float.hex`` writes, or is NaN.",
        },
    },
    "Envelopes (docs/formats/envelope.md)": {
        "VerificationError": {
            "envelope-not-object": "The envelope is not a JSON object.",
            "envelope-field-missing": "The envelope, or one of its signatures, lacks a field.",
            "envelope-field-unknown": "The envelope, or one of its signatures, has a field that the format does not know.",
            "envelope-payload-invalid": "The payload is not canonical base64, or exceeds the size limit.",
            "envelope-payload-type-unsupported": "The payload type is not in-toto JSON.",
            "envelope-signature-list-invalid": "The signatures are not a list of objects.",
            "envelope-unsigned": "The list of signatures is empty.",
            "envelope-too-many-signatures": "There are more signatures than the limit.",
            "envelope-key-id-invalid": "A key id is not 64 lowercase hexadecimal digits.",
            "envelope-duplicate-key-id": "Two signatures name the same key.",
            "envelope-signature-encoding-invalid": "A signature is not canonical base64 of 64 bytes.",
            "envelope-signer-unknown": "No signature names a trusted key.",
            "envelope-signature-invalid": "A signature that names a trusted key was not made by it over this payload.",
            "envelope-threshold-missed": "Trusted keys signed, but fewer than the policy asks for.",
        },
    },
    "Statements (docs/formats/envelope.md, docs/formats/store.md)": {
        "VerificationError": {
            "statement-not-object": "The payload is not a JSON object.",
            "statement-field-missing": "The statement, or one of its subjects, lacks a field.",
            "statement-field-unknown": "The statement, or one of its subjects, has a field that the format does not know.",
            "statement-type-unsupported": "``_type`` is not in-toto Statement v1.",
            "statement-subject-invalid": "``subject`` is not a non-empty list of objects with a non-empty name.",
            "statement-subject-duplicate": "Two subjects have the same name.",
            "statement-digest-invalid": "A subject's digest is not exactly one SHA-256 in lowercase hexadecimal.",
            "statement-predicate-type-invalid": "``predicateType`` is not a URI.",
            "statement-predicate-type-mismatch": "The predicate is of another type than the one expected.",
            "statement-predicate-invalid": "``predicate`` is not a JSON object.",
            "statement-event-invalid": "The predicate is not an event of a store.",
        },
    },
    "Commitments (docs/formats/commitment.md)": {
        "VerificationError": {
            "commitment-malformed": "A commitment is not 64 lowercase hexadecimal digits.",
            "commitment-mismatch": "The salt and content do not open this commitment.",
        },
    },
    "Receipts (docs/formats/receipt.md)": {
        "VerificationError": {
            "receipt-error": "A predicate is not a receipt, or contradicts itself.",
            "receipt-field-missing": "The receipt, or an object in it, lacks a field.",
            "receipt-field-unknown": "The receipt, or an object in it, has a field that the format does not know.",
            "receipt-action-invalid": "The action is none that the format knows.",
            "receipt-check-invalid": "The check is not a verdict at the published tolerance.",
            "receipt-commitments-invalid": "A list of commitments is not ascending hexadecimal digests with a count that fits.",
            "receipt-coverage-invalid": "What is covered, or not covered, is not what this outcome entails.",
            "receipt-edit-invalid": "The edit number is not a whole number.",
            "receipt-entries-invalid": "The numbers of entries before and after are not whole numbers.",
            "receipt-memory-invalid": "The memory is not named by a UUID in its canonical spelling.",
            "receipt-outcome-invalid": "The outcome is none that the format knows.",
            "receipt-problem-invalid": "Cap, width, dimension or initial size are not numbers in range.",
            "receipt-pruning-invalid": "The pruning is neither null nor a mode and a count.",
            "receipt-refusal-invalid": "The refusal is neither null nor a known reason with its counts.",
            "receipt-solver-invalid": "The solver is not a name and a version.",
            "receipt-state-invalid": "A state is not named by a digest in lowercase hexadecimal.",
            "receipt-time-invalid": "The time is not a second of UTC in RFC 3339 form.",
            "receipt-tolerances-invalid": "The tolerances are not those of this version of the format.",
            "receipt-action-mismatch": "The outcome cannot come of the action.",
            "receipt-check-failed": "The receipt states that the state after the edit did not pass the check.",
            "receipt-entries-mismatch": "The entries before, what was applied, and the entries after do not add up.",
            "receipt-pruning-mismatch": "The details of a pruning are missing, or there are some without a pruning.",
            "receipt-refusal-mismatch": "The reason of a refusal is missing, or there is one without a refusal.",
            "receipt-state-mismatch": "The state changed where the outcome says that it did not, or the other way round.",
            "receipt-subject-mismatch": "The subjects of the statement are not the states of the receipt.",
        },
    },
    "The ledger replayed (docs/formats/receipt.md)": {
        "VerificationError": {
            "log-size-mismatch": "There are more or fewer receipts than the checkpoint has leaves.",
            "log-root-mismatch": "The receipts lead to another root than the checkpoint's.",
            "log-receipt-invalid": "A receipt in the log does not verify; the cause has the name of what is wrong.",
            "log-creation-repeated": "A memory is created although the log already knows it.",
            "log-state-broken": "A receipt does not start from the state that the one before it left.",
            "log-edit-order": "The edit numbers of a memory do not rise.",
            "log-entries-broken": "A receipt does not start from the number of entries that the one before it left.",
            "log-problem-changed": "Cap, width or dimension of a memory changed without a rebuild.",
            "log-restoration-unknown": "A memory was restored to a state that the log has never seen.",
            "log-erasure-undone": "An erased entry is back: named again, or restored from a backup and not erased again.",
            "log-certificate-ended": "A certificate that ended for good is said to expire, to be valid again, or to end once more.",
            "log-memory-dropped": "A receipt or an event is about a memory that was dropped before.",
            "log-event-mismatch": "An event of the store names a state, entries or a receipt that the log does not have.",
        },
    },
    "Evidence bundles (docs/formats/evidence.md)": {
        "VerificationError": {
            "evidence-too-large": "The bundle exceeds the size limit.",
            "evidence-container-invalid": "The file is not a ZIP archive in the one form that bundles have.",
            "evidence-member-missing": "A file that the bundle needs is not in it.",
            "evidence-member-unknown": "The bundle holds a file that the format does not know.",
            "evidence-member-mismatch": "A file is not the one that the manifest lists by its digest.",
            "evidence-format-unsupported": "The manifest is not one of a format that is spoken here.",
            "evidence-field-missing": "The manifest, or an object in it, lacks a field.",
            "evidence-field-unknown": "The manifest, or an object in it, has a field that the format does not know.",
            "evidence-field-invalid": "A field of the manifest has the wrong type, range or spelling.",
            "evidence-array-malformed": "An array does not have the header or the length that the manifest calls for.",
            "evidence-array-invalid": "An array holds a number that is not finite or too large.",
            "evidence-problem-mismatch": "Cap, width or dimension are not those of the receipt.",
            "evidence-size-mismatch": "The number of entries is not the one that the receipt states.",
            "evidence-commitment-mismatch": "A key, a value or a blind does not open the commitment in its row.",
            "evidence-commitment-repeated": "Two rows have the same commitment.",
            "evidence-weights-mismatch": "Offset, coefficients and blinds do not have the stated digest.",
            "evidence-state-mismatch": "The state after the edit does not have the digest that the receipt states.",
            "evidence-prior-missing": "The receipt tells of a state before the edit that the bundle does not show.",
            "evidence-prior-mismatch": "The state before the edit does not have the digest that the receipt states.",
            "evidence-prior-disclosed": "The bundle shows coefficients from which the key of a removed entry can be derived.",
            "evidence-added-mismatch": "Entries were added that the receipt does not name, or the other way round.",
            "evidence-removed-mismatch": "Entries were removed that the receipt does not name, or the other way round.",
            "evidence-proof-mismatch": "The proof is of other weights than those of the state.",
            "evidence-inclusion-missing": "The bundle has no inclusion proof, and the caller asks for one.",
        },
    },
    "Proofs of a state (docs/formats/proof.md)": {
        "VerificationError": {
            "proof-too-large": "The file exceeds the size limit.",
            "proof-not-json": "The file is not a JSON object in UTF-8.",
            "proof-format-unsupported": "The format is not one that is spoken here.",
            "proof-field-missing": "A field is missing.",
            "proof-field-unknown": "There is a field that the format does not know.",
            "proof-field-invalid": "A field has the wrong type, range or spelling.",
            "proof-contradictory": "The outcome and the rest of the file do not agree.",
            "proof-not-canonical": "The bytes are not the one spelling of what they say.",
            "proof-not-proved": "The file records an attempt that proved nothing.",
            "proof-size-mismatch": "The proof is about another number of keys.",
            "proof-digest-mismatch": "The proof is about other keys, another cap, another width or another partition.",
            "proof-copies-split": "Identical keys are in different groups.",
            "proof-witness-missing": "There is a margin, and no coefficients to check it by.",
            "proof-witness-length": "The witness does not have one coefficient for each distinct margin key.",
            "proof-witness-mass": "The witness and the bound keys do not sum to exactly 1.",
            "proof-mass-unproved": "With an empty margin, the caps of the bound keys do not sum to exactly 1.",
            "proof-condition-unproved": "The kernel matrix of the margin was not shown to be invertible.",
            "proof-coefficient-unproved": "A margin coefficient was not shown to lie strictly inside its box.",
            "proof-slack-unproved": "A slack was not shown to have its sign.",
            "proof-weights-mismatch": "The weights that the proof names are not those of the exact optimum.",
        },
    },
    "States (docs/formats/state.md)": {
        "VerificationError": {
            "state-file-invalid": "The file is not a saved memory, or is damaged.",
            "state-infeasible": "The keys at this cap hold less than a mass of 1, so there is no optimum.",
            "state-group-wrong": "The groups of the coefficients are not those of the exact optimum.",
            "state-coefficient-differs": "A coefficient is not the double nearest to that of the exact optimum.",
            "state-offset-differs": "The offset is not the double nearest to that of the exact optimum.",
            "state-undecided": "The highest precision does not decide what the nearest doubles are.",
        },
    },
    "Results of an audit (docs/formats/audit-results.md)": {
        "VerificationError": {
            "archive-manifest-invalid": "The manifest is not JSON, or lacks a field, or has one of the wrong type.",
            "archive-format-unsupported": "The format is not one that is spoken here.",
            "archive-unfinished": "The audit was not run to its end.",
            "archive-file-missing": "A file that the manifest lists is not there, or is no table and no unit.",
            "archive-file-unknown": "There is a table or a unit of states that the manifest does not list.",
            "archive-file-mismatch": "A file is not the one that the manifest lists.",
            "archive-digest-mismatch": "The digest of the whole is not that of the files.",
            "archive-table-invalid": "A table cannot be read, lacks a column, or has a cell that no check can use.",
            "archive-rows-missing": "There are fewer or more rows than operations were scheduled, or none at all.",
            "archive-array-invalid": "An array is missing, has the wrong shape, or holds something that is not a finite number.",
            "archive-state-unknown": "A row speaks of a state that is not kept.",
            "archive-state-mismatch": "The check of a state, recomputed from its keys, is not the one on record.",
            "archive-reference-dependent": "A state is judged by the solver that it comes from.",
            "archive-comparison-mismatch": "A difference, recomputed from two states, is not the one on record.",
            "archive-projection-mismatch": "A residual of a projection, recomputed, is not the one on record.",
            "archive-reading-mismatch": "A number read off a state is not the one on record.",
            "archive-answer-mismatch": "A state answers otherwise than is on record.",
            "archive-number-mismatch": "A reported number is not the statistic of the rows that it is said to be.",
        },
    },
    "Signing keys (docs/formats/signing-key.md)": {
        "InputError": {
            "signing-key-malformed": "A key file does not hold a PEM key of the expected kind.",
            "signing-key-wrong-type": "A key file holds a key, but not an Ed25519 one.",
            "signing-key-locked": "A signing key is encrypted and no passphrase was given.",
            "signing-key-passphrase-wrong": "The passphrase does not open the key, or the key has none.",
        },
        "StoreError": {
            "signing-key-missing": "There is no file at the path of a key.",
            "signing-key-unreadable": "A key file exists but cannot be read, or is not an ordinary file.",
            "signing-key-exposed": "A signing-key file is owned or readable by somebody else.",
            "signing-key-exists": "Saving would overwrite a file.",
            "signing-key-unwritable": "A key file cannot be written.",
        },
    },
    "The service": {
        "InputError": {
            "malformed": "The body is not JSON.",
            "unauthenticated": "There is no token, or it is unknown, expired or revoked.",
            "forbidden": "The token does not reach this far.",
            "not-found": "There is no such thing here.",
            "method-not-allowed": "The resource does not know this method.",
            "taken": "The name is in use.",
            "too-large": "The body exceeds the limit.",
            "unsupported-media-type": "The body is not declared as JSON.",
        },
        "StoreError": {
            "damaged": "What is stored does not check out.",
        },
    },
}
