"""Writes the Grafana dashboard and the alert rules of ``deploy/`` from the names of the service's metrics.

A test makes them again, and holds every name in them to what `/metrics` says.

    python tools/make_monitoring.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["ALERTS", "FOLDER", "PANELS", "alerts", "dashboard"]

FOLDER = Path(__file__).parents[1] / "deploy" / "monitoring"

# Title, unit, and queries with their legends.
PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Edits a minute, by action", "short", (("sum by (action) (rate(expunge_edits_total[5m])) * 60", "{{action}}"),)),
    ("Refusals a minute", "short", (("sum by (action) (rate(expunge_refusals_total[5m])) * 60", "{{action}}"),)),
    ("Entries erased a minute", "short", (("sum(rate(expunge_erased_entries_total[5m])) * 60", "erased"),)),
    ("Ledger", "short", (("max(expunge_log_size)", "leaves"),)),
    ("Leaves a minute, by kind", "short", (("sum by (kind) (rate(expunge_leaves_total[5m])) * 60", "{{kind}}"),)),
    (
        "Time of an edit",
        "s",
        tuple(
            (f"histogram_quantile({share}, sum by (le) (rate(expunge_edit_seconds_bucket[5m])))", name)
            for share, name in ((0.5, "median"), (0.99, "99 %"))
        ),
    ),
    (
        "Time of a request",
        "s",
        (("histogram_quantile(0.99, sum by (le, route) (rate(expunge_request_seconds_bucket[5m])))", "{{route}}"),),
    ),
    (
        "Requests a second, by status",
        "reqps",
        (("sum by (status) (rate(expunge_request_seconds_count[5m]))", "{{status}}"),),
    ),
    ("Memories and entries", "short", (("max(expunge_memories)", "memories"), ("max(expunge_entries)", "entries"))),
    ("Certificates", "short", (("max by (status) (expunge_certificates)", "{{status}}"),)),
    ("Jobs", "short", (("max by (state) (expunge_jobs)", "{{state}}"),)),
    (
        "Owed",
        "short",
        (
            ("max(expunge_erasures_waiting)", "erasures still in files"),
            ("max by (kind) (expunge_mirror_edits_pending)", "to mirrors: {{kind}}"),
            ("max(expunge_retention_held)", "ended, kept by holds"),
        ),
    ),
    (
        "Worst error of published states",
        "none",
        (("histogram_quantile(1, sum by (le) (rate(expunge_residual_bucket[1h])))", "largest"),),
    ),
    ("Resident memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
    ("Processor", "percentunit", (("rate(process_cpu_seconds_total[5m])", "{{instance}}"),)),
)

# Name, expression, for how long, severity, and what to do.
ALERTS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        *("ExpungeErasuresWaiting", "max(expunge_erasures_waiting) > 0", "30m", "critical"),
        "Erased secrets are still in the database's files: end the reader that is in the way (SQLite), or run "
        "expunge vacuum (PostgreSQL).",
    ),
    (
        *("ExpungeMirrorBehind", 'max(expunge_mirror_edits_pending{kind="erase"}) > 0', "1h", "critical"),
        "A mirror still has copies of erased entries: expunge mirror list says which, and why.",
    ),
    (
        *("ExpungeMirrorFailing", "max(expunge_mirrors_failing) > 0", "15m", "warning"),
        "A mirror does not answer.",
    ),
    (
        *("ExpungeMemoryDamaged", "max(expunge_memories_damaged) > 0", "1m", "critical"),
        "A memory does not open as it was written: keep the files, run expunge verify store, restore a backup.",
    ),
    (
        *("ExpungeRescues", "sum(increase(expunge_rescues_total[1h])) > 5", "0m", "warning"),
        "Edits needed a stricter solve: the results are checked as ever; report the data that lead to it.",
    ),
    (
        *("ExpungeSweepIncomplete", 'sum(increase(expunge_retention_sweeps_total{result="incomplete"}[1h])) > 0'),
        *("0m", "warning"),
        "Entries that have ended are kept by holds, or a memory could not be edited.",
    ),
    (
        *("ExpungeServerErrors", 'sum(rate(expunge_request_seconds_count{status=~"5.."}[5m])) > 0.1', "10m", "warning"),
        "Requests fail: look for the codes in the log.",
    ),
    (
        *("ExpungeTooManyRequests", 'sum(rate(expunge_request_seconds_count{status="429"}[5m])) > 1', "10m", "warning"),
        "Clients are over their rate, or somebody tries tokens.",
    ),
    (
        *("ExpungeJobsFail", 'max(expunge_jobs{state="failed"}) > 0', "15m", "warning"),
        "A job has failed: whoever started it is told why by GET /v1/jobs.",
    ),
    (
        *("ExpungeDown", 'up{job="expunge"} == 0', "2m", "critical"),
        "Prometheus does not reach the service, or its token is not good.",
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels = [
        {
            "id": number + 1,
            "title": title,
            "type": "timeseries",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 8 * (number // 3)},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(65 + place), "expr": query, "legendFormat": legend}
                for place, (query, legend) in enumerate(queries)
            ],
        }
        for number, (title, unit, queries) in enumerate(PANELS)
    ]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    return {
        "title": "expunge",
        "uid": "expunge",
        "tags": ["expunge"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def alerts() -> str:
    """The rules, as Prometheus reads them. JSON is YAML, and needs no package to write it."""
    rules = [
        {
            "alert": name,
            "expr": query,
            "for": duration,
            "labels": {"severity": severity},
            "annotations": {"summary": about},
        }
        for name, query, duration, severity, about in ALERTS
    ]
    return json.dumps({"groups": [{"name": "expunge", "rules": rules}]}, indent=2) + "\n"


def main() -> None:
    """Write both."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "dashboard.json").write_text(json.dumps(dashboard(), indent=2) + "\n", encoding="utf-8")
    (FOLDER / "alerts.yaml").write_text(alerts(), encoding="utf-8")


if __name__ == "__main__":
    main()
