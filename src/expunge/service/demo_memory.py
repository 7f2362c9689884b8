"""The store that `expunge serve --demo` shows: the demo's, with one memory more that fits on paper.

The demo's own memories have keys of many coordinates. ``icu-plane`` has two, heart rate and respiratory rate of the
same hours, so that the boundary itself can be drawn.
"""

from __future__ import annotations

from expunge.store import Store

__all__ = ["PLANE", "add_plane"]

PLANE = "icu-plane"
_CHANNELS = ("hr", "rr")


def add_plane(store: Store) -> None:
    """Put the memory of two coordinates into a store that does not have it."""
    if PLANE in store:
        return
    from expunge.datasets import icu_hours

    hours = icu_hours()
    columns = [hours.key_names.index(channel) for channel in _CHANNELS]
    given = hours.arguments | {"keys": hours.keys[:, columns], "sigma": 1.5, "nu": 0.1}
    store.create(PLANE, **given)
