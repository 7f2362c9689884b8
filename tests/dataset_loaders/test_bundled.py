"""The samples that ship with the package."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib.resources import files

import numpy as np
import pytest

from dataset_loaders.vital_limits import LIMITS, RANGES, outside_limits
from expunge import Memory, datasets
from expunge.datasets import Sample

# A change to the data must be meant: tools/make_samples.py says how the files were made.
PINS = {
    "conversations/LICENSE.txt": "38a553151ada2b1518ab5ac469de7d04d35923b3510aea17b1156a2ce9ce50cf",
    "conversations/NOTICE.txt": "d38ab47d0e634fb1ff54e056b722771758950fd7a372f7b9c63d4ad20b3a0d14",
    "conversations/embeddings.npz": "6888f474d0c2326fbcb182e8a99cb54a9b9397b7202fd93bb5e6b141ad0e1cc7",
    "conversations/evidence.jsonl": "4c0273d9b3d60a5ef2f570b25432ca8a8292f396b83cd67d7bd617ba57e98f00",
    "conversations/exchanges.jsonl": "7731454d2a39220612f66001275e93d98feab37404a85ca1b3d3d3ec5fbdaf91",
    "conversations/questions.jsonl": "37ffedd55f35e7cdf62fad40d5889a17babcfe88b46f1579925322a8ebdc24fc",
    "conversations/topics.json": "7352213f69d9671997f2cc1640651a7857821c87f7fa25920d6b6dbb5e5819aa",
    "icu/LICENSE.txt": "af7fde6f629fe568bfadcd559a605ccec269b7694752e693f57b991a3ad1ef64",
    "icu/NOTICE.txt": "5d4efc3e5b09908cb77030422708206b85008492edd57c446b4b33774b17d25c",
    "icu/first_hours.npz": "e12c440117b88d38e36de59ffe91f16936b821f2cc265de3b143a4c0dfba9d42",
    "icu/hours.csv": "686763af0b117808be3cf714085dfa655fb2f371313b0420d741d6fc08570f39",
    "icu/standard.json": "321451befedadef573a632df5be110ca98acf8dccab631fd0dadb6aba2c94ffe",
    "learned_keys/provenance.json": "a53602125311e0467d99613d6778c86132cbf00365bfb63d106233a7227af67a",
    "learned_keys/weights.npz": "940008af4a30c67095e2f0597318a02e0c0673d0d7b8742404897b741461191a",
}
MEBIBYTE = 2**20
BUNDLED = [datasets.icu_hours, datasets.conversations]


def test_the_files_are_the_pinned_ones_and_small() -> None:
    data = files("expunge.datasets").joinpath("data")
    found = {
        f"{folder.name}/{file.name}": file.read_bytes()
        for folder in data.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
    }
    assert {name: hashlib.sha256(content).hexdigest() for name, content in found.items()} == PINS
    assert sum(map(len, found.values())) < 1.5 * MEBIBYTE


def test_licences_ship_beside_the_data() -> None:
    data = files("expunge.datasets").joinpath("data")
    odbl = data.joinpath("icu", "LICENSE.txt").read_text(encoding="utf-8")
    assert odbl.startswith("## ODC Open Database License (ODbL)")
    assert "4.4 Share alike" in odbl
    mit = data.joinpath("conversations", "LICENSE.txt").read_text(encoding="utf-8")
    assert mit.startswith("MIT License\n\nCopyright (c) 2023 Wanjun Zhong")
    assert datasets.icu_hours().notice.startswith("Contains information from the MIMIC-IV Clinical Database Demo")
    assert "ODbL 1.0" in (datasets.icu_hours.__doc__ or "")
    assert "MIT" in (datasets.conversations.__doc__ or "")


def test_samples_load_with_numpy_alone() -> None:
    script = """
import sys
for name in ("polars", "pandas", "torch", "scipy", "numba", "sklearn", "matplotlib"):
    sys.modules[name] = None
