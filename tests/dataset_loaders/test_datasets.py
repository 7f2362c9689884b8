from __future__ import annotations

import csv
import gzip
import hashlib
import json
import math
import random
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expunge import InputError, Memory, MissingExtra, datasets
from expunge.datasets import Cohort, Sample

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
# The paper's limits for an event, restated; diastolic pressure has none.
LIMITS = {"hr": (40, 130), "sbp": (90, 200), "rr": (6, 30), "spo2": (90, math.inf), "temp": (35, 38.5)}
RANGES = {"hr": (10, 300), "sbp": (20, 300), "dbp": (5, 220), "rr": (2, 80), "spo2": (30, 100), "temp": (25, 45)}


def outside_limits(hour: dict[str, float]) -> bool:
    return any(hour[name] < low or hour[name] > high for name, (low, high) in LIMITS.items())


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


def test_distinct_hours_are_apart() -> None:
    keys = np.array([[0.0, 0.0], [0.1, 0.0], [0.11, 0.0], [0.0, 5.0], [0.11, 0.05], [0.0, 5.0]])
    assert datasets.distinct_hours(keys).tolist() == [0, 2, 3]
    assert datasets.distinct_hours(keys, apart=0.0).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match=r"\(n, d\)"):
        datasets.distinct_hours([1.0, 2.0])


# Whole data sets, on folders that the tests write.
CHANNEL_OF = {
    220045: "hr",
    220050: "sbp",
    220179: "sbp",
    220051: "dbp",
    220180: "dbp",
    220210: "rr",
    220277: "spo2",
    223761: "temp",
    223762: "temp",
}
TYPICAL = {220045: 80, 220050: 120, 220051: 60, 220210: 18, 220277: 97, 223762: 37.0}
ADMITTED = datetime(2150, 3, 1, 10, 17, 30)
CHART_IDS = ["subject_id", "hadm_id", "stay_id", "caregiver_id"]
Event = tuple[int, datetime, int, float | None]
StayRow = tuple[int, int, datetime, datetime, float]


