from __future__ import annotations

import numpy as np

from expunge import Memory
from expunge.audit.context_selection.event_hours import eligible, load_stays, measure_stays, stay_view
from expunge.datasets import CHANNELS, Stay, icu_stays

SPO2 = CHANNELS.index("spo2")


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
