"""The attack on a database server's files: salts that outlive their entries decrypt what was erased.

The attacker has the data directory of a PostgreSQL server after the erasures, and ciphertexts of entries from before
them (an old page, a backup of the content tables without the secrets). PostgreSQL's statistics sample column values:
ANALYZE copies salts to `pg_statistic` and its TOAST table, where no deletion of a row reaches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from expunge.errors import VerificationError
from expunge.store.encryption import decrypt_entries

__all__ = ["decrypted_from_files", "salts_in_files"]

SALT_BYTES = 32
# A bytea of 32 bytes: as an element of an array (four bytes of length, as statistics have it), and in a row (one byte).
_ELEMENT = re.compile(rb"(?=\x90\x00\x00\x00(.{32}))", re.DOTALL)
_ROW = re.compile(rb"(?=\x43(.{32}))", re.DOTALL)
# 32 random bytes have fewer different values than this in less than one case of 10⁹.
_DISTINCT = 20


def salts_in_files(folder: Path) -> set[bytes]:
    """Everything under a folder that looks like a salt."""
    found: set[bytes] = set()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        for pattern in (_ELEMENT, _ROW):
            found.update(hit for hit in pattern.findall(content) if len(set(hit)) >= _DISTINCT)
    return found


def decrypted_from_files(folder: Path, ciphertexts: Iterable[bytes]) -> Iterator[int]:
    """Numbers of the ciphertexts that some salt in the files opens."""
    salts = salts_in_files(folder)
    for number, ciphertext in enumerate(ciphertexts):
        for salt in salts:
            try:
                decrypt_entries([(salt, ciphertext)])
            except VerificationError:
                continue
            yield number
            break
