from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from expunge import Memory
from expunge.audit.context_selection.event_hours import eligible, load_stays, measure_stays, stay_view
from expunge.audit.context_selection.patient_deletion import delete_patients
from expunge.audit.context_selection.selection_figures import case_stay, draw_comparison, draw_timeline
from expunge.datasets import CHANNELS, Stay, icu_stays

SPO2 = CHANNELS.index("spo2")


def test_the_shipped_stays_are_the_shipped_hours() -> None:
    from expunge.datasets import icu_hours

    stays, sample = icu_stays(), icu_hours()
    assert [len(stay) for stay in stays] == [78] * 12
    assert np.vstack([stay.keys[:72] for stay in stays]).tobytes() == sample.keys.tobytes()
    assert tuple(stay.subject for stay in stays for _ in range(72)) == sample.subjects
    flags = np.concatenate([stay.events[:72] for stay in stays])
    np.testing.assert_array_equal(flags, sample.values[:, 1].astype(bool))
    first = stays[0]
    assert [not seen for seen in first.measured[0]] == [name in sample.payloads[0]["filled"] for name in CHANNELS]
    assert not first.keys.flags.writeable


def test_the_held_out_channel_is_out() -> None:
    stay = icu_stays()[3]
    keys, events = stay_view(stay, "held out")
    assert keys.shape == (78, 5)
    altered = Stay(stay.id, stay.subject, stay.vitals, stay.measured, stay.keys.copy())
    altered.keys[:, SPO2] = 1e3
    assert stay_view(altered, "held out")[0].tobytes() == keys.tobytes()
    assert events.tolist() == [hour for hour, row in enumerate(stay.vitals) if row[SPO2] < 90.0]
    assert stay_view(stay, "same channel")[0].shape == (78, 6)


def test_retention_of_the_support_set_by_hand() -> None:
    stays, flow = load_stays("shipped", None)
    assert flow == (("stays", 12),)
    places = eligible(stays, "same channel")
    assert places == tuple(place for place, stay in enumerate(stays) if stay.events.any())
    rows = {(row.arm, row.trial): row for row in measure_stays("shipped", None, "same channel", places, "x")}
    for place in places:
        memory = Memory.fit(stays[place].keys, np.zeros(78), sigma=3.0, nu=0.3)
        active = memory.coefficients > 0.0
        events = stays[place].events
        assert rows["support", place].recall == (active & events).sum() / events.sum()
        assert rows["support", place].budget == rows["cover", place].budget == active.sum()
        assert rows["recency", place].recall == events[78 - active.sum() :].sum() / events.sum()
        assert rows["full", place].recall == 1.0


def test_a_deleted_patient_leaves_nothing_and_takes_nobody_along() -> None:
    done = list(delete_patients(icu_stays(), 6))
    assert len(done) == 6
    for one in done:
        assert one.outcome in ("decrement", "certified_zero", "refused")
        if one.outcome == "refused":
            assert one.removed > one.entries * 0.5
            continue
        assert one.weight_before > 0.0
        assert one.weight_after == 0.0
        assert one.others_lost == 0
        assert one.score_difference is not None
        assert one.score_difference < 1e-12


def test_a_patient_with_more_than_the_cap_allows_is_refused_and_counted() -> None:
    rng = np.random.default_rng(0)
    stays = []
    for patient in range(5):
        # The first patient's hours are all different, the others' all the same.
        hours = rng.standard_normal((48, 6)) if patient == 0 else np.full((48, 6), float(patient))
        stays.append(Stay(f"stay-{patient}", f"patient-{patient}", hours, hours > -9.0, hours))
    outcomes = [one.outcome for one in delete_patients(stays, 20)]
    assert "refused" in outcomes
    assert "decrement" in outcomes


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib comes with the plots extra")
    stay = case_stay(icu_stays())
    counts = draw_timeline(stay, tmp_path / "stay.png")
    assert counts["support"] == round(
        {row.arm: row.recall for row in measure_stays("shipped", None, "same channel", [place_of(stay)], "x")}[
            "support"
        ]
        * stay.events.sum()
    )
    arm = {"mean": 0.5, "low": 0.4, "high": 0.6}
    draw_comparison({"one": {"arms": {"cover": arm, "uniform": arm}}}, {"one": "One"}, tmp_path / "arms.png")
    for name in ("stay.png", "arms.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def place_of(stay: Stay) -> int:
    return [one.id for one in icu_stays()].index(stay.id)
