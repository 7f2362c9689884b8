"""Looking for bytes in files that should no longer have them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from expunge.store import Store, StoredMemory
from expunge.store.encryption import subject_tag

__all__ = ["admit_random", "files_under", "needles_of", "random_memory", "traces"]

# Bytes of a needle that are looked for at a time: eight random ones do not turn up by chance.
_WINDOW = 8
_PLACES = 500


def needles_of(memory: StoredMemory, names: Iterable[str]) -> dict[str, bytes]:
    """Key, value, payload, salt and subject's tag of entries, live or archived; texts in them are random or long."""
    view, store_secret = memory.version, memory.context.identity.secret
    found: dict[str, bytes] = {}
    for name in names:
        slot, kept = view.slot(name), view.warranties.archive.get(name)
        if slot is not None:
            entries = view.entries
            key, value = view.state.gram.keys[entries.site[slot]], entries.values[slot]
            payload, salt, subject = entries.payloads[slot], entries.salts[slot], entries.subjects[slot]
        elif kept is not None:
            key, value, payload, salt, subject = kept.key, kept.value, kept.payload, kept.salt, kept.subject
        else:
            continue
        found |= {
            f"key of {name}": key.tobytes(),
            f"value of {name}": value.tobytes(),
            f"payload of {name}": payload or b"",
            f"salt of {name}": salt,
            f"tag of {name}": subject_tag(store_secret, subject) or b"",
        }
    return found


def files_under(*places: Path) -> list[Path]:
    """Files, and files in folders."""
    return [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))]


def traces(files: Iterable[Path], needles: dict[str, bytes]) -> set[str]:
    """Names of the needles of which any eight aligned bytes are in any of the files, at any position."""
    owners: dict[int, set[str]] = {}
    for name, needle in needles.items():
        # Of a long needle a few hundred places are enough: a page has thousands of bytes.
        step = _WINDOW * max(1, len(needle) // (_WINDOW * _PLACES))
        for at in range(0, len(needle) - _WINDOW + 1, step):
            owners.setdefault(int.from_bytes(needle[at : at + _WINDOW], "little"), set()).add(name)
    wanted = np.array(sorted(owners), dtype=np.uint64)
    likely = np.zeros(1 << 16, dtype=bool)
    likely[wanted & np.uint64(0xFFFF)] = True
    found: set[str] = set()
    for file in files:
        if not file.is_file():
            continue
        data = file.read_bytes()
        for shift in range(_WINDOW):
            count = (len(data) - shift) // _WINDOW
            if count > 0:
                low = np.frombuffer(data, dtype="<u2", count=4 * count, offset=shift)[::4]
                maybe = np.frombuffer(data, dtype="<u8", count=count, offset=shift)[likely[low]]
                for hit in np.intersect1d(maybe, wanted).tolist():
                    found |= owners[hit]
    return found


def admit_random(
    memory: StoredMemory, rng: np.random.Generator, *, payload: int = 200, far: float = 1.0, **more: Any
) -> str:
    """Admit an entry of random bytes, which do not turn up by chance; return its id."""
    name = f"entry-{secrets.token_hex(8)}"
    memory.admit(
        far * rng.standard_normal(memory.dimension),
        rng.standard_normal(2),
        id=name,
        payload=secrets.token_bytes(payload),
        **more,
    )
    return name


def random_memory(
    store: Store, name: str = "icu", *, size: int = 40, dimension: int = 4, seed: int = 0
) -> StoredMemory:
    """Create a memory with ids and payloads of random bytes."""
    rng = np.random.default_rng(seed)
    return store.create(
        name,
        rng.standard_normal((size, dimension)),
        rng.standard_normal((size, 2)),
        sigma=0.5 * dimension,
        nu=0.3,
        ids=[f"{name}-{secrets.token_hex(8)}" for _ in range(size)],
        subjects=[f"patient-{row % 5}-of-{name}" for row in range(size)],
        payloads=[secrets.token_bytes(50 * (row % 4)) for row in range(size)],
    )
