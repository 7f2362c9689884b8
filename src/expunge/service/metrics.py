"""Prometheus metrics: what this service has done, and what the store holds.

Leaves and edits are counted where they are committed to the ledger, whatever asked for them: a request, a job, a sweep,
an erasure that was due. So what is counted here equals what the ledger has gained by this service.

Counters and histograms are added up over the workers of one `expunge serve` (`PROMETHEUS_MULTIPROC_DIR`, which it
sets when it starts several). What the store holds is read per scrape, so that every worker of every machine reports
the same. Labels are route templates, outcomes and states: no name, id or subject is among them.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter as Counted
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from expunge.errors import VerificationError
from expunge.memory.version import Version
from expunge.store import JointErasure, SignedReceipt, Store, StoredMemory

__all__ = ["MULTIPROCESS", "Metrics"]

log = logging.getLogger("expunge.service")

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_RESIDUALS = (1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Metrics of one worker, which observes what its store commits to the ledger."""

    def __init__(self, store: Store) -> None:
        registry = self._registry = CollectorRegistry()
        self._store, self._store_collector = store, _StoreCollector(store)
        self._requests = Histogram(
            "expunge_request_seconds",
            "Time to answer a request.",
            ["method", "route", "status"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._leaves = Counter("expunge_leaves", "Leaves appended to the ledger.", ["kind"], registry=registry)
        self._edits = Counter("expunge_edits", "Edits by action and outcome.", ["action", "outcome"], registry=registry)
        self._erased = Counter("expunge_erased_entries", "Entries that deletions have erased.", registry=registry)
        self._rescues = Counter("expunge_rescues", "Edits that a stricter solve had to rescue.", registry=registry)
        self._refusals = Counter("expunge_refusals", "Edits that were refused.", ["action"], registry=registry)
        self._residuals = Histogram(
            "expunge_residual", "Worst error of published states.", registry=registry, buckets=_RESIDUALS
        )
        self._seconds = Histogram(
            "expunge_edit_seconds",
            "Time of an edit, durable and signed.",
            ["action"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._sweeps = Counter(
            "expunge_retention_sweeps", "Sweeps for entries that have ended.", ["result"], registry=registry
        )
        self._swept = Counter("expunge_retention_entries", "Entries that sweeps have erased.", registry=registry)
        self._held = Gauge(
            "expunge_retention_held",
            "Entries that have ended and that holds keep, at the last sweep.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._waiting = Gauge(
            "expunge_erasures_waiting",
            "Erasures (on PostgreSQL: erased secrets) that the database's files still hold, as far as is known.",
            registry=registry,
            multiprocess_mode="livemax",
        )

    def observe_sweep(self, done: JointErasure) -> None:
        """Count a sweep, what it erased, and what holds kept."""
        self._sweeps.labels("complete" if done.complete else "incomplete").inc()
        self._swept.inc(sum(len(part.applied) for part in done.memories))
        self._held.set(sum(map(len, done.held.values())))

    def observe_waiting(self) -> None:
        """Take over how many erasures wait for a reader to end, or for a vacuum."""
        self._waiting.set(self._store.erasures_waiting()[0])

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(method, route, f"{status}").observe(seconds)

    def observe_leaves(self, kinds: Sequence[str]) -> None:
        """Count leaves that were committed."""
        for kind in kinds:
            self._leaves.labels(kind).inc()

    def observe_edit(self, receipt: SignedReceipt, seconds: float) -> None:
        """Count an edit that was applied or refused, and log it. A repeated answer is no edit."""
        action, measured = receipt.action, receipt.measured
        self._edits.labels(action, receipt.outcome).inc()
        self._seconds.labels(action).observe(seconds)
        about = {"action": action, "outcome": receipt.outcome, "memory": receipt.memory, "leaf": receipt.index}
        log.info("edit", extra={"about": about | {"entries": len(receipt.applied), "ms": round(1000 * seconds, 1)}})
        if receipt.outcome == "refused":
            self._refusals.labels(action).inc()
            return
        if action == "deletion":
            self._erased.inc(len(receipt.applied))
        if measured is None:
            return
        self._residuals.observe(measured.check.worst)
        # A rebuild may be rescued too, although its outcome is not "rescued".
        if not all(attempt.passed for attempt in measured.attempts):
            self._rescues.inc()

    def text(self, jobs: dict[str, int]) -> bytes:
        """Everything, in Prometheus's text format."""
        self.observe_waiting()
        of_service = self._registry
        if os.environ.get(MULTIPROCESS):
            of_service = CollectorRegistry()
            MultiProcessCollector(of_service)  # type: ignore[no-untyped-call]
        of_store = CollectorRegistry()
        # Of the worker that answers.
        ProcessCollector(registry=of_store)
        self._store_collector.jobs = jobs
        of_store.register(self._store_collector)
        return generate_latest(of_service) + generate_latest(of_store)


class _StoreCollector(Collector):
    """What the store holds. Certificates are counted again only where a memory has been edited since."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[int, dict[str, int]]] = {}
        self.jobs: dict[str, int] = {}

    def collect(self) -> Iterator[Metric]:
        """Gauges."""
        rows = self._store.memories()
        certificates, damaged = Counted(valid=0, expired=0, ended=0), 0
        with self._lock:
            self._counted = {row.uuid: self._counted[row.uuid] for row in rows if row.uuid in self._counted}
            for row in rows:
                try:
                    if self._counted.get(row.uuid, (-1, {}))[0] != row.edit and row.name in self._store:
                        self._counted[row.uuid] = _certificates(self._store[row.name])
                except VerificationError:
                    damaged += 1
                certificates.update(self._counted.get(row.uuid, (-1, {}))[1])
        yield _gauge("expunge_memories", "Memories in the store.", len(rows))
        yield _gauge("expunge_memories_damaged", "Memories that do not open as they were written.", damaged)
        yield _gauge("expunge_entries", "Live entries in all memories.", sum(row.size for row in rows))
        yield _gauge("expunge_log_size", "Leaves of the ledger.", self._store.size)
        mirrors = self._store.mirrors()
        pending = {"write": sum(one.writes for one in mirrors), "erase": sum(one.erasures for one in mirrors)}
        yield _gauge("expunge_mirrors", "Systems that have copies.", len(mirrors))
        yield _gauge(
            "expunge_mirrors_failing", "Of these, those that did not answer.", sum(one.failures > 0 for one in mirrors)
        )
        owed = GaugeMetricFamily("expunge_mirror_edits_pending", "Edits that mirrors do not have yet.", labels=["kind"])
        for kind, number in pending.items():
            owed.add_metric([kind], number)
        yield owed
        states_of = GaugeMetricFamily("expunge_certificates", "Warranties of pruned entries.", labels=["status"])
        for status, number in certificates.items():
            states_of.add_metric([status], number)
        yield states_of
        jobs = GaugeMetricFamily("expunge_jobs", "Long jobs by state.", labels=["state"])
        for state, count in sorted(self.jobs.items()):
            jobs.add_metric([state], count)
        yield jobs


def _certificates(memory: StoredMemory) -> tuple[int, dict[str, int]]:
    """Edit number of one version, and its certificates by status."""

    def counted(view: Version) -> tuple[int, dict[str, int]]:
        records, valid = view.warranties.forgotten.values(), len(view.valid)
        ended = sum(record.anchor is None for record in records)
        states = {"valid": len(view.warranties.archive) + valid, "expired": len(records) - valid - ended}
        return view.edit, states | {"ended": ended}

    return memory.look(counted)


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)
