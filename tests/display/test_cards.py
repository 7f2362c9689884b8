"""What objects show in a notebook: plain words, no markup of anybody's, and nothing that was erased."""

from __future__ import annotations

from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

import expunge
from expunge import Memory
from expunge.display.card import Card

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
KNOWN = {"div", "table", "tbody", "thead", "tr", "th", "td", "details", "summary"}


class Tags(HTMLParser):
    """Every tag and attribute of a fragment, and whether tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.said = StringIO()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.write(data)


def shown(thing: Any) -> str:
    """The text of what a notebook shows; the HTML is checked on the way."""
    found = Tags(thing._repr_html_())
    assert not found.open
    assert set(found.tags) <= KNOWN
    assert found.attributes <= {"style"}
    return found.said.getvalue()


def stored_in_a_notebook(thing: Any) -> str:
    """Everything that Jupyter writes to a file of an object that a cell ends with."""
    found: dict[str, str] = DisplayFormatter().format(thing)[0]  # type: ignore[no-untyped-call]
    assert set(found) == {"text/html", "text/plain"}
    return "".join(found.values())


def memory_of(names: list[str], subjects: list[str] | None = None) -> Memory:
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((len(names), 2))
    return Memory.fit(
        keys, keys[:, 0], sigma=1.5, nu=0.3, ids=names, subjects=subjects, payloads=[HOSTILE] * len(names)
    )


@pytest.fixture
def hostile() -> Memory:
    return memory_of([f"{row}{HOSTILE}" for row in range(30)], [f"{HOSTILE}{row % 4}" for row in range(30)])


def test_a_memory_shows_its_heaviest_entries_as_text(hostile: Memory) -> None:
    said = shown(hostile)
    assert "30 entries of 4 subjects" in said
    assert HOSTILE in said
    assert "and 20 more" in said


def test_an_empty_memory_says_so() -> None:
    assert "empty" in shown(Memory.fit(np.zeros((0, 2)), np.zeros((0, 1)), sigma=1.0, nu=0.5))


def test_certificates_and_warranties_escape_ids(hostile: Memory) -> None:
    active, idle = int(np.argmax(hostile.coefficients)), int(np.argmin(hostile.coefficients))
    assert "as a fresh fit of the others would" in shown(hostile.certificate(hostile.ids[active]))
    assert "removing it now changes no readout" in shown(hostile.certificate(hostile.ids[idle]))
    shown(hostile.prune("archive"))
    rows = hostile.warranties()
    assert HOSTILE in shown(rows)
    assert "valid" in shown(rows)
    assert HOSTILE in shown(rows[0])


def test_a_receipt_of_a_deletion_does_not_name_what_is_gone(hostile: Memory) -> None:
    receipt = hostile.delete(subject=f"{HOSTILE}1")
    said = shown(receipt)
    assert "removed, the rest recomputed and checked" in said
    assert f"{len(receipt.applied)} entries" in said
    assert "alert" not in stored_in_a_notebook(receipt)


def test_a_receipt_of_an_admission_names_the_entry() -> None:
    memory = memory_of([f"e{row}" for row in range(12)])
    assert HOSTILE in shown(memory.admit([0.0, 0.0], [1.0], id=HOSTILE))


def test_a_refusal_says_why(hostile: Memory) -> None:
    hostile.prune("forget")
    far = [[9.0, 9.0]] * 30
    with pytest.raises(expunge.AdmissionRefused) as refused:
        hostile.admit_many(far, [0.0] * 30, on_expiry="refuse")
    assert "nothing was changed" in shown(refused.value.receipt)
    assert "would end warranties" in shown(refused.value.receipt)


def test_a_report_on_a_fit_shows_its_warnings(hostile: Memory) -> None:
    said = shown(hostile.report())
    assert "of use" in said
    assert "can be deleted" in said
    few = memory_of(["a", "b", "c"]).report()
    assert few.warnings[0] in shown(few)


def test_bounds_and_proofs(hostile: Memory) -> None:
    assert "of the exact optimum's" in shown(hostile.bounds())
    assert "every weight is the nearest double" in shown(hostile.prove())


def test_a_store_shows_memories_previews_and_erasures(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    with expunge.open(f"sqlite:///{tmp_path / 'x.db'}") as store:
        names, owners = [f"{HOSTILE}{row}" for row in range(20)], [f"{HOSTILE}{row % 5}" for row in range(20)]
        memory = store.create(
            "ward", rng.standard_normal((20, 2)), rng.standard_normal(20), sigma=1.0, nu=0.4, ids=names, subjects=owners
        )
        assert "Memory 'ward' of a store" in shown(memory)
        preview = memory.delete(names[0], dry_run=True)
        assert "nothing was changed" in shown(preview)
        assert names[0] in shown(preview)
        receipt = memory.delete(names[0])
        assert "alert" not in stored_in_a_notebook(receipt)
        assert f"leaf {receipt.index}" in shown(receipt)
        done = store.erase_subject(owners[1])
        assert "nothing of the subject is left" in shown(done)
        assert "alert" not in stored_in_a_notebook(done)


def test_a_long_text_is_cut() -> None:
    assert len(Card("t" * 5000, "s").html()) < 1000
