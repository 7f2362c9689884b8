"""Whom a verifier trusts: public keys, the log that they sign, and witnesses, as the command line names them.

A key is a PEM file with a public key, a file with verifier keys, or a verifier key itself, ``origin+id+base64``, which
also says which log it signs. Where one log is chosen, verifier keys of other logs count for nothing, neither under
its heads nor under its receipts; a PEM file names no log, and always counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expunge.cli.context import read_file
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey

__all__ = ["OriginOption", "QuorumOption", "Trust", "TrustOption", "WitnessOption", "parse_trust", "parse_witnesses"]

_MAX_BYTES = 64 * 1024

TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trust", metavar="KEY", help="Key to trust: PEM file, verifier-key file or verifier key. Repeat for several."
    ),
]
OriginOption = Annotated[
    str | None,
    typer.Option("--origin", metavar="TEXT", help="The log's name, where --trust is a PEM file or has several logs."),
]
WitnessOption = Annotated[
    list[str] | None, typer.Option("--witness", metavar="KEY", help="Verifier key of a witness. Repeat for several.")
]
QuorumOption = Annotated[
    int, typer.Option("--quorum", metavar="N", help="How many witnesses must have cosigned.", min=0, show_default=False)
]


@dataclass(frozen=True)
class Trust:
    """Keys that may sign receipts, and the same keys as signers of the log ``origin``, where it is known.

    A verifier key is among them only if it is one of that log.
    """

    keys: tuple[VerifyingKey, ...]
    log_keys: tuple[NoteKey, ...]
    origin: str | None

    @property
    def log(self) -> tuple[tuple[NoteKey, ...], str]:
        """Keys and origin of the log."""
        if self.origin is None:
            raise InputError("which log? give --origin, or --trust with the log's verifier key instead of a PEM file")
        return self.log_keys, self.origin


def parse_trust(texts: list[str] | None, origin: str | None = None) -> Trust:
    """Read ``--trust``."""
    from expunge.ledger.note import NoteAlgorithm, NoteKey

    if not texts:
        raise InputError(
            "whom do you trust? give --trust with the log's verifier key (see: expunge show) or a PEM file"
        )
    found = [key for text in texts for key in _read_keys(text)]
    for key in found:
        if isinstance(key, NoteKey) and key.algorithm is NoteAlgorithm.COSIGNATURE_V1:
            raise InputError(f"{key.name} is a witness: its key goes with --witness", code="verifier-key-unsupported")
    origins = {key.name for key in found if isinstance(key, NoteKey)}
    if origin is None and len(origins) > 1:
        raise InputError(f"the keys are of several logs ({', '.join(sorted(origins))}); choose one with --origin")
    if origin is not None and origins and origin not in origins:
        raise InputError(f"no verifier key is one of {origin!r}; they are of {', '.join(sorted(origins))}")
    chosen = origin or next(iter(origins), None)
    kept = [key for key in found if not isinstance(key, NoteKey) or key.name == chosen]
    keys = dict.fromkeys(key.public if isinstance(key, NoteKey) else key for key in kept)
    log_keys: dict[NoteKey, None] = {}
    if chosen is not None:
        log_keys = dict.fromkeys(key if isinstance(key, NoteKey) else NoteKey(chosen, key) for key in kept)
    return Trust(tuple(keys), tuple(log_keys), chosen)


def parse_witnesses(texts: list[str] | None, quorum: int) -> tuple[tuple[NoteKey, ...], int]:
    """Read ``--witness`` and ``--quorum``; without a number, every witness must have cosigned."""
    from expunge.ledger.note import NoteKey

    read = list(dict.fromkeys(key for text in texts or [] for key in _read_keys(text)))
    found = tuple(key for key in read if isinstance(key, NoteKey))
    if len(found) < len(read):
        raise InputError("--witness takes verifier keys, name+id+base64, and no others: a cosignature names its key")
    if quorum > len(found):
        raise InputError(f"--quorum {quorum} needs at least as many --witness keys; there are {len(found)}")
    return found, quorum or len(found)


def _read_keys(text: str) -> list[NoteKey | VerifyingKey]:
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey

    path = Path(text)
    # A verifier key can be longer than any file's name, which Path.is_file does not take.
    if "+" in text and not os.path.isfile(path):
        return [NoteKey.from_text(text)]
    data = read_file(path, limit=_MAX_BYTES)
    if data.lstrip().startswith(b"-----BEGIN"):
        return [VerifyingKey.from_pem(data)]
    try:
        lines = data.decode("utf-8").split()
    except UnicodeDecodeError:
        raise InputError(f"{path} is neither a PEM public key nor a file of verifier keys") from None
    if not lines:
        raise InputError(f"{path} is empty; it should hold a PEM public key or verifier keys")
    return [NoteKey.from_text(line) for line in lines]
