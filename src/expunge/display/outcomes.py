"""What the outcome of an edit means, in one plain line each: for the command line, notebooks and receipts."""

from __future__ import annotations

from typing import Final

__all__ = ["ERASING", "OUTCOMES"]

OUTCOMES: Final = {
    "created": "fitted, checked and stored",
    "admitted": "added, the rest recomputed and checked",
    "certified_zero": "removed; the removed weights were zero, so nothing that the memory says has changed",
    "decrement": "removed, the rest recomputed and checked",
    "refitted": "removed; too few entries were left for the old cap, so the rest was fitted again at a larger one",
    "emptied": "the last entries were removed: the memory is empty",
    "rescued": "the first path failed the check; a stricter solve passed it",
    "refused": "nothing was changed",
    "noop": "there was nothing to do",
    "pruned": "entries proved to weigh nothing were set aside, under warranty",
    "rebuilt": "solved afresh at a new cap or width, which is a different reference",
    "expired": "certificates of pruned entries have expired or ended",
    "restored": "the memory went back to an older state",
}
# Outcomes of an edit that removed entries for good.
ERASING: Final = ("certified_zero", "decrement", "refitted", "emptied")
