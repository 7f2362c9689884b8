"""docs/results/protocols.md against the code: every experiment has its section, with the numbers that the code uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from expunge.audit.context_selection import event_hours, negative_control, patient_deletion, redundancy, text_memory
from expunge.audit.experiments import EXPERIMENTS, expiry, latency, record_edits, regimes, streaming, trajectories
from studies import config, deterioration, forget, student

PAGE = Path(__file__).parents[2] / "docs" / "results" / "protocols.md"
SECTIONS = {
    heading: re.sub(r"\s+", " ", text)
    for heading, _, text in (part.partition("\n") for part in re.split(r"^#+ ", PAGE.read_text("utf-8"), flags=re.M))
}
RUN = config.Run("x", "softmax", config.SHAPES["3m"], (config.Slot(0),))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_section(name: str) -> None:
    assert any(f"`expunge audit {name}`" in text for text in SECTIONS.values())


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("Expiry", [f"C = {expiry.CAP:g}, σ = {expiry.SIGMA:g}"]),
        ("Deletion", [f"{regimes.TRIALS} trials", f"ν = {regimes.NU}, σ = {regimes.SIGMA:g}", f"{regimes.SIZE} keys"]),
        (
            "Deletion",
            [f"default_rng({regimes.SCALAR_SEED})", f"{regimes.JITTER}·N(0, I)", f"first {regimes.FIRST_HOURS}"],
        ),
        ("Projection", [f"default_rng({regimes.VALUE_SEED})"]),
        ("Latency", [", ".join(map(str, latency.SIZES)), f"{latency.TRIALS} trials", f"X = {latency.SPREAD}"]),
        ("Sequential edits", [f"{trajectories.CYCLES} cycles", f"{trajectories.ANCHORS} anchors"]),
        ("Sequential edits", [f"{trajectories.PAPER_SEEDS[0]} to {trajectories.PAPER_SEEDS[-1]}"]),
        (
            "Streaming",
            [f"{streaming.INITIAL} entries, then {streaming.ARRIVALS} arrivals", f"{len(streaming.SEEDS)} seeds"],
        ),
        ("Record edits", [f"{record_edits.TRIALS} trials of {regimes.FACTS} facts", f"C = {regimes.FACTS_CAP}"]),
        ("Record edits", [f"one word of {forget.WORDS}"]),
        ("Skewed redundancy", [f"σ = {redundancy.SIGMA}", f"ν = {redundancy.NU}", f"{redundancy.TRIALS} contexts"]),
        ("Negative control", [f"C = {negative_control.CAP}", f"{negative_control.SEQUENCES} sequences"]),
        ("Event hours", [f"σ = {event_hours.SIGMA:g}", f"ν = {event_hours.NU}"]),
        ("Patient deletion", [f"{patient_deletion.TRIALS} trials", f"ν = {patient_deletion.NU}"]),
        ("Text memory", [f"σ = {text_memory.SIGMA}", f"ν = {text_memory.NU}"]),
        (
            "Deterioration",
            [f"{deterioration.STAYS} stays", f"{deterioration.STEPS} steps", f"{deterioration.SEEDS} seeds"],
        ),
        (
            "Training",
            [f"{RUN.steps:,} steps of {RUN.batch} blocks", f"C = {config.Gate().cap}, σ = {config.Gate().sigma:g}"],
        ),
        ("Training", [f"{student.KEYS} keys and {student.QUERIES} queries", f"C = {student.CAP}"]),
    ],
)
def test_the_page_has_the_numbers_of_the_code(section: str, told: list[str]) -> None:
    assert [words for words in told if words not in SECTIONS[section]] == []
