"""A certificate document as one HTML file: the page, the data that it follows from, and a script that finds damage.

The file is a function of its data, but for the modules of the QR code, which need a library to compute. So a verifier
makes the file anew and compares bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from expunge.ledger.certificate.page import Page, words

__all__ = ["QR_PATTERN", "html_file", "main_html", "paper_style", "template"]

# Characters of the facts but the last, beyond which the page is set closer, so that it stays one sheet.
_LONG: Final = 240
_FOLDER: Final = Path(__file__).parent
# Size in modules, and the path that draws them; what a QR code can be in a file.
QR_PATTERN: Final = re.compile(r'viewBox="0 0 ([1-9][0-9]{1,2}) \1"><path d="([Mhvz0-9 -]*)">')


def html_file(page: Page, data: bytes, qr: tuple[int, str]) -> bytes:
    """The whole file; ``qr`` is the size of the QR code and the path of its dark modules."""
    main = main_html(page, qr)
    encoded = base64.b64encode(data).decode("ascii")
    varying = (_escape(page.title), main, _digest(encoded), _digest(main), encoded, "")
    return "".join(fixed + put for fixed, put in zip(template(), varying, strict=True)).encode()


@cache
def template() -> tuple[str, str, str, str, str, str]:
    """Parts that every file has, in order; between them are title, page, digest of data, digest of page, and data."""
    styled, scripted = _style(), _script()
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest64(styled)}'; script-src 'sha256-{_digest64(scripted)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en" translate="no"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>',
        f"</title><style>{styled}</style></head><body>"
        f'<p id="self-check" data-state="unchecked" role="status">{_escape(words()["self_check"]["unchecked"])}</p>',
        '<script id="data" type="text/plain" data-self="',
        '" data-page="',
        '">',
        f'</script><script id="check" type="module">{scripted}</script></body></html>',
    )


def main_html(page: Page, qr: tuple[int, str]) -> str:
    """The page itself, spelled as browsers write it back."""
    heading = words()["heading"]
    rows = "".join(f"<tr>{_cells(row)}</tr>" for row in page.memories)
    columns = "".join(f'<th scope="col">{_escape(name)}</th>' for name in page.columns)
    size, path = qr
    long = ' data-long="true"' if sum(len(text) for _, text in page.facts[:-1]) > _LONG else ""
    return (
        f'<main id="page" data-tone="{page.tone}"{long}><h1>{_escape(page.title)}</h1>'
        f'<p class="lead">{_escape(page.lead)}</p>'
        f'<section class="facts"><h2>{_escape(heading["facts"])}</h2>{_pairs(page.facts)}</section>'
        f'<section class="memories"><h2>{_escape(heading["memories"])}</h2>'
        f"<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"
        f"{_note(page.more)}{_note(page.names)}</section>"
        f'<div class="scope"><section class="covers"><h2>{_escape(heading["covers"])}</h2>{_items(page.covers)}'
        f'</section><section class="excludes"><h2>{_escape(heading["excludes"])}</h2>{_items(page.excludes)}'
        "</section></div>"
        f'<section class="record"><h2>{_escape(heading["record"])}</h2>{_pairs(page.record)}'
        f"{_note(words()['standards'])}</section>"
        f'<section class="check"><h2>{_escape(heading["check"])}</h2>{_items(page.check)}</section>'
        f'<section class="identity"><h2>{_escape(heading["identity"])}</h2>'
        f'<svg role="img" aria-label="{words()["qr"]}" viewBox="0 0 {size} {size}"><path d="{path}"></path></svg>'
        f"{_pairs(page.identity)}</section></main>"
    )


@cache
def paper_style() -> str:
    """The style of the page on paper."""
    return (_FOLDER / "style.css").read_text(encoding="utf-8")


@cache
def _style() -> str:
    """The style of the page, on a screen and on paper."""
    return paper_style() + (_FOLDER / "screen.css").read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The words, and the two scripts that use them, as one module."""
    spoken = json.dumps(words(), ensure_ascii=True, separators=(",", ":"))
    sources = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("page.js", "damage.js"))
    return f"const WORDS = {spoken};\n{''.join(sources)}"


def _pairs(rows: Sequence[Sequence[str]]) -> str:
    inside = "".join(f"<div><dt>{_escape(label)}</dt><dd>{_escape(text)}</dd></div>" for label, text in rows)
    return f"<dl>{inside}</dl>"


def _items(texts: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_escape(text)}</li>' for text in texts)}</ul>"


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{_escape(text)}</td>" for text in row)


def _note(text: str | None) -> str:
    return "" if text is None else f'<p class="note">{_escape(text)}</p>'


def _escape(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("\N{NO-BREAK SPACE}", "&nbsp;")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _digest64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
