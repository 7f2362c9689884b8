"""The entries of one version as a table: columns for a data frame, and the card that a notebook shows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from expunge.display.card import LISTED, Card, counted
from expunge.memory.version import Version
from expunge.preprocessing.preprocessing import Column
from expunge.problem.partition import Partition

__all__ = ["GROUPS", "frame_columns", "group_names", "key_columns", "version_card"]

# What a group says of an entry, for people.
GROUPS: Final = {
    "margin": "carries weight, on the boundary",
    "bound": "carries all the weight that the cap allows",
    "reserve": "carries no weight now",
}


def group_names(version: Version) -> list[str]:
    """Margin, bound or reserve, in row order."""
    groups = Partition.of(version.coefficients, version.state.cap)
    names = np.full(version.size, "reserve", dtype="<U7")
    names[groups.margin], names[groups.bound] = "margin", "bound"
    listed: list[str] = names.tolist()
    return listed


def key_columns(version: Version) -> tuple[Column, ...]:
    """Columns of the keys, in order; `k0`, `k1`, ... where they have no names."""
    return version.preprocessing.keys or tuple(Column(f"k{place}") for place in range(version.keys.shape[1]))


def frame_columns(version: Version) -> dict[str, Any]:
    """Columns of a data frame with every entry, live ones first, then the archive."""
    archive = version.warranties.archive
    keys = np.vstack([version.keys, *(entry.key for entry in archive.values())])
    values = np.vstack([version.values, *(version.entries.values[entry.slot] for entry in archive.values())])
    columns: dict[str, Any] = {
        "id": [*version.ids, *archive],
        "subject": [*version.subjects, *(entry.subject for entry in archive.values())],
        "weight": np.append(version.coefficients, np.zeros(len(archive))),
        "group": [*group_names(version), *("reserve" for _ in archive)],
        "archived": np.arange(len(keys)) >= version.size,
    }
    numbers = version.preprocessing.to_measurements(keys) if version.preprocessing.keys else keys
    for place, column in enumerate(key_columns(version)):
        columns[f"{column.name} (key)" if column.name in columns else column.name] = numbers[:, place]
    named = version.preprocessing.values or [Column(f"v{place}") for place in range(values.shape[1])]
    for place, column in enumerate(named):
        columns[f"{column.name} (value)" if column.name in columns else column.name] = values[:, place]
    return columns


def version_card(title: str, version: Version) -> Card:
    """What a notebook shows of a memory: sizes in words, the heaviest entries, and the settings."""
    names, state, check = group_names(version), version.state, version.known_check
    owners = len(set(version.subjects) - {None})
    of = f" of {counted(owners, 'subject')}" if owners else ""
    weights = version.coefficients
    heaviest = np.argsort(-weights, kind="stable")[:LISTED].tolist()
    archived, forgotten = len(version.warranties.archive), len(version.warranties.forgotten)
    active = int(np.count_nonzero(weights))
    carry = "carries" if active == 1 else "carry"
    sentence = f"{counted(version.size, 'entry')}{of}; {active} {carry} weight"
    return Card(
        title=title,
        sentence=sentence if version.size else "it is empty: no entry is live",
        rows=(
            *((group, f"{counted(names.count(group), 'entry')}: {about}") for group, about in GROUPS.items()),
            ("pruned", f"{archived} kept aside, {forgotten} forgotten" if archived or forgotten else ""),
            ("can be deleted", f"{version.deletable} before the cap changes; more at a larger cap"),
        )
        if version.size
        else (),
        columns=("heaviest entries", "subject", "weight", "group") if version.size else (),
        listing=tuple(
            (version.ids[row], version.subjects[row] or "", f"{weights[row]:.4g}", names[row]) for row in heaviest
        ),
        more=max(0, version.size - LISTED),
        details=(
            ("dimension", f"keys of {version.keys.shape[1]}, values of {version.values.shape[1]}"),
            ("width σ", f"{state.gram.sigma:g}"),
            ("cap C", f"{state.cap:.6g}"),
            ("offset ρ", f"{state.offset:.6g}"),
            (
                "check",
                "at the first edit"
                if check is None
                else f"worst error {check.worst:.1e}, allowed {check.tolerance:.0e}",
            ),
            ("state", version.digest),
        ),
    )