from expunge import datasets
assert len(datasets.icu_hours()) == 864 and len(datasets.conversations()) == 566
"""
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603


@pytest.mark.parametrize("load", BUNDLED)
def test_columns_agree(load: Callable[[], Sample]) -> None:
    sample = load()
    size, width = sample.keys.shape
    assert len(sample) == size == len(sample.values) == len(sample.ids) == len(sample.subjects) == len(sample.payloads)
    assert sample.values.shape[1] == len(sample.value_names) <= 8
    assert len(sample.key_names) in (0, width)
    assert sample.queries.shape == (len(sample.query_texts), width)
    assert len(sample.query_subjects) == len(sample.query_texts)
    assert len(set(sample.ids)) == size
    assert set(sample.query_subjects) == set(sample.subjects)
    for array in (sample.keys, sample.values, sample.queries):
        assert array.dtype == np.float64
        assert not array.flags.writeable
        assert np.isfinite(array).all()
    assert json.loads(json.dumps(sample.payloads, allow_nan=False)) == list(sample.payloads)


@pytest.mark.parametrize("load", BUNDLED)
def test_two_loads_share_nothing_that_can_change(load: Callable[[], Sample]) -> None:
    first, second = load(), load()
    first.payloads[0].clear()
    assert second.payloads[0]
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.keys, second.keys)


@pytest.mark.parametrize("load", BUNDLED)
def test_a_memory_fits_answers_and_forgets_a_subject(load: Callable[[], Sample]) -> None:
    sample = load()
    memory = Memory.fit(**sample.arguments)
    assert memory.check().passed
    # Something for each part of a demonstration: weight to lose, and entries that have none.
    assert memory.partition.margin.size
    assert memory.partition.bound.size
    assert memory.partition.reserve.size
    assert np.isfinite(memory.read(sample.queries)).all()
    subject = sample.subjects[0]
    receipt = memory.delete(subject=subject)
    assert len(receipt.applied) == sample.subjects.count(subject)
    assert memory.check().passed
    assert subject not in memory.subjects


def test_icu_hours_are_72_of_each_of_12_patients() -> None:
    sample = datasets.icu_hours()
    assert sample.keys.shape == (864, 6)
    assert Counter(Counter(sample.subjects).values()) == {72: 12}
    assert sample.ids[:2] == ("stay-35479615/h000", "stay-35479615/h001")
    hours: dict[tuple[str, str], list[int]] = defaultdict(list)
    for name, subject, payload in zip(sample.ids, sample.subjects, sample.payloads, strict=True):
        stay, hour = name.split("/")
        assert hour == f"h{payload['hour']:03d}"
        hours[stay, subject].append(payload["hour"])
    assert len(hours) == 12
    assert all(found == list(range(72)) for found in hours.values())
    assert len(sample.query_texts) == 72


def test_icu_hours_follow_from_their_payloads() -> None:
    sample = datasets.icu_hours()
    vitals = np.array([[payload[name] for name in sample.key_names] for payload in sample.payloads])
    low, high = np.array([RANGES[name] for name in sample.key_names], dtype=float).T
    assert ((vitals >= low) & (vitals <= high)).all()
    # Keys are one affine map of each channel, the one in standard.json.
    standard = json.loads(files("expunge.datasets").joinpath("data", "icu", "standard.json").read_bytes())
    np.testing.assert_allclose(
        sample.keys * standard["scale"] + standard["mean"], vitals, rtol=0, atol=1e-9, strict=True
    )
    np.testing.assert_array_equal(sample.values[:, 0], [payload["spo2"] for payload in sample.payloads])
    events = [outside_limits({name: payload[name] for name in LIMITS}) for payload in sample.payloads]
    np.testing.assert_array_equal(sample.values[:, 1], events)
    assert sum(events) == 133
    assert all(set(payload["filled"]) <= set(sample.key_names) for payload in sample.payloads)


def test_conversations_are_whole() -> None:
    sample = datasets.conversations()
    assert sample.keys.shape == (566, 384)
    assert len(sample.query_texts) == 100
    assert len(set(sample.subjects)) == 15
    assert sample.ids[0] == "emily/2023-04-27/01"
    np.testing.assert_allclose(np.linalg.norm(sample.keys, axis=1), 1.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(sample.queries, axis=1), 1.0, rtol=0, atol=1e-6)
    np.testing.assert_allclose(sample.values.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for name, payload in zip(sample.ids, sample.payloads, strict=True):
        assert name.split("/")[1] == payload["date"]
        assert payload["query"]
        assert payload["response"]


def test_a_question_finds_its_exchange_and_its_topic() -> None:
    sample = datasets.conversations()
    memory = Memory.fit(**sample.arguments)
    place = sample.query_texts.index("I once encountered a problem in learning programming, what was the problem?")
    best = memory.search(sample.queries[place], k=1)[0]
    assert best.subject == sample.query_subjects[place] == "Henry"
    assert "programming" in best.payload["query"]
    topics = dict(zip(sample.value_names, memory.read(sample.queries[place])[0].tolist(), strict=True))
    assert max(topics, key=lambda name: topics[name]) == "work and study"


def test_the_shipped_stays_are_the_shipped_hours() -> None:
    stays, sample = datasets.icu_stays(), datasets.icu_hours()
    assert [len(stay) for stay in stays] == [78] * 12
    assert np.vstack([stay.keys[:72] for stay in stays]).tobytes() == sample.keys.tobytes()
    assert tuple(stay.subject for stay in stays for _ in range(72)) == sample.subjects
    flags = np.concatenate([stay.events[:72] for stay in stays])
    np.testing.assert_array_equal(flags, sample.values[:, 1].astype(bool))
    first = stays[0]
    assert [not seen for seen in first.measured[0]] == [
        name in sample.payloads[0]["filled"] for name in datasets.CHANNELS
    ]
    assert not first.keys.flags.writeable
