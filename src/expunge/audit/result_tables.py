"""The tables of an audit's results: columns and types, for every experiment alike (docs/formats/audit-results.md).

A type is one of the words below, so that this module needs no table library. All columns may be null unless the
format's page says otherwise; a column that an experiment does not use is left out of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

__all__ = ["FORMAT", "NOT_DIGESTED", "TABLES", "Columns", "frame_schema"]

FORMAT: Final = "expunge/audit/v1"

Columns: TypeAlias = Mapping[str, str]

_LABELS: Final = {"regime": "text", "arm": "text", "trial": "whole", "operation": "whole"}

TABLES: Final[Mapping[str, Columns]] = MappingProxyType(
    {
        "trials": {
            **_LABELS,
            "kind": "text",
            "status": "text",
            "path": "text",
            "error": "text",
            "state": "text",
            "candidate": "text",
        },
        "states": {
            "state": "text",
            **_LABELS,
            "role": "text",
            "source": "text",
            "unit": "text",
            "keys": "text",
            "coefficients": "text",
            "values": "text",
            "groups": "text",
            "offset": "number",
            "cap": "number",
            "sigma": "number",
            "size": "whole",
            "mass": "number",
            "box": "number",
            "stationarity": "number",
            "worst": "number",
            "passed": "flag",
        },
        "comparisons": {
            **_LABELS,
            "against": "text",
            "tolerance": "number",
            "state": "text",
            "reference": "text",
            "unit": "text",
            "probes": "texts",
            "score_difference": "number",
            "score_range": "number",
            "score_percent": "number",
            "readout_difference": "number",
            "readout_range": "number",
            "value_range": "number",
            "readout_percent": "number",
            "value_percent": "number",
            "coefficient_difference": "number",
            "partition_match": "flag",
            "grouping": "text",
            "threshold": "number",
            "objective_gap": "number",
            "strictness": "number",
            "conditioning": "number",
        },
        "projections": {
            **_LABELS,
            "tolerance": "number",
            "state": "text",
            "given": "text",
            "multiplier": "number",
            "objective": "number",
            "allowed": "number",
            "mass": "number",
            "box": "number",
            "stationarity": "number",
            "excess": "number",
            "complementarity": "number",
            "movement": "number",
        },
        "readings": {
            **_LABELS,
            "name": "text",
            "quantity": "text",
            "state": "text",
            "unit": "text",
            "probe": "text",
            "row": "whole",
            "value": "number",
        },
        "answers": {
            **_LABELS,
            "question": "text",
            "state": "text",
            "unit": "text",
            "probe": "text",
            "candidates": "text",
            "expected": "whole",
            "answer": "whole",
            "right": "flag",
        },
        "timings": {**_LABELS, "what": "text", "seconds": "number"},
        "summary": {
            "number": "text",
            "table": "text",
            "where": "text",
            "column": "text",
            "statistic": "text",
            "value": "number",
            "count": "whole",
            "of": "whole",
        },
    }
)

# What depends on the machine and the moment: kept, verified against itself, and left out of the digest.
NOT_DIGESTED: Final = ("timings", "speeds")


def frame_schema(columns: Columns, polars: Any) -> dict[str, Any]:
    """Polars' types for our words."""
    types = {
        "text": polars.String,
        "texts": polars.List(polars.String),
        "whole": polars.Int64,
        "wholes": polars.List(polars.Int64),
        "number": polars.Float64,
        "flag": polars.Boolean,
    }
    return {name: types[word] for name, word in columns.items()}
