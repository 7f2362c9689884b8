"""Records of the states of every arm, and of the references that judge them: never from the backend that made a state.

The paper's reference came from the backend that also rescued (paper, §4.6); these come from optimizers that share no
code with the maintained solver. A reference that fails is a row like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from expunge.audit.classic.baseline import ClassicState, ClassicStep
from expunge.audit.task_record import RowLabels, TaskRecord
from expunge.errors import SolveError
from expunge.memory.memory import Memory
from expunge.memory.receipt import Receipt
from expunge.solver.backends import polish, solve_reference
from expunge.types import Matrix

__all__ = [
    "CLASSIC_COLUMNS",
    "REFERENCE_BACKENDS",
    "classic_cells",
    "independent_backend",
    "keep_classic",
    "keep_memory",
    "keep_reference",
    "source_of",
]

# In this order: the first one that did not produce the state. ProxQP is not among them: its last bits depend on where
# its arrays lie in memory, and the results must not.
REFERENCE_BACKENDS = ("daqp", "clarabel")

# Columns of a trial of the paper's solver.
CLASSIC_COLUMNS = {
    "events": "whole",
    "violations": "whole",
    "explained": "whole",
    "wrong_event": "whole",
    "wrong_row": "whole",
    "wrong_group": "text",
    "wrong_slack": "number",
    "wrong_direction": "number",
    "wrong_step": "number",
    "depth": "number",
    "left_edit": "whole",
    "left_event": "whole",
    "joined_edit": "whole",
    "joined_event": "whole",
    "joined_kind": "text",
    "joined_slack": "number",
    "joined_rate": "number",
    "joined_step": "number",
}


def source_of(receipts: Iterable[Receipt]) -> str:
    """Which solver a memory's state comes from: ``ours``, or the backend that rescued the latest of these edits."""
    source = "ours"
    for receipt in receipts:
        path = receipt.attempts[-1].path if receipt.attempts else ""
        source = next((backend for backend in REFERENCE_BACKENDS if path.startswith(backend)), "ours")
    return source


def independent_backend(source: str) -> str:
    """The first reference backend that did not produce the state."""
    return next(backend for backend in REFERENCE_BACKENDS if backend != source)


def keep_reference(
    record: TaskRecord,
    labels: RowLabels,
    name: str,
    *,
    keys: str,
    cap: float,
    sigma: float,
    backend: str,
    values: str | None = None,
) -> str | None:
    """Solve for the keys of an expression with a backend, polish, and keep the state; None if it did not solve.

    Records a trial of the arm that is called like the backend.
    """
    here = labels.of_arm(backend)
    points: Matrix = record.get(keys)
    try:
        found = polish(solve_reference(points, cap=cap, sigma=sigma, backend=backend), points, cap=cap, sigma=sigma)
    except SolveError as problem:
        record.trial(here, "fit", "failed", "", error=str(problem))
        return None
    record.state(
        name,
        here,
        role="reference",
        source=backend,
        keys=keys,
        coefficients=found.coefficients,
        offset=found.offset,
        cap=cap,
        sigma=sigma,
        values=values,
    )
    record.trial(here, "fit", "returned", "polished" if found.polished else "raw", state=name)
    return name


def keep_memory(
    record: TaskRecord,
    labels: RowLabels,
    name: str,
    memory: Memory,
    *,
    keys: str,
    values: str | None = None,
    role: str = "published",
    source: str = "ours",
) -> str:
    """Keep the state of a memory whose entries are, in order, those of an expression."""
    return record.state(
        name,
        labels,
        role=role,
        source=source,
        keys=keys,
        coefficients=memory.coefficients,
        offset=memory.offset,
        cap=memory.cap,
        sigma=memory.sigma,
        values=values,
    )


def keep_classic(
    record: TaskRecord,
    labels: RowLabels,
    name: str,
    state: ClassicState,
    *,
    keys: str,
    cap: float,
    sigma: float,
    values: str | None = None,
    role: str = "published",
) -> str:
    """Keep a state of the paper's solver, with the groups that it recorded."""
    return record.state(
        name,
        labels,
        role=role,
        source="classic",
        keys=keys,
        coefficients=state.coefficients,
        offset=state.offset,
        cap=cap,
        sigma=sigma,
        values=values,
        groups=state.groups,
    )


def classic_cells(steps: Sequence[ClassicStep]) -> dict[str, Any]:
    """Cells of a trial of the paper's solver: events, the first wrong-side one, how its deepest violation came."""
    wrong = next((step.wrong for step in steps if step.wrong is not None), None)
    cells: dict[str, Any] = {
        "events": sum(step.events for step in steps),
        "violations": sum(len(step.traces) for step in steps),
        "explained": sum(trace.explained for step in steps for trace in step.traces),
    }
    if wrong is not None:
        cells |= {
            "wrong_event": int(wrong.event),
            "wrong_row": int(wrong.row),
            "wrong_group": wrong.group,
            "wrong_slack": float(wrong.slack),
            "wrong_direction": float(wrong.direction),
            "wrong_step": float(wrong.step),
        }
    deepest = max((trace for step in steps for trace in step.traces), key=lambda trace: trace.depth, default=None)
    if deepest is not None:
        cells["depth"] = float(deepest.depth)
        if deepest.left is not None:
            cells |= {"left_edit": int(deepest.left[0]), "left_event": int(deepest.left[1])}
        if deepest.joined is not None:
            cells |= {
                "joined_edit": int(deepest.joined.edit),
                "joined_event": int(deepest.joined.number),
                "joined_kind": deepest.joined.kind,
                "joined_slack": float(deepest.joined.slack),
                "joined_rate": float(deepest.joined.rate),
                "joined_step": float(deepest.joined.step),
            }
    return cells
