from __future__ import annotations

import numpy as np

from expunge.audit.context_selection.patient_deletion import delete_patients
from expunge.datasets import Stay, icu_stays


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
