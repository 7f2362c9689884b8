"""Copies of entries in other systems: written through, deleted through, and searched for what is left.

A :class:`Mirror` is one place in another system, such as a Chroma collection; :mod:`expunge.mirrors.removal` deletes
entries from it and says what is left. A store keeps a mirror in step (:mod:`expunge.store.mirroring`), and
``expunge scan`` searches a system that no store writes to (:mod:`expunge.mirrors.scan`). Nothing here knows a store.
Each adapter needs the extra of its own system, and imports it when it is opened. Start with `mirror.py`.
"""

from expunge.mirrors.address import Address, open_mirror
from expunge.mirrors.mirror import TAG, Copy, Doomed, Mirror
from expunge.mirrors.removal import FINDINGS, Checks, Finding, Removal, remove_entries

__all__ = [
    "FINDINGS",
    "TAG",
    "Address",
    "Checks",
    "Copy",
    "Doomed",
    "Finding",
    "Mirror",
    "Removal",
    "open_mirror",
    "remove_entries",
]
