"""The last head of each log that a witness cosigned, kept in a file, and the only way to cosign the next one.

Format: ``docs/formats/checkpoint.md``. A cosignature says that the witness never cosigned a head of the log that this
one does not extend. So the witness keeps the last head, and :meth:`WitnessState.cosign` verifies the next one against
it, replaces it on disk, and returns the cosignature, in this order and under a lock: after a crash the file may be
ahead of what was handed out, never behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from expunge.errors import StoreError, VerificationError
from expunge.ledger.checkpoint import Checkpoint, check_not_log, parse_checkpoint
from expunge.ledger.encoding import dump_canonical, parse_canonical
from expunge.ledger.file_writing import new_file
from expunge.ledger.merkle.hashing import EMPTY_ROOT
from expunge.ledger.merkle.proof_file import ExtensionProof, verify_extension_proof
from expunge.ledger.note import NoteKey, NoteSignature, SignedNote, parse_note

__all__ = ["Cosigner", "WitnessState"]

_FORMAT = "urn:expunge:witness-state:v1"
_MAX_BYTES = 64 * 1024 * 1024


class Cosigner(Protocol):
    """A witness's key: :class:`expunge.ledger.checkpoint.Witness`, or one of another algorithm."""

    @property
    def verifier(self) -> NoteKey:
        """The verifier key of the cosignatures."""
        ...

    def cosignature(self, text: bytes, time: int) -> NoteSignature:
        """Return the signature line over the text of a checkpoint, made at POSIX time ``time``."""
        ...


@dataclass(frozen=True, slots=True)
class WitnessState:
    """The heads that one witness cosigned last, one per log, in the file ``path``."""

    path: Path

    def kept(self, origin: str) -> SignedNote | None:
        """Return the head of the log ``origin`` that was cosigned last, signed by the log; None before the first."""
        return self._read().get(origin)

    def origins(self) -> tuple[str, ...]:
        """Return the names of the logs of which a head is kept."""
        return tuple(sorted(self._read()))

    def cosign(
        self, extension: ExtensionProof, log_keys: Iterable[NoteKey], origin: str, cosigner: Cosigner, now: int
    ) -> NoteSignature:
        """Verify that a head extends the one that is kept, keep it instead, and cosign it.

        Parameters
        ----------
        extension
            The new head, with the path that leads to it from the kept head. Where no head of the log is kept, the path
            is that from the empty log: size 0, no hashes.
        log_keys, origin
            The keys of the log and its name.
        cosigner
            The key of the witness, which must be none of ``log_keys``.
        now
            POSIX time, which the cosignature states.

        Returns
        -------
        NoteSignature
            The witness's line. The head is on disk before it is returned.

        Raises
        ------
        VerificationError
            The log did not sign the head; the path starts from another size than the kept head has
            (``log-proof-old-size-mismatch``); the head is smaller than the kept one (``consistency-sizes-reversed``),
            has another root at the same size (``consistency-fork``), or does not extend it. The kept head stays.
        InputError
            The witness's key is the log's (``witness-is-log``).
        StoreError
            The file cannot be read or written.

        """
        keys = list(log_keys)
        check_not_log([cosigner.verifier], keys)
        with self._locked():
            heads = self._read()
            kept = heads.get(origin)
            old = Checkpoint(origin, 0, EMPTY_ROOT) if kept is None else parse_checkpoint(kept.text)
            verify_extension_proof(extension, old, keys)
            note = extension.checkpoint
            line = cosigner.cosignature(note.text, now)
            signed = {(key.name, key.key_id) for key in keys}
            by_log = tuple(entry for entry in note.signatures if (entry.name, entry.key_id) in signed)
            self._write({**heads, origin: SignedNote(note.text, (*by_log, line))})
        return line

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # POSIX alone has it, and nothing but this needs it.
        import fcntl

        # A file of its own: the other one is replaced, and a lock on it would go with it.
        path = self.path.with_name(f"{self.path.name}.lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise StoreError(f"cannot write {path}: {problem.strerror}", code="witness-state-unwritable") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, SignedNote]:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return {}
        except OSError as problem:
            raise StoreError(f"cannot read {self.path}: {problem.strerror}", code="witness-state-unreadable") from None
        try:
            return dict(_parse(data))
        except VerificationError as problem:
            raise StoreError(
                f"{self.path} does not hold the heads of a witness ({problem}); restore it from a copy: a witness that "
                "has forgotten what it cosigned must not cosign",
                code="witness-state-malformed",
            ) from None

    def _write(self, heads: Mapping[str, SignedNote]) -> None:
        content = {origin: note.to_bytes().decode("utf-8") for origin, note in heads.items()}
        try:
            with new_file(self.path, replace=True, mode=0o600) as file:
                file.write(dump_canonical({"format": _FORMAT, "heads": content}))
            # The file's new name is on disk only when its folder is.
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except StoreError as problem:
            raise StoreError(str(problem), code="witness-state-unwritable") from None
        except OSError as problem:
            raise StoreError(f"cannot write {self.path}: {problem.strerror}", code="witness-state-unwritable") from None


def _parse(data: bytes) -> Iterator[tuple[str, SignedNote]]:
    document = parse_canonical(data, limit=_MAX_BYTES)
    heads = document.get("heads") if isinstance(document, Mapping) and document.get("format") == _FORMAT else None
    if not isinstance(heads, Mapping):
        raise VerificationError(f"not a file of the format {_FORMAT}")
    for origin, text in heads.items():
        note = parse_note(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b"")
        if parse_checkpoint(note.text).origin != origin:
            raise VerificationError(f"the head of {origin!r} is one of another log")
        yield origin, note
