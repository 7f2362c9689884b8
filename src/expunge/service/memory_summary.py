"""A memory in numbers, as lists of memories and answers about one of them tell it."""

from __future__ import annotations

from typing import Any

from expunge.memory.version import Version
from expunge.problem.partition import Partition
from expunge.store import StoredMemory

__all__ = ["summary_content"]


def summary_content(memory: StoredMemory) -> dict[str, Any]:
    """A memory in numbers."""

    def content_of(version: Version) -> dict[str, Any]:
        groups = Partition.of(version.coefficients, version.state.cap)
        embedder = version.preprocessing.embedder
        columns = {name: part for name, part in version.preprocessing.to_json().items() if name != "embedder"}
        return {
            "edit": version.edit,
            "digest": version.digest,
            "size": version.size,
            "archived": len(version.warranties.archive),
            "forgotten": len(version.warranties.forgotten),
            "expired": len(version.warranties.forgotten) - len(version.valid),
            "partition": {
                "margin": int(groups.margin.size),
                "bound": int(groups.bound.size),
                "reserve": int(groups.reserve.size),
            },
            "cap": version.state.cap,
            "sigma": version.state.gram.sigma,
            "offset": version.state.offset,
            "dimension": int(version.state.gram.keys.shape[1]),
            "value_dimension": int(version.entries.values.shape[1]),
            "preprocessing": columns if version.preprocessing.keys else None,
            "chosen_width": version.preprocessing.width == "auto",
            "embedder": None if embedder is None else {"name": embedder.name, "digest": embedder.digest},
        }

    content = {"name": memory.name, "uuid": memory.uuid, **memory.look(content_of)}
    return content | {"deletable": memory.deletable, "initial_size": memory.initial_size}
