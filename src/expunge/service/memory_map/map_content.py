"""A memory as a map: every entry a point in the plane, and where there are two dimensions, the boundary itself.

With two coordinates the map shows them as they are. With more it shows the two directions in which the live keys
spread most (principal components, computed without chance, signs fixed), so the same version always gives the same
map. A point of the plane can be lifted back to a key, to ask a question there. Entries whose content is gone have no
place on it: forgotten ones are named, and of erased ones there is nothing left but the commitment in their receipt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from expunge.ledger.receipt_parsing import parse_predicate
from expunge.memory.projection import projection_of, slack_grid
from expunge.memory.version import Version
from expunge.memory.version_table import group_names
from expunge.service.memory_map.contour import zero_lines
from expunge.store import Leaf

__all__ = ["erased_content", "map_content"]

_MAX_ERASED = 500


def map_content(version: Version) -> dict[str, Any]:
    """The map, without what the ledger knows of erased entries."""
    plane = projection_of(version)
    archive = version.warranties.archive
    places = plane.project(version.keys)
    slack = version.slacks(np.arange(version.size))
    live = [
        {"id": name, "subject": subject, "group": group, "x": x, "y": y, "coefficient": weight, "slack": gap}
        for name, subject, group, (x, y), weight, gap in zip(
            version.ids,
            version.subjects,
            group_names(version),
            places.tolist(),
            version.coefficients.tolist(),
            slack.tolist(),
            strict=True,
        )
    ]
    archived, forgotten = [], []
    for row in version.warranties.rows(version.fit):
        about = {
            "id": row.id,
            "subject": version.warranties.subject(row.id),
            "slack": row.slack,
            "remaining": row.remaining,
            "fraction": row.fraction,
            "status": row.status,
        }
        if row.id in archive:
            x, y = plane.project(archive[row.id].key[None, :])[0].tolist()
            archived.append(about | {"x": x, "y": y})
        else:
            forgotten.append(about)
    return {
        "digest": version.digest,
        "edit": version.edit,
        "dimension": int(version.keys.shape[1]),
        "projection": {"kind": plane.kind, "mean": plane.mean, "axes": plane.axes, "explained": plane.explained},
        "entries": live,
        "archived": archived,
        "forgotten": forgotten,
        "boundary": _boundary(version) if version.size and version.keys.shape[1] == 2 else None,
    }


def erased_content(leaves: Iterable[Leaf]) -> tuple[list[dict[str, Any]], int]:
    """Entries that deletions took, as their receipts name them, in the order of the leaves; and how many in all."""
    found: list[dict[str, Any]] = []
    total = 0
    for leaf in leaves:
        stated = parse_predicate(leaf.statement)
        if stated.action != "deletion":
            continue
        total += stated.applied.count
        about = {"index": leaf.index, "edit": stated.edit, "outcome": stated.outcome, "time": stated.time}
        room = _MAX_ERASED - len(found)
        found += [{"commitment": digest, **about} for digest in stated.applied.commitments[:room]]
    return found, total


def _boundary(version: Version) -> dict[str, Any]:
    """The slack g on a grid around all entries, positive inside, and the lines on which it is zero."""
    x, y, values = slack_grid(version, projection_of(version))
    return {"polylines": zero_lines(x, y, values), "grid": {"x": x, "y": y, "values": values}}
