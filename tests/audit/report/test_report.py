"""The report: filled from audit results, self-contained, escaped, and the README's table made from its results."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.small_audits import made
from expunge import Memory
from expunge.audit.own_keys import own_plan
from expunge.audit.report.figures import _agreement, _projection, _styled
from expunge.audit.report.html_page import as_html
from expunge.audit.report.readme_table import BEGIN, END, insert_block, readme_block
from expunge.audit.report.report import Report, as_markdown, fill, summarize_results, write_report
from expunge.audit.results import AuditResults
from expunge.errors import ExpungeError, InputError, StoreError
from expunge.service.settings import Settings, report_page
from service.service_client import ServiceClient, fill_store

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "benchmarks" / "results" / "audit.json"


@pytest.fixture(scope="module")
def written(small_results: AuditResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    paths = write_report(small_results.path, out)
    assert paths[0] == out / "report.html"
    assert all(path.stat().st_size for path in paths)
    return out


@pytest.fixture(scope="module")
def found(written: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((written / "results.json").read_text(encoding="utf-8"))
    return loaded


def row(report: Report, table: str, group: str, label: str) -> Any:
    filled = next(one for one in report.tables if one.table.name == table)
    return next(one for one in filled.rows if one.group == group and one.label == label)


def test_the_summary_has_the_numbers_of_the_results(small_results: AuditResults, found: dict[str, Any]) -> None:
    assert found == json.loads(json.dumps(summarize_results(small_results)))
    for name, one in found["experiments"].items():
        numbers = small_results.numbers(name)
        assert one["numbers"] == {key: numbers[key] for key in one["numbers"]}
        assert one["digest"] == small_results.manifest(name)["digest"]
        assert one["versions"]["numpy"]
    assert len(json.dumps(found)) < 100_000


def test_a_row_is_the_paper_beside_both_arms(small_results: AuditResults, found: dict[str, Any]) -> None:
    report = fill(found)
    cell = row(report, "table-3", "Gaussian", "gate-score difference, worst")
    frame = small_results.table("deletion", "comparisons")
    for arm, against, text in (("classic", "refit", cell.classic), ("ours", "daqp", cell.ours)):
        rows = frame.filter((frame["regime"] == "gaussian") & (frame["arm"] == arm) & (frame["against"] == against))
        assert float(text) == pytest.approx(max(rows["score_difference"]), rel=0.05)
    assert cell.paper == "6.4e-3"
    assert cell.improvement == "better"
    assert report.quick


def test_a_reason_is_given_where_digits_differ_and_only_there(found: dict[str, Any]) -> None:
    for filled in fill(found).tables:
        for one in filled.rows:
            differs = one.reproduction in ("consistent", "differs") or one.improvement in (
                "consistent",
                "differs",
                "worse",
            )
            assert bool(one.why) == differs, one
            assert not one.why or filled.reasons[one.why] in "abcdefgh"


def test_verdicts_follow_the_numbers(found: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(found))
    numbers = changed["experiments"]["deletion"]["numbers"]
    numbers["gaussian/ours/daqp/score_difference/max"] = 0.5
    numbers["gaussian/classic/refit/score_difference/max"] = 6.41e-3
    report = fill(changed)
    cell = row(report, "table-3", "Gaussian", "gate-score difference, worst")
    assert (cell.reproduction, cell.improvement, cell.difference) == ("reproduced", "worse", "78× larger")
    assert not all(claim.holds for claim in report.claims)
    assert "does not hold" in as_markdown(report)


class Reader(HTMLParser):
    """Collects what a page refers to and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value:
                self.references.append(value)
            if name == "id" and value:
                self.ids.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    for reference in reader.references:
        assert reference.startswith("data:image/svg+xml;base64,") or reference.removeprefix("#") in reader.ids
    assert "<script" not in text
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", text.split("</style>")[0])
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


