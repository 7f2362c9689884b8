"""What the parts of one worker share: settings, the open store, tokens, threads, jobs, metrics."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.service.callers import Callers
from expunge.service.executor import Executor
from expunge.service.jobs import Jobs
from expunge.service.metrics import Metrics
from expunge.service.settings import Settings
from expunge.service.tokens import Tokens
from expunge.store import Store

__all__ = ["ServiceContext"]


@dataclass(frozen=True)
class ServiceContext:
    """One worker of the service."""

    settings: Settings
    store: Store
    tokens: Tokens
    callers: Callers
    executor: Executor
    jobs: Jobs
    metrics: Metrics
