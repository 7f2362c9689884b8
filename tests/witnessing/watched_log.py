"""A small log with its key, and heads of it at any size; a fork of it shares a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from expunge.ledger.checkpoint import Checkpoint, Witness, sign_checkpoint
from expunge.ledger.merkle.hashing import leaf_hash
from expunge.ledger.merkle.proof_file import ExtensionProof
from expunge.ledger.merkle.tree import HashTree
from expunge.ledger.note import NoteKey, SignedNote
from expunge.ledger.signing import SigningKey
from expunge.ledger.witness_state import WitnessState
from expunge.witnessing.witness_server import WitnessService, make_server

__all__ = ["LOG_KEY", "ORIGIN", "WatchedLog", "serving"]

ORIGIN = "ledger.example/icu-7"
KEY = SigningKey.from_seed(b"\x01" * 32)
LOG_KEY = NoteKey(ORIGIN, KEY.public)


class WatchedLog:
    """`size` leaves, of which those from `fork` on differ from another log's."""

    def __init__(self, size: int = 64, fork: int = 1 << 30, origin: str = ORIGIN, key: SigningKey = KEY) -> None:
        self.origin, self.key = origin, key
        self.tree = HashTree(leaf_hash(b"%d%s" % (n, b"'" if n >= fork else b"")) for n in range(size))

    def head(self, size: int) -> SignedNote:
        return sign_checkpoint(Checkpoint(self.origin, size, self.tree.root(size)), self.key)

    def request(self, old: int, size: int) -> bytes:
        path = self.tree.consistency_path(old, size) if old <= size else ()
        return ExtensionProof(old, path, self.head(size)).to_bytes()


@contextmanager
def serving(
    folder: Path, witness: Witness, logs: dict[str, list[NoteKey]] | None = None
) -> Iterator[tuple[str, WitnessService]]:
    """A witness on loopback."""
    service = WitnessService(WitnessState(folder / "w.heads"), witness, logs or {ORIGIN: [LOG_KEY]})
    with make_server(service, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", service
        finally:
            server.shutdown()
            thread.join()