def test_the_page_and_the_markdown_tell_the_same(written: Path, found: dict[str, Any]) -> None:
    page, markdown = ((written / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    report = fill(found)
    for filled in report.tables:
        assert f"## {filled.table.title}" in markdown
        for one in filled.rows:
            assert f"| {' | '.join((one.label, *filled.cells(one)))} |" in markdown
    for text in ("6.4e-3", "What must hold", "Warranty survival"):
        assert text in page
        assert text in markdown
    for link in re.findall(r"\]\((figures/[^)]+)\)", markdown):
        assert (written / link).exists()


def test_what_comes_from_results_is_escaped(found: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(found))
    changed["experiments"]["deletion"]["command"] = "<script>alert(1)</script>"
    changed["experiments"]["deletion"]["versions"]["numpy"] = "<b>2"
    page = as_html(fill(changed), [])
    assert "<script" not in page
    assert "<b>2" not in page
    assert "&lt;script&gt;" in page


def test_a_report_on_part_of_the_audits(found: dict[str, Any]) -> None:
    part = {"format": found["format"], "experiments": {"expiry": found["experiments"]["expiry"]}}
    report = fill(part)
    assert [filled.table.name for filled in report.tables] == ["example-1"]
    assert {claim.experiment for claim in report.claims} == {"expiry"}
    assert "Example 1" in as_html(report, [])
    assert "promises hold" in readme_block(part)


def test_own_keys_are_not_set_beside_the_paper(tmp_path: Path) -> None:
    keys = np.random.default_rng(2).standard_normal((40, 3))
    results = made(tmp_path, "deletion", plan=own_plan(keys, source="mine.npy", quick=True))
    report = fill(summarize_results(results))
    (filled,) = report.tables
    assert filled.table.name == "table-3"
    assert {one.group for one in filled.rows} == {"your keys"}
    for one in filled.rows:
        assert (one.paper, one.reproduction) == ("", "")
        assert one.ours
    assert report.claims
    assert all(claim.holds for claim in report.claims)
    sigma = results.manifest("deletion")["settings"]["keys"]["sigma"]
    command = f"expunge audit deletion --quick --keys mine.npy --sigma {sigma} --nu 0.4"
    assert report.experiments["deletion"]["command"] == command


def test_the_service_shows_what_was_written(written: Path, tmp_path: Path) -> None:
    url, results = f"sqlite:///{tmp_path / 'ward.db'}", tmp_path / "results"
    shutil.copytree(written, results / "report")
    fill_store(url)
    for given in (written, written / "report.html", results):
        service = ServiceClient(Settings(url=url, report=report_page(given)))
        with service.client:
            link = service.request("GET", "/v1/report", scopes=("audit",), status=200)["url"]
            assert service.client.get(link).content == (written / "report.html").read_bytes()
    with pytest.raises(InputError, match="no report"):
        report_page(tmp_path)


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExpungeError):
        write_report(tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(InputError, match="no finished audit"):
        write_report(tmp_path, tmp_path / "out")


def test_a_report_that_cannot_be_written_says_so(small_results: AuditResults, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(StoreError, match=r"cannot write the report to .*taken"):
        write_report(small_results.path, tmp_path / "taken")


def test_the_readmes_block_is_made_from_the_results(found: dict[str, Any]) -> None:
    text = readme_block(found)
    report = fill(found)
    worst = row(report, "table-3", "Gaussian", "gate-score difference, worst")
    match = row(report, "table-3", "Gaussian", "partition as in the refit")
    assert f"| Gaussian | 6.4e-3; 296/300 | {worst.classic}; {match.classic} | {worst.ours}; {match.ours} |" in text
    page = insert_block(f"# x\n\n{BEGIN}\nold\n{END}\n\nrest\n", found)
    assert page == f"# x\n\n{BEGIN}\n\n{text}\n\n{END}\n\nrest\n"
    assert insert_block(page, found) == page
    with pytest.raises(InputError, match="no place"):
        insert_block("# x", found)


def test_the_readme_shows_the_committed_results() -> None:
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    report = fill(committed)
    assert not report.quick
    assert [claim.text for claim in report.claims if not claim.holds] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.split(BEGIN)[1].split(END)[0].strip() == readme_block(committed)


def test_a_report_on_own_keys_begins_with_the_rows(tmp_path: Path) -> None:
    keys = np.random.default_rng(4).standard_normal((60, 2))
    keys[7] = keys[3]
    plan = own_plan(keys, source="<b>mine.csv", quick=True, names=("hr", "temp"))
    results = made(tmp_path / "audit", "rows", "deletion", plan=plan)
    write_report(results.path, tmp_path / "report")
    markdown, page = ((tmp_path / "report" / name).read_text("utf-8") for name in ("report.md", "report.html"))
    memory = Memory.fit(keys, np.zeros(60), sigma=plan.sigma or 0.0, nu=plan.nu)
    groups = memory.partition
    answers = dict(fill(summarize_results(results)).answers)
    assert answers["your data"] == "<b>mine.csv: 60 rows; 1 of them repeat another row"
    assert answers["columns"] == "2: hr, temp"
    assert f"{groups.margin.size} on the boundary, and {groups.bound.size} with all" in answers["carry weight"]
    assert answers["can go"].startswith(f"{memory.deletable} rows")
    assert "arrived" in answers["certificates"]
    assert markdown.index("## Your rows") < markdown.index("## What must hold")
    for text in (markdown, page):
        assert "paper" not in text.split("What must hold")[1].split("Figures")[0].split("<figure")[0]
        assert "Table 3" not in text
        assert "certificates-of-rows" in text
    assert "<b>mine" not in page
    assert "| +0 |" not in markdown
    assert "mine.csv' --key-columns hr,temp --sigma" in markdown


def test_own_keys_are_drawn_once(tmp_path: Path) -> None:
    keys = np.random.default_rng(4).standard_normal((60, 2))
    results = made(tmp_path, "deletion", "projection", plan=own_plan(keys, source="mine.csv", quick=True))
    for draw, panels in ((_agreement, 1), (_projection, 1)):
        with _styled() as pyplot:
            drawn = draw(results, pyplot)
            assert drawn is not None
            figure = drawn[0]
            assert len(figure.axes) == panels
            assert len(figure.axes[0].get_xticklabels()) in (1, 7)
            pyplot.close(figure)
