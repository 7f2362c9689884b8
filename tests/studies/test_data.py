from __future__ import annotations

import lzma
from pathlib import Path

import pytest
import torch
from stacks import corpus

from expunge.errors import InputError
from studies.data import draw_starts, load


def test_load_splits_the_first_bytes(tmp_path: Path) -> None:
    content = bytes(range(250)) * 5
    plain, packed = tmp_path / "text", tmp_path / "text.xz"
    plain.write_bytes(content)
    packed.write_bytes(lzma.compress(content))
    for path in (plain, packed):
        loaded = load(path, test=plain, limit=1000)
        assert bytes(loaded.train.tolist()) == content[:900]
        assert bytes(loaded.valid.tolist()) == content[900:1000]
        assert bytes(loaded.test.tolist()) == content
    assert len(load(plain, limit=None).train) + len(load(plain, limit=None).valid) == len(content)


def test_starts_depend_on_seed_and_step_alone() -> None:
    short = draw_starts(3, 10, 4, length=1000, block=48)
    long = draw_starts(3, 20, 4, length=1000, block=48)
    assert torch.equal(short, long[:10])
    assert not torch.equal(short, draw_starts(4, 10, 4, length=1000, block=48))
    assert int(long.min()) >= 0
    many = draw_starts(0, 5000, 4, length=60, block=48)
    # Every start that leaves room for a block and its target, and no other.
    assert sorted(set(many.flatten().tolist())) == list(range(60 - 48))


def test_a_corpus_shorter_than_a_block_is_refused() -> None:
    with pytest.raises(InputError, match="a block needs 6001"):
        corpus().require(6000)
