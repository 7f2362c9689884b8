"""Documentation is tested: the README's example runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import get_args

import pytest

ROOT = Path(__file__).parent.parent


def examples(path: Path) -> list[tuple[str, str]]:
    """Python blocks that are followed by the text they print."""
    return re.findall(r"```python\n(.*?)```\s*```text\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


WITH_EXAMPLES = [path for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]) if examples(path)]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.name)
def test_examples_print_what_they_say(path: Path) -> None:
    for code, printed in examples(path):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(path), "exec"), {"__name__": "example"})  # noqa: S102
        assert out.getvalue().strip() == printed.strip()


def test_the_first_pages_have_examples() -> None:
    assert {"README.md", "quickstart.md", "library.md"} <= {path.name for path in WITH_EXAMPLES}


def test_links_lead_somewhere() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_no_document_speaks_of_a_make_target_that_is_not_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"`make ([a-z-]+)", path.read_text(encoding="utf-8")):
            assert target in targets, f"{path.name}: make {target}"


def test_tables_are_the_benchmarks() -> None:
    from summary import PLACES, renewed

    for page, name, make in PLACES:
        text = page.read_text(encoding="utf-8")
        assert renewed(text, name, make()) == text, page.name


def test_the_classes_of_lies_are_those_that_were_told() -> None:
    """The record is that of the present lies and leaves, and the documents quote it."""
    from expunge.ledger.event import Kind
    from expunge.ledger.receipt_format import Outcome
    from ledgers.lies import LIES

    record = json.loads((ROOT / "benchmarks" / "results" / "lies.json").read_text(encoding="utf-8"))
    told = record["lies"]["counts"]
    assert told.keys() == LIES.keys(), "make lies"
    assert {*record["stores"].get("kinds", ())} == {*get_args(Kind), *get_args(Outcome)}, "make lies"
    assert not any(record[part]["failures"] for part in ("lies", "model", "stores", "postgres"))
    for name in ("docs/threat-model.md", "CHANGELOG.md"):
        found = re.findall(r"(\d+) classes(?: of lies)?\b", (ROOT / name).read_text(encoding="utf-8"))
        assert found == [str(len(told))], name


def test_the_erasures_that_nothing_blocked_are_those_of_the_record() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "never_blocked.json").read_text(encoding="utf-8"))
    text = " ".join((ROOT / "docs" / "limits.md").read_text(encoding="utf-8").split())
    assert record["complete"] + record["held"] == record["erasures"]
    assert (
        f"`make never-blocked`, {record['stores']:,} random stores, {record['complete']:,} of {record['erasures']:,} "
        f"erasures of a subject were complete, and a hold forbade each of the other {record['held']:,}."
    ) in text
