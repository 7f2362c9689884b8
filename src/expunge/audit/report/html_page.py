"""The report as one HTML page that needs nothing else: inline style, figures as data, light and dark, no script.

Nothing is fetched, and a content policy in the page says so. Everything that comes from results is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from expunge.audit.report.report import CHECKED, FilledTable, Report, Row, preface, quick_note

if TYPE_CHECKING:
    from expunge.audit.report.figures import Figure

__all__ = ["as_html"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c6370; --rule: #d9dce1; --paper: #ffffff; --band: #f5f6f8;
  --good: #0b6b3a; --same: #3d5a80; --bad: #a4341b; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa2ad; --rule: #343a43; --paper: #14171b;
  --band: #1c2026; --good: #5fca93; --same: #8fb4e0; --bad: #f0937c; --accent: #6cb9ec; }
  figure img { filter: invert(1) hue-rotate(180deg); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .75rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.75rem 0 .35rem; }
p { max-width: 46rem; margin: .5rem 0; }
.soft, figcaption, .notes { color: var(--soft); }
nav { margin: 1.25rem 0; font-size: .92rem; line-height: 1.9; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, monospace; background: var(--band); padding: .08em .3em;
  border-radius: 3px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; margin: .6rem 0;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .28rem .6rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 15rem; padding-left: 0; }
td.verdict, th.verdict { text-align: left; white-space: normal; min-width: 11rem; }
table.answers td { text-align: left; white-space: normal; }
table.answers td:first-child { color: var(--soft); min-width: 9rem; white-space: nowrap; vertical-align: top; }
tr.group th { padding-top: .9rem; color: var(--ink); text-align: left; }
td.ours { font-weight: 600; }
.good { color: var(--good); } .same { color: var(--same); } .bad { color: var(--bad); }
sup { color: var(--soft); font-size: .75em; line-height: 0; }
.notes { font-size: .84rem; max-width: 56rem; }
figure { margin: 1.5rem 0 2rem; } figure img { width: 100%; max-width: 54rem; height: auto; }
figure.narrow img { max-width: 28rem; }
figcaption { font-size: .87rem; max-width: 46rem; }
@media print { body { max-width: none; padding: 0; } nav { display: none; } h2 { break-after: avoid; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
TONES = {
    "reproduced": "good", "better": "good", "holds": "good", "consistent": "same", "equal": "same", "within": "same",
    "differs": "bad", "worse": "bad",
}  # fmt: skip


def as_html(report: Report, figures: Sequence[Figure]) -> str:
    """Render the report."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Audit report</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            "<h1>Audit report</h1>",
            *_own_rows(report),
            *(f"<p>{_marked(text)}</p>" for text in preface(report)),
            *([f"<p><strong>{escape(quick_note(report))}</strong></p>"] if report.quick else []),
            *_contents(report, figures),
            *_claims(report),
            *(line for filled in report.tables for line in _table(filled)),
            *(line for figure in figures for line in _figure(figure)),
            *_made_with(report),
            "</body>\n</html>\n",
        ]
    )


def _own_rows(report: Report) -> Iterator[str]:
    if not report.answers:
        return
    yield '<h2 id="your-rows">Your rows</h2>\n<div class="scroll"><table class="answers">'
    for question, answer in report.answers:
        yield f"<tr><td>{escape(question)}</td><td>{escape(answer)}</td></tr>"
    yield "</table></div>"
    for warning in report.warnings:
        yield f'<p><strong class="bad">Look at this:</strong> {escape(warning)}.</p>'
    if report.tables:
        yield '<h2 id="tested">How it was tested</h2>'


def _contents(report: Report, figures: Sequence[Figure]) -> Iterator[str]:
    yield "<nav>"
    if report.answers:
        yield '<a href="#your-rows">Your rows</a>'
    if report.claims:
        yield '<a href="#claims">What must hold</a>'
    for filled in report.tables:
        yield f'<a href="#{filled.table.name}">{escape(filled.table.title.split(":")[0])}</a>'
    for figure in figures:
        yield f'<a href="#{figure.name}">Figure: {escape(figure.title.lower())}</a>'
    yield '<a href="#made-with">Made with</a></nav>'