def mimic_rows() -> tuple[list[StayRow], list[Event]]:
    """Stays and chart events with one of each thing that the loader must handle."""
    dice = random.Random(5)
    stays: list[StayRow] = []
    events: list[Event] = []
    for number, days in enumerate([3.0, 2.5, 1.9, 2.0, 4.0, 2.1]):
        stay = 30_000_000 + number
        begin = ADMITTED + timedelta(days=40 * number, minutes=13 * number)
        stays.append((10_000_000 + number // 2, stay, begin, begin + timedelta(days=days), days))
        # The fourth stay ends its charting early, the fifth has no temperature at all.
        last = 30 if number == 3 else int(days * 24) - 1
        for hour in range(last + 1):
            for item, level in TYPICAL.items():
                if (number == 4 and item == 223762) or dice.random() < 0.25:
                    continue
                minute = timedelta(hours=hour, minutes=dice.randrange(60))
                events.append((stay, begin + minute, item, round(level * dice.uniform(0.95, 1.03), 2)))
    first, begin = stays[0][1], stays[0][2]
    events += [
        (first, begin - timedelta(minutes=1), 220045, 300.0),  # before the stay
        (first, stays[0][3] + timedelta(minutes=1), 220045, 300.0),  # after it
        (first, begin + timedelta(hours=5), 223761, 110.0),  # 43 °C: an event
        (first, begin + timedelta(hours=6), 223761, 40.0),  # °C typed as °F
        (first, begin + timedelta(hours=7, minutes=59, seconds=59), 220179, 150.5),  # cuff beside arterial line
        (first, begin + timedelta(hours=8), 220180, 75.5),
        (first, begin + timedelta(hours=9), 220277, 0.0),  # probe off
        (first, begin + timedelta(hours=10), 220277, None),
        (first, begin + timedelta(hours=11), 220052, 80.0),  # another item
        (stays[1][1], stays[1][2] + timedelta(hours=3), 220277, 80.0),
        (99, begin, 220045, 80.0),  # a stay that is not listed
    ]
    return stays, events


def write_mimic(folder: Path, stays: list[StayRow], events: list[Event], *, packed: bool = True) -> Path:
    (folder / "icu").mkdir(parents=True)

    def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
        file = folder / "icu" / (name + (".csv.gz" if packed else ".csv"))
        with gzip.open(file, "wt", newline="") if packed else file.open("w", newline="") as out:
            csv.writer(out).writerows([header, *rows])

    write(
        "icustays",
        ["subject_id", "hadm_id", "stay_id", "first_careunit", "last_careunit", "intime", "outtime", "los"],
        [[patient, 2, stay, "Unit", "Unit, second", *times, days] for patient, stay, *times, days in stays],
    )
    # The full set's columns; the text column is what makes types unguessable from the first rows.
    write(
        "chartevents",
        [*CHART_IDS, "charttime", "storetime", "itemid", "value", "valuenum", "valueuom", "warning"],
        [[1, 2, stay, "", time, time, item, 'a "quoted", value', value, "", 0] for stay, time, item, value in events],
    )
    return folder


def plain_cohort(stays: list[StayRow], events: list[Event], min_hours: int = 48) -> dict[str, list[dict[str, float]]]:
    """The processing, one cell at a time: filled hours of each stay that is long enough."""
    cells: dict[str, dict[tuple[int, str], list[float]]] = {}
    for _, stay, begin, end, days in stays:
        if days < 2:
            continue
        found: dict[tuple[int, str], list[float]] = defaultdict(list)
        for owner, time, item, value in events:
            if owner != stay or item not in CHANNEL_OF or value is None or not begin <= time <= end:
                continue
            name, number = CHANNEL_OF[item], (value - 32) * 5 / 9 if item == 223761 else value
            if RANGES[name][0] <= number <= RANGES[name][1]:
                found[int((time - begin).total_seconds() // 3600), name].append(number)
        if found and max(hour for hour, _ in found) + 1 >= min_hours:
            cells[f"stay-{stay}"] = found
    median = {
        name: statistics.median(
            statistics.fmean(values)
            for found in cells.values()
            for (_, channel), values in found.items()
            if channel == name
        )
        for name in RANGES
    }
    filled: dict[str, list[dict[str, float]]] = {}
    for stay_id, found in cells.items():
        hours: list[dict[str, float]] = [{} for _ in range(max(hour for hour, _ in found) + 1)]
        for name in RANGES:
            seen = {hour: statistics.fmean(values) for (hour, channel), values in found.items() if channel == name}
            for hour, row in enumerate(hours):
                before = [past for past in seen if past <= hour]
                if before:
                    row[name] = seen[max(before)]
                else:
                    row[name] = seen[min(seen)] if seen else median[name]
        filled[stay_id] = hours
    return filled


def assert_matches_plain(cohort: Cohort, expected: dict[str, list[dict[str, float]]]) -> None:
    assert sorted(stay.id for stay in cohort.stays) == sorted(expected)
    pooled = np.array([list(hour.values()) for stay in cohort.stays for hour in expected[stay.id]])
    np.testing.assert_allclose(cohort.mean, pooled.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(cohort.scale, pooled.std(axis=0), rtol=1e-12)
    for stay in cohort.stays:
        hours = expected[stay.id]
        np.testing.assert_allclose(stay.vitals, [list(hour.values()) for hour in hours], rtol=1e-13, strict=True)
        np.testing.assert_allclose(stay.keys * cohort.scale + cohort.mean, stay.vitals, rtol=1e-12, strict=True)
        np.testing.assert_array_equal(stay.events, [outside_limits(hour) for hour in hours])


@pytest.fixture
def polars() -> Any:
    return pytest.importorskip("polars", reason="polars comes with the clinical extra")


@pytest.mark.usefixtures("polars")
def test_mimic_iv_is_the_plain_processing(tmp_path: Path) -> None:
    stays, events = mimic_rows()
    cohort = datasets.mimic_iv(write_mimic(tmp_path, stays, events), limit=None)
    assert cohort.flow == {
        "stays": 6,
        "long_enough": 5,
        "drawn": 5,
        "hourly": 4,
        "with_event": 2,
        "with_low_spo2": 1,
    }
    assert_matches_plain(cohort, plain_cohort(stays, events))
    assert [stay.subject for stay in cohort.stays] == [f"patient-{10_000_000 + place}" for place in (0, 0, 2, 2)]
    # In the fifth stay every temperature is the cohort's median.
    unmeasured = cohort.stays[2]
    assert not unmeasured.measured[:, 5].any()
    assert set(unmeasured.vitals[:, 5].tolist()) == {float(cohort.median[5])}
    first = cohort.stays[0]
    assert first.vitals[5, 5] > 38.5
    assert first.events[5]
    assert not first.vitals.flags.writeable
    assert "6 stays → 5 long_enough" in repr(cohort)


@pytest.mark.usefixtures("polars")
def test_mimic_iv_does_not_depend_on_row_order_or_packing(tmp_path: Path) -> None:
    stays, events = mimic_rows()
    packed = datasets.mimic_iv(write_mimic(tmp_path / "packed", stays, events), limit=None)
    random.Random(1).shuffle(events)
    plain = datasets.mimic_iv(write_mimic(tmp_path / "plain", stays, events, packed=False), limit=None)
    for one, other in zip(packed.stays, plain.stays, strict=True):
        assert one.id == other.id
        assert one.keys.tobytes() == other.keys.tobytes()


@pytest.mark.usefixtures("polars")
def test_mimic_iv_draws_as_the_paper_does(tmp_path: Path) -> None:
    stays, events = mimic_rows()
    folder = write_mimic(tmp_path, stays, events)
    long = [f"stay-{stay}" for _, stay, _, _, days in stays if days >= 2]
    order = np.random.RandomState(0).permutation(len(long))
    cohort = datasets.mimic_iv(folder, limit=3, min_hours=1)
    assert [stay.id for stay in cohort.stays] == [long[place] for place in order[:3]]
    assert cohort.flow["drawn"] == 3
    assert len(datasets.mimic_iv(folder, min_hours=1).stays) == 5


@pytest.mark.usefixtures("polars")
def test_unusable_folders_are_input_errors(tmp_path: Path) -> None:
    stays, events = mimic_rows()
    with pytest.raises(InputError, match=r"icu/icustays\.csv\.gz is missing"):
        datasets.mimic_iv(tmp_path)
    folder = write_mimic(tmp_path / "good", stays, events)
    with pytest.raises(InputError, match="none of 5 stays has 500 hours"):
        datasets.mimic_iv(folder, min_hours=500)
    with pytest.raises(InputError, match="limit"):
        datasets.mimic_iv(folder, limit=0)
    with pytest.raises(InputError, match="seed"):
        datasets.mimic_iv(folder, seed=-1)
    only_hr = [event for event in events if event[2] == 220045]
    with pytest.raises(InputError, match="no stay has a reading of sbp, dbp, rr, spo2, temp"):
        datasets.mimic_iv(write_mimic(tmp_path / "hr", stays, only_hr))
    flat = [(stay, time, item, 36.6 if item == 223762 else value) for stay, time, item, value in events]
    flat = [event for event in flat if event[2] != 223761]
    with pytest.raises(InputError, match="temp never changes"):
        datasets.mimic_iv(write_mimic(tmp_path / "flat", stays, flat))
    (folder / "icu" / "chartevents.csv.gz").unlink()
    with pytest.raises(InputError, match=r"icu/chartevents\.csv\.gz is missing"):
        datasets.mimic_iv(folder)
    for damage in (
        "stay_id,charttime,itemid\n",
        f"stay_id,charttime,itemid,valuenum\n{stays[0][1]},yesterday,220045,80\n",
        f"stay_id,charttime,itemid,valuenum\n{stays[0][1]},{stays[0][2]},220045,high\n",
    ):
        (folder / "icu" / "chartevents.csv").write_text(damage)
        with pytest.raises(InputError, match="cannot be read"):
            datasets.mimic_iv(folder)


@pytest.mark.parametrize("load", [datasets.mimic_iv, datasets.physionet2019])
def test_without_polars_the_extra_is_named(load: Callable[..., Cohort], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"expunge\[clinical\]"):
        load("anywhere")


CHALLENGE_COLUMNS = ["HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp"]
Reading = dict[str, float]


def challenge_rows() -> dict[int, dict[int, Reading]]:
    """Rows by patient and ICULOS hour; a missing reading is NaN."""
    dice = random.Random(7)
    patients: dict[int, dict[int, Reading]] = {}
    for patient, (first, last) in {100003: (1, 60), 100001: (4, 50), 100002: (1, 20)}.items():
        rows = {}
        for hour in range(first, last + 1):
            levels = [80, 97, 37, 120, 80, 60, 18]
            rows[hour] = {
                name: math.nan if dice.random() < 0.3 else round(level * dice.uniform(0.95, 1.03), 2)
                for name, level in zip(CHALLENGE_COLUMNS, levels, strict=True)
            }
        patients[patient] = rows
    patients[100001][9]["O2Sat"] = 85.0
    patients[100003][9]["HR"] = 999.0
    return patients


def write_challenge(folder: Path, patients: dict[int, dict[int, Reading]]) -> Path:
    for patient, rows in patients.items():
        file = folder / f"set{patient % 2}" / f"p{patient}.psv"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="") as out:
            writer = csv.writer(out, delimiter="|")
            writer.writerow([*CHALLENGE_COLUMNS, "ICULOS", "SepsisLabel"])
            writer.writerows(
                [*("NaN" if math.isnan(x) else x for x in row.values()), hour, 0] for hour, row in rows.items()
            )
    return folder


def challenge_as_mimic(patients: dict[int, dict[int, Reading]]) -> tuple[list[StayRow], list[Event]]:
    """The same readings as chart events, so that one plain processing serves both."""
    items = {"HR": 220045, "O2Sat": 220277, "Temp": 223762, "SBP": 220050, "DBP": 220051, "Resp": 220210}
    end = ADMITTED + timedelta(days=9)
    stays = [(patient, patient, ADMITTED, end, 9.0) for patient in sorted(patients)]
    events: list[Event] = [
        (patient, ADMITTED + timedelta(hours=hour - 1), items[name], value)
        for patient, rows in patients.items()
        for hour, row in rows.items()
        for name, value in row.items()
        if name in items and not math.isnan(value)
    ]
    return stays, events


def test_physionet2019_is_the_plain_processing(tmp_path: Path, polars: Any) -> None:
    patients = challenge_rows()
    folder = write_challenge(tmp_path / "psv", patients)
    cohort = datasets.physionet2019(folder)
    assert cohort.flow == {"stays": 3, "drawn": 3, "hourly": 2, "with_event": 1, "with_low_spo2": 1}
    assert [(stay.id, stay.subject, len(stay)) for stay in cohort.stays] == [
        ("stay-100001", "patient-100001", 50),
        ("stay-100003", "patient-100003", 60),
    ]
    assert_matches_plain(cohort, plain_cohort(*challenge_as_mimic(patients)))
    assert not cohort.stays[0].measured[:3].any()

    rows = [
        {"patient": patient, "hour": hour} | {name: None if math.isnan(x) else x for name, x in row.items()}
        for patient, hours in patients.items()
        for hour, row in hours.items()
    ]
    polars.DataFrame(rows, infer_schema_length=None).write_parquet(tmp_path / "all.parquet")
    again = datasets.physionet2019(tmp_path / "all.parquet")
    for one, other in zip(cohort.stays, again.stays, strict=True):
        assert one.keys.tobytes() == other.keys.tobytes()
    assert datasets.physionet2019(folder, limit=2, min_hours=1).flow["drawn"] == 2


def test_unusable_challenge_files_are_input_errors(tmp_path: Path, polars: Any) -> None:
    with pytest.raises(InputError, match="neither a Parquet file nor a folder"):
        datasets.physionet2019(tmp_path)
    with pytest.raises(InputError, match="neither a Parquet file nor a folder"):
        datasets.physionet2019(tmp_path / "absent")
    (tmp_path / "noise.parquet").write_bytes(b"PAR0")
    with pytest.raises(InputError, match="cannot be read"):
        datasets.physionet2019(tmp_path / "noise.parquet")
    frame = {"patient": [1, 1], "hour": [0, 1]} | {name: [80.0, 81.0] for name in CHALLENGE_COLUMNS}
    for patch, message in (
        ({}, "ICULOS starts at 1"),
        ({"patient": [1, None], "hour": [1, 2]}, "rows without a patient"),
        ({"hour": [1, None]}, "rows without a patient or an hour"),
    ):
        polars.DataFrame(frame | patch).write_parquet(tmp_path / "rows.parquet")
        with pytest.raises(InputError, match=message):
            datasets.physionet2019(tmp_path / "rows.parquet")
    polars.DataFrame(frame).drop("Temp").write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="cannot be read"):
        datasets.physionet2019(tmp_path / "rows.parquet")
    (tmp_path / "unnumbered.psv").write_text("|".join([*CHALLENGE_COLUMNS, "ICULOS"]) + "\n1|1|1|1|1|1|1|1\n")
    with pytest.raises(InputError, match="rows without a patient"):
        datasets.physionet2019(tmp_path)
