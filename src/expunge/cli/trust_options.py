"""Whom a verifier trusts: public keys, the log that they sign, and witnesses, as the command line names them.

A key is a file with public keys in PEM and verifier keys, or a verifier key itself, ``origin+id+base64``, which
also says which log it signs. Where one log is chosen, verifier keys of other logs count for nothing, neither under
its heads nor under its receipts; a key in PEM names no log, and always counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from expunge.cli.context import read_file
from expunge.errors import InputError

if TYPE_CHECKING:
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey
    from expunge.ledger.witness_policy import WitnessPolicy
    from expunge.verify.timestamp import Timestamp

__all__ = [
    "PRESENT_AGE",
    "MaxAgeOption",
    "OriginOption",
    "PolicyOption",
    "PresentAgeOption",
    "QuorumOption",
    "TimestampOption",
    "Trust",
    "TrustOption",
    "TsaRootOption",
    "WitnessOption",
    "check_timestamp",
    "parse_present_age",
    "parse_trust",
    "parse_witnesses",
    "read_verifier_keys",
    "timestamp_check",
]

_MAX_BYTES = 64 * 1024
_PEM = re.compile(r"-----BEGIN [^-]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)

TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="KEY",
        help="Key to trust: file of PEM and verifier keys, or verifier key. Repeat for several.",
    ),
]
OriginOption = Annotated[
    str | None,
    typer.Option("--origin", metavar="TEXT", help="The log's name, where --trust is a PEM file or has several logs."),
]
WitnessOption = Annotated[
    list[str] | None,
    typer.Option(
        "--witness", metavar="KEY", help="Verifier key of a witness, or file of them, one per line. Repeat for several."
    ),
]
QuorumOption = Annotated[
    int, typer.Option("--quorum", metavar="N", help="How many witnesses must have cosigned.", min=0, show_default=False)
]
MaxAgeOption = Annotated[
    int | None,
    typer.Option("--max-age", metavar="SECONDS", help="How old a cosignature may be.", min=0, show_default=False),
]
# A head that is shown as the present one is asked for a cosignature of this week.
PRESENT_AGE: Final = 7 * 24 * 3600
PresentAgeOption = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="SECONDS",
        help="How old a cosignature may be; none for any age. Without it: 604800, seven days.",
        show_default=False,
    ),
]

PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="Witnesses and quorum in a C2SP policy file, instead of --witness."),
]
TimestampOption = Annotated[
    Path | None,
    typer.Option("--timestamp", metavar="FILE", help="Time stamp of the head (expunge checkpoint timestamp)."),
]
TsaRootOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--tsa-root", metavar="FILE", help="Root certificate (PEM) of a time-stamping authority. Repeat for several."
    ),
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
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey
    from expunge.ledger.verifying_key import KeyAlgorithm

    if not texts:
        raise InputError(
            "whom do you trust? give --trust with the log's verifier key (see: expunge show) or a PEM file"
        )
    found = [key for text in texts for key in _read_keys(text)]
    for key in found:
        if isinstance(key, NoteKey) and key.algorithm.cosigns:
            raise InputError(f"{key.name} is a witness: its key goes with --witness", code="verifier-key-unsupported")
    origins = {key.name for key in found if isinstance(key, NoteKey)}
    if origin is None and len(origins) > 1:
        raise InputError(f"the keys are of several logs ({', '.join(sorted(origins))}); choose one with --origin")
    if origin is not None and origins and origin not in origins:
        raise InputError(f"no verifier key is one of {origin!r}; they are of {', '.join(sorted(origins))}")
    chosen = origin or next(iter(origins), None)
    kept = [key for key in found if not isinstance(key, NoteKey) or key.name == chosen]
    publics = (key.public if isinstance(key, NoteKey) else key for key in kept)
    keys = dict.fromkeys(key for key in publics if isinstance(key, VerifyingKey))
    log_keys: dict[NoteKey, None] = {}
    if chosen is not None:
        # Heads are signed with Ed25519; a key of another kind signs leaves alone.
        heads = (key for key in kept if isinstance(key, NoteKey) or key.algorithm is KeyAlgorithm.ED25519)
        log_keys = dict.fromkeys(key if isinstance(key, NoteKey) else NoteKey(chosen, key) for key in heads)
    return Trust(tuple(keys), tuple(log_keys), chosen)


def parse_witnesses(
    texts: list[str] | None, quorum: int, max_age: int | None, policy: Path | None = None
) -> tuple[tuple[NoteKey, ...], int | WitnessPolicy]:
    """Read ``--witness`` and ``--quorum``, or ``--policy``; without a number, every witness must have cosigned."""
    from expunge.ledger.checkpoint import count_witnesses
    from expunge.ledger.note import NoteKey
    from expunge.ledger.witness_policy import MAX_POLICY_BYTES, parse_policy

    if policy is not None:
        if texts or quorum:
            raise InputError("--policy names the witnesses and the quorum; leave out --witness and --quorum")
        stated = parse_policy(read_file(policy, limit=MAX_POLICY_BYTES))
        return stated.keys, stated if stated.keys else 0

    read = list(dict.fromkeys(key for text in texts or [] for key in _read_keys(text)))
    found = tuple(key for key in read if isinstance(key, NoteKey))
    if len(found) < len(read):
        raise InputError("--witness takes verifier keys, name+id+base64, and no others: a cosignature names its key")
    if max_age is not None and not found:
        raise InputError("--max-age is about cosignatures; name the witnesses with --witness")
    witnesses = count_witnesses(found)
    if quorum > witnesses:
        raise InputError(f"--quorum {quorum} needs at least as many --witness keys; there are {witnesses}")
    return found, quorum or witnesses


def parse_present_age(text: str | None) -> int | None:
    """Read ``--max-age`` of a head that is to be the present one: seconds, or None for any age."""
    if text is None or text == "none":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InputError(f"--max-age is a number of seconds, or none, not {text[:40]!r}")
    return int(text)


def check_timestamp(head: bytes, timestamp: Path | None, roots: list[Path] | None) -> Timestamp | None:
    """Verify ``--timestamp`` over a head against ``--tsa-root``; None where neither is given."""
    if timestamp is None and not roots:
        return None
    verify = timestamp_check(roots)
    if timestamp is None or verify is None:
        raise InputError("a time stamp is verified against its authority: --timestamp and --tsa-root go together")
    from expunge.verify.timestamp import MAX_TIMESTAMP_BYTES

    return verify(head, read_file(timestamp, limit=MAX_TIMESTAMP_BYTES))


def timestamp_check(roots: list[Path] | None) -> Callable[[bytes, bytes], Timestamp] | None:
    """What verifies a time stamp over a head against ``--tsa-root``; None where no root is given."""
    if not roots:
        return None
    from datetime import UTC, datetime

    from expunge.verify.timestamp import read_roots, verify_timestamp

    trusted = [root for path in roots for root in read_roots(read_file(path, limit=_MAX_BYTES))]
    now = datetime.now(UTC)
    return lambda head, token: verify_timestamp(head, token, trusted, now=now)


def read_verifier_keys(texts: list[str]) -> list[NoteKey]:
    """Read verifier keys of logs, from files or as they are; a key in PEM beside one signs its leaves alone."""
    from expunge.ledger.note import NoteKey

    found = [[key for key in _read_keys(text) if isinstance(key, NoteKey)] for text in texts]
    keys = [key for each in found for key in each]
    if not all(found) or any(key.algorithm.cosigns for key in keys):
        raise InputError("a log is known by its verifier key, origin+id+base64 (expunge show --verifier-key)")
    return keys


def _read_keys(text: str) -> list[NoteKey | VerifyingKey]:
    from expunge.ledger.note import NoteKey
    from expunge.ledger.signing import VerifyingKey

    path = Path(text)
    # A verifier key can be longer than any file's name, which Path.is_file does not take.
    if "+" in text and not os.path.isfile(path):
        return [NoteKey.from_text(text)]
    try:
        content = read_file(path, limit=_MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is neither a PEM public key nor a file of verifier keys") from None
    lines = [line.strip() for line in _PEM.sub("", content).splitlines()]
    found: list[NoteKey | VerifyingKey] = [
        NoteKey.from_text(line) for line in lines if line and not line.startswith("#")
    ]
    found += [VerifyingKey.from_pem(block.encode()) for block in _PEM.findall(content)]
    if not found:
        raise InputError(f"{path} is empty; it should hold a PEM public key or verifier keys")
    return found