def _claims(report: Report) -> Iterator[str]:
    if not report.claims:
        return
    yield '<h2 id="claims">What must hold</h2>\n<div class="scroll"><table>'
    yield "<tr><th>claim</th><th>measured</th><th>allowed</th><th class=verdict></th></tr>"
    for claim in report.claims:
        tone, word = ("good", "holds") if claim.holds else ("bad", "does not hold")
        yield (
            f"<tr><td>{escape(claim.text)} <span class=soft>({escape(claim.experiment)})</span></td>"
            f"<td class=ours>{escape(claim.measured)}</td><td>{escape(claim.allowed)}</td>"
            f'<td class="verdict {tone}">{word}</td></tr>'
        )
    yield "</table></div>"


def _table(filled: FilledTable) -> Iterator[str]:
    table = filled.table
    yield f'<h2 id="{table.name}">{escape(table.title)}</h2>\n<p class="soft">{escape(table.caption)}</p>'
    heads = "".join(f"<th>{escape(head)}</th>" for head in filled.heads[:-1])
    yield f'<div class="scroll"><table>\n<tr><th></th>{heads}<th class=verdict>verdict</th></tr>'
    group = ""
    for row in filled.rows:
        if row.group != group:
            group = row.group
            yield f'<tr class="group"><th colspan="{len(filled.heads) + 1}">{escape(group)}</th></tr>'
        mark = f"<sup>{filled.reasons[row.why]}</sup>" if row.why else ""
        *others, ours, apart = (f"{escape(text)}</td>" for text in filled.cells(row))
        cells = "".join(f"<td>{text}" for text in others)
        yield (
            f"<tr><td>{escape(row.label)}</td>{cells}<td class=ours>{ours}<td>{apart}"
            f"<td class=verdict>{_verdict(row)}{mark}</td></tr>"
        )
    yield "</table></div>"
    if filled.reasons:
        notes = "; ".join(f"<sup>{letter}</sup> {escape(reason)}" for reason, letter in filled.reasons.items())
        yield f'<p class="notes">{notes}.</p>'


def _verdict(row: Row) -> str:
    words = [(row.reproduction, row.reproduction)]
    words.append((f"ours {row.improvement}" if row.classic and row.improvement else row.improvement, row.improvement))
    return "; ".join(f'<span class="{TONES[key]}">{escape(text)}</span>' for text, key in words if text)


def _figure(figure: Figure) -> Iterator[str]:
    data = base64.b64encode(figure.svg.read_bytes()).decode("ascii")
    narrow = ' class="narrow"' if figure.narrow else ""
    yield f'<figure id="{figure.name}"{narrow}>'
    yield f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{data}">'
    yield f"<figcaption><strong>{escape(figure.title)}.</strong> {escape(figure.caption)}</figcaption></figure>"


def _made_with(report: Report) -> Iterator[str]:
    yield '<h2 id="made-with">Made with</h2>\n<div class="scroll"><table>'
    heads = "".join(f"<th>{head}</th>" for head in ("experiment", "trials", "workers", "seconds", "digest"))
    yield f"<tr>{heads}<th class=verdict>command</th></tr>"
    for name, one in report.experiments.items():
        yield (
            f"<tr><td>{escape(name)}</td><td>{one['scheduled']:,}</td><td>{one['jobs']}</td>"
            f"<td>{one['seconds']:.0f}</td><td><code>{escape(one['digest'][:16])}</code></td>"
            f"<td class=verdict><code>{escape(one['command'])}</code></td></tr>"
        )
    yield "</table></div>"
    yield f"<p>{escape(report.machine)} {escape(report.versions)}</p>"
    yield f"<p>Every state and every number can be checked without the solver: <code>{CHECKED} DIR</code>.</p>"


def _marked(text: str) -> str:
    """Text with its *emphasis*, **strength** and `code` in HTML."""
    out, parts = [], escape(text, quote=False).replace("**", "\0").split("\0")
    for place, part in enumerate(parts):
        pieces = part.split("*")
        part = "".join(f"<em>{piece}</em>" if turn % 2 else piece for turn, piece in enumerate(pieces))
        pieces = part.split("`")
        part = "".join(f"<code>{piece}</code>" if turn % 2 else piece for turn, piece in enumerate(pieces))
        out.append(f"<strong>{part}</strong>" if place % 2 else part)
    return "".join(out)
