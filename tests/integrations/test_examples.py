"""Every script and notebook in `examples/` runs, in a folder of its own, and says what it should."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import nbformat
import pytest

from run_notebook import comparable, executed

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOK = EXAMPLES / "your_own_data.ipynb"

SAYS = {
    "erase_a_patient": ["72 of 864 hours", "erased: 72 hours, decrement", "alike: True", "72 entries, 792 left"],
    "forget_a_user_in_an_agent": [
        r"before: \['I drink green tea in the morning'",
        "3 notes of ann, complete: True",
        r"after:  \['I would rather have coffee than tea'",
        "2 notes left",
    ],
    "watch_a_certificate_expire": [
        r"c is forgotten; its slack is 0\.0082",
        "refused: it would end 1 certificate",
        r"\{'expired': \['c'\]\}",
        "c is expired",
        r"certified again: \{'renewed': \['c'\]\}",
        "a was live when c was forgotten, so without a the certificate of c has ended",
        r"after  1 admissions (\d+) of \1 certificates",
        r"after 25 admissions [12]?\d of \d\d certificates",
    ],
    "audit_your_embeddings": [r"own +ours +against daqp +(\d+) of \1, partitions \1 of \1", "verified .*numbers ✓"],
    "certify_a_trained_layer": [
        "frozen: 2 heads of 24 tokens, every condition to 1e-12: True",
        r"proofs: \['proved', 'proved'\]; training's weights are within 0.01: True",
        "right about 8 of 8 records",
        r"deleted record-3: \['decrement, 3 tokens', 'decrement, 3 tokens'\]",
        r"(?:weighs alike: True\s+(?:a gate.*)?){2}",
        "right about 7 of the 7 others",
        "what stands there is heard: False",
    ],
}


def test_every_example_is_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)
    assert [path.name for path in EXAMPLES.glob("*.ipynb")] == [NOTEBOOK.name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    for wanted in SAYS[name]:
        assert re.search(wanted, said), said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_notebook_ships_with_what_a_clean_kernel_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kept = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    outputs = comparable(executed())
    assert outputs == comparable(kept), "run: python tools/run_notebook.py"
    shown = [output for cell in outputs for output in cell]
    assert sum("image/png" in output for output in shown) >= 5
    said = "".join(output.get("text", "") for output in shown)
    for wanted in ("936 hours of 12 patients", "as if never there: True 858 entries", "name the patient: False"):
        assert wanted in said


def test_a_comparable_notebook_keeps_its_numbers() -> None:
    """Only digests, identifiers and times are masked."""
    text = f"leaf 3 of {'ab' * 32}, memory 1b4e28ba-2fa1-41d2-883f-0016d3cca427, in 0.12 s: 78 entries, +0.104"
    cell = nbformat.from_dict({"outputs": [{"text": text}, {"data": {"image/png": "x", "text/plain": "y 4 ms"}}]})  # type: ignore[no-untyped-call]
    masked = comparable(nbformat.from_dict({"cells": [cell]}))  # type: ignore[no-untyped-call]
    assert masked == [
        [{"text": "leaf 3 of …, memory …, in …: 78 entries, +0.104"}, {"image/png": "", "text/plain": "y …"}]
    ]
