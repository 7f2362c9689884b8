"""The search of files for pieces of entries: each is found as often as it stands there, wherever that is."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import numpy as np
import pytest

from expunge.integrations.embedding import words
from expunge.mirrors import marks as searched
from expunge.mirrors.marks import LEAST, count_marks, marks_of
from expunge.mirrors.mirror import Copy


def plainly(data: bytes, mark: bytes) -> int:
    """How often a mark stands in some bytes, overlapping places included, by no code of the package."""
    return sum(data.startswith(mark, at) for at in range(len(data) - len(mark) + 1))


@pytest.mark.parametrize("seed", range(6))
def test_marks_are_counted_as_by_a_plain_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Chunks are small, so that marks lie across borders; bytes are few, so that marks overlap and share parts."""
    monkeypatch.setattr(searched, "_CHUNK", 100)
    rng = Random(seed)
    alphabet = (b"\0\0\0\0a", b"\0 b")[seed % 2]
    marks = {bytes(rng.choices(alphabet, k=rng.randint(LEAST, 20))) for _ in range(40)}
    marks |= {b"\0" * 12 + b"a", b" " * LEAST + b"b", b"\0" * LEAST, b"a" + b"\0" * 20}
    data = b"".join(rng.choice([*sorted(marks), bytes(rng.choices(alphabet, k=9))]) for _ in range(60))
    (tmp_path / "file").write_bytes(data)
    found = count_marks([tmp_path / "file"], marks)
    assert {mark: told.total() for mark, told in found.items()} == {
        mark: plainly(data, mark) for mark in marks if plainly(data, mark)
    }


def test_pieces_of_a_sparse_vector_cost_no_more_than_those_of_a_dense_one(tmp_path: Path) -> None:
    """Systems make files that are zeros for the most part, and the vector of a few words is zero for the most part."""
    sparse = words(["green tea"])[0]
    dense = np.random.default_rng(0).standard_normal(sparse.size)
    file = tmp_path / "log"
    file.write_bytes(b"\0" * (2 << 20) + sparse.astype("<f4").tobytes() + dense.astype("<f4").tobytes() + b"\0" * 4096)
    seconds = {}
    for name, vector in (("dense", dense), ("sparse", sparse)):
        marks = marks_of(Copy(name, vector, None, {}))
        assert {marks[mark] for mark in count_marks([file], marks)} >= {"vector"}
        spent = []
        for _ in range(3):
            started = time.thread_time()
            count_marks([file], marks)
            spent.append(time.thread_time() - started)
        seconds[name] = min(spent)
    assert seconds["sparse"] < 5 * seconds["dense"] + 0.05, seconds
