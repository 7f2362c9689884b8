"""A card: what an object is, in plain words first, then a small table, and the numbers folded away.

The HTML is one fragment with inline styles. It sets no text colour and no background, so it reads in light and in dark
notebooks. Every text is escaped: ids, subjects and payloads come from users and may contain markup.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["LISTED", "Card", "Displayed", "counted"]

Rows = tuple[tuple[str, str], ...]

# Longer texts are cut: an id may have any length.
LONGEST: Final = 200
# A longer listing is cut.
LISTED: Final = 10
_LINE: Final = "1px solid rgba(128,128,128,.35)"
_CELL: Final = "padding:.15em .9em .15em 0;vertical-align:top;text-align:{align};border:0;background:transparent"
_QUIET: Final = "opacity:.7"


@dataclass(frozen=True)
class Card:
    """What an object shows of itself.

    Parameters
    ----------
    title : str
        What the object is, in a few words.
    sentence : str
        What it means, for a reader who is no mathematician.
    rows : tuple of (str, str)
        Names and texts. A row without text is left out.
    columns : tuple of str
        Header of the listing; empty where there is none.
    listing : tuple of tuple of str
        Rows under the header.
    more : int
        Rows that are not listed.
    details : tuple of (str, str)
        Technical details, folded away.

    """

    title: str
    sentence: str
    rows: Rows = ()
    columns: tuple[str, ...] = ()
    listing: tuple[tuple[str, ...], ...] = ()
    more: int = 0
    details: Rows = ()

    def html(self) -> str:
        """The card as one HTML fragment."""
        parts = [f'<div style="font-weight:600">{_text(self.title)}</div>', f"<div>{_text(self.sentence)}</div>"]
        parts.append(_fields(self.rows))
        if self.columns:
            head = "".join(
                f'<th style="{_style(self, place)};{_QUIET}">{_text(name)}</th>'
                for place, name in enumerate(self.columns)
            )
            body = "".join(
                f'<tr style="background:transparent;border-top:{_LINE}">'
                + "".join(f'<td style="{_style(self, place)}">{_text(cell)}</td>' for place, cell in enumerate(row))
                + "</tr>"
                for row in self.listing
            )
            parts.append(_table(f'<thead><tr style="background:transparent">{head}</tr></thead><tbody>{body}</tbody>'))
            if self.more:
                parts.append(f'<div style="{_QUIET}">and {self.more:,} more</div>')
        details = _fields(self.details)
        if details:
            parts.append(
                f'<details><summary style="cursor:pointer;{_QUIET}">technical details</summary>{details}</details>'
            )
        inner = "".join(part for part in parts if part)
        return f'<div style="display:inline-block;max-width:60em;padding:.4em 0;line-height:1.45">{inner}</div>'

    def text(self) -> str:
        """Title and sentence in one line."""
        return f"{self.title}: {self.sentence}"


class Displayed:
    """An object with a card, for notebooks."""

    @abstractmethod
    def _card(self) -> Card:
        """What the object shows of itself."""

    def _repr_html_(self) -> str:
        """The card as HTML; IPython and Jupyter ask for it."""
        return self._card().html()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The HTML, and one line of text, which a notebook stores beside it; neither names what was erased."""
        card = self._card()
        return {"text/html": card.html(), "text/plain": card.text()}


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number and its noun: 1 entry, 2 entries."""
    if many is None:
        many = one[:-1] + "ies" if one.endswith("y") and one[-2] not in "aeo" else one + "s"
    return f"{count} {one if count == 1 else many}"


def _fields(rows: Rows) -> str:
    cell = _CELL.format(align="left")
    cells = "".join(
        f'<tr style="background:transparent"><th style="{cell};font-weight:400;white-space:nowrap;{_QUIET}">'
        f'{_text(name)}</th><td style="{cell}">{_text(value)}</td></tr>'
        for name, value in rows
        if value
    )
    return _table(f"<tbody>{cells}</tbody>") if cells else ""


def _table(inner: str) -> str:
    return f'<table style="border-collapse:collapse;margin:.3em 0;border:0;font-size:inherit">{inner}</table>'


def _style(card: Card, place: int) -> str:
    """Numbers stand to the right."""
    cells = [row[place] for row in card.listing]
    numbers = bool(cells) and all(cell and (cell[0].isdigit() or cell[0] in "-+−") for cell in cells)
    return _CELL.format(align="right" if numbers and place else "left")


def _text(text: str) -> str:
    return escape(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
